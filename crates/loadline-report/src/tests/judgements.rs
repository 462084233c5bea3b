//! Judgements in every form.

use loadline_measure::Metric;
use loadline_measure::doctor::{Finding, Rule, Severity};
use loadline_measure::gate::{Basis, Judgement, Outcome, Policy, Row, RowVerdict};
use loadline_measure::work::FunctionDifference;

use super::{PIPE, TERMINAL, widest};
use crate::{Asked, TextOptions, judgement_junit, judgement_markdown, judgement_text, last_line};

const GATE: Asked<'static> = Asked {
    command: "gate",
    strict: false,
};

fn row(case: &str, metric: Metric, verdict: RowVerdict, ratio: f64, evidence: &str) -> Row {
    Row {
        case: case.to_owned(),
        metric,
        limit: None,
        baseline: Some(402_000.0),
        candidate: Some(402_000.0 * ratio),
        ratio: Some(ratio),
        lo: Some(ratio * 0.97),
        hi: Some(ratio * 1.03),
        interval_95: None,
        minimum_detectable_effect: Some(0.053),
        functions: Vec::new(),
        verdict,
        evidence: evidence.to_owned(),
    }
}

fn limit(text: &str, verdict: RowVerdict, evidence: &str) -> Row {
    Row {
        limit: Some(text.to_owned()),
        baseline: None,
        candidate: Some(12_340_000.0),
        ratio: None,
        lo: None,
        hi: None,
        minimum_detectable_effect: None,
        ..row("xread", Metric::P99, verdict, 1.0, evidence)
    }
}

fn judgement(outcome: Outcome, rows: Vec<Row>) -> Judgement {
    let grave = |row: &&Row| matches!(row.verdict, RowVerdict::Warning | RowVerdict::Critical);
    Judgement {
        schema: loadline_measure::gate::SCHEMA.to_owned(),
        policy: Policy::Strict,
        basis: Basis::Baseline,
        outcome,
        reasons: rows.iter().filter(grave).map(crate::row_sentence).collect(),
        rows,
        notes: vec!["The server's version was 7.0.15 and is 7.2.4 now.".to_owned()],
        second_run_needed: false,
        agents: 0,
        refused: false,
    }
}

fn same() -> Vec<Row> {
    vec![
        row(
            "get",
            Metric::Throughput,
            RowVerdict::Equivalent,
            0.998,
            "slower by 2.1 % at most, less than 5.0 %",
        ),
        row(
            "get",
            Metric::P99,
            RowVerdict::Inconclusive,
            1.02,
            "inconclusive: between -4.0 % and 9.0 % slower, margin 2.0 %",
        ),
        row(
            "set",
            Metric::P50,
            RowVerdict::Equivalent,
            1.004,
            "slower by 1.1 % at most, less than 5.0 %",
        ),
    ]
}

fn warned() -> Judgement {
    let mut rows = same();
    rows.push(row(
        "get",
        Metric::P50,
        RowVerdict::Warning,
        1.105,
        "slower by 10.5 %, by at least 7.9 %, than 8 runs, in both runs",
    ));
    rows.push(row(
        "set",
        Metric::ServerCpu,
        RowVerdict::Faster,
        0.9,
        "lower by at least 7.0 %",
    ));
    judgement(Outcome::Warning, rows)
}

pub(super) fn critical() -> Judgement {
    let mut rows = same();
    rows.push(limit(
        "xread.p99<10ms",
        RowVerdict::Critical,
        "12.3 ms breaks xread.p99<10ms",
    ));
    judgement(Outcome::Critical, rows)
}

#[test]
fn judgement_of_agents_has_their_number() {
    let mut judgement = warned();
    let text = |judgement: &Judgement| {
        let lines = judgement_text(judgement, &[], GATE, &PIPE);
        lines.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(!text(&judgement).contains("agents"));
    judgement.agents = 3;
    let said = text(&judgement);
    let sentence = "1 of 5 figures got worse, from 3 agents. What changed";
    assert!(said.contains(sentence), "{said}");
}

fn inconclusive() -> Judgement {
    let mut judgement = judgement(Outcome::Inconclusive, same());
    judgement.reasons = vec!["The baseline holds 5 of the 8 runs that it needs to raise an alarm: add 3 more. Until then only limits can fail.".to_owned()];
    judgement
}

fn refused() -> Judgement {
    Judgement {
        reasons: vec![
            "The baseline is of the workload a1, the run of b2; measure with the baseline's plan."
                .to_owned(),
        ],
        notes: Vec::new(),
        refused: true,
        ..judgement(Outcome::Inconclusive, Vec::new())
    }
}

/// Names and sentences that try to be more than text, more of them than any form should hold.
fn hostile(rows: usize) -> Judgement {
    let evil = "</td><script>alert(1)</script>\x1b[31m|`,\"=1\n]]>&'@team ".repeat(20);
    let mut judgement = warned();
    for _ in 0..rows {
        judgement
            .rows
            .push(row(&evil, Metric::P50, RowVerdict::Warning, 1e300, &evil));
    }
    judgement
        .rows
        .push(limit(&evil, RowVerdict::Inconclusive, &evil));
    judgement.reasons = vec![evil.clone(); rows + 1];
    judgement.notes = vec![evil; rows + 1];
    judgement
}

fn all() -> [Judgement; 6] {
    [
        judgement(Outcome::None, same()),
        warned(),
        critical(),
        inconclusive(),
        refused(),
        hostile(2),
    ]
}

#[test]
fn last_line_is_what_scripts_rely_on() {
    let compare = Asked {
        command: "compare",
        strict: true,
    };
    for (judgement, asked, expected) in [
        (
            judgement(Outcome::None, same()),
            GATE,
            "loadline: gate: none (0)",
        ),
        (warned(), GATE, "loadline: gate: warning (1)"),
        (critical(), GATE, "loadline: gate: critical (2)"),
        (inconclusive(), GATE, "loadline: gate: inconclusive (0)"),
        (
            inconclusive(),
            compare,
            "loadline: compare: inconclusive (3)",
        ),
        (refused(), GATE, "loadline: gate: inconclusive (3)"),
    ] {
        assert_eq!(last_line(&judgement, asked), expected);
        for width in [20, 80] {
            let text = judgement_text(&judgement, &[], asked, &TextOptions { width, ..TERMINAL });
            assert_eq!(text.lines().last(), Some(expected), "{text}");
        }
    }
}

#[test]
fn warning_in_a_pipe() {
    insta::assert_snapshot!(judgement_text(&warned(), &[], GATE, &PIPE), @r#"
    Warning: get, p50 10 % higher [7.2, 14]; 1 of 5 figures got worse.

    What changed
    figure        then     now  ratio               verdict  detects
    get
    p50         402 us  444 us  1.10x [1.07, 1.14]  slower     5.3 %
      slower by 10.5 %, by at least 7.9 %, than 8 runs, in both runs

    set
    server cpu  402 us  362 us  0.90x [0.87, 0.93]  lower      5.3 %
      lower by at least 7.0 %

    3 figures without a change, or inconclusive
    figure          then       now  ratio               verdict       detects
    get
    throughput  402.0k/s  401.2k/s  1.00x [0.97, 1.03]  the same        5.3 %
    p99           402 us    410 us  1.02x [0.99, 1.05]  inconclusive    5.3 %
      inconclusive: between -4.0 % and 9.0 % slower, margin 2.0 %

    set
    p50           402 us    404 us  1.00x [0.97, 1.03]  the same        5.3 %

    Notes
      The server's version was 7.0.15 and is 7.2.4 now.

    loadline: gate: warning (1)
    "#);
}

#[test]
fn row_of_work_names_its_functions() {
    let mut judgement = warned();
    let function = |name: &str, a: f64, b: f64| FunctionDifference {
        name: name.to_owned(),
        object: "redis-server".to_owned(),
        a,
        b,
    };
    judgement.rows[4].functions = vec![
        function("dictFind", 812.0, 1_204.0),
        function("readQuery", 90.0, 0.0),
        function("slowlogCreateEntry", 0.0, 50.0),
    ];
    let text = judgement_text(&judgement, &[], GATE, &PIPE);
    let note = "  where: dictFind +392";
    assert!(
        text.contains(note) && text.contains(", readQuery -90"),
        "{text}"
    );
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let with_setting = "slowlogCreateEntry [slowlog-log-slower-than] +50";
    assert!(joined.contains(with_setting), "{text}");
}

#[test]
fn figures_that_do_not_have_their_ratio_say_why() {
    let mut judgement = warned();
    judgement.rows[3].candidate = Some(402_000.0 * 1.4);
    let text = judgement_text(&judgement, &[], GATE, &PIPE).replace("\n    ", " ");
    assert!(text.contains("without the part that the echo"), "{text}");
    judgement.basis = Basis::Pairs;
    let text = judgement_text(&judgement, &[], GATE, &PIPE).replace("\n    ", " ");
    assert!(
        text.contains("the median of the ratios of single"),
        "{text}"
    );
    let agrees = judgement_text(&warned(), &[], GATE, &PIPE);
    assert!(
        !agrees.contains("echo") && !agrees.contains("median of"),
        "{agrees}"
    );
}

/// Figures that noise hides are no evidence against a regression.
#[test]
fn no_regression_is_claimed_of_figures_that_are_inconclusive() {
    let verdict = |last: RowVerdict| {
        let rows = vec![
            row("get", Metric::ServerCpu, RowVerdict::Faster, 0.85, "lower"),
            row("get", Metric::Throughput, last, 0.91, ""),
        ];
        judgement_text(&judgement(Outcome::None, rows), &[], GATE, &PIPE)
    };
    let equal = verdict(RowVerdict::Slower);
    assert!(
        equal.starts_with("No regression: of 2 figures, 1 got better and 1 slightly worse."),
        "{equal}"
    );
    let open = verdict(RowVerdict::Inconclusive);
    let said =
        "No regression found: of 2 figures, 1 got better, 0 slightly worse and 1 inconclusive.";
    assert!(open.replace("\n  ", " ").starts_with(said), "{open}");
}

#[test]
fn grave_findings_about_the_candidate_are_below_its_judgement() {
    let finding = |rule, severity, evidence: &str| Finding {
        rule,
        severity,
        scope: "embedded, get".to_owned(),
        evidence: evidence.to_owned(),
        what_to_do: "Stop other programs.".to_owned(),
    };
    let doctor = [
        finding(Rule::Contention, Severity::Warning, "Tasks waited."),
        finding(Rule::TooFewSamples, Severity::Info, "Few samples."),
    ];
    let text = judgement_text(&warned(), &doctor, GATE, &PIPE);
    assert!(
        text.contains("warning LL005: embedded, get: Tasks waited.\n    -> Stop other programs."),
        "{text}"
    );
    assert!(!text.contains("LL006"), "{text}");
}

#[test]
fn baseline_of_a_noisy_machine_names_the_way_out() {
    let mut judgement = inconclusive();
    for row in &mut judgement.rows {
        row.verdict = RowVerdict::Inconclusive;
        row.minimum_detectable_effect = Some(0.31);
    }
    let text = judgement_text(&judgement, &[], GATE, &PIPE);
    let verdict =
        "Inconclusive: this machine is too noisy for a baseline to show 10 %; run `compare";
    assert!(text.replace("\n  ", " ").starts_with(verdict), "{text}");
}

#[test]
fn broken_limit_in_a_pipe() {
    insta::assert_snapshot!(judgement_text(&critical(), &[], GATE, &PIPE), @r#"
    Critical: xread, limit xread.p99<10ms: 12.3 ms breaks xread.p99<10ms; 1 of 4
      figures got worse or broke a limit, 1 critically.

    Limits
      fail: xread.p99<10ms: 12.3 ms breaks xread.p99<10ms

    3 figures without a change, or inconclusive
    figure          then       now  ratio               verdict       detects
    get
    throughput  402.0k/s  401.2k/s  1.00x [0.97, 1.03]  the same        5.3 %
    p99           402 us    410 us  1.02x [0.99, 1.05]  inconclusive    5.3 %
      inconclusive: between -4.0 % and 9.0 % slower, margin 2.0 %

    set
    p50           402 us    404 us  1.00x [0.97, 1.03]  the same        5.3 %

    Notes
      The server's version was 7.0.15 and is 7.2.4 now.

    loadline: gate: critical (2)
    "#);
}

#[test]
fn judgement_without_conclusive_metrics() {
    insta::assert_snapshot!(judgement_text(&inconclusive(), &[], GATE, &PIPE), @r#"
    Inconclusive: The baseline holds 5 of the 8 runs that it needs to raise an
      alarm: add 3 more. Until then only limits can fail.

    3 figures without a change, or inconclusive
    figure          then       now  ratio               verdict       detects
    get
    throughput  402.0k/s  401.2k/s  1.00x [0.97, 1.03]  the same        5.3 %
    p99           402 us    410 us  1.02x [0.99, 1.05]  inconclusive    5.3 %
      inconclusive: between -4.0 % and 9.0 % slower, margin 2.0 %

    set
    p50           402 us    404 us  1.00x [0.97, 1.03]  the same        5.3 %

    Notes
      The server's version was 7.0.15 and is 7.2.4 now.

    loadline: gate: inconclusive (0)
    "#);
}

#[test]
fn refusal_in_a_pipe() {
    insta::assert_snapshot!(judgement_text(&refused(), &[], GATE, &PIPE), @r#"
    These cannot be compared: The baseline is of the workload a1, the run of b2;
      measure with the baseline's plan.

    loadline: gate: inconclusive (3)
    "#);
}

#[test]
fn warning_in_a_job_summary() {
    insta::assert_snapshot!(judgement_markdown(&warned(), GATE), @r#"
    **Warning: get, p50 10 % higher \[7.2, 14\]; 1 of 5 figures got worse.**

    ## loadline gate

    ### What changed

    | figure | then | now | ratio | verdict | detects | evidence |
    | --- | --: | --: | --- | --- | --: | --- |
    | **get** |  |  |  |  |  |  |
    | p50 | 402 us | 444 us | 1.10x \[1.07, 1.14\] | slower | 5.3 % | slower by 10.5 %, by at least 7.9 %, than 8 runs, in both runs |
    | **set** |  |  |  |  |  |  |
    | server cpu | 402 us | 362 us | 0.90x \[0.87, 0.93\] | lower | 5.3 % | lower by at least 7.0 % |

    <details><summary>3 figures without a change, or inconclusive</summary>

    | figure | then | now | ratio | verdict | detects | evidence |
    | --- | --: | --: | --- | --- | --: | --- |
    | **get** |  |  |  |  |  |  |
    | throughput | 402.0k/s | 401.2k/s | 1.00x \[0.97, 1.03\] | the same | 5.3 % |  |
    | p99 | 402 us | 410 us | 1.02x \[0.99, 1.05\] | inconclusive | 5.3 % | inconclusive: between -4.0 % and 9.0 % slower, margin 2.0 % |
    | **set** |  |  |  |  |  |  |
    | p50 | 402 us | 404 us | 1.00x \[0.97, 1.03\] | the same | 5.3 % |  |

    </details>

    ### Notes

    - The server's version was 7.0.15 and is 7.2.4 now.

    `loadline: gate: warning (1)`
    "#);
}

#[test]
fn warning_for_a_ci_server() {
    insta::assert_snapshot!(judgement_junit(&warned(), GATE), @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="loadline gate" tests="6" failures="2" errors="0" skipped="1" time="0.000">
      <testsuite name="loadline gate" tests="1" failures="1" errors="0" skipped="0" time="0.000">
        <testcase name="verdict" classname="loadline.gate.verdict">
          <failure type="warning" message="Warning: get, p50 10 % higher [7.2, 14]; 1 of 5 figures got worse."/>
        </testcase>
      </testsuite>
      <testsuite name="compared" tests="5" failures="1" errors="0" skipped="1" time="0.000">
        <testcase name="throughput" classname="loadline.gate.get">
          <system-out>402.0k/s -&gt; 401.2k/s, 1.00x [0.97, 1.03]: slower by 2.1 % at most, less than 5.0 %</system-out>
        </testcase>
        <testcase name="p99" classname="loadline.gate.get">
          <skipped message="402 us -&gt; 410 us, 1.02x [0.99, 1.05]: inconclusive: between -4.0 % and 9.0 % slower, margin 2.0 %"/>
        </testcase>
        <testcase name="p50" classname="loadline.gate.set">
          <system-out>402 us -&gt; 404 us, 1.00x [0.97, 1.03]: slower by 1.1 % at most, less than 5.0 %</system-out>
        </testcase>
        <testcase name="p50" classname="loadline.gate.get">
          <failure type="warning" message="402 us -&gt; 444 us, 1.10x [1.07, 1.14]: slower by 10.5 %, by at least 7.9 %, than 8 runs, in both runs"/>
        </testcase>
        <testcase name="server_cpu" classname="loadline.gate.set">
          <system-out>402 us -&gt; 362 us, 0.90x [0.87, 0.93]: lower by at least 7.0 %</system-out>
        </testcase>
      </testsuite>
    </testsuites>
    "#);
}

#[test]
fn colours_tell_the_verdict_and_change_nothing_else() {
    let colour = TextOptions {
        color: true,
        ..TERMINAL
    };
    for (judgement, code) in [
        (judgement(Outcome::None, same()), "32"),
        (warned(), "33"),
        (critical(), "31"),
        (inconclusive(), "33"),
    ] {
        let coloured = judgement_text(&judgement, &[], GATE, &colour);
        assert!(coloured.starts_with(&format!("\x1b[{code}m")), "{coloured}");
        let mut plain = coloured;
        for code in ["0", "1", "2", "31", "32", "33"] {
            plain = plain.replace(&format!("\x1b[{code}m"), "");
        }
        assert_eq!(plain, judgement_text(&judgement, &[], GATE, &TERMINAL));
    }
}

#[test]
fn no_line_is_longer_than_the_width_and_nothing_steers_a_terminal() {
    for judgement in all() {
        for width in [40, 80, 120] {
            let text = judgement_text(&judgement, &[], GATE, &TextOptions { width, ..TERMINAL });
            assert!(widest(&text) <= width, "{width}:\n{text}");
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
        }
    }
}

#[test]
fn markdown_has_no_markup_but_its_own_and_always_fits() {
    for judgement in all().into_iter().chain([hostile(1_000)]) {
        let page = judgement_markdown(&judgement, GATE);
        assert!(page.len() < 64 << 10, "{} bytes", page.len());
        let own = ["<details>", "</details>", "<summary>", "</summary>"];
        assert_eq!(page.matches(own[0]).count(), page.matches(own[1]).count());
        let rest = own
            .iter()
            .fold(page.clone(), |page, tag| page.replace(tag, ""));
        assert!(!rest.contains('<') && !rest.contains('@'), "{rest}");
        for table in page.split("\n\n").filter(|block| block.starts_with('|')) {
            let bars = |line: &str| line.matches('|').count() - line.matches("\\|").count();
            let columns = bars(table.lines().next().unwrap());
            let rows = table.lines().filter(|line| line.starts_with('|'));
            assert!(rows.map(bars).all(|found| found == columns), "{table}");
        }
        assert!(page.ends_with(&format!("`{}`\n", last_line(&judgement, GATE))));
    }
    let page = judgement_markdown(&hostile(1_000), GATE);
    assert!(
        page.contains("lines left out to stay below 64 KiB"),
        "{page}"
    );
}

#[test]
fn xml_is_read_by_a_parser_and_counts_what_it_holds() {
    for judgement in all() {
        let xml = judgement_junit(&judgement, GATE);
        let document = roxmltree::Document::parse(&xml).unwrap();
        let suite = document.root_element();
        for (attribute, tag) in [
            ("tests", "testcase"),
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ] {
            let found = document
                .descendants()
                .filter(|node| node.has_tag_name(tag))
                .count();
            assert_eq!(
                suite.attribute(attribute),
                Some(found.to_string().as_str()),
                "{attribute}: {xml}"
            );
        }
    }
}

fn counted(ratio: f64, verdict: RowVerdict) -> Row {
    Row {
        lo: Some(ratio - 0.01),
        hi: Some(ratio + 0.01),
        minimum_detectable_effect: None,
        ..row("get", Metric::ServerInstructions, verdict, ratio, "counted")
    }
}

fn first_sentence(judgement: &Judgement) -> String {
    let text = judgement_text(judgement, &[], GATE, &TextOptions { width: 400, ..PIPE });
    text.lines().next().unwrap().to_owned()
}

#[test]
fn headline_quotes_no_percentile_that_the_table_lacks() {
    let few = Row {
        baseline: None,
        candidate: None,
        ..row(
            "get",
            Metric::CorrectedP99,
            RowVerdict::Equivalent,
            11.08,
            "",
        )
    };
    let mut rows = same();
    rows.push(few);
    let found = first_sentence(&judgement(Outcome::None, rows));
    assert!(!found.contains("11"), "{found}");
    // No figure that noise explains is called higher or lower.
    assert!(found.contains("set, p50 the same ["), "{found}");
}

#[test]
fn headline_leads_with_work_where_it_was_counted() {
    let blind = |effect| Row {
        minimum_detectable_effect: Some(effect),
        ..row("get", Metric::P50, RowVerdict::Inconclusive, 1.02, "")
    };
    let same = counted(1.0, RowVerdict::Equivalent);
    let open = judgement(
        Outcome::Inconclusive,
        vec![blind(0.3), blind(0.2), same.clone()],
    );
    assert_eq!(
        first_sentence(&open),
        "Inconclusive: no change in work per operation [-1.0, +1.0 %]; times cannot show less than 20.0 % on this machine today."
    );
    let found = first_sentence(&judgement(Outcome::None, vec![same, blind(0.1)]));
    assert!(
        found.starts_with(
            "No regression found: no change in work per operation [-1.0, +1.0 %]; of 2"
        ),
        "{found}"
    );
    let less = counted(0.9, RowVerdict::Faster);
    let found = first_sentence(&judgement(Outcome::Inconclusive, vec![less, blind(0.2)]));
    assert!(
        found.starts_with(
            "Inconclusive: work per operation: get 10 % lower [9.0, 11]; times cannot"
        ),
        "{found}"
    );
}

/// Work of four cases, which all changed.
pub(super) fn of_work() -> Judgement {
    let cases = [
        ("get", 0.908),
        ("set", 0.89),
        ("getset-70-30", 1.02),
        ("get pipeline 16", 0.983),
    ];
    let rows = cases.map(|(case, ratio)| Row {
        case: case.to_owned(),
        ..counted(ratio, RowVerdict::Faster)
    });
    judgement(Outcome::None, rows.into())
}

#[test]
fn headline_about_work_names_more_of_it_first_and_counts_the_rest() {
    let found = first_sentence(&of_work());
    assert!(
        found.starts_with(
            "No regression: work per operation: getset-70-30 2.0 % higher [1.0, 3.0], set 11 % lower [10, 12], and 2 other changes; "
        ),
        "{found}"
    );
}

/// A comparison at a pressure of 97 %, whose rounds scatter by more than two decades.
fn noisy(verdict: RowVerdict, ratio: f64, lo: f64) -> Row {
    Row {
        lo: Some(lo),
        hi: Some(121.99),
        candidate: Some(402_000.0 * 300.0),
        minimum_detectable_effect: Some(130.0),
        ..row("get", Metric::P50, verdict, ratio, "in 9 of 12 rounds")
    }
}

/// All forms of a judgement, the first line of the text first.
fn forms(judgement: &Judgement) -> [String; 4] {
    let wide = TextOptions { width: 400, ..PIPE };
    [
        first_sentence(judgement),
        judgement_text(judgement, &[], GATE, &wide),
        judgement_markdown(judgement, GATE),
        judgement_junit(judgement, GATE),
    ]
}

#[test]
fn ratio_that_noise_dominates_is_not_quoted() {
    for verdict in [
        RowVerdict::Inconclusive,
        RowVerdict::Equivalent,
        RowVerdict::Slower,
        RowVerdict::Warning,
        RowVerdict::Critical,
    ] {
        let outcome = match verdict {
            RowVerdict::Inconclusive => Outcome::Inconclusive,
            RowVerdict::Warning => Outcome::Warning,
            RowVerdict::Critical => Outcome::Critical,
            _ => Outcome::None,
        };
        let found = forms(&judgement(outcome, vec![noisy(verdict, 3.5, 0.007)]));
        for form in &found {
            assert!(!form.contains("3.50"), "{verdict:?}: {form}");
            assert!(!form.contains("[0.01"), "{verdict:?}: {form}");
        }
        assert!(found[1].contains("too noisy"), "{}", found[1]);
        // A note about a ratio that is not shown.
        assert!(!found[1].contains("The two figures are"), "{}", found[1]);
    }
}

#[test]
fn change_that_noise_widens_is_quoted_by_its_certain_bound() {
    let wide = noisy(RowVerdict::Critical, 11.08, 1.3);
    let found = forms(&judgement(Outcome::Critical, vec![wide.clone()]));
    assert!(
        found[0].starts_with("Critical: get, p50 at least 30 % higher [30, 12099]; 1 of 1"),
        "{}",
        found[0]
    );
    for form in &found {
        assert!(!form.contains("11.08"), "{form}");
    }
    assert!(found[1].contains(">1.30x [1.30, 121.99]"), "{}", found[1]);
    // The bound counts in the choice of the row that leads.
    let certain = row("set", Metric::P50, RowVerdict::Critical, 1.6, "");
    let found = first_sentence(&judgement(Outcome::Critical, vec![wide, certain]));
    assert!(
        found.starts_with("Critical: set, p50 60 % higher"),
        "{found}"
    );
}

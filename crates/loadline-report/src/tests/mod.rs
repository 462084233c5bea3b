//! All forms of made-up records.

mod agents;
mod baselines;
mod browser;
mod capacity;
mod clients;
mod engines;
mod failover;
mod fixture;
mod flames;
mod former;
mod hostile;
mod judgements;
mod proofs;
mod snapshots;
mod sweep;
mod tiers;

use loadline_measure::Record;
use loadline_measure::compare::Verdict;
use loadline_measure::doctor::{Finding, Rule, Severity};
use loadline_measure::record::Bounds;

use crate::{TextOptions, html, markdown, text};

/// Eighty columns, as in a pipe.
const PIPE: TextOptions = TextOptions {
    width: 80,
    color: false,
    unicode: false,
    verbose: true,
};
/// Eighty columns of a terminal that shows pictures, colours left out.
const TERMINAL: TextOptions = TextOptions {
    unicode: true,
    ..PIPE
};

/// The widest line of a text, in columns.
fn widest(text: &str) -> usize {
    text.lines().map(crate::clean::columns).max().unwrap_or(0)
}

#[test]
fn no_line_is_longer_than_the_width() {
    let records = [
        fixture::one_target(),
        fixture::two_targets(),
        fixture::troubled(),
        fixture::open_loop(),
        fixture::hostile(),
        fixture::empty(),
        sweep::record(),
        sweep::hostile(),
        capacity::record(),
        capacity::hostile(),
        engines::record(),
        engines::hostile(),
        clients::record(),
        clients::hostile(),
        failover::record(),
        failover::hostile(),
        failover::compared(),
        tiers::record(),
        tiers::crowded(),
        tiers::load(),
        tiers::load_at_a_rate(),
        tiers::hostile(),
    ];
    for (number, record) in records.iter().enumerate() {
        for width in [60, 80, 100, 200] {
            let text = text(record, &TextOptions { width, ..TERMINAL });
            assert!(
                widest(&text) <= width,
                "record {number} at {width} columns:\n{text}"
            );
        }
    }
}

/// A ratio of 3.217 at a pressure of 97 %, in each kind of record that has comparisons.
#[test]
fn noisy_record_quotes_no_ratio() {
    for (number, mut record) in [fixture::two_targets(), clients::record(), engines::record()]
        .into_iter()
        .enumerate()
    {
        record.environment.noise.cpu_pressure = Some(0.97);
        for told in &mut record.comparisons {
            told.ratio = 3.217;
            told.interval = Some(Bounds {
                lo: 0.007,
                hi: 121.99,
            });
            told.verdict = Verdict::Inconclusive;
        }
        let wide = TextOptions { width: 200, ..PIPE };
        for form in [text(&record, &wide), markdown(&record), html(&record)] {
            assert!(!form.contains("3.22"), "record {number}: {form}");
            assert!(!form.contains("121.99"), "record {number}: {form}");
            assert!(form.contains("too noisy"), "record {number}: {form}");
        }
    }
}

#[test]
fn pipe_gets_ascii_only() {
    let text = text(&fixture::two_targets(), &PIPE);
    assert!(text.is_ascii(), "{text}");
}

#[test]
fn colours_change_nothing_but_colours() {
    for record in [
        fixture::two_targets(),
        fixture::troubled(),
        fixture::open_loop(),
        capacity::record(),
    ] {
        let coloured = text(
            &record,
            &TextOptions {
                color: true,
                ..TERMINAL
            },
        );
        let mut plain = coloured.clone();
        for code in ["0", "1", "2", "31", "32", "33"] {
            plain = plain.replace(&format!("\x1b[{code}m"), "");
        }
        assert!(coloured.len() > plain.len());
        assert_eq!(plain, text(&record, &TERMINAL));
    }
}

#[test]
fn verdicts_and_errors_have_colours() {
    let coloured = |record: &Record| {
        text(
            record,
            &TextOptions {
                color: true,
                ..PIPE
            },
        )
    };
    let two = coloured(&fixture::two_targets());
    assert!(two.contains("\x1b[33m0.82x [0.80, 0.89]\x1b[0m"), "{two}");
    assert!(two.contains("\x1b[32m1.40x [1.38, 1.52]\x1b[0m"), "{two}");
    let troubled = coloured(&fixture::troubled());
    assert!(troubled.contains("\x1b[31m  critical LL007"), "{troubled}");
    assert!(troubled.contains("\x1b[31mCut short"), "{troubled}");
}

#[test]
fn heading_of_the_doctor_breaks_in_a_narrow_terminal() {
    let narrow = text(&fixture::troubled(), &TextOptions { width: 40, ..PIPE });
    assert!(
        narrow.contains("\nDoctor: what makes these figures\n  unreliable\n"),
        "{narrow}"
    );
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for record in [fixture::two_targets(), fixture::troubled()] {
        for width in [40, 60, 80, 120] {
            let report = text(&record, &TextOptions { width, ..PIPE });
            let wide = report
                .lines()
                .find(|line| crate::clean::columns(line) > width);
            assert_eq!(wide, None, "{width}");
        }
    }
    let narrow = text(&fixture::two_targets(), &TextOptions { width: 40, ..PIPE });
    assert!(
        narrow.contains("\n  p99 "),
        "text without room is below: {narrow}"
    );
    assert!(narrow.contains("CPU us/op 5.07+7.87\n"), "{narrow}");
}

#[test]
fn narrow_terminal_keeps_the_ratio_below_its_row() {
    let narrow = text(&fixture::two_targets(), &TextOptions { width: 50, ..PIPE });
    assert!(
        narrow.contains("\n  0.82x [0.80, 0.89], detects 7.2 %,"),
        "{narrow}"
    );
}

/// A brief report names three findings in short, those about the measurement before those about the setup of the machine,
/// another advice of one of them after both, and where the others are.
#[test]
fn brief_text_has_three_findings() {
    let mut record = fixture::one_target();
    let finding = |rule, severity| Finding {
        rule,
        severity,
        scope: String::new(),
        evidence: "seen".to_owned(),
        what_to_do: String::new(),
    };
    record.doctor = vec![
        finding(Rule::HugePages, Severity::Warning),
        finding(Rule::OutputLimit, Severity::Info),
        finding(Rule::Contention, Severity::Warning),
        Finding {
            what_to_do: "something else".to_owned(),
            ..finding(Rule::Contention, Severity::Warning)
        },
        Finding {
            evidence: "seen again".to_owned(),
            ..finding(Rule::Contention, Severity::Warning)
        },
        finding(Rule::GeneratorBound, Severity::Warning),
        finding(Rule::ErrorReplies, Severity::Critical),
    ];
    let found = |verbose| {
        let text = text(&record, &TextOptions { verbose, ..PIPE });
        let lines = text
            .lines()
            .filter(|line| line.contains(" LL0") || line.contains("--verbose"));
        lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        found(false),
        [
            "critical LL007: seen",
            "warning LL005: seen",
            "warning LL003: seen",
            "3 other findings: --verbose",
        ]
    );
    assert_eq!(found(true).len(), 6);
    let whole = |verbose| text(&record, &TextOptions { verbose, ..PIPE });
    assert!(whole(true).contains("seen again"));
    assert!(
        whole(false).contains("and 1 more of this kind") && !whole(false).contains("seen again")
    );
    let page = html(&record);
    let (shown, folded) = page.split_once("<summary>3 other findings").unwrap();
    let counts = [shown, folded].map(|part| part.matches(" LL0").count());
    assert_eq!(counts, [3, 3]);
}

/// The text for a newcomer, on 80 columns.
fn first_sentence(record: &Record) -> String {
    let text = text(record, &PIPE);
    let answer: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
    let answer = answer.join("\n");
    let end = answer.match_indices('.').find(|(place, _)| {
        let next = answer[place + 1..].chars().next();
        next.is_none_or(char::is_whitespace)
    });
    answer[..=end.expect("a sentence ends").0].to_owned()
}

#[test]
fn first_sentence_takes_three_lines_at_most() {
    let mut judged = fixture::two_targets();
    judged.judgement = Some(judgements::of_work());
    for (name, record) in [
        ("one target", fixture::one_target()),
        ("two targets", fixture::two_targets()),
        ("judged", judged),
        ("open loop", fixture::open_loop()),
        ("capacity", capacity::record()),
        ("bounded capacity", capacity::bounded()),
        ("sweep", sweep::record()),
        ("engines", engines::record()),
        ("clients", clients::record()),
        ("tiers", tiers::record()),
        ("failover", failover::record()),
        ("clients in a failover", failover::compared()),
        ("lossy failover", failover::lossy()),
    ] {
        let sentence = first_sentence(&record);
        assert!(sentence.lines().count() <= 3, "{name}:\n{sentence}");
    }
}

use std::collections::BTreeMap;

use loadline_measure::Metric;
use loadline_measure::compare::{self, Rules};
use loadline_measure::gate::{
    Baseline, BaselineCase, BaselineRun, Candidate, Change, Collapse, Counted, FailoverReason, Gap,
    Grounds, LimitGrounds, Measured, Outcome, Reason, RecordReason, Remark, Remedy,
    RepetitionGrounds, RowVerdict, RunsFound, Side, judge,
};
use loadline_measure::metric::Direction;
use loadline_measure::record::Environment;
use loadline_measure::work::{Estimate, Incomparable, WorkError, WorkRules};

use super::*;

/// A row of "get" in words.
fn told(metric: Metric, limit: Option<&str>, verdict: RowVerdict, evidence: Grounds) -> Row {
    row(JudgedRow {
        case: "get".to_owned(),
        metric,
        limit: limit.map(str::to_owned),
        baseline: Some(100.0),
        candidate: Some(300.0),
        ratio: None,
        lo: None,
        hi: None,
        interval_95: None,
        minimum_detectable_effect: None,
        functions: Vec::new(),
        verdict,
        evidence,
    })
}

fn assert_evidence<const N: usize>(metric: Metric, table: [(RowVerdict, Grounds, &str); N]) {
    for (verdict, grounds, expected) in table {
        assert_eq!(told(metric, None, verdict, grounds).evidence, expected);
    }
}

/// Asserts the evidence about a limit of the p99.
fn assert_limit<const N: usize>(table: [(RowVerdict, LimitGrounds, &str); N]) {
    for (verdict, grounds, expected) in table {
        let limit = Some("get.p99<10ms");
        let row = told(Metric::P99, limit, verdict, Grounds::Limit(grounds));
        assert_eq!(row.evidence, expected);
    }
}

#[test]
fn rows_of_limits_have_the_value_and_the_limit() {
    let (long, short) = (12_340_000.0, 9_900_000.0);
    assert_limit([
        (
            RowVerdict::Equivalent,
            LimitGrounds::Kept(short),
            "9.90 ms keeps get.p99<10ms",
        ),
        (
            RowVerdict::Critical,
            LimitGrounds::Broken(long, None),
            "12.3 ms breaks get.p99<10ms",
        ),
        (
            RowVerdict::Critical,
            LimitGrounds::Broken(long, Some(long)),
            "12.3 ms, and 12.3 ms in the second run, break get.p99<10ms",
        ),
        (
            RowVerdict::Inconclusive,
            LimitGrounds::KeptAgain(long, short),
            "12.3 ms breaks get.p99<10ms, but 9.90 ms in the second run keeps it",
        ),
        (
            RowVerdict::Inconclusive,
            LimitGrounds::BrokenOnce(long),
            "12.3 ms breaks get.p99<10ms, but the second run did not measure it",
        ),
        (
            RowVerdict::Critical,
            LimitGrounds::Bounds(10.7e6, 11.3e6),
            "between 10.7 ms and 11.3 ms breaks get.p99<10ms",
        ),
        (
            RowVerdict::Equivalent,
            LimitGrounds::Bounds(8e6, 9e6),
            "between 8.00 ms and 9.00 ms keeps get.p99<10ms",
        ),
        (
            RowVerdict::Inconclusive,
            LimitGrounds::Bounds(8e6, 11e6),
            "between 8.00 ms and 11.0 ms does not tell whether get.p99<10ms is kept",
        ),
    ]);
    let of = Grounds::Of(
        "redis".to_owned(),
        Box::new(Grounds::Limit(LimitGrounds::Kept(8_233.0))),
    );
    let row = told(
        Metric::ClientMemory,
        Some("client_memory<1MB"),
        RowVerdict::Equivalent,
        of,
    );
    assert_eq!(row.evidence, "redis: 8.23 kB keeps client_memory<1MB");
}

#[test]
fn rows_of_limits_that_cannot_be_judged_say_why() {
    let samples = |count, longest_ns| LimitGrounds::FewSamples {
        count,
        needed: 10_000,
        longest_ns,
    };
    assert_limit([
        (
            RowVerdict::Inconclusive,
            LimitGrounds::LoadEnded(2_000),
            "the load ended after 2.00 us, too early to judge get.p99<10ms",
        ),
        (
            RowVerdict::Inconclusive,
            LimitGrounds::NoCase,
            "no case of this name was measured, so nothing keeps get.p99<10ms",
        ),
        (
            RowVerdict::Inconclusive,
            LimitGrounds::NotMeasured,
            "not measured, or of too few samples, so get.p99<10ms cannot be judged",
        ),
        (
            RowVerdict::Inconclusive,
            samples(0, Some(3_000_000)),
            "0 samples are too few to judge get.p99<10ms, which needs 10000; the longest took 3.00 ms",
        ),
        (
            RowVerdict::Inconclusive,
            samples(7, None),
            "7 samples are too few to judge get.p99<10ms, which needs 10000",
        ),
        (
            RowVerdict::Inconclusive,
            LimitGrounds::FewRounds(3),
            "inconclusive: 3 rounds are too few to judge get.p99<10ms",
        ),
    ]);
}

#[test]
fn rows_against_a_baseline_have_the_change() {
    let change = |estimate, least, most| Change {
        estimate,
        least,
        most,
    };
    let runs = |change, found, remedy| Grounds::Runs {
        change,
        found,
        remedy,
    };
    let worse = change(0.105, 0.071, 0.14);
    let found = |found| runs(worse, found, None);
    assert_evidence(
        Metric::P50,
        [
            (
                RowVerdict::Inconclusive,
                found(RunsFound::Suspected(8)),
                "slower by 10.5 %, by at least 7.1 %, than 8 runs; it counts if a second run agrees",
            ),
            (
                RowVerdict::Inconclusive,
                found(RunsFound::ByChance),
                "slower by 10.5 %, by at least 7.1 %, in both runs, but not significant over all metrics",
            ),
            (
                RowVerdict::Warning,
                found(RunsFound::Worse(8)),
                "slower by 10.5 %, by at least 7.1 %, than 8 runs, in both runs",
            ),
            (
                RowVerdict::Inconclusive,
                found(RunsFound::Disagreeing),
                "slower by 10.5 %, by at least 7.1 %, both runs together, but they do not agree",
            ),
            (
                RowVerdict::Slower,
                found(RunsFound::Slightly),
                "slower by 10.5 %, by at least 7.1 %, which is below what warns",
            ),
            (
                RowVerdict::Faster,
                runs(change(-0.2, -0.25, -0.15), RunsFound::Better, None),
                "faster by at least 15.0 %",
            ),
            (
                RowVerdict::Equivalent,
                runs(change(0.0, -0.02, 0.02), RunsFound::Below(0.05), None),
                "slower by 2.0 % at most, less than 5.0 %",
            ),
        ],
    );
}

#[test]
fn inconclusive_row_against_a_baseline_has_a_remedy() {
    let open = |remedy| Grounds::Runs {
        change: Change {
            estimate: 0.03,
            least: -0.01,
            most: 0.081,
        },
        found: RunsFound::Open(0.02),
        remedy: Some(remedy),
    };
    let share = 0.1;
    assert_evidence(
        Metric::P50,
        [
            (
                RowVerdict::Inconclusive,
                open(Remedy::AddRuns),
                "inconclusive: between -1.0 % and 8.1 % slower, margin 2.0 %; the echo differs from that of every run of the baseline: `baseline add` runs under the present conditions",
            ),
            (
                RowVerdict::Inconclusive,
                open(Remedy::Runs {
                    runs: 12,
                    more: 4,
                    share,
                }),
                "inconclusive: between -1.0 % and 8.1 % slower, margin 2.0 %; 12 runs (4 more) can detect 10.0 %",
            ),
            (
                RowVerdict::Inconclusive,
                open(Remedy::None(share)),
                "inconclusive: between -1.0 % and 8.1 % slower, margin 2.0 %; no number of runs can detect 10.0 %: compare in pairs",
            ),
            (
                RowVerdict::Inconclusive,
                open(Remedy::FreeCpus(0.04, 0.57)),
                "inconclusive: between -1.0 % and 8.1 % slower, margin 2.0 %; server and generator waited for a CPU 57.0 % of the time, 4.0 % in the baseline: measure with free CPUs, or compare in pairs",
            ),
            (
                RowVerdict::Inconclusive,
                Grounds::FewRuns { runs: 7, least: 8 },
                "the baseline holds 7 of 8 runs; add 1 more",
            ),
        ],
    );
}

#[test]
fn rows_of_two_runs_have_the_bounds_of_the_change() {
    let single = |least, most| {
        Grounds::SingleRuns(Change {
            estimate: 0.0,
            least,
            most,
        })
    };
    assert_evidence(
        Metric::ServerCpu,
        [
            (
                RowVerdict::Slower,
                single(0.255, 0.3),
                "higher by at least 25.5 %, in one run each",
            ),
            (
                RowVerdict::Faster,
                single(-0.3, -0.2),
                "lower by at least 20.0 %, in one run each",
            ),
            (
                RowVerdict::Equivalent,
                single(-0.03, 0.04),
                "higher by 4.0 % at most, in one run each",
            ),
            (
                RowVerdict::Inconclusive,
                single(-0.03, 0.08),
                "inconclusive: between -3.0 % and 8.0 % higher, room for how runs differ included",
            ),
        ],
    );
}

#[test]
fn pair_has_the_words_of_its_metric_and_says_why_totals_differ() {
    let before = [100.0; 12];
    let paired = |after: f64| {
        let rules = Rules::default();
        compare::paired(&before, &[after; 12], Direction::LessIsBetter, &rules).unwrap()
    };
    let pair = |after, by_chance| Grounds::Pair {
        paired: paired(after),
        by_chance,
    };
    assert_evidence(
        Metric::ServerCpu,
        [
            (
                RowVerdict::Inconclusive,
                pair(150.0, true),
                "higher by more than 2 % in 12 of 12 rounds, but not significant over all comparisons; the totals give 3.00x, because slow rounds weigh more in them: the ratio is the median of the ratios within rounds",
            ),
            (
                RowVerdict::Critical,
                pair(300.0, false),
                "higher by more than 2 % in 12 of 12 rounds",
            ),
        ],
    );
    let few = Grounds::FewOperations;
    let row = told(Metric::P99, None, RowVerdict::Inconclusive, few);
    assert_eq!(row.evidence, "too few operations for p99");
}

#[test]
fn rows_of_work_state_the_scope_of_the_count() {
    let estimate = |instructions: f64| Estimate::of(&[instructions; 3]).unwrap();
    let rules = WorkRules::default();
    let more = loadline_measure::work::compare(&estimate(3_600.0), &estimate(5_600.0), &rules);
    let other_tool = Incomparable {
        what: "the tool that counts",
        was: "valgrind-3.19.0".to_owned(),
        is: "valgrind-3.22.0".to_owned(),
    };
    let work = told(
        Metric::ServerInstructions,
        None,
        RowVerdict::Critical,
        Grounds::Work(more),
    );
    assert!(
        work.evidence.starts_with(
            "55.6 % more instructions per operation [54.7, 56.5] (work in user space, not time"
        ),
        "{}",
        work.evidence
    );
    assert_evidence(
        Metric::ServerInstructions,
        [
            (
                RowVerdict::Inconclusive,
                Grounds::Incomparable(other_tool),
                "not comparable: the tool that counts was valgrind-3.19.0 and is valgrind-3.22.0",
            ),
            (
                RowVerdict::Inconclusive,
                Grounds::NoEstimate(WorkError::NoWork),
                "a pass counted no instructions of operations",
            ),
            (
                RowVerdict::Inconclusive,
                Grounds::Gap(Gap::NotCounted),
                "the baseline holds instructions per operation, but they were not counted now",
            ),
        ],
    );
}

#[test]
fn rows_of_numbers_and_of_clients_have_their_bounds() {
    let number = |collapse| Grounds::Number {
        bounds: (873.0, 927.0),
        number: 1_500.0,
        collapse,
    };
    let ratio = |lo, hi| Grounds::Ratio {
        ratio: 3.1,
        bounds: (lo, hi),
        rounds: 10,
        factor: 3.0,
    };
    assert_evidence(
        Metric::Throughput,
        [
            (
                RowVerdict::Warning,
                number(None),
                "between 873/s and 927/s, stated 1.50k/s",
            ),
            (
                RowVerdict::Critical,
                number(Some(Collapse::BelowMinimum(1_000.0))),
                "between 873/s and 927/s, stated 1.50k/s, below the minimum of 1.00k/s",
            ),
            (
                RowVerdict::Critical,
                number(Some(Collapse::BelowHalf)),
                "between 873/s and 927/s, stated 1.50k/s, below half of it",
            ),
            (
                RowVerdict::Inconclusive,
                Grounds::NumberOfFewRounds(3),
                "inconclusive: of 3 rounds; 8 or more with values above zero are needed",
            ),
            (
                RowVerdict::Equivalent,
                ratio(3.1, 3.1),
                "3.100 [3.100, 3.100] in 10 rounds; at least 3 is required",
            ),
            (
                RowVerdict::Inconclusive,
                ratio(1.0, 9.0),
                "between 1.000 and 9.000 in 10 rounds; at least 3 is required",
            ),
            (
                RowVerdict::Inconclusive,
                Grounds::RatioOfFewRounds {
                    ratio: 3.1,
                    rounds: 2,
                },
                "3.10 in 2 rounds, too few for an interval",
            ),
            (
                RowVerdict::Inconclusive,
                Grounds::OtherOperations("redis-py".to_owned()),
                "the server counted other operations than redis-py reported",
            ),
        ],
    );
}

fn assert_sentences<const N: usize>(table: [(Reason, &str); N]) {
    for (reason, expected) in table {
        assert_eq!(reasons::sentence(&reason), expected);
    }
}

#[test]
fn reasons_are_sentences_with_their_figures() {
    let case = || "get".to_owned();
    assert_sentences([
        (
            Reason::NoTime(case()),
            "get: all of its times are inconclusive.",
        ),
        (
            Reason::FewRuns { runs: 7, least: 8 },
            "The baseline holds 7 of the 8 runs that it needs to raise an alarm: add 1 more. Until then only limits can fail.",
        ),
        (
            Reason::OtherWork("abc".to_owned(), "xyz".to_owned()),
            "The baseline is of the workload abc, the run of xyz; measure with the baseline's plan.",
        ),
        (
            Reason::UnknownProperty("kernel"),
            "The kernel is not known, so another machine would not be noticed.",
        ),
        (
            Reason::NotMeasured(case()),
            "The case get of the baseline was not measured.",
        ),
        (
            Reason::NotInBaseline(case()),
            "The case get is not in the baseline.",
        ),
        (
            Reason::UnknownComparison("joules".to_owned()),
            "The comparison by \"joules\" names an unknown case or metric.",
        ),
        (
            Reason::FewRounds(case(), Metric::P50),
            "get, p50: fewer than half of the rounds hold it.",
        ),
    ]);
}

#[test]
fn notes_are_sentences_with_their_figures() {
    let case = || "get".to_owned();
    assert_sentences([
        (
            Reason::CountedOnce {
                case: case(),
                metric: Metric::ServerInstructions,
                side: Side::Second,
            },
            "get: server instructions are not compared, because they were counted only on the second side.",
        ),
        (
            Reason::OtherCounts(
                case(),
                vec![
                    (Counted::SystemCalls, 0.19, 0.19),
                    (Counted::Allocations, 2.0, 3.0),
                    (Counted::BytesReceived, 40.0, 40.0),
                    (Counted::BytesSent, 69.0, 69.0),
                ],
            ),
            "get, counted per operation: 0.19 system calls, 3.00 allocations (2.00 before), 40.00 bytes received, 69.00 bytes sent.",
        ),
        (
            Reason::Disagreement {
                case: case(),
                metric: Metric::P50,
                grew: false,
            },
            "get: fewer instructions per operation, yet p50 got worse. Likely reasons: more cache misses, more time in the kernel (system calls, page faults, disk) or more waiting (locks, other threads).",
        ),
        (
            Reason::Numbers {
                updated: Some("2026-01-31".to_owned()),
                environment: None,
            },
            "The numbers are of 2026-01-31 and of a single run each; the file does not say where they were measured, so another machine would not be noticed.",
        ),
        (
            Reason::Numbers {
                updated: None,
                environment: Some("\"CI\"".to_owned()),
            },
            "The numbers are of a time not stated and of a single run each; the file says only \"CI\" of where they were measured, so another machine would not be noticed.",
        ),
        (Reason::Stated("As it is.".to_owned()), "As it is."),
    ]);
}

#[test]
fn reasons_about_two_records_name_the_case_and_the_side() {
    let case = || "get".to_owned();
    let records = Reason::Records;
    assert_sentences([
        (
            records(RecordReason::OneSided(Side::First, case())),
            "Only the first record holds the case get.",
        ),
        (
            records(RecordReason::OneSidedCount(
                Side::Second,
                "get by sync".to_owned(),
            )),
            "Only the second record counted get by sync.",
        ),
        (
            records(RecordReason::TwoCases("a1b2".to_owned(), case())),
            "The run a1b2 has two cases called \"get\", so it is unclear which to compare.",
        ),
        (
            records(RecordReason::OtherScenario(case())),
            "The case get was measured under another scenario in each record.",
        ),
        (
            records(RecordReason::OtherCalls("get by sync".to_owned())),
            "get by sync was called under another scenario in each record.",
        ),
        (
            Reason::Remark(Remark::NoCases),
            "Neither record holds a case.",
        ),
        (
            Reason::Remark(Remark::OneRun),
            "One run alone raises no alarm: measure once more, in fresh processes.",
        ),
    ]);
}

/// A run of which the median response time of "get" is `ln` above 100 us, as a logarithm.
fn run(id: usize, ln: f64) -> BaselineRun {
    let measured = Measured {
        normalised_ln: Some(ln),
        round_ln: None,
        raw: 100_000.0 * ln.exp(),
        rounds: 12,
    };
    let case = BaselineCase {
        metrics: BTreeMap::from([(Metric::P50, measured)]),
        ..BaselineCase::default()
    };
    BaselineRun {
        id: id.to_string(),
        started_at: String::new(),
        cases: BTreeMap::from([("get".to_owned(), case)]),
    }
}

/// The judgement of runs at these logarithms against one of eight runs, in words.
fn judged(place: &Environment, first: f64, second: Option<f64>) -> Judgement {
    let limits = vec!["p50<150us".parse().unwrap()];
    let plan = serde_json::Value::Null;
    let held = Environment {
        cpu_model: Some("Example CPU".to_owned()),
        ..Environment::default()
    };
    let mut baseline = Baseline::new(String::new(), "abc".to_owned(), plan, held.clone(), limits);
    for id in 0..8 {
        let ln = [-0.005, 0.005][id % 2];
        baseline.add(run(id, ln), &held, "abc").unwrap();
    }
    let first = run(100, first);
    let second = second.map(|ln| run(101, ln));
    let candidate = Candidate {
        first: &first,
        second: second.as_ref(),
        environment: place,
        workload_hash: "abc",
    };
    judgement(judge(&baseline, &candidate))
}

fn here() -> Environment {
    Environment {
        cpu_model: Some("Example CPU".to_owned()),
        ..Environment::default()
    }
}

#[test]
fn judgement_in_words_is_read_from_json_as_it_was_written() {
    for judgement in [
        judged(&here(), 0.5, None),
        judged(&here(), -90.0, Some(90.0)),
    ] {
        let json = judgement.to_json().unwrap();
        let read: Judgement = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (read.outcome, &read.reasons, &read.notes),
            (judgement.outcome, &judgement.reasons, &judgement.notes)
        );
        // JSON would carry infinity as null.
        let row = &read.rows[0];
        assert!(row.ratio.and(row.lo).and(row.hi).is_some(), "{json}");
    }
}

#[test]
fn reasons_of_a_judgement_are_the_sentences_of_its_rows() {
    let judgement = judged(&here(), 0.5, Some(0.5));
    assert_eq!(judgement.outcome, Outcome::Critical);
    let sentences: Vec<String> = judgement.rows.iter().map(row_sentence).collect();
    assert_eq!(judgement.reasons, sentences);
    assert_eq!(
        judgement.reasons[1],
        "get, p50: 165 us, and 165 us in the second run, break p50<150us."
    );
}

#[test]
fn another_machine_is_described_by_its_differences() {
    let elsewhere = Environment {
        cpu_model: Some("Other CPU".to_owned()),
        ..Environment::default()
    };
    let judgement = judged(&elsewhere, 0.1, None);
    assert_eq!(
        judgement.reasons[0],
        "The CPU model was Example CPU and is Other CPU now. Times of different machines are not comparable: only limits, and pairs measured together, can fail."
    );
    assert_eq!(
        judgement.rows[0].evidence,
        "measured on another machine than the baseline, so there is no verdict"
    );
}

#[test]
fn repetitions_of_faults_are_told_with_their_bounds() {
    for (grounds, expected) in [
        (
            RepetitionGrounds::Few(1),
            "cannot be judged from one repetition",
        ),
        (
            RepetitionGrounds::Few(7),
            "cannot be judged from 7 repetitions",
        ),
        (RepetitionGrounds::Longer(0.25), "longer by at least 25.0 %"),
        (
            RepetitionGrounds::NewlyTwice(3.0),
            "3 executed twice, and none before",
        ),
        (
            RepetitionGrounds::More(12.0, 4.0),
            "at least 12, and at most 4 before",
        ),
    ] {
        let grounds = Grounds::Repetitions(grounds);
        let told = told(Metric::Outage, None, RowVerdict::Inconclusive, grounds);
        assert_eq!(told.evidence, expected);
    }
    let told = |reason| reasons::sentence(&Reason::Failovers(reason));
    assert_eq!(
        told(FailoverReason::OneSided(Side::Second, "reset".to_owned())),
        "Only the second record holds the fault reset."
    );
    assert!(told(FailoverReason::FewRepetitions).contains("loadline failover --rounds 8"));
}

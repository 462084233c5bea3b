use super::*;
use crate::gate::judgement::Outcome;
use crate::gate::reason::Remark;
use crate::record::{Environment, RoundSummary, Run, Scenario, Subject};

/// Two targets under each of some workloads, compared by p50, the second being `ratio` times the
/// first in each round of its list.
fn record(workloads: &[Vec<f64>]) -> Record {
    let mut record = Record::new(Run::default(), Environment::default());
    for (index, ratios) in workloads.iter().enumerate() {
        let case = |name: &str, values: Vec<f64>| Case {
            subject: Subject {
                name: name.to_owned(),
                ..Subject::default()
            },
            scenario: Scenario {
                workload: format!("work {index}"),
                ..Scenario::default()
            },
            rounds: values
                .into_iter()
                .map(|value| RoundSummary {
                    throughput_ops_per_s: 1e12 / value,
                    response_time_ns_p50: Some(value as u64),
                    ..RoundSummary::default()
                })
                .collect(),
            ..Case::default()
        };
        let b: Vec<f64> = ratios.iter().map(|ratio| 1e6 * ratio).collect();
        record.cases.push(case("one", vec![1e6; ratios.len()]));
        record.cases.push(case("other", b));
        record.comparisons.push(compared(index, Metric::P50));
    }
    record
}

fn compared(workload: usize, metric: Metric) -> Comparison {
    Comparison {
        a: 2 * workload,
        b: 2 * workload + 1,
        metric: metric.key().to_owned(),
        direction: metric.direction(),
        ratio: 1.0,
        interval: None,
        minimum_detectable_effect: None,
        rounds: 24,
        verdict: Verdict::Inconclusive,
        evidence: String::new(),
    }
}

/// Ratios around one that differ by one in a thousand from round to round.
fn around(ratio: f64) -> Vec<f64> {
    (0..24)
        .map(|round| ratio * (1.0 + 0.001 * f64::from(round % 5 - 2)))
        .collect()
}

#[test]
fn verdicts_follow_bounds_and_estimates() {
    for (ratio, verdict, outcome) in [
        (1.0, RowVerdict::Equivalent, Outcome::None),
        (1.04, RowVerdict::Slower, Outcome::None),
        (1.06, RowVerdict::Warning, Outcome::Warning),
        (1.19, RowVerdict::Warning, Outcome::Warning),
        (1.25, RowVerdict::Critical, Outcome::Critical),
        (0.9, RowVerdict::Faster, Outcome::None),
    ] {
        let judgement = Judged::of_comparisons(&record(&[around(ratio)]), &Thresholds::default());
        let found = (judgement.rows[0].verdict, judgement.outcome);
        assert_eq!(found, (verdict, outcome), "{ratio}");
    }
}

#[test]
fn throughput_that_falls_is_worse() {
    let mut record = record(&[around(1.25)]);
    record.comparisons = vec![compared(0, Metric::Throughput)];
    let judgement = Judged::of_comparisons(&record, &Thresholds::default());
    assert_eq!(judgement.outcome, Outcome::Critical);
    let row = &judgement.rows[0];
    assert!((row.ratio.unwrap() - 0.8).abs() < 1e-3, "{row:?}");
    assert_eq!(judgement.reasons, [Reason::of(row.clone())]);
    let Grounds::Pair { paired, by_chance } = row.evidence else {
        panic!("{row:?}");
    };
    assert_eq!(
        (paired.rounds_slower, paired.rounds, by_chance),
        (24, 24, false)
    );
}

#[test]
fn narrow_difference_among_many_comparisons_may_be_chance() {
    let mut ratios = vec![1.10; 24];
    ratios[..5].fill(1.0);
    let alone = Judged::of_comparisons(&record(&[ratios.clone()]), &Thresholds::default());
    assert_eq!(alone.outcome, Outcome::Warning);
    let mut many = vec![around(1.0); 19];
    many.push(ratios);
    let judgement = Judged::of_comparisons(&record(&many), &Thresholds::default());
    let row = &judgement.rows[19];
    assert_eq!(row.verdict, RowVerdict::Inconclusive);
    assert!(
        matches!(
            row.evidence,
            Grounds::Pair {
                by_chance: true,
                ..
            }
        ),
        "{row:?}"
    );
    let many = vec![around(1.1); 20];
    let judgement = Judged::of_comparisons(&record(&many), &Thresholds::default());
    assert_eq!(judgement.reasons.len(), 20);
}

#[test]
fn missing_case_is_named_and_makes_the_outcome_inconclusive() {
    let doubted = |change: fn(&mut Record), reason: Reason| {
        let mut record = record(&[around(1.0), around(1.0)]);
        change(&mut record);
        let judgement = Judged::of_comparisons(&record, &Thresholds::default());
        assert_eq!(judgement.outcome, Outcome::Inconclusive, "{reason:?}");
        assert_eq!(judgement.reasons[0], reason);
    };
    let unknown = |metric: &str| Reason::UnknownComparison(metric.to_owned());
    doubted(
        |record| record.comparisons.clear(),
        Reason::Remark(Remark::NoComparison),
    );
    doubted(
        |record| record.comparisons[0].b = 99,
        unknown(Metric::P50.key()),
    );
    doubted(
        |record| record.comparisons[0].metric = "joules".to_owned(),
        unknown("joules"),
    );
    doubted(
        |record| {
            for round in &mut record.cases[1].rounds[3..] {
                round.response_time_ns_p50 = None;
            }
        },
        Reason::FewRounds("work 0".to_owned(), Metric::P50),
    );
    doubted(
        |record| record.cases[1].rounds.truncate(5),
        Reason::NoTime("work 0".to_owned()),
    );
    doubted(
        |record| record.run.cut_short = true,
        Reason::Remark(Remark::CutShort),
    );
}

#[test]
fn of_three_targets_the_rows_say_which() {
    let mut record = record(&[around(1.0)]);
    let mut third = record.cases[1].clone();
    third.subject.name = "third".to_owned();
    record.cases.push(third);
    let mut comparison = compared(0, Metric::P50);
    comparison.b = 2;
    record.comparisons.push(comparison);
    let judgement = Judged::of_comparisons(&record, &Thresholds::default());
    let names: Vec<&str> = judgement.rows.iter().map(|row| row.case.as_str()).collect();
    assert_eq!(names, ["work 0 of other", "work 0 of third"]);
}

#[test]
fn tail_of_too_few_operations_has_no_ratio() {
    let mut record = record(&[around(1.0)]);
    for case in &mut record.cases {
        for round in &mut case.rounds {
            round.response_time_ns_p99 = round.response_time_ns_p50;
        }
    }
    for round in &mut record.cases[1].rounds {
        round.response_time_ns_p99 = Some(11_080_000);
    }
    record.comparisons.push(compared(0, Metric::P99));
    let judgement = Judged::of_comparisons(&record, &Thresholds::default());
    let row = &judgement.rows[1];
    assert_eq!((row.metric, row.ratio), (Metric::P99, None), "{row:?}");
    assert_eq!(row.verdict, RowVerdict::Inconclusive);
    assert_eq!(row.evidence, Grounds::FewOperations);
    assert_eq!(judgement.outcome, Outcome::None);
    for case in &mut record.cases {
        case.response_time_ns.p99 = Some(1_000_000);
    }
    let judgement = Judged::of_comparisons(&record, &Thresholds::default());
    assert_eq!(judgement.outcome, Outcome::Critical);
}

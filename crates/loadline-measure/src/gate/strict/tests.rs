use std::collections::BTreeMap;

use super::*;
use crate::gate::baseline::{BaselineCase, Measured};
use crate::gate::judgement::Outcome;
use crate::gate::reason::{Gap, RunsFound};
use crate::gate::reason::{Remark, Remedy};
use crate::record::Environment;

/// A run of which the median response time of each case is `exp` of the given logarithm, times that
/// of the reference.
fn run(id: usize, logs: &[f64]) -> BaselineRun {
    let case = |ln: &f64| {
        let measured = Measured {
            normalised_ln: Some(*ln),
            round_ln: None,
            raw: 100_000.0 * ln.exp(),
            rounds: 12,
        };
        BaselineCase {
            metrics: BTreeMap::from([(Metric::P50, measured)]),
            ..BaselineCase::default()
        }
    };
    let cases = logs.iter().enumerate();
    BaselineRun {
        id: id.to_string(),
        started_at: String::new(),
        cases: cases
            .map(|(index, ln)| (format!("case {index:02}"), case(ln)))
            .collect(),
    }
}

fn place() -> Environment {
    Environment {
        cpu_model: Some("Example CPU".to_owned()),
        kernel: Some("Linux 6.1.0".to_owned()),
        ..Environment::default()
    }
}

fn baseline(runs: Vec<BaselineRun>) -> Baseline {
    let mut baseline = Baseline::new(
        "embedded".to_owned(),
        "abc".to_owned(),
        serde_json::Value::Null,
        place(),
        Vec::new(),
    );
    for run in runs {
        baseline.add(run, &place(), "abc").unwrap();
    }
    baseline
}

/// Runs whose standard deviation is 1 %.
fn steady(runs: usize) -> Baseline {
    let apart = 0.01 * ((runs - 1) as f64 / runs as f64).sqrt();
    let log = |index: usize| {
        if index.is_multiple_of(2) {
            apart
        } else {
            -apart
        }
    };
    baseline((0..runs).map(|index| run(index, &[log(index)])).collect())
}

fn judged(baseline: &Baseline, first: &[f64], second: Option<&[f64]>) -> Judged {
    let first = run(100, first);
    let second = second.map(|logs| run(101, logs));
    let candidate = Candidate {
        first: &first,
        second: second.as_ref(),
        environment: &place(),
        workload_hash: "abc",
    };
    judge(baseline, &candidate)
}

#[test]
fn edge_of_a_warning_is_where_the_formula_has_it() {
    // t(0.99, 7) = 2.998, so that the reach of one run is 2.998 * 1 % * sqrt(1 + 1/8) = 3.180 %, and
    // the margin ends at ln 1.02 = 1.980 %: the edge is 5.160 %, above the 4.879 % that a warning needs.
    for (worse, needed) in [(0.051_59, false), (0.051_62, true)] {
        let judgement = judged(&steady(8), &[worse], None);
        assert_eq!(
            judgement.needs_second_run(),
            needed,
            "{worse}: {judgement:?}"
        );
    }
}

#[test]
fn verdicts_are_those_of_the_table() {
    use RowVerdict::{Critical, Equivalent, Faster, Inconclusive, Slower, Warning};
    for (first, second, verdict, outcome) in [
        (0.0, None, Equivalent, Outcome::None),
        (0.10, None, Inconclusive, Outcome::Inconclusive),
        (0.10, Some(0.10), Warning, Outcome::Warning),
        (0.10, Some(0.05), Inconclusive, Outcome::Inconclusive),
        (0.10, Some(0.0), Inconclusive, Outcome::Inconclusive),
        (0.25, Some(0.25), Critical, Outcome::Critical),
        (0.25, Some(0.15), Warning, Outcome::Warning),
        (-0.10, None, Faster, Outcome::None),
        (-0.10, Some(-0.10), Faster, Outcome::None),
        (0.045, Some(0.048), Slower, Outcome::None),
        (0.03, None, Inconclusive, Outcome::Inconclusive),
    ] {
        let second = second.map(|ln| [ln]);
        let judgement = judged(&steady(8), &[first], second.as_ref().map(|logs| &logs[..]));
        let found = (judgement.rows[0].verdict, judgement.outcome);
        assert_eq!(
            found,
            (verdict, outcome),
            "{first}, {second:?}: {judgement:#?}"
        );
    }
}

#[test]
fn suspicion_asks_for_a_second_run_and_says_so() {
    let judgement = judged(&steady(8), &[0.10], None);
    assert_eq!(judgement.reasons[0], Reason::Remark(Remark::OneRun));
    let found = |judgement: &Judged| match judgement.rows[0].evidence {
        Grounds::Runs { change, found, .. } => {
            let tenths = |share: f64| (share * 1e3).round() / 10.0;
            (tenths(change.estimate), tenths(change.least), found)
        }
        ref other => panic!("{other:?}"),
    };
    assert_eq!(found(&judgement), (10.5, 7.1, RunsFound::Suspected(8)));
    let judgement = judged(&steady(8), &[0.10], Some(&[0.10]));
    assert!(!judgement.needs_second_run());
    assert_eq!(found(&judgement), (10.5, 7.9, RunsFound::Worse(8)));
    assert_eq!(judgement.reasons, [Reason::of(judgement.rows[0].clone())]);
}

#[test]
fn second_run_without_the_metric_confirms_nothing() {
    let first = run(100, &[0.25]);
    let second = BaselineRun::default();
    let candidate = Candidate {
        first: &first,
        second: Some(&second),
        environment: &place(),
        workload_hash: "abc",
    };
    let judgement = judge(&steady(8), &candidate);
    assert_eq!(judgement.outcome, Outcome::Inconclusive);
    assert!(!judgement.needs_second_run(), "a third would be no better");
}

#[test]
fn runs_that_agree_by_chance_are_believed_to_half_a_percent() {
    let same = baseline((0..8).map(|index| run(index, &[0.0])).collect());
    let row = &judged(&same, &[0.0], None).rows[0];
    let reach = 2.998 * 0.005 * (1.0_f64 + 0.125).sqrt();
    assert!((row.hi.unwrap().ln() - reach).abs() < 1e-5, "{row:?}");
    // The least change that warns is 5 %, however quiet the machine is.
    assert!((row.minimum_detectable_effect.unwrap() - 0.05).abs() < 1e-12);
}

#[test]
fn with_seven_runs_only_limits_fail_and_it_says_what_is_missing() {
    let mut seven = steady(7);
    let judgement = judged(&seven, &[0.5], Some(&[0.5]));
    assert_eq!(judgement.outcome, Outcome::Inconclusive);
    let (runs, least) = (7, 8);
    assert_eq!(judgement.reasons[0], Reason::FewRuns { runs, least });
    assert_eq!(judgement.rows[0].evidence, Grounds::FewRuns { runs, least });
    seven.limits.push("p50<150us".parse().unwrap());
    let judgement = judged(&seven, &[0.5], Some(&[0.5]));
    assert_eq!(judgement.outcome, Outcome::Critical);
    let Reason::Row(row) = &judgement.reasons[0] else {
        panic!("{judgement:?}");
    };
    assert_eq!(row.limit.as_deref(), Some("p50<150us"));
    assert_eq!(judgement.notes[0], Reason::FewRuns { runs, least });
    let one = judged(&steady(1), &[0.5], None);
    assert_eq!(
        (one.outcome, one.rows[0].ratio),
        (Outcome::Inconclusive, None)
    );
}

#[test]
fn other_work_is_refused_and_another_place_fails_by_limits_only() {
    let first = run(100, &[0.5]);
    let mut other = place();
    other.cpu_model = Some("Other CPU".to_owned());
    let mut held = steady(8);
    let candidate = |environment, workload_hash| Candidate {
        first: &first,
        second: Some(&first),
        environment,
        workload_hash,
    };
    let here = place();
    let refused = judge(&held, &candidate(&here, "xyz"));
    assert_eq!(
        (refused.outcome, refused.rows.len()),
        (Outcome::Inconclusive, 0)
    );
    let other_work = Reason::OtherWork("abc".to_owned(), "xyz".to_owned());
    assert_eq!(refused.reasons, [other_work]);
    let elsewhere = judge(&held, &candidate(&other, "abc"));
    assert_eq!(elsewhere.outcome, Outcome::Inconclusive);
    let Reason::OtherMachine(differences) = &elsewhere.reasons[0] else {
        panic!("{elsewhere:?}");
    };
    assert_eq!(
        differences[0].to_string(),
        "The CPU model was Example CPU and is Other CPU now."
    );
    held.limits.push("p50<150us".parse().unwrap());
    let limited = judge(&held, &candidate(&other, "abc"));
    assert_eq!(limited.outcome, Outcome::Critical);
    assert!(
        matches!(limited.notes[0], Reason::OtherMachine(_)),
        "{limited:?}"
    );
}

#[test]
fn another_server_version_is_said_and_judged() {
    let mut newer = place();
    newer
        .servers
        .push(crate::record::ServerEnvironment::default());
    let mut held = steady(8);
    held.environment = newer.clone();
    newer.servers[0].version = Some("8.0".to_owned());
    let first = run(100, &[0.25]);
    let candidate = Candidate {
        first: &first,
        second: Some(&first),
        environment: &newer,
        workload_hash: "abc",
    };
    let judgement = judge(&held, &candidate);
    assert_eq!(judgement.outcome, Outcome::Critical);
    let [Reason::Differs(difference)] = &judgement.notes[..] else {
        panic!("{judgement:?}");
    };
    assert_eq!(
        difference.to_string(),
        "The server's version was not known and is 8.0 now."
    );
}

#[test]
fn cases_and_metrics_of_one_side_do_not_pass_unseen() {
    let both = baseline((0..8).map(|index| run(index, &[0.0, 0.0])).collect());
    let one = judged(&both, &[0.0], None);
    assert_eq!(one.outcome, Outcome::Inconclusive);
    assert_eq!(one.reasons, [Reason::NotMeasured("case 01".to_owned())]);
    let three = judged(&both, &[0.0, 0.0, 0.0], None);
    let unknown = Reason::NotInBaseline("case 02".to_owned());
    assert!(three.reasons.contains(&unknown), "{three:?}");
    let mut without = run(100, &[0.0, 0.0]);
    without.cases.get_mut("case 01").unwrap().metrics.clear();
    let candidate = Candidate {
        first: &without,
        second: None,
        environment: &place(),
        workload_hash: "abc",
    };
    let gap = judge(&both, &candidate);
    assert_eq!(gap.outcome, Outcome::Inconclusive);
    assert_eq!(gap.reasons, [Reason::NoTime("case 01".to_owned())]);
    assert_eq!(gap.rows[1].evidence, Grounds::Gap(Gap::NotInEveryRound));
}

#[test]
fn fall_of_a_more_is_better_metric_is_worse() {
    let throughput = |id: usize, ln: f64| {
        let mut run = run(id, &[0.0]);
        let metrics = &mut run.cases.get_mut("case 00").unwrap().metrics;
        let mut measured = metrics.remove(&Metric::P50).unwrap();
        measured.normalised_ln = Some(ln);
        measured.raw = ln.exp();
        metrics.insert(Metric::Throughput, measured);
        run
    };
    let held = baseline((0..8).map(|index| throughput(index, 20.0)).collect());
    let first = throughput(100, 20.0 - 0.10);
    let candidate = Candidate {
        first: &first,
        second: Some(&first),
        environment: &place(),
        workload_hash: "abc",
    };
    let judgement = judge(&held, &candidate);
    assert_eq!(judgement.outcome, Outcome::Warning);
    let row = &judgement.rows[0];
    assert!((row.ratio.unwrap().ln() + 0.10).abs() < 1e-9, "{row:?}");
    assert!(row.lo.unwrap() < row.ratio.unwrap() && row.ratio.unwrap() < row.hi.unwrap());
}

#[test]
fn one_narrow_alarm_among_many_cases_may_be_chance_and_many_are_not() {
    let apart = 0.01 * (7.0_f64 / 8.0).sqrt();
    let runs = (0..8).map(|index| {
        let log = if index % 2 == 0 { apart } else { -apart };
        run(index, &[log; 100])
    });
    let held = baseline(runs.collect());
    let mut one = [0.0; 100];
    one[7] = 0.054;
    let judgement = judged(&held, &one, Some(&one));
    assert_eq!(judgement.rows[7].verdict, RowVerdict::Inconclusive);
    let row = &judgement.rows[7];
    assert!(
        matches!(
            row.evidence,
            Grounds::Runs {
                found: RunsFound::ByChance,
                ..
            }
        ),
        "{row:?}"
    );
    let judgement = judged(&held, &[0.12; 100], Some(&[0.12; 100]));
    assert_eq!(judgement.reasons.len(), 100);
}

/// Steady runs that waited for a CPU for this share of the time.
fn waiting(held: f64) -> Baseline {
    let mut baseline = steady(8);
    for run in &mut baseline.runs {
        for case in run.cases.values_mut() {
            case.cpu_wait = Some(held);
        }
    }
    baseline
}

/// The judgement of two runs that are worse by `worse` and waited for a share of the time.
fn judged_after_waiting(baseline: &Baseline, metric: Metric, worse: f64, waited: f64) -> Judged {
    let mut baseline = baseline.clone();
    let mut first = run(100, &[worse]);
    let runs = baseline.runs.iter_mut().chain([&mut first]);
    for case in runs.flat_map(|run| run.cases.values_mut()) {
        let measured = case.metrics.remove(&Metric::P50).unwrap();
        case.metrics.insert(metric, measured);
    }
    first.cases.get_mut("case 00").unwrap().cpu_wait = Some(waited);
    let candidate = Candidate {
        first: &first,
        second: Some(&first),
        environment: &place(),
        workload_hash: "abc",
    };
    judge(&baseline, &candidate)
}

#[test]
fn slowdown_that_waiting_for_a_cpu_explains_is_no_alarm() {
    use RowVerdict::{Critical, Inconclusive, Warning};
    for (held, worse, waited, verdict) in [
        // Half of the time waited triples a median at most: ln 3 = 1.10.
        (0.0, 1.10, 0.5, Inconclusive),
        (0.0, 1.20, 0.5, Warning),
        (0.0, 1.40, 0.5, Critical),
        // As much waiting as in the baseline explains nothing.
        (0.5, 0.69, 0.5, Critical),
        (0.5, 0.69, 0.1, Critical),
        (0.0, 3.00, 0.9, Inconclusive),
        (0.9, 3.00, 0.9, Critical),
    ] {
        let judgement = judged_after_waiting(&waiting(held), Metric::P50, worse, waited);
        assert_eq!(
            judgement.rows[0].verdict, verdict,
            "{held}, {worse}, {waited}: {judgement:#?}"
        );
    }
    // And halves a throughput at most.
    for (worse, verdict) in [(0.69, Inconclusive), (0.80, Warning)] {
        let judgement = judged_after_waiting(&waiting(0.0), Metric::Throughput, -worse, 0.5);
        assert_eq!(
            judgement.rows[0].verdict, verdict,
            "{worse}: {judgement:#?}"
        );
    }
    let judgement = judged_after_waiting(&waiting(0.25), Metric::P50, 0.4, 0.5);
    let Grounds::Runs { remedy, .. } = &judgement.rows[0].evidence else {
        panic!("{judgement:#?}");
    };
    assert_eq!(*remedy, Some(Remedy::FreeCpus(0.25, 0.5)));
}

#[test]
fn speedup_that_less_waiting_explains_is_not_called_faster() {
    let faster =
        |waited| judged_after_waiting(&waiting(0.5), Metric::P50, -0.5, waited).rows[0].verdict;
    assert_eq!(faster(0.5), RowVerdict::Faster);
    assert_eq!(faster(0.1), RowVerdict::Inconclusive);
}

#[test]
fn p99_is_not_judged_worse_when_more_operations_waited() {
    let judgement = judged_after_waiting(&waiting(0.01), Metric::P99, 2.0, 0.1);
    assert_eq!(judgement.rows[0].evidence, Grounds::Gap(Gap::CpuWait));
    assert_eq!(judgement.rows[0].verdict, RowVerdict::Inconclusive);
    let judgement = judged_after_waiting(&waiting(0.01), Metric::P99, 2.0, 0.02);
    assert_eq!(judgement.rows[0].verdict, RowVerdict::Critical);
}

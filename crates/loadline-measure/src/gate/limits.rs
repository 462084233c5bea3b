//! Absolute limits, which judge the measured values themselves.

use super::baseline::{BaselineRun, Measured};
use super::judgement::{Outcome, Row, RowVerdict};
use super::reason::{Grounds, JudgedRow, LimitGrounds};
use crate::failover::Trial;
use crate::histogram::{LatencySummary, SAMPLES_BEYOND};
use crate::limit::Limit;
use crate::metric::Metric;
use crate::record::Case;

/// One row per limit and matching case.
///
/// A broken limit is critical, because it is a fact about the run. With a second run, it counts only if both
/// runs break it. Values that were not measured or have too few samples are inconclusive.
#[must_use]
pub fn of_run(
    first: &BaselineRun,
    second: Option<&BaselineRun>,
    limits: &[Limit],
) -> Vec<JudgedRow> {
    let mut rows = Vec::new();
    for limit in limits {
        let concerned = first.cases.keys().filter(|case| limit.concerns(case));
        let before = rows.len();
        rows.extend(concerned.map(|case| row(limit, case, first, second)));
        if rows.len() == before {
            rows.push(absent(limit));
        }
    }
    rows
}

/// One row per limit and matching case of one record, for every subject.
///
/// A percentile of too few samples cannot be judged, even if every observed response time keeps the limit:
/// the percentile also covers operations that were not observed.
#[must_use]
pub fn of_cases(cases: &[Case], limits: &[Limit]) -> Vec<JudgedRow> {
    let several = cases
        .windows(2)
        .any(|pair| pair[0].subject.name != pair[1].subject.name);
    let mut rows = Vec::new();
    for limit in limits {
        let before = rows.len();
        for case in cases.iter().filter(|case| limit.concerns(&case.name())) {
            let mut row = row_of_case(limit, case);
            if several {
                row.evidence = Grounds::Of(case.subject.name.clone(), Box::new(row.evidence));
            }
            rows.push(row);
        }
        if rows.len() == before {
            rows.push(absent(limit));
        }
    }
    rows
}

/// One row per limit and fault that it concerns. A fault is a case by its name.
///
/// Where the load ended before an outage, the time that passed until then breaks a limit, or leaves it open.
#[must_use]
pub fn of_trials(trials: &[Trial], limits: &[Limit]) -> Vec<JudgedRow> {
    let mut rows = Vec::new();
    for limit in limits {
        let before = rows.len();
        let concerned = trials
            .iter()
            .filter(|trial| limit.concerns(trial.fault.as_str()));
        rows.extend(concerned.map(|trial| row_of_trial(limit, trial)));
        if rows.len() == before {
            rows.push(absent(limit));
        }
    }
    rows
}

/// A time of a fault in nanoseconds, and whether the load ended before; `None` if it was not measured.
pub(super) fn time_of_trial(metric: Metric, trial: &Trial) -> Option<(u64, bool)> {
    let clocks = &trial.clocks;
    let until_end = clocks.end_ns.saturating_sub(clocks.fault_ns);
    let since_fault = |ns: Option<u64>| ns.map_or((until_end, true), |ns| (ns, false));
    match metric {
        Metric::Reconnect => Some(since_fault(clocks.first_write_ns)),
        Metric::PoolRecovery if clocks.has_pool => Some(since_fault(clocks.pool_recovery_ns)),
        Metric::Outage => clocks.outage.map(|gap| (gap.length_ns(), gap.is_open)),
        _ => None,
    }
}

fn row_of_trial(limit: &Limit, trial: &Trial) -> JudgedRow {
    let value = time_of_trial(limit.metric, trial);
    let row = Row {
        limit: Some(limit.to_string()),
        candidate: value.map(|(ns, _)| ns as f64),
        ..Row::unknown(&trial.name(), limit.metric)
    };
    let (verdict, evidence) = match value {
        None => (
            RowVerdict::Inconclusive,
            Grounds::Limit(LimitGrounds::NotMeasured),
        ),
        Some((ns, true)) if limit.holds(ns as f64) => (
            RowVerdict::Inconclusive,
            Grounds::Limit(LimitGrounds::LoadEnded(ns)),
        ),
        Some((ns, _)) => judged(limit, ns as f64, None),
    };
    Row {
        verdict,
        evidence: Grounds::Of(trial.name(), Box::new(evidence)),
        ..row
    }
}

/// The outcome of the limits: critical if one is broken, inconclusive if one could not be judged.
#[must_use]
pub fn outcome_of<E>(rows: &[Row<E>]) -> Outcome {
    let has = |verdict| rows.iter().any(|row| row.verdict == verdict);
    if has(RowVerdict::Critical) {
        Outcome::Critical
    } else if has(RowVerdict::Inconclusive) {
        Outcome::Inconclusive
    } else {
        Outcome::None
    }
}

fn row_of_case(limit: &Limit, case: &Case) -> JudgedRow {
    let metric = limit.metric;
    let value = metric.of_case(case);
    let row = Row {
        limit: Some(limit.to_string()),
        candidate: value,
        ..Row::unknown(&case.name(), metric)
    };
    let (verdict, evidence) = match (value, metric.response_quantile()) {
        (Some(value), _) => judged(limit, value, None),
        (None, Some(quantile)) => (
            RowVerdict::Inconclusive,
            too_few(quantile, &case.response_time_ns),
        ),
        (None, None) => (
            RowVerdict::Inconclusive,
            Grounds::Limit(LimitGrounds::NotMeasured),
        ),
    };
    Row {
        verdict,
        evidence,
        ..row
    }
}

fn absent(limit: &Limit) -> JudgedRow {
    let case = limit.case.as_deref().unwrap_or_default();
    Row {
        limit: Some(limit.to_string()),
        evidence: Grounds::Limit(LimitGrounds::NoCase),
        ..Row::unknown(case, limit.metric)
    }
}

/// The reason why a percentile cannot be judged: its number of samples and the required number.
fn too_few(quantile: f64, times: &LatencySummary) -> Grounds {
    Grounds::Limit(LimitGrounds::FewSamples {
        count: times.count,
        needed: (SAMPLES_BEYOND as f64 / (1.0 - quantile)).round() as u64,
        longest_ns: times.max,
    })
}

fn row(limit: &Limit, case: &str, first: &BaselineRun, second: Option<&BaselineRun>) -> JudgedRow {
    let metric = limit.metric;
    let raw = |run: &BaselineRun| Some(run.cases.get(case)?.metrics.get(&metric)?.raw);
    let row = Row {
        limit: Some(limit.to_string()),
        candidate: raw(first),
        ..Row::unknown(case, metric)
    };
    let Some(value) = raw(first) else {
        return row.because(Grounds::Limit(LimitGrounds::NotMeasured));
    };
    let (verdict, evidence) = judged(limit, value, second.map(raw));
    Row {
        verdict,
        evidence,
        ..row
    }
}

/// The verdict of a limit from the value of the first run and, if there is one, the second.
fn judged(limit: &Limit, value: f64, second: Option<Option<f64>>) -> (RowVerdict, Grounds) {
    if limit.holds(value) {
        return (
            RowVerdict::Equivalent,
            Grounds::Limit(LimitGrounds::Kept(value)),
        );
    }
    match second {
        None => (
            RowVerdict::Critical,
            Grounds::Limit(LimitGrounds::Broken(value, None)),
        ),
        Some(Some(again)) if !limit.holds(again) => (
            RowVerdict::Critical,
            Grounds::Limit(LimitGrounds::Broken(value, Some(again))),
        ),
        Some(Some(again)) => (
            RowVerdict::Inconclusive,
            Grounds::Limit(LimitGrounds::KeptAgain(value, again)),
        ),
        Some(None) => (
            RowVerdict::Inconclusive,
            Grounds::Limit(LimitGrounds::BrokenOnce(value)),
        ),
    }
}

/// The median of a measured value over runs.
pub(super) fn median_raw<'a>(measured: impl Iterator<Item = &'a Measured>) -> Option<f64> {
    let raw: Vec<f64> = measured.map(|measured| measured.raw).collect();
    crate::quantile::median(&raw)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::failover::{Clocks, Fault};
    use crate::gate::baseline::BaselineCase;
    use crate::metric::Metric;

    fn run(values: &[(&str, Metric, f64)]) -> BaselineRun {
        let mut cases: BTreeMap<String, BaselineCase> = BTreeMap::new();
        for (case, metric, raw) in values {
            let measured = Measured {
                raw: *raw,
                rounds: 3,
                normalised_ln: None,
                round_ln: None,
            };
            let metrics = &mut cases.entry((*case).to_owned()).or_default().metrics;
            metrics.insert(*metric, measured);
        }
        BaselineRun {
            cases,
            ..BaselineRun::default()
        }
    }

    #[test]
    fn limits_of_faults_judge_times_and_leave_open_what_the_load_did_not_show() {
        let trial = |fault: Fault, first_write_ns, pool_recovery_ns| Trial {
            fault,
            clocks: Clocks {
                fault_ns: 500,
                end_ns: 2_500,
                has_pool: true,
                first_write_ns,
                pool_recovery_ns,
                ..Clocks::default()
            },
            ..Trial::default()
        };
        let trials = [
            trial(Fault::Stop, Some(900), None),
            trial(Fault::Reset, Some(1_000), Some(3)),
        ];
        for (limit, verdicts) in [
            (
                "reconnect<1us",
                &[RowVerdict::Equivalent, RowVerdict::Critical][..],
            ),
            ("stop.reconnect<=900ns", &[RowVerdict::Equivalent]),
            // The load ended after 2 us: longer than 1.5 us for certain, and perhaps shorter than 3 us.
            ("stop.pool_recovery<1500ns", &[RowVerdict::Critical]),
            ("stop.pool_recovery<3us", &[RowVerdict::Inconclusive]),
            ("outage<1s", &[RowVerdict::Inconclusive; 2]),
            ("cut.reconnect<1s", &[RowVerdict::Inconclusive]),
        ] {
            let rows = of_trials(&trials, &[limit.parse().unwrap()]);
            let found: Vec<RowVerdict> = rows.iter().map(|row| row.verdict).collect();
            assert_eq!(found, verdicts, "{limit}: {rows:?}");
        }
    }

    fn judged(
        first: &BaselineRun,
        second: Option<&BaselineRun>,
        limit: &str,
    ) -> Vec<(String, RowVerdict, Grounds)> {
        let rows = of_run(first, second, &[limit.parse().unwrap()]);
        rows.into_iter()
            .map(|row| (row.case, row.verdict, row.evidence))
            .collect()
    }

    #[test]
    fn broken_limit_is_critical_and_a_second_run_may_take_it_back() {
        let (long, short) = (12_340_000.0, 9_900_000.0);
        let slow = run(&[("xread", Metric::P99, long)]);
        let fast = run(&[("xread", Metric::P99, short)]);
        for (first, second, verdict, grounds) in [
            (
                &fast,
                None,
                RowVerdict::Equivalent,
                LimitGrounds::Kept(short),
            ),
            (
                &slow,
                None,
                RowVerdict::Critical,
                LimitGrounds::Broken(long, None),
            ),
            (
                &slow,
                Some(&slow),
                RowVerdict::Critical,
                LimitGrounds::Broken(long, Some(long)),
            ),
            (
                &slow,
                Some(&fast),
                RowVerdict::Inconclusive,
                LimitGrounds::KeptAgain(long, short),
            ),
            (
                &slow,
                Some(&BaselineRun::default()),
                RowVerdict::Inconclusive,
                LimitGrounds::BrokenOnce(long),
            ),
        ] {
            let found = judged(first, second, "xread.p99<10ms");
            assert_eq!(
                found,
                [("xread".to_owned(), verdict, Grounds::Limit(grounds))]
            );
        }
    }

    #[test]
    fn limit_of_all_cases_has_a_row_for_each_and_one_of_none_says_so() {
        let measured = run(&[
            ("get", Metric::Errors, 0.0),
            ("set", Metric::Throughput, 5e4),
        ]);
        let row =
            |case: &str, verdict, grounds| (case.to_owned(), verdict, Grounds::Limit(grounds));
        assert_eq!(
            judged(&measured, None, "errors<0.1%"),
            [
                row("get", RowVerdict::Equivalent, LimitGrounds::Kept(0.0)),
                row("set", RowVerdict::Inconclusive, LimitGrounds::NotMeasured),
            ]
        );
        assert_eq!(
            judged(&measured, None, "xread.p99<10ms"),
            [row("xread", RowVerdict::Inconclusive, LimitGrounds::NoCase)]
        );
    }

    fn case(subject: &str, workload: &str, p99: Option<u64>, max: u64) -> Case {
        let mut case = Case::default();
        case.subject.name = subject.to_owned();
        case.scenario.workload = workload.to_owned();
        case.response_time_ns.p99 = p99;
        case.response_time_ns.max = Some(max);
        case
    }

    fn evidence(cases: &[Case], limit: &str) -> (Vec<Grounds>, Outcome) {
        let rows = of_cases(cases, &[limit.parse().unwrap()]);
        let outcome = outcome_of(&rows);
        (rows.into_iter().map(|row| row.evidence).collect(), outcome)
    }

    #[test]
    fn record_is_judged_case_by_case_and_subject_by_subject() {
        let cases = [
            case("a", "get", Some(2_000_000), 9_000_000),
            case("b", "get", Some(500_000), 9_000_000),
            case("a", "set", Some(9_000_000), 9_000_000),
        ];
        assert_eq!(
            evidence(&cases, "get.p99<1ms"),
            (
                vec![
                    Grounds::Of(
                        "a".to_owned(),
                        Box::new(Grounds::Limit(LimitGrounds::Broken(2e6, None)))
                    ),
                    Grounds::Of(
                        "b".to_owned(),
                        Box::new(Grounds::Limit(LimitGrounds::Kept(5e5)))
                    ),
                ],
                Outcome::Critical
            )
        );
        assert_eq!(evidence(&cases[..1], "get.p99<5ms").1, Outcome::None);
    }

    #[test]
    fn percentile_of_too_few_samples_is_never_judged() {
        let cases = [case("a", "get", None, 3_000_000)];
        assert_eq!(
            evidence(&cases, "get.p99<10ms"),
            (
                vec![Grounds::Limit(LimitGrounds::FewSamples {
                    count: 0,
                    needed: 10_000,
                    longest_ns: Some(3_000_000),
                })],
                Outcome::Inconclusive
            )
        );
        assert_eq!(evidence(&cases, "get.p99<1ms").1, Outcome::Inconclusive);
        // The longest time says nothing about other metrics or other cases.
        assert_eq!(
            evidence(&cases, "get.client_memory<1MB").1,
            Outcome::Inconclusive
        );
        assert_eq!(evidence(&cases, "set.p99<10ms").1, Outcome::Inconclusive);
    }
}

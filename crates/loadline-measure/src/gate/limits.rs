//! Absolute limits, which judge the measured values themselves.

use super::baseline::{BaselineRun, Measured};
use super::judgement::{Outcome, Row, RowVerdict};
use crate::failover::Trial;
use crate::histogram::{LatencySummary, SAMPLES_BEYOND};
use crate::limit::Limit;
use crate::metric::Metric;
use crate::record::Case;
use crate::words;

/// One row per limit and matching case.
///
/// A broken limit is critical, because it is a fact about the run. With a second run, it counts only if both
/// runs break it. Values that were not measured or have too few samples are inconclusive.
#[must_use]
pub fn of_run(first: &BaselineRun, second: Option<&BaselineRun>, limits: &[Limit]) -> Vec<Row> {
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
pub fn of_cases(cases: &[Case], limits: &[Limit]) -> Vec<Row> {
    let several = cases
        .windows(2)
        .any(|pair| pair[0].subject.name != pair[1].subject.name);
    let mut rows = Vec::new();
    for limit in limits {
        let before = rows.len();
        for case in cases.iter().filter(|case| limit.concerns(&case.name())) {
            let mut row = row_of_case(limit, case);
            if several {
                row.evidence = format!("{}: {}", case.subject.name, row.evidence);
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
pub fn of_trials(trials: &[Trial], limits: &[Limit]) -> Vec<Row> {
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

fn row_of_trial(limit: &Limit, trial: &Trial) -> Row {
    let clocks = &trial.clocks;
    let until_end = clocks.end_ns.saturating_sub(clocks.fault_ns);
    // The second value: whether the load ended before.
    let since_fault = |ns: Option<u64>| ns.map_or((until_end, true), |ns| (ns, false));
    let value = match limit.metric {
        Metric::Reconnect => Some(since_fault(clocks.first_write_ns)),
        Metric::PoolRecovery if clocks.has_pool => Some(since_fault(clocks.pool_recovery_ns)),
        Metric::Outage => clocks.outage.map(|gap| (gap.length_ns(), gap.is_open)),
        _ => None,
    };
    let row = Row {
        limit: Some(limit.to_string()),
        candidate: value.map(|(ns, _)| ns as f64),
        ..Row::unknown(&trial.name(), limit.metric)
    };
    let (verdict, evidence) = match value {
        None => (RowVerdict::Inconclusive, untold(limit)),
        Some((ns, true)) if limit.holds(ns as f64) => {
            let ended = words::duration(ns as f64);
            let why = format!("the load ended after {ended}, too early to judge {limit}");
            (RowVerdict::Inconclusive, why)
        }
        Some((ns, _)) => judged(limit, ns as f64, None),
    };
    Row {
        verdict,
        evidence: format!("{}: {evidence}", trial.name()),
        ..row
    }
}

/// The outcome of the limits: critical if one is broken, inconclusive if one could not be judged.
#[must_use]
pub fn outcome_of(rows: &[Row]) -> Outcome {
    let has = |verdict| rows.iter().any(|row| row.verdict == verdict);
    if has(RowVerdict::Critical) {
        Outcome::Critical
    } else if has(RowVerdict::Inconclusive) {
        Outcome::Inconclusive
    } else {
        Outcome::None
    }
}

fn row_of_case(limit: &Limit, case: &Case) -> Row {
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
            too_few(limit, quantile, &case.response_time_ns),
        ),
        (None, None) => (RowVerdict::Inconclusive, untold(limit)),
    };
    Row {
        verdict,
        evidence,
        ..row
    }
}

fn absent(limit: &Limit) -> Row {
    let case = limit.case.as_deref().unwrap_or_default();
    Row {
        limit: Some(limit.to_string()),
        evidence: format!("no case of this name was measured, so nothing keeps {limit}"),
        ..Row::unknown(case, limit.metric)
    }
}

/// The reason why a percentile cannot be judged: its number of samples and the required number.
fn too_few(limit: &Limit, quantile: f64, times: &LatencySummary) -> String {
    let needed = (SAMPLES_BEYOND as f64 / (1.0 - quantile)).round();
    let longest = times.max.map_or_else(String::new, |longest| {
        format!("; the longest took {}", words::duration(longest as f64))
    });
    format!(
        "{} samples are too few to judge {limit}, which needs {needed}{longest}",
        times.count
    )
}

fn untold(limit: &Limit) -> String {
    format!("not measured, or of too few samples, so {limit} cannot be judged")
}

fn row(limit: &Limit, case: &str, first: &BaselineRun, second: Option<&BaselineRun>) -> Row {
    let metric = limit.metric;
    let raw = |run: &BaselineRun| Some(run.cases.get(case)?.metrics.get(&metric)?.raw);
    let row = Row {
        limit: Some(limit.to_string()),
        candidate: raw(first),
        ..Row::unknown(case, metric)
    };
    let Some(value) = raw(first) else {
        return Row {
            evidence: untold(limit),
            ..row
        };
    };
    let (verdict, evidence) = judged(limit, value, second.map(raw));
    Row {
        verdict,
        evidence,
        ..row
    }
}

/// The verdict of a limit from the value of the first run and, if there is one, the second.
fn judged(limit: &Limit, value: f64, second: Option<Option<f64>>) -> (RowVerdict, String) {
    let shown = words::value(limit.metric, value);
    if limit.holds(value) {
        return (RowVerdict::Equivalent, format!("{shown} keeps {limit}"));
    }
    match second {
        None => (RowVerdict::Critical, format!("{shown} breaks {limit}")),
        Some(Some(again)) if !limit.holds(again) => {
            let again = words::value(limit.metric, again);
            let evidence = format!("{shown}, and {again} in the second run, break {limit}");
            (RowVerdict::Critical, evidence)
        }
        Some(Some(again)) => {
            let again = words::value(limit.metric, again);
            let evidence =
                format!("{shown} breaks {limit}, but {again} in the second run keeps it");
            (RowVerdict::Inconclusive, evidence)
        }
        Some(None) => {
            let evidence = format!("{shown} breaks {limit}, but the second run did not measure it");
            (RowVerdict::Inconclusive, evidence)
        }
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
    ) -> Vec<(RowVerdict, String)> {
        let rows = of_run(first, second, &[limit.parse().unwrap()]);
        rows.into_iter()
            .map(|row| (row.verdict, format!("{}: {}", row.case, row.evidence)))
            .collect()
    }

    #[test]
    fn broken_limit_is_critical_and_a_second_run_may_take_it_back() {
        let slow = run(&[("xread", Metric::P99, 12_340_000.0)]);
        let fast = run(&[("xread", Metric::P99, 9_900_000.0)]);
        for (first, second, verdict, evidence) in [
            (
                &fast,
                None,
                RowVerdict::Equivalent,
                "xread: 9.90 ms keeps xread.p99<10ms",
            ),
            (
                &slow,
                None,
                RowVerdict::Critical,
                "xread: 12.3 ms breaks xread.p99<10ms",
            ),
            (
                &slow,
                Some(&slow),
                RowVerdict::Critical,
                "xread: 12.3 ms, and 12.3 ms in the second run, break xread.p99<10ms",
            ),
            (
                &slow,
                Some(&fast),
                RowVerdict::Inconclusive,
                "xread: 12.3 ms breaks xread.p99<10ms, but 9.90 ms in the second run keeps it",
            ),
            (
                &slow,
                Some(&BaselineRun::default()),
                RowVerdict::Inconclusive,
                "xread: 12.3 ms breaks xread.p99<10ms, but the second run did not measure it",
            ),
        ] {
            let found = judged(first, second, "xread.p99<10ms");
            assert_eq!(found, [(verdict, evidence.to_owned())]);
        }
    }

    #[test]
    fn limit_of_all_cases_has_a_row_for_each_and_one_of_none_says_so() {
        let measured = run(&[
            ("get", Metric::Errors, 0.0),
            ("set", Metric::Throughput, 5e4),
        ]);
        let found = judged(&measured, None, "errors<0.1%");
        assert_eq!(
            found[0],
            (
                RowVerdict::Equivalent,
                "get: 0 % keeps errors<0.1%".to_owned()
            )
        );
        assert_eq!(found[1].0, RowVerdict::Inconclusive);
        assert!(found[1].1.contains("too few samples"), "{found:?}");
        let found = judged(&measured, None, "xread.p99<10ms");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, RowVerdict::Inconclusive);
        assert!(found[0].1.contains("no case of this name"), "{found:?}");
    }

    fn case(subject: &str, workload: &str, p99: Option<u64>, max: u64) -> Case {
        let mut case = Case::default();
        case.subject.name = subject.to_owned();
        case.scenario.workload = workload.to_owned();
        case.response_time_ns.p99 = p99;
        case.response_time_ns.max = Some(max);
        case
    }

    fn evidence(cases: &[Case], limit: &str) -> (Vec<String>, Outcome) {
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
                    "a: 2.00 ms breaks get.p99<1ms".to_owned(),
                    "b: 500 us keeps get.p99<1ms".to_owned()
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
                vec![
                    "0 samples are too few to judge get.p99<10ms, which needs 10000; the longest took 3.00 ms"
                        .to_owned()
                ],
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

    #[test]
    fn memory_limit_is_shown_in_decimal_units() {
        let mut of = case("a", "connection_memory", None, 1);
        of.cost.client_bytes_per_connection = Some(8_233.0);
        assert_eq!(
            evidence(&[of], "client_memory<1MB"),
            (
                vec!["8.23 kB keeps client_memory<1MB".to_owned()],
                Outcome::None
            )
        );
    }
}

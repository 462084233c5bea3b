//! Detects a machine that is slower than during the runs of a baseline.

use super::Severity;
use super::flaw::{Diagnosis, FlowFlaw};
use super::flow::SLOW;
use crate::gate::{Baseline, BaselineRun};
use crate::metric::Metric;
use crate::quantile::median;

/// Whether the machine was slow during `run`: the echo and the CPU time per operation of both sides are above those
/// of the best run of `baseline`, in the median over the cases. A server that became slower by itself changes
/// neither the echo nor the generator's CPU time.
///
/// `None` also if the baseline lacks the evidence.
#[must_use]
pub fn slower_than_baseline(baseline: &Baseline, run: &BaselineRun) -> Option<Diagnosis> {
    let names: Vec<&String> = run.cases.keys().collect();
    // The figure as a multiple of the baseline's best, as a median over the cases that have it.
    let times = |figure: fn(&BaselineRun, &str) -> Option<f64>| {
        let of_case = |name: &&String| {
            let best = baseline.runs.iter().filter_map(|held| figure(held, name));
            let best = best.reduce(f64::min)?;
            Some(figure(run, name)? / best)
        };
        median(&names.iter().filter_map(of_case).collect::<Vec<_>>())
    };
    let echo = times(|run, name| run.cases.get(name)?.reference_ns_p50)?;
    let client = times(|run, name| cpu(run, name, Metric::ClientCpu))?;
    let server = times(|run, name| cpu(run, name, Metric::ServerCpu));
    let cpu = server.map_or(client, |server| client.min(server));
    let slower = FlowFlaw::SlowerThanBaseline {
        runs: baseline.runs.len() as u64,
        echo,
        cpu,
    };
    (echo > SLOW && cpu > SLOW).then(|| Diagnosis::new("", Severity::Warning, slower))
}

fn cpu(run: &BaselineRun, case: &str, metric: Metric) -> Option<f64> {
    let measured = run.cases.get(case)?.metrics.get(&metric)?;
    Some(measured.raw).filter(|raw| *raw > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{Flaw, Rule};
    use crate::gate::{BaselineCase, Measured};
    use crate::record::Environment;

    /// A run of two cases with these times of an echo, and of the CPU for the generator and the server.
    fn run(echo: f64, client: f64, server: Option<f64>) -> BaselineRun {
        let measured = |raw| Measured {
            raw,
            ..Measured::default()
        };
        let case = |scale: f64| BaselineCase {
            metrics: [
                (Metric::ClientCpu, Some(client)),
                (Metric::ServerCpu, server),
            ]
            .into_iter()
            .filter_map(|(metric, raw)| Some((metric, measured(scale * raw?))))
            .collect(),
            reference_ns_p50: Some(echo),
            ..BaselineCase::default()
        };
        BaselineRun {
            cases: [("get".to_owned(), case(1.0)), ("set".to_owned(), case(2.0))].into(),
            ..BaselineRun::default()
        }
    }

    fn baseline(runs: Vec<BaselineRun>) -> Baseline {
        let mut baseline = Baseline::new(
            "embedded".into(),
            "hash".into(),
            serde_json::Value::Null,
            Environment::default(),
            Vec::new(),
        );
        baseline.runs = runs;
        baseline
    }

    #[test]
    fn hour_in_which_everything_is_slower_is_found() {
        let held = baseline(vec![
            run(24_000.0, 900.0, Some(2_400.0)),
            run(20_000.0, 800.0, Some(2_000.0)),
        ]);
        let found = slower_than_baseline(&held, &run(28_000.0, 1_200.0, Some(2_600.0))).unwrap();
        assert_eq!(
            (found.rule(), found.scope.as_str()),
            (Rule::SlowMachine, "")
        );
        let Flaw::Flow(FlowFlaw::SlowerThanBaseline { runs, echo, cpu }) = found.flaw else {
            panic!("{found:?}");
        };
        assert_eq!((runs, echo, cpu), (2, 1.4, 1.3));
        // Without the server's CPU time, that of the generator decides.
        assert!(slower_than_baseline(&held, &run(28_000.0, 1_200.0, None)).is_some());
    }

    #[test]
    fn slower_server_alone_is_no_slow_machine() {
        let held = baseline(vec![run(20_000.0, 800.0, Some(2_000.0))]);
        for (echo, client, server) in [
            (20_000.0, 800.0, Some(2_000.0)),
            // The server needs more CPU time.
            (28_000.0, 820.0, Some(4_000.0)),
            // The echo is as fast as it was.
            (21_000.0, 1_600.0, Some(4_000.0)),
            (24_000.0, 1_200.0, Some(3_000.0)),
        ] {
            let candidate = run(echo, client, server);
            assert_eq!(
                slower_than_baseline(&held, &candidate),
                None,
                "{candidate:?}"
            );
        }
    }

    #[test]
    fn without_evidence_the_rule_is_silent() {
        let slow = run(40_000.0, 1_600.0, Some(4_000.0));
        assert_eq!(slower_than_baseline(&baseline(Vec::new()), &slow), None);
        let mut before = run(20_000.0, 800.0, Some(2_000.0));
        for case in before.cases.values_mut() {
            case.reference_ns_p50 = None;
        }
        assert_eq!(slower_than_baseline(&baseline(vec![before]), &slow), None);
    }
}

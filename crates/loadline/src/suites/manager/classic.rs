//! The classic policy of the gate: a file of single numbers, and how the write-up of an MMO server judged by it.

use std::collections::BTreeMap;

use loadline_measure::Metric;
use loadline_measure::gate::classic::{
    Classic, ClassicMetric, ClassicRounds, ClassicThresholds, judge,
};
use loadline_measure::gate::{Baseline, Judged};
use loadline_measure::quantile::median;
use loadline_measure::record::{Case, Record};

use crate::plan::{Length, Plan};

/// The name of the suite that measures exactly these numbers.
pub(crate) const SUITE: &str = "manager-classic";
/// Operations with 100 slower than their 99th percentile, and some to spare.
const OPS_OF_A_P99: u64 = 10_200;
/// Cases that measure connecting, which can take longer than an operation.
const CONNECTING: [&str; 2] = ["connect", "pool_init"];

/// Gives every round of a case whose p99 is judged as many operations as a p99 needs.
pub(crate) fn give_time(plan: &mut Plan) {
    let rounds = u64::from(plan.rounds);
    for case in &mut plan.cases {
        let tailed = |metric: &ClassicMetric| {
            metric.metric().1 == Metric::P99 && case_of(*metric) == case.name
        };
        if ClassicMetric::ALL.iter().any(tailed) {
            case.length = Length::Ops(OPS_OF_A_P99 * rounds);
        }
    }
}

/// The numbers that a classic file would hold of the runs of a baseline: medians over the runs, with the
/// thresholds of the write-up. `None` if the baseline measured none of the cases.
pub(crate) fn numbers_of(baseline: &Baseline) -> Option<Classic> {
    let median_of = |metric: ClassicMetric| {
        let values: Vec<f64> = baseline
            .runs
            .iter()
            .filter_map(|run| {
                let measured = run.cases.get(case_of(metric))?;
                Some(measured.metrics.get(&metric.metric().1)?.raw / unit(metric))
            })
            .collect();
        median(&values)
    };
    let metrics: BTreeMap<ClassicMetric, f64> = ClassicMetric::ALL
        .into_iter()
        .filter_map(|metric| Some((metric, median_of(metric)?)))
        .collect();
    (!metrics.is_empty()).then(|| Classic {
        last_updated: None,
        environment: None,
        metrics,
        thresholds: ClassicThresholds::default(),
    })
}

/// The judgement of one run by `numbers`.
pub(crate) fn judgement(numbers: &Classic, record: &Record) -> Judged {
    judge(numbers, &rounds_of(numbers, record))
}

/// The values of a record that are judged, in the units of the file.
fn rounds_of(numbers: &Classic, record: &Record) -> ClassicRounds {
    let values = |case: &Case, metric: Metric, unit: f64| -> Vec<f64> {
        case.rounds
            .iter()
            .filter_map(|round| Some(metric.of_round(round)? / unit))
            .collect()
    };
    let mut rounds = ClassicRounds::default();
    for metric in ClassicMetric::ALL {
        let (_, judged) = numbers.operation(metric);
        let name = match metric {
            ClassicMetric::ThroughputOpsSec if numbers.is_pipelined() => {
                case_of(ClassicMetric::PipelineLatencyPerOpUs)
            }
            _ => case_of(metric),
        };
        let case = record
            .cases
            .iter()
            .find(|case| case.scenario.workload == name);
        if let Some(case) = case {
            let found = values(case, judged, unit(metric));
            rounds.values.insert(metric, found);
        }
    }
    let judged: Vec<&str> = [ClassicMetric::SetP99Us, ClassicMetric::GetP99Us]
        .map(case_of)
        .to_vec();
    for case in &record.cases {
        let name = case.scenario.workload.as_str();
        if !CONNECTING.contains(&name) && !judged.contains(&name) {
            let p99 = values(case, Metric::P99, 1e3);
            if !p99.is_empty() {
                rounds.p99_us.insert(name.to_owned(), p99);
            }
        }
    }
    rounds
}

/// The case that measures a number.
fn case_of(metric: ClassicMetric) -> &'static str {
    match metric {
        ClassicMetric::ThroughputOpsSec => "set_sequential",
        ClassicMetric::PipelineLatencyPerOpUs => "pipeline_set",
        _ => metric.metric().0,
    }
}

/// The unit of the file in units of the metric.
fn unit(metric: ClassicMetric) -> f64 {
    match metric {
        ClassicMetric::ThroughputOpsSec => 1.0,
        _ => 1e3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::manager::MANAGER_CLASSIC;
    use loadline_measure::record::{Environment, RoundSummary, Run, Scenario};

    #[test]
    fn suite_measures_every_number_of_the_file() {
        let suite = MANAGER_CLASSIC.definitions();
        for metric in ClassicMetric::ALL {
            let case = case_of(metric);
            assert!(suite.iter().any(|one| one.name == case), "{}", metric.key());
        }
    }

    #[test]
    fn pipelined_throughput_is_taken_from_the_pipelined_case() {
        let case = |name: &str, rate: f64| Case {
            scenario: Scenario {
                workload: name.to_owned(),
                ..Scenario::default()
            },
            rounds: vec![RoundSummary {
                throughput_ops_per_s: rate,
                ..RoundSummary::default()
            }],
            ..Case::default()
        };
        let mut record = Record::new(Run::default(), Environment::default());
        record.cases = vec![
            case("set_sequential", 4_000.0),
            case("pipeline_set", 230_000.0),
        ];
        let taken = |throughput: u64| {
            let file = format!(
                "{{\"metrics\": {{\"throughput_ops_sec\": {throughput}, \"pipeline_latency_per_op_us\": 4.4}}}}"
            );
            let numbers = Classic::from_json(file.as_bytes()).unwrap();
            rounds_of(&numbers, &record).values[&ClassicMetric::ThroughputOpsSec].clone()
        };
        assert_eq!(taken(227_273), [230_000.0]);
        assert_eq!(taken(4_100), [4_000.0]);
    }
}

//! The gate by a file of numbers: what an MMO server's write-up kept, and how it judged.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use loadline_measure::Metric;
use loadline_measure::gate::Baseline;
use loadline_measure::gate::classic::{
    self, Classic, ClassicMetric, ClassicRounds, ClassicThresholds,
};
use loadline_measure::gate::{BaselineRun, Judgement, limits_of_run};
use loadline_measure::quantile::median;
use loadline_measure::record::{Case, Record};

use super::{is_record, measured};
use crate::args::{GateArgs, MeasureArgs};
use crate::commands::baseline::default_target;
use crate::commands::judging::{self, Answer};
use crate::exit::Failure;
use crate::files;
use crate::plan::{self, Length, Plan, Surroundings};
use crate::printer::Printer;
use crate::session::Shell;

/// The suite that measures exactly what the numbers are about.
const SUITE: &str = "--workload=manager-classic";
/// Operations with 100 slower than their 99th percentile, and some to spare.
const OPS_OF_A_P99: u64 = 10_200;
/// Cases whose time is that of connecting, which may take longer than an operation may.
const CONNECTING: [&str; 2] = ["connect", "pool_init"];

/// Judges a candidate by `numbers`; `target` is measured where nothing else is named.
pub(super) fn run(
    args: &GateArgs,
    answer: &Answer,
    numbers: &Classic,
    target: Option<&str>,
) -> anyhow::Result<ExitCode> {
    if args.warning.is_some() || args.critical.is_some() {
        return Err(Failure::usage(
            "--warning and --critical belong to --policy strict; with --policy classic, the file contains the thresholds.",
        )
        .into());
    }
    let judge = |record: &Record| judged(numbers, record, args);
    if let Some(record) = args.candidate.as_deref().filter(|text| is_record(text)) {
        let mut record = files::read_record(Path::new(record))?;
        record.judgement = Some(judge(&record)?);
        return Ok(answer.give(&record, None, &Printer::new(&args.judge.display))?);
    }
    let around = Surroundings::look();
    let measure = MeasureArgs::from_words(&[SUITE.to_owned()]).map_err(Failure::usage)?;
    let target = args.candidate.as_deref().or(target);
    let target = target.map_or_else(|| default_target(&around), str::to_owned);
    let mut plan = plan::resolve_run(measure, target, &around)?;
    give_time(&mut plan);
    if args.judge.plan.dry_run {
        files::print(&plan.to_text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let shell = Shell::start(&args.judge.display)?;
    // An alarm of either run alone is none: the milder of two judgements stands.
    let recorded = measured(&plan, &shell, |first, second| {
        let first = judge(first)?;
        let Some(second) = second else {
            return Ok(first);
        };
        let second = judge(second)?;
        Ok(if second.outcome < first.outcome {
            second
        } else {
            first
        })
    })?;
    Ok(answer.give(&recorded.record, recorded.broken, &shell.printer)?)
}

/// Where a p99 is judged, every round needs as many operations as one takes.
fn give_time(plan: &mut Plan) {
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

/// The numbers that a file of the classic kind would hold of the runs of a baseline: medians over
/// the runs, with the thresholds of the write-up.
///
/// # Errors
/// A usage error where the baseline is of other operations.
pub(super) fn numbers_of(baseline: &Baseline, file: &Path) -> Result<Classic, Failure> {
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
    if metrics.is_empty() {
        return Err(Failure::usage(format!(
            "{}: --policy classic judges set, get, del, xadd, xread and similar cases, but the baseline has none of them; save one with --workload manager-classic.",
            file.display()
        )));
    }
    Ok(Classic {
        last_updated: None,
        environment: None,
        metrics,
        thresholds: ClassicThresholds::default(),
    })
}

fn judged(numbers: &Classic, record: &Record, args: &GateArgs) -> Result<Judgement, Failure> {
    let mut judgement = classic::judge(numbers, &rounds_of(record));
    if !args.judge.limit.is_empty() {
        let run = BaselineRun::of_record(record).map_err(|error| judging::incomparable(&error))?;
        judgement.keep(limits_of_run(&run, None, &args.judge.limit));
    }
    Ok(judgement)
}

/// What the judgement reads of a record, in the units of the file.
fn rounds_of(record: &Record) -> ClassicRounds {
    let values = |case: &Case, metric: Metric, unit: f64| -> Vec<f64> {
        case.rounds
            .iter()
            .filter_map(|round| Some(metric.of_round(round)? / unit))
            .collect()
    };
    let mut rounds = ClassicRounds::default();
    for metric in ClassicMetric::ALL {
        let case = record
            .cases
            .iter()
            .find(|case| case.scenario.workload == case_of(metric));
        if let Some(case) = case {
            let found = values(case, metric.metric().1, unit(metric));
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

/// The case of the suite that a number is about.
fn case_of(metric: ClassicMetric) -> &'static str {
    match metric {
        ClassicMetric::ThroughputOpsSec => "set_sequential",
        ClassicMetric::PipelineLatencyPerOpUs => "pipeline_set",
        _ => metric.metric().0,
    }
}

/// How much of the metric's own unit the unit of the file is.
fn unit(metric: ClassicMetric) -> f64 {
    match metric {
        ClassicMetric::ThroughputOpsSec => 1.0,
        _ => 1e3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload;

    #[test]
    fn the_suite_measures_every_number_of_the_file() {
        let suite = workload::suite("manager-classic").unwrap();
        for metric in ClassicMetric::ALL {
            let case = case_of(metric);
            assert!(suite.iter().any(|one| one.name == case), "{}", metric.key());
        }
    }
}

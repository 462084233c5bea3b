//! `loadline gate`: did it get slower than the baseline?

mod classic;

use std::path::Path;
use std::process::ExitCode;

use loadline_measure::gate::{self, Baseline, BaselineRun, Candidate, Judgement, Thresholds};
use loadline_measure::record::Record;

use super::baseline::plan_of;
use super::compare::is_record;
use crate::args::{GateArgs, PolicyArg};
use crate::commands::judging::{self, Answer};
use crate::exit::Failure;
use crate::files::{self, Kept};
use crate::plan::{self, Plan};
use crate::printer::Printer;
use crate::recording;
use crate::session::{self, Recorded, Shell};

/// What the last line calls it.
const NAME: &str = "gate";

pub(super) fn run(args: &GateArgs) -> anyhow::Result<ExitCode> {
    let answer = Answer::new(NAME, &args.judge)?;
    answer.spare(&args.baseline)?;
    if let Some(record) = args.candidate.as_deref().filter(|text| is_record(text)) {
        answer.spare(record.as_ref())?;
    }
    match (files::read_kept(&args.baseline)?, args.policy) {
        (Kept::Runs(baseline), None | Some(PolicyArg::Strict)) => strict(args, &answer, *baseline),
        (Kept::Runs(baseline), Some(PolicyArg::Classic)) => {
            let numbers = classic::numbers_of(&baseline, &args.baseline)?;
            classic::run(args, &answer, &numbers, Some(&baseline.target))
        }
        (Kept::Numbers(numbers), None | Some(PolicyArg::Classic)) => {
            classic::run(args, &answer, &numbers, None)
        }
        (Kept::Numbers(_), Some(PolicyArg::Strict)) => Err(Failure::usage(format!(
            "{}: a file of single numbers does not contain the variation between runs, which --policy strict needs; save runs with `loadline baseline save`.",
            args.baseline.display()
        ))
        .into()),
    }
}

fn strict(args: &GateArgs, answer: &Answer, mut baseline: Baseline) -> anyhow::Result<ExitCode> {
    baseline.limits.extend(args.judge.limit.iter().cloned());
    let thresholds = thresholds(args)?;
    if let Some(record) = args.candidate.as_deref().filter(|text| is_record(text)) {
        let mut record = files::read_record(Path::new(record))?;
        record.judgement = Some(judge(&baseline, &record, None, &thresholds)?);
        return Ok(answer.give(&record, None, &Printer::new(&args.judge.display))?);
    }
    let plan = plan_of(
        &baseline,
        args.candidate.as_deref(),
        &args.baseline.display(),
    )?;
    if args.judge.plan.dry_run {
        files::print(&plan.to_text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let shell = Shell::start(&args.judge.display)?;
    let recorded = measured(&plan, &shell, |first, second| {
        judge(&baseline, first, second, &thresholds)
    })?;
    Ok(answer.give(&recorded.record, recorded.broken, &shell.printer)?)
}

/// From where on a difference is one, where something else was asked for.
fn thresholds(args: &GateArgs) -> Result<Thresholds, Failure> {
    let defaults = Thresholds::default();
    let thresholds = Thresholds {
        warning: args.warning.unwrap_or(defaults.warning),
        critical: args.critical.unwrap_or(defaults.critical),
        work: args.work.rules(),
        ..defaults
    };
    if thresholds.warning < thresholds.margin || thresholds.critical < thresholds.warning {
        return Err(Failure::usage(format!(
            "--warning must be {} % or more, the difference between two processes of one program, and --critical must not be below --warning.",
            thresholds.margin * 100.0
        )));
    }
    Ok(thresholds)
}

/// Measures the candidate, and once more in fresh processes where the first run would raise an alarm.
fn measured(
    plan: &Plan,
    shell: &Shell,
    judge: impl Fn(&Record, Option<&Record>) -> Result<Judgement, Failure>,
) -> Result<Recorded, Failure> {
    let mut first = session::measure(plan, shell)?;
    if first.is_cut_short() {
        return Ok(first);
    }
    recording::refuse_errors(&first.record)?;
    let mut judgement = judge(&first.record, None)?;
    if judgement.needs_second_run() {
        if !shell.printer.quiet {
            files::write_error("loadline: possible alarm; measuring again in fresh processes");
        }
        let second = session::measure(plan, shell)?;
        if second.is_cut_short() {
            first.record.run.cut_short = true;
            first.broken = second.broken;
            return Ok(first);
        }
        recording::refuse_errors(&second.record)?;
        judgement = judge(&first.record, Some(&second.record))?;
    }
    first.record.judgement = Some(judgement);
    Ok(first)
}

fn judge(
    baseline: &Baseline,
    first: &Record,
    second: Option<&Record>,
    thresholds: &Thresholds,
) -> Result<Judgement, Failure> {
    let run = |record: &Record| {
        BaselineRun::of_record(record).map_err(|error| judging::incomparable(&error))
    };
    let workload_hash = plan::workload_hash(&first.run.plan);
    let first_run = run(first)?;
    let second_run = second.map(run).transpose()?;
    let candidate = Candidate {
        first: &first_run,
        second: second_run.as_ref(),
        environment: &first.environment,
        workload_hash: &workload_hash,
    };
    Ok(gate::judge_by(baseline, &candidate, thresholds))
}

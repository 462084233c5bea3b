//! `loadline gate`: did it get slower than the baseline?

use std::path::Path;
use std::process::ExitCode;

use loadline_measure::Limit;
use loadline_measure::doctor;
use loadline_measure::gate::classic::Classic;
use loadline_measure::gate::{
    self, Baseline, BaselineRun, Candidate, Judged, Thresholds, limits_of_run,
};
use loadline_measure::record::{self, Record};
use loadline_report::findings;

use super::baseline::{Work, default_target, work_of};
use super::compare::is_record;
use super::joint::{self, Entered, Leader};
use super::surroundings;
use crate::args::{ConnectionArgs, GateArgs, LimitArg, MeasureArgs, PolicyArg};
use crate::commands::judging::{self, Answer};
use crate::exit::Failure;
use crate::files::{self, GateReference};
use crate::plan::{self, Estimate, Plan};
use crate::printer::Printer;
use crate::recording;
use crate::session::{self, Recorded, Shell};
use crate::suites::manager::classic;

/// The name of the command in its last line.
const NAME: &str = "gate";

pub(super) fn run(args: &GateArgs) -> anyhow::Result<ExitCode> {
    let display = &args.judge.results.display;
    let leader = match joint::enter_if_asked(&args.agents, &ConnectionArgs::default(), display)? {
        Some(Entered::Agent(code)) => return Ok(code),
        Some(Entered::Leader(leader)) => Some(*leader),
        None => None,
    };
    let answer = Answer::new(NAME, &args.judge)?;
    answer.spare(&args.baseline)?;
    if let Some(record) = args.candidate.as_deref().filter(|text| is_record(text)) {
        answer.spare(record.as_ref())?;
    }
    let reference = files::read_kept(&args.baseline)?;
    if leader.is_some() {
        refuse_agents(args, &reference)?;
    }
    match (reference, args.policy) {
        (GateReference::Runs(baseline), None | Some(PolicyArg::Strict)) => by_runs(args, &answer, *baseline, leader),
        (GateReference::Runs(baseline), Some(PolicyArg::Classic)) => {
            let numbers = classic::numbers_of(&baseline).ok_or_else(|| {
                Failure::usage(format!(
                    "{}: --policy classic judges set, get, del, xadd, xread and similar cases, but the baseline has none of them; save one with --workload {}.",
                    args.baseline.display(),
                    classic::SUITE
                ))
            })?;
            by_numbers(args, &answer, &numbers, Some(&baseline.target))
        }
        (GateReference::Numbers(numbers), None | Some(PolicyArg::Classic)) => {
            by_numbers(args, &answer, &numbers, None)
        }
        (GateReference::Failovers(before), None | Some(PolicyArg::Strict)) => {
            by_record(args, &answer, &before)
        }
        (GateReference::Failovers(_), Some(PolicyArg::Classic)) => Err(Failure::usage(format!(
            "{}: --policy classic judges single numbers, but this is a record of failovers; leave it out.",
            args.baseline.display()
        ))
        .into()),
        (GateReference::Numbers(_), Some(PolicyArg::Strict)) => Err(Failure::usage(format!(
            "{}: a file of single numbers does not contain the variation between runs, which --policy strict needs; save runs with `loadline baseline save`.",
            args.baseline.display()
        ))
        .into()),
    }
}

/// Refuses agents where nothing is measured, or by a plan that agents do not share.
pub(super) fn refuse_agents(args: &GateArgs, reference: &GateReference) -> Result<(), Failure> {
    let is_record = args.candidate.as_deref().is_some_and(is_record);
    let is_of_runs = matches!(reference, GateReference::Runs(_));
    let why = if is_record {
        "agents measure, and CANDIDATE is a record"
    } else if !is_of_runs || args.policy == Some(PolicyArg::Classic) {
        "agents repeat the runs of a baseline, which --policy strict judges"
    } else if args.work.profile.is_some() {
        "agents measure running servers, and --profile counts instructions of servers that Loadline starts"
    } else {
        return Ok(());
    };
    Err(Failure::usage(format!("--agents: {why}; leave it out.")))
}

/// The limits in `--limit`. Those of a suite are stored in the baseline.
fn limits(args: &GateArgs) -> Result<Vec<Limit>, Failure> {
    let one = |limit: &LimitArg| match limit {
        LimitArg::Is(limit) => Ok(limit.clone()),
        LimitArg::Default => Err(Failure::usage(
            "--limit default: a baseline contains the limits of its suite; save it with `loadline baseline save --limit default`.",
        )),
    };
    args.judge.limits.limit.iter().map(one).collect()
}

/// Judges a candidate by the runs of a baseline.
fn by_runs(
    args: &GateArgs,
    answer: &Answer,
    mut baseline: Baseline,
    leader: Option<Leader>,
) -> anyhow::Result<ExitCode> {
    baseline.limits.extend(limits(args)?);
    let thresholds = thresholds(args)?;
    answered(
        args,
        answer,
        Some(&baseline),
        |candidate| work_of(leader, &baseline, candidate, &args.baseline.display()),
        |first, second| judge(&baseline, first, second, &thresholds),
    )
}

/// Judges a record of failovers by another one.
fn by_record(args: &GateArgs, answer: &Answer, before: &Record) -> anyhow::Result<ExitCode> {
    if args.warning.is_some() || args.critical.is_some() {
        return Err(Failure::usage(
            "--warning and --critical belong to a baseline of runs; failovers are judged by fixed thresholds.",
        )
        .into());
    }
    let Some(candidate) = args.candidate.as_deref().filter(|text| is_record(text)) else {
        return Err(Failure::usage(format!(
            "{}: a record of failovers is compared with another one; save it with `loadline failover --json FILE`, and name it after the first.",
            args.baseline.display()
        ))
        .into());
    };
    let mut record = files::read_record(Path::new(candidate))?;
    let mut judgement = gate::records::judge(before, &record, &args.work.rules());
    let limits = limits(args)?;
    if let (false, record::Answer::Failover(failover)) = (limits.is_empty(), &record.answer) {
        judgement.keep(gate::limits_of_trials(&failover.trials, &limits));
    }
    judging::keep(&mut record, judgement);
    Ok(answer.give(&record, None, &Printer::new(&args.judge.results.display))?)
}

/// Judges a candidate by single numbers; `target` is the default.
fn by_numbers(
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
    let plan = |candidate: Option<&str>| {
        let around = surroundings();
        let suite = format!("--workload={}", classic::SUITE);
        let measure = MeasureArgs::from_words(&[suite]).map_err(Failure::usage)?;
        let target = candidate.or(target).map(str::to_owned);
        let target = target.unwrap_or_else(|| default_target(&around));
        let mut plan = plan::resolve_single_run(measure, target, &around)?;
        classic::give_time(&mut plan);
        Ok(Work { plan, joint: None })
    };
    let limits = limits(args)?;
    let judged = |record: &Record| {
        let mut judgement = classic::judgement(numbers, record);
        if !limits.is_empty() {
            let rows = limits_of_run(&run_of(record)?, None, &limits);
            judgement.keep(rows);
        }
        Ok::<_, Failure>(judgement)
    };
    // A single run is not enough for an alarm, so the milder of two judgements is the answer.
    answered(args, answer, None, plan, |first, second| {
        let first = judged(first)?;
        let second = second.map(judged).transpose()?;
        Ok(match second {
            Some(second) if second.outcome < first.outcome => second,
            _ => first,
        })
    })
}

/// Judges the candidate: a record directly, otherwise a measurement of the work that `work` resolves for it. Notes
/// in the record whether the machine was slower than during the runs of `baseline`.
fn answered(
    args: &GateArgs,
    answer: &Answer,
    baseline: Option<&Baseline>,
    work: impl FnOnce(Option<&str>) -> Result<Work, Failure>,
    judge: impl Fn(&Record, Option<&Record>) -> Result<Judged, Failure>,
) -> anyhow::Result<ExitCode> {
    let candidate = args.candidate.as_deref();
    if let Some(record) = candidate.filter(|text| is_record(text)) {
        let mut record = files::read_record(Path::new(record))?;
        let judgement = judge(&record, None)?;
        judging::keep(&mut record, judgement);
        examine(&mut record, baseline)?;
        return Ok(answer.give(&record, None, &Printer::new(&args.judge.results.display))?);
    }
    let Work { mut plan, joint } = work(candidate)?;
    plan.profiles.clone_from(&args.work.profile);
    let asked = &args.judge.results;
    let mut description = plan.describe();
    if let Some((leader, _)) = &joint {
        leader.describe(&mut description);
    }
    let estimate = plan.estimate();
    description.takes(estimate.map(Estimate::repeated_before_an_alarm));
    if asked.plan.dry_run {
        files::print(&description.to_text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let shell = match joint {
        None => Shell::start(&asked.display)?,
        Some(_) => Shell::start_in_group(&asked.display)?,
    };
    shell.say_estimate(description.estimate());
    let mut recorded = match joint {
        None => measured(&plan, &shell, judge, |_| session::measure(&plan, &shell))?,
        Some((leader, shared)) => {
            let mut series = leader.open(&plan, shell.clone())?;
            measured(&plan, &shell, judge, |is_second| {
                Ok(Recorded {
                    record: series.measure(&shared, !is_second)?,
                    broken: None,
                })
            })?
        }
    };
    if !recorded.is_cut_short() {
        examine(&mut recorded.record, baseline)?;
    }
    Ok(answer.give(&recorded.record, recorded.broken, &shell.printer)?)
}

/// The thresholds from the arguments, or the defaults.
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

/// Measures the candidate with `measure`, and again in fresh processes if the first run would raise an alarm.
fn measured(
    plan: &Plan,
    shell: &Shell,
    judge: impl Fn(&Record, Option<&Record>) -> Result<Judged, Failure>,
    mut measure: impl FnMut(bool) -> Result<Recorded, Failure>,
) -> Result<Recorded, Failure> {
    let mut first = measure(false)?;
    if first.is_cut_short() {
        return Ok(first);
    }
    recording::refuse_errors(&first.record)?;
    let mut judgement = judge(&first.record, None)?;
    if judgement.needs_second_run() {
        if !shell.printer.quiet {
            let again = "loadline: possible alarm; measuring again in fresh processes";
            let takes = plan
                .estimate()
                .map(|estimate| format!(", which {}", estimate.sentence()));
            files::write_error(&format!("{again}{}", takes.unwrap_or_default()));
        }
        let second = measure(true)?;
        if second.is_cut_short() {
            first.record.run.cut_short = true;
            first.record.lost_agents = second.record.lost_agents;
            first.broken = second.broken;
            return Ok(first);
        }
        recording::refuse_errors(&second.record)?;
        judgement = judge(&first.record, Some(&second.record))?;
    }
    judging::keep(&mut first.record, judgement);
    Ok(first)
}

fn judge(
    baseline: &Baseline,
    first: &Record,
    second: Option<&Record>,
    thresholds: &Thresholds,
) -> Result<Judged, Failure> {
    let workload_hash = plan::workload_hash(&first.run.plan, first.agents.len());
    let first_run = run_of(first)?;
    let second_run = second.map(run_of).transpose()?;
    let candidate = Candidate {
        first: &first_run,
        second: second_run.as_ref(),
        environment: &first.environment,
        workload_hash: &workload_hash,
    };
    Ok(gate::judge_by(baseline, &candidate, thresholds))
}

/// Notes in `record` whether the machine was slower than during the runs of `baseline`.
fn examine(record: &mut Record, baseline: Option<&Baseline>) -> Result<(), Failure> {
    if let Some(baseline) = baseline {
        let found = doctor::slower_than_baseline(baseline, &run_of(record)?);
        let mut found = findings(found);
        found.retain(|finding| !record.doctor.contains(finding));
        record.doctor.extend(found);
    }
    Ok(())
}

/// The run of `record` in the form of a baseline.
fn run_of(record: &Record) -> Result<BaselineRun, Failure> {
    BaselineRun::of_record(record).map_err(|error| judging::incomparable(&error))
}

//! `loadline baseline`: records what is normal here.

use std::process::ExitCode;

use loadline_measure::gate::{Baseline, BaselineRun};
use loadline_measure::record::Record;
use serde_json::json;

use super::surroundings;
use crate::args::{
    BaselineAddArgs, BaselineArgs, BaselineCommand, BaselineSaveArgs, BaselineShowArgs,
    Instructions, MeasureArgs,
};
use crate::commands::judging;
use crate::exit::{Exit, Failure};
use crate::files::{self, Output};
use crate::plan::{self, Estimate, Plan, Surroundings};
use crate::recording;
use crate::secret;
use crate::session::{self, Shell};

/// Runs of a new baseline: the number that the gate needs.
const DEFAULT_RUNS: u32 = 8;
/// More runs would hardly improve the estimate of their spread, and take hours.
const MOST_RUNS: u32 = 100;

pub(super) fn run(args: BaselineArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        BaselineCommand::Save(args) => save(*args),
        BaselineCommand::Add(args) => add(&args),
        BaselineCommand::Show(args) => show(&args),
    }
}

fn save(args: BaselineSaveArgs) -> anyhow::Result<ExitCode> {
    let runs = asked_runs(args.runs, DEFAULT_RUNS)?;
    if args.file.exists() && !args.force {
        return Err(Failure::usage(format!(
            "{} already exists; add runs to it with `loadline baseline add`, or replace it with --force.",
            args.file.display()
        ))
        .into());
    }
    let output = Output::from(args.file);
    output.check()?;
    let around = surroundings();
    let target = args.target.unwrap_or_else(|| default_target(&around));
    let plan = plan::resolve_run(args.measure, target.clone(), &around)?;
    let limits = plan::limits(&args.limits, &plan)?;
    let mut description = plan.describe_with(&limits);
    description.section("Runs");
    description.line(format!("{runs}, each in new processes"));
    description.takes(estimate(&plan, runs));
    let Some(shell) = Shell::start_unless_dry(&args.plan, &args.display, &description)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let mut words = args.words;
    // The default number of threads depends on the machine, but the plan is also used on other machines.
    let is_bundle = plan
        .cases
        .iter()
        .any(|case| case.workload.rules.bundle.is_some());
    if !is_bundle && !words.iter().any(|word| word.starts_with("--threads=")) {
        words.push(format!("--threads={}", plan.cases[0].threads));
    }
    let described = plan.to_json();
    let baseline = Baseline::new(
        secret::redact_argument(&target),
        plan::workload_hash(&described),
        json!({ "arguments": words, "resolved": described }),
        crate::fingerprint::read(),
        limits,
    );
    let filling = Filling {
        plan: &plan,
        output: &output,
        shell,
    };
    filling.fill(baseline, runs)
}

fn add(args: &BaselineAddArgs) -> anyhow::Result<ExitCode> {
    let runs = asked_runs(args.runs, 1)?;
    let baseline = files::read_baseline(&args.file)?;
    let plan = plan_of(&baseline, args.target.as_deref(), &args.file.display())?;
    let output = Output::from(args.file.clone());
    output.check()?;
    let shell = Shell::start(&args.display)?;
    shell.say_estimate(estimate(&plan, runs));
    let filling = Filling {
        plan: &plan,
        output: &output,
        shell,
    };
    filling.fill(baseline, runs)
}

fn show(args: &BaselineShowArgs) -> anyhow::Result<ExitCode> {
    let baseline = files::read_baseline(&args.file)?;
    files::print(&loadline_report::baseline(&baseline))?;
    Ok(ExitCode::SUCCESS)
}

/// The plan in the baseline `file`, for its own target or another one.
///
/// # Errors
/// A bad file if the plan cannot be read or no longer resolves to the recorded workload, and those of
/// [`plan::resolve_run`].
pub(super) fn plan_of(
    baseline: &Baseline,
    target: Option<&str>,
    file: &dyn std::fmt::Display,
) -> Result<Plan, Failure> {
    let wrong = |why: &str| Failure::bad_file(format!("{file}: cannot use its plan: {why}"));
    let arguments = baseline.plan.get("arguments").cloned().unwrap_or_default();
    let words: Vec<String> = serde_json::from_value(arguments)
        .map_err(|_| wrong("its `arguments` are not a list of words."))?;
    let measure = MeasureArgs::from_words(&words).map_err(|why| wrong(&why))?;
    let target = target.unwrap_or(&baseline.target).to_owned();
    let plan = plan::resolve_run(measure, target, &surroundings())?;
    if plan::workload_hash(&plan.to_json()) != baseline.workload_hash {
        return Err(Failure::new(
            Exit::Incomparable,
            format!(
                "{file}: its plan now resolves to a different workload; a workload file, a built-in workload or the number of cores has changed.\nSave a new baseline."
            ),
        ));
    }
    Ok(plan)
}

/// The plan of further runs: instructions per operation hardly differ between runs, so they are counted in the first one,
/// unless counts were requested.
fn without_auto_counts(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    if plan.schedule.instructions == Instructions::Auto {
        plan.schedule.instructions = Instructions::Off;
    }
    plan
}

/// The expected duration of `runs` runs.
fn estimate(plan: &Plan, runs: u32) -> Option<Estimate> {
    let further = without_auto_counts(plan).estimate()?;
    Some(plan.estimate()?.and(further.times(runs.saturating_sub(1))))
}

/// Measures runs and adds them to a file one by one, so that an interrupt loses only one.
struct Filling<'f> {
    plan: &'f Plan,
    output: &'f Output,
    shell: Shell,
}

impl Filling<'_> {
    fn fill(&self, mut baseline: Baseline, runs: u32) -> anyhow::Result<ExitCode> {
        let uncounted = without_auto_counts(self.plan);
        for run in 1..=runs {
            if !self.shell.printer.quiet {
                files::write_error(&format!("loadline: run {run} of {runs}"));
            }
            let plan = if run == 1 { self.plan } else { &uncounted };
            let record = session::measure(plan, &self.shell)?.whole()?;
            if record.run.cut_short {
                return Ok(Exit::Interrupted.into());
            }
            recording::refuse_errors(&record)?;
            take(&mut baseline, &record)?;
            self.output.write(&json_of(&baseline)?)?;
        }
        if !self.shell.printer.quiet {
            files::print(&loadline_report::baseline(&baseline))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Adds the run of `record`; the first run determines the environment.
fn take(baseline: &mut Baseline, record: &Record) -> Result<(), Failure> {
    if baseline.runs.is_empty() {
        baseline.environment = record.environment.clone();
    }
    let run = BaselineRun::of_record(record).map_err(|error| judging::incomparable(&error))?;
    baseline
        .add(
            run,
            &record.environment,
            &plan::workload_hash(&record.run.plan),
        )
        .map_err(|error| judging::incomparable(&error))
}

fn json_of(baseline: &Baseline) -> Result<String, Failure> {
    baseline
        .to_json()
        .map_err(|error| Failure::new(Exit::Internal, error.to_string()))
}

/// The default target.
pub(super) fn default_target(around: &Surroundings) -> String {
    if around.has_redis_server {
        "spawn:redis-server".into()
    } else {
        "embedded".into()
    }
}

fn asked_runs(asked: Option<u32>, default: u32) -> Result<u32, Failure> {
    match asked.unwrap_or(default) {
        runs if runs > MOST_RUNS => Err(Failure::invalid(
            "--runs",
            "count",
            runs,
            format!("at most {MOST_RUNS}"),
        )),
        runs => Ok(runs),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn default_baseline_takes_a_minute() {
        let words = ["loadline", "baseline", "save", "file.json"];
        let Command::Baseline(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!("it is a baseline");
        };
        let BaselineCommand::Save(args) = args.command else {
            panic!("it is saved");
        };
        let plan = plan::resolve_run(args.measure, "embedded".into(), &surroundings()).unwrap();
        assert_eq!(plan.schedule.instructions, Instructions::Auto);
        let further = without_auto_counts(&plan);
        assert_eq!(further.schedule.instructions, Instructions::Off);
        let all = estimate(&plan, DEFAULT_RUNS).unwrap();
        assert!(all.most <= Duration::from_secs(60), "{all:?}");
        assert!(all.most > further.estimate().unwrap().most * DEFAULT_RUNS);
    }
}

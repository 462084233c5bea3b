//! `loadline baseline`: records what is normal here.

use std::process::ExitCode;

use loadline_measure::gate::{Baseline, BaselineRun};
use loadline_measure::record::Record;
use serde_json::json;

use super::joint::{self, Entered, Leader, Series};
use super::surroundings;
use crate::args::{
    BaselineAddArgs, BaselineArgs, BaselineCommand, BaselineSaveArgs, BaselineShowArgs,
    ConnectionArgs, DisplayArgs, Instructions, MeasureArgs,
};
use crate::commands::judging;
use crate::exit::{Exit, Failure};
use crate::files::{self, Output};
use crate::plan::{self, Estimate, Plan, SharedPlan, Surroundings};
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
    let connection = &args.measure.connection;
    let leader = match joint::enter_if_asked(&args.agents, connection, &args.display)? {
        Some(Entered::Agent(code)) => return Ok(code),
        Some(Entered::Leader(leader)) => Some(*leader),
        None => None,
    };
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
    let connection = args.measure.connection.clone();
    let plan = plan::resolve_run(args.measure, target.clone(), &around)?;
    let work = Work::of(leader, plan, &target, &args.agents.words, &connection)?;
    let limits = plan::limits(&args.limits, &work.plan)?;
    let mut description = work.plan.describe_with(&limits);
    if let Some((leader, _)) = &work.joint {
        leader.describe(&mut description);
    }
    description.section("Runs");
    description.line(format!("{runs}, each in new processes"));
    description.takes(estimate(&work.plan, runs));
    if args.plan.dry_run {
        files::print(&description.to_text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let described = work.plan.to_json();
    let mut kept = json!({ "arguments": work.words(args.agents.words), "resolved": described });
    if work.agents() > 0 {
        kept["agents"] = work.agents().into();
    }
    let baseline = Baseline::new(
        secret::redact_argument(&target),
        plan::workload_hash(&described, work.agents()),
        kept,
        crate::fingerprint::read(),
        limits,
    );
    Filling::start(work, &args.display, &output, runs)?.fill(baseline, runs)
}

fn add(args: &BaselineAddArgs) -> anyhow::Result<ExitCode> {
    let entered = joint::enter_if_asked(&args.agents, &ConnectionArgs::default(), &args.display)?;
    let leader = match entered {
        Some(Entered::Agent(code)) => return Ok(code),
        Some(Entered::Leader(leader)) => Some(*leader),
        None => None,
    };
    let runs = asked_runs(args.runs, 1)?;
    let baseline = files::read_baseline(&args.file)?;
    let work = work_of(
        leader,
        &baseline,
        args.target.as_deref(),
        &args.file.display(),
    )?;
    let output = Output::from(args.file.clone());
    output.check()?;
    Filling::start(work, &args.display, &output, runs)?.fill(baseline, runs)
}

fn show(args: &BaselineShowArgs) -> anyhow::Result<ExitCode> {
    let baseline = files::read_baseline(&args.file)?;
    files::print(&loadline_report::baseline(&baseline))?;
    Ok(ExitCode::SUCCESS)
}

/// The work of each run of a baseline.
pub(super) struct Work {
    /// The plan of this process.
    pub(super) plan: Plan,
    /// With `--agents`, the leader and the plan of all agents.
    pub(super) joint: Option<(Leader, SharedPlan)>,
}

impl Work {
    /// The work on `target` that a single load generator resolves as `plan`. The arguments `typed` are what was asked for.
    fn of(
        leader: Option<Leader>,
        plan: Plan,
        target: &str,
        typed: &[String],
        connection: &ConnectionArgs,
    ) -> Result<Self, Failure> {
        let Some(leader) = leader else {
            return Ok(Self { plan, joint: None });
        };
        leader.refuse_degraded("the runs of a baseline need the same load")?;
        let mut leader = leader.with_connection(connection);
        let words = [typed, &plan.joint_lengths(typed)].concat();
        let shared = leader.share(&[target.to_owned()], &words, &plan)?;
        let shared = shared.with_reference();
        Ok(Self {
            plan: leader.plan_of(&shared)?,
            joint: Some((leader, shared)),
        })
    }

    /// Number of agents; 0 for a single load generator.
    fn agents(&self) -> usize {
        let joint = self.joint.as_ref();
        joint.map_or(0, |(_, shared)| shared.agents as usize)
    }

    /// The arguments that lead to the same work on another machine; `typed` are what was asked for.
    fn words(&self, mut typed: Vec<String>) -> Vec<String> {
        if let Some((_, shared)) = &self.joint {
            let own: Vec<String> = typed.clone();
            let more = shared.words().iter().filter(|word| !own.contains(word));
            typed.extend(more.cloned());
            return typed;
        }
        typed.extend(self.plan.threads_word(&typed));
        typed
    }
}

/// The work in the baseline `file`, on its own target or another one, with as many agents as it was measured with.
///
/// # Errors
/// A bad file if the plan cannot be read or no longer resolves to the recorded workload, a usage error for another number
/// of agents, and those of [`plan::resolve_run`].
pub(super) fn work_of(
    leader: Option<Leader>,
    baseline: &Baseline,
    target: Option<&str>,
    file: &dyn std::fmt::Display,
) -> Result<Work, Failure> {
    let agents = leader.as_ref().map(|leader| u64::from(leader.agents()));
    let Kept {
        target,
        words,
        connection,
        plan,
    } = kept(baseline, agents, target, file)?;
    let work = Work::of(leader, plan, &target, &words, &connection)?;
    if plan::workload_hash(&work.plan.to_json(), work.agents()) != baseline.workload_hash {
        return Err(Failure::new(
            Exit::Incomparable,
            format!(
                "{file}: its plan now resolves to a different workload; a workload file, a built-in workload or the number of cores has changed.\nSave a new baseline."
            ),
        ));
    }
    Ok(work)
}

/// The work of a baseline, as it was kept.
pub(super) struct Kept {
    pub(super) target: String,
    /// The arguments that say what is measured.
    pub(super) words: Vec<String>,
    connection: ConnectionArgs,
    /// The plan of a single load generator.
    pub(super) plan: Plan,
}

/// The work in the baseline `file`, on its own target or another one, for the number of load generators `given` with
/// `--agents`.
///
/// # Errors
/// A bad file if the plan cannot be read, a usage error for another number of agents, and those of [`plan::resolve_run`].
pub(super) fn kept(
    baseline: &Baseline,
    given: Option<u64>,
    target: Option<&str>,
    file: &dyn std::fmt::Display,
) -> Result<Kept, Failure> {
    let wrong = |why: &str| Failure::bad_file(format!("{file}: cannot use its plan: {why}"));
    let arguments = baseline.plan.get("arguments").cloned().unwrap_or_default();
    let words: Vec<String> = serde_json::from_value(arguments)
        .map_err(|_| wrong("its `arguments` are not a list of words."))?;
    let measure = MeasureArgs::from_words(&words).map_err(|why| wrong(&why))?;
    let agents = baseline
        .plan
        .get("agents")
        .and_then(serde_json::Value::as_u64);
    if agents != given {
        return Err(Failure::usage(match agents {
            Some(agents) => format!(
                "{file}: its runs are of {agents} agents together; give --agents {agents}, with --coordinator, --run and --secret-file."
            ),
            None => format!(
                "--agents: the runs of {file} are of a single load generator; save another baseline with --agents."
            ),
        }));
    }
    let target = target.unwrap_or(&baseline.target).to_owned();
    let connection = measure.connection.clone();
    let plan = plan::resolve_run(measure, target.clone(), &surroundings())?;
    Ok(Kept {
        target,
        words,
        connection,
        plan,
    })
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
    output: &'f Output,
    plan: Plan,
    shell: Shell,
    joint: Option<(Series, SharedPlan)>,
}

impl<'f> Filling<'f> {
    /// Starts to measure `runs` runs.
    fn start(
        work: Work,
        display: &DisplayArgs,
        output: &'f Output,
        runs: u32,
    ) -> anyhow::Result<Self> {
        let Work { plan, joint } = work;
        let shell = match joint {
            None => Shell::start(display)?,
            Some(_) => Shell::start_in_group(display)?,
        };
        shell.say_estimate(estimate(&plan, runs));
        let joint = match joint {
            None => None,
            Some((leader, shared)) => Some((leader.open(&plan, shell.clone())?, shared)),
        };
        Ok(Self {
            output,
            plan,
            shell,
            joint,
        })
    }

    fn fill(mut self, mut baseline: Baseline, runs: u32) -> anyhow::Result<ExitCode> {
        let filled = self.runs(&mut baseline, runs);
        if *self.output == Output::Stdout {
            // Once, with what there is.
            if !baseline.runs.is_empty() {
                self.output.write(&json_of(&baseline)?)?;
            }
        } else if !self.shell.printer.quiet && matches!(filled, Ok(true)) {
            files::print(&loadline_report::baseline(&baseline))?;
        }
        Ok(match filled? {
            true => ExitCode::SUCCESS,
            false => Exit::Interrupted.into(),
        })
    }

    /// Returns whether all runs were measured: an interrupt ends them.
    fn runs(&mut self, baseline: &mut Baseline, runs: u32) -> Result<bool, Failure> {
        let uncounted = without_auto_counts(&self.plan);
        for run in 1..=runs {
            if !self.shell.printer.quiet {
                files::write_error(&format!("loadline: run {run} of {runs}"));
            }
            let plan = if run == 1 { &self.plan } else { &uncounted };
            let record = match &mut self.joint {
                None => session::measure(plan, &self.shell)?.whole()?,
                Some((series, shared)) => series.measure(shared, run < runs)?,
            };
            if record.run.cut_short {
                joint::refuse_incomplete(&record)?;
                return Ok(false);
            }
            recording::refuse_errors(&record)?;
            take(baseline, &record)?;
            if *self.output != Output::Stdout {
                self.output.write(&json_of(baseline)?)?;
            }
        }
        Ok(true)
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
            &plan::workload_hash(&record.run.plan, record.agents.len()),
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

//! `loadline compare`: is B slower than A?

use std::path::Path;
use std::process::ExitCode;

use loadline_measure::gate::{self, BaselineRun, Judged, Thresholds};
use loadline_measure::{Limit, Record};

use super::joint::{self, Joint, Led, Together};
use super::surroundings;
use crate::args::{CompareArgs, ConnectionArgs};
use crate::commands::judging::{self, Answer};
use crate::exit::Failure;
use crate::files;
use crate::plan;
use crate::printer::Printer;
use crate::session::{self, Shell};
use crate::systems::servers;

/// The name of the command in its last line.
const NAME: &str = "compare";

pub(super) fn run(args: CompareArgs) -> anyhow::Result<ExitCode> {
    let Some(b) = &args.b else {
        return targets(args);
    };
    match (is_record(&args.a), is_record(b)) {
        (true, true) if args.agents.agents.is_some() => Err(Failure::usage(
            "--agents: agents measure, and these are two records; name two running servers.",
        )
        .into()),
        (true, true) if args.like_config.is_none() => records(&args, b.as_ref()),
        (false, false) => targets(args),
        _ => Err(Failure::usage(format!(
            "compare {} {}: cannot compare a record with a target; name two records or two targets.",
            crate::secret::redact_argument(&args.a),
            crate::secret::redact_argument(b)
        ))
        .into()),
    }
}

/// Whether `text` names a file. Targets never end in `.json`.
pub(super) fn is_record(text: &str) -> bool {
    text.to_ascii_lowercase().ends_with(".json") || Path::new(text).is_file()
}

fn targets(args: CompareArgs) -> anyhow::Result<ExitCode> {
    if let Some(agents) = args.agents.agents {
        return together(agents, args);
    }
    let asked = args.judge.results.clone();
    let answer = Answer::new(NAME, &args.judge)?;
    let limits = args.judge.limits.clone();
    let thresholds = thresholds(&args);
    let mut plan = plan::resolve_compare(args, &surroundings())?;
    let limits = plan::limits(&limits, &plan)?;
    let Some(shell) = Shell::start_unless_dry(&asked.plan, &asked.display, &plan.describe())?
    else {
        return Ok(ExitCode::SUCCESS);
    };
    let copied = servers::copy_settings(&mut plan, &shell.control.interrupt)?;
    if !shell.printer.quiet {
        for sentence in &copied {
            files::write_error(&format!("loadline: {sentence}"));
        }
    }
    let mut recorded = session::measure(&plan, &shell)?;
    let record = &mut recorded.record;
    record.findings.extend(copied);
    if !record.run.cut_short {
        let judged = judge(record, &limits, &thresholds)?;
        judging::keep(record, judged);
    }
    Ok(answer.give(record, recorded.broken, &shell.printer)?)
}

/// The comparison of two running targets by several agents.
fn together(agents: u32, args: CompareArgs) -> anyhow::Result<ExitCode> {
    refuse_started(&args)?;
    let answer = Answer::new(NAME, &args.judge)?;
    let thresholds = thresholds(&args);
    let (results, limits) = (args.judge.results.clone(), args.judge.limits.clone());
    let targets: Vec<String> = [&args.a].into_iter().chain(&args.b).cloned().collect();
    let (asked, measure) = (args.agents.clone(), &args.measure);
    let connection: ConnectionArgs = measure.connection.clone();
    let plan = plan::resolve_compare(args, &surroundings())?;
    let words = [&asked.words[..], &plan.joint_lengths(&asked.words)].concat();
    let joint = Joint {
        agents: &asked,
        connection: &connection,
        limits: &limits,
        results: &results,
        targets: &targets,
        words: &words,
        plan: &plan,
    };
    let Together {
        mut record,
        limits,
        printer,
    } = match joint::lead(agents, &joint)? {
        Led::Ended(code) => return Ok(code),
        Led::Measured(together) => *together,
    };
    if !record.run.cut_short {
        let judged = judge(&record, &limits, &thresholds)?;
        judging::keep(&mut record, judged);
    }
    Ok(answer.give(&record, None, &printer)?)
}

/// Refuses what agents cannot do, because they start no servers.
///
/// # Errors
/// A usage error.
pub(super) fn refuse_started(args: &CompareArgs) -> Result<(), Failure> {
    let other = match (&args.like_config, &args.work.profile) {
        (Some(_), _) => Some("--like-config starts servers"),
        (None, Some(_)) => Some("--profile counts instructions of servers that Loadline starts"),
        (None, None) => None,
    };
    if let Some(other) = other {
        return Err(Failure::usage(format!(
            "--agents: agents measure running servers, and {other}; leave it out."
        )));
    }
    Ok(())
}

fn thresholds(args: &CompareArgs) -> Thresholds {
    Thresholds {
        work: args.work.rules(),
        ..Thresholds::default()
    }
}

/// Judges the pairs of the record, and the limits for B, whose cases come last.
fn judge(record: &Record, limits: &[Limit], thresholds: &Thresholds) -> Result<Judged, Failure> {
    let mut judgement = Judged::of_comparisons(record, thresholds);
    if let (false, Some(last)) = (limits.is_empty(), record.cases.last()) {
        let judged = judging::of_subject(record, &last.subject.name);
        let run = BaselineRun::of_record(&judged).map_err(|error| judging::incomparable(&error))?;
        judgement.keep(gate::limits_of_run(&run, None, limits));
    }
    Ok(judgement)
}

fn records(args: &CompareArgs, b: &Path) -> anyhow::Result<ExitCode> {
    let printer = Printer::new(&args.judge.results.display);
    let answer = Answer::new(NAME, &args.judge)?;
    answer.spare(args.a.as_ref())?;
    answer.spare(b)?;
    let (a, mut b) = (files::read_record(args.a.as_ref())?, files::read_record(b)?);
    let judged = gate::records::judge(&a, &b, &args.work.rules());
    judging::keep(&mut b, judged);
    Ok(answer.give(&b, None, &printer)?)
}

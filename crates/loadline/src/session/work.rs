//! Instructions per operation, counted after the timed rounds on servers of their own.

use std::path::Path;
use std::time::{Duration, Instant};

use loadline_load::Control;
use loadline_measure::record::Record;
use loadline_measure::work::{self, Pass, Source, Work};
use sha1_smol::Sha1;

use super::Session;
use crate::args::Instructions;
use crate::exit::Failure;
use crate::files::find_program;
use crate::fingerprint;
use crate::plan::{Case, Plan, case_name};
use crate::progress::Progress;
use crate::subjects::{self, Counted};
use crate::target::Target;
use crate::targets::Opened;
use crate::targets::callgrind::Callgrind;
use crate::targets::servers::has_fixed_random;

/// Passes per side: the least that show their spread.
const PASSES: usize = work::LEAST_PASSES;
/// Passes per side at most: now and then one has a turn of the server's event loop too many.
const MOST_PASSES: usize = 8;
/// Processes per side if every process has random numbers of its own, one pass each.
const PROCESSES: usize = 6;
/// No further case is counted after this long, unless counts were asked for.
const BUDGET: Duration = Duration::from_secs(8);

/// Counts what every case of the plan executes on every server that can be started for it, and adds that to the cases
/// of the record.
///
/// # Errors
/// If counts were asked for and valgrind is missing. Everything else that goes wrong is a sentence in the record: the
/// times are measured by then.
pub(super) fn count(session: &mut Session<'_>, progress: &Progress) -> Result<(), Failure> {
    let (plan, control) = (session.plan, &*session.shell.control);
    let record = &mut session.record;
    let is_asked = match plan.schedule.instructions {
        Instructions::Off => return Ok(()),
        Instructions::Auto => false,
        Instructions::Valgrind => true,
    };
    let cases: Vec<&Case> = plan
        .cases
        .iter()
        .filter(|case| subjects::can_count(case))
        .collect();
    let can_start = |target: &Target| {
        matches!(
            target,
            Target::Embedded | Target::Slowed(_) | Target::Spawn(_)
        )
    };
    if cases.is_empty() || control.interrupted() {
        return Ok(());
    }
    if !plan.targets.iter().all(can_start) {
        record.not_counted = Some(
            "Instructions per operation were not counted: valgrind counts only servers that Loadline starts (spawn:PROGRAM, embedded)."
                .to_owned(),
        );
        return Ok(());
    }
    let Some(callgrind) = Callgrind::find()? else {
        let missing = "Instructions per operation were not counted: valgrind is not on PATH. Install the package `valgrind`.";
        if is_asked {
            return Err(Failure::unavailable(missing));
        }
        record.not_counted = Some(missing.to_owned());
        return Ok(());
    };
    drop(callgrind);
    let counting = Counting {
        plan,
        names: &session.names,
        control,
        progress,
        deadline: (!is_asked).then(|| Instant::now() + BUDGET),
    };
    if let Err(failure) = counting.all(&cases, record) {
        record.not_counted = Some(format!(
            "Instructions per operation were not counted: {failure}"
        ));
    }
    Ok(())
}

struct Counting<'c> {
    plan: &'c Plan,
    names: &'c [String],
    control: &'c Control,
    progress: &'c Progress,
    deadline: Option<Instant>,
}

/// A server in the simulator.
struct Side {
    callgrind: Callgrind,
    opened: Opened,
    fixed_randomness: bool,
}

impl Counting<'_> {
    fn all(&self, cases: &[&Case], record: &mut Record) -> Result<(), Failure> {
        self.progress.say("counting instructions");
        let mut works: Vec<Vec<Work>> = Vec::new();
        let mut processes = 0;
        loop {
            let mut sides = self.start()?;
            processes += 1;
            let fixed = sides.iter().all(|side| side.fixed_randomness);
            for (index, case) in cases.iter().enumerate() {
                if self.is_over() {
                    break;
                }
                let counted = self.case(case, &mut sides, if fixed { PASSES } else { 1 })?;
                match works.get_mut(index) {
                    Some(works) => join(works, counted),
                    None => works.push(counted),
                }
            }
            if fixed || processes == PROCESSES || self.is_over() {
                break;
            }
        }
        for (case, works) in cases.iter().zip(works) {
            self.keep(case, works, record);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let is_late = self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline);
        is_late || self.control.interrupted()
    }

    /// Every target, started in the simulator.
    fn start(&self) -> Result<Vec<Side>, Failure> {
        let plan = Plan {
            latency: Duration::ZERO,
            ..self.plan.clone()
        };
        self.plan
            .targets
            .iter()
            .map(|target| {
                let callgrind = Callgrind::find()?.ok_or_else(|| {
                    Failure::unavailable("valgrind was on PATH a moment ago and is not any more.")
                })?;
                let opened = Opened::open_under(target, &plan, self.control, Some(&callgrind))?;
                let mut children = opened.children().into_iter();
                let fixed_randomness = children.all(has_fixed_random);
                Ok(Side {
                    callgrind,
                    opened,
                    fixed_randomness,
                })
            })
            .collect()
    }

    /// The passes of `case`, the sides in turn.
    fn case(&self, case: &Case, sides: &mut [Side], passes: usize) -> Result<Vec<Work>, Failure> {
        self.progress
            .say(&format!("{}: counting instructions", case.name));
        let mut counted = Vec::new();
        let mut works = Vec::new();
        for side in sides.iter() {
            let Some(one) = Counted::open(&side.opened, case)? else {
                return Err(Failure::unavailable("a target is no server of this run."));
            };
            counted.push(one);
            works.push(side.work()?);
        }
        let is_settled = |works: &[Work]| works.iter().all(|work| work.estimate().is_ok());
        for pass in 0..MOST_PASSES {
            let is_enough = pass >= passes && (passes < PASSES || is_settled(&works));
            // A case that was begun gets the passes that its spread needs.
            if is_enough || (pass >= passes && self.is_over()) || self.control.interrupted() {
                break;
            }
            for ((side, one), work) in sides.iter_mut().zip(&mut counted).zip(&mut works) {
                let (counts, profile) = one.pass(&mut side.callgrind)?;
                let per_op = counts.instructions_per_op().unwrap_or(f64::INFINITY);
                let known = work.passes.iter().flat_map(Pass::instructions_per_op);
                // The functions of the lowest pass, which the estimate goes by.
                if known.fold(f64::INFINITY, f64::min) >= per_op {
                    work.functions = work::per_operation(&profile, counts.ops);
                }
                work.passes.push(counts);
            }
        }
        Ok(works)
    }

    fn keep(&self, case: &Case, works: Vec<Work>, record: &mut Record) {
        let name = case_name(case, self.plan);
        for (work, subject) in works.into_iter().zip(self.names) {
            let mut entries = record.cases.iter_mut();
            let entry =
                entries.find(|entry| entry.subject.name == *subject && entry.name() == name);
            if let Some(entry) = entry {
                entry.work = Some(work);
            }
        }
    }
}

impl Side {
    /// Work without passes.
    fn work(&self) -> Result<Work, Failure> {
        Ok(Work {
            source: Source::Callgrind,
            tool: self.callgrind.version()?,
            cpu: fingerprint::instruction_set(),
            executable_sha1: executable(&self.opened.target).and_then(|path| digest(&path)),
            fixed_randomness: self.fixed_randomness,
            passes: Vec::new(),
            functions: Vec::new(),
        })
    }
}

/// Adds the passes of further processes.
fn join(works: &mut [Work], more: Vec<Work>) {
    for (work, more) in works.iter_mut().zip(more) {
        work.passes.extend(more.passes);
        work.functions = more.functions;
    }
}

fn executable(target: &Target) -> Option<std::path::PathBuf> {
    match target {
        Target::Spawn(program) => find_program(program),
        Target::Embedded | Target::Slowed(_) => std::env::current_exe().ok(),
        _ => None,
    }
}

fn digest(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    Some(Sha1::from(bytes).digest().to_string())
}

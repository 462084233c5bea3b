//! Instructions per operation, counted after the timed rounds: of servers in separate processes, or of clients.

mod clients;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{panic, thread};

use loadline_load::Control;
use loadline_measure::record::Record;
use loadline_measure::work::callgrind::Profile;
use loadline_measure::work::{self, Pass, Source, Work};
use sha1_smol::Sha1;

use super::{Session, Shell};
use crate::exit::Failure;
use crate::files::find_program;
use crate::fingerprint;
use crate::plan::{Case, Plan, case_name};
use crate::progress::Progress;
use crate::spelling::Target;
use crate::subjects::{self, Counted};
use crate::systems::Opened;
use crate::systems::callgrind::{Callgrind, MISSING};
use crate::systems::servers::has_fixed_random;

pub(crate) use clients::count as count_clients;

/// Passes per side: the minimum that shows their spread.
const PASSES: usize = work::LEAST_PASSES;
/// Largest number of passes per side: now and then a pass has an additional iteration of the server's event loop.
const MOST_PASSES: usize = 8;
/// Processes per side if every process has different random numbers, one pass each.
const PROCESSES: usize = 6;
/// After this time, no further case or call mode is counted, unless counts were requested.
const BUDGET: Duration = Duration::from_secs(8);

/// Counts the instructions of every case of the plan on every server that can be started for it, and adds them to
/// the cases of the record.
///
/// # Errors
/// If counts were requested and valgrind is missing. Every other problem becomes a sentence in the record, because
/// the times have already been measured.
pub(super) fn count(session: &mut Session<'_>, progress: &Progress) -> Result<(), Failure> {
    let (plan, control) = (session.plan, &*session.shell.control);
    let record = &mut session.record;
    let Some(is_asked) = plan.schedule.instructions.is_asked() else {
        return Ok(());
    };
    let cases: Vec<&Case> = plan
        .cases
        .iter()
        .filter(|case| subjects::can_count(case))
        .collect();
    if cases.is_empty() || control.interrupted() {
        return Ok(());
    }
    if !plan.targets.iter().all(Target::is_started) {
        record.not_counted = Some(
            "Instructions per operation were not counted: valgrind counts only servers that Loadline starts. To count one with the settings of a running server, use `compare TARGET --like-config NAME=VALUE`, or start it from its configuration file: spawn:redis-server?config=FILE."
                .to_owned(),
        );
        return Ok(());
    }
    if !can_count(is_asked, record)? {
        return Ok(());
    }
    let counting = Counting {
        plan,
        control,
        progress,
        deadline: (!is_asked).then(|| Instant::now() + BUDGET),
    };
    match counting.all(&cases) {
        Ok(works) => {
            let names = cases.iter().map(|case| case_name(case, plan));
            let names: Vec<String> = names.collect();
            record.not_counted = left_out(&names[works.len().min(names.len())..]);
            for (name, works) in names.iter().zip(works) {
                keep(name, &session.names, works, record);
            }
        }
        Err(failure) => {
            record.not_counted = Some(format!(
                "Instructions per operation were not counted: {failure}"
            ));
        }
    }
    Ok(())
}

/// The sentence about cases that the time for counting did not suffice for; `None` without such cases.
fn left_out(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| {
        format!(
            "Instructions per operation of {} were not counted: the time for counting ({} s) was over. Use --instructions valgrind to count them all.",
            names.join(", "),
            BUDGET.as_secs()
        )
    })
}

/// Whether valgrind is installed; if not, the record says so.
///
/// # Errors
/// If it is missing, and counts were requested.
fn can_count(is_asked: bool, record: &mut Record) -> Result<bool, Failure> {
    let can = Callgrind::is_installed();
    if !can {
        if is_asked {
            return Err(Failure::unavailable(MISSING));
        }
        record.not_counted = Some(MISSING.to_owned());
    }
    Ok(can)
}

/// Counts the first case of `plan` on every target, without measuring times. Must be called on the main thread,
/// because servers are started.
///
/// # Errors
/// If valgrind is missing, a server does not start, or its counts cannot be read.
pub(crate) fn first_case(plan: &Plan, shell: &Shell) -> Result<Vec<Work>, Failure> {
    let counting = Counting {
        plan,
        control: &shell.control,
        progress: &Progress::start(&shell.printer, 0),
        deadline: None,
    };
    let cases: Vec<&Case> = plan.cases.iter().take(1).collect();
    let mut works = counting.all(&cases)?;
    works.pop().ok_or_else(|| {
        Failure::unavailable("Instructions per operation were not counted: interrupted.")
    })
}

struct Counting<'c> {
    plan: &'c Plan,
    control: &'c Control,
    progress: &'c Progress,
    deadline: Option<Instant>,
}

/// A server in the simulator.
struct Side {
    /// Letter of the target in file names.
    letter: char,
    callgrind: Callgrind,
    opened: Opened,
    fixed_randomness: bool,
}

impl Counting<'_> {
    /// The work of every case, by target, until the deadline.
    ///
    /// Each target has a thread, so that with two CPUs, two targets take no longer than one.
    fn all(&self, cases: &[&Case]) -> Result<Vec<Vec<Work>>, Failure> {
        self.progress.say("counting instructions");
        let sides = thread::scope(|scope| {
            let sides = ('A'..='Z').zip(&self.plan.targets);
            let threads: Vec<_> = sides
                .map(|(letter, target)| scope.spawn(move || self.side(letter, target, cases)))
                .collect();
            let joined = threads.into_iter().map(|thread| {
                let side = thread.join();
                side.unwrap_or_else(|panicked| panic::resume_unwind(panicked))
            });
            joined.collect::<Result<Vec<Vec<Work>>, Failure>>()
        })?;
        let counted = sides.iter().map(Vec::len).min().unwrap_or(0);
        let of_case = |case: usize| sides.iter().map(|works| works[case].clone()).collect();
        Ok((0..counted).map(of_case).collect())
    }

    fn is_over(&self) -> bool {
        let is_late = self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline);
        is_late || self.control.interrupted()
    }

    /// The work of one target in every case, until the deadline.
    fn side(&self, letter: char, target: &Target, cases: &[&Case]) -> Result<Vec<Work>, Failure> {
        let mut works: Vec<Work> = Vec::new();
        for _ in 0..PROCESSES {
            // The kernel ends a child process with the thread that started it, which is this one.
            let mut side = self.start(letter, target)?;
            let fixed = side.fixed_randomness;
            for (index, case) in cases.iter().enumerate() {
                // The first case is counted in any case: a server in the simulator can take that long to start.
                let is_first = index == 0 && works.is_empty();
                if self.control.interrupted() || (self.is_over() && !is_first) {
                    break;
                }
                let counted = self.case(case, &mut side, if fixed { PASSES } else { 1 })?;
                match works.get_mut(index) {
                    Some(work) => join(work, counted),
                    None => works.push(counted),
                }
            }
            if fixed || self.is_over() {
                break;
            }
        }
        Ok(works)
    }

    /// A target, started in the simulator.
    fn start(&self, letter: char, target: &Target) -> Result<Side, Failure> {
        let plan = Plan {
            latency: Duration::ZERO,
            ..self.plan.clone()
        };
        let callgrind = Callgrind::new()?;
        let opened = Opened::open_under(target, &plan, self.control, Some(&callgrind))?;
        let mut children = opened.children().into_iter();
        let fixed_randomness = children.all(has_fixed_random);
        Ok(Side {
            letter,
            callgrind,
            opened,
            fixed_randomness,
        })
    }

    /// The passes of `case` on one side, until they agree.
    fn case(&self, case: &Case, side: &mut Side, passes: usize) -> Result<Work, Failure> {
        let Some(mut counted) = Counted::open(&side.opened, case)? else {
            return Err(Failure::unavailable(
                "a target is not a server that this run started.",
            ));
        };
        let mut work = side.work()?;
        for pass in 0..MOST_PASSES {
            let is_enough = pass >= passes && (passes < PASSES || is_settled(&work));
            // A case in progress gets the passes that its spread needs, even after the deadline.
            if is_enough || (pass >= passes && self.is_over()) || self.control.interrupted() {
                break;
            }
            let (counts, profile) = counted.pass(&mut side.callgrind)?;
            self.keep_profile(side, case, pass)?;
            add(&mut work, counts, &profile);
        }
        Ok(work)
    }

    /// Copies the profile of the last pass of `side` into the directory for profiles, if there is one. The file
    /// name starts with the prefix that viewers expect.
    fn keep_profile(&self, side: &Side, case: &Case, pass: usize) -> Result<(), Failure> {
        let Some(dir) = &self.plan.profiles else {
            return Ok(());
        };
        let letter = side.letter;
        let names = [&side.opened.name, &case.name].map(|name| file_name(name));
        let pass = pass + 1;
        let name = format!("callgrind.out.{letter}.{}.{}.{pass}", names[0], names[1]);
        side.callgrind.keep_last(&dir.join(name))
    }
}

/// Whether the passes agree.
fn is_settled(work: &Work) -> bool {
    work.estimate().is_ok()
}

/// Adds a pass. If it is the lowest one so far, which the estimate uses, its functions replace those of earlier
/// passes.
fn add(work: &mut Work, counts: Pass, profile: &Profile) {
    let per_op = counts.instructions_per_op().unwrap_or(f64::INFINITY);
    let known = work.passes.iter().flat_map(Pass::instructions_per_op);
    if known.fold(f64::INFINITY, f64::min) >= per_op {
        work.functions = work::per_operation(profile, counts.ops);
        work.frames = work::tree(profile, counts.ops);
    }
    work.passes.push(counts);
}

/// Replaces the characters that a file name cannot or should not have.
fn file_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let plain = name.chars().map(|c| if is_plain(c) { c } else { '_' });
    plain.collect()
}

/// Adds the work of a case to its entries in the record, one per subject.
fn keep(case: &str, subjects: &[String], works: Vec<Work>, record: &mut Record) {
    for (work, subject) in works.into_iter().zip(subjects) {
        let mut entries = record.cases.iter_mut();
        let entry = entries.find(|entry| entry.subject.name == *subject && entry.name() == case);
        if let Some(entry) = entry {
            entry.work = Some(work);
        }
    }
}

impl Side {
    /// Work without passes.
    fn work(&self) -> Result<Work, Failure> {
        Ok(Work {
            fixed_randomness: self.fixed_randomness,
            ..uncounted(&self.callgrind, executable(&self.opened.target))?
        })
    }
}

/// Work of an executable without passes.
fn uncounted(callgrind: &Callgrind, executable: Option<PathBuf>) -> Result<Work, Failure> {
    Ok(Work {
        source: Source::Callgrind,
        tool: callgrind.version()?,
        cpu: fingerprint::instruction_set(),
        executable_sha1: executable.and_then(|path| digest(&path)),
        fixed_randomness: false,
        passes: Vec::new(),
        functions: Vec::new(),
        frames: Vec::new(),
    })
}

/// Adds the passes of another process.
fn join(work: &mut Work, more: Work) {
    work.passes.extend(more.passes);
    work.functions = more.functions;
    work.frames = more.frames;
}

fn executable(target: &Target) -> Option<PathBuf> {
    match target {
        Target::Spawn(program) => find_program(&program.path),
        Target::Embedded | Target::Slowed(_) => std::env::current_exe().ok(),
        _ => None,
    }
}

fn digest(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    Some(Sha1::from(bytes).digest().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_without_a_count_are_named() {
        assert_eq!(left_out(&[]), None);
        let note = left_out(&["get".to_owned(), "set".to_owned()]).unwrap();
        assert!(
            note.starts_with("Instructions per operation of get, set were not counted: the time"),
            "{note}"
        );
    }
}

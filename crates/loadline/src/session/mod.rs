//! The common steps of every command that measures. They open the targets of a plan and describe them in a
//! record, let the command measure, always remove the keys of the run, and complete the record. [`finish()`]
//! then prints and writes the record.

mod finish;
pub(crate) mod group;
mod rounds;
mod tally;
mod work;

use std::sync::Arc;
use std::time::Instant;

use loadline_load::Control;
use loadline_load::group::Live;
use loadline_measure::doctor::{self, Observed, Setup};
use loadline_measure::record::{Record, Run};
use loadline_report::findings;

use crate::args::{DisplayArgs, PlanArgs};
use crate::competition;
use crate::descriptors;
use crate::diagnosis;
use crate::exit::Failure;
use crate::files;
use crate::fingerprint;
use crate::interrupt::interrupt;
use crate::pinning::Pinning;
use crate::plan::{self, Description, Estimate, Placement, Plan};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::recording;
use crate::secret;
use crate::subjects;
use crate::systems::Opened;

use group::Group;

pub(crate) use finish::{Ending, Results, execute, finish};
pub(crate) use rounds::{measure, measure_stages};
pub(crate) use work::{count_clients, first_case as count_first_case};

/// The connection of a measuring command to its user: output and interrupts.
#[derive(Debug, Clone)]
pub(crate) struct Shell {
    pub(crate) printer: Printer,
    pub(crate) control: Arc<Control>,
    /// The group of load generators that the run belongs to.
    pub(crate) group: Option<Arc<Group>>,
}

impl Shell {
    /// Examines the terminal, and catches the signals that end a run.
    ///
    /// # Errors
    /// If the operating system refuses to catch signals.
    pub(crate) fn start(display: &DisplayArgs) -> anyhow::Result<Self> {
        Ok(Self {
            printer: Printer::new(display),
            control: Arc::new(Control {
                interrupt: interrupt()?,
                ..Control::default()
            }),
            group: None,
        })
    }

    /// Starts, and prints how long the plan takes; unless only the plan is asked for, which is then printed.
    ///
    /// # Errors
    /// Those of [`Self::start`], and if standard output cannot be written.
    pub(crate) fn start_unless_dry(
        asked: &PlanArgs,
        display: &DisplayArgs,
        plan: &Description,
    ) -> anyhow::Result<Option<Self>> {
        if asked.dry_run {
            files::print(&plan.to_text())?;
            return Ok(None);
        }
        let shell = Self::start(display)?;
        shell.say_estimate(plan.estimate());
        Ok(Some(shell))
    }

    /// Prints how long a command takes, if it is known, and unless nothing but results is wanted.
    pub(crate) fn say_estimate(&self, estimate: Option<Estimate>) {
        if let Some(estimate) = estimate.filter(|_| !self.printer.quiet) {
            let takes = estimate.sentence_beside(competition::slowdown);
            files::write_error(&format!("loadline: {takes}"));
        }
    }

    /// The same without progress and tables, for a run that is part of another one.
    pub(crate) fn quietly(&self) -> Self {
        Self {
            printer: self.printer.quietly(),
            control: Arc::clone(&self.control),
            group: self.group.clone(),
        }
    }

    /// A shell for a run in a group, whose results are read while it measures.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    pub(crate) fn start_in_group(display: &DisplayArgs) -> anyhow::Result<Self> {
        Ok(Self {
            control: Arc::new(Control {
                interrupt: interrupt()?,
                live: Some(Live::default()),
                ..Control::default()
            }),
            printer: Printer::new(display),
            group: None,
        })
    }

    /// Whether the user has interrupted the run.
    pub(crate) fn interrupted(&self) -> bool {
        self.control.interrupted()
    }
}

/// A run in progress.
pub(crate) struct Session<'s> {
    pub(crate) shell: &'s Shell,
    pub(crate) plan: &'s Plan,
    pub(crate) run_id: String,
    pub(crate) record: Record,
    /// Separate CPUs for servers and generator, if the plan requests them.
    pub(crate) pinning: Option<Pinning>,
    /// The names of the targets in reports.
    names: Vec<String>,
    was_opened: bool,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// All measurements.
    pub(crate) record: Record,
    /// The failure that ended the run early, other than an interrupt.
    pub(crate) broken: Option<Failure>,
}

impl Recorded {
    /// Whether part of the plan was not measured.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.broken.is_some() || self.record.run.cut_short
    }

    /// Adds failed operations to the reasons why the run failed.
    pub(crate) fn refuse_errors(mut self) -> Self {
        self.broken = self
            .broken
            .or_else(|| recording::refuse_errors(&self.record).err());
        self
    }

    /// The record of a run that only an interrupt can have ended early.
    ///
    /// # Errors
    /// The failure that ended it.
    pub(crate) fn whole(self) -> Result<Record, Failure> {
        match self.broken {
            None => Ok(self.record),
            Some(failure) => Err(failure),
        }
    }
}

/// Measures `plan` with `walk` and returns the record, with `described` as its plan. Must be called on the
/// main thread, because servers are started.
///
/// # Errors
/// The failure that ended `walk` before a case was recorded. With a case, the record is returned with the
/// failure.
pub(crate) fn record<'s>(
    shell: &'s Shell,
    plan: &'s Plan,
    described: serde_json::Value,
    walk: impl FnOnce(&mut Session<'s>) -> Result<(), Failure>,
) -> Result<Recorded, Failure> {
    let begun = Instant::now();
    make_room(plan)?;
    make_profiles(plan)?;
    let run_id = match &shell.group {
        Some(group) => group.id().own_run.clone(),
        None => plan::new_run_id(),
    };
    let header = header(&run_id, plan.seed, described);
    let mut session = Session {
        shell,
        plan,
        run_id,
        record: Record::new(header, fingerprint::read()),
        // Before a target is opened: its processes get their CPU, which no thread of ours can use.
        pinning: match plan.schedule.placement {
            Placement::Pinned => Pinning::start(),
            Placement::Free => None,
        },
        names: Vec::new(),
        was_opened: false,
    };
    let broken = walk(&mut session).err();
    let mut record = session.record;
    let broken = match broken {
        Some(failure) if record.cases.is_empty() && record.answer.is_in_cases() => {
            return Err(failure);
        }
        broken => broken,
    };
    fingerprint::noise(&mut record);
    record.run.agent = shell.group.as_ref().map(|group| group.describe());
    record.run.cut_short |= shell.interrupted();
    record.run.duration_ns = Some(crate::units::nanoseconds(begun.elapsed()));
    Ok(Recorded { record, broken })
}

/// The head of a record.
fn header(run_id: &str, seed: u64, plan: serde_json::Value) -> Run {
    Run {
        id: run_id.to_owned(),
        started_at: crate::units::now_text(),
        command: secret::command_line(std::env::args_os()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed,
        plan,
        cut_short: false,
        duration_ns: None,
        agent: None,
    }
}

/// Raises the limit of file descriptors for the connections of the largest case.
fn make_room(plan: &Plan) -> Result<(), Failure> {
    let connections = plan.cases.iter().map(|case| u64::from(case.connections));
    let most = connections.max().unwrap_or(0);
    descriptors::make_room(most * plan.targets.len() as u64)
}

/// Creates the directory for profiles before anything is measured.
fn make_profiles(plan: &Plan) -> Result<(), Failure> {
    let Some(dir) = &plan.profiles else {
        return Ok(());
    };
    std::fs::create_dir_all(dir)
        .map_err(|error| Failure::usage(format!("--profile {}: {error}.", dir.display())))
}

impl<'s> Session<'s> {
    /// Continues with the targets of `plan`, which are described and examined once they are open.
    fn turn_to(&mut self, plan: &'s Plan) {
        self.plan = plan;
        self.was_opened = false;
    }

    /// A progress bar of `steps` steps.
    pub(crate) fn progress(&self, steps: u64) -> Progress {
        Progress::start(&self.shell.printer, steps)
    }

    /// Opens the targets, examines their setup, and lets `walk` measure them. Keys are always removed.
    /// Targets that are opened again are described and examined only once.
    ///
    /// # Errors
    /// If a target cannot be opened or keys are left, and the errors of `walk`.
    pub(crate) fn with_targets(
        &mut self,
        walk: impl FnOnce(&mut Self, &mut [Opened]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let is_first = !self.was_opened;
        self.with_unexamined_targets(|session, opened| {
            if is_first {
                session.examine_setups(opened);
            }
            walk(session, opened)
        })
    }

    /// The same without examining the setups, for a walk that does so itself.
    ///
    /// # Errors
    /// Those of [`Self::with_targets`].
    pub(crate) fn with_unexamined_targets(
        &mut self,
        walk: impl FnOnce(&mut Self, &mut [Opened]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        // Measurements of earlier generations still have to be recorded, which needs open targets.
        let later = Control::default();
        let control = if self.was_opened {
            &later
        } else {
            &self.shell.control
        };
        let targets = self.plan.targets.iter();
        let mut opened = targets
            .map(|target| subjects::open(target, self.plan, control))
            .collect::<Result<Vec<Opened>, Failure>>()?;
        tell_apart(&mut opened);
        self.names = opened.iter().map(|target| target.name.clone()).collect();
        if let Some(pinning) = &self.pinning {
            let children = opened.iter().flat_map(Opened::children);
            children.for_each(|pid| pinning.keep(pid));
        }
        if !self.was_opened {
            self.describe(&mut opened);
        }
        self.was_opened = true;
        let result = walk(self, &mut opened);
        self.record.run.cut_short |= result.is_err();
        for target in &mut opened {
            recording::note_refusals(&mut self.record, target);
        }
        self.clean_up(&mut opened, result)
    }

    fn describe(&mut self, opened: &mut [Opened]) {
        let record = &mut self.record;
        for target in opened.iter_mut() {
            record.environment.servers.extend(target.environment());
        }
        record
            .findings
            .extend(opened.iter().filter_map(Opened::left_out));
        for link in opened.iter().filter_map(Opened::link) {
            record.doctor.extend(findings(doctor::examine_link(link)));
            record.links.push(link.clone());
        }
    }

    fn examine_setups(&mut self, opened: &mut [Opened]) {
        let setups: Vec<Setup> = opened
            .iter_mut()
            .map(|target| {
                let threads = self.plan.cases.iter().map(|case| target.threads(case));
                let threads = threads.max().unwrap_or(0);
                diagnosis::setup(target, &self.record.environment, threads)
            })
            .collect();
        // Findings about the machine can be known from an earlier stage.
        for finding in diagnosis::findings(&setups) {
            if !self.record.doctor.contains(&finding) {
                self.record.doctor.push(finding);
            }
        }
    }

    /// Removes the keys of the run. After an interrupt, a server that does not answer is given up.
    fn clean_up(
        &mut self,
        opened: &mut [Opened],
        result: Result<(), Failure>,
    ) -> Result<(), Failure> {
        if result.is_ok() && self.shell.interrupted() {
            let left = opened
                .iter_mut()
                .filter_map(|target| target.clean_up_soon(&self.run_id));
            self.record
                .findings
                .extend(left.map(|left| left.to_string()));
            return Ok(());
        }
        opened.iter_mut().fold(result, |result, target| {
            target.clean_up_after(&self.run_id, result)
        })
    }
}

/// Adds a letter to targets of the same name, for example when a server is compared with itself.
fn tell_apart(opened: &mut [Opened]) {
    let names: Vec<String> = opened.iter().map(|target| target.name.clone()).collect();
    for (target, letter) in opened.iter_mut().zip('A'..='Z') {
        if names.iter().filter(|name| **name == target.name).count() > 1 {
            target.name = format!("{} ({letter})", target.name);
        }
    }
}

/// Keeps the largest share of CPU time taken by the host during a case.
pub(crate) fn note_steal(record: &mut Record, machine: &Observed) {
    let noise = &mut record.environment.noise;
    noise.steal = noise
        .steal
        .into_iter()
        .chain(machine.steal)
        .reduce(f64::max);
}

//! Cases measured on all targets in interleaved rounds.

use std::time::Duration;

use loadline_load::runner::{self, Event, Measured, Rounds, Subject};
use loadline_measure::doctor::Observed;

use super::group::Block;
use super::tally::{Tally, are_precise};
use super::{Recorded, Session, Shell, note_steal, record, work};
use crate::exit::{Exit, Failure};
use crate::fingerprint;
use crate::plan::{Case, Plan, RoundsEnd};
use crate::progress::Progress;
use crate::recording;
use crate::subjects::{self, Reference, failure};
use crate::systems::{Opened, Watch};

/// Measures every case of `plan` on all of its targets.
///
/// # Errors
/// Those of [`record`].
pub(crate) fn measure(plan: &Plan, shell: &Shell) -> Result<Recorded, Failure> {
    let mut recorded = record(shell, plan, plan.to_json(), |session| {
        let progress = session.progress(blocks(plan));
        rounds(session, &progress)?;
        work::count(session, &progress)
    })?;
    let record = &mut recorded.record;
    let findings = loadline_report::case_findings(&record.cases);
    record.findings.extend(findings);
    Ok(recorded)
}

/// Measures the cases of each of `stages` on its own targets, in sequence, in a run described by `plan` and
/// `described`. Calls `then` after each stage, when its targets are closed, which takes as many steps of the progress as
/// `steps_then` states.
///
/// # Errors
/// Those of [`record`].
pub(crate) fn measure_stages<'s>(
    plan: &'s Plan,
    stages: &'s [Plan],
    described: serde_json::Value,
    shell: &'s Shell,
    steps_then: impl Fn(&Plan) -> u64,
    mut then: impl FnMut(&mut Session<'s>, &Progress) -> Result<(), Failure>,
) -> Result<Recorded, Failure> {
    record(shell, plan, described, |session| {
        let steps = |stage| blocks(stage) + steps_then(stage);
        let progress = session.progress(stages.iter().map(steps).sum());
        for stage in stages {
            if shell.interrupted() {
                break;
            }
            session.turn_to(stage);
            rounds(session, &progress)?;
            then(session, &progress)?;
        }
        progress.finish();
        Ok(())
    })
}

/// The largest number of blocks of a plan.
fn blocks(plan: &Plan) -> u64 {
    let subjects = plan.targets.len() + usize::from(plan.schedule.has_reference());
    (subjects * plan.cases.len()) as u64 * u64::from(plan.most_rounds())
}

/// Measures the cases of the session's plan, generation by generation.
fn rounds(session: &mut Session<'_>, progress: &Progress) -> Result<(), Failure> {
    let plan = session.plan;
    let mut tallies: Vec<Tally> = plan.cases.iter().map(|_| Tally::default()).collect();
    for generation in 0..plan.schedule.generations {
        if session.shell.interrupted() {
            break;
        }
        let done = session.with_targets(|session, opened| {
            let mut measuring = Measuring {
                session,
                progress,
                tallies: &mut tallies,
            };
            measuring.cases(generation, opened)
        });
        match done {
            // The record states that it was cut short, and has no cases.
            Err(failure) if failure.exit() == Exit::Interrupted => break,
            done => done?,
        }
    }
    Ok(())
}

/// A generation of rounds in progress.
struct Measuring<'r, 's> {
    session: &'r mut Session<'s>,
    progress: &'r Progress,
    /// The results so far, per case of the plan.
    tallies: &'r mut [Tally],
}

impl Measuring<'_, '_> {
    /// Runs this generation's rounds of every case. In the last one, or before the run ends early, the record
    /// is completed while the targets are open, because it queries them.
    fn cases(&mut self, generation: u32, opened: &mut [Opened]) -> Result<(), Failure> {
        let plan = self.session.plan;
        let is_last = generation + 1 == plan.schedule.generations;
        let mut result = Ok(());
        for (index, case) in plan.cases.iter().enumerate() {
            if result.is_ok() && !self.session.shell.interrupted() {
                result = self.case(index, case, generation, opened);
            }
            if is_last || result.is_err() || self.session.shell.interrupted() {
                self.add(index, case, opened)?;
            }
        }
        result
    }

    fn case(
        &mut self,
        index: usize,
        case: &Case,
        generation: u32,
        opened: &mut [Opened],
    ) -> Result<(), Failure> {
        let session = &self.session;
        let control = &session.shell.control;
        for target in opened.iter_mut() {
            self.progress
                .say(&format!("{}: loading {}", case.name, target.name));
            subjects::load(target, case, &session.run_id, session.plan.seed, control)?;
        }
        if control.interrupted() {
            return Ok(());
        }
        let watches: Vec<Watch> = opened.iter_mut().map(Opened::watch).collect();
        let machine = fingerprint::Counters::read();
        let (measured, broken) = self.rounds(index, case, generation, opened)?;
        let machine = machine.since();
        note_steal(&mut self.session.record, &machine);
        let declared = case.executes();
        let seen = |(target, watch): (&mut Opened, &Watch)| Observed {
            cpu_pressure: machine.cpu_pressure,
            steal: machine.steal,
            // A target that broke the run is not queried: it may not answer.
            ..match broken {
                None => target.seen_since(watch, &declared),
                Some(_) => Observed::default(),
            }
        };
        let around = opened.iter_mut().zip(&watches).map(seen).collect();
        self.tallies[index].join(measured, around, opened.len());
        broken.map_or(Ok(()), Err)
    }

    /// Measures a case, and returns the failure that ended its rounds early, other than an interrupt.
    fn rounds(
        &self,
        index: usize,
        case: &Case,
        generation: u32,
        opened: &[Opened],
    ) -> Result<(Vec<Measured>, Option<Failure>), Failure> {
        let session = &self.session;
        let plan = session.plan;
        let able = || opened.iter().filter(|target| target.can(case));
        let mut subjects = able()
            .map(|target| subjects::of(target, case, &session.run_id, plan.seed))
            .collect::<Result<Vec<_>, _>>()?;
        let mut names: Vec<&str> = able().map(|target| target.name.as_str()).collect();
        let targets = subjects.len();
        let group = session.shell.group.as_ref();
        // A group measures what all targets support.
        if targets == 0 || (group.is_some() && targets < opened.len()) {
            let nothing = opened.iter().map(|_| Measured::default());
            return Ok((nothing.collect(), None));
        }
        if plan.schedule.has_reference() {
            subjects.push(Box::new(Reference::open(case, session.pinning.as_ref())?));
            names.push("the reference");
        }
        let (first, last) = plan.rounds_of(generation);
        let order = group.map_or(plan.seed, |group| group.id().order);
        let rounds = Rounds {
            stops: (first..last).map(|round| plan.block(case, round)).collect(),
            warmup: if case.warms_up() {
                plan.warmup
            } else {
                Duration::ZERO
            },
            order: order.wrapping_add(u64::from(generation)),
            seed: plan.seed.wrapping_add(u64::from(generation)),
        };
        let mut subjects: Vec<&mut dyn Subject> = subjects
            .iter_mut()
            .map(|subject| &mut **subject as &mut dyn Subject)
            .collect();
        self.progress
            .say(&format!("{}: measuring {}", case.name, names.join(" and ")));
        let before = &self.tallies[index];
        let ran = runner::run(
            &mut subjects,
            &rounds,
            &session.shell.control,
            &mut |event| {
                self.gather(event, index, targets);
                self.show(event, case, &names, first);
            },
            &|measured| {
                (last > plan.rounds && before.is_enough(measured, plan))
                    || (plan.schedule.end == RoundsEnd::OncePrecise
                        && are_precise(&measured[..targets]))
            },
        );
        if let Some(live) = &session.shell.control.live {
            live.measure(false);
        }
        let (measured, broken) = match ran {
            Ok(measured) => (measured, None),
            Err(broken) => {
                let why = failure(&case.name, &broken.error);
                (broken.measured, Some(why))
            }
        };
        Ok((with_gaps(measured, opened, case), broken))
    }

    /// In a group, makes the first block of a case start together with those of the other load generators, or each block if
    /// there are others between them. The reference, which comes after the `targets`, is each load generator's own.
    fn gather(&self, event: Event, case: usize, targets: usize) {
        let shell = self.session.shell;
        let Event::Begin { round, subject } = event else {
            return;
        };
        let is_reference = subject >= targets;
        if let Some(live) = shell.control.live.as_ref().filter(|_| is_reference) {
            live.measure(false);
        }
        let is_start = !is_reference && (round == 0 || self.session.plan.starts_by_block());
        if let Some(group) = shell.group.as_ref().filter(|_| is_start) {
            let id = group.id();
            let plan = self.session.plan;
            let offset = plan.cases[case].offset_of(id.rank, id.agents);
            let first = plan.starts_before(case);
            let block = Block {
                case,
                round,
                target: subject,
            };
            group.await_start(block, first, offset, &shell.control);
            if let Some(live) = &shell.control.live {
                live.measure(true);
            }
        }
    }

    fn show(&self, event: Event, case: &Case, names: &[&str], first: u32) {
        match event {
            Event::WarmUp { subject } => self
                .progress
                .begin(&format!("{}: {} is warmed up", case.name, names[subject])),
            Event::Begin { subject, round } => self.progress.begin(&format!(
                "{}: {}, round {} of {}",
                case.name,
                names[subject],
                first as usize + round + 1,
                self.session.plan.most_rounds()
            )),
            Event::End => self.progress.step(),
        }
    }

    /// Adds a case of all targets to the record, with their comparisons.
    fn add(&mut self, index: usize, case: &Case, opened: &[Opened]) -> Result<(), Failure> {
        let tally = std::mem::take(&mut self.tallies[index]);
        let plan = self.session.plan;
        // The parts of a group have the same cases in the same places, as far as each got.
        let lacks_one = tally.measured.iter().any(|of| of.blocks.is_empty());
        if self.session.shell.group.is_some() && lacks_one {
            return Ok(());
        }
        let record = &mut self.session.record;
        let first = record.cases.len();
        for ((target, measured), around) in opened.iter().zip(&tally.measured).zip(tally.around) {
            if measured.blocks.is_empty() {
                continue;
            }
            let mut entry = recording::case(case, plan, target, measured, &around);
            recording::refer(&mut entry, &tally.reference);
            record
                .doctor
                .extend(recording::examine(&entry, case, measured, around));
            record.cases.push(entry);
        }
        for b in first + 1..record.cases.len() {
            recording::compare(record, first, b)
                .map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
        }
        Ok(())
    }
}

/// The measurements of those of `targets` that support `case`, with empty ones for the others.
fn with_gaps(measured: Vec<Measured>, targets: &[Opened], case: &Case) -> Vec<Measured> {
    let mut measured = measured.into_iter();
    let mut all: Vec<Measured> = targets
        .iter()
        .map(|target| {
            let of_target = target.can(case).then(|| measured.next());
            of_target.flatten().unwrap_or_default()
        })
        .collect();
    // The reference comes last.
    all.extend(measured);
    all
}

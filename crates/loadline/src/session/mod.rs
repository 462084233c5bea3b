//! The walk that every measuring command takes: targets are opened, every case is measured on all of
//! them in interleaved rounds, and what was measured becomes the record. Keys are removed whatever
//! happens in between.

use std::time::{Duration, Instant};

use loadline_load::Control;
use loadline_load::outcome::Outcome;
use loadline_load::runner::{self, Event, Measured, Rounds, Subject};
use loadline_measure::compare;
use loadline_measure::doctor::{Evidence, Setup};
use loadline_measure::histogram::SAMPLES_BEYOND;
use loadline_measure::record::{Record, Run};

use crate::descriptors;
use crate::diagnosis;
use crate::exit::{Exit, Failure};
use crate::fingerprint;
use crate::pinning::Pinning;
use crate::plan::{self, Case, Plan};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::recording;
use crate::secret;
use crate::subjects::{self, Reference, failure};
use crate::targets::link;
use crate::targets::{Opened, Watch};

/// Measures what `plan` says and puts the record together. Must be called on the main thread, since
/// servers are started.
///
/// # Errors
/// That a target cannot be opened or is lost, or that keys could not be removed.
pub(crate) fn measure(
    plan: &Plan,
    printer: &Printer,
    control: &Control,
) -> Result<Record, Failure> {
    let begun = Instant::now();
    make_room(plan)?;
    let run_id = plan::new_run_id();
    let subjects = plan.targets.len() + usize::from(plan.schedule.reference);
    let blocks = subjects * plan.cases.len() * plan.most_rounds() as usize;
    let mut measuring = Measuring {
        plan,
        control,
        run_id: &run_id,
        progress: Progress::start(printer, blocks as u64),
        record: Record::new(
            header(&run_id, plan.seed, plan.to_json()),
            fingerprint::read(),
        ),
        pinning: plan.schedule.pinned.then(Pinning::start).flatten(),
        tallies: plan.cases.iter().map(|_| Tally::default()).collect(),
    };
    for generation in 0..plan.schedule.generations {
        if !control.interrupted() {
            measuring.generation(generation)?;
        }
    }
    let Measuring { mut record, .. } = measuring;
    fingerprint::noise(&mut record);
    record.run.cut_short = control.interrupted();
    record.run.duration_ns = Some(begun.elapsed().as_nanos() as u64);
    recording::conclude(&mut record);
    Ok(record)
}

/// What stands at the head of a record.
pub(crate) fn header(run_id: &str, seed: u64, plan: serde_json::Value) -> Run {
    Run {
        id: run_id.to_owned(),
        started_at: jiff::Timestamp::now().to_string(),
        command: secret::command_line(std::env::args_os()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed,
        plan,
        cut_short: false,
        duration_ns: None,
    }
}

/// Descriptors for the connections of the largest case.
fn make_room(plan: &Plan) -> Result<(), Failure> {
    let connections = plan.cases.iter().map(|case| u64::from(case.connections));
    let most = connections.max().unwrap_or(0);
    descriptors::make_room(most * plan.targets.len() as u64)
}

/// A run under way.
struct Measuring<'r> {
    plan: &'r Plan,
    control: &'r Control,
    run_id: &'r str,
    progress: Progress,
    record: Record,
    /// CPUs of their own for servers and generator, where the plan wants that.
    pinning: Option<Pinning>,
    /// What was measured so far, per case of the plan.
    tallies: Vec<Tally>,
}

/// What was measured of one case, over all generations.
#[derive(Default)]
struct Tally {
    /// Per target.
    measured: Vec<Measured>,
    /// What was seen beside the blocks, per target.
    around: Vec<Evidence>,
    /// The blocks of the reference, where there is one.
    reference: Vec<Outcome>,
}

impl Measuring<'_> {
    /// Opens the targets, runs this generation's rounds of every case, and closes them again. In the
    /// last one the record is completed while they are open: it asks them what they are.
    fn generation(&mut self, generation: u32) -> Result<(), Failure> {
        // What earlier generations measured is still to be written, which takes open targets.
        let (first, later) = (self.control, &Control::default());
        let control = if generation == 0 { first } else { later };
        let targets = self.plan.targets.iter();
        let opened: Result<Vec<Opened>, Failure> = targets
            .map(|target| subjects::open(target, self.plan, control))
            .collect();
        let mut opened = match opened {
            // The record says that it was cut short, and has no cases.
            Err(failure) if failure.exit() == Exit::Interrupted => return Ok(()),
            opened => opened?,
        };
        tell_apart(&mut opened);
        if let Some(pinning) = &self.pinning {
            let children = opened.iter().flat_map(Opened::children);
            children.for_each(|pid| pinning.keep(pid));
        }
        if generation == 0 {
            self.describe(&mut opened);
        }
        let is_last = generation + 1 == self.plan.schedule.generations;
        let result = self.cases(generation, is_last, &mut opened);
        for target in &mut opened {
            recording::note_refusals(&mut self.record, target);
        }
        opened.iter_mut().fold(result, |result, target| {
            target.clean_up_after(self.run_id, result)
        })
    }

    fn describe(&mut self, opened: &mut [Opened]) {
        self.record.environment.servers = opened.iter_mut().map(Opened::environment).collect();
        self.record.links = opened.iter().filter_map(Opened::link).cloned().collect();
        self.record.findings = opened.iter().filter_map(Opened::left_out).collect();
        self.record.doctor = self.record.links.iter().filter_map(link::finding).collect();
        let setups: Vec<Setup> = opened
            .iter_mut()
            .map(|target| {
                let threads = self.plan.cases.iter().map(|case| target.threads(case));
                let threads = threads.max().unwrap_or(0);
                diagnosis::setup(target, &self.record.environment, threads)
            })
            .collect();
        self.record.doctor.extend(diagnosis::findings(&setups));
    }

    fn cases(
        &mut self,
        generation: u32,
        is_last: bool,
        opened: &mut [Opened],
    ) -> Result<(), Failure> {
        let plan = self.plan;
        for (index, case) in plan.cases.iter().enumerate() {
            if !self.control.interrupted() {
                self.case(index, case, generation, opened)?;
            }
            // An interrupt in an early generation leaves no later one.
            if is_last || self.control.interrupted() {
                self.add(index, case, opened)?;
            }
        }
        Ok(())
    }

    fn case(
        &mut self,
        index: usize,
        case: &Case,
        generation: u32,
        opened: &mut [Opened],
    ) -> Result<(), Failure> {
        for target in opened.iter_mut() {
            self.progress
                .say(&format!("{}: loading {}", case.name, target.name));
            subjects::load(target, case, self.run_id, self.plan.seed, self.control)?;
        }
        if self.control.interrupted() {
            return Ok(());
        }
        let watches: Vec<Watch> = opened.iter_mut().map(Opened::watch).collect();
        let machine = fingerprint::Counters::read();
        let measured = self.rounds(index, case, generation, opened)?;
        let machine = machine.since();
        note_steal(&mut self.record, &machine);
        let declared = case.workload.executes();
        let around = opened
            .iter_mut()
            .zip(&watches)
            .map(|(target, watch)| Evidence {
                cpu_pressure: machine.cpu_pressure,
                steal: machine.steal,
                ..target.seen_since(watch, &declared)
            });
        let around = around.collect();
        self.tallies[index].join(measured, around, opened.len());
        Ok(())
    }

    fn rounds(
        &self,
        index: usize,
        case: &Case,
        generation: u32,
        opened: &[Opened],
    ) -> Result<Vec<Measured>, Failure> {
        let plan = self.plan;
        let able = || opened.iter().filter(|target| target.can(case));
        let mut subjects = able()
            .map(|target| subjects::of(target, case, self.run_id, plan.seed))
            .collect::<Result<Vec<_>, _>>()?;
        let mut names: Vec<&str> = able().map(|target| target.name.as_str()).collect();
        let targets = subjects.len();
        if targets == 0 {
            return Ok(opened.iter().map(|_| Measured::default()).collect());
        }
        if plan.schedule.reference {
            subjects.push(Box::new(Reference::open(case, self.pinning.as_ref())?));
            names.push("the reference");
        }
        let (first, last) = plan.rounds_of(generation);
        let rounds = Rounds {
            stops: (first..last).map(|round| plan.block(case, round)).collect(),
            warmup: if case.warms_up() {
                plan.warmup
            } else {
                Duration::ZERO
            },
            seed: plan.seed.wrapping_add(u64::from(generation)),
        };
        let mut subjects: Vec<&mut dyn Subject> = subjects
            .iter_mut()
            .map(|subject| &mut **subject as &mut dyn Subject)
            .collect();
        self.progress
            .say(&format!("{}: measuring {}", case.name, names.join(" and ")));
        let before = &self.tallies[index];
        runner::run(
            &mut subjects,
            &rounds,
            self.control,
            &mut |event| self.show(event, case, &names, first),
            &|measured| {
                (last > plan.rounds && before.is_enough(measured, plan))
                    || (plan.schedule.until_precise && are_precise(&measured[..targets]))
            },
        )
        .map(|measured| with_gaps(measured, opened, case))
        .map_err(|error| failure(&case.name, &error.error))
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
                self.plan.most_rounds()
            )),
            Event::End => self.progress.step(),
        }
    }

    /// Puts a case of all targets into the record, and what they say about each other.
    fn add(&mut self, index: usize, case: &Case, opened: &[Opened]) -> Result<(), Failure> {
        let tally = std::mem::take(&mut self.tallies[index]);
        let first = self.record.cases.len();
        for ((target, measured), around) in opened.iter().zip(&tally.measured).zip(tally.around) {
            if measured.blocks.is_empty() {
                continue;
            }
            let mut entry = recording::case(case, self.plan, target, measured);
            recording::refer(&mut entry, &tally.reference);
            self.record
                .doctor
                .extend(recording::examine(&entry, case, measured, around));
            self.record.cases.push(entry);
        }
        for b in first + 1..self.record.cases.len() {
            recording::compare(&mut self.record, first, b)
                .map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
        }
        Ok(())
    }
}

impl Tally {
    /// Adds what a generation measured of `targets` targets, and of the reference where one ran.
    fn join(&mut self, mut measured: Vec<Measured>, around: Vec<Evidence>, targets: usize) {
        for reference in measured.drain(targets..) {
            self.reference.extend(reference.blocks);
        }
        if self.measured.is_empty() {
            (self.measured, self.around) = (measured, around);
            return;
        }
        for (all, new) in self.measured.iter_mut().zip(measured) {
            all.blocks.extend(new.blocks);
            all.warmup += new.warmup;
            all.steady = all.steady.zip(new.steady).map(|(one, other)| one && other);
        }
        for (all, new) in self.around.iter_mut().zip(around) {
            let evicted = all.evicted_keys.zip(new.evicted_keys);
            let mut undeclared = std::mem::take(&mut all.undeclared);
            for (name, count) in &new.undeclared {
                match undeclared.iter_mut().find(|(known, _)| known == name) {
                    Some((_, all)) => *all += count,
                    None => undeclared.push((name.clone(), *count)),
                }
            }
            *all = Evidence {
                undeclared,
                evicted_keys: evicted.map(|(one, other)| one + other),
                other_clients: all.other_clients.max(new.other_clients),
                ..new
            };
        }
    }

    /// Whether the least rounds of `plan` are run and those so far, with `measured` as the newest, tell
    /// the median response time of each target beside the first's precisely enough to find 5 %.
    fn is_enough(&self, measured: &[Measured], plan: &Plan) -> bool {
        let targets = measured.len() - usize::from(plan.schedule.reference);
        let others = plan.targets.len().saturating_sub(1);
        let comparisons = recording::COMPARED.len() * plan.cases.len() * others;
        let medians = |target: usize| -> Vec<Option<u64>> {
            let before = self.measured.get(target).map_or(&[][..], |of| &of.blocks);
            let blocks = before.iter().chain(&measured[target].blocks);
            blocks.map(|block| block.response.quantile(0.5)).collect()
        };
        let first = medians(0);
        let is_precise = |target: usize| {
            // A block with too few operations for a median is no pair.
            let (one, other): (Vec<f64>, Vec<f64>) = first
                .iter()
                .zip(medians(target))
                .filter_map(|(one, other)| Some(((*one)? as f64, other? as f64)))
                .unzip();
            compare::log_ratios(&one, &other)
                .is_ok_and(|differences| compare::precise_for(&differences, comparisons))
        };
        first.len() >= plan.rounds as usize && (1..targets).all(is_precise)
    }
}

/// Whether the blocks so far tell how each target compares with the first in throughput and in the
/// median response time, and each has operations enough for its p99.9.
fn are_precise(targets: &[Measured]) -> bool {
    let [first, others @ ..] = targets else {
        return false;
    };
    let has_tail = |target: &Measured| {
        let ops: u64 = target.blocks.iter().map(|block| block.ops).sum();
        ops >= 1_000 * SAMPLES_BEYOND
    };
    let by_throughput = |block: &Outcome| Some(block.throughput());
    let by_median = |block: &Outcome| block.response.quantile(0.5).map(|ns| ns as f64);
    !others.is_empty()
        && targets.iter().all(has_tail)
        && others.iter().all(|other| {
            is_precise(first, other, by_throughput) && is_precise(first, other, by_median)
        })
}

/// Whether the blocks of two targets tell the ratio of a metric precisely. A block without it is no
/// pair.
fn is_precise(one: &Measured, other: &Measured, metric: fn(&Outcome) -> Option<f64>) -> bool {
    let pairs = one.blocks.iter().zip(&other.blocks);
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.filter_map(|(a, b)| metric(a).zip(metric(b))).unzip();
    compare::log_ratios(&a, &b).is_ok_and(|differences| compare::precise_enough(&differences))
}

/// What was measured on those of `targets` that can do `case`, with nothing in the places of the others.
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

/// Gives targets of one name, as where a server is compared with itself, a letter each.
fn tell_apart(opened: &mut [Opened]) {
    let names: Vec<String> = opened.iter().map(|target| target.name.clone()).collect();
    for (target, letter) in opened.iter_mut().zip('A'..='Z') {
        if names.iter().filter(|name| **name == target.name).count() > 1 {
            target.name = format!("{} ({letter})", target.name);
        }
    }
}

/// Keeps the largest share of the CPU time that the host took during a case.
pub(crate) fn note_steal(record: &mut Record, machine: &Evidence) {
    let noise = &mut record.environment.noise;
    noise.steal = noise
        .steal
        .into_iter()
        .chain(machine.steal)
        .reduce(f64::max);
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK_OPS: u64 = 10_000;

    /// Blocks whose times are those of `micros`.
    fn blocks(micros: impl IntoIterator<Item = u64>) -> Measured {
        let block = |micros| {
            let mut block = Outcome::empty();
            block.ops = BLOCK_OPS;
            block.duration = Duration::from_micros(1_000 * micros);
            block.response.record_n(1_000 * micros, BLOCK_OPS);
            block
        };
        Measured {
            blocks: micros.into_iter().map(block).collect(),
            ..Measured::default()
        }
    }

    #[test]
    fn ratios_are_precise_from_ten_rounds_on_where_rounds_agree() {
        let steady = |rounds: usize, micros| blocks(std::iter::repeat_n(micros, rounds));
        assert!(!are_precise(&[steady(9, 100), steady(9, 300)]));
        assert!(are_precise(&[steady(10, 100), steady(10, 300)]));
        // 3 % to either side is too wide, and 40 rounds are enough in any case.
        let wide = |rounds: u64| blocks((0..rounds).map(|round| 97 + 6 * (round % 2)));
        assert!(!are_precise(&[steady(39, 100), wide(39)]));
        assert!(are_precise(&[steady(40, 100), wide(40)]));
        assert!(!are_precise(&[steady(12, 100), steady(12, 100), wide(12)]));
    }

    #[test]
    fn ratios_alone_are_not_enough() {
        let lone = blocks([100; 40]);
        assert!(!are_precise(&[lone]), "there is nothing to compare");
        // 99,999 operations have fewer than 100 beyond their p99.9.
        let [one, mut other] = [blocks([100; 10]), blocks([100; 10])];
        other.blocks[3].ops -= 1;
        assert!(!are_precise(&[one, other]));
        // The rates agree and the medians do not.
        let [one, mut other] = [blocks([100; 20]), blocks([100; 20])];
        for block in other.blocks.iter_mut().step_by(2) {
            block.response.reset();
            block.response.record_n(300_000, BLOCK_OPS);
        }
        assert!(!are_precise(&[one, other]));
    }
}

//! `loadline clients`: compares client libraries, each in the process of its driver.

mod behaviour;
mod conformance;
mod connections;
mod list;
mod way;

use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use loadline_load::runner::{self, Broken, Event, Measured, Rounds, Subject};
use loadline_measure::clients::{ClientRow, Clients};
use loadline_measure::record::{self, Answer, Mode, Record, SubjectKind};

use super::{run, surroundings};
use crate::args::ClientsArgs;
use crate::exit::{Exit, Failure};
use crate::fingerprint;
use crate::plan::{self, Case, ClientsPlan, Driver, DriverMode, Op};
use crate::progress::Progress;
use crate::recording;
use crate::session::{self, Recorded, Session, Shell};
use crate::subjects::{Driven, DriverSubject, failure};
use crate::systems::Opened;
use crate::systems::drivers::{About, Running};
use way::{config, load, way_to};

pub(super) fn run(args: &ClientsArgs) -> anyhow::Result<ExitCode> {
    if args.list {
        return Ok(list::print(&plan::known_drivers(args)?)?);
    }
    if let Some(asked) = &args.conformance {
        return conformance::run(
            args,
            plan::drivers_called("--conformance", asked, args.drivers.as_deref())?,
        );
    }
    let known = plan::known_drivers(args)?;
    let plan = plan::resolve_clients(args, known, &surroundings())?;
    session::execute(
        "clients",
        &args.results,
        &plan.describe(),
        |shell| measure(&plan, shell),
        |record, _, results| {
            if !record.limits.is_empty() && !record.run.cut_short {
                run::judge(&record.limits, args.strict, results);
            }
        },
    )
}

/// Measures the clients, and adds what is concluded about them.
fn measure(plan: &ClientsPlan, shell: &Shell) -> Result<Recorded, Failure> {
    let mut clients = Clients {
        reference: plan.reference.clone(),
        ..Clients::default()
    };
    let described = plan.describe().into_json();
    let mut recorded = session::record(shell, &plan.base, described, |session| {
        session
            .record
            .findings
            .extend(plan.left_out.iter().cloned());
        session.record.run.plan["pinned"] = session.pinning.is_some().into();
        session.with_targets(|session, opened| {
            let progress = session.progress(blocks(plan));
            let mut comparison = Comparison {
                plan,
                progress: &progress,
                clients: &mut clients,
                broken: Vec::new(),
                traces: true,
            };
            let done = comparison.run(session, &mut opened[0]);
            let done = done.and_then(|()| {
                comparison.connections(session, &opened[0])?;
                let behaviour = behaviour::observe(plan, session, &opened[0], &progress)?;
                comparison.clients.behaviour = behaviour;
                Ok(())
            });
            progress.finish();
            done
        })
    })?;
    let record = &mut recorded.record;
    let gates = plan.gates.iter();
    let judged = gates.map(|gate| gate.judge(record, &clients, Op::name_of));
    record.limits = loadline_report::rows(judged.collect());
    record.answer = Answer::Clients(clients);
    Ok(recorded.refuse_errors())
}

/// The most blocks of a plan.
fn blocks(plan: &ClientsPlan) -> u64 {
    let of_op = |op: &Op| able(plan, *op).count() as u64;
    plan.ops.iter().map(of_op).sum::<u64>() * u64::from(plan.base.rounds)
}

/// The drivers that have an operation, each with a version of the protocol; the reference first.
fn able(plan: &ClientsPlan, op: Op) -> impl Iterator<Item = (&Driver, u8)> {
    let mut able: Vec<(&Driver, u8)> = plan
        .drivers
        .iter()
        .filter(|driver| driver.modes.contains(&op.mode))
        .flat_map(|driver| plan.protocols(driver).map(move |resp| (driver, resp)))
        .collect();
    able.sort_by_key(|(driver, _)| driver.name != plan.reference);
    able.into_iter()
}

/// A comparison in progress.
struct Comparison<'c> {
    plan: &'c ClientsPlan,
    progress: &'c Progress,
    clients: &'c mut Clients,
    /// Drivers that failed, by name and protocol.
    broken: Vec<(String, u8)>,
    /// Whether system calls can be counted, as far as it is known.
    traces: bool,
}

/// A driver that is measured.
struct Entrant<'c> {
    driver: &'c Driver,
    resp: u8,
    subject: DriverSubject,
}

impl<'c> Comparison<'c> {
    fn run(&mut self, session: &mut Session<'_>, target: &mut Opened) -> Result<(), Failure> {
        let plan = self.plan;
        for (op, case) in plan.ops.iter().zip(&plan.base.cases) {
            if session.shell.interrupted() {
                break;
            }
            self.note_unable(*op, &mut session.record);
            self.progress.say(&format!("{op}: loading {}", target.name));
            load(target, case, &case.prefix(&session.run_id))?;
            self.op(*op, case, session, target)?;
        }
        Ok(())
    }

    /// Notes the drivers that do not have an operation or a protocol.
    fn note_unable(&self, op: Op, record: &mut Record) {
        let plan = self.plan;
        let lacking = plan
            .drivers
            .iter()
            .filter(|driver| driver.is_timed() && !driver.modes.contains(&op.mode));
        let names: Vec<&str> = lacking.map(|driver| driver.name.as_str()).collect();
        if !names.is_empty() {
            let reason = match op.mode {
                DriverMode::Multiplexed => "concurrent callers do not share a connection there",
                DriverMode::Pool => {
                    "there is no pool of connections, or its driver does not use it"
                }
                _ => "the client or its driver does not have it",
            };
            let sentence = format!("{op} was left out for {}: {reason}.", names.join(", "));
            if !record.findings.contains(&sentence) {
                record.findings.push(sentence);
            }
        }
    }

    /// Measures one operation. If a driver fails, the rounds begin again without it, with the processes of the others.
    fn op(
        &mut self,
        op: Op,
        case: &Case,
        session: &mut Session<'_>,
        target: &mut Opened,
    ) -> Result<(), Failure> {
        let mut entrants = self.start(op, case, session, target)?;
        while !entrants.is_empty() && !session.shell.interrupted() {
            let machine = fingerprint::Counters::read();
            let watch = target.watch();
            let measured = match self.rounds(op, &mut entrants, session) {
                Ok(measured) => measured,
                Err(broken) => {
                    let mut entrant = entrants.remove(broken.subject);
                    let Some(failure) = entrant.subject.take_failure() else {
                        return Err(failure(&target.name, &broken.error));
                    };
                    self.give_up(entrant.driver, entrant.resp, failure, &mut session.record)?;
                    for entrant in &mut entrants {
                        entrant.subject.take_driven();
                    }
                    continue;
                }
            };
            let machine = machine.since();
            session::note_steal(&mut session.record, &machine);
            let mut around = target.seen_since(&watch, &case.executes());
            (around.cpu_pressure, around.steal) = (machine.cpu_pressure, machine.steal);
            return self.add(op, case, session, target, &mut entrants, &measured, &around);
        }
        Ok(())
    }

    /// Leaves a driver out that failed, unless it was named.
    fn give_up(
        &mut self,
        driver: &Driver,
        resp: u8,
        failure: Failure,
        record: &mut Record,
    ) -> Result<(), Failure> {
        let is_asked = self.plan.is_chosen || driver.is_given;
        let is_needed = is_asked || driver.name == self.plan.reference;
        if is_needed || failure.exit() == Exit::Interrupted {
            return Err(failure);
        }
        let text = failure.to_string().replace('\n', " ");
        record
            .findings
            .push(format!("{} (RESP{resp}) was left out: {text}", driver.name));
        self.broken.push((driver.name.clone(), resp));
        Ok(())
    }

    /// Starts the drivers of an operation.
    fn start(
        &mut self,
        op: Op,
        case: &Case,
        session: &mut Session<'_>,
        target: &Opened,
    ) -> Result<Vec<Entrant<'c>>, Failure> {
        let (admins, address) = way_to(target)?;
        let plan = self.plan;
        let mut entrants = Vec::new();
        for (driver, resp) in able(plan, op) {
            let key = (driver.name.clone(), resp);
            if self.broken.contains(&key) || session.shell.interrupted() {
                continue;
            }
            self.progress
                .say(&format!("{op}: starting {}", driver.name));
            let prefix = case.prefix(&session.run_id);
            let config = config(&address, driver, resp, op, case, prefix);
            match Running::start(driver, &config, &session.shell.control) {
                Ok(running) => entrants.push(Entrant {
                    driver,
                    resp,
                    subject: DriverSubject::new(running, Rc::clone(&admins), &config),
                }),
                Err(failure) => self.give_up(driver, resp, failure, &mut session.record)?,
            }
        }
        Ok(entrants)
    }

    fn rounds(
        &self,
        op: Op,
        entrants: &mut [Entrant<'_>],
        session: &Session<'_>,
    ) -> Result<Vec<Measured>, Box<Broken>> {
        let base = &self.plan.base;
        let names: Vec<String> = entrants
            .iter()
            .map(|entrant| entrant.driver.name.clone())
            .collect();
        let place = self.plan.ops.iter().position(|known| *known == op);
        let case = &base.cases[place.expect("the operation is one of the plan")];
        let rounds = Rounds {
            stops: (0..base.rounds)
                .map(|round| base.block(case, round))
                .collect(),
            warmup: if case.warms_up() {
                base.warmup
            } else {
                Duration::ZERO
            },
            order: base.seed,
            seed: base.seed,
        };
        let mut subjects: Vec<&mut dyn Subject> = entrants
            .iter_mut()
            .map(|entrant| &mut entrant.subject as &mut dyn Subject)
            .collect();
        let no_end = |_: &[Measured]| false;
        let mut show = |event| match event {
            Event::WarmUp { subject } => {
                self.progress
                    .begin(&format!("{op}: {} is warmed up", names[subject]));
            }
            Event::Begin { subject, round } => self.progress.begin(&format!(
                "{op}: {}, round {} of {}",
                names[subject],
                round + 1,
                base.rounds
            )),
            Event::End => self.progress.step(),
        };
        runner::run(
            &mut subjects,
            &rounds,
            &session.shell.control,
            &mut show,
            &no_end,
        )
    }

    /// Adds the cases of an operation with their rows and comparisons.
    #[expect(
        clippy::too_many_arguments,
        reason = "all that is known of an operation"
    )]
    fn add(
        &mut self,
        op: Op,
        case: &Case,
        session: &mut Session<'_>,
        target: &Opened,
        entrants: &mut [Entrant<'_>],
        measured: &[Measured],
        around: &loadline_measure::doctor::Observed,
    ) -> Result<(), Failure> {
        let record = &mut session.record;
        let first = record.cases.len();
        for (entrant, measured) in entrants.iter_mut().zip(measured) {
            if measured.blocks.is_empty() {
                continue;
            }
            let driven = entrant.subject.take_driven();
            let about = entrant.subject.about().clone();
            let mut entry = recording::case(case, &self.plan.base, target, measured, around);
            describe(&mut entry, op, entrant, &about, self.plan.resp.len() > 1);
            record
                .doctor
                .extend(recording::examine(&entry, case, measured, around.clone()));
            let mut row = row(record.cases.len(), entrant.driver, &about, &driven);
            if self.traces {
                self.progress
                    .say(&format!("{op}: system calls of {}", row.driver));
                match entrant.subject.system_calls(&session.shell.control) {
                    Ok(calls) => row.system_calls_per_op = Some(calls),
                    Err(why) => {
                        self.traces = false;
                        record
                            .findings
                            .push(format!("System calls were not counted: {why}."));
                    }
                }
            }
            if !row.is_valid {
                record.findings.push(format!(
                    "{}, {op}: invalid: it reported {} operations and the server counted {}.",
                    entry.subject.name,
                    driven.ops,
                    driven.counted.unwrap_or(0)
                ));
            }
            self.clients.rows.push(row);
            record.cases.push(entry);
        }
        for other in first + 1..record.cases.len() {
            recording::compare(record, first, other)
                .map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
        }
        Ok(())
    }
}

/// Gives a case the client as its subject, and the way in which it was called.
fn describe(
    entry: &mut record::Case,
    op: Op,
    entrant: &Entrant<'_>,
    about: &About,
    is_of_several: bool,
) {
    let mut name = about.name();
    if is_of_several {
        name += &format!(" RESP{}", entrant.resp);
    }
    let size = u64::from(op.size);
    entry.subject = record::Subject {
        name,
        kind: SubjectKind::Client,
        target: entry.subject.target.clone(),
        version: Some(about.version.clone()),
    };
    entry.scenario.resp = u64::from(entrant.resp);
    entry.scenario.in_flight = Some(size);
    entry.scenario.mode = match op.mode {
        DriverMode::Pipeline => Mode::Pipeline,
        DriverMode::Multiplexed | DriverMode::Pool => Mode::Async,
        DriverMode::Sync | DriverMode::Faults => Mode::Sync,
    };
}

fn row(case: usize, driver: &Driver, about: &About, driven: &Driven) -> ClientRow {
    let commands = driven.counted.unwrap_or(driven.ops);
    let share = |ns: u64| ns as f64 / driven.elapsed_ns.max(1) as f64;
    ClientRow {
        case,
        driver: driver.name.clone(),
        language: driver.language.clone(),
        runtime: about.runtime.clone(),
        counted: driven.counted,
        is_valid: driven.counted.is_none_or(|counted| counted == driven.ops),
        commands_per_read: driven
            .reads
            .filter(|reads| *reads > 0)
            .map(|reads| commands as f64 / reads as f64),
        max_rss_bytes: driven.max_rss_bytes,
        gc_share: driven.gc_ns.map(share),
        system_calls_per_op: None,
    }
}

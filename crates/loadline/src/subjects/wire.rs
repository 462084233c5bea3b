//! A server under load over the wire.

use loadline_load::block::Block;
use loadline_load::keys::KeyDist;
use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;
use loadline_load::runner::Subject;
use loadline_load::wire::{Session, Shape};
use loadline_load::workload::Command;
use loadline_load::{Control, Error};
use loadline_measure::corrected::Corrected;

use super::counters::{SECTIONS, process};
use super::tail::Tail;
use super::{Counters, failure, load_block, workload};
use crate::admin::Admin;
use crate::connect::Endpoint;
use crate::exit::Failure;
use crate::framing::RespFraming;
use crate::plan::Case;

/// Commands in flight per connection while keys are loaded.
const LOAD_PIPELINE: u32 = 64;
/// Connections that load keys.
const LOAD_CONNECTIONS: usize = 4;

/// One case on one server: open connections, and a second look through the server's own counters.
pub(crate) struct WireSubject<'t> {
    session: Session<'t, RespFraming>,
    /// Brings the keys into the state that a block starts from.
    before: Option<Session<'t, RespFraming>>,
    admin: Admin,
    case: &'t Case,
    block: Block,
    declared: Vec<String>,
    /// The server's process, where it is on this host.
    process: Option<u64>,
    /// What runs operations one by one after each block.
    tail: Option<Tail>,
}

/// Brings every key of the case's space in; `None` where there is nothing to bring.
///
/// # Errors
/// That a connection cannot be opened or all are lost.
pub(super) fn load(
    endpoint: &Endpoint,
    case: &Case,
    prefix: &str,
    seed: u64,
    control: &Control,
) -> Result<Option<Outcome>, Error> {
    let compiled = case.workload.compile(prefix, case.keys, &case.value_size);
    let Some(command) = compiled.load else {
        return Ok(None);
    };
    over_all_keys(command, endpoint, case, seed)?
        .run(&load_block(case, seed), control)
        .map(Some)
}

/// Connections that send `command` for every key of `case` in a block of their own.
fn over_all_keys<'e>(
    command: Command,
    endpoint: &'e Endpoint,
    case: &Case,
    seed: u64,
) -> Result<Session<'e, RespFraming>, Error> {
    let workload = workload(vec![command], case, &KeyDist::Sequential, seed)?;
    let shape = Shape {
        connections: LOAD_CONNECTIONS,
        threads: 1,
        window: LOAD_PIPELINE,
        verify: false,
        seed,
    };
    Session::open(workload, endpoint, RespFraming::new, shape)
}

impl<'t> WireSubject<'t> {
    /// Opens the connections of `case` to the server called `name`; `direct` leads there without a
    /// link in between, for looking at its counters.
    ///
    /// # Errors
    /// That a connection cannot be opened.
    pub(crate) fn open(
        name: &str,
        endpoint: &'t Endpoint,
        direct: &'t Endpoint,
        case: &'t Case,
        prefix: &str,
        seed: u64,
    ) -> Result<Self, Failure> {
        let compiled = case.workload.compile(prefix, case.keys, &case.value_size);
        let consumes = case.workload.rules.consumes;
        let framing = if consumes {
            RespFraming::counting
        } else {
            RespFraming::new
        };
        let opened = workload(compiled.commands, case, &case.key_dist, seed).and_then(|workload| {
            let shape = Shape {
                connections: case.connections as usize,
                threads: case.threads as usize,
                window: case.pipeline,
                verify: case.verify || consumes,
                seed,
            };
            Session::open(workload, endpoint, framing, shape)
        });
        let before = compiled
            .before
            .map(|command| over_all_keys(command, direct, case, seed))
            .transpose();
        let mut admin = Admin::open(direct)?;
        let process = if direct.server().is_local() {
            process(&admin.info(&["server"])?)
        } else {
            None
        };
        Ok(Self {
            session: opened.map_err(|error| failure(name, &error))?,
            before: before.map_err(|error| failure(name, &error))?,
            case,
            admin,
            block: Block {
                pacing: case.pacing,
                ..load_block(case, seed)
            },
            declared: case
                .workload
                .sends()
                .iter()
                .map(|name| name.to_ascii_lowercase())
                .collect(),
            process,
            tail: None,
        })
    }

    /// The same with operations one at a time after each block, where the case is one that they can
    /// stand for, and the server is `child` or another process of this host. `direct` leads there, and
    /// `seed` decides about keys.
    ///
    /// # Errors
    /// That the connection for them cannot be opened.
    pub(crate) fn with_tail(
        self,
        child: Option<u32>,
        direct: &Endpoint,
        prefix: &str,
        seed: u64,
    ) -> Result<Self, Failure> {
        let open = |process| Tail::open(direct, process, self.case, prefix, seed);
        let process = child.map(u64::from).or(self.process);
        let tail = process.map(open).transpose();
        let tail = tail.map_err(|error| failure(&direct.name(), &error))?;
        let tail = tail.flatten();
        Ok(Self { tail, ..self })
    }

    fn counters(&mut self) -> Result<Counters, Error> {
        let info = self
            .admin
            .info(&SECTIONS)
            .map_err(|error| Error::Subject(Box::new(error)))?;
        Ok(Counters::read(&info, &self.declared).and_waits_of(self.process))
    }

    /// Brings the keys into the state that a block starts from.
    fn prepare(&mut self, control: &Control) -> Result<(), Error> {
        let Some(before) = &mut self.before else {
            return Ok(());
        };
        let outcome = before.run(&load_block(self.case, self.block.seed), control)?;
        match outcome.errors.iter().next() {
            Some((kind, count)) => Err(Error::Subject(
                format!("{count} of the keys could not be made ready for a block: {kind}").into(),
            )),
            None => Ok(()),
        }
    }
}

impl Subject for WireSubject<'_> {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        self.prepare(control)?;
        let before = self.counters()?;
        let mut outcome = self.session.run(
            &Block {
                stop: self.case.bounded(stop),
                seed,
                ..self.block
            },
            control,
        )?;
        outcome.target = self.counters()?.since(&before);
        Ok(outcome)
    }

    fn tail(&mut self, control: &Control) -> Result<Option<Corrected>, Error> {
        let block = self.tail.as_mut().map(|tail| tail.block(control));
        block.transpose().map(Option::flatten)
    }
}

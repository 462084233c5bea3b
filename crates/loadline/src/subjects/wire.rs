//! Load on a server over the wire, or on several servers that share it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loadline_load::block::Block;
use loadline_load::cost::TargetCost;
use loadline_load::keys::KeyDist;
use loadline_load::outcome::Outcome;
use loadline_load::pacing::{Pacing, Stop};
use loadline_load::runner::Subject;
use loadline_load::waits::TargetWaits;
use loadline_load::windows::Windows;
use loadline_load::wire::{Lane, Session, Shape};
use loadline_load::workload::Command;
use loadline_load::{Control, Error};
use loadline_measure::corrected::Corrected;

use super::tail::Tail;
use super::{failure, load_block, workload};
use crate::exit::Failure;
use crate::framing::RespFraming;
use crate::plan::Case;
use crate::systems::connect::Endpoint;
use crate::systems::{Admin, Counters, SECTIONS, process, together};

/// Commands in flight per connection while keys are loaded.
const LOAD_PIPELINE: u32 = 64;
/// A server that takes longer than this to answer its counters does not answer: the block that follows has been due
/// since then. Other programs on the machine can delay an answer for less.
const NO_ANSWER: Duration = Duration::from_millis(10);
/// Connections that load keys.
const LOAD_CONNECTIONS: usize = 4;

/// The server for a part of a case's load.
pub(super) struct LoadServer {
    /// The address for the load.
    pub(super) through: Endpoint,
    /// The same server without a link, for everything else.
    pub(super) direct: Endpoint,
    /// Prefix of its keys.
    pub(super) prefix: String,
    /// Number of the case's keys on this server.
    pub(super) keys: u64,
}

/// One case on one server, or on several that share the load: open connections, and the servers' own counters as a
/// cross-check.
pub(crate) struct WireSubject<'t> {
    session: Session<'static, RespFraming>,
    /// Restore the keys before each block, each on one server.
    before: Vec<Before>,
    servers: Vec<Watched>,
    case: &'t Case,
    block: Block,
    declared: Vec<String>,
    /// Runs operations one by one after each block.
    tail: Option<Tail>,
}

struct Before {
    session: Session<'static, RespFraming>,
    keys: u64,
}

/// A server whose counters are read.
struct Watched {
    admin: Admin,
    /// Its process, if it is on this host.
    process: Option<u64>,
}

/// Loads every key of `place`. Returns `None` if the workload needs no keys.
///
/// # Errors
/// If a connection cannot be opened, or all connections are lost.
pub(super) fn load(
    place: &LoadServer,
    case: &Case,
    seed: u64,
    control: &Control,
) -> Result<Option<Outcome>, Error> {
    let part = place.part(case);
    let compiled = part
        .workload
        .compile(&place.prefix, part.keys, &part.value_size);
    let Some(command) = compiled.load else {
        return Ok(None);
    };
    over_all_keys(command, &place.direct, &part, seed)?
        .run(&load_block(&part, seed), control)
        .map(Some)
}

/// Opens connections that send `command` for every key of `case` in a separate block.
fn over_all_keys(
    command: Command,
    endpoint: &Endpoint,
    case: &Case,
    seed: u64,
) -> Result<Session<'static, RespFraming>, Error> {
    let workload = workload(vec![command], case, &KeyDist::Sequential, seed)?;
    let shape = Shape {
        connections: LOAD_CONNECTIONS,
        threads: 1,
        window: LOAD_PIPELINE,
        verify: false,
        seed,
    };
    let connector = Box::new(endpoint.clone());
    let lane = Lane {
        workload,
        connector,
    };
    Session::over(vec![lane], RespFraming::new, shape)
}

impl LoadServer {
    /// The part of `case` that belongs here.
    fn part(&self, case: &Case) -> Case {
        Case {
            keys: self.keys,
            ..case.clone()
        }
    }

    fn lane(&self, case: &Case, seed: u64) -> Result<Lane<'static>, Error> {
        let part = self.part(case);
        let compiled = part
            .workload
            .compile(&self.prefix, part.keys, &part.value_size);
        Ok(Lane {
            workload: workload(compiled.commands, &part, &part.key_dist, seed)?,
            connector: Box::new(self.through.clone()),
        })
    }

    fn before(&self, case: &Case, seed: u64) -> Result<Option<Before>, Error> {
        let part = self.part(case);
        let compiled = part
            .workload
            .compile(&self.prefix, part.keys, &part.value_size);
        let session = compiled
            .before
            .map(|command| over_all_keys(command, &self.direct, &part, seed));
        Ok(session.transpose()?.map(|session| Before {
            session,
            keys: self.keys,
        }))
    }
}

impl Watched {
    fn open(endpoint: &Endpoint) -> Result<Self, Failure> {
        let mut admin = Admin::open(endpoint)?;
        let process = if endpoint.server().is_local() {
            process(&admin.info(&["server"])?)
        } else {
            None
        };
        Ok(Self { admin, process })
    }

    fn counters(&mut self, declared: &[String]) -> Result<Counters, Error> {
        let info = self
            .admin
            .info(&SECTIONS)
            .map_err(|error| Error::Subject(Box::new(error)))?;
        Ok(Counters::read(&info, declared).and_waits_of(self.process))
    }
}

impl<'t> WireSubject<'t> {
    /// Opens the connections of `case` to the servers of the target `name`.
    ///
    /// # Errors
    /// If a connection cannot be opened, or there are fewer connections than servers.
    pub(super) fn open(
        name: &str,
        places: &[LoadServer],
        case: &'t Case,
        seed: u64,
    ) -> Result<Self, Failure> {
        let consumes = case.workload.rules.consumes;
        let framing = if consumes {
            RespFraming::counting
        } else {
            RespFraming::new
        };
        let shape = Shape {
            connections: case.connections as usize,
            threads: case.threads as usize,
            window: case.pipeline,
            verify: case.verify || consumes,
            seed,
        };
        let lanes = places.iter().map(|place| place.lane(case, seed));
        let session = lanes
            .collect::<Result<Vec<_>, _>>()
            .and_then(|lanes| Session::over(lanes, framing, shape))
            .map_err(|error| failure(name, &error))?;
        let before = places
            .iter()
            .filter_map(|place| place.before(case, seed).transpose());
        let before = before
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| failure(name, &error))?;
        let servers = watched(places)?;
        let processes = servers.iter().filter_map(|server| server.process);
        let session = session.with_waits(TargetWaits::of(processes));
        Ok(Self {
            session,
            before,
            servers,
            case,
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
            tail: None,
        })
    }

    /// Adds operations run one by one after each block, if they are representative of the case. The server is
    /// `child` or another process of this host. `direct` is its address without a link, and `seed` determines the
    /// keys.
    ///
    /// # Errors
    /// If the connection for them cannot be opened.
    pub(crate) fn with_tail(
        self,
        child: Option<u32>,
        direct: &Endpoint,
        prefix: &str,
        seed: u64,
    ) -> Result<Self, Failure> {
        let open = |process| Tail::open(direct, process, self.case, prefix, seed);
        let known = self.servers.first().and_then(|server| server.process);
        let process = child.map(u64::from).or(known);
        let tail = process.map(open).transpose();
        let tail = tail.map_err(|error| failure(&direct.name(), &error))?;
        let tail = tail.flatten();
        Ok(Self { tail, ..self })
    }

    fn counters(&mut self) -> Result<Vec<Counters>, Error> {
        all_counters(&mut self.servers, &self.declared)
    }

    /// The counters before a block, and how long the block has been due in vain.
    fn begin(&mut self) -> Result<(Vec<Counters>, Duration), Error> {
        let due = Instant::now();
        let before = self.counters()?;
        let waited = due.elapsed();
        let overdue = if waited > NO_ANSWER {
            waited
        } else {
            Duration::ZERO
        };
        Ok((before, overdue))
    }

    /// Restores the keys before a block.
    fn prepare(&mut self, control: &Control) -> Result<(), Error> {
        // Its operations are not measured.
        let control = &Control {
            interrupt: Arc::clone(&control.interrupt),
            ..Control::default()
        };
        for Before { session, keys } in &mut self.before {
            let block = Block {
                stop: Stop::after_ops(*keys),
                ..load_block(self.case, self.block.seed)
            };
            let outcome = session.run(&block, control)?;
            if let Some((kind, count)) = outcome.errors.iter().next() {
                return Err(Error::Subject(
                    format!("{count} keys could not be restored before a block: {kind}").into(),
                ));
            }
        }
        Ok(())
    }
}

fn all_counters(servers: &mut [Watched], declared: &[String]) -> Result<Vec<Counters>, Error> {
    let servers = servers.iter_mut();
    servers.map(|server| server.counters(declared)).collect()
}

/// The counts of the servers between two readings.
fn costs(before: &[Counters], after: &[Counters]) -> TargetCost {
    let costs = after.iter().zip(before);
    let costs = costs.map(|(after, before)| after.since(before));
    costs.reduce(together).unwrap_or_default()
}

/// Adds to each window the difference of the readings `seen` at its ends. Windows without both are not complete.
fn add_costs(windows: &mut Windows, seen: Vec<Result<Vec<Counters>, Error>>) {
    let mut readings = Vec::with_capacity(seen.len());
    for reading in seen {
        match reading {
            Ok(reading) => readings.push(reading),
            Err(error) => windows.error = windows.error.take().or(Some(error)),
        }
    }
    let outcomes = &mut windows.outcomes;
    if windows.error.is_some() {
        outcomes.truncate(readings.len() - 1);
    }
    // The load can end before its last window does.
    while let Some(last) = readings.last().filter(|_| readings.len() <= outcomes.len()) {
        readings.push(last.clone());
    }
    for (outcome, pair) in outcomes.iter_mut().zip(readings.windows(2)) {
        outcome.target = costs(&pair[0], &pair[1]);
    }
}

/// The servers of `places`, each once.
fn watched(places: &[LoadServer]) -> Result<Vec<Watched>, Failure> {
    let address = |place: &LoadServer| place.direct.server().address.clone();
    let is_first = |at: &usize| {
        let before = &places[..*at];
        before
            .iter()
            .all(|other| address(other) != address(&places[*at]))
    };
    let firsts = (0..places.len()).filter(is_first);
    firsts.map(|at| Watched::open(&places[at].direct)).collect()
}

impl Subject for WireSubject<'_> {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        self.prepare(control)?;
        let (before, overdue) = self.begin()?;
        let block = Block {
            stop: self.case.bounded(stop),
            seed,
            ..self.block
        };
        let mut outcome = self.session.run_overdue(&block, overdue, control)?;
        outcome.target = costs(&before, &self.counters()?);
        Ok(outcome)
    }

    /// A case that restores its keys before each block, or runs single operations after it, needs the pauses.
    fn windows(
        &mut self,
        stops: &[Stop],
        seed: u64,
        control: &Control,
        next: &mut dyn FnMut(),
    ) -> Option<Windows> {
        let is_open = matches!(self.block.pacing, Pacing::Open { .. });
        let is_bounded = stops.iter().any(|stop| self.case.bounded(*stop) != *stop);
        if !is_open || is_bounded || !self.before.is_empty() || self.tail.is_some() {
            return None;
        }
        let (before, overdue) = match self.begin() {
            Ok(begun) => begun,
            Err(error) => {
                return Some(Windows {
                    outcomes: Vec::new(),
                    error: Some(error),
                });
            }
        };
        let block = Block { seed, ..self.block };
        let Self {
            session,
            servers,
            declared,
            ..
        } = self;
        let mut read = || all_counters(servers, declared);
        let mut seen = vec![Ok(before)];
        let mut windows = session.run_windows(&block, stops, overdue, control, &mut || {
            // A server that failed once is not asked again.
            if seen.last().is_some_and(Result::is_ok) {
                seen.push(read());
            }
            next();
        });
        if seen.last().is_some_and(Result::is_ok) && windows.error.is_none() {
            seen.push(read());
        }
        add_costs(&mut windows, seen);
        Some(windows)
    }

    fn tail(&mut self, control: &Control) -> Result<Option<Corrected>, Error> {
        let block = self.tail.as_mut().map(|tail| tail.block(control));
        block.transpose().map(Option::flatten)
    }
}

//! Passes of a case on a server whose instructions are counted.
//!
//! A pass is deterministic: one connection, fixed keys and seed, and every window of operations is answered before
//! the next one is sent. A server with fixed random numbers therefore executes the same instructions in every
//! pass.

use std::time::Instant;

use loadline_client::cmd;
use loadline_load::keys::KeyDist;
use loadline_measure::work::Pass;
use loadline_measure::work::callgrind::Profile;

use super::failure;
use super::lockstep::Lockstep;
use crate::exit::Failure;
use crate::plan::Case;
use crate::systems::callgrind::Callgrind;
use crate::systems::connect::Endpoint;
use crate::systems::{Access, Opened};

/// Largest number of keys of a pass; loading more would take most of its time in the simulator.
const MOST_KEYS: u64 = 1_000;
/// Largest number of operations of a pass.
const MOST_OPERATIONS: u64 = 4_800;
/// Largest number of windows of a pass. Each one takes two switches between processes, which are slow on a busy machine.
const MOST_WINDOWS: u64 = 1_200;
/// Operations in flight while keys are loaded.
const LOAD_WINDOW: u64 = 50;
/// The same in every run, because the names of keys decide which of them collide.
const PREFIX: &str = "loadline:work:";
const SEED: u64 = 7;

/// One case on one server.
pub(crate) struct Counted {
    name: String,
    operations: Lockstep,
    window: u64,
    pid: u32,
    /// Whether the counts start at the end of a pass.
    is_fresh: bool,
}

/// The number of operations of a pass, from that of a window.
fn operations_of(window: u64) -> u64 {
    MOST_OPERATIONS.min(MOST_WINDOWS * window)
}

/// Whether the operations of `case` can run in passes, that is, over one connection and without steps in between.
pub(crate) fn can_count(case: &Case) -> bool {
    case.workload.rules.is_plain()
}

impl Counted {
    /// Loads the keys of `case` and warms the server up. Returns `None` for a server that this run did not start.
    ///
    /// # Errors
    /// If the connection is lost or operations fail.
    pub(crate) fn open(opened: &Opened, case: &Case) -> Result<Option<Self>, Failure> {
        let Access::Server(server) = &opened.access else {
            return Ok(None);
        };
        let Some(pid) = server.child.as_ref().map(|child| child.pid()) else {
            return Ok(None);
        };
        let few = Case {
            keys: case.keys.min(MOST_KEYS),
            connections: 1,
            threads: 1,
            ..case.clone()
        };
        let compiled = few.workload.compile(PREFIX, few.keys, &few.value_size);
        let connect = |commands, dist: &KeyDist| {
            Lockstep::open(&server.endpoint, commands, &few, dist, SEED)
                .map_err(|error| failure(&opened.name, &error))
        };
        slow_timers(&server.endpoint);
        if let Some(load) = compiled.load {
            let mut loading = connect(vec![load], &KeyDist::Sequential)?;
            run(&mut loading, few.keys, LOAD_WINDOW, &opened.name)?;
        }
        let mut counted = Self {
            name: opened.name.clone(),
            operations: connect(compiled.commands, &few.key_dist)?,
            window: u64::from(few.pipeline),
            pid,
            is_fresh: false,
        };
        run(
            &mut counted.operations,
            operations_of(counted.window) / 3,
            counted.window,
            &counted.name,
        )?;
        Ok(Some(counted))
    }

    /// Runs a pass under `callgrind`.
    ///
    /// # Errors
    /// If the connection is lost, operations fail, or the counts cannot be read.
    pub(crate) fn pass(&mut self, callgrind: &mut Callgrind) -> Result<(Pass, Profile), Failure> {
        self.operations.restart();
        if !self.is_fresh {
            callgrind.start_pass(self.pid)?;
        }
        // After a failed pass, the counts include part of its operations.
        self.is_fresh = false;
        let ops = operations_of(self.window);
        run(&mut self.operations, ops, self.window, &self.name)?;
        let profile = callgrind.end_pass(self.pid)?;
        self.is_fresh = true;
        let pass = Pass {
            ops,
            instructions: profile.instructions,
            background: profile.background(),
            system_calls: profile.system_calls,
            allocations: Some(profile.allocations),
            bytes_received: Some(self.operations.traffic.sent),
            bytes_sent: Some(self.operations.traffic.received),
        };
        Ok((pass, profile))
    }
}

/// Makes the timers of a Redis server run once per second instead of ten times, because each tick is also an
/// iteration of its event loop. Ignored by a server without that setting.
fn slow_timers(endpoint: &Endpoint) {
    if let Ok(mut connection) = endpoint.open() {
        let _ = connection.run(cmd::<()>("CONFIG").arg("SET").arg("hz").arg(1));
    }
}

/// Runs `count` operations, `window` at a time.
fn run(operations: &mut Lockstep, count: u64, window: u64, name: &str) -> Result<(), Failure> {
    let lost = |why: String| {
        Failure::unavailable(format!(
            "{name}: operations whose instructions were counted failed: {why}."
        ))
    };
    let mut done = 0;
    let begun = Instant::now();
    while done < count {
        let next = window.min(count - done);
        operations.prepare(next);
        let tally = operations
            .exchange()
            .map_err(|error| lost(error.to_string()))?;
        if tally.errors.total() > 0 {
            return Err(lost(format!(
                "{} of them were answered with an error",
                tally.errors.total()
            )));
        }
        done += next;
        if begun.elapsed() > super::LONGEST_PASS {
            return Err(lost(format!(
                "a pass took longer than {} seconds",
                super::LONGEST_PASS.as_secs()
            )));
        }
    }
    Ok(())
}

//! A session: the connections to one target, distributed over threads, and the blocks run on them.

use std::time::Duration;

use rand::{SeedableRng, rngs::SmallRng};

use super::conn::Conn;
use super::system::Epoll;
use super::transport::{Connect, Framing};
use super::worker::Worker;
use crate::Error;
use crate::block::{self, Block, Timing, Watch};
use crate::meter::Control;
use crate::outcome::Outcome;
use crate::pacing::Stop;
use crate::values::mix;
use crate::waits::TargetWaits;
use crate::windows::{self, Windows};
use crate::workload::{Chooser, Workload};

/// The shape of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Connections, over all threads.
    pub connections: usize,
    /// Threads, at most as many as connections.
    pub threads: usize,
    /// The most operations in flight per connection (the pipeline).
    pub window: u32,
    /// Whether payloads are verified.
    pub verify: bool,
    /// The seed of the random choices.
    pub seed: u64,
}

/// One of the servers of a session, with its workload.
pub struct Lane<'c> {
    /// The workload.
    pub workload: Workload,
    /// Opens connections.
    pub connector: Box<dyn Connect + 'c>,
}

/// Open connections to one target, which can consist of several servers with a workload each.
///
/// A thread belongs to one server, and all servers have the same number of threads. Each thread has an equal
/// part of a block's operations or schedule, so a stalled server delays only its own part.
pub struct Session<'c, F> {
    lanes: Vec<Lane<'c>>,
    framing: fn() -> F,
    shape: Shape,
    workers: Vec<Worker<F, Epoll>>,
    waits: Option<TargetWaits>,
}

impl<'c, F: Framing> Session<'c, F> {
    /// Opens all connections to one server.
    ///
    /// # Errors
    /// [`Error::Connect`] if one cannot be opened; [`Error::Plan`] if the shape is empty.
    pub fn open(
        workload: Workload,
        connector: &'c dyn Connect,
        framing: fn() -> F,
        shape: Shape,
    ) -> Result<Self, Error> {
        let connector = Box::new(connector);
        let lane = Lane {
            workload,
            connector,
        };
        Self::over(vec![lane], framing, shape)
    }

    /// Opens all connections, distributed over the servers of `lanes`, with [`threads_over`] threads.
    ///
    /// # Errors
    /// [`Error::Connect`] if one cannot be opened; [`Error::Plan`] if the shape is empty or has fewer
    /// connections than servers.
    pub fn over(lanes: Vec<Lane<'c>>, framing: fn() -> F, shape: Shape) -> Result<Self, Error> {
        if lanes.is_empty() || shape.connections == 0 || shape.threads == 0 || shape.window == 0 {
            return Err(Error::Plan(
                "servers, connections, threads and pipeline must each be at least 1".into(),
            ));
        }
        let servers = lanes.len();
        if shape.connections < servers {
            return Err(Error::Plan(format!(
                "each of its {servers} servers needs a connection, and there are to be only {}",
                shape.connections
            )));
        }
        let threads = threads_over(servers, shape.threads, shape.connections);
        let mut session = Self {
            lanes,
            framing,
            shape: Shape { threads, ..shape },
            workers: Vec::new(),
            waits: None,
        };
        for thread in 0..threads {
            let lane = thread % servers;
            let rng = SmallRng::seed_from_u64(mix(shape.seed ^ (thread as u64 + 1)));
            // The threads of one server share the walk through its keys.
            let (place, stride) = (thread / servers, threads / servers);
            let chooser = Chooser::new(rng, place as u64, stride as u64);
            let workload = &session.lanes[lane].workload;
            session.workers.push(Worker::new(
                Epoll::new()?,
                lane,
                workload,
                chooser,
                shape.window,
            ));
        }
        for index in 0..shape.connections {
            let conn = session.connect(index)?;
            session.workers[index % threads].adopt(index / threads, conn)?;
        }
        Ok(session)
    }

    /// Reads the `waits` of the servers for a CPU during each block, to explain its stalls.
    #[must_use]
    pub fn with_waits(self, waits: Option<TargetWaits>) -> Self {
        Self { waits, ..self }
    }

    fn connect(&self, index: usize) -> Result<Conn<F>, Error> {
        let lane = self.workers[index % self.shape.threads].lane;
        let transport = self.lanes[lane].connector.connect();
        let transport = transport.map_err(|source| Error::Connect {
            index: index + 1,
            wanted: self.shape.connections,
            source,
        })?;
        Ok(Conn::new(transport, (self.framing)(), self.shape.verify))
    }

    /// Reopens lost connections.
    fn heal(&mut self) -> Result<(), Error> {
        for index in 0..self.shape.connections {
            let (thread, place) = (index % self.shape.threads, index / self.shape.threads);
            if !self.workers[thread].conns[place].alive {
                let conn = self.connect(index)?;
                self.workers[thread].adopt(place, conn)?;
            }
        }
        Ok(())
    }

    /// Runs one block on all threads.
    ///
    /// # Errors
    /// If connections cannot be reopened, all are lost, or a system call fails.
    pub fn run(&mut self, block: &Block, control: &Control) -> Result<Outcome, Error> {
        self.run_overdue(block, Duration::ZERO, control)
    }

    /// Runs one block that has been due for `overdue`, because its target did not answer: the schedule of an open loop
    /// began that much earlier.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn run_overdue(
        &mut self,
        block: &Block,
        overdue: Duration,
        control: &Control,
    ) -> Result<Outcome, Error> {
        self.heal()?;
        let lanes = &self.lanes;
        block::run(
            &mut self.workers,
            block,
            overdue,
            control,
            Watch::Cpus(self.waits.as_ref()),
            |worker, share| {
                let workload = &lanes[worker.lane].workload;
                worker.run(workload, share).into_one()
            },
        )
    }

    /// Runs an open loop without a pause over windows that end by `stops`; the stop rule of `block` is not used. It has
    /// been due for `overdue`. Calls `between` at the end of each window but the last, while the load goes on.
    ///
    /// # Panics
    /// In a closed loop, and without a window.
    pub fn run_windows(
        &mut self,
        block: &Block,
        stops: &[Stop],
        overdue: Duration,
        control: &Control,
        between: &mut dyn FnMut(),
    ) -> Windows {
        let rate = windows::rate_of(block).expect("a schedule needs a rate");
        if let Err(error) = self.heal() {
            return Windows::broken(error);
        }
        let (windows_ns, stop) = windows::layout(stops, rate);
        let lanes = &self.lanes;
        windows::run(
            &mut self.workers,
            &Block { stop, ..*block },
            Timing {
                overdue,
                windows_ns: &windows_ns,
            },
            self.waits.as_ref(),
            control,
            between,
            |worker, share| worker.run(&lanes[worker.lane].workload, share),
        )
    }
}

/// The number of threads of a session over `servers` servers: the same for each server, at least one, and
/// none without a connection.
#[must_use]
pub fn threads_over(servers: usize, asked: usize, connections: usize) -> usize {
    let servers = servers.max(1);
    let each = asked.div_ceil(servers).min(connections / servers);
    servers * each.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_shared_equally_among_servers() {
        assert_eq!(threads_over(1, 8, 3), 3);
        assert_eq!(threads_over(1, 2, 50), 2);
        assert_eq!(threads_over(3, 1, 50), 3);
        assert_eq!(threads_over(3, 4, 50), 6);
        assert_eq!(threads_over(3, 8, 8), 6);
    }
}

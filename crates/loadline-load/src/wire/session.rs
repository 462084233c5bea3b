//! A session: the connections to one target, spread over threads, and the blocks run on them.

use rand::{SeedableRng, rngs::SmallRng};

use super::conn::Conn;
use super::transport::{Connect, Framing};
use super::worker::Worker;
use crate::Error;
use crate::block::{self, Block};
use crate::meter::Control;
use crate::outcome::Outcome;
use crate::values::mix;
use crate::workload::{Chooser, Workload};

/// The shape of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Connections, over all threads.
    pub connections: usize,
    /// Threads, at most as many as connections.
    pub threads: usize,
    /// Operations in flight per connection at most (the pipeline).
    pub window: u32,
    /// Whether payloads are checked against what was written.
    pub verify: bool,
    /// The seed of the choices.
    pub seed: u64,
}

/// Open connections to one target for one workload.
pub struct Session<'c, F> {
    workload: Workload,
    connector: &'c dyn Connect,
    framing: fn() -> F,
    shape: Shape,
    workers: Vec<Worker<F>>,
}

impl<'c, F: Framing> Session<'c, F> {
    /// Opens all connections.
    ///
    /// # Errors
    /// [`Error::Connect`] when one cannot be opened; [`Error::Plan`] when the shape is empty.
    pub fn open(
        workload: Workload,
        connector: &'c dyn Connect,
        framing: fn() -> F,
        shape: Shape,
    ) -> Result<Self, Error> {
        if shape.connections == 0 || shape.threads == 0 || shape.window == 0 {
            return Err(Error::Plan(
                "connections, threads and pipeline must each be at least 1".into(),
            ));
        }
        let threads = shape.threads.min(shape.connections);
        let mut session = Self {
            workload,
            connector,
            framing,
            shape: Shape { threads, ..shape },
            workers: Vec::new(),
        };
        for thread in 0..threads {
            let rng = SmallRng::seed_from_u64(mix(shape.seed ^ (thread as u64 + 1)));
            let chooser = Chooser::new(rng, thread as u64, threads as u64);
            session
                .workers
                .push(Worker::new(&session.workload, chooser, shape.window)?);
        }
        for index in 0..shape.connections {
            let conn = session.connect(index)?;
            session.workers[index % threads].adopt(index / threads, conn)?;
        }
        Ok(session)
    }

    fn connect(&self, index: usize) -> Result<Conn<F>, Error> {
        let transport = self.connector.connect().map_err(|source| Error::Connect {
            index: index + 1,
            wanted: self.shape.connections,
            source,
        })?;
        Ok(Conn::new(transport, (self.framing)(), self.shape.verify))
    }

    /// Opens lost connections again.
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
    /// When connections cannot be opened again, all are lost, or the system refuses a call.
    pub fn run(&mut self, block: &Block, control: &Control) -> Result<Outcome, Error> {
        self.heal()?;
        let workload = &self.workload;
        block::run(&mut self.workers, block, control, |worker, share| {
            worker.run(workload, share)
        })
    }

    /// The workload.
    #[must_use]
    pub fn workload(&self) -> &Workload {
        &self.workload
    }
}

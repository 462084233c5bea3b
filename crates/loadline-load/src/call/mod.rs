//! The call loop, for subjects that are called and return when they are done: in-process engines and blocking
//! clients.
//!
//! An operation is prepared before the clock is read, so that drawing keys and copying values is never part
//! of a measured time. Two clock readings would distort a call shorter than [`SHORT_CALL_NS`]; such calls are
//! timed individually only in every [`TIMED_RUN`]-th run of [`AHEAD`], and the other runs, timed as a whole,
//! give the throughput.

#[cfg(test)]
mod tests;
mod worker;

use std::time::Duration;

use rand::{SeedableRng, rngs::SmallRng};

use crate::Error;
use crate::block::{self, Block, Watch};
use crate::meter::Control;
use crate::outcome::Outcome;
use crate::reply::Reply;
use crate::values::mix;
use crate::workload::{Chooser, Workload};
use worker::Worker;

/// The number of operations that are prepared before they are performed.
pub const AHEAD: usize = 64;
/// Calls shorter than this, in nanoseconds, are not all timed individually.
pub const SHORT_CALL_NS: u64 = 2_000;
/// One run of short calls in this many is timed call by call.
pub const TIMED_RUN: u64 = 8;

/// One thread's access to a subject.
pub trait Callee: Send {
    /// Whether [`arm`](Self::arm) does something. Such calls are always timed individually.
    const ARMS: bool = false;

    /// The number of operations per call: more than one for pipelines and batches. Each of them takes as long
    /// as the call.
    fn ops_per_call(&self) -> u64 {
        1
    }

    /// Prepares a call at `place`, which is below [`AHEAD`]: command number `command` of `workload`, with
    /// keys and numbers drawn from `chooser`. Not timed. A callee with several operations per call draws for
    /// each of them.
    fn prepare(&mut self, place: usize, command: usize, chooser: &mut Chooser, workload: &Workload);

    /// Sets up the state that the call at `place` requires, directly before it. Not timed. Errors are
    /// reported by [`perform`](Self::perform).
    fn arm(&mut self, _place: usize) {}

    /// Performs the prepared call at `place`. Only this is timed.
    fn perform(&mut self, place: usize) -> Reply<'_>;
}

/// Callers of one subject, with one thread each.
pub struct Callers<C> {
    workload: Workload,
    workers: Vec<Worker<C>>,
}

impl<C: Callee> Callers<C> {
    /// Creates a caller for each of `callees`; with `verify`, payloads are compared with the written values.
    ///
    /// # Errors
    /// [`Error::Plan`] without a callee.
    pub fn new(
        workload: Workload,
        callees: Vec<C>,
        verify: bool,
        seed: u64,
    ) -> Result<Self, Error> {
        if callees.is_empty() {
            return Err(Error::Plan("a call needs at least one thread".into()));
        }
        let threads = callees.len() as u64;
        let workers = (0..threads)
            .zip(callees)
            .map(|(thread, callee)| {
                let rng = SmallRng::seed_from_u64(mix(seed ^ (thread + 1)));
                Worker::new(
                    &workload,
                    callee,
                    Chooser::new(rng, thread, threads),
                    verify,
                )
            })
            .collect();
        Ok(Self { workload, workers })
    }

    /// Runs one block on all threads. The duration in its outcome is the time spent in calls.
    ///
    /// # Errors
    /// An invalid rate.
    pub fn run(&mut self, block: &Block, control: &Control) -> Result<Outcome, Error> {
        let workload = &self.workload;
        block::run(
            &mut self.workers,
            block,
            Duration::ZERO,
            control,
            Watch::Nothing,
            |worker, share| Ok(worker.run(workload, share)),
        )
    }
}

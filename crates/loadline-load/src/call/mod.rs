//! The call loop, for subjects that are called and return when they are done: engines in process, and
//! clients that block.
//!
//! An operation is prepared before the clock is read, so that drawing keys and copying values is never part
//! of a measured time. A call that takes less than [`SHORT_CALL_NS`] would be changed by
//! two readings of the clock around it; such calls are timed one by one only in every
//! [`TIMED_RUN`]-th run of [`AHEAD`], and the other runs, timed as a whole, give the throughput.

#[cfg(test)]
mod tests;
mod worker;

use rand::{SeedableRng, rngs::SmallRng};

use crate::Error;
use crate::block::{self, Block, Watch};
use crate::meter::Control;
use crate::outcome::Outcome;
use crate::reply::Reply;
use crate::values::mix;
use crate::workload::{Chooser, Workload};
use worker::Worker;

/// Operations that are made ready before they are performed one after the other.
pub const AHEAD: usize = 64;
/// Calls shorter than this, in nanoseconds, are not all timed one by one.
pub const SHORT_CALL_NS: u64 = 2_000;
/// One run of short calls in this many is timed call by call.
pub const TIMED_RUN: u64 = 8;

/// One thread's access to a subject.
pub trait Callee: Send {
    /// Whether [`arm`](Self::arm) does something. Such calls are timed one by one, however short
    /// they are.
    const ARMS: bool = false;

    /// How many operations one call performs: more than one where a call is a pipeline or a batch.
    /// Each of them then took as long as the call.
    fn ops_per_call(&self) -> u64 {
        1
    }

    /// Makes a call ready at `place`, which is below [`AHEAD`]: command number `command` of
    /// `workload`, its keys and numbers drawn from `chooser`. Not timed. A callee with several
    /// operations per call draws for each of them.
    fn prepare(&mut self, place: usize, command: usize, chooser: &mut Chooser, workload: &Workload);

    /// Brings the subject into the state that the call at `place` starts from, right before it. Not
    /// timed. A call that fails for what went wrong here says so in [`perform`](Self::perform).
    fn arm(&mut self, _place: usize) {}

    /// Performs what was prepared at `place`. Only this is timed.
    fn perform(&mut self, place: usize) -> Reply<'_>;
}

/// Callers of one subject, a thread each.
pub struct Callers<C> {
    workload: Workload,
    workers: Vec<Worker<C>>,
}

impl<C: Callee> Callers<C> {
    /// A caller for each of `callees`; with `verify`, payloads are checked against what was written.
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
    /// A rate that cannot be.
    pub fn run(&mut self, block: &Block, control: &Control) -> Result<Outcome, Error> {
        let workload = &self.workload;
        block::run(
            &mut self.workers,
            block,
            control,
            Watch::Nothing,
            |worker, share| Ok(worker.run(workload, share)),
        )
    }
}

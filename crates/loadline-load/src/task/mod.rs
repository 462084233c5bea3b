//! The task loop, for asynchronous subjects: tasks on one thread share the subject, and each performs
//! operations in sequence.
//!
//! The tasks run on a `current_thread` runtime of tokio, to measure how much one thread of an application can
//! have in flight. A task prepares its operation before it reads the clock. Other tasks can do so between its
//! request and its reply, as in an application.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use rand::{SeedableRng, rngs::SmallRng};

use crate::Error;
use crate::block::{self, Block, Share};
use crate::clock::ThreadMeter;
use crate::meter::{Control, Meter};
use crate::outcome::Outcome;
use crate::pacing::Pacing;
use crate::reply::Tally;
use crate::values::mix;
use crate::workload::{Chooser, Workload, cumulative_weights};

/// The result of an operation of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// The operation succeeded.
    Well,
    /// There is no value.
    Nil,
    /// The subject refused it or could not be reached, with its message.
    Failed(String),
}

/// A subject that tasks share.
pub trait Performer: Clone + 'static {
    /// A prepared operation.
    type Operation: 'static;

    /// Prepares an operation: command number `command` of `workload`, with keys and numbers drawn from
    /// `chooser`. Not timed.
    fn prepare(
        &self,
        command: usize,
        chooser: &mut Chooser,
        workload: &Workload,
    ) -> Self::Operation;

    /// Performs the operation. Only this is timed.
    fn perform(&self, operation: Self::Operation) -> impl Future<Output = Done>;
}

/// Tasks that share one subject.
pub struct Tasks<P> {
    workload: Rc<Workload>,
    performer: P,
    in_flight: usize,
    chooser: Rc<RefCell<Chooser>>,
    runtime: Rc<tokio::runtime::Runtime>,
}

impl<P: Performer> Tasks<P> {
    /// Creates `in_flight` tasks that share `performer`, whose connections belong to `runtime`, which must be
    /// a current_thread one.
    ///
    /// # Errors
    /// [`Error::Plan`] without a task.
    pub fn new(
        workload: Workload,
        performer: P,
        in_flight: usize,
        runtime: Rc<tokio::runtime::Runtime>,
        seed: u64,
    ) -> Result<Self, Error> {
        if in_flight == 0 {
            return Err(Error::Plan("at least one task is needed".into()));
        }
        let rng = SmallRng::seed_from_u64(mix(seed ^ 1));
        Ok(Self {
            workload: Rc::new(workload),
            performer,
            in_flight,
            chooser: Rc::new(RefCell::new(Chooser::new(rng, 0, 1))),
            runtime,
        })
    }

    /// Runs one block in a closed loop.
    ///
    /// # Errors
    /// [`Error::Plan`] for an open loop, which tasks do not support.
    pub fn run(&mut self, block: &Block, control: &Control) -> Result<Outcome, Error> {
        if block.pacing != Pacing::Closed {
            return Err(Error::Plan("tasks run in a closed loop only".into()));
        }
        block::run_here(block, control, |share| {
            let running = Running {
                performer: self.performer.clone(),
                workload: Rc::clone(&self.workload),
                chooser: Rc::clone(&self.chooser),
                cumulative: cumulative_weights(self.workload.commands()).into(),
            };
            self.runtime.block_on(running.run(self.in_flight, share))
        })
    }
}

/// The shared state of the tasks of a block.
struct Running<P> {
    performer: P,
    workload: Rc<Workload>,
    chooser: Rc<RefCell<Chooser>>,
    cumulative: Rc<[u32]>,
}

/// The shared counters of the tasks of a block.
struct Counts<'b> {
    meter: Meter<'b>,
    tally: Tally,
    quota: u64,
    /// Tasks that are performing an operation.
    in_flight: u64,
    last_reply_ns: u64,
}

impl<P: Performer> Running<P> {
    async fn run(self, in_flight: usize, share: &Share<'_>) -> Outcome {
        let thread = ThreadMeter::start();
        let counts = RefCell::new(Counts {
            meter: Meter::new(share.board, share.control),
            tally: Tally::default(),
            quota: share.ops,
            in_flight: 0,
            last_reply_ns: 0,
        });
        let tasks = (0..in_flight).map(|_| self.task(share, &counts));
        futures_util::future::join_all(tasks).await;
        let Counts {
            mut meter,
            tally,
            last_reply_ns,
            ..
        } = counts.into_inner();
        meter.tick(last_reply_ns);
        meter.part.errors = tally.errors;
        meter.part.nils = tally.nils;
        meter.part.duration = Duration::from_nanos(last_reply_ns.max(1));
        meter.part.cut_short = share.control.interrupted();
        let mut part = meter.finish();
        part.generator = thread.stop(0);
        part
    }

    /// Performs operations in sequence until the block is over.
    async fn task(&self, share: &Share<'_>, counts: &RefCell<Counts<'_>>) {
        loop {
            let now_ns = share.clock.now_ns();
            {
                let mut counts = counts.borrow_mut();
                let over = now_ns >= share.deadline_ns || share.control.interrupted();
                if counts.quota == 0 || over {
                    return;
                }
                counts.quota -= 1;
                counts.in_flight += 1;
            }
            let (operation, reads) = {
                let mut chooser = self.chooser.borrow_mut();
                let number = chooser.command(&self.cumulative);
                let operation = self.performer.prepare(number, &mut chooser, &self.workload);
                (operation, self.workload.commands()[number].reads)
            };
            let begin_ns = share.clock.now_ns();
            let done = self.performer.perform(operation).await;
            let now_ns = share.clock.now_ns();
            let mut counts = counts.borrow_mut();
            counts.in_flight -= 1;
            if counts.meter.is_quiet(now_ns) {
                // In a closed loop, some tasks always wait.
                let in_flight = counts.in_flight + 1;
                let waited_ns = counts.meter.run_waited_ns();
                counts.meter.quiet(now_ns, 0, in_flight, waited_ns, true);
            }
            counts.meter.arrived(now_ns);
            counts.meter.tick(now_ns);
            counts.meter.record(now_ns, begin_ns, begin_ns, 1);
            counts.meter.part.reads += u64::from(reads);
            counts.last_reply_ns = now_ns;
            match done {
                Done::Well => {}
                Done::Nil => counts.tally.nils += u64::from(reads),
                Done::Failed(sentence) => {
                    counts.tally.errors.count(sentence.as_bytes());
                    let errors = counts.tally.errors.clone();
                    counts.meter.part.errors = errors;
                }
            }
        }
    }
}

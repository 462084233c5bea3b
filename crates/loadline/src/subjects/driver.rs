//! A client library in the process of its driver, with the server's own counters as a cross-check.

use std::cell::RefCell;
use std::rc::Rc;

use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;
use loadline_load::runner::Subject;
use loadline_load::{Control, Error};

use crate::exit::Failure;
use crate::targets::drivers::{About, Broken, Running};
use crate::targets::{Admin, Counters, SECTIONS};

/// What is known of the blocks of a driver besides their outcomes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Driven {
    /// Operations that it reported.
    pub(crate) ops: u64,
    /// Operations that the server counted, if it counts.
    pub(crate) counted: Option<u64>,
    /// Reads from sockets that the server counted, without those of the lab itself.
    pub(crate) reads: Option<u64>,
    pub(crate) max_rss_bytes: u64,
    pub(crate) gc_ns: Option<u64>,
    pub(crate) elapsed_ns: u64,
}

/// A driver with a client that is connected.
#[derive(Debug)]
pub(crate) struct DriverSubject {
    running: Running,
    /// The lab's own connection, which all drivers of a case share.
    admin: Rc<RefCell<Admin>>,
    /// The command that is counted as an operation, in lower case.
    declared: Vec<String>,
    driven: Driven,
    /// Why it does not go on, once it does not.
    failure: Option<Failure>,
}

impl DriverSubject {
    pub(crate) fn new(running: Running, admin: Rc<RefCell<Admin>>, command: &str) -> Self {
        Self {
            running,
            admin,
            declared: vec![command.to_owned()],
            driven: Driven::default(),
            failure: None,
        }
    }

    /// What the driver says about its client.
    pub(crate) fn about(&self) -> &About {
        &self.running.about
    }

    /// What is known of its blocks since the last call.
    pub(crate) fn take_driven(&mut self) -> Driven {
        std::mem::take(&mut self.driven)
    }

    /// Why it did not go on, if it is why a block failed.
    pub(crate) fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// The server's counters, and its reads from sockets.
    fn counters(&self) -> Result<(Counters, Option<u64>), Error> {
        let info = self.admin.borrow_mut().info(&SECTIONS);
        let info = info.map_err(|error| Error::Subject(Box::new(error)))?;
        let reads = info.number("total_reads_processed");
        Ok((Counters::read(&info, &self.declared), reads))
    }

    fn note(&mut self, broken: Broken) -> Error {
        let failure = self.running.failure(broken);
        self.failure = Some(failure.clone());
        Error::Subject(Box::new(failure))
    }
}

impl Subject for DriverSubject {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        let (before, reads_before) = self.counters()?;
        let (mut outcome, said) = match self.running.block(stop, seed, control) {
            Ok(done) => done,
            Err(Broken::Interrupted) => {
                return Ok(Outcome {
                    cut_short: true,
                    ..Outcome::empty()
                });
            }
            Err(broken) => return Err(self.note(broken)),
        };
        let (after, reads_after) = self.counters()?;
        outcome.target = after.since(&before);
        let reads = reads_after.zip(reads_before);
        // One of them is the reading of the second counters.
        let reads = reads.map(|(after, before)| after.saturating_sub(before + 1));
        let driven = &mut self.driven;
        driven.counted = sum(driven.ops == 0, driven.counted, outcome.target.commands);
        driven.reads = sum(driven.ops == 0, driven.reads, reads);
        driven.gc_ns = sum(driven.ops == 0, driven.gc_ns, said.gc_ns);
        driven.ops += outcome.ops;
        driven.elapsed_ns = driven.elapsed_ns.saturating_add(said.elapsed_ns);
        let memory = self.running.peak_memory().unwrap_or(said.max_rss_bytes);
        driven.max_rss_bytes = driven.max_rss_bytes.max(memory);
        Ok(outcome)
    }
}

/// The sum so far with one more, known only if all parts are.
fn sum(is_first: bool, so_far: Option<u64>, next: Option<u64>) -> Option<u64> {
    if is_first {
        return next;
    }
    so_far
        .zip(next)
        .map(|(one, other)| one.saturating_add(other))
}

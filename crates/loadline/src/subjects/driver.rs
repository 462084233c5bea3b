//! A client library in the process of its driver, with the server's own counters as a cross-check.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;
use loadline_load::runner::Subject;
use loadline_load::{Control, Error};

use crate::exit::Failure;
use crate::systems::drivers::{About, Broken, Config, Running};
use crate::systems::strace::Strace;
use crate::systems::{Admin, Counters, SECTIONS, together};

/// The lab's own connections to the servers that execute operations, which all drivers of a case share.
pub(crate) type Admins = Rc<RefCell<Vec<Admin>>>;

/// Operations of a block whose system calls are counted, and its longest time. Those of beginning and ending a block, about
/// ten, are counted too.
const TRACED_OPS: u64 = 2_000;
const TRACED_CALLS: u64 = 200;
const TRACED_TIME: Duration = Duration::from_millis(500);

/// Facts about the blocks of a driver besides their outcomes.
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
    admins: Admins,
    /// The command that is counted as an operation, in lower case.
    declared: Vec<String>,
    /// Operations of a call, and their rate in an open loop.
    size: u64,
    rate: Option<u64>,
    driven: Driven,
    /// The failure after which it does not go on.
    failure: Option<Failure>,
}

impl DriverSubject {
    pub(crate) fn new(running: Running, admins: Admins, config: &Config) -> Self {
        Self {
            running,
            admins,
            declared: vec![config.operation.to_owned()],
            size: u64::from(config.depth),
            rate: Some(config.rate).filter(|rate| *rate > 0),
            driven: Driven::default(),
            failure: None,
        }
    }

    /// The driver's description of its client.
    pub(crate) fn about(&self) -> &About {
        &self.running.about
    }

    /// The facts about its blocks since the last call.
    pub(crate) fn take_driven(&mut self) -> Driven {
        std::mem::take(&mut self.driven)
    }

    /// The failure after which it did not go on, if a block failed because of it.
    pub(crate) fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// System calls per operation, counted in a block of its own. Must be called on the main thread.
    ///
    /// # Errors
    /// The reason why they were not counted, as a sentence without a full stop.
    pub(crate) fn system_calls(&mut self, control: &Control) -> Result<f64, String> {
        let strace = Strace::attach(self.running.pid())?;
        let stop = Stop {
            ops: Some(TRACED_OPS.max(TRACED_CALLS * self.size)),
            duration: Some(TRACED_TIME),
        };
        let block = self.running.block(stop, 1, control);
        let counted = strace.end();
        let (outcome, _) = block.map_err(|broken| self.running.failure(broken).to_string())?;
        Ok(counted? as f64 / outcome.ops.max(1) as f64)
    }

    /// The servers' counters, and their reads from sockets.
    fn counters(&self) -> Result<Vec<(Counters, Option<u64>)>, Error> {
        let mut admins = self.admins.borrow_mut();
        let read = |admin: &mut Admin| {
            let info = admin.info(&SECTIONS);
            let info = info.map_err(|error| Error::Subject(Box::new(error)))?;
            let reads = info.number("total_reads_processed");
            Ok((Counters::read(&info, &self.declared), reads))
        };
        admins.iter_mut().map(read).collect()
    }

    fn note(&mut self, broken: Broken) -> Error {
        let failure = self.running.failure(broken);
        self.failure = Some(failure.clone());
        Error::Subject(Box::new(failure))
    }
}

impl Subject for DriverSubject {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        let before = self.counters()?;
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
        let after = self.counters()?;
        let pairs = || after.iter().zip(&before);
        let costs = pairs().map(|((after, _), (before, _))| after.since(before));
        outcome.target = costs.reduce(together).unwrap_or_default();
        // One read of each server is that of the second counters.
        let reads = pairs().map(|((_, after), (_, before))| {
            let both = after.zip(*before);
            both.map(|(after, before)| after.saturating_sub(before + 1))
        });
        let reads: Option<u64> = reads.sum();
        if let Some(rate) = self.rate {
            let planned = planned(stop, rate, self.size);
            if outcome.ops > planned {
                let why = format!("{} operations of {planned} that were due", outcome.ops);
                return Err(self.note(Broken::Nonsense(why)));
            }
            outcome.planned = Some(planned);
            outcome.not_sent = planned - outcome.ops;
        }
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

/// Operations that are due in a block of calls of `size` operations at `rate`: call *i* is due after `i * size / rate`
/// seconds.
fn planned(stop: Stop, rate: u64, size: u64) -> u64 {
    let size = size.max(1);
    let within = |duration: Duration| {
        let due = duration.as_nanos().saturating_mul(rate.into());
        let calls = due.div_ceil(u128::from(size) * 1_000_000_000);
        u64::try_from(calls).unwrap_or(u64::MAX)
    };
    let timed = stop.duration.map_or(u64::MAX, within);
    let counted = stop.ops.map_or(u64::MAX, |ops| ops.div_ceil(size));
    timed.min(counted).max(1).saturating_mul(size)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_operations_of_a_block_are_counted() {
        let after = |ms| Stop::after(Duration::from_millis(ms));
        assert_eq!(planned(after(400), 500, 1), 200);
        assert_eq!(planned(after(401), 500, 1), 201);
        assert_eq!(planned(after(150), 1, 1), 1);
        assert_eq!(planned(after(100), 10_000, 100), 1_000);
        assert_eq!(planned(Stop::after_ops(15), 500, 10), 20);
        assert_eq!(planned(Stop::after_ops(9), 1 << 60, 1), 9);
        assert_eq!(planned(after(u64::MAX), u64::MAX, 1), u64::MAX);
    }
}

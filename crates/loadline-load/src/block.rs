//! A block: a subject under load from a common start to a common end, on one or more threads.

use std::time::Duration;

use crate::Error;
use crate::clock::Clock;
use crate::meter::{Board, Control};
use crate::outcome::Outcome;
use crate::pacing::{Arrivals, Pacing, Stop};
use crate::pauses;
use crate::values::mix;
use crate::waits::TargetWaits;

/// The longest wait for a reply. A target that sends nothing for this long while operations wait has failed;
/// outstanding replies at the end of a block are awaited for the same time.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) const RESPONSE_TIMEOUT_NS: u64 = RESPONSE_TIMEOUT.as_nanos() as u64;

/// Bounds of the overtime of an open loop after its block, and of the part of it that is caused by stalls.
const SHORTEST_OVERTIME_NS: u64 = 20_000_000;
const LONGEST_OVERTIME_NS: u64 = 500_000_000;
const LONGEST_STALLED_NS: u64 = 5_000_000_000;
/// Operations that would take this many times the overtime, at the pace of the block, are not started in it.
const HOPELESS: f64 = 4.0;

/// The parameters of a block, apart from the workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    /// Closed loop, or open loop at a rate.
    pub pacing: Pacing,
    /// The end of the block.
    pub stop: Stop,
    /// The length of an interval of the series.
    pub interval: Duration,
    /// The seed of the arrivals.
    pub seed: u64,
}

/// One thread's share of a block.
pub(crate) struct Share<'s> {
    pub(crate) board: &'s Board,
    pub(crate) control: &'s Control,
    pub(crate) clock: Clock,
    /// This thread's part of the block's operations; `u64::MAX` if unlimited.
    pub(crate) ops: u64,
    /// The end of the block, counted from its start; `u64::MAX` if unlimited.
    pub(crate) deadline_ns: u64,
    /// This thread's part of the schedule; `None` in a closed loop.
    pub(crate) arrivals: Option<Arrivals>,
    /// Time of the first possible operation: the schedule of a block begins earlier if its target did not answer.
    pub(crate) ready_ns: u64,
    /// The ends of the block's windows; empty for a block of one window.
    pub(crate) windows_ns: &'s [u64],
}

/// The place of a block in the schedule of its run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Timing<'p> {
    /// Time from when the block was due to its start.
    pub(crate) overdue: Duration,
    /// The ends of its windows, from its start; empty for a block of one window.
    pub(crate) windows_ns: &'p [u64],
}

/// Disturbances to watch for during a block.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Watch<'w> {
    /// Nothing: an in-process subject uses its CPUs alone.
    Nothing,
    /// The pauses of this machine's CPUs, and waits of the target for them.
    Cpus(Option<&'w TargetWaits>),
}

/// Runs `block` with one thread per worker, the first on the caller's thread, and combines the results.
///
/// # Errors
/// An invalid rate, or the first error of a worker.
pub(crate) fn run<W: Send>(
    workers: &mut [W],
    block: &Block,
    overdue: Duration,
    control: &Control,
    watch: Watch<'_>,
    work: impl Fn(&mut W, &Share<'_>) -> Result<Outcome, Error> + Sync,
) -> Result<Outcome, Error> {
    run_tasks(tasks(workers, &work), block, overdue, control, watch)
}

/// One thread's work in a block. The threads of all subjects are started and joined by the same code, compiled once.
pub(crate) type Task<'w, R> = Box<dyn FnOnce(&Share<'_>) -> R + Send + 'w>;

/// The work of each worker.
pub(crate) fn tasks<'w, W: Send, R>(
    workers: &'w mut [W],
    work: &'w (impl Fn(&mut W, &Share<'_>) -> R + Sync),
) -> Vec<Task<'w, R>> {
    let tasks = workers.iter_mut().map(|worker| {
        let task: Task<'w, R> = Box::new(move |share| work(worker, share));
        task
    });
    tasks.collect()
}

fn run_tasks(
    tasks: Vec<Task<'_, Result<Outcome, Error>>>,
    block: &Block,
    overdue: Duration,
    control: &Control,
    watch: Watch<'_>,
) -> Result<Outcome, Error> {
    block.check()?;
    let Watch::Cpus(target) = watch else {
        let _ = control.start.pass(&control.interrupt);
        return run_from(Clock::start(), tasks, block, overdue, control);
    };
    let precision = match block.pacing {
        Pacing::Open { .. } => pauses::FINE,
        Pacing::Closed => pauses::COARSE,
    };
    let (outcome, seen) = pauses::watch(precision, target, || {
        let late = control.start.pass(&control.interrupt);
        let overdue = match block.pacing {
            Pacing::Open { .. } => late.unwrap_or(overdue),
            // A closed loop that starts late, for example because keys were restored before it, is no shorter for that.
            Pacing::Closed => late.map_or(overdue, |_| Duration::ZERO),
        };
        let clock = Clock::start_at(overdue);
        let outcome = run_from(clock, tasks, block, overdue, control);
        (outcome, clock)
    });
    let mut outcome = outcome?;
    outcome.explain(seen);
    Ok(outcome)
}

fn run_from(
    clock: Clock,
    tasks: Vec<Task<'_, Result<Outcome, Error>>>,
    block: &Block,
    overdue: Duration,
    control: &Control,
) -> Result<Outcome, Error> {
    let began = clock.began();
    let threads = tasks.len();
    let board = Board::new(block.interval, threads);
    let board = match block.pacing {
        Pacing::Open { .. } => board.keeping(),
        Pacing::Closed => board,
    };
    let place = Timing {
        overdue,
        windows_ns: &[],
    };
    let run = |(thread, task): (usize, Task<'_, Result<Outcome, Error>>)| {
        task(&block.share((thread, threads), clock, &board, control, place))
    };
    let parts: Vec<Result<Outcome, Error>> = std::thread::scope(|scope| {
        let mut all = tasks.into_iter().enumerate();
        let first = all.next();
        let run = &run;
        let running: Vec<_> = all.map(|one| scope.spawn(move || run(one))).collect();
        let own = first.map(run);
        let others = running.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        own.into_iter().chain(others).collect()
    });
    let mut outcome = Outcome::empty();
    for part in parts {
        outcome.join(&part?);
    }
    outcome.series = board.into_series();
    outcome.began = Some(began);
    Ok(outcome)
}

/// Runs a block that a subject measures by itself: it starts with those of other load generators, and its results are live
/// once it is over.
///
/// # Errors
/// That of `measure`.
pub fn run_whole(
    control: &Control,
    measure: impl FnOnce() -> Result<Outcome, Error>,
) -> Result<Outcome, Error> {
    let _ = control.start.pass(&control.interrupt);
    let began = Clock::start().began();
    let mut outcome = measure()?;
    outcome.began = Some(began);
    if let Some(live) = &control.live {
        live.add(outcome.ops, outcome.errors.total(), &outcome.response);
    }
    Ok(outcome)
}

/// Runs `block` on the calling thread.
///
/// # Errors
/// An invalid rate.
pub(crate) fn run_here(
    block: &Block,
    control: &Control,
    work: impl FnOnce(&Share<'_>) -> Outcome,
) -> Result<Outcome, Error> {
    let board = Board::new(block.interval, 1);
    let share = block.share((0, 1), Clock::start(), &board, control, Timing::default());
    let mut outcome = work(&share);
    outcome.series = board.into_series();
    Ok(outcome)
}

impl Share<'_> {
    /// Whether an open loop gives up, at `now_ns`, the operations that were due before the end of its block
    /// from `next_ns` on, after a stall of `stalled_ns`.
    ///
    /// Operations delayed by stalls must be sent, or their response times would be missing: a target that can keep
    /// up with the schedule at all sends them in as much time as the stalls took, which is granted up to five
    /// seconds. Operations of a schedule that the target cannot keep up with would only accumulate, so the further
    /// overtime is limited to half of the block's length, and the rest is reported as not sent. If far more than
    /// that remains, nothing is sent after the end.
    pub(crate) fn is_out_of_time(&self, now_ns: u64, next_ns: u64, stalled_ns: u64) -> bool {
        if now_ns < self.deadline_ns {
            return false;
        }
        let overtime_ns = (self.deadline_ns / 2).clamp(SHORTEST_OVERTIME_NS, LONGEST_OVERTIME_NS);
        let stalled_ns = stalled_ns.min(LONGEST_STALLED_NS);
        let overtime_ns = overtime_ns + stalled_ns;
        if now_ns >= self.deadline_ns.saturating_add(overtime_ns) {
            return true;
        }
        let ran_ns = now_ns.saturating_sub(stalled_ns) as f64;
        let rest_ns = self.deadline_ns.saturating_sub(next_ns) as f64;
        rest_ns * ran_ns / next_ns.max(1) as f64 > HOPELESS * overtime_ns as f64
    }

    /// The number of planned starts that will never be sent, for a block that ended at `end_ns` with its
    /// schedule at `arrivals`: those due before the deadline or the interrupt. `quota` operations remained.
    pub(crate) fn not_sent(
        &self,
        arrivals: Arrivals,
        end_ns: u64,
        cut_short: bool,
        quota: u64,
    ) -> u64 {
        let until_ns = if cut_short {
            end_ns.min(self.deadline_ns)
        } else {
            self.deadline_ns
        };
        if self.ops != u64::MAX && until_ns == u64::MAX {
            return quota;
        }
        arrivals.count_until(until_ns).min(quota)
    }
}

impl Block {
    /// Refuses a rate that cannot be.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.pacing {
            Pacing::Open { rate, .. } if !(rate.is_finite() && rate > 0.0) => Err(Error::Plan(
                format!("a rate of {rate} operations per second cannot be"),
            )),
            _ => Ok(()),
        }
    }

    /// The share of one of several threads, given by its number and theirs.
    pub(crate) fn share<'s>(
        &self,
        (thread, threads): (usize, usize),
        clock: Clock,
        board: &'s Board,
        control: &'s Control,
        place: Timing<'s>,
    ) -> Share<'s> {
        let arrivals = match self.pacing {
            Pacing::Closed => None,
            Pacing::Open { rate, arrivals } => Some(Arrivals::new(
                rate,
                arrivals,
                thread,
                threads,
                mix(self.seed ^ thread as u64),
            )),
        };
        Share {
            board,
            control,
            clock,
            ops: self
                .stop
                .ops
                .map_or(u64::MAX, |ops| part_of(ops, thread, threads)),
            deadline_ns: self
                .stop
                .duration
                .map_or(u64::MAX, |duration| duration.as_nanos() as u64),
            arrivals,
            ready_ns: place.overdue.as_nanos() as u64,
            windows_ns: place.windows_ns,
        }
    }
}

fn part_of(total: u64, thread: usize, threads: usize) -> u64 {
    let (thread, threads) = (thread as u64, threads as u64);
    total / threads + u64::from(thread < total % threads)
}

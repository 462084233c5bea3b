//! Windows: the rounds of a single target in an open loop.
//!
//! An open loop is one schedule from its first to its last operation. If each round began a schedule of its own,
//! nothing would be due between two rounds, and a target that stopped there would leave no trace. So the load runs
//! through all rounds, and each of them is a window of it: the replies and the costs of a stretch of time.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::Error;
use crate::block::{Block, Place, Share};
use crate::clock::Clock;
use crate::meter::{Board, Control};
use crate::outcome::{Interval, Outcome, Pauses};
use crate::pacing::{Pacing, Stop};
use crate::pauses;
use crate::stall::Stall;

/// The windows of a block that are over, and the error that ended it early.
#[derive(Debug, Default)]
pub struct Windows {
    /// The results of each window, in order of time.
    pub outcomes: Vec<Outcome>,
    /// The error; the window in which it happened is not among the results.
    pub error: Option<Error>,
}

impl Windows {
    /// The result of a block of one window.
    pub(crate) fn into_one(mut self) -> Result<Outcome, Error> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.outcomes.pop().expect("a block has a window")),
        }
    }

    pub(crate) fn broken(error: Error) -> Self {
        Self {
            outcomes: Vec::new(),
            error: Some(error),
        }
    }
}

/// The ends of windows with the lengths `stops` in an open loop at `rate`, in nanoseconds from the start, and the end
/// of the whole.
pub(crate) fn layout(stops: &[Stop], rate: f64) -> (Vec<u64>, Stop) {
    let mut whole = Stop {
        ops: None,
        duration: None,
    };
    let mut end_ns = 0.0;
    let mut ends_ns = Vec::with_capacity(stops.len());
    for stop in stops {
        let of_ops = stop.ops.map(|ops| 1e9 * ops as f64 / rate);
        let of_time = stop.duration.map(|duration| duration.as_nanos() as f64);
        let shortest = of_ops.into_iter().chain(of_time).reduce(f64::min);
        end_ns += shortest.unwrap_or(0.0).max(1.0);
        ends_ns.push(end_ns as u64);
        whole.ops = stop.ops.map(|ops| whole.ops.unwrap_or(0) + ops);
        let sum = |duration| whole.duration.unwrap_or_default() + duration;
        whole.duration = stop.duration.map(sum);
    }
    (ends_ns, whole)
}

/// Runs `block`, an open loop, with one thread per worker over the windows of `place`. Calls `between` on this thread
/// at the end of each window but the last.
pub(crate) fn run<W: Send>(
    workers: &mut [W],
    block: &Block,
    place: Place<'_>,
    control: &Control,
    between: &mut dyn FnMut(),
    work: impl Fn(&mut W, &Share<'_>) -> Windows + Sync,
) -> Windows {
    if let Err(error) = block.check() {
        return Windows::broken(error);
    }
    let threads = workers.len();
    let board = Board::new(block.interval, threads);
    let (parts, pauses) = pauses::watch(pauses::FINE, || {
        let clock = Clock::start_at(place.overdue);
        let run = |(thread, worker)| {
            let share = block.share((thread, threads), clock, &board, control, place);
            let windows = work(worker, &share);
            if windows.error.is_some() {
                board.abandon();
            }
            windows
        };
        let parts: Vec<Windows> = std::thread::scope(|scope| {
            let (running, ended) = mpsc::channel::<()>();
            let run = &run;
            let start = |one| {
                let running = running.clone();
                scope.spawn(move || {
                    let _running = running;
                    run(one)
                })
            };
            let all: Vec<_> = workers.iter_mut().enumerate().map(start).collect();
            drop(running);
            for end_ns in &place.windows_ns[..place.windows_ns.len() - 1] {
                let left = Duration::from_nanos(end_ns.saturating_sub(clock.now_ns()));
                match ended.recv_timeout(left) {
                    Err(RecvTimeoutError::Timeout) => between(),
                    _ => break,
                }
            }
            let ended = all.into_iter().map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            ended.collect()
        });
        (parts, clock)
    });
    let mut windows = joined(parts);
    distribute(
        &mut windows.outcomes,
        place.windows_ns,
        &board.into_series(),
        pauses,
    );
    windows
}

/// The results of all threads, window by window. The last window has all stalls.
fn joined(parts: Vec<Windows>) -> Windows {
    let failed = parts.iter().any(|part| part.error.is_some());
    let lengths = parts.iter().map(|part| part.outcomes.len());
    // A thread that failed has only the windows that it finished. One that was interrupted can be a window behind.
    let common = if failed { lengths.min() } else { lengths.max() };
    let mut windows = Windows::default();
    windows
        .outcomes
        .resize_with(common.unwrap_or(0), Outcome::empty);
    let mut stalls = Outcome::empty();
    for mut part in parts {
        if let Some(last) = part.outcomes.last_mut() {
            let of_thread = Outcome {
                stalls: std::mem::take(&mut last.stalls),
                ..Outcome::empty()
            };
            stalls.join(&of_thread);
        }
        for (whole, part) in windows.outcomes.iter_mut().zip(&part.outcomes) {
            whole.join(part);
        }
        windows.error = windows.error.or(part.error);
    }
    if let Some(last) = windows.outcomes.last_mut() {
        last.stalls = stalls.stalls;
    }
    windows
}

/// Divides what was observed in the whole block among its windows, which end at `ends_ns`.
fn distribute(
    windows: &mut [Outcome],
    ends_ns: &[u64],
    series: &[Interval],
    pauses: Option<Pauses>,
) {
    let Some(last) = windows.last_mut() else {
        return;
    };
    last.explain(pauses);
    let stalls = std::mem::take(&mut last.stalls);
    let pauses = last.pauses.take();
    let count = windows.len();
    let mut start = Duration::ZERO;
    for (window, outcome) in windows.iter_mut().enumerate() {
        let end = match ends_ns.get(window) {
            Some(end_ns) if window + 1 < count => Duration::from_nanos(*end_ns),
            _ => Duration::MAX,
        };
        let is_here = |time: Duration| start <= time && time < end;
        let intervals = series.iter().filter(|interval| is_here(interval.start));
        outcome.series = intervals
            .map(|interval| Interval {
                start: interval.start - start,
                ..interval.clone()
            })
            .collect();
        let here = stalls.iter().filter(|stall| is_here(stall.start));
        outcome.stalls = here
            .map(|stall| Stall {
                start: stall.start - start,
                ..*stall
            })
            .collect();
        outcome.pauses = pauses.as_ref().map(|pauses| pauses.within(start, end));
        start = end;
    }
}

/// The rate of an open loop.
pub(crate) fn rate_of(block: &Block) -> Option<f64> {
    match block.pacing {
        Pacing::Open { rate, .. } => Some(rate),
        Pacing::Closed => None,
    }
}

//! Windows: the rounds of a single target in an open loop.
//!
//! An open loop is one schedule from its first to its last operation. If each round began a schedule of its own,
//! nothing would be due between two rounds, and a target that stopped there would leave no trace. So the load runs
//! through all rounds, and each of them is a window of it: the replies and the costs of a stretch of time.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use crate::Error;
use crate::block::{Block, Share, Task, Timing, tasks};
use crate::clock::Clock;
use crate::meter::{Board, Control};
use crate::outcome::{Interval, Outcome};
use crate::pacing::{Pacing, Stop};
use crate::pauses;
use crate::pauses::Observed;
use crate::stall::Stall;
use crate::waits::TargetWaits;

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
    place: Timing<'_>,
    watched: Option<&TargetWaits>,
    control: &Control,
    between: &mut dyn FnMut(),
    work: impl Fn(&mut W, &Share<'_>) -> Windows + Sync,
) -> Windows {
    run_tasks(
        tasks(workers, &work),
        block,
        place,
        watched,
        control,
        between,
    )
}

fn run_tasks(
    tasks: Vec<Task<'_, Windows>>,
    block: &Block,
    place: Timing<'_>,
    watched: Option<&TargetWaits>,
    control: &Control,
    between: &mut dyn FnMut(),
) -> Windows {
    if let Err(error) = block.check() {
        return Windows::broken(error);
    }
    let threads = tasks.len();
    let board = Board::new(block.interval, threads);
    let (parts, seen) = pauses::watch(pauses::FINE, watched, || {
        let place = Timing {
            overdue: control
                .start
                .pass(&control.interrupt)
                .unwrap_or(place.overdue),
            ..place
        };
        let clock = Clock::start_at(place.overdue);
        let began = clock.began();
        let run = |(thread, task): (usize, Task<'_, Windows>)| {
            let share = block.share((thread, threads), clock, &board, control, place);
            let windows = task(&share);
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
            let all: Vec<_> = tasks.into_iter().enumerate().map(start).collect();
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
        ((parts, began), clock)
    });
    let (parts, began) = parts;
    let mut windows = joined(parts, place.windows_ns.len());
    distribute(
        &mut windows.outcomes,
        place.windows_ns,
        &board.into_series(),
        seen,
        began,
    );
    windows
}

/// The results of all threads, window by window, of a block of `count` windows. The last window has all stalls.
pub(crate) fn joined(parts: Vec<Windows>, count: usize) -> Windows {
    let failed = parts.iter().any(|part| part.error.is_some());
    let lengths = parts.iter().map(|part| part.outcomes.len());
    // One that was interrupted can be a window behind.
    let common = if failed {
        finished(&parts, count)
    } else {
        lengths.max()
    };
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

/// The number of windows that all threads finished. A thread that failed has only those, and one that ended because
/// another had failed has the window in which it ended as well.
fn finished(parts: &[Windows], count: usize) -> Option<usize> {
    let of_thread = |part: &Windows| match part.outcomes.len() {
        all if part.error.is_some() || all == count => all,
        some => some.saturating_sub(1),
    };
    parts.iter().map(of_thread).min()
}

/// Divides what was observed in the whole block, which started at `began`, among its windows, which end at `ends_ns`.
fn distribute(
    windows: &mut [Outcome],
    ends_ns: &[u64],
    series: &[Interval],
    seen: Observed,
    began: SystemTime,
) {
    let Some(last) = windows.last_mut() else {
        return;
    };
    last.explain(seen);
    let stalls = std::mem::take(&mut last.stalls);
    let pauses = last.pauses.take();
    let count = windows.len();
    let mut start = Duration::ZERO;
    for (window, outcome) in windows.iter_mut().enumerate() {
        let end = match ends_ns.get(window) {
            Some(end_ns) if window + 1 < count => Duration::from_nanos(*end_ns),
            _ => Duration::MAX,
        };
        outcome.began = began.checked_add(start);
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
        outcome.pauses = match count {
            1 => pauses.clone(),
            _ => pauses.as_ref().map(|pauses| pauses.within(start, end)),
        };
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::pacing::ArrivalProcess;

    /// Runs threads over `ends_ns` that do `work`, and counts the calls between windows.
    fn run_threads(
        threads: usize,
        ends_ns: &[u64],
        between: &mut dyn FnMut(),
        work: impl Fn(usize, &Share<'_>) -> Windows + Sync,
    ) -> Windows {
        let block = Block {
            pacing: Pacing::Open {
                rate: 1_000.0,
                arrivals: ArrivalProcess::Uniform,
            },
            stop: Stop::after(Duration::from_secs(3_600)),
            interval: Duration::from_secs(1),
            seed: 1,
        };
        let place = Timing {
            overdue: Duration::ZERO,
            windows_ns: ends_ns,
        };
        let mut workers: Vec<usize> = (0..threads).collect();
        let control = Control::default();
        run(
            &mut workers,
            &block,
            place,
            None,
            &control,
            between,
            |thread, share| work(*thread, share),
        )
    }

    fn outcomes(ops: &[u64]) -> Vec<Outcome> {
        let of = |ops: &u64| Outcome {
            ops: *ops,
            ..Outcome::empty()
        };
        ops.iter().map(of).collect()
    }

    #[test]
    fn failed_thread_ends_the_others_before_the_next_window_is_due() {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let mut called = 0;
        let between = &mut || called += 1;
        let windows = run_threads(3, &[HOUR_NS, 2 * HOUR_NS], between, |thread, share| {
            if thread == 1 {
                return Windows::broken(Error::Subject("gone".into()));
            }
            while !share.board.is_abandoned() {
                std::thread::yield_now();
            }
            Windows {
                outcomes: outcomes(&[7]),
                error: None,
            }
        });
        assert_eq!(windows.error.unwrap().to_string(), "gone");
        assert!(windows.outcomes.is_empty());
        assert_eq!(called, 0);
    }

    #[test]
    fn costs_are_read_once_between_windows_while_the_load_goes_on() {
        let called = AtomicUsize::new(0);
        let between = &mut || {
            called.fetch_add(1, Ordering::Relaxed);
        };
        let windows = run_threads(2, &[1, 2, 3, 4], between, |_, _| {
            while called.load(Ordering::Relaxed) < 3 {
                std::thread::yield_now();
            }
            Windows {
                outcomes: outcomes(&[1, 2, 3, 4]),
                error: None,
            }
        });
        assert!(windows.error.is_none());
        let ops: Vec<u64> = windows.outcomes.iter().map(|one| one.ops).collect();
        assert_eq!(ops, [2, 4, 6, 8]);
        assert_eq!(called.into_inner(), 3);
    }

    #[test]
    fn stall_that_two_threads_saw_is_one_of_the_window_that_it_began_in() {
        let stalled = |start_ms: u64, in_flight: u64| {
            let mut outcomes = outcomes(&[1, 1, 1]);
            outcomes[2].stalls.push(Stall {
                start: Duration::from_millis(start_ms),
                length: Duration::from_millis(30),
                in_flight,
                generator: Duration::ZERO,
                paused: Duration::ZERO,
                target_wait: None,
                answered: true,
            });
            Windows {
                outcomes,
                error: None,
            }
        };
        let mut windows = joined(vec![stalled(120, 2), stalled(130, 3)], 3);
        let ends_ns = [100_000_000, 200_000_000, 300_000_000];
        let began = SystemTime::UNIX_EPOCH;
        distribute(
            &mut windows.outcomes,
            &ends_ns,
            &[],
            Observed::default(),
            began,
        );
        let start = |window: usize| windows.outcomes[window].began;
        assert_eq!(start(2), Some(began + Duration::from_millis(200)));
        let of = |window: usize| &windows.outcomes[window].stalls;
        assert!(of(0).is_empty() && of(2).is_empty());
        let [stall] = of(1)[..] else {
            panic!("{:?}", of(1))
        };
        assert_eq!(stall.start, Duration::from_millis(20));
        assert_eq!(
            (stall.length, stall.in_flight),
            (Duration::from_millis(40), 5)
        );
    }
}

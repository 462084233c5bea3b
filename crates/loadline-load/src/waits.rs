//! Waits of a target for a CPU, read while a block runs.
//!
//! The kernel adds the time that a thread waited in the run queue to its schedstat file once the thread gets a CPU.
//! Read before and after a block, it tells how long the target waited, but not when. A stall of 100 ms in a block of
//! 10 s, on a machine where every thread waits for a tenth of its time, would be explained by waits that were
//! elsewhere. So the file is read every few milliseconds, and a stall is explained by the waits that ended in it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::clock::{Clock, RunQueue};
use crate::stall::SHORTEST_STALL_NS;

/// The time between two readings.
const SLEEP: Duration = Duration::from_millis(5);
/// The shortest wait that is kept: it explains half of the shortest stall.
const SHORTEST_NS: u64 = SHORTEST_STALL_NS / 2;

/// The run queue waits of a target's threads on this machine.
#[derive(Debug)]
pub struct TargetWaits(Vec<RunQueue>);

/// A wait that ended between two readings. Times count from the start of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wait {
    /// The time of the reading before it.
    pub(crate) start: Duration,
    /// The time of the reading that shows it.
    pub(crate) end: Duration,
    /// The wait of the thread that waited longest.
    pub(crate) length: Duration,
}

impl TargetWaits {
    /// The threads that the processes `pids` have now; `None` if there are none on this machine.
    #[must_use]
    pub fn of(pids: impl IntoIterator<Item = u64>) -> Option<Self> {
        let threads: Vec<RunQueue> = pids.into_iter().flat_map(RunQueue::of_process).collect();
        (!threads.is_empty()).then_some(Self(threads))
    }

    fn read(&self) -> Vec<Option<u64>> {
        self.0.iter().map(RunQueue::wait_ns).collect()
    }

    /// Reads the waits until `over` is set, and once more after that.
    pub(crate) fn observe(&self, over: &AtomicBool) -> Vec<Wait> {
        let clock = Clock::common();
        let (mut start_ns, mut before) = (clock.now_ns(), self.read());
        let mut waits = Vec::new();
        loop {
            let is_last = over.load(Ordering::Relaxed);
            let after = self.read();
            let end_ns = clock.now_ns();
            let length_ns = longest_ns(&before, &after);
            if length_ns >= SHORTEST_NS {
                waits.push(Wait {
                    start: Duration::from_nanos(start_ns),
                    end: Duration::from_nanos(end_ns),
                    length: Duration::from_nanos(length_ns),
                });
            }
            if is_last {
                return waits;
            }
            (start_ns, before) = (end_ns, after);
            thread::park_timeout(SLEEP);
        }
    }
}

/// The longest wait of a thread between two readings.
fn longest_ns(before: &[Option<u64>], after: &[Option<u64>]) -> u64 {
    let both = after.iter().zip(before);
    let waited = both.filter_map(|(after, before)| Some((*after)?.saturating_sub((*before)?)));
    waited.max().unwrap_or(0)
}

/// The part of a period from `start` to `end` that `waits` explain at most.
pub(crate) fn within(waits: &[Wait], start: Duration, end: Duration) -> Duration {
    let here = waits
        .iter()
        .filter(|wait| wait.start < end && start < wait.end);
    // A wait that ended at the beginning of the period can have been before it for the most part.
    let parts = here.map(|wait| wait.length.min(wait.end.min(end) - start));
    let sum: Duration = parts.sum();
    sum.min(end - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn only_waits_that_ended_in_a_period_explain_it() {
        let wait = |start, end, length| Wait {
            start: ms(start),
            end: ms(end),
            length: ms(length),
        };
        let waits = [
            wait(100, 105, 4),
            wait(200, 205, 90),
            wait(205, 210, 3),
            wait(300, 305, 5),
        ];
        assert_eq!(within(&waits, ms(110), ms(200)), ms(0));
        assert_eq!(within(&waits, ms(112), ms(206)), ms(93));
        assert_eq!(within(&waits, ms(202), ms(300)), ms(6));
        assert_eq!(within(&waits, ms(202), ms(204)), ms(2));
    }

    /// A thread that is never runnable has waited for nothing.
    #[test]
    fn waits_of_a_process_are_read_until_the_end() {
        let own = u64::from(std::process::id());
        let waits = TargetWaits::of([own]).expect("Linux reports every process");
        let over = AtomicBool::new(true);
        assert!(waits.observe(&over).len() <= 1);
        assert!(TargetWaits::of([u64::MAX]).is_none());
    }

    #[test]
    fn longest_wait_of_a_thread_counts() {
        let before = [Some(100), Some(50), None, Some(7)];
        let after = [Some(150), Some(170), Some(900), None];
        assert_eq!(longest_ns(&before, &after), 120);
    }
}

//! Periods of a block in which operations waited and nothing arrived.
//!
//! A percentile shows how long operations took. A stall shows when, and what happened at that time.

use std::time::Duration;

/// The most stalls that a block stores: the longest ones.
pub const MOST_STALLS: usize = 16;
/// The shortest stall that is stored.
pub const SHORTEST_STALL: Duration = Duration::from_millis(1);

pub(crate) const SHORTEST_STALL_NS: u64 = SHORTEST_STALL.as_nanos() as u64;

/// A period in which operations waited and nothing arrived. Times count from the start of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// The last arrival before it, or the intended start of the first waiting operation, whichever is later.
    pub start: Duration,
    /// The duration until the next arrival, or until the end of the block.
    pub length: Duration,
    /// Operations in flight at the end.
    pub in_flight: u64,
    /// The part in which the generator's own thread delayed operations: it waited for a CPU, was taken off
    /// its CPU, or was busy.
    pub generator: Duration,
    /// The part in which a CPU of this machine did not run: the longest overlap with one of the
    /// [pauses](crate::outcome::Outcome::pauses) of the block.
    pub paused: Duration,
    /// The part in which the target waited for a CPU, at most; `None` if that was not observed.
    pub target_wait: Option<Duration>,
    /// Whether an arrival ended it.
    pub answered: bool,
}

/// The longest stalls of a block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stalls {
    longest: Vec<Stall>,
}

impl Stall {
    /// The end.
    #[must_use]
    pub fn end(&self) -> Duration {
        self.start + self.length
    }

    /// Whether it overlaps with `other`.
    fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    /// Merges two overlapping stalls of different threads.
    fn with(&self, other: &Self) -> Self {
        let start = self.start.min(other.start);
        Self {
            start,
            length: self.end().max(other.end()) - start,
            in_flight: self.in_flight + other.in_flight,
            generator: self.generator.max(other.generator),
            paused: self.paused.max(other.paused),
            target_wait: self.target_wait.max(other.target_wait),
            answered: self.answered && other.answered,
        }
    }
}

impl Stalls {
    /// Adds a stall; removes the shortest one if there are too many.
    pub(crate) fn add(&mut self, stall: Stall) {
        if self.longest.len() == MOST_STALLS {
            let shortest = self
                .longest
                .iter()
                .enumerate()
                .min_by_key(|(_, stall)| stall.length);
            match shortest {
                Some((place, shortest)) if shortest.length < stall.length => {
                    self.longest.swap_remove(place);
                }
                _ => return,
            }
        }
        self.longest.push(stall);
    }

    /// Returns the stalls in order of time.
    pub(crate) fn into_sorted(mut self) -> Vec<Stall> {
        self.longest.sort_unstable_by_key(|stall| stall.start);
        self.longest
    }
}

/// Merges the stalls of two threads. Overlapping ones become one, because a stopped server affects both
/// threads.
pub(crate) fn joined(one: &[Stall], other: &[Stall]) -> Vec<Stall> {
    let mut all = [one, other].concat();
    all.sort_unstable_by_key(|stall| stall.start);
    let mut stalls = Stalls::default();
    let mut open: Option<Stall> = None;
    for stall in all {
        open = Some(match open.take() {
            Some(before) if before.overlaps(&stall) => before.with(&stall),
            before => {
                before.into_iter().for_each(|before| stalls.add(before));
                stall
            }
        });
    }
    open.into_iter().for_each(|last| stalls.add(last));
    stalls.into_sorted()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stall(start_ms: u64, length_ms: u64) -> Stall {
        Stall {
            start: Duration::from_millis(start_ms),
            length: Duration::from_millis(length_ms),
            in_flight: 3,
            generator: Duration::ZERO,
            paused: Duration::ZERO,
            target_wait: None,
            answered: true,
        }
    }

    #[test]
    fn longest_are_kept_in_order_of_time() {
        let mut stalls = Stalls::default();
        for number in 0..1_000 {
            // Lengths in a scrambled order: 389 and 1,000 have no common factor.
            stalls.add(stall(number * 2_000, 1 + (number * 389) % 1_000));
        }
        let kept = stalls.into_sorted();
        assert_eq!(kept.len(), MOST_STALLS);
        assert!(kept.is_sorted_by_key(|stall| stall.start));
        let shortest = kept.iter().map(|stall| stall.length).min();
        assert_eq!(shortest, Some(Duration::from_millis(985)));
    }

    #[test]
    fn stall_seen_by_two_threads_counts_once() {
        let late = Stall {
            answered: false,
            generator: Duration::from_millis(7),
            ..stall(150, 100)
        };
        let joined = joined(&[stall(100, 100), stall(500, 10)], &[late, stall(700, 5)]);
        let whole = Stall {
            in_flight: 6,
            answered: false,
            generator: Duration::from_millis(7),
            ..stall(100, 150)
        };
        assert_eq!(joined, [whole, stall(500, 10), stall(700, 5)]);
    }
}

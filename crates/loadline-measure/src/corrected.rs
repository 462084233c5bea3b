//! Tails without CPU waiting time, always shown next to the raw ones.
//!
//! On a busy machine most of a tail is caused by the scheduler: an operation that usually takes 40 us takes
//! milliseconds when the client or the server is runnable and has no CPU. How often that happens depends on
//! other programs, so the raw p99 varies between blocks by more than any change of the software, and a
//! comparison finds either nothing or the other programs. Linux counts this waiting time for every thread
//! (`run_delay`, the second figure of `/proc/<pid>/schedstat`). Read before and after an operation, it shows
//! how much of *this* operation was spent in a run queue.
//!
//! In short: subtract from each response time the operation's waiting time beyond the block's median. The
//! median stays, because being scheduled once per wake-up is part of every operation, also on an idle
//! machine; only the excess is removed. A corrected time is never above the raw one and never below the
//! shortest raw time of its block: client and server can wait at the same time, and a wait can begin before
//! the operation, so the counted waiting time can exceed the operation's delay.
//!
//! It does not cover interrupts, time that a hypervisor takes from the whole CPU (steal), the time to wake a
//! thread on another CPU, cache misses caused by other programs, a reduced clock frequency, and waiting
//! threads of the server other than the observed one. These remain in the corrected tail. If a server keeps
//! enough threads busy to make its own clients wait, that waiting is removed as well; the raw tail shows it,
//! which is why limits judge the raw one.
//!
//! ```
//! use loadline_measure::corrected::{Sample, correct};
//!
//! // One of three operations waited 3 ms for a CPU.
//! let samples = [(40_000, 500), (41_000, 500), (3_042_000, 3_000_500)]
//!     .map(|(response_ns, wait_ns)| Sample { response_ns, wait_ns });
//! let block = correct(&samples);
//! assert_eq!(block.raw.value_at(1.0), Some(3_043_327)); // three significant digits
//! assert_eq!(block.corrected.value_at(1.0), Some(42_015));
//! ```

use crate::histogram::Histogram;

/// One operation of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// From the start of the operation to its reply, in nanoseconds.
    pub response_ns: u64,
    /// The time during which client or server were runnable without a CPU, in nanoseconds, summed over both.
    pub wait_ns: u64,
}

/// The response times of one or several blocks, raw and without CPU waiting time. Both have the same number
/// of operations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Corrected {
    /// The raw times.
    pub raw: Histogram,
    /// The times without each operation's wait beyond the median of its block.
    pub corrected: Histogram,
}

impl Corrected {
    /// Adds the operations of another block. Each block is corrected by its own median, because a common
    /// median would fit neither quiet nor busy blocks.
    pub fn merge(&mut self, other: &Self) {
        self.raw.merge(&other.raw);
        self.corrected.merge(&other.corrected);
    }

    /// The number of operations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.raw.count()
    }
}

/// The times of one block, raw and corrected.
#[must_use]
pub fn correct(samples: &[Sample]) -> Corrected {
    let mut times = Corrected::default();
    let usual = median_wait(samples);
    let shortest = samples.iter().map(|sample| sample.response_ns).min();
    for sample in samples {
        let excess = sample.wait_ns.saturating_sub(usual);
        let without = sample.response_ns.saturating_sub(excess);
        times.raw.record(sample.response_ns);
        times
            .corrected
            .record(without.max(shortest.unwrap_or_default()));
    }
    times
}

/// The median wait in whole nanoseconds; 0 without samples.
fn median_wait(samples: &[Sample]) -> u64 {
    let waits: Vec<f64> = samples.iter().map(|sample| sample.wait_ns as f64).collect();
    crate::quantile::median(&waits).map_or(0, |wait| wait as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::compare::{Paired, Rules, Verdict, paired};
    use crate::metric::Direction;

    const BLOCKS: usize = 24;
    const OPERATIONS: usize = 2_500;

    /// Effects added to blocks of a server whose own times are 40 us and a tail.
    #[derive(Clone, Copy)]
    struct Planted {
        /// The delay added to the slowest 3 % of the operations.
        tail: f64,
        /// Whether another program takes the CPU from up to 4 % of the operations of a block.
        neighbour: bool,
        seed: u64,
    }

    /// The 99th percentiles of all blocks, raw and corrected.
    fn p99s(planted: Planted) -> (Vec<f64>, Vec<f64>) {
        let mut rng = SmallRng::seed_from_u64(planted.seed);
        let blocks = (0..BLOCKS).map(|_| {
            let block = correct(&block(planted, &mut rng));
            let at = |times: &Histogram| times.value_at(0.99).unwrap() as f64;
            (at(&block.raw), at(&block.corrected))
        });
        blocks.unzip()
    }

    fn block(planted: Planted, rng: &mut SmallRng) -> Vec<Sample> {
        // The load of the other program varies.
        let contended = if planted.neighbour {
            rng.random_range(0.0..0.04)
        } else {
            0.0
        };
        let operation = |_| {
            let mut response_ns = rng.random_range(38_000.0..42_000.0);
            if rng.random_bool(0.03) {
                response_ns = rng.random_range(80_000.0..100_000.0) * (1.0 + planted.tail);
            }
            let mut wait_ns = rng.random_range(300..700);
            if rng.random_bool(contended) {
                wait_ns += rng.random_range(200_000..4_000_000);
            }
            Sample {
                response_ns: response_ns as u64 + wait_ns,
                wait_ns,
            }
        };
        (0..OPERATIONS).map(operation).collect()
    }

    /// Standard deviation over the mean.
    fn variation(values: &[f64]) -> f64 {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (squares / (count - 1.0)).sqrt() / mean
    }

    fn compared(one: &[f64], other: &[f64]) -> Paired {
        paired(one, other, Direction::LessIsBetter, &Rules::default()).unwrap()
    }

    #[test]
    fn waits_for_a_cpu_do_not_move_the_corrected_tail() {
        let quiet = Planted {
            tail: 0.0,
            neighbour: false,
            seed: 1,
        };
        let busy = Planted {
            neighbour: true,
            seed: 2,
            ..quiet
        };
        let (raw_quiet, corrected_quiet) = p99s(quiet);
        let (raw_busy, corrected_busy) = p99s(busy);
        assert!(variation(&raw_busy) > 0.5, "{}", variation(&raw_busy));
        assert!(variation(&corrected_busy) < 0.02, "{corrected_busy:?}");
        assert!(compared(&raw_quiet, &raw_busy).ratio > 2.0);
        let corrected = compared(&corrected_quiet, &corrected_busy);
        assert!((corrected.ratio - 1.0).abs() < 0.01, "{corrected:?}");
        // Nothing is subtracted if no wait was longer than usual, to the digits that are kept.
        let untouched = compared(&raw_quiet, &corrected_quiet);
        assert!((untouched.ratio - 1.0).abs() < 0.004, "{untouched:?}");
    }

    #[test]
    fn longer_tail_shows_in_the_corrected_one_and_hides_in_the_raw_one() {
        let as_it_was = Planted {
            tail: 0.0,
            neighbour: true,
            seed: 3,
        };
        let slower = Planted {
            tail: 0.10,
            seed: 4,
            ..as_it_was
        };
        let (raw_a, corrected_a) = p99s(as_it_was);
        let (raw_b, corrected_b) = p99s(slower);
        let corrected = compared(&corrected_a, &corrected_b);
        assert_eq!(corrected.verdict, Verdict::Slower);
        assert!((corrected.ratio - 1.10).abs() < 0.01, "{corrected:?}");
        let raw = compared(&raw_a, &raw_b);
        assert_eq!(raw.verdict, Verdict::Inconclusive, "{raw:?}");
    }

    #[test]
    fn common_wait_of_all_operations_is_kept() {
        let always = [Sample {
            response_ns: 90_000,
            wait_ns: 50_000,
        }; 9];
        let block = correct(&always);
        assert_eq!(block.raw, block.corrected);
        assert_eq!(block.count(), 9);
    }

    #[test]
    fn waits_that_overlap_take_no_more_than_the_shortest_operation_leaves() {
        let sample = |response_ns, wait_ns| Sample {
            response_ns,
            wait_ns,
        };
        // Client and server waited 800 ns each, and 600 ns of it at the same time.
        let block = correct(&[sample(100, 0), sample(120, 0), sample(1_100, 1_600)]);
        assert_eq!(block.corrected.value_at(1.0), Some(120));
        assert_eq!(block.corrected.value_at(0.5), Some(100));
        assert_eq!(correct(&[]), Corrected::default());
    }

    #[test]
    fn blocks_that_are_merged_keep_their_own_medians() {
        let of = |response_ns, wait_ns| Sample {
            response_ns,
            wait_ns,
        };
        let quiet = [of(1_000, 0), of(1_000, 0), of(1_500, 500)];
        let busy = [of(1_800, 800), of(1_800, 800), of(1_900, 900)];
        let mut both = correct(&quiet);
        both.merge(&correct(&busy));
        assert_eq!(both.count(), 6);
        assert_eq!(both.corrected.value_at(0.5), Some(1_000));
        assert_eq!(both.corrected.value_at(1.0), Some(1_800));
        let at_once = correct(&[quiet, busy].concat());
        assert_ne!(both, at_once);
    }

    proptest! {
        #[test]
        fn correction_takes_and_never_adds(
            samples in prop::collection::vec((1_u64..1 << 40, 0_u64..1 << 40), 1..200)
        ) {
            let samples: Vec<Sample> = samples
                .into_iter()
                .map(|(response_ns, wait_ns)| Sample { response_ns, wait_ns })
                .collect();
            let block = correct(&samples);
            prop_assert_eq!(block.raw.count(), samples.len() as u64);
            prop_assert_eq!(block.corrected.count(), samples.len() as u64);
            for q in [0.0, 0.25, 0.5, 0.9, 0.99, 1.0] {
                prop_assert!(block.corrected.value_at(q) <= block.raw.value_at(q));
            }
            prop_assert_eq!(block.corrected.summary().min, block.raw.summary().min);
        }
    }
}

//! Pacing, arrivals and the stop rule of a block, as values.

use std::time::Duration;

use rand::{SeedableRng, rngs::SmallRng};
use rand_distr::{Distribution, Exp1, Poisson};

/// The pacing of operations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pacing {
    /// Closed loop: a connection sends the next operation as soon as a reply arrives. Suitable for finding
    /// the capacity; its latencies are those of a saturated target.
    Closed,
    /// Open loop: operations start at given times, independently of the target, and the response time counts
    /// from the intended start.
    Open {
        /// Operations per second, over all connections.
        rate: f64,
        /// The spacing of starts.
        arrivals: ArrivalProcess,
    },
}

/// The spacing of intended starts in an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ArrivalProcess {
    /// Evenly spaced.
    #[default]
    Uniform,
    /// Exponentially distributed gaps, like those of many independent users.
    Poisson,
}

/// The end of a block: the first limit that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// After this many operations.
    pub ops: Option<u64>,
    /// After this much time.
    pub duration: Option<Duration>,
}

impl Stop {
    /// Ends after `ops` operations.
    #[must_use]
    pub fn after_ops(ops: u64) -> Self {
        Self {
            ops: Some(ops),
            duration: None,
        }
    }

    /// Ends after `duration`.
    #[must_use]
    pub fn after(duration: Duration) -> Self {
        Self {
            ops: None,
            duration: Some(duration),
        }
    }
}

/// The intended starts of one thread's share of an open loop, in nanoseconds from the start of the block.
#[derive(Debug, Clone)]
pub struct Arrivals {
    gap_ns: f64,
    next_ns: f64,
    process: ArrivalProcess,
    rng: SmallRng,
}

impl Arrivals {
    /// The share of thread `thread` of `threads` in `rate` operations per second: evenly spaced threads are
    /// offset against each other; Poisson processes add up to one.
    #[must_use]
    pub fn new(
        rate: f64,
        process: ArrivalProcess,
        thread: usize,
        threads: usize,
        seed: u64,
    ) -> Self {
        let gap_ns = 1e9 * threads as f64 / rate;
        let mut arrivals = Self {
            gap_ns,
            next_ns: 0.0,
            process,
            rng: SmallRng::seed_from_u64(seed),
        };
        match process {
            ArrivalProcess::Uniform => arrivals.next_ns = gap_ns * thread as f64 / threads as f64,
            ArrivalProcess::Poisson => arrivals.advance(),
        }
        arrivals
    }

    /// The next intended start, in nanoseconds from the start of the block.
    #[inline]
    #[must_use]
    pub fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }

    /// The number of starts before `until_ns`, from the next one on.
    ///
    /// Starts of a Poisson process are not enumerated, because there can be billions: their number beyond the
    /// next one has a Poisson distribution and is drawn from it.
    pub(crate) fn count_until(mut self, until_ns: u64) -> u64 {
        if self.next_ns() >= until_ns {
            return 0;
        }
        let further = (until_ns as f64 - self.next_ns) / self.gap_ns;
        match self.process {
            ArrivalProcess::Uniform => further.ceil() as u64,
            ArrivalProcess::Poisson => {
                let count = Poisson::new(further).map(|law| law.sample(&mut self.rng));
                1 + count.map_or(0, |count: f64| count as u64)
            }
        }
    }

    /// Advances to the next start.
    #[inline]
    pub fn advance(&mut self) {
        self.next_ns += match self.process {
            ArrivalProcess::Uniform => self.gap_ns,
            ArrivalProcess::Poisson => {
                let unit: f64 = Exp1.sample(&mut self.rng);
                unit * self.gap_ns
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodness::{REJECTED_BELOW, chi_square_p, kolmogorov_p};
    use statrs::distribution::{Discrete, Poisson};

    fn starts(process: ArrivalProcess, thread: usize, threads: usize, count: usize) -> Vec<u64> {
        let mut arrivals = Arrivals::new(10_000.0, process, thread, threads, 5);
        (0..count)
            .map(|_| {
                let start = arrivals.next_ns();
                arrivals.advance();
                start
            })
            .collect()
    }

    #[test]
    fn uniform_threads_interleave_to_the_whole_rate() {
        let mut all = [
            starts(ArrivalProcess::Uniform, 0, 2, 3),
            starts(ArrivalProcess::Uniform, 1, 2, 3),
        ]
        .concat();
        all.sort_unstable();
        assert_eq!(all, [0, 100_000, 200_000, 300_000, 400_000, 500_000]);
    }

    #[test]
    fn poisson_keeps_the_rate_and_its_gaps_are_exponential() {
        let starts = starts(ArrivalProcess::Poisson, 0, 1, 100_000);
        let gaps: Vec<f64> = starts
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean / 100_000.0 - 1.0).abs() < 0.02, "mean gap {mean} ns");
        let p = kolmogorov_p(gaps, |gap| 1.0 - (-gap / 100_000.0).exp());
        assert!(p > REJECTED_BELOW, "p = {p}");
    }

    /// Besides its gaps, a Poisson process has independent windows, so the variance of their counts equals
    /// the mean. The threads' shares combine to one such process at the whole rate.
    #[test]
    fn poisson_threads_add_up_to_a_poisson_process() {
        const WINDOWS: usize = 10_000;
        let mut counts = [0_u64; WINDOWS];
        // Ten operations in a window of one millisecond, over four threads.
        for thread in 0..4 {
            let seed = 5 + thread as u64;
            let mut arrivals = Arrivals::new(10_000.0, ArrivalProcess::Poisson, thread, 4, seed);
            while let Some(count) = counts.get_mut((arrivals.next_ns() / 1_000_000) as usize) {
                *count += 1;
                arrivals.advance();
            }
        }
        let mut of_size = [0_u64; 40];
        for count in counts {
            of_size[count as usize] += 1;
        }
        let poisson = Poisson::new(10.0).unwrap();
        let shares: Vec<f64> = (0..40).map(|count| poisson.pmf(count)).collect();
        let p = chi_square_p(&of_size, &shares);
        assert!(p > REJECTED_BELOW, "p = {p}: {of_size:?}");
    }
}

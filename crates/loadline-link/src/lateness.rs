//! Lateness of releases.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The width of the first bucket.
const STEP_NS: u64 = 64;
/// The binary logarithm of the buckets per doubling.
const FINE_BITS: u32 = 3;
const FINE: u64 = 1 << FINE_BITS;
/// Covers four seconds; later releases count in the last bucket.
const BUCKETS: usize = 192;

/// A histogram of how late releases were. Buckets are at most an eighth wide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lateness {
    counts: Vec<u64>,
}

impl Lateness {
    /// The lateness at `quantile` (0 to 1, nearest rank, the upper end of its bucket); zero if there are no
    /// releases.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Duration {
        let rank = (quantile.clamp(0.0, 1.0) * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= rank {
                return Duration::from_nanos(upper_ns(index));
            }
        }
        Duration::ZERO
    }

    /// The number of releases.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The releases since `earlier`, an earlier reading of the same link.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.counts.iter().zip(&earlier.counts);
        Self {
            counts: pairs.map(|(now, then)| now.saturating_sub(*then)).collect(),
        }
    }
}

/// A [`Lateness`] that is being written by one thread and read by others.
#[derive(Debug)]
pub(crate) struct Counts([AtomicU64; BUCKETS]);

impl Default for Counts {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }
}

impl Counts {
    /// Adds a release. Only the one writing thread calls it.
    pub(crate) fn note(&self, late: Duration) {
        let count = &self.0[bucket(late)];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Lateness {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        Lateness {
            counts: counts.collect(),
        }
    }
}

fn bucket(late: Duration) -> usize {
    let steps = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX) / STEP_NS;
    if steps < FINE {
        return steps as usize;
    }
    let octave = steps.ilog2() - FINE_BITS;
    let index = (u64::from(octave) + 1) * FINE + ((steps >> octave) - FINE);
    (index as usize).min(BUCKETS - 1)
}

fn upper_ns(bucket: usize) -> u64 {
    let bucket = bucket as u64 + 1;
    if bucket <= FINE {
        return bucket * STEP_NS;
    }
    let octave = bucket / FINE - 1;
    ((bucket % FINE + FINE) << octave) * STEP_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_below_the_end_of_its_bucket_by_an_eighth_at_most() {
        let ends = (0..BUCKETS).map(upper_ns).collect::<Vec<_>>();
        assert!(ends.is_sorted() && ends[BUCKETS - 1] > 4_000_000_000);
        for ns in (0..5_000u64).chain((1..60_000).map(|step| step * 65_537)) {
            let upper = ends[bucket(Duration::from_nanos(ns))];
            assert!(ns < upper, "{ns} is in a bucket up to {upper}");
            assert!(upper - ns <= (ns / 8).max(1) + STEP_NS, "{ns} {upper}");
        }
        assert_eq!(bucket(Duration::from_secs(9)), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_what_was_added_since() {
        let counts = Counts::default();
        counts.note(Duration::from_millis(7));
        let before = counts.read();
        for us in 1..=100 {
            counts.note(Duration::from_micros(us));
        }
        let added = counts.read().since(&before);
        assert_eq!(added.count(), 100);
        let us = |quantile| added.quantile(quantile).as_nanos() as f64 / 1e3;
        assert!((50.0..=57.0).contains(&us(0.5)), "{}", us(0.5));
        assert!((99.0..=112.0).contains(&us(0.99)), "{}", us(0.99));
        assert_eq!(before.since(&before).quantile(0.99), Duration::ZERO);
    }
}

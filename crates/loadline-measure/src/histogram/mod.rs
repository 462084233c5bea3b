//! Times of single operations, in nanoseconds, as HDR histograms.
//!
//! A percentile is published only if at least [`SAMPLES_BEYOND`] samples lie beyond it: the median needs 200
//! samples, p99 needs 10,000 and p99.9 needs 100,000. With fewer it is `None`. Percentiles of parts are never
//! averaged; the histograms are merged instead.

mod counts;
mod encoding;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use counts::Counts;

/// The longest resolved time, in nanoseconds: an hour and 13 minutes. Longer ones count as this. It is one
/// less than a power of two because the buckets end there.
pub const MAX_NS: u64 = (1 << 42) - 1;

/// The number of samples that must lie beyond a published percentile.
pub const SAMPLES_BEYOND: u64 = 100;

/// Decimal digits that the histogram keeps of every value.
const SIGNIFICANT_DIGITS: u8 = 3;

/// The quantiles that a [`Histogram::spectrum`] tries, in order.
const SPECTRUM: [f64; 18] = [
    0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 0.9995,
    0.9999, 0.99999,
];

/// Times in nanoseconds, each kept to three significant digits.
///
/// It counts in 32 bits and has counters up to the longest time so far: an empty one takes no memory,
/// one with times up to 10 ms 60 KiB, the largest 132 KiB. Before a counter could overflow, the
/// counts move to counters of 64 bits, so no sample is ever lost.
#[derive(Clone, Default)]
pub struct Histogram {
    counts: Counts,
}

/// A histogram in numbers, all but `count` in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Samples.
    pub count: u64,
    /// The shortest time; `None` without samples.
    #[serde(default)]
    pub min: Option<u64>,
    /// The mean; `None` without samples.
    #[serde(default)]
    pub mean: Option<f64>,
    /// The standard deviation; `None` without samples.
    #[serde(default)]
    pub stddev: Option<f64>,
    /// The median; `None` below 200 samples.
    #[serde(default)]
    pub p50: Option<u64>,
    /// The 90th percentile; `None` below 1,000 samples.
    #[serde(default)]
    pub p90: Option<u64>,
    /// The 95th percentile; `None` below 2,000 samples.
    #[serde(default)]
    pub p95: Option<u64>,
    /// The 99th percentile; `None` below 10,000 samples.
    #[serde(default)]
    pub p99: Option<u64>,
    /// The 99.9th percentile; `None` below 100,000 samples.
    #[serde(default)]
    pub p999: Option<u64>,
    /// The longest time; `None` without samples.
    #[serde(default)]
    pub max: Option<u64>,
}

impl Histogram {
    /// An empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records one time in nanoseconds. A time above [`MAX_NS`] counts as [`MAX_NS`].
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    /// Records `n` samples of the same time in nanoseconds.
    #[inline]
    pub fn record_n(&mut self, ns: u64, n: u64) {
        self.counts.add(counts::slot_of(ns.min(MAX_NS)), n);
    }

    /// Adds all samples of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
    }

    /// Removes all samples and keeps the memory.
    pub fn reset(&mut self) {
        self.counts.reset();
    }

    /// The number of samples.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.total()
    }

    /// The smallest time in nanoseconds such that the share `q` (0 to 1) of the samples is not above it, or
    /// `None` if fewer than [`SAMPLES_BEYOND`] samples lie beyond it.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        publishable(self.count(), q)
            .then(|| self.value_at(q))
            .flatten()
    }

    /// Like [`quantile`](Self::quantile) for any number of samples: not for publication, but good enough to
    /// find a place on a time axis. `None` without samples.
    #[must_use]
    pub fn value_at(&self, q: f64) -> Option<u64> {
        time_at(self.counts.iter(), self.count(), q)
    }

    /// A summary of the histogram, without percentiles that have too few samples.
    #[must_use]
    pub fn summary(&self) -> LatencySummary {
        let count = self.count();
        let used: Vec<(usize, u64)> = self.counts.iter().collect();
        let (Some((first, _)), Some((last, _))) = (used.first(), used.last()) else {
            return LatencySummary::default();
        };
        let percentile = |q| {
            publishable(count, q)
                .then(|| time_at(used.iter().copied(), count, q))
                .flatten()
        };
        let mean = mean(&used, count);
        LatencySummary {
            count,
            min: Some(counts::lowest_of(*first)),
            mean: Some(mean),
            stddev: Some(stddev(&used, count, mean)),
            p50: percentile(0.5),
            p90: percentile(0.9),
            p95: percentile(0.95),
            p99: percentile(0.99),
            p999: percentile(0.999),
            max: Some(counts::highest_of(*last)),
        }
    }

    /// Pairs of a quantile (0 to 1) and its time in nanoseconds, in ascending order, as far into the tail as
    /// the number of samples permits. Meant for drawing the whole distribution.
    #[must_use]
    pub fn spectrum(&self) -> Vec<(f64, u64)> {
        let points = SPECTRUM.iter().map(|q| (*q, self.quantile(*q)));
        points.filter_map(|(q, ns)| Some((q, ns?))).collect()
    }

    /// The number of samples in each of `bins` bins of equal width on a logarithmic axis from `from_ns` to
    /// `to_ns`. Samples outside count in the first or last bin.
    #[must_use]
    pub fn log_bins(&self, from_ns: u64, to_ns: u64, bins: usize) -> Vec<u64> {
        let mut binned = vec![0_u64; bins];
        let start = (from_ns.max(1) as f64).ln();
        let width = ((to_ns.max(1) as f64).ln() - start).max(f64::MIN_POSITIVE);
        let Some(last) = bins.checked_sub(1) else {
            return binned;
        };
        for (slot, count) in self.counts.iter() {
            let place = ((counts::highest_of(slot).max(1) as f64).ln() - start) / width;
            // The conversion maps negative floats to 0, and values beyond the end to the last bin.
            let bin = ((place * bins as f64) as usize).min(last);
            binned[bin] = binned[bin].saturating_add(count);
        }
        binned
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("max", &self.value_at(1.0))
            .finish_non_exhaustive()
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        // Only the counts matter, not the number of counters.
        self.counts.iter().eq(other.counts.iter())
    }
}

/// Whether enough samples lie beyond the quantile `q` to publish it.
#[must_use]
pub fn publishable(count: u64, q: f64) -> bool {
    // A share such as 1 - 0.9 is a little below 0.1 in binary, hence the millionth of a sample.
    (1.0 - q) * count as f64 + 1e-6 >= SAMPLES_BEYOND as f64
}

/// Time below or at which the share `q` of `total` samples lies; `None` without samples.
fn time_at(used: impl Iterator<Item = (usize, u64)>, total: u64, q: f64) -> Option<u64> {
    let rank = (q.min(1.0) * total as f64).ceil() as u64;
    let slot = counts::slot_at(used, rank)?;
    Some(if q == 0.0 {
        counts::lowest_of(slot)
    } else {
        counts::highest_of(slot)
    })
}

/// Mean of the middles of the slots in nanoseconds.
fn mean(used: &[(usize, u64)], total: u64) -> f64 {
    let part = |(slot, count): &(usize, u64)| {
        counts::middle_of(*slot) as f64 * *count as f64 / total as f64
    };
    used.iter().map(part).sum()
}

/// Standard deviation of the middles of the slots in nanoseconds.
fn stddev(used: &[(usize, u64)], total: u64, mean: f64) -> f64 {
    let part = |(slot, count): &(usize, u64)| {
        let deviation = counts::middle_of(*slot) as f64 - mean;
        deviation * deviation * *count as f64
    };
    let squares: f64 = used.iter().map(part).sum();
    (squares / total as f64).sqrt()
}

//! Times of single operations, in nanoseconds, as HDR histograms.
//!
//! A percentile is published only if at least [`SAMPLES_BEYOND`] samples lie beyond it: the median needs 200
//! samples, p99 needs 10,000 and p99.9 needs 100,000. With fewer it is `None`. Percentiles of parts are never
//! averaged; the histograms are merged instead.

mod encoding;
#[cfg(test)]
mod tests;

use hdrhistogram::Histogram as Hdr;
use serde::{Deserialize, Serialize};

/// The longest resolved time, in nanoseconds: an hour and 13 minutes. Longer ones count as this. It is one
/// less than a power of two because the buckets end there.
pub const MAX_NS: u64 = (1 << 42) - 1;

/// The number of samples that must lie beyond a published percentile.
pub const SAMPLES_BEYOND: u64 = 100;

/// Decimal digits that the histogram keeps of every value.
const SIGNIFICANT_DIGITS: u8 = 3;

/// The reason why recording a time cannot fail.
const GROWS: &str = "a histogram grows to hold any time up to the longest that is resolved";

/// The quantiles that a [`Histogram::spectrum`] tries, in order.
const SPECTRUM: [f64; 18] = [
    0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 0.9995,
    0.9999, 0.99999,
];

/// Times in nanoseconds, each kept to three significant digits.
///
/// It counts in 32 bits and has counters up to the longest time so far: an empty one takes 8 KiB,
/// one with times up to 10 ms 60 KiB, the largest 132 KiB. Before a counter could overflow, the
/// counts move to a second histogram that counts in 64 bits, so no sample is ever lost.
#[derive(Clone)]
pub struct Histogram {
    narrow: Hdr<u32>,
    wide: Option<Box<Hdr<u64>>>,
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
        Self {
            narrow: empty(),
            wide: None,
        }
    }

    /// Records one time in nanoseconds. A time above [`MAX_NS`] counts as [`MAX_NS`].
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    /// Records `n` samples of the same time in nanoseconds.
    #[inline]
    pub fn record_n(&mut self, ns: u64, n: u64) {
        // The counters are as wide as the total, so none can overflow before the total does.
        match u32::try_from(n) {
            Ok(small) if self.narrow.len() + n <= u64::from(u32::MAX) => {
                self.narrow.record_n(ns.min(MAX_NS), small).expect(GROWS);
            }
            _ => self.record_many(ns, n),
        }
    }

    #[cold]
    fn record_many(&mut self, ns: u64, n: u64) {
        self.widen().record_n(ns.min(MAX_NS), n).expect(GROWS);
    }

    /// Adds all samples of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if self.narrow.len() + other.narrow.len() > u64::from(u32::MAX) {
            self.widen();
        }
        self.narrow.add(&other.narrow).expect(GROWS);
        if let Some(wide) = &other.wide {
            self.widen().add(&**wide).expect(GROWS);
        }
    }

    /// Removes all samples and keeps the memory.
    pub fn reset(&mut self) {
        self.narrow.reset();
        self.wide = None;
    }

    /// The number of samples.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.narrow
            .len()
            .saturating_add(self.wide.as_ref().map_or(0, |wide| wide.len()))
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
        self.read(
            |hdr| hdr.value_at_quantile(q),
            |hdr| hdr.value_at_quantile(q),
        )
    }

    /// A summary of the histogram, without percentiles that have too few samples.
    #[must_use]
    pub fn summary(&self) -> LatencySummary {
        let count = self.count();
        match &self.wide {
            None => summarise(&self.narrow, count),
            Some(_) => summarise(&self.whole(), count),
        }
    }

    /// Pairs of a quantile (0 to 1) and its time in nanoseconds, in ascending order, as far into the tail as
    /// the number of samples permits. Meant for drawing the whole distribution.
    #[must_use]
    pub fn spectrum(&self) -> Vec<(f64, u64)> {
        let (count, whole) = (self.count(), self.whole());
        let carried = SPECTRUM.iter().filter(|q| publishable(count, **q));
        carried.map(|q| (*q, whole.value_at_quantile(*q))).collect()
    }

    /// The number of samples in each of `bins` bins of equal width on a logarithmic axis from `from_ns` to
    /// `to_ns`. Samples outside count in the first or last bin.
    #[must_use]
    pub fn log_bins(&self, from_ns: u64, to_ns: u64, bins: usize) -> Vec<u64> {
        let mut counts = vec![0_u64; bins];
        let start = (from_ns.max(1) as f64).ln();
        let width = ((to_ns.max(1) as f64).ln() - start).max(f64::MIN_POSITIVE);
        let Some(last) = bins.checked_sub(1) else {
            return counts;
        };
        for step in self.whole().iter_recorded() {
            let place = ((step.value_iterated_to().max(1) as f64).ln() - start) / width;
            // The conversion maps negative floats to 0, and values beyond the end to the last bin.
            let bin = ((place * bins as f64) as usize).min(last);
            counts[bin] = counts[bin].saturating_add(step.count_at_value());
        }
        counts
    }

    /// Reads a value from the histogram in use.
    fn read<F>(&self, narrow: impl Fn(&Hdr<u32>) -> F, wide: impl Fn(&Hdr<u64>) -> F) -> Option<F> {
        match &self.wide {
            None if self.narrow.is_empty() => None,
            None => Some(narrow(&self.narrow)),
            Some(_) => Some(wide(&self.whole())),
        }
    }

    /// All samples in a histogram that cannot overflow.
    fn whole(&self) -> Hdr<u64> {
        let mut whole = match &self.wide {
            Some(wide) => (**wide).clone(),
            None => empty(),
        };
        pour(&self.narrow, &mut whole);
        whole
    }

    /// Moves the 32-bit counts to the 64-bit histogram.
    fn widen(&mut self) -> &mut Hdr<u64> {
        let wide = self.wide.get_or_insert_with(|| Box::new(empty()));
        pour(&self.narrow, wide);
        self.narrow.reset();
        wide
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
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
        let (one, other) = (self.whole(), other.whole());
        let samples = |hdr: &Hdr<u64>| -> Vec<(u64, u64)> {
            hdr.iter_recorded()
                .map(|step| (step.value_iterated_to(), step.count_at_value()))
                .collect()
        };
        samples(&one) == samples(&other)
    }
}

/// Whether enough samples lie beyond the quantile `q` to publish it.
#[must_use]
pub fn publishable(count: u64, q: f64) -> bool {
    // A share such as 1 - 0.9 is a little below 0.1 in binary, hence the millionth of a sample.
    (1.0 - q) * count as f64 + 1e-6 >= SAMPLES_BEYOND as f64
}

/// An empty histogram with the fewest counters; it grows on demand.
fn empty<C: hdrhistogram::Counter>() -> Hdr<C> {
    Hdr::new(SIGNIFICANT_DIGITS).expect("three digits are valid")
}

fn pour(from: &Hdr<u32>, into: &mut Hdr<u64>) {
    for step in from.iter_recorded() {
        into.record_n(step.value_iterated_to(), u64::from(step.count_at_value()))
            .expect(GROWS);
    }
}

fn summarise<C: hdrhistogram::Counter>(hdr: &Hdr<C>, count: u64) -> LatencySummary {
    if count == 0 {
        return LatencySummary::default();
    }
    let percentile = |q| publishable(count, q).then(|| hdr.value_at_quantile(q));
    LatencySummary {
        count,
        min: Some(hdr.min()),
        mean: Some(hdr.mean()),
        stddev: Some(hdr.stdev()),
        p50: percentile(0.5),
        p90: percentile(0.9),
        p95: percentile(0.95),
        p99: percentile(0.99),
        p999: percentile(0.999),
        max: Some(hdr.max()),
    }
}

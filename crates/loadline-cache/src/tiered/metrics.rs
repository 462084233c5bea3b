//! Counts of what the tiers did.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

/// Stripes of a counter that all threads raise, so that their hits do not wait for each other.
const STRIPES: usize = 16;
/// Longer times are counted as this one.
const LONGEST_US: u64 = 60_000_000;

#[repr(align(128))]
#[derive(Debug, Default)]
struct Stripe(AtomicU64);

/// A counter for what happens more often than anything else.
#[derive(Debug, Default)]
pub(crate) struct Striped([Stripe; STRIPES]);

thread_local! {
    // A constant without a destructor needs no check of whether it is initialised.
    static STRIPE: Cell<usize> = const { Cell::new(STRIPES) };
}

/// The stripe of this thread.
fn stripe() -> usize {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let stripe = STRIPE.get();
    if stripe < STRIPES {
        return stripe;
    }
    let stripe = NEXT.fetch_add(1, Relaxed) as usize % STRIPES;
    STRIPE.set(stripe);
    stripe
}

impl Striped {
    pub(crate) fn add(&self) {
        self.0[stripe()].0.fetch_add(1, Relaxed);
    }

    fn sum(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.0.load(Relaxed)).sum()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Counts one until the value is dropped.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.0.fetch_add(1, Relaxed);
        Held(&self.0)
    }
}

#[derive(Debug)]
pub(crate) struct Held<'a>(&'a AtomicU64);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct Timer(Mutex<Histogram<u64>>);

impl Default for Timer {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_US * 1_000, 2);
        Self(Mutex::new(histogram.expect("the bounds are in order")))
    }
}

impl Timer {
    pub(crate) fn record(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        histogram.saturating_record(ns);
    }

    fn times(&self) -> Times {
        let histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let quantile = |quantile| Duration::from_nanos(histogram.value_at_quantile(quantile));
        Times {
            count: histogram.len(),
            p50: quantile(0.5),
            p99: quantile(0.99),
            max: Duration::from_nanos(histogram.max()),
        }
    }
}

/// All counters of a cache.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) hits: Striped,
    pub(crate) stale_hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) waited: Counter,
    pub(crate) loads: Timer,
    pub(crate) load_errors: Counter,
    pub(crate) loading: Counter,
    pub(crate) fallbacks: Counter,
    pub(crate) refreshes_skipped: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct TierMetrics {
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) expired: Counter,
    pub(crate) damaged: Counter,
    pub(crate) other_version: Counter,
    pub(crate) outdated: Counter,
    pub(crate) not_asked: Counter,
    pub(crate) get_errors: Counter,
    pub(crate) put_errors: Counter,
    pub(crate) not_encoded: Counter,
    pub(crate) gets: Timer,
    pub(crate) puts: Timer,
    pub(crate) in_flight: Counter,
    pub(crate) read_bytes: Counter,
    pub(crate) written_bytes: Counter,
}

/// How long something took. Quantiles are exact to 1 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Times {
    /// How often it was measured.
    pub count: u64,
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The longest, at most a minute.
    pub max: Duration,
}

/// What a cache has done so far.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Values answered from memory while fresh. They are not timed: reading a clock would take longer than the hit.
    pub hits: u64,
    /// Values answered from memory after their time to live, while they are loaded again.
    pub stale_hits: u64,
    /// Values that were not in memory.
    pub misses: u64,
    /// Misses that waited for the same value to be loaded for another caller.
    pub waited: u64,
    /// Entries in memory, including expired ones that have not been evicted yet.
    pub entries: u64,
    /// Weight of the entries in memory.
    pub bytes: u64,
    /// The budget for it.
    pub budget_bytes: u64,
    /// Loads by the application, and how long they took.
    pub loads: Times,
    /// Loads that failed.
    pub load_errors: u64,
    /// Loads under way.
    pub loading: u64,
    /// Failed loads that were answered with a value past its time to live.
    pub fallbacks: u64,
    /// Refreshes in the background that were not begun because too many were under way.
    pub refreshes_skipped: u64,
    /// The tier below memory, if there is one.
    pub tier: Option<TierStats>,
}

/// What the tier below memory has done so far.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierStats {
    /// Values found fresh.
    pub hits: u64,
    /// Keys without a usable value. `expired`, `damaged`, `other_version` and `outdated` are among them.
    pub misses: u64,
    /// Values past their time to live.
    pub expired: u64,
    /// Bytes that are not a value.
    pub damaged: u64,
    /// Values of another schema version, codec or format.
    pub other_version: u64,
    /// Values from before an invalidation that the tier may have missed.
    pub outdated: u64,
    /// Keys that were not asked for because the breaker was open.
    pub not_asked: u64,
    /// Reads that failed or took too long.
    pub get_errors: u64,
    /// Writes that failed or took too long.
    pub put_errors: u64,
    /// Values that the codec could not encode.
    pub not_encoded: u64,
    /// Times of reads, each of one or more keys.
    pub gets: Times,
    /// Times of writes, each of one or more keys.
    pub puts: Times,
    /// Reads and writes under way.
    pub in_flight: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Whether the breaker is open: the tier is not asked, except for a probe now and then.
    pub is_open: bool,
    /// How often the breaker has opened.
    pub opened: u64,
    /// Writes that the tier does not have yet.
    pub backlog: u64,
    /// Values that were not written because the backlog was full.
    pub lost_puts: u64,
    /// Invalidations that were given up because the backlog was full. This process does not use older values of the tier
    /// from then on; other processes may.
    pub lost_deletes: u64,
}

impl Metrics {
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            hits: self.hits.sum(),
            stale_hits: self.stale_hits.get(),
            misses: self.misses.get(),
            waited: self.waited.get(),
            entries: 0,
            bytes: 0,
            budget_bytes: 0,
            loads: self.loads.times(),
            load_errors: self.load_errors.get(),
            loading: self.loading.get(),
            fallbacks: self.fallbacks.get(),
            refreshes_skipped: self.refreshes_skipped.get(),
            tier: None,
        }
    }
}

impl TierMetrics {
    pub(crate) fn stats(&self) -> TierStats {
        TierStats {
            hits: self.hits.get(),
            misses: self.misses.get(),
            expired: self.expired.get(),
            damaged: self.damaged.get(),
            other_version: self.other_version.get(),
            outdated: self.outdated.get(),
            not_asked: self.not_asked.get(),
            get_errors: self.get_errors.get(),
            put_errors: self.put_errors.get(),
            not_encoded: self.not_encoded.get(),
            gets: self.gets.times(),
            puts: self.puts.times(),
            in_flight: self.in_flight.get(),
            read_bytes: self.read_bytes.get(),
            written_bytes: self.written_bytes.get(),
            is_open: false,
            opened: 0,
            backlog: 0,
            lost_puts: 0,
            lost_deletes: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_together() {
        let striped = Striped::default();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..100).for_each(|_| striped.add()));
            }
        });
        assert_eq!(striped.sum(), 2_000);
    }

    #[test]
    fn times_are_exact_to_a_hundredth() {
        let timer = Timer::default();
        (1..=100).for_each(|ms| timer.record(Duration::from_millis(ms)));
        timer.record(Duration::from_secs(3_600));
        let times = timer.times();
        assert_eq!(times.count, 101);
        assert!((50..=52).contains(&times.p50.as_millis()), "{times:?}");
        assert!(times.max >= Duration::from_secs(60) && times.max < Duration::from_secs(62));
    }
}

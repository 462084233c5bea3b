//! Counts of the operations on the tiers.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

/// Threads that raise a counter without waiting for each other: one bit each.
const OWNERS: usize = u64::BITS as usize;
/// The number of a thread that has not asked for one yet.
const UNKNOWN: usize = OWNERS;
/// The number of a thread that has no stripe of its own.
const SHARED: usize = OWNERS + 1;
/// Longer times are counted as this one.
const LONGEST_US: u64 = 60_000_000;

#[repr(align(128))]
#[derive(Debug, Default)]
struct Stripe(AtomicU64);

/// A counter for what happens more often than anything else.
///
/// A thread has a stripe of its own for as long as it lives, so it adds with a load and a store. An atomic addition takes
/// as long as a third of a hit. Threads beyond the number of stripes share one.
#[derive(Debug)]
pub(crate) struct Striped {
    owned: [Stripe; OWNERS],
    shared: Stripe,
}

impl Default for Striped {
    fn default() -> Self {
        Self {
            owned: std::array::from_fn(|_| Stripe::default()),
            shared: Stripe::default(),
        }
    }
}

/// The stripes that belong to a thread.
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // A constant without a destructor needs no check of whether it is initialised.
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
    static OWNERSHIP: Ownership = Ownership::take();
}

/// A stripe until the thread ends.
struct Ownership(usize);

impl Ownership {
    fn take() -> Self {
        let take = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
        // The next owner sees what the one before it has counted.
        let taken = TAKEN.fetch_update(Acquire, Relaxed, take);
        Self(taken.map_or(SHARED, |taken| taken.trailing_ones() as usize))
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        // This thread still counts while it ends.
        NUMBER.set(SHARED);
        if self.0 < OWNERS {
            TAKEN.fetch_and(!(1 << self.0), Release);
        }
    }
}

impl Striped {
    #[inline]
    pub(crate) fn add(&self) {
        match self.owned.get(NUMBER.get()) {
            Some(Stripe(own)) => own.store(own.load(Relaxed) + 1, Relaxed),
            None => self.add_without_number(),
        }
    }

    #[cold]
    fn add_without_number(&self) {
        if NUMBER.get() == UNKNOWN {
            NUMBER.set(OWNERSHIP.try_with(|own| own.0).unwrap_or(SHARED));
            return self.add();
        }
        self.shared.0.fetch_add(1, Relaxed);
    }

    fn sum(&self) -> u64 {
        let stripes = self.owned.iter().chain([&self.shared]);
        stripes.map(|stripe| stripe.0.load(Relaxed)).sum()
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
    pub(crate) not_written: Counter,
    pub(crate) get_errors: Counter,
    pub(crate) put_errors: Counter,
    pub(crate) not_encoded: Counter,
    pub(crate) unfit_keys: Counter,
    pub(crate) gets: Timer,
    pub(crate) puts: Timer,
    pub(crate) encodes: Timer,
    pub(crate) decodes: Timer,
    pub(crate) bypassed: Counter,
    pub(crate) hedges: Counter,
    pub(crate) hedges_won: Counter,
    pub(crate) lease_waits: Counter,
    pub(crate) lease_timeouts: Counter,
    pub(crate) overtaken: Counter,
    pub(crate) notices: Timer,
    pub(crate) changed: Counter,
    pub(crate) gaps: Counter,
    pub(crate) is_tracking: AtomicBool,
    pub(crate) in_flight: Counter,
    pub(crate) read_bytes: Counter,
    pub(crate) written_bytes: Counter,
}

/// Durations of an operation. Quantiles are exact to 1 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Times {
    /// Number of measurements.
    pub count: u64,
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The longest, at most a minute.
    pub max: Duration,
}

/// Counts and times of a cache so far.
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

/// Counts and times of the tier below memory so far.
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
    /// Values and invalidations that were not written because the breaker was open, or writes had been refused.
    pub not_written: u64,
    /// Reads that failed or took too long.
    pub get_errors: u64,
    /// Writes that failed or took too long.
    pub put_errors: u64,
    /// Values that the codec could not encode.
    pub not_encoded: u64,
    /// Keys that were not asked for because the tier cannot keep keys of their length.
    pub unfit_keys: u64,
    /// Times of reads, each of one or more keys.
    pub gets: Times,
    /// Times of writes, each of one or more keys.
    pub puts: Times,
    /// Times of encoding a value, with its compression.
    pub encodes: Times,
    /// Times of decoding a value, with its decompression. Those that do not decode are among them.
    pub decodes: Times,
    /// Keys that were not asked for because the tier costs more than it saves.
    pub bypassed: u64,
    /// Reads beside which values were loaded, since they took long; see [`Tier::hedge`](super::Tier::hedge).
    pub hedges: u64,
    /// Those of them that ended after all of these loads.
    pub hedges_won: u64,
    /// Keys that waited for another process to load them; see [`Tier::shared_loads`](super::Tier::shared_loads).
    pub lease_waits: u64,
    /// Those of them that were then loaded without the lease.
    pub lease_timeouts: u64,
    /// Loaded values that were not kept, since the key was invalidated or written by another process during the load, or
    /// the load took longer than four times the longest before and a minute.
    pub overtaken: u64,
    /// Delays of notices, for some of the writes of this process: from the moment when the value was sent until its
    /// notice was taken. Empty unless the tier is [tracked](super::Tier::tracked).
    pub notices: Times,
    /// Notices that a value has changed in the tier, including those of the writes of this process.
    pub changed: u64,
    /// Times that memory was emptied because such notices may be missing, or because the database was emptied. The first
    /// is the beginning.
    pub gaps: u64,
    /// Whether changes in the tier are reported at the moment, as far as is known.
    pub is_tracking: bool,
    /// Reads and writes under way.
    pub in_flight: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Whether the breaker of the tier as a whole or that of reads is open: the tier is not read, except for a probe now and
    /// then.
    pub is_open: bool,
    /// Whether the breaker of values or that of invalidations is open: they are not sent, except for a probe now and then,
    /// while the tier can be read. So it is with a Redis server that is full, a replica, or without enough replicas.
    pub refuses_writes: bool,
    /// Number of times that one of the breakers of `is_open` has opened.
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
            not_written: self.not_written.get(),
            get_errors: self.get_errors.get(),
            put_errors: self.put_errors.get(),
            not_encoded: self.not_encoded.get(),
            unfit_keys: self.unfit_keys.get(),
            gets: self.gets.times(),
            puts: self.puts.times(),
            encodes: self.encodes.times(),
            decodes: self.decodes.times(),
            bypassed: self.bypassed.get(),
            hedges: self.hedges.get(),
            hedges_won: self.hedges_won.get(),
            lease_waits: self.lease_waits.get(),
            lease_timeouts: self.lease_timeouts.get(),
            overtaken: self.overtaken.get(),
            notices: self.notices.times(),
            changed: self.changed.get(),
            gaps: self.gaps.get(),
            is_tracking: self.is_tracking.load(Relaxed),
            in_flight: self.in_flight.get(),
            read_bytes: self.read_bytes.get(),
            written_bytes: self.written_bytes.get(),
            is_open: false,
            refuses_writes: false,
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

    /// More threads at a time than there are stripes, and more than that one after the other.
    #[test]
    fn threads_count_together() {
        let striped = Striped::default();
        let all_are_there = std::sync::Barrier::new(3 * OWNERS);
        for _ in 0..2 {
            std::thread::scope(|scope| {
                for _ in 0..3 * OWNERS {
                    let (striped, all_are_there) = (&striped, &all_are_there);
                    scope.spawn(move || {
                        striped.add();
                        all_are_there.wait();
                        (1..100).for_each(|_| striped.add());
                    });
                }
            });
        }
        assert_eq!(striped.sum(), 2 * 3 * OWNERS as u64 * 100);
        let used = striped
            .owned
            .iter()
            .filter(|stripe| stripe.0.load(Relaxed) > 0);
        assert!(used.count() > OWNERS / 2 && striped.shared.0.load(Relaxed) > 0);
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

//! When a value is loaded beside a read of the tier that is still under way.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

/// Reads before the first 99th percentile, and between two of them.
const EVERY: u64 = 32;
/// Beyond this number of reads, the older ones are forgotten.
const WINDOW: u64 = 4_096;
/// A 99th percentile below this says more about the neighbours on the machine than about the tier.
const LEAST: Duration = Duration::from_micros(50);
const LONGEST_NS: u64 = 60_000_000_000;

/// The setting.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HedgeAt {
    After(Duration),
    P99,
}

/// The deadline of reads, after which their values are loaded as well.
#[derive(Debug)]
pub(crate) struct Hedge {
    at: HedgeAt,
    most: Duration,
    most_late: usize,
    /// Reads of one key.
    single: Times,
    /// Reads of several keys, by the time per key.
    each: Times,
    late: AtomicUsize,
}

/// The 99th percentile of the latest reads.
#[derive(Debug)]
struct Times {
    reads: Mutex<Histogram<u64>>,
    /// 0 until it is known.
    p99_ns: AtomicU64,
}

impl Times {
    fn new() -> Self {
        let reads = Histogram::new_with_bounds(1, LONGEST_NS, 2);
        Self {
            reads: Mutex::new(reads.expect("the bounds are in order")),
            p99_ns: AtomicU64::new(0),
        }
    }

    fn record(&self, time: Duration) {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        if reads.len().is_multiple_of(EVERY) {
            self.p99_ns
                .store(reads.value_at_quantile(0.99).max(1), Relaxed);
        }
        if reads.len() >= WINDOW {
            reads.reset();
        }
    }

    fn p99(&self) -> Option<Duration> {
        match self.p99_ns.load(Relaxed) {
            0 => None,
            ns => Some(Duration::from_nanos(ns)),
        }
    }
}

impl Hedge {
    /// `most` is the timeout of the tier; with `most_late` reads past their deadline, the tier is not asked.
    pub(crate) fn new(at: HedgeAt, most: Duration, most_late: usize) -> Self {
        Self {
            at,
            most,
            most_late,
            single: Times::new(),
            each: Times::new(),
            late: AtomicUsize::new(0),
        }
    }

    /// Time to wait for a read of `keys` keys, if that is known yet. Several keys have the time of their number, and at
    /// least that of a single one.
    pub(crate) fn patience(&self, keys: usize) -> Option<Duration> {
        let usual = match (self.at, keys) {
            (HedgeAt::After(time), _) => return Some(time.min(self.most)),
            (HedgeAt::P99, ..=1) => self.single.p99()?,
            (HedgeAt::P99, keys) => {
                let all =
                    (self.each.p99()?).saturating_mul(u32::try_from(keys).unwrap_or(u32::MAX));
                all.max(self.single.p99().unwrap_or_default())
            }
        };
        Some(usual.max(LEAST).min(self.most))
    }

    /// Takes the time of a read of `keys` keys that was answered.
    pub(crate) fn record(&self, keys: usize, time: Duration) {
        match (self.at, keys) {
            (HedgeAt::After(_), _) => {}
            (HedgeAt::P99, ..=1) => self.single.record(time),
            (HedgeAt::P99, keys) => self
                .each
                .record(time / u32::try_from(keys).unwrap_or(u32::MAX)),
        }
    }

    /// Whether the number of reads past their deadline is so high that another one would be, too.
    pub(crate) fn is_overdue(&self) -> bool {
        self.late.load(Relaxed) >= self.most_late
    }

    /// Counts a read that is past its deadline until the value is dropped.
    pub(crate) fn late(self: &Arc<Self>) -> LateRead {
        self.late.fetch_add(1, Relaxed);
        LateRead(Arc::clone(self))
    }
}

/// A read past its deadline.
#[derive(Debug)]
pub(crate) struct LateRead(Arc<Hedge>);

impl Drop for LateRead {
    fn drop(&mut self) {
        self.0.late.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn deadline_follows_the_slowest_hundredth() {
        let hedge = Hedge::new(HedgeAt::P99, 10_000 * US, 3);
        (1..EVERY).for_each(|_| hedge.record(1, 100 * US));
        assert_eq!(hedge.patience(1), None);
        hedge.record(1, 100 * US);
        let about = |time: Duration| {
            (time / 100 * 98..=time / 100 * 102).contains(&hedge.patience(1).unwrap())
        };
        assert!(about(100 * US), "{:?}", hedge.patience(1));
        // The window ends, and older times count no more.
        for _ in 0..2 * WINDOW {
            hedge.record(1, 300 * US);
        }
        assert!(about(300 * US), "{:?}", hedge.patience(1));
        (0..2 * WINDOW).for_each(|_| hedge.record(1, US));
        assert_eq!(hedge.patience(1), Some(LEAST));
        (0..2 * WINDOW).for_each(|_| hedge.record(1, 1_000_000 * US));
        assert_eq!(hedge.patience(1), Some(10_000 * US));
    }

    #[test]
    fn several_keys_have_the_time_of_their_number() {
        let hedge = Hedge::new(HedgeAt::P99, 10_000 * US, 3);
        assert_eq!(hedge.patience(10), None);
        (0..EVERY).for_each(|_| hedge.record(20, 400 * US));
        let about = |keys: usize, time: Duration| {
            let patience = hedge.patience(keys).unwrap();
            assert!(
                (time / 100 * 98..=time / 100 * 102).contains(&patience),
                "{patience:?}"
            );
        };
        about(10, 200 * US);
        about(100, 2_000 * US);
        assert_eq!(hedge.patience(1), None);
        // No fewer than a single key.
        (0..EVERY).for_each(|_| hedge.record(1, 300 * US));
        about(1, 300 * US);
        about(10, 300 * US);
        about(100, 2_000 * US);
        assert_eq!(hedge.patience(usize::MAX), Some(10_000 * US));
    }

    #[test]
    fn late_reads_are_counted_until_they_end() {
        let hedge = Arc::new(Hedge::new(HedgeAt::After(US), 10 * US, 2));
        assert_eq!((hedge.patience(1), hedge.patience(9)), (Some(US), Some(US)));
        let (one, two) = (hedge.late(), hedge.late());
        assert!(hedge.is_overdue());
        drop(one);
        assert!(!hedge.is_overdue());
        drop(two);
    }
}

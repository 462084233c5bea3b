//! Metrics of a client's connections, by command.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Buckets for each doubling of time; the width of one is at most an eighth of its times.
const PER_DOUBLING: usize = 8;
/// Nanoseconds below this have a bucket each.
const EXACT_NS: u64 = PER_DOUBLING as u64;
const BUCKETS: usize = (64 - 2) * PER_DOUBLING;

/// Counts of all the connections of a [`Client`](crate::Client), by command. Requests of several commands
/// that are no transaction are counted as `pipeline`; commands that are not known by name as `other`.
#[derive(Debug, Default)]
pub struct Metrics {
    commands: Mutex<BTreeMap<&'static str, CommandMetrics>>,
}

/// Metrics of the requests of one name.
#[derive(Clone, Debug)]
pub struct CommandMetrics {
    /// Requests that ended in any way but cancellation.
    pub requests: u64,
    /// Commands in them that ended with an error, of the server or of the connection.
    pub errors: u64,
    /// Durations of the requests, from the caller's point of view.
    pub response_time: ResponseTimes,
}

/// Times in buckets.
#[derive(Clone, Debug)]
pub struct ResponseTimes {
    counts: Box<[u64; BUCKETS]>,
}

impl Metrics {
    /// The counts so far, in the order of the names.
    #[must_use]
    pub fn snapshot(&self) -> Vec<(&'static str, CommandMetrics)> {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands
            .iter()
            .map(|(name, metrics)| (*name, metrics.clone()))
            .collect()
    }

    pub(crate) fn record(&self, name: &'static str, errors: u64, time: Duration) {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let metrics = commands.entry(name).or_insert_with(|| CommandMetrics {
            requests: 0,
            errors: 0,
            response_time: ResponseTimes {
                counts: Box::new([0; BUCKETS]),
            },
        });
        metrics.requests += 1;
        metrics.errors += errors;
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        metrics.response_time.counts[bucket(ns)] += 1;
    }
}

impl ResponseTimes {
    /// The time that a share of the requests (0 to 1) did not exceed, too high by an eighth at most; `None`
    /// where there were none.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let total: u64 = self.counts.iter().sum();
        if total == 0 {
            return None;
        }
        let rank = ((quantile.clamp(0.0, 1.0) * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let place = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(Duration::from_nanos(highest(place)))
    }
}

/// The bucket of a time: its highest bit, and the three after that.
fn bucket(ns: u64) -> usize {
    if ns < EXACT_NS {
        return ns as usize;
    }
    let doubling = ns.ilog2() as usize;
    let within = (ns >> (doubling - 3)) as usize & (PER_DOUBLING - 1);
    (doubling - 2) * PER_DOUBLING + within
}

/// The longest time of a bucket.
fn highest(bucket: usize) -> u64 {
    if bucket < PER_DOUBLING {
        return bucket as u64;
    }
    let (doubling, within) = (bucket / PER_DOUBLING + 2, bucket % PER_DOUBLING);
    let width = 1u64 << (doubling - 3);
    (1u64 << doubling) + (within as u64 * width) + (width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn time_is_in_its_bucket_and_close_to_its_end(shift in 0u32..64, bits in any::<u64>()) {
            let ns = bits >> shift;
            let end = highest(bucket(ns));
            prop_assert!(ns <= end);
            prop_assert!(end - ns <= ns / 8);
            prop_assert!(bucket(ns) == 0 || highest(bucket(ns) - 1) < ns);
        }
    }

    #[test]
    fn quantiles_count_from_the_shortest() {
        let metrics = Metrics::default();
        for ms in 1..=100 {
            metrics.record("GET", u64::from(ms == 7), Duration::from_millis(ms));
        }
        let [(name, get)] = &metrics.snapshot()[..] else {
            panic!("there is one name")
        };
        assert_eq!((*name, get.requests, get.errors), ("GET", 100, 1));
        let median = get.response_time.quantile(0.5).unwrap();
        assert!(
            (50.0..=57.0).contains(&(median.as_secs_f64() * 1000.0)),
            "{median:?}"
        );
        assert!(get.response_time.quantile(1.0).unwrap() >= Duration::from_millis(100));
    }
}

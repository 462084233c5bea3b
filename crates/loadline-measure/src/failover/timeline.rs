//! The course of a load: writes, errors and response times by interval.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{History, Outcome};
use crate::quantile::median;

/// The most intervals of the load itself. Writes that end later add a few.
const MOST_INTERVALS: u64 = 60;
/// The most intervals of all.
const MOST_IN_ALL: u64 = 4 * MOST_INTERVALS;

/// Writes, errors and response times in equal intervals from the start of the load on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeline {
    /// The length of an interval.
    pub interval_ns: u64,
    /// Writes that were acknowledged in each interval.
    pub acknowledged: Vec<u64>,
    /// Errors that were reported in each interval, by kind.
    pub errors: BTreeMap<String, Vec<u64>>,
    /// Median response time of the acknowledged writes that were due in each interval; `None` without any.
    pub response_p50_ns: Vec<Option<u64>>,
    /// The longest response time of these writes.
    pub response_max_ns: Vec<Option<u64>>,
}

/// The course of a history.
#[must_use]
pub fn timeline(history: &History) -> Timeline {
    let operations = &history.operations;
    let last = operations.iter().map(|one| one.completed_ns).max();
    let interval_ns = interval(history.end_ns);
    let end_ns = history.end_ns.max(last.unwrap_or(0));
    let count = (end_ns / interval_ns + 1).min(MOST_IN_ALL) as usize;
    let place =
        |at_ns: u64| usize::try_from(at_ns / interval_ns).map_or(count - 1, |at| at.min(count - 1));
    let mut acknowledged = vec![0; count];
    let mut errors: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut responses: Vec<Vec<f64>> = vec![Vec::new(); count];
    for one in operations {
        if let Some(kind) = one.error.and_then(|kind| history.errors.get(kind)) {
            let counts = errors.entry(kind.clone()).or_insert_with(|| vec![0; count]);
            counts[place(one.completed_ns)] += 1;
        }
        if one.outcome == Outcome::Acknowledged {
            acknowledged[place(one.completed_ns)] += 1;
            responses[place(one.due_ns)].push(one.response_ns() as f64);
        }
    }
    let of = |all: fn(&[f64]) -> Option<f64>| {
        let times = responses.iter().map(|times| all(times));
        times.map(|time| time.map(|ns| ns as u64)).collect()
    };
    Timeline {
        interval_ns,
        acknowledged,
        errors,
        response_p50_ns: of(median),
        response_max_ns: of(|times| times.iter().copied().reduce(f64::max)),
    }
}

/// The shortest round interval of which a load has few enough.
fn interval(end_ns: u64) -> u64 {
    let powers = (6..18).map(|power| 10_u64.pow(power));
    let mut rounds = powers.flat_map(|power| [power, 2 * power, 5 * power]);
    let fits = rounds.find(|interval| end_ns / interval < MOST_INTERVALS);
    fits.unwrap_or(u64::MAX)
}

/// Errors of a history by kind.
#[must_use]
pub fn errors(history: &History) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let kinds = history.operations.iter().filter_map(|one| one.error);
    for kind in kinds.filter_map(|kind| history.errors.get(kind)) {
        *counts.entry(kind.clone()).or_default() += 1;
    }
    counts
}

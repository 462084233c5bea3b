//! Hit ratio by memory: the miss-ratio curve of a cache that evicts the least recently used object.
//!
//! In such a cache of `C` bytes, a read is a hit if the distinct objects that were used since its last use, itself
//! included, have at most `C` bytes (its stack distance; Mattson and others, 1970). One pass over a trace therefore
//! gives the curve for all sizes. To bound time and memory, only objects whose hash is below a threshold are followed
//! and distances are divided by the sampled share (SHARDS; Waldspurger and others, FAST 2015). The difference between the
//! expected and the actual number of sampled reads is added to the shortest distance (SHARDS-adj), because a few popular
//! objects dominate that error.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

/// Distances are kept in this many steps per doubling, so that a size is known to 2 %.
const STEPS: f64 = 32.0;
/// Errors are means over this many sizes.
const SIZES: u64 = 100;
/// The first size of a tree; it grows with the objects.
const FIRST_SLOTS: usize = 1 << 10;

/// One use of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// Its key, as any number that differs for different keys.
    pub key: u64,
    /// Its size.
    pub bytes: u64,
    /// Whether it reads, so that it is a hit or a miss. A write only makes the object the last one used.
    pub reads: bool,
}

/// A point of the curve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CurvePoint {
    /// Memory for objects.
    pub bytes: u64,
    /// Share of the reads that miss.
    pub miss_ratio: f64,
}

/// The curve of a trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MissRatioCurve {
    /// Reads in the trace.
    pub reads: u64,
    /// Share of the objects that were followed; 1 is exact.
    pub sampled: f64,
    /// The estimated mean absolute error of the miss ratios: half the mean difference between the curves of two halves of
    /// the sample, over a hundred sizes from 0 to the largest at equal distances. 0 if all objects were followed.
    pub error: f64,
    /// Points in ascending order of memory, at steps of at least half a percent.
    pub points: Vec<CurvePoint>,
}

/// Follows a trace.
#[derive(Debug, Clone)]
pub struct MissRatio {
    share: f64,
    reads: u64,
    whole: Stack,
    halves: [Stack; 2],
}

impl MissRatio {
    /// Follows the share `share` (0 to 1) of the objects.
    #[must_use]
    pub fn new(share: f64) -> Self {
        Self {
            share: if share.is_nan() {
                1.0
            } else {
                share.clamp(1e-9, 1.0)
            },
            reads: 0,
            whole: Stack::default(),
            halves: [Stack::default(), Stack::default()],
        }
    }

    /// Adds a use.
    pub fn add(&mut self, used: &Use) {
        self.reads += u64::from(used.reads);
        let hash = scattered(used.key);
        // The upper bits choose the sample, and the lowest one the half.
        if (hash >> 11) as f64 / (1_u64 << 53) as f64 >= self.share {
            return;
        }
        self.whole.add(used);
        if self.share < 1.0 {
            self.halves[(hash & 1) as usize].add(used);
        }
    }

    /// The curve so far.
    #[must_use]
    pub fn curve(&self) -> MissRatioCurve {
        let reads = self.reads as f64;
        let whole = self.whole.misses(self.share, reads);
        let halves = self
            .halves
            .each_ref()
            .map(|half| half.misses(self.share / 2.0, reads));
        let largest = whole.keys().next_back().copied().unwrap_or(0);
        let differences =
            sizes(largest).map(|size| (at(&halves[0], size) - at(&halves[1], size)).abs() / 2.0);
        let error = if self.share < 1.0 {
            differences.sum::<f64>() / SIZES as f64
        } else {
            0.0
        };
        let mut points: Vec<CurvePoint> = Vec::new();
        let last = whole.len().saturating_sub(1);
        for (place, (bytes, miss_ratio)) in whole.into_iter().enumerate() {
            let is_step = points
                .last()
                .is_none_or(|before| before.miss_ratio - miss_ratio >= 0.005);
            if is_step || place == last {
                points.push(CurvePoint { bytes, miss_ratio });
            }
        }
        MissRatioCurve {
            reads: self.reads,
            sampled: self.share,
            error,
            points,
        }
    }
}

impl MissRatioCurve {
    /// The memory that a hit ratio takes; `None` if no size has it.
    #[must_use]
    pub fn memory_for(&self, hit_ratio: f64) -> Option<u64> {
        let mut points = self.points.iter();
        let enough = points.find(|point| 1.0 - point.miss_ratio >= hit_ratio);
        enough.map(|point| point.bytes)
    }

    /// The share of the reads that miss with `bytes` of memory.
    #[must_use]
    pub fn miss_ratio(&self, bytes: u64) -> f64 {
        let below = self.points.iter().rev().find(|point| point.bytes <= bytes);
        below.map_or(1.0, |point| point.miss_ratio)
    }
}

/// Sizes at equal distances, as in the evaluation of SHARDS.
fn sizes(largest: u64) -> impl Iterator<Item = u64> {
    (1..=SIZES)
        .map(move |place| (u128::from(largest) * u128::from(place) / u128::from(SIZES)) as u64)
}

/// The miss ratio at a size: that of the largest known size that is not larger.
fn at(misses: &BTreeMap<u64, f64>, size: u64) -> f64 {
    let below = misses.range(..=size).next_back();
    below.map_or(1.0, |(_, ratio)| *ratio)
}

/// A number that looks random, from a key that may not.
fn scattered(key: u64) -> u64 {
    let mut bits = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Objects in the order of their last use, with the sizes of those used after each.
#[derive(Debug, Clone, Default)]
struct Stack {
    /// The slot of each object's last use, and its size then.
    last: HashMap<u64, (usize, u64)>,
    /// A Fenwick tree of sizes by slot: sums of all slots up to one take logarithmic time.
    tree: Vec<u64>,
    next: usize,
    /// Reads by the step of their distance.
    distances: BTreeMap<u32, u64>,
    /// Reads of objects that were not used before.
    first_reads: u64,
}

impl Stack {
    fn add(&mut self, used: &Use) {
        if self.next >= self.tree.len() {
            self.renumber();
        }
        let bytes = used.bytes.max(1);
        match self.last.remove(&used.key) {
            Some((slot, before)) => {
                let newer = self.sum(self.next).saturating_sub(self.sum(slot));
                self.change(slot, before, false);
                if used.reads {
                    let distance = newer.saturating_add(bytes);
                    *self.distances.entry(step(distance)).or_default() += 1;
                }
            }
            None => self.first_reads += u64::from(used.reads),
        }
        self.change(self.next, bytes, true);
        self.last.insert(used.key, (self.next, bytes));
        self.next += 1;
    }

    /// Gives the objects new slots without gaps, in a tree with room for as many again.
    fn renumber(&mut self) {
        let mut order: Vec<(usize, u64, u64)> = self
            .last
            .iter()
            .map(|(key, (slot, bytes))| (*slot, *key, *bytes))
            .collect();
        order.sort_unstable();
        self.tree = vec![0; (2 * order.len()).max(FIRST_SLOTS)];
        self.next = order.len();
        for (slot, (_, key, bytes)) in order.into_iter().enumerate() {
            self.change(slot, bytes, true);
            self.last.insert(key, (slot, bytes));
        }
    }

    fn change(&mut self, slot: usize, bytes: u64, adds: bool) {
        let mut at = slot + 1;
        while at <= self.tree.len() {
            let sum = &mut self.tree[at - 1];
            *sum = if adds {
                sum.wrapping_add(bytes)
            } else {
                sum.wrapping_sub(bytes)
            };
            at += at & at.wrapping_neg();
        }
    }

    /// The sizes of the slots up to `slot`.
    fn sum(&self, slot: usize) -> u64 {
        let mut at = (slot + 1).min(self.tree.len());
        let mut sum = 0_u64;
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at - 1]);
            at -= at & at.wrapping_neg();
        }
        sum
    }

    /// The miss ratio at each size, if this is the share `share` of the objects and there were `reads` of all.
    fn misses(&self, share: f64, reads: f64) -> BTreeMap<u64, f64> {
        let sampled: u64 = self.distances.values().sum::<u64>() + self.first_reads;
        // Reads that are missing in the sample are those of the most popular objects, whose distances are short.
        let expected = reads * share;
        let mut hits = expected - sampled as f64;
        let mut misses = BTreeMap::new();
        for (step, count) in &self.distances {
            hits += *count as f64;
            let bytes = size(*step) / share;
            let ratio = 1.0 - hits / expected.max(1.0);
            misses.insert(bytes as u64, ratio.clamp(0.0, 1.0));
        }
        misses
    }
}

/// The step of a distance.
fn step(bytes: u64) -> u32 {
    ((bytes as f64).log2() * STEPS).ceil().max(0.0) as u32
}

/// The largest distance of a step.
fn size(step: u32) -> f64 {
    (f64::from(step) / STEPS).exp2()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::SmallRng};

    use super::*;

    /// Reads of `keys` objects, the popular ones far more often, with a scan in between.
    fn trace(keys: u64, count: usize, seed: u64) -> Vec<Use> {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut scanned = 0;
        let mut key = move |place: usize| {
            if place % 10 == 9 {
                scanned += 1;
                return keys + scanned % (keys / 2);
            }
            // Popular objects have small numbers: the density falls with 1 / key.
            let share: f64 = rng.random_range(0.0..1.0);
            ((keys as f64).powf(share) as u64).min(keys - 1)
        };
        (0..count)
            .map(|place| {
                let key = key(place);
                Use {
                    key,
                    bytes: 50 + scattered(key) % 100,
                    reads: true,
                }
            })
            .collect()
    }

    /// The plain version: a list in the order of the last use.
    fn exact(trace: &[Use], memory: u64) -> f64 {
        let mut list: Vec<Use> = Vec::new();
        let mut misses = 0;
        for used in trace {
            let place = list.iter().rposition(|other| other.key == used.key);
            let newer: u64 = place.map_or(0, |place| {
                list[place + 1..].iter().map(|one| one.bytes).sum()
            });
            misses += u64::from(place.is_none() || newer + used.bytes > memory);
            if let Some(place) = place {
                list.remove(place);
            }
            list.push(*used);
        }
        misses as f64 / trace.len() as f64
    }

    fn curve(trace: &[Use], share: f64) -> MissRatioCurve {
        let mut followed = MissRatio::new(share);
        trace.iter().for_each(|used| followed.add(used));
        followed.curve()
    }

    #[test]
    fn without_sampling_it_is_the_list_of_the_last_uses() {
        let trace = trace(400, 6_000, 1);
        let curve = curve(&trace, 1.0);
        assert_eq!((curve.reads, curve.error), (6_000, 0.0));
        for memory in [500, 2_000, 8_000, 20_000, 40_000] {
            let expected = exact(&trace, memory);
            // Sizes are known to 2 %, and points are half a percent apart.
            let (low, high) = (
                curve.miss_ratio(memory * 103 / 100) - 0.006,
                curve.miss_ratio(memory * 97 / 100) + 0.006,
            );
            assert!(
                (low..=high).contains(&expected),
                "{memory}: {expected} {low} {high}"
            );
        }
    }

    /// The goal: a mean absolute error of at most 0.01, and the stated one has the same magnitude.
    #[test]
    fn sample_is_close_to_the_whole() {
        let trace = trace(200_000, 400_000, 2);
        let whole = curve(&trace, 1.0);
        let sample = curve(&trace, 0.1);
        let largest = whole.points.last().unwrap().bytes;
        let differences =
            sizes(largest).map(|size| (whole.miss_ratio(size) - sample.miss_ratio(size)).abs());
        let error = differences.sum::<f64>() / SIZES as f64;
        assert!(error <= 0.01, "{error}");
        assert!((0.0005..=0.05).contains(&sample.error), "{}", sample.error);
        let (one, other) = (
            whole.memory_for(0.5).unwrap(),
            sample.memory_for(0.5).unwrap(),
        );
        assert!(
            (one as f64 / other as f64 - 1.0).abs() < 0.2,
            "{one} {other}"
        );
    }

    #[test]
    fn writes_are_uses_and_neither_hits_nor_misses() {
        let used = |key, reads| Use {
            key,
            bytes: 10,
            reads,
        };
        let trace = [used(1, false), used(1, true), used(2, false), used(1, true)];
        let curve = curve(&trace, 1.0);
        assert_eq!(curve.reads, 2);
        assert_eq!(curve.points.last().unwrap().miss_ratio, 0.0);
        assert_eq!(curve.memory_for(1.0).unwrap() / 10, 2);
        assert_eq!(curve.memory_for(0.5).unwrap() / 10, 1);
    }

    #[test]
    fn hostile_traces_have_a_curve_or_none() {
        assert_eq!(MissRatio::new(0.5).curve().points, []);
        let mut followed = MissRatio::new(f64::NAN);
        for key in [1, 1, 2, u64::MAX, 1] {
            followed.add(&Use {
                key,
                bytes: u64::MAX,
                reads: true,
            });
        }
        assert!(
            followed
                .curve()
                .points
                .iter()
                .all(|point| point.miss_ratio.is_finite())
        );
    }
}

//! Whether the tier below memory pays, by what its use has cost.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::entry::mix;
use crate::cost::Costs;

/// One key in this many is in the sample.
const SAMPLE: u64 = 16;
/// Reads of keys in the sample before the first decision.
const LEAST_READS: f64 = 200.0;
/// Beyond this number of reads, older ones count half.
const WINDOW: f64 = 4_096.0;
/// Standard errors of the hit ratio between the gain and zero before a decision changes.
const STANDARD_ERRORS: f64 = 2.0;

/// Whether a key is in the sample, whose keys use the tier also while it is bypassed.
///
/// Only these keys count for the hit ratio. Keys that were bypassed are not in the tier, so their misses say nothing about
/// what the tier can do; the sample sees the same tier before, during and after.
pub(crate) fn is_sampled(key: &[u8]) -> bool {
    mix(u64::from(crc32c::crc32c(key))).is_multiple_of(SAMPLE)
}

/// The costs and savings of the tier, by the reads and loads so far, of which the newest count most.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Worth {
    /// The mean times.
    pub costs: Costs,
    /// The share of reads that hit, of one key in 16.
    pub hit_ratio: f64,
    /// The reads that this share is of. Older ones count less.
    pub reads: u64,
    /// Whether there was a hit so far, and a miss. Until there was one of each, their times in `costs` are equal.
    pub measured: (bool, bool),
    /// Whether the tier is bypassed at the moment; see [`Tier::bypass_if_slower`](super::Tier::bypass_if_slower).
    pub is_bypassed: bool,
}

impl fmt::Display for Worth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Costs {
            recompute,
            hit,
            miss,
            set,
            ..
        } = self.costs;
        let us = |time: Duration| format!("{:.1} us", time.as_secs_f64() * 1e6);
        let known = |is_measured: bool, time: Duration| match is_measured {
            true => us(time),
            false => "not measured".to_owned(),
        };
        let ratio = 100.0 * self.hit_ratio;
        let reads = self.reads;
        if !self.is_bypassed && (reads as f64) < LEAST_READS {
            write!(
                f,
                "tier: {ratio:.0} % of {reads} reads hit, too few to say whether it pays, "
            )?;
        } else {
            let verdict = match (self.is_bypassed, self.costs.pays(self.hit_ratio)) {
                (true, _) => "bypassed",
                (false, true) => "pays",
                (false, false) => "costs more than it saves",
            };
            write!(f, "tier: {verdict}, {ratio:.0} % of reads hit, ")?;
        }
        match 100.0 * self.costs.break_even() {
            least if least <= 100.0 => write!(f, "break-even at {least:.0} %")?,
            _ => write!(f, "no hit ratio breaks even")?,
        }
        write!(
            f,
            " (load {}, hit {}, miss {}, write {})",
            us(recompute),
            known(self.measured.0, hit),
            known(self.measured.1, miss),
            us(set)
        )
    }
}

/// A mean of which older times count less.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    count: f64,
    total: Duration,
}

impl Mean {
    fn add(&mut self, count: usize, total: Duration) {
        if self.count > WINDOW {
            self.count /= 2.0;
            self.total /= 2;
        }
        self.count += count as f64;
        self.total += total;
    }

    fn get(&self) -> Option<Duration> {
        (self.count > 0.0).then(|| self.total.div_f64(self.count))
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    load: Mean,
    hit: Mean,
    miss: Mean,
    write: Mean,
    encode: Mean,
    failed: Mean,
    /// Reads of keys in the sample, and how many of them hit or failed.
    reads: f64,
    hits: f64,
    failures: f64,
}

impl Sums {
    fn read(&mut self, hits: f64, failures: f64) {
        if self.reads > WINDOW {
            for sum in [&mut self.reads, &mut self.hits, &mut self.failures] {
                *sum /= 2.0;
            }
        }
        self.reads += 1.0;
        self.hits += hits;
        self.failures += failures;
    }

    fn costs(&self) -> Option<Costs> {
        let (hit, miss) = (self.hit.get(), self.miss.get());
        Some(Costs {
            recompute: self.load.get()?,
            // Until there was one of each, they count as equal.
            hit: hit.or(miss)?,
            miss: miss.or(hit)?,
            set: self.write.get().unwrap_or_default() + self.encode.get().unwrap_or_default(),
            down_share: match self.reads > 0.0 {
                true => self.failures / self.reads,
                false => 0.0,
            },
            timeout: self.failed.get().unwrap_or_default(),
        })
    }

    fn hit_ratio(&self) -> Option<f64> {
        (self.reads > 0.0).then(|| self.hits / self.reads)
    }
}

/// Whether to bypass a tier whose reads of the sample were `reads`, with this share of hits. A decision stays until its
/// opposite is beyond the chance in the hit ratio.
fn bypass(costs: &Costs, hit_ratio: f64, reads: f64, is_bypassed: bool) -> bool {
    if reads < LEAST_READS {
        return is_bypassed;
    }
    // Of a ratio of 0 or 1, the error is not 0: the next read can be another one.
    let variance = (hit_ratio * (1.0 - hit_ratio)).max(1.0 / reads);
    let error = STANDARD_ERRORS * (variance / reads).sqrt();
    let gain = |ratio: f64| costs.gain_ns(ratio.clamp(0.0, 1.0));
    let (one, other) = (gain(hit_ratio - error), gain(hit_ratio + error));
    match (one.max(other) < 0.0, one.min(other) > 0.0) {
        (true, _) => true,
        (_, true) => false,
        _ => is_bypassed,
    }
}

/// The costs of a tier, and the decision that follows from them.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    sums: Mutex<Sums>,
    bypasses: bool,
    is_bypassed: AtomicBool,
}

impl Ledger {
    /// `bypasses`: whether a tier that costs more than it saves is bypassed.
    pub(crate) fn new(bypasses: bool) -> Self {
        Self {
            bypasses,
            ..Self::default()
        }
    }

    /// Whether a key does without the tier.
    pub(crate) fn bypasses(&self, key: &[u8]) -> bool {
        self.is_bypassed.load(Relaxed) && !is_sampled(key)
    }

    pub(crate) fn worth(&self) -> Option<Worth> {
        let sums = *self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Worth {
            costs: sums.costs()?,
            hit_ratio: sums.hit_ratio()?,
            reads: sums.reads as u64,
            measured: (sums.hit.get().is_some(), sums.miss.get().is_some()),
            is_bypassed: self.is_bypassed.load(Relaxed),
        })
    }

    pub(crate) fn hit(&self, key: &[u8], time: Duration) {
        self.read(key, |sums| sums.hit.add(1, time), 1.0, 0.0);
    }

    pub(crate) fn miss(&self, key: &[u8], time: Duration) {
        self.read(key, |sums| sums.miss.add(1, time), 0.0, 0.0);
    }

    pub(crate) fn failed(&self, key: &[u8], time: Duration) {
        self.read(key, |sums| sums.failed.add(1, time), 0.0, 1.0);
    }

    pub(crate) fn loaded(&self, time: Duration) {
        self.add(|sums| sums.load.add(1, time));
    }

    pub(crate) fn encoded(&self, time: Duration) {
        self.add(|sums| sums.encode.add(1, time));
    }

    pub(crate) fn written(&self, count: usize, time: Duration) {
        self.add(|sums| sums.write.add(count, time));
    }

    fn read(&self, key: &[u8], add: impl FnOnce(&mut Sums), hits: f64, failures: f64) {
        let is_sampled = is_sampled(key);
        self.add(|sums| {
            add(sums);
            if is_sampled {
                sums.read(hits, failures);
                if self.bypasses {
                    self.decide(sums);
                }
            }
        });
    }

    fn decide(&self, sums: &Sums) {
        if let (Some(costs), Some(hit_ratio)) = (sums.costs(), sums.hit_ratio()) {
            let is_bypassed = self.is_bypassed.load(Relaxed);
            let decided = bypass(&costs, hit_ratio, sums.reads, is_bypassed);
            self.is_bypassed.store(decided, Relaxed);
        }
    }

    fn add(&self, add: impl FnOnce(&mut Sums)) {
        add(&mut self.sums.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    struct Random(u64);

    impl Random {
        /// Evenly below 1.
        fn share(&mut self) -> f64 {
            self.0 += 1;
            (mix(self.0) >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// A time with this mean and the long tail of an exponential distribution above a floor of half of it.
        fn around(&mut self, mean: Duration) -> Duration {
            mean.mul_f64(0.5 - 0.5 * (1.0 - self.share()).ln())
        }
    }

    fn key(number: u64) -> Vec<u8> {
        number.to_string().into_bytes()
    }

    /// Uses a tier with these costs and this hit ratio, as a cache does.
    fn use_tier(ledger: &Ledger, costs: &Costs, hit_ratio: f64, reads: u64, random: &mut Random) {
        for number in 0..reads {
            let key = key(number);
            if ledger.bypasses(&key) {
                ledger.loaded(random.around(costs.recompute));
            } else if random.share() < hit_ratio {
                ledger.hit(&key, random.around(costs.hit));
            } else {
                ledger.miss(&key, random.around(costs.miss));
                ledger.loaded(random.around(costs.recompute));
                ledger.encoded(random.around(costs.set / 2));
                ledger.written(1, random.around(costs.set / 2));
            }
        }
    }

    fn costs(recompute: u32, hit: u32, miss: u32, set: u32) -> Costs {
        Costs {
            recompute: recompute * US,
            hit: hit * US,
            miss: miss * US,
            set: set * US,
            down_share: 0.0,
            timeout: Duration::ZERO,
        }
    }

    /// The constants above were chosen before this grid was. A cell is right if the decision is the one that the true means
    /// lead to.
    #[test]
    fn decision_is_right_in_nearly_all_of_a_grid() {
        let (mut cells, mut right, mut close) = (0, 0, 0);
        let mut random = Random(7);
        for recompute in [30, 120, 480, 1_900, 7_700] {
            for (hit, miss, set) in [
                (9, 4, 17),
                (37, 31, 38),
                (79, 60, 85),
                (300, 60, 208),
                (690, 70, 400),
            ] {
                for percent in [2, 11, 23, 37, 52, 68, 83, 97] {
                    let costs = costs(recompute, hit, miss, set);
                    let hit_ratio = f64::from(percent) / 100.0;
                    let ledger = Ledger::new(true);
                    use_tier(&ledger, &costs, hit_ratio, 10_000, &mut random);
                    let worth = ledger.worth().unwrap();
                    cells += 1;
                    right += u32::from(worth.is_bypassed != costs.pays(hit_ratio));
                    let is_close = |seen: Duration, real: Duration| {
                        (seen.as_secs_f64() / real.as_secs_f64() - 1.0).abs() < 0.1
                    };
                    close += u32::from(
                        is_close(worth.costs.recompute, costs.recompute)
                            && is_close(worth.costs.hit, costs.hit)
                            && is_close(worth.costs.miss, costs.miss)
                            && is_close(worth.costs.set, costs.set),
                    );
                }
            }
        }
        println!("{right} of {cells} right, the costs of {close} within 10 %");
        assert!(right * 100 >= cells * 95, "{right} of {cells}");
        assert!(close * 100 >= cells * 95, "{close} of {cells}");
    }

    #[test]
    fn tier_that_begins_to_pay_is_used_again() {
        let (ledger, mut random) = (Ledger::new(true), Random(1));
        let slow = costs(50, 300, 200, 200);
        use_tier(&ledger, &slow, 0.9, 10_000, &mut random);
        let all = (0..16_000).filter(|number| ledger.bypasses(&key(*number)));
        let bypassed = all.count();
        assert!((14_500..15_500).contains(&bypassed), "{bypassed}");
        // The objects have become expensive.
        let worthwhile = costs(5_000, 300, 200, 200);
        use_tier(&ledger, &worthwhile, 0.9, 60_000, &mut random);
        assert!(!ledger.worth().unwrap().is_bypassed);
    }

    #[test]
    fn few_reads_decide_nothing_and_without_the_setting_none_do() {
        let slow = costs(10, 300, 200, 200);
        let (ledger, mut random) = (Ledger::new(true), Random(1));
        use_tier(&ledger, &slow, 0.5, 1_000, &mut random);
        assert!(!ledger.bypasses(&key(1)) && !ledger.worth().unwrap().is_bypassed);
        let ledger = Ledger::new(false);
        use_tier(&ledger, &slow, 0.5, 10_000, &mut random);
        assert!(!ledger.worth().unwrap().is_bypassed);
    }

    #[test]
    fn tier_that_fails_costs_its_timeout() {
        let ledger = Ledger::new(true);
        for number in 0..20_000 {
            let key = key(number);
            if ledger.bypasses(&key) {
                continue;
            }
            match number % 10 {
                0 => ledger.failed(&key, 20_000 * US),
                1 => ledger.miss(&key, 50 * US),
                _ => ledger.hit(&key, 60 * US),
            }
            ledger.loaded(500 * US);
        }
        let worth = ledger.worth().unwrap();
        assert!((worth.costs.down_share - 0.1).abs() < 0.03, "{worth:?}");
        // A hit saves 440 us in 8 of 10 reads, and a failure costs 20 ms.
        assert!(worth.is_bypassed);
    }

    #[test]
    fn figures_are_one_line() {
        let worth = Worth {
            costs: costs(554, 60, 50, 100),
            hit_ratio: 0.61,
            reads: 200,
            measured: (true, true),
            is_bypassed: false,
        };
        assert_eq!(
            worth.to_string(),
            "tier: pays, 61 % of reads hit, break-even at 23 % (load 554.0 us, hit 60.0 us, miss 50.0 us, write 100.0 us)"
        );
        let slow = Worth {
            costs: costs(54, 60, 50, 100),
            is_bypassed: true,
            ..worth
        };
        let text = slow.to_string();
        assert!(
            text.starts_with("tier: bypassed, 61 % of reads hit, no hit ratio breaks even"),
            "{text}"
        );
        let new = Worth {
            hit_ratio: 0.0,
            reads: 7,
            measured: (false, true),
            ..worth
        };
        assert_eq!(
            new.to_string(),
            "tier: 0 % of 7 reads hit, too few to say whether it pays, break-even at 23 % (load 554.0 us, hit not measured, miss 50.0 us, write 100.0 us)"
        );
    }
}

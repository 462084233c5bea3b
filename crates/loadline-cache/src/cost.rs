//! When a tier pays.
//!
//! A tier saves the time to make an object again on each hit, and costs a read and, after a miss, a write. Per object that
//! was not found above, with the hit ratio `h` of the tier:
//!
//! ```text
//! gain = h (recompute - hit) - (1 - h) (miss + set) - down_share * timeout
//! ```
//!
//! A tier pays where the gain is positive, that is, above the hit ratio at which it is zero.

use std::time::Duration;

/// The costs of an object with a tier and without it. All times are means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// To make the object without the tier: to load or generate it.
    pub recompute: Duration,
    /// To read it from the tier and decode it.
    pub hit: Duration,
    /// To read the tier without finding it. It has no value to transfer and decode, so it costs less than a hit.
    pub miss: Duration,
    /// To encode it and write it to the tier.
    pub set: Duration,
    /// The share of reads (0 to 1) that the tier does not answer.
    pub down_share: f64,
    /// Time that such a read waits.
    pub timeout: Duration,
}

impl Costs {
    /// The time in nanoseconds that the tier saves per object, at a hit ratio of 0 to 1. Negative where it costs more than
    /// it saves.
    #[must_use]
    pub fn gain_ns(&self, hit_ratio: f64) -> f64 {
        let saved = ns(self.recompute) - ns(self.hit);
        hit_ratio * saved - (1.0 - hit_ratio) * self.miss_ns() - self.down_ns()
    }

    /// Whether the tier pays at a hit ratio of 0 to 1.
    #[must_use]
    pub fn pays(&self, hit_ratio: f64) -> bool {
        self.gain_ns(hit_ratio) > 0.0
    }

    /// The hit ratio above which the tier pays. Above 1, it never does; infinite if even a hit costs more than it saves.
    #[must_use]
    pub fn break_even(&self) -> f64 {
        let cost = self.miss_ns() + self.down_ns();
        let per_hit = ns(self.recompute) - ns(self.hit) + self.miss_ns();
        if per_hit > 0.0 {
            cost / per_hit
        } else {
            f64::INFINITY
        }
    }

    /// The least cost of making an object for which the tier pays at this hit ratio; `None` at a hit ratio of 0.
    #[must_use]
    pub fn least_recompute(&self, hit_ratio: f64) -> Option<Duration> {
        let cost = (1.0 - hit_ratio) * self.miss_ns() + self.down_ns();
        let least = ns(self.hit) + cost / hit_ratio;
        Duration::try_from_secs_f64(least / 1e9).ok()
    }

    fn miss_ns(&self) -> f64 {
        ns(self.miss) + ns(self.set)
    }

    fn down_ns(&self) -> f64 {
        self.down_share * ns(self.timeout)
    }
}

/// The hit ratio above which a tier pays, where hits and misses take the same time `get`; see [`Costs::break_even`].
#[must_use]
pub fn break_even(
    recompute: Duration,
    get: Duration,
    set: Duration,
    down_share: f64,
    timeout: Duration,
) -> f64 {
    let costs = Costs {
        recompute,
        hit: get,
        miss: get,
        set,
        down_share,
        timeout,
    };
    costs.break_even()
}

/// The hit ratio of a tier that `servers` share, each of which asks once for every object, in any order.
#[must_use]
pub fn shared_hit_ratio(servers: u64) -> f64 {
    match servers {
        0 => 0.0,
        servers => (servers - 1) as f64 / servers as f64,
    }
}

fn ns(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);
    const NONE: Duration = Duration::ZERO;

    /// The floor of 100 x 100 tiles, by the table in the documentation of the project: columnar in LMDB and Redis, and
    /// lean Protocol Buffers in Redis.
    #[test]
    fn floor_pays_where_it_was_measured_to_pay() {
        let percent = |get: f64, set: f64| {
            let us = |us: f64| Duration::from_nanos((us * 1e3) as u64);
            100.0 * break_even(us(499.0), us(get), us(set), 0.0, NONE)
        };
        assert!((percent(9.3, 17.0) - 5.0).abs() < 0.5);
        assert!((percent(37.0, 38.0) - 14.0).abs() < 0.5);
        assert!((percent(79.0, 85.0) - 28.0).abs() < 0.5);
        // A message per tile: even a hit costs more than it saves.
        assert!(percent(690.0, 401.0) > 100.0);
    }

    #[test]
    fn hit_that_costs_more_than_it_saves_never_pays() {
        assert!(break_even(10 * US, 20 * US, NONE, 0.0, NONE) > 1.0);
        let costs = Costs {
            recompute: US,
            hit: 20 * US,
            miss: US,
            set: US,
            down_share: 0.0,
            timeout: NONE,
        };
        assert!(costs.break_even().is_infinite() && !costs.pays(1.0));
    }

    #[test]
    fn servers_share_all_but_the_first_read() {
        assert_eq!([0, 1, 2, 10].map(shared_hit_ratio), [0.0, 0.0, 0.5, 0.9]);
    }

    /// The time of `reads` reads by adding them up one by one, with and without the tier.
    fn by_addition(costs: &Costs, hits: u32, down: u32, reads: u32) -> (Duration, Duration) {
        let (mut with, mut without) = (Duration::ZERO, Duration::ZERO);
        for read in 0..reads {
            without += costs.recompute;
            with += match read < hits {
                true => costs.hit,
                false => costs.miss + costs.recompute + costs.set,
            };
            if read < down {
                with += costs.timeout;
            }
        }
        (with, without)
    }

    #[test]
    fn formula_agrees_with_adding_up_the_times_over_a_grid() {
        const READS: u32 = 100;
        let times = [3 * US, 47 * US, 610 * US, 7_900 * US];
        let mut cells = 0;
        for recompute in times {
            for (hit, miss) in [(5, 2), (61, 33), (730, 40)] {
                for (set, down, hits) in [(9, 0, 3), (9, 1, 55), (160, 0, 55), (160, 5, 97)] {
                    let costs = Costs {
                        recompute,
                        hit: hit * US,
                        miss: miss * US,
                        set: set * US,
                        down_share: f64::from(down) / f64::from(READS),
                        timeout: 500 * US,
                    };
                    let (with, without) = by_addition(&costs, hits, down, READS);
                    let ratio = f64::from(hits) / f64::from(READS);
                    assert_eq!(costs.pays(ratio), with < without, "{costs:?} at {ratio}");
                    assert_eq!(costs.pays(ratio), ratio > costs.break_even(), "{costs:?}");
                    let least = costs.least_recompute(ratio).unwrap();
                    assert_eq!(costs.pays(ratio), recompute > least, "{costs:?}, {least:?}");
                    cells += 1;
                }
            }
        }
        assert_eq!(cells, 48);
        assert_eq!(by_addition(&floor(), 0, 0, 1).0, 650 * US);
        assert_eq!(floor().least_recompute(0.0), None);
    }

    fn floor() -> Costs {
        Costs {
            recompute: 500 * US,
            hit: 60 * US,
            miss: 50 * US,
            set: 100 * US,
            down_share: 0.0,
            timeout: NONE,
        }
    }
}

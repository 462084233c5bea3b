//! The keys of operations: distributions over a numbered key space.

use rand::{Rng, RngExt, rngs::SmallRng};
use rand_distr::{Distribution, StandardNormal, Zipf};

use crate::Error;

/// The exponent of YCSB's `latest` distribution.
const LATEST_EXPONENT: f64 = 0.99;

/// The distribution of requests over keys.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyDist {
    /// Every key is equally likely.
    Uniform,
    /// The key of rank `r` is chosen in proportion to `r^-exponent`; a fixed permutation scatters ranks over
    /// the key space, so that hot keys are not adjacent.
    Zipf {
        /// Zero or more; zero is uniform, above one is allowed.
        exponent: f64,
    },
    /// Normal around the middle of the key space; six standard deviations cover it.
    Gaussian,
    /// Keys in order, starting over at the end.
    Sequential,
    /// A share of the requests goes to the first `hot_keys` keys, the rest to the others.
    Hotspot {
        /// The number of hot keys.
        hot_keys: u64,
        /// Their share of the requests, 0 to 1.
        share: f64,
    },
    /// The newest keys are the most popular (YCSB's `latest`): Zipfian with exponent 0.99 from the highest
    /// number downwards.
    Latest,
}

/// A prepared distribution: draws key numbers.
#[derive(Debug, Clone)]
pub struct KeyPicker {
    kind: Kind,
    permutation: Permutation,
}

#[derive(Debug, Clone)]
enum Kind {
    Uniform,
    Zipf(Zipf<f64>),
    Gaussian,
    Sequential,
    Hotspot { hot_keys: u64, share: f64 },
    Latest(Zipf<f64>),
}

impl KeyPicker {
    /// Prepares `dist` over `keys` keys.
    ///
    /// # Errors
    /// [`Error::Plan`] when there are no keys, or an exponent, share or hot set is out of range.
    pub fn new(dist: &KeyDist, keys: u64) -> Result<Self, Error> {
        if keys == 0 {
            return Err(Error::Plan("a key space needs at least one key".into()));
        }
        let zipf = |exponent: f64| {
            Zipf::new(keys as f64, exponent)
                .map_err(|error| Error::Plan(format!("zipf:{exponent}: {error}")))
        };
        let kind = match *dist {
            KeyDist::Uniform => Kind::Uniform,
            KeyDist::Zipf { exponent } if !exponent.is_finite() => {
                return Err(Error::Plan(format!(
                    "zipf:{exponent}: the exponent must be a finite number"
                )));
            }
            KeyDist::Zipf { exponent } => Kind::Zipf(zipf(exponent)?),
            KeyDist::Gaussian => Kind::Gaussian,
            KeyDist::Sequential => Kind::Sequential,
            KeyDist::Hotspot { hot_keys, share } => {
                if hot_keys == 0 || hot_keys >= keys || !(0.0..=1.0).contains(&share) {
                    return Err(Error::Plan(format!(
                        "hotspot:{hot_keys}:{share}: the hot set must be smaller than the {keys} keys and its share between 0 and 1"
                    )));
                }
                Kind::Hotspot { hot_keys, share }
            }
            KeyDist::Latest => Kind::Latest(zipf(LATEST_EXPONENT)?),
        };
        Ok(Self {
            kind,
            permutation: Permutation::of(keys),
        })
    }

    /// Whether keys are taken in order, by the caller's cursor.
    #[must_use]
    pub fn is_sequential(&self) -> bool {
        matches!(self.kind, Kind::Sequential)
    }

    /// Draws a key number below `keys`, the current size of the key space (it grows if the workload inserts).
    /// A sequential picker draws uniformly, because the caller keeps the order.
    #[inline]
    pub fn pick(&self, rng: &mut SmallRng, keys: u64) -> u64 {
        match &self.kind {
            Kind::Uniform | Kind::Sequential => below(rng, keys),
            kind => self.pick_unevenly(kind, rng, keys),
        }
    }

    /// The draw of the other distributions, apart, so that a uniform one is compiled into its caller.
    #[inline(never)]
    fn pick_unevenly(&self, kind: &Kind, rng: &mut SmallRng, keys: u64) -> u64 {
        match kind {
            Kind::Uniform | Kind::Sequential => below(rng, keys),
            Kind::Zipf(zipf) => self
                .permutation
                .apply(rank(zipf, rng).min(self.permutation.len - 1)),
            Kind::Gaussian => gaussian(rng, keys),
            Kind::Hotspot { hot_keys, share } => {
                if rng.random_bool(*share) {
                    below(rng, *hot_keys)
                } else {
                    hot_keys + below(rng, keys - hot_keys)
                }
            }
            Kind::Latest(zipf) => keys - 1 - rank(zipf, rng).min(keys - 1),
        }
    }
}

/// A number below `bound`, by Lemire's multiply-and-shift (bias below 2^-32 for our bounds).
#[inline]
pub(crate) fn below(rng: &mut SmallRng, bound: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u64
}

#[inline]
fn rank(zipf: &Zipf<f64>, rng: &mut SmallRng) -> u64 {
    zipf.sample(rng) as u64 - 1
}

fn gaussian(rng: &mut SmallRng, keys: u64) -> u64 {
    let middle = keys as f64 / 2.0;
    loop {
        let z: f64 = StandardNormal.sample(rng);
        let key = middle + z * keys as f64 / 6.0;
        if key >= 0.0 && key < keys as f64 {
            return key as u64;
        }
    }
}

/// A fixed permutation of `0..len`: an invertible mix on the next power of two, walked until it
/// lands inside ("cycle walking", Black and Rogaway 2002).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    len: u64,
    mask: u64,
    shift: u32,
}

impl Permutation {
    pub(crate) fn of(len: u64) -> Self {
        let bits = (64 - len.saturating_sub(1).leading_zeros()).max(2);
        Self {
            len,
            mask: u64::MAX >> (64 - bits),
            shift: bits / 2,
        }
    }

    #[inline]
    pub(crate) fn apply(&self, mut x: u64) -> u64 {
        loop {
            // Each step is invertible modulo a power of two: an odd factor, and a shift to the
            // right that is xored in.
            for odd in [
                0x9E37_79B9_7F4A_7C15_u64,
                0xBF58_476D_1CE4_E5B9,
                0x94D0_49BB_1331_11EB,
            ] {
                x = x.wrapping_mul(odd) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.len {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodness::{REJECTED_BELOW, chi_square_p};
    use proptest::prelude::*;
    use rand::SeedableRng;
    use statrs::distribution::{ContinuousCDF, Normal};

    fn counts(dist: &KeyDist, keys: u64, draws: usize) -> Vec<u64> {
        let picker = KeyPicker::new(dist, keys).unwrap();
        let mut rng = SmallRng::seed_from_u64(11);
        let mut counts = vec![0; keys as usize];
        for _ in 0..draws {
            counts[picker.pick(&mut rng, keys) as usize] += 1;
        }
        counts
    }

    /// The exact share of every key by the definition of the distribution.
    fn shares(dist: &KeyDist, keys: u64) -> Vec<f64> {
        let power = |rank: u64, exponent: f64| (rank as f64 + 1.0).powf(-exponent);
        let by_key = |share: &dyn Fn(u64) -> f64| (0..keys).map(share).collect();
        match *dist {
            KeyDist::Uniform | KeyDist::Sequential => by_key(&|_| 1.0),
            KeyDist::Zipf { exponent } => {
                let permutation = Permutation::of(keys);
                let mut shares = vec![0.0; keys as usize];
                for rank in 0..keys {
                    shares[permutation.apply(rank) as usize] = power(rank, exponent);
                }
                shares
            }
            KeyDist::Gaussian => {
                let normal = Normal::new(keys as f64 / 2.0, keys as f64 / 6.0).unwrap();
                by_key(&|key| normal.cdf(key as f64 + 1.0) - normal.cdf(key as f64))
            }
            KeyDist::Hotspot { hot_keys, share } => by_key(&|key| {
                if key < hot_keys {
                    share / hot_keys as f64
                } else {
                    (1.0 - share) / (keys - hot_keys) as f64
                }
            }),
            KeyDist::Latest => by_key(&|key| power(keys - 1 - key, LATEST_EXPONENT)),
        }
    }

    /// Compares every key with its exact share, for exponents on both sides of 1.
    #[test]
    fn every_distribution_follows_its_definition() {
        let zipf = [0.0, 0.5, 0.99, 1.0, 1.2, 2.0].map(|exponent| KeyDist::Zipf { exponent });
        let hotspot = |hot_keys, share| KeyDist::Hotspot { hot_keys, share };
        let others = [
            KeyDist::Uniform,
            KeyDist::Gaussian,
            KeyDist::Latest,
            hotspot(20, 0.9),
            hotspot(1, 0.5),
            hotspot(99, 0.01),
        ];
        for dist in zipf.into_iter().chain(others) {
            let p = chi_square_p(&counts(&dist, 100, 400_000), &shares(&dist, 100));
            assert!(p > REJECTED_BELOW, "{dist:?}: p = {p}");
        }
    }

    /// Verifies that the test above detects a slightly wrong exponent or share.
    #[test]
    fn distribution_is_not_taken_for_its_neighbour() {
        let zipf = |exponent| KeyDist::Zipf { exponent };
        let hotspot = |share| KeyDist::Hotspot {
            hot_keys: 20,
            share,
        };
        for (drawn, taken_for) in [
            (zipf(0.99), zipf(1.01)),
            (zipf(2.0), zipf(2.02)),
            (zipf(0.0), zipf(0.02)),
            (hotspot(0.9), hotspot(0.905)),
            (KeyDist::Gaussian, KeyDist::Uniform),
        ] {
            let p = chi_square_p(&counts(&drawn, 100, 400_000), &shares(&taken_for, 100));
            assert!(p < REJECTED_BELOW, "{drawn:?} for {taken_for:?}: p = {p}");
        }
    }

    /// After insertions, the newest keys become the most popular.
    #[test]
    fn latest_follows_a_key_space_that_grows() {
        let picker = KeyPicker::new(&KeyDist::Latest, 100).unwrap();
        let mut rng = SmallRng::seed_from_u64(12);
        let mut counts = [0; 150];
        for _ in 0..400_000 {
            counts[picker.pick(&mut rng, 150) as usize] += 1;
        }
        let (older, newest) = counts.split_at(50);
        assert!(older.iter().all(|count| *count == 0), "{older:?}");
        let p = chi_square_p(newest, &shares(&KeyDist::Latest, 100));
        assert!(p > REJECTED_BELOW, "p = {p}");
    }

    #[test]
    fn zipf_scatters_its_hot_keys() {
        let counts = counts(&KeyDist::Zipf { exponent: 1.2 }, 1_000, 100_000);
        let mut by_popularity: Vec<usize> = (0..1_000).collect();
        by_popularity.sort_unstable_by_key(|&key| std::cmp::Reverse(counts[key]));
        let neighbours = by_popularity[..10]
            .windows(2)
            .filter(|pair| pair[0].abs_diff(pair[1]) == 1)
            .count();
        assert!(neighbours <= 1, "hot keys {:?}", &by_popularity[..10]);
    }

    /// 50,000 uniform draws over 1,000 keys must touch all of them (expected misses: 2e-19).
    #[test]
    fn uniform_reaches_every_key() {
        assert!(
            counts(&KeyDist::Uniform, 1_000, 50_000)
                .iter()
                .all(|&count| count > 0)
        );
    }

    #[test]
    fn impossible_distributions_are_refused() {
        for dist in [
            KeyDist::Zipf { exponent: -1.0 },
            KeyDist::Zipf { exponent: f64::NAN },
            KeyDist::Zipf {
                exponent: f64::INFINITY,
            },
            KeyDist::Hotspot {
                hot_keys: 0,
                share: 0.5,
            },
            KeyDist::Hotspot {
                hot_keys: 10,
                share: 0.5,
            },
            KeyDist::Hotspot {
                hot_keys: 5,
                share: 1.5,
            },
        ] {
            assert!(KeyPicker::new(&dist, 10).is_err(), "{dist:?}");
        }
        assert!(KeyPicker::new(&KeyDist::Uniform, 0).is_err());
    }

    proptest! {
        #[test]
        fn permutation_is_one(len in 1_u64..5_000) {
            let permutation = Permutation::of(len);
            let mut seen = vec![false; len as usize];
            for x in 0..len {
                let y = permutation.apply(x) as usize;
                prop_assert!(!seen[y]);
                seen[y] = true;
            }
        }
    }
}

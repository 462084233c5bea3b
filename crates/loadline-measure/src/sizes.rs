//! The sizes of a batch or a pipeline that are as good as the best.
//!
//! The size with the highest throughput of a sweep is mostly chance: near the best, throughput hardly depends
//! on the size. So the answer is a range: every size outside it was slower than some size inside by more than
//! [`MARGIN`], with a confidence of [`CONFIDENCE`] for the whole sweep. Sizes are compared in pairs, round by
//! round, by the bounds of the median ratio (see [`interval`]). If the range includes sizes that look far
//! slower than the best, the answer is [`Answer::Inconclusive`].

use crate::interval;
use crate::quantile::median;
use crate::record::Case;

/// Sizes within this share of the best count as equally good.
pub const MARGIN: f64 = 0.05;
/// The probability that the range includes every size that is as good as the best.
pub const CONFIDENCE: f64 = 0.95;
/// The fewest rounds of an answer.
const LEAST_ROUNDS: usize = 5;
/// A range with a size that looks slower than the best by more than this is not useful.
const TOO_SLOW: f64 = 0.2;
/// A size that can be slower than the best by more than this is not recommended.
const TOO_UNCERTAIN: f64 = 0.1;

/// The throughput of one size in interleaved rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeRounds {
    /// Operations per call.
    pub(crate) size: u64,
    /// Operations per second in each round; round `r` of all sizes ran interleaved.
    pub(crate) throughputs: Vec<f64>,
}

/// The result of a sweep over sizes.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Sizes outside the range are slower.
    Range(SizeRange),
    /// Noise hides which sizes are slower.
    Inconclusive {
        /// The smallest size that can be as good as the best.
        smallest: u64,
        /// The largest one.
        largest: u64,
        /// The number of rounds.
        rounds: usize,
    },
}

/// The sizes that can be within [`MARGIN`] of the best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeRange {
    /// The smallest of these sizes.
    pub smallest: u64,
    /// The largest of these sizes.
    pub largest: u64,
    /// The recommended size; `None` if noise hides it.
    pub recommended: Option<Recommended>,
    /// The smallest and the largest size in the sweep.
    pub tried: (u64, u64),
    /// The number of rounds.
    pub rounds: usize,
}

/// The smallest size whose median is within [`MARGIN`] of the best median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recommended {
    /// Operations per call.
    pub size: u64,
    /// Its throughput over that of the size with the best median.
    pub ratio: f64,
    /// The bounds of the ratio; `None` if it is the best size itself.
    pub bounds: Option<(f64, f64)>,
}

impl Answer {
    /// The recommended size, if known.
    #[must_use]
    pub fn recommended(&self) -> Option<u64> {
        match self {
            Self::Range(range) => range.recommended.map(|recommended| recommended.size),
            Self::Inconclusive { .. } => None,
        }
    }
}

/// The size of the calls of a case: operations in flight together.
#[must_use]
pub fn of_case(case: &Case) -> u64 {
    case.scenario.in_flight.unwrap_or(case.scenario.batch)
}

/// The result of the cells of one sweep over sizes with interleaved rounds. `None` with fewer than two sizes
/// or without rounds.
#[must_use]
pub fn of_cases<'c>(cases: impl IntoIterator<Item = &'c Case>) -> Option<Answer> {
    let sizes = cases.into_iter().map(|case| SizeRounds {
        size: of_case(case),
        throughputs: case
            .rounds
            .iter()
            .map(|round| round.throughput_ops_per_s)
            .collect(),
    });
    judge(&sizes.collect::<Vec<_>>())
}

/// The result for `sizes`, in any order. `None` with fewer than two sizes or without rounds; rounds that a
/// size lacks are ignored for all.
#[must_use]
pub fn judge(sizes: &[SizeRounds]) -> Option<Answer> {
    let mut sizes: Vec<&SizeRounds> = sizes.iter().collect();
    sizes.sort_by_key(|one| one.size);
    let rounds = sizes.iter().map(|one| one.throughputs.len()).min()?;
    if sizes.len() < 2 || rounds == 0 {
        return None;
    }
    let logs: Vec<Vec<f64>> = sizes
        .iter()
        .map(|one| {
            one.throughputs[..rounds]
                .iter()
                .map(|rate| rate.ln())
                .collect()
        })
        .collect();
    let inconclusive = |first: usize, last: usize| Answer::Inconclusive {
        smallest: sizes[first].size,
        largest: sizes[last].size,
        rounds,
    };
    let everything = inconclusive(0, sizes.len() - 1);
    if rounds < LEAST_ROUNDS || logs.iter().flatten().any(|log| !log.is_finite()) {
        return Some(everything);
    }
    // Every size is compared with every other, and only one direction of each pair can be wrong.
    let alpha = (1.0 - CONFIDENCE) / (sizes.len() - 1) as f64;
    let Some(kept) = not_slower(&logs, alpha) else {
        return Some(everything);
    };
    let (first, last) = (*kept.first()?, *kept.last()?);
    let medians = medians(&logs)?;
    let best = (0..sizes.len()).max_by(|a, b| medians[*a].total_cmp(&medians[*b]))?;
    let behind = |size: usize| medians[best] - medians[size];
    let is_helpful = (first..=last).all(|size| behind(size) <= -(1.0 - TOO_SLOW).ln());
    if !is_helpful || kept.len() == sizes.len() && behind_of_ends(&medians, best) > MARGIN {
        return Some(inconclusive(first, last));
    }
    let candidate = (first..=last).find(|size| behind(*size) <= -(1.0 - MARGIN).ln())?;
    let differences = difference(&logs, candidate, best);
    let bounds = interval::of_median(&differences, alpha)?;
    let is_certain = bounds.lo >= (1.0 - TOO_UNCERTAIN).ln();
    let ratio = median(&differences)?.exp();
    Some(Answer::Range(SizeRange {
        smallest: sizes[first].size,
        largest: sizes[last].size,
        recommended: is_certain.then(|| Recommended {
            size: sizes[candidate].size,
            ratio,
            bounds: (candidate != best).then(|| (bounds.lo.exp(), bounds.hi.exp())),
        }),
        tried: (sizes[0].size, sizes[sizes.len() - 1].size),
        rounds,
    }))
}

/// The sizes that no other size beats by more than the margin. `None` with too few rounds for a bound.
fn not_slower(logs: &[Vec<f64>], alpha: f64) -> Option<Vec<usize>> {
    interval::of_median(&logs[0], alpha)?;
    let beaten = |size: usize| {
        (0..logs.len()).any(|other| {
            let bounds = interval::of_median(&difference(logs, other, size), alpha);
            other != size && bounds.is_some_and(|bounds| bounds.lo > MARGIN.ln_1p())
        })
    };
    Some((0..logs.len()).filter(|size| !beaten(*size)).collect())
}

fn difference(logs: &[Vec<f64>], one: usize, other: usize) -> Vec<f64> {
    let pairs = logs[one].iter().zip(&logs[other]);
    pairs.map(|(one, other)| one - other).collect()
}

/// The median of each size over the rounds, after the common effect of each round is removed.
fn medians(logs: &[Vec<f64>]) -> Option<Vec<f64>> {
    let rounds = logs.first()?.len();
    let common: Option<Vec<f64>> = (0..rounds)
        .map(|round| median(&logs.iter().map(|log| log[round]).collect::<Vec<f64>>()))
        .collect();
    let common = common?;
    logs.iter()
        .map(|log| {
            let apart: Vec<f64> = log.iter().zip(&common).map(|(a, b)| a - b).collect();
            median(&apart)
        })
        .collect()
}

/// The loss at the slower end of the sweep against the best size.
fn behind_of_ends(medians: &[f64], best: usize) -> f64 {
    let ends = [medians.first(), medians.last()];
    let behind = ends.into_iter().flatten().map(|end| medians[best] - end);
    behind.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    const SIZES: [u64; 13] = [
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000,
    ];

    /// Operations per second if a call costs `call`, each operation 1, and each pair of operations `burden`
    /// because caches overflow.
    fn truth(size: u64, call: f64, burden: f64) -> f64 {
        1e6 / (1.0 + call / size as f64 + burden * size as f64)
    }

    fn sweep(rng: &mut SmallRng, noise: f64, truth: impl Fn(u64) -> f64) -> Vec<SizeRounds> {
        let mut normal = move |deviation: f64| {
            let (u, v): (f64, f64) = (rng.random(), rng.random());
            let wide = if rng.random_bool(0.1) { 3.0 } else { 1.0 } / 1.8_f64.sqrt();
            deviation * wide * (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
        };
        let levels: Vec<f64> = (0..10).map(|_| normal(0.3)).collect();
        let of = |size: &u64| SizeRounds {
            size: *size,
            throughputs: levels
                .iter()
                .map(|level| truth(*size) * (level + normal(noise)).exp())
                .collect(),
        };
        SIZES.iter().map(of).collect()
    }

    /// The results of 300 sweeps.
    #[derive(Debug, Default)]
    struct Tried {
        /// A range.
        conclusive: usize,
        /// A range that lacks a size within 5 % of the best.
        wrong: usize,
        /// A recommended size.
        named: usize,
        /// A recommended size that is slower than its lower bound.
        named_wrong: usize,
        /// The lowest lower bound of a recommended size.
        lowest: f64,
    }

    fn tried(noise: f64, call: f64, burden: f64) -> Tried {
        let truth = |size| truth(size, call, burden);
        let best = SIZES.into_iter().map(truth).fold(0.0, f64::max);
        let good: Vec<u64> = SIZES
            .into_iter()
            .filter(|size| truth(*size) >= best / (1.0 + MARGIN))
            .collect();
        let mut tried = Tried {
            lowest: 1.0,
            ..Tried::default()
        };
        for seed in 0..300 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let Some(Answer::Range(range)) = judge(&sweep(&mut rng, noise, truth)) else {
                continue;
            };
            tried.conclusive += 1;
            let holds = good
                .iter()
                .all(|size| (range.smallest..=range.largest).contains(size));
            tried.wrong += usize::from(!holds);
            if let Some(named) = range.recommended {
                tried.named += 1;
                let is_slow = truth(named.size) < (1.0 - TOO_UNCERTAIN) * best;
                tried.named_wrong += usize::from(is_slow);
                tried.lowest = tried.lowest.min(named.bounds.map_or(1.0, |(lo, _)| lo));
            }
        }
        tried
    }

    /// Noise from a quiet machine (2 %) to one whose neighbours take half of it (15 %, the deviation of
    /// throughput that docs/analysis.md states).
    #[test]
    fn range_holds_every_good_size_or_is_not_given() {
        for (noise, call, burden, least, least_named) in [
            (0.02, 30.0, 0.0, 280, 240),
            (0.02, 30.0, 2e-5, 280, 240),
            (0.05, 30.0, 2e-5, 150, 100),
            (0.05, 300.0, 1e-4, 150, 100),
            (0.15, 30.0, 2e-5, 0, 0),
            (0.15, 300.0, 1e-4, 0, 0),
            (0.15, 1.0, 0.0, 0, 0),
        ] {
            let tried = tried(noise, call, burden);
            println!("noise {noise}, cost of a call {call}, burden {burden}: {tried:?}");
            let Tried {
                conclusive,
                wrong,
                named,
                named_wrong,
                lowest,
            } = tried;
            assert!(wrong <= 15, "{wrong} of 300 lack a good size");
            assert!(conclusive >= least, "{conclusive} of 300 are conclusive");
            assert!(named >= least_named, "{named} of 300 name a size");
            assert!(named_wrong <= 3, "{named_wrong} of 300 name a slow size");
            assert!(lowest >= 1.0 - TOO_UNCERTAIN, "a bound of {lowest}");
        }
    }

    fn exact(rates: &[(u64, f64)], rounds: usize) -> Vec<SizeRounds> {
        let of = |(size, rate): &(u64, f64)| SizeRounds {
            size: *size,
            throughputs: vec![*rate; rounds],
        };
        rates.iter().map(of).collect()
    }

    #[test]
    fn without_noise_the_range_is_the_true_one() {
        let rates = [
            (1, 100.0),
            (10, 600.0),
            (100, 960.0),
            (1_000, 1_000.0),
            (10_000, 700.0),
        ];
        let Some(Answer::Range(range)) = judge(&exact(&rates, 10)) else {
            panic!("inconclusive");
        };
        assert_eq!((range.smallest, range.largest), (100, 1_000));
        let named = range.recommended.expect("there is no noise");
        assert_eq!(named.size, 100);
        assert!((named.ratio - 0.96).abs() < 1e-9, "{range:?}");
    }

    /// Four earlier runs recommended 500, 20k, 2k and 2k; one of them at 0.97x [0.72, 1.32] of the best.
    #[test]
    fn size_that_rests_on_a_wide_interval_is_not_named() {
        let mut sizes = exact(&[(100, 970.0), (1_000, 1_000.0), (10_000, 800.0)], 10);
        for round in [1, 4, 7] {
            sizes[0].throughputs[round] *= 0.72;
            sizes[0].throughputs[round + 1] *= 1.32;
        }
        let answer = judge(&sizes).unwrap();
        assert_eq!(answer.recommended(), None);
    }

    #[test]
    fn one_lucky_round_makes_no_best_size() {
        let mut sizes = exact(&[(100, 1_000.0), (1_000, 1_010.0), (10_000, 600.0)], 10);
        sizes[2].throughputs[3] = 4_000.0;
        sizes[0].throughputs[5] = 300.0;
        let answer = judge(&sizes).unwrap();
        // One round of ten leaves the median of the largest size unclear, but not the others.
        assert_eq!(answer.recommended(), Some(100));
    }

    #[test]
    fn too_few_rounds_and_impossible_figures_are_inconclusive() {
        let rates = [(1, 100.0), (10, 1_000.0)];
        for sizes in [exact(&rates, 4), exact(&[(1, 0.0), (10, 1_000.0)], 10)] {
            let everything = Answer::Inconclusive {
                smallest: 1,
                largest: 10,
                rounds: sizes[0].throughputs.len(),
            };
            assert_eq!(judge(&sizes), Some(everything));
        }
        assert_eq!(judge(&exact(&rates[..1], 10)), None);
        assert_eq!(judge(&exact(&rates, 0)), None);
        assert_eq!(judge(&[]), None);
    }
}

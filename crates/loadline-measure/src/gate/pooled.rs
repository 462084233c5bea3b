//! Estimates the variation of runs from all cases together.
//!
//! The standard deviation of eight runs has an error of about a quarter, and a rule for all metrics of a
//! large suite would need bounds of eight deviations and more. But the other cases of the suite were measured
//! by the same metric in the same runs, and their deviations show what is usual. So each variance is shrunk
//! towards the usual one, more strongly the more the variances agree (an empirical Bayes estimate): with
//! `s^2` of `d` degrees of freedom and a prior of `s0^2` and `d0`,
//!
//! ```text
//! s'^2 = (d0 * s0^2 + d * s^2) / (d0 + d),   with d0 + d degrees of freedom
//! ```
//!
//! The prior comes from the mean and the spread of the logarithms of the variances (Smyth, "Linear Models and
//! Empirical Bayes Methods", 2004, section 6.2). Differences beyond chance make `d0` small, so that truly
//! different cases keep their own variances.
//!
//! This assumes independent cases, but cases are correlated if a whole run was slow: twenty cases that rise and
//! fall together contain as much information as one. So the number of cases is counted as
//! `G / (1 + (G - 1) * r^2)`, where `r^2` is the mean squared correlation of two cases over the runs, and `d0` is
//! limited accordingly. For independent cases, `r^2` is `1 / (K - 1)` instead of 0; this is not corrected, to stay on
//! the safe side.

use statrs::function::gamma::digamma;

use super::spread::Spread;

/// The fewest cases for an estimate.
const LEAST_CASES: usize = 4;
/// The most degrees of freedom; more make no difference.
const MOST_FREEDOM: f64 = 1e4;

/// The usual variation among the cases of a suite, by one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Prior {
    pub(super) variance: f64,
    pub(super) freedom: f64,
}

/// The runs of one case in order, and their own estimate.
pub(super) struct Runs<'a> {
    pub(super) values: &'a [Option<f64>],
    pub(super) spread: Spread,
}

impl Prior {
    /// Returns `None` for few cases, or if the cases are too different.
    pub(super) fn of(cases: &[Runs<'_>]) -> Option<Self> {
        if cases.len() < LEAST_CASES {
            return None;
        }
        let count = cases.len() as f64;
        let halves = || cases.iter().map(|case| case.spread.freedom / 2.0);
        // The logarithm of an estimated variance has a known error: its mean is digamma(d / 2) - ln(d / 2),
        // and its variance trigamma(d / 2).
        let logs: Vec<f64> = cases
            .iter()
            .zip(halves())
            .map(|(case, half)| 2.0 * case.spread.deviation.ln() - digamma(half) + half.ln())
            .collect();
        let mean = logs.iter().sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let by_chance = halves().map(trigamma).sum::<f64>() / count;
        let beyond_chance = squares / (count - 1.0) - by_chance;
        let half = if beyond_chance > 0.0 {
            inverse_trigamma(beyond_chance).min(MOST_FREEDOM)
        } else {
            MOST_FREEDOM
        };
        let others = independent_cases(cases) - 1.0;
        let most = 2.0 * halves().sum::<f64>() / count * others;
        let prior = Self {
            variance: (mean + digamma(half) - half.ln()).exp(),
            freedom: (2.0 * half).min(most),
        };
        (prior.freedom > 0.0 && prior.variance.is_finite()).then_some(prior)
    }

    /// Combines a case's own estimate with that of the others.
    pub(super) fn moderate(&self, spread: Spread) -> Spread {
        let freedom = self.freedom + spread.freedom;
        let squares = self.freedom * self.variance + spread.freedom * spread.deviation.powi(2);
        Spread {
            deviation: (squares / freedom).sqrt(),
            freedom,
            ..spread
        }
    }
}

/// The effective number of independent cases; see the module documentation.
///
/// With each case's deviations from its mean as a unit vector, the squared correlations of all pairs add up
/// to the squared entries of the small matrix of the runs' inner products.
fn independent_cases(cases: &[Runs<'_>]) -> f64 {
    let runs = cases
        .iter()
        .map(|case| case.values.len())
        .max()
        .unwrap_or(0);
    let mut products = vec![0.0; runs * runs];
    let mut varying = 0.0_f64;
    for case in cases {
        let off = |value: &Option<f64>| value.map_or(0.0, |value| value - case.spread.mean);
        let unit: Vec<f64> = case.values.iter().map(off).collect();
        let squares: f64 = unit.iter().map(|x| x * x).sum();
        // Identical runs have no direction.
        if squares <= f64::EPSILON {
            continue;
        }
        varying += 1.0;
        for (row, x) in products.chunks_mut(runs).zip(&unit) {
            for (product, y) in row.iter_mut().zip(&unit) {
                *product += x * y / squares;
            }
        }
    }
    if varying < 2.0 {
        return 1.0;
    }
    let all: f64 = products.iter().map(|product| product * product).sum();
    let correlation_2 = ((all - varying) / (varying * (varying - 1.0))).clamp(0.0, 1.0);
    let count = cases.len() as f64;
    count / (1.0 + (count - 1.0) * correlation_2)
}

/// The derivative of the digamma function, for `x` above 0: the recurrence
/// `trigamma(x) = trigamma(x + 1) + 1 / x^2` up to where the asymptotic series holds (Abramowitz and
/// Stegun, 6.4.6 and 6.4.12).
fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 10.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    sum + 1.0 / x + y / 2.0 + y / x * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y / 30.0)))
}

/// The inverse of trigamma at `y`, by bisection; trigamma falls from infinity to 0.
fn inverse_trigamma(y: f64) -> f64 {
    let (mut lo, mut hi) = (1e-6_f64, MOST_FREEDOM);
    for _ in 0..60 {
        let middle = (lo * hi).sqrt();
        if trigamma(middle) > y {
            lo = middle;
        } else {
            hi = middle;
        }
    }
    (lo * hi).sqrt()
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    const FLOOR: f64 = 1e-6;

    fn normal(rng: &mut SmallRng) -> f64 {
        let (u, v): (f64, f64) = (rng.random(), rng.random());
        (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    fn prior(values: &[Vec<Option<f64>>]) -> Option<Prior> {
        let spread = |values: &[Option<f64>]| {
            let known: Vec<f64> = values.iter().copied().flatten().collect();
            Spread::of(&known, 0.0, FLOOR).unwrap()
        };
        let cases: Vec<Runs> = values
            .iter()
            .map(|values| Runs {
                values,
                spread: spread(values),
            })
            .collect();
        Prior::of(&cases)
    }

    fn suite(rng: &mut SmallRng, deviations: &[f64]) -> Vec<Vec<Option<f64>>> {
        let mut case = |deviation: &f64| (0..8).map(|_| Some(deviation * normal(rng))).collect();
        deviations.iter().map(&mut case).collect()
    }

    #[test]
    fn trigamma_is_that_of_the_tables() {
        // trigamma(1) = pi^2 / 6 and trigamma(1/2) = pi^2 / 2 (Abramowitz and Stegun, 6.4.2, 6.4.4).
        let pi_2 = std::f64::consts::PI.powi(2);
        for (x, expected) in [
            (1.0, pi_2 / 6.0),
            (0.5, pi_2 / 2.0),
            (2.0, pi_2 / 6.0 - 1.0),
        ] {
            assert!((trigamma(x) - expected).abs() < 1e-10, "{x}");
            assert!((inverse_trigamma(expected) / x - 1.0).abs() < 1e-9, "{x}");
        }
    }

    #[test]
    fn cases_that_are_alike_lend_each_other_degrees_of_freedom() {
        let mut rng = SmallRng::seed_from_u64(41);
        let mut freedoms = Vec::new();
        for _ in 0..200 {
            let prior = prior(&suite(&mut rng, &[0.01; 20])).unwrap();
            let deviation = prior.variance.sqrt();
            assert!((0.007..0.014).contains(&deviation), "{prior:?}");
            freedoms.push(prior.freedom);
        }
        freedoms.sort_by(f64::total_cmp);
        // Twenty cases of seven degrees, of which chance correlation leaves about a fourth.
        assert!((25.0..40.0).contains(&freedoms[100]), "{}", freedoms[100]);
    }

    #[test]
    fn differing_cases_are_not_pooled() {
        let mut rng = SmallRng::seed_from_u64(42);
        let deviations: Vec<f64> = (0..20).map(|i| 0.001 * 1.5_f64.powi(i)).collect();
        let prior = prior(&suite(&mut rng, &deviations)).unwrap();
        assert!(prior.freedom < 1.5, "{prior:?}");
    }

    #[test]
    fn cases_that_move_together_count_as_one() {
        let mut rng = SmallRng::seed_from_u64(43);
        let whole = suite(&mut rng, &[0.01]);
        let together = vec![whole[0].clone(); 20];
        let alone = prior(&together).is_none_or(|prior| prior.freedom < 1e-9);
        assert!(alone, "no other case provides information");
        let mut nearly = together;
        for value in nearly.iter_mut().flatten().flatten() {
            *value += 0.001 * normal(&mut rng);
        }
        let prior = prior(&nearly).unwrap();
        assert!(prior.freedom < 1.0, "{prior:?}");
    }

    #[test]
    fn few_cases_and_cases_without_any_spread_tell_nothing_of_others() {
        let mut rng = SmallRng::seed_from_u64(44);
        assert_eq!(prior(&suite(&mut rng, &[0.01; 3])), None);
        assert_eq!(prior(&vec![vec![Some(1.0); 8]; 5]), None);
    }

    #[test]
    fn two_are_weighed_by_their_degrees_of_freedom() {
        let prior = Prior {
            variance: 4.0,
            freedom: 21.0,
        };
        let spread = Spread {
            mean: 0.5,
            deviation: 1.0,
            runs: 8,
            freedom: 7.0,
        };
        let moderated = prior.moderate(spread);
        assert!((moderated.deviation.powi(2) - 3.25).abs() < 1e-12);
        assert_eq!((moderated.mean, moderated.runs), (0.5, 8));
        assert!((moderated.freedom - 28.0).abs() < 1e-12);
    }
}

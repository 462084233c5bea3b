//! The probability that two further runs both deviate this far by chance.
//!
//! An alarm requires two runs that agree, and the smaller deviation of the two counts: a single bad run
//! changes a mean, but not the smaller value. With `K` runs of mean `m` and deviation `s`, both further runs
//! lie above `m + c * s` more often than `alpha` squared: they are compared with the same mean and the same
//! deviation, which can be too small by chance. Given the true deviation (one, without loss of generality),
//! the ratio `u = s / 1` and the error `e z` of the expected value (`e^2 = 1 / K`, and more if the reference
//! differs from those of the baseline, see [`super::control`]) are independent, so
//!
//! ```text
//! P(both) = E[ Q(c * u + e * z)^2 ],   freedom * u^2 ~ chi-squared(freedom),  z ~ N(0, 1)
//! ```
//!
//! with `Q` the upper tail of the normal distribution. It is the prediction bound that both of two
//! future values exceed (Hahn and Meeker, "Statistical Intervals", section 4.8, with the exact
//! integral in place of their tables).
//!
//! The mean over `z` is the probability that two normal variables with the correlation `r = e^2 / (1 + e^2)` both
//! exceed `h = c * u / sqrt(1 + e^2)`. Its derivative by the correlation is elementary (Plackett, "A Reduction
//! Formula for Normal Multivariate Integrals", 1954), and with the angle in place of the correlation
//!
//! ```text
//! P(both > h) = Q(h)^2 + 1 / (2 pi) * integral from 0 to asin(r) of exp(-h^2 / (1 + sin t)) dt
//! ```
//!
//! which ten points of Gauss and Legendre give to many digits (Drezner and Wesolowsky, "On the Computation of the
//! Bivariate Normal Integral", 1990). The mean over `u` is a sum over evenly spaced points, which for smooth functions
//! that vanish at either end is as exact (Trefethen and Weideman, "The Exponentially Convergent Trapezoidal Rule", 2014).

use statrs::function::erf::erfc;

/// The step of integration, in standard deviations.
const STEP: f64 = 0.5;
/// Places and weights of the rule of Gauss and Legendre with ten points between -1 and 1; the other five are their
/// mirror images.
const LEGENDRE: [(f64, f64); 5] = [
    (0.148_874_338_981_631_2, 0.295_524_224_714_752_9),
    (0.433_395_394_129_247_2, 0.269_266_719_309_996_4),
    (0.679_409_568_299_024_4, 0.219_086_362_515_982),
    (0.865_063_366_688_984_5, 0.149_451_349_150_580_6),
    (0.973_906_528_517_171_7, 0.066_671_344_308_688_1),
];
/// The range of integration: beyond it, the normal density is negligible.
const REACH: i32 = 6;
/// The relative error of the probability at which a quantile is exact enough.
const EXACT: f64 = 1e-4;
/// About six are needed.
const MOST_TURNS: u32 = 60;

/// The probability that two further runs of the same thing both lie at least `c` deviations above the
/// expected value. The deviation has `freedom` degrees of freedom, and the expected value has `mean_variance`
/// times the variance of a run.
pub(super) fn p_value(c: f64, freedom: f64, mean_variance: f64) -> f64 {
    if c.is_nan() {
        return 1.0;
    }
    Grid::new(freedom, mean_variance).p_value(c)
}

/// The number of deviations that two further runs exceed with probability `p`: the inverse of [`p_value`],
/// for `p` below a fourth.
pub(super) fn quantile(p: f64, freedom: f64, mean_variance: f64) -> f64 {
    let grid = Grid::new(freedom, mean_variance);
    root(|c| (grid.p_value(c) / p).ln())
}

/// The place at which `beyond`, which falls, is zero.
fn root(mut beyond: impl FnMut(f64) -> f64) -> f64 {
    let (mut lo, mut hi) = ((0.0, beyond(0.0)), (4.0, beyond(4.0)));
    // With one degree of freedom, larger bounds are meaningless.
    while hi.1 > 0.0 && hi.0 < 1e6 {
        (lo, hi) = (hi, (2.0 * hi.0, beyond(2.0 * hi.0)));
    }
    if hi.1 > 0.0 {
        return hi.0;
    }
    // False position with the Illinois rule (Dowell and Jarratt 1971): an end that is kept once more counts for half.
    let mut was_lo = None;
    for _ in 0..MOST_TURNS {
        let at = (lo.0 * hi.1 - hi.0 * lo.1) / (hi.1 - lo.1);
        let found = (at, beyond(at));
        if found.1.abs() < EXACT {
            return at;
        }
        let is_lo = found.1 > 0.0;
        let counts = if was_lo == Some(is_lo) { 0.5 } else { 1.0 };
        was_lo = Some(is_lo);
        if is_lo {
            (lo, hi) = (found, (hi.0, hi.1 * counts));
        } else {
            (lo, hi) = ((lo.0, lo.1 * counts), found);
        }
    }
    hi.0
}

/// The points of both integrals and their weights. A search for a quantile integrates about ten times over the same
/// ones.
struct Grid {
    /// Ratios of a deviation to the true one, with weights that add up to one.
    ratios: Vec<(f64, f64)>,
    /// The square root of the variance of a run, its mean's included.
    spread: f64,
    /// `1 / (1 + sin t)` at the angles of the integral, and their weights.
    angles: [(f64, f64); 2 * LEGENDRE.len()],
}

impl Grid {
    fn new(freedom: f64, mean_variance: f64) -> Self {
        let mut ratios: Vec<(f64, f64)> = ratios(freedom).collect();
        let whole: f64 = ratios.iter().map(|(_, weight)| weight).sum();
        for (_, weight) in &mut ratios {
            *weight /= whole;
        }
        let half = (mean_variance / (1.0 + mean_variance)).asin() / 2.0;
        let angles = std::array::from_fn(|index| {
            let (place, weight) = LEGENDRE[index / 2];
            let place = if index % 2 == 0 { place } else { -place };
            let sine = (half * (1.0 + place)).sin();
            (1.0 / (1.0 + sine), half * weight / std::f64::consts::TAU)
        });
        Self {
            ratios,
            spread: (1.0 + mean_variance).sqrt(),
            angles,
        }
    }

    /// See [`p_value`].
    fn p_value(&self, c: f64) -> f64 {
        let terms = self.ratios.iter();
        terms
            .map(|(ratio, weight)| weight * self.given(c * ratio))
            .sum()
    }

    /// The probability for a known deviation.
    fn given(&self, bound: f64) -> f64 {
        let h = bound / self.spread;
        let terms = self.angles.iter();
        let together: f64 = terms
            .map(|(share, weight)| weight * (-h * h * share).exp())
            .sum();
        upper(h).powi(2) + together
    }
}

/// Points and weights of the ratio of a deviation to the true one. On a scale of its logarithm `v` the
/// density goes by `exp(freedom * (v - exp(2 v) / 2))`, whose width is `1 / sqrt(2 * freedom)`.
fn ratios(freedom: f64) -> impl Iterator<Item = (f64, f64)> {
    let width = 1.0 / (2.0 * freedom).sqrt();
    // To the left it falls off as the power `freedom` of the ratio only.
    let left = (1.5 * f64::from(REACH) * width).max(24.0 / freedom);
    let right = f64::from(REACH) * width;
    let points = ((left + right) / (STEP * width)).ceil() as u32;
    (0..=points).map(move |point| {
        let v = right - f64::from(point) * STEP * width;
        (v.exp(), (freedom * (v + 0.5 - (2.0 * v).exp() / 2.0)).exp())
    })
}

/// The upper tail of the standard normal distribution.
fn upper(z: f64) -> f64 {
    0.5 * erfc(z / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::gate::student;

    #[test]
    fn with_everything_known_two_runs_are_independent() {
        for c in [0.0, 1.0, 2.5, 4.0] {
            let independent = upper(c).powi(2);
            let p = p_value(c, 1e7, 1e-9);
            assert!((p / independent - 1.0).abs() < 1e-3, "{c}: {p}");
        }
    }

    #[test]
    fn correlated_pair_has_the_probability_of_the_sum_over_the_error_of_the_mean() {
        let summed = |bound: f64, error: f64| {
            let points = (-120..=120).map(|step| f64::from(step) * 0.1);
            let (sum, whole) = points.fold((0.0, 0.0), |(sum, whole), z| {
                let weight = (-0.5 * z * z).exp();
                (
                    sum + weight * upper(bound + error * z).powi(2),
                    whole + weight,
                )
            });
            sum / whole
        };
        for variance in [0.0, 0.01, 0.125, 0.5, 1.0, 8.0] {
            let grid = Grid::new(7.0, variance);
            for bound in [-1.0, 0.0, 0.5, 2.0, 4.0, 6.0] {
                let (found, wanted) = (grid.given(bound), summed(bound, variance.sqrt()));
                let off = (found / wanted - 1.0).abs();
                assert!(off < 1e-6, "{variance}, {bound}: {found}, {wanted}");
            }
        }
    }

    #[test]
    fn integral_is_what_drawing_gives() {
        let mut rng = SmallRng::seed_from_u64(31);
        let mut normal = || {
            let (u, v): (f64, f64) = (rng.random(), rng.random());
            (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
        };
        let draws = 200_000;
        let mut beyond = [0_u32; 3];
        let bounds = [1.0, 2.0, 3.0];
        for _ in 0..draws {
            let values: [f64; 8] = std::array::from_fn(|_| normal());
            let mean = values.iter().sum::<f64>() / 8.0;
            let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
            let lesser = normal().min(normal());
            let distance = (lesser - mean) / (squares / 7.0).sqrt();
            for (count, bound) in beyond.iter_mut().zip(bounds) {
                *count += u32::from(distance > bound);
            }
        }
        for (count, bound) in beyond.into_iter().zip(bounds) {
            let expected = p_value(bound, 7.0, 0.125) * f64::from(draws);
            let off = (f64::from(count) - expected) / expected.sqrt();
            assert!(off.abs() < 3.5, "{bound}: {count}, expected {expected}");
        }
    }

    #[test]
    fn quantile_is_found_in_few_integrals() {
        for freedom in [4.0, 7.0, 15.0, 38.0, 1e3] {
            for p in [0.01, 1e-3, 2.5e-5] {
                let grid = Grid::new(freedom, 0.125);
                let mut integrals = 0;
                root(|c| {
                    integrals += 1;
                    (grid.p_value(c) / p).ln()
                });
                assert!(integrals <= 9, "{freedom}, {p}: {integrals}");
            }
        }
    }

    #[test]
    fn quantile_undoes_it_and_asks_less_than_one_run_at_the_same_level() {
        for (freedom, variance) in [(1.0, 0.5), (7.0, 0.125), (38.0, 0.125), (1e6, 0.05)] {
            for p in [0.01, 1e-3, 2.5e-5] {
                let c = quantile(p, freedom, variance);
                let back = p_value(c, freedom, variance);
                assert!((back / p - 1.0).abs() < 1e-3, "{freedom}, {p}: {c}, {back}");
                let alone = student::quantile(1.0 - p, freedom);
                assert!(c < alone * (1.0_f64 + variance).sqrt(), "{freedom}, {p}");
            }
        }
        assert_eq!(p_value(f64::NAN, 7.0, 0.125), 1.0);
        assert!(p_value(f64::INFINITY, 7.0, 0.125) == 0.0);
    }
}

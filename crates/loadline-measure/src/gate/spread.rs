//! The variation between runs of the same thing, and the prediction of a further run.
//!
//! With `K` runs of mean `m` and standard deviation `s`, a further run lies within
//! `t(1 - alpha, K - 1) * s * sqrt(1 + 1/K)` of `m` on either side, each with the probability
//! `1 - alpha`: the prediction interval of a normal distribution (Hahn and Meeker, "Statistical
//! Intervals", 1991, section 4.7). Of the mean of `n` further runs it is `sqrt(1/n + 1/K)`.

use super::{both, student};

/// The most degrees of freedom of the t distribution. Noise has heavier tails than a normal distribution,
/// which matters for alarms rarer than one in ten thousand. With a tenth of the runs three times as wide,
/// this limit keeps the promised rate (`simulations.rs`), while more degrees of freedom exceed it.
const TAIL_FREEDOM: f64 = 12.0;

/// The runs of a baseline in one metric of one case, as logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) mean: f64,
    /// The standard deviation, or its floor if the runs are closer together by chance.
    pub(super) deviation: f64,
    pub(super) runs: usize,
    /// The degrees of freedom of the deviation: one less than the number of runs, and more if other cases
    /// contribute (see [`super::pooled`]).
    pub(super) freedom: f64,
}

impl Spread {
    /// Returns `None` for fewer than two runs. `more_squares` is added to the sum of squares when the
    /// reference is removed (see [`super::control`]).
    pub(super) fn of(values: &[f64], more_squares: f64, floor: f64) -> Option<Self> {
        let runs = values.len();
        if runs < 2 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / runs as f64;
        let around: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
        let squares = around + more_squares;
        let deviation = (squares / (runs - 1) as f64).sqrt().max(floor);
        Some(Self {
            mean,
            deviation,
            runs,
            freedom: (runs - 1) as f64,
        })
    }

    /// The largest deviation of the mean of `further` runs from the mean, at the error probability `alpha`
    /// per side; `leverage` is the contribution of their reference (see [`super::control`]).
    pub(super) fn reach(&self, alpha: f64, further: usize, leverage: f64) -> f64 {
        let error = self.deviation * (1.0 / further as f64 + self.mean_variance(leverage)).sqrt();
        student::quantile(1.0 - alpha, self.freedom) * error
    }

    /// The probability that two further runs both lie at least `beyond` above the mean by chance.
    pub(super) fn p_value_of_both(&self, beyond: f64, leverage: f64) -> f64 {
        let mean_variance = self.mean_variance(leverage);
        both::p_value(
            beyond / self.deviation,
            self.freedom_of_tails(),
            mean_variance,
        )
    }

    /// The variance of the expected value of a further run, in variances of a run.
    pub(super) fn mean_variance(&self, leverage: f64) -> f64 {
        1.0 / self.runs as f64 + leverage
    }

    /// The degrees of freedom for rare events; see [`TAIL_FREEDOM`].
    pub(super) fn freedom_of_tails(&self) -> f64 {
        self.freedom.min(TAIL_FREEDOM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reach_is_that_of_the_formula() {
        let values = [0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07];
        let spread = Spread::of(&values, 0.0, 0.005).unwrap();
        assert!((spread.mean - 0.035).abs() < 1e-12);
        assert!((spread.deviation - 0.0006_f64.sqrt()).abs() < 1e-12);
        // t(0.99, 7) = 2.998, by the table of the NIST handbook.
        let expected = 2.998 * 0.0006_f64.sqrt() * (1.0_f64 + 0.125).sqrt();
        assert!((spread.reach(0.01, 1, 0.0) - expected).abs() < 1e-4);
        let unlike = 2.998 * 0.0006_f64.sqrt() * (1.0_f64 + 0.125 + 0.5).sqrt();
        assert!((spread.reach(0.01, 1, 0.5) - unlike).abs() < 1e-4);
        let both = 2.998 * 0.0006_f64.sqrt() * (0.5_f64 + 0.125).sqrt();
        assert!((spread.reach(0.01, 2, 0.0) - both).abs() < 1e-4);
        let beyond = both::quantile(0.001, 7.0, 0.125) * spread.deviation;
        let p = spread.p_value_of_both(beyond, 0.0);
        assert!((p / 0.001 - 1.0).abs() < 1e-3, "{p}");
    }

    #[test]
    fn runs_that_happen_to_agree_have_the_least_deviation() {
        assert_eq!(Spread::of(&[1.0; 8], 0.0, 0.005).unwrap().deviation, 0.005);
        assert_eq!(Spread::of(&[1.0], 0.0, 0.005), None);
    }
}

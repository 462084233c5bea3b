//! How runs of the same thing differ, and what that says of a further run.
//!
//! With `K` runs of mean `m` and standard deviation `s`, a further run lies within
//! `t(1 - alpha, K - 1) * s * sqrt(1 + 1/K)` of `m` on either side, each with the probability
//! `1 - alpha`: the prediction interval of a normal distribution (Hahn and Meeker, "Statistical
//! Intervals", 1991, section 4.7). Of the mean of `n` further runs it is `sqrt(1/n + 1/K)`.

use super::student;

/// The runs of a baseline in one metric of one case, as logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) mean: f64,
    /// The standard deviation, or its floor where the runs happen to lie closer together.
    pub(super) deviation: f64,
    pub(super) runs: usize,
}

impl Spread {
    /// `None` of fewer than two runs, which do not tell how runs differ.
    pub(super) fn of(values: &[f64], floor: f64) -> Option<Self> {
        let runs = values.len();
        if runs < 2 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / runs as f64;
        let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
        let deviation = (squares / (runs - 1) as f64).sqrt().max(floor);
        Some(Self {
            mean,
            deviation,
            runs,
        })
    }

    /// How far the mean of `further` runs may lie from the mean, at the error probability `alpha` of
    /// either side.
    pub(super) fn reach(&self, alpha: f64, further: usize) -> f64 {
        student::quantile(1.0 - alpha, self.freedom()) * self.error(further)
    }

    /// How likely the mean of `further` runs would lie at least `delta` above `margin` by chance,
    /// were it truly at `margin`.
    pub(super) fn p_value(&self, delta: f64, margin: f64, further: usize) -> f64 {
        student::above((delta - margin) / self.error(further), self.freedom())
    }

    fn error(&self, further: usize) -> f64 {
        self.deviation * (1.0 / further as f64 + 1.0 / self.runs as f64).sqrt()
    }

    fn freedom(&self) -> u64 {
        (self.runs - 1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reach_is_that_of_the_formula() {
        let values = [0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07];
        let spread = Spread::of(&values, 0.005).unwrap();
        assert!((spread.mean - 0.035).abs() < 1e-12);
        assert!((spread.deviation - 0.0006_f64.sqrt()).abs() < 1e-12);
        // t(0.99, 7) = 2.998, by the table of the NIST handbook.
        let expected = 2.998 * 0.0006_f64.sqrt() * (1.0_f64 + 0.125).sqrt();
        assert!((spread.reach(0.01, 1) - expected).abs() < 1e-4);
        let both = 2.998 * 0.0006_f64.sqrt() * (0.5_f64 + 0.125).sqrt();
        assert!((spread.reach(0.01, 2) - both).abs() < 1e-4);
        let p = spread.p_value(0.02 + expected, 0.02, 1);
        assert!((p - 0.01).abs() < 1e-5, "{p}");
    }

    #[test]
    fn runs_that_happen_to_agree_have_the_least_deviation() {
        assert_eq!(Spread::of(&[1.0; 8], 0.005).unwrap().deviation, 0.005);
        assert_eq!(Spread::of(&[1.0], 0.005), None);
    }
}

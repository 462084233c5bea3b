//! The share of a case that the reference explains: a control variate.
//!
//! Load on the machine slows both the subject and the reference, but not by the same factor: on two busy
//! cores the median of GET followed the echo by less than half, and on a quiet machine the echo only adds
//! noise. So with `y` the logarithm of the measurement and `z` that of the reference, runs are compared by `x
//! = y - b z` (Lavenberg and Welch, "A Perspective on the Use of Control Variables to Increase the Efficiency
//! of Monte Carlo Simulations", 1981). `b` depends only on the `K` runs of the baseline, so that a candidate
//! cannot influence it:
//!
//! ```text
//! b = (Szy + w * b0) / (Szz + w)          Szz = sum (z - mean z)^2, Szy = sum (z - mean z)(y - mean y)
//! w = (Syy - 2 b Szy + b^2 Szz) / (K - 1) / tau^2                 b0 = 1/2, tau^2 = 1/12
//! s^2 = (Syy - 2 b Szy + b^2 Szz + w (b - b0)^2) / (K - 1)
//! ```
//!
//! This is Bayesian linear regression with a normal prior for `b` that has the mean and variance of the
//! uniform distribution between 0, where the echo explains nothing, and 1, where a case follows it fully
//! (Gelman and others, "Bayesian Data Analysis", section 14.8). Eight runs estimate a slope poorly, and the
//! prior bounds the error. The uncertainty of `b` widens predictions: for a further run at `z`, the variance
//! of the prediction is
//!
//! ```text
//! s^2 * (1 + 1/K + (z - mean z)^2 / (Szz + w))
//! ```
//!
//! so the gate becomes less sensitive, rather than wrong, when the machine differs from all runs of the
//! baseline.

/// The prior mean of the coefficient; see the module documentation.
const USUAL: f64 = 0.5;
const USUAL_VARIANCE: f64 = 1.0 / 12.0;
/// `b` and `w` depend on each other; after this number of iterations both are stable.
const TURNS: usize = 8;

/// One run in one metric of one case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Observed {
    /// The logarithm of the measurement.
    pub(super) own: f64,
    /// The logarithm of the reference, with the sign in which it explains `own`.
    pub(super) reference: f64,
}

/// The share of the reference that is removed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Control {
    pub(super) coefficient: f64,
    /// The increase of the sum of squares because the coefficient differs from the prior mean.
    pub(super) more_squares: f64,
    mean_reference: f64,
    /// `Szz + w`.
    known: f64,
}

impl Control {
    /// Returns `None` for fewer than two runs. `floor` is the smallest accepted standard deviation.
    pub(super) fn of(runs: &[Observed], floor: f64) -> Option<Self> {
        if runs.len() < 2 {
            return None;
        }
        let count = runs.len() as f64;
        let mean_own = runs.iter().map(|run| run.own).sum::<f64>() / count;
        let mean_reference = runs.iter().map(|run| run.reference).sum::<f64>() / count;
        let (mut zz, mut zy, mut yy) = (0.0, 0.0, 0.0);
        for run in runs {
            let (y, z) = (run.own - mean_own, run.reference - mean_reference);
            (zz, zy, yy) = (zz + z * z, zy + z * y, yy + y * y);
        }
        let (mut coefficient, mut weight): (f64, f64) = (USUAL, 0.0);
        for _ in 0..TURNS {
            let left: f64 = yy - 2.0 * coefficient * zy + coefficient * coefficient * zz;
            weight = (left / (count - 1.0)).max(floor * floor) / USUAL_VARIANCE;
            coefficient = ((zy + weight * USUAL) / (zz + weight)).clamp(0.0, 1.0);
        }
        Some(Self {
            coefficient,
            more_squares: weight * (coefficient - USUAL).powi(2),
            mean_reference,
            known: zz + weight,
        })
    }

    /// The value that runs are compared by.
    pub(super) fn controlled(&self, run: Observed) -> f64 {
        run.own - self.coefficient * run.reference
    }

    /// The additional variance of a prediction because the reference differs from the baseline's, in
    /// variances of a run.
    pub(super) fn leverage(&self, reference: f64) -> f64 {
        (reference - self.mean_reference).powi(2) / self.known
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::gate::spread::Spread;
    use crate::gate::student;

    const FLOOR: f64 = 0.005;

    fn normal(rng: &mut SmallRng) -> f64 {
        let (u, v): (f64, f64) = (rng.random(), rng.random());
        (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// A run that follows the reference by `follows`, with its own deviation of 2 %.
    fn observed(rng: &mut SmallRng, follows: f64, reference: f64) -> Observed {
        let reference = reference * normal(rng);
        Observed {
            own: follows * reference + 0.02 * normal(rng),
            reference,
        }
    }

    #[test]
    fn many_runs_tell_the_coefficient_and_a_reference_that_stands_still_tells_none() {
        let mut rng = SmallRng::seed_from_u64(41);
        for follows in [0.0, 0.25, 0.9, 1.0] {
            let runs: Vec<Observed> = (0..2_000)
                .map(|_| observed(&mut rng, follows, 0.1))
                .collect();
            let found = Control::of(&runs, FLOOR).unwrap().coefficient;
            assert!((found - follows).abs() < 0.02, "{follows}: {found}");
        }
        let still: Vec<Observed> = (0..8).map(|_| observed(&mut rng, 0.0, 0.0)).collect();
        let control = Control::of(&still, FLOOR).unwrap();
        assert_eq!((control.coefficient, control.more_squares), (0.5, 0.0));
        assert_eq!(Control::of(&still[..1], FLOOR), None);
    }

    #[test]
    fn by_hand() {
        // Three runs with z = -0.1, 0, 0.1 that follow fully: Szz = Szy = Syy = 0.02. No residual remains, so
        // s is the floor of 1 %, w = 12 * 0.0001 and b = (0.02 + 0.0006) / 0.0212.
        let run = |z: f64| Observed {
            own: 3.0 + z,
            reference: 5.0 + z,
        };
        let control = Control::of(&[run(-0.1), run(0.0), run(0.1)], 0.01).unwrap();
        assert!((control.coefficient - 0.0206 / 0.0212).abs() < 1e-9);
        assert!((control.leverage(5.2) - 0.04 / 0.0212).abs() < 1e-9);
        assert!(control.leverage(5.0).abs() < 1e-12);
    }

    /// The 95 % interval of a further run, over 10,000 baselines of eight: for coefficients from the prior it
    /// covers 94 to 96 %, and it is not far off for any single coefficient, whether or not the machine
    /// differs from the baseline.
    /// unlike them all, is it far off.
    #[test]
    fn intervals_cover_what_comes_next() {
        let mut rng = SmallRng::seed_from_u64(42);
        // The quantile of Student's distribution with seven degrees of freedom, computed once because it is
        // slow.
        let quantile = student::quantile(0.975, 7.0);
        let mut share = |follows: Option<f64>, unlike: f64, reference: f64| {
            let trials = 10_000;
            let mut inside = 0;
            for _ in 0..trials {
                let follows = follows.unwrap_or_else(|| rng.random());
                let runs: Vec<Observed> = (0..8)
                    .map(|_| observed(&mut rng, follows, reference))
                    .collect();
                let control = Control::of(&runs, FLOOR).unwrap();
                let held: Vec<f64> = runs.iter().map(|run| control.controlled(*run)).collect();
                let spread = Spread::of(&held, control.more_squares, FLOOR).unwrap();
                let next = observed(&mut rng, follows, reference * unlike);
                let variance = 1.0 + spread.mean_variance(control.leverage(next.reference));
                let reach = quantile * spread.deviation * variance.sqrt();
                let off = control.controlled(next) - spread.mean;
                inside += u32::from(off.abs() <= reach);
            }
            f64::from(inside) / f64::from(trials)
        };
        for reference in [0.005, 0.02, 0.1] {
            let covered = share(None, 1.0, reference);
            println!("follows as thought, reference moves by {reference}: {covered}");
            assert!((0.94..=0.96).contains(&covered), "{reference}: {covered}");
        }
        for follows in [0.0, 0.5, 1.0] {
            for unlike in [1.0, 3.0] {
                let covered = share(Some(follows), unlike, 0.05);
                println!("follows by {follows}, days {unlike} times as wide: {covered}");
                assert!(covered > 0.91, "{follows}, {unlike}: {covered}");
            }
        }
    }
}

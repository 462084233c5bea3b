//! Detects the end of a warm-up, and drift of the rounds after it.

use crate::interval::NORMAL_QUANTILE;
use crate::quantile::{median, scaled_mad};

/// Blocks in each of the two windows that [`steady_from`] compares.
pub const WINDOW: usize = 5;

/// Shifts below this share of the level are ignored, however small the noise is.
const LEVEL_TOLERANCE: f64 = 0.01;

/// A shift must exceed this many standard errors to count as one.
const STANDARD_ERRORS: f64 = 3.0;

/// The smallest movement of the rounds that counts as drift, as a share of their median.
const DRIFT_SHARE: f64 = 0.02;

/// The fewest rounds for which the normal approximation of the trend test holds.
const DRIFT_ROUNDS: usize = 10;

/// The index of the block from which the medians no longer shift; `None` while they do, or with fewer than
/// two windows of blocks.
///
/// Two neighbouring windows of [`WINDOW`] blocks are compared, from the first block on. The state is
/// steady from the first pair whose window medians differ by no more than three standard errors of
/// such a difference (or 1 % of the level). This is the criterion of Georges, Buytaert and Eeckhout,
/// "Statistically Rigorous Java Performance Evaluation" (2007), which waits for a window of
/// consecutive iterations to be stable, with medians and the median absolute deviation in place of
/// means and the coefficient of variation, so that single stalls do not prolong the warm-up. The
/// standard error of the median of n normal values is 1.2533 sigma / sqrt(n).
///
/// A plateau longer than two windows counts as the end of the warm-up; [`drifts`] covers the rounds that
/// follow.
#[must_use]
pub fn steady_from(medians: &[f64]) -> Option<usize> {
    (0..=medians.len().checked_sub(2 * WINDOW)?)
        .find(|start| alike(&medians[*start..*start + 2 * WINDOW]).unwrap_or(false))
}

/// Whether the rounds have a relevant trend: the Mann-Kendall test is significant at a two-sided alpha of 1
/// %, and the Sen slope moves the level by more than 2 % from the first round to the last.
///
/// The test is Mann, "Nonparametric Tests Against Trend" (1945), with corrections for ties and continuity,
/// and the slope is the median over all pairs, Sen (1968). Returns `false` for fewer than ten rounds or
/// values that are not finite.
#[must_use]
pub fn drifts(rounds: &[f64]) -> bool {
    if rounds.len() < DRIFT_ROUNDS || !rounds.iter().all(|round| round.is_finite()) {
        return false;
    }
    let (mut score, mut slopes) = (0_i64, Vec::new());
    for (i, earlier) in rounds.iter().enumerate() {
        for (j, later) in rounds.iter().enumerate().skip(i + 1) {
            score += later.partial_cmp(earlier).expect("both are finite") as i64;
            slopes.push((later - earlier) / (j - i) as f64);
        }
    }
    let level = median(rounds).expect("there are rounds").abs();
    let moved = median(&slopes).expect("there are pairs").abs() * (rounds.len() - 1) as f64;
    trend_z(score, rounds) > NORMAL_QUANTILE && moved > DRIFT_SHARE * level
}

/// Whether the medians of two neighbouring windows differ by no more than chance explains. Chance is
/// estimated from the steps between successive blocks (von Neumann 1941), about their own median, so that
/// neither a trend nor a single stall counts as noise.
fn alike(blocks: &[f64]) -> Option<bool> {
    let (first, second) = blocks.split_at(WINDOW);
    let (before, after) = (median(first)?, median(second)?);
    let steps: Vec<f64> = blocks.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let sigma = scaled_mad(&steps)? / 2_f64.sqrt();
    let error = 1.2533 * sigma * (2.0 / WINDOW as f64).sqrt();
    let tolerance = (STANDARD_ERRORS * error).max(LEVEL_TOLERANCE * before.abs());
    Some((after - before).abs() <= tolerance)
}

/// The absolute Mann-Kendall score in standard deviations.
fn trend_z(score: i64, rounds: &[f64]) -> f64 {
    let term = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let sorted = crate::quantile::sorted(rounds);
    let ties: f64 = sorted
        .chunk_by(|a, b| a == b)
        .map(|tied| term(tied.len() as f64))
        .sum();
    let variance = (term(rounds.len() as f64) - ties) / 18.0;
    if variance <= 0.0 {
        return 0.0;
    }
    (score.unsigned_abs() as f64 - 1.0).max(0.0) / variance.sqrt()
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// `level` with noise of a given size, which has a median of zero.
    fn noisy(level: impl Fn(usize) -> f64, noise: f64, n: usize, seed: u64) -> Vec<f64> {
        let mut rng = SmallRng::seed_from_u64(seed);
        (0..n)
            .map(|i| level(i) * (1.0 + noise * rng.random_range(-1.0..1.0)))
            .collect()
    }

    #[test]
    fn flat_course_is_steady_from_the_start() {
        assert_eq!(steady_from(&[100.0; 10]), Some(0));
        assert_eq!(steady_from(&noisy(|_| 100.0, 0.05, 40, 1)), Some(0));
    }

    #[test]
    fn too_few_blocks_say_nothing() {
        assert_eq!(steady_from(&[100.0; 9]), None);
        assert_eq!(steady_from(&[]), None);
    }

    #[test]
    fn step_is_passed_before_the_state_is_steady() {
        let medians = noisy(|i| if i < 5 { 200.0 } else { 100.0 }, 0.02, 30, 2);
        let from = steady_from(&medians).unwrap();
        assert!((3..=6).contains(&from), "{from}");
    }

    #[test]
    fn decay_is_steady_only_near_its_end() {
        let medians = noisy(
            |i| 100.0 * (1.0 + 3.0 * (-(i as f64) / 4.0).exp()),
            0.01,
            60,
            3,
        );
        let from = steady_from(&medians).unwrap();
        assert!((12..=25).contains(&from), "{from}");
    }

    #[test]
    fn course_that_keeps_rising_is_never_steady() {
        assert_eq!(
            steady_from(&noisy(|i| 100.0 + 3.0 * i as f64, 0.01, 40, 4)),
            None
        );
    }

    #[test]
    fn single_stalls_do_not_prolong_the_warm_up() {
        let mut medians = noisy(|_| 100.0, 0.02, 20, 5);
        medians[3] = 900.0;
        medians[8] = 700.0;
        assert_eq!(steady_from(&medians), Some(0));
    }

    #[test]
    fn values_that_are_no_numbers_are_not_steady() {
        assert_eq!(steady_from(&[f64::NAN; 12]), None);
    }

    #[test]
    fn rise_over_the_rounds_is_a_drift_in_either_direction() {
        assert!(drifts(&noisy(|i| 100.0 + i as f64, 0.01, 24, 6)));
        assert!(drifts(&noisy(|i| 100.0 - i as f64, 0.01, 24, 7)));
    }

    #[test]
    fn rise_that_does_not_matter_is_no_drift() {
        let rounds: Vec<f64> = (0..24).map(|i| 100.0 + 0.05 * f64::from(i)).collect();
        assert!(!drifts(&rounds));
    }

    #[test]
    fn noise_is_a_drift_about_as_rarely_as_alpha_says() {
        let found = (0..2_000)
            .filter(|seed| drifts(&noisy(|_| 100.0, 0.2, 24, *seed)))
            .count();
        assert!(
            (5..=35).contains(&found),
            "{found} of 2,000 at an alpha of 1 %"
        );
    }

    #[test]
    fn ties_and_few_rounds_are_no_drift() {
        assert!(!drifts(&[100.0; 24]));
        assert!(!drifts(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]));
        assert!(!drifts(&[f64::NAN; 24]));
    }

    #[test]
    fn trend_test_agrees_with_its_formula_by_hand() {
        // 22 distinct values have a variance of 22 x 21 x 49 / 18 = 1,257.67, and 231 pairs.
        let rounds: Vec<f64> = (0..22).map(f64::from).collect();
        assert!((trend_z(231, &rounds) - 230.0 / 1_257.666_667_f64.sqrt()).abs() < 1e-9);
    }
}

//! The interval of a median, by order statistics.
//!
//! If the true median is `m`, every value lies below it with probability one half, whatever the
//! distribution. So the number of values below `m` is binomial, and the k-th smallest value is
//! above `m` only with probability P(Bin(n, 1/2) < k). The bounds are the smallest and the largest
//! values that keep this at or under alpha on each side (David and Nagaraja, "Order Statistics",
//! 3rd ed., section 7.1). Nothing is resampled, so the same rounds always give the same bounds.

/// The one-sided alpha of Loadline: each bound is on the wrong side of the median in at most one of 200
/// cases.
pub const ALPHA: f64 = 0.005;

/// The quantile of the normal distribution at 1 - [`ALPHA`].
pub(crate) const NORMAL_QUANTILE: f64 = 2.575_829;

/// The coverage of [`interpolated_95`].
const COVERAGE: f64 = 0.95;

/// An interval of a median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianInterval {
    /// The lower bound.
    pub lo: f64,
    /// The upper bound.
    pub hi: f64,
    /// The rank of the lower bound, counted from 1 in ascending order.
    pub(crate) lo_rank: usize,
    /// The rank of the upper bound, counted from 1 in ascending order.
    pub(crate) hi_rank: usize,
}

impl MedianInterval {
    /// Half of the width.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.hi - self.lo) / 2.0
    }
}

/// The interval of the median of `values`, each bound with an error probability of at most `alpha`. `None` if
/// there are too few values (below 8 for [`ALPHA`]) or not all are finite.
#[must_use]
pub fn of_median(values: &[f64], alpha: f64) -> Option<MedianInterval> {
    if !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let rank = lower_rank(values.len(), alpha)?;
    let sorted = crate::quantile::sorted(values);
    let hi_rank = values.len() + 1 - rank;
    Some(MedianInterval {
        lo: sorted[rank - 1],
        hi: sorted[hi_rank - 1],
        lo_rank: rank,
        hi_rank,
    })
}

/// The 95 % interval of the median of `values`, for readers; verdicts use [`of_median`]. `None` if there are
/// too few values (below 6) or not all are finite.
///
/// Two order statistics have one of a few possible coverages, nearly always more than requested.
/// Hettmansperger and Sheather ("Confidence intervals based on interpolated order statistics", Statistics &
/// Probability Letters 4, 1986, 75-79) take the two pairs of ranks whose coverage encloses 95 % and
/// interpolate from the wider to the narrower one by `lambda = (n - d) I / (d + (n - 2 d) I)`, where `I` is
/// the relative distance of the coverage. That is exact for a double exponential distribution, and close for
/// symmetric and many other ones.
#[must_use]
pub fn interpolated_95(values: &[f64]) -> Option<(f64, f64)> {
    if !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let n = values.len();
    let rank = lower_rank(n, (1.0 - COVERAGE) / 2.0)?;
    let sorted = crate::quantile::sorted(values);
    // Rank n / 2 has no narrower pair; with 6 or more values, 95 % is never beyond it.
    let covered = |rank: usize| 1.0 - 2.0 * binomial_at_most(rank - 1, n);
    let (wide, narrow) = (covered(rank), covered(rank + 1));
    let share = (wide - COVERAGE) / (wide - narrow);
    let (n, d) = (n as f64, rank as f64);
    let lambda = (n - d) * share / (d + (n - 2.0 * d) * share);
    let between = |outer: f64, inner: f64| outer + (inner - outer) * lambda;
    let count = sorted.len();
    Some((
        between(sorted[rank - 1], sorted[rank]),
        between(sorted[count - rank], sorted[count - rank - 1]),
    ))
}

/// P(X <= k) for X binomial with `n` trials of probability one half.
#[must_use]
pub fn binomial_at_most(k: usize, n: usize) -> f64 {
    if k >= n {
        return 1.0;
    }
    // Each term follows from the one before. 2^-n is a normal number for all n below 1,000, and logarithms
    // cover larger n.
    let mut ln_term = -(n as f64) * std::f64::consts::LN_2;
    let mut sum = ln_term.exp();
    for i in 0..k {
        ln_term += ((n - i) as f64 / (i + 1) as f64).ln();
        sum += ln_term.exp();
    }
    sum.min(1.0)
}

/// The rank of a lower bound: the largest k with P(Bin(n, 1/2) < k) <= alpha.
fn lower_rank(n: usize, alpha: f64) -> Option<usize> {
    (1..=n / 2)
        .take_while(|k| binomial_at_most(k - 1, n) <= alpha)
        .last()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn ranks(n: usize) -> Option<(usize, usize)> {
        let values: Vec<f64> = (1..=n).map(|i| i as f64).collect();
        of_median(&values, ALPHA).map(|interval| (interval.lo_rank, interval.hi_rank))
    }

    #[test]
    fn at_24_rounds_the_lower_bound_is_the_6th_smallest() {
        let values: Vec<f64> = (1..=24).rev().map(f64::from).collect();
        let interval = of_median(&values, ALPHA).unwrap();
        assert_eq!((interval.lo, interval.hi), (6.0, 19.0));
        assert_eq!((interval.lo_rank, interval.hi_rank), (6, 19));
        assert_eq!(interval.half_width(), 6.5);
    }

    #[test]
    fn ranks_follow_the_binomial_table() {
        // The lower rank is qbinom(0.005, n, 0.5) in R, where that is not 0.
        for (n, expected) in [
            (7, None),
            (8, Some((1, 8))),
            (10, Some((1, 10))),
            (12, Some((2, 11))),
            (20, Some((4, 17))),
            (40, Some((12, 29))),
        ] {
            assert_eq!(ranks(n), expected, "n = {n}");
        }
    }

    #[test]
    fn binomial_is_exact_where_it_can_be_counted() {
        assert!((binomial_at_most(5, 24) - 55_455.0 / 16_777_216.0).abs() < 1e-15);
        assert!((binomial_at_most(499, 1_001) - 0.474_780).abs() < 1e-4);
        assert_eq!(binomial_at_most(3, 3), 1.0);
    }

    #[test]
    fn values_that_are_no_numbers_have_no_interval() {
        let mut values = vec![1.0; 24];
        values[3] = f64::NAN;
        assert_eq!(of_median(&values, ALPHA), None);
        assert_eq!(of_median(&[], ALPHA), None);
    }

    #[test]
    fn interpolated_interval_is_that_of_the_paper() {
        // n = 20: ranks 6 and 15 cover 0.9586, ranks 7 and 14 cover 0.8847. So I = 0.1165 and
        // lambda = 14 * 0.1165 / (6 + 8 * 0.1165) = 0.2353.
        let values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        let (lo, hi) = interpolated_95(&values).unwrap();
        assert!(
            (lo - 6.2353).abs() < 1e-3 && (hi - 14.7647).abs() < 1e-3,
            "{lo} {hi}"
        );
        assert_eq!(interpolated_95(&values[..5]), None);
        assert!(interpolated_95(&values[..6]).is_some());
        assert_eq!(interpolated_95(&[f64::NAN; 20]), None);
    }

    #[test]
    fn interval_of_95_percent_covers_94_to_96_percent() {
        let mut rng = SmallRng::seed_from_u64(11);
        let mut normal = move || {
            let (u, v): (f64, f64) = (rng.random(), rng.random());
            (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
        };
        // Normal, with heavy tails on both sides, and skewed as times are; the median of all is 0.
        let shapes: [fn(f64) -> f64; 3] = [|x| x, |x| x + x.powi(3), |x| (0.8 * x).exp() - 1.0];
        for (shape, n) in shapes.into_iter().zip([10, 24, 40]) {
            {
                let covered = (0..10_000)
                    .filter(|_| {
                        let values: Vec<f64> = (0..n).map(|_| shape(normal())).collect();
                        let (lo, hi) = interpolated_95(&values).unwrap();
                        lo <= 0.0 && 0.0 <= hi
                    })
                    .count();
                assert!((9_400..=9_600).contains(&covered), "{n} values: {covered}");
            }
        }
    }

    #[test]
    fn bounds_miss_the_median_as_rarely_as_promised() {
        // 55,455 in 2^24 is 0.33 % on each side; of 20,000 draws 66 miss, with a deviation of 8.
        let mut rng = SmallRng::seed_from_u64(5);
        let (mut above, mut below) = (0, 0);
        for _ in 0..20_000 {
            let values: Vec<f64> = (0..24).map(|_| rng.random::<f64>().powi(3)).collect();
            let interval = of_median(&values, ALPHA).unwrap();
            above += u32::from(interval.lo > 0.125);
            below += u32::from(interval.hi < 0.125);
        }
        assert!((30..=100).contains(&above), "{above}");
        assert!((30..=100).contains(&below), "{below}");
    }

    proptest! {
        #[test]
        fn bounds_are_values_around_the_median(values in prop::collection::vec(-1e9..1e9, 8..60)) {
            let interval = of_median(&values, ALPHA).unwrap();
            let median = crate::quantile::median(&values).unwrap();
            prop_assert!(interval.lo <= median && median <= interval.hi);
            prop_assert!(values.contains(&interval.lo) && values.contains(&interval.hi));
        }
    }
}

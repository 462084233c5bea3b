//! Comparisons of two subjects in words.

use loadline_measure::compare::{Paired, Supported, Verdict};
use loadline_measure::words;

/// The largest difference between a paired ratio and the quotient of the totals that needs no explanation.
const UNLIKE_TOTALS: f64 = 0.05;

/// The verdict as a clause that can be checked against the rounds, and why the totals `a` and `b` of the table give
/// another ratio, for a record.
#[must_use]
pub fn paired_evidence(paired: &Paired, a: Option<f64>, b: Option<f64>) -> String {
    verdict(paired) + &beside_totals(paired, a, b)
}

/// The verdict as a clause that can be checked against the rounds.
pub(crate) fn verdict(paired: &Paired) -> String {
    let margin = format!("{} %", (paired.margin * 1_000.0).round() / 10.0);
    let (slower, faster, rounds) = (paired.rounds_slower, paired.rounds_faster, paired.rounds);
    match paired.verdict {
        Verdict::Slower => format!("slower by more than {margin} in {slower} of {rounds} rounds"),
        Verdict::Faster => format!("faster by more than {margin} in {faster} of {rounds} rounds"),
        Verdict::Equivalent => {
            let within = rounds - slower - faster;
            format!("the same: within {margin} in {within} of {rounds} rounds")
        }
        Verdict::Inconclusive if paired.interval.is_none() => {
            format!("inconclusive: {rounds} rounds are too few for an interval")
        }
        Verdict::Inconclusive => format!(
            "inconclusive: slower by more than {margin} in {slower} and faster in {faster} of {rounds} rounds"
        ),
    }
}

/// The factor with its interval, as far as it is supported: `3.10 times [2.95, 3.21]`, `at least 1.20 times
/// [1.20, 9.61]`. `None` where it is noise.
pub(crate) fn times(paired: &Paired) -> Option<String> {
    let (lead, factor) = match paired.supported() {
        Supported::Ratio => ("", paired.ratio),
        Supported::Bound(bound) if bound > 1.0 => ("at least ", bound),
        Supported::Bound(bound) => ("at most ", bound),
        Supported::Nothing => return None,
    };
    let (lo, hi) = paired.interval?;
    let [factor, lo, hi] = [factor, lo, hi].map(words::bound);
    Some(format!("{lead}{factor} times [{lo}, {hi}]"))
}

/// The reason why the ratio over paired rounds differs from the quotient of the totals in the table, as a further
/// clause. Empty if they agree, or if the ratio is not quoted.
pub(crate) fn beside_totals(paired: &Paired, a: Option<f64>, b: Option<f64>) -> String {
    let totals = b.zip(a).map_or(f64::NAN, |(b, a)| b / a);
    let is_unlike = (totals / paired.ratio).ln().abs() > UNLIKE_TOTALS.ln_1p();
    let is_quoted = paired.supported() == Supported::Ratio && paired.ratio > 0.0;
    if !(is_unlike && is_quoted && totals.is_finite() && totals > 0.0) {
        return String::new();
    }
    format!(
        "; the totals give {}, because slow rounds weigh more in them: the ratio is the median of the ratios within rounds",
        words::ratio(totals)
    )
}

#[cfg(test)]
mod tests {
    use loadline_measure::compare::{Rules, paired};
    use loadline_measure::record::Direction;

    use super::*;

    fn compared(a: &[f64], b: &[f64], direction: Direction) -> Paired {
        paired(a, b, direction, &Rules::default()).unwrap()
    }

    #[test]
    fn verdicts_can_be_checked_against_the_rounds() {
        let a = [100.0; 24];
        let mut b = [110.0; 24];
        b[..5].fill(101.0);
        let verdict = |b: &[f64]| verdict(&compared(&a[..b.len()], b, Direction::LessIsBetter));
        assert_eq!(verdict(&b), "slower by more than 2 % in 19 of 24 rounds");
        assert_eq!(
            super::verdict(&compared(&a, &b, Direction::MoreIsBetter)),
            "faster by more than 2 % in 19 of 24 rounds"
        );
        assert_eq!(verdict(&a), "the same: within 2 % in 24 of 24 rounds");
        assert_eq!(
            verdict(&b[..4]),
            "inconclusive: 4 rounds are too few for an interval"
        );
        b[..12].fill(80.0);
        assert_eq!(
            verdict(&b),
            "inconclusive: slower by more than 2 % in 12 and faster in 12 of 24 rounds"
        );
    }

    /// Ratios of `rounds` rounds: `from` in the middle, apart by factors of e to the power of `step`.
    fn spread(from: f64, step: f64, rounds: std::ops::Range<i32>) -> Paired {
        let other: Vec<f64> = rounds
            .map(|round| from * (step * f64::from(round)).exp())
            .collect();
        compared(&vec![1.0; other.len()], &other, Direction::MoreIsBetter)
    }

    #[test]
    fn ratio_that_differs_from_the_totals_says_why() {
        let even = spread(0.80, 0.01, -6..7);
        let note = beside_totals(&even, Some(75_800.0), Some(54_700.0));
        assert!(
            note.starts_with("; the totals give 0.72x, because slow rounds"),
            "{note}"
        );
        assert_eq!(beside_totals(&even, Some(100.0), Some(83.0)), "");
        assert_eq!(beside_totals(&even, None, Some(83.0)), "");
        assert_eq!(beside_totals(&even, Some(0.0), Some(83.0)), "");
        let noise = spread(0.80, 1.0, -6..7);
        assert_eq!(beside_totals(&noise, Some(75_800.0), Some(54_700.0)), "");
    }

    #[test]
    fn factor_of_noisy_rounds_is_its_certain_bound() {
        let times = |from: f64, step: f64| times(&spread(from, step, 0..12));
        assert_eq!(times(2.0, 0.01).unwrap(), "2.11 times [2.02, 2.21]");
        assert_eq!(times(2.0, 0.1).unwrap(), "at least 2.21 times [2.21, 5.44]");
        assert_eq!(times(0.1, 0.1).unwrap(), "at most 0.27 times [0.11, 0.27]");
        assert_eq!(times(0.1, 0.5), None);
    }
}

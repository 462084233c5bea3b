//! Two subjects in paired rounds.
//!
//! A round runs one block per subject. For a metric `m`, every round gives one number, `d = ln(m_B / m_A)`;
//! the ratio of B to A is `exp(median d)`, and its interval is that of the median (see [`crate::interval`]).
//! Effects of the machine on a whole round cancel out, and neither a mean nor a normal distribution is
//! assumed.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::interval::{self, ALPHA, binomial_at_most};
use crate::metric::Direction;
use crate::quantile::median;

/// The number of rounds from which [`precise_enough`] can stop.
pub const MIN_ROUNDS: usize = 10;

/// The number of rounds at which [`precise_enough`] stops in any case.
pub const MAX_ROUNDS: usize = 40;

/// The half-width of the interval, as a share, that is precise enough.
pub const HALF_WIDTH: f64 = 0.015;

/// The half-width of the interval, as a share, that finds changes of 5 %.
pub const GATE_HALF_WIDTH: f64 = 0.010;

/// The largest half-width of an interval, as a share, at which A against A is level. With a wider one, two equal
/// subjects could differ by as much as a gate calls critical.
pub const LEVEL_HALF_WIDTH: f64 = 0.20;

/// The part of a ratio that its rounds support, and that can be quoted as a result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Supported {
    /// The ratio: A against A, measured in the same rounds, would be level, since its interval is as wide.
    Ratio,
    /// The bound nearest to one of an interval that excludes it: A against A would not be level.
    Bound(f64),
    /// Neither: the ratio is noise.
    Nothing,
}

impl Supported {
    /// The supported part of a ratio with these bounds. `is_open` says that the rounds decide nothing.
    #[must_use]
    pub fn of((lo, hi): (f64, f64), is_open: bool) -> Self {
        if (hi / lo).ln() / 2.0 <= LEVEL_HALF_WIDTH.ln_1p() {
            Self::Ratio
        } else if lo > 1.0 && !is_open {
            Self::Bound(lo)
        } else if hi < 1.0 && !is_open {
            Self::Bound(hi)
        } else {
            Self::Nothing
        }
    }
}

/// The verdict on the second subject, compared with the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Worse by more than the margin.
    Slower,
    /// Better by more than the margin.
    Faster,
    /// Neither worse nor better by a relevant amount.
    Equivalent,
    /// The rounds do not decide.
    Inconclusive,
}

/// The thresholds of a verdict, as shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Differences up to this are ignored: two processes of the same binary differ by as much.
    pub(crate) margin: f64,
    /// Differences below this are irrelevant.
    pub(crate) equivalence: f64,
    /// The error probability of each bound of the interval.
    pub alpha: f64,
}

/// A comparison of two subjects by one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paired {
    /// The metric of the second over that of the first: the median over the rounds.
    pub ratio: f64,
    /// The lower and the upper bound of the ratio; `None` with too few rounds.
    pub interval: Option<(f64, f64)>,
    /// Half of the width of the interval on the logarithmic scale, which is nearly a share.
    pub(crate) half_width: Option<f64>,
    /// The smallest change, as a share, that these rounds can detect: margin plus half-width.
    pub minimum_detectable_effect: Option<f64>,
    /// The number of rounds.
    pub rounds: usize,
    /// Rounds in which the second was worse by more than the margin.
    pub rounds_slower: usize,
    /// Rounds in which the second was better by more than the margin.
    pub rounds_faster: usize,
    /// The verdict.
    pub verdict: Verdict,
    /// The margin that was used, as a share.
    pub margin: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            margin: 0.02,
            equivalence: 0.05,
            alpha: ALPHA,
        }
    }
}

/// Compares the metric of two subjects round by round; `a[r]` and `b[r]` are of the same round.
///
/// # Errors
///
/// [`Error::Unpaired`] where the numbers of rounds differ, [`Error::NotPositive`] where a value has
/// no logarithm.
pub fn paired(a: &[f64], b: &[f64], direction: Direction, rules: &Rules) -> Result<Paired, Error> {
    let differences = log_ratios(a, b)?;
    let interval = interval::of_median(&differences, rules.alpha);
    let half_width = interval.map(|bounds| bounds.half_width());
    let margin = rules.margin.ln_1p();
    let worse: Vec<f64> = differences
        .iter()
        .map(|d| direction.worsening(*d))
        .collect();
    let bounds = interval.map(|bounds| match direction {
        Direction::LessIsBetter => (bounds.lo, bounds.hi),
        Direction::MoreIsBetter => (-bounds.hi, -bounds.lo),
    });
    Ok(Paired {
        ratio: median(&differences).unwrap_or(0.0).exp(),
        interval: interval.map(|bounds| (bounds.lo.exp(), bounds.hi.exp())),
        half_width,
        minimum_detectable_effect: half_width.map(|half| (margin + half).exp_m1()),
        rounds: differences.len(),
        rounds_slower: worse.iter().filter(|d| **d > margin).count(),
        rounds_faster: worse.iter().filter(|d| **d < -margin).count(),
        verdict: bounds.map_or(Verdict::Inconclusive, |bounds| judge(bounds, rules)),
        margin: rules.margin,
    })
}

/// `ln(b / a)` of every round, the input of [`precise_enough`].
///
/// # Errors
///
/// The errors of [`paired`].
pub fn log_ratios(a: &[f64], b: &[f64]) -> Result<Vec<f64>, Error> {
    if a.len() != b.len() {
        return Err(Error::Unpaired {
            a: a.len(),
            b: b.len(),
        });
    }
    let positive = |round: usize, value: f64| {
        if value > 0.0 && value.is_finite() {
            Ok(value)
        } else {
            Err(Error::NotPositive { round, value })
        }
    };
    let rounds = a.iter().zip(b).enumerate();
    rounds
        .map(|(round, (a, b))| Ok(positive(round, *b)?.ln() - positive(round, *a)?.ln()))
        .collect()
}

/// Whether enough rounds were run, given their [`log_ratios`]: from 10 rounds on when the half-width
/// of the interval is 1.5 % or less, and at 40 rounds in any case.
///
/// It depends only on the precision and never on the result: stopping at a significant difference would find
/// differences that do not exist.
#[must_use]
pub fn precise_enough(differences: &[f64]) -> bool {
    if differences.len() >= MAX_ROUNDS {
        return true;
    }
    let interval = interval::of_median(differences, ALPHA);
    differences.len() >= MIN_ROUNDS
        && interval.is_some_and(|bounds| bounds.half_width() <= HALF_WIDTH.ln_1p())
}

/// The number of rounds from which one of `comparisons` can be significant after Holm's correction (see
/// [`holm`]), even if one round in ten disagrees. With fewer rounds a sign test cannot be: its smallest
/// p-value is `2^-rounds`.
#[must_use]
pub fn rounds_for(comparisons: usize) -> usize {
    let needed = ALPHA / comparisons.max(1) as f64;
    (MIN_ROUNDS..MAX_ROUNDS)
        .rfind(|rounds| binomial_at_most(rounds / 10, *rounds) > needed)
        .map_or(MIN_ROUNDS, |too_few| too_few + 1)
}

/// Whether there were enough rounds for a gate to detect a change of 5 % in one of `comparisons`. This
/// requires [`rounds_for`] that number of comparisons and a half-width of 1 %; 40 rounds are always
/// enough. Like [`precise_enough`], it never looks at the result.
///
/// In simulations of the noise of a busy machine, a half-width of 1.5 % finds 5 % in 94 of 100 cases.
#[must_use]
pub fn precise_for(differences: &[f64], comparisons: usize) -> bool {
    let interval = interval::of_median(differences, ALPHA);
    let is_narrow = interval.is_some_and(|bounds| bounds.half_width() <= GATE_HALF_WIDTH.ln_1p());
    differences.len() >= MAX_ROUNDS || (differences.len() >= rounds_for(comparisons) && is_narrow)
}

/// Holm's correction for several comparisons: the adjusted p-values, in the order of the given ones.
///
/// The smallest p-value is multiplied by their number, the next by one less, and so on, and none is smaller
/// than the one before (Holm, "A Simple Sequentially Rejective Multiple Test Procedure", 1979).
#[must_use]
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|i, j| p_values[*i].total_cmp(&p_values[*j]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut floor = 0.0_f64;
    for (place, index) in order.into_iter().enumerate() {
        let factor = (p_values.len() - place) as f64;
        floor = floor.max((factor * p_values[index]).min(1.0));
        adjusted[index] = floor;
    }
    adjusted
}

/// The fewest rounds after which [`correct_for_several`] can leave the verdicts of `family` comparisons: those of all
/// rounds agree, with a p-value of 1/2 to the power of their number.
#[must_use]
pub fn rounds_for_several(family: usize, alpha: f64) -> u32 {
    let holds = |rounds: &u32| family as f64 * 0.5_f64.powi(*rounds as i32) <= alpha;
    (1..=MAX_ROUNDS as u32)
        .find(holds)
        .unwrap_or(MAX_ROUNDS as u32)
}

/// Withdraws verdicts that do not hold for the whole family of metrics: slower and faster become inconclusive
/// if Holm's p-value is above `alpha`.
pub fn correct_for_several(family: &mut [Paired], alpha: f64) {
    let p_values: Vec<f64> = family.iter().map(Paired::p_value).collect();
    for (paired, p_value) in family.iter_mut().zip(holm(&p_values)) {
        let claims = matches!(paired.verdict, Verdict::Slower | Verdict::Faster);
        if claims && p_value > alpha {
            paired.verdict = Verdict::Inconclusive;
        }
    }
}

impl Direction {
    /// The logarithm of a ratio, with the sign that makes worse positive.
    pub(crate) fn worsening(self, d: f64) -> f64 {
        match self {
            Self::LessIsBetter => d,
            Self::MoreIsBetter => -d,
        }
    }
}

impl Paired {
    /// The supported part of the ratio; without an interval there is none.
    #[must_use]
    pub fn supported(&self) -> Supported {
        let is_open = self.verdict == Verdict::Inconclusive;
        self.interval
            .map_or(Supported::Nothing, |bounds| Supported::of(bounds, is_open))
    }

    /// The p-value of the sign test for slower or faster by more than the margin, whichever is more likely:
    /// the probability of at least this many rounds beyond the margin if the median is within it.
    #[must_use]
    pub fn p_value(&self) -> f64 {
        let beyond = self.rounds_slower.max(self.rounds_faster);
        if self.rounds == 0 {
            1.0
        } else {
            binomial_at_most(self.rounds - beyond, self.rounds)
        }
    }
}

/// Judges logarithmic bounds, where more is worse. A difference beyond the margin is reported even if it is
/// irrelevant. An equivalence never hides a difference.
fn judge((lo, hi): (f64, f64), rules: &Rules) -> Verdict {
    let (margin, matters) = (rules.margin.ln_1p(), rules.equivalence.ln_1p());
    if lo > margin {
        Verdict::Slower
    } else if hi < -margin {
        Verdict::Faster
    } else if hi < matters && lo > -matters {
        Verdict::Equivalent
    } else {
        Verdict::Inconclusive
    }
}

#[cfg(test)]
mod tests;

//! From passes to instructions per operation, and the comparison of two sides.

use serde::{Deserialize, Serialize};

use super::{Pass, WorkError};
use crate::gate::student;
use crate::interval::ALPHA;

/// Passes that each side needs: with fewer their spread is unknown.
pub const LEAST_PASSES: usize = 3;

/// The smallest standard deviation, in log units, that is assumed between passes. Three passes can agree to the
/// last digit by chance, and two processes of one program differ in what their hash tables collide on.
const LEAST_DEVIATION: f64 = 0.000_5;

/// Instructions per operation of one side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The geometric mean over the passes.
    pub instructions_per_op: f64,
    /// The standard deviation of the passes, as a share of the mean.
    pub deviation: f64,
    /// Passes behind it.
    pub passes: usize,
}

/// The thresholds of a verdict about work, as shares: 0.02 is 2 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkRules {
    /// Warn if the second side certainly executes more instructions and the estimate is at least this.
    pub warning: f64,
    /// Critical if the lower bound is at least this.
    pub critical: f64,
}

impl Default for WorkRules {
    /// A warning from 2 %, critical from 20 %.
    fn default() -> Self {
        Self {
            warning: 0.02,
            critical: 0.20,
        }
    }
}

/// The result of comparing the instructions of two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkVerdict {
    /// The second side executes more instructions per operation.
    More,
    /// The second side executes fewer instructions per operation.
    Fewer,
    /// The interval contains no difference of a warning's size.
    Same,
    /// The passes vary too much to tell.
    Inconclusive,
}

/// Two sides compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkComparison {
    /// Instructions per operation of the second side over those of the first.
    pub ratio: f64,
    /// The lower bound of the ratio; wrong in at most one of 200 comparisons.
    pub lo: f64,
    /// The upper bound of the ratio; wrong in at most one of 200 comparisons.
    pub hi: f64,
    /// What follows from the interval.
    pub verdict: WorkVerdict,
}

/// Instructions per operation of each pass, without the background work.
///
/// A server executes instructions without any request, in its timers, in proportion to the time. `idle` is a pass
/// without operations on the same server; its rate times the duration of a pass is subtracted from that pass.
/// Without `idle` nothing is subtracted.
///
/// # Errors
/// If a pass has no operations, or the background would be all of it.
pub fn per_operation(passes: &[Pass], idle: Option<&Pass>) -> Result<Vec<f64>, WorkError> {
    let rate = idle
        .filter(|idle| idle.duration_ns > 0)
        .map_or(0.0, |idle| {
            idle.instructions as f64 / idle.duration_ns as f64
        });
    passes
        .iter()
        .map(|pass| {
            let own = pass.instructions as f64 - rate * pass.duration_ns as f64;
            if pass.ops == 0 || own <= 0.0 {
                return Err(WorkError::NoWork);
            }
            Ok(own / pass.ops as f64)
        })
        .collect()
}

impl Estimate {
    /// The estimate of one side from its passes, each in instructions per operation.
    ///
    /// # Errors
    /// With fewer than [`LEAST_PASSES`] values, or a value that is not positive and finite.
    pub fn of(values: &[f64]) -> Result<Self, WorkError> {
        if values.len() < LEAST_PASSES {
            return Err(WorkError::TooFewPasses {
                passes: values.len(),
            });
        }
        if !values.iter().all(|value| value.is_finite() && *value > 0.0) {
            return Err(WorkError::NoWork);
        }
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        Ok(Self {
            instructions_per_op: mean.exp(),
            deviation: (squares / (count - 1.0)).sqrt(),
            passes: values.len(),
        })
    }
}

/// Compares side `b` with side `a`.
///
/// The plain version: the difference of the mean logarithms, with an interval from the spread of the passes by
/// Student's t distribution with a pooled deviation (NIST/SEMATECH e-Handbook, section 1.3.5.3). Order statistics,
/// which verdicts about time use, say nothing about three passes; counts have no heavy tails, so the t interval is
/// adequate here.
#[must_use]
pub fn compare(a: &Estimate, b: &Estimate, rules: &WorkRules) -> WorkComparison {
    let freedom = |side: &Estimate| side.passes as f64 - 1.0;
    let variance = |side: &Estimate| side.deviation.max(LEAST_DEVIATION).powi(2);
    let both = freedom(a) + freedom(b);
    let pooled = (freedom(a) * variance(a) + freedom(b) * variance(b)) / both;
    let error = (pooled * (1.0 / a.passes as f64 + 1.0 / b.passes as f64)).sqrt();
    let half = student::quantile(1.0 - ALPHA, both) * error;
    let difference = (b.instructions_per_op / a.instructions_per_op).ln();
    let (lo, hi) = ((difference - half).exp(), (difference + half).exp());
    WorkComparison {
        ratio: difference.exp(),
        lo,
        hi,
        verdict: verdict(lo, hi, rules),
    }
}

fn verdict(lo: f64, hi: f64, rules: &WorkRules) -> WorkVerdict {
    if lo > 1.0 {
        WorkVerdict::More
    } else if hi < 1.0 {
        WorkVerdict::Fewer
    } else if hi < 1.0 + rules.warning && lo > 1.0 / (1.0 + rules.warning) {
        WorkVerdict::Same
    } else {
        WorkVerdict::Inconclusive
    }
}

impl WorkComparison {
    /// Whether this is a warning under `rules`: more instructions for certain, and enough of them.
    #[must_use]
    pub fn is_warning(&self, rules: &WorkRules) -> bool {
        self.verdict == WorkVerdict::More && self.ratio >= 1.0 + rules.warning
    }

    /// Whether this is critical under `rules`: the lower bound exceeds the threshold.
    #[must_use]
    pub fn is_critical(&self, rules: &WorkRules) -> bool {
        self.lo >= 1.0 + rules.critical
    }

    /// The result in words: `8.3 % more instructions per GET [8.1, 8.5]`.
    #[must_use]
    pub fn sentence(&self, operation: &str) -> String {
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let (ratio, lo, hi) = (percent(self.ratio), percent(self.lo), percent(self.hi));
        match self.verdict {
            WorkVerdict::More => {
                format!("{ratio:.1} % more instructions per {operation} [{lo:.1}, {hi:.1}]")
            }
            WorkVerdict::Fewer => format!(
                "{:.1} % fewer instructions per {operation} [{:.1}, {:.1}]",
                -ratio, -hi, -lo
            ),
            WorkVerdict::Same => {
                format!("as many instructions per {operation} ({ratio:+.1} % [{lo:.1}, {hi:.1}])")
            }
            WorkVerdict::Inconclusive => format!(
                "inconclusive: {ratio:+.1} % instructions per {operation} [{lo:.1}, {hi:.1}]"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    fn pass(ops: u64, millis: u64, instructions: u64) -> Pass {
        Pass {
            ops,
            duration_ns: millis * 1_000_000,
            instructions,
            ..Pass::default()
        }
    }

    /// Passes of redis-server 7.0.15 under callgrind beside builds: 19,200 GETs at pipeline 16 each, and an idle
    /// pass. They vary by 1.8 % because of the timers, which take about a million instructions per second.
    const MEASURED: [(u64, u64); 4] = [
        (4_620, 73_115_530),
        (4_490, 72_580_369),
        (2_870, 70_514_567),
        (3_660, 71_643_527),
    ];

    #[test]
    fn the_background_is_subtracted_in_proportion_to_time() {
        let passes = MEASURED.map(|(millis, count)| pass(19_200, millis, count));
        let spread = |values: &[f64]| {
            let most = values.iter().copied().fold(f64::MIN, f64::max);
            let least = values.iter().copied().fold(f64::MAX, f64::min);
            most / least - 1.0
        };
        let raw = per_operation(&passes, None).unwrap();
        assert!(spread(&raw) > 0.03, "{raw:?}");
        let idle = pass(0, 1_000, 1_237_890);
        let corrected = per_operation(&passes, Some(&idle)).unwrap();
        assert!(spread(&corrected) < 0.01, "{corrected:?}");
    }

    #[test]
    fn passes_without_operations_or_of_background_alone_are_refused() {
        assert_eq!(
            per_operation(&[pass(0, 1, 5)], None),
            Err(WorkError::NoWork)
        );
        let idle = pass(0, 10, 1_000);
        assert_eq!(
            per_operation(&[pass(5, 10, 900)], Some(&idle)),
            Err(WorkError::NoWork)
        );
        assert_eq!(
            Estimate::of(&[1.0, 1.0]),
            Err(WorkError::TooFewPasses { passes: 2 })
        );
        assert_eq!(Estimate::of(&[1.0, 0.0, 1.0]), Err(WorkError::NoWork));
    }

    #[test]
    fn the_sentence_names_the_operation_and_the_interval() {
        let of = |values: [f64; 3]| Estimate::of(&values).unwrap();
        let rules = WorkRules::default();
        let a = of([3_600.0, 3_601.0, 3_599.0]);
        let b = of([3_899.0, 3_900.0, 3_898.0]);
        let more = compare(&a, &b, &rules);
        assert_eq!(
            more.sentence("GET"),
            "8.3 % more instructions per GET [8.1, 8.5]"
        );
        assert!(more.is_warning(&rules) && !more.is_critical(&rules));
        let fewer = compare(&b, &a, &rules);
        assert_eq!(
            fewer.sentence("GET"),
            "7.7 % fewer instructions per GET [7.5, 7.8]"
        );
        assert!(!fewer.is_warning(&rules));
        assert_eq!(
            compare(&a, &a, &rules).sentence("GET"),
            "as many instructions per GET (+0.0 % [-0.2, 0.2])"
        );
        let noisy = of([3_000.0, 3_600.0, 4_200.0]);
        assert_eq!(
            compare(&a, &noisy, &rules).verdict,
            WorkVerdict::Inconclusive
        );
        let twice = compare(&a, &of([7_200.0, 7_201.0, 7_199.0]), &rules);
        assert!(twice.is_critical(&rules));
    }

    /// Three passes per side with a deviation of 0.1 %: +1 % is found in at least 99 of 100, and two equal sides
    /// differ in at most 2 of 100 (one of 200 on each side).
    #[test]
    fn one_percent_is_found_and_equal_sides_are_not() {
        let mut random = StdRng::seed_from_u64(11);
        // Twelve uniform numbers make a normal one, nearly.
        let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        let mut side = |mean: f64| {
            let values: Vec<f64> = (0..3).map(|_| mean * (0.001 * normal()).exp()).collect();
            Estimate::of(&values).unwrap()
        };
        let rules = WorkRules::default();
        let (mut found, mut alarms) = (0, 0);
        for _ in 0..2_000 {
            let a = side(3_600.0);
            found += u32::from(compare(&a, &side(3_636.0), &rules).verdict == WorkVerdict::More);
            let none = compare(&a, &side(3_600.0), &rules);
            alarms += u32::from(none.lo > 1.0 || none.hi < 1.0);
        }
        assert!(found >= 1_980, "{found} of 2000");
        assert!(alarms <= 30, "{alarms} of 2000");
    }
}

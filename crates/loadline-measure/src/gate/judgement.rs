//! The result of a gate or a comparison.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::metric::Direction;
use crate::metric::Metric;
use crate::record::Bounds;
use crate::work::FunctionDifference;

/// The schema of a judgement in JSON.
pub const SCHEMA: &str = "loadline.judgement/1";

/// The result of a gate or a comparison, with reasons `R` and the evidence `E` of its rows: both in words in a record,
/// and typed as a [`Judged`](super::Judged).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement<R = String, E = String> {
    /// [`SCHEMA`].
    pub schema: String,
    /// The policy of the judgement.
    pub policy: Policy,
    /// Basis of the comparison.
    pub basis: Basis,
    /// The outcome.
    pub outcome: Outcome,
    /// The reasons, one sentence each; empty if nothing was found and nothing is missing.
    pub reasons: Vec<R>,
    /// The rows: one per case and metric, and one per limit.
    pub rows: Vec<Row<E>>,
    /// Notes for the reader, one sentence each.
    pub notes: Vec<R>,
    /// Whether a second run in new processes would confirm or clear the suspicion of the first one.
    pub second_run_needed: bool,
    /// Whether the comparison was refused because the work differs.
    pub refused: bool,
    /// Number of load generators that measured the candidate together; 0 for a single one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub agents: u64,
}

/// The policy of a judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// A warning from 5 % and critical from 20 %, if the interval lies beyond the margin.
    Strict,
    /// The thresholds stated in the file of numbers.
    Classic,
}

/// The basis of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Stored runs, normalised by the reference.
    Baseline,
    /// Another subject in the same rounds.
    Pairs,
    /// A record from another time.
    Records,
    /// A file of numbers.
    Numbers,
}

/// The outcome in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing got worse by a relevant amount.
    None,
    /// No conclusion is possible.
    Inconclusive,
    /// Something got worse.
    Warning,
    /// Something got much worse, or a limit is broken.
    Critical,
}

/// One metric of one case, or one limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row<E = String> {
    /// The name of the case.
    pub case: String,
    /// The metric.
    pub metric: Metric,
    /// The limit of this row, as written; `None` in a comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The measured value before, in the metric's own unit: the median over the runs of a baseline.
    pub baseline: Option<f64>,
    /// The measured value of the candidate, in the metric's own unit.
    pub candidate: Option<f64>,
    /// Candidate over baseline, from the compared (normalised or paired) values. It is not the quotient of
    /// the two values above.
    pub ratio: Option<f64>,
    /// The lower bound of the ratio, for the verdict.
    pub lo: Option<f64>,
    /// The upper bound of the ratio, for the verdict.
    pub hi: Option<f64>,
    /// The 95 % interval of the ratio, for readers; verdicts do not use it.
    pub interval_95: Option<Bounds>,
    /// The smallest change for the worse, as a share, that could be detected.
    pub minimum_detectable_effect: Option<f64>,
    /// The functions that account for a difference in work, the largest share first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionDifference>,
    /// The verdict.
    pub verdict: RowVerdict,
    /// The reason, which can be checked.
    pub evidence: E,
}

/// The verdict of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowVerdict {
    /// Much worse, or beyond a limit.
    Critical,
    /// Worse.
    Warning,
    /// Worse by more than the margin, but by less than a warning requires.
    Slower,
    /// Better by more than the margin.
    Faster,
    /// No worse by a relevant amount; for a limit: kept.
    Equivalent,
    /// No conclusion is possible.
    Inconclusive,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl<R, E> Judgement<R, E> {
    /// Whether the candidate should be measured again, in new processes, and judged with both runs: a
    /// suspicion counts only if the second run agrees.
    #[must_use]
    pub fn needs_second_run(&self) -> bool {
        self.second_run_needed
    }

    /// The exit code: 0, 1 for a warning, 2 for critical, and 3 if the two cannot be compared, or if the
    /// outcome is inconclusive and `strict` is set.
    #[must_use]
    pub fn exit_code(&self, strict: bool) -> u8 {
        match self.outcome {
            Outcome::None => 0,
            Outcome::Warning => 1,
            Outcome::Critical => 2,
            Outcome::Inconclusive => 3 * u8::from(strict || self.refused),
        }
    }
}

impl Outcome {
    /// The name in the last line of a report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Inconclusive => "inconclusive",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl Judgement {
    /// The judgement as JSON, with a line feed at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Unwritable`] if it contains a value that JSON cannot represent.
    pub fn to_json(&self) -> Result<String, Error> {
        let mut json = serde_json::to_string_pretty(self).map_err(Error::Unwritable)?;
        json.push('\n');
        Ok(json)
    }
}

impl<E: Default> Row<E> {
    /// Creates a row without results.
    pub(crate) fn unknown(case: &str, metric: Metric) -> Self {
        Self {
            case: case.to_owned(),
            metric,
            limit: None,
            baseline: None,
            candidate: None,
            ratio: None,
            lo: None,
            hi: None,
            interval_95: None,
            minimum_detectable_effect: None,
            functions: Vec::new(),
            verdict: RowVerdict::Inconclusive,
            evidence: E::default(),
        }
    }
}

impl<E> Row<E> {
    /// Whether anything changed, or can have changed.
    #[must_use]
    pub fn is_change(&self) -> bool {
        !matches!(
            self.verdict,
            RowVerdict::Equivalent | RowVerdict::Inconclusive
        )
    }
}

/// The bounds of a ratio from the bounds of its logarithm, where more is worse.
pub(super) fn ratio_bounds(direction: Direction, (lo, hi): (f64, f64)) -> Bounds {
    let (lo, hi) = match direction {
        Direction::LessIsBetter => (lo, hi),
        Direction::MoreIsBetter => (-hi, -lo),
    };
    Bounds {
        lo: exp(lo),
        hi: exp(hi),
    }
}

/// The exponential, limited to finite numbers because JSON has no others.
pub(super) fn exp(ln: f64) -> f64 {
    ln.clamp(-500.0, 500.0).exp()
}

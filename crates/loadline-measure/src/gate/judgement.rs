//! The result of a gate or a comparison.

use serde::{Deserialize, Serialize};

use super::reason::{Grounds, Judged, JudgedRow, Reason};
use crate::Error;
use crate::metric::Direction;
use crate::metric::Metric;
use crate::record::Bounds;
use crate::work::FunctionDifference;

/// The schema of a judgement in JSON.
pub const SCHEMA: &str = "loadline.judgement/1";

/// The result of a gate or a comparison, with reasons `R` and the evidence `E` of its rows: both in words in a record,
/// and typed as a [`Judged`].
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

impl Judged {
    /// Creates a judgement of these rows, with the outcome that follows from them.
    ///
    /// The outcome is the most severe verdict of a row. Without a severe one, it is inconclusive if a limit
    /// or a whole case could not be judged; one judged metric is enough for a case.
    pub(super) fn new(policy: Policy, basis: Basis, rows: Vec<JudgedRow>) -> Self {
        let mut reasons: Vec<Reason> = Vec::new();
        for grave in [RowVerdict::Critical, RowVerdict::Warning] {
            let rows = rows.iter().filter(|row| row.verdict == grave);
            reasons.extend(rows.cloned().map(Reason::of));
        }
        let mut outcome = if rows.iter().any(|row| row.verdict == RowVerdict::Critical) {
            Outcome::Critical
        } else if reasons.is_empty() {
            Outcome::None
        } else {
            Outcome::Warning
        };
        let untold = untold(&rows);
        if outcome == Outcome::None && !untold.is_empty() {
            outcome = Outcome::Inconclusive;
            reasons = untold;
        }
        Self {
            schema: SCHEMA.to_owned(),
            policy,
            basis,
            outcome,
            reasons,
            rows,
            notes: Vec::new(),
            second_run_needed: false,
            refused: false,
        }
    }

    /// Creates a refused judgement with these reasons.
    pub(super) fn refused(policy: Policy, basis: Basis, reasons: Vec<Reason>) -> Self {
        Self {
            outcome: Outcome::Inconclusive,
            reasons,
            refused: true,
            ..Self::new(policy, basis, Vec::new())
        }
    }

    /// Adds the rows of limits.
    pub fn keep(&mut self, limits: Vec<JudgedRow>) {
        let whole = Self::new(self.policy, self.basis, limits);
        if self.outcome == Outcome::Inconclusive && whole.outcome > self.outcome {
            self.notes.append(&mut self.reasons);
        }
        self.outcome = self.outcome.max(whole.outcome);
        self.reasons.extend(whole.reasons);
        self.rows.extend(whole.rows);
    }

    /// Makes the outcome inconclusive with a reason, unless it is already severe.
    pub(super) fn doubt(&mut self, reason: Reason) {
        if self.outcome == Outcome::None {
            self.outcome = Outcome::Inconclusive;
            self.reasons.clear();
        }
        if self.outcome == Outcome::Inconclusive {
            self.reasons.insert(0, reason);
        } else {
            self.notes.push(reason);
        }
    }
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

impl JudgedRow {
    /// This row with that evidence and no verdict.
    pub(crate) fn because(self, evidence: Grounds) -> Self {
        Self { evidence, ..self }
    }
}

impl Reason {
    pub(super) fn of(row: JudgedRow) -> Self {
        Self::Row(Box::new(row))
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

/// Everything that could not be judged: limits, and cases without a conclusive metric.
fn untold(rows: &[JudgedRow]) -> Vec<Reason> {
    let mut untold: Vec<Reason> = Vec::new();
    let is_untold = |row: &&JudgedRow| row.verdict == RowVerdict::Inconclusive;
    let limits = rows.iter().filter(|row| row.limit.is_some());
    untold.extend(limits.filter(is_untold).cloned().map(Reason::of));
    // Work says nothing about time, so a case can have a conclusive count and inconclusive times.
    let is_time = |row: &&JudgedRow| row.limit.is_none() && !row.metric.is_work();
    let compared: Vec<&JudgedRow> = rows.iter().filter(is_time).collect();
    let mut cases: Vec<&str> = compared.iter().map(|row| row.case.as_str()).collect();
    cases.sort_unstable();
    cases.dedup();
    for case in cases {
        let of_case: Vec<&&JudgedRow> = compared.iter().filter(|row| row.case == case).collect();
        if of_case.iter().all(|row| is_untold(row)) {
            untold.push(Reason::NoTime(case.to_owned()));
        }
    }
    untold
}

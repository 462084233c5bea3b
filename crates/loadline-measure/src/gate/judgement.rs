//! What a judgement holds.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::compare::Direction;
use crate::metric::Metric;
use crate::record::Bounds;
use crate::work::FunctionDifference;

/// The schema of a judgement in JSON.
pub const SCHEMA: &str = "loadline.judgement/1";

/// The answer of a gate or a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// [`SCHEMA`].
    pub schema: String,
    /// What it is judged by.
    pub policy: Policy,
    /// What the candidate was held against.
    pub basis: Basis,
    /// The answer.
    pub outcome: Outcome,
    /// Why, one sentence each; empty where nothing was found and nothing was missing.
    pub reasons: Vec<String>,
    /// What was judged: one row per case and metric, and one per limit.
    pub rows: Vec<Row>,
    /// What else must be known to read it, one sentence each.
    pub notes: Vec<String>,
    /// Whether a second run in fresh processes would settle what the first one raised.
    pub second_run_needed: bool,
    /// Whether nothing was compared because the two are not of the same work.
    pub refused: bool,
}

/// What a judgement goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// A warning from 5 % on and critical from 20 % on, where the interval lies beyond the margin.
    Strict,
    /// The thresholds that the file of numbers states itself.
    Classic,
}

/// What a candidate was held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Stored runs, normalised by the reference.
    Baseline,
    /// Another subject in the same rounds.
    Pairs,
    /// A record of another time.
    Records,
    /// A file of numbers.
    Numbers,
}

/// The answer in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing got worse by as much as would matter.
    None,
    /// It cannot be told.
    Inconclusive,
    /// Something got worse.
    Warning,
    /// Something got much worse, or a limit is broken.
    Critical,
}

/// One metric of one case, or one limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The name of the case.
    pub case: String,
    /// The metric.
    pub metric: Metric,
    /// The limit that the row is of, as it was written; `None` where it compares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The metric before, as measured, in its own unit: the median over the runs of a baseline.
    pub baseline: Option<f64>,
    /// The metric of the candidate, as measured, in its own unit.
    pub candidate: Option<f64>,
    /// Candidate over baseline, from what was compared (normalised or paired values), which is not
    /// the quotient of the two figures above.
    pub ratio: Option<f64>,
    /// The lower bound of the ratio that the verdict goes by.
    pub lo: Option<f64>,
    /// The upper bound of the ratio that the verdict goes by.
    pub hi: Option<f64>,
    /// The 95 % interval of the ratio, to be read by people; no verdict goes by it.
    pub interval_95: Option<Bounds>,
    /// The smallest change for the worse, as a share, that would have shown.
    pub minimum_detectable_effect: Option<f64>,
    /// The functions that account for a difference in work, the largest share first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionDifference>,
    /// What may be said.
    pub verdict: RowVerdict,
    /// The reason in words that a person can check.
    pub evidence: String,
}

/// What may be said of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowVerdict {
    /// Much worse, or beyond a limit.
    Critical,
    /// Worse.
    Warning,
    /// Worse by more than the margin, but by less than what a warning needs.
    Slower,
    /// Better by more than the margin.
    Faster,
    /// No worse by as much as would matter; of a limit: kept.
    Equivalent,
    /// It cannot be told.
    Inconclusive,
}

impl Judgement {
    /// A judgement of these rows, with the outcome that follows from them.
    ///
    /// It is the gravest verdict of a row. Where none is grave, it is inconclusive if a limit or a
    /// whole case could not be judged: a case tells something if one of its metrics does.
    pub(super) fn new(policy: Policy, basis: Basis, rows: Vec<Row>) -> Self {
        let mut reasons: Vec<String> = Vec::new();
        for grave in [RowVerdict::Critical, RowVerdict::Warning] {
            let rows = rows.iter().filter(|row| row.verdict == grave);
            reasons.extend(rows.map(Row::sentence));
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

    /// A judgement that is refused: nothing can be told, for these reasons.
    pub(super) fn refused(policy: Policy, basis: Basis, reasons: Vec<String>) -> Self {
        Self {
            outcome: Outcome::Inconclusive,
            reasons,
            refused: true,
            ..Self::new(policy, basis, Vec::new())
        }
    }

    /// Takes in the rows of limits that must hold beside what was compared.
    pub fn keep(&mut self, limits: Vec<Row>) {
        let whole = Self::new(self.policy, self.basis, limits);
        if self.outcome == Outcome::Inconclusive && whole.outcome > self.outcome {
            self.notes.append(&mut self.reasons);
        }
        self.outcome = self.outcome.max(whole.outcome);
        self.reasons.extend(whole.reasons);
        self.rows.extend(whole.rows);
    }

    /// Makes the outcome inconclusive for a reason, unless it is grave already.
    pub(super) fn doubt(&mut self, reason: String) {
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

    /// Whether the candidate should be measured once more, in fresh processes, and judged again with
    /// both runs: the first one raised what counts only if the second agrees.
    #[must_use]
    pub fn needs_second_run(&self) -> bool {
        self.second_run_needed
    }

    /// The judgement as JSON for people and machines, with a line feed at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Unwritable`] where it holds what JSON cannot carry.
    pub fn to_json(&self) -> Result<String, Error> {
        let mut json = serde_json::to_string_pretty(self).map_err(Error::Unwritable)?;
        json.push('\n');
        Ok(json)
    }

    /// The exit code of the contract: 0, 1 for a warning, 2 for critical, and 3 where the two cannot
    /// be compared, or where the outcome is inconclusive and `strict` makes that a failure.
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
    /// Its name in the last line of a report.
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

impl Row {
    /// A row of which nothing is known yet.
    pub(super) fn unknown(case: &str, metric: Metric) -> Self {
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
            evidence: String::new(),
        }
    }

    /// Case, metric and evidence in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!("{}, {}: {}.", self.case, self.metric.name(), self.evidence)
    }

    /// Whether anything changed, or may have.
    #[must_use]
    pub fn is_change(&self) -> bool {
        !matches!(
            self.verdict,
            RowVerdict::Equivalent | RowVerdict::Inconclusive
        )
    }
}

/// The bounds of a ratio whose logarithm, counted so that more is worse, has these bounds.
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

/// The exponential, within what JSON can carry.
pub(super) fn exp(ln: f64) -> f64 {
    ln.clamp(-500.0, 500.0).exp()
}

/// What could not be judged: limits, and cases of which no metric tells anything.
fn untold(rows: &[Row]) -> Vec<String> {
    let mut untold: Vec<String> = Vec::new();
    let is_untold = |row: &&Row| row.verdict == RowVerdict::Inconclusive;
    let limits = rows.iter().filter(|row| row.limit.is_some());
    untold.extend(limits.filter(is_untold).map(Row::sentence));
    // Work tells nothing about time, so a case with a count alone still has times that tell nothing.
    let is_time = |row: &&Row| row.limit.is_none() && row.metric != Metric::ServerInstructions;
    let compared: Vec<&Row> = rows.iter().filter(is_time).collect();
    let mut cases: Vec<&str> = compared.iter().map(|row| row.case.as_str()).collect();
    cases.sort_unstable();
    cases.dedup();
    for case in cases {
        let of_case: Vec<&&Row> = compared.iter().filter(|row| row.case == case).collect();
        if of_case.iter().all(|row| is_untold(row)) {
            untold.push(format!("{case}: none of its metrics tells."));
        }
    }
    untold
}

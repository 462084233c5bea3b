//! Comparisons of two subjects that were measured in the same rounds.

use super::judgement::{Basis, Policy, Row, RowVerdict};
use super::reason::{Grounds, Judged, JudgedRow, Reason, Remark};
use super::strict::Thresholds;
use super::work;
use crate::compare::{Paired, Rules, holm, paired};
use crate::metric::Direction;
use crate::metric::Metric;
use crate::record::{Case, Comparison, Record, Verdict, shortened};

#[cfg(test)]
mod tests;

impl Judged {
    /// Judges the comparisons of a record, the second case of each against the first.
    ///
    /// Worse is a warning if the lower bound exceeds the margin of 2 % and the estimate is at least 5 %, and
    /// critical if the lower bound exceeds 20 %; smaller differences are shown without an alarm. All
    /// comparisons of the record form one family (Holm), because among many comparisons some differ by
    /// chance.
    /// would look like a difference by chance.
    #[must_use]
    pub fn of_comparisons(record: &Record, thresholds: &Thresholds) -> Self {
        let (mut notes, mut unpublished) = (Vec::new(), Vec::new());
        let mut contests: Vec<Contest> = Vec::new();
        for comparison in &record.comparisons {
            match Contest::of(record, comparison) {
                Ok(contest) if contest.is_published => contests.push(contest),
                Ok(contest) => unpublished.push(contest.unpublished()),
                Err(note) => notes.push(note),
            }
        }
        let p_values: Vec<f64> = contests.iter().map(|one| one.paired.p_value()).collect();
        let rows = contests.into_iter().zip(holm(&p_values));
        let rows = rows.map(|(contest, p_value)| contest.row(p_value, thresholds));
        let name = |index: usize| name_of(record, &record.cases[index]);
        let (works, counted) = work::of_pairs(record, &thresholds.work, name);
        let rows = rows.chain(unpublished).chain(works).collect();
        let mut judgement = Self::new(Policy::Strict, Basis::Pairs, rows);
        let disagreements = work::disagreements(&judgement.rows);
        judgement.notes.extend(disagreements);
        judgement.notes.extend(counted);
        let not_counted = record.not_counted.iter().cloned();
        judgement.notes.extend(not_counted.map(Reason::Stated));
        for note in notes {
            judgement.doubt(note);
        }
        if judgement.rows.is_empty() {
            judgement.doubt(Reason::Remark(Remark::NoComparison));
        }
        if record.run.cut_short {
            judgement.doubt(Reason::Remark(Remark::CutShort));
        }
        judgement
    }
}

/// Two cases compared by one metric, over their rounds.
struct Contest {
    case: String,
    metric: Metric,
    values: [Option<f64>; 2],
    paired: Paired,
    /// Whether both sides have enough operations for the metric.
    is_published: bool,
}

impl Contest {
    /// Creates the comparison, or returns why it cannot be judged.
    fn of(record: &Record, comparison: &Comparison) -> Result<Self, Reason> {
        let unknown = || Reason::UnknownComparison(shortened(&comparison.metric));
        let case = |index: usize| record.cases.get(index).ok_or_else(unknown);
        let (a, b) = (case(comparison.a)?, case(comparison.b)?);
        let metric = Metric::from_key(&comparison.metric).ok_or_else(unknown)?;
        let name = name_of(record, b);
        let missing = || Reason::FewRounds(shortened(&name), metric);
        let (one, other) = metric.of_pairs(a, b).ok_or_else(missing)?;
        let direction = metric.direction();
        let paired = paired(&one, &other, direction, &Rules::default())
            .map_err(|error| Reason::Stated(error.to_string()))?;
        Ok(Self {
            case: name,
            metric,
            values: [metric.of_case(a), metric.of_case(b)],
            paired,
            is_published: metric.is_published(a, b),
        })
    }

    /// The row of a percentile that too few operations were measured for.
    fn unpublished(self) -> JudgedRow {
        let [baseline, candidate] = self.values;
        Row {
            baseline,
            candidate,
            evidence: Grounds::FewOperations,
            ..Row::unknown(&self.case, self.metric)
        }
    }

    fn row(self, p_value: f64, thresholds: &Thresholds) -> JudgedRow {
        let paired = &self.paired;
        let claims = matches!(paired.verdict, Verdict::Slower | Verdict::Faster);
        let by_chance = claims && p_value > Rules::default().alpha;
        let verdict = if by_chance {
            RowVerdict::Inconclusive
        } else {
            verdict(paired, self.metric.direction(), thresholds)
        };
        let [baseline, candidate] = self.values;
        Row {
            baseline,
            candidate,
            ratio: Some(bounded(paired.ratio)),
            lo: paired.interval.map(|(lo, _)| bounded(lo)),
            hi: paired.interval.map(|(_, hi)| bounded(hi)),
            minimum_detectable_effect: paired.minimum_detectable_effect.map(bounded),
            verdict,
            evidence: Grounds::Pair {
                paired: self.paired,
                by_chance,
            },
            ..Row::unknown(&self.case, self.metric)
        }
    }
}

/// Limits a ratio to finite numbers; a record can contain any values.
fn bounded(ratio: f64) -> f64 {
    ratio.clamp(f64::MIN_POSITIVE, f64::MAX)
}

/// The verdict of a comparison that is significant in its family.
pub(super) fn verdict(
    paired: &Paired,
    direction: Direction,
    thresholds: &Thresholds,
) -> RowVerdict {
    match paired.verdict {
        Verdict::Faster => RowVerdict::Faster,
        Verdict::Equivalent => RowVerdict::Equivalent,
        Verdict::Inconclusive => RowVerdict::Inconclusive,
        Verdict::Slower => {
            let worse = |ratio: f64| direction.worsening(ratio.ln());
            let lower = paired.interval.map_or(0.0, |(lo, hi)| match direction {
                Direction::LessIsBetter => worse(lo),
                Direction::MoreIsBetter => worse(hi),
            });
            if lower > thresholds.critical.ln_1p() {
                RowVerdict::Critical
            } else if worse(paired.ratio) >= thresholds.warning.ln_1p() {
                RowVerdict::Warning
            } else {
                RowVerdict::Slower
            }
        }
    }
}

/// The name of a case, with its subject if the record has more than two.
fn name_of(record: &Record, case: &Case) -> String {
    let of_scenario = record
        .cases
        .iter()
        .filter(|other| other.scenario == case.scenario);
    if of_scenario.count() > 2 {
        format!("{} of {}", case.name(), case.subject.name)
    } else {
        case.name()
    }
}

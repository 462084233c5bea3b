//! Compares a run with a baseline.
//!
//! With `x` the logarithm of the run after the explained part of the reference is removed (see
//! [`super::baseline`] and `gate::control`), where more is worse, and `m`, `s` the mean and standard
//! deviation of the `K` runs of the baseline, the run is worse if `x - m - t(1 - alpha, K - 1) * max(s, 0.5
//! %) * sqrt(1 + 1/K + h)` exceeds the margin of 2 %: the lower bound of a prediction interval, with `h` for
//! a reference unlike those of the baseline. That is only a suspicion. A second run in new processes must be
//! worse by the same rule, and the smaller of both changes must be significant among all metrics of all cases
//! (Holm); only then is it an alarm. `s` is estimated from the runs of the case and, in a suite, from those
//! of all cases (`gate/pooled.rs`); `t` has the corresponding degrees of freedom.

use std::collections::BTreeSet;

use self::contest::{Among, adjusted, contests};
use super::baseline::{Baseline, BaselineRun};
use super::candidate::Candidate;
use super::fingerprint;
use super::judgement::{Basis, Policy, Row, RowVerdict};
use super::limits;
use super::reason::{Gap, Grounds, Judged, JudgedRow, Reason, Remark};
use crate::metric::Metric;
use crate::record::shortened;
use crate::work::WorkRules;

mod contest;

pub use self::contest::deviation_between_runs;
#[cfg(test)]
mod tests;

/// The metrics that runs are compared by. Others would count the same change twice (in a closed loop the mean
/// response time follows from the throughput). CPU time per operation depends on how other programs use
/// caches and clock speed, which an echo does not show: on a busier machine it would raise alarms about an
/// unchanged server. All metrics can have limits, and comparisons in pairs use CPU time, too.
pub const COMPARED: [Metric; 4] = [
    Metric::Throughput,
    Metric::P50,
    Metric::P99,
    Metric::CorrectedP99,
];

/// The thresholds, all but `least_runs` as shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// Differences up to this are ignored.
    pub margin: f64,
    /// Warn if the estimated regression is at least this; differences certainly below it are irrelevant.
    pub warning: f64,
    /// Critical if the lower bound is at least this.
    pub critical: f64,
    /// The error probability of each bound.
    pub alpha: f64,
    /// The error probability of all alarms of a judgement together: the reciprocal of the runs per false
    /// alarm.
    pub family_alpha: f64,
    /// The smallest accepted standard deviation between runs.
    pub deviation_floor: f64,
    /// The fewest runs of a baseline that can raise an alarm.
    pub least_runs: usize,
    /// The thresholds of verdicts about work, separate from those about time.
    pub work: WorkRules,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            margin: 0.02,
            warning: 0.05,
            critical: 0.20,
            alpha: 0.01,
            family_alpha: 0.001,
            deviation_floor: 0.005,
            least_runs: 8,
            work: WorkRules::default(),
        }
    }
}

/// Judges a candidate against a baseline and its limits, with the default thresholds.
#[must_use]
pub fn judge(baseline: &Baseline, candidate: &Candidate<'_>) -> Judged {
    judge_by(baseline, candidate, &Thresholds::default())
}

/// Like [`judge`], with other thresholds.
#[must_use]
pub fn judge_by(baseline: &Baseline, candidate: &Candidate<'_>, thresholds: &Thresholds) -> Judged {
    if baseline.workload_hash != candidate.workload_hash {
        let (was, is) = (&baseline.workload_hash, candidate.workload_hash);
        let reason = Reason::OtherWork(shortened(was), shortened(is));
        return Judged::refused(Policy::Strict, Basis::Baseline, vec![reason]);
    }
    let differences = fingerprint::differences(&baseline.environment, candidate.environment);
    let (place, content): (Vec<_>, Vec<_>) = differences
        .into_iter()
        .partition(|difference| difference.is_of_place);
    let contests = contests(baseline, candidate, thresholds);
    let suspected = place.is_empty()
        && contests
            .iter()
            .any(|contest| contest.needs_second(thresholds));
    let mut among = Among::new(contests.len(), thresholds);
    let mut rows: Vec<JudgedRow> = contests
        .iter()
        .zip(adjusted(&contests, thresholds))
        .map(|(contest, p_value)| contest.row(p_value, &mut among, thresholds))
        .collect();
    rows.extend(missing(baseline, candidate));
    rows.sort_by(|one, other| one.case.cmp(&other.case));
    if !place.is_empty() {
        rows.iter_mut().for_each(downgrade);
    }
    rows.extend(super::work::of_baseline(
        baseline,
        candidate,
        &thresholds.work,
    ));
    let limits = limits::of_run(candidate.first, candidate.second, &baseline.limits);
    let broken = limits.iter().any(|row| row.verdict == RowVerdict::Critical);
    rows.extend(limits);
    let mut judgement = Judged::new(Policy::Strict, Basis::Baseline, rows);
    judgement.second_run_needed = candidate.second.is_none() && (suspected || broken);
    if suspected {
        judgement.doubt(Reason::Remark(Remark::OneRun));
    }
    if !place.is_empty() {
        judgement.doubt(Reason::OtherMachine(place));
    }
    doubt_runs(&mut judgement, baseline, thresholds);
    doubt_cases(&mut judgement, baseline, candidate);
    judgement
        .notes
        .extend(super::work::disagreements(&judgement.rows));
    judgement
        .notes
        .extend(content.into_iter().map(Reason::Differs));
    let unknown = fingerprint::unknown(&baseline.environment, candidate.environment);
    let unknown = unknown.into_iter().map(Reason::UnknownProperty);
    judgement.notes.extend(unknown);
    judgement
}

/// Rows for what the baseline has and the candidate lacks, so that they are not overlooked.
fn missing(baseline: &Baseline, candidate: &Candidate<'_>) -> Vec<JudgedRow> {
    let mut rows = Vec::new();
    for (case, measured) in &candidate.first.cases {
        for metric in COMPARED {
            let log = |run: &BaselineRun| run.cases.get(case)?.metrics.get(&metric)?.normalised_ln;
            let has = measured
                .metrics
                .get(&metric)
                .and_then(|one| one.normalised_ln);
            if has.is_none() && baseline.runs.iter().any(|run| log(run).is_some()) {
                rows.push(Row::unknown(case, metric).because(Grounds::Gap(Gap::NotInEveryRound)));
            }
        }
    }
    rows
}

/// Withdraws a row's verdict because it was measured on another machine.
fn downgrade(row: &mut JudgedRow) {
    row.verdict = RowVerdict::Inconclusive;
    row.evidence = Grounds::Gap(Gap::OtherMachineThanBaseline);
}

fn doubt_runs(judgement: &mut Judged, baseline: &Baseline, thresholds: &Thresholds) {
    let (runs, least) = (baseline.runs.len(), thresholds.least_runs);
    if runs < least {
        judgement.doubt(Reason::FewRuns { runs, least });
    }
}

/// Reports cases that only one side has; they cannot be compared and must not be overlooked.
fn doubt_cases(judgement: &mut Judged, baseline: &Baseline, candidate: &Candidate<'_>) {
    let Some(run) = baseline.runs.last() else {
        return;
    };
    let held: BTreeSet<&String> = run.cases.keys().collect();
    let measured: BTreeSet<&String> = candidate.first.cases.keys().collect();
    for case in held.difference(&measured) {
        judgement.doubt(Reason::NotMeasured((*case).clone()));
    }
    for case in measured.difference(&held) {
        judgement.doubt(Reason::NotInBaseline((*case).clone()));
    }
}

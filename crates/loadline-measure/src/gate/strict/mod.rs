//! A run against a baseline.
//!
//! With `x` the logarithm of the run without what the reference explains (see [`super::baseline`] and
//! `gate::control`), counted so that more is worse, and `m`, `s` mean and standard deviation of the
//! `K` runs of the baseline, the run is worse if
//! `x - m - t(1 - alpha, K - 1) * max(s, 0.5 %) * sqrt(1 + 1/K + h)` lies above the margin of 2 %: the
//! lower bound of a prediction interval, with `h` for a reference unlike those of the baseline. That raises a suspicion and no more. A second run in fresh
//! processes must be worse by the same rule, and that both are worse by as much as the lesser of them
//! must stand once it is counted how many metrics of how many cases were looked at (Holm); only then
//! is it an alarm. What `s` is follows from the runs of the case and, in a suite, from those of all
//! cases (`gate/pooled.rs`); `t` has the degrees of freedom that go with it.

use std::collections::BTreeSet;

use self::contest::{Among, adjusted, contests};
use super::baseline::{Baseline, BaselineRun};
use super::fingerprint;
use super::judgement::{Basis, Judgement, Policy, Row, RowVerdict};
use super::limits;
use crate::metric::Metric;
use crate::record::Environment;
use crate::work::WorkRules;

mod contest;

pub use self::contest::deviation_between_runs;
#[cfg(test)]
mod tests;

/// The metrics that runs are compared by. Others would count the same thing twice (a mean response
/// time follows from the throughput of a closed loop), and CPU time per operation moves with what
/// neighbours do to caches and clock speed, of which an echo feels nothing: on a machine that is
/// busier than on the day of the baseline it would raise alarms about a server that has not changed.
/// All of them can be limited, and pairs that are measured together compare CPU time, too.
pub const COMPARED: [Metric; 4] = [
    Metric::Throughput,
    Metric::P50,
    Metric::P99,
    Metric::CorrectedP99,
];

/// What is judged: one run, or two of the same.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The run.
    pub first: &'a BaselineRun,
    /// The run in fresh processes that was made because [`Judgement::needs_second_run`] asked for it.
    pub second: Option<&'a BaselineRun>,
    /// Where they were made.
    pub environment: &'a Environment,
    /// What work they did.
    pub workload_hash: &'a str,
}

/// From where on a difference is one, all but `least_runs` as shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// A difference up to this is none.
    pub margin: f64,
    /// The least estimate of a warning; a difference that is surely below this does not matter.
    pub warning: f64,
    /// The least lower bound of what is critical.
    pub critical: f64,
    /// The error probability of each bound.
    pub alpha: f64,
    /// The error probability of all alarms of a judgement together: the reciprocal of the runs per false alarm.
    pub family_alpha: f64,
    /// The least standard deviation between runs that is believed.
    pub deviation_floor: f64,
    /// Runs that a baseline needs to raise an alarm.
    pub least_runs: usize,
    /// The thresholds of verdicts about work, which are apart from those about time.
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

/// Judges a candidate against a baseline and the limits that it holds, by the default thresholds.
#[must_use]
pub fn judge(baseline: &Baseline, candidate: &Candidate<'_>) -> Judgement {
    judge_by(baseline, candidate, &Thresholds::default())
}

/// [`judge`] by other thresholds.
#[must_use]
pub fn judge_by(
    baseline: &Baseline,
    candidate: &Candidate<'_>,
    thresholds: &Thresholds,
) -> Judgement {
    if baseline.workload_hash != candidate.workload_hash {
        let reason = fingerprint::other_work(&baseline.workload_hash, candidate.workload_hash);
        return Judgement::refused(Policy::Strict, Basis::Baseline, vec![reason]);
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
    let mut rows: Vec<Row> = contests
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
    let mut judgement = Judgement::new(Policy::Strict, Basis::Baseline, rows);
    judgement.second_run_needed = candidate.second.is_none() && (suspected || broken);
    if suspected {
        judgement.doubt(
            "One run alone raises no alarm: measure once more, in fresh processes.".to_owned(),
        );
    }
    doubt_place(&mut judgement, &place);
    doubt_runs(&mut judgement, baseline, thresholds);
    doubt_cases(&mut judgement, baseline, candidate);
    judgement
        .notes
        .extend(super::work::disagreements(&judgement.rows));
    judgement
        .notes
        .extend(content.iter().map(|one| one.sentence()));
    for what in fingerprint::unknown(&baseline.environment, candidate.environment) {
        let note = format!("The {what} is not known, so another machine would not be noticed.");
        judgement.notes.push(note);
    }
    judgement
}

/// What the baseline holds of a case and the candidate does not, so that it is not passed over.
fn missing(baseline: &Baseline, candidate: &Candidate<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (case, measured) in &candidate.first.cases {
        for metric in COMPARED {
            let log = |run: &BaselineRun| run.cases.get(case)?.metrics.get(&metric)?.normalised_ln;
            let has = measured
                .metrics
                .get(&metric)
                .and_then(|one| one.normalised_ln);
            if has.is_none() && baseline.runs.iter().any(|run| log(run).is_some()) {
                rows.push(Row {
                    evidence: "the baseline holds it, but it was not measured in every round now"
                        .to_owned(),
                    ..Row::unknown(case, metric)
                });
            }
        }
    }
    rows
}

/// Takes back what a row claims, because it was measured in another place.
fn downgrade(row: &mut Row) {
    row.verdict = RowVerdict::Inconclusive;
    row.evidence = "the place is not that of the baseline, so nothing is claimed".to_owned();
}

fn doubt_place(judgement: &mut Judgement, place: &[fingerprint::Difference]) {
    if place.is_empty() {
        return;
    }
    let sentences: Vec<String> = place.iter().map(|one| one.sentence()).collect();
    judgement.doubt(format!(
        "{} Times of different places do not compare: only limits, and pairs measured together, can fail.",
        sentences.join(" ")
    ));
}

fn doubt_runs(judgement: &mut Judgement, baseline: &Baseline, thresholds: &Thresholds) {
    let (runs, least) = (baseline.runs.len(), thresholds.least_runs);
    if runs < least {
        judgement.doubt(format!(
            "The baseline holds {runs} of the {least} runs that it needs to raise an alarm: add {} more. Until then only limits can fail.",
            least - runs
        ));
    }
}

/// Cases that only one side has are nothing that could be compared, and must not pass unseen.
fn doubt_cases(judgement: &mut Judgement, baseline: &Baseline, candidate: &Candidate<'_>) {
    let Some(run) = baseline.runs.last() else {
        return;
    };
    let held: BTreeSet<&String> = run.cases.keys().collect();
    let measured: BTreeSet<&String> = candidate.first.cases.keys().collect();
    for case in held.difference(&measured) {
        judgement.doubt(format!("The case {case} of the baseline was not measured."));
    }
    for case in measured.difference(&held) {
        judgement.doubt(format!("The case {case} is not in the baseline."));
    }
}

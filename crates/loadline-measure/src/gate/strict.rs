//! A run against a baseline.
//!
//! With `x` the normalised logarithm of the run (see [`super::baseline`]), counted so that more is
//! worse, and `m`, `s` mean and standard deviation of the `K` runs of the baseline, the run is worse
//! if `x - m - t(1 - alpha, K - 1) * max(s, 0.5 %) * sqrt(1 + 1/K)` lies above the margin of 2 %: the
//! lower bound of a prediction interval. That raises a suspicion and no more. A second run in fresh
//! processes must be worse by the same rule, and the mean of both must stand once it is counted how
//! many metrics of how many cases were looked at (Holm); only then is it an alarm.

use std::collections::BTreeSet;

use super::baseline::{Baseline, BaselineRun, Measured};
use super::fingerprint;
use super::judgement::{Basis, Judgement, Policy, Row, RowVerdict, exp, ratio_bounds};
use super::limits;
use super::spread::Spread;
use crate::compare::holm;
use crate::metric::Metric;
use crate::record::Environment;

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
    /// The error probability of all alarms of a judgement together: one false alarm in so many runs.
    pub family_alpha: f64,
    /// The least standard deviation between runs that is believed.
    pub deviation_floor: f64,
    /// Runs that a baseline needs to raise an alarm.
    pub least_runs: usize,
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
    let mut unconfirmed = contests.iter().filter(|contest| contest.worse.len() == 1);
    let suspected = place.is_empty() && unconfirmed.any(|contest| contest.suspects(thresholds));
    let adjusted = adjusted(&contests, thresholds);
    let rows = contests.iter().zip(adjusted);
    let mut rows: Vec<Row> = rows
        .map(|(contest, p_value)| contest.row(p_value, contests.len(), thresholds))
        .collect();
    rows.extend(missing(baseline, candidate));
    rows.sort_by(|one, other| one.case.cmp(&other.case));
    if !place.is_empty() {
        rows.iter_mut().for_each(downgrade);
    }
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
        .extend(content.iter().map(|one| one.sentence()));
    for what in fingerprint::unknown(&baseline.environment, candidate.environment) {
        let note = format!("The {what} is not known, so another machine would not be noticed.");
        judgement.notes.push(note);
    }
    judgement
}

/// One metric of one case: what the baseline holds and what the candidate has.
struct Contest<'a> {
    case: &'a str,
    metric: Metric,
    raw_before: Option<f64>,
    raw: f64,
    runs: usize,
    spread: Option<Spread>,
    /// How much worse each run of the candidate is than the mean of the baseline, as logarithms.
    worse: Vec<f64>,
}

fn contests<'a>(
    baseline: &Baseline,
    candidate: &Candidate<'a>,
    thresholds: &Thresholds,
) -> Vec<Contest<'a>> {
    let mut contests = Vec::new();
    for (case, measured) in &candidate.first.cases {
        for metric in COMPARED {
            let Some(first) = measured.metrics.get(&metric) else {
                continue;
            };
            let Some(x) = first.normalised_ln else {
                continue;
            };
            let held: Vec<&Measured> = baseline
                .runs
                .iter()
                .filter_map(|run| run.cases.get(case)?.metrics.get(&metric))
                .collect();
            let logs: Vec<f64> = held.iter().filter_map(|one| one.normalised_ln).collect();
            let spread = Spread::of(&logs, thresholds.deviation_floor);
            let second = candidate
                .second
                .and_then(|run| run.cases.get(case)?.metrics.get(&metric)?.normalised_ln);
            let mean = spread.map_or(x, |spread| spread.mean);
            let runs = std::iter::once(x).chain(second);
            contests.push(Contest {
                case,
                metric,
                raw_before: limits::median_raw(held.iter().copied()),
                raw: first.raw,
                runs: logs.len(),
                spread,
                worse: runs
                    .map(|x| metric.direction().worsening(x - mean))
                    .collect(),
            });
        }
    }
    contests
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

/// Holm's p-values of all that could be judged, in their order; 1 for the others.
fn adjusted(contests: &[Contest<'_>], thresholds: &Thresholds) -> Vec<f64> {
    let judged: Vec<Option<f64>> = contests
        .iter()
        .map(|contest| {
            let spread = contest.judged_by(thresholds)?;
            let (worse, margin) = (contest.estimate(), thresholds.margin.ln_1p());
            Some(spread.p_value(worse, margin, contest.worse.len()))
        })
        .collect();
    let family: Vec<f64> = judged.iter().copied().flatten().collect();
    let mut family = holm(&family).into_iter();
    judged
        .iter()
        .map(|p_value| p_value.and_then(|_| family.next()).unwrap_or(1.0))
        .collect()
}

impl Contest<'_> {
    /// The spread, where the baseline holds runs enough to judge by it.
    fn judged_by(&self, thresholds: &Thresholds) -> Option<Spread> {
        self.spread
            .filter(|spread| spread.runs >= thresholds.least_runs)
    }

    /// How much worse the candidate is, all its runs together.
    fn estimate(&self) -> f64 {
        self.worse.iter().sum::<f64>() / self.worse.len() as f64
    }

    /// Whether each run of the candidate is worse by the rule for a single one.
    fn suspects(&self, thresholds: &Thresholds) -> bool {
        self.judged_by(thresholds).is_some_and(|spread| {
            let reach = spread.reach(thresholds.alpha, 1);
            self.worse.iter().all(|worse| {
                worse - reach > thresholds.margin.ln_1p() && *worse >= thresholds.warning.ln_1p()
            })
        })
    }

    /// The row; `family` is how many of them there are, which a lone change has to stand against.
    fn row(&self, p_value: f64, family: usize, thresholds: &Thresholds) -> Row {
        let direction = self.metric.direction();
        let (estimate, runs) = (self.estimate(), self.worse.len());
        let mut row = Row {
            baseline: self.raw_before,
            candidate: Some(self.raw),
            ..Row::unknown(self.case, self.metric)
        };
        let Some(spread) = self.spread else {
            row.evidence = too_few(self.runs, thresholds);
            return row;
        };
        let around = |reach: f64| ratio_bounds(direction, (estimate - reach, estimate + reach));
        let reach = spread.reach(thresholds.alpha, runs);
        let bounds = around(reach);
        row.ratio = Some(ratio_bounds(direction, (estimate, estimate)).lo);
        (row.lo, row.hi) = (Some(bounds.lo), Some(bounds.hi));
        row.interval_95 = Some(around(spread.reach(0.025, runs)));
        let alone = spread.reach(thresholds.alpha, 1);
        let among_all = spread.reach(thresholds.family_alpha / family as f64, 2);
        let needed =
            (thresholds.margin.ln_1p() + alone.max(among_all)).max(thresholds.warning.ln_1p());
        row.minimum_detectable_effect = Some(exp(needed) - 1.0);
        if self.judged_by(thresholds).is_none() {
            row.evidence = too_few(self.runs, thresholds);
            return row;
        }
        (row.verdict, row.evidence) = self.verdict((estimate, reach), p_value, thresholds);
        row
    }

    fn verdict(
        &self,
        (estimate, reach): (f64, f64),
        p_value: f64,
        thresholds: &Thresholds,
    ) -> (RowVerdict, String) {
        let (worse, better) = self.metric.words();
        let share = percent(exp(estimate) - 1.0);
        let least = percent(exp(estimate - reach) - 1.0);
        let changed = format!("{worse} by {share}, by at least {least}");
        let both = self.worse.len() > 1;
        if self.suspects(thresholds) {
            let runs = self.runs;
            if !both {
                let told = format!("{changed}, than {runs} runs; it counts if a second run agrees");
                return (RowVerdict::Inconclusive, told);
            }
            if p_value > thresholds.family_alpha {
                let told = format!(
                    "{changed}, in both runs, but among so many metrics that may be chance"
                );
                return (RowVerdict::Inconclusive, told);
            }
            let grave = estimate - reach > thresholds.critical.ln_1p();
            let verdict = if grave {
                RowVerdict::Critical
            } else {
                RowVerdict::Warning
            };
            return (
                verdict,
                format!("{changed}, than {runs} runs, in both runs"),
            );
        }
        let margin = percent(thresholds.margin);
        let matters = percent(thresholds.warning);
        let (lo, hi) = (estimate - reach, estimate + reach);
        if hi < -thresholds.margin.ln_1p() {
            let least = percent(1.0 - exp(hi));
            (RowVerdict::Faster, format!("{better} by at least {least}"))
        } else if lo > thresholds.margin.ln_1p() && estimate >= thresholds.warning.ln_1p() {
            let told = format!("{changed}, both runs together, but they do not agree");
            (RowVerdict::Inconclusive, told)
        } else if lo > thresholds.margin.ln_1p() {
            (
                RowVerdict::Slower,
                format!("{changed}, which is below what warns"),
            )
        } else if hi < thresholds.warning.ln_1p() {
            let most = percent(exp(hi) - 1.0);
            (
                RowVerdict::Equivalent,
                format!("{worse} by {most} at most, less than {matters}"),
            )
        } else {
            let most = percent(exp(hi) - 1.0);
            let told = format!("cannot tell: between {least} and {most} {worse}, margin {margin}");
            (RowVerdict::Inconclusive, told)
        }
    }
}

fn too_few(runs: usize, thresholds: &Thresholds) -> String {
    let (least, missing) = (
        thresholds.least_runs,
        thresholds.least_runs.saturating_sub(runs),
    );
    format!("the baseline holds {runs} of {least} runs; add {missing} more")
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

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

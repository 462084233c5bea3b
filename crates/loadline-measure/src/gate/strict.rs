//! A run against a baseline.
//!
//! With `x` the normalised logarithm of the run (see [`super::baseline`]), counted so that more is
//! worse, and `m`, `s` mean and standard deviation of the `K` runs of the baseline, the run is worse
//! if `x - m - t(1 - alpha, K - 1) * max(s, 0.5 %) * sqrt(1 + 1/K)` lies above the margin of 2 %: the
//! lower bound of a prediction interval. That raises a suspicion and no more. A second run in fresh
//! processes must be worse by the same rule, and that both are worse by as much as the lesser of them
//! must stand once it is counted how many metrics of how many cases were looked at (Holm); only then
//! is it an alarm. What `s` is follows from the runs of the case and, in a suite, from those of all
//! cases (`gate/pooled.rs`); `t` has the degrees of freedom that go with it.

use std::collections::BTreeSet;

use super::baseline::{Baseline, BaselineRun, Measured};
use super::both;
use super::fingerprint;
use super::judgement::{Basis, Judgement, Policy, Row, RowVerdict, exp, ratio_bounds};
use super::limits;
use super::pooled::{Prior, Runs};
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
    let among_all = among_all(&contests, thresholds);
    let adjusted = adjusted(&contests, thresholds);
    let rows = contests.iter().zip(adjusted).zip(among_all);
    let mut rows: Vec<Row> = rows
        .map(|((contest, p_value), among_all)| contest.row(p_value, among_all, thresholds))
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
    /// What each run of the baseline holds.
    held: Vec<Option<f64>>,
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
            let measured: Vec<Option<&Measured>> = baseline
                .runs
                .iter()
                .map(|run| run.cases.get(case)?.metrics.get(&metric))
                .collect();
            let held: Vec<Option<f64>> = measured.iter().map(|one| (*one)?.normalised_ln).collect();
            let logs: Vec<f64> = held.iter().copied().flatten().collect();
            let spread = Spread::of(&logs, thresholds.deviation_floor);
            let second = candidate
                .second
                .and_then(|run| run.cases.get(case)?.metrics.get(&metric)?.normalised_ln);
            let mean = spread.map_or(x, |spread| spread.mean);
            let runs = std::iter::once(x).chain(second);
            contests.push(Contest {
                case,
                metric,
                raw_before: limits::median_raw(measured.into_iter().flatten()),
                raw: first.raw,
                held,
                spread,
                worse: runs
                    .map(|x| metric.direction().worsening(x - mean))
                    .collect(),
            });
        }
    }
    moderate(&mut contests, thresholds);
    contests
}

/// Draws the deviations of all cases in a metric towards what is usual among them.
fn moderate(contests: &mut [Contest<'_>], thresholds: &Thresholds) {
    for metric in COMPARED {
        let of_metric = |contest: &&Contest<'_>| contest.metric == metric;
        let cases: Vec<Runs<'_>> = contests
            .iter()
            .filter(of_metric)
            .filter_map(|contest| {
                Some(Runs {
                    values: &contest.held,
                    spread: contest.judged_by(thresholds)?,
                })
            })
            .collect();
        let Some(prior) = Prior::of(&cases) else {
            continue;
        };
        for contest in contests.iter_mut().filter(|one| one.metric == metric) {
            if let Some(spread) = contest.judged_by(thresholds) {
                let moderated = prior.moderate(spread);
                contest.spread = Some(Spread {
                    deviation: moderated.deviation.max(thresholds.deviation_floor),
                    ..moderated
                });
            }
        }
    }
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

/// Holm's p-values of all that could be judged, in their order; 1 for the others. Only what two runs
/// suspect can be an alarm, so of all else the p-value is taken for 1, which makes no other one less.
fn adjusted(contests: &[Contest<'_>], thresholds: &Thresholds) -> Vec<f64> {
    let p_value = |contest: &Contest<'_>| {
        let spread = contest.judged_by(thresholds)?;
        if contest.worse.len() < 2 || !contest.suspects(thresholds) {
            return Some(1.0);
        }
        Some(spread.p_value_of_both(contest.least() - thresholds.margin.ln_1p()))
    };
    let judged: Vec<Option<f64>> = contests.iter().map(p_value).collect();
    let family: Vec<f64> = judged.iter().copied().flatten().collect();
    let mut family = holm(&family).into_iter();
    judged
        .iter()
        .map(|p_value| p_value.and_then(|_| family.next()).unwrap_or(1.0))
        .collect()
}

/// How far beyond the margin two runs must both lie to stand among all contests, each as if it were the
/// only one that does. Cases of a suite have most of what it depends on in common, and finding it is
/// a search: it is made once for each.
fn among_all(contests: &[Contest<'_>], thresholds: &Thresholds) -> Vec<f64> {
    let alpha = thresholds.family_alpha / contests.len().max(1) as f64;
    let mut known: Vec<((f64, usize), f64)> = Vec::new();
    let mut deviations = |spread: &Spread| {
        let key = (spread.freedom_of_tails(), spread.runs);
        let found = known.iter().find(|(one, _)| *one == key);
        found.map(|(_, deviations)| *deviations).unwrap_or_else(|| {
            let deviations = both::quantile(alpha, key.0, key.1);
            known.push((key, deviations));
            deviations
        })
    };
    contests
        .iter()
        .map(|contest| {
            let spread = contest.spread.as_ref();
            spread.map_or(0.0, |spread| deviations(spread) * spread.deviation)
        })
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

    /// By how much every run of the candidate is worse at least.
    fn least(&self) -> f64 {
        self.worse.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// How many runs of the baseline hold it.
    fn runs(&self) -> usize {
        self.held.iter().flatten().count()
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

    /// The row; `among_all` is by how much a lone change has to be worse to stand among all others.
    fn row(&self, p_value: f64, among_all: f64, thresholds: &Thresholds) -> Row {
        let direction = self.metric.direction();
        let (estimate, runs) = (self.estimate(), self.worse.len());
        let mut row = Row {
            baseline: self.raw_before,
            candidate: Some(self.raw),
            ..Row::unknown(self.case, self.metric)
        };
        let Some(spread) = self.spread else {
            row.evidence = too_few(self.runs(), thresholds);
            return row;
        };
        let around = |reach: f64| ratio_bounds(direction, (estimate - reach, estimate + reach));
        let reach = spread.reach(thresholds.alpha, runs);
        let bounds = around(reach);
        row.ratio = Some(ratio_bounds(direction, (estimate, estimate)).lo);
        (row.lo, row.hi) = (Some(bounds.lo), Some(bounds.hi));
        row.interval_95 = Some(around(spread.reach(0.025, runs)));
        let alone = spread.reach(thresholds.alpha, 1);
        let needed =
            (thresholds.margin.ln_1p() + alone.max(among_all)).max(thresholds.warning.ln_1p());
        row.minimum_detectable_effect = Some(exp(needed) - 1.0);
        if self.judged_by(thresholds).is_none() {
            row.evidence = too_few(self.runs(), thresholds);
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
            let runs = self.runs();
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

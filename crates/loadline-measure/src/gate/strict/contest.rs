//! One metric of one case against the runs of a baseline.

use super::{COMPARED, Thresholds};
use crate::compare::holm;
use crate::gate::baseline::{Baseline, BaselineRun, Measured};
use crate::gate::both;
use crate::gate::candidate::Candidate;
use crate::gate::control::{Control, Observed};
use crate::gate::cpu_wait::CpuWait;
use crate::gate::judgement::{Row, RowVerdict, exp, ratio_bounds};
use crate::gate::limits;
use crate::gate::pooled::{Prior, Runs};
use crate::gate::reason::{Change, Gap, Grounds, JudgedRow, Remedy, RunsFound};
use crate::gate::spread::Spread;
use crate::metric::Metric;

/// The change that a gate should detect, as a share. If it cannot, the row says how many runs would.
const WORTH_FINDING: f64 = 0.10;
/// The sizes of a baseline that are tried for that; larger baselines are not supported.
const SIZES: [usize; 11] = [10, 12, 16, 20, 24, 32, 40, 50, 64, 80, 100];
/// The smallest leverage that is distinguished from zero. Larger ones are rounded up to a power of two, to
/// limit the number of searches for bounds.
const LEAST_LEVERAGE: f64 = 1.0 / 16.0;

/// One metric of one case: the baseline's values and the candidate's.
pub(super) struct Contest<'a> {
    case: &'a str,
    metric: Metric,
    raw_before: Option<f64>,
    raw: f64,
    /// The value of each run of the baseline, with the reference removed.
    held: Vec<Option<f64>>,
    spread: Option<Spread>,
    control: Option<Control>,
    /// Distance of each run of the candidate from the mean of the baseline, as logarithms; positive is worse.
    worse: Vec<f64>,
    /// The reference of each run of the candidate, as a logarithm.
    references: Vec<f64>,
    cpu_wait: CpuWait,
}

/// All metrics and cases that can be judged.
pub(super) fn contests<'a>(
    baseline: &Baseline,
    candidate: &Candidate<'a>,
    thresholds: &Thresholds,
) -> Vec<Contest<'a>> {
    let mut contests = Vec::new();
    for (case, measured) in &candidate.first.cases {
        let cpu_wait = CpuWait::of(baseline, candidate, case);
        for metric in COMPARED {
            let Some(first) = measured.metrics.get(&metric) else {
                continue;
            };
            if first.normalised_ln.is_none() {
                continue;
            }
            let of = |run: &'a BaselineRun| run.cases.get(case)?.metrics.get(&metric);
            let held: Vec<Option<&Measured>> = baseline
                .runs
                .iter()
                .map(|run| run.cases.get(case)?.metrics.get(&metric))
                .collect();
            let second = candidate.second.and_then(of);
            contests.push(Contest::new(
                (case, metric),
                &held,
                first,
                second,
                cpu_wait.clone(),
                thresholds,
            ));
        }
    }
    moderate(&mut contests, thresholds);
    contests
}

/// Shrinks the deviations of all cases in a metric towards the usual one.
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

/// Holm's p-values in order; 1 for what could not be judged. Only suspicions of two runs can be alarms, so
/// all others count as 1, which does not lower any p-value.
pub(super) fn adjusted(contests: &[Contest<'_>], thresholds: &Thresholds) -> Vec<f64> {
    let p_value = |contest: &Contest<'_>| {
        let spread = contest.judged_by(thresholds)?;
        if contest.worse.len() < 2 || !contest.suspects(thresholds) {
            return Some(1.0);
        }
        let beyond = contest.least() - thresholds.margin.ln_1p();
        Some(spread.p_value_of_both(beyond, contest.most_leverage()))
    };
    let judged: Vec<Option<f64>> = contests.iter().map(p_value).collect();
    let family: Vec<f64> = judged.iter().copied().flatten().collect();
    let mut family = holm(&family).into_iter();
    judged
        .iter()
        .map(|p_value| p_value.and_then(|_| family.next()).unwrap_or(1.0))
        .collect()
}

/// The deviation that two runs must both exceed to be significant among all comparisons, each taken as the
/// only change. Finding it is a search over few distinct inputs, so results are cached.
pub(super) struct Among {
    alpha: f64,
    /// Degrees of freedom, variance of the expected value, and the bound.
    known: Vec<(f64, f64, f64)>,
}

impl Among {
    pub(super) fn new(contests: usize, thresholds: &Thresholds) -> Self {
        Self {
            alpha: thresholds.family_alpha / contests.max(1) as f64,
            known: Vec::new(),
        }
    }

    /// The smallest change that raises an alarm if it is the only one.
    fn needed(&mut self, spread: &Spread, leverage: f64, thresholds: &Thresholds) -> f64 {
        let leverage = if leverage < LEAST_LEVERAGE {
            0.0
        } else {
            leverage.log2().ceil().exp2()
        };
        let alone = spread.reach(thresholds.alpha, 1, leverage);
        let freedom = spread.freedom_of_tails();
        let deviations = self.deviations(freedom, spread.mean_variance(leverage));
        let reach = alone.max(deviations * spread.deviation);
        (thresholds.margin.ln_1p() + reach).max(thresholds.warning.ln_1p())
    }

    fn deviations(&mut self, freedom: f64, mean_variance: f64) -> f64 {
        let is_known =
            |(one, other, _): &&(f64, f64, f64)| (*one, *other) == (freedom, mean_variance);
        if let Some((_, _, deviations)) = self.known.iter().find(is_known) {
            return *deviations;
        }
        let deviations = both::quantile(self.alpha, freedom, mean_variance);
        self.known.push((freedom, mean_variance, deviations));
        deviations
    }
}

/// The standard deviation of logarithms between runs, by which the gate judges one case and metric, with the
/// explained part of the reference removed. `None` for fewer than two runs.
#[must_use]
pub fn deviation_between_runs(runs: &[Measured]) -> Option<f64> {
    let runs: Vec<&Measured> = runs
        .iter()
        .filter(|run| run.normalised_ln.is_some())
        .collect();
    let observed: Vec<Observed> = runs.iter().copied().filter_map(observing(&runs)).collect();
    let control = Control::of(&observed, Thresholds::default().deviation_floor)?;
    let controlled = observed.into_iter().map(|run| control.controlled(run));
    let logs: Vec<f64> = controlled.collect();
    Spread::of(&logs, control.more_squares, 0.0).map(|spread| spread.deviation)
}

/// Selects a value that all of `all` have: the median over rounds, which older baselines lack, or the value
/// over all rounds. Without either, the normalised value is used.
fn observing(all: &[&Measured]) -> impl Fn(&Measured) -> Option<Observed> + use<> {
    let by_rounds = all.iter().all(|one| one.round_ln.is_some());
    let by_raw = all.iter().all(|one| one.raw > 0.0);
    move |one| {
        let normalised = one.normalised_ln?;
        let own = match one.round_ln {
            Some(ln) if by_rounds => ln,
            _ if by_raw => one.raw.ln(),
            _ => normalised,
        };
        Some(Observed {
            own,
            reference: own - normalised,
        })
    }
}

impl<'a> Contest<'a> {
    /// `held` is the value of each run of the baseline; the others are those of one or two runs of the
    /// candidate.
    fn new(
        (case, metric): (&'a str, Metric),
        held: &[Option<&Measured>],
        first: &Measured,
        second: Option<&Measured>,
        cpu_wait: CpuWait,
        thresholds: &Thresholds,
    ) -> Self {
        let known = || held.iter().copied().flatten();
        let both = || std::iter::once(first).chain(second);
        let all = known().chain(both());
        let observed = observing(
            &all.filter(|one| one.normalised_ln.is_some())
                .collect::<Vec<_>>(),
        );
        let runs: Vec<Observed> = known().filter_map(&observed).collect();
        let control = Control::of(&runs, thresholds.deviation_floor);
        let x = |run: Observed| control.map_or(run.own, |control| control.controlled(run));
        let logs: Vec<f64> = runs.into_iter().map(x).collect();
        let more_squares = control.map_or(0.0, |control| control.more_squares);
        let spread = Spread::of(&logs, more_squares, thresholds.deviation_floor);
        let judged: Vec<Observed> = both().filter_map(&observed).collect();
        let worse = judged.iter().map(|run| {
            let mean = spread.map_or_else(|| x(*run), |spread| spread.mean);
            metric.direction().worsening(x(*run) - mean)
        });
        Self {
            case,
            metric,
            raw_before: limits::median_raw(known()),
            raw: first.raw,
            held: held
                .iter()
                .map(|one| one.and_then(&observed).map(x))
                .collect(),
            spread,
            control,
            worse: worse.collect(),
            references: judged.iter().map(|run| run.reference).collect(),
            cpu_wait,
        }
    }

    /// Whether the runs so far require a second one.
    pub(super) fn needs_second(&self, thresholds: &Thresholds) -> bool {
        self.worse.len() == 1 && self.suspects(thresholds)
    }

    /// The leverage of the candidate's references: for each run if runs are judged separately, and for their
    /// mean if they are judged together.
    fn leverages(&self) -> (Vec<f64>, f64) {
        let of = |reference: f64| {
            self.control
                .map_or(0.0, |control| control.leverage(reference))
        };
        let mean = self.references.iter().sum::<f64>() / self.references.len() as f64;
        (self.references.iter().copied().map(of).collect(), of(mean))
    }

    fn most_leverage(&self) -> f64 {
        self.leverages().0.into_iter().fold(0.0, f64::max)
    }

    /// The spread, if the baseline has enough runs.
    fn judged_by(&self, thresholds: &Thresholds) -> Option<Spread> {
        self.spread
            .filter(|spread| spread.runs >= thresholds.least_runs)
    }

    /// The distance of the mean of the candidate's runs.
    fn estimate(&self) -> f64 {
        self.worse.iter().sum::<f64>() / self.worse.len() as f64
    }

    /// The distance of each of the candidate's runs that longer waiting for a CPU does not explain.
    fn unexplained(&self) -> impl Iterator<Item = f64> {
        let waits = self.worse.iter().zip(self.cpu_wait.added(self.metric));
        waits.map(|(worse, added)| worse - added.max(0.0))
    }

    /// The distance of the best of the candidate's runs.
    fn least(&self) -> f64 {
        self.unexplained().fold(f64::INFINITY, f64::min)
    }

    /// The number of the baseline's runs with a value.
    fn runs(&self) -> usize {
        self.held.iter().flatten().count()
    }

    /// Whether each run of the candidate is worse by the rule for a single run.
    fn suspects(&self, thresholds: &Thresholds) -> bool {
        let judged_by = self.judged_by(thresholds);
        let judged_by = judged_by.filter(|_| !self.cpu_wait.explains_all(self.metric));
        judged_by.is_some_and(|spread| {
            let runs = self.worse.iter().zip(self.unexplained());
            runs.zip(self.leverages().0)
                .all(|((worse, least), leverage)| {
                    let reach = || spread.reach(thresholds.alpha, 1, leverage);
                    *worse >= thresholds.warning.ln_1p()
                        && least - reach() > thresholds.margin.ln_1p()
                })
        })
    }

    /// The row, with Holm's p-value of two runs.
    pub(super) fn row(
        &self,
        p_value: f64,
        among: &mut Among,
        thresholds: &Thresholds,
    ) -> JudgedRow {
        let direction = self.metric.direction();
        let (estimate, runs) = (self.estimate(), self.worse.len());
        let mut row = Row {
            baseline: self.raw_before,
            candidate: Some(self.raw),
            ..Row::unknown(self.case, self.metric)
        };
        let Some(spread) = self.spread else {
            return row.because(self.few_runs(thresholds));
        };
        let around = |reach: f64| {
            let bounds = (estimate - reach, estimate + reach);
            self.cpu_wait.widened(self.metric, bounds)
        };
        let leverage = self.leverages().1;
        let reach = spread.reach(thresholds.alpha, runs, leverage);
        let (least, most) = around(reach);
        let bounds = ratio_bounds(direction, (least, most));
        row.ratio = Some(ratio_bounds(direction, (estimate, estimate)).lo);
        (row.lo, row.hi) = (Some(bounds.lo), Some(bounds.hi));
        let reach_95 = spread.reach(0.025, runs, leverage);
        row.interval_95 = Some(ratio_bounds(direction, around(reach_95)));
        let waits = self.cpu_wait.added(self.metric).fold(0.0, f64::max);
        let needed = among.needed(&spread, self.most_leverage(), thresholds) + waits;
        row.minimum_detectable_effect = Some(exp(needed) - 1.0);
        if self.judged_by(thresholds).is_none() {
            return row.because(self.few_runs(thresholds));
        }
        let margin = thresholds.margin.ln_1p();
        if self.cpu_wait.explains_all(self.metric) && estimate + reach > margin {
            return row.because(Grounds::Gap(Gap::CpuWait));
        }
        let (verdict, found) = self.verdict((estimate, least, most), p_value, thresholds);
        let is_open = verdict == RowVerdict::Inconclusive && !self.needs_second(thresholds);
        let is_explained = estimate - reach > margin && least <= margin;
        let is_waiting = is_explained || waits > needed - waits;
        let remedy = is_open.then(|| match is_waiting {
            true => Some(Remedy::FreeCpus(
                self.cpu_wait.most_then(),
                self.cpu_wait.mean(),
            )),
            false => remedy(&spread, needed, among, thresholds),
        });
        let share = |ln: f64| exp(ln) - 1.0;
        let change = Change {
            estimate: share(estimate),
            least: share(least),
            most: share(most),
        };
        row.verdict = verdict;
        row.because(Grounds::Runs {
            change,
            found,
            remedy: remedy.flatten(),
        })
    }

    fn few_runs(&self, thresholds: &Thresholds) -> Grounds {
        Grounds::FewRuns {
            runs: self.runs(),
            least: thresholds.least_runs,
        }
    }

    fn verdict(
        &self,
        (estimate, lo, hi): (f64, f64, f64),
        p_value: f64,
        thresholds: &Thresholds,
    ) -> (RowVerdict, RunsFound) {
        let (margin, warning) = (thresholds.margin.ln_1p(), thresholds.warning.ln_1p());
        if self.suspects(thresholds) {
            let runs = self.runs();
            if self.worse.len() < 2 {
                return (RowVerdict::Inconclusive, RunsFound::Suspected(runs));
            }
            if p_value > thresholds.family_alpha {
                return (RowVerdict::Inconclusive, RunsFound::ByChance);
            }
            let grave = lo > thresholds.critical.ln_1p();
            let verdict = if grave {
                RowVerdict::Critical
            } else {
                RowVerdict::Warning
            };
            return (verdict, RunsFound::Worse(runs));
        }
        if hi < -margin {
            (RowVerdict::Faster, RunsFound::Better)
        } else if lo > margin && estimate >= warning {
            (RowVerdict::Inconclusive, RunsFound::Disagreeing)
        } else if lo > margin {
            (RowVerdict::Slower, RunsFound::Slightly)
        } else if hi < warning {
            (RowVerdict::Equivalent, RunsFound::Below(thresholds.warning))
        } else {
            (RowVerdict::Inconclusive, RunsFound::Open(thresholds.margin))
        }
    }
}

/// A change of the setup that would make a relevant change detectable, if it currently is not.
fn remedy(
    spread: &Spread,
    needed: f64,
    among: &mut Among,
    thresholds: &Thresholds,
) -> Option<Remedy> {
    let share = WORTH_FINDING.max(thresholds.warning);
    let shows = share.ln_1p();
    if needed <= shows {
        return None;
    }
    if among.needed(spread, 0.0, thresholds) <= shows {
        return Some(Remedy::AddRuns);
    }
    let mut shows_with = |runs: usize| {
        let more = Spread {
            runs,
            freedom: spread.freedom + (runs - spread.runs) as f64,
            ..*spread
        };
        among.needed(&more, 0.0, thresholds) <= shows
    };
    let larger = SIZES.into_iter().filter(|runs| *runs > spread.runs);
    let larger: Vec<usize> = larger.collect();
    let enough = larger[larger.partition_point(|runs| !shows_with(*runs))..].first();
    Some(enough.map_or(Remedy::None(share), |runs| Remedy::Runs {
        runs: *runs,
        more: runs - spread.runs,
        share,
    }))
}

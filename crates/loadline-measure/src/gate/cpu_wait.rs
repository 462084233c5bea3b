//! The time that server and generator waited for a CPU, in a run and in those it is compared with.
//!
//! With `w` the share of the time waited by both together, waiting lowers a throughput to `1 - w` of itself at most, and
//! adds `w / (1 - w)` to a mean time of 1. The median of what it adds is at most twice the mean (Markov's inequality),
//! so it prolongs a median by up to `(1 + w) / (1 - w)`, and a corrected p99 too, which contains the median wait only.
//! The echo shows only a part of that, so the change of this factor is added to the side of the interval on which waiting
//! could have caused the difference. A share within the range of the baseline's runs adds nothing, because the
//! difference between those runs includes its effect.

use super::baseline::{Baseline, BaselineCase, BaselineRun};
use super::candidate::Candidate;
use crate::metric::{Direction, Metric};
use crate::record::Case;

/// The largest increase of the share of time waited for a CPU up to which a p99 is judged: a wait is longer than
/// most operations, so that p99 shows whether more than one operation in a hundred met one.
const MOST_P99: f64 = 0.05;
/// The share of time waited for a CPU from which no time is judged, unless the baseline was made under the same.
const MOST_WAITED: f64 = 0.8;

/// Shares of the time in which server and generator waited for a CPU.
#[derive(Debug, Clone)]
pub(super) struct CpuWait {
    /// The smallest and the largest of the runs of the baseline; 0 in older baselines, in which it is unknown.
    then: (f64, f64),
    /// Each run of the candidate.
    now: Vec<f64>,
}

impl CpuWait {
    pub(super) fn of(baseline: &Baseline, candidate: &Candidate<'_>, case: &str) -> Self {
        let of = |run: &BaselineRun| run.cases.get(case)?.cpu_wait;
        let then = baseline.runs.iter().filter_map(of);
        let then = then.map(|share| (share, share));
        let then = then.reduce(|all, (share, _)| (all.0.min(share), all.1.max(share)));
        let runs = std::iter::once(candidate.first).chain(candidate.second);
        Self {
            then: then.unwrap_or_default(),
            now: runs.map(|run| of(run).unwrap_or(0.0)).collect(),
        }
    }

    /// Those of two runs, one after the other.
    pub(super) fn of_cases(before: &Case, after: &Case) -> Self {
        let of = |case: &Case| BaselineCase::cpu_wait_of(case).unwrap_or(0.0);
        Self {
            then: (of(before), of(before)),
            now: vec![of(after)],
        }
    }

    /// The mean of the candidate's runs.
    pub(super) fn mean(&self) -> f64 {
        self.now.iter().sum::<f64>() / self.now.len() as f64
    }

    /// The largest share of the runs of the baseline.
    pub(super) fn most_then(&self) -> f64 {
        self.then.1
    }

    /// The logarithm of the factor by which waiting prolonged operations in each of the candidate's runs, compared with
    /// the baseline.
    pub(super) fn added(&self, metric: Metric) -> impl Iterator<Item = f64> {
        self.now.iter().map(move |now| self.added_by(*now, metric))
    }

    fn added_by(&self, now: f64, metric: Metric) -> f64 {
        let factor = |waited: f64| {
            let waited = waited.min(MOST_WAITED);
            let of_median = match metric.direction() {
                Direction::MoreIsBetter => 1.0,
                Direction::LessIsBetter => 1.0 + waited,
            };
            of_median / (1.0 - waited)
        };
        (factor(now) / factor(now.clamp(self.then.0, self.then.1))).ln()
    }

    /// The bounds `lo` and `hi` of a change, as logarithms in which more is worse, with the allowance for waiting.
    pub(super) fn widened(&self, metric: Metric, (lo, hi): (f64, f64)) -> (f64, f64) {
        let added = self.added_by(self.mean(), metric);
        (lo - added.max(0.0), hi - added.min(0.0))
    }

    /// Whether a worse value of `metric` can be due to waiting, however much worse it is.
    pub(super) fn explains_all(&self, metric: Metric) -> bool {
        let most = self.now.iter().copied().fold(0.0, f64::max);
        let added = most - self.most_then();
        (metric == Metric::P99 && added > MOST_P99) || (most > MOST_WAITED && added > 0.0)
    }
}

//! Compares a run with a file of numbers: the `baseline.json` of an MMO server's write-up, in its original
//! format.
//!
//! ```json
//! {
//!   "last_updated": "2026-01-31", "environment": "CI",
//!   "metrics": {"set_latency_us": 85.0, "get_latency_us": 80.0, "del_latency_us": 82.0,
//!     "xadd_latency_us": 95.0, "xread_latency_us": 310.0, "throughput_ops_sec": 11500.0,
//!     "pipeline_latency_per_op_us": 3.1, "set_p99_us": 240.0, "get_p99_us": 230.0},
//!   "thresholds": {"latency_regression_pct": 20, "throughput_regression_pct": 10,
//!     "critical_latency_ms": 10, "critical_throughput_min_ops_sec": 1000}
//! }
//! ```
//!
//! A latency increase by `latency_regression_pct` and a throughput decrease by `throughput_regression_pct`
//! are warnings. A p99 over `critical_latency_ms`, and a throughput below half of the stored number or below
//! `critical_throughput_min_ops_sec`, are critical. The throughput is that of sequential SETs or of batches of
//! 100, whichever time per operation of the file it belongs to. 10 % in either direction is noise. The verdict uses the
//! bounds of the median over the candidate's rounds. Such a file contains nothing about the variation of runs
//! or about the machine, so a warning is less reliable than one of [`strict`](super::strict).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::judgement::{Basis, Policy, Row, RowVerdict, exp, ratio_bounds};
use super::reason::{Collapse, Grounds, Judged, JudgedRow, LimitGrounds, Reason};

use crate::interval::{self, ALPHA};
use crate::metric::Metric;
use crate::quantile::median;
use crate::record::{Bounds, shortened};

mod file;
#[cfg(test)]
mod tests;

/// Changes up to this share, in either direction, are noise.
const NOISE: f64 = 0.10;

/// A throughput below this share of the number is critical.
const COLLAPSE: f64 = 0.5;

/// The file.
#[derive(Debug, Clone, PartialEq)]
pub struct Classic {
    /// The date of the numbers, as stated in the file.
    pub last_updated: Option<String>,
    /// Their origin, as stated in the file.
    pub environment: Option<serde_json::Value>,
    /// The numbers, in the units of their keys.
    pub metrics: BTreeMap<ClassicMetric, f64>,
    /// The thresholds of warnings and critical results.
    pub thresholds: ClassicThresholds,
}

/// A number of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassicMetric {
    /// Mean time of a SET with a time to live of 60 s, in microseconds.
    SetLatencyUs,
    /// Mean time of a GET, in microseconds.
    GetLatencyUs,
    /// Mean time of a DEL, in microseconds.
    DelLatencyUs,
    /// Mean time of an XADD of 4 to 5 fields, in microseconds.
    XaddLatencyUs,
    /// Mean time of an XREAD of 100 entries, in microseconds.
    XreadLatencyUs,
    /// SETs per second, in sequence or in batches of 100 (see [`Classic::operation`]).
    ThroughputOpsSec,
    /// Time per SET in batches of 100, in microseconds.
    PipelineLatencyPerOpUs,
    /// 99th percentile of the SETs, in microseconds.
    SetP99Us,
    /// 99th percentile of the GETs, in microseconds.
    GetP99Us,
}

/// The thresholds of warnings and critical results.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassicThresholds {
    /// Percentage by which a latency must rise for a warning.
    pub(crate) latency_regression_pct: f64,
    /// Percentage by which a throughput must fall for a warning.
    pub(crate) throughput_regression_pct: f64,
    /// The p99 in milliseconds above which a result is critical.
    pub(crate) critical_latency_ms: f64,
    /// The throughput below which a result is critical; `None` if the file has none.
    pub(crate) critical_throughput_min_ops_sec: Option<f64>,
}

impl Default for ClassicThresholds {
    fn default() -> Self {
        Self {
            latency_regression_pct: 20.0,
            throughput_regression_pct: 10.0,
            critical_latency_ms: 10.0,
            critical_throughput_min_ops_sec: None,
        }
    }
}

/// The measurements, round by round.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClassicRounds {
    /// The values of each number in every round, in the unit that its key names.
    pub values: BTreeMap<ClassicMetric, Vec<f64>>,
    /// The 99th percentile of further cases in every round, in microseconds, by the name of the case.
    /// Connecting is excluded.
    pub p99_us: BTreeMap<String, Vec<f64>>,
}

impl ClassicMetric {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::SetLatencyUs,
        Self::GetLatencyUs,
        Self::DelLatencyUs,
        Self::XaddLatencyUs,
        Self::XreadLatencyUs,
        Self::ThroughputOpsSec,
        Self::PipelineLatencyPerOpUs,
        Self::SetP99Us,
        Self::GetP99Us,
    ];

    /// Its key in the file.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::SetLatencyUs => "set_latency_us",
            Self::GetLatencyUs => "get_latency_us",
            Self::DelLatencyUs => "del_latency_us",
            Self::XaddLatencyUs => "xadd_latency_us",
            Self::XreadLatencyUs => "xread_latency_us",
            Self::ThroughputOpsSec => "throughput_ops_sec",
            Self::PipelineLatencyPerOpUs => "pipeline_latency_per_op_us",
            Self::SetP99Us => "set_p99_us",
            Self::GetP99Us => "get_p99_us",
        }
    }

    /// The metric and the name of the operation.
    #[must_use]
    pub fn metric(self) -> (&'static str, Metric) {
        match self {
            Self::SetLatencyUs => ("set", Metric::Mean),
            Self::GetLatencyUs => ("get", Metric::Mean),
            Self::DelLatencyUs => ("del", Metric::Mean),
            Self::XaddLatencyUs => ("xadd", Metric::Mean),
            Self::XreadLatencyUs => ("xread", Metric::Mean),
            Self::ThroughputOpsSec => ("sequential set", Metric::Throughput),
            Self::PipelineLatencyPerOpUs => ("pipeline 100", Metric::TimePerOp),
            Self::SetP99Us => ("set", Metric::P99),
            Self::GetP99Us => ("get", Metric::P99),
        }
    }

    /// The factor that converts a value of the file to the metric's own unit.
    fn factor(self) -> f64 {
        match self {
            Self::ThroughputOpsSec => 1.0,
            _ => 1e3,
        }
    }
}

impl Classic {
    /// The operation and the metric of a number. A file does not say which SETs its throughput is of: sequential ones
    /// or batches of 100. It is of those whose time per operation, which stands beside it, is nearer to it; without
    /// such a time, of sequential ones.
    #[must_use]
    pub fn operation(&self, key: ClassicMetric) -> (&'static str, Metric) {
        let pipelined = ClassicMetric::PipelineLatencyPerOpUs.metric().0;
        match key {
            ClassicMetric::ThroughputOpsSec if self.is_pipelined() => {
                (pipelined, Metric::Throughput)
            }
            _ => key.metric(),
        }
    }

    /// Whether the throughput of the file is that of batches.
    #[must_use]
    pub fn is_pipelined(&self) -> bool {
        let of = |key| self.metrics.get(&key).copied();
        let away = |per_op_us: f64, rate: f64| (rate * per_op_us / 1e6).ln().abs();
        let rate = of(ClassicMetric::ThroughputOpsSec);
        let (sequential, batched) = (
            of(ClassicMetric::SetLatencyUs),
            of(ClassicMetric::PipelineLatencyPerOpUs),
        );
        let (Some(rate), Some(batched)) = (rate, batched) else {
            return false;
        };
        let batched = away(batched, rate);
        sequential.map_or(batched < NOISE, |per_op| batched < away(per_op, rate))
    }
}

/// Judges the rounds of a candidate against a file.
#[must_use]
pub fn judge(classic: &Classic, rounds: &ClassicRounds) -> Judged {
    let thresholds = &classic.thresholds;
    let mut rows: Vec<JudgedRow> = Vec::new();
    for (key, number) in &classic.metrics {
        let values = rounds.values.get(key).map_or(&[][..], Vec::as_slice);
        rows.push(compared(classic, *key, *number, values));
        if key.metric().1 == Metric::P99 {
            rows.extend(too_slow(key.metric().0, values, thresholds));
        }
    }
    for (case, values) in &rounds.p99_us {
        rows.extend(too_slow(case, values, thresholds));
    }
    let mut judgement = Judged::new(Policy::Classic, Basis::Numbers, rows);
    let environment = classic.environment.as_ref().map(ToString::to_string);
    judgement.notes.push(Reason::Numbers {
        updated: classic.last_updated.as_deref().map(shortened),
        environment: environment.as_deref().map(shortened),
    });
    judgement
}

/// A number compared with the median of the rounds.
fn compared(classic: &Classic, key: ClassicMetric, number: f64, values: &[f64]) -> JudgedRow {
    let thresholds = &classic.thresholds;
    let ((case, metric), factor) = (classic.operation(key), key.factor());
    let mut row = Row {
        baseline: Some(number * factor),
        candidate: median(values).map(|value| value * factor),
        ..Row::unknown(case, metric)
    };
    let positive = values.iter().all(|value| *value > 0.0 && value.is_finite());
    let Some(interval) = interval::of_median(values, ALPHA).filter(|_| positive) else {
        return row.because(Grounds::NumberOfFewRounds(values.len()));
    };
    let worsening = |value: f64| metric.direction().worsening((value / number).ln());
    let (one, other) = (worsening(interval.lo), worsening(interval.hi));
    let (lo, hi) = (one.min(other), one.max(other));
    let bounds = ratio_bounds(metric.direction(), (lo, hi));
    (row.lo, row.hi) = (Some(bounds.lo), Some(bounds.hi));
    row.ratio = row.candidate.map(|value| value / factor / number);
    row.interval_95 = interval::interpolated_95(values).map(|(lo, hi)| Bounds {
        lo: lo / number,
        hi: hi / number,
    });
    let warning = match metric {
        Metric::Throughput => -(1.0 - thresholds.throughput_regression_pct / 100.0).ln(),
        _ => (thresholds.latency_regression_pct / 100.0).ln_1p(),
    };
    row.minimum_detectable_effect = Some(exp(warning + (hi - lo) / 2.0) - 1.0);
    row.verdict = verdict((lo, hi), warning);
    let is_rate = metric == Metric::Throughput;
    let collapse = collapse(interval.hi, number, thresholds).filter(|_| is_rate);
    if collapse.is_some() {
        row.verdict = RowVerdict::Critical;
    }
    row.because(Grounds::Number {
        bounds: (interval.lo * factor, interval.hi * factor),
        number: number * factor,
        collapse,
    })
}

/// The verdict on logarithmic bounds, where more is worse.
fn verdict((lo, hi): (f64, f64), warning: f64) -> RowVerdict {
    if lo > warning {
        RowVerdict::Warning
    } else if hi < -NOISE.ln_1p() {
        RowVerdict::Faster
    } else if lo > NOISE.ln_1p() {
        RowVerdict::Slower
    } else if hi < warning {
        RowVerdict::Equivalent
    } else {
        RowVerdict::Inconclusive
    }
}

/// Whether a throughput collapsed: its upper bound is below the lowest allowed throughput, or below half of the number.
fn collapse(hi: f64, number: f64, thresholds: &ClassicThresholds) -> Option<Collapse> {
    let least = thresholds.critical_throughput_min_ops_sec;
    let least = least.filter(|least| hi < *least);
    let below_half = || (hi < COLLAPSE * number).then_some(Collapse::BelowHalf);
    least.map(Collapse::BelowMinimum).or_else(below_half)
}

/// The limit on every p99; empty if it was not measured, which the comparison reports.
fn too_slow(case: &str, values: &[f64], thresholds: &ClassicThresholds) -> Option<JudgedRow> {
    let value = median(values)?;
    let limit_ns = thresholds.critical_latency_ms * 1e6;
    let limit = format!("{case}.p99<={}ms", thresholds.critical_latency_ms);
    let row = Row {
        limit: Some(limit),
        candidate: Some(value * 1e3),
        ..Row::unknown(case, Metric::P99)
    };
    let Some(interval) = interval::of_median(values, ALPHA) else {
        return Some(row.because(Grounds::Limit(LimitGrounds::FewRounds(values.len()))));
    };
    let (lo, hi) = (interval.lo * 1e3, interval.hi * 1e3);
    let verdict = if lo > limit_ns {
        RowVerdict::Critical
    } else if hi <= limit_ns {
        RowVerdict::Equivalent
    } else {
        RowVerdict::Inconclusive
    };
    Some(Row {
        verdict,
        evidence: Grounds::Limit(LimitGrounds::Bounds(lo, hi)),
        ..row
    })
}

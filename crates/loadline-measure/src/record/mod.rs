//! The record: everything that was measured in one run, as versioned JSON.
//!
//! It is the only thing that reports, gates and comparisons read; what is not in the record was not
//! measured. Times are whole nanoseconds unless a mean is stated, shares go from 0 to 1, and the
//! unit is the last word of a name. Reading ignores fields that it does not know.

mod case;
mod environment;
mod json;
#[cfg(test)]
mod page;
mod stall;
#[cfg(test)]
mod tests;
mod vocabulary;

use serde::{Deserialize, Serialize};

pub use case::{
    Case, Cost, Histograms, Interval, Pacing, Parts, RoundHistograms, RoundSummary, Scenario,
    Subject, Tail, TailSummary, ValueBytes,
};
pub(crate) use json::shortened;

pub use stall::{CpuPauses, Stall, StallCause, Surroundings};
pub use vocabulary::{Arrivals, Mode, PathClass, Scheduling, SubjectKind};

pub use environment::{Environment, Noise, ServerEnvironment};

pub(crate) use json::finite;

pub use crate::capacity::Answer;
pub use crate::compare::{Direction, Verdict};
pub use crate::doctor::{Class, Finding, NotExamined, Rule, Severity};
pub use crate::engines::{Allocations, Engines, Footprint};
pub use crate::gate::Judgement;
use crate::gate::Row;
pub use crate::histogram::LatencySummary;
pub use crate::outliers::Outliers;

/// The schema that this version writes and reads.
pub const SCHEMA: &str = "loadline.record/1";

/// Everything measured in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: String,
    /// What was run.
    pub run: Run,
    /// Where it was run.
    #[serde(default)]
    pub environment: Environment,
    /// The links that latency was added by, one per latency.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// What was measured: one case per subject and scenario.
    pub cases: Vec<Case>,
    /// What was asked for and cannot be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// What the cases say about each other.
    #[serde(default)]
    pub comparisons: Vec<Comparison>,
    /// What about this run would make a measurement lie.
    #[serde(default)]
    pub doctor: Vec<Finding>,
    /// What could not be examined, and the rules that this concerns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_examined: Vec<NotExamined>,
    /// One plain sentence per subject: what was found.
    #[serde(default)]
    pub findings: Vec<String>,
    /// Why instructions per operation were not counted, if they were to be: one sentence that says what would help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_counted: Option<String>,
    /// Absolute limits and whether they were kept, where some were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Row>,
    /// Whether it got slower, where that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
    /// The load that keeps a limit, where that was searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Answer>,
    /// What engines take besides time, where engines were compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engines: Option<Engines>,
}

/// A way of calling that a sweep left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The operations, by name.
    pub workload: String,
    /// How they were to be called.
    pub mode: Mode,
    /// Why they were not, as a part of a sentence without its full stop.
    pub reason: String,
}

/// A link that added latency, as it measured itself before it was used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// The round-trip time that it was to add.
    pub latency_ns: u64,
    /// How much the delay varied, as it was asked for, such as `1ms:normal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// How many bytes per second fit through in each direction, where that was limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_bytes_per_s: Option<u64>,
    /// What added the latency.
    pub class: PathClass,
    /// Why this class, in a sentence.
    pub reason: String,
    /// Round trips that it was measured by.
    pub round_trips: u64,
    /// The median round trip without the link.
    pub direct_p50_ns: u64,
    /// The median round trip through it.
    pub through_p50_ns: u64,
    /// The 0.99 quantile of the round trips through it.
    pub through_p99_ns: u64,
    /// How much longer than asked for the median is.
    pub overshoot_p50_ns: u64,
    /// How much longer than asked for the 0.99 quantile is.
    pub overshoot_p99_ns: u64,
    /// How late the link itself released what was due, at the median; `None` where the kernel releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_late_p50_ns: Option<u64>,
    /// The same at the 0.99 quantile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_late_p99_ns: Option<u64>,
    /// How its thread was scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Whether idle processors polled instead of sleeping meanwhile.
    #[serde(default)]
    pub keeps_awake: bool,
    /// Whether the overshoot is too much for it to be the link that was asked for.
    pub is_off: bool,
    /// The largest packet in bytes, where there are packets.
    #[serde(default)]
    pub mtu: Option<u64>,
    /// The congestion control of the client's end, where it is known.
    #[serde(default)]
    pub congestion_control: Option<String>,
}

/// What was run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Names the run, also in the keys that it wrote.
    pub id: String,
    /// When it started (RFC 3339).
    pub started_at: String,
    /// The command line, secrets redacted.
    pub command: String,
    /// The version of Loadline.
    pub version: String,
    /// What all random choices came from.
    pub seed: u64,
    /// What the command line meant, in full.
    #[serde(default)]
    pub plan: serde_json::Value,
    /// Whether the run ended before its plan was done: by an interrupt, or since a target was lost.
    #[serde(default)]
    pub cut_short: bool,
    /// How long the whole run took, preparations included.
    #[serde(default)]
    pub duration_ns: Option<u64>,
}

/// What two cases of one scenario say about each other, by paired rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Index of the first case.
    pub a: usize,
    /// Index of the second case.
    pub b: usize,
    /// What was compared, by its name in the record, such as `throughput_ops_per_s`.
    pub metric: String,
    /// Whether more or less of the metric is better.
    pub direction: Direction,
    /// The metric of the second case over that of the first: the median over the rounds.
    #[serde(serialize_with = "json::finite")]
    pub ratio: f64,
    /// The interval of the ratio; `None` with too few rounds.
    #[serde(default)]
    pub interval: Option<Bounds>,
    /// The smallest change, as a share, that this many rounds would have shown.
    #[serde(default)]
    pub minimum_detectable_effect: Option<f64>,
    /// Rounds that went into it.
    pub rounds: u64,
    /// What may be said of the second case beside the first.
    pub verdict: Verdict,
    /// The verdict as a sentence that can be checked, such as "slower by more than 2 % in 19 of 24
    /// rounds".
    #[serde(default)]
    pub evidence: String,
}

/// The bounds of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// The lower bound.
    #[serde(serialize_with = "json::finite")]
    pub lo: f64,
    /// The upper bound.
    #[serde(serialize_with = "json::finite")]
    pub hi: f64,
}

impl Record {
    /// A record of `run` in `environment`, with nothing measured yet.
    #[must_use]
    pub fn new(run: Run, environment: Environment) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            run,
            environment,
            links: Vec::new(),
            cases: Vec::new(),
            left_out: Vec::new(),
            comparisons: Vec::new(),
            doctor: Vec::new(),
            not_examined: Vec::new(),
            findings: Vec::new(),
            not_counted: None,
            limits: Vec::new(),
            judgement: None,
            capacity: None,
            engines: None,
        }
    }

    /// All errors of all cases.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.cases
            .iter()
            .map(Case::error_count)
            .fold(0, u64::saturating_add)
    }
}

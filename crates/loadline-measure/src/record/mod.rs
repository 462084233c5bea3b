//! The record: all measurements of a run, as versioned JSON.
//!
//! Reports, gates and comparisons read nothing else. Times are whole nanoseconds unless they are means,
//! shares range from 0 to 1, and the unit is the last word of a name. Unknown fields are ignored.

mod answer;
mod bounds;
mod case;
mod environment;
mod finite;
mod json;
mod link;
#[cfg(test)]
mod page;
mod stall;
mod stored;
#[cfg(test)]
mod tests;
mod vocabulary;

use serde::{Deserialize, Serialize};

pub use answer::Answer;
pub use bounds::Bounds;
pub use case::{
    Case, CaseId, Cost, Histograms, Interval, Pacing, Parts, RoundHistograms, RoundSummary,
    Scenario, Subject, Tail, TailSummary, ValueBytes,
};
pub(crate) use json::shortened;

pub use link::Link;
pub use stall::{CpuPauses, Stall, StallCause, Surroundings};
pub use vocabulary::{Arrivals, Mode, PathClass, Percentiles, Scheduling, SubjectKind};

pub use environment::{Environment, Noise, ServerEnvironment};

pub(crate) use finite::finite;

pub use crate::agents::{Agent, AgentCase, LostAgent, Membership};
pub use crate::capacity::Capacity;
pub use crate::clients::{Behaviour, ClientRow, Clients};
pub use crate::compare::Verdict;
pub use crate::doctor::{Class, Finding, NotExamined, Rule, Severity};
pub use crate::engines::{Allocations, Engines, Footprint};
pub use crate::failover::Failover;
pub use crate::gate::Judgement;
use crate::gate::Row;
pub use crate::histogram::LatencySummary;
pub use crate::metric::Direction;
pub use crate::outliers::Outliers;
pub use crate::tiers::{
    BatchCost, BatchSize, Claim, CodecCases, Flaw, LoadAnswer, LoadPhase, LoadSubject, LoadWindow,
    TierCases, TierChoice, TierCost, TierLoad, TierOption, TierSides, TierVerdict, TieredObject,
    Tiers, Waterfall,
};

/// The schema that this version writes and reads.
pub const SCHEMA: &str = "loadline.record/1";

/// Everything measured in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "stored::Stored")]
pub struct Record {
    /// The schema version: [`SCHEMA`].
    pub schema: String,
    /// The run.
    pub run: Run,
    /// Its environment.
    pub environment: Environment,
    /// The load generators of a merged record, by rank; empty for a single one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<Agent>,
    /// The agents that did not run the plan to its end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost_agents: Vec<LostAgent>,
    /// The links that added latency, one per latency.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// The results: one case per subject and scenario.
    pub cases: Vec<Case>,
    /// Requested combinations that are not possible.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// The comparisons of cases.
    pub comparisons: Vec<Comparison>,
    /// Flaws of this run.
    pub doctor: Vec<Finding>,
    /// Facts that could not be examined, with the affected rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_examined: Vec<NotExamined>,
    /// The result, one sentence per subject.
    pub findings: Vec<String>,
    /// The reason why instructions per operation were requested but not counted, in one sentence with advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_counted: Option<String>,
    /// Limits and their results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Row>,
    /// The judgement, if one was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
    /// The question that the run answers, with what was found in addition to the cases.
    #[serde(flatten, skip_serializing_if = "Answer::is_in_cases")]
    pub answer: Answer,
}

/// A combination that a sweep skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The operations, by name.
    pub workload: String,
    /// The call mode.
    pub mode: Mode,
    /// The reason, as part of a sentence without its full stop.
    pub reason: String,
}

/// The run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The identifier of the run, also part of the keys that it wrote.
    pub id: String,
    /// When it started (RFC 3339).
    pub started_at: String,
    /// The command line, secrets redacted.
    pub command: String,
    /// The version of Loadline.
    pub version: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// The resolved plan.
    #[serde(default)]
    pub plan: serde_json::Value,
    /// Whether the run ended early: by an interrupt, or because a target was lost.
    #[serde(default)]
    pub cut_short: bool,
    /// The duration of the whole run, including preparations.
    #[serde(default)]
    pub duration_ns: Option<u64>,
    /// The group of agents that it belongs to; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Membership>,
}

/// A comparison of two cases of one scenario, by paired rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Index of the first case.
    pub a: usize,
    /// Index of the second case.
    pub b: usize,
    /// The compared metric by its name in the record, such as `throughput_ops_per_s`.
    pub metric: String,
    /// Whether more or less of the metric is better.
    pub direction: Direction,
    /// The metric of the second case over that of the first: the median over the rounds.
    #[serde(serialize_with = "finite")]
    pub ratio: f64,
    /// The interval of the ratio; `None` with too few rounds.
    #[serde(default)]
    pub interval: Option<Bounds>,
    /// The smallest change, as a share, that these rounds can detect.
    #[serde(default)]
    pub minimum_detectable_effect: Option<f64>,
    /// The number of rounds.
    pub rounds: u64,
    /// The verdict on the second case, compared with the first.
    pub verdict: Verdict,
    /// The verdict as a sentence that can be checked, such as "slower by more than 2 % in 19 of 24
    /// rounds".
    #[serde(default)]
    pub evidence: String,
}

impl Record {
    /// Creates a record of `run` in `environment` without results.
    #[must_use]
    pub fn new(run: Run, environment: Environment) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            run,
            environment,
            agents: Vec::new(),
            lost_agents: Vec::new(),
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
            answer: Answer::Cases,
        }
    }

    /// The case with an identifier of this record; `None` if a record from elsewhere has no such case.
    #[must_use]
    pub fn case(&self, id: CaseId) -> Option<&Case> {
        self.cases.get(id.0)
    }

    /// The errors of all cases.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.cases
            .iter()
            .map(Case::error_count)
            .fold(0, u64::saturating_add)
    }
}

//! Agents: load generators that run one plan at the same time, usually on several machines.
//!
//! Each agent has a record of its own. [`merge()`] combines them: histograms are added bucket by bucket, so the
//! percentiles of the merged record are those of one recorder that saw every operation. Percentiles and rates of
//! agents are never averaged.

mod difference;
mod merge;
mod part;
pub mod protocol;
mod span;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::histogram::LatencySummary;
use crate::record::{CpuPauses, Environment, finite};

pub use merge::{Merged, merge};
pub use part::Part;

/// One of several load generators of a merged record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// Its number, from 0.
    pub rank: u64,
    /// The identifier of its run, also part of the keys that it wrote.
    pub run: String,
    /// When it started (RFC 3339).
    pub started_at: String,
    /// The seed of its random choices.
    pub seed: u64,
    /// Its machine. The servers are described once, in the record's own environment.
    #[serde(default)]
    pub environment: Environment,
    /// The largest possible error of its clock; `None` if it is not known.
    #[serde(default)]
    pub clock_bound_ns: Option<u64>,
    /// Its part of each case, in the order of the record.
    pub cases: Vec<AgentCase>,
}

/// Membership of a run in a group of agents that ran one plan together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The name of the common run.
    pub group: String,
    /// Its number, from 0.
    pub rank: u64,
    /// Number of agents in the group.
    pub agents: u64,
    /// Nanoseconds to add to the clock of its machine to get the time of the coordinator's clock.
    pub clock_offset_ns: i64,
    /// The largest possible error of that offset.
    pub clock_bound_ns: u64,
}

/// An agent that did not run the plan to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostAgent {
    /// Its number, from 0.
    pub rank: u64,
    /// The reason, as part of a sentence without its full stop.
    pub reason: String,
    /// The identifier of its own run, whose keys can be left on the target; `None` if it removed them, or had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// The part of one agent in a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentCase {
    /// Operations answered, errors included.
    pub ops: u64,
    /// Errors of any kind.
    #[serde(default)]
    pub errors: u64,
    /// Start of its first round in nanoseconds since 1970: by the coordinator's clock if the agents had one, otherwise
    /// by its own.
    pub start_unix_ns: u64,
    /// Time measured over all rounds.
    pub duration_ns: u64,
    /// Operations per second of its measured time.
    #[serde(serialize_with = "finite")]
    pub throughput_ops_per_s: f64,
    /// From the intended start of an operation to its reply.
    pub response_time_ns: LatencySummary,
    /// Number of stalls that its record has.
    #[serde(default)]
    pub stalls: u64,
    /// The longest of them.
    #[serde(default)]
    pub longest_stall_ns: Option<u64>,
    /// Share of one CPU that the busiest thread of its generator worked on.
    #[serde(default)]
    pub client_cpu_busy: Option<f64>,
    /// Pauses of the CPUs of its machine, if they were observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_pauses: Option<CpuPauses>,
}

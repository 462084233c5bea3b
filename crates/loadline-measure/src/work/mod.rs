//! Work per operation: instructions in user space, counted instead of timed.
//!
//! A shared machine changes how long an instruction takes, not how many a server executes for an operation. So
//! counts find changes of one percent where times find ten. They are not times: caches, the kernel and waiting
//! are not in them. [`compare`] judges them with thresholds of their own and never mixes them into a verdict
//! about time.
//!
//! A count comes from passes: the same operations from one connection, at least three times per side. What a
//! server does without any request (timers) is measured by a pass without operations and subtracted in
//! proportion to the duration; see [`per_operation`].
//!
//! [`callgrind::parse`] reads the counts of a pass, function by function, from the output of valgrind, and
//! [`differences`] names the functions that account for a change.

pub mod callgrind;
mod estimate;
mod functions;

pub use estimate::{
    Estimate, LEAST_PASSES, WorkComparison, WorkRules, WorkVerdict, compare, per_operation,
};
pub use functions::{FunctionDifference, differences};

use serde::{Deserialize, Serialize};

/// The means by which instructions were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Source {
    /// The counters of the CPU, read for one process.
    Pmu,
    /// Valgrind's callgrind, which executes the server in a simulator.
    Callgrind,
}

/// Why passes give no count per operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError {
    /// A pass has no operations, or all its instructions are background work.
    #[error("a pass counted no instructions of operations")]
    NoWork,
    /// Fewer passes than the spread needs.
    #[error("{passes} passes, but at least {LEAST_PASSES} are needed to know their spread")]
    TooFewPasses {
        /// Passes of this side.
        passes: usize,
    },
}

/// The counts of one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    /// Operations of the pass; 0 for the pass that shows the background work.
    pub ops: u64,
    /// Duration of the pass in nanoseconds.
    pub duration_ns: u64,
    /// Instructions in user space.
    pub instructions: u64,
    /// System calls, if the source counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_calls: Option<u64>,
    /// Calls of `malloc`, `calloc` and `realloc`, if the source counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocations: Option<u64>,
}

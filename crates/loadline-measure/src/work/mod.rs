//! Work per operation: instructions in user space, counted instead of timed.
//!
//! A shared machine changes how long an instruction takes, not how many a server executes for an operation. So
//! counts find changes of one percent where times find ten. They are not times: caches, the kernel and waiting
//! are not in them. [`compare`] judges them with thresholds of their own and never mixes them into a verdict
//! about time.
//!
//! A count comes from passes: the same operations from one connection, at least three times per side. The
//! instructions of the server's timers are subtracted ([`Pass::background`]), because they depend on the duration
//! of a pass. What remains is exact if the source of random numbers is fixed, too; else the seed of a hash table
//! decides how often keys collide, and the passes are made in several processes ([`Estimate::of`]).
//!
//! [`callgrind::parse`] reads the counts of a pass, function by function, from the output of valgrind, and
//! [`differences`] names the functions that account for a change.

pub mod callgrind;
mod estimate;
mod functions;
mod settings;
mod tree;

pub use estimate::{Estimate, LEAST_PASSES, WorkComparison, WorkRules, WorkVerdict, compare};
pub use functions::{FunctionDifference, FunctionWork, differences, per_operation};
pub use settings::setting_of;
pub use tree::{Frame, stacks, tree};

use serde::{Deserialize, Serialize};

/// The work of one subject under one scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// The means by which instructions were counted.
    pub source: Source,
    /// The tool and its version, such as `valgrind-3.19.0`.
    pub tool: String,
    /// The instruction set and the CPU features that the C library chooses its functions by.
    pub cpu: String,
    /// The SHA-1 of the server's executable, if it is a file of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable_sha1: Option<String>,
    /// Whether the server read its random numbers from a fixed source, so that passes agree exactly.
    #[serde(default)]
    pub fixed_randomness: bool,
    /// The passes, in the order in which they ran.
    pub passes: Vec<Pass>,
    /// The functions that execute most instructions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionWork>,
    /// The same as a tree of calls, for flame graphs; empty in baselines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Frame>,
}

impl Work {
    /// Instructions per operation over all passes.
    ///
    /// # Errors
    /// As of [`Estimate::of`].
    pub fn estimate(&self) -> Result<Estimate, WorkError> {
        let values: Result<Vec<f64>, WorkError> =
            self.passes.iter().map(Pass::instructions_per_op).collect();
        Estimate::of(&values?)
    }

    /// The difference that makes the counts of two subjects incomparable; `None` if there is none. The
    /// two servers may be different builds: that is what is compared.
    #[must_use]
    pub fn incomparable(&self, other: &Self) -> Option<Incomparable> {
        let differ = |what: &'static str, was: &str, is: &str| {
            (was != is).then(|| Incomparable {
                what,
                was: was.to_owned(),
                is: is.to_owned(),
            })
        };
        differ("the tool that counts", &self.tool, &other.tool)
            .or_else(|| differ("the instruction set", &self.cpu, &other.cpu))
            .or_else(|| {
                let ops = |work: &Self| work.passes.first().map_or(0, |pass| pass.ops).to_string();
                differ(
                    "the number of operations of a pass",
                    &ops(self),
                    &ops(other),
                )
            })
    }
}

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

/// A difference that makes two counts incomparable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incomparable {
    /// The name of the property that differs.
    pub what: &'static str,
    /// Its value on the first side.
    pub was: String,
    /// Its value on the second side.
    pub is: String,
}

/// The reason why passes give no count per operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError {
    /// A pass has no operations, or timers executed all its instructions.
    #[error("a pass counted no instructions of operations")]
    NoWork,
    /// The passes disagree: no two of them are as low as the lowest.
    #[error("the passes disagree: no other of {passes} is as low as the lowest")]
    Unsettled {
        /// Passes of this side.
        passes: usize,
    },
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
    /// Operations of the pass.
    pub ops: u64,
    /// Instructions in user space, those of timers included.
    pub instructions: u64,
    /// Those of them that timers executed, which depend on the duration of the pass and not on its operations.
    #[serde(default)]
    pub background: u64,
    /// System calls, if the source counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_calls: Option<u64>,
    /// Calls of `malloc`, `calloc` and `realloc`, if the source counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocations: Option<u64>,
    /// Bytes that the server received over the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_received: Option<u64>,
    /// Bytes that the server sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<u64>,
}

impl Pass {
    /// Instructions per operation, without those of timers.
    ///
    /// # Errors
    /// [`WorkError::NoWork`] if there were no operations, or timers executed everything.
    pub fn instructions_per_op(&self) -> Result<f64, WorkError> {
        let own = self.instructions.saturating_sub(self.background);
        if self.ops == 0 || own == 0 {
            return Err(WorkError::NoWork);
        }
        Ok(own as f64 / self.ops as f64)
    }
}

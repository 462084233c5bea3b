//! Comparisons of engines: memory, disk and opening times, and which engine suits which need.
//!
//! An engine is compared only with others of the same durability, over their common rounds. If the rounds do
//! not separate two engines, none is named.

mod claims;
mod former;
mod needs;
mod socket;

use serde::{Deserialize, Serialize};

use crate::Metric;
use crate::compare::{self, Paired, Rules};
use crate::record::Case;
use crate::vocabulary::vocabulary;

pub use claims::{Claim, Claims};
pub use needs::{Fastest, Lead, Least, ServedRead};
pub use socket::{SocketShare, socket_share};

vocabulary! {
    /// An operation of engines: the workload of its cases.
    pub enum Operation {
        /// Writes a value over another.
        Put = "put",
        /// Reads a value.
        Get = "get",
        /// Removes a key.
        Delete = "delete",
        /// Writes many values at once.
        BatchPut = "batch put",
        /// Reads many values at once.
        BatchGet = "batch get",
        /// Removes many keys at once.
        BatchDelete = "batch delete",
        /// Reads from several threads.
        ConcurrentGet = "concurrent get",
        /// Writes from several threads.
        ConcurrentPut = "concurrent put",
        /// 70 % reads and 30 % writes from several threads.
        ConcurrentMixed = "concurrent 70/30",
        /// Reads the pairs from a key on.
        Scan = "scan",
        /// Writes ten times the data over the data.
        SustainedPut = "sustained put",
    }
}

impl Operation {
    /// The operations of `cases`, whose workloads have their names.
    #[must_use]
    pub fn of_cases(cases: &[Case]) -> Vec<Self> {
        let workloads = cases.iter().map(|case| case.scenario.workload.as_str());
        workloads.map(Self::from).collect()
    }

    /// The same for many keys at once.
    #[must_use]
    pub fn in_batches(&self) -> Option<Self> {
        match self {
            Self::Put => Some(Self::BatchPut),
            Self::Get => Some(Self::BatchGet),
            Self::Delete => Some(Self::BatchDelete),
            _ => None,
        }
    }
}

/// The results of a comparison of engines besides its cases.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Engines {
    /// The engine that the others are compared with.
    pub reference: String,
    /// Budget for the cache of each engine that has one, in bytes. `None` if it is not known.
    pub memory_bytes: Option<u64>,
    /// Bytes of all keys and values, at the largest value size. `None` if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_bytes: Option<u64>,
    /// The engines in which every single read opens a transaction.
    pub transaction_per_read: Vec<String>,
    /// The operation of each case.
    pub operations: Vec<Operation>,
    /// The footprint of each engine.
    pub footprints: Vec<Footprint>,
    /// Whether the workload is that of the write-up, whose claims are then compared.
    pub is_writeup: bool,
    /// The sentences about needs that former versions wrote.
    #[serde(rename = "needs", skip_serializing)]
    pub former_needs: Vec<String>,
    /// The sentences about claims that former versions wrote.
    #[serde(rename = "writeup", skip_serializing)]
    pub former_claims: Vec<String>,
}

impl Engines {
    /// The operation of the case at `place`.
    #[must_use]
    pub fn operation(&self, place: usize) -> Option<&Operation> {
        self.operations.get(place)
    }
}

/// The memory, disk space and opening time of an engine that holds all keys. Values that were not measured
/// are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Footprint {
    /// The engine.
    pub subject: String,
    /// Its class of durability.
    pub durability: String,
    /// Keys that it holds.
    pub keys: u64,
    /// Bytes of the keys and values that it holds.
    pub live_bytes: u64,
    /// Bytes of the keys and values that were written to it.
    pub logical_bytes: u64,
    /// The growth of its process's resident memory since before it was opened.
    pub memory_bytes: Option<u64>,
    /// The allocated bytes of its files.
    pub disk_bytes: Option<u64>,
    /// Bytes that its process caused to be written to storage (`/proc/PID/io`).
    pub written_bytes: Option<u64>,
    /// Time to open it again after its process was killed, until the first read has returned: the median.
    pub open_ns: Option<u64>,
    /// The number of such measurements.
    pub opens: u64,
    /// Acknowledged writes that were missing afterwards.
    pub lost: Option<u64>,
    /// Allocations of one read, write and removal.
    pub allocations: Option<Allocations>,
}

/// Allocations of an operation, counted in the process of the caller (`malloc`, `calloc`, `realloc`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Allocations {
    /// Per read.
    pub get: f64,
    /// Per write.
    pub put: f64,
    /// Per removal.
    pub delete: f64,
}

/// The option that gives the caches a quarter of `live_bytes`, so that the data exceed them four times.
#[must_use]
pub fn exceeded_budget(live_bytes: u64) -> String {
    format!("--memory {}KiB", (live_bytes / 4 / 1_024).max(1))
}

impl Footprint {
    /// Bytes on disk per byte of keys and values.
    #[must_use]
    pub fn space(&self) -> Option<f64> {
        Some(self.disk_bytes? as f64 / self.live_bytes.max(1) as f64)
    }

    /// Bytes written to storage per written byte of keys and values.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        Some(self.written_bytes? as f64 / self.logical_bytes.max(1) as f64)
    }
}

fn class(case: &Case) -> &str {
    case.scenario.durability.as_deref().unwrap_or_default()
}

/// The lead of `best` in the common rounds.
fn paired(other: &Case, best: &Case) -> Option<Paired> {
    let metric = Metric::Throughput;
    let (a, b) = metric.of_pairs(other, best)?;
    compare::paired(&a, &b, metric.direction(), &Rules::default()).ok()
}

#[cfg(test)]
mod tests;

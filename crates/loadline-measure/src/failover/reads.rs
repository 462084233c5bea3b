//! Reads of writes that were acknowledged before.

use serde::{Deserialize, Serialize};

use super::{History, WriteId};
use crate::vocabulary::vocabulary;

vocabulary! {
    /// The servers that answer reads.
    pub enum ReadFrom {
        /// The master.
        Master = "master",
        /// Replicas.
        Replica = "replica",
    }
}

/// A read of the last write that its reader had acknowledged. Times are nanoseconds since the start of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The write.
    pub write: WriteId,
    /// Its kind: the index in [`History::kinds`].
    pub kind: usize,
    /// Its acknowledgement.
    pub acknowledged_ns: u64,
    /// The call of the read.
    pub invoked_ns: u64,
    /// The end of the read.
    pub completed_ns: u64,
    /// The executions of the write that the value shows; `None` if the read failed.
    pub found: Option<u64>,
}

/// The fate of reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reads {
    /// Reads that were sent.
    pub sent: u64,
    /// Reads that were answered.
    pub answered: u64,
    /// Reads that failed.
    pub failed: u64,
    /// Answers without the acknowledged write; `None` if there were none.
    pub stale: Option<Stale>,
}

/// Reads without a write that their reader had acknowledged before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stale {
    /// Their number.
    pub count: u64,
    /// The call of the first one, in nanoseconds since the start of the load.
    pub from_ns: u64,
    /// The answer to the last one, in nanoseconds since the start of the load.
    pub to_ns: u64,
    /// The longest time from the acknowledgement of a write to a call that does not find it, in nanoseconds.
    pub oldest_ns: u64,
}

impl Reads {
    /// Stale reads.
    #[must_use]
    pub fn stale(&self) -> u64 {
        self.stale.map_or(0, |stale| stale.count)
    }
}

/// Audits the reads of a history. `sent` is what the load counted as it sent.
///
/// # Errors
/// A sentence if they do not add up to what was sent, which is a defect of the program that made the history.
pub fn reads(history: &History, sent: u64) -> Result<Reads, String> {
    let mut reads = Reads {
        sent,
        ..Reads::default()
    };
    for read in &history.reads {
        match read.found {
            None => reads.failed += 1,
            Some(executions) => {
                reads.answered += 1;
                if executions == 0 {
                    reads.stale = Some(Stale::with(reads.stale, read));
                }
            }
        }
    }
    if reads.answered.checked_add(reads.failed) == Some(sent) {
        return Ok(reads);
    }
    Err(format!(
        "{sent} reads were sent, but {} were answered and {} failed",
        reads.answered, reads.failed
    ))
}

impl Stale {
    /// The stale reads `before`, with one more.
    fn with(before: Option<Self>, read: &Read) -> Self {
        let mut stale = before.unwrap_or(Self {
            from_ns: u64::MAX,
            ..Self::default()
        });
        stale.count += 1;
        stale.from_ns = stale.from_ns.min(read.invoked_ns);
        stale.to_ns = stale.to_ns.max(read.completed_ns);
        let age_ns = read.invoked_ns.saturating_sub(read.acknowledged_ns);
        stale.oldest_ns = stale.oldest_ns.max(age_ns);
        stale
    }
}

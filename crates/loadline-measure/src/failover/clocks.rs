//! The times of an outage, as its writers saw it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{History, Kind, Operation, Outcome};
use crate::quantile::median;

/// Writes of which a median is taken, to tell when response times are as before.
const TOGETHER: usize = 50;
/// Response times up to this multiple of those before the fault are as before.
const AS_BEFORE: f64 = 1.1;

/// The times of an outage, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clocks {
    /// From the start of the load to the fault.
    pub fault_ns: u64,
    /// From the fault to the first error or timeout of a writer; `None` if none had one.
    pub detection_ns: Option<u64>,
    /// From the start of the load to its end.
    pub end_ns: u64,
    /// From the fault to its end; `None` if it did not end by itself or has no length.
    pub fault_end_ns: Option<u64>,
    /// From the fault until a server accepted writes again; `None` if it never stopped accepting them or was not watched.
    pub ready_ns: Option<u64>,
    /// From the fault until each writer had a write acknowledged that it called after the fault, the slowest writer
    /// counting; `None` if one had none until the end of the load.
    pub first_write_ns: Option<u64>,
    /// Whether the writers had a pool.
    pub has_pool: bool,
    /// From the fault until the pool had its minimum of usable connections: the end of the first check that began after the
    /// fault and got an answer on each; `None` if there was none until the end of the load.
    pub pool_recovery_ns: Option<u64>,
    /// From the fault until the first of 50 writes, due one after the other, whose median response time was at most 10 %
    /// longer than that before the fault; `None` if there were none, or too few writes before.
    pub recovery_ns: Option<u64>,
    /// The longest time without an acknowledged write of one writer; `None` without writes.
    pub outage: Option<Gap>,
}

/// A stretch without an acknowledged write of one writer. Times are nanoseconds since the start of the load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gap {
    /// The writer.
    pub writer: u32,
    /// The acknowledgement before it, or the start of the load.
    pub from_ns: u64,
    /// The acknowledgement after it, or the end of the load.
    pub to_ns: u64,
    /// Whether the load ended before a write was acknowledged.
    pub is_open: bool,
}

impl Gap {
    /// Its length in nanoseconds.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// The clocks of a history.
#[must_use]
pub fn clocks(history: &History) -> Clocks {
    let fault_ns = history.fault_ns;
    let failed = history.operations.iter();
    let failed = failed.filter(|operation| operation.outcome != Outcome::Acknowledged);
    let seen = failed.map(|operation| operation.completed_ns);
    let detected = seen.filter(|at| *at >= fault_ns).min();
    let writers = by_writer(history);
    // One writer without a write leaves the whole unknown.
    let first_writes: Option<Vec<u64>> = writers
        .values()
        .map(|operations| first_write(operations, fault_ns))
        .collect();
    let gaps = writers
        .iter()
        .map(|(writer, operations)| longest(*writer, operations, history.end_ns));
    let since_fault = |at: u64| at.saturating_sub(fault_ns);
    Clocks {
        fault_ns,
        detection_ns: detected.map(since_fault),
        fault_end_ns: history.fault_end_ns.map(since_fault),
        ready_ns: history.ready_ns.map(since_fault),
        end_ns: history.end_ns,
        has_pool: history.pool_checks.is_some(),
        pool_recovery_ns: pool_recovery(history).map(since_fault),
        recovery_ns: recovery(history).map(since_fault),
        first_write_ns: first_writes
            .and_then(|all| all.into_iter().max())
            .map(since_fault),
        outage: gaps.max_by_key(|gap| (gap.length_ns(), std::cmp::Reverse(gap.writer))),
    }
}

/// The beginning of the longest outage, in nanoseconds since the start of the load: that of a fault whose time is not known.
#[must_use]
pub fn outage_began(history: &History) -> u64 {
    clocks(history).outage.map_or(0, |gap| gap.from_ns)
}

/// When the first of a group of writes was due whose response times were as before.
fn recovery(history: &History) -> Option<u64> {
    let (before, after): (Vec<&Operation>, Vec<&Operation>) = {
        let all = history.operations.iter();
        all.partition(|one| one.due_ns < history.fault_ns)
    };
    let typical = |group: &[&Operation]| {
        // A write without an acknowledgement took longer than any.
        let times = group.iter().map(|one| match one.outcome {
            Outcome::Acknowledged => one.response_ns() as f64,
            _ => f64::INFINITY,
        });
        median(&times.collect::<Vec<f64>>())
    };
    let before = typical(&before).filter(|_| before.len() >= TOGETHER)?;
    let mut after = after;
    after.sort_by_key(|one| one.due_ns);
    let mut groups = after.chunks_exact(TOGETHER);
    let as_before = groups.find(|group| typical(group).is_some_and(|ns| ns <= AS_BEFORE * before));
    Some(as_before?.first()?.due_ns)
}

/// When the pool was usable, by a check that began after the fault.
fn pool_recovery(history: &History) -> Option<u64> {
    let checks = history.pool_checks.iter().flatten();
    let after = checks.filter(|(begun, _)| *begun >= history.fault_ns);
    after.map(|(_, ended)| *ended).min()
}

/// The writes of each writer. Messages count only if there is nothing else: any node of a cluster publishes them, so they are
/// acknowledged while the keys of their writer have no master.
fn by_writer(history: &History) -> BTreeMap<u32, Vec<&Operation>> {
    let mut writers: BTreeMap<u32, Vec<&Operation>> = BTreeMap::new();
    let has_writes = history.kinds.iter().any(|kind| *kind != Kind::Publish);
    let all = history.operations.iter();
    let counting = all.filter(|one| !has_writes || history.kinds[one.kind] != Kind::Publish);
    for operation in counting {
        writers
            .entry(operation.id.writer)
            .or_default()
            .push(operation);
    }
    writers
}

/// The first acknowledgement of a write called after the fault.
fn first_write(operations: &[&Operation], fault_ns: u64) -> Option<u64> {
    let after = operations
        .iter()
        .filter(|operation| operation.invoked_ns >= fault_ns);
    let acknowledged = after.filter(|operation| operation.outcome == Outcome::Acknowledged);
    acknowledged.map(|operation| operation.completed_ns).min()
}

/// The longest stretch of `writer` without an acknowledgement.
fn longest(writer: u32, operations: &[&Operation], end_ns: u64) -> Gap {
    let acknowledged = operations
        .iter()
        .filter(|operation| operation.outcome == Outcome::Acknowledged);
    let mut times: Vec<u64> = acknowledged
        .map(|operation| operation.completed_ns)
        .collect();
    times.sort_unstable();
    let last = times.last().copied().unwrap_or(0);
    let starts = std::iter::once(0).chain(times.iter().copied());
    let gap = |(from_ns, to_ns)| Gap {
        writer,
        from_ns,
        to_ns,
        is_open: false,
    };
    let open = Gap {
        is_open: true,
        ..gap((last, end_ns))
    };
    let closed = starts.zip(times.iter().copied()).map(gap);
    // Of equal stretches, the first one counts.
    closed.fold(open, |longest, next| {
        let is_longer = next.length_ns() > longest.length_ns();
        let is_as_long = next.length_ns() == longest.length_ns() && longest.is_open;
        if is_longer || is_as_long {
            next
        } else {
            longest
        }
    })
}

//! The results of a block.

use std::time::Duration;

use loadline_measure::corrected::Corrected;
use loadline_measure::histogram::Histogram;

use crate::cost::{TargetCost, ThreadCost};
use crate::pauses::{Observed, Pauses};
use crate::reply::Errors;
use crate::stall::{self, Stall};
use crate::waits;

/// All measurements of a block.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Operations answered, errors included.
    pub ops: u64,
    /// Failed operations, by kind: error replies, wrong payloads, and operations without a reply because a
    /// connection was lost or the block ended.
    pub errors: Errors,
    /// Operations that read keys which should exist.
    pub reads: u64,
    /// Replies without a value.
    pub nils: u64,
    /// From the start of the block to the last reply.
    pub duration: Duration,
    /// From the intended start to the reply.
    pub response: Histogram,
    /// From sending to the reply.
    pub service: Histogram,
    /// Lateness of operations by the generator itself (open loop): waiting for a free connection is caused
    /// by the target and not included.
    pub lag: Histogram,
    /// Clock readings: operations whose replies arrived together share one.
    pub clock_reads: u64,
    /// The course of the block, interval by interval.
    pub series: Vec<Interval>,
    /// The longest stalls, in order of time and at most [`MOST_STALLS`](stall::MOST_STALLS). A call that
    /// takes that long is one.
    pub stalls: Vec<Stall>,
    /// Pauses of this machine's CPUs, if they were observed: for loads over connections.
    pub pauses: Option<Pauses>,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Scheduled operations of an open loop.
    pub planned: Option<u64>,
    /// Scheduled operations that were never sent.
    pub not_sent: u64,
    /// The cost of the generator's threads.
    pub generator: ThreadCost,
    /// The target's own figures, if it can be asked.
    pub target: TargetCost,
    /// Memory of connections, if it was measured.
    pub memory: Memory,
    /// Operations executed one at a time directly after the block, with their CPU waiting time, if that was
    /// measured.
    pub tail: Option<Corrected>,
    /// Whether an interrupt ended the block.
    pub cut_short: bool,
}

/// Memory per connection in bytes. Values that were not measured are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Memory {
    /// In the client.
    pub client_bytes_per_connection: Option<f64>,
    /// In the server.
    pub server_bytes_per_connection: Option<f64>,
}

/// One interval of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// The start, counted from the start of the block.
    pub start: Duration,
    /// Operations answered.
    pub ops: u64,
    /// Errors.
    pub errors: u64,
    /// Median response time in nanoseconds; `None` with too few samples.
    pub p50: Option<u64>,
    /// 0.99 quantile of the response time in nanoseconds; `None` with too few samples.
    pub p99: Option<u64>,
}

impl Outcome {
    /// Creates an empty outcome.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            ops: 0,
            errors: Errors::default(),
            reads: 0,
            nils: 0,
            duration: Duration::ZERO,
            response: Histogram::new(),
            service: Histogram::new(),
            lag: Histogram::new(),
            clock_reads: 0,
            series: Vec::new(),
            stalls: Vec::new(),
            pauses: None,
            bytes_in: 0,
            bytes_out: 0,
            planned: None,
            not_sent: 0,
            generator: ThreadCost::default(),
            target: TargetCost::default(),
            memory: Memory::default(),
            tail: None,
            cut_short: false,
        }
    }

    /// Operations per second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        if self.duration.is_zero() {
            0.0
        } else {
            self.ops as f64 / self.duration.as_secs_f64()
        }
    }

    /// Appends a block that ran after this one. Series and stalls are not kept.
    pub fn follow(&mut self, next: &Self) {
        let duration = self.duration + next.duration;
        let (series, stalls) = (
            std::mem::take(&mut self.series),
            std::mem::take(&mut self.stalls),
        );
        self.join(next);
        (self.duration, self.series, self.stalls) = (duration, series, stalls);
    }

    /// Adds what was observed, also to the stalls that it explains.
    pub(crate) fn explain(&mut self, observed: Observed) {
        let Observed { pauses, waits } = observed;
        let list = pauses.iter().flat_map(|pauses| &pauses.list);
        for pause in list {
            let end = pause.start + pause.length;
            for stall in &mut self.stalls {
                let common = end.min(stall.end());
                let overlap = common.saturating_sub(pause.start.max(stall.start));
                stall.paused = stall.paused.max(overlap);
            }
        }
        if let Some(waits) = waits {
            for stall in &mut self.stalls {
                stall.target_wait = Some(waits::within(&waits, stall.start, stall.end()));
            }
        }
        self.pauses = pauses;
    }

    /// Adds the results of another thread in the same block.
    pub(crate) fn join(&mut self, part: &Self) {
        self.ops += part.ops;
        self.errors.merge(&part.errors);
        self.reads += part.reads;
        self.nils += part.nils;
        self.duration = self.duration.max(part.duration);
        self.response.merge(&part.response);
        self.service.merge(&part.service);
        self.lag.merge(&part.lag);
        self.clock_reads += part.clock_reads;
        self.stalls = stall::joined(&self.stalls, &part.stalls);
        self.bytes_in += part.bytes_in;
        self.bytes_out += part.bytes_out;
        self.planned = match (self.planned, part.planned) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        self.not_sent += part.not_sent;
        self.generator.cpu += part.generator.cpu;
        self.generator.run_wait = match (self.generator.run_wait, part.generator.run_wait) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        self.generator.busiest = self.generator.busiest.max(part.generator.busiest);
        self.cut_short |= part.cut_short;
    }
}

//! What a block gives back.

use std::time::Duration;

use loadline_measure::corrected::Corrected;
use loadline_measure::histogram::Histogram;

use crate::pauses::Pause;
use crate::reply::Errors;
use crate::stall::{self, Stall};

/// Everything measured in one block.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Operations answered, errors included.
    pub ops: u64,
    /// Operations that did not get what they asked for, by kind: error replies, wrong payloads,
    /// operations that a lost connection or the end of the block left without a reply.
    pub errors: Errors,
    /// Operations that read keys meant to be there.
    pub reads: u64,
    /// Replies that said that nothing is there.
    pub nils: u64,
    /// From the start of the block to the last reply.
    pub duration: Duration,
    /// From the intended start to the reply.
    pub response: Histogram,
    /// From the sending to the reply.
    pub service: Histogram,
    /// How much later than intended the generator itself started operations (open loop): waiting
    /// for a free connection is the target's doing and does not count here.
    pub lag: Histogram,
    /// Times that were taken: operations whose replies came together share one.
    pub clock_reads: u64,
    /// The course of the block, interval by interval.
    pub series: Vec<Interval>,
    /// Stretches in which operations waited and nothing arrived, in order of time: the longest, at most
    /// [`MOST_STALLS`](stall::MOST_STALLS). A call that takes that long is one.
    pub stalls: Vec<Stall>,
    /// When CPUs of this machine did not run, where that was watched: over connections.
    pub pauses: Option<Pauses>,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Operations that the schedule of an open loop held.
    pub planned: Option<u64>,
    /// Those of them that were never sent.
    pub not_sent: u64,
    /// What the generator's threads cost.
    pub generator: ThreadCost,
    /// What the target says about its side of the block, where it can be asked.
    pub target: TargetCost,
    /// What connections took in memory, where that was looked at.
    pub memory: Memory,
    /// Operations run one at a time directly after the block, with what each waited for a CPU, where
    /// that was looked at.
    pub tail: Option<Corrected>,
    /// Whether an interrupt ended the block.
    pub cut_short: bool,
}

/// What connections take in memory, in bytes. What was not looked at is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Memory {
    /// In the client, for each connection.
    pub client_bytes_per_connection: Option<f64>,
    /// In the server, for each connection.
    pub server_bytes_per_connection: Option<f64>,
}

/// When CPUs of this machine did not run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pauses {
    /// CPUs that were watched.
    pub cpus: usize,
    /// Whether they were watched in real time. Without it, pauses below 10 ms are not seen, and other
    /// threads on a CPU may look like one.
    pub real_time: bool,
    /// The sum of all pauses.
    pub total: Duration,
    /// CPU time that all processes of this machine used together, where the system tells, in steps of 10 ms.
    pub busy: Option<Duration>,
    /// CPU time that the host gave to others (steal), of all CPUs together, in steps of 10 ms.
    pub stolen: Option<Duration>,
    /// The pauses in order of time.
    pub list: Vec<Pause>,
}

/// One interval of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// Where it starts, from the start of the block.
    pub start: Duration,
    /// Operations answered in it.
    pub ops: u64,
    /// Errors in it.
    pub errors: u64,
    /// Median response time in nanoseconds; `None` with too few samples.
    pub p50: Option<u64>,
    /// 0.99 quantile of the response time in nanoseconds; `None` with too few samples.
    pub p99: Option<u64>,
}

/// What threads cost the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ThreadCost {
    /// CPU time of all threads together.
    pub cpu: Duration,
    /// Time they were runnable but had to wait for a CPU (Linux: schedstat).
    pub run_wait: Option<Duration>,
    /// The share of its wall time that the busiest thread worked on a CPU, 0 to 1. Waiting awake is no work.
    pub busiest: f64,
}

/// What the target did meanwhile, as it says itself. Of several servers it is their sum, where nothing
/// else is said.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TargetCost {
    /// CPU time it used.
    pub cpu: Option<Duration>,
    /// CPU time that the server used which used most.
    pub busiest: Option<Duration>,
    /// Time it was runnable but had to wait for a CPU, where it runs on this machine; of several
    /// threads or servers that of the one which waited longest.
    pub run_wait: Option<Duration>,
    /// Commands it counted.
    pub commands: Option<u64>,
    /// Time it says it spent executing commands.
    pub execution: Option<Duration>,
    /// Connections it accepted.
    pub connections: Option<u64>,
}

impl Outcome {
    /// An outcome with nothing in it yet.
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

    /// Adds a block that ran after this one, as if both were one: of its course and its stalls nothing is kept.
    pub fn follow(&mut self, next: &Self) {
        let duration = self.duration + next.duration;
        let (series, stalls) = (
            std::mem::take(&mut self.series),
            std::mem::take(&mut self.stalls),
        );
        self.join(next);
        (self.duration, self.series, self.stalls) = (duration, series, stalls);
    }

    /// Adds what the watchers of the CPUs saw, also to the stalls that it explains.
    pub(crate) fn explain(&mut self, pauses: Option<Pauses>) {
        let list = pauses.iter().flat_map(|pauses| &pauses.list);
        for pause in list {
            let end = pause.start + pause.length;
            for stall in &mut self.stalls {
                let common = end.min(stall.end());
                let overlap = common.saturating_sub(pause.start.max(stall.start));
                stall.paused = stall.paused.max(overlap);
            }
        }
        self.pauses = pauses;
    }

    /// Adds the part of another thread that ran in the same block.
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

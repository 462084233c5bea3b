//! The results of a block.

use std::time::{Duration, SystemTime};

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
    /// The start by the clock of this machine; `None` if it was not read.
    pub began: Option<SystemTime>,
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
    /// Response times in the intervals in which no CPU of this machine paused and the target did not wait for one, nor
    /// had just before. Known of an open loop over connections in one window.
    pub calm: Option<Histogram>,
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
#[derive(Debug, Clone, PartialEq)]
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
    /// The response times, in a block that keeps them until its end.
    pub(crate) response: Option<Histogram>,
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
            began: None,
            duration: Duration::ZERO,
            response: Histogram::new(),
            service: Histogram::new(),
            lag: Histogram::new(),
            clock_reads: 0,
            series: Vec::new(),
            stalls: Vec::new(),
            pauses: None,
            calm: None,
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
        let waits = waits.inspect(|waits| {
            for stall in &mut self.stalls {
                stall.target_wait = Some(waits::within(waits, stall.start, stall.end()));
            }
        });
        let mut disturbed: Vec<(Duration, Duration)> = Vec::new();
        let list = pauses.iter().flat_map(|pauses| &pauses.list);
        disturbed.extend(list.map(|pause| (pause.start, pause.length)));
        let list = waits.iter().flatten();
        disturbed.extend(list.map(|wait| (wait.start, wait.end - wait.start)));
        self.calm = self.take_calm(&disturbed);
        self.pauses = pauses;
    }

    /// The response times in the intervals that no disturbance, given by its start and length, was in, nor ended less
    /// than its length before; operations that it delayed are answered meanwhile. The intervals lose their times.
    fn take_calm(&mut self, disturbed: &[(Duration, Duration)]) -> Option<Histogram> {
        let mut calm: Option<Histogram> = None;
        let mut end = Duration::MAX;
        for interval in self.series.iter_mut().rev() {
            let times = interval.response.take()?;
            let touches = |(at, length): &(Duration, Duration)| {
                *at < end && *at + *length * 2 > interval.start
            };
            let calm = calm.get_or_insert_default();
            if !disturbed.iter().any(touches) {
                calm.merge(&times);
            }
            end = interval.start;
        }
        calm
    }

    /// Adds the results of another thread in the same block.
    pub(crate) fn join(&mut self, part: &Self) {
        self.ops += part.ops;
        self.errors.merge(&part.errors);
        self.reads += part.reads;
        self.nils += part.nils;
        self.began = self.began.into_iter().chain(part.began).min();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pauses::Pause;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Ten intervals of 100 ms; an operation in the n-th takes n milliseconds.
    fn ten_intervals() -> Outcome {
        let interval = |number: u64| {
            let mut response = Histogram::new();
            response.record(number * 1_000_000);
            Interval {
                start: ms(100 * number),
                ops: 1,
                errors: 0,
                p50: None,
                p99: None,
                response: Some(response),
            }
        };
        Outcome {
            series: (0..10).map(interval).collect(),
            ..Outcome::empty()
        }
    }

    #[test]
    fn intervals_in_a_pause_and_as_long_after_it_are_not_calm() {
        let mut outcome = ten_intervals();
        let pause = |start, length| Pause {
            start: ms(start),
            length: ms(length),
            cpu: 0,
        };
        let wait = |start, end| waits::Wait {
            start: ms(start),
            end: ms(end),
            length: ms(4),
        };
        outcome.explain(Observed {
            pauses: Some(Pauses {
                list: vec![pause(150, 30), pause(410, 60)],
                ..Pauses::default()
            }),
            waits: Some(vec![wait(895, 900)]),
        });
        let calm = outcome.calm.unwrap();
        // Those that begin at 100, 200, 400, 500, 800 and 900 ms are disturbed.
        assert_eq!(calm.count(), 4);
        let of = |q| calm.value_at(q).map(|ns| ns / 1_000_000);
        let all = [of(0.25), of(0.5), of(0.75), of(1.0)];
        assert_eq!(all, [Some(0), Some(3), Some(6), Some(7)]);
        assert!(outcome.series.iter().all(|one| one.response.is_none()));
    }

    #[test]
    fn block_without_times_of_its_intervals_has_no_calm_ones() {
        let mut outcome = ten_intervals();
        outcome.series[4].response = None;
        outcome.explain(Observed::default());
        assert_eq!(outcome.calm, None);
    }
}

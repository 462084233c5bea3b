//! The loop of one calling thread.

use std::time::Duration;

use super::{AHEAD, Callee, SHORT_CALL_NS, TIMED_RUN};
use crate::block::Share;
use crate::clock::{ThreadMeter, thread_cpu_ns};
use crate::meter::Meter;
use crate::outcome::Outcome;
use crate::pacing::Arrivals;
use crate::reply::{Reply, Tally};
use crate::stall::SHORTEST_STALL_NS;
use crate::values::Values;
use crate::workload::{Chooser, Workload, cumulative_weights};

/// The last part of the wait for a start is spent awake, because sleeps end late.
const AWAKE_NS: u64 = 80_000;
/// The longest sleep before the interrupt is checked again.
const LONGEST_SLEEP_NS: u64 = 20_000_000;

/// The state of one thread for the lifetime of the callers.
pub(super) struct Worker<C> {
    callee: C,
    chooser: Chooser,
    cumulative: Vec<u32>,
    verify: bool,
    /// The prepared operations.
    ready: Vec<Ready>,
}

/// A prepared operation.
#[derive(Debug, Clone, Copy)]
struct Ready {
    reads: bool,
    /// The key whose payload the reply must be, if replies are verified.
    expected: Option<u64>,
}

impl<C: Callee> Worker<C> {
    pub(super) fn new(workload: &Workload, callee: C, chooser: Chooser, verify: bool) -> Self {
        Self {
            callee,
            chooser,
            cumulative: cumulative_weights(workload.commands()),
            verify,
            ready: Vec::with_capacity(AHEAD),
        }
    }

    /// Runs this thread's share of a block.
    pub(super) fn run(&mut self, workload: &Workload, share: &Share<'_>) -> Outcome {
        Running {
            meter: Meter::new(share.board, share.control),
            tally: Tally::default(),
            quota: share.ops,
            per_call: self.callee.ops_per_call(),
            spent_ns: 0,
            cpu_ns: 0,
            worker: self,
            workload,
            share,
        }
        .run()
    }

    fn prepare(&mut self, count: usize, workload: &Workload) {
        self.ready.clear();
        for place in 0..count {
            let number = self.chooser.command(&self.cumulative);
            self.callee
                .prepare(place, number, &mut self.chooser, workload);
            let command = &workload.commands()[number];
            self.ready.push(Ready {
                reads: command.reads,
                expected: (self.verify && command.returns_payload).then(|| self.chooser.last_key()),
            });
        }
    }
}

/// The state of a running block.
struct Running<'r, C> {
    worker: &'r mut Worker<C>,
    workload: &'r Workload,
    share: &'r Share<'r>,
    meter: Meter<'r>,
    tally: Tally,
    /// The number of operations left.
    quota: u64,
    per_call: u64,
    /// Time in calls.
    spent_ns: u64,
    /// CPU time in calls.
    cpu_ns: u64,
}

impl<C: Callee> Running<'_, C> {
    fn run(mut self) -> Outcome {
        let thread = ThreadMeter::start();
        let end_ns = match self.share.arrivals.clone() {
            None => self.closed(),
            Some(arrivals) => self.open(arrivals),
        };
        self.meter.tick(end_ns);
        self.meter.part.errors = self.tally.errors;
        self.meter.part.nils = self.tally.nils;
        self.meter.part.duration = Duration::from_nanos(self.spent_ns.max(1));
        let mut part = self.meter.finish();
        part.generator = thread.stop_at(self.cpu_ns, 0);
        part
    }

    /// Performs operations in sequence until the block is over; returns its end.
    fn closed(&mut self) -> u64 {
        let mut short = false;
        for run in 0_u64.. {
            let now_ns = self.share.clock.now_ns();
            self.note(now_ns);
            if self.is_over(now_ns) {
                return now_ns;
            }
            // Calls of many operations are large, so fewer of them are prepared.
            let most = (AHEAD as u64 / self.per_call).max(1);
            let count = self.quota.div_ceil(self.per_call).min(most) as usize;
            self.worker.prepare(count, self.workload);
            let (before_ns, cpu_ns) = (self.spent_ns, thread_cpu_ns());
            let done = if short && !run.is_multiple_of(TIMED_RUN) {
                self.perform_untimed(count)
            } else {
                self.perform_timed(count)
            };
            self.cpu_ns += thread_cpu_ns() - cpu_ns;
            self.quota = self.quota.saturating_sub(done * self.per_call);
            short = !C::ARMS
                && !self.worker.verify
                && (self.spent_ns - before_ns) < SHORT_CALL_NS * done.max(1);
        }
        unreachable!("the runs of a block are counted in 64 bits")
    }

    fn is_over(&mut self, now_ns: u64) -> bool {
        self.meter.part.cut_short = self.share.control.interrupted();
        self.meter.part.cut_short || self.quota == 0 || now_ns >= self.share.deadline_ns
    }

    /// Performs the prepared operations and times them as a whole.
    fn perform_untimed(&mut self, count: usize) -> u64 {
        let begin_ns = self.share.clock.now_ns();
        for place in 0..count {
            let reply = self.worker.callee.perform(place);
            judge(
                reply,
                self.worker.ready[place],
                self.workload.values(),
                &mut self.tally,
            );
        }
        self.spent_ns += self.share.clock.now_ns() - begin_ns;
        self.meter.count(count as u64 * self.per_call);
        self.count_reads(count);
        count as u64
    }

    /// Performs the prepared operations and times each; stops at the end of the block.
    fn perform_timed(&mut self, count: usize) -> u64 {
        for place in 0..count {
            self.worker.callee.arm(place);
            let begin_ns = self.share.clock.now_ns();
            if begin_ns >= self.share.deadline_ns || self.share.control.interrupted() {
                self.count_reads(place);
                return place as u64;
            }
            self.perform_one(place, begin_ns, begin_ns);
        }
        self.count_reads(count);
        count as u64
    }

    /// Performs one operation with the intended start `intended_ns`; returns its end.
    fn perform_one(&mut self, place: usize, intended_ns: u64, begin_ns: u64) -> u64 {
        let reply = self.worker.callee.perform(place);
        let done_ns = self.share.clock.now_ns();
        judge(
            reply,
            self.worker.ready[place],
            self.workload.values(),
            &mut self.tally,
        );
        if done_ns - begin_ns >= SHORTEST_STALL_NS {
            self.meter.arrived(begin_ns);
            let waited_ns = self.meter.run_waited_ns();
            self.meter
                .quiet(done_ns, intended_ns, self.per_call, waited_ns, true);
        }
        self.meter.arrived(done_ns);
        self.spent_ns += done_ns - begin_ns;
        self.meter
            .record(done_ns, intended_ns, begin_ns, self.per_call);
        done_ns
    }

    fn count_reads(&mut self, count: usize) {
        let reads = self.worker.ready[..count]
            .iter()
            .filter(|ready| ready.reads)
            .count();
        self.meter.part.reads += reads as u64 * self.per_call;
    }

    /// Performs operations at their intended starts, or later if the previous one took too long; returns the
    /// end of the block.
    fn open(&mut self, mut arrivals: Arrivals) -> u64 {
        let mut free_ns = self.share.clock.now_ns();
        let mut stalled_ns = 0;
        let end_ns = loop {
            let now_ns = self.share.clock.now_ns();
            self.note(now_ns);
            self.meter.part.cut_short = self.share.control.interrupted();
            let intended_ns = arrivals.next_ns();
            // A thread that lost its CPU between two calls is itself late.
            let late_ns = now_ns.saturating_sub(intended_ns.max(free_ns));
            stalled_ns = self.meter.stalled_ns().max(stalled_ns).max(late_ns);
            if self.meter.part.cut_short
                || self.quota == 0
                || intended_ns >= self.share.deadline_ns
                || self.share.is_out_of_time(now_ns, intended_ns, stalled_ns)
            {
                break now_ns;
            }
            let ahead_ns = intended_ns.saturating_sub(now_ns);
            if ahead_ns > AWAKE_NS {
                let sleep_ns = (ahead_ns - AWAKE_NS).min(LONGEST_SLEEP_NS);
                std::thread::sleep(Duration::from_nanos(sleep_ns));
                continue;
            }
            self.worker.prepare(1, self.workload);
            self.worker.callee.arm(0);
            let begin_ns = self.wait_awake(intended_ns);
            let ready_ns = intended_ns.max(free_ns);
            self.meter
                .part
                .lag
                .record(begin_ns.saturating_sub(ready_ns));
            let cpu_ns = thread_cpu_ns();
            free_ns = self.perform_one(0, intended_ns, begin_ns);
            self.cpu_ns += thread_cpu_ns() - cpu_ns;
            self.count_reads(1);
            // A call of several operations starts when the first of them is due.
            (0..self.per_call).for_each(|_| arrivals.advance());
            self.quota = self.quota.saturating_sub(self.per_call);
        };
        let part = &mut self.meter.part;
        part.not_sent = self
            .share
            .not_sent(arrivals, end_ns, part.cut_short, self.quota);
        part.planned = Some(self.share.ops - self.quota + part.not_sent);
        // An open loop waits between calls, and that time belongs to the block.
        self.spent_ns = end_ns;
        end_ns
    }

    /// Waits until `start_ns` without sleeping, and returns the time.
    fn wait_awake(&self, start_ns: u64) -> u64 {
        loop {
            let now_ns = self.share.clock.now_ns();
            if now_ns >= start_ns {
                return now_ns;
            }
            std::hint::spin_loop();
        }
    }

    fn note(&mut self, now_ns: u64) {
        self.meter.tick(now_ns);
        self.meter.part.errors.clone_from(&self.tally.errors);
    }
}

/// Counts a reply by its content.
#[inline]
fn judge(reply: Reply<'_>, ready: Ready, values: &Values, tally: &mut Tally) {
    tally.replies += 1;
    match (reply, ready.expected) {
        (Reply::Error(sentence), _) => tally.errors.count(sentence),
        (Reply::Nil, _) => tally.nils += u64::from(ready.reads),
        (Reply::Payload(payload), Some(key)) if !values.matches(key, payload) => {
            tally.errors.add("MISMATCH", 1);
        }
        (Reply::Other, Some(_)) => tally.errors.add("MISMATCH", 1),
        _ => {}
    }
}

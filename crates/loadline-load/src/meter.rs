//! Recorders of the loops' threads: a histogram per thread, and intervals that all threads of a block share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loadline_measure::histogram::Histogram;

use crate::clock::run_wait_ns;
use crate::outcome::{Interval, Outcome};
use crate::stall::{SHORTEST_STALL_NS, Stall, Stalls};

/// State of a running block shared with other threads: an interrupt flag and a progress counter.
#[derive(Debug, Default)]
pub struct Control {
    /// Set to end the block soon; results so far are still returned.
    pub interrupt: Arc<AtomicBool>,
    /// Operations answered so far, updated several times per second.
    pub progress: AtomicU64,
}

impl Control {
    /// Whether the block should end.
    #[inline]
    #[must_use]
    pub fn interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }
}

/// The intervals of a block, combined from all threads.
#[derive(Debug)]
pub(crate) struct Board {
    interval_ns: u64,
    threads: usize,
    state: Mutex<BoardState>,
}

#[derive(Debug, Default)]
struct BoardState {
    open: BTreeMap<u64, Slot>,
    done: Vec<Interval>,
}

#[derive(Debug)]
struct Slot {
    contributions: usize,
    ops: u64,
    errors: u64,
    response: Histogram,
}

impl Board {
    pub(crate) fn new(interval: Duration, threads: usize) -> Self {
        Self {
            interval_ns: (interval.as_nanos() as u64).max(1),
            threads,
            state: Mutex::default(),
        }
    }

    fn contribute(&self, index: u64, ops: u64, errors: u64, response: &Histogram) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = state.open.entry(index).or_insert_with(|| Slot {
            contributions: 0,
            ops: 0,
            errors: 0,
            response: Histogram::new(),
        });
        slot.contributions += 1;
        slot.ops += ops;
        slot.errors += errors;
        slot.response.merge(response);
        if slot.contributions == self.threads {
            let slot = state
                .open
                .remove(&index)
                .expect("the slot was there a line ago");
            state.done.push(self.finished(index, &slot));
        }
    }

    fn finished(&self, index: u64, slot: &Slot) -> Interval {
        Interval {
            start: Duration::from_nanos(index * self.interval_ns),
            ops: slot.ops,
            errors: slot.errors,
            p50: slot.response.quantile(0.5),
            p99: slot.response.quantile(0.99),
        }
    }

    /// The intervals in order. Intervals that some threads have not reached are incomplete.
    pub(crate) fn into_series(self) -> Vec<Interval> {
        let state = std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner));
        let mut series = state.done;
        for (index, slot) in &state.open {
            series.push(self.finished(*index, slot));
        }
        series.sort_unstable_by_key(|interval| interval.start);
        series
    }
}

/// The recorder of one thread.
#[derive(Debug)]
pub(crate) struct Meter<'b> {
    pub(crate) part: Outcome,
    board: &'b Board,
    control: &'b Control,
    interval: Histogram,
    interval_index: u64,
    interval_end_ns: u64,
    errors_reported: u64,
    ops_reported: u64,
    stalls: Stalls,
    /// The length of the longest stall.
    stalled_ns: u64,
    /// The time of the last arrival.
    arrived_ns: u64,
    /// The time that the thread has been off its CPU since then, by its own clock.
    away_ns: u64,
    /// The thread's total waiting time for a CPU when the current interval began.
    run_wait_ns: Option<u64>,
}

impl<'b> Meter<'b> {
    pub(crate) fn new(board: &'b Board, control: &'b Control) -> Self {
        Self {
            part: Outcome::empty(),
            board,
            control,
            interval: Histogram::new(),
            interval_index: 0,
            interval_end_ns: board.interval_ns,
            errors_reported: 0,
            ops_reported: 0,
            stalls: Stalls::default(),
            stalled_ns: 0,
            arrived_ns: 0,
            away_ns: 0,
            run_wait_ns: run_wait_ns(),
        }
    }

    /// Records `ops` operations with an intended start at `intended_ns`, sent at `sent_ns` and answered at
    /// `now_ns`.
    #[inline]
    pub(crate) fn record(&mut self, now_ns: u64, intended_ns: u64, sent_ns: u64, ops: u64) {
        let response_ns = now_ns.saturating_sub(intended_ns);
        self.part.ops += ops;
        self.part.clock_reads += 1;
        self.part.response.record_n(response_ns, ops);
        self.part
            .service
            .record_n(now_ns.saturating_sub(sent_ns), ops);
        self.interval.record_n(response_ns, ops);
    }

    /// Counts `ops` operations that were not timed individually.
    #[inline]
    pub(crate) fn count(&mut self, ops: u64) {
        self.part.ops += ops;
    }

    /// Whether nothing has arrived for so long that an arrival at `now_ns` ends a stall.
    #[inline]
    pub(crate) fn is_quiet(&self, now_ns: u64) -> bool {
        self.quiet_ns(now_ns) >= SHORTEST_STALL_NS
    }

    /// Records an arrival that ends no stall.
    #[inline]
    pub(crate) fn arrived(&mut self, now_ns: u64) {
        self.arrived_ns = now_ns;
        self.away_ns = 0;
    }

    /// The time without an arrival until `now_ns`.
    pub(crate) fn quiet_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.arrived_ns)
    }

    /// The length of the longest stall that has ended.
    pub(crate) fn stalled_ns(&self) -> u64 {
        self.stalled_ns
    }

    /// Records a step of `step_ns` between two clock readings, in which the thread was off its CPU.
    pub(crate) fn away(&mut self, step_ns: u64) {
        self.away_ns += step_ns;
    }

    /// Records that nothing arrived until `now_ns`, while the oldest of `in_flight` operations had waited
    /// since its intended start at `waiting_ns`.
    #[cold]
    pub(crate) fn quiet(&mut self, now_ns: u64, waiting_ns: u64, in_flight: u64, answered: bool) {
        let start_ns = waiting_ns.max(self.arrived_ns);
        let length_ns = now_ns.saturating_sub(start_ns);
        if length_ns < SHORTEST_STALL_NS {
            return;
        }
        self.stalled_ns = self.stalled_ns.max(length_ns);
        let run_wait_ns = run_wait_ns().zip(self.run_wait_ns);
        let run_wait_ns = run_wait_ns.map_or(0, |(now, before)| now.saturating_sub(before));
        self.stalls.add(Stall {
            start: Duration::from_nanos(start_ns),
            length: Duration::from_nanos(length_ns),
            in_flight,
            generator: Duration::from_nanos(run_wait_ns.max(self.away_ns).min(length_ns)),
            paused: Duration::ZERO,
            answered,
        });
    }

    /// Closes the intervals that have ended by `now_ns`.
    #[inline]
    pub(crate) fn tick(&mut self, now_ns: u64) {
        if now_ns < self.interval_end_ns {
            return;
        }
        while now_ns >= self.interval_end_ns {
            self.close_interval();
        }
        // A long stall begins in an earlier interval, which has its own waiting time.
        if !self.is_quiet(now_ns) {
            self.run_wait_ns = run_wait_ns();
        }
    }

    fn close_interval(&mut self) {
        let errors = self.part.errors.total();
        let ops = self.part.ops - self.ops_reported;
        self.board.contribute(
            self.interval_index,
            ops,
            errors - self.errors_reported,
            &self.interval,
        );
        self.control.progress.fetch_add(ops, Ordering::Relaxed);
        self.errors_reported = errors;
        self.ops_reported = self.part.ops;
        self.interval.reset();
        self.interval_index += 1;
        self.interval_end_ns += self.board.interval_ns;
    }

    /// Adds the last, partial interval and returns the thread's results.
    pub(crate) fn finish(mut self) -> Outcome {
        self.close_interval();
        self.part.stalls = self.stalls.into_sorted();
        self.part
    }
}

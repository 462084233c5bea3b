//! Recorders of the loops' threads: a histogram per thread, and intervals that all threads of a block share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loadline_measure::histogram::Histogram;

use crate::clock::RunQueue;
use crate::group::{Live, StartGate};
use crate::outcome::{Interval, Outcome};
use crate::stall::{SHORTEST_STALL_NS, Stall, Stalls};

/// State of a running block shared with other threads: an interrupt flag and a progress counter.
#[derive(Debug, Default)]
pub struct Control {
    /// Set to end the block soon; results so far are still returned.
    pub interrupt: Arc<AtomicBool>,
    /// Operations answered so far, updated several times per second.
    pub progress: AtomicU64,
    /// The common start of the next block of several load generators.
    pub start: StartGate,
    /// Results of measured blocks while they run; `None` if they are not read.
    pub live: Option<Live>,
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
    /// Whether intervals keep their response times.
    is_keeping: bool,
    state: Mutex<BoardState>,
    /// Set when a thread has failed.
    abandoned: AtomicBool,
}

#[derive(Debug, Default)]
struct BoardState {
    /// Intervals that not all threads have reached the end of, by their start in nanoseconds.
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
            is_keeping: false,
            state: Mutex::default(),
            abandoned: AtomicBool::new(false),
        }
    }

    /// The same, whose intervals keep their response times.
    pub(crate) fn keeping(self) -> Self {
        Self {
            is_keeping: true,
            ..self
        }
    }

    /// Tells all threads to end the block soon, because one of them has failed.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    fn contribute(&self, start_ns: u64, ops: u64, errors: u64, response: &Histogram) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.threads == 1 {
            state
                .done
                .push(self.interval(start_ns, ops, errors, response));
            return;
        }
        let slot = state.open.entry(start_ns).or_insert_with(|| Slot {
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
                .remove(&start_ns)
                .expect("the slot was there a line ago");
            state.done.push(self.interval_of(start_ns, &slot));
        }
    }

    /// The intervals in order. Intervals that some threads have not reached are incomplete.
    pub(crate) fn into_series(self) -> Vec<Interval> {
        let state = std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner));
        let mut series = state.done;
        for (start_ns, slot) in state.open {
            series.push(self.interval_of(start_ns, &slot));
        }
        series.sort_unstable_by_key(|interval| interval.start);
        series
    }

    fn interval_of(&self, start_ns: u64, slot: &Slot) -> Interval {
        self.interval(start_ns, slot.ops, slot.errors, &slot.response)
    }

    fn interval(&self, start_ns: u64, ops: u64, errors: u64, response: &Histogram) -> Interval {
        Interval {
            start: Duration::from_nanos(start_ns),
            ops,
            errors,
            p50: response.quantile(0.5),
            p99: response.quantile(0.99),
            response: self.is_keeping.then(|| response.clone()),
        }
    }
}

/// The recorder of one thread. Intervals never extend over the end of a window.
#[derive(Debug)]
pub(crate) struct Meter<'b> {
    /// The results of the current window. Its response times are those of the intervals that are over.
    pub(crate) part: Outcome,
    /// The results of the windows before it.
    done: Vec<Outcome>,
    /// The ends of the current window and those after it, from the start of the block. The last one is open.
    windows_ns: &'b [u64],
    window_start_ns: u64,
    board: &'b Board,
    control: &'b Control,
    interval: Histogram,
    interval_start_ns: u64,
    interval_end_ns: u64,
    errors_reported: u64,
    ops_reported: u64,
    stalls: Stalls,
    /// The sum of all long stalls.
    stalled_ns: u64,
    /// The time of the last arrival.
    arrived_ns: u64,
    /// The thread's waits for a CPU, and their sum when the current interval began. `None` if the loop knows
    /// better when it waited.
    run_queue: Option<RunQueue>,
    run_wait_ns: Option<u64>,
}

/// The shortest stall after which operations may wait.
const LONG_STALL_NS: u64 = 20_000_000;
/// The same in multiples of the median service time: on a slow path every operation takes long.
const LONG_STALL_OPERATIONS: u64 = 3;

impl<'b> Meter<'b> {
    /// A recorder for a thread whose waits for a CPU delay its operations.
    pub(crate) fn new(board: &'b Board, control: &'b Control) -> Self {
        let run_queue = RunQueue::own();
        Self {
            run_wait_ns: run_queue.wait_ns(),
            run_queue: Some(run_queue),
            ..Self::over(&[], board, control)
        }
    }

    /// A recorder over the windows that end at `windows_ns`; one window without any.
    pub(crate) fn over(windows_ns: &'b [u64], board: &'b Board, control: &'b Control) -> Self {
        let mut meter = Self {
            part: Outcome::empty(),
            done: Vec::new(),
            windows_ns,
            window_start_ns: 0,
            board,
            control,
            interval: Histogram::new(),
            interval_start_ns: 0,
            interval_end_ns: 0,
            errors_reported: 0,
            ops_reported: 0,
            stalls: Stalls::default(),
            stalled_ns: 0,
            arrived_ns: 0,
            run_queue: None,
            run_wait_ns: None,
        };
        meter.begin_interval();
        meter
    }

    /// Records `ops` operations with an intended start at `intended_ns`, sent at `sent_ns` and answered at
    /// `now_ns`.
    #[inline]
    pub(crate) fn record(&mut self, now_ns: u64, intended_ns: u64, sent_ns: u64, ops: u64) {
        let response_ns = now_ns.saturating_sub(intended_ns);
        self.part.ops += ops;
        self.part.clock_reads += 1;
        self.interval.record_n(response_ns, ops);
        self.part
            .service
            .record_n(now_ns.saturating_sub(sent_ns), ops);
    }

    /// Counts `ops` operations that were not timed individually.
    #[inline]
    pub(crate) fn count(&mut self, ops: u64) {
        self.part.ops += ops;
    }

    /// Whether the time without an arrival is so long that an arrival at `now_ns` ends a stall.
    #[inline]
    pub(crate) fn is_quiet(&self, now_ns: u64) -> bool {
        self.quiet_ns(now_ns) >= SHORTEST_STALL_NS
    }

    /// Records an arrival that ends no stall.
    #[inline]
    pub(crate) fn arrived(&mut self, now_ns: u64) {
        self.arrived_ns = now_ns;
    }

    /// The time without an arrival until `now_ns`.
    pub(crate) fn quiet_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.arrived_ns)
    }

    /// The sum of the long stalls that have ended.
    pub(crate) fn stalled_ns(&self) -> u64 {
        self.stalled_ns
    }

    /// The start of a stall in which the first of the waiting operations was due at `waiting_ns`.
    pub(crate) fn stalled_since_ns(&self, waiting_ns: u64) -> u64 {
        waiting_ns.max(self.arrived_ns)
    }

    /// The thread's waits for a CPU in the current interval.
    pub(crate) fn run_waited_ns(&self) -> u64 {
        let now_ns = self.run_queue.as_ref().and_then(RunQueue::wait_ns);
        let waited = now_ns.zip(self.run_wait_ns);
        waited.map_or(0, |(now_ns, before_ns)| now_ns.saturating_sub(before_ns))
    }

    /// Records that nothing arrived until `now_ns`, while the oldest of `in_flight` operations had waited
    /// since its intended start at `waiting_ns`. The generator caused `generator_ns` of it.
    #[cold]
    pub(crate) fn quiet(
        &mut self,
        now_ns: u64,
        waiting_ns: u64,
        in_flight: u64,
        generator_ns: u64,
        answered: bool,
    ) {
        let start_ns = self.stalled_since_ns(waiting_ns);
        let length_ns = now_ns.saturating_sub(start_ns);
        if length_ns < SHORTEST_STALL_NS {
            return;
        }
        // The median takes a walk over the histogram, which must not make the next stall.
        let is_long = || {
            let median_ns = self.part.service.value_at(0.5).unwrap_or(0);
            length_ns >= LONG_STALL_OPERATIONS.saturating_mul(median_ns)
        };
        if length_ns >= LONG_STALL_NS && is_long() {
            self.stalled_ns += length_ns;
        }
        self.stalls.add(Stall {
            start: Duration::from_nanos(start_ns),
            length: Duration::from_nanos(length_ns),
            in_flight,
            generator: Duration::from_nanos(generator_ns.min(length_ns)),
            paused: Duration::ZERO,
            target_wait: None,
            answered,
        });
    }

    /// Closes the intervals that have ended by `now_ns`, in a block of one window.
    #[inline]
    pub(crate) fn tick(&mut self, now_ns: u64) {
        if self.is_due(now_ns) {
            let _ = self.close_due(now_ns);
        }
    }

    /// Whether an interval has ended by `now_ns`.
    #[inline]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.interval_end_ns
    }

    /// Closes the intervals of the current window that have ended by `now_ns`. If the window ended as well,
    /// returns its length; [`next_window`](Self::next_window) must follow.
    pub(crate) fn close_due(&mut self, now_ns: u64) -> Option<Duration> {
        while self.is_due(now_ns) {
            self.close_interval();
            if self.interval_start_ns == self.window_end_ns() {
                let length_ns = self.interval_start_ns - self.window_start_ns;
                return Some(Duration::from_nanos(length_ns));
            }
        }
        // A long stall begins in an earlier interval, which has its own waiting time.
        if !self.is_quiet(now_ns) {
            self.run_wait_ns = self.run_queue.as_ref().and_then(RunQueue::wait_ns);
        }
        None
    }

    /// Begins the next window.
    pub(crate) fn next_window(&mut self) {
        let part = std::mem::replace(&mut self.part, Outcome::empty());
        self.done.push(part);
        self.windows_ns = &self.windows_ns[1..];
        self.window_start_ns = self.interval_start_ns;
        (self.ops_reported, self.errors_reported) = (0, 0);
        self.begin_interval();
    }

    /// Makes the current window the last one: nothing more is due after an interrupt.
    pub(crate) fn end_with_this_window(&mut self) {
        self.windows_ns = &[];
    }

    /// The start of the current window.
    pub(crate) fn window_start_ns(&self) -> u64 {
        self.window_start_ns
    }

    /// The end of the current window; the last one has none.
    fn window_end_ns(&self) -> u64 {
        match self.windows_ns {
            [end_ns, _, ..] => *end_ns,
            _ => u64::MAX,
        }
    }

    fn begin_interval(&mut self) {
        let end_ns = self.interval_start_ns + self.board.interval_ns;
        self.interval_end_ns = end_ns.min(self.window_end_ns());
    }

    fn close_interval(&mut self) {
        let errors = self.part.errors.total();
        let ops = self.part.ops - self.ops_reported;
        self.board.contribute(
            self.interval_start_ns,
            ops,
            errors - self.errors_reported,
            &self.interval,
        );
        self.control.progress.fetch_add(ops, Ordering::Relaxed);
        if let Some(live) = &self.control.live {
            live.add(ops, errors - self.errors_reported, &self.interval);
        }
        self.part.response.merge(&self.interval);
        self.errors_reported = errors;
        self.ops_reported = self.part.ops;
        self.interval.reset();
        self.interval_start_ns = self.interval_end_ns;
        self.begin_interval();
    }

    /// Adds the last, partial interval and returns the thread's results in a block of one window.
    pub(crate) fn finish(self) -> Outcome {
        let mut windows = self.finish_all();
        windows.pop().expect("the current window is the last one")
    }

    /// Adds the last, partial interval and returns the thread's results, window by window. The last one has all
    /// stalls, with times from the start of the block.
    pub(crate) fn finish_all(mut self) -> Vec<Outcome> {
        self.close_interval();
        self.part.stalls = self.stalls.into_sorted();
        self.done.push(self.part);
        self.done
    }

    /// The results of the windows that are over.
    pub(crate) fn into_done(self) -> Vec<Outcome> {
        self.done
    }
}

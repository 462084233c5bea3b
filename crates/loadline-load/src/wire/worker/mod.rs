//! The event loop of one thread.

use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

use rustix::event::epoll;

use super::conn::{Conn, Freed, Group};
use super::filler::Filler;
use super::lone::{Halves, Watch};
use super::system::System;
use super::transport::Framing;
use super::unread::Look;
use super::vigil::Vigil;
use crate::Error;
use crate::block::{RESPONSE_TIMEOUT_NS, Share};
use crate::clock::ThreadMeter;
use crate::meter::Meter;
use crate::outcome::Outcome;
use crate::pacing::Arrivals;
use crate::reply::Tally;
use crate::windows::Windows;
use crate::workload::{Chooser, Workload};

mod receive;
mod wait;

/// The size of the largest read.
const READ_BYTES: usize = 64 << 10;
/// The most events per system call.
const EVENTS: usize = 256;
/// The longest sleep before the interrupt is checked again.
const LONGEST_SLEEP_NS: u64 = 20_000_000;

/// The state of one thread for the lifetime of a session.
pub(super) struct Worker<F, S> {
    pub(super) conns: Vec<Conn<F>>,
    /// The lane of all its connections.
    pub(super) lane: usize,
    system: S,
    buffer: Vec<u8>,
    filler: Filler,
    chooser: Chooser,
    window: u32,
    vigil: Vigil,
}

impl<F: Framing, S: System> Worker<F, S> {
    pub(super) fn new(
        system: S,
        lane: usize,
        workload: &Workload,
        chooser: Chooser,
        window: u32,
    ) -> Self {
        Self {
            conns: Vec::new(),
            lane,
            system,
            buffer: vec![0; READ_BYTES],
            filler: Filler::new(workload, window as usize),
            chooser,
            window,
            vigil: Vigil::default(),
        }
    }

    /// Adds a connection.
    pub(super) fn adopt(&mut self, index: usize, conn: Conn<F>) -> Result<(), Error> {
        self.system.add(conn.transport.as_fd(), index)?;
        if index == self.conns.len() {
            self.conns.push(conn);
        } else {
            self.conns[index] = conn;
        }
        Ok(())
    }

    /// Runs this thread's share of a block.
    pub(super) fn run(&mut self, workload: &Workload, share: &Share<'_>) -> Windows {
        self.system.begin(share.clock);
        if share.arrivals.is_some() {
            // The default slack of 50 us would delay every timed start by as much. If the system refuses, the
            // default remains.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
            self.vigil.begin();
        }
        for conn in &mut self.conns {
            conn.reset();
        }
        Running::new(self, workload, share).run()
    }
}

/// The state of a running block.
struct Running<'r, F, S> {
    worker: &'r mut Worker<F, S>,
    events: Vec<epoll::Event>,
    workload: &'r Workload,
    share: &'r Share<'r>,
    meter: Meter<'r>,
    tally: Tally,
    /// The number of operations left to send.
    quota: u64,
    arrivals: Option<Arrivals>,
    /// Set when nothing more will be sent.
    stopped_ns: Option<u64>,
    in_flight: u64,
    last_reply_ns: u64,
    /// Time spent awake without work in this window.
    idle_ns: u64,
    /// The cost of the thread in this window.
    thread: ThreadMeter,
    /// Operations planned in earlier windows.
    planned: u64,
    /// The last look for replies that found nothing.
    look: Look,
    /// The waits for a CPU when the current interval began.
    run_wait_ns: Option<u64>,
    /// A refill waits until this many places are free, so that writes stay large.
    refill_at: u32,
    /// The halves of the window of a single connection.
    halves: Option<Halves>,
    /// Whether spinning for a single connection pays off.
    watch: Option<Watch>,
    /// Whether to wait for a single connection in its reads, which saves a system call per turn.
    waits_in_read: bool,
    /// Connection at which the search for a free one continues (open loop).
    turn: usize,
    /// Time at which a place became free after all were taken (open loop).
    place_since_ns: u64,
    saturated: bool,
    /// The longest delay of an operation by this thread itself (open loop).
    late_ns: u64,
    lost: usize,
    last_loss: String,
}

impl<'r, F: Framing, S: System> Running<'r, F, S> {
    fn new(worker: &'r mut Worker<F, S>, workload: &'r Workload, share: &'r Share<'r>) -> Self {
        let is_lone = worker.conns.len() == 1 && share.arrivals.is_none();
        // If payloads are so large that a window needs several batches, writes are partial anyway, and a
        // refill that waited for many places would leave most of the window empty.
        let is_cut = worker.filler.most() < worker.window as usize;
        let halves = Halves::of(worker.window).filter(|_| is_lone && !is_cut);
        let whole = if is_cut { 1 } else { worker.window };
        let longest_sleep = Duration::from_nanos(LONGEST_SLEEP_NS);
        Self {
            meter: Meter::over(share.windows_ns, share.board, share.control),
            tally: Tally::default(),
            quota: share.ops,
            arrivals: share.arrivals.clone(),
            stopped_ns: None,
            in_flight: 0,
            last_reply_ns: 0,
            idle_ns: 0,
            thread: ThreadMeter::start(),
            planned: 0,
            look: Look::begin(share.ready_ns),
            run_wait_ns: worker.system.run_wait_ns(),
            refill_at: halves.as_ref().map_or(whole, Halves::smaller),
            halves,
            watch: is_lone.then(Watch::default),
            waits_in_read: is_lone && worker.conns[0].transport.prepare_waiting(longest_sleep),
            turn: 0,
            place_since_ns: share.ready_ns,
            saturated: false,
            late_ns: 0,
            lost: worker.conns.iter().filter(|conn| !conn.alive).count(),
            last_loss: String::new(),
            events: Vec::with_capacity(EVENTS),
            worker,
            workload,
            share,
        }
    }

    fn run(mut self) -> Windows {
        match self.drive() {
            Ok(()) => self.finish(),
            Err(error) => Windows {
                outcomes: self.meter.into_done(),
                error: Some(error),
            },
        }
    }

    fn drive(&mut self) -> Result<(), Error> {
        if self.arrivals.is_none() {
            self.start_closed();
        }
        loop {
            let now_ns = self.worker.system.now_ns();
            if self.meter.is_due(now_ns) {
                self.close_due(now_ns);
            }
            self.dispatch(now_ns);
            self.check_stop(now_ns);
            self.release(now_ns);
            self.check_silence(now_ns)?;
            if self.finished(now_ns) {
                return Ok(());
            }
            if self.lost == self.worker.conns.len() {
                return Err(Error::AllLost {
                    connections: self.lost,
                    reason: std::mem::take(&mut self.last_loss),
                });
            }
            self.wait(now_ns)?;
            self.take_events();
        }
    }

    /// Closes the intervals and windows that have ended by `now_ns`.
    #[cold]
    fn close_due(&mut self, now_ns: u64) {
        self.meter.part.errors.clone_from(&self.tally.errors);
        while let Some(length) = self.meter.close_due(now_ns) {
            self.end_window(length);
            self.meter.next_window();
        }
        // A long stall begins in an earlier interval, which has its own waiting time.
        if !self.meter.is_quiet(now_ns) {
            self.run_wait_ns = self.worker.system.run_wait_ns();
        }
        if self.share.board.is_abandoned() && self.stopped_ns.is_none() {
            self.stopped_ns = Some(now_ns);
        }
    }

    /// Completes the results of the current window, which took `length`.
    fn end_window(&mut self, length: Duration) {
        let part = &mut self.meter.part;
        part.errors = std::mem::take(&mut self.tally.errors);
        part.nils = std::mem::take(&mut self.tally.nils);
        part.duration = length;
        if self.arrivals.is_some() {
            let planned = self.share.ops - self.quota;
            part.planned = Some(planned - self.planned);
            self.planned = planned;
        }
        let thread = std::mem::replace(&mut self.thread, ThreadMeter::start());
        part.generator = thread.stop(std::mem::take(&mut self.idle_ns));
    }

    /// Fills every connection's window; all places are free since the start.
    fn start_closed(&mut self) {
        let now_ns = self.worker.system.now_ns();
        for index in 0..self.worker.conns.len() {
            let conn = &mut self.worker.conns[index];
            if conn.alive {
                conn.freed.push_back(Freed {
                    at_ns: now_ns,
                    places: self.worker.window,
                });
                self.refill(index, now_ns);
            }
        }
    }

    fn check_stop(&mut self, now_ns: u64) {
        if self.stopped_ns.is_some() {
            return;
        }
        let over = match &self.arrivals {
            None => now_ns >= self.share.deadline_ns,
            // Operations that were due in time are still sent, for a while.
            Some(arrivals) => {
                let next_ns = arrivals.next_ns();
                next_ns >= self.share.deadline_ns || self.is_out_of_time(now_ns, next_ns)
            }
        };
        if over || self.quota == 0 || self.share.control.interrupted() {
            if self.share.control.interrupted() {
                self.meter.part.cut_short = true;
                self.meter.end_with_this_window();
            }
            self.stopped_ns = Some(now_ns);
        }
    }

    fn finished(&self, now_ns: u64) -> bool {
        self.stopped_ns.is_some_and(|stopped_ns| {
            self.in_flight == 0 || now_ns >= stopped_ns + RESPONSE_TIMEOUT_NS
        })
    }

    /// Whether an open loop gives up unsent operations that were due before the end of its block. Operations
    /// with a free place are sent, however late this thread is. Nothing is given up during a stall, because
    /// its length is still unknown.
    fn is_out_of_time(&self, now_ns: u64, next_ns: u64) -> bool {
        let is_stalled = self.in_flight > 0 && self.meter.is_quiet(now_ns);
        let stalled_ns = self.meter.stalled_ns().max(self.late_ns);
        self.saturated && !is_stalled && self.share.is_out_of_time(now_ns, next_ns, stalled_ns)
    }

    /// Fails if nothing arrives any more. An interrupted block keeps its results.
    fn check_silence(&self, now_ns: u64) -> Result<(), Error> {
        let quiet_ns = self.meter.quiet_ns(now_ns);
        if self.in_flight == 0 || quiet_ns < RESPONSE_TIMEOUT_NS || self.meter.part.cut_short {
            return Ok(());
        }
        let conns = self.worker.conns.iter().filter(|conn| conn.alive);
        let oldest = conns.filter_map(Conn::oldest);
        let waiting_ns = oldest.map(|group| group.intended_ns).min();
        let waited_ns = now_ns
            .saturating_sub(waiting_ns.unwrap_or(now_ns))
            .min(quiet_ns);
        if waited_ns < RESPONSE_TIMEOUT_NS {
            return Ok(());
        }
        Err(Error::Silent {
            waited: Duration::from_nanos(waited_ns),
            in_flight: self.in_flight,
        })
    }

    /// Starts the due operations of an open loop, on connections in turn.
    fn dispatch(&mut self, now_ns: u64) {
        let Some(mut arrivals) = self.arrivals.take() else {
            return;
        };
        if self.stopped_ns.is_none() {
            while self.quota > 0
                && arrivals.next_ns() <= now_ns.min(self.share.deadline_ns.saturating_sub(1))
            {
                let Some(index) = self.free_connection() else {
                    self.saturated = true;
                    break;
                };
                self.worker.conns[index].assigned.push(arrivals.next_ns());
                arrivals.advance();
                self.quota -= 1;
            }
            for index in 0..self.worker.conns.len() {
                if !self.worker.conns[index].assigned.is_empty() {
                    self.send_assigned(index);
                }
            }
        }
        self.arrivals = Some(arrivals);
    }

    /// Sends the delayed half when its delay is over.
    fn release(&mut self, now_ns: u64) {
        if self
            .halves
            .as_mut()
            .is_some_and(|halves| halves.release(now_ns))
        {
            self.refill(0, now_ns);
        }
    }

    fn free_connection(&mut self) -> Option<usize> {
        let connections = self.worker.conns.len();
        let most = self.worker.filler.most();
        for step in 0..connections {
            let index = (self.turn + step) % connections;
            let conn = &self.worker.conns[index];
            let taken = conn.in_flight as usize + conn.assigned.len();
            if conn.alive
                && !conn.is_blocked()
                && taken < self.worker.window as usize
                && conn.assigned.len() < most
            {
                self.turn = index + 1;
                return Some(index);
            }
        }
        None
    }

    fn send_assigned(&mut self, index: usize) {
        let sent_ns = self.worker.system.now_ns();
        let mut assigned = std::mem::take(&mut self.worker.conns[index].assigned);
        for &intended_ns in &assigned {
            let ready_ns = intended_ns.max(self.place_since_ns);
            let late_ns = sent_ns.saturating_sub(ready_ns);
            self.meter.part.lag.record(late_ns);
            self.late_ns = self.late_ns.max(late_ns);
        }
        let outcome = self.send(index, assigned.len() as u32, |conn, place, replies| {
            let group = Group {
                intended_ns: assigned[place as usize],
                sent_ns,
                replies,
                replies_per_op: replies,
            };
            conn.sent(group, 1);
        });
        if let Err(error) = outcome {
            self.lose(index, &error.to_string());
        }
        assigned.clear();
        self.worker.conns[index].assigned = assigned;
    }

    /// Fills the free places of a connection in a closed loop.
    fn refill(&mut self, index: usize, now_ns: u64) {
        loop {
            let conn = &mut self.worker.conns[index];
            let free = self.worker.window - conn.in_flight;
            if self.stopped_ns.is_some()
                || !conn.alive
                || conn.is_blocked()
                || free < self.refill_at
                || self.held_until_ns().is_some()
            {
                return;
            }
            let most = self.halves.as_ref().map_or(free, Halves::larger);
            let count = u64::from(free.min(most))
                .min(self.worker.filler.most() as u64)
                .min(self.quota) as u32;
            if count == 0 {
                return;
            }
            self.quota -= u64::from(count);
            let single_replies = self.workload.single_replies();
            let outcome = self.send(index, count, |conn, _, replies| {
                if !single_replies {
                    let intended_ns =
                        take_freed(&mut conn.freed, 1).map_or(now_ns, |freed| freed.at_ns);
                    conn.sent(
                        Group {
                            intended_ns,
                            sent_ns: now_ns,
                            replies,
                            replies_per_op: replies,
                        },
                        1,
                    );
                }
            });
            if let Err(error) = outcome {
                self.lose(index, &error.to_string());
                return;
            }
            if single_replies {
                self.note_groups(index, count, now_ns);
            }
            if self.worker.conns[index].in_flight == self.worker.window {
                return;
            }
            if let Some(halves) = &mut self.halves {
                halves.hold(now_ns);
            }
        }
    }

    fn held_until_ns(&self) -> Option<u64> {
        self.halves.as_ref().and_then(Halves::held_until_ns)
    }

    /// Records `count` operations of one reply each as sent, in groups with a common intended start.
    fn note_groups(&mut self, index: usize, count: u32, now_ns: u64) {
        let conn = &mut self.worker.conns[index];
        let mut left = count;
        while left > 0 {
            let freed = take_freed(&mut conn.freed, left).unwrap_or(Freed {
                at_ns: now_ns,
                places: left,
            });
            let group = Group {
                intended_ns: freed.at_ns,
                sent_ns: now_ns,
                replies: freed.places,
                replies_per_op: 1,
            };
            conn.sent(group, freed.places);
            left -= freed.places;
        }
    }

    /// Builds `count` commands for a connection and writes them; `note` receives each with its index in the
    /// batch and its number of replies.
    fn send(
        &mut self,
        index: usize,
        count: u32,
        mut note: impl FnMut(&mut Conn<F>, u32, u32),
    ) -> io::Result<()> {
        let workload = self.workload;
        let Worker {
            conns,
            filler,
            chooser,
            ..
        } = &mut *self.worker;
        let conn = &mut conns[index];
        let mut place = 0;
        let mut reads = 0;
        let batch = filler.fill(count as usize, chooser, workload, |number, key| {
            let command = &workload.commands()[number];
            reads += u64::from(command.reads);
            conn.expect(command.replies, command.returns_payload.then_some(key));
            note(conn, place, command.replies);
            place += 1;
        });
        self.meter.part.reads += reads;
        self.meter.part.bytes_out += batch.len() as u64;
        self.in_flight += u64::from(count);
        conn.send(batch)
    }

    /// Gives up a connection: its operations in flight get no reply.
    fn lose(&mut self, index: usize, reason: &str) {
        let conn = &mut self.worker.conns[index];
        conn.alive = false;
        self.in_flight -= u64::from(conn.in_flight);
        self.tally
            .errors
            .add("DISCONNECTED", u64::from(conn.in_flight.max(1)));
        self.worker.system.remove(conn.transport.as_fd());
        conn.reset();
        reason.clone_into(&mut self.last_loss);
        self.lost += 1;
    }

    fn finish(mut self) -> Windows {
        if self.in_flight > 0 {
            self.note_quiet(self.worker.system.now_ns(), false);
        }
        for index in 0..self.worker.conns.len() {
            let unanswered = u64::from(self.worker.conns[index].in_flight);
            if self.worker.conns[index].alive && unanswered > 0 {
                // Late replies would be mistaken for those of the next block, so the connection is closed.
                self.lose(index, "replies were still out at the end of the block");
                self.tally
                    .errors
                    .rename("DISCONNECTED", "UNANSWERED", unanswered);
            }
        }
        let end_ns = self.stopped_ns.unwrap_or_default();
        let start_ns = self.meter.window_start_ns();
        let took_ns = self.last_reply_ns.saturating_sub(start_ns).max(1);
        let not_sent = self.arrivals.clone().map_or(0, |arrivals| {
            let cut_short = self.meter.part.cut_short;
            self.share.not_sent(arrivals, end_ns, cut_short, self.quota)
        });
        self.end_window(Duration::from_nanos(took_ns));
        let part = &mut self.meter.part;
        part.not_sent = not_sent;
        part.planned = part.planned.map(|planned| planned + not_sent);
        let mut outcomes = self.meter.finish_all();
        if !self.share.control.interrupted() && !self.share.board.is_abandoned() {
            fill(&mut outcomes, self.share.windows_ns);
        }
        Windows {
            outcomes,
            error: None,
        }
    }
}

/// Adds the windows that remain after the last reply, and extends the last one to its planned end.
fn fill(outcomes: &mut Vec<Outcome>, ends_ns: &[u64]) {
    if ends_ns.is_empty() {
        return;
    }
    let stalls = outcomes
        .last_mut()
        .map(|last| std::mem::take(&mut last.stalls));
    outcomes.resize_with(ends_ns.len(), Outcome::empty);
    let mut start_ns = 0;
    for (outcome, end_ns) in outcomes.iter_mut().zip(ends_ns) {
        let planned = Duration::from_nanos(end_ns - start_ns);
        outcome.duration = outcome.duration.max(planned);
        outcome.planned.get_or_insert(0);
        start_ns = *end_ns;
    }
    if let Some(last) = outcomes.last_mut() {
        last.stalls = stalls.unwrap_or_default();
    }
}

/// Takes up to `most` of the oldest places that became free at the same time.
fn take_freed(freed: &mut std::collections::VecDeque<Freed>, most: u32) -> Option<Freed> {
    let first = freed.front_mut()?;
    let places = first.places.min(most);
    first.places -= places;
    let taken = Freed {
        at_ns: first.at_ns,
        places,
    };
    if first.places == 0 {
        freed.pop_front();
    }
    Some(taken)
}

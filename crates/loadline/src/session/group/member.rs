//! The thread of an agent that talks to the coordinator.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use loadline_load::Control;
use loadline_measure::agents::protocol::{Exchange, Member, State as Doing, Tally};

use super::{Ended, Parting, Shared, Start, wall_offset_ns};
use crate::systems::coordinator::{Coordinator, Cursor, Stream};

pub(crate) use loadline_measure::agents::protocol::Identity;

/// Pause between two rounds of messages while a start is near, and otherwise.
const SHORT_PAUSE: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(100);
/// Attempts to hand in a record, which take less than a lease.
const TRIES: u32 = 3;
const NOT_HANDED_IN: &str = "its record could not be handed in";

struct Running<'r> {
    coordinator: Coordinator,
    begun: Instant,
    member: Member<Tally>,
    orders: Cursor,
    control: &'r Control,
    shared: &'r Shared,
    has_ended: bool,
    /// Whether the coordinator did not take the record.
    has_kept_record: bool,
}

/// Runs until the agent is dismissed or cut off.
pub(super) fn run(
    coordinator: Coordinator,
    identity: Identity,
    control: &Control,
    shared: &Shared,
) {
    let mut running = Running {
        coordinator,
        begun: Instant::now(),
        member: Member::new(identity, Duration::ZERO),
        orders: Cursor::new(Stream::Orders),
        control,
        shared,
        has_ended: false,
        has_kept_record: false,
    };
    let parting = loop {
        // Without a connection, the machine notices by the lapse of its lease.
        let _ = running.converse();
        if let Some(parting) = running.advance() {
            break parting;
        }
        thread::sleep(match running.member.state() {
            Doing::Waiting | Doing::Starting { .. } => SHORT_PAUSE,
            _ => PAUSE,
        });
    };
    shared.lock().parting = Some(parting);
    shared.changed.notify_all();
}

impl Running<'_> {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Exchanges messages with the coordinator.
    fn converse(&mut self) -> Result<(), loadline_client::Error> {
        self.send()?;
        for message in self.coordinator.read(&mut self.orders)? {
            // Only the leader can have signed it, with the same version.
            if let Ok(order) = serde_json::from_str(&message) {
                self.member.hear(self.now(), order);
            }
        }
        while self.member.wants_exchange(self.now()) {
            let sent = self.now();
            let time = self.coordinator.time()?;
            let received = self.now();
            self.member.exchanged(&Exchange {
                sent,
                time,
                received,
            });
        }
        self.send()
    }

    fn send(&mut self) -> Result<(), loadline_client::Error> {
        while let Some(report) = self.member.outgoing() {
            let sent = self.begun.elapsed();
            let text = serde_json::to_string(report).expect("a report holds texts and numbers");
            self.coordinator.add(Stream::Reports, &text)?;
            self.member.acknowledged(sent);
        }
        Ok(())
    }

    /// Passes on what the measuring thread and the machine have for each other.
    fn advance(&mut self) -> Option<Parting> {
        let now = self.now();
        let (ready, ended) = {
            let mut state = self.shared.lock();
            (state.ready.take(), state.ended.take())
        };
        if let Some(case) = ready {
            self.member.ready(case);
        }
        if let Some(ended) = ended {
            self.end(ended);
        }
        let live = self.control.live.as_ref();
        self.member
            .tick(now, || live.map(loadline_load::group::Live::take));
        match self.member.state().clone() {
            Doing::Starting { case, at, clock } => {
                let mut state = self.shared.lock();
                if state.start.is_none_or(|start| start.case != case) {
                    state.start = Some(Start {
                        case,
                        at: self.begun + at,
                    });
                    let bound = state.clock.map_or(0, |(_, bound_ns)| bound_ns);
                    let offset_ns = wall_offset_ns(&clock, now);
                    state.clock = Some((offset_ns, bound.max(clock.bound_ns)));
                    self.shared.changed.notify_all();
                }
                None
            }
            Doing::Done if self.has_kept_record => Some(Parting::CutOff(NOT_HANDED_IN.to_owned())),
            Doing::Done => Some(Parting::Dismissed),
            Doing::Stopped { why, is_cut_off } => {
                if !self.has_ended {
                    self.shared.lock().stopped.get_or_insert(why.clone());
                    self.control.interrupt.store(true, Ordering::Relaxed);
                    self.shared.changed.notify_all();
                    return None;
                }
                is_cut_off.then_some(Parting::CutOff(why))
            }
            Doing::Working | Doing::Waiting => None,
        }
    }

    fn end(&mut self, mut ended: Ended) {
        self.has_ended = true;
        let rank = self.member.rank();
        let keep = |record: &String| {
            let mut tries = 0..TRIES;
            tries.any(|_| self.coordinator.keep_record(rank, record).is_ok())
        };
        let has_record = ended.record.as_ref().is_some_and(keep);
        self.has_kept_record = !has_record && ended.record.is_some();
        if self.has_kept_record {
            ended
                .failure
                .get_or_insert_with(|| NOT_HANDED_IN.to_owned());
        }
        let rest = self
            .control
            .live
            .as_ref()
            .map(loadline_load::group::Live::take);
        self.member.end(
            rest.unwrap_or_default(),
            ended.total,
            ended.failure,
            has_record,
        );
    }
}

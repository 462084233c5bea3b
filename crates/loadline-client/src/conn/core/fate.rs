//! The fate of requests whose connection breaks, or does not come.

use std::io;
use std::time::Instant;

use super::hold::Held;
use super::outbox::Taken;
use super::{Conn, Entry, Events, Owner, SlotId, Stamp};
use crate::Error;
use crate::config::Peer;
use crate::conn::session::{Unanswered, fault};

impl Conn {
    /// The connection broke at `now`, for this reason. Requests that may be sent again wait for the next
    /// one in their order; the others fail.
    pub(crate) fn broke(&mut self, error: &Error, now: Instant, events: &mut Events) {
        if self.config.peer != Peer::Server && !self.is_ready() {
            // Another node may take over, and nothing of what waits was written to this one.
            self.fail_all(error, events);
            self.session.broke(error);
            return;
        }
        let hopeless = matches!(error, Error::Login { .. });
        if self.session.is_down() && !hopeless {
            // Nothing was written, so there is nothing to decide.
            self.session.unreachable(error);
            return;
        }
        if let Some(&oldest) = self.queue.front() {
            self.follow(oldest);
        }
        let was_ready = self.is_ready();
        let written = self.out.written_unanswered();
        let held = self.hold.take();
        let (mut all, entries) = self.dismantle(now);
        for Held { entry, bytes, came } in held {
            let request = Unanswered {
                flags: entry.flags,
                tries: entry.tries,
                maybe_executed: false,
                bound: entry.bound,
                overdue: self.is_overdue(&entry, came, now),
                guilty: false,
            };
            self.settle(entry, request, &bytes, came, error, events);
        }
        let mut start = 0;
        for (place, (entry, came)) in entries.into_iter().enumerate() {
            let bytes = all.next(entry.bytes);
            // A command that lacks its end cannot have run; of several the first ones can.
            let maybe_executed = if entry.commands == 1 {
                start + entry.bytes <= written
            } else {
                start < written
            };
            let request = Unanswered {
                flags: entry.flags,
                tries: entry.tries + u8::from(maybe_executed),
                maybe_executed,
                bound: entry.bound,
                overdue: self.is_overdue(&entry, came, now),
                guilty: place == 0 && was_ready && matches!(error, Error::Protocol { .. }),
            };
            start += entry.bytes;
            self.settle(entry, request, bytes, came, error, events);
        }
        self.inbound.outcomes.clear();
        self.session.broke(error);
    }

    /// Puts a request back into the queue, or fails it.
    fn settle(
        &mut self,
        entry: Entry,
        request: Unanswered,
        bytes: &[u8],
        came: Instant,
        error: &Error,
        events: &mut Events,
    ) {
        let Owner::Slot(slot) = entry.owner else {
            return;
        };
        let tries = request.tries;
        if self.session.repeats(request, error) {
            self.put_back(slot, Entry { tries, ..entry }, bytes, came);
            return;
        }
        let fault = match error {
            Error::Timeout { .. } if !request.overdue => fault(&given_up(), tries),
            other => fault(other, tries),
        };
        events.wake.extend(self.slots.complete(slot, Some(fault)));
    }

    /// Takes the queue apart: the bytes of all its requests, and each with the time at which it came.
    fn dismantle(&mut self, now: Instant) -> (Taken, Vec<(Entry, Instant)>) {
        self.stamp(now);
        let first = self.front;
        self.front += self.queue.len() as u64;
        let stamps = std::mem::take(&mut self.stamps);
        let mut stamps = stamps.into_iter().peekable();
        let entries = (first..).zip(self.queue.drain(..)).map(|(number, entry)| {
            while stamps.next_if(|stamp| stamp.below <= number).is_some() {}
            (entry, stamps.peek().map_or(now, |stamp| stamp.at))
        });
        (self.out.take_all(), entries.collect())
    }

    /// Puts a request at the end of the queue, as if it had just come, but with its own time.
    fn put_back(&mut self, slot: SlotId, entry: Entry, bytes: &[u8], came: Instant) {
        let number = self.front + self.queue.len() as u64;
        self.slots.renumber(slot, number);
        self.out.pending.extend_from_slice(bytes);
        self.queue.push_back(Entry {
            replies_left: entry.commands,
            ..entry
        });
        self.out.put_aside();
        match self.stamps.back_mut() {
            Some(last) if last.at == came => last.below = number + 1,
            _ => self.stamps.push_back(Stamp {
                below: number + 1,
                at: came,
            }),
        }
    }

    fn is_overdue(&self, entry: &Entry, came: Instant, now: Instant) -> bool {
        let deadline = self.deadline(came, entry);
        deadline.is_some_and(|(deadline, _)| now >= deadline)
    }

    /// Fails the requests that have waited for a connection as long as for a reply, oldest first. None of
    /// them was written to this one.
    pub(super) fn expire(&mut self, now: Instant, events: &mut Events) {
        while let Some((deadline, after)) = self.reply_deadline()
            && now >= deadline
        {
            let entry = self
                .queue
                .pop_front()
                .expect("a deadline is that of the front");
            self.front += 1;
            self.out.drop_front(entry.bytes);
            if let Owner::Slot(slot) = entry.owner {
                let overdue = Error::Timeout {
                    maybe_executed: false,
                    after,
                };
                let reason = self.session.outage().unwrap_or(&overdue);
                let fault = fault(reason, entry.tries);
                events.wake.extend(self.slots.complete(slot, Some(fault)));
            }
            self.stamp(now);
        }
    }

    /// Fails everything, for good: there will be no connection any more.
    pub(crate) fn finish(&mut self, error: &Error, now: Instant, events: &mut Events) {
        let closed = Error::Closed {
            maybe_executed: false,
        };
        // Requests in flight may have been executed.
        self.broke(&closed, now, events);
        self.fail_all(error, events);
        self.close();
    }

    /// Fails everything: there will be no connection any more, or none that lets us in.
    pub(crate) fn fail_all(&mut self, error: &Error, events: &mut Events) {
        self.out.take_all();
        for held in self.hold.take() {
            if let Owner::Slot(slot) = held.entry.owner {
                let fault = fault(error, held.entry.tries);
                events.wake.extend(self.slots.complete(slot, Some(fault)));
            }
        }
        for entry in self.queue.drain(..) {
            if let Owner::Slot(slot) = entry.owner {
                let fault = fault(error, entry.tries);
                events.wake.extend(self.slots.complete(slot, Some(fault)));
            }
            self.front += 1;
        }
        self.stamps.clear();
        self.session.set_outage(error.clone());
    }
}

/// The error of a request that was not overdue itself.
fn given_up() -> Error {
    let reason = "it was given up, since the reply to an earlier request is overdue";
    Error::connection(io::Error::new(io::ErrorKind::TimedOut, reason), true)
}

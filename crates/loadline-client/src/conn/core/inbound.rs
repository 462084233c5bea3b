//! Received bytes: whose they are, and where each reply ends.

use std::time::Instant;

use super::{Conn, Entry, Events, Owner};
use crate::Error;
use crate::conn::carried::Outcome;
use crate::conn::scan::{Scanned, decode};
use crate::conn::session::unasked;

impl Conn {
    /// Takes bytes that were received.
    ///
    /// # Errors
    /// The reason why the connection cannot go on; it must be broken then.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        mut bytes: &[u8],
        now: Instant,
        events: &mut Events,
    ) -> Result<(), Error> {
        self.session.hear(now);
        while !bytes.is_empty() {
            if self.inbound.fresh {
                let taken = self.take_strings(bytes, events);
                bytes = &bytes[taken..];
                let Some(&first) = bytes.first() else {
                    break;
                };
                self.begin_message(first)?;
            }
            let scanned = self.scanner.next(bytes).map_err(|source| Error::Protocol {
                maybe_executed: true,
                source,
            })?;
            match scanned {
                Scanned::Partial => {
                    self.store(bytes);
                    break;
                }
                Scanned::Reply(end) => {
                    self.store(&bytes[..end]);
                    self.end_reply(now, events)?;
                    bytes = &bytes[end..];
                }
                Scanned::Push(end) => {
                    self.store(&bytes[..end]);
                    self.end_push(events)?;
                    bytes = &bytes[end..];
                }
            }
            self.inbound.fresh = true;
        }
        self.out.forget_answered();
        self.useful |= self.out.has_answers() && !self.hold.is_draining();
        self.drained()
    }

    /// Takes the short bulk strings that the bytes begin with and that each end the replies to a request. Nearly
    /// all replies are such; what it leaves, for whatever reason, is taken the plain way. How many bytes it took.
    #[inline]
    fn take_strings(&mut self, bytes: &[u8], events: &mut Events) -> usize {
        let mut taken = 0;
        if !self.is_ready() {
            return taken;
        }
        while let Some(&Entry {
            owner,
            bytes: request_bytes,
            replies_left: 1,
            bound: false,
            ..
        }) = self.queue.front()
            && request_bytes <= self.out.written_unanswered()
            && let Some(text) = self.scanner.next_bulk(&bytes[taken..])
        {
            let rest = &bytes[taken..];
            if let Owner::Slot(slot) = owner {
                events
                    .wake
                    .extend(self.slots.complete_by(slot, rest, &text));
            }
            taken += text.end + 2;
            self.queue.pop_front();
            self.front += 1;
            self.out.answered(request_bytes);
        }
        taken
    }

    #[inline]
    fn begin_message(&mut self, first: u8) -> Result<(), Error> {
        self.inbound.fresh = false;
        self.inbound.push = first == b'>';
        if self.inbound.push || self.session.is_greeting() {
            return Ok(());
        }
        match self.queue.front() {
            Some(entry) if self.is_ready() && self.out.written_unanswered() > 0 => {
                self.inbound.mark = match entry.owner {
                    Owner::Slot(slot) => self.slots.replies(slot).len(),
                    _ => 0,
                };
                Ok(())
            }
            _ => Err(unasked()),
        }
    }

    /// Puts bytes of a message where they belong. Those for a caller that was dropped are discarded.
    #[inline]
    fn store(&mut self, bytes: &[u8]) {
        if self.inbound.push {
            self.inbound.push_bytes.extend_from_slice(bytes);
            return;
        }
        if self.session.is_greeting() {
            self.inbound.own_bytes.extend_from_slice(bytes);
        } else if let Some(entry) = self.queue.front() {
            if entry.bound {
                self.inbound.own_bytes.extend_from_slice(bytes);
            }
            if let Owner::Slot(slot) = entry.owner {
                self.slots.replies(slot).extend_from_slice(bytes);
            }
        }
    }

    #[inline]
    fn end_reply(&mut self, now: Instant, events: &mut Events) -> Result<(), Error> {
        if self.session.is_greeting() {
            return self.end_greeting_reply(now);
        }
        let entry = self
            .queue
            .front_mut()
            .expect("a message began with an entry at the front");
        entry.replies_left -= 1;
        let entry = *entry;
        if entry.bound {
            let outcome = Outcome::of(&self.inbound.own_bytes);
            if entry.owner == Owner::Login {
                self.session.renewed(&self.inbound.own_bytes);
            } else {
                self.inbound.outcomes.push(outcome);
            }
            self.inbound.own_bytes.clear();
        }
        if let Owner::Slot(slot) = entry.owner {
            self.note_unavailable(slot, now);
        }
        if entry.replies_left == 0 {
            if entry.bytes > self.out.written_unanswered() {
                // Only the first commands of a pipeline can be answered before its end is sent.
                return Err(unasked());
            }
            self.follow(entry);
            if let Owner::Slot(slot) = entry.owner
                && !self.holds(entry, slot)
            {
                events.wake.extend(self.slots.complete(slot, None));
            }
            self.queue.pop_front();
            self.front += 1;
            self.out.answered(entry.bytes);
        }
        Ok(())
    }

    /// Follows the oldest request if it may have changed the state of the connection, as far as it is answered.
    pub(super) fn follow(&mut self, oldest: Entry) {
        if oldest.bound && !self.inbound.outcomes.is_empty() {
            let wire = self.out.oldest(oldest.bytes);
            self.session.follow(wire, &self.inbound.outcomes);
            self.inbound.outcomes.clear();
        }
    }

    fn end_greeting_reply(&mut self, now: Instant) -> Result<(), Error> {
        let reply = std::mem::take(&mut self.inbound.own_bytes);
        let limits = self.config.limits;
        let decoded = decode(&reply, limits).map_err(|source| Error::Protocol {
            maybe_executed: false,
            source,
        })?;
        self.session
            .greeted(&decoded, now, &mut self.out.greeting)?;
        Ok(())
    }

    fn end_push(&mut self, events: &mut Events) -> Result<(), Error> {
        if !self.inbound.push {
            // It began with attributes, and looked like a reply.
            if let Some(Owner::Slot(slot)) = self.queue.front().map(|entry| entry.owner) {
                let replies = self.slots.replies(slot);
                let push = replies.split_off(self.inbound.mark);
                self.inbound.push_bytes = push;
            }
        }
        let push = std::mem::take(&mut self.inbound.push_bytes);
        if !push.is_empty() {
            let decoded = decode(&push, self.config.limits).map_err(|source| Error::Protocol {
                maybe_executed: true,
                source,
            })?;
            events.pushes.push(decoded.to_owned());
        }
        Ok(())
    }
}

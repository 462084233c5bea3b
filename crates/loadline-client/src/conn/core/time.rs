//! Timer events of a connection: overdue replies, and checks of a silent server.

use std::time::{Duration, Instant};

use loadline_resp::encode;

use super::{Conn, Entry, Events, Owner, Stamp};
use crate::Error;

/// Part of the time for a reply that a request has on a new connection, however long it waited for that: a quarter.
const LEFT_FOR_REPLY: u32 = 4;

impl Conn {
    /// Handles the timer: stamps new requests, asks a silent server whether it is there, and fails requests
    /// that waited too long for a connection.
    ///
    /// # Errors
    /// If a reply is overdue; the connection has to be broken then.
    pub(crate) fn turn(&mut self, now: Instant, events: &mut Events) -> Result<(), Error> {
        self.drop_withdrawn();
        self.stamp(now);
        if let Some((deadline, after)) = self.session.greeting_due()
            && now >= deadline
        {
            return Err(Error::Timeout {
                maybe_executed: false,
                after,
            });
        }
        if self.is_ready() {
            if let Some((deadline, after)) = self.reply_deadline()
                && now >= deadline
            {
                return Err(Error::Timeout {
                    maybe_executed: true,
                    after,
                });
            }
            if self.queue.is_empty() && self.session.keepalive_due().is_some_and(|due| now >= due) {
                self.ask_for_life(now);
            }
            return Ok(());
        }
        self.expire(now, events);
        Ok(())
    }

    /// When [`Conn::turn`] has something to do at the latest.
    pub(crate) fn next_turn(&self) -> Option<Instant> {
        let replies = self.reply_deadline().map(|(deadline, _)| deadline);
        if self.is_ready() && self.queue.is_empty() {
            return self.session.keepalive_due();
        }
        let greeting = self.session.greeting_due().map(|(deadline, _)| deadline);
        [replies, greeting].into_iter().flatten().min()
    }

    pub(super) fn stamp(&mut self, now: Instant) {
        let below = self.front + self.queue.len() as u64;
        while self
            .stamps
            .front()
            .is_some_and(|stamp| stamp.below <= self.front)
        {
            self.stamps.pop_front();
        }
        match self.stamps.back_mut() {
            Some(last) if last.below >= below => {}
            Some(last) if last.at == now => last.below = below,
            _ if below > self.front => self.stamps.push_back(Stamp { below, at: now }),
            _ => {}
        }
    }

    /// When the first reply is overdue, and after what time that is.
    ///
    /// That is the reply to the oldest request, unless its caller gave up and it may wait at the server: then
    /// the oldest request with a caller counts too, which must not wait longer than its own time.
    pub(super) fn reply_deadline(&self) -> Option<(Instant, Duration)> {
        let front = self.queue.front()?;
        let oldest = self.deadline_of(0);
        if front.owner != Owner::Dropped || front.wait.is_zero() {
            return oldest;
        }
        let waits = |entry: &Entry| entry.owner != Owner::Dropped;
        let first_waiting = self.queue.iter().position(waits);
        let waiting = first_waiting.and_then(|place| self.deadline_of(place));
        [oldest, waiting].into_iter().flatten().min()
    }

    /// When the reply to the request at this place of the queue is overdue.
    fn deadline_of(&self, place: usize) -> Option<(Instant, Duration)> {
        let number = self.front + place as u64;
        let stamp = self.stamps.iter().find(|stamp| stamp.below > number)?;
        self.deadline(stamp.at, self.queue.get(place)?)
    }

    /// When the reply to a request that came at `came` is overdue, and after what time that is.
    ///
    /// One that waited for the connection has a part of its time from when that is ready. The oldest request after an outage has next
    /// to nothing left otherwise, and would take the connection with all other requests down before the server can answer.
    pub(super) fn deadline(&self, came: Instant, entry: &Entry) -> Option<(Instant, Duration)> {
        let after = self.allowed(entry)?;
        let due = came.checked_add(after)?;
        // Most requests came after it.
        let ready = self.session.ready_since().filter(|ready| *ready > came);
        let least = ready.and_then(|ready| ready.checked_add(after / LEFT_FOR_REPLY));
        Some((least.map_or(due, |least| due.max(least)), after))
    }

    pub(super) fn allowed(&self, entry: &Entry) -> Option<Duration> {
        match entry.owner {
            Owner::Keepalive | Owner::Login => self.session.allowed_for_keepalive(),
            _ => self.session.allowed(entry.wait),
        }
    }

    fn ask_for_life(&mut self, now: Instant) {
        // A login says as well whether the server is there.
        if !self.renew_login() {
            let before = self.out.pending.len();
            encode::command(&mut self.out.pending, &["PING"]);
            self.append_own(Owner::Keepalive, before);
        }
        self.stamp(now);
    }
}

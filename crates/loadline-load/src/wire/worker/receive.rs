//! The event loop's handling of received data.

use std::io;

use rustix::event::epoll;

use super::{Running, Worker};
use crate::wire::conn::{Conn, Freed};
use crate::wire::system::System;
use crate::wire::transport::Framing;

/// Whether a read waits if there is no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    No,
    /// For the first bytes; later bytes are read without waiting.
    ForFirst,
}

impl<F: Framing, S: System> Running<'_, F, S> {
    /// Serves the connections with events.
    pub(super) fn take_events(&mut self) {
        for at in 0..self.events.len() {
            let event = self.events[at];
            let index = event.data.u64() as usize;
            if !self.worker.conns[index].alive {
                continue;
            }
            if let Err(reason) = self.serve(index, event.flags) {
                self.lose(index, &reason);
            }
        }
    }

    /// Records that nothing arrived until `now_ns` while operations waited.
    #[cold]
    pub(super) fn note_quiet(&mut self, now_ns: u64, answered: bool) {
        let alive = self.worker.conns.iter().filter(|conn| conn.alive);
        let oldest = alive.filter_map(Conn::oldest);
        let Some(oldest) = oldest.min_by_key(|group| group.intended_ns) else {
            return;
        };
        // The generator delays an operation that it could send, and a reply that it could read.
        let could_ns = self.meter.stalled_since_ns(oldest.intended_ns);
        let could_ns = could_ns.max(self.share.ready_ns);
        let unsent_ns = oldest.sent_ns.min(now_ns).saturating_sub(could_ns);
        let unread_ns = if answered { self.unread_ns(now_ns) } else { 0 };
        let (waiting_ns, generator_ns) = (oldest.intended_ns, unsent_ns + unread_ns);
        self.meter
            .quiet(now_ns, waiting_ns, self.in_flight, generator_ns, answered);
    }

    /// The longest time that a reply read at `now_ns` can have been there.
    fn unread_ns(&self, now_ns: u64) -> u64 {
        self.look
            .unread_ns(now_ns, self.worker.system.run_wait_ns())
    }

    fn serve(&mut self, index: usize, flags: epoll::EventFlags) -> Result<(), String> {
        let conn = &self.worker.conns[index];
        // A layer in between can buffer bytes of a write that was accepted as a whole.
        let may_owe = conn.is_blocked() || !conn.transport.short_read_drains();
        if flags.intersects(epoll::EventFlags::OUT) && may_owe {
            self.worker.conns[index]
                .resend()
                .map_err(|error| error.to_string())?;
        }
        let mut now_ns = 0;
        if flags.intersects(
            epoll::EventFlags::IN
                | epoll::EventFlags::RDHUP
                | epoll::EventFlags::HUP
                | epoll::EventFlags::ERR,
        ) {
            now_ns = self.read(index, Wait::No)?;
        }
        if self.arrivals.is_none() {
            if now_ns == 0 {
                now_ns = self.worker.system.now_ns();
            }
            self.refill(index, now_ns);
        }
        Ok(())
    }

    /// Reads until the socket is empty and returns the arrival time of the last bytes, or 0 if there were
    /// none.
    pub(super) fn read(&mut self, index: usize, mut wait: Wait) -> Result<u64, String> {
        let closed = self.arrivals.is_none();
        let mut now_ns = 0;
        loop {
            let Worker { conns, buffer, .. } = &mut *self.worker;
            let conn = &mut conns[index];
            let read = match std::mem::replace(&mut wait, Wait::No) {
                Wait::No => conn.transport.read(buffer),
                Wait::ForFirst => conn.transport.read_waiting(buffer),
            };
            let bytes = match read {
                Ok(0) => return Err("the target closed the connection".into()),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(now_ns),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.to_string()),
            };
            now_ns = self.worker.system.now_ns();
            self.meter.part.bytes_in += bytes as u64;
            if self.meter.is_quiet(now_ns) {
                self.note_quiet(now_ns, true);
            }
            self.meter.arrived(now_ns);
            let Worker { conns, buffer, .. } = &mut *self.worker;
            let conn = &mut conns[index];
            let replies =
                conn.receive(&buffer[..bytes], &mut self.tally, self.workload.values())?;
            if let (Some(halves), Some(sent_ns)) = (&mut self.halves, conn.oldest_sent_ns()) {
                halves.note_trip(now_ns - sent_ns);
            }
            let ops = conn.complete(replies, now_ns, &mut self.meter)?;
            if ops > 0 {
                self.in_flight -= u64::from(ops);
                self.last_reply_ns = now_ns;
                if closed {
                    conn.freed.push_back(Freed {
                        at_ns: now_ns,
                        places: ops,
                    });
                } else if self.saturated {
                    self.saturated = false;
                    self.place_since_ns = now_ns;
                }
            }
            if bytes < buffer.len() && conn.transport.short_read_drains() {
                return Ok(now_ns);
            }
        }
    }
}

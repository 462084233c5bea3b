//! Requests that a server did not execute since it is not the one to ask now.
//!
//! A server that loads its data, or has become a replica, answers every request with an error. Nothing new is
//! written to it then. Once all that is in flight is answered, the connection is given up, so that nothing is
//! ambiguous, and the next one goes where the name points by then. Requests that were answered with `LOADING`
//! are sent again on it, and so are those that a replica refused if sentinels name the master.

use std::io;
use std::time::Instant;

use super::{Conn, Entry, Owner, SlotId};
use crate::conn::session::Unavailable;
use crate::conn::unwritten::is_unwritten;
use crate::{Error, ServerError};

/// The requests that wait for the next connection, oldest first.
#[derive(Debug, Default)]
pub(super) struct Hold {
    reason: Option<Error>,
    requests: Vec<Held>,
}

/// A request that was answered and is sent again.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) entry: Entry,
    pub(super) bytes: Vec<u8>,
    /// When it came.
    pub(super) came: Instant,
}

impl Hold {
    /// Whether nothing new is written to this connection.
    pub(super) fn is_draining(&self) -> bool {
        self.reason.is_some()
    }

    pub(super) fn take(&mut self) -> Vec<Held> {
        self.reason = None;
        std::mem::take(&mut self.requests)
    }

    /// Forgets the caller in a slot.
    pub(super) fn cancel(&mut self, slot: SlotId) {
        for held in &mut self.requests {
            if held.entry.owner == Owner::Slot(slot) {
                held.entry.owner = Owner::Dropped;
            }
        }
    }

    /// The number of connections that may have executed the request in a slot, if it is held.
    pub(super) fn tries_of(&self, slot: SlotId) -> Option<u8> {
        let mut held = self.requests.iter();
        let found = held.find(|held| held.entry.owner == Owner::Slot(slot))?;
        Some(found.entry.tries)
    }
}

impl Conn {
    /// Looks whether a reply that is complete says that this server is not the one to ask now.
    pub(super) fn note_unavailable(&mut self, slot: SlotId, now: Instant) {
        let reply = &self.slots.replies(slot)[self.inbound.mark..];
        let text = &reply[..reply.len().saturating_sub(2)];
        match self.session.unavailable(reply, now) {
            Some(Unavailable::Demoted) => {
                let what = "the server has become a replica";
                let demoted = io::Error::new(io::ErrorKind::ConnectionReset, what);
                // Sentinels can name it for a while, and it is not stormed then.
                self.useful = !self.session.follows_sentinels();
                self.hold.reason = Some(Error::connection(demoted, true));
            }
            Some(Unavailable::Loading) => {
                let answer = ServerError::new(text.get(1..).unwrap_or_default());
                self.useful = false;
                self.hold.reason = Some(Error::Server(answer));
            }
            None => {}
        }
    }

    /// Keeps the oldest request, which is answered, for the next connection if the server was loading its data, or is a
    /// replica of the master that it should be, and so executed none of it.
    pub(super) fn holds(&mut self, entry: Entry, slot: SlotId) -> bool {
        let mut refused = false;
        if self.hold.is_draining() && !entry.bound {
            let replies = self.slots.replies(slot);
            let mut lines = replies.split_inclusive(|&byte| byte == b'\n');
            refused = lines.all(|line| line.starts_with(b"-LOADING "))
                || (self.session.follows_sentinels()
                    && is_unwritten(self.out.oldest(entry.bytes), replies));
        }
        if refused {
            let number = self.front;
            let stamp = self.stamps.iter().find(|stamp| stamp.below > number);
            let came = stamp.map_or(self.session.heard(), |stamp| stamp.at);
            let bytes = self.out.oldest(entry.bytes).to_vec();
            self.hold.requests.push(Held { entry, bytes, came });
        }
        refused
    }

    /// Ends a connection to a server that is not the one to ask, once all that is in flight is answered.
    pub(super) fn drained(&self) -> Result<(), Error> {
        match &self.hold.reason {
            Some(reason) if self.out.written_unanswered() == 0 && !self.out.is_within_request() => {
                Err(reason.clone())
            }
            _ => Ok(()),
        }
    }
}

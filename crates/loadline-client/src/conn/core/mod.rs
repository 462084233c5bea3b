//! A connection that many share, as a state that events change.
//!
//! [`Conn`] is what the tasks and the driver of a multiplexed connection share. Tasks put requests into one
//! buffer and wait in slots; the driver takes the buffer out to write it, and brings what it has read.
//! Replies are matched to requests by their order alone, so the order is the invariant: `queue` holds
//! exactly the requests whose bytes are in the buffers, oldest first, whether anyone still waits or not.

mod fate;
mod inbound;
mod outbox;
mod slots;

#[cfg(test)]
mod tests;
mod time;

use std::collections::VecDeque;
use std::io;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use loadline_resp::{OwnedReply, Protocol};

use super::greeting::Greeting;
use super::scan::Scanner;
use crate::meter::Meter;
use crate::request::Summary;
use crate::{Config, Error, Flags, Request, Requests};
use outbox::Outbox;
pub(crate) use outbox::Outgoing;
use slots::Slots;
pub(crate) use slots::{SlotId, SlotReplies, TakenReplies};

/// How often a request is handed to a server at most, whatever the policy.
const MOST_TRIES: u8 = 3;

/// The shared state of a connection.
#[derive(Debug)]
pub(crate) struct Conn {
    config: Config,
    /// Whether several callers use the connection, so that none may change its state or hold it up.
    shared: bool,
    state: State,
    out: Outbox,
    /// Requests that are not answered completely, in the order of the wire.
    queue: VecDeque<Entry>,
    /// The number of the front of the queue, counted over the connection's life.
    front: u64,
    /// When requests came, for all up to a number at once.
    stamps: VecDeque<Stamp>,
    slots: Slots,
    scanner: Scanner,
    inbound: Inbound,
    heard: Instant,
    watch: Watch,
    /// Whether a request may have changed the state of the connection, other than by `WATCH`.
    altered: bool,
    /// Why there is no connection.
    outage: Option<Error>,
    closed: bool,
    driver: Option<Waker>,
}

#[derive(Debug)]
enum State {
    /// There is no connection; requests wait.
    Down,
    /// The handshake goes on; requests wait.
    Greeting {
        greeting: Greeting,
        reply: Vec<u8>,
        deadline: Instant,
    },
    /// Requests are written and answered.
    Ready(Protocol),
}

/// A request in flight, or about to be.
#[derive(Clone, Copy, Debug)]
struct Entry {
    owner: Owner,
    bytes: usize,
    commands: u32,
    replies_left: u32,
    flags: Flags,
    wait: Duration,
    /// How often a server may have executed it on connections that are gone.
    tries: u8,
    /// Whether it means nothing on another connection.
    bound: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Slot(SlotId),
    /// Whoever it was does not wait any more.
    Nobody,
    Keepalive,
}

/// All requests below a number came at this time or before.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    below: u64,
    at: Instant,
}

/// What the bytes belong to that come in.
#[derive(Debug)]
struct Inbound {
    /// Whether the next byte is the first of a message.
    fresh: bool,
    /// Whether this message started as a push.
    push: bool,
    /// Where the message starts in the buffer of its slot.
    mark: usize,
    push_bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    None,
    Kept,
    Lost,
}

/// What the owner of a connection leaves behind on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Residue {
    /// Nothing that the next owner would notice.
    None,
    /// A state that `RESET` undoes: watched keys, a transaction, a database, a subscription.
    State,
    /// A request that may hold up the connection, or no connection at all.
    Unusable,
}

/// What came of received bytes, to be acted on once the lock is released.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) wake: Vec<Waker>,
    pub(crate) pushes: Vec<OwnedReply>,
}

impl Conn {
    pub(crate) fn new(config: Config, shared: bool, now: Instant) -> Self {
        Self {
            scanner: Scanner::new(config.limits),
            config,
            shared,
            state: State::Down,
            out: Outbox::default(),
            queue: VecDeque::new(),
            front: 0,
            stamps: VecDeque::new(),
            slots: Slots::default(),
            inbound: Inbound {
                fresh: true,
                push: false,
                mark: 0,
                push_bytes: Vec::new(),
            },
            heard: now,
            watch: Watch::None,
            altered: false,
            outage: None,
            closed: false,
            driver: None,
        }
    }

    // ---- The side of the callers ----

    /// Takes a request: its bytes go to the end of the buffer, and the caller waits in a slot. The waker is
    /// the driver's, to be woken once the lock is released.
    ///
    /// # Errors
    /// `Usage`, `QueueFull` or `Closed`; nothing was taken then.
    #[inline]
    pub(crate) fn submit<Q: Request>(
        &mut self,
        request: &Q,
        second_try: bool,
        waker: &Waker,
        meter: &mut Meter,
    ) -> Result<(SlotId, Option<Waker>), Error> {
        if self.closed {
            return Err(Error::Closed {
                maybe_executed: false,
            });
        }
        let before = self.out.pending.len();
        let mut requests = Requests::new(&mut self.out.pending, second_try);
        request.encode(&mut requests);
        let admitted = requests.finish().and_then(|summary| {
            meter.is(&summary);
            self.admit(&summary).map(|bound| (summary, bound))
        });
        let (summary, bound) = match admitted {
            Ok(admitted) => admitted,
            Err(error) => {
                self.out.pending.truncate(before);
                return Err(error);
            }
        };
        let number = self.front + self.queue.len() as u64;
        let slot = self.slots.take(number, waker);
        self.queue.push_back(Entry {
            owner: Owner::Slot(slot),
            bytes: self.out.pending.len() - before,
            commands: summary.commands,
            replies_left: summary.commands,
            flags: summary.flags,
            wait: summary.wait,
            tries: 0,
            bound,
        });
        Ok((slot, self.driver.take()))
    }

    /// Whether a request whose bytes were just added is taken, and whether it is bound to this very
    /// connection.
    #[inline]
    fn admit(&mut self, summary: &Summary) -> Result<bool, Error> {
        let limit_bytes = self.config.max_queue_bytes;
        if !self.queue.is_empty() && self.out.unanswered() > limit_bytes as u64 {
            return Err(Error::QueueFull { limit_bytes });
        }
        let special = summary.flags.contains(Flags::BLOCKS)
            || summary.flags.contains(Flags::DEDICATED)
            || self.watch != Watch::None;
        if special {
            return self.admit_special(summary);
        }
        Ok(false)
    }

    fn admit_special(&mut self, summary: &Summary) -> Result<bool, Error> {
        if self.shared {
            return Err(Error::Usage(
                "a command that waits, or that changes the state of its connection, needs a \
                 connection of its own: `Client::dedicated` opens one, and a pool lends one",
            ));
        }
        let bound = self.watch != Watch::None || summary.flags.contains(Flags::DEDICATED);
        self.altered |= alters(summary);
        match summary.name {
            "MULTI" | "EXEC" if self.watch == Watch::Lost => {
                self.watch = Watch::None;
                let lost = io::Error::new(
                    io::ErrorKind::ConnectionReset,
                    "the connection that watched the keys is gone",
                );
                return Err(Error::connection(lost, false));
            }
            "WATCH" => self.watch = Watch::Kept,
            "MULTI" | "EXEC" | "UNWATCH" | "DISCARD" | "RESET" => self.watch = Watch::None,
            _ => {}
        }
        Ok(bound)
    }

    /// Takes the replies out of a slot once they are all there, to be read without the lock. `spare` gives an
    /// empty buffer in exchange.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        slot: SlotId,
        waker: &Waker,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> Poll<TakenReplies> {
        self.slots.poll(slot, waker, self.config.limits, spare)
    }

    /// The caller in this slot does not wait any more. The request stays in its place, and its replies are
    /// dropped when they come.
    pub(crate) fn cancel(&mut self, slot: SlotId) {
        if let Some(number) = self.slots.release(slot) {
            let place = number
                .checked_sub(self.front)
                .and_then(|place| usize::try_from(place).ok());
            if let Some(entry) = place.and_then(|place| self.queue.get_mut(place)) {
                debug_assert_eq!(entry.owner, Owner::Slot(slot), "a slot knows its request");
                entry.owner = Owner::Nobody;
            }
        }
    }

    /// What the owner leaves behind.
    pub(crate) fn residue(&self) -> Residue {
        let holds_up = |entry: &Entry| {
            entry.flags.contains(Flags::BLOCKS)
                || entry.flags.contains(Flags::DEDICATED)
                || !entry.wait.is_zero()
        };
        if self.closed || !self.is_ready() || self.queue.iter().any(holds_up) {
            Residue::Unusable
        } else if self.altered || self.watch != Watch::None {
            Residue::State
        } else {
            Residue::None
        }
    }

    /// The state of the connection is that of a new one again.
    pub(crate) fn was_reset(&mut self) {
        self.altered = false;
    }

    /// Whether the server may have executed the request in a slot, or a part of it, while its caller
    /// still waits.
    pub(crate) fn may_have_executed(&self, slot: SlotId) -> bool {
        let mut start = 0;
        for entry in &self.queue {
            let end = start + entry.bytes;
            if entry.owner == Owner::Slot(slot) {
                let written = self.out.written_unanswered();
                let carried = if entry.commands == 1 {
                    end <= written
                } else {
                    start < written
                };
                return carried || entry.tries > 0;
            }
            start = end;
        }
        // It is answered.
        true
    }

    /// No request will come any more; the driver has to end.
    pub(crate) fn close(&mut self) -> Option<Waker> {
        self.closed = true;
        self.driver.take()
    }

    // ---- The side of the driver ----

    /// Leaves the waker that the next request wakes.
    pub(crate) fn register_driver(&mut self, waker: &Waker) {
        match &mut self.driver {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The version of the protocol that is spoken, if any is.
    pub(crate) fn protocol(&self) -> Option<Protocol> {
        match self.state {
            State::Ready(protocol) => Some(protocol),
            _ => None,
        }
    }

    /// Whether this connection has answered anything, beside the handshake.
    pub(crate) fn was_useful(&self) -> bool {
        self.out.has_answers()
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready(_))
    }

    /// A socket is there; the handshake begins.
    pub(crate) fn connected(&mut self, now: Instant) {
        self.drop_abandoned(now);
        self.scanner = Scanner::new(self.config.limits);
        self.inbound.fresh = true;
        self.inbound.push_bytes.clear();
        self.heard = now;
        let greeting = Greeting::start(&self.config, &mut self.out.greeting);
        self.state = State::Greeting {
            greeting,
            reply: Vec::new(),
            deadline: now + self.config.connect_timeout,
        };
    }

    /// Whether [`Conn::outgoing`] would give something.
    pub(crate) fn has_outgoing(&self) -> bool {
        match self.state {
            State::Down => false,
            State::Greeting { .. } => !self.out.greeting.is_empty(),
            State::Ready(_) => self.out.has_requests(),
        }
    }

    /// Whether every request is answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// The bytes to write next, to be given back by [`Conn::wrote`].
    pub(crate) fn outgoing(&mut self) -> Option<Outgoing> {
        match self.state {
            State::Down => None,
            State::Greeting { .. } => self.out.take_greeting(),
            State::Ready(_) => self.out.take_requests(),
        }
    }

    /// So many of the bytes were handed to the operating system.
    pub(crate) fn wrote(&mut self, outgoing: Outgoing, bytes: usize) {
        self.out.wrote(outgoing, bytes);
    }

    /// Gives back memory that a quiet connection does not need; whether it is one.
    pub(crate) fn shrink(&mut self) -> bool {
        let quiet = self
            .queue
            .iter()
            .all(|entry| entry.owner == Owner::Keepalive);
        if quiet {
            self.out.shrink();
            self.slots.shrink();
        }
        quiet
    }

    /// Bytes of memory of all buffers.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.out.capacity()
            + self.slots.capacity()
            + self.queue.capacity() * size_of::<Entry>()
            + self.stamps.capacity() * size_of::<Stamp>()
    }
}

/// Whether a request changes the state of its connection in a way that only `RESET` surely undoes.
fn alters(summary: &Summary) -> bool {
    let followed = matches!(
        summary.name,
        "WATCH" | "UNWATCH" | "EXEC" | "DISCARD" | "RESET" | "WAIT"
    );
    summary.flags.contains(Flags::DEDICATED) && (summary.commands > 1 || !followed)
}

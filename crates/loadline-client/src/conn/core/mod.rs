//! A connection that many share, as a state that events change.
//!
//! [`Conn`] is what the tasks and the driver of a multiplexed connection share. Tasks put requests into one
//! buffer and wait in slots; the driver takes the buffer out to write it, and brings what it has read.
//! Replies are matched to requests by their order alone, so the order is the invariant: `queue` holds
//! exactly the requests whose bytes are in the buffers, oldest first, whether anyone still waits or not.

mod abandoned;
mod fate;
mod hold;
mod inbound;
mod outbox;
mod room;
mod slots;

#[cfg(test)]
mod tests;
mod time;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use loadline_resp::{OwnedReply, Protocol};

use super::carried::Outcome;
use super::scan::Scanner;
use super::session::Session;
use crate::meter::Meter;
use crate::request::Summary;
use crate::{Address, Config, Error, Flags, Request, Requests};
use hold::Hold;
use outbox::Outbox;
pub(crate) use outbox::Outgoing;
use slots::Slots;
pub(crate) use slots::{SlotId, SlotReplies, TakenReplies};

/// The shared state of a connection.
#[derive(Debug)]
pub(crate) struct Conn {
    config: Arc<Config>,
    session: Session,
    /// Whether several callers use the connection, so that none may change its state or hold it up.
    shared: bool,
    /// Up to this estimate of what requests hold there is room for another one.
    ample_bytes: u64,
    out: Outbox,
    /// Requests that are not answered completely, in the order of the wire.
    queue: VecDeque<Entry>,
    /// The number of the front of the queue, counted over the connection's life.
    front: u64,
    /// When requests came, for all up to a number at once.
    stamps: VecDeque<Stamp>,
    slots: Slots,
    /// Whether requests in the queue were withdrawn.
    withdrawn: bool,
    scanner: Scanner,
    inbound: Inbound,
    /// Requests that wait for another connection, since this server is not the one to ask now.
    hold: Hold,
    /// Whether the last connection has answered anything but the handshake.
    useful: bool,
    closed: bool,
    driver: Option<Waker>,
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
    /// Number of tries in which a server may have executed it, on connections that are gone.
    tries: u8,
    /// Whether it depends on the state of this connection, or changes it, so that it means nothing on another.
    bound: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Slot(SlotId),
    /// The caller was dropped.
    Dropped,
    /// The caller took it back before any of it was taken out to be written.
    Withdrawn,
    Keepalive,
    /// Credentials that were replaced.
    Login,
}

/// All requests below a number came at this time or before.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    below: u64,
    at: Instant,
}

/// The message that is being received, and the buffers for bytes that belong to no caller.
#[derive(Debug)]
struct Inbound {
    /// Whether the next byte is the first of a message.
    fresh: bool,
    /// Whether this message started as a push.
    push: bool,
    /// Where the message starts in the buffer of its slot.
    mark: usize,
    push_bytes: Vec<u8>,
    /// Where a reply is put together that the connection itself reads: one of the handshake, or one to a
    /// request that may change the state of the connection.
    own_bytes: Vec<u8>,
    /// Outcomes of the first commands of such a request.
    outcomes: Vec<Outcome>,
}

/// The state that the owner of a connection leaves behind on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Residue {
    /// Nothing that the next owner would notice.
    None,
    /// A state that `RESET` undoes: watched keys, a transaction, a database, a subscription.
    State,
    /// A request that may hold up the connection, or no connection at all.
    Unusable,
}

/// Results of received bytes, to be acted on once the lock is released.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) wake: Vec<Waker>,
    pub(crate) pushes: Vec<OwnedReply>,
}

impl Conn {
    pub(crate) fn new(config: Arc<Config>, shared: bool, now: Instant) -> Self {
        Self {
            scanner: Scanner::new(config.limits),
            session: Session::new(Arc::clone(&config), now),
            ample_bytes: room::ample_bytes(config.max_queue_bytes),
            config,
            shared,
            out: Outbox::default(),
            queue: VecDeque::new(),
            front: 0,
            stamps: VecDeque::new(),
            slots: Slots::default(),
            withdrawn: false,
            inbound: Inbound {
                fresh: true,
                push: false,
                mark: 0,
                push_bytes: Vec::new(),
                own_bytes: Vec::new(),
                outcomes: Vec::new(),
            },
            hold: Hold::default(),
            useful: false,
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
        self.renew_login();
        self.out.put_aside();
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

    /// Logs in again if the credentials have been replaced; whether it does.
    #[inline]
    fn renew_login(&mut self) -> bool {
        let before = self.out.pending.len();
        let renews = self.session.renew(&mut self.out.pending);
        if renews {
            self.append_own(Owner::Login, before);
        }
        renews
    }

    /// Appends a command of the connection's own, whose bytes were just added.
    fn append_own(&mut self, owner: Owner, before: usize) {
        self.queue.push_back(Entry {
            owner,
            bytes: self.out.pending.len() - before,
            commands: 1,
            replies_left: 1,
            flags: Flags::READ_ONLY,
            wait: Duration::ZERO,
            tries: 0,
            bound: true,
        });
    }

    /// Whether a request whose bytes were just added is taken, and whether it is bound to this very
    /// connection.
    #[inline]
    fn admit(&mut self, summary: &Summary) -> Result<bool, Error> {
        if self.is_crowded() {
            self.find_room()?;
        }
        let carried = &self.session.carried;
        if summary.flags.contains(Flags::BLOCKS) || !carried.leaves(summary.flags) {
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
        let bound = !self.session.carried.leaves(summary.flags);
        if bound {
            self.session.carried.admit(summary)?;
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

    /// The state that the owner leaves behind.
    pub(crate) fn residue(&self) -> Residue {
        let holds_up = |entry: &Entry| {
            entry.flags.contains(Flags::BLOCKS)
                || entry.flags.contains(Flags::DEDICATED)
                || !entry.wait.is_zero()
        };
        if self.closed || !self.is_ready() || self.queue.iter().any(holds_up) {
            Residue::Unusable
        } else if self.session.carried.is_altered() {
            Residue::State
        } else {
            Residue::None
        }
    }

    /// The state of the connection is that of a new one again.
    pub(crate) fn was_reset(&mut self) {
        self.session.carried.was_reset();
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

    /// The number of sockets so far: another one means another connection at the server.
    pub(crate) fn sockets(&self) -> u64 {
        self.session.sockets()
    }

    /// The version of the protocol that is spoken, if any is.
    pub(crate) fn protocol(&self) -> Option<Protocol> {
        self.session.protocol()
    }

    /// The reason why the connection breaks, with its likely cause.
    pub(crate) fn explain(&self, error: Error) -> Error {
        self.session.explain(error)
    }

    /// The pause before the next attempt to connect.
    pub(crate) fn pause(&mut self, now: Instant) -> Duration {
        self.session.pause(std::mem::take(&mut self.useful), now)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.session.is_ready()
    }

    /// Names the server that the sentinels have named for the next connection.
    pub(crate) fn is_to(&mut self, address: Option<&Address>) {
        self.session.is_to(address);
    }

    /// Begins the handshake on a new socket.
    pub(crate) fn connected(&mut self, now: Instant) {
        self.drop_abandoned();
        self.scanner = Scanner::new(self.config.limits);
        self.inbound.fresh = true;
        self.inbound.push_bytes.clear();
        self.inbound.own_bytes.clear();
        self.session.connected(now, &mut self.out.greeting);
    }

    /// Whether [`Conn::outgoing`] would give something.
    pub(crate) fn has_outgoing(&self) -> bool {
        if self.session.is_greeting() {
            !self.out.greeting.is_empty()
        } else if self.hold.is_draining() {
            self.out.is_within_request()
        } else {
            self.is_ready() && self.out.has_requests()
        }
    }

    /// Whether every request is answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// The bytes to write next, to be given back by [`Conn::wrote`].
    pub(crate) fn outgoing(&mut self) -> Option<Outgoing> {
        self.drop_withdrawn();
        if self.session.is_greeting() {
            self.out.take_greeting()
        } else if self.hold.is_draining() {
            self.out.take_partial()
        } else if self.is_ready() {
            self.out.take_requests()
        } else {
            None
        }
    }

    /// Takes back outgoing bytes, of which the operating system took the first `bytes`.
    pub(crate) fn wrote(&mut self, outgoing: Outgoing, bytes: usize) {
        self.out.wrote(outgoing, bytes);
    }

    /// Gives back memory that a quiet connection does not need; whether it is one.
    pub(crate) fn shrink(&mut self) -> bool {
        let quiet = self
            .queue
            .iter()
            .all(|entry| matches!(entry.owner, Owner::Keepalive | Owner::Login));
        if quiet {
            self.out.shrink();
            self.slots.shrink();
            self.queue.shrink_to(room::KEPT_REQUESTS);
            self.stamps.shrink_to(room::KEPT_REQUESTS);
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

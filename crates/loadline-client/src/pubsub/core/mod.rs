//! Subscriptions as a state that events change: no socket, no clock.
//!
//! A subscriber has one connection, and on a cluster one more to each node that serves its sharded channels.
//! One command is sent for each name, so that the server's confirmations and refusals come one for
//! one and in the order of the questions: `expected` holds exactly the questions of a connection that are not
//! answered.

mod connection;
mod inbound;
mod routes;
#[cfg(feature = "tokio")]
mod shared;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::queue::Queue;
use super::tickets::{TicketId, Tickets};
use super::wanted::Wanted;
use super::{Event, Kind};
use crate::conn::scan::Scanned;
use crate::{Address, Config, Error};
pub(crate) use connection::ConnectionId;
use connection::{Asked, ConnectionState};
use routes::Routes;

/// Error of calls whose connection will not be made again.
const CLOSED: Error = Error::Closed {
    maybe_executed: false,
};

/// The state of a subscriber, as its handle and the drivers of its connections share it.
#[derive(Debug)]
pub(crate) struct Core {
    config: Arc<Config>,
    /// Where sharded channels belong, on a cluster.
    routes: Option<Routes>,
    /// Each in a box: a node of the map has room for eleven, and most have one.
    connections: BTreeMap<ConnectionId, Box<ConnectionState>>,
    wanted: Wanted,
    tickets: Tickets,
    queue: Queue,
    /// Whether the handle is gone, or a driver.
    closed: bool,
    consumer: Option<Waker>,
    /// The drivers that have something to do because of an event on another connection.
    nudged: Vec<Waker>,
}

impl Core {
    /// The subscriptions on a single server.
    pub(crate) fn new(config: Arc<Config>, now: Instant) -> Self {
        let main = ConnectionState::new(None, &config, now);
        Self {
            routes: None,
            connections: BTreeMap::from([(ConnectionId::MAIN, Box::new(main))]),
            wanted: Wanted::default(),
            tickets: Tickets::default(),
            queue: Queue::new(config.max_queue_bytes),
            closed: false,
            consumer: None,
            nudged: Vec::new(),
            config,
        }
    }

    // ---- The side of the handle ----

    /// Wants these; the ticket is settled when the server has confirmed or refused them all.
    pub(crate) fn subscribe(&mut self, kind: Kind, names: Vec<Bytes>, now: Instant) -> TicketId {
        let ticket = self.tickets.open(now, self.config.response_timeout);
        for name in names {
            let subscription = self.wanted.of(kind).entry(name.clone()).or_default();
            if subscription.confirmed {
                continue;
            }
            subscription.waiting.push(ticket);
            self.tickets.expect(ticket);
            if subscription.asked.is_none() {
                self.place(kind, &name, now);
            }
        }
        ticket
    }

    /// Wants these no more; the ticket is settled when the server has confirmed that, or when there is no
    /// connection.
    pub(crate) fn unsubscribe(
        &mut self,
        kind: Kind,
        names: Vec<Bytes>,
        now: Instant,
        wake: &mut Vec<Waker>,
    ) -> TicketId {
        const TAKEN_BACK: Error =
            Error::Usage("the subscription was ended before the server had confirmed it");
        let ticket = self.tickets.open(now, self.config.response_timeout);
        for name in names {
            let Some(subscription) = self.wanted.of(kind).remove(&name) else {
                continue;
            };
            for &waiting in &subscription.waiting {
                self.tickets.settle(waiting, Some(TAKEN_BACK), wake);
            }
            if let Some(connection) = subscription.connection
                && self.leave(connection, kind, name, &subscription, Some(ticket), now)
            {
                self.tickets.expect(ticket);
            }
        }
        ticket
    }

    /// Whether all that a ticket waits for is settled.
    pub(crate) fn poll_ticket(
        &mut self,
        ticket: TicketId,
        waker: &Waker,
    ) -> Poll<Result<(), Error>> {
        let polled = self.tickets.poll(ticket, waker);
        if polled.is_pending() && self.closed {
            self.tickets.close(ticket);
            return Poll::Ready(Err(CLOSED));
        }
        polled
    }

    /// The next event for the consumer.
    pub(crate) fn poll_next(&mut self, waker: &Waker) -> Poll<Option<Event>> {
        if let Some(event) = self.queue.pop() {
            return Poll::Ready(Some(event));
        }
        if self.closed {
            return Poll::Ready(None);
        }
        self.consumer = Some(waker.clone());
        Poll::Pending
    }

    /// The reason why one of the connections is not there.
    pub(crate) fn outage(&self) -> Option<Error> {
        let mut connections = self.connections.values();
        connections.find_map(|connection| connection.session.outage().cloned())
    }

    // ---- The side of the drivers ----

    pub(crate) fn is_ready(&self, connection: ConnectionId) -> bool {
        self.connections
            .get(&connection)
            .is_some_and(|connection| connection.is_ready())
    }

    /// The pause before the next attempt to connect.
    pub(crate) fn pause(&mut self, connection: ConnectionId, now: Instant) -> Duration {
        let Some(connection) = self.connections.get_mut(&connection) else {
            return Duration::ZERO;
        };
        let brought = std::mem::take(&mut connection.brought_messages);
        connection.session.pause_by_age(brought, now)
    }

    /// Names the server that the sentinels have named for a connection.
    pub(crate) fn is_to(&mut self, connection: ConnectionId, address: Option<&Address>) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.session.is_to(address);
        }
    }

    /// A socket is there; the handshake begins.
    pub(crate) fn connected(&mut self, connection: ConnectionId, now: Instant) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.connected(now);
        }
    }

    /// The bytes that are to be written.
    pub(crate) fn take_out(&mut self, connection: ConnectionId) -> Vec<u8> {
        std::mem::take(&mut self.connection(connection).out)
    }

    /// Takes bytes that were received.
    ///
    /// # Errors
    /// The reason why the connection cannot go on; it must be broken then.
    pub(crate) fn receive(
        &mut self,
        id: ConnectionId,
        mut bytes: &[u8],
        now: Instant,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        let connection = self.connection(id);
        connection.heard_before = connection.session.heard();
        connection.session.hear(now);
        while !bytes.is_empty() {
            let connection = self.connection(id);
            let scanned = connection.scanner.next(bytes).map_err(protocol_error)?;
            let (Scanned::Reply(end) | Scanned::Push(end)) = scanned else {
                connection.partial.extend_from_slice(bytes);
                break;
            };
            if connection.partial.is_empty() {
                self.message(id, &bytes[..end], now, wake)?;
            } else {
                let mut frame = std::mem::take(&mut connection.partial);
                frame.extend_from_slice(&bytes[..end]);
                self.message(id, &frame, now, wake)?;
            }
            bytes = &bytes[end..];
        }
        wake.append(&mut self.nudged);
        Ok(())
    }

    /// The reason why a connection breaks, with its likely cause.
    pub(crate) fn explain(&self, id: ConnectionId, error: Error) -> Error {
        match self.connections.get(&id) {
            Some(connection) => connection.session.explain(error),
            None => error,
        }
    }

    /// The connection is gone, or could not be made.
    pub(crate) fn broke(&mut self, id: ConnectionId, error: Error, wake: &mut Vec<Waker>) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let heard = connection.session.heard();
        connection.session.broke(&error.with_executed(false));
        connection.resubscribed_by = None;
        connection.regained = false;
        if self.wanted.forget_connection(id, heard) {
            connection.lose(heard);
        }
        self.queue.forget(id);
        if connection.lost_since.is_some() {
            self.queue.hold(id);
        }
        for question in connection.expected.drain(..) {
            // Subscriptions of a connection that ended are not active any more.
            if let Asked::Unsubscribe(_, _, Some(ticket)) = question.what {
                self.tickets.settle(ticket, None, wake);
            }
        }
        self.want_map();
        wake.append(&mut self.nudged);
    }

    /// Handles the timer: asks a silent server whether it is there, and ends calls that have waited as long as they
    /// may.
    ///
    /// # Errors
    /// The reason why the connection must be broken: an answer is overdue, or its node has left the cluster.
    pub(crate) fn turn(
        &mut self,
        id: ConnectionId,
        now: Instant,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        for (ticket, after) in self.tickets.overdue(now) {
            let late = Error::Timeout {
                maybe_executed: self
                    .connections
                    .values()
                    .any(|connection| connection.is_ready()),
                after,
            };
            self.tickets.fail(ticket, late, wake);
            for (kind, name) in self.wanted.give_up(ticket) {
                if let Some(subscription) = self.wanted.of(kind).remove(&name)
                    && let Some(connection) = subscription.connection
                {
                    self.leave(connection, kind, name, &subscription, None, now);
                }
            }
        }
        self.end_if_unused(id);
        wake.append(&mut self.nudged);
        self.leave_lost_node(id)?;
        let Some(connection) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        if let Some((due, after)) = connection.answer_due()
            && now >= due
        {
            return Err(Error::Timeout {
                maybe_executed: true,
                after,
            });
        }
        if connection.ping_due().is_some_and(|due| now >= due) {
            connection.ask_ping(now);
        }
        Ok(())
    }

    /// When [`Core::turn`] has something to do at the latest.
    pub(crate) fn next_turn(&self, connection: ConnectionId) -> Option<Instant> {
        let connection = self.connections.get(&connection)?;
        let answer = connection.answer_due().map(|(due, _)| due);
        let ping = connection.ping_due();
        let times = [answer, ping, self.tickets.next_deadline()];
        times.into_iter().flatten().min()
    }

    /// A connection that is driven.
    fn connection(&mut self, connection: ConnectionId) -> &mut ConnectionState {
        let connection = self.connections.get_mut(&connection);
        connection.expect("a connection stays in the map for as long as it is driven")
    }
}

#[cfg(test)]
impl Core {
    /// The name in the oldest question that is not answered.
    pub(crate) fn first_expected(&self) -> Option<Bytes> {
        match &self.connections[&ConnectionId::MAIN].expected.front()?.what {
            Asked::Subscribe(_, name) | Asked::Unsubscribe(_, name, _) => Some(name.clone()),
            Asked::Ping => None,
        }
    }
}

fn protocol_error(source: loadline_resp::Error) -> Error {
    Error::Protocol {
        maybe_executed: true,
        source,
    }
}

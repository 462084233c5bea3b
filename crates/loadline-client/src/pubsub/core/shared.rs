//! Operations that a core needs only where tasks drive it.

use std::task::{Poll, Waker};

use super::{CLOSED, ConnectionId, Core};
use crate::pubsub::tickets::TicketId;

impl Core {
    /// Forgets a ticket whose caller has stopped waiting; its subscriptions stay wanted.
    pub(crate) fn abandon(&mut self, ticket: TicketId) {
        self.tickets.close(ticket);
    }

    /// All tasks have to end; those who do not know it yet.
    pub(crate) fn close(&mut self) -> Vec<Waker> {
        self.closed = true;
        self.take_drivers()
    }

    /// Those who drive, to be woken once the lock is released.
    pub(crate) fn take_drivers(&mut self) -> Vec<Waker> {
        let mut wake = std::mem::take(&mut self.nudged);
        let connections = self.connections.values_mut();
        wake.extend(connections.filter_map(|connection| connection.driver.take()));
        if let Some(routes) = &mut self.routes {
            wake.extend(routes.starter.take());
            wake.extend(routes.refresher.take());
        }
        wake
    }

    pub(crate) fn register_driver(&mut self, connection: ConnectionId, waker: &Waker) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.driver = Some(waker.clone());
        }
    }

    /// Connections without a driver; `None` once the subscriber is closed.
    pub(crate) fn poll_new(&mut self, waker: &Waker) -> Poll<Option<Vec<ConnectionId>>> {
        if self.closed {
            return Poll::Ready(None);
        }
        let new = self.take_new();
        if !new.is_empty() {
            return Poll::Ready(Some(new));
        }
        if let Some(routes) = &mut self.routes {
            routes.starter = Some(waker.clone());
        }
        Poll::Pending
    }

    /// Whether a new map is wanted; `None` once the subscriber is closed.
    pub(crate) fn poll_stale(&mut self, waker: &Waker) -> Poll<Option<()>> {
        if self.closed {
            return Poll::Ready(None);
        }
        if self.is_stale() {
            return Poll::Ready(Some(()));
        }
        if let Some(routes) = &mut self.routes {
            routes.refresher = Some(waker.clone());
        }
        Poll::Pending
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// No connection will be made any more.
    pub(crate) fn finish(&mut self, wake: &mut Vec<Waker>) {
        wake.extend(self.close());
        self.connection(ConnectionId::MAIN)
            .session
            .set_outage(CLOSED);
        self.tickets.fail_all(&CLOSED, wake);
        wake.extend(self.consumer.take());
    }
}

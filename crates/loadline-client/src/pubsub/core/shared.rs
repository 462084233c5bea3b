//! What a core needs that a task drives for others.

use std::task::Waker;

use super::{CLOSED, Core};
use crate::pubsub::tickets::TicketId;

impl Core {
    /// Nobody waits with this ticket any more; what it asked for stays wanted.
    pub(crate) fn abandon(&mut self, ticket: TicketId) {
        self.tickets.close(ticket);
    }

    /// The driver has to end.
    pub(crate) fn close(&mut self) -> Option<Waker> {
        self.closed = true;
        self.take_driver()
    }

    /// The driver, to be woken once the lock is released.
    pub(crate) fn take_driver(&mut self) -> Option<Waker> {
        self.driver.take()
    }

    pub(crate) fn register_driver(&mut self, waker: &Waker) {
        self.driver = Some(waker.clone());
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// No connection will be made any more.
    pub(crate) fn finish(&mut self, wake: &mut Vec<Waker>) {
        self.closed = true;
        self.outage = Some(CLOSED);
        self.tickets.fail_all(&CLOSED, wake);
        wake.extend(self.consumer.take());
    }
}

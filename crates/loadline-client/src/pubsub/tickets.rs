//! Callers who wait until all of their subscriptions are confirmed, refused or too late.

use std::collections::HashMap;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::Error;

/// Names a caller that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TicketId(u64);

/// All callers that wait.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    next: u64,
    open: HashMap<TicketId, Ticket>,
}

#[derive(Debug)]
struct Ticket {
    /// Confirmations that are to come.
    left: usize,
    error: Option<Error>,
    deadline: Option<(Instant, Duration)>,
    waker: Option<Waker>,
}

impl Tickets {
    /// A caller waits for no confirmation yet, and for none longer than `timeout`.
    pub(super) fn open(&mut self, now: Instant, timeout: Option<Duration>) -> TicketId {
        let id = TicketId(self.next);
        self.next += 1;
        let deadline = timeout.and_then(|after| Some((now.checked_add(after)?, after)));
        self.open.insert(
            id,
            Ticket {
                left: 0,
                error: None,
                deadline,
                waker: None,
            },
        );
        id
    }

    /// One confirmation more is to come.
    pub(super) fn expect(&mut self, id: TicketId) {
        if let Some(ticket) = self.open.get_mut(&id) {
            ticket.left += 1;
        }
    }

    /// Notes a confirmation, or an error instead; the caller gets the first error.
    pub(super) fn settle(&mut self, id: TicketId, error: Option<Error>, wake: &mut Vec<Waker>) {
        if let Some(ticket) = self.open.get_mut(&id) {
            ticket.left = ticket.left.saturating_sub(1);
            if ticket.error.is_none() {
                ticket.error = error;
            }
            if ticket.left == 0 {
                wake.extend(ticket.waker.take());
            }
        }
    }

    /// The caller does not wait any longer than now, and gets this.
    pub(super) fn fail(&mut self, id: TicketId, error: Error, wake: &mut Vec<Waker>) {
        if let Some(ticket) = self.open.get_mut(&id) {
            ticket.left = 0;
            ticket.error = Some(error);
            wake.extend(ticket.waker.take());
        }
    }

    #[cfg(feature = "tokio")]
    pub(super) fn fail_all(&mut self, error: &Error, wake: &mut Vec<Waker>) {
        let all: Vec<_> = self.open.keys().copied().collect();
        for id in all {
            self.fail(id, error.clone(), wake);
        }
    }

    /// The outcome of a ticket. An unknown ticket was settled before.
    pub(super) fn poll(&mut self, id: TicketId, waker: &Waker) -> Poll<Result<(), Error>> {
        match self.open.get_mut(&id) {
            Some(ticket) if ticket.left > 0 => {
                ticket.waker = Some(waker.clone());
                return Poll::Pending;
            }
            _ => {}
        }
        let settled = self.open.remove(&id);
        let error = settled.and_then(|ticket| ticket.error);
        Poll::Ready(error.map_or(Ok(()), Err))
    }

    /// Forgets a ticket whose caller has stopped waiting.
    pub(super) fn close(&mut self, id: TicketId) {
        self.open.remove(&id);
    }

    /// Those whose time is over, with the time that they had.
    pub(super) fn overdue(&self, now: Instant) -> Vec<(TicketId, Duration)> {
        let waiting = self.open.iter().filter(|(_, ticket)| ticket.left > 0);
        waiting
            .filter_map(|(id, ticket)| {
                let (deadline, after) = ticket.deadline?;
                (now >= deadline).then_some((*id, after))
            })
            .collect()
    }

    /// When the next one is overdue.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let waiting = self.open.values().filter(|ticket| ticket.left > 0);
        let deadlines = waiting.filter_map(|ticket| ticket.deadline);
        deadlines.map(|(deadline, _)| deadline).min()
    }
}

//! A subscribing connection as a state that events change: no socket, no clock.
//!
//! One command is sent for each name, so that the server's confirmations and refusals come one for one and
//! in the order of the questions: `expected` holds exactly the questions that are not answered.

mod inbound;
#[cfg(feature = "tokio")]
mod shared;

use std::collections::VecDeque;
use std::io;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use loadline_resp::encode;

use super::queue::Queue;
use super::tickets::{TicketId, Tickets};
use super::wanted::Wanted;
use super::{Event, Kind};
use crate::conn::greeting::Greeting;
use crate::conn::scan::{Scanned, Scanner};
use crate::{Config, Error};

/// What callers get whose connection will not be made again.
const CLOSED: Error = Error::Closed {
    maybe_executed: false,
};

/// The state of a subscribing connection, as its handle and its driver share it.
#[derive(Debug)]
pub(crate) struct Core {
    config: Config,
    state: State,
    wanted: Wanted,
    tickets: Tickets,
    queue: Queue,
    out: Vec<u8>,
    expected: VecDeque<Question>,
    questions: u64,
    scanner: Scanner,
    /// The beginning of a message whose end has not come.
    partial: Vec<u8>,
    heard: Instant,
    /// Since when messages may be missing.
    lost_since: Option<Instant>,
    /// The last question of those with which all is subscribed again.
    resubscribed_by: Option<u64>,
    /// Whether this connection has answered anything, beside the handshake.
    useful: bool,
    outage: Option<Error>,
    /// Whether the handle is gone, or the driver.
    closed: bool,
    consumer: Option<Waker>,
    #[cfg(feature = "tokio")]
    driver: Option<Waker>,
}

#[derive(Debug)]
enum State {
    Down,
    Greeting {
        greeting: Greeting,
        deadline: Instant,
    },
    Ready,
}

/// Something that the server has to answer.
#[derive(Debug)]
struct Question {
    number: u64,
    at: Instant,
    what: Asked,
}

#[derive(Debug)]
enum Asked {
    Subscribe(Kind, Bytes),
    Unsubscribe(Kind, Bytes, Option<TicketId>),
    Ping,
}

impl Core {
    pub(crate) fn new(config: Config, now: Instant) -> Self {
        Self {
            state: State::Down,
            wanted: Wanted::default(),
            tickets: Tickets::default(),
            queue: Queue::new(config.max_queue_bytes),
            out: Vec::new(),
            expected: VecDeque::new(),
            questions: 0,
            scanner: Scanner::new(config.limits),
            partial: Vec::new(),
            heard: now,
            lost_since: None,
            resubscribed_by: None,
            useful: false,
            outage: None,
            closed: false,
            consumer: None,
            #[cfg(feature = "tokio")]
            driver: None,
            config,
        }
    }

    // ---- The side of the handle ----

    /// Wants these; the ticket is settled when the server has confirmed or refused them all.
    pub(crate) fn subscribe(&mut self, kind: Kind, names: Vec<Bytes>, now: Instant) -> TicketId {
        let ticket = self.tickets.open(now, self.config.response_timeout);
        for name in names {
            let standing = self.wanted.of(kind).entry(name.clone()).or_default();
            if standing.confirmed {
                continue;
            }
            standing.waiting.push(ticket);
            self.tickets.expect(ticket);
            if standing.asked.is_none() && self.is_ready() {
                self.ask_subscribe(kind, &name, now);
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
            let Some(standing) = self.wanted.of(kind).remove(&name) else {
                continue;
            };
            for waiting in standing.waiting {
                self.tickets.settle(waiting, Some(TAKEN_BACK), wake);
            }
            if standing.asked.is_some() {
                self.tickets.expect(ticket);
                self.ask_unsubscribe(kind, name, Some(ticket), now);
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

    pub(crate) fn outage(&self) -> Option<Error> {
        self.outage.clone()
    }

    // ---- The side of the driver ----

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready)
    }

    pub(crate) fn was_useful(&self) -> bool {
        self.useful
    }

    /// A socket is there; the handshake begins.
    pub(crate) fn connected(&mut self, now: Instant) {
        self.scanner = Scanner::new(self.config.limits);
        self.partial.clear();
        self.out.clear();
        self.useful = false;
        self.state = State::Greeting {
            greeting: Greeting::start(&self.config, &mut self.out),
            deadline: now + self.config.connect_timeout,
        };
    }

    /// The bytes that are to be written.
    pub(crate) fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Takes bytes that were received.
    ///
    /// # Errors
    /// Why the connection cannot go on; it has to be broken then.
    pub(crate) fn receive(
        &mut self,
        mut bytes: &[u8],
        now: Instant,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        self.heard = now;
        while !bytes.is_empty() {
            let scanned = self.scanner.next(bytes).map_err(protocol_error)?;
            let (Scanned::Reply(end) | Scanned::Push(end)) = scanned else {
                self.partial.extend_from_slice(bytes);
                break;
            };
            if self.partial.is_empty() {
                self.message(&bytes[..end], now, wake)?;
            } else {
                let mut frame = std::mem::take(&mut self.partial);
                frame.extend_from_slice(&bytes[..end]);
                self.message(&frame, now, wake)?;
            }
            bytes = &bytes[end..];
        }
        Ok(())
    }

    /// The connection is gone, or could not be made.
    pub(crate) fn broke(&mut self, error: Error, wake: &mut Vec<Waker>) {
        self.state = State::Down;
        self.outage = Some(error);
        self.resubscribed_by = None;
        if self.wanted.forget_connection() {
            self.lost_since.get_or_insert(self.heard);
        }
        if self.lost_since.is_some() {
            self.queue.hold();
        }
        for question in self.expected.drain(..) {
            // What ended with the connection is not subscribed to any more.
            if let Asked::Unsubscribe(_, _, Some(ticket)) = question.what {
                self.tickets.settle(ticket, None, wake);
            }
        }
    }

    /// What time does: a silent server is asked whether it is there, and callers wait no longer than they
    /// may.
    ///
    /// # Errors
    /// That an answer is overdue; the connection has to be broken then.
    pub(crate) fn turn(&mut self, now: Instant, wake: &mut Vec<Waker>) -> Result<(), Error> {
        for (ticket, after) in self.tickets.overdue(now) {
            let late = Error::Timeout {
                maybe_executed: self.is_ready(),
                after,
            };
            self.tickets.fail(ticket, late, wake);
            for (kind, name) in self.wanted.give_up(ticket) {
                let standing = self.wanted.of(kind).remove(&name);
                if standing.is_some_and(|standing| standing.asked.is_some()) {
                    self.ask_unsubscribe(kind, name, None, now);
                }
            }
        }
        if let Some((due, after)) = self.answer_due()
            && now >= due
        {
            return Err(Error::Timeout {
                maybe_executed: true,
                after,
            });
        }
        if self.ping_due().is_some_and(|due| now >= due) {
            encode::command(&mut self.out, &["PING"]);
            self.ask(Asked::Ping, now);
        }
        Ok(())
    }

    /// When [`Core::turn`] has something to do at the latest.
    pub(crate) fn next_turn(&self) -> Option<Instant> {
        let answer = self.answer_due().map(|(due, _)| due);
        let times = [answer, self.ping_due(), self.tickets.next_deadline()];
        times.into_iter().flatten().min()
    }

    // ---- Questions ----

    fn ask(&mut self, what: Asked, now: Instant) -> u64 {
        self.questions += 1;
        self.expected.push_back(Question {
            number: self.questions,
            at: now,
            what,
        });
        self.questions
    }

    fn ask_subscribe(&mut self, kind: Kind, name: &Bytes, now: Instant) -> u64 {
        let command: &[u8] = match kind {
            Kind::Channel => b"SUBSCRIBE",
            Kind::Pattern => b"PSUBSCRIBE",
            Kind::Shard => b"SSUBSCRIBE",
        };
        encode::command(&mut self.out, &[command, name]);
        let number = self.ask(Asked::Subscribe(kind, name.clone()), now);
        if let Some(standing) = self.wanted.of(kind).get_mut(name) {
            standing.asked = Some(number);
        }
        number
    }

    fn ask_unsubscribe(&mut self, kind: Kind, name: Bytes, ticket: Option<TicketId>, now: Instant) {
        let command: &[u8] = match kind {
            Kind::Channel => b"UNSUBSCRIBE",
            Kind::Pattern => b"PUNSUBSCRIBE",
            Kind::Shard => b"SUNSUBSCRIBE",
        };
        encode::command(&mut self.out, &[command, &name]);
        self.ask(Asked::Unsubscribe(kind, name, ticket), now);
    }

    /// When an answer is overdue, and after what time. Answers wait behind messages, so a connection that
    /// brings anything is not given up.
    fn answer_due(&self) -> Option<(Instant, Duration)> {
        if let State::Greeting { deadline, .. } = self.state {
            return Some((deadline, self.config.connect_timeout));
        }
        let question = self.expected.front()?;
        let after = self.config.response_timeout.or(match question.what {
            // The question whether anyone is there needs an answer, however long others may take.
            Asked::Ping => self.config.keepalive,
            _ => None,
        })?;
        let due = question.at.max(self.heard).checked_add(after)?;
        Some((due, after))
    }

    fn ping_due(&self) -> Option<Instant> {
        if !self.is_ready() || !self.expected.is_empty() {
            return None;
        }
        self.heard.checked_add(self.config.keepalive?)
    }
}

#[cfg(test)]
impl Core {
    /// The name in the oldest question that is not answered.
    pub(crate) fn first_expected(&self) -> Option<Bytes> {
        match &self.expected.front()?.what {
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

fn unasked() -> Error {
    let what = "the server sent something that answers no subscription";
    Error::connection(io::Error::new(io::ErrorKind::InvalidData, what), true)
}

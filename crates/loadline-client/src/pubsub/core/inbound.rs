//! What the server says: confirmations, refusals and messages.

use std::task::Waker;
use std::time::Instant;

use bytes::Bytes;
use loadline_resp::Reply;

use super::{Asked, Core, Question, State, protocol_error, unasked};
use crate::Error;
use crate::conn::scan::decode;
use crate::pubsub::wanted::Standing;
use crate::pubsub::{Event, Kind, Message};

impl Core {
    pub(super) fn message(
        &mut self,
        frame: &[u8],
        now: Instant,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        let reply = decode(frame, self.config.limits).map_err(protocol_error)?;
        if let State::Greeting { greeting, .. } = &mut self.state {
            if let Reply::Push(_) = reply {
                return Ok(());
            }
            if greeting.reply(&reply, &mut self.out)?.is_some() {
                self.ready(now);
            }
            return Ok(());
        }
        if let Some(text) = reply.error_text() {
            return self.refused(&Error::server(text), now, wake);
        }
        match reply.into_without_attributes() {
            Reply::Array(items) => self.told(&items, false, now, wake),
            Reply::Push(items) => self.told(&items, true, now, wake),
            Reply::Simple(b"PONG") => self.pong(),
            _ => Err(unasked()),
        }
    }

    /// The handshake is done: all that is wanted is asked for, with one write.
    fn ready(&mut self, now: Instant) {
        self.state = State::Ready;
        self.outage = None;
        let mut last = None;
        for (kind, name) in self.wanted.names() {
            last = Some(self.ask_subscribe(kind, &name, now));
        }
        self.resubscribed_by = last;
        if last.is_none() {
            self.all_stand(now);
        }
    }

    /// A push message of RESP3, or an array of RESP2, which mean the same here.
    fn told(
        &mut self,
        items: &[Reply<'_>],
        push: bool,
        now: Instant,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        let text = |at: usize| items.get(at).and_then(Reply::as_bytes);
        let (Some(what), second) = (text(0), text(1)) else {
            return Err(unasked());
        };
        let (kind, verb) = match what {
            [b'p', verb @ ..] if what != b"pong" => (Kind::Pattern, verb),
            [b's', verb @ ..] if what != b"subscribe" => (Kind::Shard, verb),
            verb => (Kind::Channel, verb),
        };
        match (verb, second, text(2), text(3)) {
            (b"message", Some(pattern), Some(channel), Some(payload)) if kind == Kind::Pattern => {
                self.published(kind, pattern, Some(channel), payload, wake);
                Ok(())
            }
            (b"message", Some(channel), Some(payload), None) => {
                self.published(kind, channel, None, payload, wake);
                Ok(())
            }
            (b"subscribe", Some(name), ..) => self.confirmed(kind, name, now, wake),
            (b"unsubscribe", Some(name), ..) => self.unsubscribed(kind, name, wake),
            (b"pong", ..) => self.pong(),
            // Invalidations of client-side caching and the like are not for this connection.
            _ if push => Ok(()),
            _ => Err(unasked()),
        }
    }

    /// A message; `subscription` is the pattern where there is a `matched` channel, else the channel.
    fn published(
        &mut self,
        kind: Kind,
        subscription: &[u8],
        matched: Option<&[u8]>,
        payload: &[u8],
        wake: &mut Vec<Waker>,
    ) {
        self.useful = true;
        // What the consumer has unsubscribed from is on its way until the server has heard of it.
        let Some(name) = self.wanted.name(kind, subscription) else {
            return;
        };
        let (channel, pattern) = match matched {
            Some(channel) => (Bytes::copy_from_slice(channel), Some(name)),
            None => (name, None),
        };
        self.queue.message(Message {
            kind,
            channel,
            pattern,
            payload: Bytes::copy_from_slice(payload),
        });
        wake.extend(self.consumer.take());
    }

    fn confirmed(
        &mut self,
        kind: Kind,
        name: &[u8],
        now: Instant,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        let question = self.answered()?;
        if !matches!(&question.what, Asked::Subscribe(asked, of) if *asked == kind && of == name) {
            return Err(unasked());
        }
        if let Some(standing) = self.wanted.of(kind).get_mut(name)
            && standing.asked == Some(question.number)
        {
            standing.confirmed = true;
            standing.stood = true;
            for ticket in std::mem::take(&mut standing.waiting) {
                self.tickets.settle(ticket, None, wake);
            }
        }
        self.settled(&question, now, wake);
        Ok(())
    }

    fn unsubscribed(
        &mut self,
        kind: Kind,
        name: &[u8],
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        // A shard that moves to another server ends its subscriptions unasked: the next connection finds
        // out what has become of them.
        match self.answered()?.what {
            Asked::Unsubscribe(asked, of, ticket) if asked == kind && of == name => {
                if let Some(ticket) = ticket {
                    self.tickets.settle(ticket, None, wake);
                }
                Ok(())
            }
            _ => Err(unasked()),
        }
    }

    /// The server answered a question with an error.
    fn refused(&mut self, error: &Error, now: Instant, wake: &mut Vec<Waker>) -> Result<(), Error> {
        let question = self.answered()?;
        match &question.what {
            Asked::Subscribe(kind, name) => self.give_up(*kind, name, &question, error, wake),
            Asked::Unsubscribe(_, _, ticket) => {
                if let Some(ticket) = ticket {
                    self.tickets.settle(*ticket, Some(error.clone()), wake);
                }
            }
            // A server that answers is there, whatever it says.
            Asked::Ping => {}
        }
        self.settled(&question, now, wake);
        Ok(())
    }

    /// A subscription that the server refuses is told to whoever waits for it, else to the consumer.
    fn give_up(
        &mut self,
        kind: Kind,
        name: &Bytes,
        question: &Question,
        error: &Error,
        wake: &mut Vec<Waker>,
    ) {
        let names = self.wanted.of(kind);
        let asked = names.get(name).and_then(|standing| standing.asked);
        if asked != Some(question.number) {
            return;
        }
        let Standing { waiting, stood, .. } = names.remove(name).unwrap_or_default();
        if stood || waiting.is_empty() {
            self.queue.refused(Event::Refused {
                kind,
                name: name.clone(),
                error: error.clone(),
            });
            wake.extend(self.consumer.take());
        }
        for ticket in waiting {
            self.tickets.settle(ticket, Some(error.clone()), wake);
        }
    }

    fn pong(&mut self) -> Result<(), Error> {
        match self.answered()?.what {
            Asked::Ping => Ok(()),
            _ => Err(unasked()),
        }
    }

    fn answered(&mut self) -> Result<Question, Error> {
        self.useful = true;
        self.expected.pop_front().ok_or_else(unasked)
    }

    fn settled(&mut self, question: &Question, now: Instant, wake: &mut Vec<Waker>) {
        if self.resubscribed_by == Some(question.number) {
            self.resubscribed_by = None;
            self.all_stand(now);
            wake.extend(self.consumer.take());
        }
    }

    fn all_stand(&mut self, now: Instant) {
        if let Some(since) = self.lost_since.take() {
            self.queue.release(now.saturating_duration_since(since));
        }
    }
}

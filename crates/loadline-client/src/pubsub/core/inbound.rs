//! Messages from the server: confirmations, refusals and published messages.

use std::task::Waker;
use std::time::Instant;

use bytes::Bytes;
use loadline_resp::Reply;

use super::connection::{Asked, Question, unasked};
use super::{ConnectionId, Core, protocol_error};
use crate::Error;
use crate::cluster::Refusal;
use crate::conn::scan::decode;
use crate::pubsub::wanted::Subscription;
use crate::pubsub::{Event, Kind, Message};

impl Core {
    pub(super) fn message(
        &mut self,
        id: ConnectionId,
        frame: &[u8],
        now: Instant,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        let reply = decode(frame, self.config.limits).map_err(protocol_error)?;
        let connection = self.connection(id);
        if connection.session.is_greeting() {
            if let Reply::Push(_) = reply {
                return Ok(());
            }
            if connection
                .session
                .greeted(&reply, now, &mut connection.out)?
            {
                self.ready(id, now);
            }
            return Ok(());
        }
        if let Some(text) = reply.error_text() {
            return self.refused(id, &Error::server(text), now, wake);
        }
        match reply.into_without_attributes() {
            Reply::Array(items) => self.told(id, &items, false, now, wake),
            Reply::Push(items)
                if items.first().and_then(Reply::as_bytes) == Some(b"invalidate") =>
            {
                self.invalidated(id, items.get(1), wake);
                Ok(())
            }
            Reply::Push(items) => self.told(id, &items, true, now, wake),
            Reply::Simple(b"PONG") => self.pong(id),
            Reply::Simple(b"OK") => self.switched(id, now, wake),
            _ => Err(unasked()),
        }
    }

    /// The handshake is done: all that is wanted of this connection is asked for, with one write.
    fn ready(&mut self, id: ConnectionId, now: Instant) {
        let names = self.wanted.names_on(id);
        let connection = self.connection(id);
        connection.regained = names.is_empty();
        let asked = names.into_iter().map(|(kind, name)| {
            let number = connection.ask_subscribe(kind, &name, now);
            (kind, name, number)
        });
        let asked: Vec<_> = asked.collect();
        connection.resubscribed_by = asked.last().map(|(.., number)| *number);
        if asked.is_empty() {
            self.all_confirmed(id, now);
        }
        for (kind, name, number) in asked {
            if let Some(subscription) = self.wanted.of(kind).get_mut(&name) {
                subscription.asked = Some(number);
            }
        }
    }

    /// A push message of RESP3, or an array of RESP2, which mean the same here.
    fn told(
        &mut self,
        id: ConnectionId,
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
                self.published(id, kind, pattern, Some(channel), payload, wake);
                Ok(())
            }
            (b"message", Some(channel), Some(payload), None) => {
                self.published(id, kind, channel, None, payload, wake);
                Ok(())
            }
            (b"subscribe", Some(name), ..) => self.confirmed(id, kind, name, now, wake),
            (b"unsubscribe", Some(name), ..) => self.unsubscribed(id, kind, name, now, wake),
            (b"pong", ..) => self.pong(id),
            // Pushes of later servers are not for this connection.
            _ if push => Ok(()),
            _ => Err(unasked()),
        }
    }

    /// Queues a message; `subscribed` is the pattern if there is a `matched` channel, else the channel.
    fn published(
        &mut self,
        id: ConnectionId,
        kind: Kind,
        subscribed: &[u8],
        matched: Option<&[u8]>,
        payload: &[u8],
        wake: &mut Vec<Waker>,
    ) {
        self.connection(id).brought_messages = true;
        // Messages still arrive after `unsubscribe` and after a move, until the server has handled the command.
        let Some(name) = self.wanted.name(kind, subscribed) else {
            return;
        };
        let subscription = self.wanted.of(kind).get(&name);
        if subscription.is_none_or(|subscription| subscription.connection != Some(id)) {
            return;
        }
        let (channel, pattern) = match matched {
            Some(channel) => (Bytes::copy_from_slice(channel), Some(name)),
            None => (name, None),
        };
        let message = Message {
            kind,
            channel,
            pattern,
            payload: Bytes::copy_from_slice(payload),
        };
        self.queue.message(id, message);
        wake.extend(self.consumer.take());
    }

    /// Queues the keys that have changed; without an array, all have.
    fn invalidated(&mut self, id: ConnectionId, keys: Option<&Reply<'_>>, wake: &mut Vec<Waker>) {
        if !self.wanted.has_keys() {
            return;
        }
        self.connection(id).brought_messages = true;
        let changed = |key: &[u8], pattern: Option<&'static [u8]>| Message {
            kind: Kind::Keys,
            channel: Bytes::copy_from_slice(key),
            pattern: pattern.map(Bytes::from_static),
            payload: Bytes::new(),
        };
        match keys {
            Some(Reply::Array(keys)) => {
                for key in keys.iter().filter_map(Reply::as_bytes) {
                    self.queue.message(id, changed(key, None));
                }
            }
            _ => self.queue.message(id, changed(b"", Some(b"*"))),
        }
        wake.extend(self.consumer.take());
    }

    /// The server has answered a command of `CLIENT TRACKING`, which does not repeat the prefix.
    fn switched(
        &mut self,
        id: ConnectionId,
        now: Instant,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        let front = self.connection(id).expected.front();
        match front.map(|question| &question.what) {
            Some(Asked::Subscribe(Kind::Keys, prefix)) => {
                let prefix = prefix.clone();
                self.confirmed(id, Kind::Keys, &prefix, now, wake)
            }
            Some(Asked::Unsubscribe(Kind::Keys, prefix, _)) => {
                let prefix = prefix.clone();
                self.unsubscribed(id, Kind::Keys, &prefix, now, wake)
            }
            _ => Err(unasked()),
        }
    }

    fn confirmed(
        &mut self,
        id: ConnectionId,
        kind: Kind,
        name: &[u8],
        now: Instant,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        let question = self.connection(id).answered()?;
        if !matches!(&question.what, Asked::Subscribe(asked, of) if *asked == kind && of == name) {
            return Err(unasked());
        }
        let regained = match self.wanted.of(kind).get_mut(name) {
            Some(subscription) if subscription.is_asked_by(id, question.number) => {
                subscription.confirmed = true;
                subscription.was_confirmed = true;
                subscription.moves = 0;
                for ticket in std::mem::take(&mut subscription.waiting) {
                    self.tickets.settle(ticket, None, wake);
                }
                subscription.lost_since.take().is_some()
            }
            // It belongs to another connection by now.
            Some(_) => false,
            // It is not wanted any more, so nothing is missing.
            None => true,
        };
        self.connection(id).regained |= regained;
        self.settled(id, &question, now, wake);
        Ok(())
    }

    fn unsubscribed(
        &mut self,
        id: ConnectionId,
        kind: Kind,
        name: &[u8],
        now: Instant,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        let may_move = kind == Kind::Shard && self.routes.is_some();
        let connection = self.connection(id);
        let front = connection.expected.front().map(|question| &question.what);
        let asked =
            matches!(front, Some(Asked::Unsubscribe(asked, of, _)) if *asked == kind && of == name);
        if !asked && may_move {
            self.ended_by_server(id, name, now);
            return Ok(());
        }
        match connection.answered()?.what {
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
    fn refused(
        &mut self,
        id: ConnectionId,
        error: &Error,
        now: Instant,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        let question = self.connection(id).answered()?;
        match &question.what {
            Asked::Subscribe(Kind::Shard, name) if self.refusal(id, error).is_some() => {
                let subscription = self.wanted.of(Kind::Shard).get(name);
                if subscription
                    .is_some_and(|subscription| subscription.is_asked_by(id, question.number))
                {
                    self.redirected(id, name, error, now);
                }
            }
            Asked::Subscribe(kind, name) => {
                self.give_up(id, *kind, name, &question, error, wake);
            }
            Asked::Unsubscribe(_, _, ticket) => {
                // A node that has lost the slot has ended the subscription already.
                let moved = matches!(self.refusal(id, error), Some(Refusal::Moved(..)));
                let error = (!moved).then(|| error.clone());
                if let Some(ticket) = ticket {
                    self.tickets.settle(*ticket, error, wake);
                }
            }
            // A server that answers is there, whatever it says.
            Asked::Ping => {}
        }
        self.settled(id, &question, now, wake);
        Ok(())
    }

    /// Reports a subscription that the server refuses to the callers that wait for it, else to the consumer.
    fn give_up(
        &mut self,
        id: ConnectionId,
        kind: Kind,
        name: &Bytes,
        question: &Question,
        error: &Error,
        wake: &mut Vec<Waker>,
    ) {
        let names = self.wanted.of(kind);
        let asked = names.get(name);
        if !asked.is_some_and(|subscription| subscription.is_asked_by(id, question.number)) {
            return;
        }
        let Subscription {
            waiting,
            was_confirmed,
            lost_since,
            ..
        } = names.remove(name).unwrap_or_default();
        let connection = self.connection(id);
        connection.left = true;
        connection.regained |= lost_since.is_some();
        if was_confirmed || waiting.is_empty() {
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

    fn pong(&mut self, id: ConnectionId) -> Result<(), Error> {
        match self.connection(id).answered()?.what {
            Asked::Ping => Ok(()),
            _ => Err(unasked()),
        }
    }

    fn settled(
        &mut self,
        id: ConnectionId,
        question: &Question,
        now: Instant,
        wake: &mut Vec<Waker>,
    ) {
        let connection = self.connection(id);
        if connection.resubscribed_by == Some(question.number) {
            connection.resubscribed_by = None;
            self.all_confirmed(id, now);
            wake.extend(self.consumer.take());
        }
    }

    /// Ends the gap of a connection. If all of its subscriptions have moved to others, those announce the gap.
    fn all_confirmed(&mut self, id: ConnectionId, now: Instant) {
        let connection = self.connection(id);
        let regained = std::mem::take(&mut connection.regained);
        if let Some(since) = connection.lost_since.take() {
            let outage = regained.then(|| now.saturating_duration_since(since));
            self.queue.release(id, outage);
        }
    }
}

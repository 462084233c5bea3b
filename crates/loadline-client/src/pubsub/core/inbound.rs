//! What the server says: confirmations, refusals and messages.

use std::task::Waker;
use std::time::Instant;

use bytes::Bytes;
use loadline_resp::Reply;

use super::lane::{Asked, Question, unasked};
use super::{Core, LaneId, protocol_error};
use crate::Error;
use crate::cluster::Refusal;
use crate::conn::scan::decode;
use crate::pubsub::wanted::Standing;
use crate::pubsub::{Event, Kind, Message};

impl Core {
    pub(super) fn message(
        &mut self,
        id: LaneId,
        frame: &[u8],
        now: Instant,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        let reply = decode(frame, self.config.limits).map_err(protocol_error)?;
        let lane = self.lane(id);
        if lane.session.is_greeting() {
            if let Reply::Push(_) = reply {
                return Ok(());
            }
            if lane.session.greeted(&reply, now, &mut lane.out)? {
                self.ready(id, now);
            }
            return Ok(());
        }
        if let Some(text) = reply.error_text() {
            return self.refused(id, &Error::server(text), now, wake);
        }
        match reply.into_without_attributes() {
            Reply::Array(items) => self.told(id, &items, false, now, wake),
            Reply::Push(items) => self.told(id, &items, true, now, wake),
            Reply::Simple(b"PONG") => self.pong(id),
            _ => Err(unasked()),
        }
    }

    /// The handshake is done: all that is wanted of this lane is asked for, with one write.
    fn ready(&mut self, id: LaneId, now: Instant) {
        let names = self.wanted.names_on(id);
        let lane = self.lane(id);
        lane.regained = names.is_empty();
        let asked = names.into_iter().map(|(kind, name)| {
            let number = lane.ask_subscribe(kind, &name, now);
            (kind, name, number)
        });
        let asked: Vec<_> = asked.collect();
        lane.resubscribed_by = asked.last().map(|(.., number)| *number);
        if asked.is_empty() {
            self.all_stand(id, now);
        }
        for (kind, name, number) in asked {
            if let Some(standing) = self.wanted.of(kind).get_mut(&name) {
                standing.asked = Some(number);
            }
        }
    }

    /// A push message of RESP3, or an array of RESP2, which mean the same here.
    fn told(
        &mut self,
        id: LaneId,
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
            // Invalidations of client-side caching and the like are not for this connection.
            _ if push => Ok(()),
            _ => Err(unasked()),
        }
    }

    /// A message; `subscription` is the pattern where there is a `matched` channel, else the channel.
    fn published(
        &mut self,
        id: LaneId,
        kind: Kind,
        subscription: &[u8],
        matched: Option<&[u8]>,
        payload: &[u8],
        wake: &mut Vec<Waker>,
    ) {
        self.lane(id).brought_messages = true;
        // What the consumer has unsubscribed from is on its way until the server has heard of it, and so is
        // what has gone to another lane.
        let Some(name) = self.wanted.name(kind, subscription) else {
            return;
        };
        let standing = self.wanted.of(kind).get(&name);
        if standing.is_none_or(|standing| standing.lane != Some(id)) {
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

    fn confirmed(
        &mut self,
        id: LaneId,
        kind: Kind,
        name: &[u8],
        now: Instant,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        let question = self.lane(id).answered()?;
        if !matches!(&question.what, Asked::Subscribe(asked, of) if *asked == kind && of == name) {
            return Err(unasked());
        }
        let regained = match self.wanted.of(kind).get_mut(name) {
            Some(standing) if standing.is_asked_by(id, question.number) => {
                standing.confirmed = true;
                standing.stood = true;
                standing.moves = 0;
                for ticket in std::mem::take(&mut standing.waiting) {
                    self.tickets.settle(ticket, None, wake);
                }
                standing.lost_since.take().is_some()
            }
            // It belongs to another lane by now.
            Some(_) => false,
            // It is not wanted any more, so nothing is missing.
            None => true,
        };
        self.lane(id).regained |= regained;
        self.settled(id, &question, now, wake);
        Ok(())
    }

    fn unsubscribed(
        &mut self,
        id: LaneId,
        kind: Kind,
        name: &[u8],
        now: Instant,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        let may_move = kind == Kind::Shard && self.routes.is_some();
        let lane = self.lane(id);
        let front = lane.expected.front().map(|question| &question.what);
        let asked =
            matches!(front, Some(Asked::Unsubscribe(asked, of, _)) if *asked == kind && of == name);
        if !asked && may_move {
            self.ended_by_server(id, name, now);
            return Ok(());
        }
        match lane.answered()?.what {
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
        id: LaneId,
        error: &Error,
        now: Instant,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        let question = self.lane(id).answered()?;
        match &question.what {
            Asked::Subscribe(Kind::Shard, name) if self.refusal(id, error).is_some() => {
                let standing = self.wanted.of(Kind::Shard).get(name);
                if standing.is_some_and(|standing| standing.is_asked_by(id, question.number)) {
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
        id: LaneId,
        kind: Kind,
        name: &Bytes,
        question: &Question,
        error: &Error,
        wake: &mut Vec<Waker>,
    ) {
        let names = self.wanted.of(kind);
        let asked = names.get(name);
        if !asked.is_some_and(|standing| standing.is_asked_by(id, question.number)) {
            return;
        }
        let Standing {
            waiting,
            stood,
            lost_since,
            ..
        } = names.remove(name).unwrap_or_default();
        let lane = self.lane(id);
        lane.left = true;
        lane.regained |= lost_since.is_some();
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

    fn pong(&mut self, id: LaneId) -> Result<(), Error> {
        match self.lane(id).answered()?.what {
            Asked::Ping => Ok(()),
            _ => Err(unasked()),
        }
    }

    fn settled(&mut self, id: LaneId, question: &Question, now: Instant, wake: &mut Vec<Waker>) {
        let lane = self.lane(id);
        if lane.resubscribed_by == Some(question.number) {
            lane.resubscribed_by = None;
            self.all_stand(id, now);
            wake.extend(self.consumer.take());
        }
    }

    /// The gap of a lane is over. Where all that it had has gone to others, they announce it.
    fn all_stand(&mut self, id: LaneId, now: Instant) {
        let lane = self.lane(id);
        let regained = std::mem::take(&mut lane.regained);
        if let Some(since) = lane.lost_since.take() {
            let outage = regained.then(|| now.saturating_duration_since(since));
            self.queue.release(id, outage);
        }
    }
}

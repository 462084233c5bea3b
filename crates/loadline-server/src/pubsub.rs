//! Channels, patterns and their subscribers, and the messages on their way to them.
//!
//! A message is encoded once for all subscribers of a protocol. Their mailboxes share it, and connections write it from
//! there to their sockets, so that it is not copied for each subscriber.
//!
//! A write to a socket takes longer than everything else that a message takes. So each turn of the event loop writes to a part
//! of the subscribers that have messages, the one that has waited longest first: a publisher gets its reply after a part
//! of the writes, and what it publishes meanwhile leaves in the same writes. Without other work, one turn
//! follows the other.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use loadline_resp::{Protocol, encode};

use crate::buffer::Output;
use crate::peer::Peer;
use crate::settings::OutputLimit;

/// The name of a channel or a pattern, shared by its subscribers.
type Name = Arc<[u8]>;

/// The number of a mailbox.
pub(crate) type Slot = usize;

/// Parts in which the messages of many subscribers are written.
pub(crate) const PARTS: usize = 16;
/// The least number of subscribers in a part.
pub(crate) const SMALLEST_PART: usize = 64;
/// The most bytes of messages of a subscriber that wait for its part.
pub(crate) const MOST_POSTED: u64 = 256 << 10;

/// Something to subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Channel,
    Pattern,
    /// A channel of a shard, which patterns do not match.
    Shard,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::Shard];
}

/// An encoded message. It keeps the sum of the bytes of all messages.
#[derive(Debug)]
pub(crate) struct Message {
    bytes: Box<[u8]>,
    sum: Arc<AtomicUsize>,
}

impl Message {
    fn new(bytes: Vec<u8>, sum: &Arc<AtomicUsize>) -> Self {
        sum.fetch_add(bytes.len(), Ordering::Relaxed);
        Self {
            bytes: bytes.into(),
            sum: Arc::clone(sum),
        }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// Messages for one connection that are not written yet.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    /// The connection.
    id: u64,
    is_resp3: bool,
    messages: VecDeque<Arc<Message>>,
    /// Bytes of the first message that are written already.
    written: usize,
    /// Bytes of all messages that are not written.
    bytes: usize,
    /// Bytes of the messages since it is listed.
    posted: u64,
    /// Whether it is among those with new messages.
    is_listed: bool,
    /// Whether the limit of the output was reached. All messages are dropped, and the connection must be closed.
    overflowed: bool,
}

impl Mailbox {
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Bytes that are not written.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the messages with the memory of their places.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes + self.messages.len() * size_of::<Arc<Message>>()
    }

    pub(crate) fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// The parts of the first messages, to be written in this order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mut written = self.written;
        self.messages.iter().map(move |message| {
            let begin = std::mem::take(&mut written);
            &message.bytes[begin..]
        })
    }

    /// Notes that the first `count` bytes were written.
    pub(crate) fn advance(&mut self, count: usize) {
        self.bytes -= count;
        self.written += count;
        while let Some(first) = self.messages.front()
            && self.written >= first.bytes.len()
        {
            self.written -= first.bytes.len();
            self.messages.pop_front();
        }
        if self.messages.is_empty() {
            self.messages = VecDeque::new();
        }
    }

    /// Moves all messages behind the replies of their connection.
    pub(crate) fn move_to(&mut self, out: &mut Output) {
        use loadline_resp::encode::Sink as _;
        self.parts().for_each(|part| out.put(part));
        self.advance(self.bytes);
    }

    fn push(&mut self, message: &Arc<Message>, most: u64) {
        if self.overflowed {
            return;
        }
        self.bytes += message.bytes.len();
        self.posted += message.bytes.len() as u64;
        self.messages.push_back(Arc::clone(message));
        if most > 0 && self.held_bytes() as u64 >= most {
            *self = Self {
                id: self.id,
                is_listed: self.is_listed,
                overflowed: true,
                ..Self::default()
            };
        }
    }
}

/// The subscriptions of a connection.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    /// The names of each kind, with numbers that grow with every subscription.
    names: [HashMap<Name, u64>; 3],
    last: u64,
    slot: Option<Slot>,
    /// Bytes of memory of the names.
    pub(crate) held_bytes: usize,
}

impl Subscriptions {
    pub(crate) fn len(&self, kind: Kind) -> usize {
        self.names[kind as usize].len()
    }

    /// The number that replies show: channels and patterns together, or channels of shards.
    pub(crate) fn shown(&self, kind: Kind) -> usize {
        match kind {
            Kind::Channel | Kind::Pattern => self.len(Kind::Channel) + self.len(Kind::Pattern),
            Kind::Shard => self.len(Kind::Shard),
        }
    }

    pub(crate) fn are_none(&self) -> bool {
        self.slot.is_none()
    }

    /// The mailbox of the connection, which it has while it has subscriptions.
    pub(crate) fn slot(&self) -> Option<Slot> {
        self.slot
    }

    /// All names of a kind, the oldest first.
    pub(crate) fn names(&self, kind: Kind) -> Vec<Name> {
        let names = self.names[kind as usize].iter();
        let mut names: Vec<(u64, &Name)> = names.map(|(name, number)| (*number, name)).collect();
        names.sort_unstable();
        names
            .into_iter()
            .map(|(_, name)| Arc::clone(name))
            .collect()
    }
}

/// Bytes of memory that a subscription takes besides its name, in the tables of the connection and of the server.
const SUBSCRIPTION_BYTES: usize = 96;

/// All subscriptions and mailboxes.
#[derive(Debug, Default)]
pub(crate) struct PubSub {
    subscribers: [HashMap<Name, BTreeSet<Slot>>; 3],
    mailboxes: Vec<Mailbox>,
    free: Vec<Slot>,
    /// Mailboxes with new messages, in the order of their first ones.
    listed: VecDeque<Slot>,
    /// Whether one of them has as many bytes of new messages as may wait.
    is_urgent: bool,
    sum: Arc<AtomicUsize>,
}

impl PubSub {
    /// Subscribes a connection, unless it is subscribed already.
    pub(crate) fn subscribe(
        &mut self,
        kind: Kind,
        name: &[u8],
        own: &mut Subscriptions,
        (id, protocol): (u64, Protocol),
    ) {
        if own.names[kind as usize].contains_key(name) {
            return;
        }
        let slot = *own.slot.get_or_insert_with(|| {
            let slot = self.free.pop().unwrap_or(self.mailboxes.len());
            if slot == self.mailboxes.len() {
                self.mailboxes.push(Mailbox::default());
            }
            slot
        });
        let mailbox = &mut self.mailboxes[slot];
        (mailbox.id, mailbox.is_resp3) = (id, protocol == Protocol::Resp3);
        let known = self.subscribers[kind as usize].get_key_value(name);
        let name = known.map_or_else(|| name.into(), |(name, _)| Arc::clone(name));
        own.held_bytes += name.len() + SUBSCRIPTION_BYTES;
        own.last += 1;
        own.names[kind as usize].insert(Arc::clone(&name), own.last);
        let subscribers = &mut self.subscribers[kind as usize];
        subscribers.entry(name).or_default().insert(slot);
    }

    /// Ends a subscription of a connection, if there is one.
    pub(crate) fn unsubscribe(&mut self, kind: Kind, name: &[u8], own: &mut Subscriptions) {
        let known = own.names[kind as usize].remove(name);
        let Some(slot) = own.slot.filter(|_| known.is_some()) else {
            return;
        };
        own.held_bytes -= name.len() + SUBSCRIPTION_BYTES;
        let subscribers = &mut self.subscribers[kind as usize];
        if let Some(slots) = subscribers.get_mut(name) {
            slots.remove(&slot);
            if slots.is_empty() {
                subscribers.remove(name);
            }
        }
        if own.names.iter().all(HashMap::is_empty) {
            own.slot = None;
            self.mailboxes[slot] = Mailbox::default();
            self.free.push(slot);
        }
    }

    /// Ends all subscriptions of a connection.
    pub(crate) fn forget(&mut self, own: &mut Subscriptions) {
        for kind in Kind::ALL {
            for name in own.names(kind) {
                self.unsubscribe(kind, &name, own);
            }
        }
    }

    /// Sets the protocol of a connection.
    pub(crate) fn speak(&mut self, own: &Subscriptions, protocol: Protocol) {
        if let Some(slot) = own.slot {
            self.mailboxes[slot].is_resp3 = protocol == Protocol::Resp3;
        }
    }

    /// The channels and patterns of another connection.
    pub(crate) fn subscriptions_of(&self, peer: &Peer) -> impl Iterator<Item = (Kind, &[u8])> {
        let slot = peer.mailbox.load(Ordering::Relaxed).checked_sub(1);
        Kind::ALL.into_iter().flat_map(move |kind| {
            let all = self.subscribers[kind as usize].iter();
            let own = all.filter(move |(_, slots)| slot.is_some_and(|slot| slots.contains(&slot)));
            own.map(move |(name, _)| (kind, &**name))
        })
    }

    /// The mailbox of another connection.
    pub(crate) fn mailbox_of(&self, peer: &Peer) -> Option<&Mailbox> {
        let slot = peer.mailbox.load(Ordering::Relaxed).checked_sub(1)?;
        self.mailboxes.get(slot)
    }

    pub(crate) fn mailbox(&mut self, slot: Slot) -> &mut Mailbox {
        &mut self.mailboxes[slot]
    }

    /// Sends a message to all subscribers, that of the connection `own` to `deliver_own`. Returns their number. A mailbox
    /// that reaches the limit overflows.
    pub(crate) fn publish(
        &mut self,
        kind: Kind,
        (channel, text): (&[u8], &[u8]),
        own: Option<Slot>,
        limit: OutputLimit,
        mut deliver_own: impl FnMut(&[u8]),
    ) -> usize {
        let mut post = Post {
            mailboxes: &mut self.mailboxes,
            listed: &mut self.listed,
            is_urgent: &mut self.is_urgent,
            sum: &self.sum,
            most: limit.hard,
            most_posted: most_posted(limit),
            own,
            receivers: 0,
        };
        let subscribers = &self.subscribers[kind as usize];
        if let Some(slots) = subscribers.get(channel) {
            let name: &[u8] = match kind {
                Kind::Shard => b"smessage",
                Kind::Channel | Kind::Pattern => b"message",
            };
            post.send(slots, &[name, channel, text], &mut deliver_own);
        }
        if kind == Kind::Channel {
            let patterns = &self.subscribers[Kind::Pattern as usize];
            for (pattern, slots) in patterns {
                if crate::commands::glob(pattern, channel) {
                    let words = [&b"pmessage"[..], pattern, channel, text];
                    post.send(slots, &words, &mut deliver_own);
                }
            }
        }
        post.receivers
    }

    /// Whether connections have new messages.
    pub(crate) fn has_listed(&self) -> bool {
        !self.listed.is_empty()
    }

    /// The number of connections with new messages that are to be written to at the end of this turn.
    pub(crate) fn due(&self) -> usize {
        let listed = self.listed.len();
        if self.is_urgent {
            listed
        } else {
            SMALLEST_PART.max(listed / PARTS)
        }
    }

    /// Takes out at most `most` connections that have new messages.
    pub(crate) fn take_listed(&mut self, most: usize) -> impl Iterator<Item = u64> {
        let count = most.min(self.listed.len());
        if count == self.listed.len() {
            self.is_urgent = false;
        }
        let mailboxes = &mut self.mailboxes;
        self.listed.drain(..count).map(|slot| {
            let mailbox = &mut mailboxes[slot];
            mailbox.is_listed = false;
            mailbox.posted = 0;
            mailbox.id
        })
    }

    /// The channels or patterns with subscribers.
    pub(crate) fn names(&self, kind: Kind) -> impl ExactSizeIterator<Item = &[u8]> {
        self.subscribers[kind as usize].keys().map(|name| &**name)
    }

    /// The number of subscribers.
    pub(crate) fn subscribers(&self, kind: Kind, name: &[u8]) -> usize {
        let slots = self.subscribers[kind as usize].get(name);
        slots.map_or(0, BTreeSet::len)
    }

    /// Bytes of all messages that are not written, each counted once.
    pub(crate) fn message_bytes(&self) -> usize {
        self.sum.load(Ordering::Relaxed)
    }
}

/// The most bytes of messages that wait for their part: a limit of the output is for those that do not read.
fn most_posted(limit: OutputLimit) -> u64 {
    match limit.hard {
        0 => MOST_POSTED,
        hard => MOST_POSTED.min(hard / 4),
    }
}

/// A message on its way to its subscribers.
struct Post<'p> {
    mailboxes: &'p mut [Mailbox],
    listed: &'p mut VecDeque<Slot>,
    is_urgent: &'p mut bool,
    sum: &'p Arc<AtomicUsize>,
    most: u64,
    most_posted: u64,
    own: Option<Slot>,
    receivers: usize,
}

impl Post<'_> {
    fn send(
        &mut self,
        slots: &BTreeSet<Slot>,
        words: &[&[u8]],
        deliver_own: &mut impl FnMut(&[u8]),
    ) {
        let mut encoded: [Option<Arc<Message>>; 2] = [None, None];
        for slot in slots {
            self.receivers += 1;
            let mailbox = &mut self.mailboxes[*slot];
            let message = encoded[usize::from(mailbox.is_resp3)].get_or_insert_with(|| {
                let mut bytes = Vec::new();
                let protocol = if mailbox.is_resp3 {
                    Protocol::Resp3
                } else {
                    Protocol::Resp2
                };
                encode::push_header(&mut bytes, words.len() as u64, protocol);
                words.iter().for_each(|word| encode::bulk(&mut bytes, word));
                Arc::new(Message::new(bytes, self.sum))
            });
            if self.own == Some(*slot) {
                deliver_own(&message.bytes);
                continue;
            }
            mailbox.push(message, self.most);
            *self.is_urgent |= mailbox.posted >= self.most_posted;
            if !mailbox.is_listed {
                mailbox.is_listed = true;
                self.listed.push_back(*slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNLIMITED: OutputLimit = OutputLimit {
        hard: 0,
        soft: 0,
        soft_seconds: 0,
    };

    /// A thousand subscribers hold one copy of a message, and the last one to write it frees it.
    #[test]
    fn subscribers_share_a_message_until_it_is_written() {
        let mut pubsub = PubSub::default();
        let mut clients: Vec<Subscriptions> = (0..1_000).map(|_| <_>::default()).collect();
        for (id, own) in clients.iter_mut().enumerate() {
            let as_client = (id as u64, Protocol::Resp2);
            pubsub.subscribe(Kind::Channel, b"c", own, as_client);
        }
        let text = [b'x'; 100_000];
        let sent = pubsub.publish(Kind::Channel, (b"c", &text), None, UNLIMITED, |_| {});
        assert_eq!(sent, 1_000);
        assert_eq!(pubsub.take_listed(usize::MAX).count(), 1_000);
        let once = pubsub.message_bytes();
        assert!((100_000..101_000).contains(&once), "{once}");
        for own in &clients {
            let mailbox = pubsub.mailbox(own.slot().unwrap());
            assert_eq!(mailbox.bytes(), once);
            mailbox.advance(7);
            assert_eq!(mailbox.parts().next().unwrap().len(), once - 7);
            mailbox.advance(once - 7);
            assert_eq!((mailbox.bytes(), mailbox.len()), (0, 0));
        }
        assert_eq!(pubsub.message_bytes(), 0);
        clients.iter_mut().for_each(|own| pubsub.forget(own));
        assert_eq!(
            (pubsub.names(Kind::Channel).len(), pubsub.free.len()),
            (0, 1_000)
        );
        assert!(clients.iter().all(|own| own.held_bytes == 0));
    }

    #[test]
    fn mailbox_at_the_hard_limit_drops_its_messages() {
        let (mut pubsub, mut own) = (PubSub::default(), Subscriptions::default());
        pubsub.subscribe(Kind::Pattern, b"*", &mut own, (1, Protocol::Resp3));
        let limit = OutputLimit {
            hard: 200,
            ..UNLIMITED
        };
        let slot = own.slot().unwrap();
        for _ in 0..10 {
            pubsub.publish(Kind::Channel, (b"c", b"0123456789"), None, limit, |_| {});
            assert!(pubsub.mailbox(slot).held_bytes() < 200);
        }
        assert!(pubsub.mailbox(slot).has_overflowed());
        assert_eq!(pubsub.message_bytes(), 0);
    }
}

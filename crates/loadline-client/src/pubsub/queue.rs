//! A queue of events for the consumer, bounded in bytes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::core::ConnectionId;
use super::{Event, Message};

/// An empty queue with a capacity above this number of events is released.
const KEPT_EVENTS: usize = 1024;

/// Messages and notices of missing ones, in the order of the wire.
///
/// When the limit is reached, new messages are counted and dropped until the consumer has taken half of the
/// queue. Since the newest are dropped, the consumer sees the gap where it was on the wire. All events of a gap
/// are kept as one record, so that a flood of events cannot grow the queue.
#[derive(Debug)]
pub(super) struct Queue {
    events: VecDeque<Event>,
    /// Messages of new connections on which some subscriptions are not confirmed yet.
    held: BTreeMap<ConnectionId, Held>,
    /// The events since the first message that did not fit.
    gap: Gap,
    bytes: usize,
    limit_bytes: usize,
}

#[derive(Debug, Default)]
struct Held {
    messages: VecDeque<Message>,
    lagged: u64,
}

#[derive(Debug, Default)]
struct Gap {
    lagged: u64,
    outage: Option<Duration>,
}

impl Queue {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            events: VecDeque::new(),
            held: BTreeMap::new(),
            gap: Gap::default(),
            bytes: 0,
            limit_bytes,
        }
    }

    /// Adds a message, or counts it as dropped. A single message can be larger than the limit.
    pub(super) fn message(&mut self, connection: ConnectionId, message: Message) {
        let bytes = self.bytes.saturating_add(bytes_of(&message));
        let full = self.bytes > 0 && bytes > self.limit_bytes;
        match (self.held.get_mut(&connection), full || self.gap.lagged > 0) {
            (Some(held), true) => held.lagged += 1,
            (Some(held), false) => {
                self.bytes = bytes;
                held.messages.push_back(message);
            }
            (None, true) => self.gap.lagged += 1,
            (None, false) => {
                self.bytes = bytes;
                self.events.push_back(Event::Message(message));
            }
        }
    }

    /// Adds the notice that the server has refused a subscription. Their number is bounded by the subscriptions.
    pub(super) fn refused(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Holds back the messages of this connection from now on.
    pub(super) fn hold(&mut self, connection: ConnectionId) {
        self.held.entry(connection).or_default();
    }

    /// Drops the messages of a lost connection that were held back: they belong to the gap.
    pub(super) fn forget(&mut self, connection: ConnectionId) {
        let held = self.held.remove(&connection).unwrap_or_default();
        for message in held.messages {
            self.bytes -= bytes_of(&message);
        }
    }

    /// Hands out the messages of a connection that were held back, after a notice of the outage: all of its
    /// subscriptions are confirmed again. Without an outage there is no notice.
    pub(super) fn release(&mut self, connection: ConnectionId, outage: Option<Duration>) {
        if let Some(outage) = outage {
            self.resubscribed(outage);
        }
        let held = self.held.remove(&connection).unwrap_or_default();
        for message in held.messages {
            self.bytes -= bytes_of(&message);
            self.message(connection, message);
        }
        self.gap.lagged += held.lagged;
    }

    fn resubscribed(&mut self, outage: Duration) {
        match self.events.back_mut() {
            _ if self.gap.lagged > 0 => {
                *self.gap.outage.get_or_insert_default() += outage;
            }
            Some(Event::Resubscribed { outage: sum }) => *sum += outage,
            _ => self.events.push_back(Event::Resubscribed { outage }),
        }
    }

    /// The next event.
    pub(super) fn pop(&mut self) -> Option<Event> {
        if self.gap.lagged > 0 && self.bytes <= self.limit_bytes / 2 {
            self.end_gap();
        }
        let Some(event) = self.events.pop_front() else {
            if self.events.capacity() > KEPT_EVENTS {
                self.events = VecDeque::new();
            }
            return None;
        };
        if let Event::Message(message) = &event {
            self.bytes -= bytes_of(message);
        }
        Some(event)
    }

    fn end_gap(&mut self) {
        let Gap { lagged, outage } = std::mem::take(&mut self.gap);
        self.events.push_back(Event::Lagged { messages: lagged });
        if let Some(outage) = outage {
            self.events.push_back(Event::Resubscribed { outage });
        }
    }
}

/// The size that a message counts with: its bytes, and its place in the queue.
fn bytes_of(message: &Message) -> usize {
    let pattern = message.pattern.as_ref().map_or(0, |pattern| pattern.len());
    message.payload.len() + message.channel.len() + pattern + size_of::<Event>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pubsub::Kind;

    fn message(number: u64) -> Message {
        Message {
            kind: Kind::Channel,
            channel: "c".into(),
            pattern: None,
            payload: number.to_string().into(),
        }
    }

    /// Room for four messages of one digit.
    fn queue() -> Queue {
        Queue::new(4 * bytes_of(&message(0)))
    }

    impl Queue {
        /// A connection broke.
        fn again(&mut self) {
            self.forget(ConnectionId::MAIN);
            self.hold(ConnectionId::MAIN);
        }
    }

    fn drain(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.pop())
            .map(|event| match event {
                Event::Message(message) => String::from_utf8_lossy(&message.payload).into(),
                Event::Lagged { messages } => format!("lagged {messages}"),
                Event::Resubscribed { outage } => format!("resubscribed {}", outage.as_secs()),
                Event::Refused { .. } => "refused".into(),
            })
            .collect()
    }

    #[test]
    fn messages_without_room_are_counted_where_they_are_missing() {
        let mut queue = queue();
        (0..9).for_each(|number| queue.message(ConnectionId::MAIN, message(number)));
        assert_eq!(drain(&mut queue), ["0", "1", "2", "3", "lagged 5"]);
        queue.message(ConnectionId::MAIN, message(9));
        assert_eq!(drain(&mut queue), ["9"]);
    }

    #[test]
    fn gap_ends_once_half_of_what_waited_is_taken() {
        let mut queue = queue();
        (0..5).for_each(|number| queue.message(ConnectionId::MAIN, message(number)));
        assert!(queue.pop().is_some());
        // There would be room for one, but it would be in the middle of the gap.
        queue.message(ConnectionId::MAIN, message(5));
        assert!(queue.pop().is_some() && queue.pop().is_some());
        queue.message(ConnectionId::MAIN, message(6));
        assert_eq!(drain(&mut queue), ["3", "lagged 2", "6"]);
    }

    #[test]
    fn message_larger_than_the_limit_is_taken_alone() {
        let mut queue = Queue::new(1);
        queue.message(ConnectionId::MAIN, message(0));
        queue.message(ConnectionId::MAIN, message(1));
        assert_eq!(drain(&mut queue), ["0", "lagged 1"]);
    }

    #[test]
    fn messages_before_all_subscriptions_are_confirmed_follow_the_notice() {
        let mut queue = queue();
        queue.message(ConnectionId::MAIN, message(0));
        queue.again();
        queue.message(ConnectionId::MAIN, message(1));
        assert_eq!(drain(&mut queue), ["0"]);
        // That connection breaks as well: its messages are a part of the gap.
        queue.again();
        queue.message(ConnectionId::MAIN, message(2));
        queue.release(ConnectionId::MAIN, Some(Duration::from_secs(3)));
        queue.message(ConnectionId::MAIN, message(3));
        assert_eq!(drain(&mut queue), ["resubscribed 3", "2", "3"]);
        assert_eq!(queue.bytes, 0);
    }

    #[test]
    fn no_number_of_outages_grows_the_queue() {
        let mut queue = queue();
        for _ in 0..100 {
            queue.again();
            queue.release(ConnectionId::MAIN, Some(Duration::from_secs(1)));
        }
        assert_eq!(drain(&mut queue), ["resubscribed 100"]);
        for number in 0..100 {
            queue.message(ConnectionId::MAIN, message(number % 10));
            queue.again();
            queue.message(ConnectionId::MAIN, message(number % 10));
            queue.release(ConnectionId::MAIN, Some(Duration::from_secs(1)));
        }
        assert!(queue.events.len() <= 6, "{:?}", queue.events);
        let drained = drain(&mut queue);
        let last = &drained[drained.len() - 2..];
        assert!(last[0].starts_with("lagged 19"), "{last:?}");
        assert!(last[1].starts_with("resubscribed 9"), "{last:?}");
        assert_eq!(queue.bytes, 0);
    }
}

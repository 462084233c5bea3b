//! Events that wait for their consumer, bounded in bytes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::core::LaneId;
use super::{Event, Message};

/// An empty queue with room for more events than this gives the room back.
const KEPT_EVENTS: usize = 1024;

/// Messages and what is to be said of those that are missing, in the order of the wire.
///
/// When the limit is reached, messages are counted and dropped until the consumer has taken half of what
/// waits. The newest are dropped, so the place of a gap in what the consumer gets is its place on the wire.
/// What happens during a gap is kept as one record, so that no flood of events can grow the queue.
#[derive(Debug)]
pub(super) struct Queue {
    events: VecDeque<Event>,
    /// Messages of new connections on which not all subscriptions stand yet.
    held: BTreeMap<LaneId, Held>,
    /// What happened since the first message that found no room.
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

    /// Takes a message, or counts it as dropped. One message alone may be larger than the limit.
    pub(super) fn message(&mut self, lane: LaneId, message: Message) {
        let bytes = self.bytes.saturating_add(bytes_of(&message));
        let full = self.bytes > 0 && bytes > self.limit_bytes;
        match (self.held.get_mut(&lane), full || self.gap.lagged > 0) {
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

    /// Takes word of a subscription that is no more. There are no more of them than callers subscribe to.
    pub(super) fn refused(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Messages of this connection are held back from now on.
    pub(super) fn hold(&mut self, lane: LaneId) {
        self.held.entry(lane).or_default();
    }

    /// The connection is gone; what it brought and was held back belongs to the gap.
    pub(super) fn forget(&mut self, lane: LaneId) {
        let held = self.held.remove(&lane).unwrap_or_default();
        for message in held.messages {
            self.bytes -= bytes_of(&message);
        }
    }

    /// All subscriptions of a connection stand again after such an outage; what was held back follows the
    /// word of it. Without an outage, nothing of what is held was affected.
    pub(super) fn release(&mut self, lane: LaneId, outage: Option<Duration>) {
        if let Some(outage) = outage {
            self.resubscribed(outage);
        }
        let held = self.held.remove(&lane).unwrap_or_default();
        for message in held.messages {
            self.bytes -= bytes_of(&message);
            self.message(lane, message);
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

/// What a message is counted as: its bytes, and its place in the queue.
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
            self.forget(LaneId::MAIN);
            self.hold(LaneId::MAIN);
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
        (0..9).for_each(|number| queue.message(LaneId::MAIN, message(number)));
        assert_eq!(drain(&mut queue), ["0", "1", "2", "3", "lagged 5"]);
        queue.message(LaneId::MAIN, message(9));
        assert_eq!(drain(&mut queue), ["9"]);
    }

    #[test]
    fn a_gap_ends_once_half_of_what_waited_is_taken() {
        let mut queue = queue();
        (0..5).for_each(|number| queue.message(LaneId::MAIN, message(number)));
        assert!(queue.pop().is_some());
        // There would be room for one, but it would be in the middle of the gap.
        queue.message(LaneId::MAIN, message(5));
        assert!(queue.pop().is_some() && queue.pop().is_some());
        queue.message(LaneId::MAIN, message(6));
        assert_eq!(drain(&mut queue), ["3", "lagged 2", "6"]);
    }

    #[test]
    fn a_message_larger_than_the_limit_is_taken_alone() {
        let mut queue = Queue::new(1);
        queue.message(LaneId::MAIN, message(0));
        queue.message(LaneId::MAIN, message(1));
        assert_eq!(drain(&mut queue), ["0", "lagged 1"]);
    }

    #[test]
    fn what_a_connection_brings_before_all_subscriptions_stand_follows_the_word_of_it() {
        let mut queue = queue();
        queue.message(LaneId::MAIN, message(0));
        queue.again();
        queue.message(LaneId::MAIN, message(1));
        assert_eq!(drain(&mut queue), ["0"]);
        // That connection breaks as well: what it brought is a part of the gap.
        queue.again();
        queue.message(LaneId::MAIN, message(2));
        queue.release(LaneId::MAIN, Some(Duration::from_secs(3)));
        queue.message(LaneId::MAIN, message(3));
        assert_eq!(drain(&mut queue), ["resubscribed 3", "2", "3"]);
        assert_eq!(queue.bytes, 0);
    }

    #[test]
    fn no_number_of_outages_grows_the_queue() {
        let mut queue = queue();
        for _ in 0..100 {
            queue.again();
            queue.release(LaneId::MAIN, Some(Duration::from_secs(1)));
        }
        assert_eq!(drain(&mut queue), ["resubscribed 100"]);
        for number in 0..100 {
            queue.message(LaneId::MAIN, message(number % 10));
            queue.again();
            queue.message(LaneId::MAIN, message(number % 10));
            queue.release(LaneId::MAIN, Some(Duration::from_secs(1)));
        }
        assert!(queue.events.len() <= 6, "{:?}", queue.events);
        let drained = drain(&mut queue);
        let told = &drained[drained.len() - 2..];
        assert!(told[0].starts_with("lagged 19"), "{told:?}");
        assert!(told[1].starts_with("resubscribed 9"), "{told:?}");
        assert_eq!(queue.bytes, 0);
    }
}

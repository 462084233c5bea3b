//! Events that wait for their consumer, bounded in bytes.

use std::collections::VecDeque;
use std::time::Duration;

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
    /// Messages of a new connection on which not all subscriptions stand yet.
    held: VecDeque<Message>,
    holding: bool,
    held_lagged: u64,
    /// What happened since the first message that found no room.
    gap: Gap,
    bytes: usize,
    limit_bytes: usize,
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
            held: VecDeque::new(),
            holding: false,
            held_lagged: 0,
            gap: Gap::default(),
            bytes: 0,
            limit_bytes,
        }
    }

    /// Takes a message, or counts it as dropped. One message alone may be larger than the limit.
    pub(super) fn message(&mut self, message: Message) {
        let bytes = self.bytes.saturating_add(bytes_of(&message));
        let full = self.bytes > 0 && bytes > self.limit_bytes;
        match (self.holding, full || self.gap.lagged > 0) {
            (true, true) => self.held_lagged += 1,
            (true, false) => {
                self.bytes = bytes;
                self.held.push_back(message);
            }
            (false, true) => self.gap.lagged += 1,
            (false, false) => {
                self.bytes = bytes;
                self.events.push_back(Event::Message(message));
            }
        }
    }

    /// Takes word of a subscription that is no more. There are no more of them than callers subscribe to.
    pub(super) fn refused(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Messages are held back from now on, and those that are held already belong to the gap.
    pub(super) fn hold(&mut self) {
        self.holding = true;
        self.held_lagged = 0;
        for message in self.held.drain(..) {
            self.bytes -= bytes_of(&message);
        }
    }

    /// All subscriptions stand again after such an outage; what was held back follows the word of it.
    pub(super) fn release(&mut self, outage: Duration) {
        self.holding = false;
        match self.events.back_mut() {
            _ if self.gap.lagged > 0 => {
                *self.gap.outage.get_or_insert_default() += outage;
            }
            Some(Event::Resubscribed { outage: sum }) => *sum += outage,
            _ => self.events.push_back(Event::Resubscribed { outage }),
        }
        for message in std::mem::take(&mut self.held) {
            self.bytes -= bytes_of(&message);
            self.message(message);
        }
        self.gap.lagged += std::mem::take(&mut self.held_lagged);
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
        (0..9).for_each(|number| queue.message(message(number)));
        assert_eq!(drain(&mut queue), ["0", "1", "2", "3", "lagged 5"]);
        queue.message(message(9));
        assert_eq!(drain(&mut queue), ["9"]);
    }

    #[test]
    fn a_gap_ends_once_half_of_what_waited_is_taken() {
        let mut queue = queue();
        (0..5).for_each(|number| queue.message(message(number)));
        assert!(queue.pop().is_some());
        // There would be room for one, but it would be in the middle of the gap.
        queue.message(message(5));
        assert!(queue.pop().is_some() && queue.pop().is_some());
        queue.message(message(6));
        assert_eq!(drain(&mut queue), ["3", "lagged 2", "6"]);
    }

    #[test]
    fn a_message_larger_than_the_limit_is_taken_alone() {
        let mut queue = Queue::new(1);
        queue.message(message(0));
        queue.message(message(1));
        assert_eq!(drain(&mut queue), ["0", "lagged 1"]);
    }

    #[test]
    fn what_a_connection_brings_before_all_subscriptions_stand_follows_the_word_of_it() {
        let mut queue = queue();
        queue.message(message(0));
        queue.hold();
        queue.message(message(1));
        assert_eq!(drain(&mut queue), ["0"]);
        // That connection breaks as well: what it brought is a part of the gap.
        queue.hold();
        queue.message(message(2));
        queue.release(Duration::from_secs(3));
        queue.message(message(3));
        assert_eq!(drain(&mut queue), ["resubscribed 3", "2", "3"]);
        assert_eq!(queue.bytes, 0);
    }

    #[test]
    fn no_number_of_outages_grows_the_queue() {
        let mut queue = queue();
        for _ in 0..100 {
            queue.hold();
            queue.release(Duration::from_secs(1));
        }
        assert_eq!(drain(&mut queue), ["resubscribed 100"]);
        for number in 0..100 {
            queue.message(message(number % 10));
            queue.hold();
            queue.message(message(number % 10));
            queue.release(Duration::from_secs(1));
        }
        assert!(queue.events.len() <= 6, "{:?}", queue.events);
        let drained = drain(&mut queue);
        let told = &drained[drained.len() - 2..];
        assert!(told[0].starts_with("lagged 19"), "{told:?}");
        assert!(told[1].starts_with("resubscribed 9"), "{told:?}");
        assert_eq!(queue.bytes, 0);
    }
}

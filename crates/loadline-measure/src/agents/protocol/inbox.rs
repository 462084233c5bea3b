//! Numbered messages in their order, each once.

use std::collections::BTreeMap;

/// The most messages that wait for an earlier one.
const MOST_WAITING: u64 = 64;

/// The messages of one sender.
#[derive(Debug)]
pub(super) struct Inbox<M> {
    next: u64,
    waiting: BTreeMap<u64, M>,
}

impl<M> Default for Inbox<M> {
    fn default() -> Self {
        Self {
            next: 0,
            waiting: BTreeMap::new(),
        }
    }
}

impl<M> Inbox<M> {
    /// Takes message `number`, and returns the messages that are next in order. `None` for a duplicate, and for a message
    /// that is too far ahead.
    pub(super) fn take(&mut self, number: u64, message: M) -> Option<Vec<M>> {
        let ahead = number.checked_sub(self.next)?;
        if ahead >= MOST_WAITING || self.waiting.contains_key(&number) {
            return None;
        }
        self.waiting.insert(number, message);
        let mut ready = Vec::new();
        while let Some(message) = self.waiting.remove(&self.next) {
            ready.push(message);
            self.next += 1;
        }
        Some(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_in_order_and_once() {
        let mut inbox = Inbox::default();
        assert_eq!(inbox.take(1, 'b'), Some(vec![]));
        assert_eq!(inbox.take(1, 'b'), None);
        assert_eq!(inbox.take(0, 'a'), Some(vec!['a', 'b']));
        assert_eq!(inbox.take(0, 'a'), None);
        assert_eq!(inbox.take(2, 'c'), Some(vec!['c']));
    }

    #[test]
    fn message_far_ahead_is_refused() {
        let mut inbox = Inbox::default();
        assert_eq!(inbox.take(MOST_WAITING, ()), None);
        assert_eq!(inbox.take(u64::MAX, ()), None);
        assert_eq!(inbox.take(MOST_WAITING - 1, ()), Some(vec![]));
    }
}

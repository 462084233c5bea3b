//! Values of lists: items in a row.

use std::collections::VecDeque;

use crate::table::Bytes;

/// Items in a row. It knows how much memory it takes, and gives room back as items go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct List {
    items: VecDeque<Bytes>,
    /// Bytes of all items.
    held: usize,
}

/// A list with more than this many places per item shrinks.
const PLACES_PER_ITEM: usize = 8;

impl List {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The item at `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.items.get(index).map(|item| &**item)
    }

    /// All items from first to last.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + DoubleEndedIterator {
        self.items.iter().map(|item| &**item)
    }

    /// Adds an item in front of the first one.
    pub fn push_front(&mut self, item: &[u8]) {
        self.held += item.len();
        self.items.push_front(item.into());
    }

    /// Adds an item behind the last one.
    pub fn push_back(&mut self, item: &[u8]) {
        self.held += item.len();
        self.items.push_back(item.into());
    }

    /// Takes the first item out.
    pub fn pop_front(&mut self) -> Option<Bytes> {
        let item = self.items.pop_front();
        self.took(item)
    }

    /// Takes the last item out.
    pub fn pop_back(&mut self) -> Option<Bytes> {
        let item = self.items.pop_back();
        self.took(item)
    }

    /// Replaces the item at `index` and says whether there was one.
    pub fn set(&mut self, index: usize, item: &[u8]) -> bool {
        let Some(place) = self.items.get_mut(index) else {
            return false;
        };
        self.held = self.held - place.len() + item.len();
        *place = item.into();
        true
    }

    /// Bytes of memory that the list and its items take, without what an allocator adds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.held + self.items.capacity() * size_of::<Bytes>()
    }

    fn took(&mut self, item: Option<Bytes>) -> Option<Bytes> {
        let item = item?;
        self.held -= item.len();
        if self.items.capacity() > PLACES_PER_ITEM * (self.len() + 1) {
            self.items.shrink_to(2 * self.len());
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_that_go_leave_no_room_behind() {
        let mut list = List::new();
        for number in 0..10_000_u32 {
            list.push_back(&number.to_le_bytes());
        }
        list.push_front(b"first");
        assert!(list.set(1, b"second") && !list.set(10_001, b"none"));
        assert_eq!(
            (list.get(0), list.get(1)),
            (Some(&b"first"[..]), Some(&b"second"[..]))
        );
        let full = list.memory_bytes();
        assert!(full >= 10_000 * (4 + size_of::<Bytes>()));
        while list.len() > 2 {
            list.pop_back();
        }
        assert!(list.memory_bytes() < full / 100, "{}", list.memory_bytes());
        let rest = [list.pop_front(), list.pop_front(), list.pop_front()];
        assert_eq!(
            rest,
            [Some(b"first"[..].into()), Some(b"second"[..].into()), None]
        );
        assert_eq!(list.held, 0);
    }
}

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

    /// Inserts an item in front of the one at `index`, or at the end if there is none.
    pub fn insert(&mut self, index: usize, item: &[u8]) {
        self.held += item.len();
        self.items.insert(index.min(self.len()), item.into());
    }

    /// Removes items that are equal to `item` and returns how many: so many of the first ones, of the last ones if `count`
    /// is negative, or all for 0.
    pub fn remove_equal(&mut self, count: i64, item: &[u8]) -> usize {
        let equal = |other: &&Bytes| ***other == *item;
        let all = self.items.iter().filter(equal).count();
        let wanted = match usize::try_from(count.unsigned_abs()) {
            Ok(0) | Err(_) => all,
            Ok(count) => count.min(all),
        };
        // Those that are passed over stay.
        let mut passed = if count < 0 { all - wanted } else { 0 };
        let mut left = wanted;
        self.items.retain(|other| {
            if left == 0 || **other != *item {
                return true;
            }
            if passed > 0 {
                passed -= 1;
                return true;
            }
            left -= 1;
            false
        });
        self.held -= wanted * item.len();
        self.give_room_back();
        wanted
    }

    /// Bytes of memory that the list and its items take, without what an allocator adds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.held + self.items.capacity() * size_of::<Bytes>()
    }

    fn took(&mut self, item: Option<Bytes>) -> Option<Bytes> {
        let item = item?;
        self.held -= item.len();
        self.give_room_back();
        Some(item)
    }

    fn give_room_back(&mut self) {
        if self.items.capacity() > PLACES_PER_ITEM * (self.len() + 1) {
            self.items.shrink_to(2 * self.len());
        }
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

    #[test]
    fn items_are_inserted_and_removed_inside() {
        let list = |items: &str| {
            let mut list = List::new();
            items
                .split(' ')
                .for_each(|item| list.push_back(item.as_bytes()));
            list
        };
        for (count, rest, removed) in [
            (0, "b c", 3),
            (1, "b a c a", 1),
            (2, "b c a", 2),
            (-1, "a b a c", 1),
            (-2, "a b c", 2),
            (i64::MIN, "b c", 3),
        ] {
            let mut items = list("a b a c a");
            assert_eq!(items.remove_equal(count, b"a"), removed, "{count}");
            assert_eq!(items, list(rest), "{count}");
        }
        let mut items = list("a c");
        items.insert(1, b"b");
        items.insert(0, b"");
        items.insert(9, b"d");
        assert_eq!(items, list(" a b c d"));
    }
}

//! Keys that were changed since the log was synced.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashSet};

/// The most keys that are remembered one by one for a sync. After more changes, all keys count as changed.
const MOST_KEYS: usize = 1 << 16;

/// The keys that were changed and may not have reached the disk: a reply that depends on other keys only leaves at
/// once.
///
/// Changes before a position of the log are kept apart from later ones, so that both are forgotten in time while there
/// are always new ones.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    hasher: DefaultHashBuilder,
    /// The position behind the changes of `before`, if there are any.
    position: Option<u64>,
    before: Changes,
    later: Changes,
}

/// Changed keys by their hashes. Two keys with the same hash are both changed, which only delays a reply.
#[derive(Debug, Default)]
struct Changes {
    hashes: HashSet<u64>,
    /// Whether every key counts as changed.
    are_all: bool,
}

impl Changes {
    fn note(&mut self, hash: u64) {
        if !self.are_all {
            self.hashes.insert(hash);
            if self.hashes.len() > MOST_KEYS {
                self.note_all();
            }
        }
    }

    fn note_all(&mut self) {
        self.are_all = true;
        self.hashes = HashSet::new();
    }

    fn contain(&self, hash: u64) -> bool {
        self.are_all || self.hashes.contains(&hash)
    }

    fn are_none(&self) -> bool {
        !self.are_all && self.hashes.is_empty()
    }

    fn clear(&mut self) {
        self.are_all = false;
        self.hashes.clear();
    }
}

impl Unsynced {
    /// Notes the change of a key.
    pub(crate) fn note(&mut self, database: usize, key: &[u8]) {
        self.later.note(self.hash(database, key));
    }

    /// Notes that any key can have changed.
    pub(crate) fn note_all(&mut self) {
        self.later.note_all();
    }

    /// Whether a change of `key` may not have reached the disk.
    pub(crate) fn contains(&self, database: usize, key: &[u8]) -> bool {
        let hash = self.hash(database, key);
        self.before.contain(hash) || self.later.contain(hash)
    }

    fn hash(&self, database: usize, key: &[u8]) -> u64 {
        self.hasher.hash_one((database, key))
    }

    /// The position up to which a sync lets [`forget`](Self::forget) be called.
    pub(crate) fn position(&self) -> Option<u64> {
        self.position
    }

    /// Forgets the changes before that position.
    pub(crate) fn forget(&mut self) {
        self.position = None;
        self.before.clear();
    }

    /// Whether there are changes without a position, and [`cover`](Self::cover) can be called.
    pub(crate) fn is_uncovered(&self) -> bool {
        self.position.is_none() && !self.later.are_none()
    }

    /// Notes that all changes so far are before `position`.
    pub(crate) fn cover(&mut self, position: u64) {
        std::mem::swap(&mut self.before, &mut self.later);
        self.position = Some(position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(unsynced: &Unsynced) -> Vec<&'static str> {
        let keys = ["a", "b", "c"].into_iter();
        keys.filter(|key| unsynced.contains(1, key.as_bytes()))
            .collect()
    }

    #[test]
    fn keys_are_forgotten_by_the_sync_that_covers_them() {
        let mut unsynced = Unsynced::default();
        unsynced.note(1, b"a");
        unsynced.note(2, b"c");
        assert!(unsynced.is_uncovered());
        assert_eq!(found(&unsynced), ["a"]);
        unsynced.cover(10);
        unsynced.note(1, b"b");
        assert_eq!(unsynced.position(), Some(10));
        assert!(!unsynced.is_uncovered(), "the first ones are still there");
        assert_eq!(found(&unsynced), ["a", "b"]);
        unsynced.forget();
        assert!(unsynced.position().is_none() && unsynced.is_uncovered());
        assert_eq!(found(&unsynced), ["b"]);
        unsynced.cover(20);
        unsynced.forget();
        assert_eq!(found(&unsynced), [""; 0]);
        assert!(!unsynced.is_uncovered());
    }

    #[test]
    fn memory_is_bounded() {
        let mut unsynced = Unsynced::default();
        for key in 0..=MOST_KEYS {
            unsynced.note(0, &key.to_le_bytes());
        }
        assert_eq!(unsynced.later.hashes.capacity(), 0);
        assert_eq!(found(&unsynced), ["a", "b", "c"]);
        unsynced.cover(1);
        unsynced.note(1, b"a");
        unsynced.forget();
        assert_eq!(found(&unsynced), ["a"]);
        unsynced.note_all();
        assert_eq!(found(&unsynced), ["a", "b", "c"]);
    }
}

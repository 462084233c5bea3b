//! Writes that a tier has not got yet.
//!
//! It holds the queue of a tier that is written behind, and for every tier the invalidations that could not be delivered.
//! Until they are, this process does not believe what the tier has for these keys.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The value of a key's lease while the key is loaded.
pub(crate) type Token = Arc<[u8]>;

/// A write that a key of the tier is to get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Write {
    Put {
        frame: Arc<[u8]>,
        ttl: Option<Duration>,
        /// Whether it replaces an older value, which must not come back if this one is lost.
        replaces: bool,
        /// The token that the lease of the key must still have, for a value that was loaded.
        token: Option<Token>,
    },
    Delete,
}

impl Write {
    fn bytes(&self) -> usize {
        match self {
            Self::Put { frame, .. } => frame.len(),
            Self::Delete => 0,
        }
    }
}

#[derive(Debug)]
struct Waiting {
    write: Write,
    /// Its place in the queue.
    number: u64,
}

/// The bounds of a backlog.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) keys: usize,
    pub(crate) bytes: usize,
}

/// The last write of each key that a tier does not have yet.
#[derive(Debug)]
pub(crate) struct Backlog {
    bounds: Bounds,
    waiting: HashMap<Vec<u8>, Waiting>,
    /// Invalidations among them.
    deletes: usize,
    /// Keys and places in the order of their writes. Places that `waiting` does not have any more are skipped.
    order: VecDeque<(Vec<u8>, u64)>,
    /// Writes that are being sent at the moment.
    underway: HashMap<Vec<u8>, Write>,
    /// Bytes of both.
    bytes: usize,
    next: u64,
    /// Values whose load began up to here are not believed: invalidations were lost.
    distrusted: u64,
    pub(crate) lost_puts: u64,
    pub(crate) lost_deletes: u64,
}

impl Backlog {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            waiting: HashMap::new(),
            deletes: 0,
            order: VecDeque::new(),
            underway: HashMap::new(),
            bytes: 0,
            next: 0,
            distrusted: 0,
            lost_puts: 0,
            lost_deletes: 0,
        }
    }

    /// Adds a write in the place of an earlier one of the same key. `stamp` is the present.
    pub(crate) fn push(&mut self, key: &[u8], write: Write, stamp: u64) {
        let must_follow = self.look(key).is_some_and(must_happen);
        // The lease of a value that was loaded before ends with what is to be written before it.
        if must_follow && matches!(write, Write::Put { token: Some(_), .. }) {
            return;
        }
        let is_new = self.remove_waiting(key).is_none();
        let is_in_doubt = self.underway.get(key).is_some_and(must_happen);
        let write = match write {
            // The value that it replaces must not come back either.
            Write::Put {
                frame,
                ttl,
                replaces,
                token,
            } => Write::Put {
                frame,
                ttl,
                replaces: replaces || must_follow || is_in_doubt,
                token,
            },
            Write::Delete => Write::Delete,
        };
        let is_full = is_new && self.len() >= self.bounds.keys;
        let write = match write {
            Write::Put { ref frame, .. }
                if is_full || self.bytes + frame.len() > self.bounds.bytes =>
            {
                self.lost_puts += 1;
                match write {
                    Write::Put {
                        replaces: false, ..
                    } => return,
                    _ => Write::Delete,
                }
            }
            write => write,
        };
        if is_full {
            self.give_up(stamp);
            return;
        }
        self.bytes += write.bytes();
        self.next += 1;
        self.order.push_back((key.to_vec(), self.next));
        let number = self.next;
        self.deletes += usize::from(write == Write::Delete);
        self.waiting.insert(key.to_vec(), Waiting { write, number });
        self.compact();
    }

    /// Forgets all invalidations that wait, and instead believes nothing that the tier has got so far.
    fn give_up(&mut self, stamp: u64) {
        self.lost_deletes += 1;
        self.distrusted = self.distrusted.max(stamp);
        let puts = |_: &Vec<u8>, waiting: &mut Waiting| waiting.write != Write::Delete;
        self.waiting.retain(puts);
        self.lost_deletes += std::mem::take(&mut self.deletes) as u64;
        self.compact();
    }

    /// Drops a write that was overtaken by one that has happened.
    pub(crate) fn forget(&mut self, key: &[u8]) {
        self.remove_waiting(key);
        self.compact();
    }

    /// Drops values that were loaded before the key has changed in the tier, or any key. The tier would refuse them.
    pub(crate) fn doubt(&mut self, key: Option<&[u8]>) {
        let is_loaded = |write: &Write| matches!(write, Write::Put { token: Some(_), .. });
        let keys = match key {
            Some(key) => vec![key.to_vec()],
            None => self
                .waiting
                .keys()
                .chain(self.underway.keys())
                .cloned()
                .collect(),
        };
        for key in keys {
            if self
                .waiting
                .get(&key)
                .is_some_and(|waiting| is_loaded(&waiting.write))
            {
                self.remove_waiting(&key);
            }
            if self.underway.get(&key).is_some_and(is_loaded) {
                let write = self.underway.remove(&key).expect("it is under way");
                self.bytes -= write.bytes();
            }
        }
        self.compact();
    }

    fn remove_waiting(&mut self, key: &[u8]) -> Option<Write> {
        let waiting = self.waiting.remove(key)?;
        self.bytes -= waiting.write.bytes();
        self.deletes -= usize::from(waiting.write == Write::Delete);
        Some(waiting.write)
    }

    /// Keeps the queue of places from outgrowing the writes by keys that are written again and again.
    fn compact(&mut self) {
        if self.order.len() > 2 * self.waiting.len() + 64 {
            let waiting = &self.waiting;
            (self.order)
                .retain(|(key, number)| waiting.get(key).is_some_and(|w| w.number == *number));
        }
    }

    /// The last write of a key, if the tier does not have it yet.
    pub(crate) fn look(&self, key: &[u8]) -> Option<&Write> {
        let waiting = self.waiting.get(key).map(|waiting| &waiting.write);
        waiting.or_else(|| self.underway.get(key))
    }

    /// Whether to believe a value whose load began at `stamp`.
    pub(crate) fn trusts(&self, stamp: u64) -> bool {
        stamp > self.distrusted
    }

    /// Takes writes up to a number of bytes, and at least one; or only invalidations. [`finish`](Self::finish) ends them.
    /// Only one caller at a time gets any.
    pub(crate) fn take(&mut self, most_bytes: usize, only_deletes: bool) -> Vec<(Vec<u8>, Write)> {
        let mut taken = Vec::new();
        let mut passed = Vec::new();
        let mut bytes = 0;
        if !self.underway.is_empty() || (only_deletes && self.deletes == 0) {
            return taken;
        }
        while let Some((key, number)) = self.order.pop_front() {
            let Some(waiting) = self.waiting.get(&key).filter(|w| w.number == number) else {
                continue;
            };
            if only_deletes && waiting.write != Write::Delete {
                passed.push((key, number));
                continue;
            }
            bytes += waiting.write.bytes() + key.len();
            if bytes > most_bytes && !taken.is_empty() {
                self.order.push_front((key, number));
                break;
            }
            let write = self.remove_waiting(&key).expect("it is waiting");
            self.bytes += write.bytes();
            self.underway.insert(key.clone(), write.clone());
            taken.push((key, write));
        }
        for place in passed.into_iter().rev() {
            self.order.push_front(place);
        }
        taken
    }

    /// Ends the writes that were taken. Those that failed wait again, unless a later one has their place.
    pub(crate) fn finish(&mut self, succeeded: bool, stamp: u64) {
        let underway = std::mem::take(&mut self.underway);
        self.bytes -= underway.values().map(Write::bytes).sum::<usize>();
        for (key, write) in underway {
            if !succeeded && !self.waiting.contains_key(&key) {
                self.push(&key, write, stamp);
            }
        }
    }

    /// Values and invalidations that are not being written.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.waiting.len() - self.deletes, self.deletes)
    }

    /// Whether writes were taken that have not ended.
    pub(crate) fn is_underway(&self) -> bool {
        !self.underway.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.underway.len()
    }
}

/// Whether a write must not be dropped without another in its place.
fn must_happen(write: &Write) -> bool {
    match write {
        Write::Put { replaces, .. } => *replaces,
        Write::Delete => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(bytes: usize, replaces: bool) -> Write {
        Write::Put {
            frame: vec![0; bytes].into(),
            ttl: None,
            replaces,
            token: None,
        }
    }

    fn backlog() -> Backlog {
        Backlog::new(Bounds {
            keys: 3,
            bytes: 100,
        })
    }

    #[test]
    fn last_write_of_a_key_counts() {
        let mut backlog = backlog();
        backlog.push(b"a", put(10, false), 1);
        backlog.push(b"b", put(10, false), 1);
        backlog.push(b"a", Write::Delete, 1);
        assert_eq!(backlog.look(b"a"), Some(&Write::Delete));
        let taken = backlog.take(1_000, false);
        assert_eq!(
            taken,
            [
                (b"b".to_vec(), put(10, false)),
                (b"a".to_vec(), Write::Delete)
            ]
        );
        // Seen until they are done.
        assert_eq!(backlog.look(b"a"), Some(&Write::Delete));
        assert!(backlog.take(1_000, false).is_empty());
        backlog.push(b"b", put(20, false), 1);
        backlog.finish(false, 1);
        assert_eq!(backlog.look(b"b"), Some(&put(20, false)));
        assert_eq!(backlog.take(1_000, false).len(), 2);
        backlog.finish(true, 1);
        assert_eq!((backlog.len(), backlog.bytes), (0, 0));
    }

    #[test]
    fn put_without_room_is_counted_and_leaves_no_older_value() {
        let mut backlog = backlog();
        backlog.push(b"a", put(60, false), 1);
        backlog.push(b"b", put(60, false), 1);
        assert_eq!((backlog.look(b"b"), backlog.lost_puts), (None, 1));
        backlog.push(b"b", put(60, true), 1);
        assert_eq!(backlog.look(b"b"), Some(&Write::Delete));
        // A write that follows an invalidation must not be dropped without it.
        backlog.push(b"b", put(60, false), 1);
        assert_eq!(backlog.look(b"b"), Some(&Write::Delete));
        assert_eq!(backlog.lost_puts, 3);
    }

    #[test]
    fn lost_invalidations_make_everything_older_suspect() {
        let mut backlog = backlog();
        for key in [b"a", b"b", b"c"] {
            backlog.push(key, Write::Delete, 5);
        }
        assert!(backlog.trusts(1));
        backlog.push(b"d", Write::Delete, 9);
        assert!(!backlog.trusts(9) && backlog.trusts(10));
        assert_eq!((backlog.len(), backlog.lost_deletes), (0, 4));
    }

    #[test]
    fn batches_are_split_by_bytes() {
        let mut backlog = backlog();
        for key in [b"a", b"b", b"c"] {
            backlog.push(key, put(30, false), 1);
        }
        assert_eq!(backlog.take(70, false).len(), 2);
        backlog.finish(true, 1);
        assert_eq!(backlog.take(1, false).len(), 1);
    }

    #[test]
    fn invalidations_can_be_taken_ahead_of_values() {
        let mut backlog = backlog();
        backlog.push(b"a", put(10, false), 1);
        backlog.push(b"b", Write::Delete, 1);
        backlog.push(b"c", put(10, false), 1);
        assert_eq!(backlog.waiting(), (2, 1));
        assert_eq!(backlog.take(1_000, true), [(b"b".to_vec(), Write::Delete)]);
        backlog.finish(true, 1);
        assert_eq!(
            (backlog.waiting(), backlog.take(1_000, true)),
            ((2, 0), vec![])
        );
        let rest = backlog.take(1_000, false);
        let keys: Vec<_> = rest.into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [b"a", b"c"]);
    }

    #[test]
    fn keys_written_again_and_again_take_no_more_room() {
        let mut backlog = backlog();
        for _ in 0..10_000 {
            backlog.push(b"a", put(10, false), 1);
        }
        assert!(backlog.order.len() <= 100 && backlog.bytes == 10);
    }
}

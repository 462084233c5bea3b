//! Reading a keyspace as it was, while writes go on.
//!
//! Plain version: the keyspace copied whole. Here a shard is copied when it is changed for the first time after
//! the snapshot was taken, and read where it lies until then. The copy shares long strings and collections
//! with the shard; one of those is copied when it changes itself.
//!
//! A write checks whether a snapshot is open while it holds the lock of its shard, and a snapshot is open before
//! any of its reads. So a write that is finished before the snapshot is taken is in it, one that begins after it is
//! not, and of two writes, one of which follows the other, a snapshot never has only the second.

use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock, PoisonError};

use super::Keyspace;
use crate::shard::Shard;
use crate::slot::Slot;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, RwLock};
use crate::value::View;

/// The open snapshots of a keyspace.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// The number of the last snapshot.
    last: AtomicU64,
    count: AtomicUsize,
    open: Mutex<Vec<Arc<Frozen>>>,
    /// Shared by the batches that are being written: a snapshot is taken between them.
    pub(super) batches: RwLock<()>,
}

/// Shards as they were.
#[derive(Debug)]
struct Frozen {
    number: u64,
    shards: Box<[OnceLock<Box<Shard>>]>,
}

impl Snapshots {
    /// Whether there are any.
    #[inline]
    pub(super) fn are_open(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Copies a shard that is about to change, for every open snapshot that does not have it yet.
    #[cold]
    pub(super) fn preserve(&self, shard: &mut Shard, index: usize) {
        let last = self.last.load(Ordering::SeqCst);
        if shard.preserved_for >= last {
            return;
        }
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = open.last().map_or(last, |frozen| frozen.number.max(last));
        for frozen in open
            .iter()
            .filter(|frozen| frozen.number > shard.preserved_for)
        {
            frozen.shards[index].get_or_init(|| Box::new(shard.clone()));
        }
        shard.preserved_for = newest;
    }
}

/// A keyspace as it was when [`Keyspace::snapshot`] was called.
#[derive(Debug)]
pub struct Snapshot<'k> {
    keyspace: &'k Keyspace,
    frozen: Arc<Frozen>,
    now: u64,
}

impl<'k> Snapshot<'k> {
    pub(super) fn take(keyspace: &'k Keyspace, now: u64) -> Self {
        let snapshots = &keyspace.snapshots;
        let _between = snapshots
            .batches
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut open = snapshots
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let frozen = Arc::new(Frozen {
            number: snapshots.last.load(Ordering::SeqCst) + 1,
            shards: (0..keyspace.count).map(|_| OnceLock::new()).collect(),
        });
        open.push(Arc::clone(&frozen));
        // In this order: a write that sees an open snapshot finds its number and its place in the list.
        snapshots.last.store(frozen.number, Ordering::SeqCst);
        snapshots.count.fetch_add(1, Ordering::SeqCst);
        Self {
            keyspace,
            frozen,
            now,
        }
    }

    /// Shows the value that `key` had.
    pub fn view<R>(&self, key: &[u8], look: impl FnOnce(Option<View<'_>>) -> R) -> R {
        self.slot(key, |slot| look(slot.map(|slot| slot.view())))
    }

    /// Shows the entry that `key` had.
    pub(crate) fn slot<R>(&self, key: &[u8], look: impl FnOnce(Option<Slot<'_>>) -> R) -> R {
        let hash = self.keyspace.hasher.hash_one(key);
        self.shard(self.keyspace.index_of(hash), |shard| {
            let at = shard.and_then(|shard| Some((shard, shard.find(hash, key)?)));
            let slot = at.map(|(shard, at)| shard.slot(at));
            look(slot.filter(|slot| !slot.is_gone(self.now)))
        })
    }

    /// Continues a walk over the keys that begin with `prefix`, as [`Keyspace::scan`] does it; every key of the
    /// snapshot is shown exactly once.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], View<'_>),
    ) -> u64 {
        self.scan_slots(cursor, count, |slot| {
            if slot.key().starts_with(prefix) {
                visit(slot.key(), slot.view());
            }
        })
    }

    /// The same with entries where they lie, of all keys.
    pub(crate) fn scan_slots(
        &self,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(Slot<'_>),
    ) -> u64 {
        let mut seen = 0;
        let shards = self.keyspace.count;
        for index in usize::try_from(cursor).unwrap_or(shards)..shards {
            self.shard(index, |shard| {
                let slots = shard.into_iter().flat_map(Shard::iter);
                for slot in slots.filter(|slot| !slot.is_gone(self.now)) {
                    seen += 1;
                    visit(slot);
                }
            });
            if seen >= count && index + 1 < shards {
                return index as u64 + 1;
            }
        }
        0
    }

    /// Shards that were copied so far.
    #[cfg(test)]
    pub(super) fn copies(&self) -> usize {
        let shards = self.frozen.shards.iter();
        shards.filter(|shard| shard.get().is_some()).count()
    }

    /// Shows a shard as it was: the copy where it has changed since, and where it lies otherwise.
    fn shard<R>(&self, index: usize, look: impl FnOnce(Option<&Shard>) -> R) -> R {
        if let Some(shard) = self.frozen.shards[index].get() {
            return look(Some(shard));
        }
        let Some(shards) = self.keyspace.shards.get() else {
            return look(None);
        };
        let live = crate::shard::lock(&shards[index]);
        // A write may have come first.
        match self.frozen.shards[index].get() {
            Some(shard) => {
                drop(live);
                look(Some(shard))
            }
            None => look(Some(&live)),
        }
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        let snapshots = &self.keyspace.snapshots;
        let mut open = snapshots
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        open.retain(|frozen| frozen.number != self.frozen.number);
        snapshots.count.store(open.len(), Ordering::SeqCst);
    }
}

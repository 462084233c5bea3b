//! A part of the keyspace, with what it counts.

use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard};

use hashbrown::hash_table::{HashTable, Iter};

use crate::slot::Slot;

/// Slots of keys that belong together by their hashes. Whoever asks has hashed the key already, once for
/// the choice of the shard and for the place in it.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    table: HashTable<Slot>,
    /// Entries that have an expiry.
    expiring: usize,
    /// Entries that went because their time had come.
    expired: u64,
    /// Bytes of memory that the slots hold.
    held: usize,
}

/// A table with more than this many places per slot shrinks.
const PLACES_PER_SLOT: usize = 8;

impl Shard {
    /// What stands for a key that is there; one whose time has come is freed instead.
    #[inline]
    pub(crate) fn find(&mut self, hash: u64, key: &[u8], now: u64) -> Option<&Slot> {
        self.find_mut(hash, key, now).map(|slot| &*slot)
    }

    #[inline]
    pub(crate) fn find_mut(&mut self, hash: u64, key: &[u8], now: u64) -> Option<&mut Slot> {
        let index = self
            .table
            .find_bucket_index(hash, |slot| slot.key() == key)?;
        if self.expiring > 0 && self.table.get_bucket(index)?.is_gone(now) {
            self.take(hash, key, now);
            return None;
        }
        self.table.get_bucket_mut(index)
    }

    /// Adds the slot of a key that is not there.
    pub(crate) fn insert(&mut self, hash: u64, slot: Slot, hasher: &impl BuildHasher) {
        self.recount(None, slot.expires_at());
        self.resize(0, slot.held_bytes());
        self.table
            .insert_unique(hash, slot, |slot| hasher.hash_one(slot.key()));
    }

    /// Takes a key out, and returns what stood for it unless its time had come.
    pub(crate) fn take(&mut self, hash: u64, key: &[u8], now: u64) -> Option<Slot> {
        let slot = self.remove(hash, key)?;
        if slot.is_gone(now) {
            self.expired += 1;
            return None;
        }
        Some(slot)
    }

    /// Takes a key out, and returns what stood for it.
    pub(crate) fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Slot> {
        let place = self.table.find_entry(hash, |slot| slot.key() == key);
        let (slot, _) = place.ok()?.remove();
        self.recount(slot.expires_at(), None);
        self.resize(slot.held_bytes(), 0);
        Some(slot)
    }

    /// Gives back the room of slots that went.
    pub(crate) fn shrink(&mut self, hasher: &impl BuildHasher) {
        if self.table.num_buckets() > PLACES_PER_SLOT * (self.table.len() + 1) {
            let wanted = 2 * self.table.len();
            self.table
                .shrink_to(wanted, |slot| hasher.hash_one(slot.key()));
        }
    }

    /// Frees every entry whose time has come and returns how many.
    pub(crate) fn expire(&mut self, now: u64, hasher: &impl BuildHasher) -> usize {
        let before = self.table.len();
        let held = &mut self.held;
        self.table.retain(|slot| {
            let stays = !slot.is_gone(now);
            if !stays {
                *held -= slot.held_bytes();
            }
            stays
        });
        let freed = before - self.table.len();
        self.expiring -= freed;
        self.expired += freed as u64;
        self.shrink(hasher);
        freed
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) {
        self.table = HashTable::new();
        self.expiring = 0;
        self.held = 0;
    }

    /// Counts a slot that holds other bytes than before.
    #[inline]
    pub(crate) fn resize(&mut self, was: usize, is: usize) {
        self.held = self.held + is - was;
    }

    /// Bytes of memory that the slots and their table take, without what an allocator adds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.held + self.table.allocation_size()
    }

    /// Counts an entry whose expiry has become another.
    pub(crate) fn recount(&mut self, was: Option<u64>, is: Option<u64>) {
        self.expiring += usize::from(is.is_some());
        self.expiring -= usize::from(was.is_some());
    }

    /// Bytes of memory that the slots hold outside of their table.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> usize {
        self.held
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn iter(&self) -> Iter<'_, Slot> {
        self.table.iter()
    }

    /// How many entries have an expiry.
    pub(crate) fn expiring(&self) -> usize {
        self.expiring
    }

    /// How many entries went because their time had come.
    pub(crate) fn expired(&self) -> u64 {
        self.expired
    }
}

/// A caller's closure that panics has changed one entry at most, whole; only what is counted of the entries
/// can be wrong then, and is counted again.
pub(crate) fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(|poisoned| {
        let mut guard = poisoned.into_inner();
        let has_expiry = |slot: &&Slot| slot.expires_at().is_some();
        guard.expiring = guard.table.iter().filter(has_expiry).count();
        guard.held = guard.table.iter().map(Slot::held_bytes).sum();
        shard.clear_poison();
        guard
    })
}

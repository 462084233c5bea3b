//! Keys whose shards stay locked for more than one step, so that what happens to them in memory and in the log
//! happens in one order.

use std::hash::BuildHasher;
use std::sync::PoisonError;

use super::Keyspace;
use super::index_of;
use super::locked::Locked;
use crate::clock::now_ms;
use crate::record::Outside;
use crate::shard::{Shard, lock};
use crate::slot::{Loose, New, Slot};
use crate::sync::RwLockReadGuard;
use crate::value::{Change, Entry, Value};

/// A string to put, and where it lies in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NewString<'v> {
    /// Without a log.
    Held(&'v [u8]),
    /// In memory, and in this segment of the log.
    Logged(&'v [u8], u32),
    /// In the log only.
    Outside(Outside),
}

/// The time of writes by way of [`LockedKey`]: none, since a store keeps no accesses, and reading the clock takes time.
const NO_TIME: u64 = 0;

/// The order of some keys by their shards; keys of one shard stay in order.
#[derive(Debug)]
pub(crate) struct ByShard(Vec<u64>);

impl ByShard {
    /// The numbers of the keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + Clone {
        self.0.iter().map(|packed| *packed as u32 as usize)
    }
}

/// The use for which keys are locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Change,
}

impl Keyspace {
    /// Locks the shard of `key`.
    #[inline]
    pub(crate) fn lock(&self, key: &[u8]) -> LockedKey<'_> {
        LockedKey {
            locked: self.shard_of(key),
        }
    }

    /// Locks the shards of keys with these hashes, which have to be sorted by their shards.
    pub(crate) fn lock_all(
        &self,
        hashes: impl Iterator<Item = u64> + Clone,
        purpose: Purpose,
    ) -> LockedKeys<'_> {
        let shards = self.shards.get_or_init(|| self.make_shards());
        let batch = self.snapshots.batches.read();
        let batch = batch.unwrap_or_else(PoisonError::into_inner);
        for hash in hashes.clone() {
            // A lock waits for the memory alone. Reads before it wait for all of them at the same time.
            shards[self.index_of(hash)].warm();
        }
        let mut keys: Vec<(usize, LockedKey<'_>)> = Vec::with_capacity(hashes.size_hint().0);
        for hash in hashes.clone() {
            let index = self.index_of(hash);
            // In the order of their numbers, so that no two threads wait for each other.
            if keys.last().is_none_or(|(last, _)| *last < index) {
                let locked = Locked::new(self, shards, index, hash);
                keys.push((index, LockedKey { locked }));
            }
        }
        let locked = LockedKeys {
            keyspace: self,
            keys,
            at: 0,
            _batch: batch,
        };
        locked.warm(hashes, purpose);
        locked
    }

    /// Brings the entries of `keys` into the cache of the processor, for operations on these keys that follow. One after
    /// the other, the operations wait for the memory several times each; here the waits of all of them overlap. It
    /// changes and counts nothing, and takes no lock. Few keys are in the cache anyway, and are left alone.
    pub fn warm<'k>(&mut self, mut keys: impl Iterator<Item = &'k [u8]>) {
        /// Keys whose waits overlap. The processor has room for about as many.
        const TOGETHER: usize = 16;
        /// Keys whose entries fit into the caches of usual processors.
        const FEW_KEYS: usize = 32 << 10;
        let Some(shards) = self.shards.get_mut() else {
            return;
        };
        // Keys are spread evenly, so that one shard is like all of them.
        let keys_of_one = shards[0].get_mut().map_or(0, |shard| shard.len());
        if keys_of_one * self.count < FEW_KEYS {
            return;
        }
        let mut found = [(0, 0); TOGETHER];
        loop {
            let mut count = 0;
            for (found, key) in found.iter_mut().zip(&mut keys) {
                let hash = self.hasher.hash_one(key);
                *found = (hash, index_of(hash, self.count));
                count += 1;
            }
            if count == 0 {
                return;
            }
            let found = &found[..count];
            // Lines of the index first, then the records, which wait for them, and then the collections, which wait for these.
            for (hash, index) in found {
                if let Some(shard) = shards[*index].get_mut() {
                    shard.warm_index(*hash);
                }
            }
            let mut places = [None; TOGETHER];
            for (place, (hash, index)) in places.iter_mut().zip(found) {
                let shard = shards[*index].get_mut();
                *place = shard.and_then(|shard| shard.guess(*hash));
            }
            for warm in [Shard::warm, Shard::warm_held] {
                for (place, (_, index)) in places.iter().zip(found) {
                    if let (Some(place), Some(shard)) = (place, shards[*index].get_mut()) {
                        warm(shard, *place);
                    }
                }
            }
        }
    }

    /// Shows the entries of `keys`, in their order, as they are at one moment; counts hits and misses.
    ///
    /// # Errors
    /// The first one of `visit`, which is not called again then.
    pub(crate) fn look_up_all<'k, E>(
        &self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        mut visit: impl FnMut(&'k [u8], Option<Slot<'_>>) -> Result<(), E>,
    ) -> Result<(), E> {
        // Hashes in the order of the keys, each with the place of its lock.
        let hashes = keys.clone().map(|key| (self.hash(key), 0));
        let mut places: Vec<(u64, usize)> = hashes.collect();
        let order = self.by_shard(places.iter().map(|(hash, _)| *hash));
        let hashes = order.iter().map(|number| places[number].0);
        let mut locked = self.lock_all(hashes, Purpose::Read);
        for number in order.iter() {
            let (hash, at) = &mut places[number];
            locked.key(*hash);
            *at = locked.at;
        }
        for (key, (hash, at)) in keys.zip(places) {
            let locked = &mut locked.keys[at].1;
            locked.locked.aim(hash);
            visit(key, locked.look_up(key))?;
        }
        Ok(())
    }

    /// The order of the shards of these hashes.
    pub(crate) fn by_shard(&self, hashes: impl Iterator<Item = u64>) -> ByShard {
        // A number says both, which takes less time to sort than a pair.
        let packed = |(number, hash): (usize, u64)| {
            debug_assert!(number <= u32::MAX as usize, "a batch has fewer keys");
            (self.index_of(hash) as u64) << 32 | number as u64
        };
        let mut packed: Vec<u64> = hashes.enumerate().map(packed).collect();
        packed.sort_unstable();
        ByShard(packed)
    }

    /// The hash of `key`, for [`lock_all`](Self::lock_all).
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Number of the shard of a key with this hash.
    #[inline]
    pub(crate) fn shard_index(&self, hash: u64) -> usize {
        self.index_of(hash)
    }

    /// Removes everything from every shard whose number leaves `part` when divided by `parts`.
    pub(crate) fn clear_part(&self, part: usize, parts: usize) {
        if let Some(shards) = self.shards.get() {
            for index in (part..shards.len()).step_by(parts) {
                Locked::new(self, shards, index, 0).clear();
            }
        }
    }

    /// Makes room for a part of `keys` keys in every shard whose number leaves `part` when divided by `parts`.
    pub(crate) fn reserve_part(&self, part: usize, parts: usize, keys: usize) {
        if keys < self.count {
            return;
        }
        let shards = self.shards.get_or_init(|| self.make_shards());
        for shard in shards.iter().skip(part).step_by(parts) {
            lock(shard).reserve(keys / self.count, &self.hasher);
        }
    }

    /// Bytes that all entries take in the log when they are written anew; 0 without a log.
    pub(crate) fn logged_bytes(&self) -> u64 {
        self.each_shard().map(|shard| shard.logged_bytes()).sum()
    }
}

/// A key whose shard is locked.
#[derive(Debug)]
pub(crate) struct LockedKey<'k> {
    locked: Locked<'k>,
}

impl LockedKey<'_> {
    /// The entry of the key, unless its time has come. The clock is read only where that matters.
    #[inline]
    pub(crate) fn find(&mut self, key: &[u8]) -> Option<Slot<'_>> {
        let now = self.now();
        let at = self.locked.find(key, now)?;
        Some(self.locked.slot(at))
    }

    /// The entry of the key as [`find`](Self::find) says it; counts a hit or a miss.
    // For the same reason as `Locked::new`.
    #[inline(always)]
    pub(crate) fn look_up(&mut self, key: &[u8]) -> Option<Slot<'_>> {
        let now = self.now();
        let at = self.locked.look_up(key, now)?;
        Some(self.locked.slot(at))
    }

    #[inline]
    fn now(&self) -> u64 {
        if self.locked.can_expire() {
            now_ms()
        } else {
            0
        }
    }

    /// Bytes by which the tables of its shard grow at most for `entries` more entries of `bytes` bytes.
    pub(crate) fn growth_bytes(&self, entries: usize, bytes: usize) -> usize {
        self.locked.growth_bytes(entries, bytes)
    }

    /// Brings what finds the entry of the key into the cache of the processor, for a change that follows.
    #[inline]
    pub(crate) fn warm(&self) {
        self.locked.warm_index_to_change(self.locked.hash());
    }

    /// Brings the entry of the key into the cache of the processor. It waits for what finds it.
    #[inline]
    pub(crate) fn warm_entry(&self) {
        if let Some(place) = self.locked.guess(self.locked.hash()) {
            self.locked.warm(place);
        }
    }

    /// The entry of the key, also where its time has come.
    pub(crate) fn find_any(&self, key: &[u8]) -> Option<Slot<'_>> {
        let at = self.locked.find_any(key)?;
        Some(self.locked.slot(at))
    }

    /// Notes that the value of the key, which is in the log only, has the right checksum.
    #[cold]
    pub(crate) fn set_verified(&mut self, key: &[u8]) {
        if let Some(at) = self.locked.find_any(key)
            && let Some(outside) = self.locked.slot(at).record.outside()
        {
            let unverified = None;
            self.locked.set_outside(
                at,
                Outside {
                    unverified,
                    ..outside
                },
            );
        }
    }

    /// Puts a string at the key.
    #[inline]
    pub(crate) fn put(&mut self, key: &[u8], new: NewString<'_>, expires_at: Option<u64>) {
        let current = self.locked.find_any(key);
        match new {
            NewString::Held(bytes) => {
                self.locked
                    .put_string(key, current, bytes, expires_at, NO_TIME);
            }
            NewString::Logged(bytes, segment) => {
                self.locked.set_new_segment(segment);
                self.locked
                    .put_string(key, current, bytes, expires_at, NO_TIME);
            }
            NewString::Outside(outside) => {
                self.locked.set_new_segment(outside.segment);
                self.locked
                    .put(key, current, New::Outside(outside, expires_at), NO_TIME);
            }
        }
    }

    /// Puts a value that changes in place at the key. It lies in `segment` of the log.
    pub(crate) fn put_entry(&mut self, key: &[u8], entry: Entry, segment: u32) {
        let current = self.locked.find_any(key);
        self.locked.set_new_segment(segment);
        self.locked
            .put(key, current, Loose::of(entry).renewed(), NO_TIME);
    }

    /// Changes the value of the key in place, if it is there. A collection that has lost its last element goes.
    pub(crate) fn change(&mut self, key: &[u8], change: impl FnOnce(&mut Value)) {
        let Some(at) = self.locked.find_any(key) else {
            return;
        };
        let change = |entry: Option<&mut Entry>| {
            let is_empty = entry.is_some_and(|entry| {
                change(&mut entry.value);
                entry.value.is_empty_collection()
            });
            (is_empty, Change::Keep)
        };
        let ((is_empty, _), at) = self.locked.change(key, at, change);
        if is_empty {
            self.locked.remove(at);
        } else {
            self.locked.tidy();
        }
    }

    /// Changes when the key goes, if it is there.
    pub(crate) fn set_expiry(&mut self, key: &[u8], expires_at: Option<u64>) {
        if let Some(at) = self.locked.find_any(key) {
            self.locked.set_expiry(key, at, expires_at);
        }
    }

    /// Removes the key.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        if let Some(at) = self.locked.find_any(key) {
            self.locked.remove(at);
        }
    }
}

/// Several keys whose shards are locked.
#[derive(Debug)]
pub(crate) struct LockedKeys<'k> {
    keyspace: &'k Keyspace,
    keys: Vec<(usize, LockedKey<'k>)>,
    /// Where the shard of the last key is. Keys come in the order of their shards.
    at: usize,
    /// Held so that a snapshot has all of them or none.
    _batch: RwLockReadGuard<'k, ()>,
}

impl<'k> LockedKeys<'k> {
    /// Brings the entries of keys with these hashes into the cache of the processor. One after the other, each
    /// look-up waits for the memory several times; here the waits of many keys overlap.
    fn warm(&self, hashes: impl Iterator<Item = u64> + Clone, purpose: Purpose) {
        let mut at = 0;
        let keys = hashes.map(|hash| {
            let index = self.keyspace.index_of(hash);
            while self.keys[at].0 < index {
                at += 1;
            }
            (at, hash)
        });
        // Lines of the index first, then guesses, which wait for them, with the addresses of pages, and then the records.
        let keys = keys.inspect(|(at, hash)| {
            let locked = &self.keys[*at].1.locked;
            match purpose {
                Purpose::Read => locked.warm_index(*hash),
                Purpose::Change => locked.warm_index_to_change(*hash),
            }
        });
        let keys: Vec<(usize, u64)> = keys.collect();
        let guesses = keys.iter().filter_map(|(at, hash)| {
            let locked = &self.keys[*at].1.locked;
            let place = locked.guess(*hash)?;
            locked.warm_page(place);
            Some((*at, place))
        });
        let guesses: Vec<(usize, u32)> = guesses.collect();
        for (at, place) in guesses {
            self.keys[at].1.locked.warm(place);
        }
    }

    /// Begins again with the first key.
    pub(crate) fn rewind(&mut self) {
        self.at = 0;
    }

    /// A key whose hash was among those that were locked, and not before the one of the last call.
    pub(crate) fn key(&mut self, hash: u64) -> &mut LockedKey<'k> {
        let index = self.keyspace.index_of(hash);
        while self.keys[self.at].0 < index {
            self.at += 1;
        }
        let key = &mut self.keys[self.at].1;
        key.locked.aim(hash);
        key
    }
}

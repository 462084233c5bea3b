//! A shard while a caller holds its lock.

use std::hash::BuildHasher as _;
use std::ops::Deref;

use super::age::Noting;
use super::{Expired, Keyspace, WORD_BITS, lock_expired};
use crate::age::{AccessMetric, Stamp, seconds};
use crate::index::Position;
use crate::record::Outside;
use crate::shard::{Passed, Shard, ShardLock, lock};
use crate::slot::{Loose, New, Slot, Text};
use crate::sync::MutexGuard;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::value::{Change, Entry, Value};

/// A locked shard, and the hash of the key that it was locked for. Every change preserves the shard for open
/// snapshots first; when the lock is released, what the shard takes is counted.
///
/// The places of records hold until the next change.
#[derive(Debug)]
pub(super) struct Locked<'k> {
    keyspace: &'k Keyspace,
    shard: MutexGuard<'k, Shard>,
    index: usize,
    hash: u64,
    /// Bytes and keys when it was locked, where they are counted.
    was: (usize, usize),
    /// Whether something in it had an expiry when it was locked.
    could_expire: bool,
}

impl<'k> Locked<'k> {
    // Left to itself, the compiler makes it a call in crates with several readers, which costs 5 % of a read.
    #[inline(always)]
    pub(super) fn new(
        keyspace: &'k Keyspace,
        shards: &'k [ShardLock],
        index: usize,
        hash: u64,
    ) -> Self {
        let mut shard = lock(&shards[index]);
        if keyspace.segment != 0 {
            shard.set_new_segment(keyspace.segment);
        }
        let was = match keyspace.victim {
            Some(_) => (shard.charged_bytes(), shard.len()),
            None => (0, 0),
        };
        let could_expire = shard.can_expire();
        Self {
            keyspace,
            shard,
            index,
            hash,
            was,
            could_expire,
        }
    }

    #[inline]
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Goes over to another key of the shard, with this hash.
    #[inline]
    pub(super) fn aim(&mut self, hash: u64) {
        self.hash = hash;
    }

    /// Sets the segment of the log in which new entries lie from now on.
    #[inline]
    pub(super) fn set_new_segment(&mut self, segment: u32) {
        self.shard.set_new_segment(segment);
    }

    /// Sets the segment of the log in which all of the entry at a position of the index lies. Snapshots do not look at it.
    pub(super) fn set_segment(&mut self, position: Position, segment: u32) {
        self.shard.set_segment(position, segment);
    }

    /// Sets where the value of the entry at `at` lies, which is in the log only. A snapshot that reads it there finds the
    /// same bytes.
    pub(super) fn set_outside(&mut self, at: u32, outside: Outside) {
        self.shard.set_outside(at, outside);
    }

    /// Where the record of `key` is, without counting a use of it; one whose time has come is freed instead, as are fields
    /// whose time has come.
    #[inline]
    pub(super) fn find_unused(&mut self, key: &[u8], now: u64) -> Option<u32> {
        let at = self.find_any(key)?;
        if self.shard.is_due(at, now) {
            return self.free(key, at, now);
        }
        Some(at)
    }

    /// Where the record of `key` is, and counts a use of it; one whose time has come is freed instead.
    #[inline]
    pub(super) fn find(&mut self, key: &[u8], now: u64) -> Option<u32> {
        let at = self.find_unused(key, now)?;
        match self.keyspace.noting {
            Noting::Nothing => {}
            Noting::Time => self.shard.set_time(at, seconds(now)),
            Noting::Others => self.note_use(at, now),
        }
        Some(at)
    }

    #[inline]
    fn note_use(&mut self, at: u32, now: u64) {
        match self.keyspace.access {
            Some(AccessMetric::Time) => self.shard.set_time(at, seconds(now)),
            Some(AccessMetric::Frequency) => self.count_access(at, now),
            None => {}
        }
        if let Some(victim) = self.keyspace.victim {
            self.shard.touch(at, victim);
        }
    }

    /// Sets the stamp of the entry at `at`. A snapshot does not look at it.
    pub(super) fn set_stamp(&mut self, at: u32, stamp: Stamp) {
        self.shard.set_stamp(at, stamp);
    }

    /// Counts an access to the entry at `at`, or not, as chance has it.
    fn count_access(&mut self, at: u32, now: u64) {
        let random = self.keyspace.draw();
        let stamp = self.shard.stamp(at);
        let stamp = stamp.accessed(AccessMetric::Frequency, now, random);
        self.shard.set_stamp(at, stamp);
    }

    /// Where the record of `key` is, as [`find`](Self::find) says it; counts a hit or a miss.
    #[inline]
    pub(super) fn look_up(&mut self, key: &[u8], now: u64) -> Option<u32> {
        let at = self.find(key, now);
        let counts = &mut self.shard.counts;
        match at {
            Some(_) => counts.hits += 1,
            None => counts.misses += 1,
        }
        at
    }

    /// Where the record of `key` is, also where its time has come.
    #[inline]
    pub(super) fn find_any(&self, key: &[u8]) -> Option<u32> {
        self.shard.find(self.hash, key)
    }

    /// Frees an entry whose time has come, or those of its fields whose time has come, and returns where it still is.
    #[cold]
    fn free(&mut self, key: &[u8], at: u32, now: u64) -> Option<u32> {
        if !self.shard.slot(at).is_gone(now) {
            return self.free_fields(key, at, now);
        }
        if let Some(on_expiry) = &self.keyspace.on_expiry {
            on_expiry.expired(&mut std::iter::once(key));
        }
        if let Some(expired) = &self.keyspace.expired {
            lock_expired(expired).push(Expired::Key(key.into()));
        }
        self.remove(at);
        self.shard.counts.expired += 1;
        None
    }

    /// Frees the fields of a hash whose time has come. A hash without fields goes.
    fn free_fields(&mut self, key: &[u8], at: u32, now: u64) -> Option<u32> {
        let mut fields = Vec::new();
        let take = |entry: Option<&mut Entry>| {
            let is_empty = entry.is_some_and(|entry| {
                if let Value::Hash(hash) = &mut entry.value {
                    fields = hash.take_expired(now);
                }
                entry.value.is_empty_collection()
            });
            (is_empty, Change::Keep)
        };
        // A hash lies outside of its record, so that this stays where it is.
        let ((is_empty, _), at) = self.change(key, at, take);
        if let Some(on_expiry) = &self.keyspace.on_expiry {
            on_expiry.fields_expired(key, &fields);
        }
        if let Some(expired) = &self.keyspace.expired {
            let key = key.into();
            lock_expired(expired).push(Expired::Fields { key, is_empty });
        }
        if is_empty {
            self.remove(at);
            return None;
        }
        Some(at)
    }

    /// Frees all fields whose time has come.
    #[cold]
    pub(super) fn expire_fields(&mut self, now: u64) {
        let hasher = &self.keyspace.hasher;
        let due = self.shard.iter().filter(|slot| slot.has_due_fields(now));
        let due = due.filter(|slot| !slot.is_gone(now)).map(|slot| slot.key());
        let due: Vec<(u64, Box<[u8]>)> =
            due.map(|key| (hasher.hash_one(key), key.into())).collect();
        for (hash, key) in due {
            self.aim(hash);
            if let Some(at) = self.find_any(&key) {
                self.free_fields(&key, at, now);
            }
        }
    }

    /// Puts a value at `key`, in the place of what is at `current`, whose stamp stays.
    pub(super) fn put(&mut self, key: &[u8], current: Option<u32>, new: New<'_>, now: u64) {
        let stamp = match current {
            Some(at) => self.shard.stamp(at),
            None => self.keyspace.new_stamp(now),
        };
        self.put_stamped(key, current, new, stamp);
    }

    /// Puts a value at `key`, in the place of what is at `current`.
    pub(super) fn put_stamped(
        &mut self,
        key: &[u8],
        current: Option<u32>,
        new: New<'_>,
        stamp: Stamp,
    ) {
        let keyspace = self.keyspace;
        let hash = self.hash;
        let shard = self.changing();
        match current {
            Some(at) => {
                shard.replace(hash, at, key, new, stamp);
                shard.tidy(&keyspace.hasher);
            }
            None => {
                let at = shard.insert(hash, key, new, stamp, &keyspace.hasher);
                shard.begin_age(at, keyspace.victim);
            }
        }
    }

    /// Puts a string at `key`, in the place of what is at `current`.
    #[inline]
    pub(super) fn put_string(
        &mut self,
        key: &[u8],
        current: Option<u32>,
        bytes: &[u8],
        expires_at: Option<u64>,
        now: u64,
    ) {
        let Some(at) = current else {
            return self.put(key, None, New::String(Text::new(bytes, expires_at)), now);
        };
        let keyspace = self.keyspace;
        let hash = self.hash;
        let shard = self.changing();
        if shard.put_string(hash, at, key, bytes, expires_at) != at {
            shard.tidy(&keyspace.hasher);
        }
    }

    /// Shows the entry at `at` to `change`, and returns what that says and where the entry is then.
    pub(super) fn change<R>(
        &mut self,
        key: &[u8],
        at: u32,
        change: impl FnOnce(Option<&mut Entry>) -> (R, Change),
    ) -> ((R, Change), u32) {
        let hash = self.hash;
        self.changing().change(hash, at, key, change)
    }

    pub(super) fn set_expiry(&mut self, key: &[u8], at: u32, expires_at: Option<u64>) {
        let hash = self.hash;
        self.changing().set_expiry(hash, at, key, expires_at);
        self.tidy();
    }

    pub(super) fn keep_as_text(&mut self, at: u32) {
        self.changing().keep_as_text(at);
    }

    pub(super) fn make_growing(&mut self, key: &[u8], at: u32) {
        let hash = self.hash;
        self.changing().make_growing(hash, at, key);
        self.tidy();
    }

    /// Removes the entry at `at`.
    pub(super) fn remove(&mut self, at: u32) {
        let hash = self.hash;
        self.changing().remove(hash, at);
        self.tidy();
    }

    /// Takes the value at `at` out.
    pub(super) fn take(&mut self, at: u32) -> Loose {
        let hash = self.hash;
        let loose = self.changing().take(hash, at);
        self.tidy();
        loose
    }

    /// Gives back the memory of what went, where it is much.
    pub(super) fn tidy(&mut self) {
        self.shard.tidy(&self.keyspace.hasher);
    }

    /// As [`Shard::evict`], at a random place where random bits are given.
    pub(super) fn evict(
        &mut self,
        random: Option<u64>,
        may_go: impl Fn(Slot<'_>) -> bool,
        visit: impl FnOnce(&[u8]),
    ) -> Passed {
        let keyspace = self.keyspace;
        let shard = self.changing();
        if let Some(random) = random {
            shard.move_hand(random);
        }
        let victim = keyspace.victim.unwrap_or_default();
        let passed = shard.evict(victim, &keyspace.hasher, may_go, visit);
        self.tidy();
        passed
    }

    /// Frees every entry whose time has come and returns how many, and fields whose time has come.
    pub(super) fn expire(&mut self, now: u64) -> usize {
        let keyspace = self.keyspace;
        if self.shard.has_expiring_fields() {
            self.expire_fields(now);
        }
        if let Some(on_expiry) = &keyspace.on_expiry {
            let gone = self.shard.iter().filter(|slot| slot.is_gone(now));
            on_expiry.expired(&mut gone.map(|slot| slot.key()));
        }
        if let Some(expired) = &keyspace.expired {
            let gone = self.shard.iter().filter(|slot| slot.is_gone(now));
            lock_expired(expired).extend(gone.map(|slot| Expired::Key(slot.key().into())));
        }
        self.changing().expire(now, &keyspace.hasher)
    }

    /// Removes everything.
    pub(super) fn clear(&mut self) {
        self.changing().clear();
    }

    /// The shard, to be changed.
    #[inline]
    fn changing(&mut self) -> &mut Shard {
        let snapshots = &self.keyspace.snapshots;
        if snapshots.are_open() {
            snapshots.preserve(&mut self.shard, self.index);
        }
        &mut self.shard
    }
}

impl Deref for Locked<'_> {
    type Target = Shard;

    #[inline]
    fn deref(&self) -> &Shard {
        &self.shard
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        let keyspace = self.keyspace;
        let can_expire = self.shard.can_expire();
        if can_expire != self.could_expire {
            let bits = &keyspace.can_expire[self.index / WORD_BITS];
            let bit = 1 << (self.index % WORD_BITS);
            match can_expire {
                true => bits.fetch_or(bit, Ordering::Relaxed),
                false => bits.fetch_and(!bit, Ordering::Relaxed),
            };
        }
        if keyspace.victim.is_some() {
            let count = |total: &AtomicUsize, was: usize, is: usize| {
                if was != is {
                    total.fetch_add(is.wrapping_sub(was), Ordering::Relaxed);
                }
            };
            count(
                &keyspace.charged_bytes,
                self.was.0,
                self.shard.charged_bytes(),
            );
            count(&keyspace.keys, self.was.1, self.shard.len());
        }
    }
}

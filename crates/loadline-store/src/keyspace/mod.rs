//! The keyspace.

mod age;
mod evict;
mod huge;
mod locked;
mod logged;
mod snapshot;
mod sweep;

use std::fmt::Debug;
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock, PoisonError};

use hashbrown::DefaultHashBuilder;

use self::age::Noting;
pub use self::evict::Evicted;
pub use self::huge::{FullPages, HugePages};
use self::locked::Locked;
use self::snapshot::Snapshots;
use crate::age::{AccessMetric, Stamp};
use crate::page::PAGE_BYTES;
pub use crate::shard::Victim;
use crate::shard::{Shard, ShardLock, lock};
use crate::slot::{Loose, Slot};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::table::Bytes;
use crate::value::{Change, Entry, Expiry, Shape, Value, View};

pub(crate) use self::logged::{ByShard, LockedKey, LockedKeys, NewString, Purpose};
pub use self::snapshot::Snapshot;
pub(crate) use self::sweep::{LockedEntry, LockedShard, Remaining};

/// Parts of the keyspace, each behind its own lock; a key's part never changes. Many, so that a part
/// that is walked, swept or grown in one piece stays small: 2,500 keys of ten millions.
const SHARDS: usize = 4096;

/// Parts of a keyspace that is read from a log with few keys, and these keys. Empty parts take 150 microseconds to make, most
/// of the time in which such a log is opened.
const SHARDS_FOR_FEW: usize = 1024;
const FEW_KEYS: u64 = 1024;

/// Parts of the smallest keyspace, so that several threads seldom wait for each other.
const LEAST_SHARDS: usize = 16;
/// Keys for which a small keyspace has one more part.
const KEYS_PER_SHARD: usize = 256;
/// Bytes for which a keyspace with a limit of memory has one more part. What parts take that hold nothing, and their pages
/// that are being filled, are to be little of it.
const BYTES_PER_SHARD: usize = 32 << 10;

/// Shards for which a number has bits.
const WORD_BITS: usize = u64::BITS as usize;

/// The keyspace.
#[derive(Debug)]
pub struct Keyspace {
    /// Number of shards, a power of two.
    count: usize,
    /// Made when the first key comes, since most databases of a server stay empty.
    shards: OnceLock<Box<[ShardLock]>>,
    /// With a random seed, so that no client can aim keys at one shard.
    hasher: DefaultHashBuilder,
    /// Where active expiry goes on.
    sweep: AtomicUsize,
    /// A bit for each shard in which something has an expiry.
    can_expire: Box<[AtomicU64]>,
    /// By what eviction chooses; without it, nothing is counted for eviction.
    victim: Option<Victim>,
    /// The fact about accesses that is kept, if one is.
    access: Option<AccessMetric>,
    /// The part of these two that an access changes.
    noting: Noting,
    /// The second from which on it is kept.
    kept_since: u32,
    /// Number of the decisions by chance.
    draws: AtomicUsize,
    /// The shard at which eviction goes on.
    hand: AtomicUsize,
    /// Bytes of memory and keys of all shards, where eviction is prepared.
    charged_bytes: AtomicUsize,
    keys: AtomicUsize,
    snapshots: Snapshots,
    /// The segment of the log in which new entries lie, or one before it; 0 without a log, or where each write names it.
    segment: u32,
    on_expiry: Option<Arc<dyn OnExpiry>>,
    /// Expired keys and fields, where these are collected.
    expired: Option<Mutex<Vec<Expired>>>,
}

/// Functions that are called with what has expired. The shard of the keys is locked.
pub(crate) trait OnExpiry: Debug + Send + Sync {
    /// Called with the keys of entries whose time has come, before these are freed.
    fn expired(&self, keys: &mut dyn Iterator<Item = &[u8]>);

    /// Called with fields of the hash at `key` whose time has come.
    fn fields_expired(&self, key: &[u8], fields: &[Bytes]);
}

/// A key that has expired, or one of whose fields has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expired {
    /// The key, with its value.
    Key(Bytes),
    /// Fields of the hash at this key.
    Fields {
        /// The key.
        key: Bytes,
        /// Whether none is left, so that the key went too.
        is_empty: bool,
    },
}

fn lock_expired(expired: &Mutex<Vec<Expired>>) -> MutexGuard<'_, Vec<Expired>> {
    expired.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts of the events in a keyspace since it was created, and of the entries in it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Reads by [`Keyspace::look_up`] that found the key.
    pub hits: u64,
    /// Reads by [`Keyspace::look_up`] that did not.
    pub misses: u64,
    /// Keys that were freed because their time had come.
    pub expirations: u64,
    /// Keys that were removed to make room.
    pub evictions: u64,
    /// Keys, including expired ones that are not freed yet.
    pub keys: u64,
    /// Keys with an expiry.
    pub expiring: u64,
    /// Bytes of memory that keys, values and tables take, without what an allocator adds.
    pub memory_bytes: u64,
}

impl Default for Keyspace {
    fn default() -> Self {
        Self {
            count: SHARDS,
            shards: OnceLock::new(),
            hasher: DefaultHashBuilder::default(),
            sweep: AtomicUsize::new(0),
            can_expire: (0..SHARDS / WORD_BITS).map(|_| AtomicU64::new(0)).collect(),
            victim: None,
            access: None,
            noting: Noting::Nothing,
            kept_since: 0,
            draws: AtomicUsize::new(0),
            hand: AtomicUsize::new(0),
            charged_bytes: AtomicUsize::new(0),
            keys: AtomicUsize::new(0),
            snapshots: Snapshots::default(),
            segment: 0,
            on_expiry: None,
            expired: None,
        }
    }
}

impl Keyspace {
    /// Cursors of [`scan`](Self::scan) are smaller than this; a walk may start anywhere among them.
    pub const CURSORS: u64 = SHARDS as u64;

    /// An empty keyspace.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty keyspace for about as many keys. It has fewer parts where those are few, so that eviction has more
    /// to choose from in each.
    #[must_use]
    pub fn for_keys(keys: usize) -> Self {
        let shards = (keys / KEYS_PER_SHARD).clamp(LEAST_SHARDS, SHARDS);
        Self {
            count: shards.next_power_of_two(),
            ..Self::default()
        }
    }

    /// An empty keyspace that is to hold at most this many keys in this many bytes of memory.
    pub(crate) fn within(keys: usize, bytes: usize) -> Self {
        let by_memory = bytes / BYTES_PER_SHARD;
        let most = 1 << by_memory.clamp(1, SHARDS).ilog2();
        let count = match keys {
            usize::MAX => SHARDS,
            _ => Self::for_keys(keys).count,
        };
        Self {
            count: count.min(most),
            ..Self::default()
        }
    }

    /// Prepares an empty keyspace for the keys of a log, which are known to be at most this many.
    pub(crate) fn expect(&mut self, keys: u64) {
        if keys <= FEW_KEYS && self.shards.get().is_none() {
            self.count = self.count.min(SHARDS_FOR_FEW);
        }
    }

    /// Sets the segment of the log in which new entries lie from now on.
    pub(crate) fn log_to(&mut self, segment: u32) {
        self.segment = segment;
    }

    /// Sets the function that is called with the keys of entries whose time has come.
    pub(crate) fn on_expiry(&mut self, on_expiry: Arc<dyn OnExpiry>) {
        self.on_expiry = Some(on_expiry);
    }

    /// Collects what expires from now on for [`take_expired`](Self::take_expired), or ends that.
    pub fn collect_expired(&mut self, is_collected: bool) {
        if is_collected != self.expired.is_some() {
            self.expired = is_collected.then(Mutex::default);
        }
    }

    /// Takes what was freed because its time had come, while that is collected.
    #[must_use]
    pub fn take_expired(&self) -> Vec<Expired> {
        let expired = self.expired.as_ref();
        expired.map_or_else(Vec::new, |expired| {
            std::mem::take(&mut *lock_expired(expired))
        })
    }

    /// Shows the value of `key` and its expiry. That is no use of the entry.
    pub fn peek<R>(
        &self,
        key: &[u8],
        now: u64,
        look: impl FnOnce(Option<(View<'_>, Option<u64>)>) -> R,
    ) -> R {
        let shard = self.shard_of(key);
        let slot = shard.find_any(key).map(|at| shard.slot(at));
        let slot = slot.filter(|slot| !slot.is_gone(now));
        look(slot.map(|slot| (slot.view(), slot.expires_at())))
    }

    /// Shows the value of `key` where it lies.
    #[inline]
    pub fn view<R>(&self, key: &[u8], now: u64, look: impl FnOnce(Option<View<'_>>) -> R) -> R {
        let mut shard = self.shard_of(key);
        let at = shard.find(key, now);
        look(at.map(|at| shard.slot(at).view()))
    }

    /// Shows the value of `key` as [`view`](Self::view) does. That is no use of the entry.
    pub fn inspect<R>(&self, key: &[u8], now: u64, look: impl FnOnce(Option<View<'_>>) -> R) -> R {
        let mut shard = self.shard_of(key);
        let at = shard.find_unused(key, now);
        look(at.map(|at| shard.slot(at).view()))
    }

    /// Shows the value of `key` as [`view`](Self::view) does, and counts a hit or a miss.
    #[inline]
    pub fn look_up<R>(&self, key: &[u8], now: u64, look: impl FnOnce(Option<View<'_>>) -> R) -> R {
        let mut shard = self.shard_of(key);
        let at = shard.look_up(key, now);
        look(at.map(|at| shard.slot(at).view()))
    }

    /// Shows the value of `key`; a string is copied for that, so [`view`](Self::view) costs less.
    pub fn read<R>(&self, key: &[u8], now: u64, look: impl FnOnce(Option<&Value>) -> R) -> R {
        let mut shard = self.shard_of(key);
        let Some(at) = shard.find(key, now) else {
            return look(None);
        };
        let slot = shard.slot(at);
        match slot.held_entry() {
            Some(entry) => look(Some(&entry.value)),
            None => look(Some(&slot.view().to_value())),
        }
    }

    /// A copy of the value at `key`.
    #[must_use]
    pub fn entry(&self, key: &[u8], now: u64) -> Option<Entry> {
        let mut shard = self.shard_of(key);
        let at = shard.find(key, now)?;
        Some(shard.slot(at).to_entry())
    }

    /// When `key` goes, in milliseconds since the Unix epoch: `Some(None)` for never, and `None` where
    /// there is no such key.
    #[must_use]
    pub fn expires_at(&self, key: &[u8], now: u64) -> Option<Option<u64>> {
        let mut shard = self.shard_of(key);
        let at = shard.find_unused(key, now)?;
        Some(shard.slot(at).expires_at())
    }

    /// Bytes of memory that `key` and its value take, without what an allocator adds.
    #[must_use]
    pub fn memory_bytes(&self, key: &[u8], now: u64) -> Option<usize> {
        let mut shard = self.shard_of(key);
        let at = shard.find_unused(key, now)?;
        Some(size_of_val(&at) + shard.slot(at).held_bytes())
    }

    /// The form of `key`'s value in memory.
    #[must_use]
    pub fn shape(&self, key: &[u8], now: u64) -> Option<Shape> {
        let mut shard = self.shard_of(key);
        let at = shard.find_unused(key, now)?;
        Some(shard.slot(at).shape())
    }

    /// Bytes of memory that keys, values and tables take, without what an allocator adds.
    #[must_use]
    pub fn total_memory_bytes(&self) -> usize {
        let each = self.each_shard().map(|shard| shard.memory_bytes());
        self.shards_bytes() + each.sum::<usize>()
    }

    /// The bytes of [`total_memory_bytes`](Self::total_memory_bytes) by which eviction goes: of the pieces of memory
    /// that are being filled, one of 2 KiB in each of 4,096 parts, only what is in use counts. Takes no time after
    /// [`evict_by`](Self::evict_by).
    #[must_use]
    pub fn charged_bytes(&self) -> usize {
        if self.victim.is_some() {
            return self.charged_bytes.load(Ordering::Relaxed);
        }
        self.added_up()
    }

    fn added_up(&self) -> usize {
        let each = self.each_shard().map(|shard| shard.charged_bytes());
        self.shards_bytes() + each.sum::<usize>()
    }

    /// Bytes that the pages of all shards that are being filled take at most: what [`charged_bytes`](Self::charged_bytes)
    /// leaves out.
    pub(crate) fn open_bytes(&self) -> usize {
        self.shards.get().map_or(0, |shards| shards.len()) * PAGE_BYTES
    }

    /// Bytes that [`charged_bytes`](Self::charged_bytes) and [`open_bytes`](Self::open_bytes) cannot fall below, when keys
    /// were put.
    pub(crate) fn least_bytes(&self) -> usize {
        self.count * (size_of::<ShardLock>() + Shard::LEAST_BYTES + PAGE_BYTES)
    }

    fn shards_bytes(&self) -> usize {
        self.shards.get().map_or(0, |shards| size_of_val(&**shards))
    }

    /// Puts the string `bytes` at `key` and says whether it did. What is there now is shown to `until`
    /// with its expiry; `until` returns `None` to leave it as it is, or when the string is to go.
    pub fn put_string(
        &self,
        key: &[u8],
        bytes: &[u8],
        now: u64,
        until: impl FnOnce(Option<(View<'_>, Option<u64>)>) -> Option<Option<u64>>,
    ) -> bool {
        let mut shard = self.shard_of(key);
        let current = shard.find(key, now);
        let shown = current.map(|at| shard.slot(at));
        let Some(expires_at) = until(shown.map(|slot| (slot.view(), slot.expires_at()))) else {
            return false;
        };
        shard.put_string(key, current, bytes, expires_at, now);
        true
    }

    /// Puts at `key` the string that `next` makes of the value that is there now, which keeps its expiry. Returns both.
    ///
    /// # Errors
    /// Those of `next`; nothing is changed then.
    pub fn replace_string<B: AsRef<[u8]>, E>(
        &self,
        key: &[u8],
        now: u64,
        next: impl FnOnce(Option<View<'_>>) -> Result<B, E>,
    ) -> Result<(B, Option<u64>), E> {
        let mut shard = self.shard_of(key);
        let current = shard.find(key, now);
        let shown = current.map(|at| shard.slot(at));
        let expires_at = shown.and_then(|slot| slot.expires_at());
        let bytes = next(shown.map(|slot| slot.view()))?;
        shard.put_string(key, current, bytes.as_ref(), expires_at, now);
        Ok((bytes, expires_at))
    }

    /// Gives the string at `key`, if there is one, the shape of one that was changed in place. Says whether there is a
    /// value.
    pub fn make_growing(&self, key: &[u8], now: u64) -> bool {
        let mut shard = self.shard_of(key);
        let found = shard.find(key, now);
        found.map(|at| shard.make_growing(key, at)).is_some()
    }

    /// Keeps the string at `key`, if there is one that was put, as text even where it reads as a number, until
    /// another one is put: see [`Shape::PackedText`].
    pub fn keep_as_text(&self, key: &[u8], now: u64) {
        let mut shard = self.shard_of(key);
        if let Some(at) = shard.find(key, now) {
            shard.keep_as_text(at);
        }
    }

    /// Gives the value of `from`, with its expiry, the name `to`, in place of the current one. Says
    /// whether there was one.
    pub fn rename(&self, from: &[u8], to: &[u8], now: u64) -> bool {
        let taken = self.take_loose(from, now);
        taken.map(|taken| self.put_loose(to, &taken)).is_some()
    }

    /// Copies the value of `from`, with its expiry, to `to` in `target`, in place of the current one.
    /// Says whether there was one.
    pub fn copy(&self, from: &[u8], target: &Self, to: &[u8], now: u64) -> bool {
        let copy = {
            let mut shard = self.shard_of(from);
            let at = shard.find(from, now);
            at.map(|at| (shard.slot(at).to_loose(), target.new_stamp(now)))
        };
        copy.map(|copy| target.put_loose(to, &copy)).is_some()
    }

    /// Moves `key` to `target`, in place of the current value, and says whether it was here.
    pub fn move_to(&self, target: &Self, key: &[u8], now: u64) -> bool {
        let taken = self.take_loose(key, now);
        taken.map(|taken| target.put_loose(key, &taken)).is_some()
    }

    /// Gives the entry of `key` to `change`, which may change it in place and says what becomes of it.
    pub fn modify<R>(
        &self,
        key: &[u8],
        now: u64,
        change: impl FnOnce(Option<&mut Entry>) -> (R, Change),
    ) -> R {
        let mut shard = self.shard_of(key);
        let Some(at) = shard.find(key, now) else {
            let (result, change) = change(None);
            if let Change::Put(entry) = change {
                shard.put(key, None, Loose::of(entry).renewed(), now);
            }
            return result;
        };
        let ((result, change), at) = shard.change(key, at, change);
        match change {
            Change::Put(entry) => shard.put(key, Some(at), Loose::of(entry).renewed(), now),
            // A packed sorted set that was changed has left its former record behind.
            Change::Keep if !shard.slot(at).is_gone(now) => shard.tidy(),
            Change::Keep | Change::Remove => shard.remove(at),
        }
        result
    }

    /// Calls `change` with the expiry of `key`, as returned by [`expires_at`](Self::expires_at). The result of `change`
    /// is applied.
    pub fn modify_expiry<R>(
        &self,
        key: &[u8],
        now: u64,
        change: impl FnOnce(Option<Option<u64>>) -> (R, Expiry),
    ) -> R {
        let mut shard = self.shard_of(key);
        let current = shard.find(key, now);
        let (result, change) = change(current.map(|at| shard.slot(at).expires_at()));
        match (current, change) {
            (None, _) | (_, Expiry::Keep) => {}
            (Some(at), Expiry::At(expires_at)) if expires_at.is_none_or(|at| at > now) => {
                shard.set_expiry(key, at, expires_at);
            }
            (Some(at), Expiry::At(_) | Expiry::Now) => shard.remove(at),
        }
        result
    }

    /// Takes `key` out.
    pub fn take(&self, key: &[u8], now: u64) -> Option<Entry> {
        let (loose, _) = self.take_loose(key, now)?;
        Some(loose.into_entry())
    }

    /// Removes `key` and says whether it was there.
    pub fn remove(&self, key: &[u8], now: u64) -> bool {
        let mut shard = self.shard_of(key);
        let at = shard.find(key, now);
        at.map(|at| shard.remove(at)).is_some()
    }

    /// Number of keys, including expired ones that are not freed yet.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.victim.is_some() {
            return self.keys.load(Ordering::Relaxed);
        }
        self.each_shard().map(|shard| shard.len()).sum()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys with an expiry.
    #[must_use]
    pub fn expiring(&self) -> usize {
        self.each_shard().map(|shard| shard.expiring()).sum()
    }

    /// Keys that were freed because their time had come, since the start.
    #[must_use]
    pub fn expired(&self) -> u64 {
        self.each_shard().map(|shard| shard.counts.expired).sum()
    }

    /// Counts of the events since the start, and of the present entries.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = Tally {
            memory_bytes: self.shards_bytes() as u64,
            ..Tally::default()
        };
        for shard in self.each_shard() {
            tally.hits += shard.counts.hits;
            tally.misses += shard.counts.misses;
            tally.expirations += shard.counts.expired;
            tally.evictions += shard.counts.evicted;
            tally.keys += shard.len() as u64;
            tally.expiring += shard.expiring() as u64;
            tally.memory_bytes += shard.memory_bytes() as u64;
        }
        tally
    }

    /// Removes everything.
    pub fn clear(&self) {
        let shards = self.shards.get().map_or(&[][..], |shards| shards);
        for index in 0..shards.len() {
            Locked::new(self, shards, index, 0).clear();
        }
    }

    /// Goes on with a walk over all keys: shows `visit` at least `count` of them, if there are so
    /// many, and returns the cursor to go on from, 0 at the end. A walk starts with cursor 0.
    ///
    /// A key's shard never changes and a shard is shown whole, so a key that is there during the
    /// whole walk is shown exactly once, even if others are added or removed.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        now: u64,
        mut visit: impl FnMut(&[u8], View<'_>),
    ) -> u64 {
        self.scan_slots(cursor, count, now, |slot| visit(slot.key(), slot.view()))
    }

    /// The same with entries where they lie.
    pub(crate) fn scan_slots(
        &self,
        cursor: u64,
        count: usize,
        now: u64,
        mut visit: impl FnMut(Slot<'_>),
    ) -> u64 {
        let mut seen = 0;
        let first = usize::try_from(cursor).unwrap_or(usize::MAX);
        let shards = self.shards.get().map_or(&[][..], |shards| shards);
        for index in first..shards.len() {
            let mut shard = Locked::new(self, shards, index, 0);
            if shard.has_expiring_fields() {
                shard.expire_fields(now);
            }
            let mut has_gone = false;
            for slot in shard.iter() {
                if slot.is_gone(now) {
                    has_gone = true;
                } else {
                    visit(slot);
                    seen += 1;
                }
            }
            if has_gone {
                // A key that a reader has missed must not return.
                shard.expire(now);
            }
            drop(shard);
            if seen >= count && index + 1 < self.count {
                return index as u64 + 1;
            }
        }
        0
    }

    /// Whether a snapshot is open.
    pub(crate) fn has_snapshots(&self) -> bool {
        self.snapshots.are_open()
    }

    /// The present entries, for reading while writes go on. A write that follows copies the part of the keyspace
    /// that it changes first, once for each snapshot; without a snapshot nothing is copied.
    #[must_use]
    pub fn snapshot(&self, now: u64) -> Snapshot<'_> {
        Snapshot::take(self, now)
    }

    /// Frees expired entries and returns how many, going on where the last call stopped. Shards without
    /// any expiry are passed over; after about `budget` entries were looked at, it stops. Called
    /// regularly, it bounds the memory of expired keys that are never read.
    pub fn expire_some(&self, now: u64, budget: usize) -> usize {
        let Some(shards) = self.shards.get() else {
            return 0;
        };
        let (mut freed, mut looked, mut passed) = (0, 0, 0);
        let first = self.sweep.load(Ordering::Relaxed);
        while passed < self.count && looked < budget {
            let index = (first + passed) % self.count;
            // Locking each of them to see that nothing expires takes most of the time of a server without work.
            let bit = index % WORD_BITS;
            let bits = self.can_expire[index / WORD_BITS].load(Ordering::Relaxed) >> bit;
            if bits & 1 == 0 {
                let skipped = (bits.trailing_zeros() as usize).min(WORD_BITS - bit);
                passed += skipped.min(self.count - index);
                continue;
            }
            let mut shard = Locked::new(self, shards, index, 0);
            looked += shard.len();
            freed += shard.expire(now);
            passed += 1;
        }
        let next = (first + passed) % self.count;
        self.sweep.store(next, Ordering::Relaxed);
        freed
    }

    /// Takes a value out, with the stamp of the last access.
    fn take_loose(&self, key: &[u8], now: u64) -> Option<(Loose, Stamp)> {
        let mut shard = self.shard_of(key);
        let at = shard.find(key, now)?;
        let stamp = shard.stamp(at);
        Some((shard.take(at), stamp))
    }

    fn put_loose(&self, key: &[u8], (loose, stamp): &(Loose, Stamp)) {
        let mut shard = self.shard_of(key);
        let current = shard.find_any(key);
        shard.put_stamped(key, current, loose.renewed(), *stamp);
    }

    /// The shard of `key`, locked.
    #[inline]
    fn shard_of(&self, key: &[u8]) -> Locked<'_> {
        let hash = self.hasher.hash_one(key);
        let shards = self.shards.get_or_init(|| self.make_shards());
        let locked = Locked::new(self, shards, self.index_of(hash), hash);
        locked.warm_pages();
        locked
    }

    /// The shard of a key with this hash.
    #[inline]
    fn index_of(&self, hash: u64) -> usize {
        index_of(hash, self.count)
    }

    fn make_shards(&self) -> Box<[ShardLock]> {
        let access = self.access.unwrap_or_default();
        let shards: Box<[_]> = (0..self.count)
            .map(|_| ShardLock::keeping(access))
            .collect();
        let bytes = size_of_val(&*shards);
        self.charged_bytes.fetch_add(bytes, Ordering::Relaxed);
        shards
    }

    /// Each shard, to be read.
    fn each_shard(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shards.get().into_iter().flatten().map(lock)
    }
}

/// The one of `count` shards that has the keys with this hash. The table inside a shard uses the lowest and the highest
/// bits, so the shard takes others.
#[inline]
fn index_of(hash: u64, count: usize) -> usize {
    (hash >> 40) as usize & (count - 1)
}

#[cfg(test)]
mod tests;

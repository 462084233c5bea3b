//! A part of the keyspace, with what it counts.

mod evict;

use std::hash::BuildHasher;

use crate::age::{AccessMetric, Stamp};
use crate::arena::Arena;
use crate::index::{Index, Position};
use crate::record::{MOST_USES, Outside};
use crate::slot::{Expiring, Loose, New, Slot, Text};
use crate::storage::prefetch;
use crate::sync::{self, Mutex, MutexGuard};
use crate::value::{Change, Entry, Value, View};

pub(crate) use evict::Passed;
pub use evict::Victim;

/// Entries of keys that belong together by their hashes. The caller has hashed the key already, once for
/// the choice of the shard and for the place in it.
///
/// The fields that every look-up reads come first, so that they lie in one line of the cache together with the lock.
#[derive(Debug, Default, Clone)]
#[repr(C)]
pub(crate) struct Shard {
    /// Where the record of a key is.
    index: Index,
    /// Entries that have an expiry, and hashes with fields that have one.
    expiring: usize,
    arena: Arena,
    pub(crate) counts: Counts,
    /// The segment of the log in which new entries lie; 0 without a log.
    segment: u32,
    /// Hashes with fields that have an expiry. It fills a gap, so that a shard takes no more memory for it.
    with_expiring_fields: u32,
    /// The next position of the index at which eviction looks.
    hand: usize,
    /// The last snapshot that this shard was preserved for.
    pub(crate) preserved_for: u64,
}

/// A shard behind its lock. The lock and what every look-up reads lie in one line of the cache, or in two for every other
/// shard: with a whole number of lines for each shard, an empty keyspace would take an eighth more memory.
#[derive(Debug, Default)]
#[repr(align(32))]
pub(crate) struct ShardLock(Mutex<Shard>);

impl ShardLock {
    /// An empty one that keeps this fact about accesses.
    pub(crate) fn keeping(access: AccessMetric) -> Self {
        let mut shard = Shard::default();
        // There are no stamps yet to convert at that time.
        shard.keep(access, 0);
        Self(Mutex::new(shard))
    }

    /// Reads the lock without taking it, so that it lies in the cache of the processor.
    #[inline]
    pub(crate) fn warm(&self) {
        sync::warm(&self.0);
    }

    /// The shard, for its only user; `None` after a panic during a change.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> Option<&mut Shard> {
        self.0.get_mut().ok()
    }
}

/// Counts of the events in a shard, since the start.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Entries that went because their time had come.
    pub(crate) expired: u64,
    /// Entries that went to make room.
    pub(crate) evicted: u64,
}

impl Shard {
    /// Bytes of memory that stay with a shard from which all entries went.
    pub(crate) const LEAST_BYTES: usize = Index::LEAST_BYTES;

    /// Where the record of `key` is, also where its time has come.
    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let arena = &self.arena;
        self.index.find(hash, |at| arena.slot(at).key() == key)
    }

    #[inline]
    pub(crate) fn slot(&self, at: u32) -> Slot<'_> {
        self.arena.slot(at)
    }

    /// Where the record of a key with this hash probably is, found without reading a record: of two keys whose hashes
    /// resemble each other, it can be the other one.
    #[inline]
    pub(crate) fn guess(&self, hash: u64) -> Option<u32> {
        self.index.find(hash, |_| true)
    }

    /// Brings the part of the index for this hash into the cache of the processor.
    #[inline]
    pub(crate) fn warm_index(&self, hash: u64) {
        self.index.warm(hash);
    }

    /// Brings the part of the index for this hash into the cache of the processor, with what a change of the entry reads
    /// besides.
    #[inline]
    pub(crate) fn warm_index_to_change(&self, hash: u64) {
        self.index.warm(hash);
        self.index.warm_segment(hash);
    }

    /// Brings the addresses of pages into the cache of the processor. The page of a record is known only after the index.
    /// Both are read from the memory at the same time this way.
    #[inline]
    pub(crate) fn warm_pages(&self) {
        self.arena.warm_pages();
    }

    /// Brings the address of the page of the entry at `at` into the cache of the processor.
    #[inline]
    pub(crate) fn warm_page(&self, at: u32) {
        self.arena.warm_page(at);
    }

    /// Brings the entry at `at` into the cache of the processor.
    #[inline]
    pub(crate) fn warm(&self, at: u32) {
        self.arena.warm(at);
    }

    /// Brings the value of the entry at `at` into the cache of the processor, if it changes in place. It waits for the entry.
    #[inline]
    pub(crate) fn warm_held(&self, at: u32) {
        if let Some(entry) = self.slot(at).held_entry() {
            prefetch(&entry.expires_at);
        }
    }

    /// Makes room in the index for as many entries more.
    pub(crate) fn reserve(&mut self, entries: usize, hasher: &impl BuildHasher) {
        let arena = &self.arena;
        self.index
            .reserve(entries, |at| hasher.hash_one(arena.slot(at).key()));
    }

    /// Whether the time of an entry or of one of its fields has come.
    #[inline]
    pub(crate) fn is_due(&self, at: u32, now: u64) -> bool {
        if self.expiring == 0 {
            return false;
        }
        let slot = self.slot(at);
        slot.is_gone(now) || self.with_expiring_fields > 0 && slot.has_due_fields(now)
    }

    /// Counts a use of an entry.
    #[inline]
    pub(crate) fn touch(&mut self, at: u32, victim: Victim) {
        match victim {
            Victim::LeastUsed => self.arena.touch(at),
            Victim::LeastRecent => self.arena.raise_uses(at, MOST_USES),
            Victim::FirstToExpire | Victim::Random => {}
        }
    }

    /// Keeps this fact about accesses from now on.
    pub(crate) fn keep(&mut self, access: AccessMetric, now: u64) {
        self.arena.keep(access, now);
    }

    /// The stamp of the last access to the entry at `at`.
    #[inline]
    pub(crate) fn stamp(&self, at: u32) -> Stamp {
        self.arena.stamp(at)
    }

    pub(crate) fn set_stamp(&mut self, at: u32, stamp: Stamp) {
        self.arena.set_stamp(at, stamp);
    }

    /// Sets the stamp of an access at this second where times are kept.
    #[inline]
    pub(crate) fn set_time(&mut self, at: u32, second: u32) {
        self.arena.set_time(at, second);
    }

    /// Makes a new entry a recent one, if eviction goes by age: not as recent as one that was used again, so that those stay
    /// when everything in a full cache is new.
    pub(crate) fn begin_age(&mut self, at: u32, victim: Option<Victim>) {
        if victim == Some(Victim::LeastRecent) {
            self.arena.raise_uses(at, MOST_USES - 1);
        }
    }

    /// Adds an entry for a key that is not there, and returns where it is.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        key: &[u8],
        new: New<'_>,
        stamp: Stamp,
        hasher: &impl BuildHasher,
    ) -> u32 {
        let at = self.arena.add(key, new, 0, stamp);
        let arena = &self.arena;
        self.index.insert(hash, at, self.segment, |at| {
            hasher.hash_one(arena.slot(at).key())
        });
        self.recount(Expiring::default(), self.slot(at).expiring());
        at
    }

    /// Sets the segment of the log in which new entries lie from now on.
    pub(crate) fn set_new_segment(&mut self, segment: u32) {
        self.segment = segment;
    }

    /// Sets the segment of the log in which all of the entry at a position of the index lies.
    pub(crate) fn set_segment(&mut self, position: Position, segment: u32) {
        self.index.set_segment(position, segment);
    }

    /// Sets where the value of the entry at `at` lies, which is in the log only.
    pub(crate) fn set_outside(&mut self, at: u32, outside: Outside) {
        self.arena.set_outside(at, outside);
    }

    /// The entries of which a part lies in a segment of the log before `until`: their positions in the index, and where
    /// their records are.
    pub(crate) fn entries_before(&self, until: u32) -> impl Iterator<Item = (Position, u32)> {
        self.index.entries_before(until)
    }

    /// Bytes that the entries take in the log when they are written anew; 0 without a log.
    pub(crate) fn logged_bytes(&self) -> u64 {
        match self.segment {
            0 => 0,
            _ => self.arena.logged_bytes(),
        }
    }

    /// Puts another value in the place of the one at `at`, and returns where it is.
    pub(crate) fn replace(
        &mut self,
        hash: u64,
        at: u32,
        key: &[u8],
        new: New<'_>,
        stamp: Stamp,
    ) -> u32 {
        let added = self.reshape_stamped(hash, at, key, new, stamp);
        self.lie_in_new_segment(hash, added);
        added
    }

    /// Notes that all of the entry at `at` lies in the segment of new entries.
    #[inline]
    fn lie_in_new_segment(&mut self, hash: u64, at: u32) {
        if self.segment != 0
            && let Some(position) = self.index.position_of(hash, at)
        {
            self.index.set_segment(position, self.segment);
        }
    }

    /// Gives an entry another form and returns where it is. It lies in the log where it did.
    fn reshape(&mut self, hash: u64, at: u32, key: &[u8], new: New<'_>) -> u32 {
        self.reshape_stamped(hash, at, key, new, self.stamp(at))
    }

    fn reshape_stamped(
        &mut self,
        hash: u64,
        at: u32,
        key: &[u8],
        new: New<'_>,
        stamp: Stamp,
    ) -> u32 {
        let old = self.slot(at);
        let (was, uses) = (self.expiring_of(at), old.record.uses());
        let added = self.arena.add(key, new, uses, stamp);
        self.index.replace(hash, at, added);
        self.arena.discard(at);
        self.recount(was, self.slot(added).expiring());
        added
    }

    /// Puts a string in the place of what is at `at` and returns where it is. The memory of one of the same
    /// length serves again.
    pub(crate) fn put_string(
        &mut self,
        hash: u64,
        at: u32,
        key: &[u8],
        bytes: &[u8],
        expires_at: Option<u64>,
    ) -> u32 {
        let was = self.expiring_of(at);
        if self.arena.set_string(at, bytes, expires_at) {
            let is = Expiring {
                entry: expires_at.is_some(),
                fields: false,
            };
            self.recount(was, is);
            self.lie_in_new_segment(hash, at);
            return at;
        }
        let text = Text::new(bytes, expires_at);
        self.replace(hash, at, key, New::String(text), self.stamp(at))
    }

    /// Sets the expiry of the entry at `at` and returns where that is then.
    pub(crate) fn set_expiry(
        &mut self,
        hash: u64,
        at: u32,
        key: &[u8],
        expires_at: Option<u64>,
    ) -> u32 {
        let was = self.expiring_of(at);
        if self.arena.set_expiry(at, expires_at) {
            let entry = expires_at.is_some();
            self.recount(was, Expiring { entry, ..was });
            return at;
        }
        if let Some(outside) = self.slot(at).record.outside() {
            return self.reshape(hash, at, key, New::Outside(outside, expires_at));
        }
        let loose = self.slot(at).to_loose();
        match loose.renewed() {
            New::String(text) => {
                let text = Text { expires_at, ..text };
                self.reshape(hash, at, key, New::String(text))
            }
            New::Sorted(bytes, _) => self.reshape(hash, at, key, New::Sorted(bytes, expires_at)),
            New::Entry(_) | New::Outside(..) => at,
        }
    }

    /// Marks a string that lies in one piece as text.
    pub(crate) fn keep_as_text(&mut self, at: u32) {
        self.arena.keep_as_text(at);
    }

    /// Gives a string that lies in one piece the form that can grow.
    pub(crate) fn make_growing(&mut self, hash: u64, at: u32, key: &[u8]) {
        let slot = self.slot(at);
        if slot.held_entry().is_none() && !slot.record.is_sorted() {
            let entry = self.slot(at).to_entry();
            self.reshape(hash, at, key, New::Entry(entry.into()));
        }
    }

    /// Shows the entry at `at` to `change`, and returns what that says and where the entry is then. A string
    /// that lay in one piece and was changed has the form that can grow from then on. A packed sorted set stays in one
    /// piece as long as it is packed.
    pub(crate) fn change<R>(
        &mut self,
        hash: u64,
        at: u32,
        key: &[u8],
        change: impl FnOnce(Option<&mut Entry>) -> (R, Change),
    ) -> ((R, Change), u32) {
        let (was, expired_at) = (self.expiring_of(at), self.slot(at).expires_at());
        let change = match self.arena.change(at, change) {
            Ok(result) => {
                self.recount(was, self.slot(at).expiring());
                return (result, at);
            }
            Err(change) => change,
        };
        let mut entry = self.slot(at).to_entry();
        let result = change(Some(&mut entry));
        let is_same = match (&entry.value, self.slot(at).view()) {
            (Value::String(bytes), View::String(old)) => bytes == old,
            (Value::Sorted(set), View::Sorted(old)) => set.view().is_same_piece(old),
            _ => false,
        };
        let at = if !is_same {
            let loose = match entry.value {
                Value::Sorted(_) => Loose::of(entry),
                _ => Loose::Entry(entry.into()),
            };
            self.reshape(hash, at, key, loose.renewed())
        } else if entry.expires_at == expired_at {
            at
        } else {
            self.set_expiry(hash, at, key, entry.expires_at)
        };
        (result, at)
    }

    /// Removes the entry at `at`.
    pub(crate) fn remove(&mut self, hash: u64, at: u32) {
        self.recount(self.expiring_of(at), Expiring::default());
        self.unlink(hash, at);
        self.arena.discard(at);
    }

    /// Takes the value at `at` out.
    pub(crate) fn take(&mut self, hash: u64, at: u32) -> Loose {
        self.recount(self.expiring_of(at), Expiring::default());
        self.unlink(hash, at);
        self.arena.release(at)
    }

    fn unlink(&mut self, hash: u64, at: u32) {
        if let Some(position) = self.index.position_of(hash, at) {
            self.index.remove(hash, position);
        }
    }

    /// Gives back the room of entries that went. The places of records change.
    pub(crate) fn tidy(&mut self, hasher: &impl BuildHasher) {
        let arena = &self.arena;
        self.index
            .shrink(|at| hasher.hash_one(arena.slot(at).key()));
        self.arena.tidy(&mut self.index, hasher);
    }

    /// Frees every entry whose time has come and returns how many.
    pub(crate) fn expire(&mut self, now: u64, hasher: &impl BuildHasher) -> usize {
        let mut freed = 0;
        for position in 0..self.index.positions() {
            let Some(at) = self.index.get(position) else {
                continue;
            };
            let slot = self.slot(at);
            if slot.is_gone(now) {
                let hash = hasher.hash_one(slot.key());
                let was = slot.expiring();
                self.index.remove(hash, position);
                self.arena.discard(at);
                self.recount(was, Expiring::default());
                freed += 1;
            }
        }
        self.counts.expired += freed as u64;
        self.tidy(hasher);
        freed
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) {
        self.index = Index::default();
        self.arena.clear();
        self.expiring = 0;
        self.with_expiring_fields = 0;
    }

    /// Bytes of memory that entries and index take, without what an allocator adds.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.arena.memory_bytes() + self.index.memory_bytes()
    }

    /// Bytes by which tables grow at most for `entries` more entries of `bytes` bytes.
    pub(crate) fn growth_bytes(&self, entries: usize, bytes: usize) -> usize {
        self.index.growth_bytes(entries) + self.arena.growth_bytes(bytes)
    }

    /// Bytes of memory that eviction counts: those above, but of a page that is being filled what is in use.
    #[inline]
    pub(crate) fn charged_bytes(&self) -> usize {
        self.arena.charged_bytes() + self.index.memory_bytes()
    }

    /// Addresses of its memory, with their bytes.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (usize, usize)> {
        self.arena.addresses().chain(self.index.addresses())
    }

    /// The parts of the entry at `at` that can expire, as they are counted. Most shards have no fields that can, and looking for
    /// those takes longer than the rest.
    #[inline]
    fn expiring_of(&self, at: u32) -> Expiring {
        let slot = self.slot(at);
        if self.with_expiring_fields > 0 {
            return slot.expiring();
        }
        Expiring {
            entry: slot.expires_at().is_some(),
            fields: false,
        }
    }

    /// Counts an entry of which other parts can expire than before.
    fn recount(&mut self, was: Expiring, is: Expiring) {
        self.expiring += usize::from(is.entry) + usize::from(is.fields);
        self.expiring -= usize::from(was.entry) + usize::from(was.fields);
        self.with_expiring_fields += u32::from(is.fields);
        self.with_expiring_fields -= u32::from(was.fields);
    }

    /// Bytes of memory that the entries hold outside of the index.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> usize {
        self.arena.held_bytes()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot<'_>> {
        self.index.iter().map(|at| self.slot(at))
    }

    /// Number of entries with an expiry.
    pub(crate) fn expiring(&self) -> usize {
        self.expiring - self.with_expiring_fields as usize
    }

    /// Whether an entry or a field of a hash has an expiry.
    #[inline]
    pub(crate) fn can_expire(&self) -> bool {
        self.expiring > 0
    }

    /// Whether a field of a hash has an expiry.
    pub(crate) fn has_expiring_fields(&self) -> bool {
        self.with_expiring_fields > 0
    }
}

/// A caller's closure that panics has changed one entry at most, whole; only what is counted of the entries
/// can be wrong then, and is counted again.
#[inline]
pub(crate) fn lock(ShardLock(shard): &ShardLock) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(|poisoned| {
        let mut guard = poisoned.into_inner();
        guard.arena.recount();
        let expiring: Vec<Expiring> = guard.iter().map(|slot| slot.expiring()).collect();
        (guard.expiring, guard.with_expiring_fields) = (0, 0);
        for is in expiring {
            guard.recount(Expiring::default(), is);
        }
        shard.clear_poison();
        guard
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hashbrown::DefaultHashBuilder;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Debug, Clone)]
    enum Step {
        Put(u8, Vec<u8>),
        Set(u8),
        Remove(u8),
        Take(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let bytes = prop_oneof![
            4 => proptest::collection::vec(any::<u8>(), 0..200),
            1 => proptest::collection::vec(any::<u8>(), 500..700),
        ];
        let step = prop_oneof![
            4 => (any::<u8>(), bytes).prop_map(|(key, bytes)| Step::Put(key, bytes)),
            1 => any::<u8>().prop_map(Step::Set),
            2 => any::<u8>().prop_map(Step::Remove),
            1 => any::<u8>().prop_map(Step::Take),
        ];
        proptest::collection::vec(step, 1..400)
    }

    proptest! {
        /// Many keys in one shard, whose records move again and again.
        #[test]
        fn records_move_without_a_change(steps in steps(), pace in 1..400_usize) {
            let hasher = DefaultHashBuilder::default();
            let mut shard = Shard::default();
            let mut model: BTreeMap<[u8; 1], Value> = BTreeMap::new();
            // Each entry has a second of its own, and pages get other origins.
            let mut seconds: BTreeMap<[u8; 1], u32> = BTreeMap::new();
            for (second, step) in (1_700_000_000..).step_by(pace).zip(steps) {
                let stamp = Stamp::At(second);
                match step {
                    Step::Put(key, bytes) => {
                        let (key, hash) = ([key], hasher.hash_one(&[key][..]));
                        seconds.entry(key).or_insert(second);
                        match shard.find(hash, &key) {
                            Some(at) => { shard.put_string(hash, at, &key, &bytes, None); }
                            None => { shard.insert(hash, &key, New::String(Text::new(&bytes, None)), stamp, &hasher); }
                        }
                        model.insert(key, Value::String(bytes));
                    }
                    Step::Set(key) => {
                        let (key, hash) = ([key], hasher.hash_one(&[key][..]));
                        let set = Value::Set([(&key[..], ())].into_iter().collect());
                        let entry = Entry::lasting(set.clone());
                        match shard.find(hash, &key) {
                            Some(at) => { shard.replace(hash, at, &key, New::Entry(entry.into()), stamp); }
                            None => { shard.insert(hash, &key, New::Entry(entry.into()), stamp, &hasher); }
                        }
                        model.insert(key, set);
                        seconds.insert(key, second);
                    }
                    Step::Remove(key) => {
                        let (key, hash) = ([key], hasher.hash_one(&[key][..]));
                        let at = shard.find(hash, &key);
                        prop_assert_eq!(model.remove(&key).is_some(), at.is_some());
                        seconds.remove(&key);
                        if let Some(at) = at {
                            shard.remove(hash, at);
                        }
                    }
                    Step::Take(key) => {
                        let (key, hash) = ([key], hasher.hash_one(&[key][..]));
                        let taken = shard.find(hash, &key).map(|at| shard.take(hash, at).into_entry().value);
                        prop_assert_eq!(taken, model.remove(&key));
                        seconds.remove(&key);
                    }
                }
                shard.tidy(&hasher);
            }
            let mut all: BTreeMap<[u8; 1], Value> = BTreeMap::new();
            for slot in shard.iter() {
                all.insert(slot.key().try_into().unwrap(), slot.view().to_value());
            }
            prop_assert_eq!(&all, &model);
            for (key, second) in seconds {
                let at = shard.find(hasher.hash_one(&key[..]), &key).expect("the model has the key");
                // A time that is old to its page is rounded.
                let rounded = matches!(shard.stamp(at), Stamp::At(at) if (second - 511..=second).contains(&at));
                prop_assert!(rounded, "{:?} at {second}", shard.stamp(at));
            }
            let held: usize = shard.iter().map(|slot| slot.held_bytes()).sum();
            prop_assert_eq!(shard.held_bytes(), held);
            let slack = shard.memory_bytes() - shard.index.memory_bytes() - held;
            prop_assert!(slack <= held / 2 + 24 * (8 + 4 * all.len()) + 3 * 2_048, "{slack} bytes unused with {held}");
        }
    }
}

//! The keyspace.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use hashbrown::DefaultHashBuilder;

use crate::shard::{Shard, lock};
use crate::slot::Slot;
use crate::value::{Change, Entry, Expiry, Shape, Value, View};

/// Parts of the keyspace, each behind its own lock; a key's part never changes. Many, so that a part
/// that is walked, swept or grown in one piece stays small: 2,500 keys of ten millions.
const SHARDS: usize = 4096;

/// The keyspace.
#[derive(Debug, Default)]
pub struct Keyspace {
    /// Made when the first key comes, since most databases of a server stay empty.
    shards: OnceLock<Box<[Mutex<Shard>]>>,
    /// With a random seed, so that no client can aim keys at one shard.
    hasher: DefaultHashBuilder,
    /// Where active expiry goes on.
    sweep: AtomicUsize,
}

impl Keyspace {
    /// Cursors of [`scan`](Self::scan) are smaller than this; a walk may start anywhere among them.
    pub const CURSORS: u64 = SHARDS as u64;

    /// An empty keyspace.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows the value of `key` where it lies.
    #[inline]
    pub fn view<R>(&self, key: &[u8], now: u64, look: impl FnOnce(Option<View<'_>>) -> R) -> R {
        let (mut shard, hash) = self.shard_of(key);
        look(shard.find(hash, key, now).map(Slot::view))
    }

    /// Shows the value of `key`; a string is copied for that, so [`view`](Self::view) costs less.
    pub fn read<R>(&self, key: &[u8], now: u64, look: impl FnOnce(Option<&Value>) -> R) -> R {
        let (mut shard, hash) = self.shard_of(key);
        match shard.find(hash, key, now) {
            Some(Slot::Node(node)) => look(Some(&node.entry.value)),
            Some(slot) => look(Some(&slot.view().to_value())),
            None => look(None),
        }
    }

    /// A copy of what stands at `key`.
    #[must_use]
    pub fn entry(&self, key: &[u8], now: u64) -> Option<Entry> {
        let (mut shard, hash) = self.shard_of(key);
        shard.find(hash, key, now).map(Slot::to_entry)
    }

    /// When `key` goes, in milliseconds since the Unix epoch: `Some(None)` for never, and `None` where
    /// there is no such key.
    #[must_use]
    pub fn expires_at(&self, key: &[u8], now: u64) -> Option<Option<u64>> {
        let (mut shard, hash) = self.shard_of(key);
        shard.find(hash, key, now).map(Slot::expires_at)
    }

    /// Bytes of memory that `key` and its value take, without what an allocator adds.
    #[must_use]
    pub fn memory_bytes(&self, key: &[u8], now: u64) -> Option<usize> {
        let (mut shard, hash) = self.shard_of(key);
        let slot = shard.find(hash, key, now);
        slot.map(|slot| size_of::<Slot>() + slot.held_bytes())
    }

    /// How the value of `key` lies in memory.
    #[must_use]
    pub fn shape(&self, key: &[u8], now: u64) -> Option<Shape> {
        let (mut shard, hash) = self.shard_of(key);
        shard.find(hash, key, now).map(Slot::shape)
    }

    /// Bytes of memory that keys, values and tables take, without what an allocator adds.
    #[must_use]
    pub fn total_memory_bytes(&self) -> usize {
        let shards = self.shards.get().map_or(0, |shards| size_of_val(&**shards));
        let each = self.each_shard().map(|shard| shard.memory_bytes());
        shards + each.sum::<usize>()
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
        let (mut shard, hash) = self.shard_of(key);
        let current = shard.find_mut(hash, key, now);
        let shown = current
            .as_deref()
            .map(|slot| (slot.view(), slot.expires_at()));
        let was = shown.map(|(_, expires_at)| expires_at);
        let Some(expires_at) = until(shown) else {
            return false;
        };
        if let Some(slot) = current {
            let held = slot.held_bytes();
            slot.set_string(bytes, expires_at);
            let holds = slot.held_bytes();
            shard.resize(held, holds);
            shard.recount(was.flatten(), expires_at);
        } else {
            shard.insert(hash, Slot::string(key, bytes, expires_at), &self.hasher);
        }
        true
    }

    /// Puts at `key` the string that `next` makes of the value that is there now, which keeps its expiry.
    ///
    /// # Errors
    /// Those of `next`; nothing is changed then.
    pub fn replace_string<B: AsRef<[u8]>, E>(
        &self,
        key: &[u8],
        now: u64,
        next: impl FnOnce(Option<View<'_>>) -> Result<B, E>,
    ) -> Result<B, E> {
        let (mut shard, hash) = self.shard_of(key);
        let Some(slot) = shard.find_mut(hash, key, now) else {
            let bytes = next(None)?;
            shard.insert(hash, Slot::string(key, bytes.as_ref(), None), &self.hasher);
            return Ok(bytes);
        };
        let bytes = next(Some(slot.view()))?;
        let held = slot.held_bytes();
        slot.set_string(bytes.as_ref(), slot.expires_at());
        let holds = slot.held_bytes();
        shard.resize(held, holds);
        Ok(bytes)
    }

    /// Gives the string at `key`, if there is one, the shape of one that was changed in place.
    pub fn make_growing(&self, key: &[u8], now: u64) {
        let (mut shard, hash) = self.shard_of(key);
        if let Some(slot) = shard.find_mut(hash, key, now) {
            let held = slot.held_bytes();
            slot.make_growing();
            let holds = slot.held_bytes();
            shard.resize(held, holds);
        }
    }

    /// Keeps the string at `key`, if there is one that was put, as text even where it reads as a number, until
    /// another one is put: see [`Shape::PackedText`].
    pub fn keep_as_text(&self, key: &[u8], now: u64) {
        let (mut shard, hash) = self.shard_of(key);
        if let Some(slot) = shard.find_mut(hash, key, now) {
            slot.keep_as_text();
        }
    }

    /// Gives the value of `from`, with its expiry, the name `to`, in the place of what is there. Says
    /// whether there was one.
    pub fn rename(&self, from: &[u8], to: &[u8], now: u64) -> bool {
        let Some(slot) = self.take_slot(from, now) else {
            return false;
        };
        self.put_slot(to, slot.rename(to));
        true
    }

    /// Copies the value of `from`, with its expiry, to `to` in `target`, in the place of what is there.
    /// Says whether there was one.
    pub fn copy(&self, from: &[u8], target: &Self, to: &[u8], now: u64) -> bool {
        let copy = {
            let (mut shard, hash) = self.shard_of(from);
            shard.find(hash, from, now).map(|slot| slot.for_key(to))
        };
        let is_there = copy.is_some();
        if let Some(copy) = copy {
            target.put_slot(to, copy);
        }
        is_there
    }

    /// Moves `key` to `target`, in the place of what is there, and says whether it was here.
    pub fn move_to(&self, target: &Self, key: &[u8], now: u64) -> bool {
        let slot = self.take_slot(key, now);
        let was_there = slot.is_some();
        if let Some(slot) = slot {
            target.put_slot(key, slot);
        }
        was_there
    }

    /// Gives the entry of `key` to `change`, which may change it in place and says what becomes of it.
    pub fn modify<R>(
        &self,
        key: &[u8],
        now: u64,
        change: impl FnOnce(Option<&mut Entry>) -> (R, Change),
    ) -> R {
        let (mut shard, hash) = self.shard_of(key);
        let current = shard.find_mut(hash, key, now);
        let was = current.as_deref().and_then(Slot::expires_at);
        let Some(slot) = current else {
            let (result, change) = change(None);
            if let Change::Put(entry) = change {
                shard.insert(hash, Slot::new(key, entry), &self.hasher);
            }
            return result;
        };
        let held = slot.held_bytes();
        let (result, change) = slot.change(change);
        let stays = match change {
            Change::Put(entry) => {
                *slot = Slot::new(key, entry);
                true
            }
            Change::Keep => !slot.is_gone(now),
            Change::Remove => false,
        };
        let is = slot.expires_at();
        let holds = slot.held_bytes();
        shard.recount(was, is);
        shard.resize(held, holds);
        if !stays {
            shard.remove(hash, key);
            shard.shrink(&self.hasher);
        }
        result
    }

    /// Tells `change` when `key` goes, as [`expires_at`](Self::expires_at) says it; `change` says what
    /// becomes of that.
    pub fn modify_expiry<R>(
        &self,
        key: &[u8],
        now: u64,
        change: impl FnOnce(Option<Option<u64>>) -> (R, Expiry),
    ) -> R {
        let (mut shard, hash) = self.shard_of(key);
        let current = shard.find_mut(hash, key, now);
        let was = current.as_deref().map(Slot::expires_at);
        let (result, change) = change(was);
        match (current, change) {
            (None, _) | (_, Expiry::Keep) => {}
            (Some(slot), Expiry::At(expires_at)) if expires_at.is_none_or(|at| at > now) => {
                slot.set_expiry(expires_at);
                shard.recount(was.flatten(), expires_at);
            }
            (Some(_), Expiry::At(_) | Expiry::Now) => {
                shard.remove(hash, key);
                shard.shrink(&self.hasher);
            }
        }
        result
    }

    /// Takes `key` out.
    pub fn take(&self, key: &[u8], now: u64) -> Option<Entry> {
        self.take_slot(key, now).map(Slot::into_entry)
    }

    /// Removes `key` and says whether it was there.
    pub fn remove(&self, key: &[u8], now: u64) -> bool {
        self.take_slot(key, now).is_some()
    }

    /// Number of keys, including expired ones that are not freed yet.
    #[must_use]
    pub fn len(&self) -> usize {
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
        self.each_shard().map(|shard| shard.expired()).sum()
    }

    /// Removes everything.
    pub fn clear(&self) {
        for mut shard in self.each_shard() {
            shard.clear();
        }
    }

    /// Goes on with a walk over all keys: shows `visit` at least `count` of them, if there are so
    /// many, and returns the cursor to go on from, 0 at the end. A walk starts with cursor 0.
    ///
    /// A key's shard never changes and a shard is shown whole, so a key that is there during the
    /// whole walk is shown exactly once, whatever else comes and goes.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        now: u64,
        mut visit: impl FnMut(&[u8], View<'_>),
    ) -> u64 {
        let mut seen = 0;
        let first = usize::try_from(cursor).unwrap_or(SHARDS);
        for (index, shard) in self.each_shard().enumerate().skip(first) {
            for slot in shard.iter().filter(|slot| !slot.is_gone(now)) {
                visit(slot.key(), slot.view());
                seen += 1;
            }
            if seen >= count && index + 1 < SHARDS {
                return index as u64 + 1;
            }
        }
        0
    }

    /// Frees expired entries and returns how many, going on where the last call stopped. Shards without
    /// any expiry are passed over; after about `budget` entries were looked at, it stops. Called
    /// regularly, it bounds the memory of expired keys that are never read.
    pub fn expire_some(&self, now: u64, budget: usize) -> usize {
        let Some(shards) = self.shards.get() else {
            return 0;
        };
        let (mut freed, mut looked) = (0, 0);
        for _ in 0..SHARDS {
            if looked >= budget {
                break;
            }
            let index = self.sweep.fetch_add(1, Ordering::Relaxed) % SHARDS;
            let mut shard = lock(&shards[index]);
            if shard.expiring() > 0 {
                looked += shard.len();
                freed += shard.expire(now, &self.hasher);
            }
        }
        freed
    }

    fn take_slot(&self, key: &[u8], now: u64) -> Option<Slot> {
        let (mut shard, hash) = self.shard_of(key);
        let slot = shard.take(hash, key, now);
        shard.shrink(&self.hasher);
        slot
    }

    fn put_slot(&self, key: &[u8], slot: Slot) {
        let (mut shard, hash) = self.shard_of(key);
        shard.remove(hash, key);
        shard.insert(hash, slot, &self.hasher);
    }

    /// The shard of `key`, and the hash of the key for its table.
    #[inline]
    fn shard_of(&self, key: &[u8]) -> (MutexGuard<'_, Shard>, u64) {
        let hash = self.hasher.hash_one(key);
        let shards = self
            .shards
            .get_or_init(|| (0..SHARDS).map(|_| Mutex::default()).collect());
        // The table inside a shard uses the lowest and the highest bits, so the shard takes others.
        (lock(&shards[(hash >> 40) as usize % SHARDS]), hash)
    }

    fn each_shard(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shards.get().into_iter().flatten().map(lock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A step with a key, and how long the key lives from then on.
    #[derive(Debug, Clone)]
    enum Step {
        Put(u8, Vec<u8>, Option<u8>),
        PutKeeping(u8, Vec<u8>),
        PutWhereNothingIs(u8, Vec<u8>),
        PutEntry(u8, Value, Option<u8>),
        Append(u8, u8),
        ChangeEntry(u8, Option<u8>),
        ChangeExpiry(u8, Option<u8>),
        RemoveInPlace(u8),
        Take(u8),
        Rename(u8, u8),
        Copy(u8, u8),
        Increment(u8),
        Clear,
        Pass(u8),
        Sweep,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let key = || 0..12_u8;
        let bytes = || proptest::collection::vec(any::<u8>(), 0..4);
        let life = any::<Option<u8>>;
        let members = proptest::collection::vec(bytes(), 1..4);
        let members = members
            .prop_map(|members| Value::Set(members.iter().map(|member| (&**member, ())).collect()));
        let value = prop_oneof![bytes().prop_map(Value::String), members];
        let step = prop_oneof![
            (key(), bytes(), life()).prop_map(|(key, bytes, life)| Step::Put(key, bytes, life)),
            (key(), bytes()).prop_map(|(key, bytes)| Step::PutKeeping(key, bytes)),
            (key(), bytes()).prop_map(|(key, bytes)| Step::PutWhereNothingIs(key, bytes)),
            (key(), value, life()).prop_map(|(key, value, life)| Step::PutEntry(key, value, life)),
            (key(), any::<u8>()).prop_map(|(key, byte)| Step::Append(key, byte)),
            (key(), life()).prop_map(|(key, life)| Step::ChangeEntry(key, life)),
            (key(), life()).prop_map(|(key, life)| Step::ChangeExpiry(key, life)),
            key().prop_map(Step::RemoveInPlace),
            key().prop_map(Step::Take),
            (key(), key()).prop_map(|(from, to)| Step::Rename(from, to)),
            (key(), key()).prop_map(|(from, to)| Step::Copy(from, to)),
            key().prop_map(Step::Increment),
            Just(Step::Clear),
            (1..50_u8).prop_map(Step::Pass),
            (1..50_u8).prop_map(Step::Pass),
            Just(Step::Sweep),
        ];
        proptest::collection::vec(step, 1..200)
    }

    /// The plain version: an ordered map that is cleared of what is over after every step.
    #[derive(Debug, Default)]
    struct Model {
        entries: BTreeMap<u8, Entry>,
        now: u64,
    }

    impl Model {
        fn until(&self, life: Option<u8>) -> Option<u64> {
            life.map(|life| self.now + u64::from(life))
        }

        fn take_step(&mut self, step: &Step) {
            match step {
                Step::Put(key, bytes, life) => {
                    let entry = Entry {
                        value: Value::String(bytes.clone()),
                        expires_at: self.until(*life),
                    };
                    self.entries.insert(*key, entry);
                }
                Step::PutKeeping(key, bytes) => {
                    let fresh = Entry::lasting(Value::String(Vec::new()));
                    let entry = self.entries.entry(*key).or_insert(fresh);
                    entry.value = Value::String(bytes.clone());
                }
                Step::PutWhereNothingIs(key, bytes) => {
                    let fresh = Entry::lasting(Value::String(bytes.clone()));
                    self.entries.entry(*key).or_insert(fresh);
                }
                Step::PutEntry(key, value, life) => {
                    let entry = Entry {
                        value: value.clone(),
                        expires_at: self.until(*life),
                    };
                    self.entries.insert(*key, entry);
                }
                Step::Append(key, byte) => {
                    if let Some(Value::String(bytes)) =
                        self.entries.get_mut(key).map(|entry| &mut entry.value)
                    {
                        bytes.push(*byte);
                    }
                }
                Step::ChangeEntry(key, life) | Step::ChangeExpiry(key, life) => {
                    let until = self.until(*life);
                    if let Some(entry) = self.entries.get_mut(key) {
                        entry.expires_at = until;
                    }
                }
                Step::RemoveInPlace(key) | Step::Take(key) => {
                    self.entries.remove(key);
                }
                Step::Rename(from, to) => {
                    if let Some(entry) = self.entries.remove(from) {
                        self.entries.insert(*to, entry);
                    }
                }
                Step::Copy(from, to) => {
                    if let Some(entry) = self.entries.get(from).cloned() {
                        self.entries.insert(*to, entry);
                    }
                }
                Step::Increment(key) => {
                    let fresh = Entry::lasting(Value::String(Vec::new()));
                    let entry = self.entries.entry(*key).or_insert(fresh);
                    if let Value::String(bytes) = &mut entry.value {
                        bytes.push(b'+');
                    }
                }
                Step::Clear => self.entries.clear(),
                Step::Pass(time) => self.now += u64::from(*time),
                Step::Sweep => {}
            }
            let now = self.now;
            self.entries
                .retain(|_, entry| entry.expires_at.is_none_or(|at| at > now));
        }
    }

    fn take_step(store: &Keyspace, step: &Step, model: &Model) {
        let now = model.now;
        match step {
            Step::Put(key, bytes, life) => {
                assert!(store.put_string(&[*key], bytes, now, |_| Some(model.until(*life))));
            }
            Step::PutKeeping(key, bytes) => {
                let keep = |current: Option<(View<'_>, Option<u64>)>| {
                    Some(current.and_then(|(_, expires_at)| expires_at))
                };
                assert!(store.put_string(&[*key], bytes, now, keep));
            }
            Step::PutWhereNothingIs(key, bytes) => {
                let put = store.put_string(&[*key], bytes, now, |current| match current {
                    Some(_) => None,
                    None => Some(None),
                });
                assert_eq!(put, !model.entries.contains_key(key));
            }
            Step::PutEntry(key, value, life) => {
                let entry = Entry {
                    value: value.clone(),
                    expires_at: model.until(*life),
                };
                store.modify(&[*key], now, |_| ((), Change::Put(entry)));
            }
            Step::Append(key, byte) => store.modify(&[*key], now, |entry| {
                if let Some(Value::String(bytes)) = entry.map(|entry| &mut entry.value) {
                    bytes.push(*byte);
                }
                ((), Change::Keep)
            }),
            Step::ChangeEntry(key, life) => store.modify(&[*key], now, |entry| {
                if let Some(entry) = entry {
                    entry.expires_at = model.until(*life);
                }
                ((), Change::Keep)
            }),
            Step::ChangeExpiry(key, life) => {
                let was =
                    store.modify_expiry(&[*key], now, |was| (was, Expiry::At(model.until(*life))));
                assert_eq!(was, model.entries.get(key).map(|entry| entry.expires_at));
            }
            Step::RemoveInPlace(key) => {
                store.modify(&[*key], now, |_| ((), Change::Remove));
            }
            Step::Take(key) => {
                assert_eq!(store.take(&[*key], now).as_ref(), model.entries.get(key));
            }
            Step::Rename(from, to) => {
                let was_there = model.entries.contains_key(from);
                assert_eq!(store.rename(&[*from], &[*to], now), was_there);
            }
            Step::Copy(from, to) => {
                let is_there = model.entries.contains_key(from);
                assert_eq!(store.copy(&[*from], store, &[*to], now), is_there);
            }
            Step::Increment(key) => {
                let longer = |value: Option<View<'_>>| match value {
                    Some(View::String(bytes)) => Ok([bytes, b"+"].concat()),
                    Some(_) => Err(()),
                    None => Ok(b"+".to_vec()),
                };
                let _ = store.replace_string(&[*key], now, longer);
            }
            Step::Clear => store.clear(),
            Step::Pass(_) | Step::Sweep => {
                store.expire_some(now, usize::MAX);
            }
        }
    }

    proptest! {
        /// Against a plain map, with a clock of its own.
        #[test]
        fn it_behaves_like_a_map_with_expiry(steps in steps()) {
            let store = Keyspace::new();
            let mut model = Model::default();
            for step in &steps {
                take_step(&store, step, &model);
                model.take_step(step);
                for key in 0..12 {
                    let expected = model.entries.get(&key);
                    let entry = store.entry(&[key], model.now);
                    prop_assert_eq!(entry.as_ref(), expected);
                    let is_same = store.read(&[key], model.now, |value| value == expected.map(|entry| &entry.value));
                    prop_assert!(is_same);
                }
            }
            // Every key was asked for, so what is over is freed.
            prop_assert_eq!(store.len(), model.entries.len());
            let each = (0..12).filter_map(|key| store.memory_bytes(&[key], model.now));
            let slots: usize = each.map(|bytes| bytes - size_of::<Slot>()).sum();
            let counted: usize = store.each_shard().map(|shard| shard.held_bytes()).sum();
            prop_assert_eq!(counted, slots);
            let expiring = model.entries.values().filter(|entry| entry.expires_at.is_some());
            prop_assert_eq!(store.expiring(), expiring.count());
        }
    }

    #[test]
    fn a_walk_shows_what_stays_exactly_once_while_others_come_and_go() {
        let store = Keyspace::new();
        let put = |key: String| store.put_string(key.as_bytes(), b"", 0, |_| Some(None));
        assert!((0..1_000).all(|n| put(format!("stays:{n}"))));
        let (mut cursor, mut shown, mut turn) = (0, Vec::new(), 0);
        loop {
            cursor = store.scan(cursor, 10, 0, |key, _| {
                shown.extend(key.starts_with(b"stays:").then(|| key.to_vec()));
            });
            (0..50).for_each(|n| assert!(put(format!("comes:{turn}:{n}"))));
            assert!(store.remove(format!("comes:{turn}:0").as_bytes(), 0));
            turn += 1;
            if cursor == 0 {
                break;
            }
        }
        assert!(turn > 10, "the walk took {turn} calls");
        shown.sort();
        let unique = {
            let mut keys = shown.clone();
            keys.dedup();
            keys.len()
        };
        assert_eq!((shown.len(), unique), (1_000, 1_000));
    }

    #[test]
    fn expired_keys_are_freed_in_bounded_steps_and_counted() {
        let store = Keyspace::new();
        for n in 0..10_000_u32 {
            let expires_at = (n % 2 == 0).then_some(5);
            store.put_string(&n.to_le_bytes(), b"v", 0, |_| Some(expires_at));
        }
        assert_eq!((store.expire_some(4, usize::MAX), store.len()), (0, 10_000));
        let first = store.expire_some(5, 1_000);
        assert!((1..1_500).contains(&first), "{first} in the first step");
        let calls = (0..100)
            .take_while(|_| store.expire_some(5, 1_000) > 0)
            .count();
        assert!((4..20).contains(&calls), "{calls} calls");
        assert_eq!(
            (store.len(), store.expiring(), store.expired()),
            (5_000, 0, 5_000)
        );
    }

    /// Keys that go take the room of their tables with them, however they go.
    #[test]
    fn memory_is_given_back() {
        let store = Keyspace::new();
        let fill = || {
            for n in 0..200_000_u32 {
                store.put_string(&n.to_le_bytes(), b"value", 0, |_| Some(Some(5)));
            }
        };
        let ways: [(&str, &dyn Fn()); 3] = [
            ("removal", &|| {
                (0..200_000_u32).for_each(|n| assert!(store.remove(&n.to_le_bytes(), 0)));
            }),
            ("expiry", &|| {
                store.expire_some(5, usize::MAX);
            }),
            ("clear", &|| store.clear()),
        ];
        store.remove(b"none", 0);
        let empty = store.total_memory_bytes();
        for (name, empty_it) in ways {
            fill();
            let full = store.total_memory_bytes() - empty;
            assert!(full > 200_000 * (5 + 4 + size_of::<Slot>()), "{full}");
            empty_it();
            let left = store.total_memory_bytes() - empty;
            // Room for a few slots in each shard.
            assert!(left < full / 10, "{left} of {full} bytes after {name}");
        }
    }

    fn append(store: &Keyspace, key: &[u8]) {
        store.modify(key, 0, |entry| {
            if let Some(Value::String(bytes)) = entry.map(|entry| &mut entry.value) {
                bytes.push(b'x');
            }
            ((), Change::Keep)
        });
    }

    #[test]
    fn values_keep_their_shape_under_other_names() {
        let (store, other) = (Keyspace::new(), Keyspace::new());
        store.put_string(b"k", b"v", 0, |_| Some(None));
        assert_eq!(store.shape(b"k", 0), Some(Shape::Packed));
        let look = |entry: Option<&mut Entry>| (entry.unwrap().expires_at = Some(9), Change::Keep);
        store.modify(b"k", 0, look);
        assert_eq!(store.shape(b"k", 0), Some(Shape::Packed));
        append(&store, b"k");
        assert_eq!(store.shape(b"k", 0), Some(Shape::Growing));
        assert!(store.rename(b"k", b"l", 0) && store.copy(b"l", &other, b"m", 0));
        assert_eq!(store.shape(b"k", 0), None);
        assert_eq!(store.shape(b"l", 0), Some(Shape::Growing));
        assert_eq!(other.shape(b"m", 0), Some(Shape::Growing));
        assert!(other.move_to(&store, b"m", 0) && other.is_empty());
        assert_eq!(store.shape(b"m", 0), Some(Shape::Growing));
        let plus = |_: Option<View<'_>>| Ok::<_, ()>(b"w");
        assert_eq!(store.replace_string(b"m", 0, plus), Ok(b"w"));
        assert_eq!(store.shape(b"m", 0), Some(Shape::Packed));
        let held = store.total_memory_bytes();
        store.keep_as_text(b"m", 0);
        assert_eq!(store.shape(b"m", 0), Some(Shape::PackedText));
        assert_eq!(store.total_memory_bytes(), held);
        store.make_growing(b"m", 0);
        assert_eq!(store.shape(b"m", 0), Some(Shape::Growing));
        assert!(store.total_memory_bytes() > held);
        let mut members = crate::Members::new();
        members.insert(b"a", ());
        members.relax();
        let set = Entry::lasting(Value::Set(members));
        store.modify(b"s", 0, |_| ((), Change::Put(set)));
        assert_eq!(store.shape(b"s", 0), Some(Shape::Hashed));
    }

    #[test]
    fn a_caller_that_panics_leaves_the_store_whole() {
        let store = Keyspace::new();
        store.put_string(b"k", b"v", 0, |_| Some(None));
        append(&store, b"k");
        let panicking = || {
            store.modify(b"k", 0, |entry| -> ((), Change) {
                entry.unwrap().expires_at = Some(9);
                panic!("on purpose")
            });
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panicking)).is_err());
        assert_eq!(store.expiring(), 1);
        assert!(store.remove(b"k", 0));
        assert_eq!((store.len(), store.expiring()), (0, 0));
    }

    #[test]
    fn threads_share_the_store() {
        let store = Keyspace::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..1_000_u32 {
                        store.modify(&(n % 10).to_le_bytes(), 0, |entry| match entry {
                            Some(entry) => {
                                if let Value::String(bytes) = &mut entry.value {
                                    bytes.push(b'x');
                                }
                                ((), Change::Keep)
                            }
                            None => (
                                (),
                                Change::Put(Entry::lasting(Value::String(b"x".to_vec()))),
                            ),
                        });
                    }
                });
            }
        });
        for n in 0..10_u32 {
            let is_whole = |value: Option<View<'_>>| matches!(value, Some(View::String(bytes)) if bytes.len() == 400);
            assert!(store.view(&n.to_le_bytes(), 0, is_whole));
        }
    }
}

//! A sharded in-memory keyspace with expiry, usable as a library.
//!
//! Keys and values are bytes; a value is a string, a set or a hash. The store reads no clock: `now`
//! is an argument of every call, in milliseconds since the Unix epoch. An entry whose time has come
//! is gone for every reader at once (lazy expiry), and [`Store::expire_some`] frees what nobody asks
//! for (active expiry). It holds nothing on disk: durability will stand behind [`Store::modify`],
//! the one door that every change goes through.
//!
//! ```
//! use loadline_store::{Change, Entry, Store, Value};
//!
//! let store = Store::new();
//! let now = 1_000;
//! store.modify(b"greeting", now, |_| ((), Change::Put(Entry::lasting(Value::String(b"hello".to_vec())).until(2_000))));
//! assert_eq!(store.read(b"greeting", now, |value| value.is_some()), true);
//! assert_eq!(store.read(b"greeting", 2_000, |value| value.is_some()), false);
//! ```

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::hash_map::EntryRef;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet};

/// Parts of the keyspace, each behind its own lock; a key's part never changes.
const SHARDS: usize = 256;

/// Bytes of a key, a member or a field.
pub type Bytes = Box<[u8]>;

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Bytes.
    String(Vec<u8>),
    /// Members without order.
    Set(HashSet<Bytes>),
    /// Fields with a value each.
    Hash(HashMap<Bytes, Bytes>),
}

impl Value {
    /// The kind, as `TYPE` names it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Set(_) => "set",
            Self::Hash(_) => "hash",
        }
    }

    /// Whether nothing is left in it, so that its key goes. An empty string is something.
    #[must_use]
    pub fn is_empty_collection(&self) -> bool {
        match self {
            Self::String(_) => false,
            Self::Set(set) => set.is_empty(),
            Self::Hash(hash) => hash.is_empty(),
        }
    }
}

/// A value and when it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What is stored.
    pub value: Value,
    /// When it goes, in milliseconds since the Unix epoch; `None` for never.
    pub expires_at: Option<u64>,
}

impl Entry {
    /// An entry that stays.
    #[must_use]
    pub fn lasting(value: Value) -> Self {
        Self {
            value,
            expires_at: None,
        }
    }

    /// The same, gone from `expires_at` (milliseconds since the Unix epoch) on.
    #[must_use]
    pub fn until(self, expires_at: u64) -> Self {
        Self {
            expires_at: Some(expires_at),
            ..self
        }
    }

    fn is_gone(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

/// What becomes of a key.
#[derive(Debug)]
pub enum Change {
    /// It stays as it is, or as it was changed in place.
    Keep,
    /// It holds this from now on.
    Put(Entry),
    /// It goes.
    Remove,
}

/// The keyspace.
#[derive(Debug)]
pub struct Store {
    shards: Box<[Mutex<Shard>]>,
    hasher: DefaultHashBuilder,
    /// Where active expiry goes on.
    sweep: AtomicUsize,
}

type Shard = HashMap<Bytes, Entry, DefaultHashBuilder>;

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl Store {
    /// An empty keyspace, with a hash seed of its own, so that nobody can aim at one shard.
    #[must_use]
    pub fn new() -> Self {
        let hasher = DefaultHashBuilder::default();
        let shards = (0..SHARDS)
            .map(|_| Mutex::new(Shard::with_hasher(hasher.clone())))
            .collect();
        Self {
            shards,
            hasher,
            sweep: AtomicUsize::new(0),
        }
    }

    /// Shows the value of `key` to `look`.
    pub fn read<R>(&self, key: &[u8], now: u64, look: impl FnOnce(Option<&Value>) -> R) -> R {
        let shard = self.shard_of(key);
        look(
            shard
                .get(key)
                .filter(|entry| !entry.is_gone(now))
                .map(|entry| &entry.value),
        )
    }

    /// Gives the entry of `key` to `change`, which may change it in place and says what becomes of it.
    pub fn modify<R>(
        &self,
        key: &[u8],
        now: u64,
        change: impl FnOnce(Option<&mut Entry>) -> (R, Change),
    ) -> R {
        let mut shard = self.shard_of(key);
        match shard.entry_ref(key) {
            EntryRef::Occupied(mut place) => {
                let current = Some(place.get_mut()).filter(|entry| !entry.is_gone(now));
                let (result, change) = change(current);
                match change {
                    Change::Put(entry) => *place.get_mut() = entry,
                    Change::Keep if !place.get().is_gone(now) => {}
                    Change::Keep | Change::Remove => {
                        place.remove();
                    }
                }
                result
            }
            EntryRef::Vacant(place) => {
                let (result, change) = change(None);
                if let Change::Put(entry) = change {
                    place.insert(entry);
                }
                result
            }
        }
    }

    /// Takes `key` out.
    pub fn take(&self, key: &[u8], now: u64) -> Option<Entry> {
        self.shard_of(key)
            .remove(key)
            .filter(|entry| !entry.is_gone(now))
    }

    /// Keys, those included whose time has come and that nobody has asked for since.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys with an expiry.
    #[must_use]
    pub fn expiring(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| {
                lock(shard)
                    .values()
                    .filter(|entry| entry.expires_at.is_some())
                    .count()
            })
            .sum()
    }

    /// Removes everything.
    pub fn clear(&self) {
        for shard in &self.shards {
            *lock(shard) = Shard::with_hasher(self.hasher.clone());
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
        mut visit: impl FnMut(&[u8], &Value),
    ) -> u64 {
        let mut seen = 0;
        let first = usize::try_from(cursor).unwrap_or(SHARDS);
        for (index, shard) in self.shards.iter().enumerate().skip(first) {
            let shard = lock(shard);
            for (key, entry) in shard.iter().filter(|(_, entry)| !entry.is_gone(now)) {
                visit(key, &entry.value);
                seen += 1;
            }
            if seen >= count && index + 1 < SHARDS {
                return index as u64 + 1;
            }
        }
        0
    }

    /// Frees expired entries in the next `shards` shards and returns how many. Called now and then,
    /// it bounds what expired keys that nobody asks for can hold.
    pub fn expire_some(&self, now: u64, shards: usize) -> usize {
        let mut freed = 0;
        for _ in 0..shards.min(SHARDS) {
            let index = self.sweep.fetch_add(1, Ordering::Relaxed) % SHARDS;
            let mut shard = lock(&self.shards[index]);
            let before = shard.len();
            shard.retain(|_, entry| !entry.is_gone(now));
            freed += before - shard.len();
        }
        freed
    }

    fn shard_of(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        // The table inside a shard uses the lowest and the highest bits, so the shard takes others.
        lock(&self.shards[(self.hasher.hash_one(key) >> 40) as usize % SHARDS])
    }
}

/// No panic can leave a shard half changed, so one that was poisoned is still whole.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Debug, Clone)]
    enum Step {
        Put(u8, u8, Option<u8>),
        Remove(u8),
        Pass(u8),
        Sweep,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (any::<u8>(), any::<u8>(), any::<Option<u8>>())
                .prop_map(|(key, value, life)| Step::Put(key % 16, value, life)),
            any::<u8>().prop_map(|key| Step::Remove(key % 16)),
            any::<u8>().prop_map(Step::Pass),
            Just(Step::Sweep),
        ];
        proptest::collection::vec(step, 1..200)
    }

    proptest! {
        /// Against a plain map, with a clock of its own.
        #[test]
        fn it_behaves_like_a_map_with_expiry(steps in steps()) {
            let store = Store::new();
            let mut model: BTreeMap<u8, (u8, Option<u64>)> = BTreeMap::new();
            let mut now = 0_u64;
            for step in steps {
                match step {
                    Step::Put(key, value, life) => {
                        let expires_at = life.map(|life| now + u64::from(life));
                        let entry = Entry { value: Value::String(vec![value]), expires_at };
                        store.modify(&[key], now, |_| ((), Change::Put(entry)));
                        model.insert(key, (value, expires_at));
                    }
                    Step::Remove(key) => {
                        let was = model.remove(&key).is_some_and(|(_, at)| at.is_none_or(|at| at > now));
                        prop_assert_eq!(store.take(&[key], now).is_some(), was);
                    }
                    Step::Pass(time) => now += u64::from(time),
                    Step::Sweep => {
                        store.expire_some(now, SHARDS);
                        model.retain(|_, (_, at)| at.is_none_or(|at| at > now));
                        prop_assert_eq!(store.len(), model.len());
                    }
                }
                for key in 0..16_u8 {
                    let expected = model.get(&key).filter(|(_, at)| at.is_none_or(|at| at > now)).map(|(value, _)| Value::String(vec![*value]));
                    prop_assert_eq!(store.read(&[key], now, |value| value.cloned()), expected);
                }
            }
        }
    }

    #[test]
    fn a_walk_shows_what_stays_exactly_once_while_others_come_and_go() {
        let store = Store::new();
        let put = |key: String| {
            store.modify(key.as_bytes(), 0, |_| {
                ((), Change::Put(Entry::lasting(Value::String(vec![]))))
            });
        };
        (0..1_000).for_each(|n| put(format!("stays:{n}")));
        let (mut cursor, mut shown, mut turn) = (0, Vec::new(), 0);
        loop {
            cursor = store.scan(cursor, 10, 0, |key, _| {
                shown.extend(key.starts_with(b"stays:").then(|| key.to_vec()));
            });
            (0..50).for_each(|n| put(format!("comes:{turn}:{n}")));
            store.take(format!("comes:{turn}:0").as_bytes(), 0);
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
}

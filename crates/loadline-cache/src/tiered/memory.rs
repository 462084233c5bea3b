//! The tier in memory.

use std::hash::Hash;

use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use super::entry::Entry;

/// The fewest entries of the expected size that the share of a shard holds, so that the sizes of entries can vary.
const ENTRIES_PER_SHARD: u64 = 64;
/// The most shards: more than this do not help on the machines that the cache was measured on.
const MOST_SHARDS: u64 = 64;

/// Keys that were pushed out and are remembered, as a share of the entries that are expected to fit.
const REMEMBERED: f64 = 0.5;
/// Bytes of a place in memory beyond a key and its fields: its state, its neighbours in the lists, and its part of the
/// table.
pub(crate) const PLACE_BYTES: usize = 24;

/// An entry carries its weight, which was taken once.
#[derive(Debug, Clone, Copy)]
struct Weight;

impl<K, V> Weighter<K, Entry<V>> for Weight {
    fn weight(&self, _: &K, entry: &Entry<V>) -> u64 {
        entry.weight
    }
}

/// Keeps everything that an insert has pushed out. The default of `quick_cache` keeps two of them, and drops others
/// under its lock, where a value that uses the cache when it is dropped would wait for itself.
#[derive(Debug, Clone, Copy)]
struct KeepEvicted;

/// Entries to be dropped once nothing is locked.
#[derive(Debug)]
pub(crate) struct Evicted<K, V> {
    first: Option<(K, Entry<V>)>,
    others: Vec<(K, Entry<V>)>,
}

impl<K, V> Lifecycle<K, Entry<V>> for KeepEvicted {
    type RequestState = Evicted<K, V>;

    #[inline]
    fn begin_request(&self) -> Self::RequestState {
        Evicted {
            first: None,
            others: Vec::new(),
        }
    }

    #[inline]
    fn on_evict(&self, evicted: &mut Self::RequestState, key: K, entry: Entry<V>) {
        match &evicted.first {
            None => evicted.first = Some((key, entry)),
            Some(_) => evicted.others.push((key, entry)),
        }
    }
}

type Entries<K, V> = Cache<K, Entry<V>, Weight, DefaultHashBuilder, KeepEvicted>;

/// Entries up to a weight in bytes.
#[derive(Debug)]
pub(crate) struct Memory<K, V> {
    entries: Entries<K, V>,
    budget: u64,
}

impl<K: Hash + Eq + Clone, V> Memory<K, V> {
    /// Room for entries of `budget` bytes in all.
    ///
    /// Each shard has a fixed share of the budget, and an entry larger than that share is not kept. So there are fewer
    /// shards where entries are large compared with the budget.
    pub(crate) fn new(budget: u64, expected_entry_bytes: u64) -> Self {
        let expected = expected_entry_bytes.max(1);
        let entries = (budget / expected).max(1);
        let shards = (entries / ENTRIES_PER_SHARD).clamp(1, MOST_SHARDS);
        // The number of shards is rounded up to a power of two, so the next lower one is asked for.
        let shards = 1_u64 << shards.ilog2();
        // Keys that were pushed out are remembered for a time, in places that are as large as those of entries.
        let place = size_of::<K>() + size_of::<Entry<V>>() + PLACE_BYTES;
        let remembered = (entries as f64 * REMEMBERED) as u64 * place as u64;
        let left = budget - remembered.min(budget / 2);
        // Rounded down, so that all shares add up to no more than the budget.
        let capacity = (left / shards * shards).max(shards);
        let options = OptionsBuilder::new()
            .shards(shards as usize)
            .estimated_items_capacity(usize::try_from(entries).unwrap_or(usize::MAX))
            .ghost_allocation(REMEMBERED)
            .weight_capacity(capacity)
            .build()
            .expect("both capacities are set");
        let entries =
            Cache::with_options(options, Weight, DefaultHashBuilder::default(), KeepEvicted);
        Self { entries, budget }
    }

    #[inline]
    pub(crate) fn get(&self, key: &K) -> Option<Entry<V>> {
        self.entries.get(key)
    }

    /// Inserts an entry. Returns the replaced and evicted entries.
    pub(crate) fn insert(&self, key: K, entry: Entry<V>) -> (Option<Entry<V>>, Evicted<K, V>) {
        // Dropping plain data runs no code that could use the cache.
        let older = match std::mem::needs_drop::<V>() {
            true => self.entries.get(&key),
            false => None,
        };
        (older, self.entries.insert_with_lifecycle(key, entry))
    }

    pub(crate) fn remove(&self, key: &K) -> Option<(K, Entry<V>)> {
        self.entries.remove(key)
    }

    pub(crate) fn clear(&self) {
        self.entries.clear();
    }

    /// Removes an entry unless it has been replaced since `stamp`.
    pub(crate) fn remove_stamp(&self, key: &K, stamp: u64) {
        self.entries.remove_if(key, |entry| entry.stamp == stamp);
    }

    pub(crate) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.entries.weight()
    }

    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::entry::NEVER;
    use super::*;

    fn entry(weight: u64) -> Entry<u64> {
        Entry {
            value: Some(Arc::new(weight)),
            fresh_until: NEVER,
            due_at: NEVER,
            stamp: weight,
            weight,
        }
    }

    #[test]
    fn weight_stays_within_the_budget() {
        for (budget, expected) in [(1 << 20, 1_000), (1 << 20, 91_000), (1_000_000, 100)] {
            let memory = Memory::new(budget, expected);
            for key in 0..20_000_u64 {
                memory.insert(key, entry(expected / 2 + key % expected));
            }
            let bytes = memory.bytes();
            assert!(bytes <= budget, "{bytes} of {budget}");
            assert!(bytes > budget / 2, "{bytes} of {budget}");
        }
    }

    #[test]
    fn large_entries_get_few_shards() {
        // Eleven floors of 91 kB: with a shard for each CPU, none would fit.
        let memory = Memory::new(1 << 20, 91_000);
        memory.insert(1, entry(91_000));
        assert!(memory.get(&1).is_some());
        // Larger than the whole budget: not kept, and nothing else is pushed out.
        memory.insert(2, entry(2 << 20));
        assert!(memory.get(&2).is_none() && memory.get(&1).is_some());
    }

    #[test]
    fn only_the_entry_that_was_seen_is_removed() {
        let memory = Memory::new(1 << 20, 100);
        memory.insert(1, entry(7));
        memory.remove_stamp(&1, 8);
        assert_eq!(memory.len(), 1);
        memory.remove_stamp(&1, 7);
        assert_eq!(memory.len(), 0);
    }
}

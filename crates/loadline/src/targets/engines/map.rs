//! A plain hash table: the upper limit for an engine in memory.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Batch, Handle, Open};

/// Shards, each with its own lock.
const SHARDS: usize = 64;

type Shard = HashMap<Box<[u8]>, Box<[u8]>>;

/// A hash table of the standard library in shards, so that threads rarely wait for each other.
#[derive(Debug, Clone)]
pub(super) struct Map {
    shards: Arc<[Mutex<Shard>]>,
    hasher: RandomState,
}

impl Default for Map {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl Map {
    fn place(&self, key: &[u8]) -> usize {
        self.hasher.hash_one(key) as usize % SHARDS
    }

    fn locked(&self, place: usize) -> MutexGuard<'_, Shard> {
        self.shards[place]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        self.locked(self.place(key))
    }
}

impl Open for Map {
    fn handle(&self) -> anyhow::Result<Box<dyn Handle>> {
        Ok(Box::new(self.clone()))
    }
}

impl Handle for Map {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
        let shard = self.shard(key);
        let value = shard.get(key);
        if let Some(value) = value {
            out.extend_from_slice(value);
        }
        Ok(value.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        let mut shard = self.shard(key);
        match shard.get_mut(key) {
            Some(held) if held.len() == value.len() => held.copy_from_slice(value),
            Some(held) => *held = value.into(),
            None => {
                shard.insert(key.into(), value.into());
            }
        }
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> anyhow::Result<()> {
        self.shard(key).remove(key);
        Ok(())
    }

    fn get_all(&mut self, keys: &Batch, out: &mut Vec<u8>) -> anyhow::Result<usize> {
        let mut found = 0;
        for key in keys.keys() {
            found += usize::from(self.get(key, out)?);
        }
        Ok(found)
    }

    fn put_all(&mut self, pairs: &Batch) -> anyhow::Result<()> {
        pairs
            .pairs()
            .try_for_each(|(key, value)| self.put(key, value))
    }

    fn delete_all(&mut self, keys: &Batch) -> anyhow::Result<()> {
        keys.keys().try_for_each(|key| self.delete(key))
    }

    /// From the part of the key on: a hash table has no order.
    fn scan(&mut self, from: &[u8], count: usize, out: &mut Vec<u8>) -> anyhow::Result<usize> {
        let first = self.place(from);
        let mut found = 0;
        for place in (first..SHARDS).chain(0..first) {
            let shard = self.locked(place);
            for value in shard.values().take(count - found) {
                out.extend_from_slice(value);
                found += 1;
            }
        }
        Ok(found)
    }
}

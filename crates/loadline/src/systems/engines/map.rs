//! A plain hash table: the upper limit for an engine in memory.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loadline_cache::{Batch, Error, KeyValue};

/// Shards, each with its own lock.
const SHARDS: usize = 64;
const NO_EXPIRY: Error = Error::Settings("the values of a plain hash table have no expiry");

type Shard = HashMap<Box<[u8]>, Box<[u8]>>;

/// A hash table of the standard library in shards, so that threads rarely wait for each other.
#[derive(Debug)]
pub(super) struct Map {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

impl Default for Map {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
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

    /// Shows `visit` the pairs of the shards from the place `first` on, until it returns `false`.
    fn walk(&self, first: usize, mut visit: impl FnMut(&[u8], &[u8]) -> bool) {
        for place in first..SHARDS {
            let shard = self.locked(place);
            if !shard.iter().all(|(key, value)| visit(key, value)) {
                return;
            }
        }
    }
}

fn write(shard: &mut Shard, key: &[u8], value: Option<&[u8]>) {
    let Some(value) = value else {
        shard.remove(key);
        return;
    };
    match shard.get_mut(key) {
        Some(held) if held.len() == value.len() => held.copy_from_slice(value),
        Some(held) => *held = value.into(),
        None => {
            shard.insert(key.into(), value.into());
        }
    }
}

impl KeyValue for Map {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.shard(key).get(key).map(|value| value.to_vec()))
    }

    fn get_into(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let shard = self.shard(key);
        let value = shard.get(key);
        if let Some(value) = value {
            out.extend_from_slice(value);
        }
        Ok(value.is_some())
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    fn visit_many(
        &self,
        keys: &[&[u8]],
        _: u64,
        visit: &mut dyn FnMut(Option<&[u8]>),
    ) -> Result<(), Error> {
        for key in keys {
            visit(self.shard(key).get(*key).map(|value| &**value));
        }
        Ok(())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        write(&mut self.shard(key), key, Some(value));
        Ok(())
    }

    fn put_for(&self, _: &[u8], _: &[u8], _: Duration) -> Result<(), Error> {
        Err(NO_EXPIRY)
    }

    fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.shard(key).remove(key).is_some())
    }

    fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
    ) -> Result<bool, Error> {
        let mut shard = self.shard(key);
        let is_expected = shard.get(key).map(|value| &**value) == expected;
        if is_expected {
            write(&mut shard, key, next);
        }
        Ok(is_expected)
    }

    fn apply(&self, batch: &Batch) -> Result<(), Error> {
        let mut is_written = [false; SHARDS];
        batch
            .iter()
            .for_each(|(key, _)| is_written[self.place(key)] = true);
        // All in one order, so that two batches do not wait for each other.
        let mut shards: [Option<MutexGuard<'_, Shard>>; SHARDS] =
            std::array::from_fn(|place| is_written[place].then(|| self.locked(place)));
        for (key, value) in batch.iter() {
            if let Some(shard) = &mut shards[self.place(key)] {
                write(shard, key, value);
            }
        }
        Ok(())
    }

    fn scan(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        self.walk(0, |key, value| {
            if key.starts_with(prefix) {
                visit(key, value);
            }
            true
        });
        Ok(())
    }

    fn scan_from(
        &self,
        from: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, Error> {
        let first = if from.is_empty() { 0 } else { self.place(from) };
        let mut shown = 0;
        self.walk(first, |key, value| {
            let is_asked = shown < count;
            if is_asked {
                visit(key, value);
                shown += 1;
            }
            is_asked
        });
        Ok(shown)
    }
}

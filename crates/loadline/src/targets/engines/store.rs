//! The store of this project.

use std::path::Path;
use std::sync::Arc;

use loadline_store::{Keyspace, Options, Store};

use super::{Batch, Handle, Open};
use crate::target::{CacheLimits, Durability};

/// The store, in memory or in a directory.
#[derive(Debug)]
pub(super) struct OurStore(Arc<Store>);

impl OurStore {
    /// Opens the store in `dir`, which a store in memory does not need.
    ///
    /// # Errors
    /// The error of the store.
    pub(super) fn open(
        dir: &Path,
        durability: Durability,
        cache: Option<CacheLimits>,
    ) -> anyhow::Result<Self> {
        let options =
            cache.map_or_else(Options::new, |cache| Options::cache(cache.keys, cache.ttl));
        let durability = match durability {
            Durability::Memory => return Ok(Self(Arc::new(Store::in_memory(options)))),
            Durability::Process => loadline_store::Durability::Process,
            Durability::Interval(interval) => loadline_store::Durability::Interval(interval),
            Durability::Always => loadline_store::Durability::Always,
        };
        let options = options.durability(durability);
        Ok(Self(Arc::new(Store::open(dir, options)?)))
    }
}

impl Open for OurStore {
    fn handle(&self) -> anyhow::Result<Box<dyn Handle>> {
        Ok(Box::new(StoreHandle {
            store: Arc::clone(&self.0),
            batch: loadline_store::Batch::new(),
        }))
    }
}

#[derive(Debug)]
struct StoreHandle {
    store: Arc<Store>,
    /// Reused for every batch.
    batch: loadline_store::Batch,
}

impl Handle for StoreHandle {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
        let copy = |value: Option<&[u8]>| {
            if let Some(value) = value {
                out.extend_from_slice(value);
            }
            value.is_some()
        };
        Ok(self.store.get_with(key, copy)?)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        Ok(self.store.put(key, value)?)
    }

    fn delete(&mut self, key: &[u8]) -> anyhow::Result<()> {
        self.store.delete(key)?;
        Ok(())
    }

    fn get_all(&mut self, keys: &Batch, out: &mut Vec<u8>) -> anyhow::Result<usize> {
        let mut found = 0;
        self.store.get_many_with(keys.keys(), |_, value| {
            if let Some(value) = value {
                out.extend_from_slice(value);
                found += 1;
            }
        })?;
        Ok(found)
    }

    fn put_all(&mut self, pairs: &Batch) -> anyhow::Result<()> {
        self.batch.clear();
        for (key, value) in pairs.pairs() {
            self.batch.put(key, value);
        }
        Ok(self.store.apply(&self.batch)?)
    }

    fn delete_all(&mut self, keys: &Batch) -> anyhow::Result<()> {
        self.batch.clear();
        for key in keys.keys() {
            self.batch.delete(key);
        }
        Ok(self.store.apply(&self.batch)?)
    }

    /// From a place that follows from the key: the store is a hash table and has no order.
    fn scan(&mut self, from: &[u8], count: usize, out: &mut Vec<u8>) -> anyhow::Result<usize> {
        let sum = from.iter().fold(0_u64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
        });
        let first = sum % Keyspace::CURSORS;
        let mut found = 0;
        for mut cursor in [first, 0] {
            while found < count {
                cursor = self.store.scan(cursor, count - found, b"", |_, value| {
                    // A part of the store is shown as a whole.
                    if found < count {
                        out.extend_from_slice(value);
                        found += 1;
                    }
                })?;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(found)
    }
}

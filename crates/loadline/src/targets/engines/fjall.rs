//! fjall.

use std::path::Path;
use std::sync::Arc;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::ticker::Ticker;
use super::{Batch, Handle, Open};
use crate::target::Durability;

/// A database with one keyspace.
#[derive(Clone)]
pub(super) struct Fjall {
    database: Database,
    data: Keyspace,
    /// Whether a write is synced before it returns.
    syncs: bool,
    ticker: Option<Arc<Ticker>>,
}

impl std::fmt::Debug for Fjall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fjall")
            .field("syncs", &self.syncs)
            .finish_non_exhaustive()
    }
}

impl Fjall {
    /// Opens the database in `dir`.
    ///
    /// # Errors
    /// The error of fjall.
    pub(super) fn open(dir: &Path, durability: Durability) -> anyhow::Result<Self> {
        let database = Database::builder(dir.join("data")).open()?;
        let data = database.keyspace("data", KeyspaceCreateOptions::default)?;
        let ticker = match durability {
            Durability::Interval(interval) => {
                let database = database.clone();
                let sync = move || Ok(database.persist(PersistMode::SyncData)?);
                Some(Arc::new(Ticker::start(interval, sync)?))
            }
            _ => None,
        };
        Ok(Self {
            database,
            data,
            syncs: durability == Durability::Always,
            ticker,
        })
    }

    fn check(&self) -> anyhow::Result<()> {
        self.ticker.as_ref().map_or(Ok(()), |ticker| ticker.check())
    }

    /// Completes a write. Without a sync, it is in the page cache by now.
    fn sync(&self) -> anyhow::Result<()> {
        if self.syncs {
            self.database.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }
}

impl Open for Fjall {
    fn handle(&self) -> anyhow::Result<Box<dyn Handle>> {
        Ok(Box::new(self.clone()))
    }
}

impl Handle for Fjall {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
        let value = self.data.get(key)?;
        if let Some(value) = &value {
            out.extend_from_slice(value);
        }
        Ok(value.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        self.check()?;
        self.data.insert(key, value)?;
        self.sync()
    }

    fn delete(&mut self, key: &[u8]) -> anyhow::Result<()> {
        self.check()?;
        self.data.remove(key)?;
        self.sync()
    }

    fn get_all(&mut self, keys: &Batch, out: &mut Vec<u8>) -> anyhow::Result<usize> {
        let mut found = 0;
        for key in keys.keys() {
            found += usize::from(self.get(key, out)?);
        }
        Ok(found)
    }

    fn put_all(&mut self, pairs: &Batch) -> anyhow::Result<()> {
        self.check()?;
        let mut batch = self.database.batch();
        for (key, value) in pairs.pairs() {
            batch.insert(&self.data, key, value);
        }
        batch.commit()?;
        self.sync()
    }

    fn delete_all(&mut self, keys: &Batch) -> anyhow::Result<()> {
        self.check()?;
        let mut batch = self.database.batch();
        for key in keys.keys() {
            batch.remove(&self.data, key);
        }
        batch.commit()?;
        self.sync()
    }
}

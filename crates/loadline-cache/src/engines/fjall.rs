//! fjall.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use loadline_store::Durability;

use super::{Engine, Ticker, failed};
use crate::Error;

/// The longest key of fjall, which panics on others and on empty ones.
const MAX_KEY_BYTES: usize = u16::MAX as usize;

/// fjall: a database with one keyspace. Only writes in one transaction are one snapshot; several reads are not.
#[derive(Clone)]
pub struct Fjall {
    database: Database,
    data: Keyspace,
    /// Whether a write is synced before it returns.
    syncs: bool,
    ticker: Option<Arc<Ticker>>,
}

impl fmt::Debug for Fjall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fjall")
            .field("syncs", &self.syncs)
            .finish_non_exhaustive()
    }
}

impl Fjall {
    /// Opens the database in `dir`, which exists, with the engine's default cache.
    ///
    /// # Errors
    /// [`Error::Engine`]; also if it is open already.
    pub fn open(dir: &Path, durability: Durability) -> Result<Self, Error> {
        Self::open_with(dir, durability, None)
    }

    /// Opens the database in `dir`, which exists, with a cache of `cache_bytes`.
    ///
    /// # Errors
    /// [`Error::Engine`]; also if it is open already.
    pub fn open_with(
        dir: &Path,
        durability: Durability,
        cache_bytes: Option<u64>,
    ) -> Result<Self, Error> {
        let mut builder = Database::builder(dir.join("data"));
        if let Some(bytes) = cache_bytes {
            builder = builder.cache_size(bytes);
        }
        let database = builder.open().map_err(failed)?;
        let data = database.keyspace("data", KeyspaceCreateOptions::default);
        let data = data.map_err(failed)?;
        let ticker = match durability {
            Durability::Interval(interval) => {
                let database = database.clone();
                let sync = move || database.persist(PersistMode::SyncData);
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

    /// Completes a write. Without a sync, it is in the page cache by now.
    fn sync(&self) -> Result<(), Error> {
        if self.syncs {
            (self.database.persist(PersistMode::SyncData)).map_err(failed)?;
        }
        Ok(())
    }
}

impl Engine for Fjall {
    fn keeps(key: &[u8]) -> bool {
        (1..=MAX_KEY_BYTES).contains(&key.len())
    }

    fn read<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut visit: impl FnMut(Option<&[u8]>),
    ) -> Result<(), Error> {
        for key in keys {
            visit(self.data.get(key).map_err(failed)?.as_deref());
        }
        Ok(())
    }

    fn write<'w>(
        &self,
        writes: impl Iterator<Item = (&'w [u8], Option<&'w [u8]>)>,
    ) -> Result<(), Error> {
        Ticker::check(self.ticker.as_deref())?;
        let mut batch = self.database.batch();
        for (key, value) in writes {
            match value {
                Some(value) => batch.insert(&self.data, key, value),
                None => batch.remove(&self.data, key),
            }
        }
        batch.commit().map_err(failed)?;
        self.sync()
    }

    fn write_one(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        Ticker::check(self.ticker.as_deref())?;
        match value {
            Some(value) => self.data.insert(key, value),
            None => self.data.remove(key),
        }
        .map_err(failed)?;
        self.sync()
    }

    fn walk(
        &self,
        from: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        for pair in self.data.range(from..) {
            let (key, value) = pair.into_inner().map_err(failed)?;
            if visit(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_has_the_requested_capacity() {
        let dir = tempfile::tempdir().unwrap();
        let open = |bytes| Fjall::open_with(dir.path(), Durability::Process, bytes).unwrap();
        assert_eq!(open(Some(5 << 20)).database.cache_capacity(), 5 << 20);
        assert_ne!(open(None).database.cache_capacity(), 5 << 20);
    }
}

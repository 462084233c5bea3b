//! redb.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use loadline_store::Durability;
use redb::{Builder, Database, ReadableDatabase, TableDefinition};

use super::{Engine, Ticker, failed};
use crate::Error;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("data");

/// redb: a database with one table.
///
/// Its writes survive the process only once they are synced, so that [`Durability::Process`] is the same as
/// [`Durability::Always`].
#[derive(Clone)]
pub struct Redb {
    database: Arc<Database>,
    durability: redb::Durability,
    ticker: Option<Arc<Ticker>>,
}

impl fmt::Debug for Redb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redb")
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

/// The settings of a database with a cache of `cache_bytes`, or with that of the engine.
fn builder(cache_bytes: Option<u64>) -> Builder {
    let mut builder = Database::builder();
    if let Some(bytes) = cache_bytes {
        builder.set_cache_size(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    builder
}

impl Redb {
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
        let database = builder(cache_bytes).create(dir.join("data.redb"));
        let database = Arc::new(database.map_err(failed)?);
        let table = database.begin_write().map_err(failed)?;
        table.open_table(TABLE).map_err(failed)?;
        table.commit().map_err(failed)?;
        let (durability, ticker) = match durability {
            Durability::Interval(interval) => {
                let database = Arc::clone(&database);
                // A durable commit, even an empty one, makes all earlier commits durable.
                let sync =
                    move || -> Result<(), redb::Error> { Ok(database.begin_write()?.commit()?) };
                let ticker = Ticker::start(interval, sync)?;
                (redb::Durability::None, Some(Arc::new(ticker)))
            }
            _ => (redb::Durability::Immediate, None),
        };
        Ok(Self {
            database,
            durability,
            ticker,
        })
    }

    fn try_read<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut visit: impl FnMut(Option<&[u8]>),
    ) -> Result<(), redb::Error> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        for key in keys {
            visit(table.get(key)?.as_ref().map(|value| value.value()));
        }
        Ok(())
    }

    fn try_write<'w>(
        &self,
        writes: impl Iterator<Item = (&'w [u8], Option<&'w [u8]>)>,
    ) -> Result<(), redb::Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(self.durability)?;
        let mut table = transaction.open_table(TABLE)?;
        for (key, value) in writes {
            match value {
                Some(value) => drop(table.insert(key, value)?),
                None => drop(table.remove(key)?),
            }
        }
        drop(table);
        Ok(transaction.commit()?)
    }

    fn try_walk(
        &self,
        from: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), redb::Error> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        for pair in table.range(from..)? {
            let (key, value) = pair?;
            if visit(key.value(), value.value()).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Engine for Redb {
    fn keeps(_: &[u8]) -> bool {
        true
    }

    fn read<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        visit: impl FnMut(Option<&[u8]>),
    ) -> Result<(), Error> {
        self.try_read(keys, visit).map_err(failed)
    }

    fn write<'w>(
        &self,
        writes: impl Iterator<Item = (&'w [u8], Option<&'w [u8]>)>,
    ) -> Result<(), Error> {
        Ticker::check(self.ticker.as_deref())?;
        self.try_write(writes).map_err(failed)
    }

    fn walk(
        &self,
        from: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.try_walk(from, visit).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};

    use redb::StorageBackend;
    use redb::backends::InMemoryBackend;

    use super::*;

    /// A file in memory that counts the bytes that are read from it.
    #[derive(Debug, Default)]
    struct Counted {
        file: InMemoryBackend,
        bytes: Arc<AtomicU64>,
    }

    impl StorageBackend for Counted {
        fn len(&self) -> io::Result<u64> {
            self.file.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.bytes.fetch_add(out.len() as u64, Ordering::Relaxed);
            self.file.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.file.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.file.sync_data()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.file.write(offset, data)
        }
    }

    /// Bytes that are read from the file while all of 4 MB of values is read for the second time.
    fn read_again(cache_bytes: u64) -> u64 {
        let backend = Counted::default();
        let bytes = Arc::clone(&backend.bytes);
        let database = builder(Some(cache_bytes)).create_with_backend(backend);
        let redb = Redb {
            database: Arc::new(database.unwrap()),
            durability: redb::Durability::Immediate,
            ticker: None,
        };
        let keys: Vec<_> = (0..4_000_u32).map(u32::to_be_bytes).collect();
        let value = &[7; 1_000][..];
        let pairs = keys.iter().map(|key| (&key[..], Some(value)));
        redb.try_write(pairs).unwrap();
        let mut found = 0;
        for _ in 0..2 {
            bytes.store(0, Ordering::Relaxed);
            let keys = keys.iter().map(|key| &key[..]);
            let count = |value: Option<&[u8]>| found += usize::from(value.is_some());
            redb.try_read(keys, count).unwrap();
        }
        assert_eq!(found, 8_000);
        bytes.load(Ordering::Relaxed)
    }

    #[test]
    fn cache_has_the_requested_size() {
        let (small, large) = (read_again(64 << 10), read_again(64 << 20));
        assert!(small > 3_000_000, "{small} bytes are read again");
        assert!(large < 100_000, "{large} bytes are read again");
    }
}

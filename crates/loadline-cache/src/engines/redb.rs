//! redb.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use loadline_store::Durability;
use redb::{Database, ReadableDatabase, TableDefinition};

use super::{Engine, Ticker, failed};
use crate::Error;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("data");

/// redb: a database with one table.
///
/// What it writes survives the process only once it is synced, so that [`Durability::Process`] is the same as
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
        let mut builder = Database::builder();
        if let Some(bytes) = cache_bytes {
            builder.set_cache_size(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        let database = Arc::new(builder.create(dir.join("data.redb")).map_err(failed)?);
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

//! RocksDB.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use loadline_store::Durability;
use rocksdb::{
    DB, DBCompressionType, DEFAULT_COLUMN_FAMILY_NAME, Direction, IteratorMode, Options,
    WriteBatch, WriteOptions,
};

use super::{Engine, Ticker, failed};
use crate::Error;

/// The longest key of RocksDB: its length has 32 bits, 8 bytes of which are for the sequence number.
const MAX_KEY_BYTES: usize = u32::MAX as usize - 8;

/// RocksDB: a database with one column family and without compression.
#[derive(Clone)]
pub struct RocksDb {
    database: Arc<DB>,
    /// Whether a write is synced before it returns.
    syncs: bool,
    ticker: Option<Arc<Ticker>>,
}

impl fmt::Debug for RocksDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksDb")
            .field("syncs", &self.syncs)
            .finish_non_exhaustive()
    }
}

impl RocksDb {
    /// Opens the database in `dir`, which exists.
    ///
    /// # Errors
    /// [`Error::Engine`]; also if it is open already.
    pub fn open(dir: &Path, durability: Durability) -> Result<Self, Error> {
        let mut options = Options::default();
        options.create_if_missing(true);
        // What is the default depends on the libraries that RocksDB was built with.
        options.set_compression_type(DBCompressionType::None);
        // By name, because only then is there a handle for reading several keys at once.
        let families = [(DEFAULT_COLUMN_FAMILY_NAME, options.clone())];
        let database = DB::open_cf_with_opts(&options, dir.join("data"), families);
        let database = database.map_err(failed)?;
        let database = Arc::new(database);
        let ticker = match durability {
            Durability::Interval(interval) => {
                let database = Arc::clone(&database);
                let sync = move || database.flush_wal(true);
                Some(Arc::new(Ticker::start(interval, sync)?))
            }
            _ => None,
        };
        Ok(Self {
            database,
            syncs: durability == Durability::Always,
            ticker,
        })
    }

    /// Settings of a write. Without a sync, its log is in the page cache when it returns.
    fn write_options(&self) -> WriteOptions {
        let mut options = WriteOptions::default();
        options.set_sync(self.syncs);
        options
    }
}

impl Engine for RocksDb {
    fn keeps(key: &[u8]) -> bool {
        key.len() <= MAX_KEY_BYTES
    }

    fn read<'k>(
        &self,
        mut keys: impl Iterator<Item = &'k [u8]>,
        mut visit: impl FnMut(Option<&[u8]>),
    ) -> Result<(), Error> {
        // One key is read faster without the sorting of several.
        if keys.size_hint() == (1, Some(1)) {
            if let Some(key) = keys.next() {
                visit(self.database.get_pinned(key).map_err(failed)?.as_deref());
            }
            return Ok(());
        }
        let Some(data) = self.database.cf_handle(DEFAULT_COLUMN_FAMILY_NAME) else {
            return Err(failed("the database has no default column family"));
        };
        for value in self.database.batched_multi_get_cf(data, keys, false) {
            visit(value.map_err(failed)?.as_deref());
        }
        Ok(())
    }

    fn write<'w>(
        &self,
        writes: impl Iterator<Item = (&'w [u8], Option<&'w [u8]>)>,
    ) -> Result<(), Error> {
        Ticker::check(self.ticker.as_deref())?;
        let mut batch = WriteBatch::default();
        for (key, value) in writes {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
        let written = self.database.write_opt(batch, &self.write_options());
        written.map_err(failed)
    }

    fn write_one(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        Ticker::check(self.ticker.as_deref())?;
        let options = self.write_options();
        let written = match value {
            Some(value) => self.database.put_opt(key, value, &options),
            None => self.database.delete_opt(key, &options),
        };
        written.map_err(failed)
    }

    fn walk(
        &self,
        from: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let from = IteratorMode::From(from, Direction::Forward);
        for pair in self.database.iterator(from) {
            let (key, value) = pair.map_err(failed)?;
            if visit(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

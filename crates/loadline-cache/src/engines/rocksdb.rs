//! RocksDB.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use loadline_store::Durability;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DEFAULT_COLUMN_FAMILY_NAME, Direction,
    IteratorMode, Options, WriteBatch, WriteBufferManager, WriteOptions,
};

use super::{Engine, Ticker, failed};
use crate::Error;

/// The longest key of RocksDB: its length has 32 bits, 8 bytes of which are for the sequence number.
const MAX_KEY_BYTES: usize = u32::MAX as usize - 8;
/// Bits of the bloom filters per key, as RocksDB recommends: one in a hundred reads of a missing key looks at a table.
const BLOOM_BITS: f64 = 10.0;
/// Part of the memory that tables in memory can take before they are written to files.
const WRITE_BUFFER_SHARE: usize = 2;

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
    /// Opens the database in `dir`, which exists, with the engine's default memory and without bloom filters.
    ///
    /// # Errors
    /// [`Error::Engine`]; also if it is open already.
    pub fn open(dir: &Path, durability: Durability) -> Result<Self, Error> {
        Self::open_with(dir, durability, None)
    }

    /// Opens the database in `dir`, which exists, with `memory_bytes` for blocks, indexes, bloom filters and tables in
    /// memory together. Tables in memory take at most half of it before they are written to files.
    ///
    /// # Errors
    /// [`Error::Engine`]; also if it is open already.
    pub fn open_with(
        dir: &Path,
        durability: Durability,
        memory_bytes: Option<u64>,
    ) -> Result<Self, Error> {
        let mut options = Options::default();
        if let Some(bytes) = memory_bytes {
            limit_memory(&mut options, usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        options.create_if_missing(true);
        // The default depends on the libraries that RocksDB was built with.
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

/// Gives blocks, indexes, bloom filters and tables in memory one budget: all of them count in one cache.
fn limit_memory(options: &mut Options, bytes: usize) {
    let cache = Cache::new_lru_cache(bytes);
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&cache);
    blocks.set_bloom_filter(BLOOM_BITS, false);
    blocks.set_cache_index_and_filter_blocks(true);
    options.set_block_based_table_factory(&blocks);
    let buffers = (bytes / WRITE_BUFFER_SHARE).max(1);
    let manager = WriteBufferManager::new_write_buffer_manager_with_cache(buffers, false, cache);
    options.set_write_buffer_manager(&manager);
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

#[cfg(test)]
mod tests {
    use rocksdb::properties::{BLOCK_CACHE_CAPACITY, BLOCK_CACHE_USAGE, CUR_SIZE_ALL_MEM_TABLES};

    use super::*;

    const MEMORY_BYTES: u64 = 4 << 20;

    fn property(engine: &RocksDb, name: &rocksdb::properties::PropName) -> u64 {
        let read = engine.database.property_int_value(name).unwrap();
        read.unwrap()
    }

    /// Writes 16 MiB.
    fn fill(engine: &RocksDb) {
        let value = [7; 1_024];
        for batch in 0..16_u64 {
            let keys: Vec<[u8; 8]> = (0..1_024)
                .map(|n| (batch << 10 | n).to_be_bytes())
                .collect();
            let writes = keys.iter().map(|key| (&key[..], Some(&value[..])));
            engine.write(writes).unwrap();
        }
    }

    #[test]
    fn memory_budget_holds_blocks_and_tables_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let engine =
            RocksDb::open_with(dir.path(), Durability::Process, Some(MEMORY_BYTES)).unwrap();
        assert_eq!(property(&engine, BLOCK_CACHE_CAPACITY), MEMORY_BYTES);
        let empty = property(&engine, BLOCK_CACHE_USAGE);
        engine.write_one(b"key", Some(&[7; 1 << 20])).unwrap();
        // Tables in memory count in the cache, in steps of 256 KiB.
        let used = property(&engine, BLOCK_CACHE_USAGE);
        assert!(used >= empty + (768 << 10), "{empty}, then {used}");
        fill(&engine);
        // A flush begins at the limit and the next table fills meanwhile; the default is 64 MiB.
        let tables = property(&engine, CUR_SIZE_ALL_MEM_TABLES);
        assert!(tables < 2 * MEMORY_BYTES, "{tables}");
    }

    #[test]
    fn files_have_bloom_filters_only_with_a_memory_budget() {
        for (memory_bytes, has_filters) in [(None, false), (Some(MEMORY_BYTES), true)] {
            let dir = tempfile::tempdir().unwrap();
            let engine = RocksDb::open_with(dir.path(), Durability::Process, memory_bytes).unwrap();
            engine.write_one(b"key", Some(b"value")).unwrap();
            engine.database.flush().unwrap();
            let tables = engine
                .database
                .property_value("rocksdb.aggregated-table-properties");
            let tables = tables.unwrap().unwrap();
            let none = tables.contains("filter block size=0");
            assert_eq!(!none, has_filters, "{tables}");
        }
    }
}

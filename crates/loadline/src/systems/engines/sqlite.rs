//! SQLite, with a write-ahead log.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loadline_cache::Error;
use loadline_cache::engines::{Engine, Ticker};
use loadline_store::Durability;
use rusqlite::{Connection, TransactionBehavior};

/// Time limit for a writer that waits for another one.
const PATIENCE: Duration = Duration::from_secs(60);

const CREATE: &str =
    "CREATE TABLE IF NOT EXISTS data (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID";
const GET: &str = "SELECT value FROM data WHERE key = ?1";
const PUT: &str =
    "INSERT INTO data VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const WALK: &str = "SELECT key, value FROM data WHERE key >= ?1 ORDER BY key";
const DELETE: &str = "DELETE FROM data WHERE key = ?1";

/// A database with one table.
#[derive(Debug)]
pub(super) struct Sqlite {
    file: PathBuf,
    /// Keeps the write-ahead log between connections, because the last one to close removes it.
    _keeper: Mutex<Connection>,
    synchronous: &'static str,
    memory_bytes: Option<u64>,
    ticker: Option<Arc<Ticker>>,
}

impl Sqlite {
    /// Creates or opens the database in `dir`.
    ///
    /// # Errors
    /// The error of SQLite.
    pub(super) fn open(
        dir: &Path,
        durability: Durability,
        memory_bytes: Option<u64>,
    ) -> Result<Self, Error> {
        let file = dir.join("data.sqlite");
        // The first transaction is synced in every class, so that the files are durable in their directory.
        let keeper = connect(&file, "FULL", None).map_err(failed)?;
        keeper.execute(CREATE, ()).map_err(failed)?;
        let synchronous = match durability {
            Durability::Always => "FULL",
            // Checkpoints are synced, commits are not.
            Durability::Interval(_) => "NORMAL",
            Durability::Process => "OFF",
        };
        let ticker = match durability {
            Durability::Interval(interval) => {
                // All commits since the last checkpoint are in this file. SQLite holds no locks on it, so closing
                // it here releases none.
                let log = File::open(dir.join("data.sqlite-wal")).map_err(failed)?;
                let sync = move || log.sync_data();
                Some(Arc::new(Ticker::start(interval, sync)?))
            }
            _ => None,
        };
        Ok(Self {
            file,
            _keeper: Mutex::new(keeper),
            synchronous,
            memory_bytes,
            ticker,
        })
    }

    /// A connection for one thread.
    ///
    /// # Errors
    /// The error of SQLite.
    pub(super) fn connect(&self) -> Result<SqliteConnection, Error> {
        let connection = connect(&self.file, self.synchronous, self.memory_bytes);
        Ok(SqliteConnection {
            connection: Mutex::new(connection.map_err(failed)?),
            ticker: self.ticker.clone(),
        })
    }

    pub(super) fn version() -> String {
        format!("SQLite {}", rusqlite::version())
    }
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Engine(error.into())
}

/// A connection with this `synchronous` setting, and with this size of its page cache and of its memory map.
fn connect(
    file: &Path,
    synchronous: &str,
    memory_bytes: Option<u64>,
) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    if let Some(bytes) = memory_bytes {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        // A negative size is in KiB, a positive one in pages.
        connection.pragma_update(None, "cache_size", -(bytes / 1_024).max(1))?;
        connection.pragma_update(None, "mmap_size", bytes)?;
    }
    Ok(connection)
}

/// A connection that one thread uses. Its statements are prepared once.
#[derive(Debug)]
pub(super) struct SqliteConnection {
    connection: Mutex<Connection>,
    ticker: Option<Arc<Ticker>>,
}

impl SqliteConnection {
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn try_read<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut visit: impl FnMut(Option<&[u8]>),
    ) -> rusqlite::Result<()> {
        let connection = self.lock();
        // One key is a transaction by itself.
        let transaction = match keys.size_hint() {
            (1, Some(1)) => None,
            _ => Some(connection.unchecked_transaction()?),
        };
        for key in keys {
            read(&connection, key, &mut visit)?;
        }
        transaction.map_or(Ok(()), rusqlite::Transaction::commit)
    }

    /// Writes in one transaction. It takes the write lock at the start, because a transaction that starts with a read can fail
    /// to get it.
    fn try_write<'w>(
        &self,
        writes: impl Iterator<Item = (&'w [u8], Option<&'w [u8]>)>,
    ) -> rusqlite::Result<()> {
        let mut connection = self.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (key, value) in writes {
            write(&transaction, key, value)?;
        }
        transaction.commit()
    }

    fn try_walk(
        &self,
        from: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(WALK)?;
        let mut rows = statement.query([from])?;
        while let Some(row) = rows.next()? {
            let (key, value) = (row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Shows the value of `key`.
fn read(
    connection: &Connection,
    key: &[u8],
    visit: impl FnOnce(Option<&[u8]>),
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(GET)?;
    let mut rows = statement.query([key])?;
    match rows.next()? {
        Some(row) => visit(Some(row.get_ref(0)?.as_blob()?)),
        None => visit(None),
    }
    Ok(())
}

fn write(connection: &Connection, key: &[u8], value: Option<&[u8]>) -> rusqlite::Result<()> {
    match value {
        Some(value) => connection.prepare_cached(PUT)?.execute([key, value])?,
        None => connection.prepare_cached(DELETE)?.execute([key])?,
    };
    Ok(())
}

impl Engine for SqliteConnection {
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

    fn write_one(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        Ticker::check(self.ticker.as_deref())?;
        write(&self.lock(), key, value).map_err(failed)
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
    use super::*;

    #[test]
    fn page_cache_and_mapping_have_the_requested_size() {
        let dir = tempfile::tempdir().unwrap();
        let settings = |memory_bytes| {
            let file = dir.path().join("data.sqlite");
            let connection = connect(&file, "OFF", memory_bytes).unwrap();
            connection.execute(CREATE, ()).unwrap();
            let setting = |name| -> i64 {
                let value = connection.pragma_query_value(None, name, |row| row.get(0));
                value.unwrap()
            };
            (setting("cache_size"), setting("mmap_size"))
        };
        assert_eq!(settings(Some(16 << 20)), (-16_384, 16 << 20));
        assert_eq!(settings(Some(1)), (-1, 1));
        assert_ne!(settings(None), settings(Some(16 << 20)));
    }
}

//! SQLite, with a write-ahead log.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loadline_cache::engines::Ticker;
use rusqlite::{Connection, TransactionBehavior};

use super::{Batch, Handle, Open};
use crate::target::Durability;

/// Time limit for a writer that waits for another one.
const PATIENCE: Duration = Duration::from_secs(60);

const CREATE: &str =
    "CREATE TABLE IF NOT EXISTS data (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID";
const GET: &str = "SELECT value FROM data WHERE key = ?1";
const PUT: &str =
    "INSERT INTO data VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const SCAN: &str = "SELECT value FROM data WHERE key >= ?1 ORDER BY key LIMIT ?2";
const DELETE: &str = "DELETE FROM data WHERE key = ?1";

/// A database with one table. Each handle has its own connection.
#[derive(Debug)]
pub(super) struct Sqlite {
    file: PathBuf,
    /// Keeps the write-ahead log between handles, because the last connection to close removes it.
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
    ) -> anyhow::Result<Self> {
        let file = dir.join("data.sqlite");
        // The first transaction is synced in every class, so that the files are durable in their directory.
        let keeper = connect(&file, "FULL", None)?;
        keeper.execute(CREATE, ())?;
        let synchronous = match durability {
            Durability::Always => "FULL",
            // Checkpoints are synced, commits are not.
            Durability::Interval(_) => "NORMAL",
            Durability::Memory | Durability::Process => "OFF",
        };
        let ticker = match durability {
            Durability::Interval(interval) => {
                // All commits since the last checkpoint are in this file. SQLite holds no locks on it, so closing
                // it here releases none.
                let log = File::open(dir.join("data.sqlite-wal"))?;
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
}

/// A connection with this `synchronous` setting, and with this size of its page cache and of its memory map.
fn connect(
    file: &Path,
    synchronous: &str,
    memory_bytes: Option<u64>,
) -> anyhow::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    if let Some(bytes) = memory_bytes {
        let bytes = i64::try_from(bytes)?;
        // A negative size is in KiB, a positive one in pages.
        connection.pragma_update(None, "cache_size", -(bytes / 1_024).max(1))?;
        connection.pragma_update(None, "mmap_size", bytes)?;
    }
    Ok(connection)
}

impl Open for Sqlite {
    fn handle(&self) -> anyhow::Result<Box<dyn Handle>> {
        Ok(Box::new(SqliteHandle {
            connection: connect(&self.file, self.synchronous, self.memory_bytes)?,
            ticker: self.ticker.clone(),
        }))
    }

    fn version(&self) -> Option<String> {
        Some(format!("SQLite {}", rusqlite::version()))
    }
}

/// A connection for one thread. Its statements are prepared once.
#[derive(Debug)]
struct SqliteHandle {
    connection: Connection,
    ticker: Option<Arc<Ticker>>,
}

impl SqliteHandle {
    fn check(&self) -> anyhow::Result<()> {
        Ok(Ticker::check(self.ticker.as_deref())?)
    }

    /// Runs `change` in one transaction. It takes the write lock at the start, because a transaction that starts
    /// with a read can fail to get it.
    fn write(
        &mut self,
        change: impl FnOnce(&Connection) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.check()?;
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        change(&transaction)?;
        Ok(transaction.commit()?)
    }
}

/// Appends the value of `key` if there is one.
fn read(connection: &Connection, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
    let mut statement = connection.prepare_cached(GET)?;
    let mut rows = statement.query([key])?;
    let Some(row) = rows.next()? else {
        return Ok(false);
    };
    out.extend_from_slice(row.get_ref(0)?.as_blob()?);
    Ok(true)
}

impl Handle for SqliteHandle {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
        read(&self.connection, key, out)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        self.check()?;
        self.connection.prepare_cached(PUT)?.execute([key, value])?;
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> anyhow::Result<()> {
        self.check()?;
        self.connection.prepare_cached(DELETE)?.execute([key])?;
        Ok(())
    }

    fn get_all(&mut self, keys: &Batch, out: &mut Vec<u8>) -> anyhow::Result<usize> {
        let transaction = self.connection.transaction()?;
        let mut found = 0;
        for key in keys.keys() {
            found += usize::from(read(&transaction, key, out)?);
        }
        transaction.commit()?;
        Ok(found)
    }

    fn put_all(&mut self, pairs: &Batch) -> anyhow::Result<()> {
        self.write(|connection| {
            let mut statement = connection.prepare_cached(PUT)?;
            for (key, value) in pairs.pairs() {
                statement.execute([key, value])?;
            }
            Ok(())
        })
    }

    fn delete_all(&mut self, keys: &Batch) -> anyhow::Result<()> {
        self.write(|connection| {
            let mut statement = connection.prepare_cached(DELETE)?;
            for key in keys.keys() {
                statement.execute([key])?;
            }
            Ok(())
        })
    }

    fn scan(&mut self, from: &[u8], count: usize, out: &mut Vec<u8>) -> anyhow::Result<usize> {
        let mut statement = self.connection.prepare_cached(SCAN)?;
        let mut found = 0;
        for from in [from, &[]] {
            let mut rows = statement.query((from, (count - found) as i64))?;
            while let Some(row) = rows.next()? {
                out.extend_from_slice(row.get_ref(0)?.as_blob()?);
                found += 1;
            }
        }
        Ok(found)
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

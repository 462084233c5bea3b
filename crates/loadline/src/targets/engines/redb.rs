//! redb.

use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadableDatabase, TableDefinition, WriteTransaction};

use super::ticker::Ticker;
use super::{Batch, Handle, Open};
use crate::target::Durability;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("data");

/// A database with one table.
#[derive(Clone)]
pub(super) struct Redb {
    database: Arc<Database>,
    durability: redb::Durability,
    ticker: Option<Arc<Ticker>>,
}

impl std::fmt::Debug for Redb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redb")
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

impl Redb {
    /// Opens the database in `dir`.
    ///
    /// # Errors
    /// The error of redb.
    pub(super) fn open(dir: &Path, durability: Durability) -> anyhow::Result<Self> {
        let database = Arc::new(Database::create(dir.join("data.redb"))?);
        let table = database.begin_write()?;
        table.open_table(TABLE)?;
        table.commit()?;
        let (durability, ticker) = match durability {
            Durability::Interval(interval) => {
                let database = Arc::clone(&database);
                // A durable commit, even an empty one, makes all earlier commits durable.
                let sync = move || Ok(database.begin_write()?.commit()?);
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

    fn write(
        &self,
        change: impl FnOnce(&WriteTransaction) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if let Some(ticker) = &self.ticker {
            ticker.check()?;
        }
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(self.durability)?;
        change(&transaction)?;
        Ok(transaction.commit()?)
    }
}

impl Open for Redb {
    fn handle(&self) -> anyhow::Result<Box<dyn Handle>> {
        Ok(Box::new(self.clone()))
    }
}

impl Handle for Redb {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        let value = table.get(key)?;
        if let Some(value) = &value {
            out.extend_from_slice(value.value());
        }
        Ok(value.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        self.write(|transaction| {
            transaction.open_table(TABLE)?.insert(key, value)?;
            Ok(())
        })
    }

    fn delete(&mut self, key: &[u8]) -> anyhow::Result<()> {
        self.write(|transaction| {
            transaction.open_table(TABLE)?.remove(key)?;
            Ok(())
        })
    }

    fn get_all(&mut self, keys: &Batch, out: &mut Vec<u8>) -> anyhow::Result<usize> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        let mut found = 0;
        for key in keys.keys() {
            if let Some(value) = table.get(key)? {
                out.extend_from_slice(value.value());
                found += 1;
            }
        }
        Ok(found)
    }

    fn put_all(&mut self, pairs: &Batch) -> anyhow::Result<()> {
        self.write(|transaction| {
            let mut table = transaction.open_table(TABLE)?;
            for (key, value) in pairs.pairs() {
                table.insert(key, value)?;
            }
            Ok(())
        })
    }

    fn delete_all(&mut self, keys: &Batch) -> anyhow::Result<()> {
        self.write(|transaction| {
            let mut table = transaction.open_table(TABLE)?;
            for key in keys.keys() {
                table.remove(key)?;
            }
            Ok(())
        })
    }
}

//! LMDB, through heed.

use std::path::Path;
use std::sync::Arc;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};

use super::ticker::Ticker;
use super::{Batch, Handle, Open};
use crate::target::Durability;

/// Largest size of the map. It only takes address space; the file grows with the data.
const MAP_BYTES: usize = 64 << 30;
/// Threads that read at the same time.
const READERS: u32 = 2_048;

/// An environment with one database.
#[derive(Debug, Clone)]
pub(super) struct Lmdb {
    env: Env,
    data: Database<Bytes, Bytes>,
    ticker: Option<Arc<Ticker>>,
}

impl Lmdb {
    /// Opens the environment in `dir`, which must not be open elsewhere.
    ///
    /// # Errors
    /// The error of LMDB.
    pub(super) fn open(dir: &Path, durability: Durability) -> anyhow::Result<Self> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES).max_readers(READERS);
        // A commit writes to the page cache, so it survives the process without a sync.
        let flags = match durability {
            Durability::Always => EnvFlags::empty(),
            _ => EnvFlags::NO_SYNC,
        };
        let env = environment(options, flags, dir)?;
        let mut transaction = env.write_txn()?;
        let data = env.create_database(&mut transaction, None)?;
        transaction.commit()?;
        let ticker = match durability {
            Durability::Interval(interval) => {
                let env = env.clone();
                let sync = move || Ok(env.force_sync()?);
                Some(Arc::new(Ticker::start(interval, sync)?))
            }
            _ => None,
        };
        Ok(Self { env, data, ticker })
    }

    fn check(&self) -> anyhow::Result<()> {
        self.ticker.as_ref().map_or(Ok(()), |ticker| ticker.check())
    }
}

#[expect(
    unsafe_code,
    reason = "heed opens environments by unsafe functions only, since the map of a file that another program changes is unsound. \
              The directory is a fresh one of this run, opened once, and the flags leave locks and ordered writes as they are."
)]
fn environment(
    mut options: EnvOpenOptions,
    flags: EnvFlags,
    dir: &Path,
) -> Result<Env, heed::Error> {
    // SAFETY: the file is in a fresh directory of this run, which no other program writes to, and is opened once in
    // this process. NO_SYNC gives up durability after a power failure and no invariant of memory.
    unsafe { options.flags(flags).open(dir) }
}

impl Open for Lmdb {
    fn handle(&self) -> anyhow::Result<Box<dyn Handle>> {
        Ok(Box::new(self.clone()))
    }

    fn version(&self) -> Option<String> {
        let version = heed::lmdb_version();
        let (major, minor, patch) = (version.major, version.minor, version.patch);
        Some(format!("LMDB {major}.{minor}.{patch}"))
    }
}

impl Handle for Lmdb {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
        let transaction = self.env.read_txn()?;
        let value = self.data.get(&transaction, key)?;
        if let Some(value) = value {
            out.extend_from_slice(value);
        }
        Ok(value.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        self.check()?;
        let mut transaction = self.env.write_txn()?;
        self.data.put(&mut transaction, key, value)?;
        Ok(transaction.commit()?)
    }

    fn delete(&mut self, key: &[u8]) -> anyhow::Result<()> {
        self.check()?;
        let mut transaction = self.env.write_txn()?;
        self.data.delete(&mut transaction, key)?;
        Ok(transaction.commit()?)
    }

    fn get_all(&mut self, keys: &Batch, out: &mut Vec<u8>) -> anyhow::Result<usize> {
        let transaction = self.env.read_txn()?;
        let mut found = 0;
        for key in keys.keys() {
            if let Some(value) = self.data.get(&transaction, key)? {
                out.extend_from_slice(value);
                found += 1;
            }
        }
        Ok(found)
    }

    fn put_all(&mut self, pairs: &Batch) -> anyhow::Result<()> {
        self.check()?;
        let mut transaction = self.env.write_txn()?;
        for (key, value) in pairs.pairs() {
            self.data.put(&mut transaction, key, value)?;
        }
        Ok(transaction.commit()?)
    }

    fn delete_all(&mut self, keys: &Batch) -> anyhow::Result<()> {
        self.check()?;
        let mut transaction = self.env.write_txn()?;
        for key in keys.keys() {
            self.data.delete(&mut transaction, key)?;
        }
        Ok(transaction.commit()?)
    }
}

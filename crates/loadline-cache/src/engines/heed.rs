//! LMDB, through heed.

use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};
use loadline_store::Durability;

use super::{Engine, Ticker, failed};
use crate::Error;

/// Largest size of the map. It only takes address space; the file grows with the data.
const MAP_BYTES: usize = 64 << 30;
/// Threads that read at the same time.
const READERS: u32 = 2_048;
/// The longest key of LMDB.
const MAX_KEY_BYTES: usize = 511;

/// LMDB: an environment with one database. Reads copy from a map of the file, and a reopened environment is read at once.
#[derive(Debug, Clone)]
pub struct Lmdb {
    env: Env,
    data: Database<Bytes, Bytes>,
    ticker: Option<Arc<Ticker>>,
}

impl Lmdb {
    /// Opens the environment in `dir`, which exists. Nothing but LMDB may change its files while it is open.
    ///
    /// # Errors
    /// [`Error::Engine`]; also if it is open in this process already.
    pub fn open(dir: &Path, durability: Durability) -> Result<Self, Error> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES).max_readers(READERS);
        // A commit writes to the page cache, so it survives the process without a sync.
        let flags = match durability {
            Durability::Always => EnvFlags::empty(),
            _ => EnvFlags::NO_SYNC,
        };
        let env = environment(options, flags, dir).map_err(failed)?;
        let mut transaction = env.write_txn().map_err(failed)?;
        let data = (env.create_database(&mut transaction, None)).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        let ticker = match durability {
            Durability::Interval(interval) => {
                let env = env.clone();
                Some(Arc::new(Ticker::start(interval, move || env.force_sync())?))
            }
            _ => None,
        };
        Ok(Self { env, data, ticker })
    }
}

#[expect(
    unsafe_code,
    reason = "heed opens environments by unsafe functions only, since the map of a file that another program changes is unsound. \
              The documentation of `open` excludes that, heed opens a directory once in a process, and the flags leave locks and \
              ordered writes as they are."
)]
fn environment(
    mut options: EnvOpenOptions,
    flags: EnvFlags,
    dir: &Path,
) -> Result<Env, heed::Error> {
    // SAFETY: only LMDB changes the files, as the documentation of `open` requires, and processes lock each other out.
    // NO_SYNC gives up durability after a power failure and no invariant of memory.
    unsafe { options.flags(flags).open(dir) }
}

impl Engine for Lmdb {
    fn keeps(key: &[u8]) -> bool {
        (1..=MAX_KEY_BYTES).contains(&key.len())
    }

    fn version(&self) -> Option<String> {
        let version = heed::lmdb_version();
        let (major, minor, patch) = (version.major, version.minor, version.patch);
        Some(format!("LMDB {major}.{minor}.{patch}"))
    }

    fn read<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut visit: impl FnMut(Option<&[u8]>),
    ) -> Result<(), Error> {
        let transaction = self.env.read_txn().map_err(failed)?;
        for key in keys {
            visit(self.data.get(&transaction, key).map_err(failed)?);
        }
        Ok(())
    }

    fn write<'w>(
        &self,
        writes: impl Iterator<Item = (&'w [u8], Option<&'w [u8]>)>,
    ) -> Result<(), Error> {
        Ticker::check(self.ticker.as_deref())?;
        let mut transaction = self.env.write_txn().map_err(failed)?;
        for (key, value) in writes {
            match value {
                Some(value) => self.data.put(&mut transaction, key, value),
                None => self.data.delete(&mut transaction, key).map(|_| ()),
            }
            .map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    fn walk(
        &self,
        from: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let transaction = self.env.read_txn().map_err(failed)?;
        // LMDB has no empty keys, not even as a bound.
        let from = match from.is_empty() {
            true => Bound::Unbounded,
            false => Bound::Included(from),
        };
        let range = (from, Bound::Unbounded);
        for pair in self.data.range(&transaction, &range).map_err(failed)? {
            let (key, value) = pair.map_err(failed)?;
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

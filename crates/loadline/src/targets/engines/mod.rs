//! Engines behind one interface: those in this process, and servers through loadline-client.

mod batch;
mod contents;
#[cfg(any(
    feature = "fjall",
    feature = "heed",
    feature = "redb",
    feature = "rocksdb"
))]
mod embedded;
mod footprint;
mod map;
mod names;
mod null;
mod served;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "fjall")]
use loadline_cache::engines::Fjall;
#[cfg(feature = "heed")]
use loadline_cache::engines::Lmdb;
#[cfg(feature = "redb")]
use loadline_cache::engines::Redb;
#[cfg(feature = "rocksdb")]
use loadline_cache::engines::RocksDb;
use tempfile::TempDir;

use super::threads;
use crate::exit::Failure;
use crate::target::{CacheLimits, Choice, Durability, Engine, Kind};

pub(crate) use batch::Batch;
pub(crate) use contents::Contents;
pub(crate) use footprint::{
    Data, Filled, Reopened, measure as footprint, resident_bytes, written_bytes,
};
pub(crate) use names::Names;
pub(crate) use null::null_server;
pub(crate) use served::ServedHandle;

/// An open engine. It is closed when it and all of its handles are dropped.
pub(crate) trait Open: fmt::Debug + Send + Sync {
    /// Access for one thread.
    ///
    /// # Errors
    /// If the engine refuses it.
    fn handle(&self) -> anyhow::Result<Box<dyn Handle>>;

    /// The version of the engine, if it reports it.
    fn version(&self) -> Option<String> {
        None
    }
}

/// One thread's access to an engine. A write that returns has the durability that the engine was opened with.
///
/// # Errors
/// The error of the engine, for every function.
pub(crate) trait Handle: Send {
    /// Appends the value of `key` to `out`, and returns whether there is one.
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool>;

    /// Writes a value.
    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()>;

    /// Removes a key.
    fn delete(&mut self, key: &[u8]) -> anyhow::Result<()>;

    /// Appends the values of all keys to `out`, and returns the number of values. One transaction if the engine
    /// has transactions.
    fn get_all(&mut self, keys: &Batch, out: &mut Vec<u8>) -> anyhow::Result<usize>;

    /// Writes all pairs. One transaction if the engine has transactions.
    fn put_all(&mut self, pairs: &Batch) -> anyhow::Result<()>;

    /// Removes all keys. One transaction if the engine has transactions.
    fn delete_all(&mut self, keys: &Batch) -> anyhow::Result<()>;

    /// Appends the values of `count` keys to `out`, from `from` on in the order of the engine and from its first key behind
    /// its last one, and returns the number of values. The engine has at least as many keys.
    fn scan(&mut self, from: &[u8], count: usize, out: &mut Vec<u8>) -> anyhow::Result<usize> {
        let _ = (from, count, out);
        anyhow::bail!("a server has no call that returns keys with their values")
    }
}

/// An engine in this process, and its directory, which is removed with it.
#[derive(Debug)]
pub(crate) struct EngineAccess {
    open: Arc<dyn Open>,
    /// The threads that it has started.
    threads: Vec<u32>,
    /// Removed after the engine is closed.
    _dir: Option<TempDir>,
}

impl EngineAccess {
    /// Opens `kind` with the settings of `engine`.
    ///
    /// # Errors
    /// If its directory cannot be created, and the errors of the engine.
    pub(crate) fn open(kind: Kind, engine: &Engine) -> Result<Self, Failure> {
        let dir = directory(engine)?;
        let before = threads::own();
        let path = dir.as_ref().map_or(Path::new(""), |dir| dir.path());
        let open = open(
            kind,
            engine.durability,
            engine.cache,
            engine.memory_bytes,
            path,
        );
        let open = open.map_err(|error| fault(&engine.choice, &error))?.into();
        let mut threads = threads::own();
        threads.retain(|id| !before.contains(id));
        Ok(Self {
            open,
            threads,
            _dir: dir,
        })
    }

    /// Opens `kind` in `dir`, which exists and is not removed.
    ///
    /// # Errors
    /// The error of the engine.
    pub(crate) fn open_at(
        kind: Kind,
        durability: Durability,
        cache: Option<CacheLimits>,
        memory_bytes: Option<u64>,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            open: open(kind, durability, cache, memory_bytes, dir)?.into(),
            threads: Vec::new(),
            _dir: None,
        })
    }

    /// Starts the null server, which is called in the same way as the servers of the comparison.
    ///
    /// # Errors
    /// If no port is free.
    pub(crate) fn null(engine: &Engine) -> Result<Self, Failure> {
        Ok(Self {
            open: Arc::new(null::Null::start(engine.ttl())?),
            threads: Vec::new(),
            _dir: None,
        })
    }

    /// Access for one thread.
    ///
    /// # Errors
    /// If the engine refuses it.
    pub(crate) fn handle(&self) -> anyhow::Result<Box<dyn Handle>> {
        self.open.handle()
    }

    /// The engine, for a thread that can outlive this access. Its files are removed with this access.
    pub(crate) fn shared(&self) -> Arc<dyn Open> {
        Arc::clone(&self.open)
    }

    /// The threads that it started when it was opened.
    pub(crate) fn threads(&self) -> &[u32] {
        &self.threads
    }

    /// The version of the engine, if it reports it.
    pub(crate) fn version(&self) -> Option<String> {
        self.open.version()
    }
}

/// A fresh directory for the files of `engine`, if it has any.
///
/// # Errors
/// If it cannot be created.
pub(crate) fn directory(engine: &Engine) -> Result<Option<TempDir>, Failure> {
    if engine.durability == Durability::Memory {
        return Ok(None);
    }
    let parent = engine.parent();
    let dir = tempfile::Builder::new()
        .prefix("loadline-")
        .tempdir_in(&parent);
    dir.map(Some).map_err(|error| {
        // Its own text repeats the path, with a random name.
        let cause = error.get_ref().and_then(|inner| inner.source());
        let error = cause.map_or_else(|| error.to_string(), ToString::to_string);
        Failure::unavailable(format!(
            "{}: cannot create a directory in {}: {error}.\nName another directory with --dir.",
            engine.choice,
            parent.display()
        ))
    })
}

/// Opens `kind` in the empty directory `dir`, which an engine in memory does not need.
fn open(
    kind: Kind,
    durability: Durability,
    cache: Option<CacheLimits>,
    memory_bytes: Option<u64>,
    dir: &Path,
) -> anyhow::Result<Box<dyn Open>> {
    // Read only by the engines of some features.
    let _ = memory_bytes;
    Ok(match kind {
        Kind::Map => Box::new(map::Map::default()),
        Kind::Store => Box::new(store::OurStore::open(dir, durability, cache)?),
        #[cfg(feature = "heed")]
        Kind::Heed => embedded::open(dir, durability, Lmdb::open)?,
        #[cfg(feature = "redb")]
        Kind::Redb => embedded::open(dir, durability, |dir, durability| {
            Redb::open_with(dir, durability, memory_bytes)
        })?,
        #[cfg(feature = "fjall")]
        Kind::Fjall => embedded::open(dir, durability, |dir, durability| {
            Fjall::open_with(dir, durability, memory_bytes)
        })?,
        #[cfg(feature = "rocksdb")]
        Kind::RocksDb => embedded::open(dir, durability, |dir, durability| {
            RocksDb::open_with(dir, durability, memory_bytes)
        })?,
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => Box::new(sqlite::Sqlite::open(dir, durability, memory_bytes)?),
        #[cfg(not(all(
            feature = "fjall",
            feature = "heed",
            feature = "redb",
            feature = "rocksdb",
            feature = "sqlite"
        )))]
        other => anyhow::bail!("{} is not in this build", other.name()),
    })
}

/// Converts the error of an engine into a failure.
pub(crate) fn fault(choice: &Choice, error: &anyhow::Error) -> Failure {
    let said = described(error);
    Failure::unavailable(format!("{choice}: {}.", said.trim_end_matches('.')))
}

/// The error with its causes. The texts of some errors end with that of their cause already.
pub(crate) fn described(error: &anyhow::Error) -> String {
    let mut said = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !said.ends_with(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

#[cfg(test)]
mod tests;

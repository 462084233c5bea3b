//! Engines and servers as key-value stores of loadline-cache.

mod contents;
mod footprint;
mod keys;
mod map;
mod names;
mod null;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "rocksdb")]
use loadline_cache::engines::RocksDb;
use loadline_cache::engines::{EngineStore, Fjall, Lmdb, Redb};
use loadline_cache::{Error, KeyValue};
use loadline_store::{Options, Store};
use tempfile::TempDir;

use super::threads;
use crate::exit::Failure;
use crate::spelling::{CacheLimits, Choice, Durability, Engine, Kind};

pub(crate) use contents::Contents;
pub(crate) use footprint::{
    Data, Filled, Reopened, measure as footprint, resident_bytes, written_bytes,
};
pub(crate) use keys::Keys;
pub(crate) use names::Names;

/// Opens access to a store for one thread. The store is closed when this function and all that it has opened are dropped.
pub(crate) type Connect = Arc<dyn Fn() -> Result<Arc<dyn KeyValue>, Error> + Send + Sync>;

/// An engine in this process, and its directory, which is removed with it.
pub(crate) struct EngineAccess {
    connect: Connect,
    version: Option<String>,
    /// The threads that it has started.
    threads: Vec<u32>,
    /// Removed after the engine is closed.
    _dir: Option<TempDir>,
}

impl fmt::Debug for EngineAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineAccess")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
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
        let (durability, memory_bytes) = (engine.durability, engine.memory_bytes);
        let opened = Self::open_at(kind, durability, engine.cache, memory_bytes, path);
        let mut opened = opened.map_err(|error| fault(&engine.choice, &*error))?;
        opened.threads = threads::own();
        opened.threads.retain(|id| !before.contains(id));
        opened._dir = dir;
        Ok(opened)
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
        let (connect, version) = open(kind, durability, cache, memory_bytes, dir)?;
        Ok(Self {
            connect,
            version,
            threads: Vec::new(),
            _dir: None,
        })
    }

    /// Starts the null server, which is called in the same way as the servers of the comparison.
    ///
    /// # Errors
    /// If no port is free.
    pub(crate) fn null() -> Result<Self, Failure> {
        Ok(Self {
            connect: null::start()?,
            version: None,
            threads: Vec::new(),
            _dir: None,
        })
    }

    /// Opens access for one thread.
    ///
    /// # Errors
    /// If the engine refuses it.
    pub(crate) fn connect(&self) -> Result<Arc<dyn KeyValue>, Error> {
        (self.connect)()
    }

    /// The engine, for a thread that can outlive this access. Its files are removed with this access.
    pub(crate) fn shared(&self) -> Connect {
        Arc::clone(&self.connect)
    }

    /// The threads that it started when it was opened.
    pub(crate) fn threads(&self) -> &[u32] {
        &self.threads
    }

    /// The version of the engine, if it reports it.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
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

/// Opens `kind` in the empty directory `dir`, which an engine in memory does not need. Returns the engine and its version, if it
/// reports it.
fn open(
    kind: Kind,
    durability: Durability,
    cache: Option<CacheLimits>,
    memory_bytes: Option<u64>,
    dir: &Path,
) -> anyhow::Result<(Connect, Option<String>)> {
    // Read only by the engines of some features.
    let _ = memory_bytes;
    let class = match durability {
        Durability::Memory | Durability::Process => loadline_store::Durability::Process,
        Durability::Interval(interval) => loadline_store::Durability::Interval(interval),
        Durability::Always => loadline_store::Durability::Always,
    };
    Ok(match kind {
        Kind::Map => (shared(map::Map::default()), None),
        Kind::Ram => (shared(Store::in_memory(Options::new())), None),
        Kind::Store => {
            let options =
                cache.map_or_else(Options::new, |cache| Options::cache(cache.keys, cache.ttl));
            let store = match durability {
                Durability::Memory => Store::in_memory(options),
                _ => Store::open(dir, options.durability(class))?,
            };
            (shared(store), None)
        }
        Kind::Heed => bare(Lmdb::open(dir, class)?),
        Kind::Redb => bare(Redb::open_with(dir, class, memory_bytes)?),
        Kind::Fjall => bare(Fjall::open_with(dir, class, memory_bytes)?),
        #[cfg(feature = "rocksdb")]
        Kind::RocksDb => bare(RocksDb::open_with(dir, class, memory_bytes)?),
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => {
            let sqlite = sqlite::Sqlite::open(dir, class, memory_bytes)?;
            let connect: Connect =
                Arc::new(move || Ok(Arc::new(EngineStore::bare(sqlite.connect()?))));
            (connect, Some(sqlite::Sqlite::version()))
        }
        #[cfg(not(all(feature = "rocksdb", feature = "sqlite")))]
        other => anyhow::bail!("{} is not in this build", other.name()),
    })
}

/// A store that all threads share.
fn shared(store: impl KeyValue + 'static) -> Connect {
    let store: Arc<dyn KeyValue> = Arc::new(store);
    Arc::new(move || Ok(Arc::clone(&store)))
}

/// An engine that all threads share, without what a cache adds to it.
fn bare(engine: impl loadline_cache::engines::Engine) -> (Connect, Option<String>) {
    let version = engine.version();
    (shared(EngineStore::bare(engine)), version)
}

/// Appends the values of `count` keys to `out`, from `from` on in the order of the store and from its first key behind its last
/// one, and returns the number of values. The store has at least as many keys.
///
/// # Errors
/// The error of the store.
pub(crate) fn scan(
    store: &dyn KeyValue,
    from: &[u8],
    count: usize,
    out: &mut Vec<u8>,
) -> Result<usize, Error> {
    let mut append = |_: &[u8], value: &[u8]| out.extend_from_slice(value);
    let found = store.scan_from(from, count, &mut append)?;
    Ok(found + store.scan_from(&[], count - found, &mut append)?)
}

/// Converts the error of an engine into a failure.
pub(crate) fn fault(choice: &Choice, error: &(dyn std::error::Error + 'static)) -> Failure {
    let said = described(error);
    Failure::unavailable(format!("{choice}: {}.", said.trim_end_matches('.')))
}

/// The error with its causes. The texts of some errors end with that of their cause already.
pub(crate) fn described(error: &(dyn std::error::Error + 'static)) -> String {
    let mut said = error.to_string();
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    for cause in causes.map(ToString::to_string) {
        if !said.ends_with(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

#[cfg(test)]
mod tests;

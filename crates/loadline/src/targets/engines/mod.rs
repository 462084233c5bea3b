//! Engines that are called: the ones in this process behind one interface, and servers through loadline-client
//! behind the same one.

mod batch;
mod contents;
#[cfg(feature = "fjall")]
mod fjall;
mod footprint;
#[cfg(feature = "heed")]
mod heed;
mod map;
mod names;
mod null;
#[cfg(feature = "redb")]
mod redb;
mod served;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
#[cfg(any(
    feature = "fjall",
    feature = "heed",
    feature = "redb",
    feature = "sqlite"
))]
mod ticker;

use std::fmt;
use std::path::Path;

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
pub(crate) use served::ServedHandle;

/// An engine that is open. It is closed when it and all of its handles are gone.
pub(crate) trait Open: fmt::Debug + Send + Sync {
    /// Access for one thread.
    ///
    /// # Errors
    /// That the engine refuses it.
    fn handle(&self) -> anyhow::Result<Box<dyn Handle>>;

    /// The version of the engine, where it tells.
    fn version(&self) -> Option<String> {
        None
    }
}

/// One thread's access to an engine. A write that returns has the durability that the engine was opened with.
///
/// # Errors
/// What the engine says, of every function.
pub(crate) trait Handle: Send {
    /// Appends the value of `key` to `out`, and says whether there is one.
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool>;

    /// Writes a value.
    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()>;

    /// Removes a key.
    fn delete(&mut self, key: &[u8]) -> anyhow::Result<()>;

    /// Appends the values of all keys to `out`, and says how many there are: one transaction where the engine has them.
    fn get_all(&mut self, keys: &Batch, out: &mut Vec<u8>) -> anyhow::Result<usize>;

    /// Writes all pairs: one transaction where the engine has them.
    fn put_all(&mut self, pairs: &Batch) -> anyhow::Result<()>;

    /// Removes all keys: one transaction where the engine has them.
    fn delete_all(&mut self, keys: &Batch) -> anyhow::Result<()>;
}

/// An engine in this process, and its directory, which is removed with it.
#[derive(Debug)]
pub(crate) struct EngineAccess {
    open: Box<dyn Open>,
    /// The threads that it has started.
    threads: Vec<u32>,
    /// Removed after the engine is closed.
    _dir: Option<TempDir>,
}

impl EngineAccess {
    /// Opens `kind` as `engine` says.
    ///
    /// # Errors
    /// That its directory cannot be made, or what the engine says.
    pub(crate) fn open(kind: Kind, engine: &Engine) -> Result<Self, Failure> {
        let dir = directory(engine)?;
        let before = threads::own();
        let path = dir.as_ref().map_or(Path::new(""), |dir| dir.path());
        let open = open(kind, engine.durability, engine.cache, path);
        let open = open.map_err(|error| fault(&engine.choice, &error))?;
        let mut threads = threads::own();
        threads.retain(|id| !before.contains(id));
        Ok(Self {
            open,
            threads,
            _dir: dir,
        })
    }

    /// Opens `kind` in `dir`, which exists and stays.
    ///
    /// # Errors
    /// What the engine says.
    pub(crate) fn open_at(
        kind: Kind,
        durability: Durability,
        cache: Option<CacheLimits>,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            open: open(kind, durability, cache, dir)?,
            threads: Vec::new(),
            _dir: None,
        })
    }

    /// Starts the null server, which is called like the servers of the same comparison.
    ///
    /// # Errors
    /// That there is no free port.
    pub(crate) fn null(engine: &Engine) -> Result<Self, Failure> {
        Ok(Self {
            open: Box::new(null::Null::start(engine.ttl())?),
            threads: Vec::new(),
            _dir: None,
        })
    }

    /// Access for one thread.
    ///
    /// # Errors
    /// That the engine refuses it.
    pub(crate) fn handle(&self) -> anyhow::Result<Box<dyn Handle>> {
        self.open.handle()
    }

    /// The threads that it has started when it was opened.
    pub(crate) fn threads(&self) -> &[u32] {
        &self.threads
    }

    /// The version of the engine, where it tells.
    pub(crate) fn version(&self) -> Option<String> {
        self.open.version()
    }
}

/// A fresh directory for the files of `engine`, where it has any.
///
/// # Errors
/// That there can be none.
pub(crate) fn directory(engine: &Engine) -> Result<Option<TempDir>, Failure> {
    if engine.durability == Durability::Memory {
        return Ok(None);
    }
    let parent = engine.parent();
    let dir = tempfile::Builder::new()
        .prefix("loadline-")
        .tempdir_in(&parent);
    dir.map(Some).map_err(|error| {
        Failure::unavailable(format!(
            "{}: cannot create a directory in {}: {error}.\nName another directory with --dir.",
            engine.choice,
            parent.display()
        ))
    })
}

/// Opens `kind` in the empty directory `dir`, which it does not need in memory.
fn open(
    kind: Kind,
    durability: Durability,
    cache: Option<CacheLimits>,
    dir: &Path,
) -> anyhow::Result<Box<dyn Open>> {
    Ok(match kind {
        Kind::Map => Box::new(map::Map::default()),
        Kind::Store => Box::new(store::OurStore::open(dir, durability, cache)?),
        #[cfg(feature = "heed")]
        Kind::Heed => Box::new(heed::Lmdb::open(dir, durability)?),
        #[cfg(feature = "redb")]
        Kind::Redb => Box::new(redb::Redb::open(dir, durability)?),
        #[cfg(feature = "fjall")]
        Kind::Fjall => Box::new(fjall::Fjall::open(dir, durability)?),
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => Box::new(sqlite::Sqlite::open(dir, durability)?),
        #[cfg(not(all(
            feature = "fjall",
            feature = "heed",
            feature = "redb",
            feature = "sqlite"
        )))]
        other => anyhow::bail!("{} is not in this build", other.name()),
    })
}

/// What an engine said, as an error of the program.
pub(crate) fn fault(choice: &Choice, error: &anyhow::Error) -> Failure {
    let said = format!("{error:#}");
    Failure::unavailable(format!("{choice}: {}.", said.trim_end_matches('.')))
}

#[cfg(test)]
mod tests;

//! Embedded engines behind one interface: LMDB, redb, fjall and RocksDB, each with one table of bytes by key in a directory.
//!
//! A cache names them by a URL, such as `heed:DIR` ([`open`](crate::open)), and keeps its values with their expiry. This
//! module opens the engines themselves. An [`EngineStore`] is a [`KeyValue`] over one of them, or over any other [`Engine`].

#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "heed")]
mod heed;
mod kept;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod ticker;

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::path::PathBuf;

use loadline_store::Durability;

#[cfg(feature = "fjall")]
#[cfg_attr(docsrs, doc(cfg(feature = "fjall")))]
pub use self::fjall::Fjall;
#[cfg(feature = "heed")]
#[cfg_attr(docsrs, doc(cfg(feature = "heed")))]
pub use self::heed::Lmdb;
pub use self::kept::EngineStore;
#[cfg(feature = "redb")]
#[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
pub use self::redb::Redb;
#[cfg(feature = "rocksdb")]
#[cfg_attr(docsrs, doc(cfg(feature = "rocksdb")))]
pub use self::rocksdb::RocksDb;
pub use self::ticker::Ticker;
use crate::{Error, KeyValue};

/// One table of bytes by key. A write that returns has the durability that the engine was opened with.
pub trait Engine: Debug + Send + Sync + 'static {
    /// Whether the engine can keep keys like this one.
    fn keeps(key: &[u8]) -> bool;

    /// The version of the engine, if it reports it.
    fn version(&self) -> Option<String> {
        None
    }

    /// Shows `visit` the value of each key, in the order of the keys. All are of one snapshot if the engine has snapshots.
    ///
    /// # Errors
    /// [`Error::Engine`].
    fn read<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        visit: impl FnMut(Option<&[u8]>),
    ) -> Result<(), Error>;

    /// Writes the value of each key, or removes the key where there is none, in one transaction.
    ///
    /// # Errors
    /// [`Error::Engine`].
    fn write<'w>(
        &self,
        writes: impl Iterator<Item = (&'w [u8], Option<&'w [u8]>)>,
    ) -> Result<(), Error>;

    /// Writes or removes one key.
    ///
    /// # Errors
    /// [`Error::Engine`].
    fn write_one(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        self.write(std::iter::once((key, value)))
    }

    /// Shows `visit` the keys from `from` on in their order, with their values, until it breaks. `visit` must not call
    /// this engine.
    ///
    /// # Errors
    /// [`Error::Engine`].
    fn walk(
        &self,
        from: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error>;
}

/// Converts the error of an engine.
pub(crate) fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Engine(error.into())
}

/// An engine and the directory of its files.
#[derive(Debug, Clone)]
pub(crate) struct EngineAt {
    kind: Kind,
    dir: PathBuf,
    durability: Durability,
}

/// The engines of this build.
#[derive(Debug, Clone, Copy)]
enum Kind {
    #[cfg(feature = "fjall")]
    Fjall,
    #[cfg(feature = "heed")]
    Lmdb,
    #[cfg(feature = "redb")]
    Redb,
    #[cfg(feature = "rocksdb")]
    RocksDb,
}

impl EngineAt {
    /// The engine that URLs call `name`, if it is in this build.
    pub(crate) fn named(name: &str, dir: PathBuf, durability: Durability) -> Option<Self> {
        let kind = match name {
            #[cfg(feature = "fjall")]
            "fjall" => Some(Kind::Fjall),
            #[cfg(feature = "heed")]
            "heed" => Some(Kind::Lmdb),
            #[cfg(feature = "redb")]
            "redb" => Some(Kind::Redb),
            #[cfg(feature = "rocksdb")]
            "rocksdb" => Some(Kind::RocksDb),
            _ => None,
        };
        Some(Self {
            kind: kind?,
            dir,
            durability,
        })
    }

    pub(crate) fn keeps(&self, key: &[u8]) -> bool {
        let _ = key;
        match self.kind {
            #[cfg(feature = "fjall")]
            Kind::Fjall => Fjall::keeps(key),
            #[cfg(feature = "heed")]
            Kind::Lmdb => Lmdb::keeps(key),
            #[cfg(feature = "redb")]
            Kind::Redb => Redb::keeps(key),
            #[cfg(feature = "rocksdb")]
            Kind::RocksDb => RocksDb::keeps(key),
        }
    }

    /// Whether a write waits for the disk.
    #[cfg(feature = "tokio")]
    pub(crate) fn waits(&self) -> bool {
        match self.kind {
            #[cfg(feature = "redb")]
            Kind::Redb => !matches!(self.durability, Durability::Interval(_)),
            #[cfg(any(feature = "fjall", feature = "heed", feature = "rocksdb"))]
            _ => self.durability == Durability::Always,
        }
    }

    /// Opens it as a store. The directory is created.
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub(crate) fn open(&self) -> Result<Box<dyn KeyValue>, Error> {
        let (dir, durability) = (&self.dir, self.durability);
        std::fs::create_dir_all(dir).map_err(failed)?;
        let _ = durability;
        match self.kind {
            #[cfg(feature = "fjall")]
            Kind::Fjall => Ok(Box::new(EngineStore::new(Fjall::open(dir, durability)?))),
            #[cfg(feature = "heed")]
            Kind::Lmdb => Ok(Box::new(EngineStore::new(Lmdb::open(dir, durability)?))),
            #[cfg(feature = "redb")]
            Kind::Redb => Ok(Box::new(EngineStore::new(Redb::open(dir, durability)?))),
            #[cfg(feature = "rocksdb")]
            Kind::RocksDb => Ok(Box::new(EngineStore::new(RocksDb::open(dir, durability)?))),
        }
    }
}

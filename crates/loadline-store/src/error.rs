//! Errors of opening and using a store.

use std::io;
use std::path::{Path, PathBuf};

/// An error of a [`Store`](crate::Store).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The key holds a set, a hash or a list.
    #[error("the key holds a {kind}, not a string")]
    NotAString {
        /// The kind of the value, as `TYPE` names it.
        kind: &'static str,
    },
    /// A key or a write is longer than the log can hold.
    #[error("{bytes} bytes are more than the {max_bytes} that fit")]
    TooLarge {
        /// Bytes of the key or the write.
        bytes: usize,
        /// Bytes that fit.
        max_bytes: usize,
    },
    /// A store in the directory is open, here or in another process.
    #[error("{} is in use{}", path.display(), by(*pid))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that has it open, where the lock file names it.
        pid: Option<u32>,
    },
    /// There is no store in the directory, and none is to be made.
    #[error("{}: {reason}", path.display())]
    NoStore {
        /// The directory.
        path: PathBuf,
        /// The missing part, in words.
        reason: &'static str,
    },
    /// A file was written by a version of the format that this build does not read.
    #[error("{} has version {version} of the format; this build reads versions 1 to {}", path.display(), crate::log::VERSION)]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// Data that had reached the disk is damaged or missing.
    #[error("{} is damaged at byte {offset}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset of the first byte that is wrong.
        offset: u64,
        /// The reason.
        reason: &'static str,
    },
    /// The store holds as much as its options allow, and is to remove nothing ([`AtLimit::Refuse`](crate::AtLimit)).
    #[error("the store holds as many keys or bytes as its options allow")]
    AtLimit,
    /// The disk has no room for the write, after all garbage was reclaimed. The store can be read, keys can be deleted, and
    /// writes succeed when there is room again.
    #[error("no room on the disk: {source}")]
    Full {
        /// The error of the operating system.
        source: io::Error,
    },
    /// A write or a sync has failed before. What is on the disk is uncertain until the store is opened again.
    #[error("the log has failed and takes no writes until the store is opened again: {reason}")]
    Failed {
        /// The first error.
        reason: String,
    },
    /// The store was opened for reading only ([`Store::open_read_only`](crate::Store::open_read_only)).
    #[error("the store is open for reading only")]
    ReadOnly,
    /// The operating system refused an operation on a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

fn by(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" by process {pid}"))
}

impl Error {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

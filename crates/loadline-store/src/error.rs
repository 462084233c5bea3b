//! Why a store cannot be opened or used.

use std::io;
use std::path::PathBuf;

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
    /// The operating system refused an operation on a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

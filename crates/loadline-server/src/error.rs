//! Errors of the server.

use std::io;
use std::net::SocketAddr;

/// An error that keeps a server from starting or running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of users that cannot be read.
    #[error("cannot read the users in {path}: {why}")]
    Users {
        /// The path of the file.
        path: String,
        /// The reason, with the line.
        why: String,
    },
    /// An address without a password that other machines can reach.
    #[error("{address} can be reached from other machines, so it needs a password")]
    Unprotected {
        /// The address.
        address: SocketAddr,
    },
    /// No address or socket to listen on.
    #[error("a server needs an address or a socket to listen on")]
    Nowhere,
    /// Listening on an address or path failed.
    #[error("cannot listen on {place}: {source}")]
    Listen {
        /// The address or the path.
        place: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The log could not be opened or written.
    #[error(transparent)]
    Log(#[from] loadline_store::Error),
    /// An operation that the event loop needs failed.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::System {
            what,
            source: errno.into(),
        }
    }
}

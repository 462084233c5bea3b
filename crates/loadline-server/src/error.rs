//! Why a server cannot start or go on.

use std::io;
use std::net::SocketAddr;

/// An error that keeps a server from starting or running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address that other machines can reach, without a password.
    #[error("{address} can be reached from other machines, so it needs a password")]
    Unprotected {
        /// The address.
        address: SocketAddr,
    },
    /// No address or socket to listen on.
    #[error("a server needs an address or a socket to listen on")]
    Nowhere,
    /// An address or a path cannot be listened on.
    #[error("{place} cannot be listened on: {source}")]
    Listen {
        /// The address or the path.
        place: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The operating system refused something that the event loop needs.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What came back.
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

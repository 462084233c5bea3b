//! Errors while a load is prepared or run.

use std::io;
use std::time::Duration;

/// An error while a load is prepared or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value of the plan is invalid.
    #[error("{0}")]
    Plan(String),
    /// A connection could not be opened.
    #[error("connection {index} of {wanted} could not be opened: {source}")]
    Connect {
        /// Position of the connection, from 1.
        index: usize,
        /// The requested number of connections.
        wanted: usize,
        /// The error of the operating system or the handshake.
        source: io::Error,
    },
    /// Every connection was lost before the block ended.
    #[error("all {connections} connections were lost; the last one said: {reason}")]
    AllLost {
        /// The number of connections.
        connections: usize,
        /// The error of the last connection.
        reason: String,
    },
    /// No reply arrived for [`RESPONSE_TIMEOUT`](crate::block::RESPONSE_TIMEOUT) while operations waited.
    #[error("no answer within {} s, while {in_flight} operations waited", waited.as_secs())]
    Silent {
        /// The time without a reply.
        waited: Duration,
        /// The number of waiting operations.
        in_flight: u64,
    },
    /// An operation that the loop needs failed.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The subject refused or broke a block.
    #[error("{0}")]
    Subject(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Adds the name of the system call to an error of the operating system.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::System {
            what,
            source: errno.into(),
        }
    }
}

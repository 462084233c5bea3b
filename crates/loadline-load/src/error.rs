//! What can go wrong while a load is prepared or driven.

use std::io;
use std::time::Duration;

/// Why a load could not be prepared or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value of the plan is outside what can be.
    #[error("{0}")]
    Plan(String),
    /// A connection could not be opened.
    #[error("connection {index} of {wanted} could not be opened: {source}")]
    Connect {
        /// Position of the connection, from 1.
        index: usize,
        /// How many connections were asked for.
        wanted: usize,
        /// What the operating system or the handshake said.
        source: io::Error,
    },
    /// Every connection was lost before the block ended.
    #[error("all {connections} connections were lost; the last one said: {reason}")]
    AllLost {
        /// How many connections there were.
        connections: usize,
        /// Why the last one ended.
        reason: String,
    },
    /// Nothing has arrived for [`RESPONSE_TIMEOUT`](crate::block::RESPONSE_TIMEOUT), while operations
    /// waited.
    #[error("no answer within {} s, while {in_flight} operations waited", waited.as_secs())]
    Silent {
        /// For how long.
        waited: Duration,
        /// Operations that waited.
        in_flight: u64,
    },
    /// The operating system refused something that the loop needs.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What came back.
        source: io::Error,
    },
    /// The subject refused or broke a block.
    #[error("{0}")]
    Subject(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Names the system call behind an error of the operating system.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::System {
            what,
            source: errno.into(),
        }
    }
}

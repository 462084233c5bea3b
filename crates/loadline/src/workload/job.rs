//! Cases that are more than commands sent over and over on open connections.

use std::fmt;
use std::sync::Arc;

use loadline_client::blocking::Socket;
use loadline_client::{Client, Error};
use loadline_load::runner::Subject;

use crate::exit::Failure;
use crate::spelling::Server;

/// Work of a case through `loadline-client`, as an application would do it.
pub(crate) trait Job: fmt::Debug + Sync {
    /// Description, as a phrase for the plan.
    fn description(&self) -> &'static str;

    /// Redis commands that it sends in addition to those of the workload's operations, in capitals.
    fn needs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Connections that are open at once.
    fn connections(&self) -> u32 {
        1
    }

    /// Operations that one call performs.
    fn batch(&self) -> u32 {
        1
    }

    /// The most operations of a block; `None` where there is no such bound.
    fn most_per_block(&self) -> Option<u64> {
        None
    }

    /// Whether there is a steady state to warm up to.
    fn warms_up(&self) -> bool {
        true
    }

    /// Whether it measures making connections: it then touches no keys, and new connections are not a
    /// flaw of the measurement.
    fn makes_connections(&self) -> bool {
        false
    }

    /// Whether it works over TLS.
    fn works_over_tls(&self) -> bool {
        true
    }

    /// Opens what performs it on a server.
    ///
    /// # Errors
    /// If a connection or another resource cannot be opened.
    fn open<'s>(&self, site: Site<'s>) -> Result<OpenJob<'s>, Failure>;
}

/// Surroundings of a job.
pub(crate) struct Site<'s> {
    /// Makes connections to the server, through a link where there is one.
    pub(crate) client: Client,
    /// The same server.
    pub(crate) server: &'s Server,
    /// Opens a bare socket to it, past the greeting.
    pub(crate) socket: OpenSocket,
    /// The prefix of all keys of the case.
    pub(crate) prefix: String,
}

/// Opens a socket.
pub(crate) type OpenSocket = Arc<dyn Fn() -> Result<Socket, Error> + Send + Sync>;

/// A job on a server.
pub(crate) enum OpenJob<'s> {
    /// Is called again and again, and each call is timed.
    Calls(Box<dyn Calls>),
    /// Measures whole blocks by itself.
    Blocks(Box<dyn Subject + 's>),
}

/// An open job, call by call.
pub(crate) trait Calls: Send {
    /// Prepares the state that the next call starts from. Not timed. Errors show when the call is
    /// performed.
    fn arm(&mut self) {}

    /// Performs one call with the keys and values in `pairs`. Timed.
    ///
    /// # Errors
    /// The error, in a sentence that starts with a word for its kind.
    fn perform(&mut self, pairs: &[(String, Vec<u8>)]) -> Result<(), String>;
}

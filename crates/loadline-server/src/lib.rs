//! The Loadline store served over RESP2 and RESP3, for the commands that the store supports.
//!
//! One thread runs one event loop: it reads every readable connection, executes all complete requests, and
//! sends the replies of a turn with one write per connection. Unknown commands get the same error as from
//! Redis. Supported are strings, bits, HyperLogLogs, sets, sorted sets, hashes, lists, streams, pub/sub, scripts, commands that
//! wait for keys, and a log in a directory ([`ServerConfig::dir`]).
//!
//! The tests compare the replies with those of redis-server 7.0, byte by byte, for a fixed list of commands
//! and for random ones. Anything outside these tests can differ.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use loadline_server::{Listen, Server, ServerConfig};
//!
//! let config = ServerConfig { listen: vec![Listen::Tcp(([127, 0, 0, 1], 0).into())], ..ServerConfig::default() };
//! let mut server = Server::bind(config)?;
//! println!("{:?}", server.local_addrs());
//! server.run(&AtomicBool::new(false))?;
//! # Ok::<(), loadline_server::Error>(())
//! ```

mod acl;
mod announce;
mod buffer;
mod catalogue;
mod commands;
mod connection;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod listen;
mod long_script;
mod lookahead;
mod memory;
mod migration;
mod monitor;
mod notify;
mod others;
mod peer;
mod persistence;
mod pubsub;
mod server;
mod session;
mod settings;
mod slow;
#[cfg(feature = "slowdown")]
mod slowdown;
mod state;
mod stats;
mod stream;
mod tls;
mod tracking;
mod waiting;
mod waker;

/// The version of Redis that the replies follow. Clients use it to decide which commands they can send.
const REDIS_VERSION: &str = "7.0.15";

pub use commands::{dumped, library_name, restored};
pub use error::Error;
pub use listen::{Listen, ServerConfig};
pub use loadline_store::Durability;
pub use server::Server;
pub use settings::{DebugCommand, Eviction};
#[cfg(feature = "slowdown")]
pub use slowdown::Slowdown;
pub use tls::{ClientCertificates, Tls, TlsFiles};

/// The number of the database of a log that holds the libraries of functions, by name.
pub const FUNCTION_DATABASE: usize = state::OWN_DATABASE;

/// Whether the server supports the command `name`, in any case.
#[must_use]
pub fn knows(name: &[u8]) -> bool {
    commands::knows(name)
}

//! The Loadline store served over RESP2 and RESP3: what Redis clients expect, for the commands that
//! the store has.
//!
//! One thread and one event loop: every readable connection is read, all complete requests are
//! executed, and the replies of a turn go out with one write. Commands that are not there are answered
//! as Redis answers unknown ones. It is no Redis: lists, sorted sets, streams, pub/sub, scripts and
//! persistence are not in it.
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

mod buffer;
mod commands;
mod connection;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod listen;
mod server;
mod settings;
mod state;
mod stats;

/// The version of Redis whose replies these are. Clients decide by it what they may send.
const REDIS_VERSION: &str = "7.0.15";

pub use error::Error;
pub use listen::{Listen, ServerConfig};
pub use server::Server;

/// Whether the server has the command called `name`, in whatever case.
#[must_use]
pub fn knows(name: &[u8]) -> bool {
    commands::names().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

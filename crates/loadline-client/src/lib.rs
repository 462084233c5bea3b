//! A client for Redis and what speaks its protocol, and an honest one: a write that the server may have
//! executed is never silently sent again.
//!
//! There is one definition of each command ([`commands`]), which every kind of connection runs, alone or
//! as a pipeline with a result for each. [`blocking::Connection`] is one socket for one thread.
//! `multiplexed::Connection` (feature `tokio`) is one socket for any number of tasks, whose requests are
//! written together; `multiplexed::Dedicated` is one for a single owner, which may wait at the server or
//! watch keys. The main type is [`Client`], which makes them all. [`cluster`] is for Redis Cluster: each
//! command goes to the node that serves its keys. `pubsub::PubSub` and [`blocking::PubSub`] receive what is
//! published, and the readers of [`streams`] what is in one, alone or as a consumer of a group; they go on after
//! an outage, and announce what was missed.
//!
//! It is not an object mapper, and it hides no round trip: what is not in one request is not in one write.
//! Which requests are sent again when a connection breaks, and what a caller sees of the others, is written
//! down in `docs/delivery.md`.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `tokio` | the multiplexed connections, `cluster::Cluster`, `pool::Pool`, which lends connections, `pubsub::PubSub`, `streams::StreamReader` and `streams::GroupReader` |
//! | `tls` | `rediss://`, by rustls |
//! | `metrics` | counts, errors and response times by command: `Client::metrics` |
//! | `tracing` | events of connections for the `tracing` crate |
//!
//! ```no_run
//! use loadline_client::commands::{get, incr, set};
//! use loadline_client::{Client, Error};
//!
//! let mut connection = Client::open("redis://localhost")?.blocking()?;
//! connection.run(set("greeting", "hello"))?;
//! let greeting: String = connection.run(get("greeting"))?;
//! let (name, visits) = connection.run((get::<Option<String>>("name"), incr("visits")));
//! assert_eq!((name?, visits?), (None, 1));
//! # Ok::<(), Error>(())
//! ```

#![forbid(unsafe_code)]

mod args;
pub mod blocking;
mod client;
pub mod cluster;
pub mod commands;
mod config;
mod conn;
mod error;
mod flags;
mod from_reply;
#[cfg(all(fuzzing, feature = "tokio"))]
pub mod fuzzing;
mod lending;
mod meter;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "tokio")]
pub mod multiplexed;
#[cfg(feature = "tokio")]
pub mod pool;
pub mod pubsub;
mod request;
mod scan;
pub mod streams;
#[cfg(feature = "tls")]
mod tls;
mod transaction;

pub use args::{Arg, ArgWriter, ToArgs};
pub use client::{Builder, Client};
pub use config::{Address, Config, Password};
pub use error::{Error, ServerError};
pub use flags::{Flags, Keys, Meta, RetryPolicy};
pub use from_reply::FromReply;
pub use loadline_resp::{Limits, OwnedReply, Protocol, Reply};
#[cfg(feature = "metrics")]
pub use metrics::{CommandMetrics, Metrics, ResponseTimes};
pub use request::{Cmd, Command, Replies, Request, Requests, cmd};
pub use scan::Scan;
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsStream};
pub use transaction::{Atomic, atomic};

//! A Redis client, blocking and asynchronous, that never silently sends a write again that the server may
//! have executed.
//!
//! [`Client`] opens all connections. [`blocking::Connection`] is one socket for one thread.
//! `multiplexed::Connection` (feature `tokio`) is one socket for any number of tasks, whose requests are
//! written together. `multiplexed::Dedicated` has a single owner, which can block at the server or watch keys;
//! `pool::Pool` lends such connections. [`cluster`] is for Redis Cluster: each command goes to the node that
//! serves its keys. With [`sentinel`], all connections go to the present master of a name. `pubsub::PubSub` and [`blocking::PubSub`] receive published messages, and the readers of
//! [`streams`] the entries of a stream, alone or as a consumer of a group. With [`tracking`], an application learns which
//! keys have changed, for a cache of its own. They continue after an outage and announce what was missed.
//!
//! The commands are the functions of [`commands`], their options methods, and [`cmd`] is for any other. Every kind of connection runs them,
//! alone, as a pipeline with a result for each, or as a transaction ([`atomic`]).
//!
//! It is not an object mapper, and it hides no round trip: only commands of one request share one write.
//! `docs/delivery.md` has the rules for requests whose connection breaks.
//!
//! | feature | adds |
//! | --- | --- |
//! | `tokio` | the multiplexed connections, `cluster::Cluster`, `pool::Pool`, `pubsub::PubSub`, `streams::StreamReader` and `streams::GroupReader` |
//! | `cache` | `caching::ReadCache`, `get_cached`: replies in memory that the server's notices keep current |
//! | `tls` | `rediss://`, by rustls |
//! | `metrics` | counts, errors and response times per command: `Client::metrics` |
//! | `opentelemetry` | `Telemetry`: a span and a duration for each request |
//! | `serde` | `Json`, `Serde`, `to_json`, `to_fields`: types with serde's traits as values and replies |
//! | `testing` | `testing::FakeServer`, a server for the tests of an application |
//! | `tracing` | events of connections for the `tracing` crate |
//!
//! ```
//! use loadline_client::commands::{get, incr, set};
//! use loadline_client::{Client, Error};
//!
//! let url = "redis://localhost";
//! # let url = &include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/server.rs"));
//! let mut connection = Client::open(url)?.blocking()?;
//! connection.run(set("greeting", "hello"))?;
//! let greeting: String = connection.run(get("greeting"))?;
//! assert_eq!(greeting, "hello");
//! let (name, visits) = connection.run((get::<Option<String>>("name"), incr("visits")));
//! assert_eq!((name?, visits?), (None, 1));
//! # Ok::<(), Error>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod address;
mod args;
pub mod blocking;
#[cfg(feature = "cache")]
#[cfg_attr(docsrs, doc(cfg(feature = "cache")))]
pub mod caching;
mod client;
pub mod cluster;
pub mod commands;
mod config;
mod conn;
mod credentials;
mod error;
mod events;
mod facts;
mod flags;
mod from_reply;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod lending;
mod meter;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub mod multiplexed;
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub mod pool;
pub mod pubsub;
mod request;
mod scan;
pub mod sentinel;
pub mod streams;
#[cfg(feature = "opentelemetry")]
mod telemetry;
#[cfg(feature = "testing")]
#[cfg_attr(docsrs, doc(cfg(feature = "testing")))]
pub mod testing;
#[cfg(feature = "tls")]
mod tls;
pub mod tracking;
mod transaction;
#[cfg(feature = "serde")]
mod values;

pub use address::Address;
pub use args::{Arg, ArgWriter, ToArgs};
pub use client::{Builder, Client};
pub use config::Config;
pub use credentials::{Credentials, Password};
pub use error::{Error, ServerError};
pub use events::{ConnectionEvent, ConnectionEvents};
pub use flags::{Flags, Keys, Meta, RetryPolicy};
pub use from_reply::FromReply;
pub use loadline_resp::{Limits, OwnedReply, Protocol, Reply};
#[cfg(feature = "metrics")]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub use metrics::{CommandMetrics, Metrics, ResponseTimes};
pub use request::{Cmd, Command, Replies, Request, Requests, cmd};
pub use scan::Scan;
#[cfg(feature = "opentelemetry")]
#[cfg_attr(docsrs, doc(cfg(feature = "opentelemetry")))]
pub use telemetry::Telemetry;
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsStream};
pub use transaction::{Atomic, atomic};
#[cfg(feature = "serde")]
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
pub use values::{Json, Serde, to_fields, to_json};

//! The client against a real redis-server, and against servers that misbehave.

#![cfg(feature = "tokio")]
#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

#[cfg(feature = "cache")]
mod caching;
mod cancelled;
mod carried;
mod catalogue;
mod commands;
mod connections;
mod cutter;
mod deadlines;
mod delivery;
#[cfg(feature = "tls")]
mod dripping_tls;
mod events;
mod examples;
mod fake;
#[cfg(feature = "testing")]
mod fake_server;
mod faults;
mod futures;
mod groups;
mod hostile;
mod instep;
mod login;
#[cfg(feature = "tls")]
mod mixed_tls;
mod outages;
mod pipelines;
mod pool;
mod port;
mod pubsub;
mod runtimes;
mod scan;
mod server;
mod streams;
#[cfg(feature = "opentelemetry")]
mod telemetry;
mod thousand;
mod tracking;
mod unavailable;
#[cfg(feature = "serde")]
mod values;

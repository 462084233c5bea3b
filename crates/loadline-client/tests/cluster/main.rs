//! The client against a real cluster of three masters and three replicas.

#![cfg(feature = "tokio")]
#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

mod blocking;
mod example;
mod failover;
mod migration;
mod nodes;
mod pools;
mod pubsub;
mod routing;
mod runtimes;
mod scan;
#[cfg(feature = "opentelemetry")]
mod telemetry;
#[cfg(feature = "tls")]
mod tls;
mod tracking;
mod unreachable;

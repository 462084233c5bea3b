//! The client against a real redis-server, and against servers that misbehave.

#![cfg(feature = "tokio")]
#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

mod cancelled;
mod commands;
mod connections;
mod delivery;
mod examples;
mod faults;
mod groups;
mod hostile;
mod login;
mod outages;
mod pipelines;
mod pool;
mod pubsub;
mod runtimes;
mod scan;
mod server;
mod streams;
mod thousand;

//! The client against real sentinels, a master and two replicas.

#![cfg(feature = "tokio")]
#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

mod failover;
mod losses;
mod names;
#[cfg(feature = "testing")]
mod scripted;
#[cfg(feature = "tls")]
mod tls;
mod topology;

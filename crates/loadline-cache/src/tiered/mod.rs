//! The cache in tiers.
//!
//! `core` and `fetch` decide what is done and wait for nothing; `blocking` and `tasks` do it, for threads and tasks.

mod backlog;
mod blocking;
mod breaker;
mod builder;
mod clock;
pub mod codec;
mod core;
mod entry;
mod explain;
mod failure;
mod fetch;
mod flights;
mod frame;
mod hedge;
mod key;
mod lower;
mod memory;
mod metrics;
#[cfg(test)]
mod model;
mod steps;
#[cfg(feature = "tokio")]
mod tasks;
mod tier;
mod trace;
mod tracking;
mod warm_up;
mod weigh;
mod worth;

pub use self::blocking::Cache;
pub use self::builder::Builder;
pub use self::clock::{Clock, ManualClock, SystemClock};
pub use self::core::entry_bytes;
pub use self::explain::{Explanation, Found, Step};
pub use self::frame::Compression;
pub use self::key::Key;
pub use self::lower::WriteMode;
pub use self::metrics::{Stats, TierStats, Times};
#[cfg(feature = "tokio")]
pub use self::tasks::AsyncCache;
pub use self::tier::Tier;
pub use self::warm_up::{WarmUp, WarmUpEnd};
pub use self::weigh::Weigh;
pub use self::worth::Worth;

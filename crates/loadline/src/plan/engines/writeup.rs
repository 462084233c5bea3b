//! `--workload writeup`: what a write-up measured that compared a store of its own with Redis. Its store is a cache of
//! 10,000 entries that live for 30 minutes, with a write-ahead log that is cut at 64 MB, which is the size of our
//! segments. It names no sizes, so keys and values have ours.

use std::time::Duration;

use crate::args::EnginesArgs;
use crate::exit::Failure;
use crate::target::{CacheLimits, Choice};

/// The cache of the write-up.
pub(super) const CACHE: CacheLimits = CacheLimits {
    keys: 10_000,
    ttl: Duration::from_secs(30 * 60),
};

/// The engines that are measured where none is named: its two sides, and ours behind the same socket.
pub(super) const ENGINES: [&str; 4] = ["redis", "redis-unix", "store", "embedded"];

/// Refuses what the set cannot be measured with.
///
/// # Errors
/// A usage error for an engine without a time to live, and for keys that the cache cannot hold.
pub(super) fn check(args: &EnginesArgs, choices: &[Choice]) -> Result<(), Failure> {
    if let Some(other) = choices.iter().find(|choice| !choice.can_expire()) {
        return Err(Failure::usage(format!(
            "ENGINE `{other}`: it has no time to live of keys, which --workload writeup needs; leave it out, or leave out --workload."
        )));
    }
    match args.keys {
        Some(keys) if keys > CACHE.keys => Err(Failure::usage(format!(
            "--keys {keys}: at most {}, the keys that the cache of --workload writeup holds; with more, reads would find nothing.",
            CACHE.keys
        ))),
        _ => Ok(()),
    }
}

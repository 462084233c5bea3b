//! `--workload writeup`: the measurements of a write-up that compared a store with Redis. Its store is a cache of
//! 10,000 entries that live for 30 minutes, with a write-ahead log that is rotated at 64 MB, the size of our
//! segments. It does not state the sizes of keys and values, so ours are used.

use std::time::Duration;

use crate::args::EnginesArgs;
use crate::exit::Failure;
use crate::spelling::{CacheLimits, Choice};

/// The cache of the write-up.
pub(super) const CACHE: CacheLimits = CacheLimits {
    keys: 10_000,
    ttl: Duration::from_secs(30 * 60),
};

/// The default engines: the two sides of the write-up, and our server behind the same socket.
pub(super) const ENGINES: [&str; 4] = ["redis", "redis-unix", "store", "embedded"];

/// Refuses arguments that the set does not support.
///
/// # Errors
/// A usage error for an engine without a time to live, and for more keys than the cache can hold.
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

//! The clock of a store. The keyspace below takes the time as an argument.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch.
#[expect(
    clippy::disallowed_methods,
    reason = "the store is the shell that owns the clock"
)]
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = since.map_or(0, millis);
    #[cfg(test)]
    let now = now + AHEAD_MS.get();
    now
}

#[cfg(test)]
std::thread_local! {
    /// Milliseconds by which a test has set the clock of its thread forward.
    pub(crate) static AHEAD_MS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The time of the monotonic clock, for durations.
#[expect(
    clippy::disallowed_methods,
    reason = "the store is the shell that owns the clock"
)]
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}

/// Whole milliseconds, at most as many as fit.
pub(crate) fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

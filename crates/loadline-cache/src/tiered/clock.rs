//! Time as an argument.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time that a cache goes by.
pub trait Clock: Send + Sync + 'static {
    /// Time since a fixed point, never going back. Decides what is fresh in this process.
    fn now(&self) -> Duration;

    /// Time since 1970. Decides what is fresh in a tier that processes share.
    fn unix_time(&self) -> Duration;

    /// [`now`](Self::now) in nanoseconds, which a hit reads. A clock that counts them need not divide them first.
    fn now_ns(&self) -> u64 {
        to_ns(self.now())
    }
}

/// The clocks of the operating system.
///
/// On Linux, `now` is the coarse monotonic clock, which is exact to a tick of the kernel (1 to 10 ms) and several times
/// faster to read. A hit in memory takes less time than reading the exact one.
#[derive(Debug)]
pub struct SystemClock {
    #[cfg_attr(
        target_os = "linux",
        expect(dead_code, reason = "other systems need it")
    )]
    start: Instant,
}

impl SystemClock {
    /// The clocks of this machine.
    #[must_use]
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[cfg(target_os = "linux")]
    fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns())
    }

    #[cfg(target_os = "linux")]
    fn now_ns(&self) -> u64 {
        // Neither is negative, and 64 bits of nanoseconds are 584 years.
        let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    #[cfg(not(target_os = "linux"))]
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn unix_time(&self) -> Duration {
        // Before 1970, everything in a shared tier counts as fresh.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }
}

/// A clock that moves only by [`advance`](Self::advance), for tests. Clones share their time.
#[derive(Debug, Clone)]
pub struct ManualClock {
    elapsed_ns: Arc<AtomicU64>,
}

/// Where a manual clock begins, in seconds since 1970.
const MANUAL_START_SECONDS: u64 = 1_700_000_000;

impl ManualClock {
    /// A clock at a fixed time.
    #[must_use]
    pub fn new() -> Self {
        Self {
            elapsed_ns: Arc::new(AtomicU64::new(0)),
        }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.elapsed_ns.fetch_add(to_ns(by), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.elapsed_ns.load(Ordering::SeqCst))
    }

    fn unix_time(&self) -> Duration {
        Duration::from_secs(MANUAL_START_SECONDS) + self.now()
    }
}

/// Nanoseconds, at most `u64::MAX`.
pub(crate) fn to_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

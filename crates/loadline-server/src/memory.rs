//! Returns freed memory to the operating system.
//!
//! The allocator of glibc keeps the pages of freed blocks for the next allocations, apart from those at the
//! end of its heap. After FLUSHALL or after a mass expiry most of the resident memory of the server can be
//! such pages. `malloc_trim` gives them back. It blocks the event loop while it runs, so it runs only
//! after much data was freed, and rarely.
//!
//! `malloc_trim` leaves out the free end of a heap that belongs to another thread than the first one. Such
//! an end goes back when a block is freed, if it is larger than a threshold. By default that threshold grows
//! with the largest block that was ever freed, to as much as 64 MiB.

use std::time::{Duration, Instant};

/// Decides when to return freed memory: when much of the data is gone and it has stopped shrinking, because a
/// page can only be returned once everything in it is freed.
#[derive(Debug, Default)]
pub(crate) struct Trimmer {
    /// The largest size of the data since memory was last returned, in bytes.
    peak_bytes: usize,
    /// The size of the data in the last sample.
    last_bytes: usize,
    /// The size of the data when memory was last returned, until the data grows again.
    settled_bytes: Option<usize>,
    sampled_at: Option<Instant>,
    not_before: Option<Instant>,
}

impl Trimmer {
    /// Computing the size of the data takes some 50 microseconds, so the interval is long.
    const SAMPLE_EVERY: Duration = Duration::from_secs(1);

    /// The fewest freed bytes for which the call pays off.
    const LEAST_BYTES: usize = 16 << 20;

    /// The same while the data continues to shrink after a call. Pages that were in use then can be free now,
    /// and they hold more than the bytes that were freed since.
    const LEAST_BYTES_AFTERWARDS: usize = 1 << 20;

    /// The time between two calls is at least this many times the duration of the first one, so that calls
    /// take at most a hundredth of the event loop's time.
    const PAUSE_FACTOR: u32 = 100;

    /// Whether a [`sample`](Self::sample) is due.
    pub(crate) fn is_sample_due(&self, now: Instant) -> bool {
        let is_over = |at: Instant| now.saturating_duration_since(at) >= Self::SAMPLE_EVERY;
        self.sampled_at.is_none_or(is_over)
    }

    /// Records the size of data that is about to be removed.
    pub(crate) fn note(&mut self, data_bytes: usize) {
        self.peak_bytes = self.peak_bytes.max(data_bytes);
        let has_grown = |bytes: usize| data_bytes >= bytes + Self::LEAST_BYTES;
        self.settled_bytes = self.settled_bytes.filter(|bytes| !has_grown(*bytes));
    }

    /// Records the size of the data, and returns memory if the data is much smaller than before.
    pub(crate) fn sample(&mut self, data_bytes: usize, now: Instant) {
        self.sampled_at = Some(now);
        self.note(data_bytes);
        if self.is_due(data_bytes, now) {
            give_back();
            self.done(data_bytes, now, now.elapsed());
        }
        self.last_bytes = data_bytes;
    }

    /// Whether enough was freed, the data has stopped shrinking, and the last call is long enough ago.
    fn is_due(&self, data_bytes: usize, now: Instant) -> bool {
        let least = match self.settled_bytes {
            None => Self::LEAST_BYTES,
            Some(_) => Self::LEAST_BYTES_AFTERWARDS,
        };
        let freed = self.peak_bytes.saturating_sub(data_bytes);
        let is_shrinking = self.last_bytes.saturating_sub(data_bytes) > self.last_bytes / 64;
        freed >= least.max(self.peak_bytes / 4)
            && !is_shrinking
            && self.not_before.is_none_or(|at| now >= at)
    }

    fn done(&mut self, data_bytes: usize, now: Instant, took: Duration) {
        self.peak_bytes = data_bytes;
        self.settled_bytes = Some(data_bytes);
        self.not_before = now.checked_add(took * Self::PAUSE_FACTOR);
    }
}

/// The free bytes that can stay at the end of a heap, so that a few blocks do not move the end each time.
#[cfg(target_env = "gnu")]
const FREE_END_BYTES: libc::c_int = 1 << 20;

/// A block whose release makes the allocator look at the end of its heap: more than the 64 KiB at which it
/// looks, and less than the 128 KiB from which a block can be a mapping of its own.
#[cfg(target_env = "gnu")]
const LOOKED_AT_BYTES: usize = 100 << 10;

#[cfg(target_env = "gnu")]
#[expect(
    unsafe_code,
    reason = "glibc offers no other way to give back free pages inside its heap"
)]
pub(crate) fn give_back() {
    static THRESHOLD: std::sync::Once = std::sync::Once::new();
    // SAFETY: `mallopt` takes no pointer and leaves every allocated block as it is. It writes one integer under
    // a lock of the allocator; another thread that frees a block meanwhile sees the old or the new one.
    THRESHOLD.call_once(|| unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, FREE_END_BYTES);
    });
    // SAFETY: `malloc_trim` takes no pointer, leaves every allocated block as it is, and is documented as
    // safe to call from any thread (MT-Safe).
    let _ = unsafe { libc::malloc_trim(0) };
    drop(std::hint::black_box(Vec::<u8>::with_capacity(
        LOOKED_AT_BYTES,
    )));
}

/// Other C libraries have no such call.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn give_back() {}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn memory_is_given_back_after_much_was_freed_and_not_too_often() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut trimmer = Trimmer::default();
        assert!(trimmer.is_sample_due(start));
        trimmer.sample(100 * MIB, start);
        assert!(!trimmer.is_sample_due(start) && trimmer.is_sample_due(after(1)));
        for data_bytes in [100 * MIB, 76 * MIB, 75 * MIB] {
            trimmer.last_bytes = data_bytes;
            let is_due = trimmer.is_due(data_bytes, after(1));
            assert_eq!(is_due, data_bytes == 75 * MIB, "{data_bytes}");
        }
        // The data is still shrinking.
        trimmer.last_bytes = 76 * MIB;
        assert!(trimmer.is_due(75 * MIB, after(1)) && !trimmer.is_due(70 * MIB, after(1)));
        // After a call of 50 ms the next one waits for 5 s, and data freed in between counts then.
        trimmer.done(75 * MIB, after(1), Duration::from_millis(50));
        trimmer.last_bytes = MIB;
        assert!(!trimmer.is_due(MIB, after(5)) && trimmer.is_due(MIB, after(6)));
    }

    #[test]
    fn after_a_call_the_remainder_counts_until_the_data_grows_again() {
        let now = Instant::now();
        let mut trimmer = Trimmer::default();
        trimmer.note(15 * MIB);
        assert!(!trimmer.is_due(0, now));
        trimmer.note(100 * MIB);
        trimmer.done(8 * MIB, now, Duration::ZERO);
        assert!(trimmer.is_due(6 * MIB, now) && !trimmer.is_due(7 * MIB, now));
        trimmer.note(24 * MIB);
        assert!(!trimmer.is_due(9 * MIB, now) && trimmer.is_due(8 * MIB, now));
    }
}

//! Rights and progress of the running script.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use loadline_resp::Protocol;

/// The rights of a script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Flags {
    /// Whether the script has a first line with flags.
    pub(super) is_declared: bool,
    pub(super) no_writes: bool,
    pub(super) allow_oom: bool,
}

/// The progress of the running script, for its commands and for the limit of its time.
#[derive(Debug, Default)]
pub(super) struct Progress {
    written: AtomicBool,
    /// Milliseconds since the interpreter was made at which the script has run for long.
    long_at: AtomicU64,
    /// Whether a script that has run for long goes on, and others are served meanwhile.
    goes_on: AtomicBool,
    is_over: AtomicBool,
    /// The source and the line at which it was ended.
    ended_at: Mutex<Option<(String, usize)>>,
    /// Whether replies to the script are in RESP3, by redis.setresp.
    is_resp3: AtomicBool,
}

impl Progress {
    pub(super) fn note_write(&self) {
        self.written.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_written(&self) -> bool {
        self.written.load(Ordering::Relaxed)
    }

    pub(super) fn set_resp3(&self, is_resp3: bool) {
        self.is_resp3.store(is_resp3, Ordering::Relaxed);
    }

    /// The protocol of replies to the script.
    pub(super) fn protocol(&self) -> Protocol {
        if self.is_resp3.load(Ordering::Relaxed) {
            Protocol::Resp3
        } else {
            Protocol::Resp2
        }
    }

    /// Whether the script was ended.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether the script has run for long at `now`.
    pub(super) fn is_long(&self, now: u64) -> bool {
        now >= self.long_at.load(Ordering::Relaxed)
    }

    /// Whether it goes on when it has run for long, and others are served meanwhile.
    pub(super) fn goes_on(&self) -> bool {
        self.goes_on.load(Ordering::Relaxed)
    }

    /// Notes that the script is ended, and where.
    pub(super) fn end(&self, place: Option<(String, usize)>) {
        self.is_over.store(true, Ordering::Relaxed);
        *self.ended_at.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    /// The source and the line at which the script was ended.
    pub(super) fn ended_at(&self) -> Option<(String, usize)> {
        let mut place = self.ended_at.lock().unwrap_or_else(PoisonError::into_inner);
        place.take()
    }

    pub(super) fn begin(&self, long_at: u64, goes_on: bool) {
        self.is_resp3.store(false, Ordering::Relaxed);
        self.written.store(false, Ordering::Relaxed);
        self.is_over.store(false, Ordering::Relaxed);
        self.long_at.store(long_at, Ordering::Relaxed);
        self.goes_on.store(goes_on, Ordering::Relaxed);
    }
}

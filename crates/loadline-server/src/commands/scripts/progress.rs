//! Rights and progress of the running script.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
    /// Milliseconds since the interpreter was made at which the script is ended.
    ends_at: AtomicU64,
    is_over: AtomicBool,
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

    /// Whether the script has run for too long.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether the script is to be ended at `now`: it has run for too long, and has not written.
    pub(super) fn ends(&self, now: u64) -> bool {
        !self.has_written() && now >= self.ends_at.load(Ordering::Relaxed)
    }

    /// Notes that the script is ended. Returns whether that is new.
    pub(super) fn end(&self) -> bool {
        !self.is_over.swap(true, Ordering::Relaxed)
    }

    pub(super) fn begin(&self, ends_at: u64) {
        self.is_resp3.store(false, Ordering::Relaxed);
        self.written.store(false, Ordering::Relaxed);
        self.is_over.store(false, Ordering::Relaxed);
        self.ends_at.store(ends_at, Ordering::Relaxed);
    }
}

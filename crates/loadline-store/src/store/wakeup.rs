//! Waking the thread in the background of a store.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Wakes the background thread.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether an entry with an expiry was put.
    pub(super) has_expiries: AtomicBool,
    /// Whether a store in memory was written since the thread looked at its memory.
    pub(super) has_grown: AtomicBool,
    /// Whether the thread waits for the next write of a log.
    pub(super) rests: AtomicBool,
    /// Number of huge pages to which the thread has moved memory.
    pub(crate) huge_pages: AtomicUsize,
    on_sync: OnceLock<Notify>,
}

/// A function that is called after each sync in the background.
struct Notify(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notify")
    }
}

#[derive(Debug, Default)]
struct State {
    is_running: bool,
    is_wanted: bool,
    /// The kind of sync that is wanted.
    sync: SyncMode,
    /// The interval of syncs that the durability asks for.
    interval: Option<Duration>,
    stops: bool,
}

impl Wakeup {
    /// Lets the thread work; returns whether there is one.
    pub(crate) fn wake(&self, sync: SyncMode) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_wanted = state.is_running;
        state.sync = state.sync.max(sync);
        self.changed.notify_one();
        state.is_running
    }

    /// Sets the interval that the durability asks for, and lets the thread sync where there is one.
    pub(crate) fn set_interval(&self, interval: Option<Duration>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.interval = interval;
        state.is_wanted |= state.is_running && interval.is_some();
        self.changed.notify_one();
    }

    /// Notes that the thread runs.
    pub(super) fn started(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_running = true;
    }

    /// Lets the thread end.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.stops = true;
        state.is_running = false;
        self.changed.notify_one();
    }

    /// The interval that the durability asks for.
    pub(super) fn interval(&self) -> Option<Duration> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.interval
    }

    /// Whether the thread is to end.
    pub(crate) fn stops(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.stops
    }

    /// Whether the thread is to end, or to do other work.
    pub(crate) fn interrupts(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.stops || state.is_wanted
    }

    /// Notes that entries can expire.
    #[inline]
    pub(crate) fn has_expiries(&self) {
        if !self.has_expiries.load(Ordering::Relaxed) {
            self.has_expiries.store(true, Ordering::Relaxed);
            self.wake(SyncMode::IfUseful);
        }
    }

    /// Notes that a log was written, so that the thread syncs it later.
    #[inline]
    pub(crate) fn was_written(&self) {
        if self.rests.load(Ordering::Relaxed) {
            self.rests.store(false, Ordering::Relaxed);
            self.wake(SyncMode::No);
        }
    }

    /// Notes that a store in memory can have grown. The thread looks at its memory a moment later.
    #[inline]
    pub(crate) fn has_grown(&self) {
        if !self.has_grown.load(Ordering::Relaxed) {
            self.has_grown.store(true, Ordering::Relaxed);
            self.wake(SyncMode::IfUseful);
        }
    }

    /// Calls `notify` after each sync from now on, unless another function is called already.
    pub(crate) fn notify_after_sync(&self, notify: Box<dyn Fn() + Send + Sync>) {
        // The first one stays.
        let _ = self.on_sync.set(Notify(notify));
    }

    /// Notes the end of a sync.
    pub(crate) fn synced(&self) {
        if let Some(Notify(notify)) = self.on_sync.get() {
            notify();
        }
    }

    /// Waits for work, at most for `timeout`. Returns it, and `None` when the thread is to end.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> Option<Option<SyncMode>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |state: &mut State| !state.is_wanted && !state.stops;
        let mut state = match timeout {
            None => self
                .changed
                .wait_while(state, is_idle)
                .unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                self.changed
                    .wait_timeout_while(state, timeout, is_idle)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
        };
        if state.stops {
            return None;
        }
        let sync = std::mem::take(&mut state.sync);
        Some(std::mem::take(&mut state.is_wanted).then_some(sync))
    }
}

/// Whether the background thread syncs the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum SyncMode {
    /// Not now. The thread only follows what is written.
    #[default]
    No,
    /// If most of what is not synced stays.
    IfUseful,
    /// For writers that wait for every record, without a second sync for the mark.
    Commit,
    Always,
}

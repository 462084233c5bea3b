//! The thread that works in the background of a store.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::inner::Inner;
use super::options::Durability;
use crate::clock::now_ms;

/// How often expired entries are looked for.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// Entries that are looked at in one sweep.
const SWEEP_ENTRIES: usize = 20_000;

/// Wakes the background thread.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether an entry with an expiry was put.
    has_expiries: AtomicBool,
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
    stops: bool,
}

impl Wakeup {
    /// Lets the thread work; returns whether there is one.
    pub(crate) fn wake(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_wanted = state.is_running;
        self.changed.notify_one();
        state.is_running
    }

    /// Whether the thread is to end.
    pub(crate) fn stops(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.stops
    }

    /// Notes that entries can expire.
    #[inline]
    pub(crate) fn has_expiries(&self) {
        if !self.has_expiries.load(Ordering::Relaxed) {
            self.has_expiries.store(true, Ordering::Relaxed);
            self.wake();
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

    /// Waits for work, at most for `timeout`. Returns whether there is some, and `None` when it is to end.
    fn wait(&self, timeout: Option<Duration>) -> Option<bool> {
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
        (!state.stops).then(|| std::mem::take(&mut state.is_wanted))
    }
}

/// The thread, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Upkeep {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// Starts the thread.
    ///
    /// # Errors
    /// That the operating system has no thread.
    pub(crate) fn start(inner: &Arc<Inner>) -> std::io::Result<Self> {
        let shared = Arc::clone(inner);
        let thread = thread::Builder::new()
            .name("loadline-store".to_owned())
            .spawn(move || run(&shared))?;
        let mut state = inner.wakeup.state.lock();
        let state = state.as_deref_mut();
        if let Ok(state) = state {
            state.is_running = true;
        }
        Ok(Self {
            inner: Arc::clone(inner),
            thread: Some(thread),
        })
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        {
            let state = self.inner.wakeup.state.lock();
            let mut state = state.unwrap_or_else(PoisonError::into_inner);
            state.stops = true;
            state.is_running = false;
            self.inner.wakeup.changed.notify_one();
        }
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so already.
            let _ = thread.join();
        }
    }
}

fn run(inner: &Inner) {
    let interval = match inner.options.durability {
        // What was written just after a sync is synced before it is older than the interval.
        Durability::Interval(interval) => Some(interval / 2),
        Durability::Process | Durability::Always => None,
    };
    let wakeup = &inner.wakeup;
    loop {
        let sweeps = wakeup.has_expiries.load(Ordering::Relaxed);
        let sweep = sweeps.then_some(SWEEP_EVERY);
        let timeout = match (interval, sweep) {
            (Some(interval), Some(sweep)) => Some(interval.min(sweep)),
            (one, other) => one.or(other),
        };
        let Some(is_wanted) = wakeup.wait(timeout) else {
            return;
        };
        if is_wanted || interval.is_some() {
            inner.work();
        }
        if sweeps {
            for database in &inner.databases {
                database.expire_some(now_ms(), SWEEP_ENTRIES);
            }
        }
    }
}

//! The thread that works in the background of a store.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::inner::{Inner, SyncMode};
use crate::clock::now_ms;
use crate::keyspace::{FullPages, HugePages};

/// Interval between two searches for expired entries.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// Interval between two looks at the memory of a store without a log while it is written. A look takes some 50
/// microseconds.
const LOOK_EVERY_MS: u64 = 100;

/// Entries that are looked at in one sweep.
const SWEEP_ENTRIES: usize = 20_000;

/// A store to which nothing was written for this time rests: it syncs, and reclaims what is left.
const REST_AFTER_MS: u64 = 1_000;

/// Interval between the syncs of a store that is written all the time, if its durability asks for no more.
const SYNC_EVERY_MS: u64 = 5_000;

/// Wakes the background thread.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether an entry with an expiry was put.
    has_expiries: AtomicBool,
    /// Whether a store in memory was written since the thread looked at its memory.
    has_grown: AtomicBool,
    /// Whether the thread waits for the next write of a log.
    rests: AtomicBool,
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

    /// The interval that the durability asks for.
    fn interval(&self) -> Option<Duration> {
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
    fn wait(&self, timeout: Option<Duration>) -> Option<Option<SyncMode>> {
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
    let wakeup = &inner.wakeup;
    let mut synced_at = now_ms();
    // When it was woken or found writes last, until it has rested, and how far the log was written then.
    let mut woken_at = None;
    let mut position = 0;
    let mut huge = HugePages::default();
    // When the memory of a store without a log was looked at last.
    let mut looked_at = 0;
    loop {
        // What was written just after a sync is synced before it is older than the interval.
        let interval = wakeup.interval().map(|interval| interval / 2);
        let sweeps = wakeup.has_expiries.load(Ordering::Relaxed);
        let sweep = sweeps.then_some(SWEEP_EVERY);
        let rest = woken_at.map(|_| Duration::from_millis(REST_AFTER_MS));
        let look = wakeup.has_grown.load(Ordering::Relaxed);
        let look = look.then_some(Duration::from_millis(LOOK_EVERY_MS));
        let timeout = [interval, sweep, rest, look].into_iter().flatten().min();
        let Some(wanted) = wakeup.wait(timeout) else {
            return;
        };
        let now = now_ms();
        if let Some(wanted) = wanted {
            woken_at = Some(now);
            position = inner.disk.as_ref().map_or(0, |disk| disk.log.position());
            let is_due = now.abs_diff(synced_at) >= SYNC_EVERY_MS;
            let sync = match wanted {
                SyncMode::No => wanted,
                _ if is_due || interval.is_some() => SyncMode::Always,
                _ => wanted,
            };
            if sync == SyncMode::Always {
                synced_at = now;
            }
            if sync != SyncMode::No {
                inner.work(sync);
            }
        } else if woken_at.is_some_and(|woken_at| now.abs_diff(woken_at) >= REST_AFTER_MS) {
            let disk = inner.disk.as_ref();
            let before = position;
            position = disk.map_or(0, |disk| disk.log.position());
            if position == before {
                woken_at = None;
                // Before the sync, so that a write is either synced or wakes this thread.
                wakeup.rests.store(true, Ordering::Relaxed);
                inner.rest();
            } else {
                woken_at = Some(now);
                if now.abs_diff(synced_at) >= SYNC_EVERY_MS {
                    synced_at = now;
                    inner.work(SyncMode::Always);
                }
            }
        } else if interval.is_some() {
            inner.work(SyncMode::Always);
        }
        let full = match &inner.disk {
            Some(disk) => huge.follow(&inner.databases, disk.log.position()),
            None if now.abs_diff(looked_at) < LOOK_EVERY_MS => FullPages::default(),
            None if !wakeup.has_grown.swap(false, Ordering::Relaxed) => FullPages::default(),
            None => {
                looked_at = now;
                huge.follow_memory(&inner.databases)
            }
        };
        let moved = full.move_to_huge_pages(|| wakeup.stops());
        wakeup.huge_pages.fetch_add(moved, Ordering::Relaxed);
        if sweeps {
            expire(inner);
        }
    }
}

/// Frees expired entries, and does the work of a new segment where their deletions have begun one.
fn expire(inner: &Inner) {
    let newest = || inner.disk.as_ref().map(|disk| disk.log.newest());
    let before = newest();
    for database in &inner.databases {
        database.expire_some(now_ms(), SWEEP_ENTRIES);
    }
    if newest() != before {
        inner.wakeup.wake(SyncMode::IfUseful);
    }
}

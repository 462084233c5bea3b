//! The thread that works in the background of a store.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::inner::Inner;
use super::wakeup::SyncMode;
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
        inner.wakeup.started();
        Ok(Self {
            inner: Arc::clone(inner),
            thread: Some(thread),
        })
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.inner.wakeup.stop();
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
        // A write just after a sync is synced before it is older than the interval.
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

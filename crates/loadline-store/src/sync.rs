//! The locks and atomic numbers by which threads share a store. `tests/schedules` puts others in their place, which try
//! many orders of the threads.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
pub(crate) use std::thread_local;

use std::sync::PoisonError;
use std::time::Duration;

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
}

/// Number of threads that can run at the same time.
pub(crate) fn parallel_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Reads a lock without taking it, so that it lies in the cache of the processor.
#[inline]
pub(crate) fn warm<T>(lock: &Mutex<T>) {
    std::hint::black_box(lock.is_poisoned());
}

/// Gives `guard` back and waits until `changed` is notified, or for `timeout`; it can also return earlier. Locks
/// again, also after a panic of another thread.
pub(crate) fn wait<'m, T>(
    changed: &Condvar,
    _mutex: &'m Mutex<T>,
    guard: MutexGuard<'m, T>,
    timeout: Option<Duration>,
) -> MutexGuard<'m, T> {
    match timeout {
        None => changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
        Some(timeout) => {
            let waited = changed.wait_timeout(guard, timeout);
            waited.unwrap_or_else(PoisonError::into_inner).0
        }
    }
}

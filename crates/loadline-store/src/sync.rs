//! The locks and atomic numbers by which threads share a store. `tests/schedules` puts others in their place, which try
//! many orders of the threads.

pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
pub(crate) use std::thread_local;

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
}

/// Reads a lock without taking it, so that it lies in the cache of the processor.
#[inline]
pub(crate) fn warm<T>(lock: &Mutex<T>) {
    std::hint::black_box(lock.is_poisoned());
}

//! Reading replies: outside the lock, in a buffer that each thread keeps for the next ones.
//!
//! A reply is read by code of the caller (`run_with`, `FromReply`), which may use the same connection. It must
//! find the lock free, and a request that it waits for could never be answered on a runtime of one thread, so
//! that one is refused.

use std::cell::Cell;
use std::ptr;

use super::Shared;
use crate::conn::core::{SlotReplies, TakenReplies};

thread_local! {
    /// An empty buffer, which a slot gets for the one that its replies are in.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// The connection whose replies this thread reads.
    static READING: Cell<*const Shared> = const { Cell::new(ptr::null()) };
}

/// An empty buffer. A thread that is ending has none left, and allocates one.
#[inline]
pub(super) fn spare() -> Vec<u8> {
    SPARE.try_with(Cell::take).unwrap_or_default()
}

/// Whether this thread reads a reply of that connection.
#[inline]
pub(super) fn is_reading(shared: &Shared) -> bool {
    READING.get() == ptr::from_ref(shared)
}

/// Reads replies that were taken out of their slot, and keeps the buffer.
#[inline]
pub(super) fn read<T>(
    shared: &Shared,
    taken: TakenReplies,
    read: impl FnOnce(&mut SlotReplies<'_>) -> T,
) -> T {
    let outer = Outer(READING.replace(shared));
    let output = read(&mut taken.replies());
    drop(outer);
    if let Some(buffer) = taken.into_spare() {
        // Without a place for it the buffer is freed.
        let _ = SPARE.try_with(|spare| spare.set(buffer));
    }
    output
}

/// Restores the connection that was read before, even after a panic.
struct Outer(*const Shared);

impl Drop for Outer {
    #[inline]
    fn drop(&mut self) {
        READING.set(self.0);
    }
}

//! The memory that requests hold, and its limit.
//!
//! A request holds more than its bytes: its entry in the queue, the slot of its caller, the time at which it came,
//! and its replies until the caller takes them. For short requests that is more than their bytes. Below a small amount
//! only an estimate is compared. Above it, what is held is computed for each request, and all lists grow in small
//! steps, since a list that doubles holds up to twice what it needs.

use std::collections::VecDeque;

use super::slots::step;
use super::{Conn, Entry, Stamp};
use crate::Error;

/// The amount below which lists grow as they like, unless the limit is lower.
const AMPLE_BYTES: usize = 256 << 10;
/// More than a request holds besides its bytes in the queue, or in the slots.
const ESTIMATED_BYTES: usize = 128;
/// The requests for which a quiet connection keeps room.
pub(super) const KEPT_REQUESTS: usize = 128;

const _: () = assert!(size_of::<Entry>() + size_of::<Stamp>() <= ESTIMATED_BYTES);
const _: () = assert!(super::slots::SLOT_BYTES <= ESTIMATED_BYTES);

/// The estimate up to which there is room for sure.
pub(super) fn ample_bytes(limit_bytes: usize) -> u64 {
    limit_bytes.min(AMPLE_BYTES) as u64
}

fn grow<T>(list: &mut VecDeque<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(step(list.len()));
    }
}

impl Conn {
    /// Whether requests hold so much that the limit has to be looked at.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        let requests = self.queue.len() + self.slots.len();
        let held = requests * ESTIMATED_BYTES + self.slots.ready_bytes();
        self.out.unanswered() + held as u64 > self.ample_bytes
    }

    /// Makes room in each list for the request whose bytes were just added.
    ///
    /// # Errors
    /// `QueueFull`. One request alone always fits.
    #[cold]
    pub(super) fn find_room(&mut self) -> Result<(), Error> {
        let limit_bytes = self.config.max_queue_bytes;
        let is_full = |conn: &Self| conn.held_bytes() > limit_bytes as u64;
        let is_alone = self.queue.is_empty() && self.slots.ready_bytes() == 0;
        if !is_alone && is_full(self) {
            self.give_back();
            if is_full(self) {
                return Err(Error::QueueFull { limit_bytes });
            }
        }
        grow(&mut self.queue);
        grow(&mut self.stamps);
        self.slots.grow();
        Ok(())
    }

    /// Bytes that requests hold, with what was held for earlier ones and is kept.
    fn held_bytes(&self) -> u64 {
        let queue = self.queue.capacity() * size_of::<Entry>();
        let stamps = self.stamps.capacity() * size_of::<Stamp>();
        let slots = self.slots.own_bytes() + self.slots.ready_bytes();
        self.out.unanswered() + (queue + stamps + slots) as u64
    }

    /// Gives back what earlier requests needed and those in the queue do not.
    fn give_back(&mut self) {
        let len = self.queue.len();
        if self.queue.capacity() > 2 * len {
            self.queue.shrink_to(len + step(len));
            self.stamps.shrink_to(step(self.stamps.len()));
        }
        self.slots.trim();
    }
}

//! The room that the log keeps for itself on its disk.
//!
//! The log shrinks only after it has grown: a deletion is a record, and a segment goes when the entries that are alive in it
//! were written again. On a disk that is full, neither would be possible. So the log keeps a reserve, which new data cannot
//! use. While a part of it is in use, the log takes deletions and copies only.

use std::io;

use rustix::io::Errno;

use super::segment::HEAD_BYTES;
use super::{Log, MIN_SEGMENT_BYTES, Tail, is_full, locked};
use crate::error::Error;
use crate::storage::NewFile;
use crate::sync::atomic::Ordering;

/// The room that a record may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Without the reserve, for new data.
    Common,
    /// A part of the reserve too, for deletions. They leave room for copies, without which no segment goes.
    Deletions,
    /// All there is, for copies.
    All,
}

/// The part of the disk that the reserve takes at most. It is less than the oldest segment takes only where that holds a
/// value of such a size.
const RESERVE_PART: u64 = 8;

/// Bytes by which the copies of a segment may exceed it: a shard with few small entries in the segment gets a record of its own for
/// them.
const MOST_HEADS: u64 = 256 << 10;

/// Bytes of deletions for which there is room in the reserve at most. They make garbage, so there is more room soon.
const MOST_DELETIONS: u64 = 1 << 20;

impl Log {
    /// Whether the reserve is in use.
    pub(crate) fn is_low(&self) -> bool {
        self.is_low.load(Ordering::Relaxed)
    }

    /// Bytes that more segments can take besides the reserve; `None` where that is unknown.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        self.storage.free_bytes()
    }

    /// Bytes of the reserve.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        locked(&self.tail).reserved
    }

    /// Bytes of the disk that the log has or can have; `None` where that is unknown.
    pub(crate) fn disk_bytes(&self) -> Option<u64> {
        Some(self.free_bytes()? + self.allocated_bytes() + self.reserved_bytes())
    }

    /// Whether there is little room for more segments.
    pub(crate) fn is_tight(&self) -> bool {
        const FEW_SEGMENTS: u64 = 4;
        let few = FEW_SEGMENTS * self.segment_bytes.load(Ordering::Relaxed);
        self.is_low() || self.free_bytes().is_some_and(|free| free < few)
    }

    /// Fills the reserve again if it was in use.
    pub(crate) fn refill(&self) {
        if self.is_low() {
            // Without success, the log stays low.
            let _ = self.keep_reserve(&mut locked(&self.tail));
        }
    }

    /// Bytes of a segment of deletions.
    fn deletion_bytes(&self) -> u64 {
        let next = self.segment_bytes.load(Ordering::Relaxed);
        next.clamp(MIN_SEGMENT_BYTES, MOST_DELETIONS) + HEAD_BYTES as u64
    }

    /// Bytes of the reserve: a segment of deletions, the copies of the oldest segment, and the unused end of a segment of copies.
    fn wanted_reserve(&self, tail: &Tail) -> u64 {
        let next = self.deletion_bytes();
        let oldest = self.segment(self.oldest_in(tail));
        let oldest = oldest.map_or(0, |oldest| oldest.end()).max(next);
        let bytes = next + oldest + oldest.min(MOST_HEADS) + MIN_SEGMENT_BYTES;
        let Some(free) = self.free_bytes() else {
            return bytes;
        };
        let disk = free + self.allocated_bytes() + tail.reserved;
        bytes.min(disk / RESERVE_PART)
    }

    /// Whether there is room for the copies of the oldest segment besides a segment of so many bytes.
    fn leaves_copies(&self, tail: &Tail, bytes: u64) -> bool {
        let copies = self
            .wanted_reserve(tail)
            .saturating_sub(self.deletion_bytes());
        let free = self.free_bytes();
        free.is_none_or(|free| free + tail.reserved >= bytes + copies)
    }

    /// Whether there is room for another segment of deletions.
    pub(crate) fn takes_deletions(&self) -> bool {
        self.leaves_copies(&locked(&self.tail), self.deletion_bytes())
    }

    /// Keeps the reserve.
    pub(super) fn keep_reserve(&self, tail: &mut Tail) -> io::Result<()> {
        let bytes = self.wanted_reserve(tail);
        if !(bytes..2 * bytes).contains(&tail.reserved) {
            match self.storage.reserve(bytes) {
                Ok(()) => tail.reserved = bytes,
                Err(error) if tail.reserved < bytes / 2 => {
                    self.is_low.store(true, Ordering::Relaxed);
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        self.is_low.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Gives the reserve away; returns whether there was one.
    pub(super) fn use_reserve(&self, reserved: &mut u64) -> bool {
        self.is_low.store(true, Ordering::Relaxed);
        std::mem::take(reserved) > 0 && self.storage.reserve(0).is_ok()
    }

    /// Refuses new data where the reserve is in use, and cannot be filled again.
    pub(super) fn check_room(&self, tail: &mut Tail, room: Room) -> Result<(), Error> {
        if room == Room::Common && self.is_low() {
            let kept = self.keep_reserve(tail);
            kept.map_err(|source| match is_full(&source) {
                true => Error::Full { source },
                false => Error::Full {
                    source: Errno::NOSPC.into(),
                },
            })?;
        }
        Ok(())
    }

    /// Makes the file of a segment with room for `wanted` bytes, or for fewer, but at least for `least`. Returns it with
    /// the bytes.
    pub(super) fn create(
        &self,
        tail: &mut Tail,
        room: Room,
        (wanted, least): (u64, u64),
        head: (&str, &[u8]),
    ) -> io::Result<(NewFile, u64)> {
        let (name, head) = head;
        if !self.is_low() {
            let kept = self.keep_reserve(tail);
            kept.or_else(|error| match room {
                Room::Common => Err(error),
                Room::Deletions | Room::All => Ok(()),
            })?;
        }
        let mut bytes = wanted;
        loop {
            // A record that is longer than such a segment takes what there is.
            let is_bounded = room == Room::Deletions && least <= self.deletion_bytes();
            let file = if is_bounded && !self.leaves_copies(tail, bytes) {
                Err(Errno::NOSPC.into())
            } else {
                self.storage.create(name, bytes, head)
            };
            match file {
                Ok(file) => return Ok((file, bytes)),
                Err(error) if !is_full(&error) => return Err(error),
                Err(_) if bytes > least => bytes = (bytes / 2).max(least),
                Err(error) if room == Room::Common || !self.use_reserve(&mut tail.reserved) => {
                    return Err(error);
                }
                Err(_) => bytes = wanted,
            }
        }
    }
}

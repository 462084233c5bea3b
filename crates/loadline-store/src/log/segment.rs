//! A file of the log.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crc32c::crc32c;

use super::VERSION;
use crate::error::Error;
use crate::record::Outside;
use crate::storage::{Access, Stored, with_bytes};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes in front of the first record.
pub(crate) const HEAD_BYTES: usize = 64;

/// Largest number of a segment: entries of the table keep it in 31 bits.
const LAST: u32 = (1 << 31) - 2;

/// Positions and numbers of records stay below this, so that adding to them cannot overflow. No disk holds as much.
const FARTHEST: u64 = 1 << 60;

const MAGIC: [u8; 8] = *b"LLSTORE\n";

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Number of the segment; the first one of a store is 1, and none is left out.
    pub(crate) id: u32,
    /// The oldest segment that had a meaning when this one was made.
    pub(crate) oldest: u32,
    /// Bytes of all records before this segment.
    pub(crate) position: u64,
    /// Number of all records before this segment.
    pub(crate) sequence: u64,
    /// A random number that goes into every checksum, so that records of another segment are not taken for its own.
    pub(crate) salt: u64,
}

/// The reason why a segment's head cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadHead {
    /// It is no head, or not that of this segment.
    Damaged,
    /// It is of a version that this build does not read.
    Version(u32),
}

impl Head {
    pub(crate) fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.id.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.oldest.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.position.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.salt.to_le_bytes());
        let crc = crc32c(&bytes[..HEAD_BYTES - 4]);
        bytes[HEAD_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Position in the log of an offset in the segment's file.
    pub(crate) fn position_at(&self, offset: u64) -> u64 {
        self.position + offset.saturating_sub(HEAD_BYTES as u64)
    }

    /// The head of the segment `id` at the front of `file`.
    pub(crate) fn decode(file: &[u8], id: u32) -> Result<Self, BadHead> {
        let bytes: &[u8; HEAD_BYTES] = file.first_chunk().ok_or(BadHead::Damaged)?;
        let four = |at: usize| u32::from_le_bytes(chunk(bytes, at));
        let eight = |at: usize| u64::from_le_bytes(chunk(bytes, at));
        if bytes[..8] != MAGIC || crc32c(&bytes[..HEAD_BYTES - 4]) != four(HEAD_BYTES - 4) {
            return Err(BadHead::Damaged);
        }
        if !(1..=VERSION).contains(&four(8)) {
            return Err(BadHead::Version(four(8)));
        }
        let head = Self {
            id: four(12),
            oldest: four(16),
            position: eight(24),
            sequence: eight(32),
            salt: eight(40),
        };
        let is_near = head.position < FARTHEST && head.sequence < FARTHEST;
        let is_sound = head.id == id && (1..=id).contains(&head.oldest) && is_near;
        is_sound.then_some(head).ok_or(BadHead::Damaged)
    }
}

fn chunk<const N: usize>(bytes: &[u8; HEAD_BYTES], at: usize) -> [u8; N] {
    let mut chunk = [0; N];
    chunk.copy_from_slice(&bytes[at..at + N]);
    chunk
}

/// A random number for the head of the segment `id`.
pub(crate) fn new_salt(id: u32) -> u64 {
    RandomState::new().hash_one(id)
}

/// The name of a segment's file.
pub(crate) fn name(id: u32) -> String {
    format!("{id:010}.log")
}

/// The segment whose file has this name.
pub(crate) fn parse_name(file: &str) -> Option<u32> {
    let id = parse_id(file.strip_suffix(".log")?)?;
    (name(id) == file).then_some(id)
}

/// The number of a segment, as names have it.
pub(crate) fn parse_id(digits: &str) -> Option<u32> {
    let id: u32 = digits.parse().ok()?;
    (1..=LAST).contains(&id).then_some(id)
}

/// Shows `look` a value in the file of its segment. `None` where its checksum is wrong.
pub(crate) fn read_value<R>(
    file: &dyn Stored,
    outside: Outside,
    look: impl FnOnce(&[u8]) -> R,
) -> io::Result<Option<R>> {
    if outside.unverified.is_some() {
        let (offset, bytes) = (outside.offset.into(), outside.bytes as usize);
        file.announce(Access::Range { offset, bytes });
    }
    with_bytes(
        file,
        outside.offset.into(),
        outside.bytes as usize,
        |value| {
            let is_sound = outside.unverified.is_none_or(|crc| crc32c(value) == crc);
            is_sound.then(|| look(value))
        },
    )
}

/// The error of a value whose checksum is wrong, in the file at `path`.
pub(crate) fn damaged_value(path: PathBuf, outside: Outside) -> Error {
    Error::Damaged {
        path,
        offset: outside.offset.into(),
        reason: "the value's checksum is wrong",
    }
}

/// A segment of an open log.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) head: Head,
    pub(crate) file: Arc<dyn Stored>,
    /// Bytes that are written, the head included.
    end: AtomicU64,
    /// Bytes of the file, room that is reserved included.
    allocated: AtomicU64,
    /// Bytes of its hint; 0 where there is none.
    hint: AtomicU64,
    /// Whether a hint would save too little.
    needs_no_hint: AtomicBool,
}

impl Segment {
    pub(crate) fn new(head: Head, file: Arc<dyn Stored>, end: u64, allocated: u64) -> Self {
        Self {
            head,
            file,
            end: AtomicU64::new(end),
            allocated: AtomicU64::new(allocated),
            hint: AtomicU64::new(0),
            needs_no_hint: AtomicBool::new(false),
        }
    }

    /// Bytes of its hint; 0 where there is none.
    pub(crate) fn hint(&self) -> u64 {
        self.hint.load(Ordering::Acquire)
    }

    pub(crate) fn set_hint(&self, bytes: u64) {
        self.hint.store(bytes, Ordering::Release);
    }

    /// Whether it has no hint and could have one.
    pub(crate) fn wants_hint(&self) -> bool {
        self.hint() == 0 && !self.needs_no_hint.load(Ordering::Relaxed)
    }

    /// Notes that a hint would save too little.
    pub(crate) fn go_without_hint(&self) {
        self.needs_no_hint.store(true, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    pub(crate) fn set_end(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    pub(crate) fn allocated(&self) -> u64 {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Position in the log behind its last record.
    pub(crate) fn end_position(&self) -> u64 {
        self.head.position + self.end() - HEAD_BYTES as u64
    }

    /// Whether much room is left behind what is written, as large values leave it. Of little room, no or one block is given
    /// back.
    pub(crate) fn is_worth_trimming(&self) -> bool {
        /// The part of the file from which on it is much.
        const PART: u64 = 64;
        self.allocated() - self.end() > self.allocated() / PART
    }

    /// Gives back the room behind what is written, if there is some.
    pub(crate) fn trim(&self) -> io::Result<()> {
        if self.allocated() == self.end() {
            return Ok(());
        }
        self.file.truncate(self.end())?;
        self.allocated.store(self.end(), Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_is_read_as_it_was_written_and_every_changed_bit_is_noticed() {
        let head = Head {
            id: 7,
            oldest: 3,
            position: 1 << 40,
            sequence: 9,
            salt: u64::MAX,
        };
        let bytes = head.encode();
        assert_eq!(Head::decode(&bytes, 7), Ok(head));
        assert_eq!(Head::decode(&bytes, 8), Err(BadHead::Damaged));
        for bit in 0..8 * HEAD_BYTES {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                Head::decode(&changed, 7),
                Err(BadHead::Damaged),
                "bit {bit}"
            );
        }
        let mut newer = bytes;
        newer[8] += 1;
        let crc = crc32c(&newer[..HEAD_BYTES - 4]);
        newer[HEAD_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Head::decode(&newer, 7), Err(BadHead::Version(VERSION + 1)));
    }

    #[test]
    fn segment_names_are_recognized() {
        assert_eq!(name(1), "0000000001.log");
        assert_eq!(parse_name(&name(LAST)), Some(LAST));
        assert_eq!(parse_name(&name(u32::MAX)), None);
        for other in [
            "LOCK",
            "1.log",
            "0000000000.log",
            "0000000001.hint",
            "x000000001.log",
        ] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }
}

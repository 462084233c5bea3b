//! The mark: a small file beside the log that says how far the log has reached the disk.
//!
//! A record says up to where the log had reached the disk when it was written. Nothing says so of the last records, and what is
//! missing at the end says nothing at all. Every sync therefore ends with a mark. It has two slots, which are written in turn,
//! so that a mark whose writing was interrupted leaves the one before it.
//!
//! A mark is written after the sync that it states, so it is true whenever it reaches the disk. `docs/store-format.md` draws
//! the bytes.

use std::io;
use std::time::{Duration, Instant};

use crc32c::crc32c;

use super::segment::Head;
use crate::storage::{InPlace, Storage, with_bytes};

/// The name of the file.
pub(crate) const NAME: &str = "SYNCED";

/// Bytes of a slot.
const SLOT_BYTES: usize = 64;

/// Distance of the slots: no page and no sector holds a part of both.
const SLOT_DISTANCE: usize = 4096;

/// Bytes of the file.
pub(crate) const FILE_BYTES: usize = 2 * SLOT_DISTANCE;

/// Interval at which the mark reaches the disk while every record is synced.
const SYNC_EVERY: Duration = Duration::from_secs(5);

const MAGIC: [u8; 8] = *b"LLSYNC1\n";

/// A statement that everything before a position has reached the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Number of marks before it.
    pub(crate) number: u64,
    /// The segment in which the last byte before the position lies, and its salt.
    pub(crate) segment: u32,
    pub(crate) salt: u64,
    /// Offset behind this byte in the segment's file.
    pub(crate) offset: u32,
    pub(crate) position: u64,
}

/// The content of the file.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FoundMark {
    pub(crate) mark: Option<Mark>,
    /// Number of the next mark.
    pub(crate) next: u64,
    /// The reason why the file is ignored, if it is.
    pub(crate) ignored: Option<&'static str>,
}

impl FoundMark {
    /// Whether there is a file.
    pub(crate) fn is_present(&self) -> bool {
        self.mark.is_some() || self.ignored.is_some()
    }
}

impl Mark {
    pub(crate) fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.position.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.salt.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.segment.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.offset.to_le_bytes());
        let crc = crc32c(&bytes[..SLOT_BYTES - 4]);
        bytes[SLOT_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The mark at the front of `slot`.
    fn decode(slot: &[u8]) -> Option<Self> {
        let bytes: &[u8; SLOT_BYTES] = slot.first_chunk()?;
        let four = |at: usize| bytes[at..].first_chunk().map(|it| u32::from_le_bytes(*it));
        let eight = |at: usize| bytes[at..].first_chunk().map(|it| u64::from_le_bytes(*it));
        let is_sound =
            bytes[..8] == MAGIC && four(SLOT_BYTES - 4)? == crc32c(&bytes[..SLOT_BYTES - 4]);
        let mark = Self {
            number: eight(8)?,
            position: eight(16)?,
            salt: eight(24)?,
            segment: four(32)?,
            offset: four(36)?,
        };
        is_sound.then_some(mark)
    }

    /// Offset of its slot in the file.
    pub(crate) fn place(&self) -> u64 {
        self.number % 2 * SLOT_DISTANCE as u64
    }

    /// Whether it is about the segment with this head, which has its number.
    pub(crate) fn is_of(&self, head: &Head) -> bool {
        self.salt == head.salt && self.position == head.position_at(self.offset.into())
    }
}

/// Reads the file, which is among the names of the directory.
pub(crate) fn read(storage: &dyn Storage) -> io::Result<FoundMark> {
    let file = storage.open_to_copy(NAME)?;
    let bytes = file.len()?.min(FILE_BYTES as u64) as usize;
    with_bytes(&*file, 0, bytes, |all| {
        let slots = all.chunks(SLOT_DISTANCE).filter_map(Mark::decode);
        let mark = slots.max_by_key(|mark| mark.number);
        FoundMark {
            mark,
            next: mark.map_or(0, |mark| mark.number.wrapping_add(1)),
            ignored: mark
                .is_none()
                .then_some("it holds no mark; the next sync writes one"),
        }
    })
}

/// The file of a log that is open for writing.
#[derive(Debug, Default)]
pub(crate) struct MarkFile {
    /// Opened for the first mark.
    file: Option<Box<dyn InPlace>>,
    /// Number of the next mark.
    next: u64,
    /// Time of the last sync.
    synced_at: Option<Instant>,
}

impl MarkFile {
    pub(crate) fn new(next: u64) -> Self {
        Self {
            next,
            ..Self::default()
        }
    }

    /// Writes a mark; it gets its number here.
    pub(crate) fn write(&mut self, storage: &dyn Storage, mark: Mark) -> io::Result<()> {
        let number = self.next;
        let mark = Mark { number, ..mark };
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = storage.open_in_place(NAME, FILE_BYTES)?;
                // The file may have been made.
                storage.sync_names()?;
                self.file.insert(file)
            }
        };
        file.write_at(mark.place(), &mark.encode())?;
        self.next = number.wrapping_add(1);
        Ok(())
    }

    /// Whether the last mark that has reached the disk is so old that the next one is waited for.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let age = self.synced_at.map(|at| now.saturating_duration_since(at));
        age.is_none_or(|age| age >= SYNC_EVERY)
    }

    /// Returns when the last mark has reached the disk.
    pub(crate) fn sync(&mut self, now: Instant) -> io::Result<()> {
        self.synced_at = Some(now);
        self.file.as_ref().map_or(Ok(()), |file| file.sync())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark {
        number: 5,
        segment: 7,
        salt: u64::MAX,
        offset: 1_000,
        position: 1 << 40,
    };

    #[test]
    fn mark_is_read_as_it_was_written_and_every_changed_bit_is_noticed() {
        let bytes = MARK.encode();
        assert_eq!(Mark::decode(&bytes), Some(MARK));
        for cut in 0..SLOT_BYTES {
            assert_eq!(Mark::decode(&bytes[..cut]), None, "cut at {cut}");
        }
        for bit in 0..8 * SLOT_BYTES {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Mark::decode(&changed), None, "bit {bit}");
        }
    }

    #[test]
    fn mark_that_was_being_written_leaves_the_one_before_it() {
        let journal = crate::storage::journal::Journal::default();
        let mut file = MarkFile::default();
        for position in [1, 2, 3] {
            file.write(&journal, Mark { position, ..MARK }).unwrap();
        }
        let found = read(&journal).unwrap();
        assert_eq!((found.mark.unwrap().position, found.next), (3, 3));
        journal.damage(NAME, |file| file[20] ^= 1);
        let found = read(&journal).unwrap();
        assert_eq!((found.mark.unwrap().position, found.next), (2, 2));
        journal.damage(NAME, |file| file.truncate(70));
        let found = read(&journal).unwrap();
        assert_eq!(
            (found.mark, found.ignored),
            (None, Some("it holds no mark; the next sync writes one"))
        );
    }
}

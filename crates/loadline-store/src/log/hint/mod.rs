//! Hints: what the records of a segment say, without the values that are only in the log. Opening a store reads them in
//! the place of their segments.
//!
//! `docs/store-format.md` draws the bytes.

mod made;
mod stored;

use std::ops::ControlFlow;

use crc32c::{crc32c, crc32c_append};

use super::op::{Kind, Ops};
use super::record::{ALIGNMENT, HEADER_BYTES, MAX_BODY_BYTES};
use super::scan;
use super::segment::{self, HEAD_BYTES};
pub(crate) use stored::{Content, FoundHint, Hints, Looked, StoredHint};

/// Bytes in front of the first record.
const HINT_HEAD_BYTES: usize = 64;

const MAGIC: [u8; 8] = *b"LLHINT1\n";

/// A hint takes at most one byte for as many of its segment.
const LEAST_RATIO: u64 = 8;

/// The fewest bytes of a record: its header, and an operation with an empty key and no value.
const LEAST_RECORD_BYTES: u64 = HEADER_BYTES as u64 + 2;

/// The name of a hint's file.
pub(crate) fn name(id: u32) -> String {
    format!("{id:010}.hint")
}

/// The segment whose hint has this name.
pub(crate) fn parse_name(file: &str) -> Option<u32> {
    let digits = file.strip_suffix(".hint")?;
    segment::parse_name(&format!("{digits}.log"))
}

/// The reason why a hint is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ignored {
    Damaged,
    OtherVersion,
    OtherSegment,
    OtherLimit,
    Disagrees,
    Unreadable,
}

impl Ignored {
    /// The reason, for a message.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Damaged => "it is incomplete or damaged",
            Self::OtherVersion => "it has another version",
            Self::OtherSegment => "it belongs to another segment, or to another state of this one",
            Self::OtherLimit => "it was made for another limit of values",
            Self::Disagrees => "it disagrees with its segment",
            Self::Unreadable => "it cannot be read",
        }
    }
}

/// A sealed segment, as its hint describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub(crate) head: segment::Head,
    /// Position behind its last record, and number of all records up to there.
    pub(crate) position: u64,
    pub(crate) sequence: u64,
}

impl Sealed {
    /// Of a segment with the head of the next one. `None` where they do not follow one another.
    pub(crate) fn new(head: segment::Head, next: &segment::Head) -> Option<Self> {
        let follows = head.id + 1 == next.id
            && head.position <= next.position
            && head.sequence <= next.sequence;
        follows.then_some(Self {
            head,
            position: next.position,
            sequence: next.sequence,
        })
    }

    /// Offset in its file behind the last record.
    pub(crate) fn end(&self) -> u64 {
        let records = self.position.saturating_sub(self.head.position);
        HEAD_BYTES as u64 + records
    }

    /// The most bytes of a hint.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.end() / LEAST_RATIO
    }

    /// Whether there are too many records for a short enough hint.
    pub(crate) fn has_too_many_records(&self) -> bool {
        let records = self.sequence.saturating_sub(self.head.sequence);
        let least = records.saturating_mul(LEAST_RECORD_BYTES);
        HINT_HEAD_BYTES as u64 + least > self.most_bytes()
    }

    /// The head of a hint, with the checksum for these records.
    fn encode(&self, left_out: u32, records: &[u8]) -> [u8; HINT_HEAD_BYTES] {
        let mut bytes = [0; HINT_HEAD_BYTES];
        let numbers = [
            self.head.salt,
            self.head.position,
            self.head.sequence,
            self.position,
            self.sequence,
        ];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.head.id.to_le_bytes());
        bytes[12..16].copy_from_slice(&left_out.to_le_bytes());
        for (place, number) in bytes[16..56].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c_append(crc32c(records), &bytes[..HINT_HEAD_BYTES - 4]);
        bytes[HINT_HEAD_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// The hint of a segment whose bytes up to its end are `file`, without values of at least `left_out` bytes. `None` where it
/// would take more than `most_bytes`, or where a record is not whole.
pub(crate) fn build(
    file: &[u8],
    sealed: &Sealed,
    left_out: usize,
    most_bytes: u64,
) -> Option<Vec<u8>> {
    let limit = u32::try_from(left_out).ok()?;
    let mut hint = vec![0; HINT_HEAD_BYTES];
    let mut end = HEAD_BYTES;
    scan::records(file, &sealed.head, |offset, record| {
        hint.extend_from_slice(&file[offset..offset + HEADER_BYTES]);
        let mut begin = 0;
        let mut ops = Ops::new(record.body);
        for (end, op) in ops.by_ref() {
            match op.kind {
                Kind::Put { value, .. } if value.len() >= left_out => {
                    hint.extend_from_slice(&record.body[begin..end - value.len()]);
                    hint.extend_from_slice(&crc32c(value).to_le_bytes());
                }
                _ => hint.extend_from_slice(&record.body[begin..end]),
            }
            begin = end;
        }
        if !ops.is_at_end() || hint.len() as u64 > most_bytes {
            return ControlFlow::Break(());
        }
        end = offset + record.len;
        ControlFlow::Continue(())
    });
    if end as u64 != sealed.end() {
        return None;
    }
    let head = sealed.encode(limit, &hint[HINT_HEAD_BYTES..]);
    hint[..HINT_HEAD_BYTES].copy_from_slice(&head);
    Some(hint)
}

/// A record of a hint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    /// Offset of the record in the segment, and bytes of its body there.
    pub(crate) offset: usize,
    pub(crate) body_bytes: usize,
    /// Bytes from its beginning back to the position up to which everything had reached the disk.
    pub(crate) unsynced_bytes: Option<u64>,
}

/// A hint whose checksum is right.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hint<'h> {
    records: &'h [u8],
    left_out: usize,
    /// Offset in the segment behind its last record, and number of its records.
    end: u64,
    count: u64,
}

impl<'h> Hint<'h> {
    /// The hint in `file`, if it is that of this segment.
    pub(crate) fn read(file: &'h [u8], sealed: &Sealed) -> Result<Self, Ignored> {
        let (head, records) = file
            .split_first_chunk::<HINT_HEAD_BYTES>()
            .ok_or(Ignored::Damaged)?;
        if head[..8] != MAGIC {
            let is_hint = head[..6] == MAGIC[..6] && head[7] == MAGIC[7];
            return Err(match is_hint {
                true => Ignored::OtherVersion,
                false => Ignored::Damaged,
            });
        }
        let left_out = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
        let expected = sealed.encode(left_out, records);
        if *head != expected {
            // The checksum covers the whole head, so it says whether the hint is that of another segment.
            let crc = crc32c_append(crc32c(records), &head[..HINT_HEAD_BYTES - 4]);
            return Err(match head[HINT_HEAD_BYTES - 4..] == crc.to_le_bytes() {
                true => Ignored::OtherSegment,
                false => Ignored::Damaged,
            });
        }
        Ok(Self {
            records,
            left_out: left_out as usize,
            end: sealed.end(),
            count: sealed.sequence.saturating_sub(sealed.head.sequence),
        })
    }

    /// Length of values from which on they are left out.
    pub(crate) fn left_out(&self) -> usize {
        self.left_out
    }

    /// Shows `visit` the records with their operations, until it wants no more. Returns whether they are those of the
    /// whole segment.
    pub(crate) fn records<E>(
        &self,
        mut visit: impl FnMut(&Record, &mut Ops<'h>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut rest = self.records;
        let mut offset = HEAD_BYTES;
        let mut count = 0;
        while let Some((header, ops)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let number = |at: usize| {
                let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
                u32::from_le_bytes(bytes)
            };
            let body_bytes = number(4) as usize;
            let len = (HEADER_BYTES + body_bytes).next_multiple_of(ALIGNMENT);
            let is_possible = (1..=MAX_BODY_BYTES).contains(&body_bytes);
            if !is_possible || (offset + len) as u64 > self.end {
                return Ok(false);
            }
            let record = Record {
                offset,
                body_bytes,
                unsynced_bytes: super::record::unsynced_bytes(number(8)),
            };
            let mut ops = Ops::without_values(ops, body_bytes, self.left_out);
            visit(&record, &mut ops)?;
            ops.by_ref().for_each(drop);
            if !ops.is_at_end() {
                return Ok(false);
            }
            rest = ops.rest();
            offset += len;
            count += 1;
        }
        Ok(rest.is_empty() && offset as u64 == self.end && count == self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::Draft;

    /// A segment of two records, as the page about the format draws its hint.
    #[test]
    fn hint_has_the_bytes_of_the_format() {
        let head = segment::Head {
            id: 3,
            oldest: 1,
            position: 1_000,
            sequence: 40,
            salt: 0x0807_0605_0403_0201,
        };
        let mut file = head.encode().to_vec();
        let mut draft = Draft::default();
        let body = draft.begin();
        body.extend(b"\x01\x03\xd0\x0fkey");
        body.extend([7; 2_000]);
        body.extend(b"\x03\x03old");
        draft.finish();
        file.extend_from_slice(draft.seal(head.salt, 40, 0));
        draft.begin().extend(b"\x01\x05\x03shortone");
        draft.finish();
        file.extend_from_slice(draft.seal(head.salt, 41, 800));
        let next = segment::Head {
            id: 4,
            position: 1_000 + (file.len() - HEAD_BYTES) as u64,
            sequence: 42,
            ..head
        };
        let sealed = Sealed::new(head, &next).unwrap();
        assert_eq!(sealed.end(), file.len() as u64);
        let hint = build(&file, &sealed, 64, sealed.most_bytes()).unwrap();

        let mut records = file[64..80].to_vec();
        assert_eq!(records[4..], [220, 7, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0]);
        records.extend(b"\x01\x03\xd0\x0fkey");
        records.extend(crc32c(&[7; 2_000]).to_le_bytes());
        records.extend(b"\x03\x03old");
        let second = &file[2_096..];
        assert_eq!(second[4..16], [11, 0, 0, 0, 100, 0, 0, 0, 41, 0, 0, 0]);
        records.extend(&second[..16]);
        records.extend(b"\x01\x05\x03shortone");
        let mut expected =
            b"LLHINT1\n\x03\0\0\0\x40\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08".to_vec();
        for number in [1_000_u64, 40, 3_064, 42] {
            expected.extend(number.to_le_bytes());
        }
        expected.extend([0; 4]);
        let crc = crc32c(&[&records[..], &expected].concat());
        expected.extend(crc.to_le_bytes());
        expected.extend(records);
        assert_eq!(hint, expected);

        // One that is too long, and a segment that is not whole.
        assert!(build(&file, &sealed, 64, hint.len() as u64 - 1).is_none());
        file[100] ^= 1;
        assert!(build(&file, &sealed, 64, u64::MAX).is_none());
    }
}

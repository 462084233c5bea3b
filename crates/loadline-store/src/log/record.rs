//! Records: operations that happen as one, with what makes a torn or damaged one visible.
//!
//! `docs/store-format.md` draws the bytes.

use std::cell::RefCell;

use crc32c::{crc32c, crc32c_append};

/// Bytes in front of a record's body.
pub(crate) const HEADER_BYTES: usize = 16;

/// Records begin at multiples of this many bytes.
pub(crate) const ALIGNMENT: usize = 8;

/// Represents a distance that does not fit into the header.
const FAR: u32 = u32::MAX;

/// Largest body of a record, in bytes.
pub(crate) const MAX_BODY_BYTES: usize = 1 << 30;

/// A record that is being written. Its memory serves for the next one.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// Room for the header, and the body.
    bytes: Vec<u8>,
    /// Checksum of the body, once it is complete.
    body_crc: u32,
    body_end: usize,
}

/// Gives `work` a record to write, whose memory serves again for the next one of the thread.
pub(crate) fn with_draft<R>(work: impl FnOnce(&mut Draft) -> R) -> R {
    crate::sync::thread_local! {
        static DRAFT: RefCell<Draft> = RefCell::default();
    }
    DRAFT.with(|draft| work(&mut draft.borrow_mut()))
}

impl Draft {
    /// Memory that is kept for the next record.
    const KEPT_BYTES: usize = 1 << 20;

    /// Begins a record: returns its body to append operations to, behind the room for the header.
    pub(crate) fn begin(&mut self) -> &mut Vec<u8> {
        self.bytes.clear();
        self.bytes.shrink_to(Self::KEPT_BYTES);
        self.bytes.resize(HEADER_BYTES, 0);
        &mut self.bytes
    }

    /// The body of a record that was begun, to append more operations to.
    #[inline]
    pub(crate) fn more(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Bytes of the body of a record that was begun and not finished.
    #[inline]
    pub(crate) fn pending_bytes(&self) -> usize {
        self.bytes.len().saturating_sub(HEADER_BYTES)
    }

    /// The body of a record that was begun and not finished.
    pub(crate) fn pending(&self) -> &[u8] {
        self.bytes.get(HEADER_BYTES..).unwrap_or_default()
    }

    /// Takes the end of the body back, so that more operations can be appended.
    pub(crate) fn reopen(&mut self) {
        self.bytes.truncate(self.body_end);
    }

    /// Ends the body.
    pub(crate) fn finish(&mut self) {
        self.body_end = self.bytes.len();
        self.body_crc = crc32c(&self.bytes[HEADER_BYTES..]);
        let padded = self.body_end.next_multiple_of(ALIGNMENT);
        self.bytes.resize(padded, 0);
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..self.body_end]
    }

    /// Bytes that the record takes in its segment.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of the whole record, once its place is known. `unsynced_bytes` is the distance from its
    /// beginning back to the position up to which everything has reached the disk.
    pub(crate) fn seal(&mut self, salt: u64, sequence: u64, unsynced_bytes: u64) -> &[u8] {
        let unsynced = unsynced_bytes.div_ceil(ALIGNMENT as u64);
        let header = Header {
            body_bytes: (self.body_end - HEADER_BYTES) as u32,
            unsynced: u32::try_from(unsynced).unwrap_or(FAR),
            sequence: sequence as u32,
        };
        let checked = header.checked();
        let crc = header_crc(self.body_crc, &checked, salt);
        self.bytes[..4].copy_from_slice(&crc.to_le_bytes());
        self.bytes[4..HEADER_BYTES].copy_from_slice(&checked);
        &self.bytes
    }
}

fn header_crc(body_crc: u32, checked: &[u8; HEADER_BYTES - 4], salt: u64) -> u32 {
    crc32c_append(crc32c_append(body_crc, checked), &salt.to_le_bytes())
}

/// The header without its checksum.
#[derive(Debug, Clone, Copy)]
struct Header {
    body_bytes: u32,
    unsynced: u32,
    sequence: u32,
}

impl Header {
    fn checked(self) -> [u8; HEADER_BYTES - 4] {
        let mut bytes = [0; HEADER_BYTES - 4];
        bytes[..4].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.unsynced.to_le_bytes());
        bytes[8..].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }
}

/// The distance that a header states, in bytes.
pub(crate) fn unsynced_bytes(unsynced: u32) -> Option<u64> {
    (unsynced != FAR).then(|| u64::from(unsynced) * ALIGNMENT as u64)
}

/// The bodies of records that are known to be whole, with the offsets of the records.
pub(crate) fn bodies(records: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let rest = records.get(offset..)?;
        let body_bytes = u32::from_le_bytes(*rest.get(4..)?.first_chunk()?) as usize;
        let body = rest.get(HEADER_BYTES..HEADER_BYTES + body_bytes)?;
        let begin = offset;
        offset += (HEADER_BYTES + body_bytes).next_multiple_of(ALIGNMENT);
        Some((begin, body))
    })
}

/// A record that was read and whose checksum is right.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'s> {
    pub(crate) body: &'s [u8],
    /// Lowest 32 bits of its sequence number.
    pub(crate) sequence: u32,
    /// Bytes from its beginning back to the position up to which everything had reached the disk when it
    /// was written; `None` where that is too far.
    pub(crate) unsynced_bytes: Option<u64>,
    /// Bytes of the whole record in the segment.
    pub(crate) len: usize,
}

impl<'s> Record<'s> {
    /// The record at the front of `bytes`. `None` where there is none that is whole.
    pub(crate) fn read(bytes: &'s [u8], salt: u64) -> Option<Self> {
        let (crc, rest) = bytes.split_first_chunk()?;
        let (checked, rest) = rest.split_first_chunk::<{ HEADER_BYTES - 4 }>()?;
        let number = |at: usize| {
            let bytes = checked[at..].first_chunk();
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        let body_bytes = number(0) as usize;
        if body_bytes == 0 || body_bytes > MAX_BODY_BYTES {
            return None;
        }
        let len = (HEADER_BYTES + body_bytes).next_multiple_of(ALIGNMENT);
        let body = rest.get(..body_bytes)?;
        if len > bytes.len() || header_crc(crc32c(body), checked, salt) != u32::from_le_bytes(*crc)
        {
            return None;
        }
        Some(Self {
            body,
            sequence: number(8),
            unsynced_bytes: unsynced_bytes(number(4)),
            len,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(body: &[u8], unsynced_bytes: u64) -> Vec<u8> {
        let mut draft = Draft::default();
        draft.begin().extend_from_slice(body);
        draft.finish();
        draft.seal(7, (1 << 32) + 5, unsynced_bytes).to_vec()
    }

    #[test]
    fn record_is_read_as_it_was_written() {
        for body in [&b"x"[..], b"12345678", &[0; 1_000]] {
            let bytes = record(body, 17);
            assert_eq!(bytes.len() % ALIGNMENT, 0);
            let read = Record::read(&bytes, 7).unwrap();
            assert_eq!((read.body, read.sequence, read.len), (body, 5, bytes.len()));
            assert_eq!(read.unsynced_bytes, Some(24));
            assert!(Record::read(&bytes, 8).is_none(), "of another segment");
        }
        let far = record(b"x", u64::MAX);
        assert_eq!(Record::read(&far, 7).unwrap().unsynced_bytes, None);
    }

    /// The padding is outside the checksum: it carries nothing.
    #[test]
    fn every_changed_bit_and_every_cut_is_noticed() {
        let body = b"some operations";
        let bytes = record(body, 0);
        for cut in 0..bytes.len() {
            assert!(Record::read(&bytes[..cut], 7).is_none(), "cut at {cut}");
        }
        for bit in 0..8 * (HEADER_BYTES + body.len()) {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::read(&changed, 7).is_none(), "bit {bit}");
        }
        assert!(Record::read(&[0; 64], 7).is_none(), "zeros are no record");
    }
}

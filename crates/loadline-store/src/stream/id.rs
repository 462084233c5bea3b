//! Ids of entries, and numbers of variable length.

use std::fmt;

/// The id of an entry: a time in milliseconds, and a number among the entries of that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct StreamId {
    /// Milliseconds, usually since the Unix epoch.
    pub ms: u64,
    /// The number.
    pub seq: u64,
}

impl StreamId {
    /// The least id, which no entry has.
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    /// The greatest id.
    pub const MAX: Self = Self {
        ms: u64::MAX,
        seq: u64::MAX,
    };

    /// The id after this one; `None` after the greatest.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        Self::from_number(self.number().checked_add(1)?)
    }

    /// The id before this one; `None` before the least.
    #[must_use]
    pub fn previous(self) -> Option<Self> {
        Self::from_number(self.number().checked_sub(1)?)
    }

    fn number(self) -> u128 {
        u128::from(self.ms) << 64 | u128::from(self.seq)
    }

    fn from_number(number: u128) -> Option<Self> {
        Some(Self {
            ms: (number >> 64) as u64,
            seq: number as u64,
        })
    }

    /// Its 16 bytes, in the order of ids.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.number().to_be_bytes()
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// Appends a number in groups of seven bits, the lowest first.
pub(super) fn put_number(out: &mut Vec<u8>, number: u64) {
    let mut left = number;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// Appends a string behind its length.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends an id.
pub(super) fn put_id(out: &mut Vec<u8>, id: StreamId) {
    put_number(out, id.ms);
    put_number(out, id.seq);
}

/// Bytes that are being read. Every function returns `None` at their end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bits<'b>(pub(super) &'b [u8]);

impl<'b> Bits<'b> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            // The last group has one bit.
            if shift == 63 && part > 1 {
                return None;
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    #[inline]
    pub(super) fn bytes(&mut self) -> Option<&'b [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn id(&mut self) -> Option<StreamId> {
        Some(StreamId {
            ms: self.number()?,
            seq: self.number()?,
        })
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

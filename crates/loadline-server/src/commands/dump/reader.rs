//! Reading from the front of a payload. Lengths are not trusted and decompression is bounded.

use std::borrow::Cow;

use super::{length, listpack};
use crate::commands::LARGEST;

/// Reads from the front of a payload.
pub(super) struct Reader<'p> {
    rest: &'p [u8],
    /// The remaining budget for all decompressed strings, in bytes.
    room: usize,
}

impl<'p> Reader<'p> {
    /// Of a payload behind its type.
    pub(super) fn new(rest: &'p [u8]) -> Self {
        Self {
            rest,
            room: LARGEST,
        }
    }

    /// Whether everything has been read.
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'p [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(super) fn length(&mut self) -> Option<u64> {
        let [first] = self.array()?;
        match first {
            0..0x40 => Some(first.into()),
            0x40..0x80 => {
                let [second] = self.array()?;
                Some(u64::from(first & 0x3F) << 8 | u64::from(second))
            }
            length::FOUR_BYTES => Some(u32::from_be_bytes(self.array()?).into()),
            length::EIGHT_BYTES => Some(u64::from_be_bytes(self.array()?)),
            _ => None,
        }
    }

    pub(super) fn string(&mut self) -> Option<Cow<'p, [u8]>> {
        let number = match *self.rest.first()? {
            length::INT8 => signed_after_type(self.bytes(2)?),
            length::INT16 => signed_after_type(self.bytes(3)?),
            length::INT32 => signed_after_type(self.bytes(5)?),
            length::LZF => {
                self.bytes(1)?;
                return self.compressed().map(Cow::Owned);
            }
            _ => {
                let length = usize::try_from(self.length()?).ok()?;
                return self.bytes(length).map(Cow::Borrowed);
            }
        };
        Some(number.to_string().into_bytes().into())
    }

    fn compressed(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(self.length()?).ok()?;
        let original = usize::try_from(self.length()?).ok()?;
        self.room = self.room.checked_sub(original)?;
        decompress(self.bytes(length)?, original)
    }

    /// Reads a count and calls `read` that many times. Fails at the end of the payload, however large the
    /// count is.
    pub(super) fn each(&mut self, mut read: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        for _ in 0..self.length()? {
            read(self)?;
        }
        Some(())
    }
}

/// The number after the type byte.
fn signed_after_type(bytes: &[u8]) -> i64 {
    listpack::signed(&bytes[1..])
}

/// Decompresses LibLZF data to `original` bytes. The input is a sequence of instructions. A byte below 32 is
/// one less than the number of literal bytes that follow. Any other byte has three bits of a length and
/// starts a distance of thirteen bits; length plus two bytes are copied from that distance back in the
/// output.
fn decompress(input: &[u8], original: usize) -> Option<Vec<u8>> {
    /// The output of one copy, which takes at least two bytes of input.
    const LONGEST_COPY: usize = 7 + 255 + 2;
    if original > input.len().saturating_mul(LONGEST_COPY) {
        return None;
    }
    let mut out = Vec::with_capacity(original);
    let mut input = input.iter();
    while let Some(&command) = input.next() {
        let command = usize::from(command);
        if command < 32 {
            let (taken, rest) = input.as_slice().split_at_checked(command + 1)?;
            out.extend_from_slice(taken);
            input = rest.iter();
        } else {
            let mut length = 2 + (command >> 5);
            if length == 2 + 7 {
                length += usize::from(*input.next()?);
            }
            let distance = ((command & 0x1F) << 8) + usize::from(*input.next()?) + 1;
            let from = out.len().checked_sub(distance)?;
            // The source of a copy can overlap its output.
            for at in from..from + length {
                out.push(out[at]);
            }
        }
        if out.len() > original {
            return None;
        }
    }
    (out.len() == original).then_some(out)
}

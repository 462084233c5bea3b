//! Short replies, told from their first eight bytes.

use crate::head;
use crate::limits::Limits;

/// Kind of a skipped reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyKind {
    /// Any reply that is none of the others, aggregates included.
    Value,
    /// A null: `$-1`, `*-1` or `_`.
    Nil,
    /// An error of either form. Errors within an aggregate do not make the aggregate one.
    Error,
    /// Out-of-band data, which answers no request.
    Push,
}

/// A short reply known by its first bytes: a line of at most eight bytes with its ending, or a string whose
/// length line is that short. Load generators get the same answer over and over, and one comparison then
/// tells the size of the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The line as the low bytes of a little-endian word.
    line: u64,
    /// All bits of those bytes.
    mask: u64,
    /// Bytes of the whole reply; its last two are the ending.
    pub(crate) bytes: usize,
    pub(crate) kind: ReplyKind,
}

impl Shape {
    /// The shape of no reply: no masked word equals its line.
    pub(crate) const NONE: Self = Self {
        line: 1,
        mask: 0,
        bytes: 2,
        kind: ReplyKind::Value,
    };

    #[inline]
    pub(crate) fn fits(&self, word: u64) -> bool {
        word & self.mask == self.line
    }

    /// The shape of the reply that starts with these eight bytes; `None` where they do not hold its line,
    /// or where anything about it needs a closer look.
    #[inline]
    pub(crate) fn of(word: u64, limits: &Limits) -> Option<Self> {
        let line_bytes = first_line_feed(word)? + 1;
        let mask = u64::MAX >> (64 - 8 * line_bytes);
        let bytes = word.to_le_bytes();
        let (&marker, text) = bytes[..line_bytes].strip_suffix(b"\r\n")?.split_first()?;
        let (bytes, kind) = match marker {
            b'+' | b':' if text.len() <= limits.max_line_bytes => (line_bytes, ReplyKind::Value),
            b'_' if text.len() <= limits.max_line_bytes => (line_bytes, ReplyKind::Nil),
            b'$' if text == b"-1" => (line_bytes, ReplyKind::Nil),
            b'$' => {
                let (len, _) = head::length(&bytes, b'$')?;
                let fits = len as u64 <= limits.max_bulk_bytes;
                (fits.then_some(line_bytes + len + 2)?, ReplyKind::Value)
            }
            _ => return None,
        };
        Some(Self {
            line: word & mask,
            mask,
            bytes,
            kind,
        })
    }
}

/// The place of the first line feed among the bytes of a little-endian word.
///
/// Subtracting one from every byte borrows into the top bit only of bytes that were zero, up to and
/// including the first of them (Hacker's Delight, section 6-1).
#[inline]
fn first_line_feed(word: u64) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let zeroed = word ^ (ONES * b'\n' as u64);
    let found = zeroed.wrapping_sub(ONES) & !zeroed & TOPS;
    (found != 0).then(|| found.trailing_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_line_feed_is_found_among_others() {
        for place in 0..8 {
            for filler in [0, b'\n' - 1, b'\n' + 1, b'\n' | 0x80, 0xff] {
                let mut bytes = [filler; 8];
                assert_eq!(first_line_feed(u64::from_le_bytes(bytes)), None);
                bytes[place..].fill(b'\n');
                assert_eq!(first_line_feed(u64::from_le_bytes(bytes)), Some(place));
            }
        }
    }
}

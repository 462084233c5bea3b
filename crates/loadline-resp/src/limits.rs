//! Limits for a peer, above which it is refused.

use crate::error::Error;

/// The deepest nesting that any [`Limits`] can allow. Replies are built, dropped, cloned and compared by
/// recursion, and a larger depth could exhaust the stack of a small thread.
pub const DEPTH_CEILING: usize = 128;

/// Bytes of an element in [`Limits::max_reply_bytes`]: the room of a value in a vector that has grown by
/// doubling.
const ELEMENT_BYTES: u64 = 64;

/// Upper bounds on what a peer may send; passed by value to every parser.
///
/// A limit is checked against the declared length, before any of the announced bytes arrive, and no
/// memory is reserved from a declared length.
///
/// ```
/// use loadline_resp::Limits;
///
/// let limits = Limits { max_bulk_bytes: 1 << 20, ..Limits::default() };
/// assert_eq!(limits.max_depth, 64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Aggregates within aggregates, counting the outermost; values above [`DEPTH_CEILING`] act as that
    /// ceiling. Default 64.
    pub max_depth: usize,
    /// Bytes of a line (simple string, error, number, inline request) without its type byte and line
    /// ending. Default 65,536.
    pub max_line_bytes: usize,
    /// Bytes of a bulk string, blob error or verbatim string. Default 536,870,912 (512 MiB), as in Redis.
    pub max_bulk_bytes: u64,
    /// Declared length of an aggregate reply: elements of an array, set or push, pairs of a map or
    /// attribute. Default 16,777,216.
    pub max_aggregate_len: u64,
    /// Memory of a reply as a whole: the bytes of its strings and lines, and 64 for each announced element
    /// however short its bytes are, so that a small reply cannot become a large value. Default 536,870,912
    /// (512 MiB).
    pub max_reply_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_depth: 64,
            max_line_bytes: 64 << 10,
            max_bulk_bytes: 512 << 20,
            max_aggregate_len: 1 << 24,
            max_reply_bytes: 512 << 20,
        }
    }
}

impl Limits {
    /// The depth that is enforced: `max_depth`, or the ceiling where that is lower.
    pub(crate) fn depth(&self) -> usize {
        self.max_depth.min(DEPTH_CEILING)
    }
}

/// Size of a reply so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size(u64);

impl Size {
    /// Counts bytes of a string or line.
    pub(crate) fn add(&mut self, bytes: u64, limits: &Limits) -> Result<(), Error> {
        self.0 = self.0.saturating_add(bytes);
        if self.0 > limits.max_reply_bytes {
            let limit = limits.max_reply_bytes;
            return Err(Error::ReplyTooLarge { limit });
        }
        Ok(())
    }

    /// Counts a token with this number of bytes, without its marker, its length and its line endings.
    pub(crate) fn add_token(&mut self, bytes: usize, limits: &Limits) -> Result<(), Error> {
        const MARKERS: usize = 32;
        self.add(bytes.saturating_sub(MARKERS) as u64, limits)
    }

    /// Counts elements that are announced.
    pub(crate) fn add_elements(&mut self, elements: u64, limits: &Limits) -> Result<(), Error> {
        self.add(elements.saturating_mul(ELEMENT_BYTES), limits)
    }
}

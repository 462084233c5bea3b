//! What a peer may ask for before it is refused.

/// The deepest nesting that any [`Limits`] can allow. Replies are built, dropped, cloned and compared by
/// recursion, and a larger depth could exhaust the stack of a small thread.
pub const DEPTH_CEILING: usize = 128;

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
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_depth: 64,
            max_line_bytes: 64 << 10,
            max_bulk_bytes: 512 << 20,
            max_aggregate_len: 1 << 24,
        }
    }
}

impl Limits {
    /// The depth that is enforced: `max_depth`, or the ceiling where that is lower.
    pub(crate) fn depth(&self) -> usize {
        self.max_depth.min(DEPTH_CEILING)
    }
}

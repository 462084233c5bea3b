//! Errors in bytes from a peer.

use thiserror::Error;

/// Reason for refusing bytes. After an error the position in the stream is unknown: the connection has to be
/// closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not RESP.
    #[error("the peer sent something that is not RESP: {0}")]
    Malformed(Malformed),
    /// A line is longer than [`Limits::max_line_bytes`](crate::Limits::max_line_bytes).
    #[error("the peer sent a line longer than the limit of {limit} bytes")]
    LineTooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// A string is longer than [`Limits::max_bulk_bytes`](crate::Limits::max_bulk_bytes).
    #[error("the peer announced a string of {bytes} bytes, over the limit of {limit} bytes")]
    BulkTooLong {
        /// The announced length in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// An aggregate is longer than [`Limits::max_aggregate_len`](crate::Limits::max_aggregate_len).
    #[error("the peer announced an aggregate of {len} elements, over the limit of {limit}")]
    AggregateTooLong {
        /// The announced length in elements, or in pairs for maps and attributes.
        len: u64,
        /// The limit, in the same unit.
        limit: u64,
    },
    /// A reply as a whole takes more memory than
    /// [`Limits::max_reply_bytes`](crate::Limits::max_reply_bytes).
    #[error("the peer sent a reply that takes more memory than the limit of {limit} bytes")]
    ReplyTooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// Aggregates are nested deeper than [`Limits::max_depth`](crate::Limits::max_depth).
    #[error("the peer nested aggregates deeper than the limit of {limit} levels")]
    TooDeep {
        /// The limit in levels.
        limit: usize,
    },
    /// A streamed string or aggregate of RESP3. No known server sends them, and none is read here.
    #[error("the peer sent a streamed RESP3 string or aggregate, which is not supported")]
    Streamed,
    /// A request that Redis would refuse too. The sentence is the one Redis 7.0 sends after `-ERR `.
    #[error("{0}")]
    Request(RequestFault),
}

/// In which way bytes are not RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformed {
    /// A reply starts with a byte that names no type.
    #[error("no reply type starts with byte 0x{0:02x}")]
    Type(u8),
    /// A line feed without a carriage return before it.
    #[error("a line ends without a carriage return")]
    LineEnding,
    /// A length is not a number, is negative, or has leading zeros.
    #[error("a length is not a number from 0 on")]
    Length,
    /// A string is not followed by carriage return and line feed.
    #[error("a string is longer than announced")]
    Terminator,
    /// An integer is not a number of 64 bits.
    #[error("an integer is not a number of 64 bits")]
    Integer,
    /// A double is not a number.
    #[error("a double is not a number")]
    Double,
    /// A big number has no digits, or other characters as well.
    #[error("a big number is not made of digits")]
    BigNumber,
    /// A boolean is neither `t` nor `f`.
    #[error("a boolean is neither t nor f")]
    Boolean,
    /// A null has content.
    #[error("a null has content")]
    Null,
    /// A verbatim string does not start with a format of three bytes and a colon.
    #[error("a verbatim string has no format")]
    Verbatim,
}

/// In which way a request is not one; the texts are those of Redis 7.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestFault {
    /// The number after `*` is not one, or is over the limit.
    #[error("Protocol error: invalid multibulk length")]
    MultibulkLength,
    /// The line after `*` does not end.
    #[error("Protocol error: too big mbulk count string")]
    MultibulkLine,
    /// More than ten arguments before authentication.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedMultibulk,
    /// An argument that does not start with `$`.
    #[error("Protocol error: expected '$', got '{}'", *.0 as char)]
    ExpectedBulk(u8),
    /// The number after `$` is not one, is over the limit, or does not fit what follows.
    #[error("Protocol error: invalid bulk length")]
    BulkLength,
    /// The line after `$` does not end.
    #[error("Protocol error: too big bulk count string")]
    BulkLine,
    /// An argument of more than 16,384 bytes before authentication.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulk,
    /// An inline request that does not end.
    #[error("Protocol error: too big inline request")]
    InlineLine,
    /// An inline request with a quote that is not closed, or not followed by a space.
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
}

impl From<Malformed> for Error {
    fn from(what: Malformed) -> Self {
        Self::Malformed(what)
    }
}

impl From<RequestFault> for Error {
    fn from(fault: RequestFault) -> Self {
        Self::Request(fault)
    }
}

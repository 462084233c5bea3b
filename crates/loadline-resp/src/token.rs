//! The smallest steps of a reply: a leaf, or the header of an aggregate.

use memchr::memchr;

use crate::error::{Error, Malformed};
use crate::limits::Limits;
use crate::number::{self, LENGTH_LINE_BYTES};
use crate::reply::Reply;

/// One step of a reply.
#[derive(Debug)]
pub(crate) enum Token<'a> {
    /// A whole reply without children.
    Leaf(Reply<'a>),
    /// The header of an aggregate with its declared length.
    Open(Aggregate, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    Array,
    Map,
    Set,
    Push,
    Attribute,
}

impl Aggregate {
    /// Number of replies that follow the header. An attribute is read as an aggregate whose last child is the
    /// reply that it is about, so that chains of attributes count as depth.
    ///
    /// # Errors
    /// `AggregateTooLong` over the limit, and where the number of replies has no `u64`.
    pub(crate) fn children(self, len: u64, limits: &Limits) -> Result<u64, Error> {
        let limit = limits.max_aggregate_len;
        let children = match self {
            Self::Array | Self::Set | Self::Push => Some(len),
            Self::Map => len.checked_mul(2),
            Self::Attribute => len.checked_mul(2).and_then(|twice| twice.checked_add(1)),
        };
        children
            .filter(|_| len <= limit)
            .ok_or(Error::AggregateTooLong { len, limit })
    }
}

/// Meaning of a line, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    /// The line is the reply.
    Line(u8),
    /// The line is the length of a string that follows.
    String(u8),
    /// The line is the length of an aggregate.
    Aggregate(Aggregate),
}

impl Marker {
    /// # Errors
    /// `Streamed` for the parts of streamed replies, `Malformed` for bytes that name no type.
    pub(crate) fn of(byte: u8) -> Result<Self, Error> {
        Ok(match byte {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => Self::Line(byte),
            b'$' | b'!' | b'=' => Self::String(byte),
            b'*' => Self::Aggregate(Aggregate::Array),
            b'%' => Self::Aggregate(Aggregate::Map),
            b'~' => Self::Aggregate(Aggregate::Set),
            b'>' => Self::Aggregate(Aggregate::Push),
            b'|' => Self::Aggregate(Aggregate::Attribute),
            b';' | b'.' => return Err(Error::Streamed),
            other => return Err(Malformed::Type(other).into()),
        })
    }

    /// The most bytes that the line may have without its ending.
    pub(crate) fn max_line_bytes(self, limits: &Limits) -> usize {
        match self {
            Self::Line(_) => limits.max_line_bytes,
            Self::String(_) | Self::Aggregate(_) => LENGTH_LINE_BYTES,
        }
    }

    /// Error for a line over that size.
    pub(crate) fn too_long(self, limits: &Limits) -> Error {
        match self {
            Self::Line(_) => Error::LineTooLong {
                limit: limits.max_line_bytes,
            },
            Self::String(_) | Self::Aggregate(_) => Malformed::Length.into(),
        }
    }

    /// Reads the length line of this type; `None` is the null that RESP2 writes as length -1, which only
    /// bulk strings and arrays have.
    pub(crate) fn length(self, line: &[u8]) -> Result<Option<u64>, Error> {
        match (self, number::length(line)?) {
            (Self::String(b'$') | Self::Aggregate(Aggregate::Array), None) => Ok(None),
            (_, None) => Err(Malformed::Length.into()),
            (_, some) => Ok(some),
        }
    }
}

/// Checks the announced length of a string.
pub(crate) fn check_bulk(bytes: u64, limits: &Limits) -> Result<(), Error> {
    if bytes > limits.max_bulk_bytes {
        return Err(Error::BulkTooLong {
            bytes,
            limit: limits.max_bulk_bytes,
        });
    }
    Ok(())
}

/// Takes the ending off a line that is known to end with a line feed.
pub(crate) fn strip_ending(line: &[u8]) -> Result<&[u8], Error> {
    line.strip_suffix(b"\r\n")
        .ok_or(Malformed::LineEnding.into())
}

/// Reads the token at the start of `buf`, and how many bytes it has; `None` where it is not complete.
///
/// `searched` says how many bytes at the start of `buf` were searched for a line feed before, in vain; it
/// is updated for the next call with the same token.
pub(crate) fn read<'a>(
    buf: &'a [u8],
    searched: &mut usize,
    limits: &Limits,
) -> Result<Option<(Token<'a>, usize)>, Error> {
    let Some(&first) = buf.first() else {
        return Ok(None);
    };
    let marker = Marker::of(first)?;
    let Some(line) = line(buf, searched, marker, limits)? else {
        return Ok(None);
    };
    let after = 1 + line.len() + 2;
    match marker {
        Marker::Line(kind) => Ok(Some((Token::Leaf(leaf(kind, line)?), after))),
        Marker::Aggregate(kind) => Ok(Some(match marker.length(line)? {
            Some(len) => (Token::Open(kind, len), after),
            None => (Token::Leaf(Reply::Null), after),
        })),
        Marker::String(kind) => {
            let Some(bytes) = marker.length(line)? else {
                return Ok(Some((Token::Leaf(Reply::Null), after)));
            };
            check_bulk(bytes, limits)?;
            let Some(body) = body(&buf[after..], bytes)? else {
                return Ok(None);
            };
            Ok(Some((
                Token::Leaf(string(kind, body)?),
                after + body.len() + 2,
            )))
        }
    }
}

/// The line after the type byte, without its ending.
fn line<'a>(
    buf: &'a [u8],
    searched: &mut usize,
    marker: Marker,
    limits: &Limits,
) -> Result<Option<&'a [u8]>, Error> {
    let from = (*searched).max(1);
    let longest = marker.max_line_bytes(limits).saturating_add(3);
    let window = &buf[..buf.len().min(longest)];
    match memchr(b'\n', window.get(from..).unwrap_or_default()) {
        Some(found) => strip_ending(&window[1..=from + found]).map(Some),
        None if window.len() == longest => Err(marker.too_long(limits)),
        None => {
            *searched = buf.len();
            Ok(None)
        }
    }
}

/// The announced bytes at the start of `rest`, once their ending is there too.
fn body(rest: &[u8], bytes: u64) -> Result<Option<&[u8]>, Error> {
    // A length that does not fit the address space is never complete.
    let Ok(bytes) = usize::try_from(bytes) else {
        return Ok(None);
    };
    let Some(ending) = rest.get(bytes..) else {
        return Ok(None);
    };
    match ending {
        [b'\r', b'\n', ..] => Ok(Some(&rest[..bytes])),
        [] | [b'\r'] => Ok(None),
        _ => Err(Malformed::Terminator.into()),
    }
}

fn leaf(kind: u8, line: &[u8]) -> Result<Reply<'_>, Error> {
    Ok(match kind {
        b'+' => Reply::Simple(line),
        b'-' => Reply::Error(line),
        b':' => Reply::Integer(number::integer(line).ok_or(Malformed::Integer)?),
        b',' => Reply::Double(number::double(line).ok_or(Malformed::Double)?),
        b'(' if number::is_big_number(line) => Reply::BigNumber(line),
        b'(' => return Err(Malformed::BigNumber.into()),
        b'#' => match line {
            b"t" => Reply::Boolean(true),
            b"f" => Reply::Boolean(false),
            _ => return Err(Malformed::Boolean.into()),
        },
        b'_' if line.is_empty() => Reply::Null,
        b'_' => return Err(Malformed::Null.into()),
        other => return Err(Malformed::Type(other).into()),
    })
}

fn string(kind: u8, body: &[u8]) -> Result<Reply<'_>, Error> {
    Ok(match (kind, body) {
        (b'!', _) => Reply::BlobError(body),
        (b'=', [a, b, c, b':', text @ ..]) => Reply::Verbatim {
            format: [*a, *b, *c],
            text,
        },
        (b'=', _) => return Err(Malformed::Verbatim.into()),
        _ => Reply::Bulk(body),
    })
}

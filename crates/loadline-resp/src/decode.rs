//! From bytes to replies.

use crate::error::Error;
use crate::limits::{Limits, Size};
use crate::reply::{Attributed, Reply};
use crate::token::{self, Aggregate, Token};

/// At most this many elements are reserved at once; beyond it an aggregate grows with what is there.
const RESERVED_ELEMENTS: usize = 1024;

/// The fewest bytes that an element can have: a type byte and a line ending.
const LEAST_ELEMENT_BYTES: usize = 3;

/// Reads replies from a buffer that may still be growing.
///
/// The plain version is: try to build the reply, and try again when there are more bytes. That is
/// quadratic for large replies that arrive in small pieces. So after the first attempt fails, the decoder
/// only walks over the tokens, remembers how far it came, and builds the reply once its last byte is there.
///
/// ```
/// use loadline_resp::{Decoder, Limits, Reply};
///
/// let mut decoder = Decoder::new(Limits::default());
/// let mut buf = b"*2\r\n$3\r\nfoo\r\n:4".to_vec();
/// assert_eq!(decoder.decode(&buf)?, None);
/// buf.extend_from_slice(b"2\r\n+next");
/// let (reply, used) = decoder.decode(&buf)?.expect("the array is complete");
/// assert_eq!(reply, Reply::Array(vec![Reply::Bulk(b"foo"), Reply::Integer(42)]));
/// assert_eq!(&buf[used..], b"+next");
/// # Ok::<(), loadline_resp::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    limits: Limits,
    /// Start of the token that was not complete at the last call.
    at: usize,
    /// Bytes of that token which hold no line feed.
    searched: usize,
    /// Whether the first attempt at this reply has failed.
    resumed: bool,
    /// Replies still to come in each open aggregate.
    open: Vec<u64>,
    /// Size of the tokens so far.
    size: Size,
}

impl Decoder {
    /// A decoder with limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            at: 0,
            searched: 0,
            resumed: false,
            open: Vec::new(),
            size: Size::default(),
        }
    }

    /// The reply at the start of `buf` and its size in bytes, or `None` where more bytes are needed.
    ///
    /// After `None` the next call must get the same bytes again with more after them; after a reply it
    /// must get the bytes that follow it. Repeated calls on a growing buffer take time in proportion to
    /// the buffer, not to its square. The memory of a reply is in proportion to its bytes.
    ///
    /// # Errors
    /// If the bytes are not RESP, are over a limit, or are streamed. The decoder then starts afresh at the next call.
    pub fn decode<'b>(&mut self, buf: &'b [u8]) -> Result<Option<(Reply<'b>, usize)>, Error> {
        let result = self.attempt(buf);
        if !matches!(result, Ok(None)) {
            self.reset();
        }
        result
    }

    /// Forgets a reply that was not complete, for use with another stream of bytes.
    pub fn reset(&mut self) {
        self.at = 0;
        self.searched = 0;
        self.resumed = false;
        self.open.clear();
        self.size = Size::default();
    }

    fn attempt<'b>(&mut self, buf: &'b [u8]) -> Result<Option<(Reply<'b>, usize)>, Error> {
        if self.resumed && !self.walk(buf)? {
            return Ok(None);
        }
        let (mut at, mut size) = (0, Size::default());
        if let Some(reply) = build(buf, &mut at, 0, &mut size, &self.limits)? {
            return Ok(Some((reply, at)));
        }
        self.resumed = true;
        self.walk(buf)?;
        Ok(None)
    }

    /// Walks on over complete tokens; true once the reply is complete.
    fn walk(&mut self, buf: &[u8]) -> Result<bool, Error> {
        while let Some((token, used)) = token::read(
            buf.get(self.at..).unwrap_or_default(),
            &mut self.searched,
            &self.limits,
        )? {
            self.at += used;
            self.searched = 0;
            self.size.add_token(used, &self.limits)?;
            if let Token::Open(kind, len) = token {
                check_depth(self.open.len(), &self.limits)?;
                let children = kind.children(len, &self.limits)?;
                self.size.add_elements(children, &self.limits)?;
                if children > 0 {
                    self.open.push(children);
                    continue;
                }
            }
            if self.close() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Counts a complete reply in its aggregate, and that in its own; true where none is left open.
    fn close(&mut self) -> bool {
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.open.pop();
        }
        true
    }
}

/// Refuses an aggregate that would be inside `open` others already at the limit.
pub(crate) fn check_depth(open: usize, limits: &Limits) -> Result<(), Error> {
    let limit = limits.depth();
    if open >= limit {
        return Err(Error::TooDeep { limit });
    }
    Ok(())
}

/// Builds the reply at `at`. The recursion ends at the depth limit.
fn build<'b>(
    buf: &'b [u8],
    at: &mut usize,
    depth: usize,
    size: &mut Size,
    limits: &Limits,
) -> Result<Option<Reply<'b>>, Error> {
    let Some((token, used)) = token::read(&buf[*at..], &mut 0, limits)? else {
        return Ok(None);
    };
    *at += used;
    size.add_token(used, limits)?;
    let (kind, len) = match token {
        Token::Leaf(reply) => return Ok(Some(reply)),
        Token::Open(kind, len) => (kind, len),
    };
    check_depth(depth, limits)?;
    size.add_elements(kind.children(len, limits)?, limits)?;
    match kind {
        Aggregate::Array => Ok(list(buf, at, len, depth, size, limits)?.map(Reply::Array)),
        Aggregate::Set => Ok(list(buf, at, len, depth, size, limits)?.map(Reply::Set)),
        Aggregate::Push => Ok(list(buf, at, len, depth, size, limits)?.map(Reply::Push)),
        Aggregate::Map => Ok(pairs(buf, at, len, depth, size, limits)?.map(Reply::Map)),
        Aggregate::Attribute => {
            let Some(attributes) = pairs(buf, at, len, depth, size, limits)? else {
                return Ok(None);
            };
            let reply = build(buf, at, depth + 1, size, limits)?;
            Ok(reply.map(|reply| Reply::Attribute(Box::new(Attributed { attributes, reply }))))
        }
    }
}

fn list<'b>(
    buf: &'b [u8],
    at: &mut usize,
    len: u64,
    depth: usize,
    size: &mut Size,
    limits: &Limits,
) -> Result<Option<Vec<Reply<'b>>>, Error> {
    let mut items = Vec::with_capacity(reserve(len, buf.len() - *at));
    for _ in 0..len {
        let Some(item) = build(buf, at, depth + 1, size, limits)? else {
            return Ok(None);
        };
        items.push(item);
    }
    Ok(Some(items))
}

fn pairs<'b>(
    buf: &'b [u8],
    at: &mut usize,
    len: u64,
    depth: usize,
    size: &mut Size,
    limits: &Limits,
) -> Result<Option<Vec<(Reply<'b>, Reply<'b>)>>, Error> {
    let mut items = Vec::with_capacity(reserve(len, buf.len() - *at));
    for _ in 0..len {
        let Some(key) = build(buf, at, depth + 1, size, limits)? else {
            return Ok(None);
        };
        let Some(value) = build(buf, at, depth + 1, size, limits)? else {
            return Ok(None);
        };
        items.push((key, value));
    }
    Ok(Some(items))
}

/// Number of elements to make room for: never more than the bytes at hand can hold, nor than a fixed few,
/// since every level of a nested reply reserves its own.
fn reserve(len: u64, rest_bytes: usize) -> usize {
    let most = (rest_bytes / LEAST_ELEMENT_BYTES).min(RESERVED_ELEMENTS);
    usize::try_from(len).map_or(most, |len| len.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_length_is_not_allocated() {
        assert_eq!(reserve(5, 1 << 30), 5);
        assert_eq!(reserve(u64::MAX, 30), 10);
        assert_eq!(reserve(u64::MAX, 1 << 30), RESERVED_ELEMENTS);
    }
}

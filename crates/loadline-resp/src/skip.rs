//! Counting replies without building them.

use memchr::memchr;

use crate::decode::check_depth;
use crate::error::{Error, Malformed};
use crate::limits::{Limits, Size};
use crate::shape::{ReplyKind, Shape};
use crate::token::{self, Aggregate, Marker};

/// Bytes of an error's first line that are kept.
pub const ERROR_TEXT_BYTES: usize = 128;

/// A reply that was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped<'a> {
    /// Kind of the reply.
    pub kind: ReplyKind,
    /// The first line of an error, cut after [`ERROR_TEXT_BYTES`]; empty for every other kind.
    pub error: &'a [u8],
}

impl<'a> Skipped<'a> {
    /// The first word of an error, which is by custom its code: `ERR`, `WRONGTYPE`, `MOVED`.
    #[must_use]
    pub fn error_code(&self) -> &'a [u8] {
        self.error
            .split(|&byte| byte == b' ')
            .next()
            .unwrap_or_default()
    }
}

/// Counts the replies in a stream of bytes, for callers that need no more than their number and kind.
///
/// It keeps its own state between calls, so the caller need not keep any bytes. Only the framing is
/// checked: lengths, line endings, depth and limits, but not whether an integer is a number. Its memory is
/// fixed, apart from one counter for each level of nesting.
///
/// ```
/// use loadline_resp::{Limits, ReplyKind, Skipper};
///
/// let mut skipper = Skipper::new(Limits::default());
/// let mut kinds = Vec::new();
/// for piece in [&b"+OK\r\n$5\r\nhel"[..], b"lo\r\n$-1\r", b"\n-ERR no\r\n"] {
///     skipper.feed(piece, |reply| kinds.push(reply.kind))?;
/// }
/// assert_eq!(kinds, [ReplyKind::Value, ReplyKind::Value, ReplyKind::Nil, ReplyKind::Error]);
/// assert!(skipper.is_between_replies());
/// # Ok::<(), loadline_resp::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Skipper {
    limits: Limits,
    state: State,
    open: Vec<Open>,
    /// Number of the outermost open aggregates that are attributes whose reply is being read. A token right
    /// inside them is the reply itself, whose kind is reported.
    spine: usize,
    kind: ReplyKind,
    /// The start of a line that was cut between calls, or the text of an error.
    head: [u8; ERROR_TEXT_BYTES],
    head_len: usize,
    shape: Shape,
    size: Size,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// A type byte comes next.
    Token,
    /// Within the line of a token, `seen` bytes after its type byte.
    Line {
        marker: Marker,
        seen: usize,
        after_cr: bool,
    },
    /// Within a string; `left` counts its two bytes of ending too, and `token_bytes` all of its token.
    Body {
        left: u64,
        token_bytes: usize,
        capture: bool,
    },
}

/// An aggregate that is not complete.
#[derive(Clone, Copy, Debug)]
struct Open {
    left: u64,
    attribute: bool,
}

impl Skipper {
    /// A skipper with limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Token,
            open: Vec::new(),
            spine: 0,
            kind: ReplyKind::Value,
            head: [0; ERROR_TEXT_BYTES],
            head_len: 0,
            shape: Shape::NONE,
            size: Size::default(),
        }
    }

    /// Takes all the bytes, and calls `on` for each reply that they complete.
    ///
    /// # Errors
    /// Input that is not RESP, exceeds a limit, or is streamed. The skipper must then be reset before further use.
    #[inline]
    pub fn feed(&mut self, bytes: &[u8], mut on: impl FnMut(Skipped<'_>)) -> Result<(), Error> {
        let mut at = 0;
        while at < bytes.len() {
            if self.is_between_replies() {
                (at, _) = self.skip_short(bytes, at, u64::MAX, &mut on);
                if at == bytes.len() {
                    break;
                }
            }
            let (used, reply) = self.next(&bytes[at..])?;
            at += used;
            if let Some(reply) = reply {
                on(reply);
            }
        }
        Ok(())
    }

    /// Takes bytes up to the end of one reply, or all of them where none ends; says how many were taken.
    ///
    /// # Errors
    /// As [`Skipper::feed`].
    pub fn next<'s>(&'s mut self, bytes: &[u8]) -> Result<(usize, Option<Skipped<'s>>), Error> {
        let mut at = 0;
        while at < bytes.len() {
            let complete = match self.state {
                State::Token => {
                    self.skip_children(bytes, &mut at);
                    self.token(bytes, &mut at)?
                }
                State::Line {
                    marker,
                    seen,
                    after_cr,
                } => self.line(marker, seen, after_cr, bytes, &mut at)?,
                State::Body {
                    left,
                    token_bytes,
                    capture,
                } => self.body(left, token_bytes, capture, bytes, &mut at)?,
            };
            if complete && self.close() {
                return Ok((at, Some(self.skipped())));
            }
        }
        Ok((at, None))
    }

    /// Whether the bytes so far end with a complete reply.
    #[inline]
    #[must_use]
    pub fn is_between_replies(&self) -> bool {
        matches!(self.state, State::Token) && self.open.is_empty()
    }

    /// Forgets a reply that was not complete, for use with another stream of bytes.
    pub fn reset(&mut self) {
        self.state = State::Token;
        self.open.clear();
        self.spine = 0;
        self.size = Size::default();
    }

    /// Skips short replies without children that lie completely in `bytes`, up to `most` of them. Says
    /// where the first other one starts, and how many were skipped.
    #[inline]
    fn skip_short(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        most: u64,
        on: &mut impl FnMut(Skipped<'_>),
    ) -> (usize, u64) {
        let mut shape = self.shape;
        let mut skipped = 0;
        while skipped < most
            && let Some(word) = word_at(bytes, at)
        {
            if !shape.fits(word) {
                match Shape::of(word, &self.limits) {
                    Some(other) => shape = other,
                    None => break,
                }
            }
            let end = at + shape.bytes;
            if bytes.get(end - 2..end) != Some(b"\r\n") {
                break;
            }
            on(Skipped {
                kind: shape.kind,
                error: &[],
            });
            at = end;
            skipped += 1;
        }
        self.shape = shape;
        (at, skipped)
    }

    /// Skips short replies within the innermost aggregate, all but its last, whose end may be that of
    /// others.
    fn skip_children(&mut self, bytes: &[u8], at: &mut usize) {
        if let Some(most) = self
            .open
            .last()
            .map(|open| open.left - 1)
            .filter(|&most| most > 0)
        {
            let (end, skipped) = self.skip_short(bytes, *at, most, &mut |_| {});
            if let Some(open) = self.open.last_mut() {
                open.left -= skipped;
            }
            self.extend_spine();
            *at = end;
        }
    }

    /// Starts on the token at `at`; true where a reply without children is complete.
    fn token(&mut self, bytes: &[u8], at: &mut usize) -> Result<bool, Error> {
        let Some(&first) = bytes.get(*at) else {
            return Ok(false);
        };
        let marker = Marker::of(first)?;
        let rest = &bytes[*at + 1..];
        let longest = marker.max_line_bytes(&self.limits).saturating_add(2);
        let window = &rest[..rest.len().min(longest)];
        if let Some(found) = memchr(b'\n', window) {
            let line = token::strip_ending(&window[..=found])?;
            *at += found + 2;
            self.count_line(marker, found + 2)?;
            return self.complete_line(marker, line);
        }
        if window.len() == longest {
            return Err(marker.too_long(&self.limits));
        }
        self.head_len = 0;
        self.keep(window);
        let after_cr = window.last() == Some(&b'\r');
        self.state = State::Line {
            marker,
            seen: window.len(),
            after_cr,
        };
        *at = bytes.len();
        Ok(false)
    }

    /// Goes on with a line that was cut between calls.
    fn line(
        &mut self,
        marker: Marker,
        seen: usize,
        after_cr: bool,
        bytes: &[u8],
        at: &mut usize,
    ) -> Result<bool, Error> {
        let rest = &bytes[*at..];
        let longest = marker.max_line_bytes(&self.limits).saturating_add(2) - seen;
        let window = &rest[..rest.len().min(longest)];
        let Some(found) = memchr(b'\n', window) else {
            if window.len() == longest {
                return Err(marker.too_long(&self.limits));
            }
            self.keep(window);
            let after_cr = window.last() == Some(&b'\r');
            self.state = State::Line {
                marker,
                seen: seen + window.len(),
                after_cr,
            };
            *at = bytes.len();
            return Ok(false);
        };
        let ended_by_cr = if found == 0 {
            after_cr
        } else {
            window[found - 1] == b'\r'
        };
        if !ended_by_cr {
            return Err(Malformed::LineEnding.into());
        }
        self.count_line(marker, seen + found + 2)?;
        self.keep(&window[..found]);
        self.state = State::Token;
        *at += found + 1;
        // The carriage return was kept too, unless the line is longer than what is kept.
        let line_bytes = (seen + found - 1).min(ERROR_TEXT_BYTES);
        let head = self.head;
        self.complete_line(marker, &head[..line_bytes])
    }

    /// Counts a line that is a reply, of this many bytes with its marker and its ending. The others are lengths, and shorter
    /// than what a token may have in addition.
    fn count_line(&mut self, marker: Marker, bytes: usize) -> Result<(), Error> {
        match marker {
            Marker::Line(_) => self.size.add_token(bytes, &self.limits),
            _ => Ok(()),
        }
    }

    /// Goes on with a string, whose bytes do not matter, and its ending, which does.
    fn body(
        &mut self,
        left: u64,
        token_bytes: usize,
        capture: bool,
        bytes: &[u8],
        at: &mut usize,
    ) -> Result<bool, Error> {
        let rest = &bytes[*at..];
        let take = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
        let inside = usize::try_from(left - 2.min(left)).map_or(take, |inside| inside.min(take));
        if capture {
            self.keep(&rest[..inside]);
        }
        // The rest of the ending, when `inside` bytes are gone, starts at this place in it.
        let started = 2 - usize::try_from(left.min(2)).expect("at most two");
        if !b"\r\n"[started..].starts_with(&rest[inside..take]) {
            return Err(Malformed::Terminator.into());
        }
        *at += take;
        let left = left - take as u64;
        if left > 0 {
            self.state = State::Body {
                left,
                token_bytes,
                capture,
            };
            return Ok(false);
        }
        self.size.add_token(token_bytes, &self.limits)?;
        self.state = State::Token;
        Ok(true)
    }

    /// Acts on a complete line; true where it is a reply without children.
    fn complete_line(&mut self, marker: Marker, line: &[u8]) -> Result<bool, Error> {
        match marker {
            Marker::Line(kind) => {
                self.note(match kind {
                    b'-' => ReplyKind::Error,
                    b'_' => ReplyKind::Nil,
                    _ => ReplyKind::Value,
                });
                if kind == b'-' {
                    self.head_len = 0;
                    self.keep(line);
                }
                Ok(true)
            }
            Marker::String(kind) => {
                let Some(bytes) = marker.length(line)? else {
                    self.note(ReplyKind::Nil);
                    return Ok(true);
                };
                token::check_bulk(bytes, &self.limits)?;
                self.note(if kind == b'!' {
                    ReplyKind::Error
                } else {
                    ReplyKind::Value
                });
                self.head_len = 0;
                self.state = State::Body {
                    left: bytes.saturating_add(2),
                    token_bytes: usize::try_from(bytes)
                        .unwrap_or(usize::MAX)
                        .saturating_add(line.len() + 5),
                    capture: kind == b'!',
                };
                Ok(false)
            }
            Marker::Aggregate(kind) => {
                let Some(len) = marker.length(line)? else {
                    self.note(ReplyKind::Nil);
                    return Ok(true);
                };
                self.open(kind, len)
            }
        }
    }

    /// Opens an aggregate; true where it has no children.
    fn open(&mut self, kind: Aggregate, len: u64) -> Result<bool, Error> {
        check_depth(self.open.len(), &self.limits)?;
        let left = kind.children(len, &self.limits)?;
        self.size.add_elements(left, &self.limits)?;
        let attribute = kind == Aggregate::Attribute;
        if !attribute {
            self.note(if kind == Aggregate::Push {
                ReplyKind::Push
            } else {
                ReplyKind::Value
            });
        }
        if left == 0 {
            return Ok(true);
        }
        self.open.push(Open { left, attribute });
        self.extend_spine();
        Ok(false)
    }

    /// Counts a complete reply in its aggregate, and that in its own; true where none is left open.
    fn close(&mut self) -> bool {
        while let Some(open) = self.open.last_mut() {
            open.left -= 1;
            if open.left > 0 {
                self.extend_spine();
                return false;
            }
            self.open.pop();
        }
        self.spine = 0;
        self.size = Size::default();
        true
    }

    /// Follows the innermost aggregate where that is an attribute of the reply and only the reply is left.
    fn extend_spine(&mut self) {
        let innermost = self.open.len() - 1;
        let open = self.open[innermost];
        if innermost == self.spine && open.attribute && open.left == 1 {
            self.spine += 1;
        }
    }

    /// Takes note of the kind where the token is the reply itself and not a part of it.
    fn note(&mut self, kind: ReplyKind) {
        if self.open.len() == self.spine {
            self.kind = kind;
        }
    }

    /// Keeps the bytes for later as far as there is room.
    fn keep(&mut self, bytes: &[u8]) {
        let room = &mut self.head[self.head_len..];
        let kept = bytes.len().min(room.len());
        room[..kept].copy_from_slice(&bytes[..kept]);
        self.head_len += kept;
    }

    fn skipped(&self) -> Skipped<'_> {
        let error = match self.kind {
            ReplyKind::Error => {
                let text = &self.head[..self.head_len];
                &text[..memchr::memchr2(b'\r', b'\n', text).unwrap_or(text.len())]
            }
            _ => &[],
        };
        Skipped {
            kind: self.kind,
            error,
        }
    }
}

/// The eight bytes at `at`; where only four to seven are left, those and zeros, which end no line. `None` if there are fewer.
#[inline]
fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    if let Some(eight) = bytes.get(at..at + 8) {
        let eight = eight.try_into().expect("the slice has eight bytes");
        return Some(u64::from_le_bytes(eight));
    }
    let rest = bytes.get(at..)?;
    let [first, last] = [rest.first_chunk()?, rest.last_chunk()?];
    let [first, last] = [first, last].map(|four| u64::from(u32::from_le_bytes(*four)));
    Some(first | last << (8 * (rest.len() - 4)))
}

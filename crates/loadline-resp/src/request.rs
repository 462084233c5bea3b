//! Requests of clients: arrays of bulk strings, and lines.

use std::ops::Index;

use memchr::memchr;

use crate::error::{Error, RequestFault};
use crate::head;
use crate::inline;
use crate::limits::Limits;
use crate::number::{LENGTH_LINE_BYTES, unsigned};
use crate::span::Span;

/// The most arguments of one request, as in Redis 7.
pub const MAX_ARGS: u64 = i32::MAX as u64;

/// The most arguments of a request from a client that has yet to authenticate.
const UNAUTHENTICATED_ARGS: u64 = 10;

/// The most bytes of an argument from a client that has yet to authenticate.
const UNAUTHENTICATED_BULK_BYTES: u64 = 16_384;

/// Arguments whose places are kept allocated from one request to the next.
const KEPT_ARGS: usize = 4096;

/// Reads requests from a buffer that may still be growing.
///
/// It reads what Redis reads, arrays of bulk strings and inline requests, refuses what Redis 7.0 refuses
/// with the same words, and like it skips empty requests. The arguments of an array are places in the
/// buffer. Nothing is allocated for a request once a few were read.
///
/// ```
/// use loadline_resp::{Limits, RequestParser};
///
/// let mut parser = RequestParser::new(Limits::default());
/// let buf = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\nSET key \"a value\"\r\n";
/// let (used, request) = parser.parse(buf)?;
/// assert_eq!(request.expect("it is complete").iter().collect::<Vec<_>>(), [b"GET", b"key"]);
/// let (_, request) = parser.parse(&buf[used..])?;
/// assert_eq!(&request.expect("it is complete")[2], b"a value");
/// # Ok::<(), loadline_resp::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RequestParser {
    limits: Limits,
    authenticated: bool,
    state: State,
    args: Vec<Span>,
    /// The arguments of an inline request, without quotes and escapes.
    inline: Vec<u8>,
}

/// Progress of the parser in the buffer of the last call.
#[derive(Clone, Copy, Debug)]
enum State {
    /// At the start of a request; the given number of bytes contain no line feed.
    Start { searched: usize },
    /// Within an array: where the next argument starts, and how many are to come.
    Args { at: usize, left: u64 },
}

/// A request with at least one argument, the first of which is the name of the command.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    bytes: &'a [u8],
    args: &'a [Span],
}

impl<'a> Request<'a> {
    /// Number of arguments, counting the name of the command.
    #[expect(clippy::len_without_is_empty, reason = "a request is never empty")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.args.len()
    }

    /// The argument at this place, counting the name of the command as place 0.
    #[inline]
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&'a [u8]> {
        self.args
            .get(place)
            .map(|span| &self.bytes[span.start..span.end])
    }

    /// All arguments, the name of the command first.
    pub fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = &'a [u8]> + DoubleEndedIterator + Clone + use<'a> {
        let bytes = self.bytes;
        self.args
            .iter()
            .map(move |span| &bytes[span.start..span.end])
    }
}

impl Index<usize> for Request<'_> {
    type Output = [u8];

    fn index(&self, place: usize) -> &[u8] {
        let span = self.args[place];
        &self.bytes[span.start..span.end]
    }
}

impl RequestParser {
    /// A parser that refuses what is over the limits; of these, bulk and line length apply to requests.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            authenticated: true,
            state: State::Start { searched: 0 },
            args: Vec::new(),
            inline: Vec::new(),
        }
    }

    /// Says whether the client may send large requests, as it may from the start unless this is called.
    /// While not, Redis 7.0 refuses more than 10 arguments and arguments over 16,384 bytes, so that
    /// strangers cannot fill its memory.
    pub fn set_authenticated(&mut self, authenticated: bool) {
        self.authenticated = authenticated;
    }

    /// Reads the request at the start of `buf`. The first part of the answer says how many bytes are done
    /// with; where there is no request yet, these were empty ones.
    ///
    /// The next call must get the bytes after those, with more at their end. Repeated calls on a growing
    /// buffer take time in proportion to the buffer, not to its square.
    ///
    /// # Errors
    /// [`Error::Request`] with the words of Redis. The parser then starts afresh at the next call, but the
    /// connection has to be closed.
    pub fn parse<'a>(&'a mut self, buf: &'a [u8]) -> Result<(usize, Option<Request<'a>>), Error> {
        match self.advance(buf) {
            Ok((used, None)) => Ok((used, None)),
            Ok((used, Some(Form::Array { start }))) => {
                self.reset();
                Ok((
                    used,
                    Some(Request {
                        bytes: &buf[start..],
                        args: &self.args,
                    }),
                ))
            }
            Ok((used, Some(Form::Inline))) => {
                self.reset();
                Ok((
                    used,
                    Some(Request {
                        bytes: &self.inline,
                        args: &self.args,
                    }),
                ))
            }
            Err(fault) => {
                self.reset();
                Err(fault.into())
            }
        }
    }

    /// Bytes of memory that the places of the arguments read so far take. Many short arguments take more
    /// than their bytes in the buffer, so a caller that bounds the buffer has to count these too.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match self.state {
            State::Args { .. } => self.args.capacity() * size_of::<Span>(),
            State::Start { .. } => 0,
        }
    }

    /// The length of the buffer at which the argument is complete that it ends in, if the argument's length has been read. The
    /// buffer is that of the last call, without the bytes that were done with.
    ///
    /// ```
    /// use loadline_resp::{Limits, RequestParser};
    ///
    /// let mut parser = RequestParser::new(Limits::default());
    /// let buf = b"*2\r\n$3\r\nGET\r\n$100\r\nke";
    /// assert!(parser.parse(buf)?.1.is_none());
    /// assert_eq!(parser.awaited_len(buf), Some(buf.len() - 2 + 100 + 2));
    /// # Ok::<(), loadline_resp::Error>(())
    /// ```
    #[must_use]
    pub fn awaited_len(&self, buf: &[u8]) -> Option<usize> {
        let State::Args { at, .. } = self.state else {
            return None;
        };
        let (bytes, line) = head::length(buf.get(at..)?, b'$')?;
        at.checked_add(line)?.checked_add(bytes)?.checked_add(2)
    }

    /// Whether nothing was read of a request that was not complete. The next request can then be read in another way, such as
    /// [`head::words`], and its bytes not passed on.
    #[must_use]
    pub fn is_between_requests(&self) -> bool {
        matches!(self.state, State::Start { searched: 0 })
    }

    /// Forgets a request that was not complete, for use with another stream of bytes.
    pub fn reset(&mut self) {
        self.state = State::Start { searched: 0 };
    }

    fn advance(&mut self, buf: &[u8]) -> Result<(usize, Option<Form>), RequestFault> {
        // Where the current request starts: empty ones before it are done with.
        let mut start = 0;
        loop {
            let rest = &buf[start..];
            let step = match self.state {
                State::Args { .. } => self.arguments(rest)?,
                State::Start { .. } if rest.is_empty() => Progress::Incomplete,
                State::Start { searched } if rest[0] == b'*' => self.array(rest, searched)?,
                State::Start { searched } => self.line(rest, searched)?,
            };
            match step {
                Progress::Incomplete => return Ok((start, None)),
                Progress::Empty(bytes) => start += bytes,
                Progress::Entered => {}
                Progress::Array(bytes) => return Ok((start + bytes, Some(Form::Array { start }))),
                Progress::Inline(bytes) => return Ok((start + bytes, Some(Form::Inline))),
            }
        }
    }

    /// Reads the length line of an array.
    fn array(&mut self, buf: &[u8], searched: usize) -> Result<Progress, RequestFault> {
        if let Some((args @ 1.., bytes)) = head::length(buf, b'*')
            && (args as u64 <= UNAUTHENTICATED_ARGS || self.authenticated)
        {
            return Ok(self.enter(bytes, args as u64));
        }
        let Some(line) = length_line(buf, searched, &self.limits, RequestFault::MultibulkLine)?
        else {
            self.state = State::Start {
                searched: buf.len(),
            };
            return Ok(Progress::Incomplete);
        };
        let text = line
            .strip_suffix(b"\r")
            .ok_or(RequestFault::MultibulkLength)?;
        let bytes = 1 + line.len() + 1;
        self.state = State::Start { searched: 0 };
        let negative = text
            .strip_prefix(b"-")
            .and_then(unsigned)
            .is_some_and(|number| number > 0);
        if negative {
            return Ok(Progress::Empty(bytes));
        }
        let args = unsigned(text)
            .filter(|&args| args <= MAX_ARGS)
            .ok_or(RequestFault::MultibulkLength)?;
        if args > UNAUTHENTICATED_ARGS && !self.authenticated {
            return Err(RequestFault::UnauthenticatedMultibulk);
        }
        if args == 0 {
            return Ok(Progress::Empty(bytes));
        }
        Ok(self.enter(bytes, args))
    }

    /// Begins an array of `left` arguments, the first of which starts at `at`.
    fn enter(&mut self, at: usize, left: u64) -> Progress {
        self.clear_args();
        self.state = State::Args { at, left };
        Progress::Entered
    }

    /// Reads arguments of an array as far as they are there.
    fn arguments(&mut self, buf: &[u8]) -> Result<Progress, RequestFault> {
        let State::Args { mut at, mut left } = self.state else {
            return Ok(Progress::Entered);
        };
        while left > 0 {
            let Some(span) = self.argument(buf, at)? else {
                self.state = State::Args { at, left };
                return Ok(Progress::Incomplete);
            };
            self.args.push(span);
            at = span.end + 2;
            left -= 1;
        }
        Ok(Progress::Array(at))
    }

    /// Reads the argument at `at`, if it is complete.
    fn argument(&self, buf: &[u8], at: usize) -> Result<Option<Span>, RequestFault> {
        let rest = buf.get(at..).unwrap_or_default();
        if let Some(text) = head::bulk(rest)
            && text.len() as u64 <= self.limits.max_bulk_bytes
            && (text.len() as u64 <= UNAUTHENTICATED_BULK_BYTES || self.authenticated)
        {
            return Ok(Some(Span {
                start: at + text.start,
                end: at + text.end,
            }));
        }
        let Some(&first) = rest.first() else {
            return Ok(None);
        };
        if first != b'$' {
            return Err(RequestFault::ExpectedBulk(first));
        }
        let Some(line) = length_line(rest, 0, &self.limits, RequestFault::BulkLine)? else {
            return Ok(None);
        };
        let bytes = line
            .strip_suffix(b"\r")
            .and_then(unsigned)
            .filter(|&bytes| bytes <= self.limits.max_bulk_bytes)
            .ok_or(RequestFault::BulkLength)?;
        if bytes > UNAUTHENTICATED_BULK_BYTES && !self.authenticated {
            return Err(RequestFault::UnauthenticatedBulk);
        }
        let start = at + 1 + line.len() + 1;
        let bytes = usize::try_from(bytes).map_err(|_| RequestFault::BulkLength)?;
        let end = start.checked_add(bytes).ok_or(RequestFault::BulkLength)?;
        match buf.get(end..).unwrap_or_default() {
            [b'\r', b'\n', ..] => Ok(Some(Span { start, end })),
            [] | [b'\r'] => Ok(None),
            _ => Err(RequestFault::BulkLength),
        }
    }

    /// Reads an inline request.
    fn line(&mut self, buf: &[u8], searched: usize) -> Result<Progress, RequestFault> {
        let longest = self.limits.max_line_bytes.saturating_add(2);
        let window = &buf[..buf.len().min(longest)];
        let Some(found) = memchr(b'\n', &window[searched.min(window.len())..]) else {
            if window.len() == longest {
                return Err(RequestFault::InlineLine);
            }
            self.state = State::Start {
                searched: buf.len(),
            };
            return Ok(Progress::Incomplete);
        };
        let end = searched + found;
        self.state = State::Start { searched: 0 };
        self.clear_args();
        self.inline.clear();
        let line = &buf[..end];
        inline::split(
            line.strip_suffix(b"\r").unwrap_or(line),
            &mut self.inline,
            &mut self.args,
        )?;
        Ok(if self.args.is_empty() {
            Progress::Empty(end + 1)
        } else {
            Progress::Inline(end + 1)
        })
    }

    /// Makes room for the next request, and gives back the memory of an exceptionally large one.
    fn clear_args(&mut self) {
        self.args.clear();
        if self.args.capacity() > KEPT_ARGS {
            self.args.shrink_to(KEPT_ARGS);
        }
    }
}

/// Places of the arguments of a request.
enum Form {
    /// In the buffer, counted from this place.
    Array { start: usize },
    /// In the parser.
    Inline,
}

/// Result of a step for the bytes that it looked at.
enum Progress {
    Incomplete,
    /// An empty request, with its length in bytes.
    Empty(usize),
    /// The length line of an array; its arguments follow.
    Entered,
    /// A complete array, with its length in bytes.
    Array(usize),
    /// A complete inline request, with its length in bytes.
    Inline(usize),
}

/// The line after the first byte, without its line feed, if that is there. A line that goes on for more
/// than a number could is refused at the line limit with `unending`, as by Redis.
fn length_line<'b>(
    buf: &'b [u8],
    searched: usize,
    limits: &Limits,
    unending: RequestFault,
) -> Result<Option<&'b [u8]>, RequestFault> {
    let longest = limits
        .max_line_bytes
        .max(LENGTH_LINE_BYTES)
        .saturating_add(3);
    let window = &buf[..buf.len().min(longest)];
    let from = searched.clamp(1, window.len());
    match memchr(b'\n', &window[from..]) {
        Some(found) => Ok(Some(&window[1..from + found])),
        None if window.len() == longest => Err(unending),
        None => Ok(None),
    }
}

//! From values to bytes, into a buffer of the caller's.
//!
//! Every function appends one reply, request or header and allocates nothing itself. Those that take a
//! [`Protocol`] write what a peer of that version understands. Texts of one line cannot break out of it:
//! carriage returns and line feeds in them are written as spaces, as Redis does.

use std::fmt::{self, Write as _};

use memchr::memchr2;

use crate::Protocol;
use crate::reply::Frame;

/// The most bytes of a header: a type byte, the 20 digits of a number and the line ending.
const HEADER_BYTES: usize = 23;

/// The headers of bulk strings by the lengths of these, each with its own length. Most replies need one of them.
static SHORT_HEADERS: [([u8; 5], u8); 100] = {
    let mut headers = [(*b"$0\r\n\0", 4); 100];
    let mut length = 0;
    while length < headers.len() {
        let [tens, ones] = two_digits(length as u8);
        headers[length] = if length < 10 {
            ([b'$', ones, b'\r', b'\n', 0], 4)
        } else {
            ([b'$', tens, ones, b'\r', b'\n'], 5)
        };
        length += 1;
    }
    headers
};

/// The most bytes of a double as text: a sign, `0.0000`, 17 digits and room for an exponent.
const DOUBLE_BYTES: usize = 32;

/// Something that bytes can be appended to.
pub trait Sink {
    /// Appends the bytes.
    fn put(&mut self, bytes: &[u8]);

    /// Appends several parts in turn.
    fn put_parts(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.put(part));
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn put(&mut self, bytes: &[u8]) {
        (**self).put(bytes);
    }

    fn put_parts(&mut self, parts: &[&[u8]]) {
        (**self).put_parts(parts);
    }
}

/// A sink of fixed size. Once a piece does not fit, nothing more is written and the overflow is flagged.
///
/// ```
/// use loadline_resp::{SliceSink, encode};
///
/// let mut memory = [0; 16];
/// let mut sink = SliceSink::new(&mut memory);
/// encode::bulk(&mut sink, b"value");
/// assert_eq!(sink.written(), Some(&b"$5\r\nvalue\r\n"[..]));
/// encode::bulk(&mut sink, b"too much");
/// assert_eq!(sink.written(), None);
/// ```
#[derive(Debug)]
pub struct SliceSink<'a> {
    memory: &'a mut [u8],
    len: usize,
    overflowed: bool,
}

impl<'a> SliceSink<'a> {
    /// A sink that writes from the start of `memory`.
    #[must_use]
    pub fn new(memory: &'a mut [u8]) -> Self {
        Self {
            memory,
            len: 0,
            overflowed: false,
        }
    }

    /// Whether something did not fit.
    #[must_use]
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// The written bytes; `None` after an overflow, since the end is missing.
    #[must_use]
    pub fn written(&self) -> Option<&[u8]> {
        (!self.overflowed).then(|| &self.memory[..self.len])
    }
}

impl Sink for SliceSink<'_> {
    fn put(&mut self, bytes: &[u8]) {
        match self.memory[self.len..].get_mut(..bytes.len()) {
            Some(room) if !self.overflowed => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            _ => self.overflowed = true,
        }
    }
}

/// A request: an array of bulk strings.
pub fn command<S: Sink + ?Sized, A: AsRef<[u8]>>(out: &mut S, args: &[A]) {
    array_header(out, args.len() as u64);
    for arg in args {
        bulk(out, arg.as_ref());
    }
}

/// Bytes that [`command`] writes for these arguments.
#[must_use]
pub fn command_len<A: AsRef<[u8]>>(args: &[A]) -> usize {
    let header = header_len(args.len() as u64);
    args.iter()
        .fold(header, |sum, arg| sum + bulk_len(arg.as_ref().len()))
}

/// Bytes that [`bulk`] writes for a string of this many bytes.
#[must_use]
pub fn bulk_len(bytes: usize) -> usize {
    header_len(bytes as u64) + bytes + 2
}

/// The header of an array; its elements have to follow.
pub fn array_header<S: Sink + ?Sized>(out: &mut S, len: u64) {
    header(out, b'*', len);
}

/// A bulk string.
pub fn bulk<S: Sink + ?Sized>(out: &mut S, bytes: &[u8]) {
    let short = SHORT_HEADERS.get(bytes.len());
    if let Some((header, length)) = short {
        return out.put_parts(&[&header[..usize::from(*length)], bytes, b"\r\n"]);
    }
    header(out, b'$', bytes.len() as u64);
    out.put(bytes);
    out.put(b"\r\n");
}

/// A simple string.
pub fn simple<S: Sink + ?Sized>(out: &mut S, text: &[u8]) {
    line(out, b"+", text);
}

/// An error of one line, such as `ERR syntax error`.
pub fn error<S: Sink + ?Sized>(out: &mut S, text: &[u8]) {
    line(out, b"-", text);
}

/// An integer.
pub fn integer<S: Sink + ?Sized>(out: &mut S, number: i64) {
    if let Ok(digit @ 0..=9) = u8::try_from(number) {
        return out.put(&[b':', b'0' + digit, b'\r', b'\n']);
    }
    let negative = number < 0;
    number_line(out, b':', negative, number.unsigned_abs());
}

/// A null where a string could be: `$-1` in RESP2.
pub fn null<S: Sink + ?Sized>(out: &mut S, protocol: Protocol) {
    out.put(match protocol {
        Protocol::Resp2 => b"$-1\r\n",
        Protocol::Resp3 => b"_\r\n",
    });
}

/// A null where an array could be: `*-1` in RESP2.
pub fn null_array<S: Sink + ?Sized>(out: &mut S, protocol: Protocol) {
    out.put(match protocol {
        Protocol::Resp2 => b"*-1\r\n",
        Protocol::Resp3 => b"_\r\n",
    });
}

/// A boolean; `1` or `0` in RESP2.
pub fn boolean<S: Sink + ?Sized>(out: &mut S, value: bool, protocol: Protocol) {
    out.put(match (protocol, value) {
        (Protocol::Resp2, true) => b":1\r\n",
        (Protocol::Resp2, false) => b":0\r\n",
        (Protocol::Resp3, true) => b"#t\r\n",
        (Protocol::Resp3, false) => b"#f\r\n",
    });
}

/// A double in the fewest digits that read back the same; a bulk string in RESP2.
pub fn double<S: Sink + ?Sized>(out: &mut S, number: f64, protocol: Protocol) {
    let text = DoubleText::of(number);
    match protocol {
        Protocol::Resp2 => bulk(out, text.as_bytes()),
        Protocol::Resp3 => line(out, b",", text.as_bytes()),
    }
}

/// A number of any length, given as decimal digits with an optional sign; a bulk string in RESP2.
pub fn big_number<S: Sink + ?Sized>(out: &mut S, digits: &[u8], protocol: Protocol) {
    match protocol {
        Protocol::Resp2 => bulk(out, digits),
        Protocol::Resp3 => line(out, b"(", digits),
    }
}

/// An error that may hold any bytes; an error of one line in RESP2.
pub fn blob_error<S: Sink + ?Sized>(out: &mut S, text: &[u8], protocol: Protocol) {
    match protocol {
        Protocol::Resp2 => error(out, text),
        Protocol::Resp3 => {
            header(out, b'!', text.len() as u64);
            out.put(text);
            out.put(b"\r\n");
        }
    }
}

/// A text with its format, `txt` or `mkd`; a bulk string in RESP2.
pub fn verbatim<S: Sink + ?Sized>(out: &mut S, format: [u8; 3], text: &[u8], protocol: Protocol) {
    match protocol {
        Protocol::Resp2 => bulk(out, text),
        Protocol::Resp3 => {
            header(out, b'=', text.len() as u64 + 4);
            out.put(&format);
            out.put(b":");
            out.put(text);
            out.put(b"\r\n");
        }
    }
}

/// Writes the header of a map with this number of pairs; in RESP2, of an array with twice as many elements.
pub fn map_header<S: Sink + ?Sized>(out: &mut S, pairs: u64, protocol: Protocol) {
    match protocol {
        Protocol::Resp2 => header(out, b'*', pairs.saturating_mul(2)),
        Protocol::Resp3 => header(out, b'%', pairs),
    }
}

/// The header of a set; an array in RESP2.
pub fn set_header<S: Sink + ?Sized>(out: &mut S, len: u64, protocol: Protocol) {
    header(
        out,
        if protocol == Protocol::Resp3 {
            b'~'
        } else {
            b'*'
        },
        len,
    );
}

/// The header of out-of-band data; an array in RESP2.
pub fn push_header<S: Sink + ?Sized>(out: &mut S, len: u64, protocol: Protocol) {
    header(
        out,
        if protocol == Protocol::Resp3 {
            b'>'
        } else {
            b'*'
        },
        len,
    );
}

/// The header of attributes, before their pairs and the reply that they are about. RESP2 has no
/// attributes, so there is nothing to write for it.
pub fn attribute_header<S: Sink + ?Sized>(out: &mut S, pairs: u64) {
    header(out, b'|', pairs);
}

/// A whole reply. For RESP2 it is written in the types of RESP2, and without attributes.
pub fn reply<S: Sink + ?Sized, B: AsRef<[u8]>>(out: &mut S, reply: &Frame<B>, protocol: Protocol) {
    match reply {
        Frame::Simple(text) => simple(out, text.as_ref()),
        Frame::Error(text) => error(out, text.as_ref()),
        Frame::Integer(number) => integer(out, *number),
        Frame::Bulk(bytes) => bulk(out, bytes.as_ref()),
        Frame::Null => null(out, protocol),
        Frame::Boolean(value) => boolean(out, *value, protocol),
        Frame::Double(number) => double(out, *number, protocol),
        Frame::BigNumber(digits) => big_number(out, digits.as_ref(), protocol),
        Frame::BlobError(text) => blob_error(out, text.as_ref(), protocol),
        Frame::Verbatim { format, text } => verbatim(out, *format, text.as_ref(), protocol),
        Frame::Array(items) => {
            array_header(out, items.len() as u64);
            replies(out, items, protocol);
        }
        Frame::Map(pairs) => {
            map_header(out, pairs.len() as u64, protocol);
            reply_pairs(out, pairs, protocol);
        }
        Frame::Set(items) => {
            set_header(out, items.len() as u64, protocol);
            replies(out, items, protocol);
        }
        Frame::Push(items) => {
            push_header(out, items.len() as u64, protocol);
            replies(out, items, protocol);
        }
        Frame::Attribute(inner) => {
            if protocol == Protocol::Resp3 {
                attribute_header(out, inner.attributes.len() as u64);
                reply_pairs(out, &inner.attributes, protocol);
            }
            self::reply(out, &inner.reply, protocol);
        }
    }
}

fn replies<S: Sink + ?Sized, B: AsRef<[u8]>>(out: &mut S, items: &[Frame<B>], protocol: Protocol) {
    for item in items {
        reply(out, item, protocol);
    }
}

fn reply_pairs<S: Sink + ?Sized, B: AsRef<[u8]>>(
    out: &mut S,
    pairs: &[(Frame<B>, Frame<B>)],
    protocol: Protocol,
) {
    for (key, value) in pairs {
        reply(out, key, protocol);
        reply(out, value, protocol);
    }
}

/// A line whose text may hold line breaks, which are written as spaces.
fn line<S: Sink + ?Sized>(out: &mut S, marker: &[u8; 1], text: &[u8]) {
    out.put(marker);
    let mut rest = text;
    while let Some(place) = memchr2(b'\r', b'\n', rest) {
        out.put(&rest[..place]);
        out.put(b" ");
        rest = &rest[place + 1..];
    }
    out.put(rest);
    out.put(b"\r\n");
}

fn header<S: Sink + ?Sized>(out: &mut S, marker: u8, len: u64) {
    number_line(out, marker, false, len);
}

/// The decimal digits of a number below 100.
const fn two_digits(number: u8) -> [u8; 2] {
    [b'0' + number / 10, b'0' + number % 10]
}

/// A line with a number, put together backwards and written as one piece.
fn number_line<S: Sink + ?Sized>(out: &mut S, marker: u8, negative: bool, mut magnitude: u64) {
    let mut bytes = [0; HEADER_BYTES + 1];
    let mut start = bytes.len() - 2;
    bytes[start..].copy_from_slice(b"\r\n");
    while magnitude >= 100 {
        start -= 2;
        bytes[start..start + 2].copy_from_slice(&two_digits((magnitude % 100) as u8));
        magnitude /= 100;
    }
    start -= 2;
    bytes[start..start + 2].copy_from_slice(&two_digits(magnitude as u8));
    // The other digits are pairs, and this may be a single one.
    start += usize::from(magnitude < 10);
    if negative {
        start -= 1;
        bytes[start] = b'-';
    }
    start -= 1;
    bytes[start] = marker;
    out.put(&bytes[start..]);
}

/// Bytes of a header with this length.
fn header_len(len: u64) -> usize {
    let digits = len.checked_ilog10().unwrap_or(0) as usize + 1;
    1 + digits + 2
}

/// A double as RESP writes it.
struct DoubleText {
    bytes: [u8; DOUBLE_BYTES],
    len: usize,
}

impl DoubleText {
    fn of(number: f64) -> Self {
        let mut text = Self {
            bytes: [0; DOUBLE_BYTES],
            len: 0,
        };
        let magnitude = number.abs();
        // Outside of this range plain notation would write hundreds of zeros.
        let plain = magnitude == 0.0 || (1e-5..1e17).contains(&magnitude);
        let written = if number.is_nan() {
            text.write_str("nan")
        } else if number.is_infinite() {
            text.write_str(if number > 0.0 { "inf" } else { "-inf" })
        } else if plain {
            write!(text, "{number}")
        } else {
            write!(text, "{number:e}")
        };
        written.expect("a double has at most 17 digits, and its text fits");
        text
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl fmt::Write for DoubleText {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let room = self
            .bytes
            .get_mut(self.len..self.len + piece.len())
            .ok_or(fmt::Error)?;
        room.copy_from_slice(piece.as_bytes());
        self.len += piece.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_type_in_both_protocols() {
        let both = |write: &dyn Fn(&mut Vec<u8>, Protocol)| {
            (
                written(|out| write(out, Protocol::Resp2)),
                written(|out| write(out, Protocol::Resp3)),
            )
        };
        let pair = |two: &str, three: &str| (two.to_owned(), three.to_owned());
        assert_eq!(both(&|out, p| null(out, p)), pair("$-1\r\n", "_\r\n"));
        assert_eq!(both(&|out, p| null_array(out, p)), pair("*-1\r\n", "_\r\n"));
        assert_eq!(
            both(&|out, p| boolean(out, true, p)),
            pair(":1\r\n", "#t\r\n")
        );
        assert_eq!(
            both(&|out, p| boolean(out, false, p)),
            pair(":0\r\n", "#f\r\n")
        );
        assert_eq!(
            both(&|out, p| double(out, 0.1, p)),
            pair("$3\r\n0.1\r\n", ",0.1\r\n")
        );
        assert_eq!(
            both(&|out, p| big_number(out, b"-12", p)),
            pair("$3\r\n-12\r\n", "(-12\r\n")
        );
        assert_eq!(
            both(&|out, p| blob_error(out, b"ERR a\nb", p)),
            pair("-ERR a b\r\n", "!7\r\nERR a\nb\r\n")
        );
        assert_eq!(
            both(&|out, p| verbatim(out, *b"txt", b"hi", p)),
            pair("$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n")
        );
        assert_eq!(
            both(&|out, p| map_header(out, 3, p)),
            pair("*6\r\n", "%3\r\n")
        );
        assert_eq!(
            both(&|out, p| set_header(out, 3, p)),
            pair("*3\r\n", "~3\r\n")
        );
        assert_eq!(
            both(&|out, p| push_header(out, 3, p)),
            pair("*3\r\n", ">3\r\n")
        );
        assert_eq!(written(|out| attribute_header(out, 2)), "|2\r\n");
    }

    #[test]
    fn integers_and_doubles_at_their_ends() {
        assert_eq!(written(|out| integer(out, 0)), ":0\r\n");
        assert_eq!(
            written(|out| integer(out, i64::MIN)),
            ":-9223372036854775808\r\n"
        );
        assert_eq!(
            written(|out| integer(out, i64::MAX)),
            ":9223372036854775807\r\n"
        );
        assert_eq!(
            written(|out| array_header(out, u64::MAX)),
            "*18446744073709551615\r\n"
        );
        let text = |number| written(|out| double(out, number, Protocol::Resp3));
        assert_eq!(text(3.0), ",3\r\n");
        assert_eq!(text(-0.0), ",-0\r\n");
        assert_eq!(text(f64::INFINITY), ",inf\r\n");
        assert_eq!(text(f64::NEG_INFINITY), ",-inf\r\n");
        assert_eq!(text(f64::NAN), ",nan\r\n");
        assert_eq!(text(-f64::NAN), ",nan\r\n");
        assert_eq!(text(f64::MAX), ",1.7976931348623157e308\r\n");
        assert_eq!(text(-f64::MIN_POSITIVE), ",-2.2250738585072014e-308\r\n");
        assert_eq!(
            text(-0.000_012_345_678_901_234_567),
            ",-0.000012345678901234568\r\n"
        );
    }

    #[test]
    fn line_cannot_be_broken_out_of() {
        assert_eq!(
            written(|out| error(out, b"ERR a\r\n+OK\r\n")),
            "-ERR a  +OK  \r\n"
        );
        assert_eq!(written(|out| simple(out, b"\n")), "+ \r\n");
    }

    #[test]
    fn command_has_the_length_that_was_said() {
        let long = vec![b'x'; 1000];
        for args in [
            &[][..],
            &[b"PING".to_vec()],
            &[b"SET".to_vec(), Vec::new(), long],
        ] {
            let mut out = Vec::new();
            command(&mut out, args);
            assert_eq!(out.len(), command_len(args));
        }
        assert_eq!(
            written(|out| command(out, &["GET", "key"])),
            "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"
        );
    }

    #[test]
    fn full_slice_is_flagged_and_stays_so() {
        let mut memory = [0; 6];
        let mut sink = SliceSink::new(&mut memory);
        simple(&mut sink, b"OK");
        assert_eq!(sink.written(), Some(&b"+OK\r\n"[..]));
        sink.put(b"12");
        sink.put(b"1");
        assert!(sink.overflowed());
        assert_eq!(sink.written(), None);
        assert_eq!(&memory, b"+OK\r\n\0");
    }
}

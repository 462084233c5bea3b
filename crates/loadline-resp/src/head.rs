//! Heads of values: the line that announces a length.
//!
//! The plain version is [`Decoder`](crate::Decoder) or [`RequestParser`](crate::RequestParser): they continue where bytes
//! were cut, apply limits, and name what is wrong. Most values are short and complete, so a few comparisons
//! are enough. The functions here read those and return `None` for all others, which go to the plain version.

use std::ops::Range;

/// The most digits of a length. Longer ones, which are above any usual limit, are left to the plain version.
const DIGITS: usize = 9;

/// The number in the line that starts with `marker`, such as 5 in `$5\r\n`, and the bytes of the line.
///
/// `None` if the line is incomplete, belongs to another type, or its number is not plain: negative, empty,
/// with leading zeros, or longer than nine digits. Numbers of up to three digits are read without a loop.
///
/// ```
/// use loadline_resp::head::length;
///
/// assert_eq!(length(b"$5\r\nhello\r\n", b'$'), Some((5, 4)));
/// assert_eq!(length(b"$5\r", b'$'), None);
/// assert_eq!(length(b"$-1\r\n", b'$'), None);
/// ```
// It is a few comparisons, fewer than passing on what it found would be.
#[inline(always)]
#[must_use]
pub fn length(bytes: &[u8], marker: u8) -> Option<(usize, usize)> {
    let digit = |byte: u8| usize::from(byte - b'0');
    match *bytes {
        [first, ..] if first != marker => None,
        [_, a @ b'1'..=b'9', b @ b'0'..=b'9', b'\r', b'\n', ..] => {
            Some((10 * digit(a) + digit(b), 5))
        }
        [_, a @ b'0'..=b'9', b'\r', b'\n', ..] => Some((digit(a), 4)),
        [
            _,
            a @ b'1'..=b'9',
            b @ b'0'..=b'9',
            c @ b'0'..=b'9',
            b'\r',
            b'\n',
            ..,
        ] => Some((100 * digit(a) + 10 * digit(b) + digit(c), 6)),
        [_, ..] => plain_length(bytes),
        [] => None,
    }
}

/// [`length`] for any number of digits. The first byte is the marker.
#[cold]
fn plain_length(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0;
    for (at, &byte) in bytes.iter().enumerate().skip(1) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let is_plain = byte == b'\r' && at > 1 && (bytes[1] != b'0' || at == 2);
            return (is_plain && bytes.get(at + 1) == Some(&b'\n')).then_some((number, at + 2));
        }
        if at > DIGITS {
            return None;
        }
        number = number * 10 + usize::from(digit);
    }
    None
}

/// The place of the text in the bulk string at the start of `bytes`; the line ending behind the text belongs to the
/// string too. `None` if the string is incomplete, or if [`length`] cannot read its head.
// As [`length`], and a range handed out through memory costs more than all of it.
#[inline(always)]
#[must_use]
pub fn bulk(bytes: &[u8]) -> Option<Range<usize>> {
    let (len, start) = length(bytes, b'$')?;
    let end = start + len;
    let is_whole = bytes.get(end..end + 2)? == b"\r\n";
    is_whole.then_some(start..end)
}

/// Calls `on` with the place and the text of each word of the request at the start of `bytes`, and returns the bytes of
/// the request.
///
/// `None`, perhaps after some calls, if the request is incomplete, has no words or more than `most`, or is not an array
/// of strings that [`bulk`] can read.
///
/// ```
/// use loadline_resp::head::words;
///
/// let mut key = None;
/// let used = words(b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*1\r\n", 8, |place, word| {
///     if place == 1 {
///         key = Some(word);
///     }
/// });
/// assert_eq!((key, used), (Some(&b"key"[..]), Some(22)));
/// ```
#[inline]
pub fn words<'b>(
    bytes: &'b [u8],
    most: usize,
    mut on: impl FnMut(usize, &'b [u8]),
) -> Option<usize> {
    let (count, mut at) = length(bytes, b'*').filter(|&(count, _)| (1..=most).contains(&count))?;
    for place in 0..count {
        let rest = &bytes[at..];
        let text = bulk(rest)?;
        on(place, &rest[text.clone()]);
        at += text.end + 2;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, RequestParser, number};
    use proptest::prelude::*;

    /// The plain reading: the whole line, and its number as the parsers read it.
    fn naive(bytes: &[u8]) -> Option<(usize, usize)> {
        let line = bytes.split(|&byte| byte == b'\n').next()?;
        let text = line.strip_suffix(b"\r")?.get(1..)?;
        let is_complete = bytes.len() > line.len() && text.len() <= DIGITS;
        let number = number::unsigned(text).filter(|_| is_complete)?;
        Some((usize::try_from(number).ok()?, line.len() + 1))
    }

    #[test]
    fn lengths_are_those_of_the_parsers_wherever_the_line_is_cut() {
        for text in [
            "0",
            "7",
            "10",
            "64",
            "100",
            "999",
            "1000",
            "65536",
            "123456",
            "1234567",
            "999999999",
            "1000000000",
            "00",
            "05",
            "010",
            "-1",
            "",
            "1x",
            "x",
            "1\n",
            "1\r2",
        ] {
            let line = format!("${text}\r\n");
            for end in 0..=line.len() {
                let bytes = &line.as_bytes()[..end];
                assert_eq!(length(bytes, b'$'), naive(bytes), "{text:?} up to {end}");
            }
            assert_eq!(length(line.as_bytes(), b'*'), None);
        }
        assert_eq!(length(b"$64\r\n", b'$'), Some((64, 5)));
        assert_eq!(length(b"*512\r\n", b'*'), Some((512, 6)));
        assert_eq!(length(b"$123456789\r\n", b'$'), Some((123_456_789, 12)));
    }

    #[test]
    fn bulk_strings_are_read_only_when_they_are_complete() {
        let string = b"$12\r\nline\r\nbreaks\r\n";
        assert_eq!(bulk(string), Some(5..17));
        for cut in 0..string.len() {
            assert_eq!(bulk(&string[..cut]), None, "{cut}");
        }
        for other in [
            &b"$1\r\nab\r\n"[..],
            b"$-1\r\n",
            b"+OK\r\n",
            b"$999999999\r\n",
        ] {
            assert_eq!(bulk(other), None, "{}", other.escape_ascii());
        }
    }

    proptest! {
        /// A request that is found is the one that the parser finds; the parser finds more.
        #[test]
        fn words_are_those_of_the_parser(
            parts in prop::collection::vec(
                prop_oneof![
                    Just(b"*1\r\n".to_vec()), Just(b"*2\r\n".to_vec()), Just(b"*10\r\n".to_vec()),
                    Just(b"$3\r\n".to_vec()), Just(b"$0\r\n".to_vec()), Just(b"$03\r\n".to_vec()), Just(b"key\r\n".to_vec()),
                    Just(b"\r\n".to_vec()), Just(b"$".to_vec()), Just(b"\r".to_vec()),
                    prop::collection::vec(any::<u8>(), 0..4),
                ],
                0..40,
            ),
            most in 0usize..12,
        ) {
            let bytes = parts.concat();
            let mut found = Vec::new();
            let used = words(&bytes, most, |place, word| {
                assert_eq!(place, found.len());
                found.push(word);
            });
            let mut parser = RequestParser::new(Limits::default());
            let parsed = parser.parse(&bytes);
            match used {
                Some(used) => {
                    let (taken, request) = parsed.unwrap();
                    prop_assert_eq!(taken, used);
                    prop_assert!(found.len() <= most);
                    prop_assert_eq!(request.unwrap().iter().collect::<Vec<_>>(), found);
                }
                // Empty requests, inline ones, and those with more words are left to the parser.
                None => if let Ok((_, Some(request))) = parsed {
                    prop_assert!(bytes[0] != b'*' || bytes.starts_with(b"*0") || bytes.starts_with(b"*-")
                        || request.len() > most);
                }
            }
        }
    }
}

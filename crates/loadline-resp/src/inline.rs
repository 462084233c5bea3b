//! The arguments of an inline request, split as Redis's `sdssplitargs` splits them.

use crate::error::RequestFault;
use crate::span::Span;

/// Appends the arguments of a line to `out`, and their places to `args`.
///
/// Arguments are separated by white space. Within double quotes `\n`, `\r`, `\t`, `\b`, `\a`, `\xHH` and a
/// backslash before any other byte are escapes, within single quotes only `\'` is. A NUL byte ends the
/// line, as it does where lines are C strings.
///
/// # Errors
/// `Quotes` where a quote is not closed, or where its end is not the end of the argument.
pub(crate) fn split(
    line: &[u8],
    out: &mut Vec<u8>,
    args: &mut Vec<Span>,
) -> Result<(), RequestFault> {
    let end = memchr::memchr(0, line).unwrap_or(line.len());
    let mut rest = &line[..end];
    loop {
        while let [first, after @ ..] = rest
            && is_space(*first)
        {
            rest = after;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let start = out.len();
        rest = argument(rest, out)?;
        args.push(Span {
            start,
            end: out.len(),
        });
    }
}

/// Appends one argument, and gives back what is after it.
fn argument<'l>(mut rest: &'l [u8], out: &mut Vec<u8>) -> Result<&'l [u8], RequestFault> {
    loop {
        match rest {
            [] | [b' ' | b'\n' | b'\r' | b'\t', ..] => return Ok(rest),
            [b'"', after @ ..] => return closed(double_quoted(after, out)?),
            [b'\'', after @ ..] => return closed(single_quoted(after, out)?),
            [byte, after @ ..] => {
                out.push(*byte);
                rest = after;
            }
        }
    }
}

/// Checks that a quoted part ends its argument.
fn closed(rest: &[u8]) -> Result<&[u8], RequestFault> {
    match rest.first() {
        Some(&byte) if !is_space(byte) => Err(RequestFault::Quotes),
        _ => Ok(rest),
    }
}

fn double_quoted<'l>(mut rest: &'l [u8], out: &mut Vec<u8>) -> Result<&'l [u8], RequestFault> {
    loop {
        if let [b'\\', b'x', high, low, after @ ..] = rest
            && let Some(byte) = hex_byte(*high, *low)
        {
            out.push(byte);
            rest = after;
            continue;
        }
        let (byte, after) = match rest {
            [] => return Err(RequestFault::Quotes),
            [b'"', after @ ..] => return Ok(after),
            [b'\\', escaped, after @ ..] => (unescape(*escaped), after),
            [byte, after @ ..] => (*byte, after),
        };
        out.push(byte);
        rest = after;
    }
}

fn single_quoted<'l>(mut rest: &'l [u8], out: &mut Vec<u8>) -> Result<&'l [u8], RequestFault> {
    loop {
        let (byte, after) = match rest {
            [] => return Err(RequestFault::Quotes),
            [b'\'', after @ ..] => return Ok(after),
            [b'\\', b'\'', after @ ..] => (b'\'', after),
            [byte, after @ ..] => (*byte, after),
        };
        out.push(byte);
        rest = after;
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// The byte of two hexadecimal digits.
fn hex_byte(high: u8, low: u8) -> Option<u8> {
    let digit = |byte| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// C's `isspace`, which unlike Rust's counts the vertical tab.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

//! Ids among the words of a command.

use loadline_store::StreamId;

use crate::commands::refusal::{Refusal, shown};

const INVALID: &str = "ERR Invalid stream ID specified as stream command argument";

/// The longest word that Redis reads.
const LONGEST: usize = 127;

/// An id with its number, or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    Whole(StreamId),
    /// The number is to be chosen for this time.
    Time(u64),
}

/// Reads an id; without a number it gets `number`. `-` and `+` are the least and the greatest one.
pub(super) fn id(word: &[u8], number: u64) -> Result<StreamId, Refusal> {
    match shown(word, word.len()) {
        b"-" if word.len() <= LONGEST => Ok(StreamId::MIN),
        b"+" if word.len() <= LONGEST => Ok(StreamId::MAX),
        _ => strict(word, number),
    }
}

/// Reads an id that is given by its numbers.
pub(super) fn strict(word: &[u8], number: u64) -> Result<StreamId, Refusal> {
    let given = parse(word, number, false);
    match given {
        Some(Given::Whole(id)) => Ok(id),
        Some(Given::Time(_)) | None => Err(INVALID.into()),
    }
}

/// Reads the id of a new entry, whose number can be `*`.
pub(super) fn new(word: &[u8]) -> Result<Given, Refusal> {
    Ok(parse(word, 0, true).ok_or(INVALID)?)
}

fn parse(word: &[u8], number: u64, can_be_time: bool) -> Option<Given> {
    let text = shown(word, word.len());
    if word.len() > LONGEST {
        return None;
    }
    let Some(place) = text.iter().position(|byte| *byte == b'-') else {
        let ms = unsigned(text)?;
        return Some(Given::Whole(StreamId { ms, seq: number }));
    };
    let ms = unsigned(&text[..place])?;
    match &text[place + 1..] {
        b"*" if can_be_time => Some(Given::Time(ms)),
        seq => Some(Given::Whole(StreamId {
            ms,
            seq: unsigned(seq)?,
        })),
    }
}

/// Reads a number as Redis does: one with a sign, spaces or leading zeros is left to `strtoull`, which takes a negative
/// number for what is left of 2^64.
fn unsigned(text: &[u8]) -> Option<u64> {
    if let Ok(number) = crate::commands::numbers::integer(text) {
        return u64::try_from(number).ok();
    }
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let spaces = text.iter().take_while(|byte| is_space(byte)).count();
    let (is_negative, digits) = match &text[spaces..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut number = 0_u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(digit.into())?;
    }
    Some(if is_negative {
        number.wrapping_neg()
    } else {
        number
    })
}

/// Reads the start of an interval, which `(` excludes.
pub(super) fn start(word: &[u8]) -> Result<StreamId, Refusal> {
    match word {
        [b'(', rest @ ..] if !rest.is_empty() => {
            let next = strict(rest, 0)?.next();
            Ok(next.ok_or("ERR invalid start ID for the interval")?)
        }
        _ => id(word, 0),
    }
}

/// Reads the end of an interval, which `(` excludes.
pub(super) fn end(word: &[u8]) -> Result<StreamId, Refusal> {
    match word {
        [b'(', rest @ ..] if !rest.is_empty() => {
            let previous = strict(rest, u64::MAX)?.previous();
            Ok(previous.ok_or("ERR invalid end ID for the interval")?)
        }
        _ => id(word, u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_by_redis() {
        for (text, number) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("007", Some(7)),
            (" +7", Some(7)),
            ("-7", None),
            ("-07", Some(u64::MAX - 6)),
            ("", None),
            ("+", None),
            ("7x", None),
        ] {
            assert_eq!(unsigned(text.as_bytes()), number, "{text:?}");
        }
    }
}

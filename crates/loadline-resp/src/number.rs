//! Numbers as RESP writes them.

use crate::error::{Error, Malformed};

/// The longest length line that is read: 20 digits hold every `u64`.
pub(crate) const LENGTH_LINE_BYTES: usize = 20;

/// Reads the length of a string or aggregate; `None` is `-1`, which means null.
///
/// # Errors
/// `Streamed` for `?`, `Malformed` for anything that is not a plain decimal number.
pub(crate) fn length(text: &[u8]) -> Result<Option<u64>, Error> {
    match text {
        b"-1" => Ok(None),
        b"?" => Err(Error::Streamed),
        _ => unsigned(text).map(Some).ok_or(Malformed::Length.into()),
    }
}

/// Reads decimal digits without sign or leading zero, as Redis reads lengths (`string2ll`).
pub(crate) fn unsigned(text: &[u8]) -> Option<u64> {
    if text.is_empty() || (text.len() > 1 && text[0] == b'0') {
        return None;
    }
    digits(text)
}

/// Reads an integer reply: an optional sign, then digits.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if text.is_empty() {
        return None;
    }
    let magnitude = digits(text)?;
    if negative {
        0i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// Reads a double reply: decimal notation with an optional exponent, or `inf`, `-inf`, `nan`, `-nan`.
pub(crate) fn double(text: &[u8]) -> Option<f64> {
    match text {
        b"inf" | b"+inf" => return Some(f64::INFINITY),
        b"-inf" => return Some(f64::NEG_INFINITY),
        b"nan" | b"-nan" => return Some(f64::NAN),
        _ => {}
    }
    // The standard parser also takes words such as `infinity`, which are not RESP.
    let plain = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E');
    if !text.iter().all(plain) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Whether the text is an optional sign and at least one digit.
pub(crate) fn is_big_number(text: &[u8]) -> bool {
    let digits = text
        .strip_prefix(b"-")
        .or_else(|| text.strip_prefix(b"+"))
        .unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn digits(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_plain_numbers() {
        assert_eq!(length(b"-1"), Ok(None));
        assert_eq!(length(b"0"), Ok(Some(0)));
        assert_eq!(length(b"18446744073709551615"), Ok(Some(u64::MAX)));
        assert_eq!(length(b"?"), Err(Error::Streamed));
        for bad in [
            &b""[..],
            b"-5",
            b"-0",
            b"+1",
            b"01",
            b"1 ",
            b" 1",
            b"1a",
            b"18446744073709551616",
        ] {
            assert_eq!(
                length(bad),
                Err(Malformed::Length.into()),
                "{}",
                bad.escape_ascii()
            );
        }
    }

    #[test]
    fn integers_span_64_bits() {
        assert_eq!(integer(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer(b"+7"), Some(7));
        assert_eq!(integer(b"-0"), Some(0));
        for bad in [
            &b""[..],
            b"-",
            b"+",
            b"--1",
            b"9223372036854775808",
            b"-9223372036854775809",
            b"1.0",
            b"0x1",
        ] {
            assert_eq!(integer(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn doubles_are_decimal_or_one_of_the_three_words() {
        assert_eq!(double(b"1.5e3"), Some(1500.0));
        assert_eq!(double(b"-0"), Some(-0.0));
        assert_eq!(double(b"inf"), Some(f64::INFINITY));
        assert_eq!(double(b"-inf"), Some(f64::NEG_INFINITY));
        assert!(double(b"nan").is_some_and(f64::is_nan));
        for bad in [
            &b""[..],
            b"infinity",
            b"NaN",
            b"0x1",
            b"1e",
            b".",
            b"--1",
            b"1 ",
        ] {
            assert_eq!(double(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn big_numbers_are_digits_with_a_sign() {
        assert!(is_big_number(
            b"3492890328409238509324850943850943825024385"
        ));
        assert!(is_big_number(b"-1"));
        for bad in [&b""[..], b"-", b"+", b"1-", b"1.5", b"+-1"] {
            assert!(!is_big_number(bad), "{}", bad.escape_ascii());
        }
    }
}

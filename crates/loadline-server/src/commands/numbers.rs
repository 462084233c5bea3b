//! Numbers in arguments and values, read and written as in Redis.

use std::fmt::Write;
use std::ops::Range;

use rand::RngExt;
use rustc_apfloat::ieee::{Double, X87DoubleExtended};
use rustc_apfloat::{Float, FloatConvert, Round, Status};

use super::refusal::{NOT_FINITE, NOT_INTEGER, Refusal, shown};

/// The most elements of a random choice with repetition: the reply is built in memory, which the limit of
/// Redis (half of all 64-bit numbers) would exhaust.
const MOST_SAMPLES: u64 = 1 << 20;

/// The decimals that Redis writes before it strips trailing zeros.
const DECIMALS: usize = 17;

/// Mantissa bits after the leading one.
const FRACTION_BITS: u32 = 63;
const EXPONENT_BIAS: i32 = 16_383;

/// The longest text accepted as a decimal number, as in Redis.
const LONGEST_FLOAT: usize = 5 * 1024;

/// Reads an integer as Redis does: no sign but `-`, no leading zeros, no spaces.
pub(super) fn integer(word: &[u8]) -> Result<i64, Refusal> {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    let is_negative = digits.len() < word.len();
    match digits {
        [b'0'] if !is_negative => return Ok(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return Err(NOT_INTEGER.into()),
    }
    // The negative range is larger by one, so the sum is negative.
    let mut sum: i64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(NOT_INTEGER.into());
        }
        sum = sum
            .checked_mul(10)
            .and_then(|sum| sum.checked_sub(i64::from(digit)))
            .ok_or(NOT_INTEGER)?;
    }
    let number = if is_negative {
        Some(sum)
    } else {
        sum.checked_neg()
    };
    Ok(number.ok_or(NOT_INTEGER)?)
}

/// Reads a 32-bit integer, such as the number of a database.
pub(super) fn small_integer(word: &[u8]) -> Result<i32, Refusal> {
    let number = i32::try_from(integer(word)?);
    Ok(number
        .map_err(|_| "ERR value is out of range, value must between -2147483648 and 2147483647")?)
}

/// Reads a non-negative integer.
pub(super) fn unsigned(word: &[u8], refusal: &'static str) -> Result<usize, Refusal> {
    let number = integer(word)
        .ok()
        .and_then(|number| usize::try_from(number).ok());
    Ok(number.ok_or(refusal)?)
}

/// Replaces `text` by the digits of `number`.
pub(super) fn write_integer(text: &mut Vec<u8>, number: i64) {
    text.clear();
    text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The digits of an integer, without an allocation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Digits {
    bytes: [u8; Self::MOST],
    length: usize,
}

impl Digits {
    /// Length of the smallest number with its sign.
    const MOST: usize = "-9223372036854775808".len();

    pub(super) fn new(number: i64) -> Self {
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(number).as_bytes();
        let mut bytes = [0; Self::MOST];
        bytes[..text.len()].copy_from_slice(text);
        Self {
            bytes,
            length: text.len(),
        }
    }
}

impl AsRef<[u8]> for Digits {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The places that a command names with the first and the last one; a negative one counts from the end.
pub(super) fn places(first: i64, last: i64, length: usize) -> Range<usize> {
    let from_end = |place: i64| match place {
        ..0 => place.saturating_add(length as i64),
        _ => place,
    };
    let start = usize::try_from(from_end(first)).unwrap_or(0).min(length);
    let end = usize::try_from(from_end(last).saturating_add(1)).unwrap_or(0);
    start..end.clamp(start, length)
}

/// Reads the count of a random choice; negative for a choice with repetition.
pub(super) fn sample_count(word: &[u8]) -> Result<i64, Refusal> {
    let count = integer(word)?;
    if count < 0 && count.unsigned_abs() > MOST_SAMPLES {
        return Err(format!(
            "ERR value is out of range, value must between -{MOST_SAMPLES} and {}",
            i64::MAX
        )
        .into());
    }
    Ok(count)
}

/// A function that draws random numbers below its argument.
pub(super) fn random_below(rng: &mut impl RngExt) -> impl FnMut(u64) -> u64 {
    |end| rng.random_range(0..end)
}

/// Adds two decimal numbers and writes the sum as Redis does: 64 bits of mantissa as in x87, 17 decimals, no
/// trailing zeros. `not_float` is the error for an invalid number.
pub(super) fn add_floats(
    (old, old_refusal): (&[u8], &'static str),
    (increment, refusal): (&[u8], &'static str),
) -> Result<String, Refusal> {
    let sum = (float(old).ok_or(old_refusal)? + float(increment).ok_or(refusal)?).value;
    if !sum.is_finite() {
        return Err(NOT_FINITE.into());
    }
    Ok(float_text(sum))
}

/// Refuses an invalid or infinite decimal number.
pub(super) fn check_finite(word: &[u8], refusal: &'static str) -> Result<(), Refusal> {
    if float(word).ok_or(refusal)?.is_finite() {
        Ok(())
    } else {
        Err("ERR value is NaN or Infinity".into())
    }
}

/// Reads a 64-bit float like `strtod`: up to a zero byte, with leading spaces, 0 for an empty word. Returns
/// `None` on overflow or underflow.
pub(super) fn double(word: &[u8]) -> Option<f64> {
    let word = shown(word, word.len());
    let spaces = word.iter().take_while(|byte| byte.is_ascii_whitespace());
    let word = &word[spaces.count()..];
    if word.is_empty() {
        return Some(0.0);
    }
    let exact = float(word)?;
    let status = exact.convert(&mut false);
    let number: Double = status.value;
    let is_held = !status
        .status
        .intersects(Status::OVERFLOW | Status::UNDERFLOW);
    is_held.then(|| f64::from_bits(number.to_bits() as u64))
}

/// Reads a number of seconds and returns it in milliseconds, rounded up, as the timeouts of Redis.
pub(super) fn milliseconds(word: &[u8]) -> Result<u64, Refusal> {
    let seconds = float(word).ok_or("ERR timeout is not a float or out of range")?;
    let thousand: X87DoubleExtended = X87DoubleExtended::from_u128(1_000).value;
    let product = (seconds * thousand).value;
    let milliseconds = product.to_i128_r(64, Round::TowardPositive, &mut false);
    // Redis converts what is too large to the least number.
    let is_too_large = milliseconds.status.intersects(Status::INVALID_OP);
    let milliseconds = u64::try_from(milliseconds.value).ok();
    let milliseconds = milliseconds.filter(|_| !is_too_large);
    Ok(milliseconds.ok_or("ERR timeout is negative")?)
}

/// Reads a score: a number like that of `strtod`, all of the word, not more than a double holds.
pub(super) fn score(word: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(word).ok()?;
    let number = whole_double(text)?;
    if number.is_finite() && number != 0.0 {
        return Some(number);
    }
    let named = text.trim_start_matches(['-', '+']).to_ascii_lowercase();
    let is_held = if number == 0.0 {
        let mantissa = named.split(['e', 'p']).next().unwrap_or_default();
        mantissa.bytes().all(|byte| b"0x.".contains(&byte))
    } else {
        named.starts_with("inf")
    };
    is_held.then_some(number)
}

/// Reads an end of an interval of scores like `strtod`: up to a zero byte, with leading spaces, 0 for an empty word, and
/// what is too large as infinite.
pub(super) fn interval_end(word: &[u8]) -> Option<f64> {
    let word = shown(word, word.len());
    if word.is_empty() {
        return Some(0.0);
    }
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let spaces = word.iter().take_while(|byte| is_space(byte)).count();
    whole_double(std::str::from_utf8(&word[spaces..]).ok()?)
}

/// Reads a number that is all of a text, rounded to a double.
fn whole_double(text: &str) -> Option<f64> {
    /// A double has the exact value of every whole number of so many digits.
    const EXACT_DIGITS: usize = 15;
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if (1..=EXACT_DIGITS).contains(&unsigned.len()) && unsigned.bytes().all(|b| b.is_ascii_digit())
    {
        let whole = unsigned
            .bytes()
            .fold(0, |sum, digit| 10 * sum + u64::from(digit - b'0'));
        let whole = whole as f64;
        return Some(if text.starts_with('-') { -whole } else { whole });
    }
    if unsigned.starts_with("0x") || unsigned.starts_with("0X") {
        let number: Double = float(text.as_bytes())?.convert(&mut false).value;
        return Some(f64::from_bits(number.to_bits() as u64));
    }
    let number: f64 = text.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

/// The text of a score as Redis keeps it in a listpack: whole numbers below 2^62 have all of their digits.
pub(super) fn packed_score_text(score: f64) -> String {
    const WHOLE: f64 = (1_i64 << 62) as f64;
    if score == score.trunc() && score.abs() <= WHOLE {
        return (score as i64).to_string();
    }
    double_text(score)
}

/// A double whose text is that of an integer.
pub(super) fn whole(number: f64) -> Option<i64> {
    /// Below this, whole numbers have fewer than 17 digits.
    const MOST: f64 = 1e15;
    let is_whole = number == number.trunc() && number.abs() < MOST;
    let is_negative_zero = number == 0.0 && number.is_sign_negative();
    (is_whole && !is_negative_zero).then_some(number as i64)
}

/// The text of a double with 17 digits, as `printf` writes it with `%.17g`.
pub(super) fn double_text(number: f64) -> String {
    const DIGITS: i32 = 17;
    if let Some(number) = whole(number) {
        return itoa::Buffer::new().format(number).to_owned();
    }
    if number == 0.0 {
        return "-0".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 {
            "inf".into()
        } else {
            "-inf".into()
        };
    }
    let scientific = format!("{:.16e}", number.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = mantissa.replace('.', "");
    let sign = if number < 0.0 { "-" } else { "" };
    let stripped = |digits: &str| digits.trim_end_matches('0').to_owned();
    let joined = |whole: &str, part: &str| match stripped(part).as_str() {
        "" => format!("{sign}{whole}"),
        part => format!("{sign}{whole}.{part}"),
    };
    match exponent {
        0..DIGITS => {
            let (whole, part) = digits.split_at(exponent as usize + 1);
            joined(whole, part)
        }
        -4..0 => {
            let zeros = "0".repeat((-exponent - 1) as usize);
            joined("0", &(zeros + &digits))
        }
        _ => {
            let (whole, part) = digits.split_at(1);
            let mark = if exponent < 0 { '-' } else { '+' };
            format!("{}e{mark}{:02}", joined(whole, part), exponent.abs())
        }
    }
}

/// Reads a number like `strtold`, as Redis does, without leading spaces: decimal, hexadecimal or infinite.
/// Returns `None` on overflow or underflow.
fn float(word: &[u8]) -> Option<X87DoubleExtended> {
    let text = std::str::from_utf8(word).ok()?;
    let (is_negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let names = ["inf", "infinity"];
    let number = if names.iter().any(|name| unsigned.eq_ignore_ascii_case(name)) {
        X87DoubleExtended::INFINITY
    } else {
        finite(unsigned)?
    };
    Some(if is_negative { -number } else { number })
}

/// Reads an unsigned finite number.
fn finite(text: &str) -> Option<X87DoubleExtended> {
    let is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    let (digits, marks) = if is_hexadecimal {
        (&text[2..], ['p', 'P'])
    } else {
        (text, ['e', 'E'])
    };
    let (mantissa, exponent) = match digits.split_once(marks) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits, None),
    };
    let radix = if is_hexadecimal { 16 } else { 10 };
    let is_digit = |letter: char| letter.is_digit(radix);
    let is_mantissa = mantissa.contains(is_digit)
        && mantissa
            .chars()
            .all(|letter| is_digit(letter) || letter == '.')
        && mantissa.matches('.').count() <= 1;
    let is_exponent = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    if !is_mantissa || !is_exponent || text.len() >= LONGEST_FLOAT {
        return None;
    }
    let number: X87DoubleExtended = match exponent {
        // The parser requires an exponent in hexadecimal numbers.
        None if is_hexadecimal => format!("0x{mantissa}p0").parse().ok()?,
        _ => text.parse().ok()?,
    };
    let is_nothing = mantissa.chars().all(|letter| ['0', '.'].contains(&letter));
    (number.is_finite() && number.is_zero() == is_nothing).then_some(number)
}

/// The text of a finite double, rounded to 17 decimals.
pub(super) fn decimal_text(number: f64) -> String {
    let exact = Double::from_bits(number.to_bits().into()).convert(&mut false);
    float_text(exact.value)
}

/// Formats a finite number, rounded to 17 decimals.
fn float_text(number: X87DoubleExtended) -> String {
    let bits = number.to_bits();
    let mantissa = bits as u64;
    let exponent = ((bits >> 64) as i32 & 0x7FFF) - EXPONENT_BIAS - FRACTION_BITS as i32;
    let (mut whole, mut decimals) = split(mantissa, exponent);
    if decimals == 10_u64.pow(DECIMALS as u32) {
        // Rounding up reached the next integer.
        decimals = 0;
        whole = add_one(&whole);
    }
    let mut text = String::new();
    if number.is_negative() && (decimals > 0 || whole != "0") {
        text.push('-');
    }
    text.push_str(&whole);
    if decimals > 0 {
        let _ = write!(text, ".{decimals:0DECIMALS$}");
        text.truncate(text.trim_end_matches('0').len());
    }
    text
}

/// The integer part of `mantissa * 2^exponent` in digits, and the rest in units of the last decimal, rounded
/// half to even.
fn split(mantissa: u64, exponent: i32) -> (String, u64) {
    if exponent >= 0 {
        return (shifted(mantissa, exponent.unsigned_abs()), 0);
    }
    let places = exponent.unsigned_abs();
    let whole = mantissa.checked_shr(places).unwrap_or(0);
    let mask = 1_u64.checked_shl(places).map_or(u64::MAX, |bit| bit - 1);
    // 64 bits times 10^17 are 121 bits, so nothing is lost.
    let scaled = u128::from(mantissa & mask) * 10_u128.pow(DECIMALS as u32);
    let units = scaled.checked_shr(places).unwrap_or(0) as u64;
    let rest = scaled - u128::from(units).checked_shl(places).unwrap_or(0);
    let half = 1_u128.checked_shl(places - 1).unwrap_or(u128::MAX);
    let up = rest > half || (rest == half && units % 2 == 1);
    (whole.to_string(), units + u64::from(up))
}

/// The digits of `number * 2^places`, computed in groups of eighteen, lowest group first.
fn shifted(number: u64, places: u32) -> String {
    const GROUP: u64 = 10_u64.pow(18);
    let mut groups = vec![number % GROUP, number / GROUP];
    let mut left = places;
    while left > 0 {
        let step = left.min(60);
        let mut carry = 0;
        for group in &mut groups {
            let sum = (u128::from(*group) << step) + u128::from(carry);
            *group = (sum % u128::from(GROUP)) as u64;
            carry = (sum / u128::from(GROUP)) as u64;
        }
        groups.extend((carry > 0).then_some(carry));
        left -= step;
    }
    let mut text = String::new();
    for group in groups.iter().rev() {
        let _ = write!(text, "{group:018}");
    }
    let digits = text.trim_start_matches('0');
    if digits.is_empty() { "0" } else { digits }.to_owned()
}

/// Adds one to the integer in `digits`; it has at most 20 digits because it has decimals.
fn add_one(digits: &str) -> String {
    let number: u128 = digits.parse().expect("digits are a number");
    (number + 1).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A round trip: the text reads back as the same number and formats the same.
        #[test]
        fn integers_need_canonical_digits(text in "-{0,2}[0-9]{0,20}|[ -~]{0,4}") {
            let plain = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
            prop_assert_eq!(integer(text.as_bytes()).ok(), plain);
        }

        #[test]
        fn ends_of_the_range_are_in_it(number in any::<i64>()) {
            for number in [number, i64::MIN, i64::MAX] {
                prop_assert_eq!(integer(number.to_string().as_bytes()), Ok(number));
            }
            prop_assert!(integer(b"9223372036854775808").is_err());
            prop_assert!(integer(b"-9223372036854775809").is_err());
        }

        /// No text makes the parser panic.
        #[test]
        fn malformed_number_is_refused(text in "[-+]?(0[xX])?[0-9a-f.]{0,24}([eEpP][-+]?[0-9]{0,7})?|[ -~]{0,8}") {
            let sum = add_floats((text.as_bytes(), "old"), (b"0", "new"));
            prop_assert_eq!(sum.is_ok(), float(text.as_bytes()).is_some_and(|number| number.is_finite()));
        }

        /// Numbers with few digits are exact to the last decimal.
        #[test]
        fn sums_of_short_decimals_are_exact(one in -99_999_i64..99_999, other in -99_999_i64..99_999) {
            let text = |units: i64| format!("{}{}.{:04}", if units < 0 { "-" } else { "" }, units.abs() / 10_000, units.abs() % 10_000);
            let sum = text(one + other);
            let wanted = sum.trim_end_matches('0').trim_end_matches('.');
            let wanted = if wanted == "-0" { "0" } else { wanted };
            prop_assert_eq!(sum_of(&text(one), &text(other)), Ok(wanted.to_owned()));
        }
    }

    fn sum_of(one: &str, other: &str) -> Result<String, Refusal> {
        add_floats((one.as_bytes(), "old"), (other.as_bytes(), "new"))
    }

    /// The form in which glibc prints it with `%.17g`.
    #[test]
    fn doubles_have_seventeen_digits() {
        for (number, text) in [
            (0.1, "0.10000000000000001"),
            (-1.5, "-1.5"),
            (3.0, "3"),
            (-0.0, "-0"),
            (1e15, "1000000000000000"),
            (1e16, "10000000000000000"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (1e17, "1e+17"),
            (1e300, "1.0000000000000001e+300"),
            (0.0001, "0.0001"),
            (0.000_012_5, "1.2500000000000001e-05"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NEG_INFINITY, "-inf"),
            (0.5, "0.5"),
            (1.0 / 3.0, "0.33333333333333331"),
        ] {
            assert_eq!(double_text(number), text);
        }
    }

    #[test]
    fn scores_are_read_as_strtod_reads_them() {
        for (word, number) in [
            ("1", Some(1.0)),
            ("+1.5e3", Some(1_500.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("0x10", Some(16.0)),
            ("-0x.8p1", Some(-1.0)),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("+Infinity", Some(f64::INFINITY)),
            ("0e999", Some(0.0)),
            ("1e-310", Some(1e-310)),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("1e400", None),
            ("1e-400", None),
            ("nan", None),
            ("1e", None),
            ("--1", None),
        ] {
            assert_eq!(score(word.as_bytes()), number, "{word:?}");
        }
        for (word, number) in [
            ("", Some(0.0)),
            (" \t1", Some(1.0)),
            ("1\0x", Some(1.0)),
            ("1e400", Some(f64::INFINITY)),
            ("1e-400", Some(0.0)),
            (" ", None),
            ("nan", None),
            ("1x", None),
        ] {
            assert_eq!(interval_end(word.as_bytes()), number, "{word:?}");
        }
    }

    /// The replies of redis-server 7.0.15 on x86-64.
    #[test]
    fn sums_of_decimals_are_those_of_x87() {
        for (one, other, sum) in [
            ("0.1", "0.2", "0.3"),
            ("3.0e3", "200", "3200"),
            ("0.99999999999999999", "0.000000000000000009", "1"),
            ("-0.0", "0", "0"),
            ("1e30", "1", "1000000000000000000024696061952"),
            ("0x10", "0x.8p1", "17"),
            (".5", "5.", "5.5"),
            ("18446744073709551615", "1", "18446744073709551616"),
        ] {
            assert_eq!(sum_of(one, other), Ok(sum.to_owned()), "{one} + {other}");
        }
        for (one, other, why) in [
            ("x", "1", "old"),
            ("1", "", "new"),
            ("1", " 1", "new"),
            ("1", "nan", "new"),
            ("1", "1e5000", "new"),
            ("1", "1e-5000", "new"),
            ("1", "0x", "new"),
            ("1", "inf", NOT_FINITE),
            ("1e4932", "1e4932", NOT_FINITE),
        ] {
            assert_eq!(sum_of(one, other), Err(why.into()), "{one} + {other}");
        }
    }
}

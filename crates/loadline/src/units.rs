//! Values with units, as they are typed and as they are shown.
//!
//! A bare number where a unit is needed is refused: `--duration 10` could mean anything.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use loadline_load::keys::KeyDist;
use loadline_load::values::ValueSize;
use loadline_measure::words;

/// The units of a duration, with their nanoseconds.
const TIME_UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The units of a size, with their bytes.
const SIZE_UNITS: [(&str, u64); 7] = [
    ("B", 1),
    ("kB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
];

/// The suffixes of a count.
const COUNT_SUFFIXES: [(&str, u64); 4] = [
    ("", 1),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
];

/// A key distribution as typed: how many keys are hot may depend on how many there are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum KeyDistSpec {
    /// One that needs no more to be known.
    Ready(KeyDist),
    /// A hot set given as a share of the keys, 0 to 1, and the share of the requests it gets.
    HotShare { keys_share: f64, share: f64 },
}

impl KeyDistSpec {
    /// The distribution over `keys` keys.
    pub(crate) fn over(&self, keys: u64) -> KeyDist {
        match self {
            Self::Ready(dist) => dist.clone(),
            Self::HotShare { keys_share, share } => {
                // At least one key is hot, and the key space bounds the product.
                let hot_keys = ((keys as f64 * keys_share).round() as u64).max(1);
                KeyDist::Hotspot {
                    hot_keys,
                    share: *share,
                }
            }
        }
    }
}

/// Reads a duration, such as `250us`, `10ms`, `2s` or `1.5m`.
///
/// # Errors
/// A sentence for the user, here as in all functions of this module.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    with_unit(text, &TIME_UNITS, &DURATION).map(Duration::from_nanos)
}

/// Reads the version of the protocol.
pub(crate) fn resp(text: &str) -> Result<u8, String> {
    match text {
        "2" => Ok(2),
        "3" => Ok(3),
        _ => Err(format!(
            "invalid protocol version `{text}`: expected `2` or `3`"
        )),
    }
}

/// Reads a share in percent, such as `5%`, from 0 to 1.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let number = text
        .strip_suffix('%')
        .and_then(|number| number.trim_end().parse::<f64>().ok());
    match number {
        Some(percent) if (0.0..=10_000.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(SHARE.invalid(text)),
    }
}

/// Reads an address to listen on.
pub(crate) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "invalid address `{text}`: expected an IP address and a port, such as `127.0.0.1:6379`"
        )
    })
}

/// Reads an address for encrypted connections: a port of this machine, or an address with a port.
pub(crate) fn tls_address(text: &str) -> Result<SocketAddr, String> {
    match text.parse() {
        Ok(port) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        Err(_) => text.parse().map_err(|_| {
            format!(
                "invalid port `{text}`: expected a port, such as `6380`, or an IP address with it, such as `0.0.0.0:6380`"
            )
        }),
    }
}

/// Reads a size, such as `64B`, `1KiB`, `1kB` or `1MiB`, in bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    with_unit(text, &SIZE_UNITS, &SIZE)
}

/// Reads a count, such as `100`, `1_000`, `100k` or `1.5M`.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    with_unit(text, &COUNT_SUFFIXES, &COUNT)
}

/// Reads a count that is at least one and fits 32 bits.
pub(crate) fn small_count(text: &str) -> Result<u32, String> {
    let count = positive_count(text)?;
    u32::try_from(count).map_err(|_| COUNT.because(text, &format!("at most {}", u32::MAX)))
}

/// Reads a count that is at least one.
pub(crate) fn positive_count(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err(COUNT.because(text, "must be at least 1")),
        count => Ok(count),
    }
}

/// Reads a distribution of keys.
pub(crate) fn key_dist(text: &str) -> Result<KeyDistSpec, String> {
    let ready = |dist| Ok(KeyDistSpec::Ready(dist));
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    let arguments: Vec<&str> = parts.collect();
    match (name, arguments.as_slice()) {
        ("uniform", []) => ready(KeyDist::Uniform),
        ("gaussian", []) => ready(KeyDist::Gaussian),
        ("sequential", []) => ready(KeyDist::Sequential),
        ("latest", []) => ready(KeyDist::Latest),
        ("zipf", [exponent]) => {
            let exponent = plain_number(exponent).ok_or_else(|| KEY_DIST.because(text, "the exponent is a number, such as `0.99` or `1.2`"))?;
            ready(KeyDist::Zipf { exponent })
        }
        ("hotspot", [keys, share]) => hotspot(keys, share),
        ("zipf", _) => Err(KEY_DIST.because(text, "zipf takes an exponent, such as `zipf:0.99`")),
        ("hotspot", _) => Err(KEY_DIST.because(text, "hotspot takes its keys and their share of the requests, such as `hotspot:0.2:0.8` or `hotspot:1k:0.9`")),
        _ => Err(KEY_DIST.invalid(text)),
    }
}

/// Reads a rule for the sizes of values.
pub(crate) fn value_size(text: &str) -> Result<ValueSize, String> {
    let range = |text: &str| -> Result<(u64, u64), String> {
        let (low, high) = text
            .split_once("..")
            .ok_or_else(|| SIZE.because(text, "zipf takes both ends, such as `zipf:64B..4KiB`"))?;
        let (low, high) = (size(low)?, size(high)?);
        if low > high {
            Err(SIZE.because(text, "the first end is above the second"))
        } else {
            Ok((low, high))
        }
    };
    if let Some(ends) = text.strip_prefix("zipf:") {
        range(ends).map(|(low, high)| ValueSize::Zipf(low, high))
    } else if text.contains("..") {
        range(text).map(|(low, high)| ValueSize::Range(low, high))
    } else {
        size(text).map(ValueSize::Fixed)
    }
}

/// A distribution of keys, as it is typed.
pub(crate) fn key_dist_text(dist: &KeyDist) -> String {
    match dist {
        KeyDist::Uniform => "uniform".into(),
        KeyDist::Zipf { exponent } => format!("zipf:{exponent}"),
        KeyDist::Gaussian => "gaussian".into(),
        KeyDist::Sequential => "sequential".into(),
        KeyDist::Hotspot { hot_keys, share } => format!("hotspot:{hot_keys}:{share}"),
        KeyDist::Latest => "latest".into(),
    }
}

/// A rule for the sizes of values, as it is typed.
pub(crate) fn value_size_text(size: &ValueSize) -> String {
    match *size {
        ValueSize::Fixed(bytes) => bytes_text(bytes),
        ValueSize::Range(low, high) => format!("{}..{}", bytes_text(low), bytes_text(high)),
        ValueSize::Zipf(low, high) => format!("zipf:{}..{}", bytes_text(low), bytes_text(high)),
    }
}

/// A size in the largest binary unit that it is a multiple of.
pub(crate) fn bytes_text(bytes: u64) -> String {
    let fits = |unit: &u64| bytes >= *unit && bytes.is_multiple_of(*unit);
    match [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
        .iter()
        .find(|(unit, _)| fits(unit))
    {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

/// The current time as RFC 3339 in UTC, with nanoseconds. Later times sort after earlier ones as text.
pub(crate) fn now_text() -> String {
    humantime::format_rfc3339_nanos(SystemTime::now()).to_string()
}

/// A duration in the largest unit that it is a multiple of.
pub(crate) fn duration_text(duration: Duration) -> String {
    let ns = duration.as_nanos();
    let fits = |unit: u64| ns >= u128::from(unit) && ns.is_multiple_of(u128::from(unit));
    match TIME_UNITS.iter().rev().find(|(_, unit)| fits(*unit)) {
        Some((name, unit)) => format!("{}{name}", ns / u128::from(*unit)),
        None => "0s".into(),
    }
}

/// A duration in whole seconds, rounded up, or in minutes from 3 min on, rounded.
pub(crate) fn rough_duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        0.0..60.0 => format!("{:.0} s", seconds.ceil()),
        60.0..180.0 => format!("{:.0} s", (seconds / 5.0).ceil() * 5.0),
        _ => format!("{:.0} min", (seconds / 60.0).round()),
    }
}

/// An added latency in a sentence: `10 ms`, or `no latency`.
pub(crate) fn latency_words(latency: Duration) -> String {
    match u64::try_from(latency.as_nanos()) {
        Ok(0) => "no latency".into(),
        ns => words::span(ns.unwrap_or(u64::MAX)),
    }
}

/// A duration as a record has it; `u64::MAX` where it is longer.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A count in groups of three digits.
pub(crate) fn count_text(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The hot set is a share of the keys where it is written with a point, else a count.
fn hotspot(keys: &str, share: &str) -> Result<KeyDistSpec, String> {
    let share_of = |text: &str| plain_number(text).filter(|share| (0.0..=1.0).contains(share));
    let share = share_of(share).ok_or_else(|| {
        KEY_DIST.because(
            &format!("hotspot:{keys}:{share}"),
            "the share of the requests is between 0 and 1",
        )
    })?;
    if keys.contains('.') && !keys.ends_with(|c: char| c.is_ascii_alphabetic()) {
        let keys_share = share_of(keys).ok_or_else(|| {
            KEY_DIST.because(
                &format!("hotspot:{keys}:{share}"),
                "the share of the keys is between 0 and 1",
            )
        })?;
        return Ok(KeyDistSpec::HotShare { keys_share, share });
    }
    let hot_keys = positive_count(keys)?;
    Ok(KeyDistSpec::Ready(KeyDist::Hotspot { hot_keys, share }))
}

/// A kind of value, for the sentences about what is not one.
struct Form {
    noun: &'static str,
    expected: &'static str,
}

const DURATION: Form = Form {
    noun: "duration",
    expected: "a number with a unit, such as `250us`, `10ms` or `2s`",
};
const SIZE: Form = Form {
    noun: "size",
    expected: "a number with a unit, such as `64B`, `1KiB` or `1MiB`",
};
const COUNT: Form = Form {
    noun: "count",
    expected: "a number, such as `100`, `1_000`, `100k` or `1.5M`",
};
const SHARE: Form = Form {
    noun: "share",
    expected: "a number with a percent sign, such as `5%`",
};
const KEY_DIST: Form = Form {
    noun: "key distribution",
    expected: "`uniform`, `zipf:S`, `gaussian`, `sequential`, `hotspot:K:P` or `latest`",
};

impl Form {
    /// That `text` is not such a value.
    fn invalid(&self, text: &str) -> String {
        format!("invalid {} `{text}`: expected {}", self.noun, self.expected)
    }

    /// The same for a narrower reason.
    fn because(&self, text: &str, why: &str) -> String {
        format!("invalid {} `{text}`: {why}", self.noun)
    }
}

fn with_unit(text: &str, units: &[(&str, u64)], form: &Form) -> Result<u64, String> {
    let (number, unit) = split(text);
    let factor = factor_of(unit, units).ok_or_else(|| form.invalid(text))?;
    scaled(number, factor, text, form)
}

/// The number at the head of `text`, and what follows it.
fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(text.len());
    text.split_at(end)
}

fn factor_of(unit: &str, units: &[(&str, u64)]) -> Option<u64> {
    units
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor)
}

/// `number` times `factor`, which must come out whole. Digits are counted, not rounded in a float.
fn scaled(number: &str, factor: u64, text: &str, form: &Form) -> Result<u64, String> {
    let unreadable = || form.invalid(text);
    let too_large = || form.because(text, "too large");
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| -> Option<String> {
        let plain = text.replace('_', "");
        plain
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then_some(plain)
    };
    let whole = digits(whole)
        .filter(|digits| !digits.is_empty())
        .ok_or_else(unreadable)?;
    let fraction = digits(fraction).ok_or_else(unreadable)?;
    let fraction = fraction.trim_end_matches('0');
    let places = u32::try_from(fraction.len())
        .ok()
        .filter(|places| *places <= 18)
        .ok_or_else(unreadable)?;
    let all: u128 = format!("{whole}{fraction}")
        .parse()
        .map_err(|_| too_large())?;
    let product = all.checked_mul(u128::from(factor)).ok_or_else(too_large)?;
    let divisor = 10_u128.pow(places);
    if !product.is_multiple_of(divisor) {
        return Err(form.because(text, "not a whole number of the smallest unit"));
    }
    u64::try_from(product / divisor).map_err(|_| too_large())
}

/// A finite number that is not negative, in digits and at most one point.
fn plain_number(text: &str) -> Option<f64> {
    let plain = !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain
        .then(|| text.parse().ok())
        .flatten()
        .filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_in_sentences() {
        let spans = [0, 110_000, 10_000_000, 1_500_000_000].map(Duration::from_nanos);
        assert_eq!(
            spans.map(latency_words),
            ["no latency", "110 us", "10 ms", "1500 ms"]
        );
    }

    #[test]
    fn durations() {
        for (text, ns) in [
            ("1ns", 1),
            ("250us", 250_000),
            ("10ms", 10_000_000),
            ("1.5s", 1_500_000_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("0s", 0),
            ("1_000ms", 1_000_000_000),
        ] {
            assert_eq!(duration(text).unwrap().as_nanos(), ns, "{text}");
        }
        for text in [
            "",
            "10",
            "s",
            "-1s",
            "1 s",
            "1sec",
            "1.2.3s",
            ".5s",
            "0.1ns",
            "99999999999999h",
            "1e3s",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(
            duration("10").unwrap_err(),
            "invalid duration `10`: expected a number with a unit, such as `250us`, `10ms` or `2s`"
        );
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("64B", 64),
            ("1KiB", 1_024),
            ("1kB", 1_000),
            ("1.5KiB", 1_536),
            ("2MiB", 2 << 20),
            ("1GiB", 1 << 30),
        ] {
            assert_eq!(size(text).unwrap(), bytes, "{text}");
        }
        for text in ["64", "1K", "1k", "64b", "B", "0.3B"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(
            size("64").unwrap_err(),
            "invalid size `64`: expected a number with a unit, such as `64B`, `1KiB` or `1MiB`"
        );
    }

    #[test]
    fn counts() {
        for (text, wanted) in [
            ("0", 0),
            ("100", 100),
            ("1_000", 1_000),
            ("100k", 100_000),
            ("1.5M", 1_500_000),
            ("2G", 2_000_000_000),
        ] {
            assert_eq!(count(text).unwrap(), wanted, "{text}");
        }
        for text in [
            "",
            "k",
            "1.5",
            "-3",
            "1kk",
            "99999999999999999999",
            "_",
            "1 000",
        ] {
            assert!(count(text).is_err(), "{text}");
        }
        assert!(positive_count("0").is_err());
        assert!(small_count("5G").is_err());
    }

    #[test]
    fn key_distributions() {
        let hotspot = |hot_keys, share| KeyDist::Hotspot { hot_keys, share };
        for (text, wanted) in [
            ("uniform", KeyDist::Uniform),
            ("zipf:1.2", KeyDist::Zipf { exponent: 1.2 }),
            ("gaussian", KeyDist::Gaussian),
            ("sequential", KeyDist::Sequential),
            ("latest", KeyDist::Latest),
            ("hotspot:10:0.9", hotspot(10, 0.9)),
            ("hotspot:1.5k:1", hotspot(1_500, 1.0)),
            ("hotspot:0.2:0.8", hotspot(20_000, 0.8)),
        ] {
            assert_eq!(key_dist(text).unwrap().over(100_000), wanted, "{text}");
        }
        for text in [
            "",
            "zipf",
            "zipf:",
            "zipf:x",
            "zipf:-1",
            "zipf:inf",
            "hotspot:10",
            "hotspot:10:2",
            "hotspot:1.2:0.5",
            "hotspot:0:0.5",
            "uniform:1",
            "Zipf:1",
        ] {
            assert!(key_dist(text).is_err(), "{text}");
        }
    }

    #[test]
    fn value_sizes() {
        for (text, wanted) in [
            ("64B", ValueSize::Fixed(64)),
            ("64B..1KiB", ValueSize::Range(64, 1_024)),
            ("zipf:64B..4KiB", ValueSize::Zipf(64, 4_096)),
        ] {
            assert_eq!(value_size(text).unwrap(), wanted, "{text}");
            assert_eq!(value_size_text(&wanted), text);
        }
        for text in ["64", "1KiB..64B", "zipf:64B", "64B..", "..64B", "64..128"] {
            assert!(value_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shown_values_are_readable() {
        assert_eq!(duration_text(Duration::from_millis(1_500)), "1500ms");
        assert_eq!(duration_text(Duration::from_secs(120)), "2m");
        assert_eq!(duration_text(Duration::ZERO), "0s");
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(count_text),
            ["0", "999", "1,000", "1,234,567"]
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_a_panic(text in "\\PC{0,24}", shaped in "[0-9._:kMGiBsmunzipf]{0,24}") {
            for text in [&text, &shaped] {
                let _ = (duration(text), size(text), count(text), small_count(text), value_size(text));
                if let Ok(dist) = key_dist(text) {
                    dist.over(u64::MAX);
                }
            }
        }

        #[test]
        fn shown_values_parse_back(ns: u64, low in 0_u64..1 << 40, more in 0_u64..1 << 30, exponent in 0.0_f64..9.0) {
            prop_assert_eq!(duration(&duration_text(Duration::from_nanos(ns))).unwrap().as_nanos(), u128::from(ns));
            for size in [ValueSize::Fixed(low), ValueSize::Range(low, low + more), ValueSize::Zipf(low, low + more)] {
                prop_assert_eq!(value_size(&value_size_text(&size)).unwrap(), size);
            }
            let dist = KeyDist::Zipf { exponent };
            prop_assert_eq!(key_dist(&key_dist_text(&dist)).unwrap().over(1), dist);
        }
    }
}

//! Formatting of numbers for readers: three significant digits and a unit.
//!
//! Every number in a sentence or a table is formatted here, so that a finding and its table show the same
//! digits.

use crate::metric::{Metric, Quantity};
use crate::record::{Arrivals, Pacing, ValueBytes};

/// Shown instead of a percentile with too few samples.
pub const TOO_FEW: &str = "too few";

/// A time: `402 ns`, `38.4 us`, `1.20 ms`, `12.3 s`.
#[must_use]
pub fn duration(ns: f64) -> String {
    scaled(ns, 1_000.0, &["ns", "us", "ms", "s"], " ")
}

/// A percentile, or a note that it has too few samples.
#[must_use]
pub fn percentile(ns: Option<u64>) -> String {
    ns.map_or_else(|| TOO_FEW.to_owned(), |ns| duration(ns as f64))
}

/// A chosen, not measured, time: `10 ms`, `500 us`.
#[must_use]
pub fn span(ns: u64) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let unit = units
        .into_iter()
        .find(|(_, unit)| ns >= *unit && ns.is_multiple_of(*unit));
    unit.map_or_else(
        || format!("{ns} ns"),
        |(name, unit)| format!("{} {name}", ns / unit),
    )
}

/// A limit: `2 ms`, `250 us`; rounded to whole microseconds.
#[must_use]
pub fn span_or_duration(ns: f64) -> String {
    let whole = ns.fract() == 0.0 && (1.0..1e15).contains(&ns);
    if whole { span(ns as u64) } else { duration(ns) }
}

/// A count or a rate: `837`, `9.99k`, `118.2k`, `1.23M`.
#[must_use]
pub fn count(value: f64) -> String {
    let precise = scaled(value, 1_000.0, &["", "k", "M", "G", "T"], "");
    match precise.strip_suffix('k') {
        // Most rates have six figures; a fourth digit distinguishes them.
        Some(digits) if digits.len() == 3 && value < 999_950.0 => {
            format!("{:.1}k", value / 1_000.0)
        }
        _ => precise,
    }
}

/// A chosen, not measured, number: `64`, `100k`, `1M`, `12345`.
#[must_use]
pub fn amount(value: u64) -> String {
    let units = [("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000)];
    let unit = units
        .into_iter()
        .find(|(_, unit)| value >= *unit && value.is_multiple_of(*unit));
    unit.map_or_else(
        || value.to_string(),
        |(name, unit)| format!("{}{name}", value / unit),
    )
}

/// A size: `64 B`, `1.5 KiB`, `512 MiB`.
#[must_use]
pub fn bytes(value: u64) -> String {
    let exact = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match exact
        .into_iter()
        .find(|(_, unit)| value >= *unit && value.is_multiple_of(*unit) && value / unit < 1_024)
    {
        Some((name, unit)) => format!("{} {name}", value / unit),
        None => scaled(
            value as f64,
            1_024.0,
            &["B", "KiB", "MiB", "GiB", "TiB"],
            " ",
        ),
    }
}

/// A rate of bytes in bits per second, the unit of link bandwidths: `8.00 Mbit/s`.
#[must_use]
pub fn bits_per_second(bytes_per_second: u64) -> String {
    scaled(
        bytes_per_second as f64 * 8.0,
        1_000.0,
        &["bit/s", "kbit/s", "Mbit/s", "Gbit/s"],
        " ",
    )
}

/// CPU time per operation in microseconds, without the unit; `?` where it is not known.
#[must_use]
pub fn cpu_us(ns: Option<f64>) -> String {
    ns.map_or_else(|| "?".to_owned(), |ns| digits(ns / 1e3))
}

/// A ratio with two decimals, as long as they mean something: `1.42x`.
#[must_use]
pub fn ratio(value: f64) -> String {
    format!("{}x", bound(value))
}

/// A bound of a ratio, which has the unit of the text before it.
#[must_use]
pub fn bound(value: f64) -> String {
    if (0.095..1_000.0).contains(&value) {
        format!("{value:.2}")
    } else {
        digits(value)
    }
}

/// A share in percent, with enough digits to differ from 0 and from 100.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if !percent.is_finite() || percent.abs() >= 1e6 => format!("{percent:.2e} %"),
        _ if percent > 0.0 && percent < 0.005 => "<0.01 %".to_owned(),
        _ if percent > 99.995 && percent < 100.0 => ">99.99 %".to_owned(),
        _ if percent == 0.0 || percent == 100.0 => format!("{percent} %"),
        _ if percent.abs() < 1.0 || (99.0..100.0).contains(&percent) => format!("{percent:.2} %"),
        _ => format!("{percent:.1} %"),
    }
}

/// When operations were meant to start.
#[must_use]
pub fn pacing(pacing: Pacing, arrivals: Option<&Arrivals>) -> String {
    let Pacing::Rate(rate) = pacing else {
        return "closed loop".to_owned();
    };
    // A rate within these bounds and without a fraction is a whole number in both types.
    let whole = rate.fract() == 0.0 && (1.0..1e15).contains(&rate);
    let rate = if whole {
        amount(rate as u64)
    } else {
        count(rate)
    };
    let arrivals = arrivals
        .map(|arrivals| format!(" ({arrivals})"))
        .unwrap_or_default();
    format!("open loop at {rate}/s{arrivals}")
}

/// The size of values, in words.
#[must_use]
pub fn value_size(size: &ValueBytes) -> String {
    match size {
        ValueBytes::Fixed(size) => format!("{} values", bytes(*size)),
        ValueBytes::Spread { min, max, dist } => {
            format!("values of {} to {} ({dist})", bytes(*min), bytes(*max))
        }
    }
}

/// A value of a metric with its unit: `402 us`, `118.2k/s`, `1.3 %`.
#[must_use]
pub fn value(metric: Metric, value: f64) -> String {
    match metric.quantity() {
        Quantity::Time => duration(value),
        Quantity::Rate => format!("{}/s", count(value)),
        Quantity::Share => percent(value),
        Quantity::Count => count(value),
        Quantity::Bytes => scaled(value, 1_000.0, &["B", "kB", "MB", "GB"], " "),
    }
}

/// "redis", "redis and heed", "redis, heed and redb".
#[must_use]
pub fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_owned(),
        [names @ .., last] => format!("{} and {last}", names.join(", ")),
    }
}

/// "a, b and 5 others": as many names as a sentence has room for.
#[must_use]
pub fn few(names: &[&str]) -> String {
    const MOST: usize = 3;
    if names.len() <= MOST {
        return list(names);
    }
    let (named, others) = names.split_at(MOST - 1);
    format!("{} and {} others", named.join(", "), others.len())
}

/// "1 round", "2 rounds".
#[must_use]
pub fn plural(count: u64, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

/// Brings the value under `step` by going up the units, and gives it three significant digits.
fn scaled(value: f64, step: f64, units: &[&str], gap: &str) -> String {
    let mut value = value;
    let mut units = units.iter();
    if value.fract() == 0.0 && value.abs() < step {
        return format!("{value}{gap}{}", units.next().copied().unwrap_or_default());
    }
    let mut unit = units.next().copied().unwrap_or_default();
    for larger in units {
        // 999.5 would be written as 1000.
        if value.abs() < step - 0.5 {
            break;
        }
        value /= step;
        unit = larger;
    }
    format!("{}{gap}{unit}", digits(value))
}

/// Three significant digits, without an exponent as long as that is readable.
fn digits(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() || size >= 1e6 || (size > 0.0 && size < 0.0005) {
        return format!("{value:.2e}");
    }
    if value == 0.0 || (size >= 99.95 && size.fract() == 0.0) {
        return format!("{value}");
    }
    match size {
        _ if size >= 99.95 => format!("{value:.0}"),
        _ if size >= 9.995 => format!("{value:.1}"),
        _ if size >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_the_right_unit() {
        for (ns, expected) in [
            (0.0, "0 ns"),
            (7.0, "7 ns"),
            (7.25, "7.25 ns"),
            (402.0, "402 ns"),
            (999.4, "999 ns"),
            (999.6, "1.00 us"),
            (38_400.0, "38.4 us"),
            (99_960.0, "100 us"),
            (999_900.0, "1.00 ms"),
            (1_204_000.0, "1.20 ms"),
            (9_996_000.0, "10.0 ms"),
            (12.34e9, "12.3 s"),
            (4_000e9, "4000 s"),
            (u64::MAX as f64, "1.84e10 s"),
        ] {
            assert_eq!(duration(ns), expected, "{ns}");
        }
    }

    #[test]
    fn counts_and_rates_are_short() {
        for (value, expected) in [
            (0.0, "0"),
            (837.0, "837"),
            (12.34, "12.3"),
            (9_990.0, "9.99k"),
            (10_000.0, "10.0k"),
            (99_940.0, "99.9k"),
            (118_240.0, "118.2k"),
            (999_960.0, "1.00M"),
            (1_234_567.0, "1.23M"),
            (1e300, "1.00e288T"),
        ] {
            assert_eq!(count(value), expected, "{value}");
        }
    }

    #[test]
    fn sizes_are_exact_where_they_can_be() {
        for (value, expected) in [
            (0, "0 B"),
            (64, "64 B"),
            (1_023, "1023 B"),
            (1_024, "1 KiB"),
            (1_536, "1.50 KiB"),
            (512 << 20, "512 MiB"),
            (24_684_084 << 10, "23.5 GiB"),
        ] {
            assert_eq!(bytes(value), expected, "{value}");
        }
    }

    #[test]
    fn shares_near_0_and_100_percent_are_not_rounded_to_them() {
        for (share, expected) in [
            (0.0, "0 %"),
            (0.000_01, "<0.01 %"),
            (0.00012, "0.01 %"),
            (0.072, "7.2 %"),
            (0.9999, "99.99 %"),
            (0.999_999, ">99.99 %"),
            (1.0, "100 %"),
            (-1e300, "-1.00e302 %"),
        ] {
            assert_eq!(percent(share), expected, "{share}");
        }
    }

    #[test]
    fn chosen_numbers_are_exact() {
        for (value, expected) in [
            (0, "0"),
            (50, "50"),
            (1_500, "1500"),
            (100_000, "100k"),
            (3_000_000, "3M"),
        ] {
            assert_eq!(amount(value), expected);
        }
        for (ns, expected) in [
            (0, "0 ns"),
            (1_500, "1500 ns"),
            (500_000, "500 us"),
            (2_000_000_000, "2 s"),
        ] {
            assert_eq!(span(ns), expected);
        }
    }

    #[test]
    fn ratios_keep_their_digits_when_small_or_huge() {
        for (value, expected) in [
            (1.42, "1.42x"),
            (0.5, "0.50x"),
            (0.0123, "0.012x"),
            (1_234.0, "1234x"),
            (1e9, "1.00e9x"),
            (f64::NAN, "NaNx"),
        ] {
            assert_eq!(ratio(value), expected, "{value}");
        }
    }
}

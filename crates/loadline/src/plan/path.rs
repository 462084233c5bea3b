//! Properties of the path to a server: latency, jitter, bandwidth and the class of the link.

use std::time::Duration;

use loadline_link::link::Class;
use loadline_link::shape::{Jitter, Shape};
use serde_json::{Value, json};

use super::LONGEST_LATENCY;
use crate::args::LinkArg;
use crate::exit::Failure;
use crate::units::{self, duration_text};

/// Maximum number of round trips that measure a link, and the time limit.
const TRIPS: usize = 300;
const MEASURE_FOR: Duration = Duration::from_secs(3);
/// With fewer, the tail is unknown.
const LEAST_TRIPS: usize = 20;

/// The tail's exponent of Pareto jitter: its mean is twice its scale, and its variance is infinite.
const PARETO_EXPONENT: f64 = 1.5;

/// Properties of a path to a server, without the latency, of which a sweep has several.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct PathShape {
    /// Variation of the delay in each direction.
    pub(crate) jitter: Jitter,
    /// Bandwidth per direction in bytes per second; `None` is no limit.
    pub(crate) bytes_per_second: Option<u64>,
    /// Class of the link; `None` is the best that is possible here.
    pub(crate) class: Option<Class>,
}

impl PathShape {
    /// Resolves `--jitter`, `--bandwidth` and `--link`.
    ///
    /// # Errors
    /// A usage error for a property that no link, or not the requested class, can have.
    pub(crate) fn resolve(
        jitter: Option<&str>,
        bandwidth: Option<&str>,
        link: LinkArg,
    ) -> Result<Self, Failure> {
        let shape = Self {
            jitter: jitter.map_or(Ok(Jitter::None), parse_jitter)?,
            bytes_per_second: bandwidth.map(parse_bandwidth).transpose()?,
            class: match link {
                LinkArg::Auto => None,
                LinkArg::L3 => Some(Class::L3),
                LinkArg::L4 => Some(Class::L4),
                LinkArg::Netem => Some(Class::Netem),
            },
        };
        if shape.class == Some(Class::Netem) && shape.jitter != Jitter::None {
            return Err(Failure::usage(
                "--jitter: netem lets packets overtake when the delay varies; use --link l3 or --link l4.",
            ));
        }
        Ok(shape)
    }

    /// Whether there is no property that needs a link.
    pub(crate) fn is_plain(&self) -> bool {
        self.jitter == Jitter::None && self.bytes_per_second.is_none()
    }

    /// The whole path with `latency` added to each round trip.
    pub(crate) fn with_latency(&self, latency: Duration, seed: u64) -> Shape {
        let mut shape = Shape::round_trip(latency).with_jitter(self.jitter);
        if let Some(bytes_per_second) = self.bytes_per_second {
            shape = shape.with_bandwidth(bytes_per_second);
        }
        shape.seed = seed;
        shape
    }

    /// The jitter as it is typed; `None` without one.
    pub(crate) fn jitter_text(&self) -> Option<String> {
        match self.jitter {
            Jitter::None => None,
            Jitter::Uniform { within } => Some(format!("{}:uniform", duration_text(within))),
            Jitter::Normal { deviation } => Some(format!("{}:normal", duration_text(deviation))),
            Jitter::Pareto { scale, .. } => Some(format!("{}:pareto", duration_text(scale))),
        }
    }

    /// The properties as text, such as `jitter 1ms:normal, 10Mbit/s`.
    pub(crate) fn text(&self) -> String {
        let jitter = self.jitter_text().map(|text| format!("jitter {text}"));
        let bandwidth = self.bytes_per_second.map(bandwidth_text);
        jitter
            .into_iter()
            .chain(bandwidth)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The requested class of the link.
    pub(crate) fn class_name(&self) -> &'static str {
        self.class.map_or("auto", Class::name)
    }

    /// The form in the plan of a record.
    pub(crate) fn to_json(self) -> Value {
        json!({
            "jitter": self.jitter_text(),
            "bytes_per_second": self.bytes_per_second,
            "link": self.class_name(),
        })
    }
}

/// Reads one added latency; `0` is none.
///
/// # Errors
/// A usage error for an invalid or too long duration.
pub(crate) fn latency(text: &str) -> Result<Duration, Failure> {
    let latency = match text {
        "0" => Duration::ZERO,
        text => {
            units::duration(text).map_err(|why| Failure::usage(format!("--latency: {why}.")))?
        }
    };
    if latency > LONGEST_LATENCY {
        let why = format!("at most {}", duration_text(LONGEST_LATENCY));
        return Err(Failure::invalid("--latency", "duration", text, why));
    }
    Ok(latency)
}

/// Reads `T`, `T:normal`, `T:uniform` or `T:pareto`.
fn parse_jitter(text: &str) -> Result<Jitter, Failure> {
    let (time, kind) = text.split_once(':').unwrap_or((text, "normal"));
    let spread =
        units::duration(time).map_err(|why| Failure::usage(format!("--jitter: {why}.")))?;
    let refused = |why: String| Failure::invalid("--jitter", "jitter", text, why);
    if spread.is_zero() || spread > LONGEST_LATENCY {
        return Err(refused(format!(
            "must be above 0 and at most {}",
            duration_text(LONGEST_LATENCY)
        )));
    }
    match kind {
        "normal" => Ok(Jitter::Normal { deviation: spread }),
        "uniform" => Ok(Jitter::Uniform { within: spread }),
        "pareto" => Ok(Jitter::Pareto {
            scale: spread,
            exponent: PARETO_EXPONENT,
        }),
        _ => Err(refused(
            "expected `T`, `T:normal`, `T:uniform` or `T:pareto`".into(),
        )),
    }
}

/// Reads `10Mbit` or `1MiB/s`, in bytes per second.
fn parse_bandwidth(text: &str) -> Result<u64, Failure> {
    let refused = |why: &str| Failure::invalid("--bandwidth", "bandwidth", text, why);
    let plain = text.strip_suffix("/s").unwrap_or(text);
    let bytes = match plain.strip_suffix("bit") {
        Some(bits) => {
            let bits =
                units::count(bits).map_err(|why| Failure::usage(format!("--bandwidth: {why}.")))?;
            if !bits.is_multiple_of(8) {
                return Err(refused("expected a whole number of bytes per second"));
            }
            bits / 8
        }
        None if plain != text => {
            units::size(plain).map_err(|why| Failure::usage(format!("--bandwidth: {why}.")))?
        }
        None => {
            return Err(refused(
                "expected a number with a unit, such as `10Mbit`, `1Gbit` or `1MiB/s`",
            ));
        }
    };
    if bytes == 0 {
        return Err(refused("must be above 0"));
    }
    Ok(bytes)
}

/// In bits, the usual unit of links, if that is a round number; else in bytes.
fn bandwidth_text(bytes_per_second: u64) -> String {
    let bits = u128::from(bytes_per_second) * 8;
    let fits = |unit: u128| bits >= unit && bits.is_multiple_of(unit);
    let units = [
        (1_000_000_000, "Gbit"),
        (1_000_000, "Mbit"),
        (1_000, "kbit"),
    ];
    match units.iter().find(|(unit, _)| fits(*unit)) {
        Some((unit, name)) => format!("{}{name}/s", bits / unit),
        None => format!("{}/s", units::bytes_text(bytes_per_second)),
    }
}

/// The number of round trips that measure a link of that latency.
pub(crate) fn measuring_trips(latency: Duration) -> usize {
    let fitting = MEASURE_FOR.as_nanos() / latency.as_nanos().max(1);
    usize::try_from(fitting).map_or(TRIPS, |fitting| fitting.clamp(LEAST_TRIPS, TRIPS))
}

/// The duration of the round trips that measure a link of that latency.
pub(super) fn measuring_time(latency: Duration) -> Duration {
    latency * measuring_trips(latency) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(jitter: Option<&str>, bandwidth: Option<&str>) -> Result<PathShape, String> {
        PathShape::resolve(jitter, bandwidth, LinkArg::Auto).map_err(|why| why.to_string())
    }

    #[test]
    fn jitter_and_bandwidth_are_read_and_shown_alike() {
        for (jitter, bandwidth, text) in [
            (Some("1ms"), None, "jitter 1ms:normal"),
            (
                Some("250us:uniform"),
                Some("10Mbit"),
                "jitter 250us:uniform, 10Mbit/s",
            ),
            (
                Some("2ms:pareto"),
                Some("1Gbit/s"),
                "jitter 2ms:pareto, 1Gbit/s",
            ),
            (None, Some("1MiB/s"), "1MiB/s"),
            (None, Some("1.5Mbit"), "1500kbit/s"),
            (None, None, ""),
        ] {
            let shape = resolved(jitter, bandwidth).unwrap();
            assert_eq!(shape.text(), text);
            assert_eq!(shape.is_plain(), text.is_empty());
        }
        let shape = resolved(Some("1ms:uniform"), Some("8Mbit")).unwrap();
        let whole = shape.with_latency(Duration::from_millis(10), 7);
        assert_eq!(whole.up.bytes_per_second, Some(1_000_000));
        assert_eq!(whole.down.jitter, shape.jitter);
        assert_eq!(
            (whole.latency(), whole.seed),
            (Duration::from_millis(10), 7)
        );
        assert!(whole.check().is_ok());
    }

    #[test]
    fn impossible_links_are_refused() {
        for (jitter, bandwidth, word) in [
            (Some("1"), None, "unit"),
            (Some("0ms"), None, "above 0"),
            (Some("1h"), None, "at most"),
            (Some("1ms:gamma"), None, "T:pareto"),
            (None, Some("10"), "with a unit"),
            (None, Some("1MiB"), "with a unit"),
            (None, Some("0Mbit"), "above 0"),
            (None, Some("7bit"), "whole number"),
            (None, Some("xMbit"), "--bandwidth"),
        ] {
            let refusal = resolved(jitter, bandwidth).unwrap_err();
            assert!(
                refusal.contains(word),
                "{jitter:?} {bandwidth:?}: {refusal}"
            );
        }
        let netem = PathShape::resolve(Some("1ms"), None, LinkArg::Netem);
        assert!(netem.unwrap_err().to_string().contains("overtake"));
    }
}

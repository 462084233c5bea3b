//! Absolute limits in text form: `xread.p99<10ms`, `throughput>50k`, `errors<=0.1%`.
//!
//! ```text
//! limit  = [ case "." ] metric op value
//! op     = "<" | "<=" | ">" | ">="
//! value  = number unit          time: ns us ms s; share: %; memory: B kB MB KiB MiB
//!        | number [k|M] [/s]    rate
//! ```
//! Without a case, a limit applies to every case. A limit always judges the measured value, never a
//! normalised or corrected one.
//! normalised or corrected figure.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Error;
use crate::histogram::SAMPLES_BEYOND;
use crate::metric::Direction;
use crate::metric::{Metric, Quantity};

/// A limit on a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The case; `None` for all cases.
    pub(crate) case: Option<String>,
    /// The metric.
    pub(crate) metric: Metric,
    /// Whether the value itself keeps the limit.
    pub inclusive: bool,
    /// The value: nanoseconds, operations per second, bytes, or a share from 0 to 1.
    pub value: f64,
    text: String,
}

impl Limit {
    /// The metric that it judges.
    #[must_use]
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Whether a value of the metric keeps the limit.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        (self.inclusive && value == self.value)
            || match self.metric.direction() {
                Direction::LessIsBetter => value < self.value,
                Direction::MoreIsBetter => value > self.value,
            }
    }

    /// Whether it applies to the case of that name.
    #[must_use]
    pub fn concerns(&self, case: &str) -> bool {
        self.case.as_deref().is_none_or(|named| named == case)
    }
}

impl FromStr for Limit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = |reason: &str| Error::Limit {
            text: shortened(text),
            reason: reason.to_owned(),
        };
        let sign = text.find(['<', '>']).ok_or_else(|| {
            refused("expected a metric, `<` or `>`, and a value, such as `xread.p99<10ms`")
        })?;
        let (path, rest) = text.split_at(sign);
        let (below, rest) = (rest.starts_with('<'), &rest[1..]);
        let (inclusive, value) = match rest.strip_prefix('=') {
            Some(value) => (true, value),
            None => (false, rest),
        };
        let (case, metric) = path_of(path.trim()).ok_or_else(|| {
            let names: Vec<&str> = limitable().map(Metric::name).collect();
            refused(&format!(
                "expected one of {} before the sign",
                names.join(", ")
            ))
        })?;
        if below != (metric.direction() == Direction::LessIsBetter) {
            let sign = if below { ">" } else { "<" };
            return Err(refused(&format!(
                "for {} the other direction is better; expected `{}{sign}{}`",
                metric.name(),
                path.trim(),
                value.trim()
            )));
        }
        let value = value_of(value.trim(), metric.quantity()).map_err(&refused)?;
        Ok(Self {
            case: case.map(str::to_owned),
            metric,
            inclusive,
            value,
            text: text.trim().to_owned(),
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The percentile of the response time that a search for the highest load must keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slo {
    /// The percentile.
    pub metric: Metric,
    /// The upper limit, in nanoseconds.
    pub limit_ns: f64,
}

impl Slo {
    /// The quantile, from 0 to 1.
    #[must_use]
    pub fn quantile(&self) -> f64 {
        self.metric
            .response_quantile()
            .expect("parsing takes percentiles of the response time only")
    }

    /// The number of operations needed to publish the percentile.
    #[must_use]
    pub fn least_ops(&self) -> u64 {
        // A share such as 1 - 0.9 is slightly below 0.1 in binary, hence the rounding.
        (SAMPLES_BEYOND as f64 / (1.0 - self.quantile())).round() as u64
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("s", 1e9), ("ms", 1e6), ("us", 1e3)];
        let (unit, factor) = units
            .into_iter()
            .find(|(_, factor)| self.limit_ns >= *factor)
            .unwrap_or(("ns", 1.0));
        // A float is written with the fewest digits that read back as the same number.
        write!(f, "{}<{}{unit}", self.metric.name(), self.limit_ns / factor)
    }
}

impl Serialize for Slo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Slo {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for Slo {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = |reason: &str| Error::Limit {
            text: shortened(text),
            reason: reason.to_owned(),
        };
        if !text.contains(['<', '>']) {
            return Err(refused(
                "expected a percentile, `<` and a time, such as `p99<2ms`",
            ));
        }
        let limit: Limit = text.parse()?;
        if limit.case.is_some() {
            return Err(refused(
                "expected no case, because a single load is searched",
            ));
        }
        if limit.metric.response_quantile().is_none() {
            return Err(refused(
                "expected a percentile of the response time, such as `p99<2ms`",
            ));
        }
        Ok(Self {
            metric: limit.metric,
            limit_ns: limit.value,
        })
    }
}

/// The metrics that can have limits: all but corrected ones.
fn limitable() -> impl Iterator<Item = Metric> {
    Metric::ALL
        .into_iter()
        .filter(|metric| *metric != Metric::CorrectedP99 && !Metric::AUDIT.contains(metric))
}

/// Splits the case from the metric. The name of a metric can contain a dot (`p99.9`).
fn path_of(path: &str) -> Option<(Option<&str>, Metric)> {
    let names = limitable()
        .map(|metric| (metric.name(), metric))
        .chain([("p999", Metric::P999)]);
    names.into_iter().find_map(|(name, metric)| {
        let before = path.strip_suffix(name)?;
        if before.is_empty() {
            return Some((None, metric));
        }
        let case = before.strip_suffix('.')?;
        (!case.is_empty()).then_some((Some(case), metric))
    })
}

fn value_of(text: &str, quantity: Quantity) -> Result<f64, &'static str> {
    let (units, needed): (&[(&str, f64)], _) = match quantity {
        Quantity::Time => (
            &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)],
            "expected a value with a unit: ns, us, ms or s",
        ),
        Quantity::Share => (&[("%", 0.01)], "expected a value with a % sign"),
        Quantity::Bytes => (
            &[
                ("KiB", 1024.0),
                ("MiB", 1_048_576.0),
                ("kB", 1e3),
                ("MB", 1e6),
                ("B", 1.0),
            ],
            "expected a value with a unit: B, kB, MB, KiB or MiB",
        ),
        Quantity::Count => (
            &[("k", 1e3), ("M", 1e6), ("", 1.0)],
            "expected a number, such as 4000 or 4k",
        ),
        Quantity::Rate => (
            &[("k", 1e3), ("M", 1e6), ("", 1.0)],
            "expected a number per second, such as 50k or 50_000/s",
        ),
    };
    let text = match quantity {
        Quantity::Rate => text.strip_suffix("/s").unwrap_or(text),
        _ => text,
    };
    let found = units.iter().find_map(|(unit, factor)| {
        let number = number(text.strip_suffix(unit)?.trim_end())?;
        Some(number * factor)
    });
    match found {
        Some(value) if value.is_finite() && value > 0.0 => Ok(value),
        Some(_) => Err("the value must be above zero"),
        None => Err(needed),
    }
}

/// A decimal number: digits, at most one point, `_` between digits.
fn number(text: &str) -> Option<f64> {
    let plain = text
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'_'));
    let inside = |c: char| text.starts_with(c) || text.ends_with(c);
    if !plain || text.is_empty() || inside('_') || inside('.') {
        return None;
    }
    text.replace('_', "").parse().ok()
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limit(text: &str) -> Limit {
        text.parse().unwrap()
    }

    fn refusal(text: &str) -> String {
        text.parse::<Limit>().unwrap_err().to_string()
    }

    #[test]
    fn limits_are_read_as_people_write_them() {
        for (text, case, metric, value) in [
            ("xread.p99<10ms", Some("xread"), Metric::P99, 1e7),
            ("p99.9 < 1.5s", None, Metric::P999, 1.5e9),
            ("get.p99.9<=250us", Some("get"), Metric::P999, 2.5e5),
            ("get.p999<250us", Some("get"), Metric::P999, 2.5e5),
            ("a.b.mean<800ns", Some("a.b"), Metric::Mean, 800.0),
            ("throughput>50k", None, Metric::Throughput, 5e4),
            (
                "set.throughput>=1_000/s",
                Some("set"),
                Metric::Throughput,
                1e3,
            ),
            ("throughput>1.5M/s", None, Metric::Throughput, 1.5e6),
            ("errors<0.1%", None, Metric::Errors, 0.001),
            ("get.hit_ratio>99 %", Some("get"), Metric::HitRatio, 0.99),
            ("server_cpu<5us", None, Metric::ServerCpu, 5e3),
            ("client_memory<1MB", None, Metric::ClientMemory, 1e6),
            (
                "connection_memory.client_memory<=64KiB",
                Some("connection_memory"),
                Metric::ClientMemory,
                65_536.0,
            ),
            (
                "get pipeline 16.p50<1ms",
                Some("get pipeline 16"),
                Metric::P50,
                1e6,
            ),
        ] {
            let found = limit(text);
            assert_eq!(
                (found.case.as_deref(), found.metric),
                (case, metric),
                "{text}"
            );
            assert!(
                (found.value / value - 1.0).abs() < 1e-12,
                "{text}: {found:?}"
            );
            assert_eq!(found.to_string(), text);
        }
    }

    #[test]
    fn malformed_limit_is_refused_with_advice() {
        for (text, reason) in [
            ("p99", "expected a metric, `<` or `>`, and a value"),
            ("p99<10", "expected a value with a unit: ns, us, ms or s"),
            ("p99<10m", "a value with a unit"),
            ("p99<-1ms", "a value with a unit"),
            ("p99<0ms", "must be above zero"),
            ("p99<1e3ms", "a value with a unit"),
            ("p99<.5ms", "a value with a unit"),
            ("p99<1_ms", "a value with a unit"),
            ("p99<1.2.3ms", "a value with a unit"),
            ("p99>10ms", "expected `p99<10ms`"),
            ("throughput<5k", "expected `throughput>5k`"),
            ("errors<0.1", "a value with a % sign"),
            ("client_memory<1M", "with a unit: B, kB"),
            ("throughput>fast", "expected a number per second"),
            ("latency<1ms", "expected one of throughput, "),
            (".p99<1ms", "expected one of"),
            ("xp99<1ms", "expected one of"),
            ("corrected_p99<1ms", "expected one of"),
            ("<1ms", "expected one of"),
        ] {
            let message = refusal(text);
            assert!(message.contains(reason), "{text}: {message}");
        }
        let long = refusal(&format!("{}\x1b<1ms", "x".repeat(10_000)));
        assert!(long.len() < 400 && !long.contains('\x1b'), "{long}");
    }

    #[test]
    fn edge_is_inside_only_where_it_says_so() {
        assert!(!limit("p99<10ms").holds(1e7));
        assert!(limit("p99<=10ms").holds(1e7));
        assert!(limit("p99<10ms").holds(9.9e6));
        assert!(!limit("throughput>1k").holds(1e3));
        assert!(limit("throughput>=1k").holds(1e3));
        assert!(limit("throughput>1k").holds(1001.0));
        assert!(!limit("p99<10ms").holds(f64::NAN));
    }

    #[test]
    fn limit_concerns_its_case_or_all() {
        assert!(limit("p99<1ms").concerns("anything"));
        assert!(limit("get.p99<1ms").concerns("get"));
        assert!(!limit("get.p99<1ms").concerns("set"));
    }

    #[test]
    fn slo_is_a_percentile_of_everything() {
        let slo: Slo = "p99<2ms".parse().unwrap();
        assert_eq!(
            (slo.quantile(), slo.limit_ns, slo.least_ops()),
            (0.99, 2e6, 10_000)
        );
        let slo: Slo = "p99.9<2ms".parse().unwrap();
        assert_eq!(slo.least_ops(), 100_000);
        for (text, written) in [
            ("p99<2ms", "p99<2ms"),
            ("p99.9 <= 0.25ms", "p99.9<250us"),
            ("p50<1500ms", "p50<1.5s"),
            ("p90<0.5us", "p90<500ns"),
        ] {
            let slo: Slo = text.parse().unwrap();
            assert_eq!(slo.to_string(), written);
            assert_eq!(slo, written.parse().unwrap());
            assert_eq!(
                serde_json::to_string(&slo).unwrap(),
                format!("\"{written}\"")
            );
        }
        for (text, reason) in [
            ("get.p99<2ms", "expected no case"),
            ("mean<2ms", "a percentile of the response time"),
            ("throughput>5k", "a percentile of the response time"),
            ("p99<2", "a value with a unit"),
            ("p99", "such as `p99<2ms`"),
        ] {
            let message = text.parse::<Slo>().unwrap_err().to_string();
            assert!(message.contains(reason), "{text}: {message}");
        }
    }

    #[test]
    fn in_json_a_limit_is_its_text() {
        let json = serde_json::to_string(&limit("get.p99<1ms")).unwrap();
        assert_eq!(json, "\"get.p99<1ms\"");
        assert_eq!(
            serde_json::from_str::<Limit>(&json).unwrap(),
            limit("get.p99<1ms")
        );
        assert!(serde_json::from_str::<Limit>("\"p99\"").is_err());
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,30}") {
            let _ = text.parse::<Limit>();
        }

        #[test]
        fn no_near_limit_is_a_panic(text in "[a-z.]{0,6}p99\\.?9?[<>]=?[0-9._]{0,8}[a-z%/]{0,3}") {
            let _ = text.parse::<Limit>();
        }
    }
}

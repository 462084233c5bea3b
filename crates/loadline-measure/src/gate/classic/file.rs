//! Reading the file.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Classic, ClassicMetric, ClassicThresholds};
use crate::Error;
use crate::record::shortened;

/// The size of the largest accepted file; real ones are below a kibibyte.
const MOST_BYTES: usize = 64 << 10;

impl Classic {
    /// Reads a file. Unknown keys are ignored; entries of `metrics` are optional, and all thresholds but the
    /// lowest throughput have defaults (20 %, 10 %, 10 ms).
    ///
    /// # Errors
    ///
    /// [`Error::NotABaseline`] if the bytes are not a JSON object with the object `metrics`, and
    /// [`Error::Field`] with the name of a field that has an invalid value.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        let refused = |reason: &str| Error::NotABaseline(reason.to_owned());
        if bytes.len() > MOST_BYTES {
            return Err(refused("it is longer than 64 KiB"));
        }
        let Value::Object(file) = serde_json::from_slice(bytes)
            .map_err(|error| Error::NotABaseline(format!("it is not JSON ({error})")))?
        else {
            return Err(refused("it is not a JSON object"));
        };
        let metrics =
            section(&file, "metrics")?.ok_or_else(|| refused("it has no object \"metrics\""))?;
        let mut numbers = BTreeMap::new();
        for metric in ClassicMetric::ALL {
            // Values outside this range are neither a time in microseconds nor a rate of a server.
            if let Some(number) = number(metrics, "metrics", metric.key(), (1e-3, 1e10))? {
                numbers.insert(metric, number);
            }
        }
        if numbers.is_empty() {
            let keys = ClassicMetric::ALL.map(ClassicMetric::key).join(", ");
            let reason = format!("its \"metrics\" hold none of {keys}");
            return Err(Error::NotABaseline(reason));
        }
        let none = Map::new();
        let thresholds = section(&file, "thresholds")?.unwrap_or(&none);
        Ok(Self {
            last_updated: text(&file, "last_updated")?,
            environment: file.get("environment").cloned(),
            metrics: numbers,
            thresholds: of_thresholds(thresholds)?,
        })
    }
}

fn of_thresholds(section: &Map<String, Value>) -> Result<ClassicThresholds, Error> {
    let read = |key: &str, range| number(section, "thresholds", key, range);
    let default = ClassicThresholds::default();
    Ok(ClassicThresholds {
        latency_regression_pct: read("latency_regression_pct", (0.1, 10_000.0))?
            .unwrap_or(default.latency_regression_pct),
        throughput_regression_pct: read("throughput_regression_pct", (0.1, 99.9))?
            .unwrap_or(default.throughput_regression_pct),
        critical_latency_ms: read("critical_latency_ms", (1e-3, 3.6e6))?
            .unwrap_or(default.critical_latency_ms),
        critical_throughput_min_ops_sec: read("critical_throughput_min_ops_sec", (1e-3, 1e10))?,
    })
}

fn section<'a>(
    file: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a Map<String, Value>>, Error> {
    match file.get(key) {
        None => Ok(None),
        Some(Value::Object(section)) => Ok(Some(section)),
        Some(other) => Err(field(key, &format!("holds {}, not an object", told(other)))),
    }
}

fn text(file: &Map<String, Value>, key: &str) -> Result<Option<String>, Error> {
    match file.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(field(key, &format!("holds {}, not a text", told(other)))),
    }
}

fn number(
    section: &Map<String, Value>,
    name: &str,
    key: &str,
    (least, most): (f64, f64),
) -> Result<Option<f64>, Error> {
    let Some(value) = section.get(key) else {
        return Ok(None);
    };
    match value.as_f64() {
        Some(number) if (least..=most).contains(&number) => Ok(Some(number)),
        _ => Err(field(
            &format!("{name}.{key}"),
            &format!("holds {}, not a number from {least} to {most}", told(value)),
        )),
    }
}

fn told(value: &Value) -> String {
    shortened(&value.to_string())
}

fn field(field: &str, reason: &str) -> Error {
    Error::Field {
        field: field.to_owned(),
        reason: reason.to_owned(),
    }
}

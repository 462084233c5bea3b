//! Reading and writing records.

use serde::Deserialize;

use super::{Case, Record, SCHEMA};
use crate::{Error, Histogram};

/// The prefix of every record's schema, followed by the major version.
const FAMILY: &str = "loadline.record/";

/// The first field to read, which decides how to read the rest.
#[derive(Deserialize)]
struct Header {
    schema: Option<serde_json::Value>,
}

impl Record {
    /// Reads a record. Unknown fields are ignored.
    ///
    /// # Errors
    ///
    /// [`Error::NotARecord`] if the bytes are not the JSON of a record, [`Error::UnknownVersion`] for a
    /// record of another major version, [`Error::Malformed`] for one that does not follow its schema, and
    /// [`Error::Impossible`] for an impossible value.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        let header: Header = serde_json::from_slice(bytes).map_err(|error| {
            Error::NotARecord(if error.is_eof() && !bytes.is_empty() {
                format!(
                    "its JSON ends in line {} before it is complete",
                    error.line()
                )
            } else if error.is_data() {
                "it is JSON, but not a JSON object".to_owned()
            } else {
                format!("it is not a JSON object ({error})")
            })
        })?;
        let schema = match header.schema {
            Some(serde_json::Value::String(schema)) => schema,
            Some(_) => {
                return Err(Error::NotARecord(
                    "its field \"schema\" is not a string".to_owned(),
                ));
            }
            None => return Err(Error::NotARecord("it has no field \"schema\"".to_owned())),
        };
        let Some(version) = schema.strip_prefix(FAMILY) else {
            return Err(Error::NotARecord(format!(
                "its schema is \"{}\"",
                shortened(&schema)
            )));
        };
        // A minor version can follow the major one; it only adds fields.
        let major = version.split('.').next().unwrap_or_default();
        if Some(major) != SCHEMA.strip_prefix(FAMILY) {
            return Err(Error::UnknownVersion {
                found: shortened(&schema),
                expected: SCHEMA,
            });
        }
        let record: Self = serde_json::from_slice(bytes).map_err(Error::Malformed)?;
        record.check()?;
        Ok(record)
    }

    /// Rejects impossible values that reports would draw or verdicts would use.
    fn check(&self) -> Result<(), Error> {
        for (index, case) in self.cases.iter().enumerate() {
            let impossible = |field: String, reason: String| Error::Impossible {
                field: format!("cases[{index}].{field}"),
                reason,
            };
            if let Some((field, _)) = case.figures().find(|(_, value)| *value < 0.0) {
                return Err(impossible(field, "is below zero".to_owned()));
            }
            let kept = &case.histograms;
            for (name, text) in [
                ("response_time", Some(&kept.response_time)),
                ("service_time", Some(&kept.service_time)),
                ("lag", kept.lag.as_ref()),
            ] {
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    Histogram::decode(text).map_err(|error| {
                        let why = error.to_string();
                        let reason = format!("holds no histogram ({})", why.trim_end_matches('.'));
                        impossible(format!("histograms.{name}"), reason)
                    })?;
                }
            }
        }
        Ok(())
    }

    /// The record as JSON, with a line feed at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Unwritable`] if a value is not finite, which JSON cannot represent.
    pub fn to_json_pretty(&self) -> Result<String, Error> {
        let mut json = serde_json::to_string_pretty(self).map_err(Error::Unwritable)?;
        json.push('\n');
        Ok(json)
    }
}

impl Case {
    /// The values that are shown or compared and cannot be negative, with their paths.
    fn figures(&self) -> impl Iterator<Item = (String, f64)> {
        let cost = &self.cost;
        let whole = [
            ("throughput_ops_per_s", Some(self.throughput_ops_per_s)),
            ("cost.client_cpu_ns_per_op", cost.client_cpu_ns_per_op),
            ("cost.server_cpu_ns_per_op", cost.server_cpu_ns_per_op),
        ];
        let rounds = self.rounds.iter().enumerate().flat_map(|(index, round)| {
            let place = move |name: &str| format!("rounds[{index}].{name}");
            [
                ("throughput_ops_per_s", Some(round.throughput_ops_per_s)),
                ("client_cpu_ns_per_op", round.client_cpu_ns_per_op),
                ("server_cpu_ns_per_op", round.server_cpu_ns_per_op),
            ]
            .map(|(name, value)| (place(name), value))
        });
        whole
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .chain(rounds)
            .filter_map(|(name, value)| Some((name, value?)))
    }
}

/// A shortened untrusted string without control characters, for messages.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

//! Reading and writing records.

use serde::{Deserialize, Serializer};

use super::{Record, SCHEMA};
use crate::Error;

/// What the schema of every record starts with; what follows is its major version.
const FAMILY: &str = "loadline.record/";

/// What is read first, to tell what the rest is.
#[derive(Deserialize)]
struct Header {
    schema: Option<serde_json::Value>,
}

impl Record {
    /// Reads a record. Unknown fields are ignored.
    ///
    /// # Errors
    ///
    /// [`Error::NotARecord`] for anything else than the JSON of a record, [`Error::UnknownVersion`]
    /// for a record of another major version, and [`Error::Malformed`] for one that does not follow
    /// its schema.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        let header: Header = serde_json::from_slice(bytes)
            .map_err(|error| Error::NotARecord(format!("it is not a JSON object ({error})")))?;
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
        // A minor version may follow the major one; it only ever adds fields.
        let major = version.split('.').next().unwrap_or_default();
        if Some(major) != SCHEMA.strip_prefix(FAMILY) {
            return Err(Error::UnknownVersion {
                found: shortened(&schema),
                expected: SCHEMA,
            });
        }
        serde_json::from_slice(bytes).map_err(Error::Malformed)
    }

    /// The record as JSON for people and machines, with a line feed at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Unwritable`] where a figure is not a finite number, which JSON cannot carry.
    pub fn to_json_pretty(&self) -> Result<String, Error> {
        let mut json = serde_json::to_string_pretty(self).map_err(Error::Unwritable)?;
        json.push('\n');
        Ok(json)
    }
}

/// Refuses what JSON cannot carry: `serde_json` would write it as null, and the record could not be
/// read again.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
pub(crate) fn finite<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() {
        serializer.serialize_f64(*value)
    } else {
        Err(serde::ser::Error::custom(format!(
            "{value} is not a number that JSON can carry"
        )))
    }
}

/// A foreign string, short and without control characters, so that it can stand in a message.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

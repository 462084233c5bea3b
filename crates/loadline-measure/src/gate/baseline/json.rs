//! Reading and writing baselines.

use serde::Deserialize;

use super::{Baseline, BaselineRun, MOST, Measured, SCHEMA};
use crate::metric::Metric;
use crate::record::shortened;
use crate::{Error, Histogram};

/// The prefix of every baseline's schema, followed by the major version.
const FAMILY: &str = "loadline.baseline/";

/// The size of the largest accepted baseline.
const MOST_BYTES: usize = 64 << 20;

/// The length of the longest accepted text.
const MOST_TEXT: usize = 1_024;

/// The largest accepted logarithm of a ratio, far above any measurable ratio of times.
const MOST_LN: f64 = 100.0;

/// The first field to read, which decides how to read the rest.
#[derive(Deserialize)]
struct Header {
    schema: Option<String>,
}

impl Baseline {
    /// Reads a baseline. Unknown fields are ignored.
    ///
    /// # Errors
    ///
    /// [`Error::NotABaseline`] if the bytes are not the JSON of a baseline that this version supports,
    /// [`Error::Field`] if a field has an invalid value.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        let refused = |reason: String| Error::NotABaseline(reason);
        if bytes.len() > MOST_BYTES {
            return Err(refused(format!(
                "it is longer than {} MiB",
                MOST_BYTES >> 20
            )));
        }
        let header: Header = serde_json::from_slice(bytes).map_err(|error| {
            refused(format!(
                "it is not a JSON object with a field \"schema\" ({error})"
            ))
        })?;
        let schema = header
            .schema
            .ok_or_else(|| refused("it has no field \"schema\"".to_owned()))?;
        // A minor version can follow the major one; it only adds fields.
        let major = schema
            .strip_prefix(FAMILY)
            .map(|version| version.split('.').next().unwrap_or_default());
        if major.is_none() || major != SCHEMA.strip_prefix(FAMILY) {
            return Err(refused(format!(
                "its schema is \"{}\", and this program reads {SCHEMA}",
                shortened(&schema)
            )));
        }
        let baseline: Self = serde_json::from_slice(bytes)
            .map_err(|error| refused(format!("it does not follow its schema ({error})")))?;
        baseline.check()?;
        Ok(baseline)
    }

    /// The baseline as JSON, with a line feed at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Field`] if a field has a value that could not be read back.
    pub fn to_json(&self) -> Result<String, Error> {
        self.check()?;
        let mut json = serde_json::to_string_pretty(self).map_err(Error::Unwritable)?;
        json.push('\n');
        Ok(json)
    }

    fn check(&self) -> Result<(), Error> {
        text("target", &self.target)?;
        text("workload_hash", &self.workload_hash)?;
        if self.workload_hash.is_empty() {
            return Err(refused("workload_hash", "is empty"));
        }
        at_most("limits", self.limits.len())?;
        at_most("runs", self.runs.len())?;
        for (index, run) in self.runs.iter().enumerate() {
            run.check(&format!("runs[{index}]"))?;
            if self.runs[..index].iter().any(|other| other.id == run.id) {
                return Err(refused(
                    &format!("runs[{index}].id"),
                    "names a run that is already in the baseline",
                ));
            }
        }
        Ok(())
    }
}

impl BaselineRun {
    /// Rejects impossible values; `place` is the path of the run.
    pub(super) fn check(&self, place: &str) -> Result<(), Error> {
        text(&format!("{place}.id"), &self.id)?;
        text(&format!("{place}.started_at"), &self.started_at)?;
        at_most(&format!("{place}.cases"), self.cases.len())?;
        for (name, case) in &self.cases {
            let place = format!("{place}.cases.{}", shortened(name));
            text(&place, name)?;
            for (metric, measured) in &case.metrics {
                measured.check(&format!("{place}.{}", metric.key()), *metric)?;
            }
            if let Some(ns) = case.reference_ns_p50
                && !(ns.is_finite() && ns > 0.0)
            {
                let field = format!("{place}.reference_ns_p50");
                return Err(refused(
                    &field,
                    &format!("holds {ns}, which is no round trip"),
                ));
            }
            if let Some(share) = case.cpu_wait
                && !(0.0..=1.0).contains(&share)
            {
                let field = format!("{place}.cpu_wait");
                return Err(refused(
                    &field,
                    &format!("holds {share}, which is no share of the time"),
                ));
            }
            if !case.response_time.is_empty() {
                Histogram::decode(&case.response_time).map_err(|error| {
                    let field = format!("{place}.response_time");
                    let why = error.to_string();
                    let why = why.trim_end_matches('.');
                    refused(&field, &format!("holds no histogram ({why})"))
                })?;
            }
        }
        Ok(())
    }
}

impl Measured {
    fn check(&self, field: &str, metric: Metric) -> Result<(), Error> {
        if !self.raw.is_finite() || self.raw < 0.0 {
            let reason = format!("holds {}, which no {} can be", self.raw, metric.name());
            return Err(refused(field, &reason));
        }
        for ln in [self.normalised_ln, self.round_ln].into_iter().flatten() {
            if ln.is_nan() || ln.abs() > MOST_LN {
                let reason =
                    format!("holds the logarithm {ln}, which is beyond any ratio of times");
                return Err(refused(field, &reason));
            }
            if self.rounds == 0 {
                return Err(refused(field, "is normalised without any round"));
            }
        }
        Ok(())
    }
}

fn text(field: &str, text: &str) -> Result<(), Error> {
    if text.len() > MOST_TEXT {
        let reason = format!("is {} bytes long; {MOST_TEXT} is the most", text.len());
        return Err(refused(field, &reason));
    }
    Ok(())
}

fn at_most(field: &str, count: usize) -> Result<(), Error> {
    if count > MOST {
        return Err(refused(
            field,
            &format!("holds {count} entries; {MOST} is the most"),
        ));
    }
    Ok(())
}

fn refused(field: &str, reason: &str) -> Error {
    Error::Field {
        field: field.to_owned(),
        reason: reason.to_owned(),
    }
}

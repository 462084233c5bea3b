//! Errors of this crate.

/// The reason for rejecting a histogram, a record, a baseline, a limit or a comparison.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not a histogram.
    #[error("The histogram cannot be read: {0}.")]
    Histogram(&'static str),
    /// The bytes are not JSON, or not the JSON of a record.
    #[error("This is not a record of Loadline: {0}.")]
    NotARecord(String),
    /// The bytes are a record of an unknown version.
    #[error(
        "The record has the schema \"{found}\"; this program reads {expected}. Read it with a Loadline of that version."
    )]
    UnknownVersion {
        /// The schema that the record states, shortened.
        found: String,
        /// The supported schema.
        expected: &'static str,
    },
    /// The record claims the right schema but does not follow it.
    #[error("The record does not follow its schema: {0}.")]
    Malformed(#[source] serde_json::Error),
    /// A field of a record has an impossible value.
    #[error("The field \"{field}\" of the record {reason}.")]
    Impossible {
        /// The path of the field.
        field: String,
        /// The problem.
        reason: String,
    },
    /// The record contains a number that JSON cannot represent.
    #[error("The record cannot be written: {0}.")]
    Unwritable(#[source] serde_json::Error),
    /// Two subjects have different numbers of rounds and cannot be paired.
    #[error("Rounds come in pairs, but one subject has {a} of them and the other {b}.")]
    Unpaired {
        /// Rounds of the first subject.
        a: usize,
        /// Rounds of the second subject.
        b: usize,
    },
    /// A metric of some round is not above zero, so it has no logarithm.
    #[error(
        "Round {round} has the value {value}, which is not a positive number; ratios need positive values."
    )]
    NotPositive {
        /// The index of the round, from 0.
        round: usize,
        /// The value found there.
        value: f64,
    },
    /// The text is not a limit.
    #[error("invalid limit `{text}`: {reason}.")]
    Limit {
        /// The text, shortened.
        text: String,
        /// The problem.
        reason: String,
    },
    /// The bytes are not a baseline, or a baseline of an unknown version.
    #[error("This is not a baseline that can be read: {0}.")]
    NotABaseline(String),
    /// A field of a baseline has an invalid value.
    #[error("The field \"{field}\" of the baseline {reason}.")]
    Field {
        /// The path of the field.
        field: String,
        /// The problem.
        reason: String,
    },
    /// Two measurements differ in the work or the place.
    #[error("These runs cannot share a baseline: {0}")]
    Incomparable(String),
    /// Records are not those of agents that ran one plan.
    #[error("These records cannot be merged: {0}")]
    Unmergeable(String),
}

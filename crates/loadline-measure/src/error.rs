//! What can be refused.

/// Why a histogram, a record, a baseline, a limit or a comparison was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text of a histogram cannot be read as one.
    #[error("The histogram cannot be read: {0}.")]
    Histogram(&'static str),
    /// The bytes are not JSON, or not the JSON of a record.
    #[error("This is not a record of Loadline: {0}.")]
    NotARecord(String),
    /// The bytes are a record, of a version that this program does not know.
    #[error(
        "The record has the schema \"{found}\"; this program reads {expected}. Read it with a Loadline of that version."
    )]
    UnknownVersion {
        /// The schema that the record states, shortened.
        found: String,
        /// The schema that can be read.
        expected: &'static str,
    },
    /// The record claims the right schema but does not follow it.
    #[error("The record does not follow its schema: {0}.")]
    Malformed(#[source] serde_json::Error),
    /// A field of a record holds what no measurement gives.
    #[error("The field \"{field}\" of the record {reason}.")]
    Impossible {
        /// Where the field stands in the file.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The record holds a number that JSON cannot carry.
    #[error("The record cannot be written: {0}.")]
    Unwritable(#[source] serde_json::Error),
    /// Two subjects do not have the same number of rounds, so that nothing pairs them.
    #[error("Rounds come in pairs, but one subject has {a} of them and the other {b}.")]
    Unpaired {
        /// Rounds of the first subject.
        a: usize,
        /// Rounds of the second subject.
        b: usize,
    },
    /// A metric is not above zero in some round, so that it has no logarithm.
    #[error(
        "Round {round} has the value {value}, which is not a positive number; ratios need positive values."
    )]
    NotPositive {
        /// Index of the round, from 0.
        round: usize,
        /// The value found there.
        value: f64,
    },
    /// The text of a limit cannot be read as one.
    #[error("invalid limit `{text}`: {reason}.")]
    Limit {
        /// The text, shortened.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A line of stored noise is not one.
    #[error(
        "Line {line} of the stored noise is neither a run nor a round of one with times above zero."
    )]
    Noise {
        /// The line, from 1.
        line: usize,
    },
    /// The bytes are not a baseline, or one of a version that this program does not know.
    #[error("This is not a baseline that can be read: {0}.")]
    NotABaseline(String),
    /// A field of a baseline holds what it cannot hold.
    #[error("The field \"{field}\" of the baseline {reason}.")]
    Field {
        /// Where the field stands in the file.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Two measurements are not of the same thing, or not of the same place.
    #[error("These cannot stand in one baseline: {0}")]
    Incomparable(String),
}

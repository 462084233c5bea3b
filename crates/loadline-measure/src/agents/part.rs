//! A part of a merge.

use crate::record::Record;

/// The record of one agent.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its name in errors, such as that of its file.
    pub name: String,
    /// The record.
    pub record: Record,
}

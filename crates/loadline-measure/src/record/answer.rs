//! The question that a run answers.

use serde::Serialize;

use super::{Capacity, Clients, Engines, Failover, Tiers};

/// The findings of a run in addition to its cases: one variant for each question. In JSON, an answer is a field of the
/// record that is named after its question.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The speed of each case, and comparisons of them: the cases and their comparisons say it.
    #[default]
    Cases,
    /// The fastest way of calling in each setting: see [`sweep`](crate::sweep).
    Sweep,
    /// The load that a target carries.
    Capacity(Box<Capacity>),
    /// The footprint of engines.
    Engines(Engines),
    /// Rows and behaviour of client libraries.
    Clients(Clients),
    /// The tiers of a cache for one object.
    Tiers(Box<Tiers>),
    /// The fate of writes while servers fail.
    Failover(Failover),
}

impl Answer {
    /// Whether the cases of the record are the whole answer.
    #[must_use]
    pub fn is_in_cases(&self) -> bool {
        matches!(self, Self::Cases | Self::Sweep)
    }
}

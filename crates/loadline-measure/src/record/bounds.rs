//! The bounds of an interval in a record.

use serde::{Deserialize, Serialize};

use super::finite::finite;

/// The bounds of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// The lower bound.
    #[serde(serialize_with = "finite")]
    pub lo: f64,
    /// The upper bound.
    #[serde(serialize_with = "finite")]
    pub hi: f64,
}

//! The highest load that keeps a limit: a search over rates that confirms its answer.
//!
//! [`Search`] says which rate is tried next and for how long; whoever has a target and a clock runs
//! that trial in an open loop and tells what came of it. So the whole search is a pure function of
//! what was measured, and can be tested against simulated servers.
//!
//! 1. **Bracket.** From a low rate the search goes up geometrically until a rate fails, or down until
//!    one holds.
//! 2. **Bisect** between the two, until they are 2 % apart.
//! 3. **Confirm.** The rate must hold in three fresh trials of twice the length. Between them runs one
//!    at 1.05 times the rate, which must fail; where it does not, the search goes on from there, and
//!    where that comes to no end, the answer says that the two cannot be told apart. Where the rate itself fails, it goes down a step and is confirmed
//!    anew.
//!
//! A single bad trial is repeated before it rules a rate out: two of three decide. A trial in which
//! the generator itself was late rules nothing out for the target, and is said.
//!
//! ```
//! use std::time::Duration;
//! use loadline_measure::capacity::{Bounds, Search, Step, Trial};
//!
//! // A queue with exponential service at 50,000 per second: its p99 is ln(100) / (mu - lambda).
//! let serve = |rate: f64| Trial {
//!     achieved: rate.min(50_000.0),
//!     value_ns: Some(if rate < 50_000.0 { 100_f64.ln() / (50_000.0 - rate) * 1e9 } else { 4e8 }),
//!     ..Trial::default()
//! };
//! let mut search = Search::new("p99<2ms".parse()?, 49_000.0, Bounds::default());
//! let answer = loop {
//!     match search.next(Duration::from_secs(60)) {
//!         Step::Try(attempt) => search.told(serve(attempt.rate)),
//!         Step::Done(answer) => break answer,
//!     }
//! };
//! let truth = 50_000.0 - 100_f64.ln() / 0.002;
//! assert!((answer.rate.unwrap() / truth - 1.0).abs() < 0.02);
//! assert!(answer.is_confirmed());
//! # Ok::<(), loadline_measure::Error>(())
//! ```

mod curve;
mod saturation;
mod search;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
mod trial;

use serde::{Deserialize, Serialize};

use crate::limit::Slo;
use crate::record::finite;

pub use curve::Point;
pub use saturation::LimitedBy;
pub use search::{Attempt, Bounds, Role, Search, Step};
pub use trial::Trial;

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What was to be kept.
    pub slo: Slo,
    /// Operations per second of a closed loop over the same connections, where the search began.
    #[serde(rename = "closed_loop_ops_per_s", serialize_with = "finite")]
    pub closed_loop: f64,
    /// The highest rate that kept the limit, in operations per second; `None` where none did.
    #[serde(rename = "rate_ops_per_s")]
    pub rate: Option<f64>,
    /// The percentile at that rate in nanoseconds: the middle one of the confirmations, or of the
    /// trials where nothing was confirmed.
    pub value_ns: Option<f64>,
    /// Trials of the confirmation at that rate.
    pub confirmations: Tally,
    /// Trials at 1.05 times that rate, between the confirmations.
    pub above: Tally,
    /// Where latency begins to grow faster than the rate, in operations per second; `None` where no
    /// bend shows.
    #[serde(rename = "knee_ops_per_s", default)]
    pub knee: Option<f64>,
    /// What keeps the load from being higher.
    pub limited_by: LimitedBy,
    /// A point for every rate that was tried, rising.
    pub curve: Vec<Point>,
    /// What else must be known, a sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Trials of one rate, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// They kept the limit.
    pub held: u32,
    /// They did not.
    pub failed: u32,
    /// They did not either, but the generator was late, so that they say nothing of the target.
    pub late: u32,
}

impl Answer {
    /// Whether as many fresh trials held as a confirmation takes.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.rate.is_some() && self.confirmations.held >= search::CONFIRMATIONS
    }

    /// Whether the load a little above the answer was seen to fail.
    #[must_use]
    pub fn is_distinct(&self) -> bool {
        self.above.bad() > self.above.held
    }

    /// The point of the answer on the curve.
    #[must_use]
    pub fn point(&self) -> Option<&Point> {
        let rate = self.rate?;
        self.curve.iter().find(|point| point.rate == rate)
    }

    /// The lowest rates above the answer that did not keep the limit: what limits the load shows in
    /// them, while farther up everything is saturated.
    pub fn failing(&self) -> impl Iterator<Item = &Point> {
        saturation::failing(&self.curve, self.rate.unwrap_or(0.0))
    }
}

impl Tally {
    /// All trials.
    #[must_use]
    pub fn trials(&self) -> u32 {
        self.held + self.bad()
    }

    /// Those that did not keep the limit, whoever was to blame.
    #[must_use]
    pub fn bad(&self) -> u32 {
        self.failed + self.late
    }
}

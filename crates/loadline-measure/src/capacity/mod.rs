//! The highest load that keeps a limit: a search over rates that confirms its answer.
//!
//! [`Search`] returns the rate and the length of the next trial. The caller, which has a target and a
//! clock, runs the trial in an open loop and passes back the result. The whole search is therefore a
//! pure function of the measurements and can be tested against simulated servers.
//!
//! 1. **Bracket.** The search begins near the throughput of a closed loop and goes up or down from there, in
//!    growing steps, until it knows a rate that holds and one that fails.
//! 2. **Bisect** between the two, on a grid of steps of 4.5 %.
//! 3. **Confirm.** Trials of two neighbours take turns until five more of the lower one held than failed, and
//!    five more of the upper one failed than held.
//!
//! A disturbance of the machine (a CPU that pauses, other processes, a late generator) can only lengthen
//! response times. A trial that held therefore always counts. A trial that failed counts only if the
//! disturbance cannot have made the difference; otherwise it is spoiled and repeated. If too many trials are
//! spoiled, no rate is confirmed, and the answer is an interval. If no trial held, its lower end is a rate at which
//! the undisturbed parts of several spoiled trials held together. From time to time a closed loop checks whether the machine is as fast as at the beginning. If
//! it is slower, trials that failed since the last check are spoiled too.
//!
//! ```
//! use std::time::Duration;
//! use loadline_measure::capacity::{Bounds, Role, Search, NextTrial, Trial};
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
//!         NextTrial::Try(attempt) if attempt.role == Role::Closed => search.told(serve(49_000.0)),
//!         NextTrial::Try(attempt) => search.told(serve(attempt.rate)),
//!         NextTrial::Done(answer) => break answer,
//!     }
//! };
//! let truth = 50_000.0 - 100_f64.ln() / 0.002;
//! assert!((answer.rate.unwrap() / truth - 1.0).abs() < 0.05);
//! assert!(answer.is_confirmed());
//! # Ok::<(), loadline_measure::Error>(())
//! ```

mod agents;
mod calm;
mod curve;
mod nodes;
mod noise;
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
use trial::Verdict;

pub use agents::{AgentsStep, Side, grows, limiting_side};
pub use curve::Point;
pub use noise::Noise;
pub use saturation::LimitedBy;
pub use search::{Attempt, Bounds, NextTrial, Role, Search};
pub use trial::{Machine, Trial};

/// The capacity of a closed loop over the same connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Closed {
    /// Operations per second.
    pub rate: f64,
    /// The percentile of the limit in nanoseconds.
    pub value_ns: Option<f64>,
}

impl From<f64> for Closed {
    fn from(rate: f64) -> Self {
        Self {
            rate,
            value_ns: None,
        }
    }
}

/// The end of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A rate was confirmed.
    #[default]
    Confirmed,
    /// Not even the lowest rate held.
    NeverHeld,
    /// Too few trials were undisturbed, or rates held about as often as not.
    Noisy,
    /// The closed loop was slower at the end than at the beginning.
    Drifted,
    /// The time limit was reached.
    OutOfTime,
    /// The search was interrupted.
    Stopped,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// The limit.
    pub slo: Slo,
    /// Operations per second of a closed loop over the same connections, the starting point of the search.
    #[serde(rename = "closed_loop_ops_per_s", serialize_with = "finite")]
    pub closed_loop: f64,
    /// The percentile of the limit in that closed loop, in nanoseconds.
    #[serde(default)]
    pub closed_loop_value_ns: Option<f64>,
    /// Operations per second of the fastest closed loop of the search, which later ones are compared with.
    #[serde(rename = "closed_loop_best_ops_per_s", default)]
    pub closed_loop_best: Option<f64>,
    /// The fastest closed loop over the slowest one, of those that found the machine unchanged: a change of its
    /// speed by this factor would not have been noticed.
    #[serde(default = "unchanged")]
    pub speed_spread: f64,
    /// Operations per second of the closed loop at the end of the search.
    #[serde(rename = "closed_loop_after_ops_per_s", default)]
    pub closed_loop_after: Option<f64>,
    /// End of the search.
    #[serde(default)]
    pub outcome: Outcome,
    /// The highest rate that held, in operations per second; `None` if none was confirmed.
    #[serde(rename = "rate_ops_per_s")]
    pub rate: Option<f64>,
    /// The percentile at that rate in nanoseconds: the median of the trials that held.
    pub value_ns: Option<f64>,
    /// The highest rate that is known to keep the limit, confirmed as the answer or not; `None` if no trial held, nor
    /// the undisturbed parts of several.
    #[serde(default)]
    pub lower: Option<Bound>,
    /// The lowest rate that is known to miss it; `None` if none failed often enough for the target's own reasons.
    #[serde(default)]
    pub upper: Option<Bound>,
    /// Trials at the lower bound.
    pub confirmations: Tally,
    /// Trials at the upper bound.
    pub above: Tally,
    /// The rate from which latency grows faster than the load, in operations per second; `None` if the curve
    /// has no knee.
    #[serde(rename = "knee_ops_per_s", default)]
    pub knee: Option<f64>,
    /// Resource that limits the load.
    pub limited_by: LimitedBy,
    /// The evidence for it in words, by `loadline-report`.
    #[serde(default)]
    pub limited_because: String,
    /// Disturbances of the trials.
    #[serde(default)]
    pub noise: Noise,
    /// One point per tried rate, in ascending order.
    pub curve: Vec<Point>,
    /// The answers with more and more load generators, of which this one carries the most; empty for a single one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentsStep>,
    /// Notes for the reader by `loadline-report`, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A rate that bounds the capacity, with the trials that show it. What holds at a rate holds at lower ones, and what
/// fails at a rate fails at higher ones, so trials at other rates count too.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Operations per second.
    #[serde(rename = "rate_ops_per_s", serialize_with = "finite")]
    pub rate: f64,
    /// Trials that held at this rate or a higher one.
    pub held: u32,
    /// Trials that failed at this rate or a lower one.
    pub failed: u32,
    /// Where no trial held: the number of spoiled trials whose undisturbed parts together kept the limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calm: u32,
}

/// Counts of trials at one rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Trials that kept the limit.
    pub held: u32,
    /// Trials that did not.
    pub failed: u32,
    /// Trials that did not keep the limit on a disturbed machine; they say nothing about the target.
    #[serde(alias = "late")]
    pub spoiled: u32,
}

impl Outcome {
    /// Whether the trials decide.
    #[must_use]
    pub fn is_decided(self) -> bool {
        matches!(self, Self::Confirmed | Self::NeverHeld)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn unchanged() -> f64 {
    1.0
}

impl Capacity {
    /// The interval that contains the capacity, in operations per second: from the highest rate that holds to the
    /// lowest one that fails. The upper end allows for changes of the machine's speed that were not noticed; `None`
    /// if no rate failed for the target's own reasons.
    #[must_use]
    pub fn interval(&self) -> (Option<f64>, Option<f64>) {
        let spread = self.speed_spread.max(1.0);
        (
            self.lower.map(|lower| lower.rate),
            self.upper.map(|upper| upper.rate * spread),
        )
    }

    /// Whether the rate was confirmed by enough trials.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.outcome == Outcome::Confirmed && self.rate.is_some() && self.confirmations.lead() > 2
    }

    /// The point of the curve at the answer.
    #[must_use]
    pub fn point(&self) -> Option<&Point> {
        let rate = self.rate?;
        self.curve.iter().find(|point| point.rate == rate)
    }

    /// The points of the lowest rates above the answer that failed. They show what limits the load; at higher
    /// rates everything is saturated.
    pub fn failing(&self) -> impl Iterator<Item = &Point> {
        saturation::failing(&self.curve, self.lower.map_or(0.0, |lower| lower.rate))
    }
}

impl Tally {
    /// The number of trials.
    #[must_use]
    pub fn trials(&self) -> u32 {
        self.counted() + self.spoiled
    }

    /// The number of trials that were not spoiled.
    #[must_use]
    pub fn counted(&self) -> u32 {
        self.held + self.failed
    }

    /// Trials that held minus trials that failed.
    #[must_use]
    pub fn lead(&self) -> i64 {
        i64::from(self.held) - i64::from(self.failed)
    }

    /// Counts a failed trial as spoiled.
    fn spoil(&mut self) {
        self.failed -= 1;
        self.spoiled += 1;
    }

    fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Held => self.held += 1,
            Verdict::Failed => self.failed += 1,
            Verdict::Spoiled(_) => self.spoiled += 1,
        }
    }
}

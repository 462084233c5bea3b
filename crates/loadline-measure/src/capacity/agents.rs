//! The capacity with more and more load generators: whether the target is the limit, or they are.

use serde::{Deserialize, Serialize};

use super::saturation::LimitedBy;
use super::{Capacity, Outcome};
use crate::record::finite;

/// The factor above which an answer has grown: more than two steps of the search's grid of 4.5 %.
const GROWN: f64 = 1.1;

/// The answer of a search with a number of load generators.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AgentsStep {
    /// Number of load generators.
    pub agents: u64,
    /// The highest rate that is known to keep the limit, in operations per second: of all load generators together. 0 if
    /// none is.
    #[serde(rename = "rate_ops_per_s", serialize_with = "finite")]
    pub rate: f64,
    /// End of the search.
    pub outcome: Outcome,
    /// Resource that limited the load.
    pub limited_by: LimitedBy,
}

/// The side that limits the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// More load generators did not carry more.
    Target,
    /// With more load generators, the target may carry more.
    Agents,
    /// The searches do not decide.
    Unknown,
}

impl AgentsStep {
    /// The step of `agents` load generators, whose search found `answer`.
    #[must_use]
    pub fn new(agents: u64, answer: &Capacity) -> Self {
        Self {
            agents,
            rate: answer.interval().0.unwrap_or(0.0),
            outcome: answer.outcome,
            limited_by: answer.limited_by,
        }
    }
}

/// Whether the last of `steps` carries more than the best one before it, so that more load generators can be tried.
#[must_use]
pub fn grows(steps: &[AgentsStep]) -> bool {
    let Some((last, before)) = steps.split_last() else {
        return true;
    };
    let best = before.iter().map(|step| step.rate).fold(0.0, f64::max);
    last.rate > GROWN * best
}

/// The side that limits the load according to `steps`: the target if the last of several did not grow, or if a server's
/// CPU was saturated in it.
#[must_use]
pub fn limiting_side(steps: &[AgentsStep]) -> Side {
    let Some(last) = steps.last() else {
        return Side::Unknown;
    };
    if steps.iter().any(|step| !step.outcome.is_decided()) {
        return Side::Unknown;
    }
    match last.limited_by {
        LimitedBy::Server => Side::Target,
        _ if steps.len() > 1 && !grows(steps) => Side::Target,
        LimitedBy::Generator | LimitedBy::NotReached => Side::Agents,
        _ if steps.len() > 1 => Side::Agents,
        _ => Side::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(rates: &[f64], limited_by: LimitedBy) -> Vec<AgentsStep> {
        let step = |(index, rate): (u32, &f64)| AgentsStep {
            agents: 1 << index,
            rate: *rate,
            outcome: Outcome::Confirmed,
            limited_by,
        };
        (0..).zip(rates).map(step).collect()
    }

    #[test]
    fn agents_are_added_while_the_answer_grows() {
        let grows = |rates: &[f64]| grows(&steps(rates, LimitedBy::Generator));
        assert!(grows(&[]) && grows(&[100.0]) && grows(&[100.0, 195.0]));
        assert!(!grows(&[100.0, 195.0, 205.0]));
        // Agents that share CPUs carry less together.
        assert!(!grows(&[100.0, 60.0]) && !grows(&[0.0]));
    }

    #[test]
    fn target_is_the_limit_where_more_agents_carry_no_more() {
        let side = |rates: &[f64], limited_by| limiting_side(&steps(rates, limited_by));
        assert_eq!(side(&[100.0, 195.0, 198.0], LimitedBy::Tail), Side::Target);
        assert_eq!(side(&[100.0, 195.0], LimitedBy::Tail), Side::Agents);
        assert_eq!(side(&[100.0, 195.0], LimitedBy::Server), Side::Target);
        assert_eq!(side(&[100.0], LimitedBy::Generator), Side::Agents);
        assert_eq!(side(&[100.0], LimitedBy::Tail), Side::Unknown);
        assert_eq!(side(&[], LimitedBy::Tail), Side::Unknown);
        let mut noisy = steps(&[100.0, 101.0], LimitedBy::Noise);
        noisy[1].outcome = Outcome::Noisy;
        assert_eq!(limiting_side(&noisy), Side::Unknown);
    }
}

//! The resource that limits the load.

use serde::{Deserialize, Serialize};

use super::Outcome;
use super::curve::Point;
use super::trial::GENERATOR_BUSY;

/// The share of a CPU from which a server is saturated.
const SERVER_BUSY: f64 = 0.9;
/// The share of its time above which a generator's waiting shows that others use the CPUs. A server on the
/// same host then waits as well.
const WAITING: f64 = 0.1;
/// The number of rates above the answer that are considered; at higher rates everything is saturated.
const LOOKED_AT: usize = 3;

/// A resource that limits the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// The server had no CPU time left.
    Server,
    /// The generator had no CPU time left; the capacity of the server can be higher.
    Generator,
    /// Server and generator competed for CPUs. The capacity of a server with its own CPUs is unknown.
    Host,
    /// Operations waited while neither side was busy: the path takes the time, or there are too few
    /// connections for its latency.
    Network,
    /// Only the tail missed the limit, and neither side was saturated: queues behind bursts of arrivals,
    /// pauses of the server, or a limit close to the time of a single operation.
    #[serde(alias = "nobody")]
    Tail,
    /// The machine was disturbed, so the target was not the limit.
    Noise,
    /// Server and network cannot be distinguished because the server's CPU time is unknown, or the search ended
    /// too early.
    Unknown,
    /// No rate failed up to the highest one that was allowed.
    NotReached,
}

/// The lowest rates above `rate` that failed.
pub(super) fn failing(curve: &[Point], rate: f64) -> impl Iterator<Item = &Point> {
    curve
        .iter()
        .filter(move |point| point.rate > rate && point.trials.lead() < 0)
        .take(LOOKED_AT)
}

/// The resource that limits the load to `rate`.
pub(super) fn limited_by(curve: &[Point], rate: f64, outcome: Outcome) -> LimitedBy {
    if matches!(outcome, Outcome::Noisy | Outcome::Drifted) {
        return LimitedBy::Noise;
    }
    if !outcome.is_decided() {
        return LimitedBy::Unknown;
    }
    let failing: Vec<&Point> = failing(curve, rate).collect();
    if failing.is_empty() {
        return LimitedBy::NotReached;
    }
    let most = |of: fn(&Point) -> Option<f64>| {
        let shares = failing.iter().filter_map(|point| of(point));
        shares.reduce(f64::max)
    };
    let server = most(|point| point.server_busy);
    let exceeds = |share: Option<f64>, limit: f64| share.is_some_and(|share| share > limit);
    if server.is_some_and(|busy| busy >= SERVER_BUSY) {
        LimitedBy::Server
    } else if exceeds(most(|point| point.client_busy), GENERATOR_BUSY) {
        LimitedBy::Generator
    } else if exceeds(most(|point| point.waited), WAITING) {
        LimitedBy::Host
    } else if server.is_none() {
        LimitedBy::Unknown
    } else if failing.iter().any(|point| !point.kept_up) {
        LimitedBy::Network
    } else {
        LimitedBy::Tail
    }
}

#[cfg(test)]
mod tests {
    use super::super::Tally;
    use super::*;

    fn limit(server: Option<f64>, client: f64, kept_up: bool, waited: f64) -> LimitedBy {
        let held = Point {
            rate: 100.0,
            achieved: 100.0,
            value_ns: Some(1e6),
            p50_ns: None,
            p99_ns: None,
            p999_ns: None,
            lag_p99_ns: None,
            server_busy: Some(1.0),
            client_busy: Some(1.0),
            waited: None,
            trials: Tally {
                held: 1,
                ..Tally::default()
            },
            held: true,
            kept_up: true,
            case: 0,
        };
        let above = Point {
            rate: 110.0,
            server_busy: server,
            client_busy: Some(client),
            waited: Some(waited),
            trials: Tally {
                failed: 5,
                ..Tally::default()
            },
            held: false,
            kept_up,
            ..held.clone()
        };
        let curve = [held, above];
        limited_by(&curve, 100.0, Outcome::Confirmed)
    }

    #[test]
    fn exhausted_resource_is_the_limit() {
        assert_eq!(limit(Some(0.97), 0.9, false, 0.01), LimitedBy::Server);
        assert_eq!(limit(Some(0.5), 0.95, false, 0.01), LimitedBy::Generator);
        // A generator that is hardly busy is not the limit, even if it was late.
        assert_eq!(limit(Some(0.5), 0.39, true, 0.01), LimitedBy::Tail);
        assert_eq!(limit(Some(0.5), 0.5, false, 0.01), LimitedBy::Network);
        assert_eq!(limit(None, 0.5, true, 0.01), LimitedBy::Unknown);
        assert_eq!(limit(Some(0.5), 0.5, false, 0.4), LimitedBy::Host);
        assert_eq!(limit(Some(0.97), 0.5, false, 0.4), LimitedBy::Server);
        let by = limited_by(&[], 100.0, Outcome::Confirmed);
        assert_eq!(by, LimitedBy::NotReached);
    }

    #[test]
    fn without_an_answer_the_target_is_no_limit() {
        for outcome in [Outcome::Noisy, Outcome::Drifted] {
            assert_eq!(limited_by(&[], 0.0, outcome), LimitedBy::Noise);
        }
        let by = limited_by(&[], 0.0, Outcome::OutOfTime);
        assert_eq!(by, LimitedBy::Unknown);
    }
}

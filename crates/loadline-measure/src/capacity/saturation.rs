//! Who keeps the load from being higher.

use serde::{Deserialize, Serialize};

use super::curve::Point;

/// From this share of a CPU on, a server has nothing left.
const SERVER_BUSY: f64 = 0.9;
/// Above this share of a CPU, a thread of the generator has no room left to be on time.
const GENERATOR_BUSY: f64 = 0.8;
/// Above this share of its time, a generator that waits for a CPU shows that others have it. A server
/// on this host then waits as well.
const WAITING: f64 = 0.1;
/// Rates above the answer that are looked at: farther up everything is saturated.
const LOOKED_AT: usize = 3;

/// Who keeps the load from being higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// The server had no CPU time left.
    Server,
    /// The generator was late or had no CPU time left: the server may carry more.
    Generator,
    /// Other work on the generator's host had the CPUs: nothing is known about an undisturbed target.
    Host,
    /// Operations were left waiting while neither side was busy: the time goes between the two, or
    /// there are too few connections for so long a way.
    Network,
    /// The percentile crosses its limit although nobody is saturated: pauses, neighbours, or a limit
    /// below what an operation takes.
    Nobody,
    /// What the server used is not known, so that server and network cannot be told apart.
    Unknown,
    /// No rate failed: the search ended where it was told to.
    NotReached,
}

/// The lowest rates above `rate` that did not hold.
pub(super) fn failing(curve: &[Point], rate: f64) -> impl Iterator<Item = &Point> {
    curve
        .iter()
        .filter(move |point| point.rate > rate && !point.held)
        .take(LOOKED_AT)
}

/// Who keeps the load from being higher than `rate`.
pub(super) fn limited_by(curve: &[Point], rate: f64) -> LimitedBy {
    let failing: Vec<&Point> = failing(curve, rate).collect();
    if failing.is_empty() {
        return LimitedBy::NotReached;
    }
    let most = |of: fn(&Point) -> Option<f64>| {
        failing
            .iter()
            .filter_map(|point| of(point))
            .reduce(f64::max)
    };
    let late: u32 = failing.iter().map(|point| point.trials.late).sum();
    let failed: u32 = failing.iter().map(|point| point.trials.failed).sum();
    let server = most(|point| point.server_busy);
    let is_host = most(|point| point.waited).is_some_and(|waited| waited > WAITING);
    let is_generator =
        late > failed || most(|point| point.client_busy).is_some_and(|busy| busy > GENERATOR_BUSY);
    if late <= failed && server.is_some_and(|busy| busy >= SERVER_BUSY) {
        LimitedBy::Server
    } else if is_host {
        LimitedBy::Host
    } else if is_generator {
        LimitedBy::Generator
    } else if server.is_none() {
        LimitedBy::Unknown
    } else if failing.iter().any(|point| !point.kept_up) {
        LimitedBy::Network
    } else {
        LimitedBy::Nobody
    }
}

#[cfg(test)]
mod tests {
    use super::super::Tally;
    use super::*;

    fn failing(server: Option<f64>, client: f64, kept_up: bool, late: u32) -> LimitedBy {
        waiting(server, client, kept_up, late, 0.01)
    }

    fn waiting(
        server: Option<f64>,
        client: f64,
        kept_up: bool,
        late: u32,
        waited: f64,
    ) -> LimitedBy {
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
                held: 0,
                failed: 2,
                late,
            },
            held: false,
            kept_up,
            ..held.clone()
        };
        limited_by(&[held, above], 100.0)
    }

    #[test]
    fn whoever_has_nothing_left_is_the_limit() {
        assert_eq!(failing(Some(0.97), 0.9, false, 0), LimitedBy::Server);
        assert_eq!(failing(Some(0.5), 0.95, false, 0), LimitedBy::Generator);
        assert_eq!(failing(Some(0.97), 0.5, false, 3), LimitedBy::Generator);
        assert_eq!(failing(Some(0.5), 0.5, false, 0), LimitedBy::Network);
        assert_eq!(failing(Some(0.5), 0.5, true, 0), LimitedBy::Nobody);
        assert_eq!(failing(None, 0.5, true, 0), LimitedBy::Unknown);
        assert_eq!(waiting(Some(0.5), 0.5, false, 0, 0.4), LimitedBy::Host);
        assert_eq!(waiting(Some(0.5), 0.5, true, 3, 0.4), LimitedBy::Host);
        assert_eq!(waiting(Some(0.97), 0.5, false, 0, 0.4), LimitedBy::Server);
        assert_eq!(limited_by(&[], 100.0), LimitedBy::NotReached);
    }
}

//! The throughput-latency curve and its knee.

use serde::{Deserialize, Serialize};

use super::Tally;
use super::trial::{Trial, Verdict};
use crate::record::finite;

/// With fewer points than this, a bend can be chance.
const FEWEST_POINTS: usize = 5;
/// A curve whose distance to the straight line is less than this share of its height has no knee.
const LEAST_BEND: f64 = 0.1;

/// The measurements at one rate. Percentiles are never averaged: for a rate with several trials, all figures
/// come from the trial with the median value of the limited percentile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The intended rate in operations per second.
    #[serde(rename = "rate_ops_per_s", serialize_with = "finite")]
    pub rate: f64,
    /// The answered operations per second.
    #[serde(rename = "achieved_ops_per_s", serialize_with = "finite")]
    pub achieved: f64,
    /// The percentile of the limit, in nanoseconds.
    pub value_ns: Option<f64>,
    /// The median response time in nanoseconds.
    pub p50_ns: Option<u64>,
    /// The 0.99 quantile of the response time in nanoseconds.
    pub p99_ns: Option<u64>,
    /// The 0.999 quantile of the response time in nanoseconds.
    pub p999_ns: Option<u64>,
    /// The 0.99 quantile of the generator's own lag in nanoseconds.
    pub(crate) lag_p99_ns: Option<u64>,
    /// Share of one CPU that the server used.
    pub server_busy: Option<f64>,
    /// Share of one CPU that the busiest thread of the generator worked on; waiting awake is no work.
    pub client_busy: Option<f64>,
    /// Share of its time in which the generator waited for a CPU that others had.
    #[serde(default)]
    pub waited: Option<f64>,
    /// All trials of this rate. The figures are those of the middle one of those that count.
    pub trials: Tally,
    /// Whether most trials held.
    pub held: bool,
    /// Whether everything was sent, and answered as fast as it was meant to start.
    pub(crate) kept_up: bool,
    /// The index of that trial in the cases of the record.
    pub case: usize,
}

/// A trial with its rate and verdict.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) rate: f64,
    pub(super) node: i32,
    pub(super) trial: Trial,
    pub(super) verdict: Verdict,
}

/// One point per rate, in ascending order.
pub(super) fn points(told: &[Told]) -> Vec<Point> {
    let mut sorted: Vec<&Told> = told.iter().collect();
    sorted.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    sorted
        .chunk_by(|a, b| a.rate == b.rate)
        .map(point)
        .collect()
}

fn tally<'t>(told: impl Iterator<Item = &'t Told>) -> Tally {
    told.fold(Tally::default(), |mut tally, told| {
        tally.count(told.verdict);
        tally
    })
}

fn point(trials: &[&Told]) -> Point {
    let all = tally(trials.iter().copied());
    // Spoiled trials are shown only if there are no others.
    let counts = |told: &&&Told| !matches!(told.verdict, Verdict::Spoiled(_));
    let mut by_value: Vec<&Told> = trials.iter().filter(counts).copied().collect();
    if by_value.is_empty() {
        by_value = trials.to_vec();
    }
    by_value.sort_by(|a, b| value_or_worst(&a.trial).total_cmp(&value_or_worst(&b.trial)));
    let middle = by_value[(by_value.len() - 1) / 2];
    let trial = &middle.trial;
    Point {
        rate: middle.rate,
        achieved: trial.achieved,
        value_ns: trial.value_ns,
        p50_ns: trial.p50_ns,
        p99_ns: trial.p99_ns,
        p999_ns: trial.p999_ns,
        lag_p99_ns: trial.lag_p99_ns,
        server_busy: trial.server_busy,
        client_busy: trial.client_busy,
        waited: trial.waited,
        trials: all,
        held: all.lead() > 0,
        kept_up: trial.kept_up(middle.rate),
        case: trial.case,
    }
}

/// The percentile of the limit; infinite if it has too few samples.
pub(super) fn value_or_worst(trial: &Trial) -> f64 {
    trial.value_ns.unwrap_or(f64::INFINITY)
}

/// The rate at the knee of the curve: the point farthest below the straight line between the ends (Satopää,
/// Albrecht, Irwin and Raghavan, "Finding a 'Kneedle' in a Haystack", ICDCS Workshops 2011). The percentile
/// is used on a logarithmic scale, as in the plots; on a linear scale the overloaded end, whose length
/// depends on the trial, would dominate. A stall can only increase a percentile, so a point above one at a
/// higher rate is lowered to that one. Points that did not keep up are excluded.
pub(super) fn knee(points: &[Point]) -> Option<f64> {
    let kept: Vec<(f64, f64)> = points
        .iter()
        .filter(|point| point.kept_up)
        .filter_map(|point| Some((point.rate, point.value_ns.filter(|ns| *ns > 0.0)?.ln())))
        .collect();
    if kept.len() < FEWEST_POINTS {
        return None;
    }
    let mut lowest = f64::INFINITY;
    let mut envelope: Vec<(f64, f64)> = kept
        .iter()
        .rev()
        .map(|&(rate, log)| {
            lowest = lowest.min(log);
            (rate, lowest)
        })
        .collect();
    envelope.reverse();
    let (first, last) = (envelope[0], envelope[envelope.len() - 1]);
    let (width, height) = (last.0 - first.0, last.1 - first.1);
    if width <= 0.0 || height <= 0.0 {
        return None;
    }
    let bend = |(rate, log): (f64, f64)| (rate - first.0) / width - (log - first.1) / height;
    let knee = envelope
        .into_iter()
        .max_by(|a, b| bend(*a).total_cmp(&bend(*b)))?;
    (bend(knee) >= LEAST_BEND).then_some(knee.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(rates: &[f64], value: impl Fn(f64) -> f64) -> Vec<Point> {
        let told: Vec<Told> = rates
            .iter()
            .map(|&rate| Told {
                rate,
                node: 0,
                trial: Trial {
                    achieved: rate,
                    value_ns: Some(value(rate)),
                    ..Trial::default()
                },
                verdict: Verdict::Held,
            })
            .collect();
        points(&told)
    }

    fn tens() -> Vec<f64> {
        (1..=98)
            .map(|percent| f64::from(percent) * 1_000.0)
            .collect()
    }

    #[test]
    fn knee_is_where_the_curve_leaves_its_chord() {
        // Of -ln(1 - x) between 0.01 and 0.98 the tangent is parallel to the chord at x = 0.751.
        let knee = knee(&curve(&tens(), |rate| 1e5 / (1.0 - rate / 1e5))).unwrap();
        assert!((knee / 75_000.0 - 1.0).abs() < 0.02, "{knee}");
        let cliff = curve(&tens(), |rate| if rate < 80_000.0 { 1e5 } else { 1e7 });
        assert_eq!(super::knee(&cliff), Some(79_000.0));
    }

    #[test]
    fn stall_moves_no_knee_and_a_straight_line_has_none() {
        let value = |rate: f64| 1e5 / (1.0 - rate / 1e5);
        let quiet = knee(&curve(&tens(), value));
        let stalled = curve(&tens(), |rate| {
            value(rate) * if rate == 20_000.0 { 50.0 } else { 1.0 }
        });
        assert_eq!(knee(&stalled), quiet);
        assert_eq!(knee(&curve(&tens(), |rate| (rate / 1e5).exp())), None);
        assert_eq!(knee(&curve(&tens(), |_| 1e5)), None);
        assert_eq!(knee(&curve(&tens()[..4], value)), None);
    }

    #[test]
    fn point_is_one_of_its_trials_and_never_a_mean() {
        let told: Vec<Told> = [Some(3e6), None, Some(1e6)]
            .into_iter()
            .enumerate()
            .map(|(case, value_ns)| Told {
                rate: 10.0,
                node: 0,
                trial: Trial {
                    value_ns,
                    case,
                    ..Trial::default()
                },
                verdict: if value_ns == Some(1e6) {
                    Verdict::Held
                } else {
                    Verdict::Failed
                },
            })
            .collect();
        let points = points(&told);
        assert_eq!(points.len(), 1);
        assert_eq!((points[0].value_ns, points[0].case), (Some(3e6), 0));
        assert_eq!(
            points[0].trials,
            Tally {
                held: 1,
                failed: 2,
                spoiled: 0
            }
        );
        assert!(!points[0].held);
    }
}

//! Rules about pairs of measurements.

use super::flaw::{Diagnosis, HitReason, PairFlaw, Work};
use super::{Severity, scope};
use crate::compare;
use crate::metric::Direction;
use crate::record::{Case, RoundSummary};

/// The largest share by which a hit can be slower than a miss without a finding.
const HIT_SLACK: f64 = 0.1;
/// The hit ratio from which a case counts as hits; below the complement it counts as misses.
const ALL: f64 = 0.99;
/// Replies larger by this factor explain a longer time.
const LARGER: f64 = 1.5;
/// The smallest growth of the time, as a share of the growth of the work.
const GROWTH_SHARE: f64 = 0.25;
/// The smallest growth of the work for the rule to apply.
const LEAST_GROWTH: f64 = 1.5;

/// Reports whether two compared cases had different conditions: payload, pipeline, mode and everything else
/// that determines the work of an operation.
#[must_use]
pub fn arms_differ(a: &Case, b: &Case) -> Option<Diagnosis> {
    let (one, other) = (&a.scenario, &b.scenario);
    // An in-process subject has no wire, so wire settings cannot match.
    let both_wired = (one.connections == 0) == (other.connections == 0);
    let differences: Vec<&str> = [
        ("workload", one.workload != other.workload),
        ("mode", both_wired && one.mode != other.mode),
        ("pacing", one.pacing != other.pacing),
        (
            "connections",
            both_wired && one.connections != other.connections,
        ),
        ("pipeline", one.pipeline != other.pipeline),
        (
            "operations in flight",
            both_wired && one.in_flight != other.in_flight,
        ),
        ("batch", one.batch != other.batch),
        ("durability", one.durability != other.durability),
        ("keys", one.keys != other.keys),
        ("key distribution", one.key_dist != other.key_dist),
        ("value size", one.value_bytes != other.value_bytes),
        ("added latency", one.latency_ns != other.latency_ns),
        ("protocol version", both_wired && one.resp != other.resp),
    ]
    .into_iter()
    .filter_map(|(name, differs)| differs.then_some(name))
    .collect();
    let scope = format!("{} compared with {}", scope(a), scope(b));
    (!differences.is_empty()).then(|| {
        Diagnosis::new(
            &scope,
            Severity::Critical,
            PairFlaw::ArmsDiffer(differences),
        )
    })
}

/// Reports whether hits took longer than misses, and why. Both must come from the same rounds; with too few
/// rounds or mixed reads there is no result.
#[must_use]
pub fn hit_beside_miss(hit: &Case, miss: &Case) -> Option<Diagnosis> {
    let measured_so = found(hit)? >= ALL && found(miss)? <= 1.0 - ALL;
    let (ratio, at_least) = slower(hit, miss).filter(|_| measured_so)?;
    if at_least <= 1.0 + HIT_SLACK {
        return None;
    }
    let bytes = hit
        .cost
        .bytes_in_per_op
        .zip(miss.cost.bytes_in_per_op)
        .filter(|(hit, miss)| *hit > miss * LARGER);
    let (severity, reason) = if miss.error_count() > 0 {
        let (errors, ops) = (miss.error_count(), miss.ops);
        (Severity::Critical, HitReason::Errors { errors, ops })
    } else if let Some((hit, miss)) = bytes {
        (Severity::Info, HitReason::Payload { hit, miss })
    } else {
        (Severity::Warning, HitReason::Unknown)
    };
    let slower = PairFlaw::HitSlowerThanMiss {
        ratio,
        at_least,
        reason,
    };
    let scope = format!("{} compared with {}", scope(hit), scope(miss));
    Some(Diagnosis::new(&scope, severity, slower))
}

/// Reports work that took no more time although there was more of it: it was not done, or not waited for.
#[must_use]
pub fn time_stays_flat(scope: &str, small: Work, large: Work) -> Option<Diagnosis> {
    let (growth, taken) = (small.growth(&large), small.time_growth(&large));
    let is_flat = growth >= LEAST_GROWTH && taken - 1.0 < GROWTH_SHARE * (growth - 1.0);
    let flat = PairFlaw::TimeStaysFlat { small, large };
    is_flat.then(|| Diagnosis::new(scope, Severity::Critical, flat))
}

/// The share of operations that found something. Errors never count as found.
fn found(case: &Case) -> Option<f64> {
    let failed = case.error_count() as f64 / case.ops.max(1) as f64;
    Some(case.hit_ratio? - failed)
}

/// The factor by which hits were slower over the rounds, and its lower bound.
fn slower(hit: &Case, miss: &Case) -> Option<(f64, f64)> {
    let medians = |rounds: &[RoundSummary]| -> Option<Vec<f64>> {
        let medians = rounds.iter().map(|round| round.response_time_ns_p50);
        medians.map(|median| median.map(|ns| ns as f64)).collect()
    };
    let (hits, misses) = (medians(&hit.rounds)?, medians(&miss.rounds)?);
    let rules = compare::Rules::default();
    let paired = compare::paired(&misses, &hits, Direction::LessIsBetter, &rules).ok()?;
    let (at_least, _) = paired.interval?;
    Some((paired.ratio, at_least))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Flaw;
    use crate::record::{Cost, Scenario, Subject};

    /// Reads with medians of about `p50` in every round.
    fn reads(workload: &str, p50: u64, hits: f64, bytes: f64) -> Case {
        let round = |round: u64| RoundSummary {
            response_time_ns_p50: Some(p50 + round * p50 / 1_000),
            ..RoundSummary::default()
        };
        Case {
            subject: Subject {
                name: "redis".to_owned(),
                ..Subject::default()
            },
            scenario: Scenario {
                workload: workload.to_owned(),
                ..Scenario::default()
            },
            ops: 10_000,
            hit_ratio: Some(hits),
            cost: Cost {
                bytes_in_per_op: Some(bytes),
                ..Cost::default()
            },
            rounds: (0..20).map(round).collect(),
            ..Case::default()
        }
    }

    fn hit(p50: u64, bytes: f64) -> Case {
        reads("hit", p50, 1.0, bytes)
    }

    fn miss(p50: u64) -> Case {
        reads("miss", p50, 0.0, 5.0)
    }

    #[test]
    fn slow_hit_is_explained_by_what_differs() {
        let mut refused = reads("miss", 30_000, 1.0, 60.0);
        refused.errors = [("WRONGTYPE".to_owned(), 10_000)].into();
        let (hit_bytes, miss_bytes) = (1_030.0, 5.0);
        for (hit, miss, severity, expected) in [
            (
                hit(60_000, hit_bytes),
                miss(30_000),
                Severity::Info,
                HitReason::Payload {
                    hit: hit_bytes,
                    miss: miss_bytes,
                },
            ),
            (
                hit(60_000, 70.0),
                refused,
                Severity::Critical,
                HitReason::Errors {
                    errors: 10_000,
                    ops: 10_000,
                },
            ),
            (
                hit(60_000, 7.0),
                miss(30_000),
                Severity::Warning,
                HitReason::Unknown,
            ),
        ] {
            let found = hit_beside_miss(&hit, &miss).unwrap();
            assert_eq!((found.rule().as_str(), found.severity), ("LL016", severity));
            assert_eq!(found.scope, "redis, hit compared with redis, miss");
            let Flaw::Pair(PairFlaw::HitSlowerThanMiss {
                ratio,
                at_least,
                reason,
            }) = found.flaw
            else {
                panic!("{found:?}");
            };
            assert_eq!((ratio, at_least, reason), (2.0, 2.0, expected));
        }
    }

    #[test]
    fn hits_and_misses_that_say_nothing_are_no_finding() {
        let slow = hit(60_000, 1_030.0);
        assert_eq!(hit_beside_miss(&hit(32_000, 1_030.0), &miss(30_000)), None);
        assert_eq!(hit_beside_miss(&hit(20_000, 1_030.0), &miss(30_000)), None);
        // Mixed reads, and too few rounds for a bound.
        assert_eq!(
            hit_beside_miss(&slow, &reads("some", 30_000, 0.5, 5.0)),
            None
        );
        assert_eq!(
            hit_beside_miss(&reads("some", 60_000, 0.5, 5.0), &miss(30_000)),
            None
        );
        let mut short = miss(30_000);
        short.rounds.truncate(4);
        let mut few = slow.clone();
        few.rounds.truncate(4);
        assert_eq!(hit_beside_miss(&few, &short), None);
        let mut unknown = slow;
        unknown.rounds[3].response_time_ns_p50 = None;
        assert_eq!(hit_beside_miss(&unknown, &miss(30_000)), None);
    }

    #[test]
    fn time_that_stays_flat_while_work_grows_is_found() {
        let work = |units, duration_ns| Work { units, duration_ns };
        // Operations and times before and after, and whether the rule applies.
        for (small, large, flat) in [
            (work(1_000, 40), work(1_000_000, 41), true),
            (work(10_000, 1_000_000), work(20_000, 1_240_000), true),
            (work(10_000, 1_000_000), work(20_000, 1_260_000), false),
            (work(10_000, 1_000_000), work(20_000, 2_000_000), false),
            (work(10_000, 1_000_000), work(14_000, 1_000_000), false),
            (work(0, 0), work(0, 0), false),
        ] {
            let found = time_stays_flat("here", small, large);
            assert_eq!(found.is_some(), flat, "{small:?} {large:?}");
        }
        let found = time_stays_flat("here", work(10_000, 1_000_000), work(20_000, 1_020_000));
        let found = found.unwrap();
        assert_eq!(
            (found.rule().as_str(), found.severity),
            ("LL017", Severity::Critical)
        );
        let Flaw::Pair(PairFlaw::TimeStaysFlat { small, large }) = found.flaw else {
            panic!("{found:?}");
        };
        assert_eq!(
            (small.growth(&large), small.time_growth(&large)),
            (2.0, 1.02)
        );
    }
}

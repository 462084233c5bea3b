//! Flaws of a pair of measurements.

use loadline_measure::doctor::{HitReason, PairFlaw};

pub(super) fn evidence(flaw: &PairFlaw) -> String {
    match flaw {
        PairFlaw::ArmsDiffer(conditions) => format!(
            "The two were measured under different conditions: {}.",
            conditions.join(", ")
        ),
        PairFlaw::HitSlowerThanMiss {
            ratio,
            at_least,
            reason,
        } => format!(
            "A hit took {ratio:.2} times as long as a miss (at least {at_least:.2} times): {}.",
            why(reason)
        ),
        PairFlaw::TimeStaysFlat { small, large } => format!(
            "{:.1} times the operations ({} and {}) took {:.2} times the time.",
            small.growth(large),
            small.units,
            large.units,
            small.time_growth(large),
        ),
    }
}

pub(super) fn advice(flaw: &PairFlaw) -> &'static str {
    match flaw {
        PairFlaw::ArmsDiffer(_) => {
            "Measure both under the same conditions; this ratio does not compare the subjects."
        }
        PairFlaw::HitSlowerThanMiss { reason, .. } => match reason {
            HitReason::Errors { .. } => {
                "Count errors separately from replies, and fix their cause."
            }
            HitReason::Payload { .. } => {
                "State the value size with the figures for hits, and do not average hits with misses."
            }
            HitReason::Unknown => {
                "Look for what only a hit does: expiry, access counters (maxmemory-policy), cold memory, decoding."
            }
        },
        PairFlaw::TimeStaysFlat { .. } => {
            "Make sure that the work is done, and that its results are used and waited for: the compiler removes code whose result is not used."
        }
    }
}

fn why(reason: &HitReason) -> String {
    match reason {
        HitReason::Errors { errors, ops } => format!(
            "{errors} of the {ops} misses were error replies, which the server sends without a lookup"
        ),
        HitReason::Payload { hit, miss } => {
            format!("a hit returns {hit:.0} bytes and a miss {miss:.0}")
        }
        HitReason::Unknown => "their replies have similar sizes and none is an error, so the payload does not explain it".to_owned(),
    }
}

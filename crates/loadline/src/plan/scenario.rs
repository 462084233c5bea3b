//! A case of a plan in the form of the record.

use loadline_load::pacing::{ArrivalProcess, Pacing};
use loadline_load::values::ValueSize;
use loadline_measure::record::{self, Arrivals, Mode, Scenario, ValueBytes};

use super::{Case, Plan};
use crate::spelling::Target;
use crate::units::{key_dist_text, nanoseconds};

/// The name of `case` in limits and baselines.
pub(crate) fn case_name(case: &Case, plan: &Plan) -> String {
    // The name does not depend on the path to the target.
    let entry = record::Case {
        scenario: scenario(case, plan, &Target::Embedded),
        ..record::Case::default()
    };
    entry.name()
}

/// `case` on `target` in the form of the record.
pub(crate) fn scenario(case: &Case, plan: &Plan, target: &Target) -> Scenario {
    let called = target.is_in_process();
    let rules = &case.workload.rules;
    let calls = rules.job.map(|job| u64::from(job.batch()));
    let spread = |min, max, dist: &str| ValueBytes::Spread {
        min,
        max,
        dist: dist.into(),
    };
    let (pacing, arrivals) = match case.pacing {
        Pacing::Closed => (record::Pacing::Closed, None),
        Pacing::Open { rate, arrivals } => (
            record::Pacing::Rate(rate),
            Some(match arrivals {
                ArrivalProcess::Uniform => Arrivals::Uniform,
                ArrivalProcess::Poisson => Arrivals::Poisson,
            }),
        ),
    };
    Scenario {
        workload: case.workload.name.clone(),
        suite: rules.bundle.map(|bundle| bundle.name.into()),
        mode: match case.pipeline {
            _ if called => Mode::Call,
            _ if case.durability.is_some() && case.batch.is_some() => Mode::Batch,
            _ if calls == Some(1) => Mode::Sync,
            1 => Mode::Sync,
            _ => Mode::Pipeline,
        },
        pacing,
        arrivals,
        connections: if called {
            0
        } else {
            u64::from(case.connections)
        },
        threads: u64::from(case.threads),
        pipeline: u64::from(case.pipeline),
        in_flight: Some(if called {
            u64::from(case.threads)
        } else {
            calls.unwrap_or_else(|| case.in_flight())
        }),
        batch: case.batch.map(u64::from).or(calls).unwrap_or(1),
        ops_asked: None,
        codec: case.codec.map(|codec| codec.name().into()),
        durability: case.durability.map(|class| class.to_string()),
        keys: case.keys,
        key_dist: key_dist_text(&case.key_dist),
        value_bytes: match case.value_size {
            ValueSize::Fixed(bytes) => ValueBytes::Fixed(bytes),
            ValueSize::Range(min, max) => spread(min, max, "uniform"),
            ValueSize::Zipf(min, max) => spread(min, max, "zipf"),
        },
        latency_ns: nanoseconds(plan.latency),
        resp: u64::from(plan.resp()),
    }
}

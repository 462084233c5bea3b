//! The comparisons of `prove`: the embedded server with itself, and with itself made slower.

use std::time::Duration;

use super::{Length, Plan};
use crate::slowdown::InjectedSlowdown;
use crate::target::{Slowdown, Target};

/// The latency in the path of both targets if a delay is injected: a share of it exceeds the inaccuracy of the
/// link, and a block still has several hundred operations.
const LATENCY: Duration = Duration::from_micros(250);
/// The factor for the length of blocks if a delay is injected.
const LONGER_BLOCKS: u32 = 3;

/// The time of an operation on a server without an injected slowdown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usual {
    /// The median response time, which is judged.
    pub(crate) p50: Duration,
    /// The corrected 99th percentile; zero if the time spent waiting for a CPU is not measured.
    pub(crate) tail: Duration,
}

/// The comparison of the embedded server with one into which `injected` is injected.
pub(crate) fn slowed(plan: &Plan, injected: InjectedSlowdown, usual: Usual) -> Plan {
    let embedded = |latency: Duration, burn_per_command: Duration| {
        Target::Slowed(Slowdown {
            burn_per_command,
            latency,
        })
    };
    let burning = |time: Duration| vec![Target::Embedded, embedded(Duration::ZERO, time)];
    let targets = match injected {
        InjectedSlowdown::Nothing => vec![Target::Embedded, Target::Embedded],
        InjectedSlowdown::Burn(share) => burning(usual.p50.mul_f64(share)),
        InjectedSlowdown::Tail(share) => burning(usual.tail.mul_f64(share)),
        InjectedSlowdown::Delay(share) => vec![
            embedded(LATENCY, Duration::ZERO),
            embedded(
                LATENCY + (LATENCY + usual.p50).mul_f64(share),
                Duration::ZERO,
            ),
        ],
    };
    let mut plan = Plan {
        targets,
        ..plan.clone()
    };
    if !injected.is_near() {
        // What takes longer needs longer blocks for as many operations.
        for case in &mut plan.cases {
            if let Length::Time(time) = case.length {
                case.length = Length::Time(time * LONGER_BLOCKS);
            }
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Surroundings, resolve_proof};

    #[test]
    fn an_injected_slowdown_is_a_share_of_the_time_of_an_operation() {
        let around = Surroundings {
            cores: 2,
            has_redis_server: false,
            password: None,
            memory_bytes: Some(8 << 30),
            entropy: 1,
            bundles: &[],
        };
        let plan = resolve_proof("get", None, &around).unwrap();
        let usual = Usual {
            p50: Duration::from_micros(40),
            tail: Duration::from_micros(70),
        };
        let slowdown = |text: &str| {
            let injected: InjectedSlowdown = text.parse().unwrap();
            match slowed(&plan, injected, usual).targets[1] {
                Target::Slowed(slowdown) => slowdown,
                ref other => panic!("{text}: {other} is not slowed"),
            }
        };
        let targets = slowed(&plan, InjectedSlowdown::Nothing, usual).targets;
        assert_eq!(targets, [Target::Embedded, Target::Embedded]);
        let burned = |text| slowdown(text).burn_per_command;
        assert_eq!(burned("cpu+5"), Duration::from_micros(2));
        assert_eq!(burned("tail+10"), Duration::from_micros(7));
        assert_eq!(slowdown("delay+10").latency, Duration::from_micros(279));
    }
}

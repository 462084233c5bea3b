//! The comparisons of `prove`: the embedded server with itself, and with itself made slower.

use std::time::Duration;

use super::{Length, Plan};
use crate::slowdown::InjectedSlowdown;
use crate::spelling::{Slowdown, Target};

/// The latency in the path of both targets if a delay is injected: a share of it exceeds the inaccuracy of the
/// link, and a block still has several hundred operations.
const LATENCY: Duration = Duration::from_micros(250);
/// The factor for the length of blocks if a delay is injected.
const LONGER_BLOCKS: u32 = 3;

/// The time and work of an operation on a server without an injected slowdown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Usual {
    /// The median response time, which is judged.
    pub(crate) p50: Duration,
    /// The corrected 99th percentile; zero if the time spent waiting for a CPU is not measured.
    pub(crate) tail: Duration,
    /// The instructions; zero if they are not counted.
    pub(crate) work: UsualWork,
}

/// The instructions of an operation on a server in the simulator.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct UsualWork {
    /// Instructions of an operation without injected work.
    pub(crate) per_op: f64,
    /// Instructions of injected work apart from its rounds.
    pub(crate) per_call: f64,
    /// Instructions of a round of injected work.
    pub(crate) per_round: f64,
}

impl UsualWork {
    /// The rounds whose instructions are about `share` of those of an operation; at least one, unless `share` is 0.
    fn rounds(self, share: f64) -> u32 {
        let rounds = (share * self.per_op - self.per_call) / self.per_round.max(1.0);
        // Converting a float saturates, so without counts the result is zero rounds.
        (rounds.round() as u32).max(u32::from(share > 0.0))
    }
}

/// The embedded server, and with `rounds` rounds of injected work for every command.
fn working(rounds: u32) -> Vec<Target> {
    let slowdown = Slowdown {
        work_per_command: rounds,
        ..Slowdown::default()
    };
    let second = if rounds == 0 {
        Target::Embedded
    } else {
        Target::Slowed(slowdown)
    };
    vec![Target::Embedded, second]
}

/// The plan of a comparison with `rounds` rounds of injected work, to determine the cost of a round.
pub(crate) fn working_plan(plan: &Plan, rounds: u32) -> Plan {
    Plan {
        targets: working(rounds),
        ..plan.clone()
    }
}

/// The comparison of the embedded server with one into which `injected` is injected.
pub(crate) fn slowed(plan: &Plan, injected: InjectedSlowdown, usual: Usual) -> Plan {
    let embedded = |latency: Duration, burn_per_command: Duration| {
        Target::Slowed(Slowdown {
            burn_per_command,
            latency,
            ..Slowdown::default()
        })
    };
    let burning = |time: Duration| vec![Target::Embedded, embedded(Duration::ZERO, time)];
    let targets = match injected {
        InjectedSlowdown::Nothing => vec![Target::Embedded, Target::Embedded],
        InjectedSlowdown::Burn(share) => burning(usual.p50.mul_f64(share)),
        InjectedSlowdown::Tail(share) => burning(usual.tail.mul_f64(share)),
        InjectedSlowdown::Work(share) => working(usual.work.rounds(share)),
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
        // Slower operations need longer blocks for the same number of operations.
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
    fn injected_slowdown_is_a_share_of_the_time_of_an_operation() {
        let around = Surroundings::of_tests();
        let plan = resolve_proof("get", None, &around).unwrap();
        let usual = Usual {
            p50: Duration::from_micros(40),
            tail: Duration::from_micros(70),
            work: UsualWork {
                per_op: 2_500.0,
                per_call: 9.0,
                per_round: 4.0,
            },
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
        assert_eq!(slowdown("work+1").work_per_command, 4);
        assert_eq!(slowdown("work+2").work_per_command, 10);
        let same = slowed(&plan, "work+0".parse().unwrap(), usual).targets;
        assert_eq!(same, [Target::Embedded, Target::Embedded]);
    }
}

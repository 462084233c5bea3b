//! A default comparison of many clients, shortened until it answers within a minute.

use std::time::Duration;

use super::{ClientsPlan, Length};
use crate::args::ClientsArgs;
use crate::units::duration_text;

/// The longest estimate of a default comparison. Clients on a busy machine can take a fifth longer.
const BUDGET: Duration = Duration::from_secs(50);
/// Time per operation and client of a shortened comparison: ten blocks of 50 ms, which paired rounds need at least.
const SHORT: Duration = Duration::from_millis(500);

/// A part that can be left out.
#[derive(Debug, Clone, Copy)]
enum Part {
    Operation(&'static str),
    Connections,
    Faults,
}

/// The parts in the order in which they are left out: first those that say about the same as others.
const PARTS: [Part; 6] = [
    Part::Operation("set"),
    Part::Operation("pipeline-10"),
    Part::Connections,
    Part::Faults,
    Part::Operation("multiplexed-64"),
    Part::Operation("pipeline-100"),
];

impl ClientsPlan {
    /// The plan without parts that nobody asked for, as far as it would not answer within a minute.
    pub(super) fn within_a_minute(mut self, args: &ClientsArgs) -> Self {
        if args.thorough || !args.gate.is_empty() || self.is_short_enough() {
            return self;
        }
        let is_timed = args.duration.or(args.warmup).is_some() || args.rounds.is_some();
        if !is_timed {
            for case in &mut self.base.cases {
                case.length = Length::Time(SHORT);
            }
            self.base.warmup = SHORT / 2;
        }
        let mut without = Vec::new();
        for part in PARTS {
            if self.is_short_enough() {
                break;
            }
            without.extend(self.leave_out(part, args));
        }
        self.left_out.extend(sentence(!is_timed, &without));
        self
    }

    fn is_short_enough(&self) -> bool {
        self.estimate()
            .is_none_or(|estimate| estimate.most <= BUDGET)
    }

    /// Leaves out a part, unless it was asked for or is not there; returns its name.
    fn leave_out(&mut self, part: Part, args: &ClientsArgs) -> Option<String> {
        match part {
            Part::Operation(name) if args.ops.is_empty() => {
                let place = self.ops.iter().position(|op| op.to_string() == name)?;
                self.ops.remove(place);
                self.base.cases.remove(place);
                Some(name.into())
            }
            Part::Connections if self.with_connections => {
                self.with_connections = false;
                Some("memory per connection".into())
            }
            Part::Faults if self.with_faults && args.patience.is_none() => {
                self.with_faults = false;
                Some("runs with faults".into())
            }
            _ => None,
        }
    }
}

/// The statement of what was shortened; `None` if nothing was.
fn sentence(is_shorter: bool, without: &[String]) -> Option<String> {
    let listed = match without {
        [] => None,
        [one] => Some(one.clone()),
        [others @ .., last] => Some(format!("{} and {last}", others.join(", "))),
    };
    let parts = [
        is_shorter.then(|| format!("operations are measured for {} each", duration_text(SHORT))),
        listed.map(|listed| format!("{listed} are left out")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| {
        format!(
            "To answer within a minute, {}; --thorough measures everything.",
            parts.join(" and ")
        )
    })
}

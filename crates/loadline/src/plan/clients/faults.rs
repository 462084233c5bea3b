//! The faults that clients run with, and the script of each for the fault proxy.
//!
//! Clients send INCR one at a time, so the scripts count those. Everything else, such as the handshake of a client, passes.

use std::time::Duration;

use loadline_link::fault::Fault as PathFault;
use loadline_link::script::{Action, Again, Counts, Part, Scope, Script, Step, Trigger};
use loadline_measure::clients::Fault;

/// The faults, with the time of a run.
pub(crate) const FAULTS: [(Fault, Duration); 8] = [
    (Fault::ReplyCut, Duration::from_secs(2)),
    (Fault::Away, Duration::from_secs(4)),
    (Fault::Silent, Duration::from_secs(6)),
    (Fault::Frozen, Duration::from_secs(6)),
    (Fault::Loading, Duration::from_secs(2)),
    (Fault::ReadOnly, Duration::from_secs(2)),
    (Fault::Nested, Duration::from_secs(2)),
    (Fault::HugeBulk, Duration::from_secs(3)),
];

/// The INCR at which a fault begins.
const FIRST: u64 = 6;
/// A reply is cut off at every `CUT_EVERY`th INCR.
const CUT_EVERY: u64 = 5;
/// Error replies in a row.
const REFUSALS: u64 = 5;
/// Time for which the server is away.
const AWAY: Duration = Duration::from_secs(1);
/// Arrays in each other.
const NESTED: u32 = 200_000;
/// Bytes that come of a string of 10 GiB, and the time after which the connection ends.
const HUGE_PART: u32 = 1 << 20;
const HUGE_WAIT: Duration = Duration::from_secs(1);
/// The script of a fault; nothing fails if it is not known.
pub(crate) fn fault_script(fault: &Fault) -> Script {
    let steps = match fault {
        Fault::ReplyCut => vec![Step {
            when: at_incr(Again::Every(CUT_EVERY), None),
            ..once(Action::CutReply)
        }],
        Fault::Away => vec![
            Step {
                lasts: Some(AWAY),
                ..once(Action::Fault(PathFault::Refuse))
            },
            once(Action::Fault(PathFault::Cut)),
        ],
        Fault::Silent => vec![Step {
            scope: Scope::Connection,
            ..once(Action::Fault(PathFault::BlackHole))
        }],
        Fault::Frozen => vec![once(Action::Fault(PathFault::Freeze))],
        Fault::Loading => vec![refusals(
            "-LOADING Redis is loading the dataset in memory\r\n",
        )],
        Fault::ReadOnly => vec![refusals(
            "-READONLY You can't write against a read only replica.\r\n",
        )],
        Fault::Nested => vec![once(answer(&[("*1\r\n", NESTED), (":1\r\n", 1)], None))],
        Fault::HugeBulk => vec![once(answer(
            &[("$10737418240\r\n", 1), ("x", HUGE_PART)],
            Some(HUGE_WAIT),
        ))],
        _ => Vec::new(),
    };
    Script { seed: 0, steps }
}

/// Some clients send INCR as INCRBY.
fn at_incr(again: Again, times: Option<u64>) -> Trigger {
    Trigger {
        counts: Counts::Messages(vec!["INCR".into(), "INCRBY".into()]),
        first: FIRST,
        again,
        times,
    }
}

fn once(action: Action) -> Step {
    Step {
        when: at_incr(Again::Never, None),
        action,
        scope: Scope::Path,
        lasts: None,
    }
}

fn refusals(error: &str) -> Step {
    Step {
        when: at_incr(Again::Every(1), Some(REFUSALS)),
        ..once(answer(&[(error, 1)], None))
    }
}

fn answer(parts: &[(&str, u32)], close_after: Option<Duration>) -> Action {
    let parts = parts.iter().map(|(text, times)| Part {
        text: (*text).into(),
        times: *times,
    });
    Action::Answer {
        parts: parts.collect(),
        close_after,
    }
}

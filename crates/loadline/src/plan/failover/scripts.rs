//! Faults of the path, as scripts of the fault proxy. Most begin at a write, so they repeat exactly, and are undone by
//! removing the proxy.

use std::time::Duration;

use loadline_link::fault::Fault as PathFault;
use loadline_link::script::{Action, Again, Counts, Scope, Script, Step, Trigger};
use loadline_measure::failover::Fault;

/// Replies that are cut.
const CUTS: u64 = 10;
/// The delay of a close.
const CLOSED_LATE: Duration = Duration::from_secs(1);
/// The time without new connections.
const REFUSED: Duration = Duration::from_secs(1);

/// The writes of a load, as the fault proxy sees them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writes {
    /// The number of the write at which a fault begins.
    pub(super) first: u64,
    /// Writes between two replies that are cut.
    pub(super) cut_every: u64,
    /// The command that executes each kind of write.
    pub(super) commands: &'static [&'static str],
}

/// Those of loadline-client, with a fault at number `first`. An INCRBY is part of a transaction.
pub(super) fn ours(first: u64) -> Writes {
    Writes {
        first,
        cut_every: 97,
        commands: &["SET", "INCR", "EXEC", "EVAL", "XADD", "PUBLISH"],
    }
}

/// Those of a driver, which sends less than 200 per second. Some clients send INCR as INCRBY.
pub(super) const OF_DRIVER: Writes = Writes {
    first: 20,
    cut_every: 10,
    commands: &["INCR", "INCRBY"],
};

/// The script of a fault of the path; `None` for one of a server alone. All but `slow-close` begin at a write.
pub(super) fn of(fault: &Fault, seed: u64, writes: Writes) -> Option<Script> {
    let once = |action| Step {
        when: at_write(writes, Again::Never, None),
        action: Action::Fault(action),
        scope: Scope::Path,
        lasts: None,
    };
    let of_connection = |action| Step {
        scope: Scope::Connection,
        ..once(action)
    };
    let steps = match fault {
        // Every connection is reset at both ends. New ones work.
        Fault::Reset => vec![once(PathFault::Reset)],
        // The connection of a write ends after the server has replied. New ones work.
        Fault::Cut => vec![Step {
            when: at_write(writes, Again::Every(writes.cut_every), Some(CUTS)),
            action: Action::CutReply,
            scope: Scope::Path,
            lasts: None,
        }],
        // Everything on the connection of a write vanishes from then on, and neither end is notified. New ones work.
        Fault::BlackHole => vec![of_connection(PathFault::BlackHole)],
        // The server's end of the connection of a write is closed, and the client is not notified. New ones work.
        Fault::HalfOpen => vec![of_connection(PathFault::HalfOpen)],
        // From the start, so that the server only has to close connections.
        Fault::SlowClose => vec![Step {
            when: Trigger {
                counts: Counts::Time,
                first: 0,
                again: Again::Never,
                times: None,
            },
            ..once(PathFault::SlowClose { delay: CLOSED_LATE })
        }],
        // Every connection is closed, and none is accepted for a time.
        Fault::Refused => vec![
            Step {
                lasts: Some(REFUSED),
                ..once(PathFault::Refuse)
            },
            once(PathFault::Cut),
        ],
        _ => return None,
    };
    Some(Script { seed, steps })
}

fn at_write(writes: Writes, again: Again, times: Option<u64>) -> Trigger {
    let commands = writes.commands.iter().copied().map(String::from);
    Trigger {
        counts: Counts::Messages(commands.collect()),
        first: writes.first.max(1),
        again,
        times,
    }
}

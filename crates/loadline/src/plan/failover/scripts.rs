//! Faults of the path, as scripts of the fault proxy. They begin at a write, so they repeat exactly, and are undone by
//! removing the proxy.

use loadline_link::fault::Fault as PathFault;
use loadline_link::script::{Action, Again, Counts, Scope, Script, Step, Trigger};
use loadline_measure::failover::Fault;

/// Replies that are cut.
const CUTS: u64 = 10;

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
    first: 60,
    cut_every: 10,
    commands: &["INCR", "INCRBY"],
};

/// The script of a fault that begins at a write; `None` for a fault of a server.
pub(super) fn of(fault: &Fault, seed: u64, writes: Writes) -> Option<Script> {
    let (action, scope, again, times) = match fault {
        // Every connection is reset at both ends. New ones work.
        Fault::Reset => (
            Action::Fault(PathFault::Reset),
            Scope::Path,
            Again::Never,
            None,
        ),
        // The connection of a write ends after the server has replied. New ones work.
        Fault::Cut => (
            Action::CutReply,
            Scope::Path,
            Again::Every(writes.cut_every),
            Some(CUTS),
        ),
        // Everything on the connection of a write vanishes from then on, and neither end is notified. New ones work.
        Fault::BlackHole => (
            Action::Fault(PathFault::BlackHole),
            Scope::Connection,
            Again::Never,
            None,
        ),
        _ => return None,
    };
    let commands = writes.commands.iter().copied().map(String::from);
    let step = Step {
        when: Trigger {
            counts: Counts::Messages(commands.collect()),
            first: writes.first.max(1),
            again,
            times,
        },
        action,
        scope,
        lasts: None,
    };
    let steps = vec![step];
    Some(Script { seed, steps })
}

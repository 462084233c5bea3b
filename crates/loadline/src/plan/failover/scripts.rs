//! Faults of the path, as scripts of the fault proxy. They begin at a write, so they repeat exactly, and are undone by
//! removing the proxy.

use loadline_link::fault::Fault as PathFault;
use loadline_link::script::{Action, Again, Counts, Scope, Script, Step, Trigger};
use loadline_measure::failover::Fault;

/// Replies that are cut, and the writes between two of them.
const CUTS: u64 = 10;
const CUT_EVERY: u64 = 97;

/// The script of a fault that begins at write number `write`; `None` for a fault of a server.
pub(super) fn of(fault: &Fault, seed: u64, write: u64) -> Option<Script> {
    let step = match fault {
        Fault::Reset => reset(),
        Fault::Cut => cut(),
        Fault::BlackHole => black_hole(),
        _ => return None,
    };
    let when = Trigger {
        first: write.max(1),
        ..step.when
    };
    let steps = vec![Step { when, ..step }];
    Some(Script { seed, steps })
}

/// Every connection is reset at both ends. New ones work.
fn reset() -> Step {
    Step {
        when: at_write(Again::Never, None),
        action: Action::Fault(PathFault::Reset),
        scope: Scope::Path,
        lasts: None,
    }
}

/// The connection of a write ends after the server has replied. New ones work.
fn cut() -> Step {
    Step {
        when: at_write(Again::Every(CUT_EVERY), Some(CUTS)),
        action: Action::CutReply,
        scope: Scope::Path,
        lasts: None,
    }
}

/// Everything on the connection of a write vanishes from then on, and neither end is notified. New ones work.
fn black_hole() -> Step {
    Step {
        when: at_write(Again::Never, None),
        action: Action::Fault(PathFault::BlackHole),
        scope: Scope::Connection,
        lasts: None,
    }
}

fn at_write(again: Again, times: Option<u64>) -> Trigger {
    // The command that executes each kind of write.
    let commands = ["SET", "INCR", "EXEC", "EVAL", "XADD", "PUBLISH"];
    Trigger {
        counts: Counts::Messages(commands.map(String::from).to_vec()),
        first: 1,
        again,
        times,
    }
}

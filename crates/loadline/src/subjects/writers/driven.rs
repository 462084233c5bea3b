//! A client in the process of its driver as the only writer: one INCR after the other, each of a key of its own
//! (docs/driver-protocol.md, runs with faults). The driver repeats nothing, so a repeated write is one of the client.

use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use loadline_load::Control;
use loadline_load::pacing::Stop;
use loadline_measure::failover::{Operation, Outcome, WriteId};

use super::Written;
use crate::exit::Failure;
use crate::systems::drivers::{Broken, Op, OpOutcome, Running};
use crate::units::nanoseconds;

/// The pause of a driver between two writes.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);
/// Time limit for a call that is under way at the end of the load.
const GRACE: Duration = Duration::from_secs(2);

/// Lets the driver write for `time` or until `is_over`, and sends the time of the start to `begun`. A call without an end counts as a write whose
/// outcome is unknown; a driver that ends or breaks the protocol is a finding, which `Written::ending` has.
///
/// # Errors
/// On an interrupt.
pub(crate) fn run(
    running: &mut Running,
    time: Duration,
    begun: &SyncSender<Instant>,
    control: &Control,
    is_over: impl Fn() -> bool,
) -> Result<Written, Failure> {
    let most = nanoseconds(time) / nanoseconds(PAUSE) + 1;
    let mut written = Written::of_writers(1, 1);
    let start = Instant::now();
    // The receiver is gone only if the fault has failed.
    let _ = begun.send(start);
    let stop = Stop {
        ops: Some(most),
        duration: Some(time),
    };
    running.go(stop, 1);
    let deadline = start + time + GRACE;
    let ended = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match running.op(left, control) {
            Ok(Some(_)) if is_over() => break None,
            Ok(Some(op)) => {
                if let Err(why) = written.take(&op, start) {
                    break Some(Broken::Nonsense(why));
                }
            }
            Ok(None) => break None,
            Err(broken) => break Some(broken),
        }
    };
    written.end_ns = nanoseconds(time);
    let Some(broken) = ended else {
        return Ok(written);
    };
    if control.interrupted() {
        return Err(running.failure(Broken::Interrupted));
    }
    written.leave_open(nanoseconds(start.elapsed()));
    if !matches!(broken, Broken::Silent(_)) {
        let failure = running.failure(broken).to_string();
        written.ending = Some(failure.replace('\n', " "));
    }
    Ok(written)
}

impl Written {
    /// Adds a call that has ended now.
    fn take(&mut self, op: &Op, start: Instant) -> Result<(), String> {
        let expected = self.operations.len() as u64;
        if op.sequence != expected {
            let found = op.sequence;
            return Err(format!("operation {found} in place of {expected}"));
        }
        let now_ns = nanoseconds(start.elapsed());
        let invoked_ns = now_ns.saturating_sub(op.ns);
        let outcome = match op.outcome {
            OpOutcome::Acknowledged => Outcome::Acknowledged,
            OpOutcome::Failed => Outcome::Refused,
            OpOutcome::Unknown => Outcome::Ambiguous,
        };
        let error = op.kind().filter(|_| outcome != Outcome::Acknowledged);
        let error = error.and_then(|kind| self.kind(kind));
        self.begin(Operation {
            completed_ns: now_ns,
            outcome,
            error,
            ..called(expected, invoked_ns)
        });
        Ok(())
    }

    /// Adds the call that has not ended at `now_ns`. It began after the pause that follows the last one.
    fn leave_open(&mut self, now_ns: u64) {
        let last_ns = self.operations.last().map_or(0, |last| last.completed_ns);
        let invoked_ns = now_ns.min(last_ns + nanoseconds(PAUSE));
        let sequence = self.operations.len() as u64;
        self.begin(Operation {
            completed_ns: now_ns,
            ..called(sequence, invoked_ns)
        });
    }
}

/// A call whose outcome is unknown. In a closed loop, it is due when it begins.
fn called(sequence: u64, invoked_ns: u64) -> Operation {
    Operation {
        id: WriteId {
            writer: 0,
            sequence,
        },
        kind: 0,
        due_ns: invoked_ns,
        invoked_ns,
        completed_ns: u64::MAX,
        outcome: Outcome::Ambiguous,
        error: None,
        executions: 0,
        announced: false,
    }
}

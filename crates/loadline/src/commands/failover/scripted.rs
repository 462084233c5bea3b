//! Faults of the path: reset, cut, black-hole, half-open, refused. The fault proxy causes them by the script in the plan, and they are undone by
//! removing the proxy.

use super::Happened;
use crate::exit::Failure;
use crate::systems::faulty::FaultyPath;

/// The fault as the proxy saw it.
///
/// # Errors
/// If it has not occurred, because the load ended before.
pub(super) fn happened(path: &FaultyPath) -> Result<Happened, Failure> {
    let occurrences = path.occurrences();
    let Some(first) = occurrences.first() else {
        return Err(Failure::unavailable(
            "The fault has not occurred, because the load did not reach the write at which it is due.\nUse a lower --rate, or a longer --duration.",
        ));
    };
    Ok(Happened {
        began: first.began,
        ended: occurrences.last().and_then(|last| last.ended),
        ready: None,
        times: occurrences.len() as u64,
    })
}

//! CLIENT PAUSE.

use std::sync::atomic::Ordering;

use super::blocking::owned;
use super::numbers::integer;
use super::refusal::Refusal;
use super::{Call, Known, Words, execute, is};
use crate::buffer::Output;
use crate::others::Others;
use crate::session::{Session, Waiting};
use crate::state::{Pause, Shared};

/// Starts or extends a pause. As in Redis, a pause is never shortened or narrowed.
pub(super) fn pause(call: &mut Call<'_>, time: &[u8], mode: Option<&[u8]>) -> Result<(), Refusal> {
    let holds_all = match mode {
        None => true,
        Some(mode) if is(mode, "ALL") => true,
        Some(mode) if is(mode, "WRITE") => false,
        Some(_) => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
    };
    let time = integer(time).map_err(|_| "ERR timeout is not an integer or out of range")?;
    let time = u64::try_from(time).map_err(|_| "ERR timeout is negative")?;
    let until_ms = call.now().saturating_add(time);
    let current = call.shared.pause;
    call.shared.pause = Some(Pause {
        until_ms: current.map_or(until_ms, |pause| pause.until_ms.max(until_ms)),
        holds_all: holds_all || current.is_some_and(|pause| pause.holds_all),
    });
    call.reply().ok();
    Ok(())
}

/// Executes the command that was postponed by a pause.
pub(crate) fn resume(
    session: &mut Session,
    shared: &mut Shared,
    out: &mut Output,
    others: &dyn Others,
) {
    if let Some(Waiting::ForPause(words)) = session.waiting.take() {
        let peer = &session.peer;
        peer.gauges.is_waiting.store(false, Ordering::Relaxed);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        execute(&words, session, shared, out, others);
    }
}

/// Whether Redis could have to pass a command on to replicas although it writes no keys.
fn can_replicate(known: &Known) -> bool {
    ["PFCOUNT", "PUBLISH", "SPUBLISH"].contains(&known.name)
}

impl Call<'_> {
    /// Whether a command has to wait for the end of a pause.
    pub(super) fn is_paused(&self, known: &Known) -> bool {
        self.shared
            .pause
            .is_some_and(|pause| pause.holds_all || self.is_writing(known) || can_replicate(known))
    }

    #[cold]
    pub(super) fn postpone(&mut self, words: Words<'_>) {
        self.session.waiting = Some(Waiting::ForPause(owned(words)));
        let gauges = &self.session.peer.gauges;
        gauges.is_waiting.store(true, Ordering::Relaxed);
        self.shared.has_postponed = true;
    }
}

//! Commands that wait for keys: waiting, and the end of it.
//!
//! A command that finds no data registers its client for its keys. Once one of them has changed, the event loop executes
//! the command again for this key alone, after the command or transaction that changed it. If there is still no data, the
//! client keeps its place.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::numbers::{integer, milliseconds};
use super::refusal::Refusal;
use super::{Call, Keys, Listed, Words, find_of, finish, listed};
use crate::buffer::Output;
use crate::others::Nobody;
use crate::session::{AtEnd, Session, Waiting};
use crate::state::Shared;
use crate::waiting::{Release, Wait};

pub(super) const TABLE: &[Listed] = &[listed("WAIT", 3, Keys::None, wait)];

impl Call<'_> {
    /// The keys of a waiting command that can have data: all of them, or the one that has changed.
    pub(super) fn candidates<'w>(&self, keys: &'w [&'w [u8]]) -> impl Iterator<Item = &'w [u8]> {
        let changed = self.changed.map(<[u8]>::to_vec);
        let keys = keys.iter().copied();
        keys.filter(move |key| changed.as_ref().is_none_or(|changed| changed == key))
    }

    /// Whether the client waits already, and the command is executed again for a key that has changed.
    pub(super) fn has_waited(&self) -> bool {
        self.changed.is_some()
    }

    /// The deadline that a word with seconds means; `None` for 0, which means never.
    pub(super) fn deadline(&self, word: &[u8]) -> Result<Option<u64>, Refusal> {
        let milliseconds = milliseconds(word)?;
        Ok((milliseconds > 0).then(|| self.now().saturating_add(milliseconds)))
    }

    /// Lets the client wait for keys. `words` are executed again when one of them has changed.
    pub(super) fn wait_for(
        &mut self,
        words: Vec<Vec<u8>>,
        keys: Words<'_>,
        deadline: Option<u64>,
        needs_keys: bool,
    ) {
        if self.has_waited() {
            self.session.waiting = Some(Waiting::Unserved);
            return;
        }
        let mut keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
        keys.sort_unstable();
        keys.dedup();
        let wait = Wait {
            database: self.session.database,
            keys,
            deadline,
            needs_keys,
        };
        self.register(words, wait, AtEnd::NullArray);
    }

    /// Lets the client wait for an error.
    pub(super) fn wait_with(&mut self, text: &'static str, milliseconds: u64) {
        let wait = Wait {
            database: self.session.database,
            keys: Vec::new(),
            deadline: Some(self.now().saturating_add(milliseconds)),
            needs_keys: false,
        };
        self.register(Vec::new(), wait, AtEnd::Refusal(text));
    }

    fn register(&mut self, words: Vec<Vec<u8>>, wait: Wait, at_end: AtEnd) {
        self.session.waiting = Some(Waiting::ForKeys { words, at_end });
        let gauges = &self.session.peer.gauges;
        gauges.is_waiting.store(true, Ordering::Relaxed);
        self.shared.watched.wait(self.session.id, wait);
    }
}

/// The words of a command for [`Call::wait_for`].
pub(super) fn owned(words: Words<'_>) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

/// Executes the command of a client that waits again, for a key that has changed. Returns whether it has waited long
/// enough.
pub(crate) fn wake(
    session: &mut Session,
    shared: &mut Shared,
    out: &mut Output,
    changed: &[u8],
) -> bool {
    let Some(Waiting::ForKeys { words, at_end }) = session.waiting.take() else {
        return false;
    };
    let (begin, noted) = (out.len(), shared.noted());
    let borrowed: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let known = find_of(&borrowed).expect("only known commands wait");
    if shared.is_on_its_way(known, &borrowed) {
        let place = (session.database, changed.to_vec());
        shared.migrations.unserved.insert(place);
        session.waiting = Some(Waiting::ForKeys { words, at_end });
        return false;
    }
    let mut call = Call {
        session,
        shared,
        out,
        changed: Some(changed),
        others: &Nobody,
    };
    let begun = Instant::now();
    let outcome = call.handle_noting(known, &borrowed);
    let took = begun.elapsed();
    if let Some(Waiting::Unserved) = call.session.waiting {
        session.waiting = Some(Waiting::ForKeys { words, at_end });
        return false;
    }
    if let Err(refusal) = outcome {
        call.shared.stats.calls[known.place].failed += 1;
        call.refuse(&refusal);
    }
    if call.shared.slow.is_noted(took) {
        call.note_slow_event("command-unblocking", &borrowed, took);
    }
    session.has_seen_data = true;
    shared.watched.end_wait(session.id);
    let gauges = &session.peer.gauges;
    gauges.is_waiting.store(false, Ordering::Relaxed);
    finish(begin, noted, session, shared, out);
    true
}

/// Replies to a client whose wait has ended without data.
pub(crate) fn release(session: &mut Session, shared: &mut Shared, out: &mut Output, how: Release) {
    let Some(Waiting::ForKeys { at_end, .. }) = session.waiting.take() else {
        return;
    };
    let (begin, noted) = (out.len(), shared.noted());
    session.has_seen_data = true;
    let gauges = &session.peer.gauges;
    gauges.is_waiting.store(false, Ordering::Relaxed);
    let mut call = Call {
        session,
        shared,
        out,
        changed: None,
        others: &Nobody,
    };
    match (how, at_end) {
        (Release::Refused, AtEnd::NullArray | AtEnd::Zero) => {
            call.refuse(&"UNBLOCKED client unblocked via CLIENT UNBLOCK".into());
        }
        (Release::TimedOut, AtEnd::NullArray) => call.reply().null_array(),
        (Release::TimedOut, AtEnd::Zero) => call.reply().integer(0),
        (_, AtEnd::Refusal(text)) => call.refuse(&text.into()),
    }
    finish(begin, noted, session, shared, out);
}

/// Waits for replicas, of which there are none, until the time is over.
fn wait(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let replicas = integer(words[1])?;
    let patience =
        integer(words[2]).map_err(|_| "ERR timeout is not an integer or out of range")?;
    let patience = u64::try_from(patience).map_err(|_| "ERR timeout is negative")?;
    if replicas <= 0 || call.session.may_not_block {
        call.reply().integer(0);
        return Ok(());
    }
    let wait = Wait {
        database: call.session.database,
        keys: Vec::new(),
        deadline: (patience > 0).then(|| call.now().saturating_add(patience)),
        needs_keys: false,
    };
    call.register(owned(words), wait, AtEnd::Zero);
    Ok(())
}

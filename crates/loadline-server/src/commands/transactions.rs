//! Transactions: commands queued between MULTI and EXEC run without interruption, because there is only one
//! thread. WATCH makes EXEC fail if a key has changed.

use super::refusal::Refusal;
use super::{ALL, Call, Keys, Listed, Words, find_of, is, listed};
use crate::acl::Denial;
use crate::session::{Queue, Watch};

pub(super) const TABLE: &[Listed] = &[
    listed("MULTI", 1, Keys::None, multi),
    listed("EXEC", 1, Keys::None, exec),
    listed("DISCARD", 1, Keys::None, discard),
    listed("WATCH", -2, ALL, watch),
    listed("UNWATCH", 1, Keys::None, |call, _| {
        call.shared.watched.forget(call.session);
        call.reply().ok();
        Ok(())
    }),
];

/// Whether a command runs immediately inside MULTI instead of being queued.
pub(super) fn runs_at_once(name: &str) -> bool {
    ["MULTI", "EXEC", "DISCARD", "WATCH", "RESET", "QUIT"].contains(&name)
}

/// Whether a command can end a transaction. When memory is full, no other one is executed or queued inside MULTI.
pub(super) fn ends_one(name: &str) -> bool {
    ["EXEC", "DISCARD", "RESET", "QUIT"].contains(&name)
}

/// Marks the transaction after an invalid command, so that EXEC fails. An invalid EXEC ends the transaction.
pub(super) fn spoil(call: &mut Call<'_>, words: Words<'_>, refusal: Refusal) -> Refusal {
    if is(words[0], "EXEC") {
        call.session.queue = None;
        call.shared.watched.forget(call.session);
        let why = refusal.0.strip_prefix(b"ERR ").unwrap_or(&refusal.0);
        return [b"EXECABORT Transaction discarded because of: ", why].into();
    }
    if let Some(queue) = &mut call.session.queue {
        queue.spoilt = true;
    }
    refusal
}

fn multi(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    if call.session.queue.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    call.session.queue = Some(Queue::default());
    call.reply().ok();
    Ok(())
}

fn discard(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    call.session
        .queue
        .take()
        .ok_or("ERR DISCARD without MULTI")?;
    call.shared.watched.forget(call.session);
    call.reply().ok();
    Ok(())
}

fn exec(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    let queue = call.session.queue.take().ok_or("ERR EXEC without MULTI")?;
    let has_changed = has_changed(call);
    call.shared.watched.forget(call.session);
    if queue.spoilt {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    if has_changed {
        call.reply().null_array();
        return Ok(());
    }
    call.reply().array(queue.len());
    call.session.may_not_block = true;
    for words in queue.commands() {
        let known = find_of(&words).expect("only known commands are queued");
        if let Some(denial) = call.denial(known, &words, "multi") {
            let reason = match denial {
                Denial::Key => "no permission to touch the specified keys",
                Denial::Channel => "no permission to access one of the channels used as arguments",
                Denial::Command | Denial::Login => {
                    "no permission to execute the command or subcommand"
                }
            };
            call.refuse(&format!("NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: {reason}").into());
            continue;
        }
        call.perform(known, &words);
    }
    call.session.may_not_block = false;
    Ok(())
}

fn watch(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    if call.session.queue.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    for key in &words[1..] {
        let watch = Watch {
            database: call.session.database,
            key: key.to_vec(),
            was_there: call.has(key),
        };
        call.shared.watched.add(call.session, watch);
    }
    call.reply().ok();
    Ok(())
}

/// Whether a watched key has changed or expired.
fn has_changed(call: &Call<'_>) -> bool {
    let is_over = |watch: &Watch| {
        let store = &call.shared.databases[watch.database];
        watch.was_there && store.inspect(&watch.key, call.now(), |value| value.is_none())
    };
    call.shared.watched.changed.contains(&call.session.id)
        || call.session.watches.iter().any(is_over)
}

//! Transactions: commands queued between MULTI and EXEC run in one piece. There is one thread, so
//! nothing can come between them. WATCH makes EXEC fail when a key has changed meanwhile.

use loadline_resp::encode;

use super::{ALL, Call, Known, NONE, Refusal, Words, find, known};
use crate::state::Queue;

pub(super) const TABLE: &[Known] = &[
    known("MULTI", 1, false, NONE, multi),
    known("EXEC", 1, false, NONE, exec),
    known("DISCARD", 1, false, NONE, discard),
    known("WATCH", -2, false, ALL, watch),
    known("UNWATCH", 1, false, NONE, |call, _| {
        call.shared.watched.forget(call.session);
        call.simple("OK");
        Ok(())
    }),
];

/// Commands that change their keys also where they answer 0.
const ZERO_IS_A_RESULT: [&str; 9] = [
    "APPEND",
    "DECR",
    "DECRBY",
    "HINCRBY",
    "HSET",
    "INCR",
    "INCRBY",
    "SETRANGE",
    "SINTERSTORE",
];

/// Whether a command is executed inside of MULTI instead of being queued.
pub(super) fn runs_at_once(name: &str) -> bool {
    ["MULTI", "EXEC", "DISCARD", "WATCH", "RESET", "QUIT"].contains(&name)
}

/// Notes the keys that a command has changed, whose reply begins at `reply`. A reply that says that
/// nothing was done is believed.
pub(super) fn note_write(call: &mut Call<'_>, known: &Known, words: Words<'_>, reply: usize) {
    if call.shared.watched.keys.is_empty() {
        return;
    }
    let reply = &call.out[reply..];
    let is_nil = matches!(reply, b"$-1\r\n" | b"_\r\n");
    let is_zero = reply == b":0\r\n" && !ZERO_IS_A_RESULT.contains(&known.name);
    if is_zero || (is_nil && !words.iter().any(|word| super::is(word, "GET"))) {
        return;
    }
    let database = call.session.database;
    let (first, last, step) = known.keys;
    if first == 0 {
        return;
    }
    let end = if last < 0 {
        words.len() as i32 + last
    } else {
        last
    };
    for place in (first..=end).step_by(step.max(1) as usize) {
        if let Some(key) = words.get(place as usize) {
            call.shared.watched.touch(database, key);
        }
    }
}

fn multi(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    if call.session.queue.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    call.session.queue = Some(Queue::default());
    call.simple("OK");
    Ok(())
}

fn discard(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    call.session
        .queue
        .take()
        .ok_or("ERR DISCARD without MULTI")?;
    call.shared.watched.forget(call.session);
    call.simple("OK");
    Ok(())
}

fn exec(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    let queue = call.session.queue.take().ok_or("ERR EXEC without MULTI")?;
    let changed = has_changed(call);
    call.shared.watched.forget(call.session);
    if queue.spoilt {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    if changed {
        let protocol = call.protocol();
        encode::null_array(call.out, protocol);
        return Ok(());
    }
    call.array(queue.commands.len());
    for command in &queue.commands {
        let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        let found = find(words[0]).expect("only known commands are queued");
        call.perform(found, &words);
    }
    Ok(())
}

fn watch(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    if call.session.queue.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    let (id, database) = (call.session.id, call.session.database);
    for key in &words[1..] {
        let is_watched = |(other, watched, _): &(usize, Vec<u8>, bool)| {
            *other == database && watched.as_slice() == *key
        };
        if call.session.watches.iter().any(is_watched) {
            continue;
        }
        let there = call.store().read(key, call.now(), |value| value.is_some());
        call.session.watches.push((database, key.to_vec(), there));
        let watchers = call.shared.watched.keys.entry((database, key.to_vec()));
        watchers.or_default().push(id);
    }
    call.simple("OK");
    Ok(())
}

/// Whether a key that the connection watches has changed, or was there and its time has come.
fn has_changed(call: &Call<'_>) -> bool {
    call.shared.watched.changed.contains(&call.session.id)
        || call.session.watches.iter().any(|(database, key, there)| {
            let store = &call.shared.databases[*database];
            *there && !store.read(key, call.now(), |value| value.is_some())
        })
}

//! MEMORY: the memory of keys and of the server.

use super::numbers::integer;
use super::refusal::{Refusal, SYNTAX, no_such_form};
use super::{Call, Keys, Listed, Words, is, listed, sub};
use crate::memory::give_back;
use crate::state::DATABASES;

pub(super) const TABLE: &[Listed] = &[listed("MEMORY", -2, Keys::At(2, 2, 1), memory).with(&[
    sub("DOCTOR", 2, "\nReturn memory problems reports."),
    sub(
        "MALLOC-STATS",
        2,
        "\nReturn internal statistics report from the memory allocator.",
    ),
    sub(
        "PURGE",
        2,
        "\nAttempt to purge dirty pages for reclamation by the allocator.",
    ),
    sub(
        "STATS",
        2,
        "\nReturn information about the memory usage of the server.",
    ),
    sub(
        "USAGE",
        -3,
        "<key> [SAMPLES <count>]\nReturn memory in bytes used by <key> and its value. All elements are counted.",
    ),
])];

fn memory(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match words {
        [_, word, key, options @ ..] if is(word, "USAGE") => usage(call, key, options)?,
        [_, word] if is(word, "STATS") => stats(call),
        [_, word] if is(word, "DOCTOR") => {
            let text = advice(call);
            call.reply().text(text);
        }
        [_, word] if is(word, "PURGE") => {
            give_back();
            call.reply().ok();
        }
        [_, word] if is(word, "MALLOC-STATS") => {
            call.reply()
                .bulk(b"Stats not supported for the current allocator");
        }
        _ => return Err(no_such_form(words)),
    }
    Ok(())
}

fn usage(call: &mut Call<'_>, key: &[u8], options: &[&[u8]]) -> Result<(), Refusal> {
    match *options {
        [] => {}
        // All elements are counted, so the number of samples has no effect.
        [word, count] if is(word, "SAMPLES") => {
            if integer(count)? < 0 {
                return Err(SYNTAX.into());
            }
        }
        _ => return Err(SYNTAX.into()),
    }
    let bytes = call.store().memory_bytes(key, call.now());
    let mut reply = call.reply();
    match bytes {
        Some(bytes) => reply.count(bytes),
        None => reply.null(),
    }
    Ok(())
}

/// Replies with those figures of Redis that are counted here.
fn stats(call: &mut Call<'_>) {
    let shared = &*call.shared;
    let databases = shared.databases[..DATABASES].iter();
    let keys: usize = databases.map(|database| database.len()).sum();
    let (data, used) = (shared.data_bytes(), shared.used_bytes());
    let log = shared.persistence.as_ref().map(|it| &it.log);
    let figures = [
        ("total.allocated", used),
        ("clients.normal", shared.waiting_output_bytes()),
        ("aof.buffer", log.map_or(0, |log| log.pending_bytes())),
        ("keys.count", keys),
        ("keys.bytes-per-key", data.checked_div(keys).unwrap_or(0)),
        ("dataset.bytes", data),
    ];
    let mut reply = call.reply();
    reply.map(figures.len() + 1);
    for (name, figure) in figures {
        reply.bulk(name.as_bytes());
        reply.count(figure);
    }
    reply.bulk(b"dataset.percentage");
    reply.double(100.0 * data as f64 / used.max(1) as f64);
}

/// A sentence about the memory in use.
fn advice(call: &Call<'_>) -> &'static str {
    let limit = call.shared.settings.maxmemory;
    let (used, output) = (call.shared.used_bytes(), call.shared.waiting_output_bytes());
    if limit > 0 && used as u64 > limit - limit / 10 {
        "More than 90 % of maxmemory are in use.\n"
    } else if output > used / 2 && output > 1 << 20 {
        "Replies and messages that wait for slow clients take more than half of the memory in use.\n"
    } else {
        "No problem with the memory of this server was found.\n"
    }
}

//! Commands for operators: databases, time, shutdown.

use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use loadline_store::Keyspace;

use super::config::config;
use super::info::info;
use super::keys::database;
use super::numbers::small_integer;
use super::refusal::{Refusal, SYNTAX};
use super::{Call, Keys, Listed, Words, is, listed, sub};
use crate::REDIS_VERSION;
use crate::state::{DATABASES, Shared};

pub(super) const TABLE: &[Listed] = &[
    listed("INFO", -1, Keys::None, info),
    listed("CONFIG", -2, Keys::None, config).with(&[
        sub(
            "GET",
            -3,
            "<pattern>\nReturn parameters matching the glob-like <pattern> and their values.",
        ),
        sub(
            "RESETSTAT",
            2,
            "\nReset statistics reported by the INFO command.",
        ),
        sub("REWRITE", 2, "\nRewrite the configuration file."),
        sub(
            "SET",
            -4,
            "<directive> <value>\nSet the configuration <directive> to <value>.",
        ),
    ]),
    listed("FLUSHDB", -1, Keys::None, |call, words| {
        let database = call.session.database;
        flush(call, words, database..database + 1)
    }),
    listed("FLUSHALL", -1, Keys::None, |call, words| {
        let databases = 0..DATABASES;
        flush(call, words, databases)
    }),
    listed("SWAPDB", 3, Keys::None, swap),
    listed("DBSIZE", 1, Keys::None, |call, _| {
        let keys = call.store().len();
        call.reply().count(keys);
        Ok(())
    }),
    listed("TIME", 1, Keys::None, time),
    // There are no replicas.
    listed("ROLE", 1, Keys::None, |call, _| {
        let mut reply = call.reply();
        reply.array(3);
        reply.bulk(b"master");
        reply.integer(0);
        reply.array(0);
        Ok(())
    }),
    listed("LOLWUT", -1, Keys::None, |call, _| {
        // Tests of clients look for this version.
        let text = format!(
            "Loadline {}, as Redis ver. {REDIS_VERSION}\n",
            env!("CARGO_PKG_VERSION")
        );
        call.reply().text(&text);
        Ok(())
    }),
    listed("SHUTDOWN", -1, Keys::None, shutdown),
    listed("SAVE", 1, Keys::None, save),
    listed("BGSAVE", -1, Keys::None, save_later),
    listed("BGREWRITEAOF", 1, Keys::None, rewrite),
    listed("LASTSAVE", 1, Keys::None, |call, _| {
        if let Some(persistence) = &call.shared.persistence {
            let time = persistence.last_save();
            call.reply().count(time as usize);
            return Ok(());
        }
        // Nothing is ever saved, so this is the time of the start, as in Redis.
        let age = call.shared.started.elapsed().as_millis() as u64;
        let started = (call.now() - age.min(call.now())) / 1_000;
        call.reply().count(started as usize);
        Ok(())
    }),
];

/// Empties databases and marks the watched keys among the removed ones.
fn flush(call: &mut Call<'_>, words: Words<'_>, databases: Range<usize>) -> Result<(), Refusal> {
    match words[1..] {
        [] => {}
        [word] if is(word, "ASYNC") || is(word, "SYNC") => {}
        _ => return Err(SYNTAX.into()),
    }
    // Data can have been added since the last sample.
    let bytes = call.shared.data_bytes();
    call.shared.trimmer.note(bytes);
    note_loss(call.shared, databases.clone());
    for index in databases {
        call.shared.watched.changes += call.shared.databases[index].len() as u64;
        call.shared.databases[index].clear();
        if let Some(persistence) = &mut call.shared.persistence {
            persistence.change_all().clear(index);
        }
    }
    call.reply().ok();
    Ok(())
}

/// Marks the watched and tracked keys of databases as changed.
pub(super) fn note_loss(shared: &mut Shared, databases: Range<usize>) {
    let Shared {
        databases: stores,
        watched,
        now,
        ..
    } = shared;
    watched.touch_where(|database, key| {
        databases.contains(&database) && has(&stores[database], key, *now)
    });
    watched.tracking.note_flush();
}

fn has(store: &Keyspace, key: &[u8], now: u64) -> bool {
    store.inspect(key, now, |value| value.is_some())
}

/// Exchanges two databases and marks the watched keys in both.
fn swap(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    // Both must be numbers before the range of either is checked.
    small_integer(words[1]).map_err(|_| "ERR invalid first DB index")?;
    small_integer(words[2]).map_err(|_| "ERR invalid second DB index")?;
    let (one, other) = (database(words[1])?, database(words[2])?);
    let Shared {
        databases: stores,
        watched,
        persistence,
        now,
        ..
    } = &mut *call.shared;
    if one != other {
        watched.touch_where(|database, key| {
            let both = [one, other];
            both.contains(&database) && both.iter().any(|index| has(&stores[*index], key, *now))
        });
        stores.swap(one, other);
        if let Some(persistence) = persistence {
            persistence.change_all().exchange(one, other);
        }
    }
    watched.changes += 1;
    call.reply().ok();
    Ok(())
}

fn time(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(now.as_secs().to_string().as_bytes());
    reply.bulk(now.subsec_micros().to_string().as_bytes());
    Ok(())
}

const IN_MEMORY: &str = "ERR this server holds its data in memory only and cannot save it";

/// Returns when everything that was changed so far has reached the disk.
fn save(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    if call.shared.persistence.is_none() {
        return Err(IN_MEMORY.into());
    }
    call.shared.save()?;
    call.reply().ok();
    Ok(())
}

/// Writes the log anew, without what was overwritten or deleted, while other commands are executed.
fn rewrite(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    let persistence = call.shared.persistence.as_mut().ok_or(IN_MEMORY)?;
    if !persistence.rewrites.begin() {
        return Err("ERR Background append only file rewriting already in progress".into());
    }
    call.reply()
        .simple("Background append only file rewriting started");
    Ok(())
}

/// Lets everything that was changed so far reach the disk while other commands are executed.
fn save_later(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match words[1..] {
        [] => {}
        [word] if is(word, "SCHEDULE") => {}
        _ => return Err(SYNTAX.into()),
    }
    let persistence = call.shared.persistence.as_mut().ok_or(IN_MEMORY)?;
    if !persistence.save_later() {
        return Err("ERR Background save already in progress".into());
    }
    call.reply().simple("Background saving started");
    Ok(())
}

/// Stops the server without a reply, as Redis does. With a directory, everything that was changed reaches the disk,
/// whatever the options say.
fn shutdown(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let options = &words[1..];
    let has = |name| options.iter().any(|word| is(word, name));
    let known = ["NOSAVE", "SAVE", "NOW", "FORCE", "ABORT"];
    let is_known = |word: &&[u8]| known.iter().any(|name| is(word, name));
    let is_only_abort = options.iter().all(|word| is(word, "ABORT"));
    if !options.iter().all(is_known)
        || has("SAVE") && has("NOSAVE")
        || has("ABORT") && !is_only_abort
    {
        return Err(SYNTAX.into());
    }
    if has("ABORT") {
        // The server stops with the command.
        return Err("ERR No shutdown in progress.".into());
    }
    match &call.shared.long_script {
        Some(script) if !has("NOSAVE") => return Err(script.refusal()),
        Some(_) => call.shared.shut_down_in_script(),
        None if has("SAVE") && call.shared.persistence.is_none() => return Err(IN_MEMORY.into()),
        None => call.shared.shutdown = true,
    }
    call.session.closing = true;
    Ok(())
}

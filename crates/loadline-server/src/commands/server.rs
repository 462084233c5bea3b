//! What tools ask a server about itself.

use std::fmt::Write;

use loadline_resp::encode;
use rustix::time::{ClockId, clock_gettime};

use loadline_store::{Bytes, Entry, Store, Value};

use super::{
    Call, Known, NONE, Refusal, SYNTAX, Words, all, find, glob, integer, is, known,
    subcommand_refused,
};
use crate::state::{CallStat, Shared, Stats};

pub(super) const TABLE: &[Known] = &[
    known("INFO", -1, false, NONE, info),
    known("CONFIG", -2, false, NONE, config),
    known("COMMAND", -1, false, NONE, command),
    known("FLUSHDB", -1, true, NONE, |call, words| {
        let database = call.session.database;
        flush(call, words, database..database + 1)
    }),
    known("FLUSHALL", -1, true, NONE, |call, words| {
        let databases = 0..call.shared.databases.len();
        flush(call, words, databases)
    }),
    known("TIME", 1, false, NONE, time),
    known("SHUTDOWN", -1, false, NONE, |call, _| {
        call.shared.shutdown = true;
        call.session.closing = true;
        Ok(())
    }),
    known("MEMORY", -2, false, (2, 2, 1), memory),
    known("ACL", -2, false, NONE, acl),
    known("WAIT", 3, false, NONE, |call, words| {
        integer(words[1])?;
        let patience =
            integer(words[2]).map_err(|_| "ERR timeout is not an integer or out of range")?;
        if patience < 0 {
            return Err("ERR timeout is negative".into());
        }
        // There are no replicas, so none has anything.
        call.integer(0);
        Ok(())
    }),
    known("SLOWLOG", -2, false, NONE, slow_log),
    known("LASTSAVE", 1, false, NONE, |call, _| {
        call.integer(0);
        Ok(())
    }),
];

/// A section of INFO and what fills it.
type Section = (&'static str, fn(&Shared, &mut String));

const SECTIONS: [Section; 9] = [
    ("Server", server_section),
    ("Clients", |shared, out| {
        line(out, "connected_clients", shared.clients);
    }),
    ("Memory", |_, out| {
        line(out, "used_memory", resident_bytes().unwrap_or(0));
        line(out, "used_memory_rss", resident_bytes().unwrap_or(0));
        line(out, "maxmemory", 0);
        line(out, "maxmemory_policy", "noeviction");
    }),
    ("Persistence", |_, out| {
        for name in ["loading", "rdb_bgsave_in_progress", "aof_enabled"] {
            line(out, name, 0);
        }
    }),
    ("Stats", stats_section),
    ("Replication", |_, out| {
        line(out, "role", "master");
        line(out, "connected_slaves", 0);
    }),
    ("CPU", cpu_section),
    ("Commandstats", |shared, out| {
        for (name, stat) in super::names().zip(&shared.stats.calls) {
            if stat.calls == 0 {
                continue;
            }
            let microseconds = stat.total_time().as_secs_f64() * 1e6;
            line(
                out,
                &format!("cmdstat_{}", name.to_ascii_lowercase()),
                format!(
                    "calls={},usec={microseconds:.0},usec_per_call={:.2},rejected_calls=0,failed_calls={}",
                    stat.calls,
                    microseconds / stat.calls as f64,
                    stat.failed
                ),
            );
        }
    }),
    ("Keyspace", |shared, out| {
        for (index, database) in shared
            .databases
            .iter()
            .enumerate()
            .filter(|(_, database)| !database.is_empty())
        {
            line(
                out,
                &format!("db{index}"),
                format!(
                    "keys={},expires={},avg_ttl=0",
                    database.len(),
                    database.expiring()
                ),
            );
        }
    }),
];

fn line(out: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(out, "{name}:{value}\r\n");
}

fn server_section(shared: &Shared, out: &mut String) {
    // Clients decide by this version what they may send.
    line(out, "redis_version", "7.0.15");
    line(out, "loadline_version", env!("CARGO_PKG_VERSION"));
    line(out, "redis_mode", "standalone");
    line(out, "os", std::env::consts::OS);
    line(out, "process_id", std::process::id());
    line(out, "tcp_port", shared.port);
    line(out, "uptime_in_seconds", shared.started.elapsed().as_secs());
    line(out, "maxclients", shared.max_clients);
}

fn stats_section(shared: &Shared, out: &mut String) {
    let stats = &shared.stats;
    for (name, value) in [
        ("total_connections_received", stats.connections),
        ("total_commands_processed", stats.commands),
        ("total_net_input_bytes", stats.bytes_in),
        ("total_net_output_bytes", stats.bytes_out),
        (
            "expired_keys",
            shared.databases.iter().map(Store::expired).sum(),
        ),
        ("evicted_keys", 0),
        ("keyspace_hits", stats.hits),
        ("keyspace_misses", stats.misses),
        ("total_error_replies", stats.errors),
    ] {
        line(out, name, value);
    }
}

/// The CPU time of the process to the nanosecond. How much of it the kernel used is known to a
/// hundredth of a second only (`/proc/self/stat`); the rest is shown as the program's.
fn cpu_section(_: &Shared, out: &mut String) {
    let total = clock_gettime(ClockId::ProcessCPUTime);
    let total = total.tv_sec as f64 + total.tv_nsec as f64 / 1e9;
    let system = system_seconds().unwrap_or(0.0).min(total);
    line(out, "used_cpu_sys", format!("{system:.6}"));
    line(out, "used_cpu_user", format!("{:.6}", total - system));
}

/// The fifteenth field of `/proc/self/stat`, in ticks; the second one may hold spaces, and ends at the
/// last parenthesis.
fn system_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let ticks: f64 = text
        .rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(12)?
        .parse()
        .ok()?;
    Some(ticks / rustix::param::clock_ticks_per_second() as f64)
}

fn info(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let every = words[1..]
        .iter()
        .any(|word| is(word, "all") || is(word, "everything"));
    let usual = words.len() == 1 || words[1..].iter().any(|word| is(word, "default"));
    let mut text = String::new();
    for (name, fill) in SECTIONS {
        let named = words[1..].iter().any(|word| is(word, name));
        if named || every || (usual && name != "Commandstats") {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let _ = write!(text, "# {name}\r\n");
            fill(call.shared, &mut text);
        }
    }
    let protocol = call.protocol();
    encode::verbatim(call.out, *b"txt", text.as_bytes(), protocol);
    Ok(())
}

/// The settings of Redis that tools ask for, as they hold here.
const SETTINGS: [(&str, &str); 5] = [
    ("save", ""),
    ("appendonly", "no"),
    ("maxmemory", "0"),
    ("maxmemory-policy", "noeviction"),
    ("databases", "16"),
];

fn config(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match words {
        [_, word] if is(word, "RESETSTAT") => {
            let stats = &mut call.shared.stats;
            *stats = Stats {
                calls: vec![CallStat::default(); stats.calls.len()],
                ..Stats::default()
            };
            call.simple("OK");
            return Ok(());
        }
        [_, word, pairs @ ..] if is(word, "SET") && !pairs.is_empty() => {
            return set_config(call, pairs);
        }
        [_, word, _, ..] if is(word, "GET") => {}
        _ => return Err(subcommand_refused(words, &["GET", "SET", "RESETSTAT"])),
    }
    let asked = |name: &str| {
        words[2..]
            .iter()
            .any(|pattern| glob(&pattern.to_ascii_lowercase(), name.as_bytes()))
    };
    let found: Vec<_> = SETTINGS
        .into_iter()
        .filter(|(name, _)| asked(name))
        .collect();
    call.map(found.len());
    for (name, value) in found {
        call.bulk(name.as_bytes());
        call.bulk(value.as_bytes());
    }
    Ok(())
}

/// Nothing can be set to anything but what it is, since nothing else would be true.
fn set_config(call: &mut Call<'_>, pairs: &[&[u8]]) -> Result<(), Refusal> {
    if !pairs.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'config|set' command".into());
    }
    for pair in pairs.chunks_exact(2) {
        let name = String::from_utf8_lossy(pair[0]).to_lowercase();
        match SETTINGS.into_iter().find(|(known, _)| *known == name) {
            Some((_, value)) if value.as_bytes() == pair[1] => {}
            Some((_, value)) => {
                return Err(Refusal(format!(
                    "ERR CONFIG SET failed (possibly related to argument '{name}') - it is always '{value}' here"
                )));
            }
            None => {
                return Err(Refusal(format!(
                    "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
                )));
            }
        }
    }
    call.simple("OK");
    Ok(())
}

/// Memory of this process that is in RAM, in bytes.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// MEMORY USAGE: the bytes of key and value, and what a table needs for each of its entries.
fn memory(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    const ENTRY: usize = size_of::<Entry>() + size_of::<Bytes>();
    let [_, word, key, options @ ..] = words else {
        return Err(subcommand_refused(words, &["USAGE"]));
    };
    if !is(word, "USAGE") {
        return Err(subcommand_refused(words, &["USAGE"]));
    }
    match options {
        [] => {}
        [word, count] if is(word, "SAMPLES") => {
            integer(count)?;
        }
        _ => return Err(SYNTAX.into()),
    }
    let bytes = call.store().read(key, call.now(), |value| {
        let held = match value? {
            Value::String(bytes) => bytes.capacity(),
            Value::Set(members) => members
                .iter()
                .map(|member| member.len() + size_of::<Bytes>())
                .sum(),
            Value::Hash(fields) => fields
                .iter()
                .map(|(field, value)| field.len() + value.len() + 2 * size_of::<Bytes>())
                .sum(),
        };
        Some(ENTRY + key.len() + held)
    });
    match bytes {
        Some(bytes) => call.count(bytes),
        None => call.null(),
    }
    Ok(())
}

fn acl(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match words {
        [_, word] if is(word, "WHOAMI") => {
            call.bulk(b"default");
            Ok(())
        }
        _ => Err(subcommand_refused(words, &["WHOAMI"])),
    }
}

/// No command is kept as slow.
fn slow_log(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match words {
        [_, word] if is(word, "LEN") => call.integer(0),
        [_, word] if is(word, "RESET") => call.simple("OK"),
        [_, word] if is(word, "GET") => call.array(0),
        [_, word, count] if is(word, "GET") => {
            integer(count)?;
            call.array(0);
        }
        _ => return Err(subcommand_refused(words, &["GET", "LEN", "RESET"])),
    }
    Ok(())
}

fn command(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match words[1..] {
        [] => {
            call.array(all().count());
            all().for_each(|known| describe(call, known));
        }
        [word] if is(word, "COUNT") => call.count(all().count()),
        [word, ref names @ ..] if is(word, "INFO") => {
            call.array(names.len());
            for name in names {
                match find(name) {
                    Some(found) => describe(call, found.known),
                    None => {
                        let protocol = call.protocol();
                        encode::null_array(call.out, protocol);
                    }
                }
            }
        }
        // redis-cli asks for hints at its prompt and goes on without them.
        [word, ..] if is(word, "DOCS") => call.map(0),
        [word, ..] => {
            let word = String::from_utf8_lossy(word).into_owned();
            return Err(Refusal(format!(
                "ERR unknown subcommand '{word}'. Try COMMAND HELP."
            )));
        }
    }
    Ok(())
}

fn describe(call: &mut Call<'_>, known: &Known) {
    call.array(6);
    call.bulk(known.name.to_ascii_lowercase().as_bytes());
    call.integer(i64::from(known.arity));
    let protocol = call.protocol();
    encode::set_header(call.out, 1, protocol);
    call.simple(if known.writes { "write" } else { "readonly" });
    for position in [known.keys.0, known.keys.1, known.keys.2] {
        call.integer(i64::from(position));
    }
}

/// Empties databases; who watches a key that was there learns of it.
fn flush(
    call: &mut Call<'_>,
    words: Words<'_>,
    databases: std::ops::Range<usize>,
) -> Result<(), Refusal> {
    match words[1..] {
        [] => {}
        [word] if is(word, "ASYNC") || is(word, "SYNC") => {}
        _ => return Err(SYNTAX.into()),
    }
    let now = call.now();
    let Shared {
        databases: stores,
        watched,
        ..
    } = &mut *call.shared;
    for ((database, key), watchers) in &watched.keys {
        let there = stores[*database].read(key, now, |value| value.is_some());
        if databases.contains(database) && there {
            watched.changed.extend(watchers);
        }
    }
    stores[databases]
        .iter()
        .for_each(loadline_store::Store::clear);
    call.simple("OK");
    Ok(())
}

fn time(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    let now = call.now();
    call.array(2);
    call.bulk((now / 1_000).to_string().as_bytes());
    call.bulk((now % 1_000 * 1_000).to_string().as_bytes());
    Ok(())
}

//! What tools ask a server about itself.

use std::fmt::Write;

use loadline_resp::encode;
use rustix::time::{ClockId, clock_gettime};

use super::{Call, Known, NONE, Refusal, Words, all, find, glob, is, known};
use crate::state::Shared;

pub(super) const TABLE: &[Known] = &[
    known("INFO", -1, false, NONE, info),
    known("CONFIG", -2, false, NONE, config),
    known("COMMAND", -1, false, NONE, command),
    known("FLUSHDB", -1, true, NONE, |call, _| {
        call.store().clear();
        call.simple("OK");
        Ok(())
    }),
    known("FLUSHALL", -1, true, NONE, |call, _| {
        call.shared
            .databases
            .iter()
            .for_each(loadline_store::Store::clear);
        call.simple("OK");
        Ok(())
    }),
    known("TIME", 1, false, NONE, time),
];

/// A section of INFO and what fills it.
type Section = (&'static str, fn(&Shared, &mut String));

const SECTIONS: [Section; 7] = [
    ("Server", server_section),
    ("Clients", |shared, out| {
        line(out, "connected_clients", shared.clients);
    }),
    ("Persistence", |_, out| {
        for name in ["loading", "rdb_bgsave_in_progress", "aof_enabled"] {
            line(out, name, 0);
        }
    }),
    ("Stats", stats_section),
    ("CPU", cpu_section),
    ("Commandstats", |shared, out| {
        for (name, calls) in &shared.stats.calls {
            line(
                out,
                &format!("cmdstat_{}", name.to_ascii_lowercase()),
                format!("calls={calls},rejected_calls=0"),
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
        ("expired_keys", stats.expired),
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
    if !is(words[1], "GET") || words.len() < 3 {
        let word = String::from_utf8_lossy(words[1]).into_owned();
        return Err(Refusal(format!(
            "ERR unknown subcommand or wrong number of arguments for '{word}'. Try CONFIG HELP."
        )));
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
                    Some(known) => describe(call, known),
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

fn time(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    let now = call.now();
    call.array(2);
    call.bulk((now / 1_000).to_string().as_bytes());
    call.bulk((now % 1_000 * 1_000).to_string().as_bytes());
    Ok(())
}

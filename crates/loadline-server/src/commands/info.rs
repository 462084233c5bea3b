//! INFO: the server's state, in the format of Redis.

use std::fmt::{Display, Write};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::refusal::Refusal;
use super::scripts::{Usage, functions};
use super::{Call, Words, is, places};
use crate::REDIS_VERSION;
use crate::pubsub::Kind;
use crate::state::{DATABASES, Shared};

/// A section: its name, its writer, and whether it is part of the default output.
type Section = (&'static str, fn(&Shared, &mut String), Shown);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Always,
    WhereAsked,
}

const SECTIONS: [Section; 11] = [
    ("Server", server, Shown::Always),
    ("Clients", clients, Shown::Always),
    ("Memory", memory, Shown::Always),
    ("Persistence", persistence, Shown::Always),
    ("Stats", stats, Shown::Always),
    ("Replication", replication, Shown::Always),
    ("CPU", cpu, Shown::Always),
    ("Commandstats", command_stats, Shown::WhereAsked),
    ("Errorstats", error_stats, Shown::Always),
    (
        "Cluster",
        |_, out| line(out, "cluster_enabled", 0),
        Shown::Always,
    ),
    ("Keyspace", keyspace, Shown::Always),
];

pub(super) fn info(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let is_named = |names: &[&str]| {
        words[1..]
            .iter()
            .any(|word| names.iter().any(|name| is(word, name)))
    };
    functions::load_kept(call);
    let every = is_named(&["all", "everything"]);
    let usual = words.len() == 1 || is_named(&["default"]);
    let mut text = String::new();
    for (name, fill, shown) in SECTIONS {
        if every || is_named(&[name]) || (usual && shown == Shown::Always) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let _ = write!(text, "# {name}\r\n");
            fill(call.shared, &mut text);
        }
    }
    call.reply().text(&text);
    Ok(())
}

fn line(out: &mut String, name: &str, value: impl Display) {
    let _ = write!(out, "{name}:{value}\r\n");
}

fn server(shared: &Shared, out: &mut String) {
    let uptime = shared.started.elapsed().as_secs();
    line(out, "redis_version", REDIS_VERSION);
    line(out, "loadline_version", env!("CARGO_PKG_VERSION"));
    line(out, "redis_mode", "standalone");
    line(out, "os", std::env::consts::OS);
    line(out, "arch_bits", usize::BITS);
    line(out, "multiplexing_api", "epoll");
    line(out, "process_id", std::process::id());
    line(out, "run_id", &shared.run_id);
    line(out, "tcp_port", shared.port);
    line(out, "server_time_usec", shared.now * 1_000);
    line(out, "uptime_in_seconds", uptime);
    line(out, "uptime_in_days", uptime / 86_400);
}

fn clients(shared: &Shared, out: &mut String) {
    line(out, "connected_clients", shared.clients);
    line(out, "cluster_connections", 0);
    line(out, "maxclients", shared.max_clients);
    let [(name, count), ..] = shared.watched.tracking.counts();
    line(out, name, count);
    line(out, "blocked_clients", shared.blocked());
}

/// The memory used is the size of the data (keys, values and their tables, without the allocator's overhead) and of output
/// that waits for clients.
fn memory(shared: &Shared, out: &mut String) {
    let used = shared.used_bytes() as u64;
    let resident = resident_bytes().unwrap_or(0);
    let most = shared.settings.maxmemory;
    for (name, bytes) in [
        ("used_memory", used),
        ("used_memory_rss", resident),
        ("maxmemory", most),
    ] {
        line(out, name, bytes);
        line(out, &format!("{name}_human"), human(bytes));
    }
    scripts(&Usage::of(shared), out);
    // Everything that is counted is.
    line(out, "mem_not_counted_for_evict", 0);
    line(out, "mem_clients_normal", shared.waiting_output_bytes());
    line(out, "maxmemory_policy", shared.settings.eviction.name());
    line(out, "mem_allocator", "libc");
    line(out, "lazyfree_pending_objects", 0);
}

fn scripts(usage: &Usage, out: &mut String) {
    let in_eval = usage.script_bytes;
    let total = in_eval + usage.function_bytes;
    line(out, "used_memory_lua", in_eval);
    line(out, "used_memory_vm_eval", in_eval);
    line(out, "used_memory_lua_human", human(in_eval as u64));
    line(out, "number_of_cached_scripts", usage.scripts);
    line(out, "number_of_functions", usage.functions);
    line(out, "number_of_libraries", usage.libraries);
    line(out, "used_memory_vm_functions", usage.function_bytes);
    line(out, "used_memory_vm_total", total);
    line(out, "used_memory_vm_total_human", human(total as u64));
}

/// Bytes in the human-readable format of Redis.
fn human(bytes: u64) -> String {
    let units = [(1_u64 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let unit = units.into_iter().find(|(size, _)| bytes >= *size);
    unit.map_or_else(
        || format!("{bytes}B"),
        |(size, letter)| format!("{:.2}{letter}", bytes as f64 / size as f64),
    )
}

/// The resident memory of this process in bytes, from the file that counts in kibibytes: under valgrind the
/// page size is unknown.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1_024)
}

/// In the words of Redis, as far as they fit a log that is reclaimed all the time. A save makes everything so far durable.
fn persistence(shared: &Shared, out: &mut String) {
    line(out, "loading", 0);
    let changes = shared.watched.changes;
    let Some(persistence) = &shared.persistence else {
        line(out, "rdb_changes_since_last_save", changes);
        line(out, "rdb_bgsave_in_progress", 0);
        line(out, "aof_enabled", 0);
        return;
    };
    let stats = shared.log_stats();
    let status = |is_ok| if is_ok { "ok" } else { "err" };
    let unsaved = persistence.unsaved(changes);
    let is_saving = u8::from(persistence.is_saving());
    line(out, "rdb_changes_since_last_save", unsaved);
    line(out, "rdb_bgsave_in_progress", is_saving);
    line(out, "rdb_last_save_time", persistence.last_save());
    let last_save = status(persistence.last_save_succeeded());
    line(out, "rdb_last_bgsave_status", last_save);
    line(out, "aof_enabled", 1);
    let rewrites = &persistence.rewrites;
    let seconds = |time: Option<Duration>| time.map_or(-1, |time| time.as_secs() as i64);
    let is_rewriting = u8::from(rewrites.is_under_way());
    line(out, "aof_rewrite_in_progress", is_rewriting);
    line(out, "aof_rewrites", rewrites.done());
    let last_rewrite = seconds(rewrites.last());
    line(out, "aof_last_rewrite_time_sec", last_rewrite);
    let current_rewrite = seconds(rewrites.current());
    line(out, "aof_current_rewrite_time_sec", current_rewrite);
    let last_rewrite = status(rewrites.last_succeeded());
    line(out, "aof_last_bgrewrite_status", last_rewrite);
    let last_write = status(persistence.writes());
    line(out, "aof_last_write_status", last_write);
    line(out, "aof_current_size", stats.disk_bytes);
    line(out, "aof_buffer_length", persistence.log.pending_bytes());
    let is_syncing = u8::from(persistence.is_syncing());
    line(out, "aof_pending_bio_fsync", is_syncing);
    line(out, "log_durability", persistence.durability());
    line(out, "log_live_bytes", stats.live_bytes);
    line(out, "log_files", stats.segments);
    line(out, "log_unsynced_bytes", stats.unsynced_bytes);
    let torn = persistence.log.torn();
    line(out, "log_torn_bytes", torn.map_or(0, |torn| torn.bytes));
}

fn stats(shared: &Shared, out: &mut String) {
    let stats = &shared.stats;
    line(out, "total_connections_received", stats.connections);
    line(out, "total_commands_processed", stats.commands);
    let commands = stats.commands_rate.per_second();
    line(out, "instantaneous_ops_per_sec", format!("{commands:.0}"));
    line(out, "total_net_input_bytes", stats.bytes_in);
    line(out, "total_net_output_bytes", stats.bytes_out);
    for (name, rate) in [
        ("instantaneous_input_kbps", &stats.input_rate),
        ("instantaneous_output_kbps", &stats.output_rate),
    ] {
        line(out, name, format!("{:.2}", rate.per_second() / 1_024.0));
    }
    line(out, "rejected_connections", stats.rejected_connections);
    let (expired, evicted) = (shared.expired(), shared.evicted());
    line(out, "expired_keys", expired - stats.gone_before.expired);
    line(out, "evicted_keys", evicted - stats.gone_before.evicted);
    line(out, "evicted_clients", stats.evicted_clients);
    line(out, "keyspace_hits", stats.hits);
    line(out, "keyspace_misses", stats.misses);
    for (name, kind) in [
        ("pubsub_channels", Kind::Channel),
        ("pubsub_patterns", Kind::Pattern),
        ("pubsubshard_channels", Kind::Shard),
    ] {
        line(out, name, shared.pubsub.names(kind).len());
    }
    for (name, count) in &shared.watched.tracking.counts()[1..] {
        line(out, name, count);
    }
    line(
        out,
        "total_error_replies",
        stats.errors.values().sum::<u64>(),
    );
}

fn replication(shared: &Shared, out: &mut String) {
    line(out, "role", "master");
    line(out, "connected_slaves", 0);
    if shared.settings.min_replicas_to_write > 0 {
        line(out, "min_slaves_good_slaves", 0);
    }
    line(out, "master_failover_state", "no-failover");
    line(out, "master_replid", &shared.run_id);
    line(out, "master_repl_offset", 0);
}

/// The CPU time of the process, in microseconds. It uses a system call, because reading it through the vDSO
/// fails under valgrind.
fn cpu(_: &Shared, out: &mut String) {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return;
    };
    let mut part = |name, time: TimeVal| {
        line(
            out,
            name,
            format!("{}.{:06}", time.tv_sec(), time.tv_usec()),
        );
    };
    part("used_cpu_sys", usage.system_time());
    part("used_cpu_user", usage.user_time());
}

/// Calls are counted exactly; their time is estimated from the timed ones.
fn command_stats(shared: &Shared, out: &mut String) {
    for (name, stat) in places().iter().zip(&shared.stats.calls) {
        if stat.calls + stat.rejected == 0 {
            continue;
        }
        let microseconds = stat.total_time().as_secs_f64() * 1e6;
        let per_call = microseconds / stat.calls.max(1) as f64;
        line(
            out,
            &format!("cmdstat_{name}"),
            format!(
                "calls={},usec={microseconds:.0},usec_per_call={per_call:.2},rejected_calls={},failed_calls={}",
                stat.calls, stat.rejected, stat.failed
            ),
        );
    }
}

fn error_stats(shared: &Shared, out: &mut String) {
    for (kind, count) in &shared.stats.errors {
        line(out, &format!("errorstat_{kind}"), format!("count={count}"));
    }
}

fn keyspace(shared: &Shared, out: &mut String) {
    for (index, database) in shared.databases.iter().take(DATABASES).enumerate() {
        let keys = database.len();
        if keys > 0 {
            let expires = database.expiring();
            let shown = format!("keys={keys},expires={expires},avg_ttl=0");
            line(out, &format!("db{index}"), shown);
        }
    }
}

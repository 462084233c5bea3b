//! Activity at a target in addition to the load: background work of the server, and other clients.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use loadline_measure::doctor::{Observed, Throttled};

use super::admin::Info;
use super::cgroup;
use super::counters::process;
use super::network::Traffic;
use super::opened::{Access, Opened};
use crate::spelling::{Durability, Target};

/// Settings that make a server write to disk, each with the value that turns it off.
pub(crate) const PERSISTENCE: [(&str, &str); 2] = [("save", ""), ("appendonly", "no")];

/// Commands that the lab itself sends in addition to the load: to greet, examine and clean up a server.
const OURS: [&str; 12] = [
    "auth", "client", "command", "config", "dbsize", "hello", "info", "ping", "scan", "select",
    "unlink", "slowlog",
];

/// The state of the target before the blocks of a case.
#[derive(Debug)]
pub(crate) struct Watch {
    since: Instant,
    stats: Info,
    throttled: Option<Throttled>,
    /// The same of this process.
    own_throttled: Option<Throttled>,
    traffic: Traffic,
}

impl Opened {
    /// Reads the state of the target before the blocks of a case. Facts that it does not report stay unknown.
    pub(crate) fn watch(&mut self) -> Watch {
        Watch {
            since: Instant::now(),
            stats: self.counts(),
            throttled: self.throttled(),
            own_throttled: own_throttled(),
            traffic: Traffic::on_the_way_to(&self.nodes()),
        }
    }

    /// The number of times that the CPU quota of the server's control group stopped it so far, if it runs on this
    /// machine.
    fn throttled(&self) -> Option<Throttled> {
        let server = self.access.as_server()?;
        let is_local = server.endpoint.server().is_local();
        let process = is_local.then(|| process(&server.info)).flatten();
        process.and_then(cgroup::throttled)
    }

    /// The target's counters; empty if it does not report them.
    fn counts(&mut self) -> Info {
        let Access::Server(server) = &mut self.access else {
            return Info::default();
        };
        let counts = server.admin.info(&["stats", "commandstats"]);
        counts.unwrap_or_default()
    }

    /// The activity since `watch`, for the doctor; the load consisted of the commands `declared`.
    pub(crate) fn seen_since(&mut self, watch: &Watch, declared: &[String]) -> Observed {
        let is_ours = self.target.is_ours();
        let stats = self.counts();
        let throttled = cgroup::between(watch.throttled, self.throttled());
        let own = Observed {
            generator_throttled: cgroup::between(watch.own_throttled, own_throttled()),
            network: watch.traffic.since(),
            ..Observed::default()
        };
        let persistence = PERSISTENCE
            .iter()
            .filter_map(|(name, off)| persistence_of(name, off, self.setting(name)));
        let persistence: Vec<String> = persistence.collect();
        // Writing to disk is part of what is measured if the case has a class of durability.
        let persistence = match &self.target {
            Target::Engine(engine) if engine.durability != Durability::Memory => Vec::new(),
            _ => persistence,
        };
        let Access::Server(server) = &mut self.access else {
            return Observed { persistence, ..own };
        };
        Observed {
            persistence,
            undeclared: undeclared(&watch.stats, &stats, declared),
            server_throttled: throttled,
            evicted_keys: stats
                .number("evicted_keys")
                .zip(watch.stats.number("evicted_keys"))
                .map(|(after, before)| after.saturating_sub(before)),
            swapped_bytes: server
                .endpoint
                .server()
                .is_local()
                .then(|| swapped_bytes(&server.info))
                .flatten(),
            // No other client knows the port of a server that this run started.
            other_clients: (!is_ours)
                .then(|| {
                    server
                        .admin
                        .other_clients(watch.since.elapsed())
                        .ok()
                        .flatten()
                })
                .flatten(),
            ..own
        }
    }
}

/// The number of times that the CPU quota of this process' control group stopped it so far.
fn own_throttled() -> Option<Throttled> {
    cgroup::throttled(std::process::id().into())
}

/// The setting `name` with its `value`, unless that is `off`.
pub(crate) fn persistence_of(name: &str, off: &str, value: Option<String>) -> Option<String> {
    let value = value.filter(|value| value != off)?;
    Some(format!("{name} {value}"))
}

/// Commands that the server executed between two readings and that are neither `declared` nor our own, the most
/// frequent first. A subcommand counts as its command: `config|get` as `config`.
fn undeclared(before: &Info, after: &Info, declared: &[String]) -> Vec<(String, u64)> {
    // The commands that a script calls are counted too and cannot be distinguished from others.
    let is_script = |name: &String| {
        let name = name.to_ascii_uppercase();
        name.starts_with("EVAL") || name.starts_with("FCALL")
    };
    if declared.iter().any(is_script) {
        return Vec::new();
    }
    let calls_before: BTreeMap<&str, u64> = before
        .commands()
        .map(|(name, stat)| (name, stat.calls))
        .collect();
    let mut grown: Vec<(String, u64)> = after
        .commands()
        .filter_map(|(name, stat)| {
            let command = name.split('|').next().unwrap_or(name);
            let known = OURS.contains(&command)
                || declared.iter().any(|one| one.eq_ignore_ascii_case(command));
            let calls = stat
                .calls
                .saturating_sub(calls_before.get(name).copied().unwrap_or(0));
            (!known && calls > 0).then(|| (name.to_owned(), calls))
        })
        .collect();
    grown.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
    grown
}

/// Memory of the server on this host that is swapped out.
pub(crate) fn swapped_bytes(info: &Info) -> Option<u64> {
    let pid = process(info)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let swapped = status
        .lines()
        .find_map(|line| line.strip_prefix("VmSwap:"))?;
    let kibibytes: u64 = swapped.trim_start().split(' ').next()?.parse().ok()?;
    Some(kibibytes * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undeclared_commands_are_counted_without_our_own() {
        let before = Info::parse(b"cmdstat_get:calls=5,usec=1\r\ncmdstat_set:calls=7,usec=1\r\n");
        let after = Info::parse(
            b"cmdstat_get:calls=900,usec=1\r\ncmdstat_set:calls=9,usec=1\r\ncmdstat_config|get:calls=4,usec=1\r\n\
              cmdstat_xgroup|create:calls=3,usec=1\r\ncmdstat_del:calls=40,usec=1\r\ncmdstat_info:calls=2,usec=1\r\n",
        );
        assert_eq!(
            undeclared(&before, &after, &["GET".to_owned()]),
            [
                ("del".to_owned(), 40),
                ("xgroup|create".to_owned(), 3),
                ("set".to_owned(), 2)
            ]
        );
        assert_eq!(undeclared(&after, &after, &[]), []);
        assert_eq!(undeclared(&before, &after, &["EVALSHA".to_owned()]), []);
    }
}

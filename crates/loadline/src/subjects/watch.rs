//! What goes on at a target beside the load: what else the server does, and who else uses it.

use std::fs;
use std::time::{Duration, Instant};

use loadline_measure::doctor::Evidence;

use super::{Access, Opened};
use crate::admin::Info;

/// Settings that make a server write to disk, each with the value that does not.
const PERSISTENCE: [(&str, &str); 2] = [("save", ""), ("appendonly", "no")];

/// A look at the target before the blocks of a case.
#[derive(Debug)]
pub(crate) struct Watch {
    since: Instant,
    evicted_keys: Option<u64>,
}

impl Opened {
    /// Looks at the target before the blocks of a case. What it does not tell stays unknown.
    pub(crate) fn watch(&mut self) -> Watch {
        let since = Instant::now();
        let Access::Server(server) = &mut self.access else {
            return Watch {
                since,
                evicted_keys: None,
            };
        };
        let stats = server.admin.info(&["stats"]).unwrap_or_default();
        Watch {
            since,
            evicted_keys: stats.number("evicted_keys"),
        }
    }

    /// What went on since `watch`, for the doctor.
    pub(crate) fn seen_since(&mut self, watch: &Watch) -> Evidence {
        let is_ours = self.target.is_ours();
        let Access::Server(server) = &mut self.access else {
            return Evidence::default();
        };
        let stats = server.admin.info(&["stats"]).unwrap_or_default();
        let persistence = PERSISTENCE.iter().filter_map(|(name, off)| {
            let value = server.admin.setting(name).ok().flatten()?;
            (value != *off).then(|| format!("{name} {value}"))
        });
        Evidence {
            persistence: persistence.collect(),
            evicted_keys: stats
                .number("evicted_keys")
                .zip(watch.evicted_keys)
                .map(|(after, before)| after.saturating_sub(before)),
            swapped_bytes: server
                .endpoint
                .server()
                .is_local()
                .then(|| swapped_bytes(&server.info))
                .flatten(),
            // Nobody else knows the port of a server that this run started.
            other_clients: (!is_ours)
                .then(|| {
                    server
                        .admin
                        .other_clients(watch.since.elapsed())
                        .ok()
                        .flatten()
                })
                .flatten(),
            ..Evidence::default()
        }
    }
}

/// Memory of the server on this host that is swapped out. A server in a container may name a process
/// that is somebody else here, so its name is looked at.
fn swapped_bytes(info: &Info) -> Option<u64> {
    let pid = info.number("process_id")?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_start_matches(':').trim())
    };
    let is_server = ["redis", "valkey", "loadline"]
        .iter()
        .any(|part| field("Name").is_some_and(|name| name.contains(part)));
    let kibibytes: u64 = field("VmSwap")?.split(' ').next()?.parse().ok()?;
    is_server.then_some(kibibytes * 1_024)
}

/// Clients in the text of CLIENT LIST that are not this program's and did something within the last
/// `within`.
pub(crate) fn active_others(list: &str, within: Duration) -> u64 {
    let field = |line: &str, name: &str| -> Option<String> {
        let pair = line.split(' ').find_map(|pair| pair.strip_prefix(name))?;
        pair.strip_prefix('=').map(ToOwned::to_owned)
    };
    let is_active_other = |line: &&str| {
        let idle = field(line, "idle").and_then(|seconds| seconds.parse::<u64>().ok());
        let name = field(line, "name").unwrap_or_default();
        // A replica and its master talk all the time, and belong together.
        let flags = field(line, "flags").unwrap_or_default();
        name != crate::connect::CLIENT_NAME
            && !flags.contains(['S', 'M'])
            && idle.is_some_and(|seconds| seconds <= within.as_secs())
    };
    list.lines().filter(is_active_other).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_that_do_something_are_counted() {
        let list = "id=3 addr=127.0.0.1:1 name=loadline idle=0 flags=N cmd=get\n\
                    id=4 addr=127.0.0.1:2 name=shop idle=1 flags=N cmd=get\n\
                    id=5 addr=127.0.0.1:3 name= idle=0 flags=S cmd=replconf\n\
                    id=6 addr=127.0.0.1:4 name= idle=400 flags=N cmd=ping\n\
                    nonsense\n";
        assert_eq!(active_others(list, Duration::from_millis(2_500)), 1);
        assert_eq!(active_others("", Duration::from_secs(1)), 0);
    }
}

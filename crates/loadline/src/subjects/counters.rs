//! What a server counts itself, read before and after a block.

use std::fs;
use std::time::Duration;

use loadline_load::outcome::TargetCost;

use crate::admin::Info;

/// Sections of INFO that a block is judged by.
pub(crate) const SECTIONS: [&str; 3] = ["cpu", "stats", "commandstats"];

/// A reading of the server's own counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    cpu: Option<Duration>,
    run_wait: Option<Duration>,
    commands: u64,
    execution: Option<Duration>,
    connections: Option<u64>,
}

impl Counters {
    /// Reads the counters of the commands `declared` (lower case) out of INFO.
    pub(crate) fn read(info: &Info, declared: &[String]) -> Self {
        let (mut commands, mut execution) = (0, Some(Duration::ZERO));
        for (name, stat) in info.commands() {
            if declared.iter().any(|one| one == name) {
                commands += stat.calls;
                execution = execution.zip(stat.time).map(|(sum, time)| sum + time);
            }
        }
        Self {
            cpu: info.cpu(),
            run_wait: None,
            commands,
            execution,
            connections: info.number("total_connections_received"),
        }
    }

    /// The same with what the kernel counts of the server's process, where that is known.
    pub(crate) fn and_waits_of(self, process: Option<u64>) -> Self {
        Self {
            run_wait: process.and_then(run_wait),
            ..self
        }
    }

    /// What was counted since `before`.
    pub(crate) fn since(&self, before: &Self) -> TargetCost {
        TargetCost {
            cpu: self
                .cpu
                .zip(before.cpu)
                .map(|(after, before)| after.saturating_sub(before)),
            run_wait: self
                .run_wait
                .zip(before.run_wait)
                .map(|(after, before)| after.saturating_sub(before)),
            commands: Some(self.commands.saturating_sub(before.commands)),
            execution: self
                .execution
                .zip(before.execution)
                .map(|(after, before)| after.saturating_sub(before)),
            connections: self
                .connections
                .zip(before.connections)
                .map(|(after, before)| after.saturating_sub(before)),
        }
    }
}

/// The process of the server that INFO is of, where it is on this host. A server in a container may
/// name a process that is somebody else here, so its name is looked at.
pub(crate) fn process(info: &Info) -> Option<u64> {
    let pid = info.number("process_id")?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let is_server = ["redis", "valkey", "loadline"]
        .iter()
        .any(|part| name.contains(part));
    is_server.then_some(pid)
}

/// How long the threads of a process were runnable and waited for a CPU, together (schedstat).
fn run_wait(pid: u64) -> Option<Duration> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let waited = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').nth(1)?.parse::<u64>().ok()
    });
    Some(Duration::from_nanos(waited.sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_believed_only_where_its_name_is_a_servers() {
        let of = |pid: u32| process(&Info::parse(format!("process_id:{pid}\r\n").as_bytes()));
        assert_eq!(of(1), None);
        assert_eq!(of(u32::MAX), None);
        // This test runs in a program whose name begins with `loadline`.
        let own = std::process::id();
        assert_eq!(of(own), Some(u64::from(own)));
        assert!(run_wait(u64::from(own)).is_some());
        assert_eq!(run_wait(u64::MAX), None);
    }
}

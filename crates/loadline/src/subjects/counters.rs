//! What a server counts itself, read before and after a block.

use std::time::Duration;

use loadline_load::outcome::TargetCost;

use crate::admin::Info;

/// Sections of INFO that a block is judged by.
pub(crate) const SECTIONS: [&str; 3] = ["cpu", "stats", "commandstats"];

/// A reading of the server's own counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    cpu: Option<Duration>,
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
            commands,
            execution,
            connections: info.number("total_connections_received"),
        }
    }

    /// What was counted since `before`.
    pub(crate) fn since(&self, before: &Self) -> TargetCost {
        TargetCost {
            cpu: self
                .cpu
                .zip(before.cpu)
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

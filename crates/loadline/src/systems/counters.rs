//! A server's own counters, read before and after a block.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use loadline_load::cost::TargetCost;

use super::admin::Info;

/// Sections of INFO that are compared for a block.
pub(crate) const SECTIONS: [&str; 3] = ["cpu", "stats", "commandstats"];

/// A reading of the server's own counters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    cpu: Option<Duration>,
    run_waits: Option<RunWaits>,
    /// `None` if the server has no INFO commandstats or refuses it.
    commands: Option<u64>,
    execution: Option<Duration>,
    connections: Option<u64>,
}

/// Nanoseconds that each thread of a process was runnable and waited for a CPU, by thread id.
type RunWaits = BTreeMap<u64, u64>;

impl Counters {
    /// Reads the counters of the commands `declared` (lower case) out of INFO.
    pub(crate) fn read(info: &Info, declared: &[String]) -> Self {
        let (mut commands, mut execution) = (0, Some(Duration::ZERO));
        let is_told = info.commands().next().is_some();
        for (name, stat) in info.commands() {
            if declared.iter().any(|one| one == name) {
                commands += stat.calls;
                execution = execution.zip(stat.time).map(|(sum, time)| sum + time);
            }
        }
        Self {
            cpu: info.cpu(),
            run_waits: None,
            commands: is_told.then_some(commands),
            execution: execution.filter(|_| is_told),
            connections: info.number("total_connections_received"),
        }
    }

    /// Adds the kernel's counters of the server's process, if it is known.
    pub(crate) fn and_waits_of(self, process: Option<u64>) -> Self {
        Self {
            run_waits: process.and_then(run_waits),
            ..self
        }
    }

    /// The difference to `before`.
    pub(crate) fn since(&self, before: &Self) -> TargetCost {
        let cpu = self.cpu.zip(before.cpu);
        let cpu = cpu.map(|(after, before)| after.saturating_sub(before));
        TargetCost {
            cpu,
            busiest: cpu,
            run_wait: self
                .run_waits
                .as_ref()
                .zip(before.run_waits.as_ref())
                .map(|(after, before)| longest_wait(after, before)),
            commands: self
                .commands
                .zip(before.commands)
                .map(|(after, before)| after.saturating_sub(before)),
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

/// The sum of what two servers counted in one block; a figure that one of them does not report is unknown for
/// both.
pub(crate) fn together(one: TargetCost, other: TargetCost) -> TargetCost {
    let sum = |of: fn(&TargetCost) -> Option<Duration>| {
        let both = of(&one).zip(of(&other));
        both.map(|(one, other)| one + other)
    };
    let count = |of: fn(&TargetCost) -> Option<u64>| {
        let both = of(&one).zip(of(&other));
        both.map(|(one, other)| one + other)
    };
    let most = |of: fn(&TargetCost) -> Option<Duration>| {
        let both = of(&one).zip(of(&other));
        both.map(|(one, other)| one.max(other))
    };
    TargetCost {
        cpu: sum(|cost| cost.cpu),
        busiest: most(|cost| cost.busiest),
        run_wait: most(|cost| cost.run_wait),
        commands: count(|cost| cost.commands),
        execution: sum(|cost| cost.execution),
        connections: count(|cost| cost.connections),
    }
}

/// The process of the server in INFO, if it is on this host. A server in a container may report a process id that
/// is another process here, so the process name is checked.
pub(crate) fn process(info: &Info) -> Option<u64> {
    let pid = info.number("process_id")?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let is_server = ["redis", "valkey", "loadline"]
        .iter()
        .any(|part| name.contains(part));
    is_server.then_some(pid)
}

/// The time that each thread of a process was runnable and waited for a CPU (schedstat).
fn run_waits(pid: u64) -> Option<RunWaits> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let waits = tasks.filter_map(|task| {
        let task = task.ok()?;
        let id = task.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        Some((id, text.split(' ').nth(1)?.parse().ok()?))
    });
    Some(waits.collect())
}

/// The wait since `before` of the thread that waited longest. A sum would exceed the elapsed time when io-threads
/// wait at the same time.
fn longest_wait(after: &RunWaits, before: &RunWaits) -> Duration {
    let waited = after
        .iter()
        .map(|(id, after)| after.saturating_sub(before.get(id).copied().unwrap_or(0)));
    Duration::from_nanos(waited.max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If a server refuses INFO, the number of its commands is unknown, not zero.
    #[test]
    fn refused_counters_are_unknown() {
        let declared = ["get".to_owned()];
        let refused = Counters::read(&Info::default(), &declared);
        let cost = refused.since(&refused);
        assert_eq!((cost.commands, cost.execution), (None, None));
        let before = Info::parse(b"cmdstat_info:calls=1,usec=5\r\n");
        let after = Info::parse(
            b"cmdstat_info:calls=2,usec=9\r\ncmdstat_get:calls=7,usec=3,usec_per_call=0.4\r\n",
        );
        let [before, after] = [before, after].map(|info| Counters::read(&info, &declared));
        assert_eq!(after.since(&before).commands, Some(7));
    }

    #[test]
    fn several_servers_are_one_target() {
        let cost = |ms: u64| TargetCost {
            cpu: Some(Duration::from_millis(ms)),
            busiest: Some(Duration::from_millis(ms)),
            run_wait: Some(Duration::from_millis(10 * ms)),
            commands: Some(ms),
            execution: None,
            connections: Some(1),
        };
        let all = [cost(3), cost(1), cost(2)].into_iter().reduce(together);
        assert_eq!(
            all,
            Some(TargetCost {
                cpu: Some(Duration::from_millis(6)),
                busiest: Some(Duration::from_millis(3)),
                run_wait: Some(Duration::from_millis(30)),
                commands: Some(6),
                execution: None,
                connections: Some(3),
            })
        );
        let unknown = together(cost(1), TargetCost::default());
        assert_eq!(unknown, TargetCost::default());
    }

    #[test]
    fn process_is_believed_only_where_its_name_is_a_servers() {
        let of = |pid: u32| process(&Info::parse(format!("process_id:{pid}\r\n").as_bytes()));
        assert_eq!(of(1), None);
        assert_eq!(of(u32::MAX), None);
        // This test runs in a program whose name begins with `loadline`.
        let own = std::process::id();
        assert_eq!(of(own), Some(u64::from(own)));
        let waits = run_waits(u64::from(own)).expect("Linux reports every process");
        assert!(waits.contains_key(&u64::from(own)), "{waits:?}");
        assert_eq!(run_waits(u64::MAX), None);
    }

    #[test]
    fn wait_is_that_of_one_thread() {
        let before = RunWaits::from([(1, 100), (2, 100), (4, 900)]);
        // Thread 3 is new and thread 4 has ended.
        let after = RunWaits::from([(1, 150), (2, 170), (3, 60)]);
        assert_eq!(longest_wait(&after, &before), Duration::from_nanos(70));
        assert_eq!(longest_wait(&RunWaits::new(), &before), Duration::ZERO);
    }
}

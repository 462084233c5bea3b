//! CPU time of threads other than the callers': those of a server's process, and those that an engine started in
//! this process.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The threads of a subject.
#[derive(Debug, Clone)]
pub(crate) struct Threads {
    /// Their directory in /proc; `None` if they are on another machine.
    tasks: Option<PathBuf>,
    /// The threads to count; `None` for all.
    only: Option<Vec<u32>>,
}

/// A reading: nanoseconds on a CPU by thread.
pub(crate) type Reading = BTreeMap<u32, u64>;

impl Threads {
    /// No threads, for a subject whose threads cannot be counted.
    pub(crate) fn none() -> Self {
        Self {
            tasks: None,
            only: None,
        }
    }

    /// These threads of this process.
    pub(super) fn of_engine(ids: Vec<u32>) -> Self {
        Self {
            tasks: Some(tasks_of("self")),
            only: Some(ids),
        }
    }

    /// The threads of the process `id` on this machine.
    pub(crate) fn of_process(id: u64) -> Self {
        Self {
            tasks: Some(tasks_of(&id.to_string())),
            only: None,
        }
    }

    /// The threads of this process with this name.
    pub(crate) fn named(name: &str) -> Self {
        let tasks = tasks_of("self");
        let is_called = |id: &u32| {
            let comm = fs::read_to_string(tasks.join(id.to_string()).join("comm"));
            comm.is_ok_and(|comm| comm.trim_end() == name)
        };
        let only = own().into_iter().filter(is_called).collect();
        Self {
            tasks: Some(tasks),
            only: Some(only),
        }
    }

    /// The CPU time of each thread so far.
    pub(crate) fn cpu(&self) -> Option<Reading> {
        let tasks = self.tasks.as_ref()?;
        let ids = match &self.only {
            Some(ids) => ids.clone(),
            None => ids_in(tasks)?,
        };
        let used = |id: u32| {
            let text = fs::read_to_string(tasks.join(id.to_string()).join("schedstat")).ok()?;
            let used = text.split_ascii_whitespace().next()?.parse().ok()?;
            Some((id, used))
        };
        Some(ids.into_iter().filter_map(used).collect())
    }

    /// The CPU time since `before`. A thread that has ended meanwhile is not counted.
    pub(crate) fn cpu_since(&self, before: &Option<Reading>) -> Option<Duration> {
        let (before, now) = (before.as_ref()?, self.cpu()?);
        let used = now
            .iter()
            .map(|(id, used)| used.saturating_sub(before.get(id).copied().unwrap_or(0)));
        Some(Duration::from_nanos(used.sum()))
    }
}

/// The threads of this process.
pub(super) fn own() -> Vec<u32> {
    ids_in(&tasks_of("self")).unwrap_or_default()
}

fn tasks_of(process: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{process}/task"))
}

fn ids_in(tasks: &PathBuf) -> Option<Vec<u32>> {
    let entries = fs::read_dir(tasks).ok()?.flatten();
    Some(
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_thread_grows_while_it_works() {
        let threads = Threads {
            tasks: Some(tasks_of("self")),
            only: None,
        };
        let before = threads.cpu();
        let mut sum = 0_u64;
        while threads.cpu_since(&before).unwrap() < Duration::from_millis(1) {
            sum = std::hint::black_box(sum + 1);
        }
        let none = Threads {
            only: Some(Vec::new()),
            ..threads
        };
        assert_eq!(none.cpu_since(&none.cpu()), Some(Duration::ZERO));
    }
}

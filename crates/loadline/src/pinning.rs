//! CPUs of their own for the servers of a comparison and for the generator: the scheduler puts them on
//! one CPU in one round and on two in the next, and that differs by more than what is looked for.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Which CPUs are whose, as long as this value lives.
#[derive(Debug)]
pub(crate) struct Pinning {
    before: CpuSet,
    servers: CpuSet,
}

impl Pinning {
    /// Keeps this thread, and all that it starts, off the first of its CPUs, which is for the servers.
    /// `None` where there are fewer than two CPUs, or the kernel does not let us choose.
    pub(crate) fn start() -> Option<Self> {
        let before = sched_getaffinity(None).ok()?;
        let first = (0..CpuSet::MAX_CPU).find(|cpu| before.is_set(*cpu))?;
        let (mut servers, mut ours) = (CpuSet::new(), before);
        servers.set(first);
        ours.unset(first);
        if ours.count() == 0 {
            return None;
        }
        sched_setaffinity(None, &ours).ok()?;
        Some(Self { before, servers })
    }

    /// Gives the main thread of process `pid` the servers' CPU, and its other threads, which inherited
    /// ours, all that there are. A process that has ended needs none.
    pub(crate) fn keep(&self, pid: u32) {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
            return;
        };
        let names = threads.flatten().map(|thread| thread.file_name());
        let ids = names.filter_map(|name| name.to_str()?.parse::<i32>().ok());
        for id in ids {
            let is_main = u32::try_from(id).is_ok_and(|id| id == pid);
            let cpus = if is_main { &self.servers } else { &self.before };
            let _ = Pid::from_raw(id).map(|id| sched_setaffinity(Some(id), cpus));
        }
    }

    /// Result of `start`, whose threads are neither a server's nor the generator's: they may run on
    /// any CPU that there is.
    pub(crate) fn apart<T>(pinning: Option<&Self>, start: impl FnOnce() -> T) -> T {
        let Some(pinning) = pinning else {
            return start();
        };
        let ours = sched_getaffinity(None);
        // It was possible before.
        let _ = sched_setaffinity(None, &pinning.before);
        let started = start();
        let _ = ours.map(|ours| sched_setaffinity(None, &ours));
        started
    }

    /// The CPUs of the servers, for a thread that acts as one.
    pub(crate) fn servers(&self) -> CpuSet {
        self.servers
    }
}

impl Drop for Pinning {
    fn drop(&mut self) {
        // It was possible before, and what follows works on fewer CPUs, too.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_is_given_back_what_it_had() {
        let had = sched_getaffinity(None).unwrap();
        if let Some(pinning) = Pinning::start() {
            let ours = sched_getaffinity(None).unwrap();
            assert_eq!(ours.count() + 1, had.count());
            assert_eq!(pinning.servers().count(), 1);
            let shared = (0..CpuSet::MAX_CPU)
                .filter(|cpu| ours.is_set(*cpu) && pinning.servers().is_set(*cpu))
                .count();
            assert_eq!(shared, 0);
            let apart = Pinning::apart(Some(&pinning), || {
                let thread = std::thread::spawn(|| sched_getaffinity(None).unwrap());
                thread.join().unwrap()
            });
            assert_eq!(apart, had);
            assert_eq!(sched_getaffinity(None).unwrap(), ours);
        } else {
            assert_eq!(had.count(), 1);
        }
        assert_eq!(sched_getaffinity(None).unwrap(), had);
    }
}

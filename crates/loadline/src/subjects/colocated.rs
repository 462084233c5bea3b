//! Moves the current thread to a server's CPU for a while.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Pins the current thread to the CPU of a server until it is dropped.
///
/// Waking a thread on another CPU can take several times as long as the operation itself, especially on a virtual
/// machine, and the delay depends on other virtual machines without appearing in any counter. On the same CPU, a
/// thread that cannot run waits in the run queue, and that wait is counted.
#[derive(Debug)]
pub(super) struct Colocated {
    before: CpuSet,
}

impl Colocated {
    /// Moves this thread to the CPU of the process `server`. Returns `None` if that process can run on several
    /// CPUs, because pinning it is up to its owner, or if the kernel refuses.
    pub(super) fn with_server(server: u64) -> Option<Self> {
        let server = Pid::from_raw(i32::try_from(server).ok()?)?;
        let its = sched_getaffinity(Some(server)).ok()?;
        let before = sched_getaffinity(None).ok()?;
        if its.count() != 1 {
            return None;
        }
        sched_setaffinity(None, &its).ok()?;
        Some(Self { before })
    }
}

impl Drop for Colocated {
    fn drop(&mut self) {
        // Cannot fail with a mask that was valid before; if it does, the caller still works on one CPU.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A process that waits for the end of its input; it is killed at the end of the test.
    struct Waiting(Child);

    impl Waiting {
        fn start() -> Self {
            let mut command = Command::new("cat");
            let process = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
            Self(process.expect("this test needs the program `cat`"))
        }

        fn pid(&self) -> Option<Pid> {
            Pid::from_raw(self.0.id() as i32)
        }

        /// Pins it to the last CPU that this test can use.
        fn keep(&self, had: &CpuSet) -> CpuSet {
            let mut one = CpuSet::new();
            one.set((0..CpuSet::MAX_CPU).rfind(|cpu| had.is_set(*cpu)).unwrap());
            sched_setaffinity(self.pid(), &one).unwrap();
            one
        }
    }

    impl Drop for Waiting {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    #[test]
    fn this_thread_is_on_the_servers_cpu_until_it_is_over() {
        let server = Waiting::start();
        let had = sched_getaffinity(None).unwrap();
        let one = server.keep(&had);
        let colocated = Colocated::with_server(u64::from(server.0.id()));
        assert_eq!(sched_getaffinity(None).unwrap(), one);
        drop(colocated);
        assert_eq!(sched_getaffinity(None).unwrap(), had);
        assert_eq!(sched_getaffinity(server.pid()).unwrap(), one);
    }

    #[test]
    fn without_one_cpu_of_a_server_nothing_moves() {
        let had = sched_getaffinity(None).unwrap();
        // This process, with the CPUs of the test, acts as the server.
        let own = Colocated::with_server(u64::from(std::process::id()));
        assert_eq!(own.is_some(), had.count() == 1);
        assert!(Colocated::with_server(u64::MAX).is_none());
        // Linux numbers processes up to 2^22.
        assert!(Colocated::with_server(1 << 30).is_none());
        assert_eq!(sched_getaffinity(None).unwrap(), had);
    }
}

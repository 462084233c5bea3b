//! The clocks of the loops.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::cost::ThreadCost;

/// A monotonic clock that counts nanoseconds from its creation; one reading is one vDSO call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    epoch_ns: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            epoch_ns: nanoseconds(clock_gettime(ClockId::Monotonic)),
        }
    }

    /// Starts a clock that already shows `elapsed`.
    pub(crate) fn start_at(elapsed: Duration) -> Self {
        let now_ns = Self::start().epoch_ns;
        Self {
            epoch_ns: now_ns.saturating_sub(elapsed.as_nanos() as u64),
        }
    }

    /// The time of day when this clock showed zero.
    pub(crate) fn began(&self) -> SystemTime {
        SystemTime::now() - Duration::from_nanos(self.now_ns())
    }

    /// Creates a clock with a common start for all threads.
    pub(crate) fn common() -> Self {
        Self { epoch_ns: 0 }
    }

    /// The time of this clock at `at_ns` of `other`; zero for times before its start.
    pub(crate) fn translate(&self, other: Self, at_ns: u64) -> u64 {
        (other.epoch_ns + at_ns).saturating_sub(self.epoch_ns)
    }

    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        nanoseconds(clock_gettime(ClockId::Monotonic)) - self.epoch_ns
    }
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Measures the cost of the calling thread from creation to [`stop`](ThreadMeter::stop).
#[derive(Debug)]
pub(crate) struct ThreadMeter {
    clock: Clock,
    cpu_ns: u64,
    run_queue: RunQueue,
    run_wait_ns: Option<u64>,
}

impl ThreadMeter {
    pub(crate) fn start() -> Self {
        let run_queue = RunQueue::own();
        Self {
            clock: Clock::start(),
            cpu_ns: thread_cpu_ns(),
            run_wait_ns: run_queue.wait_ns(),
            run_queue,
        }
    }

    /// The cost of a thread that was awake and idle for `idle_ns`.
    pub(crate) fn stop(&self, idle_ns: u64) -> ThreadCost {
        self.stop_at(thread_cpu_ns() - self.cpu_ns, idle_ns)
    }

    /// The cost of a thread that measured its own CPU time.
    pub(crate) fn stop_at(&self, cpu_ns: u64, idle_ns: u64) -> ThreadCost {
        let wall_ns = self.clock.now_ns().max(1);
        let run_wait = self
            .run_wait_ns
            .zip(self.run_queue.wait_ns())
            .map(|(before, after)| Duration::from_nanos(after.saturating_sub(before)));
        ThreadCost {
            cpu: Duration::from_nanos(cpu_ns),
            run_wait,
            busiest: (cpu_ns.saturating_sub(idle_ns) as f64 / wall_ns as f64).min(1.0),
        }
    }
}

/// CPU time of the calling thread; a reading is a system call.
pub(crate) fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// The time that a thread has waited for a CPU: the second value of its schedstat file, which stays open. Other
/// systems than Linux, and kernels without it, have none.
#[derive(Debug)]
pub(crate) struct RunQueue(Option<File>);

impl RunQueue {
    /// The run queue waits of the calling thread.
    pub(crate) fn own() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// Those of the threads that process `pid` has now.
    pub(crate) fn of_process(pid: u64) -> impl Iterator<Item = Self> {
        let tasks = fs::read_dir(format!("/proc/{pid}/task"));
        let tasks = tasks.into_iter().flatten().flatten();
        tasks.map(|task| Self(File::open(task.path().join("schedstat")).ok()))
    }

    /// Nanoseconds so far; one system call.
    pub(crate) fn wait_ns(&self) -> Option<u64> {
        let mut text = [0; 64];
        let bytes = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..bytes]).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

//! The clocks of the loops.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::outcome::ThreadCost;

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
    run_wait_ns: Option<u64>,
}

impl ThreadMeter {
    pub(crate) fn start() -> Self {
        Self {
            clock: Clock::start(),
            cpu_ns: thread_cpu_ns(),
            run_wait_ns: run_wait_ns(),
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
            .zip(run_wait_ns())
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

/// The second value of schedstat: nanoseconds spent in a run queue. Other systems than Linux, and kernels
/// without it, have none.
pub(crate) fn run_wait_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

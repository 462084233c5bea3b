//! Competition for the CPUs: how much longer work takes because other programs use them.

use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Several slices of the scheduler's time.
const LOOK: Duration = Duration::from_millis(80);

/// The wall time of work on all CPUs, in times of the CPU time that it gets: 1 on an idle machine. Takes 80 ms.
pub(crate) fn slowdown() -> f64 {
    slowdown_of(thread::available_parallelism().map_or(1, usize::from))
}

fn slowdown_of(threads: usize) -> f64 {
    let shares: Vec<f64> = thread::scope(|scope| {
        let working: Vec<_> = (0..threads).map(|_| scope.spawn(share)).collect();
        let shares = working.into_iter().filter_map(|thread| thread.join().ok());
        shares.collect()
    });
    let sum: f64 = shares.iter().sum();
    if sum > 0.0 {
        (shares.len() as f64 / sum).max(1.0)
    } else {
        1.0
    }
}

/// The part of the time during which a thread that always has work is on a CPU.
fn share() -> f64 {
    let (begun, before) = (Instant::now(), cpu_ns());
    while begun.elapsed() < LOOK {
        std::hint::spin_loop();
    }
    (cpu_ns() - before) as f64 / begun.elapsed().as_nanos() as f64
}

/// The time for which this thread has been on a CPU, in nanoseconds.
pub(crate) fn cpu_ns() -> i64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads share the CPUs: with three per CPU, each gets a third of the time.
    #[test]
    fn work_is_slower_where_threads_outnumber_cpus() {
        let cpus = thread::available_parallelism().unwrap().get();
        let crowded = slowdown_of(3 * cpus);
        assert!(crowded > 2.0, "{crowded}");
    }
}

//! Competition for the CPUs: how much longer work takes because other programs use them.

use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Several slices of the scheduler's time.
const LOOK: Duration = Duration::from_millis(80);

/// The wall time of work on all CPUs, in times of the CPU time that it gets: 1 on an idle machine. Takes 80 ms.
pub(crate) fn slowdown() -> f64 {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let shares: Vec<f64> = thread::scope(|scope| {
        let working: Vec<_> = (0..cpus).map(|_| scope.spawn(share)).collect();
        let shares = working.into_iter().filter_map(|thread| thread.join().ok());
        shares.collect()
    });
    slowdown_of(&shares)
}

/// The slowdown of threads that are on a CPU for these parts of the time.
fn slowdown_of(shares: &[f64]) -> f64 {
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

    #[test]
    fn work_takes_as_much_longer_as_its_threads_wait() {
        assert_eq!(slowdown_of(&[0.5, 0.5]), 2.0);
        assert_eq!(slowdown_of(&[1.0, 0.6]), 1.25);
        // Clocks are not read at the same moment.
        assert_eq!(slowdown_of(&[1.01, 1.0]), 1.0);
        assert_eq!(slowdown_of(&[]), 1.0);
    }
}

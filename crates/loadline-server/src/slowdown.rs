//! A known slowdown of every command, to test whether a measurement detects it.

use std::time::{Duration, Instant};

/// A slowdown added to every command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slowdown {
    /// Time that each command keeps the CPU busy.
    pub burn: Duration,
    /// Rounds of a short loop; an instruction count detects them, a clock does not.
    pub work: u32,
}

/// Slows a command down. A separate function in every build, so that a profiler can name it and commands without a
/// slowdown do not pay for it.
#[inline(never)]
pub(crate) fn slow_down(slowdown: &Slowdown) {
    for round in 0..slowdown.work {
        std::hint::black_box(round);
    }
    if !slowdown.burn.is_zero() {
        burn(slowdown.burn);
    }
}

/// The most of a burn between two looks at the clock. They are far closer together, unless another program had the CPU.
const STEP: Duration = Duration::from_micros(10);

/// Keeps the CPU busy for `time`, and longer where another program has the CPU meanwhile.
#[cold]
#[inline(never)]
fn burn(time: Duration) {
    let (mut left, mut before) = (time, Instant::now());
    while !left.is_zero() {
        std::hint::spin_loop();
        let now = Instant::now();
        left = left.saturating_sub((now - before).min(STEP));
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    /// As the work of a slow command does, of which other programs take nothing away.
    #[test]
    fn burn_takes_its_time_of_the_cpu_on_a_busy_machine_too() {
        let cpu = || {
            let time = clock_gettime(ClockId::ThreadCPUTime);
            Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
        };
        let (stop, time) = (AtomicBool::new(false), Duration::from_millis(60));
        let others = 3 * thread::available_parallelism().unwrap().get();
        let took = thread::scope(|scope| {
            for _ in 0..others {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let before = cpu();
            burn(time);
            let took = cpu() - before;
            stop.store(true, Ordering::Relaxed);
            took
        });
        assert!(took > time * 9 / 10, "{took:?}");
    }
}

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

/// Keeps the CPU busy for `time`.
#[cold]
#[inline(never)]
fn burn(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

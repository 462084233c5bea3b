//! Times of steps: elapsed, and of the CPUs, which other work on the machine changes less.

use std::fmt;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

/// Measures a step from its construction on.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    begun: Instant,
    cpu: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self {
            begun: Instant::now(),
            cpu: children_cpu(),
        }
    }
}

impl fmt::Display for Stopwatch {
    /// Writes the elapsed time and the CPU time of the programs that ended since the start, as `1.0 s (1.5 s of CPU)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu = children_cpu().saturating_sub(self.cpu);
        write!(
            f,
            "{:.1} s ({:.1} s of CPU)",
            self.begun.elapsed().as_secs_f64(),
            cpu.as_secs_f64()
        )
    }
}

/// CPU time of all children that ended, and of theirs.
fn children_cpu() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else {
        return Duration::ZERO;
    };
    [usage.user_time(), usage.system_time()]
        .into_iter()
        .map(|time| {
            let micros = u64::try_from(time.tv_usec()).unwrap_or(0);
            let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
            Duration::from_secs(seconds) + Duration::from_micros(micros)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_an_ended_child_is_counted() {
        let watch = Stopwatch::start();
        let work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        assert!(
            std::process::Command::new("sh")
                .args(["-c", work])
                .status()
                .unwrap()
                .success()
        );
        assert!(children_cpu() > watch.cpu);
        assert!(watch.to_string().ends_with(" s of CPU)"));
    }
}

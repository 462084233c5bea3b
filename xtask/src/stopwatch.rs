//! Times of steps: elapsed, and of the CPUs, which other work on the machine changes less.

use std::process::Child;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use anyhow::Context;
use nix::sys::resource::{UsageWho, getrusage};
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

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

/// Waits for the end of `child`, which can be waited for afterwards, and returns its CPU time and that of the programs that
/// it waited for.
///
/// # Errors
/// If the system does not state it.
pub(crate) fn cpu_of_ended(child: &Child) -> anyhow::Result<Duration> {
    let pid = Pid::from_child(child);
    waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )
    .context("a program was lost")?;
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("{path} could not be read"))?;
    // The name of the program is in parentheses, and can have spaces.
    let (_, fields) = stat.rsplit_once(')').context("an unknown form of /proc")?;
    // Fields 14 to 17 of proc(5): user and system time, and those of the children.
    let ticks = fields.split_ascii_whitespace().skip(11).take(4);
    let ticks: u64 = ticks
        .map(str::parse::<u64>)
        .sum::<Result<u64, _>>()
        .with_context(|| format!("{path} is not what it should be"))?;
    Ok(Duration::from_secs_f64(
        ticks as f64 / clock_ticks_per_second() as f64,
    ))
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
    use std::process::Command;

    use super::*;

    #[test]
    fn cpu_time_of_an_ended_child_is_counted() {
        let watch = Stopwatch::start();
        let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(
            Command::new("sh")
                .args(["-c", work])
                .status()
                .unwrap()
                .success()
        );
        assert!(children_cpu() > watch.cpu);
        let mut child = Command::new("sh").args(["-c", work]).spawn().unwrap();
        assert!(cpu_of_ended(&child).unwrap() >= Duration::from_millis(10));
        assert!(child.wait().unwrap().success());
        assert!(watch.to_string().ends_with(" s of CPU)"));
    }
}

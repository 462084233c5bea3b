//! The process is stopped with SIGSTOP for a time: its connections stay open, and nothing answers. Undone by SIGCONT, also
//! after an interrupt.

use std::time::{Duration, Instant};

use loadline_load::Control;
use rustix::process::{Pid, Signal, kill_process};

use super::{Happened, LOOK_EVERY, wait_until};
use crate::exit::Failure;
use crate::systems::site::Site;

/// A process that continues when this value is dropped.
struct Stopped(Pid);

impl Drop for Stopped {
    fn drop(&mut self) {
        // Fails only if the process has ended.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// # Errors
/// If the process cannot be stopped.
pub(super) fn cause(
    site: &Site,
    time: Duration,
    probe: &str,
    control: &Control,
) -> Result<Happened, Failure> {
    let pid = i32::try_from(site.victim().pid())
        .ok()
        .and_then(Pid::from_raw);
    let pid = pid.expect("a child has a process id");
    let began = Instant::now();
    kill_process(pid, Signal::STOP)
        .map_err(|error| Failure::unavailable(format!("SIGSTOP failed: {error}.")))?;
    let stopped = Stopped(pid);
    let mut ready = None;
    while site.heals_itself() && ready.is_none() && began.elapsed() < time {
        wait_until(Instant::now() + LOOK_EVERY, control);
        if control.interrupted() {
            break;
        }
        ready = site.accepts(probe).then(Instant::now);
    }
    wait_until(began + time, control);
    drop(stopped);
    Ok(Happened {
        began,
        ended: Some(Instant::now()),
        ready,
        times: 1,
    })
}

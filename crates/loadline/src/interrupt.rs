//! Requests to end: Ctrl-C, a polite kill, a terminal that was closed.

use std::panic;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use loadline_load::Control;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::{Exit, Failure};

/// Time limit for a call in progress at an interrupt to be included in the results.
const GRACE: Duration = Duration::from_secs(1);
/// Interval at which the interrupt is checked meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Set when the run is to end. Who started us with the signal of a closed terminal ignored, as `nohup`
/// does, goes on having it ignored. The other two always count: shells ignore that of Ctrl-C for all
/// that they start in the background, where `kill -INT` is still meant.
///
/// # Errors
/// That the operating system lets no signal be caught.
pub(crate) fn interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal != SIGHUP || !is_ignored(&status, signal) {
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .context("signals cannot be caught")?;
        }
    }
    Ok(flag)
}

/// Runs `calls` on a separate thread; returns `None` if it did not end soon after an interrupt. The thread then
/// ends with this program.
///
/// # Errors
/// Those of `calls`, and an internal error if a thread cannot be started.
pub(crate) fn unless_given_up<T: Send + 'static>(
    control: &Control,
    calls: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<Option<T>, Failure> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let thread = thread::Builder::new()
        .name("calls".into())
        // Fails if the receiver has been given up.
        .spawn(move || drop(sender.send(calls())))
        .map_err(|error| {
            Failure::new(Exit::Internal, format!("Cannot start a thread: {error}."))
        })?;
    let mut interrupted = None;
    loop {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok(result) => return result.map(Some),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let panicked = thread.join().expect_err("it sends, or panics before");
                panic::resume_unwind(panicked);
            }
        }
        if control.interrupted() && interrupted.get_or_insert_with(Instant::now).elapsed() >= GRACE
        {
            return Ok(None);
        }
    }
}

/// Whether `signal` is ignored according to `/proc/self/status`, whose line `SigIgn` has a bit for
/// each signal, the lowest for signal 1.
fn is_ignored(status: &str, signal: i32) -> bool {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signal_is_recognized_by_its_bit() {
        let status = "Name:\tloadline\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        assert!(is_ignored(status, SIGHUP));
        assert!(!is_ignored(status, SIGINT));
        assert!(!is_ignored(status, SIGTERM));
        assert!(!is_ignored("", SIGHUP));
    }
}

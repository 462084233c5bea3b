//! Requests to end: Ctrl-C, a polite kill, a terminal that was closed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

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
    fn an_ignored_signal_is_told_by_its_bit() {
        let status = "Name:\tloadline\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        assert!(is_ignored(status, SIGHUP));
        assert!(!is_ignored(status, SIGINT));
        assert!(!is_ignored(status, SIGTERM));
        assert!(!is_ignored("", SIGHUP));
    }
}

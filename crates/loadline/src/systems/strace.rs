//! System calls of a process, counted by strace.

use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::servers::{self, Tail};
use crate::files;

/// Time limit for strace to follow the process, and to print its counts.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Its message once it follows the process.
const ATTACHED: &str = "attached";

/// A strace that counts the system calls of a process with all its threads.
#[derive(Debug)]
pub(crate) struct Strace {
    process: Child,
    said: Tail,
}

impl Strace {
    /// Begins to count. Must be called on the main thread, since children are tied to it.
    ///
    /// # Errors
    /// The reason why it cannot, as a sentence without a full stop.
    pub(crate) fn attach(pid: u32) -> Result<Self, String> {
        let program = files::find_program(Path::new("strace")).ok_or("strace is not on PATH")?;
        let mut process = servers::limited_child(&program, None)
            .map_err(|failure| failure.to_string())?
            .args(["-f", "-c", "-p", &pid.to_string()])
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("strace could not be started: {error}"))?;
        let said = Tail::default();
        if let Some(stderr) = process.stderr.take() {
            said.follow(stderr);
        }
        let mut strace = Self { process, said };
        let deadline = Instant::now() + PATIENCE;
        while !strace.said.text().contains(ATTACHED) {
            let has_ended = !matches!(strace.process.try_wait(), Ok(None));
            if has_ended || Instant::now() >= deadline {
                strace.said.wait_for_end();
                let text = strace.said.text();
                let why = text
                    .lines()
                    .next()
                    .unwrap_or("it does not follow the process");
                return Err(format!("strace: {why}"));
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(strace)
    }

    /// Ends the count, and returns it.
    ///
    /// # Errors
    /// The reason why there is none, as a sentence without a full stop.
    pub(crate) fn end(mut self) -> Result<u64, String> {
        let pid = i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw);
        let pid = pid.ok_or("strace has no process id")?;
        kill_process(pid, Signal::INT).map_err(|error| format!("strace: {error}"))?;
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.process.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                return Err("strace does not end".into());
            }
            thread::sleep(LOOK_EVERY);
        }
        self.said.wait_for_end();
        calls(&self.said.text()).ok_or_else(|| "strace counted nothing".into())
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        // Both fail only where the process is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The sum of the column `calls` of a summary of strace.
fn calls(summary: &str) -> Option<u64> {
    let count = |line: &str| -> Option<u64> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [share, seconds, _, calls, .., name] = words[..] else {
            return None;
        };
        let is_row = share.parse::<f64>().is_ok() && seconds.parse::<f64>().is_ok();
        (is_row && name != "total").then(|| calls.parse().ok())?
    };
    let mut counts = summary.lines().filter_map(count).peekable();
    counts.peek()?;
    counts.try_fold(0_u64, u64::checked_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_summary_are_added() {
        let text = "strace: Process 7 attached with 2 threads\n\
                    strace: Process 7 detached\n\
                    % time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n \
                    55.00    0.000110           1       100           sendto\n \
                    45.00    0.000090           0       120        20 recvfrom\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    100.00    0.000200           0       220        20 total\n";
        assert_eq!(calls(text), Some(220));
        for text in [
            "",
            "% time\n",
            "nan x y z w",
            &format!("1 1 1 {0} a\n1 1 1 {0} b", u64::MAX),
        ] {
            assert_eq!(calls(text), None, "{text}");
        }
    }
}

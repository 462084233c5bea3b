//! hiredis, in a program of its own (`peers/hiredis`), which is told on its standard input what to
//! do and answers with the CPU time that it took.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::{Arm, Work};

/// Time limit for it to end by itself.
const END_PATIENCE: Duration = Duration::from_secs(20);

pub struct Hiredis {
    process: Child,
    /// Taken at the end, which ends the program.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Hiredis {
    pub fn start(program: &str, url: &str) -> anyhow::Result<Self> {
        let (host, port) = url
            .trim_start_matches("redis://")
            .split_once(':')
            .context("a URL with a port")?;
        let mut process = Command::new(program)
            .args([host, port])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{program} could not be started"))?;
        let requests = Some(process.stdin.take().context("its input was piped")?);
        let answers = process.stdout.take().context("its output was piped")?;
        Ok(Self {
            process,
            requests,
            answers: BufReader::new(answers),
        })
    }
}

impl Arm for Hiredis {
    fn name(&self) -> &'static str {
        "hiredis"
    }

    fn run(&mut self, work: Work, ops: u64) -> anyhow::Result<Option<u64>> {
        let (kind, size) = match work {
            Work::Single { set: true, .. } => ("set", 1),
            Work::Single { set: false, .. } => ("get", 1),
            Work::Pipeline { set: true, size } => ("set", size),
            Work::Pipeline { set: false, size } => ("get", size),
            Work::Lent { size } => ("lent", size),
            Work::Tasks { .. } => return Ok(None),
        };
        let requests = self.requests.as_mut().context("it has ended")?;
        writeln!(requests, "{kind} {size} {ops}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        let cpu_ns = answer
            .trim()
            .parse()
            .with_context(|| format!("hiredis said `{}`", answer.trim()))?;
        Ok(Some(cpu_ns))
    }
}

impl Drop for Hiredis {
    fn drop(&mut self) {
        // It ends with its input. A profiler that it runs under writes its profile only if it ends by itself.
        self.requests = None;
        let deadline = Instant::now() + END_PATIENCE;
        while let Ok(None) = self.process.try_wait() {
            if Instant::now() >= deadline {
                let _ = self.process.kill();
                break;
            }
            thread::sleep(END_PATIENCE / 10_000);
        }
        // It fails only where the process is gone already.
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn program_ends_by_itself_when_the_arm_is_dropped() {
        let dir = std::env::temp_dir().join(format!("client-peers-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let program = dir.join("driver");
        let text = "#!/bin/sh\ncat >/dev/null\necho profile >\"$0.ended\"\n";
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        drop(Hiredis::start(program.to_str().unwrap(), "redis://127.0.0.1:1").unwrap());
        let ended = std::fs::read_to_string(dir.join("driver.ended"));
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(ended.unwrap(), "profile\n");
    }
}

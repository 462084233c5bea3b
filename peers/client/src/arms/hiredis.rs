//! hiredis, in a program of its own (`peers/hiredis`), which is told on its standard input what to
//! do and answers with the CPU time that it took.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context;

use super::{Arm, Work};

pub struct Hiredis {
    process: Child,
    requests: ChildStdin,
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
        let requests = process.stdin.take().context("its input was piped")?;
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
        writeln!(self.requests, "{kind} {size} {ops}")?;
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
        // Both fail only where it is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

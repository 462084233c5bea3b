//! Drivers: programs that call a server through a client library, one process for each client.

mod cause;
mod protocol;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use loadline_load::Control;
use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;

use super::servers::{self, Tail};
use crate::exit::{Exit, Failure};
use crate::plan::Driver;
use crate::printer::printable;
use crate::units::nanoseconds;
use protocol::{LONGEST_LINE, Message};

pub(crate) use protocol::{About, Block, Config, Op, OpOutcome, PROTOCOL, SentinelConfig};

/// Time limit for a driver to connect: a virtual machine has to start.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// Time that it may take beyond the time that it was given.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval at which an interrupt is looked for meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Lines that wait to be read; a driver that says more has to wait.
const LINES_AHEAD: usize = 64;
/// Time limit for a driver to end by itself.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// A driver that is connected and waits.
#[derive(Debug)]
pub(crate) struct Running {
    name: String,
    process: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Line>,
    said: Tail,
    /// Whether its operations have times at which they are due.
    is_open: bool,
    pub(crate) about: About,
}

/// The output of a driver.
#[derive(Debug)]
enum Line {
    Text(String),
    /// A line without an end.
    TooLong,
}

/// The reason why a driver does not go on.
#[derive(Debug)]
pub(crate) enum Broken {
    /// It said something that is not of the protocol, or that contradicts itself.
    Nonsense(String),
    /// Its process has ended.
    Ended(Option<ExitStatus>),
    /// It said nothing for as long as it may.
    Silent(Duration),
    /// The user interrupted the run.
    Interrupted,
}

impl Running {
    /// Starts a driver and waits until it is connected. Must be called on the main thread, since children are tied to it.
    ///
    /// # Errors
    /// If it is not installed, does not start, or does not say that it is ready.
    pub(crate) fn start(
        driver: &Driver,
        config: &Config,
        control: &Control,
    ) -> Result<Self, Failure> {
        let mut running = Self::launch(driver, config, None)?;
        match running.connected(control) {
            Ok(()) => Ok(running),
            Err(broken) => Err(running.failure(broken)),
        }
    }

    /// Waits until it is connected.
    ///
    /// # Errors
    /// If it does not say that it is ready, and who it is.
    pub(crate) fn connected(&mut self, control: &Control) -> Result<(), Broken> {
        match self.message(START_PATIENCE, control)? {
            Message::Ready(about) => {
                self.about = about.check().map_err(|why| Broken::Nonsense(why.into()))?;
                Ok(())
            }
            _ => Err(Broken::Nonsense("expected `ready`".into())),
        }
    }

    /// Starts a driver without waiting for it; its address space is limited to `memory_bytes`. Must be called on the main
    /// thread, since children are tied to it.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub(crate) fn launch(
        driver: &Driver,
        config: &Config,
        memory_bytes: Option<u64>,
    ) -> Result<Self, Failure> {
        let name = format!("driver {}", driver.name);
        let program = driver.program().ok_or_else(|| driver.not_installed())?;
        let mut process = servers::limited_child(&program, memory_bytes)?
            .args(&driver.command[1..])
            .current_dir(&driver.dir)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| {
                Failure::unavailable(format!("{name} could not be started: {error}."))
            })?;
        let (sender, lines) = mpsc::sync_channel(LINES_AHEAD);
        if let Some(stdout) = process.stdout.take() {
            thread::spawn(move || forward(stdout, &sender));
        }
        let said = Tail::default();
        if let Some(stderr) = process.stderr.take() {
            said.follow(stderr);
        }
        let mut running = Self {
            name,
            input: process.stdin.take(),
            process,
            lines,
            said,
            is_open: config.rate > 0,
            about: About::default(),
        };
        let line = serde_json::to_string(config)
            .map_err(|error| Failure::new(Exit::Internal, format!("{}: {error}.", running.name)))?;
        running.tell(&line);
        Ok(running)
    }

    /// The largest resident memory of the process since its program was started, in bytes, while it is there. What
    /// `getrusage` says to the process can be that of its parent.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kib * 1_024)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Runs a block.
    ///
    /// # Errors
    /// The reason why it has no credible result.
    pub(crate) fn block(
        &mut self,
        stop: Stop,
        seed: u64,
        control: &Control,
    ) -> Result<(Outcome, Block), Broken> {
        self.go(stop, seed);
        let patience = stop.duration.unwrap_or_default() + PATIENCE;
        match self.message(patience, control)? {
            Message::Result(block) => {
                let outcome = block.outcome(self.is_open).map_err(Broken::Nonsense)?;
                Ok((outcome, block))
            }
            _ => Err(Broken::Nonsense("expected `result`".into())),
        }
    }

    /// Begins a block.
    pub(crate) fn go(&mut self, stop: Stop, seed: u64) {
        let duration = stop.duration.map_or(0, nanoseconds);
        let ops = stop.ops.unwrap_or(0);
        // The low half is the seed of a generator of 32 bits, which cannot start at zero.
        self.tell(&format!("go {duration} {ops} {}", (seed as u32).max(1)));
    }

    /// Opens `count` further connections.
    ///
    /// # Errors
    /// If it does not.
    pub(crate) fn open(&mut self, count: u64, control: &Control) -> Result<(), Broken> {
        self.tell(&format!("open {count}"));
        match self.message(PATIENCE, control)? {
            Message::Opened(opened) if opened == count => Ok(()),
            _ => Err(Broken::Nonsense(format!("expected `opened` with {count}"))),
        }
    }

    /// The next operation of a run with faults; `None` after the last one.
    ///
    /// # Errors
    /// If none comes within `patience`, or anything else.
    pub(crate) fn op(
        &mut self,
        patience: Duration,
        control: &Control,
    ) -> Result<Option<Op>, Broken> {
        match self.message(patience, control)? {
            Message::Op(op) => Ok(Some(op)),
            Message::Result(_) => Ok(None),
            _ => Err(Broken::Nonsense("expected `op` or `result`".into())),
        }
    }

    /// Says that nothing more is asked, and waits for the end of the process, which is killed if it does not come.
    pub(crate) fn end(&mut self) -> Option<ExitStatus> {
        self.input = None;
        let deadline = Instant::now() + END_PATIENCE;
        loop {
            match self.process.try_wait() {
                Ok(None) if Instant::now() < deadline => thread::sleep(LOOK_EVERY / 10),
                Ok(ended) => return ended,
                Err(_) => return None,
            }
        }
    }

    /// The end of the driver as a failure, in a sentence.
    pub(crate) fn failure(&mut self, broken: Broken) -> Failure {
        let name = &self.name;
        let what = match broken {
            Broken::Nonsense(why) => format!("{name} broke the protocol: {why}."),
            Broken::Ended(status) => {
                self.said.wait_for_end();
                let status = status.map_or_else(String::new, |status| format!(" ({status})"));
                format!("{name} ended early{status}.")
            }
            Broken::Silent(patience) => {
                format!("{name} said nothing for {} seconds.", patience.as_secs())
            }
            Broken::Interrupted => {
                return Failure::new(Exit::Interrupted, format!("{name}: interrupted."));
            }
        };
        let text = self.said.text();
        match cause::cause_in(&text) {
            Some(cause) => {
                Failure::unavailable(format!("{what}\nIt said: {}", printable(&shortened(cause))))
            }
            None => Failure::unavailable(what),
        }
    }

    /// Writes a line. A driver that has gone is found when its answer is read.
    fn tell(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
    }

    fn message(&mut self, patience: Duration, control: &Control) -> Result<Message, Broken> {
        let deadline = Instant::now() + patience;
        loop {
            match self.lines.recv_timeout(LOOK_EVERY) {
                Ok(Line::Text(text)) => {
                    return serde_json::from_str(&text).map_err(|error| {
                        Broken::Nonsense(format!("`{}`: {error}", shortened(&text)))
                    });
                }
                Ok(Line::TooLong) => {
                    return Err(Broken::Nonsense(format!(
                        "a line of more than {LONGEST_LINE} bytes"
                    )));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(Broken::Ended(self.end())),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if control.interrupted() {
                return Err(Broken::Interrupted);
            }
            if Instant::now() >= deadline {
                return Err(Broken::Silent(patience));
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only where the process is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The beginning of a text, for a sentence.
fn shortened(text: &str) -> String {
    const MOST: usize = 160;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    let head: String = text.chars().take(MOST).collect();
    format!("{head}...")
}

/// Reads lines until the end, or until one is too long.
fn forward(stdout: impl Read, sender: &SyncSender<Line>) {
    let mut reader = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let read = (&mut reader)
            .take(LONGEST_LINE as u64 + 1)
            .read_until(b'\n', &mut line);
        let line = match read {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => return,
            Ok(bytes) if bytes > LONGEST_LINE => Line::TooLong,
            Ok(_) => Line::Text(String::from_utf8_lossy(&line).trim_end().to_owned()),
        };
        let is_last = matches!(line, Line::TooLong);
        if sender.send(line).is_err() || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_without_an_end_is_given_up() {
        let (sender, receiver) = mpsc::sync_channel(4);
        let endless = io::repeat(b'x').take(64 << 20);
        forward(io::Cursor::new("{\"opened\":1}\n").chain(endless), &sender);
        drop(sender);
        let lines: Vec<Line> = receiver.iter().collect();
        assert!(
            matches!(&lines[..], [Line::Text(text), Line::TooLong] if text == "{\"opened\":1}"),
            "{} lines",
            lines.len()
        );
    }

    #[test]
    fn last_line_needs_no_end() {
        let (sender, receiver) = mpsc::sync_channel(4);
        forward(io::Cursor::new("one\r\ntwo"), &sender);
        drop(sender);
        let texts = receiver.iter().map(|line| match line {
            Line::Text(text) => text,
            Line::TooLong => panic!("both are short"),
        });
        assert_eq!(texts.collect::<Vec<_>>(), ["one", "two"]);
    }
}

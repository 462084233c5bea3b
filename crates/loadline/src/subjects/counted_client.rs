//! A client in a separate process, whose instructions are counted: `loadline __client`.
//!
//! The process resolves the arguments of the sweep as its parent did, and then obeys the lines on its standard
//! input: [`Request::Turn`] opens a connection for an operation in a call mode, [`Request::Pass`] performs operations.
//! It answers each line with one line. It [marks](callgrind::mark) the beginning and the end of a pass.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use clap::ValueEnum;
use loadline_load::Control;
use loadline_load::block::Block;
use loadline_load::pacing::Stop;
use loadline_load::runner::Subject;
use loadline_measure::work::Pass;
use loadline_measure::work::callgrind::Profile;

use super::client::{self, Called};
use super::{failure, load_block};
use crate::exit::Failure;
use crate::files;
use crate::plan::{Case, Mode, ModesPlan, Plan};
use crate::systems::Opened;
use crate::systems::callgrind::{self, Callgrind};
use crate::systems::servers;

/// Minimum number of operations of a pass, and operations of the warm-up before the first pass.
const OPERATIONS: u64 = 600;
const WARM_UP: u64 = 200;
/// Interval at which interrupts are checked while the process works.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time limit for starting, and for answering a line.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than any pass.
const LONGEST: Duration = Duration::from_hours(1);
/// Its answer after it has started or opened a connection.
const READY: &str = "ready";
/// The same in every run, because the choice of keys affects what is executed.
const SEED: u64 = 7;

/// A request to the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    /// Open a connection for the operation at this index of the plan, in a call mode.
    Turn(usize, Mode),
    /// Perform the operations of a pass.
    Pass,
}

impl Request {
    fn line(self) -> String {
        match self {
            Self::Turn(case, mode) => format!("{case} {mode}\n"),
            Self::Pass => "pass\n".to_owned(),
        }
    }

    fn of_line(line: &str) -> Option<Self> {
        match line.trim_end().split_once(' ') {
            Some((case, mode)) => Some(Self::Turn(
                case.parse().ok()?,
                Mode::from_str(mode, false).ok()?,
            )),
            None => (line.trim_end() == "pass").then_some(Self::Pass),
        }
    }
}

/// The process, as seen by its parent.
#[derive(Debug)]
pub(crate) struct CountedClient {
    process: Child,
    input: ChildStdin,
    output: Receiver<String>,
    callgrind: Callgrind,
}

impl CountedClient {
    /// Starts it for the target of a sweep, whose arguments are `words` and whose keys are those of the run
    /// `run_id`. Must be called on the main thread, because child processes end with the thread that starts them.
    ///
    /// # Errors
    /// If valgrind is missing, or the process does not start.
    pub(crate) fn start(
        opened: &Opened,
        run_id: &str,
        words: Vec<OsString>,
        control: &Control,
    ) -> Result<Self, Failure> {
        let callgrind = Callgrind::new()?;
        let cannot = |error: io::Error| {
            Failure::unavailable(format!("the client could not be started: {error}."))
        };
        let said = fs::File::create(callgrind.said()).map_err(cannot)?;
        let mut command = servers::counted_child("__client", &callgrind)?;
        command.args(["--counted-run", run_id]);
        if let Some(url) = opened.started_at() {
            command.args(["--counted-target", &url]);
        }
        let mut process = command
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said)
            .spawn()
            .map_err(cannot)?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            unreachable!("both are pipes");
        };
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let lines = BufReader::new(output).lines();
            // Fails once the receiver is dropped, when the client is no longer needed.
            let _ = lines
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line));
        });
        let mut client = Self {
            process,
            input,
            output: receiver,
            callgrind,
        };
        client.expect_ready(control)?;
        Ok(client)
    }

    /// The simulator that counts its instructions.
    pub(crate) fn callgrind(&self) -> &Callgrind {
        &self.callgrind
    }

    /// Opens a connection for an operation of the plan in a call mode, and warms it up.
    ///
    /// # Errors
    /// If the process fails to do so.
    pub(crate) fn turn_to(
        &mut self,
        case: usize,
        mode: Mode,
        control: &Control,
    ) -> Result<(), Failure> {
        self.say(Request::Turn(case, mode))?;
        self.expect_ready(control)
    }

    /// Performs the operations of a pass and counts them.
    ///
    /// # Errors
    /// If the process fails to do so, or the counts cannot be read.
    pub(crate) fn pass(&mut self, control: &Control) -> Result<(Pass, Profile), Failure> {
        self.say(Request::Pass)?;
        let answer = self.answer(control)?;
        let profile = self.callgrind.marked_pass()?;
        let ops = answer.parse().map_err(|_| self.broken(&answer))?;
        let pass = Pass {
            ops,
            instructions: profile.instructions,
            background: profile.background(),
            system_calls: profile.system_calls,
            allocations: Some(profile.allocations),
            ..Pass::default()
        };
        Ok((pass, profile))
    }

    fn say(&mut self, step: Request) -> Result<(), Failure> {
        let sent = self.input.write_all(step.line().as_bytes());
        sent.map_err(|_| self.broken("nothing"))
    }

    fn expect_ready(&mut self, control: &Control) -> Result<(), Failure> {
        let answer = self.answer(control)?;
        if answer == READY {
            return Ok(());
        }
        Err(self.broken(&answer))
    }

    fn answer(&mut self, control: &Control) -> Result<String, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.output.recv_timeout(LOOK_EVERY) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(self.broken("nothing")),
                Err(RecvTimeoutError::Timeout) if control.interrupted() => {
                    return Err(Failure::unavailable("interrupted."));
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                    return Err(Failure::unavailable(format!(
                        "the client did not answer within {} seconds.",
                        PATIENCE.as_secs()
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// The failure that the process ended or gave an unexpected answer, with the last lines that it printed.
    fn broken(&self, answer: &str) -> Failure {
        let said = fs::read(self.callgrind.said()).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let is_its_own = |line: &&str| !line.trim().is_empty() && !line.starts_with("==");
        // Valgrind's message about a signal that ended the process.
        let of_valgrind = |line: &&str| line.contains("terminating");
        let last = said.lines().rfind(is_its_own);
        let last = last
            .or_else(|| said.lines().rfind(of_valgrind))
            .unwrap_or("nothing");
        Failure::unavailable(format!(
            "the client answered {} and printed: {}",
            crate::printer::printable(answer),
            crate::printer::printable(last)
        ))
    }
}

impl Drop for CountedClient {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs as that process: obeys the lines on standard input until its end.
///
/// # Errors
/// If the target cannot be called, an operation fails, or a line is not understood.
pub(crate) fn obey(plan: &ModesPlan, base: &Plan, run_id: &str) -> Result<(), Failure> {
    let control = Control::default();
    let opened = Opened::open(&base.targets[0], base, &control)?;
    let connector = opened.connector(None)?;
    let mut called: Option<(Called, u64)> = None;
    files::print(&format!("{READY}\n"))?;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure::usage(format!("__client: {error}.")))?;
        let answer = match (Request::of_line(&line), &mut called) {
            (Some(Request::Turn(case, mode)), _) if case < base.cases.len() => {
                let (case, size) = (&base.cases[case], plan.size(mode));
                let prefix = case.prefix(run_id);
                let mut one = client::open(&connector, case, mode, size, &prefix, unhurried(case))?;
                let calls =
                    |operations: u64| u64::from(size) * operations.div_ceil(u64::from(size));
                perform(&mut one, calls(WARM_UP), &control)?;
                called = Some((one, calls(OPERATIONS)));
                READY.to_owned()
            }
            (Some(Request::Pass), Some((one, operations))) => {
                callgrind::mark();
                let ops = perform(one, *operations, &control)?;
                callgrind::mark();
                ops.to_string()
            }
            _ => return Err(Failure::usage(format!("__client: unknown line `{line}`."))),
        };
        files::print(&format!("{answer}\n"))?;
    }
    Ok(())
}

/// A block without a series, because the work to close its intervals would depend on time.
fn unhurried(case: &Case) -> Block {
    Block {
        interval: LONGEST,
        ..load_block(case, SEED)
    }
}

/// Performs `operations` and returns the number of them.
fn perform(called: &mut Called, operations: u64, control: &Control) -> Result<u64, Failure> {
    let outcome = called
        .block(Stop::after_ops(operations), SEED, control)
        .map_err(|error| failure("The target", &error))?;
    match outcome.errors.iter().next() {
        None => Ok(outcome.ops),
        Some((kind, count)) => Err(Failure::unavailable(format!(
            "{count} operations were answered with {kind}."
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_leads_back_to_its_step() {
        for step in [
            Request::Turn(0, Mode::Sync),
            Request::Turn(12, Mode::Transaction),
            Request::Pass,
        ] {
            assert_eq!(Request::of_line(&step.line()), Some(step));
        }
        for line in ["", "sync", "x sync", "1 quickly", "-1 sync"] {
            assert_eq!(Request::of_line(line), None, "{line}");
        }
    }
}

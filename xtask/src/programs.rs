//! The test programs that cargo builds: each runs once, a test that fails runs again alone, and the slowest are named.
//!
//! A test that passes when it is repeated is flaky. Flaky tests are listed and do not fail the run, up to
//! [`MOST_FLAKY`]: more of them mean that something other than chance is wrong.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::stopwatch::{self, Stopwatch};
use crate::{cargo, pool, say};

/// Programs that run at the same time, each with as many tests as there are CPUs: tests wait for servers and other programs
/// for half of their time.
const PROGRAMS: usize = 2;
/// The program that takes as long as all others together, and so is the first: at the end it would run alone.
const FIRST: &str = "loadline, test cli";
/// Sets how many tests of a program run at the same time.
const THREADS: &str = "RUST_TEST_THREADS";
/// Repetitions of a failed test.
const REPEATS: u32 = 2;
/// Flaky tests that a run may have.
const MOST_FLAKY: usize = 3;
/// Rows of the table of slow tests.
const SLOWEST: usize = 20;
/// Makes the test harness print the time of each test. The option is unstable, and this variable permits it.
const TIMES: [&str; 2] = ["-Zunstable-options", "--report-time"];
const PERMIT_TIMES: (&str, &str) = ("RUSTC_BOOTSTRAP", "1");

/// One message of `cargo test --no-run --message-format=json`, as far as it matters here.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    profile: Option<Profile>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

/// A program whose tests can be run by their names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Package and target.
    name: String,
    command: Vec<String>,
    /// Directory of the package; `None` for the current directory.
    package: Option<PathBuf>,
}

/// Result of one run of a program.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    /// Number of tests that passed.
    passed: usize,
    /// Names of the tests that failed.
    failed: Vec<String>,
    /// Seconds and names of tests, where the harness states them.
    times: Vec<(f64, String)>,
    /// Whether the program ended with success.
    success: bool,
    /// CPU time of the program, and of the programs that it waited for.
    cpu_seconds: f64,
}

/// A test that failed once, or a program that ended without naming a failed test.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    program: usize,
    test: Option<String>,
}

/// Totals of a run.
#[derive(Debug, Default)]
struct Totals {
    passed: usize,
    times: Vec<(f64, String)>,
    /// Names of tests that passed when repeated.
    flaky: Vec<String>,
    /// Names of tests that failed each time.
    failed: Vec<String>,
}

/// Runs all tests of `programs`, with `environment`.
///
/// # Errors
/// If a test fails in each of its runs, or if more than three tests are flaky.
pub(crate) fn run_all(programs: &[Program], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    let mut totals = Totals::default();
    let mut failures = Vec::new();
    // A program with one slow test at its end leaves the CPUs idle.
    let outcomes = pool::map(programs, PROGRAMS, |program| program.run_whole(environment));
    for (index, (program, outcome)) in programs.iter().zip(outcomes).enumerate() {
        let outcome = outcome?;
        totals.passed += outcome.passed;
        failures.extend(outcome.failures(index));
        let named = |(seconds, test): (f64, String)| (seconds, format!("{}: {test}", program.name));
        totals.times.extend(outcome.times.into_iter().map(named));
    }
    for failure in failures {
        let program = &programs[failure.program];
        let name = failure.shown(program);
        let repeat = || program.repeat(&failure, environment, &mut std::io::stdout());
        if passes_when_repeated(&name, repeat)? {
            totals.passed += 1;
            totals.flaky.push(name);
        } else {
            totals.failed.push(name);
        }
    }
    totals.print();
    totals.verdict()
}

/// Builds the test programs of the workspace with the features in `features`, in the order in which they are to run: the
/// longest first, the doc tests last.
///
/// # Errors
/// If the build fails.
pub(crate) fn build(features: &str) -> anyhow::Result<Vec<Program>> {
    let watch = Stopwatch::start();
    let format = "--message-format=json-render-diagnostics";
    let mut child = Command::new(cargo())
        .args(["test", "--workspace", features, "--no-run", format])
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo could not be started")?;
    let mut programs = Vec::new();
    for line in lines(&mut child)? {
        programs.extend(program(&line?)?);
    }
    let status = child.wait().context("cargo was lost")?;
    if !status.success() {
        bail!("the tests could not be built ({status})");
    }
    say(&format!("test: build of the tests: {watch}"));
    let first = programs.iter().position(|program| program.name == FIRST);
    let first = first.with_context(|| format!("no program is `{FIRST}`"))?;
    programs[..=first].rotate_right(1);
    programs.push(Program {
        name: "doc tests".into(),
        command: [&cargo(), "test", "--workspace", features, "--doc", "--"]
            .map(String::from)
            .to_vec(),
        package: None,
    });
    Ok(programs)
}

/// The test program in a message of cargo, if the message is about one.
fn program(line: &str) -> anyhow::Result<Option<Program>> {
    let message: Message =
        serde_json::from_str(line).with_context(|| format!("a message of cargo: {line}"))?;
    let (Some(executable), Some(manifest), Some(target)) =
        (message.executable, message.manifest_path, message.target)
    else {
        return Ok(None);
    };
    if !message.profile.is_some_and(|profile| profile.test) {
        return Ok(None);
    }
    let package = manifest.parent().unwrap_or(Path::new("/")).to_path_buf();
    let folder = package.file_name().unwrap_or_default().to_string_lossy();
    let kind = target.kind.first().map_or("", String::as_str);
    Ok(Some(Program {
        name: format!("{folder}, {kind} {}", target.name),
        command: vec![executable.to_string_lossy().into_owned()],
        package: Some(package),
    }))
}

/// The lines that a child prints.
fn lines(
    child: &mut std::process::Child,
) -> anyhow::Result<impl Iterator<Item = anyhow::Result<String>> + use<>> {
    let output = child.stdout.take().context("the output of the child")?;
    // Tests print what they like, also bytes that are no text.
    let split = BufReader::new(output).split(b'\n');
    Ok(split.map(|line| {
        let line = line.context("the output of a child could not be read")?;
        Ok(String::from_utf8_lossy(&line).into_owned())
    }))
}

impl Program {
    /// Runs all tests of the program, and prints its lines at once when it has ended.
    fn run_whole(&self, environment: &[(&str, &str)]) -> anyhow::Result<Outcome> {
        let begun = Instant::now();
        let arguments: &[&str] = if self.package.is_some() { &TIMES } else { &[] };
        let mut lines = Vec::new();
        let outcome = self.run(arguments, environment, &mut lines);
        let mut output = std::io::stdout().lock();
        // A closed output changes nothing about the result.
        let _ = output.write_all(&lines);
        let _ = output.flush();
        drop(output);
        let seconds = begun.elapsed().as_secs_f64();
        let cpu = outcome.as_ref().map_or(0.0, |outcome| outcome.cpu_seconds);
        say(&format!(
            "test: {}: {seconds:.1} s ({cpu:.1} s of CPU)",
            self.name
        ));
        outcome
    }

    /// Runs the program with `arguments` and passes on its lines to `output`.
    fn run(
        &self,
        arguments: &[&str],
        environment: &[(&str, &str)],
        output: &mut impl Write,
    ) -> anyhow::Result<Outcome> {
        let [program, words @ ..] = &self.command[..] else {
            bail!("{} has no command", self.name);
        };
        let mut command = Command::new(program);
        command.args(words).args(arguments);
        command
            .env(THREADS, pool::cpus().to_string())
            .envs(environment.iter().copied())
            .stdout(Stdio::piped());
        if let Some(package) = &self.package {
            // As cargo runs it.
            command
                .current_dir(package)
                .env("CARGO_MANIFEST_DIR", package)
                .envs([PERMIT_TIMES]);
        }
        let mut child = command
            .spawn()
            .with_context(|| format!("{program} could not be started"))?;
        say(&format!("     Running {}", self.name));
        let mut outcome = Outcome::default();
        for line in lines(&mut child)? {
            let line = line?;
            outcome.read(&line);
            // A closed output changes nothing about the result.
            let _ = writeln!(output, "{line}");
        }
        outcome.cpu_seconds = stopwatch::cpu_of_ended(&child)?.as_secs_f64();
        outcome.success = child.wait().context("a test program was lost")?.success();
        Ok(outcome)
    }

    /// Runs a failed test again, alone; the whole program if none was named.
    fn repeat(
        &self,
        failure: &Failure,
        environment: &[(&str, &str)],
        output: &mut impl Write,
    ) -> anyhow::Result<bool> {
        let Some(test) = &failure.test else {
            return Ok(self.run(&[], environment, output)?.success);
        };
        let outcome = self.run(&["--exact", test], environment, output)?;
        Ok(outcome.success && outcome.passed == 1)
    }
}

impl Outcome {
    /// Reads a line of the test harness, such as `test name ... ok <0.012s>`.
    fn read(&mut self, line: &str) {
        let Some((name, verdict)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.rsplit_once(" ... "))
        else {
            return;
        };
        let name = name.trim_end_matches(" - should panic");
        let mut words = verdict.split_whitespace();
        match words.next() {
            Some("ok") => self.passed += 1,
            Some("FAILED") => self.failed.push(name.to_owned()),
            _ => return,
        }
        let seconds = words.next().and_then(|time| {
            let time = time.strip_prefix('<')?.strip_suffix("s>")?;
            time.parse().ok()
        });
        self.times
            .extend(seconds.map(|seconds| (seconds, name.to_owned())));
    }

    /// The failures of program number `program`.
    fn failures(&self, program: usize) -> Vec<Failure> {
        if self.failed.is_empty() && !self.success {
            return vec![Failure {
                program,
                test: None,
            }];
        }
        let tests = self.failed.iter().cloned().map(Some);
        tests.map(|test| Failure { program, test }).collect()
    }
}

impl Failure {
    fn shown(&self, program: &Program) -> String {
        match &self.test {
            Some(test) => format!("{}: {test}", program.name),
            None => format!("{}: the program itself", program.name),
        }
    }
}

/// Repeats a failed test until it passes, [`REPEATS`] times at most.
fn passes_when_repeated(
    name: &str,
    mut run: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<bool> {
    for repeat in 1..=REPEATS {
        say(&format!("test: repetition {repeat} of {REPEATS}: {name}"));
        if run()? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Totals {
    /// Prints the closing tables.
    fn print(&mut self) {
        self.times.sort_by(|one, other| other.0.total_cmp(&one.0));
        self.times.truncate(SLOWEST);
        say("\nSlowest tests");
        for (seconds, name) in &self.times {
            say(&format!("{seconds:>8.1} s  {name}"));
        }
        say(&table(
            "Flaky tests: failed first, passed alone",
            &self.flaky,
        ));
        say(&table("Failed tests", &self.failed));
        // A closed output changes nothing about the result.
        let _ = writeln!(
            std::io::stdout(),
            "tests: {} passed, {} failed",
            self.passed,
            self.failed.len()
        );
    }

    /// # Errors
    /// If a test failed each time, or if too many are flaky.
    fn verdict(&self) -> anyhow::Result<()> {
        if !self.failed.is_empty() {
            bail!("{} tests failed in each of their runs", self.failed.len());
        }
        if self.flaky.len() > MOST_FLAKY {
            bail!(
                "{} tests are flaky, and at most {MOST_FLAKY} may be",
                self.flaky.len()
            );
        }
        Ok(())
    }
}

/// A table of names, which also says that there are none.
fn table(title: &str, names: &[String]) -> String {
    if names.is_empty() {
        return format!("\n{title}: none");
    }
    format!("\n{title}\n  {}", names.join("\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str, success: bool) -> Outcome {
        let mut outcome = Outcome::default();
        text.lines().for_each(|line| outcome.read(line));
        outcome.success = success;
        outcome
    }

    #[test]
    fn lines_of_the_harness_give_counts_failures_and_times() {
        let text = "running 4 tests\n\
            test a::one ... ok <1.500s>\n\
            test a::two - should panic ... FAILED <0.250s>\n\
            test src/lib.rs - Type (line 18) ... ok\n\
            test slow ... ignored\n\
            test result: FAILED. 2 passed; 1 failed; 1 ignored";
        let outcome = outcome(text, false);
        assert_eq!(outcome.passed, 2);
        assert_eq!(outcome.failed, ["a::two"]);
        assert_eq!(
            outcome.times,
            [(1.5, "a::one".to_owned()), (0.25, "a::two".to_owned())]
        );
        let failure = Failure {
            program: 7,
            test: Some("a::two".into()),
        };
        assert_eq!(outcome.failures(7), [failure]);
    }

    #[test]
    fn program_that_dies_is_a_failure_of_its_own() {
        let outcome = outcome("test a::one ... ok", false);
        assert_eq!(
            outcome.failures(0),
            [Failure {
                program: 0,
                test: None
            }]
        );
    }

    #[test]
    fn failed_test_is_repeated_twice_at_most() {
        let count = |fails: u32| {
            let mut runs = 0;
            let passed = passes_when_repeated("one", || {
                runs += 1;
                Ok(runs > fails)
            });
            (passed.unwrap(), runs)
        };
        assert_eq!(count(0), (true, 1));
        assert_eq!(count(1), (true, 2));
        assert_eq!(count(2), (false, 2));
    }

    #[test]
    fn run_fails_by_failed_tests_and_by_more_than_three_flaky_ones() {
        let totals = |flaky: usize, failed: usize| Totals {
            flaky: vec!["flaky".into(); flaky],
            failed: vec!["failed".into(); failed],
            ..Totals::default()
        };
        assert!(totals(3, 0).verdict().is_ok());
        let error = totals(4, 0).verdict().unwrap_err().to_string();
        assert_eq!(error, "4 tests are flaky, and at most 3 may be");
        assert!(totals(0, 1).verdict().is_err());
    }

    #[test]
    fn only_test_programs_are_taken_from_messages() {
        let line = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/p/crates/store/Cargo.toml","target":{{"kind":["test"],"name":"killed"}},"profile":{{"test":{test}}},"executable":"/p/killed-1"}}"#
            )
        };
        let found = program(&line(true)).unwrap().unwrap();
        assert_eq!(found.name, "store, test killed");
        assert_eq!(found.package, Some("/p/crates/store".into()));
        assert_eq!(program(&line(false)).unwrap(), None);
        let other = r#"{"reason":"build-finished","success":true}"#;
        assert_eq!(program(other).unwrap(), None);
        assert!(program("error").is_err());
    }

    /// A real program with a test that fails once, and one that always fails. Its lines do not reach our own output, where
    /// they would count as failures.
    #[test]
    fn real_program_is_run_and_its_failed_tests_alone() {
        let dir = tempfile::tempdir().unwrap();
        let script = "case \"$*\" in \
            *'--exact once'*) echo 'test once ... ok' ;; \
            *'--exact always'*) echo 'test always ... FAILED'; exit 101 ;; \
            *) echo 'test once ... FAILED <0.100s>'; echo 'test always ... FAILED <0.200s>'; exit 101 ;; esac";
        let path = dir.path().join("program.sh");
        std::fs::write(&path, script).unwrap();
        let program = Program {
            name: "script".into(),
            command: vec!["sh".into(), path.to_string_lossy().into_owned()],
            package: Some(dir.path().into()),
        };
        let mut output = Vec::new();
        let outcome = program.run(&TIMES, &[], &mut output).unwrap();
        let failures = outcome.failures(0);
        assert_eq!(failures.len(), 2);
        assert!(program.repeat(&failures[0], &[], &mut output).unwrap());
        assert!(!program.repeat(&failures[1], &[], &mut output).unwrap());
    }
}

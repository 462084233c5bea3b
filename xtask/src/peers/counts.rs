//! Counts per operation of a program: the difference between one run and another with twice as many operations, so
//! that the fixed cost of a run is not in them.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use loadline_measure::work::callgrind;

use super::programs::run_pinned;

/// The note in place of counts.
pub(super) const NO_VALGRIND: &str =
    "Instructions were not counted, since valgrind is not on PATH.";

/// Counts per operation, where `total` is the count of a whole run of that many operations.
fn per_operation(ops: u64, total: impl Fn(u64) -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    Ok((total(2 * ops)? - total(ops)?) / ops as f64)
}

/// System calls per operation of what `words` run, for a number of operations.
///
/// # Errors
/// If the program fails, or strace writes no total.
pub(super) fn system_calls(
    dir: &Path,
    ops: u64,
    words: impl Fn(u64) -> Vec<String>,
) -> anyhow::Result<f64> {
    let report = dir.join("strace");
    per_operation(ops, |ops| {
        let mut all: Vec<String> = ["strace", "-f", "-c", "-o"].map(Into::into).to_vec();
        all.push(report.display().to_string());
        all.extend(words(ops));
        run_pinned(&all)?;
        total_calls(&fs::read_to_string(&report)?)
    })
}

/// Instructions in user space per operation of what `words` run, for a number of operations, with those of the
/// processes that it starts.
///
/// # Errors
/// If the program fails under callgrind, or its profiles cannot be read.
pub(super) fn instructions(
    dir: &Path,
    ops: u64,
    words: impl Fn(u64) -> Vec<String>,
) -> anyhow::Result<f64> {
    let profiles = dir.join("callgrind");
    per_operation(ops, |ops| {
        fs::create_dir(&profiles)?;
        let ran = run_pinned(&under_callgrind(&profiles, words(ops)));
        let total = ran.and_then(|_| total_instructions(&profiles));
        fs::remove_dir_all(&profiles)?;
        total
    })
}

/// The command that counts `words`, and writes a profile of each process into `profiles`.
fn under_callgrind(profiles: &Path, words: Vec<String>) -> Vec<String> {
    let first = [
        "valgrind",
        "--tool=callgrind",
        "--quiet",
        "--trace-children=yes",
    ];
    let out = format!("--callgrind-out-file={}/%p", profiles.display());
    let first = first.into_iter().map(Into::into);
    first.chain([out]).chain(words).collect()
}

/// The sum over the profiles in a directory.
fn total_instructions(profiles: &Path) -> anyhow::Result<f64> {
    let mut total = 0;
    for file in fs::read_dir(profiles)? {
        let text = fs::read(file?.path())?;
        let profile = callgrind::parse(&String::from_utf8_lossy(&text));
        total += profile
            .context("a profile of callgrind cannot be read")?
            .instructions;
    }
    if total == 0 {
        bail!("callgrind wrote no profile");
    }
    Ok(total as f64)
}

/// The number of calls in the last line of a summary of strace.
fn total_calls(report: &str) -> anyhow::Result<f64> {
    let Some(line) = report
        .lines()
        .rfind(|line| line.trim_end().ends_with("total"))
    else {
        bail!("strace wrote no total:\n{report}");
    };
    // Share, seconds, microseconds per call, calls, and errors if there were any.
    let calls = line
        .split_ascii_whitespace()
        .nth(3)
        .context("a column of calls")?;
    calls.parse().with_context(|| format!("`{line}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_of_calls_is_read_from_strace() {
        let report = "% time     seconds  usecs/call     calls    errors syscall\n\
                      100.00    0.006217           1      5012        12 total\n";
        assert_eq!(total_calls(report).unwrap(), 5_012.0);
        assert!(total_calls("strace: nothing").is_err());
    }

    #[test]
    fn start_and_end_of_a_program_are_not_in_its_counts() {
        assert_eq!(
            per_operation(100, |ops| Ok(7_000.0 + 3.5 * ops as f64)).unwrap(),
            3.5
        );
        assert!(per_operation(100, |ops| if ops > 100 { bail!("lost") } else { Ok(1.0) }).is_err());
    }

    /// A shell executes the same for each turn of a loop, and so does a shell that it starts.
    ///
    /// The size of that share depends on the names in the environment (where they fall in the shell's
    /// table of variables moved it by 7 %), so both start with none. A process that is not counted
    /// makes the ratio 0, and one that is counted twice makes it 2.
    #[test]
    fn instructions_are_those_of_all_processes() {
        let dir = tempfile::tempdir().unwrap();
        let count = |line: &str| {
            let words = |ops: u64| {
                let line = line.replace("OPS", &ops.to_string());
                ["env", "-i", "sh", "-c", &line].map(String::from).to_vec()
            };
            instructions(dir.path(), 500, words).unwrap()
        };
        let alone = count("i=0; while [ $i -lt OPS ]; do i=$((i+1)); done");
        let inner = count("sh -c 'i=0; while [ $i -lt OPS ]; do i=$((i+1)); done'; true");
        assert!(alone > 100.0, "{alone}");
        assert!((0.8..1.2).contains(&(inner / alone)), "{inner} {alone}");
        let ended = instructions(dir.path(), 1, |_| vec!["false".to_owned()]);
        assert!(ended.is_err());
    }
}

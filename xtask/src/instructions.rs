//! `cargo xtask instructions`: compares the instructions per operation of the codec, the store, the server
//! and the client with the counts in a file of the repository.
//!
//! Counts vary little between runs, so a check needs one run and no quiet machine. They depend on the
//! compiler, the C library, valgrind and the features of the CPU; if one of these differs, the counts are
//! printed without a verdict. Save the file in the same commit that changes a count on purpose.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use loadline_measure::work::callgrind::{self, Profile};
use serde::{Deserialize, Serialize};

use crate::lint::run_cargo;
use crate::{is_on_path, say, target_dir};

/// The file of saved counts.
const FILE: &str = "xtask/instructions.json";
/// The program with the measured functions, which is also the name of its profile.
const PROGRAM: &str = "instructions";
/// A function that executes this share more than its saved count fails the check.
const MOST: f64 = 0.03;
/// Functions that are counted and printed but not judged: they use a socket for one request or one window at
/// a time, and the number of calls depends on timing. Counts of one build differ by up to a fifth.
const TIMED: [&str; 2] = ["server::", "client::"];
/// The advice for counts that changed without a change of ours.
const SAVE: &str = "`cargo xtask instructions --save` saves them";

/// Counts and their environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// The version of the compiler.
    rustc: String,
    /// The version of valgrind.
    valgrind: String,
    /// The C library, and the features of the CPU that it selects functions by.
    machine: String,
    /// Instructions per operation, by the name of the function.
    functions: BTreeMap<String, f64>,
}

/// Counts again and replaces the saved counts.
///
/// # Errors
/// If counting or writing fails.
pub(crate) fn save() -> anyhow::Result<()> {
    let now = count(Functions::All)?;
    let text = serde_json::to_string_pretty(&now)?;
    std::fs::write(FILE, format!("{text}\n"))
        .with_context(|| format!("{FILE} could not be written"))?;
    for (name, count) in &now.functions {
        say(&format!("instructions: {name}: {count}"));
    }
    Ok(())
}

/// Compares counts with the saved counts.
///
/// # Errors
/// If a function executes 3 % more than its saved count, or if the functions differ from those of the file.
pub(crate) fn check(now: &Counts) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(FILE)
        .with_context(|| format!("{FILE} could not be read; {SAVE}"))?;
    let saved: Counts =
        serde_json::from_str(&text).with_context(|| format!("{FILE} is invalid"))?;
    let verdict = judge(&saved, now);
    for line in &verdict.lines {
        say(&format!("instructions: {line}"));
    }
    if !verdict.faults.is_empty() {
        bail!(
            "{}. If that is intended, {SAVE}; commit {FILE} with the change",
            verdict.faults.join("; ")
        );
    }
    Ok(())
}

/// The result of a comparison: printed lines and faults.
#[derive(Debug, Default)]
struct Verdict {
    lines: Vec<String>,
    faults: Vec<String>,
}

fn judge(saved: &Counts, now: &Counts) -> Verdict {
    let mut verdict = Verdict::default();
    let differences: Vec<String> = [
        ("rustc", &saved.rustc, &now.rustc),
        ("valgrind", &saved.valgrind, &now.valgrind),
        ("the machine", &saved.machine, &now.machine),
    ]
    .into_iter()
    .filter(|(_, was, is)| was != is)
    .map(|(what, was, is)| format!("{what} was {was} and is {is}"))
    .collect();
    let mut lower = 0;
    for (name, count) in &now.functions {
        let Some(before) = saved.functions.get(name) else {
            verdict.faults.push(format!("{name} has no saved count"));
            continue;
        };
        let change = count / before - 1.0;
        let mut line = format!("{name}: {count} ({before} saved, {:+.1} %)", change * 100.0);
        if is_timed(name) {
            line += "; not judged, because it depends on timing";
            verdict.lines.push(line);
            continue;
        }
        if change >= MOST && differences.is_empty() {
            verdict.faults.push(line.clone());
        }
        lower += u32::from(change <= -MOST);
        verdict.lines.push(line);
    }
    let gone = saved.functions.keys();
    let gone = gone.filter(|name| !is_timed(name) && !now.functions.contains_key(*name));
    verdict
        .faults
        .extend(gone.map(|name| format!("{name} has a saved count and was not measured")));
    if !differences.is_empty() {
        verdict.lines.push(format!(
            "NOT COMPARABLE, no verdict: {}; {SAVE}",
            differences.join(", ")
        ));
    } else if lower > 0 {
        verdict.lines.push(format!(
            "{lower} of these execute at least 3 % less than their saved counts; {SAVE}"
        ));
    }
    verdict
}

fn is_timed(function: &str) -> bool {
    TIMED.iter().any(|timed| function.starts_with(timed))
}

/// Selects the functions that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Functions {
    All,
    /// Only those that the check can fail on, whose program is built in a fraction of the time.
    Judged,
}

/// Counts what the functions execute. Those that are judged are always of the same build: with the crates that the others need,
/// some of them have other counts.
///
/// # Errors
/// If the program does not build, or valgrind is missing or counts nothing.
pub(crate) fn count(functions: Functions) -> anyhow::Result<Counts> {
    let mut counts = count_built(&["--no-default-features"])?;
    if functions == Functions::All {
        let others = count_built(&[])?.functions.into_iter();
        counts
            .functions
            .extend(others.filter(|(name, _)| is_timed(name)));
    }
    Ok(counts)
}

/// Builds the program with these features and counts what its functions execute.
fn count_built(features: &[&str]) -> anyhow::Result<Counts> {
    if !is_on_path("valgrind") {
        bail!("valgrind is not on PATH; `cargo xtask test --install` installs it");
    }
    let words = ["build", "--locked", "--package", PROGRAM];
    run_cargo(
        &[&words[..], &["--profile", PROGRAM], features].concat(),
        &[],
    )?;
    let program = target_dir().join(PROGRAM).join(PROGRAM);
    let dir = tempfile::tempdir().context("no directory for the profile of callgrind")?;
    let profile = dir.path().join("profile");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(&program)
        .stderr(Stdio::inherit())
        .output()
        .context("valgrind could not be started")?;
    if !output.status.success() {
        bail!(
            "`valgrind {}` ended with {}",
            program.display(),
            output.status
        );
    }
    let measured = String::from_utf8_lossy(&output.stdout);
    let text = std::fs::read_to_string(&profile).context("callgrind wrote no profile")?;
    let profile = callgrind::parse(&text).context("the profile of callgrind cannot be read")?;
    Ok(Counts {
        rustc: line_of("rustc", &["--version"])?,
        valgrind: line_of("valgrind", &["--version"])?,
        machine: machine()?,
        functions: per_operation(&measured, &profile)?,
    })
}

/// The counts of the functions that the program printed: a line with a name and the operations of a call for each.
fn per_operation(measured: &str, profile: &Profile) -> anyhow::Result<BTreeMap<String, f64>> {
    let count = |line: &str| {
        let (name, operations) = line.split_once(' ')?;
        let operations: f64 = operations.parse().ok()?;
        let mut functions = profile.functions.iter();
        let function = functions.find(|function| function.name == name)?;
        let per_op = function.inclusive as f64 / (function.calls as f64 * operations);
        let name = name.strip_prefix("instructions::").unwrap_or(name);
        per_op
            .is_normal()
            .then(|| (name.to_owned(), (per_op * 10.0).round() / 10.0))
    };
    measured
        .lines()
        .map(|line| count(line).with_context(|| format!("callgrind counted nothing for `{line}`")))
        .collect()
}

/// The first line that a program prints.
fn line_of(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("{program} could not be started"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next();
    Ok(line
        .with_context(|| format!("{program} printed nothing"))?
        .to_owned())
}

/// The C library, and whether the CPU has the features that valgrind passes on and libraries choose functions by.
fn machine() -> anyhow::Result<String> {
    let flags = std::fs::read_to_string(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let has = |feature: &&str| flags.split_whitespace().any(|flag| flag == *feature);
    let features: Vec<&str> = ["avx2", "erms"].into_iter().filter(has).collect();
    Ok(format!(
        "{}, {} {}",
        line_of("getconf", &["GNU_LIBC_VERSION"])?,
        std::env::consts::ARCH,
        features.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(functions: &[(&str, f64)]) -> Counts {
        Counts {
            rustc: "rustc 1.95.0".into(),
            valgrind: "valgrind-3.19.0".into(),
            machine: "glibc 2.36, x86_64 avx2".into(),
            functions: functions
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
        }
    }

    #[test]
    fn five_percent_more_fails_and_two_do_not() {
        let saved = counts(&[("codec::encode_set", 100.0), ("store::read", 50.0)]);
        let slightly = judge(
            &saved,
            &counts(&[("codec::encode_set", 102.0), ("store::read", 40.0)]),
        );
        assert!(slightly.faults.is_empty(), "{slightly:?}");
        assert!(slightly.lines[2].starts_with("1 of these execute at least 3 % less"));
        let more = judge(
            &saved,
            &counts(&[("codec::encode_set", 105.0), ("store::read", 50.0)]),
        );
        assert_eq!(more.faults, ["codec::encode_set: 105 (100 saved, +5.0 %)"]);
    }

    #[test]
    fn counts_that_depend_on_timing_are_printed_and_not_judged() {
        let saved = counts(&[("server::serve_get", 100.0), ("store::read", 50.0)]);
        let now = counts(&[("server::serve_get", 120.0), ("store::read", 50.0)]);
        let verdict = judge(&saved, &now);
        assert!(verdict.faults.is_empty(), "{verdict:?}");
        assert_eq!(
            verdict.lines[0],
            "server::serve_get: 120 (100 saved, +20.0 %); not judged, because it depends on timing"
        );
    }

    #[test]
    fn saved_count_that_is_not_judged_need_not_be_measured() {
        let saved = counts(&[("server::serve_get", 100.0), ("store::read", 50.0)]);
        let verdict = judge(&saved, &counts(&[("store::read", 50.0)]));
        assert!(verdict.faults.is_empty(), "{verdict:?}");
    }

    #[test]
    fn counts_of_another_compiler_claim_nothing_and_say_so() {
        let saved = counts(&[("store::read", 50.0)]);
        let now = Counts {
            rustc: "rustc 1.96.0".into(),
            ..counts(&[("store::read", 100.0)])
        };
        let verdict = judge(&saved, &now);
        assert!(verdict.faults.is_empty(), "{verdict:?}");
        assert_eq!(
            verdict.lines[1],
            "NOT COMPARABLE, no verdict: rustc was rustc 1.95.0 and is rustc 1.96.0; `cargo xtask instructions --save` saves them"
        );
    }

    #[test]
    fn functions_without_a_count_on_one_side_fail() {
        let verdict = judge(&counts(&[("a", 1.0)]), &counts(&[("b", 1.0)]));
        assert_eq!(
            verdict.faults,
            [
                "b has no saved count",
                "a has a saved count and was not measured"
            ]
        );
    }

    #[test]
    fn measured_function_is_found_in_the_profile_or_the_check_fails() {
        let text = "events: Ir\nfn=(1) main\n1 5\ncfn=(2) instructions::store::read\ncalls=4 2\n1 400\nfn=(2)\n2 400\n";
        let profile = callgrind::parse(text).unwrap();
        let counted = per_operation("instructions::store::read 2\n", &profile).unwrap();
        assert_eq!(counted, BTreeMap::from([("store::read".to_owned(), 50.0)]));
        let error = per_operation("instructions::store::gone 1\n", &profile).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("counted nothing for `instructions::store::gone 1`")
        );
    }
}

//! `cargo xtask test`: every test, with the real programs they talk to.

use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, bail};

use crate::install::{PAUSE, TRIES, install_debian, refuse, try_again};
use crate::instructions::Functions;
use crate::lint::run_cargo;
use crate::stopwatch::Stopwatch;
use crate::{
    drivers, features, instructions, is_on_path, kubernetes, pool, porcupine, programs, run, say,
    settings, target_dir,
};

/// A program that tests run, and the Debian package it comes in.
type Needed = (&'static str, &'static str);

const PROGRAMS: [Needed; 12] = [
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    ("redis-benchmark", "redis-tools"),
    ("ip", "iproute2"),
    ("kill", "procps"),
    ("chromium", "chromium"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("valgrind", "valgrind"),
    ("go", "golang-go"),
    ("python3", "python3"),
    ("pip3", "python3-pip"),
];

/// Checks the accessibility of pages in a browser (MPL-2.0). It is installed and not kept here.
const AXE: &str = "axe-core@4.11.0";

/// Arguments of `cargo xtask test`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    install: bool,
    long: bool,
    rocksdb: bool,
    /// Arguments of `cargo test`.
    arguments: &'a [&'a str],
}

impl<'a> Asked<'a> {
    /// Reads the words after `test`; `None` for an unknown flag.
    pub(crate) fn parse(words: &'a [&'a str]) -> Option<Self> {
        let mut asked = Self::default();
        for (place, word) in words.iter().enumerate() {
            match *word {
                "--install" => asked.install = true,
                "--long" => asked.long = true,
                "--rocksdb" => asked.rocksdb = true,
                "--" => {
                    asked.arguments = &words[place + 1..];
                    return Some(asked);
                }
                _ => return None,
            }
        }
        Some(asked)
    }
}

/// Runs every test of the workspace and those of some drivers, and the check of our own instructions; with arguments
/// for `cargo test`, only the first.
///
/// # Errors
/// If a test fails, or if a program is missing that should be installed or that `CI=true` requires.
pub(crate) fn run_tests(asked: &Asked<'_>) -> anyhow::Result<()> {
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    let features = features::flag(asked.rocksdb)?;
    let long = [(settings::LONG, "1")];
    let environment = if asked.long { &long[..] } else { &[] };
    if !asked.install || !asked.arguments.is_empty() {
        provide(asked.install, is_ci)?;
    }
    if !asked.arguments.is_empty() {
        let words = ["test", "--workspace", &features];
        return run_cargo(&[&words, asked.arguments].concat(), environment);
    }
    // Installing waits for the network for most of its time, and the build needs nothing of it.
    let programs = thread::scope(|scope| {
        let provided = asked.install.then(|| scope.spawn(|| provide(true, is_ci)));
        let programs = programs::build(&features);
        if let Some(provided) = provided {
            provided.join().expect("no thread panics")?;
        }
        programs
    })?;
    let must_be_there = asked.install || is_ci;
    let mut failed = Vec::new();
    thread::scope(|scope| {
        // Tests wait for some of their time; meanwhile, what the other steps need is made, and instructions are counted, which
        // takes no quiet machine.
        let made = scope.spawn(|| {
            let clients = pool::yield_to_others()
                .and_then(|()| drivers::prepare(asked.install, must_be_there));
            (clients, instructions::count(Functions::Judged))
        });
        step("the workspace", &mut failed, || {
            programs::run_all(&programs, environment)
        });
        let (clients, counts) = made.join().expect("no thread panics");
        step("the drivers", &mut failed, || drivers::test_all(&clients?));
        step("instructions", &mut failed, || {
            instructions::check(&counts?)
        });
    });
    if failed.is_empty() {
        return Ok(());
    }
    bail!("{}", failed.join("; "))
}

/// Installs the programs that tests need, or says which are missing.
///
/// # Errors
/// If one cannot be installed, or is missing where `is_ci` requires it.
fn provide(install: bool, is_ci: bool) -> anyhow::Result<()> {
    let mut missing = missing(&PROGRAMS);
    if install && !missing.is_empty() {
        install_packages(&missing)?;
        missing = self::missing(&PROGRAMS);
    }
    refuse_missing(&missing, install || is_ci)?;
    if install {
        install_axe()?;
        porcupine::install()?;
        kubernetes::install()
    } else {
        refuse_missing_axe(is_ci)?;
        porcupine::refuse_missing(is_ci)?;
        kubernetes::refuse_missing(is_ci)
    }
}

/// Takes a part of the run and prints its time. The run goes on after one that failed, which joins `failed`: it takes too long
/// to show one failure only.
fn step(name: &str, failed: &mut Vec<String>, part: impl FnOnce() -> anyhow::Result<()>) {
    let watch = Stopwatch::start();
    let done = part();
    say(&format!(
        "test: {name}: {} in {watch}",
        if done.is_ok() { "ok" } else { "FAILED" }
    ));
    failed.extend(done.err().map(|error| format!("{name}: {error:#}")));
}

/// The directory that tests read axe-core from.
fn axe_dir() -> PathBuf {
    target_dir().join("axe")
}

fn has_axe() -> bool {
    axe_dir().join("node_modules/axe-core/axe.min.js").is_file()
}

fn install_axe() -> anyhow::Result<()> {
    if has_axe() {
        return Ok(());
    }
    let dir = axe_dir();
    std::fs::create_dir_all(&dir)
        .with_context(|| format!("{} could not be created", dir.display()))?;
    let dir = dir.to_string_lossy();
    let words = ["install", "--no-audit", "--no-fund", "--prefix", &dir, AXE];
    try_again(TRIES, PAUSE, || run("npm", &words, &[]))
        .with_context(|| format!("npm could not install {AXE} in {TRIES} tries"))
}

/// Says that axe-core is missing; an error where it must not be.
fn refuse_missing_axe(must_be_there: bool) -> anyhow::Result<()> {
    if has_axe() {
        return Ok(());
    }
    let sentence = format!(
        "{AXE} is not in {}, and the test of HTML reports needs it; `cargo xtask test --install` installs it with npm",
        axe_dir().display()
    );
    refuse(&sentence, must_be_there)
}

/// Says what is missing; an error where it must not be.
fn refuse_missing(missing: &[Needed], must_be_there: bool) -> anyhow::Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    let sentence = format!(
        "not on PATH, and needed by tests: {}; `cargo xtask test --install` installs them (Debian packages {})",
        names.join(", "),
        packages(missing).join(", ")
    );
    refuse(&sentence, must_be_there)
}

fn missing(programs: &[Needed]) -> Vec<Needed> {
    let is_there = |program: &str| {
        // Debian keeps programs for the administrator off the PATH of others.
        is_on_path(program) || Path::new("/usr/sbin").join(program).is_file()
    };
    programs
        .iter()
        .copied()
        .filter(|(program, _)| !is_there(program))
        .collect()
}

fn packages(missing: &[Needed]) -> Vec<&'static str> {
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    packages
}

fn install_packages(missing: &[Needed]) -> anyhow::Result<()> {
    install_debian(&packages(missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Needed = ("no-such-program-anywhere", "none");

    #[test]
    fn flags_come_before_the_arguments_of_cargo() {
        let words = [
            "--long",
            "--install",
            "--",
            "-p",
            "loadline-store",
            "--long",
        ];
        let asked = Asked::parse(&words).unwrap();
        assert!(asked.install && asked.long && !asked.rocksdb);
        assert_eq!(asked.arguments, ["-p", "loadline-store", "--long"]);
        assert!(Asked::parse(&["--rocksdb"]).unwrap().rocksdb);
        assert_eq!(Asked::parse(&[]), Some(Asked::default()));
        assert_eq!(Asked::parse(&["-p", "loadline-store"]), None);
    }

    #[test]
    fn unavailable_program_is_missing_and_named() {
        assert_eq!(missing(&[("cargo", "cargo"), NONE]), [NONE]);
        assert!(refuse_missing(&[], true).is_ok() && refuse_missing(&[NONE], false).is_ok());
        let error = refuse_missing(&[NONE], true).unwrap_err().to_string();
        assert!(
            error.contains("needed by tests: no-such-program-anywhere;")
                && error.contains("packages none"),
            "{error}"
        );
    }

    #[test]
    fn package_of_two_programs_is_installed_once() {
        let both = [
            ("redis-cli", "redis-tools"),
            ("redis-benchmark", "redis-tools"),
        ];
        assert_eq!(packages(&both), ["redis-tools"]);
    }
}

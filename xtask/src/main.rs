//! The project's own checks as code: `cargo xtask storeys | medians | settings | pages | lint | test | instructions | ci |
//! man | image | picture | drivers | peers`.

mod circles;
mod drivers;
mod features;
mod image;
mod install;
mod instructions;
mod kubernetes;
mod layers;
mod lint;
mod medians;
mod pages;
mod peers;
mod picture;
mod pool;
mod porcupine;
mod programs;
mod settings;
mod stopwatch;
mod storeys;
mod test;
mod uses;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use serde::de::DeserializeOwned;

use instructions::Functions;

const USAGE: &str = "\
cargo xtask storeys            dependencies go down, between crates and inside them
cargo xtask medians            medians are computed in loadline-measure only
cargo xtask settings           tests use no other variable than LOADLINE_LONG for long settings
cargo xtask pages              examples in README files and docs compile, and name versions and features that exist
cargo xtask lint               format, clippy, all checks above, docs: all without warnings
cargo xtask test [--install] [--long] [--rocksdb] [-- ARGUMENT...]
                               every test; --install installs the programs that tests need,
                               --long uses the long settings of tests (LOADLINE_LONG=1),
                               --rocksdb includes RocksDB, which takes long to build and needs
                               libclang (Debian: libclang-dev); arguments go to
                               `cargo test --workspace` with the features
cargo xtask instructions [--save]
                               instructions of our own parts, against xtask/instructions.json;
                               --save writes that file
cargo xtask ci                 lint, then test
cargo xtask man                manual pages of the program, into target/man
cargo xtask drivers [--install] [FOLDER...]
                               tests the drivers of other clients (drivers/); --install installs
                               and builds those that can be had, and names the others
cargo xtask image [--install]  a container image of the program, linked statically (Containerfile);
                               --install installs a compiler for it and a builder
cargo xtask picture RECORD     draws the picture of the README from a record (docs/images/)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["storeys"] => storeys::check(),
        ["medians"] => medians::check(),
        ["settings"] => settings::check(),
        ["pages"] => pages::check(),
        ["lint"] => lint::run_all(),
        ["test", ref rest @ ..] => match test::Asked::parse(rest) {
            Some(asked) => test::run_tests(&asked),
            None => return usage(),
        },
        ["instructions"] => {
            instructions::count(Functions::All).and_then(|counts| instructions::check(&counts))
        }
        ["instructions", "--save"] => instructions::save(),
        ["ci"] => lint::run_all().and_then(|()| test::run_tests(&test::Asked::default())),
        ["image"] => image::build(false),
        ["image", "--install"] => image::build(true),
        ["picture", record] => picture::draw(record),
        ["man"] => man(),
        ["drivers", ref rest @ ..] => match drivers::Asked::parse(rest) {
            Some(asked) => drivers::run_drivers(&asked),
            None => return usage(),
        },
        ["peers", ref rest @ ..] => peers::run(rest),
        _ => return usage(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    say(&format!("{USAGE}{}", peers::USAGE));
    ExitCode::from(64)
}

/// Writes a line to standard error. Fails silently if it is closed.
fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Writes the manual pages, which the program generates from its command line.
fn man() -> anyhow::Result<()> {
    const DIR: &str = "target/man";
    std::fs::create_dir_all(DIR).with_context(|| format!("{DIR} could not be made"))?;
    let arguments = [
        "run",
        "--quiet",
        "--package",
        "loadline",
        "--",
        "__man",
        DIR,
    ];
    run(&cargo(), &arguments, &[])?;
    say(&format!("man: see `man -l {DIR}/loadline.1`"));
    Ok(())
}

/// Runs a program and fails if it fails.
fn run(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    let shown = format!("{program} {}", arguments.join(" "));
    let status = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .status()
        .with_context(|| format!("`{shown}` could not be started"))?;
    if !status.success() {
        bail!("`{shown}` ended with {status}");
    }
    Ok(())
}

/// Whether `program` is on PATH.
fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Cargo's target directory.
fn target_dir() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    // Joining keeps an absolute path unchanged.
    root.join(target)
}

/// Metadata of the packages of the workspace.
///
/// # Errors
/// If cargo does not say it, or says something else than `T`.
fn metadata<T: DeserializeOwned>() -> anyhow::Result<T> {
    let output = Command::new(cargo())
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("`cargo metadata` could not be started")?;
    if !output.status.success() {
        bail!(
            "`cargo metadata` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    serde_json::from_slice(&output.stdout).context("`cargo metadata` is not what it should be")
}

/// The cargo that runs this program.
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

//! `cargo xtask lint`: all checks run, each is reported with its time, and any failure fails it.

use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::stopwatch::Stopwatch;
use crate::{cargo, features, medians, metadata, pages, peers, run, say, settings, storeys};

pub(crate) fn run_cargo(arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    run(&cargo(), arguments, environment)
}

/// A check and its name.
type Check = (&'static str, fn() -> anyhow::Result<()>);

const CHECKS: [Check; 9] = [
    ("format", || run_cargo(&["fmt", "--all", "--check"], &[])),
    ("clippy", || {
        let arguments = features::clippy(&[])?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run_cargo(&arguments, &[])
    }),
    ("examples of the pages", pages::check),
    ("each feature alone", features_alone),
    ("storeys", storeys::check),
    ("medians", medians::check),
    ("settings of tests", settings::check),
    ("format of peers", || {
        let packages = ["-p", "cache-peers", "-p", "client-peers"];
        let arguments = ["fmt", "--check", "--manifest-path", peers::MANIFEST];
        run_cargo(&[&arguments[..], &packages].concat(), &[])
    }),
    ("docs", docs),
];

pub(crate) fn run_all() -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for (name, check) in CHECKS {
        let watch = Stopwatch::start();
        let outcome = check();
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        say(&format!("lint: {name}: {verdict} in {watch}"));
        if let Err(error) = outcome {
            say(&format!("lint: {name}: {error:#}"));
            failed.push(name);
        }
    }
    if !failed.is_empty() {
        bail!("lint found faults in: {}", failed.join(", "));
    }
    Ok(())
}

/// Checks each set of features that [`features::alone`] lists. Applications choose features, and the workspace is only checked
/// with all features at once. The compiler's own warnings, such as of unused code, depend on features; those of clippy hardly
/// do.
fn features_alone() -> anyhow::Result<()> {
    for set in features::alone()? {
        let arguments = [
            "rustc",
            "--quiet",
            "--profile=check",
            "--package",
            &set.package,
        ];
        let features = [
            &set.target,
            "--no-default-features",
            "--features",
            &set.feature,
        ];
        let all = [&arguments[..], &features, &["--", "-D", "warnings"]].concat();
        run_cargo(&all, &[]).with_context(|| format!("{}, {:?}", set.package, set.feature))?;
    }
    Ok(())
}

/// Documents the workspace against the files that clippy has left of each library.
fn docs() -> anyhow::Result<()> {
    let features = features::flag(false)?;
    let targets = documented(&metadata()?);
    let mut arguments = vec!["doc", "--workspace", "--no-deps", &features];
    arguments.push("--document-private-items");
    arguments.extend(targets.iter().map(String::as_str));
    let driver = Path::new(&cargo()).with_file_name("clippy-driver");
    let driver = driver.to_string_lossy();
    // As `cargo clippy` sets them. With others, each library is checked once more for its documentation.
    let environment = [
        ("RUSTDOCFLAGS", "-D warnings"),
        ("RUSTC_WORKSPACE_WRAPPER", &*driver),
        (
            "CLIPPY_ARGS",
            "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
        ),
    ];
    run_cargo(&arguments, &environment)
}

/// Arguments of `cargo doc` for all libraries and programs, and for one example: only with an example are features those of
/// dependencies of tests too, as for clippy.
fn documented(metadata: &Metadata) -> Vec<String> {
    let targets = metadata
        .packages
        .iter()
        .flat_map(|package| &package.targets);
    let of_kind = |kind: &'static str| {
        let targets = targets.clone();
        targets.filter(move |target| target.kind.iter().any(|is| is == kind))
    };
    let programs = of_kind("bin").filter(|target| target.doc);
    let programs = programs.map(|target| format!("--bin={}", target.name));
    let example = of_kind("example").next();
    let example = example.map(|target| format!("--example={}", target.name));
    ["--lib".to_owned()]
        .into_iter()
        .chain(programs)
        .chain(example)
        .collect()
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    /// Whether `cargo doc` documents it.
    doc: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_programs_with_documentation_and_one_example_are_documented() {
        let arguments = documented(&metadata().unwrap());
        assert_eq!(arguments[0], "--lib");
        for program in ["instructions", "loadline", "null-server", "xtask"] {
            let expected = format!("--bin={program}");
            assert!(arguments.contains(&expected), "{program}: {arguments:?}");
        }
        let fuzzing = "--bin=replies".to_owned();
        assert!(!arguments.contains(&fuzzing), "{arguments:?}");
        let examples = arguments.iter().filter(|it| it.starts_with("--example="));
        assert_eq!(examples.count(), 1, "{arguments:?}");
    }
}

//! `cargo xtask lint`: all checks run, each is reported with its time, and any failure fails it.

use anyhow::{Context, bail};

use crate::stopwatch::Stopwatch;
use crate::{cargo, features, medians, pages, peers, run, say, settings, storeys};

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
    // Applications choose features; the workspace is only checked with all features at once. The compiler's own warnings, such as
    // of what nobody uses, depend on features; those of clippy hardly do.
    ("each feature alone", || {
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
    }),
    ("storeys", storeys::check),
    ("medians", medians::check),
    ("settings of tests", settings::check),
    ("format of peers", || {
        let packages = ["-p", "cache-peers", "-p", "client-peers"];
        let arguments = ["fmt", "--check", "--manifest-path", peers::MANIFEST];
        run_cargo(&[&arguments[..], &packages].concat(), &[])
    }),
    ("docs", || {
        let arguments = [
            "doc",
            "--workspace",
            "--no-deps",
            &features::flag(false)?,
            "--document-private-items",
        ];
        run_cargo(&arguments, &[("RUSTDOCFLAGS", "-D warnings")])
    }),
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

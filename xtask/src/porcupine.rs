//! The program with which a test compares the audit of `loadline failover`: porcupine (MIT), a checker of linearizability in Go,
//! is downloaded by Go's own tools and not kept here.

use std::path::PathBuf;

use anyhow::Context;

use crate::install::{PAUSE, TRIES, refuse, try_again};
use crate::{run, target_dir};

const SOURCE: &str = "crates/loadline-measure/tests/porcupine";

/// The program that the test starts.
fn program() -> PathBuf {
    target_dir().join("porcupine/check")
}

/// Builds it.
///
/// # Errors
/// If Go fails.
pub(crate) fn install() -> anyhow::Result<()> {
    let program = program();
    let program = program.to_string_lossy();
    let words = ["build", "-C", SOURCE, "-mod=readonly", "-o", &program, "."];
    try_again(TRIES, PAUSE, || run("go", &words, &[]))
        .with_context(|| format!("{SOURCE} could not be built in {TRIES} tries"))
}

/// Says that it is missing.
///
/// # Errors
/// If it is missing and must not be.
pub(crate) fn refuse_missing(must_be_there: bool) -> anyhow::Result<()> {
    if program().is_file() {
        return Ok(());
    }
    let sentence = format!(
        "{} is not built, and the test of the audit needs it; `cargo xtask test --install` builds it with go",
        program().display()
    );
    refuse(&sentence, must_be_there)
}

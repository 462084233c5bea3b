//! The program that checks the Job of `loadline agents manifest`: kubernetes-validate (Apache-2.0) with Kubernetes' own schemas.
//! It is installed with pip and not kept here.

use std::path::PathBuf;

use anyhow::Context;

use crate::install::{PAUSE, TRIES, refuse, try_again};
use crate::{run, target_dir};

const PACKAGE: &str = "kubernetes-validate==1.37.0";

/// The directory that the test gives to Python.
fn dir() -> PathBuf {
    target_dir().join("kubernetes-validate")
}

fn is_there() -> bool {
    dir().join("kubernetes_validate/__main__.py").is_file()
}

/// Installs it.
///
/// # Errors
/// If pip fails.
pub(crate) fn install() -> anyhow::Result<()> {
    if is_there() {
        return Ok(());
    }
    let dir = dir();
    let dir = dir.to_string_lossy();
    let words = ["install", "--quiet", "--target", &dir, PACKAGE];
    try_again(TRIES, PAUSE, || run("pip3", &words, &[]))
        .with_context(|| format!("pip3 could not install {PACKAGE} in {TRIES} tries"))
}

/// Says that it is missing.
///
/// # Errors
/// If it is missing and must not be.
pub(crate) fn refuse_missing(must_be_there: bool) -> anyhow::Result<()> {
    if is_there() {
        return Ok(());
    }
    let sentence = format!(
        "{PACKAGE} is not in {}, and the test of manifests needs it; `cargo xtask test --install` installs it with pip3",
        dir().display()
    );
    refuse(&sentence, must_be_there)
}

//! `cargo xtask image`: a container image of the program, for agents on other machines.

use std::path::PathBuf;

use anyhow::{Context, bail};

use crate::install::{PAUSE, TRIES, install_debian, try_again};
use crate::lint::run_cargo;
use crate::{is_on_path, run, say, target_dir};

/// The recipe of the image.
const RECIPE: &str = "Containerfile";
const PROGRAM: &str = "loadline";
/// The compiler of the C parts.
const COMPILER: &str = "musl-gcc";
/// Programs that build images, the preferred first.
const BUILDERS: [&str; 3] = ["podman", "buildah", "docker"];
/// Debian packages of a compiler and a builder.
const PACKAGES: [&str; 2] = ["musl-tools", "buildah"];

/// Builds the program for any Linux of this architecture, and an image with it alone. With `install`, installs what is missing
/// for that.
///
/// # Errors
/// If something is missing, or does not build.
pub(crate) fn build(install: bool) -> anyhow::Result<()> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    if install {
        if !is_on_path(COMPILER) || builder().is_none() {
            install_debian(&PACKAGES)?;
        }
        let words = ["target", "add", &target];
        try_again(TRIES, PAUSE, || run("rustup", &words, &[]))?;
    }
    let builder = ready_builder()?;
    let words = ["build", "--release", "--locked", "--package", PROGRAM];
    run_cargo(&[&words[..], &["--target", &target]].concat(), &[]).with_context(|| {
        format!("no program for {target}; if rustc lacks this target, `rustup target add {target}` installs it")
    })?;
    let program = target_dir().join(&target).join("release").join(PROGRAM);
    // Builders read the whole directory, so it holds nothing else.
    let dir = context_dir()?;
    let bytes = std::fs::copy(&program, dir.join(PROGRAM))
        .with_context(|| format!("{} could not be copied", program.display()))?;
    let words = ["build", "--file", RECIPE, "--tag", PROGRAM];
    run(
        builder,
        &[&words[..], &[&*dir.to_string_lossy()]].concat(),
        &[],
    )?;
    say(&format!(
        "image: {PROGRAM}, with a program of {} MB; `{builder} push {PROGRAM} REGISTRY/NAME:TAG` publishes it",
        bytes / 1_000_000
    ));
    Ok(())
}

fn builder() -> Option<&'static str> {
    BUILDERS.into_iter().find(|builder| is_on_path(builder))
}

/// The builder, where the compiler is there as well.
fn ready_builder() -> anyhow::Result<&'static str> {
    let how = format!(
        "`cargo xtask image --install` installs {}",
        PACKAGES.join(" and ")
    );
    if !is_on_path(COMPILER) {
        bail!("{COMPILER} is not on PATH; {how}");
    }
    builder().with_context(|| format!("none of {} is on PATH; {how}", BUILDERS.join(", ")))
}

/// A directory for the program of the image.
fn context_dir() -> anyhow::Result<PathBuf> {
    let dir = target_dir().join("image");
    std::fs::create_dir_all(&dir)
        .with_context(|| format!("{} could not be created", dir.display()))?;
    Ok(dir)
}

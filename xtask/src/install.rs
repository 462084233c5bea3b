//! Installing what tests need.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::{is_on_path, run, say};

/// Number of attempts at a step of an installation: mirrors fail now and then.
pub(crate) const TRIES: u32 = 3;
/// Time between two attempts.
pub(crate) const PAUSE: Duration = Duration::from_secs(5);

/// Installs Debian packages.
///
/// # Errors
/// If there is no apt-get, or it fails.
pub(crate) fn install_debian(packages: &[&str]) -> anyhow::Result<()> {
    if !is_on_path("apt-get") {
        bail!(
            "there is no apt-get here; install {} by hand",
            packages.join(", ")
        );
    }
    let user = Command::new("id")
        .arg("-u")
        .output()
        .context("`id -u` could not be started")?;
    let mut words = if user.stdout.trim_ascii() == b"0" {
        vec![]
    } else {
        vec!["sudo", "-n"]
    };
    words.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]);
    let apt = |rest: &[&str]| {
        let arguments = [&words[1..], rest].concat();
        try_again(TRIES, PAUSE, || run(words[0], &arguments, &[]))
    };
    apt(&["update"])
        .and_then(|()| apt(&[&["install", "-y", "--no-install-recommends"], packages].concat()))
        .with_context(|| not_installed(packages))
}

/// Message for packages that apt-get could not install.
fn not_installed(packages: &[&str]) -> String {
    let packages = packages.join(" ");
    format!(
        "apt-get could not install {packages} in {TRIES} tries; see what it said above, then try again, or install them by hand (apt-get install {packages})"
    )
}

/// Says what is missing.
///
/// # Errors
/// The same, where it must not be missing.
pub(crate) fn refuse(missing: &str, must_be_there: bool) -> anyhow::Result<()> {
    if must_be_there {
        bail!("{missing}");
    }
    say(&format!("xtask: {missing}. Tests that need it will fail."));
    Ok(())
}

/// Does `step` until it succeeds, `tries` times at most.
pub(crate) fn try_again(
    tries: u32,
    pause: Duration,
    mut step: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for attempt in 1..tries {
        match step() {
            Ok(()) => return Ok(()),
            Err(error) => say(&format!("xtask: try {attempt} of {tries}: {error:#}")),
        }
        std::thread::sleep(pause);
    }
    step()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installation_that_failed_says_what_to_do() {
        let text = not_installed(&["redis-server", "redis-tools"]);
        assert!(text.contains("could not install redis-server redis-tools in 3 tries"));
        assert!(text.contains("by hand (apt-get install redis-server redis-tools)"));
    }

    #[test]
    fn step_that_fails_is_tried_again_and_not_for_ever() {
        let count = |fails: u32| {
            let mut calls = 0;
            let done = try_again(3, Duration::ZERO, || {
                calls += 1;
                if calls <= fails {
                    bail!("the mirror is away");
                }
                Ok(())
            });
            (done.is_ok(), calls)
        };
        assert_eq!(count(0), (true, 1));
        assert_eq!(count(2), (true, 3));
        assert_eq!(count(3), (false, 3));
    }
}

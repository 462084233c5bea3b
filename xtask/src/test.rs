//! `cargo xtask test`: every test, with the real programs they talk to.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::lint::run_cargo;
use crate::{run, say};

/// Programs that tests talk to, and the Debian packages they come in.
const PROGRAMS: [(&str, &str); 3] = [
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    ("redis-benchmark", "redis-tools"),
];

pub(crate) fn run_tests(install: bool) -> anyhow::Result<()> {
    let mut missing = missing(&PROGRAMS);
    if install && !missing.is_empty() {
        install_packages(&missing)?;
        missing = self::missing(&PROGRAMS);
    }
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
        let sentence = format!(
            "tests need {}, which are not on PATH; `cargo xtask test --install` installs them (Debian)",
            names.join(", ")
        );
        if install || std::env::var_os("CI").is_some() {
            bail!("{sentence}");
        }
        say(&format!(
            "xtask: {sentence}. Tests that need them will fail."
        ));
    }
    run_cargo(&["test", "--workspace", "--all-features"], &[])
}

fn missing(programs: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |program: &str| std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    programs
        .iter()
        .copied()
        .filter(|(program, _)| !is_there(program))
        .collect()
}

fn install_packages(missing: &[(&str, &str)]) -> anyhow::Result<()> {
    if !Path::new("/usr/bin/apt-get").exists() {
        bail!("there is no apt-get here; install {missing:?} by hand");
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
    run(words[0], &[&words[1..], &["update"]].concat(), &[])?;
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    run(
        words[0],
        &[&words[1..], &["install", "-y"], &packages].concat(),
        &[],
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_program_nobody_has_is_missing() {
        let programs = [("cargo", "cargo"), ("no-such-program-anywhere", "none")];
        assert_eq!(
            super::missing(&programs),
            [("no-such-program-anywhere", "none")]
        );
    }
}

//! `cargo xtask drivers`: installs, builds and tests the drivers of clients in other languages (`drivers/`).

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::lint::run_cargo;
use crate::test::{PAUSE, TRIES, install_debian, try_again};
use crate::{is_on_path, say, target_dir};

const DIR: &str = "drivers";
const MANIFEST: &str = "driver.toml";
/// What clients of a cluster are also tested with.
const CLUSTER: &str = "spawn-cluster:redis-server";

/// What to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    install: bool,
    /// Folders; all if none is named.
    folders: Vec<&'a str>,
}

/// What a `driver.toml` says about its installation.
#[derive(Debug, Deserialize)]
struct Manifest {
    /// What has to be on PATH.
    program: String,
    /// The Debian packages of it.
    #[serde(default)]
    packages: Vec<String>,
    /// Other Debian packages that the drivers need in any case.
    #[serde(default)]
    libraries: Vec<String>,
    /// The commands that install and build the drivers.
    install: Vec<Vec<String>>,
    /// The clients that every test of the project tests.
    #[serde(default)]
    quick: Vec<String>,
    client: Vec<Client>,
}

#[derive(Debug, Deserialize)]
struct Client {
    name: String,
    /// Whether it calls a cluster.
    #[serde(default)]
    cluster: bool,
}

/// A folder with drivers.
#[derive(Debug)]
struct Folder {
    name: String,
    path: PathBuf,
    manifest: Manifest,
}

impl<'a> Asked<'a> {
    /// Reads the words after `drivers`; `None` for an unknown flag.
    pub(crate) fn parse(words: &[&'a str]) -> Option<Self> {
        let mut asked = Self::default();
        for word in words {
            match *word {
                "--install" => asked.install = true,
                flag if flag.starts_with('-') => return None,
                folder => asked.folders.push(folder),
            }
        }
        Some(asked)
    }
}

/// Installs drivers if that is asked for, and tests all clients of those that are there.
///
/// # Errors
/// If a folder does not exist, or a driver breaks its contract.
pub(crate) fn run_drivers(asked: &Asked<'_>) -> anyhow::Result<()> {
    let mut folders = folders()?;
    for name in &asked.folders {
        if folders.iter().all(|folder| folder.name != *name) {
            bail!("there is no {DIR}/{name}/{MANIFEST}");
        }
    }
    folders
        .retain(|folder| asked.folders.is_empty() || asked.folders.contains(&folder.name.as_str()));
    run_cargo(&["build", "--package", "loadline", "--quiet"], &[])?;
    let mut failed = Vec::new();
    for folder in &folders {
        if asked.install
            && let Err(error) = folder.install()
        {
            say(&format!("drivers: {} is left out: {error:#}", folder.name));
            continue;
        }
        let clients = || folder.manifest.client.iter();
        let of_cluster = clients().filter(|client| client.cluster);
        let names: Vec<&str> = clients().map(|client| client.name.as_str()).collect();
        let of_cluster: Vec<&str> = of_cluster.map(|client| client.name.as_str()).collect();
        if let Err(error) = folder.test(&names, &of_cluster) {
            failed.push(format!("{}: {error:#}", folder.name));
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!(
        "see the lines above; not installed, or {}",
        failed.join("; ")
    )
}

/// Tests the clients that are quick to install, after installing them if `install` says so, with the program that the tests
/// of the workspace have built. Building it alone would select other features of its dependencies and compile them again.
///
/// # Errors
/// If a driver breaks its contract, and if one is missing although it `must_be_there`.
pub(crate) fn test_quick(install: bool, must_be_there: bool) -> anyhow::Result<()> {
    for folder in folders()? {
        if folder.manifest.quick.is_empty() {
            continue;
        }
        if install {
            folder.install()?;
        }
        let names: Vec<&str> = folder.manifest.quick.iter().map(String::as_str).collect();
        match folder.test(&names, &[]) {
            Err(error) if must_be_there || folder.is_installed()? => return Err(error),
            Err(_) => say(&format!(
                "drivers: {} is not installed and was not tested; `cargo xtask test --install` installs it",
                folder.name
            )),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// All folders, by their names.
fn folders() -> anyhow::Result<Vec<Folder>> {
    let entries = fs::read_dir(DIR).with_context(|| format!("{DIR} could not be read"))?;
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let manifest = path.join(MANIFEST);
        if !manifest.is_file() {
            continue;
        }
        let text = fs::read_to_string(&manifest)
            .with_context(|| format!("{} could not be read", manifest.display()))?;
        let name = path.file_name().unwrap_or_default();
        folders.push(Folder {
            name: name.to_string_lossy().into_owned(),
            manifest: toml::from_str(&text).with_context(|| manifest.display().to_string())?,
            path,
        });
    }
    folders.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(folders)
}

impl Folder {
    /// Installs what the drivers need, and builds them.
    fn install(&self) -> anyhow::Result<()> {
        let manifest = &self.manifest;
        let lacks_program = !is_on_path(&manifest.program);
        if lacks_program && manifest.packages.is_empty() {
            bail!("there is no `{}` on PATH", manifest.program);
        }
        // A program from elsewhere comes without Debian's packages; headers and the like do not.
        let wanted =
            |package: &&str| lacks_program || manifest.libraries.iter().any(|it| it == package);
        let packages = manifest.packages.iter().chain(&manifest.libraries);
        let missing: Vec<&str> = packages
            .map(String::as_str)
            .filter(wanted)
            .filter(|package| !is_package_installed(package))
            .collect();
        if !missing.is_empty() {
            install_debian(&missing)?;
        }
        manifest
            .install
            .iter()
            .try_for_each(|step| try_again(TRIES, PAUSE, || self.step(step)))
    }

    fn step(&self, words: &[String]) -> anyhow::Result<()> {
        let [program, arguments @ ..] = words else {
            bail!("an empty step in {MANIFEST}");
        };
        let shown = words.join(" ");
        // A path is one in the folder.
        let program = if program.contains('/') {
            let folder = self.path.canonicalize().context("the folder")?;
            folder.join(program)
        } else {
            PathBuf::from(program)
        };
        let status = Command::new(program)
            .args(arguments)
            .current_dir(&self.path)
            .status()
            .with_context(|| format!("`{shown}` could not be started"))?;
        if !status.success() {
            bail!("`{shown}` ended with {status}");
        }
        Ok(())
    }

    /// Whether the clients of the folder can run, as the program lists them.
    fn is_installed(&self) -> anyhow::Result<bool> {
        let list = Command::new(program())
            .args(["clients", "--list", "--drivers", DIR])
            .output()
            .context("the program could not be started")?;
        let text = String::from_utf8_lossy(&list.stdout).into_owned();
        let of = |client: &Client| {
            let mut lines = text.lines();
            lines.any(|line| {
                line.starts_with(&format!("{} ", client.name)) && !line.contains("not installed")
            })
        };
        Ok(self.manifest.client.iter().all(of))
    }

    /// Tests the conformance of clients, and of some on a cluster; also of those after one that fails.
    fn test(&self, names: &[&str], of_cluster: &[&str]) -> anyhow::Result<()> {
        let mut failed = Vec::new();
        let alone = names.iter().map(|name| (None, name));
        let together = of_cluster.iter().map(|name| (Some(CLUSTER), name));
        for (target, name) in alone.chain(together) {
            let status = Command::new(program())
                .arg("clients")
                .args(target)
                .args(["--drivers", DIR, "--conformance", name])
                .status()
                .context("the program could not be started")?;
            if !status.success() {
                let target = target.unwrap_or("one server");
                failed.push(format!("{name} with {target} ({status})"));
            }
        }
        if failed.is_empty() {
            return Ok(());
        }
        bail!(
            "not as docs/driver-protocol.md requires: {}",
            failed.join(", ")
        )
    }
}

/// Our own program, as `cargo build` leaves it.
fn program() -> PathBuf {
    target_dir().join("debug/loadline")
}

/// Whether Debian's package manager has installed a package.
fn is_package_installed(package: &str) -> bool {
    let query = ["-W", "-f", "${Status}", package];
    let output = Command::new("dpkg-query").args(query).output();
    output.is_ok_and(|output| output.stdout == b"install ok installed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_and_flags_are_known() {
        let asked = Asked::parse(&["--install", "python", "c"]).unwrap();
        assert!(asked.install);
        assert_eq!(asked.folders, ["python", "c"]);
        assert_eq!(Asked::parse(&[]), Some(Asked::default()));
        assert_eq!(Asked::parse(&["--quick"]), None);
    }

    /// Each folder in the repository can be installed by its manifest, and none names where packages come from.
    #[test]
    fn every_manifest_is_one() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(DIR);
        let mut seen = 0;
        for entry in fs::read_dir(root).unwrap() {
            let path = entry.unwrap().path().join(MANIFEST);
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            let manifest: Manifest = toml::from_str(&text).unwrap();
            assert!(!manifest.install.is_empty() && !manifest.client.is_empty());
            let names = || manifest.client.iter().map(|client| &client.name);
            assert!(
                manifest
                    .quick
                    .iter()
                    .all(|quick| names().any(|name| name == quick)),
                "{}",
                path.display()
            );
            assert!(!text.contains("://"), "{}", path.display());
            seen += 1;
        }
        assert!(seen >= 3, "{seen} folders");
    }
}

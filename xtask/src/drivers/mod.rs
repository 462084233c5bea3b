//! `cargo xtask drivers`: installs, builds and tests the drivers of clients in other languages (`drivers/`).

mod stamp;
mod unoptimised;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::install::{PAUSE, TRIES, install_debian, try_again};
use crate::lint::run_cargo;
use crate::{is_on_path, pool, say, target_dir};

const DIR: &str = "drivers";
const MANIFEST: &str = "driver.toml";
/// Target with which clients of a cluster are also tested.
const CLUSTER: &str = "spawn-cluster:redis-server";

/// Time of building loadline from scratch on two CPUs, and of the tests of one client while others run.
const BUILD_SECONDS: u64 = 240;
const TEST_SECONDS: u64 = 5;

/// The file in a folder until all steps of its installation have succeeded; `loadline clients` counts a folder that has it as
/// not installed, whatever earlier steps have made.
const INCOMPLETE: &str = ".install-incomplete";
/// Settings of every virtual machine of Java in the tests, which start dozens: their contract does not depend on how well they
/// compile at run time, and half of the CPU time of their short lives is that of the second compiler.
const SHORT_LIVED: (&str, &str) = (
    "JAVA_TOOL_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
);
/// Interval of messages from a step that goes on, and of checks for its end.
const SAY_EVERY: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Arguments of `cargo xtask drivers`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    install: bool,
    /// Folders; all if none is named.
    folders: Vec<&'a str>,
}

/// The part of a `driver.toml` about its installation.
#[derive(Debug, Deserialize)]
struct Manifest {
    /// Program that has to be on PATH.
    program: String,
    /// The Debian packages of it.
    #[serde(default)]
    packages: Vec<String>,
    /// Other Debian packages that the drivers need in any case.
    #[serde(default)]
    libraries: Vec<String>,
    /// The commands that install and build the drivers.
    install: Vec<Vec<String>>,
    /// About how long that takes on two CPUs, downloads included.
    seconds: u64,
    /// Reason why only `cargo xtask drivers` installs and tests the folder; without one, every test of the project installs and
    /// tests all clients of the folder.
    elsewhere: Option<String>,
    /// The language of the clients.
    language: String,
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
    /// Directory in which the program finds the drivers of the folder by their names.
    drivers: PathBuf,
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
    if asked.install {
        say(&announcement(&folders));
    }
    say("drivers: building loadline, which tests them");
    run_cargo(&["build", "--package", "loadline"], &[])?;
    if asked.install {
        install_all(&mut folders);
    }
    let mut runs = Vec::new();
    for folder in &folders {
        runs.extend(folder.runs());
        let of_cluster = folder.manifest.client.iter();
        let of_cluster = of_cluster.filter(|client| client.cluster);
        runs.extend(of_cluster.map(|client| folder.run(Some(CLUSTER), client)));
    }
    test_all(&runs).context("see the lines above; not installed, or")
}

/// Text about what is going to be installed, where it comes from, and how long it takes.
fn announcement(folders: &[Folder]) -> String {
    let names: Vec<&str> = folders.iter().map(|folder| folder.name.as_str()).collect();
    let seconds: u64 = folders.iter().map(|folder| folder.manifest.seconds).sum();
    let clients = folders
        .iter()
        .map(|folder| folder.manifest.client.len() as u64);
    let clients: u64 = clients.sum();
    let mut text = format!(
        "drivers: installing {}; about {} on two CPUs, after building loadline (about {} the first time), and then the tests of each client (up to {})",
        names.join(", "),
        about(seconds),
        about(BUILD_SECONDS),
        about(clients * TEST_SECONDS)
    );
    let packages: Vec<&str> = folders.iter().flat_map(Folder::missing_packages).collect();
    if !packages.is_empty() {
        text += &format!(
            "\ndrivers: apt-get installs these packages of Debian for them: {}; to install them yourself or leave folders out, interrupt this now and name the folders",
            packages.join(", ")
        );
    }
    text
}

/// A time to the minute, or to ten seconds below that.
fn about(seconds: u64) -> String {
    match seconds {
        0..100 => format!("{} seconds", seconds.div_ceil(10) * 10),
        _ => format!("{} minutes", seconds.div_ceil(60)),
    }
}

/// Installs folders one by one; those that cannot be had are named and left out.
fn install_all(folders: &mut Vec<Folder>) {
    let (all, mut place) = (folders.len(), 0);
    folders.retain(|folder| {
        place += 1;
        let name = &folder.name;
        let estimate = about(folder.manifest.seconds);
        say(&format!(
            "drivers: {name} ({place} of {all}): about {estimate}"
        ));
        let begun = Instant::now();
        let done = folder.install();
        let seconds = begun.elapsed().as_secs_f64();
        match &done {
            Ok(()) => say(&format!("drivers: {name} is installed ({seconds:.1} s)")),
            Err(error) => say(&format!("drivers: {name} is left out: {error:#}")),
        }
        done.is_ok()
    });
}

/// All clients whose folders do not say that they are tested elsewhere, after installing them if `install` says so, with the
/// program that the tests of the workspace have built. Building it alone would select other features of its dependencies and
/// compile them again.
///
/// # Errors
/// If one is missing although it `must_be_there`, or cannot be installed.
pub(crate) fn prepare(install: bool, must_be_there: bool) -> anyhow::Result<Vec<Run>> {
    let mut runs = Vec::new();
    for folder in folders()? {
        let folder = folder.for_tests()?;
        let name = &folder.name;
        if let Some(reason) = &folder.manifest.elsewhere {
            say(&format!(
                "drivers: {name} is not tested here: {reason}; `cargo xtask drivers --install {name}` installs and tests it"
            ));
            continue;
        }
        if install && !folder.is_current()? {
            let begun = Instant::now();
            folder.install().with_context(|| folder.not_installed())?;
            let seconds = begun.elapsed().as_secs_f64();
            say(&format!("drivers: {name} is installed ({seconds:.1} s)"));
        }
        if must_be_there || folder.is_installed()? {
            runs.extend(folder.runs());
        } else {
            say(&format!(
                "drivers: {name} is not installed and was not tested; `cargo xtask test --install` installs it"
            ));
        }
    }
    Ok(runs)
}

/// A client to be tested.
#[derive(Debug)]
pub(crate) struct Run {
    /// A cluster, if not a single server.
    target: Option<&'static str>,
    drivers: PathBuf,
    client: String,
}

impl Run {
    /// Tests the conformance of the client and prints all lines about it at once.
    ///
    /// # Errors
    /// If it breaks its contract.
    fn test(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let output = Command::new(program())
            .arg("clients")
            .args(self.target)
            .arg("--drivers")
            .arg(&self.drivers)
            .args(["--conformance", &self.client])
            .env(SHORT_LIVED.0, SHORT_LIVED.1)
            .output()
            .context("the program could not be started")?;
        let target = self.target.unwrap_or("one server");
        let shown = format!("{} with {target}", self.client);
        let mut lines = std::io::stdout().lock();
        let seconds = begun.elapsed().as_secs_f64();
        // Closed outputs change nothing about what is found.
        let _ = lines.write_all(&output.stdout);
        let _ = writeln!(lines, "drivers: {shown}: {seconds:.1} s");
        let _ = lines.flush();
        if !output.stderr.is_empty() {
            say(String::from_utf8_lossy(&output.stderr).trim_end());
        }
        if !output.status.success() {
            bail!("{shown} ({})", output.status);
        }
        Ok(())
    }
}

/// Tests clients, one more at the same time than there are CPUs, since they also wait; also those after one that fails.
///
/// # Errors
/// If a client breaks its contract.
pub(crate) fn test_all(runs: &[Run]) -> anyhow::Result<()> {
    let done = pool::map(runs, pool::cpus() + 1, Run::test);
    let errors = done.into_iter().filter_map(Result::err);
    let failed: Vec<String> = errors.map(|error| format!("{error:#}")).collect();
    if failed.is_empty() {
        return Ok(());
    }
    bail!(
        "not as docs/driver-protocol.md requires: {}",
        failed.join(", ")
    )
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
            drivers: DIR.into(),
            path,
        });
    }
    folders.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(folders)
}

impl Folder {
    /// The folder as the tests build it: programs of Cargo and Go without optimisation, beside those that are measured and with a
    /// `driver.toml` of their own. Their contract does not depend on it, and they are built in half to two thirds of the time.
    ///
    /// # Errors
    /// If the `driver.toml` cannot be read or written.
    fn for_tests(self) -> anyhow::Result<Self> {
        if !unoptimised::applies_to(&self.manifest.program) {
            return Ok(self);
        }
        let path = fs::canonicalize(&self.path).context("the folder")?;
        let text = fs::read_to_string(path.join(MANIFEST)).context(MANIFEST)?;
        let text = unoptimised::manifest(&text, &path).context(MANIFEST)?;
        let drivers = target_dir().join("drivers-of-tests");
        let copy = drivers.join(&self.name);
        fs::create_dir_all(&copy)
            .and_then(|()| fs::write(copy.join(MANIFEST), &text))
            .with_context(|| copy.display().to_string())?;
        let manifest = toml::from_str(&text).context(MANIFEST)?;
        Ok(Self {
            drivers,
            manifest,
            ..self
        })
    }

    /// The Debian packages that have to be installed first.
    fn missing_packages(&self) -> Vec<&str> {
        let manifest = &self.manifest;
        let lacks_program = !is_on_path(&manifest.program);
        // A program from elsewhere comes without Debian's packages; headers and the like do not.
        let wanted =
            |package: &&str| lacks_program || manifest.libraries.iter().any(|it| it == package);
        let packages = manifest.packages.iter().chain(&manifest.libraries);
        packages
            .map(String::as_str)
            .filter(wanted)
            .filter(|package| !is_package_installed(package))
            .collect()
    }

    /// Installs what the drivers need, and builds them.
    fn install(&self) -> anyhow::Result<()> {
        let manifest = &self.manifest;
        if !is_on_path(&manifest.program) && manifest.packages.is_empty() {
            bail!("there is no `{}` on PATH", manifest.program);
        }
        let missing = self.missing_packages();
        if !missing.is_empty() {
            say(&format!("drivers: apt-get installs {}", missing.join(", ")));
            install_debian(&missing)?;
        }
        self.steps(PAUSE)
    }

    /// Runs the steps of the installation; the folder is marked as incomplete until the last one has succeeded.
    fn steps(&self, pause: Duration) -> anyhow::Result<()> {
        let marker = self.path.join(INCOMPLETE);
        let marked = || marker.display().to_string();
        fs::write(&marker, "").with_context(marked)?;
        for step in &self.manifest.install {
            try_again(TRIES, pause, || self.step(step))?;
        }
        fs::remove_file(&marker).with_context(marked)?;
        stamp::note(&self.path)
    }

    /// Whether nothing has changed since the installation. Cargo knows that of its programs itself, whose sources are also
    /// elsewhere.
    fn is_current(&self) -> anyhow::Result<bool> {
        let is_same = self.manifest.program != "cargo" && stamp::is_current(&self.path)?;
        Ok(is_same && self.is_installed()?)
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
        let (name, begun) = (&self.name, Instant::now());
        say(&format!("drivers: {name}: {shown}"));
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(&self.path)
            .spawn()
            .with_context(|| format!("`{shown}` could not be started"))?;
        let mut said = begun;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if said.elapsed() >= SAY_EVERY {
                said = Instant::now();
                let seconds = begun.elapsed().as_secs();
                say(&format!(
                    "drivers: {name}: {shown}: goes on since {seconds} s"
                ));
            }
            thread::sleep(LOOK_EVERY);
        };
        if !status.success() {
            bail!("`{shown}` ended with {status}");
        }
        Ok(())
    }

    /// Whether the clients of the folder can run, as the program lists them.
    fn is_installed(&self) -> anyhow::Result<bool> {
        let list = Command::new(program())
            .args(["clients", "--list", "--drivers"])
            .arg(&self.drivers)
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

    /// All clients, each with one server.
    fn runs(&self) -> impl Iterator<Item = Run> {
        let clients = self.manifest.client.iter();
        clients.map(|client| self.run(None, client))
    }

    fn run(&self, target: Option<&'static str>, client: &Client) -> Run {
        Run {
            target,
            drivers: self.drivers.clone(),
            client: client.name.clone(),
        }
    }

    /// Message for drivers that could not be installed.
    fn not_installed(&self) -> String {
        let Self { name, manifest, .. } = self;
        format!(
            "the clients in {} of {DIR}/{name} could not be installed in {TRIES} tries, and were not tested; where a registry or mirror could not be reached (see above), try again later",
            manifest.language
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

    #[test]
    fn failed_installation_is_no_broken_contract() {
        let manifest = "language = \"Zig\"\nprogram = \"sh\"\ninstall = [[\"false\"]]\nseconds = 1\nclient = []";
        let folder = Folder {
            name: "zig".into(),
            path: ".".into(),
            drivers: DIR.into(),
            manifest: toml::from_str(manifest).unwrap(),
        };
        let error = folder.step(&["false".into()]).unwrap_err();
        let error = format!("{:#}", error.context(folder.not_installed()));
        assert!(
            error
                .starts_with("the clients in Zig of drivers/zig could not be installed in 3 tries")
        );
        assert!(
            error.ends_with("`false` ended with exit status: 1"),
            "{error}"
        );
        assert!(!error.contains("driver-protocol"), "{error}");
    }

    fn folder(path: &std::path::Path, steps: &str) -> Folder {
        let manifest = format!(
            "language = \"Zig\"\nprogram = \"sh\"\ninstall = [{steps}]\nseconds = 70\nclient = []"
        );
        Folder {
            name: "zig".into(),
            path: path.to_owned(),
            drivers: DIR.into(),
            manifest: toml::from_str(&manifest).unwrap(),
        }
    }

    /// The files made by the steps before the one that fails, such as those that the folder `needs`.
    #[test]
    fn folder_is_marked_until_its_last_step_has_succeeded() {
        let dir = tempfile::tempdir().unwrap();
        let marker = dir.path().join(INCOMPLETE);
        let is_marked = "[\"sh\", \"-c\", \"test -e .install-incomplete && touch made\"]";
        let failing = folder(dir.path(), &format!("{is_marked}, []"));
        assert!(failing.steps(Duration::ZERO).is_err());
        assert!(dir.path().join("made").exists() && marker.exists());
        assert!(!stamp::is_current(dir.path()).unwrap());
        folder(dir.path(), is_marked).steps(Duration::ZERO).unwrap();
        assert!(!marker.exists() && stamp::is_current(dir.path()).unwrap());
    }

    #[test]
    fn installation_is_announced_with_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let mut zig = folder(dir.path(), "[\"true\"]");
        let client = "name = \"zig\"";
        zig.manifest.client = vec![
            toml::from_str(client).unwrap(),
            toml::from_str(client).unwrap(),
        ];
        zig.manifest.libraries = vec!["no-such-library-of-zig".into()];
        assert_eq!(
            announcement(&[zig]).lines().collect::<Vec<_>>(),
            [
                "drivers: installing zig; about 70 seconds on two CPUs, after building loadline (about 4 minutes the first time), and then the tests of each client (up to 10 seconds)",
                "drivers: apt-get installs these packages of Debian for them: no-such-library-of-zig; to install them yourself or leave folders out, interrupt this now and name the folders",
            ]
        );
        assert_eq!(about(301), "6 minutes");
    }

    /// `CARGO_TARGET_DIR` or a configuration would move programs away from where the manifest's commands look for them.
    #[test]
    fn programs_of_cargo_are_built_where_they_are_looked_for() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(DIR);
        for (folder, place) in [("rust", "target"), ("loadline", "../rust/target")] {
            let text = fs::read_to_string(root.join(folder).join(MANIFEST)).unwrap();
            let manifest: Manifest = toml::from_str(&text).unwrap();
            let [step] = &manifest.install[..] else {
                panic!("{:?}", manifest.install);
            };
            let flag = step.iter().position(|word| word == "--target-dir");
            assert_eq!(
                flag.map(|flag| step[flag + 1].as_str()),
                Some(place),
                "{folder}"
            );
            assert!(text.contains(&format!("\"{place}/release/")), "{text}");
        }
    }

    /// Each folder in the repository can be installed by its manifest, and none names where packages come from.
    #[test]
    fn every_manifest_is_one() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(DIR);
        let (mut seen, mut everywhere) = (0, 0);
        for entry in fs::read_dir(root).unwrap() {
            let path = entry.unwrap().path().join(MANIFEST);
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            let manifest: Manifest = toml::from_str(&text).unwrap();
            assert!(!manifest.install.is_empty() && !manifest.client.is_empty());
            assert!(
                (1..=300).contains(&manifest.seconds),
                "{}",
                manifest.seconds
            );
            let reason = manifest.elsewhere.as_deref();
            assert!(reason.is_none_or(|reason| !reason.trim().is_empty()));
            everywhere += manifest.client.iter().filter(|_| reason.is_none()).count();
            assert!(!text.contains("://"), "{}", path.display());
            seen += 1;
        }
        assert!(seen >= 3, "{seen} folders");
        assert!(everywhere >= 15, "every test tests {everywhere} clients");
    }
}

//! The drivers in a directory: each has a folder with a `driver.toml`.

use std::fmt;
use std::path::{Path, PathBuf};

use loadline_measure::failover::Topology;
use serde::Deserialize;

use crate::exit::Failure;
use crate::files;

/// The file that describes the drivers of a folder.
const MANIFEST: &str = "driver.toml";
/// The file that `cargo xtask drivers --install` leaves in a folder until all of its steps have succeeded.
const INCOMPLETE: &str = ".install-incomplete";
/// The folder of the drivers in the repository.
const FOLDER: &str = "drivers";
/// The largest manifest that is read, in bytes.
const LARGEST_BYTES: u64 = 64 << 10;
/// The most folders that are looked at.
const MOST_FOLDERS: usize = 256;
/// The most clients of a folder.
const MOST_CLIENTS: usize = 64;
/// The longest name of a client.
const LONGEST_NAME: usize = 64;

/// The way in which a driver calls its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DriverMode {
    /// One call after the other.
    Sync,
    /// Several commands in one call.
    Pipeline,
    /// Concurrent callers that share a connection.
    Multiplexed,
    /// Concurrent callers that borrow connections.
    Pool,
    /// Writes one after the other, with a line for each.
    Faults,
}

impl DriverMode {
    /// The name in the protocol and in manifests.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Pipeline => "pipeline",
            Self::Multiplexed => "multiplexed",
            Self::Pool => "pool",
            Self::Faults => "faults",
        }
    }
}

impl fmt::Display for DriverMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A client and the program that drives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Driver {
    /// Its name, such as `redis-py.hiredis`.
    pub(crate) name: String,
    pub(crate) language: String,
    /// The folder that it runs in.
    pub(crate) dir: PathBuf,
    /// The program with its arguments.
    pub(crate) command: Vec<String>,
    /// Files that must be in the folder before it can run.
    needs: Vec<PathBuf>,
    pub(crate) modes: Vec<DriverMode>,
    pub(crate) resp: Vec<u8>,
    /// Whether it opens further connections, so that their memory can be measured.
    pub(crate) connections: bool,
    /// Whether it makes calls at a rate (open loop).
    pub(crate) rate: bool,
    /// Whether it calls a cluster.
    pub(crate) cluster: bool,
    /// The topologies whose masters it follows in runs with faults.
    pub(crate) follows: Vec<Topology>,
    /// Whether its folder was named, so that it is measured in any case.
    pub(crate) is_given: bool,
}

/// A `driver.toml`. The fields of installations belong to `cargo xtask drivers`.
#[derive(Debug, Deserialize)]
struct Manifest {
    language: String,
    command: Vec<String>,
    #[serde(default)]
    needs: Vec<PathBuf>,
    #[serde(rename = "client")]
    clients: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    name: String,
    /// Arguments that only this client has, before the program's own.
    #[serde(default)]
    command: Option<Vec<String>>,
    modes: Vec<DriverMode>,
    resp: Vec<u8>,
    #[serde(default)]
    connections: bool,
    #[serde(default)]
    rate: bool,
    #[serde(default)]
    cluster: bool,
    #[serde(default)]
    follows: Vec<Topology>,
}

impl Driver {
    /// The client of this project, which the program itself drives.
    ///
    /// # Errors
    /// If the program does not know its own path.
    pub(crate) fn built_in() -> Result<Self, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::unavailable(format!("The program itself: {error}.")))?;
        Ok(Self {
            name: "loadline".to_owned(),
            language: "Rust".to_owned(),
            dir: PathBuf::from("/"),
            command: vec![
                program.to_string_lossy().into_owned(),
                "__driver".to_owned(),
            ],
            needs: Vec::new(),
            modes: vec![
                DriverMode::Sync,
                DriverMode::Pipeline,
                DriverMode::Multiplexed,
                DriverMode::Faults,
            ],
            resp: vec![2, 3],
            connections: true,
            rate: true,
            cluster: false,
            follows: vec![Topology::Sentinel, Topology::Cluster],
            is_given: false,
        })
    }

    /// The program, as a path or a name on PATH; `None` if the driver is not installed.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        let has = |file: &Path| self.dir.join(file).exists();
        if has(Path::new(INCOMPLETE)) || !self.needs.iter().all(|need| has(need)) {
            return None;
        }
        let program = Path::new(self.command.first()?);
        if program.components().count() > 1 {
            return files::find_program(&self.dir.join(program));
        }
        files::find_program(program)
    }

    /// That it is not installed, and how to install it.
    pub(crate) fn not_installed(&self) -> Failure {
        if self.is_given {
            let manifest = self.dir.join(MANIFEST);
            return Failure::unavailable(format!(
                "Driver {} is not installed: its program or a file that it needs is missing.\n{} lists what it needs and how to install it.",
                self.name,
                manifest.display()
            ));
        }
        let folder = self.dir.file_name().unwrap_or_default().to_string_lossy();
        Failure::unavailable(format!(
            "Driver {} is not installed.\nInstall it with `cargo xtask drivers --install {folder}` in a checkout of Loadline.",
            self.name
        ))
    }

    /// Whether `loadline clients` times its calls, and does not only run it with faults.
    pub(crate) fn is_timed(&self) -> bool {
        self.modes.iter().any(|mode| *mode != DriverMode::Faults)
    }

    /// Whether it can run.
    pub(crate) fn is_installed(&self) -> bool {
        self.program().is_some()
    }
}

/// The directory of the drivers: the one that was named, or `drivers` here, or above the program in the tree that it
/// was built in.
pub(crate) fn directory(asked: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(dir) = asked {
        return absolute(dir);
    }
    let program = std::env::current_exe().ok();
    let above = program.iter().flat_map(|program| program.ancestors());
    let places = above.map(|dir| dir.join(FOLDER));
    std::iter::once(PathBuf::from(FOLDER))
        .chain(places)
        .find(|dir| dir.is_dir())
        .map_or_else(
            || {
                Err(Failure::unavailable(
                    "There is no directory `drivers` here.\nRun this in a checkout of Loadline, or name the directory with --drivers.",
                ))
            },
            |dir| absolute(&dir),
        )
}

fn absolute(dir: &Path) -> Result<PathBuf, Failure> {
    let found = dir.canonicalize();
    found.map_err(|error| Failure::unavailable(format!("--drivers {}: {error}.", dir.display())))
}

/// All drivers in the folders of `dir`, by the names of the folders.
///
/// # Errors
/// If the directory cannot be read, or a manifest is not valid.
pub(crate) fn drivers(dir: &Path) -> Result<Vec<Driver>, Failure> {
    let entries = std::fs::read_dir(dir)
        .map_err(|error| Failure::unavailable(format!("{}: {error}.", dir.display())))?;
    let folders = entries.flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = folders
        .filter(|folder| folder.join(MANIFEST).is_file())
        .take(MOST_FOLDERS)
        .collect();
    folders.sort();
    let mut drivers: Vec<Driver> = Vec::new();
    for folder in folders {
        for driver in in_folder(&folder)? {
            if drivers.iter().any(|known| known.name == driver.name) {
                return Err(Failure::bad_file(format!(
                    "{}: another folder has a client `{}`.",
                    folder.join(MANIFEST).display(),
                    driver.name
                )));
            }
            drivers.push(driver);
        }
    }
    Ok(drivers)
}

/// The drivers of a folder that was named.
///
/// # Errors
/// If it does not exist, or its manifest is not valid.
pub(crate) fn given(folder: &Path) -> Result<Vec<Driver>, Failure> {
    let found = folder.canonicalize().map_err(|error| {
        Failure::unavailable(format!("--driver {}: {error}.", folder.display()))
    })?;
    let mut drivers = in_folder(&found)?;
    for driver in &mut drivers {
        driver.is_given = true;
    }
    Ok(drivers)
}

/// The drivers of one folder.
///
/// # Errors
/// If its manifest cannot be read or is not valid.
pub(crate) fn in_folder(folder: &Path) -> Result<Vec<Driver>, Failure> {
    let path = folder.join(MANIFEST);
    let bytes = files::read_bounded(&path, LARGEST_BYTES)?;
    let bad = |why: String| Failure::bad_file(format!("{}: {why}.", path.display()));
    let text = String::from_utf8(bytes).map_err(|_| bad("not UTF-8".into()))?;
    let manifest: Manifest = toml::from_str(&text).map_err(|error| {
        let why = error.message().trim_end_matches('.').to_owned();
        bad(why)
    })?;
    let Manifest {
        language,
        command,
        needs,
        clients,
    } = manifest;
    if clients.is_empty() || clients.len() > MOST_CLIENTS {
        return Err(bad(format!(
            "expected 1 to {MOST_CLIENTS} tables [[client]]"
        )));
    }
    let mut drivers = Vec::new();
    for entry in clients {
        check(&entry).map_err(|why| bad(format!("client `{}`: {why}", entry.name)))?;
        drivers.push(Driver {
            name: entry.name,
            language: language.clone(),
            dir: folder.to_owned(),
            command: entry.command.unwrap_or_else(|| command.clone()),
            needs: needs.clone(),
            modes: entry.modes,
            resp: entry.resp,
            connections: entry.connections,
            rate: entry.rate,
            cluster: entry.cluster,
            follows: entry.follows,
            is_given: false,
        });
    }
    if drivers.iter().any(|driver| driver.command.is_empty()) {
        return Err(bad("the command is empty".into()));
    }
    Ok(drivers)
}

fn check(entry: &Entry) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if entry.name.is_empty() || entry.name.len() > LONGEST_NAME || !entry.name.chars().all(is_plain)
    {
        return Err(format!(
            "a name has 1 to {LONGEST_NAME} letters, digits, `-`, `_` and `.`"
        ));
    }
    if entry.modes.is_empty() {
        return Err("it has no modes".into());
    }
    let follows = [Topology::Sentinel, Topology::Cluster];
    if !entry
        .follows
        .iter()
        .all(|topology| follows.contains(topology))
    {
        return Err("`follows` lists \"sentinel\", \"cluster\" or both".into());
    }
    if entry.resp.is_empty() || entry.resp.iter().any(|resp| !(2..=3).contains(resp)) {
        return Err("`resp` lists 2, 3 or both".into());
    }
    Ok(())
}

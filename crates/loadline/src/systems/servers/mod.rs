//! Child servers: started for a run on a free loopback port, and ended with it in every case.

mod cluster;
mod config;
mod copy;
mod output;
mod process;
mod random;
mod sentinel;
mod tidy;

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use tempfile::TempDir;

use crate::exit::{Exit, Failure};
use crate::files::find_program;
use crate::spelling::{Address, Configuration, Durability, Program, Server, Slowdown};
use crate::systems::admin::Admin;
use crate::systems::callgrind::Callgrind;
use crate::systems::connect::Endpoint;
use process::{own_executable, start};

pub(crate) use cluster::{ClusterChild, NodeAddresses};
pub(crate) use copy::copy_settings;
pub(in crate::systems) use output::Tail;
pub(crate) use process::{become_child, counted_child, limited_child, own_child};
pub(crate) use random::is_fixed as has_fixed_random;
pub(crate) use sentinel::SentinelChildren;
pub(crate) use tidy::tidy;

/// Time limit for the first answer of a server.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for a server in a simulator.
const COUNTED_START_PATIENCE: Duration = Duration::from_secs(60);
/// Interval at which a starting server is checked.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Ports to try: another program may take one between its choice and its use.
const PORT_ATTEMPTS: u32 = 5;
/// Prefix of our directories for temporary files.
const PREFIX: &str = "loadline-";
/// Sets keys for a server to read after a restart, which answers other clients once per 1,024 of them.
const LOADED_SCRIPT: &str =
    "for i = 1, ARGV[2] do redis.call('SET', ARGV[1] .. 'loaded:' .. i, i) end";
const LOADED_KEYS: &str = "10000";
/// Its pause at each key, in microseconds. The kernel adds about 60.
const LOADED_PAUSE_US: &str = "40";
/// The name of a server's socket in its directory.
const SOCKET: &str = "redis.sock";
/// The name of a server's configuration file in its directory.
const CONFIG_FILE: &str = "loadline.conf";
/// The name of the file that fills a disk.
const FILLER: &str = "filler";
/// The command that starts our own server.
const EMBEDDED: &str = "__embedded";
/// The address for a free port of our own server.
const ANY_PORT: &str = "127.0.0.1:0";
/// Text before the address in the line that `loadline serve` prints.
pub(crate) const LISTENING: &str = "Listening on ";

/// A server that ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Child {
    name: String,
    process: std::process::Child,
    address: SocketAddr,
    output: Tail,
    patience: Duration,
    /// Its directory, while it is still needed.
    dir: Option<TempDir>,
    /// Its socket in the file system, if it is called through one.
    socket: Option<PathBuf>,
    /// The program and its arguments.
    started_as: (PathBuf, Vec<OsString>),
    /// The digest of its configuration file, if it has one.
    config_sha256: Option<String>,
}

/// Persistence of a server program, and the way to reach it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Storage<'s> {
    pub(crate) durability: Durability,
    /// Parent of its directory, if not the directory for temporary files.
    pub(crate) dir: Option<&'s Path>,
    /// Whether it is called through a socket in the file system.
    pub(crate) socket: bool,
    /// Whether the directory of a server program is a small file system of its own, which [`Child::fill_disk`] fills.
    pub(crate) has_disk: bool,
}

impl Storage<'_> {
    /// The settings of Redis.
    fn settings(&self) -> Vec<String> {
        let sync = match self.durability {
            Durability::Memory => None,
            Durability::Process => Some("no"),
            Durability::Interval(_) => Some("everysec"),
            Durability::Always => Some("always"),
        };
        let mut words = Vec::new();
        if let Some(sync) = sync {
            words.extend(["--appendonly", "yes", "--appendfsync", sync]);
        }
        if self.socket {
            words.extend(["--unixsocket", SOCKET]);
        }
        words.into_iter().map(ToOwned::to_owned).collect()
    }
}

impl Child {
    /// Starts our own server over our own store, whose commands are slowed down on the CPU by `slowdown`. With
    /// `under`, it runs in that simulator.
    ///
    /// # Errors
    /// If it does not start, with its last output, or if `interrupt` was set meanwhile.
    pub(crate) fn embedded(
        slowdown: Slowdown,
        under: Option<&Callgrind>,
        interrupt: &AtomicBool,
    ) -> Result<Self, Failure> {
        let mut words = Vec::new();
        let (burn, work) = (slowdown.burn_per_command, slowdown.work_per_command);
        if !burn.is_zero() {
            words.push(format!("--burn-per-command={}ns", burn.as_nanos()).into());
        }
        if work > 0 {
            words.push(format!("--work-per-command={work}").into());
        }
        Self::serve(words, None, under, interrupt)
    }

    /// Starts our own server, with its own directory if `storage` requires one, which is removed with it.
    ///
    /// # Errors
    /// Those of [`embedded`](Self::embedded).
    pub(crate) fn embedded_storing(
        storage: Storage<'_>,
        interrupt: &AtomicBool,
    ) -> Result<Self, Failure> {
        if storage.durability == Durability::Memory {
            return Self::serve(Vec::new(), None, None, interrupt);
        }
        let temporary = std::env::temp_dir();
        let place = storage.dir.unwrap_or(&temporary);
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place);
        let dir = dir.map_err(|error| no_directory("embedded", &error))?;
        let words = vec![
            "--dir".into(),
            dir.path().into(),
            "--durability".into(),
            storage.durability.to_string().into(),
        ];
        Self::serve(words, Some(dir), None, interrupt)
    }

    /// Starts our own server with further arguments.
    fn serve(
        arguments: Vec<OsString>,
        dir: Option<TempDir>,
        under: Option<&Callgrind>,
        interrupt: &AtomicBool,
    ) -> Result<Self, Failure> {
        let words = [EMBEDDED, "--listen", ANY_PORT].map(OsString::from);
        let words: Vec<OsString> = words.into_iter().chain(arguments).collect();
        let (process, output) = start("embedded", &own_executable()?, &words, under, None)?;
        let unknown = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut child = Self {
            name: "embedded".into(),
            process,
            address: unknown,
            output,
            patience: patience(under),
            dir,
            socket: None,
            started_as: (own_executable()?, words),
            config_sha256: None,
        };
        child.comes_up(interrupt)?;
        Ok(child)
    }

    /// Waits until it answers. Our own server has chosen a free port and prints it.
    fn comes_up(&mut self, interrupt: &AtomicBool) -> Result<(), Failure> {
        let is_ours = self
            .started_as
            .1
            .first()
            .is_some_and(|word| word == EMBEDDED);
        self.wait_until(interrupt, |child| {
            if is_ours {
                let Some(address) = child.announced() else {
                    return Answer::NotYet;
                };
                child.address = address;
            }
            child.answers()
        })
    }

    /// Starts the Redis-compatible server `program`. Without a configuration file, persistence is off, and its directory
    /// is removed once the server has changed to it. With `under`, it runs in that simulator.
    ///
    /// # Errors
    /// If its configuration file cannot be read, if it is not found or does not start, with its last output, or if `interrupt` was set meanwhile.
    pub(crate) fn spawn(
        program: &Program,
        under: Option<&Callgrind>,
        interrupt: &AtomicBool,
    ) -> Result<Self, Failure> {
        let name = format!("spawn:{program}");
        let config: Option<Cow<'_, [u8]>> = match &program.config {
            None => None,
            Some(Configuration::File(file)) => Some(config::read(&name, file)?.into()),
            Some(Configuration::Copied(copied)) => Some(copied.text.as_ref().into()),
        };
        let wanted = Wanted {
            name: &name,
            dir: &std::env::temp_dir(),
            config: config.as_deref(),
            under,
            has_disk: false,
            host: Ipv4Addr::LOCALHOST,
            interrupt,
        };
        let mut child = wanted.spawn(&program.path, || Ok(Vec::new()))?;
        // The server has changed to the directory by now and writes nothing. It is removed already here, because
        // it could not be if we were killed. A leftover one is harmless. With the settings of a file, it can write.
        if config.is_none() {
            child.dir = None;
        }
        Ok(child)
    }

    /// Starts the same program as [`spawn`](Self::spawn) with `storage`; it keeps its directory.
    ///
    /// # Errors
    /// Those of [`spawn`](Self::spawn).
    pub(crate) fn spawn_storing(
        name: &str,
        program: &Path,
        storage: Storage<'_>,
        interrupt: &AtomicBool,
    ) -> Result<Self, Failure> {
        let temporary = std::env::temp_dir();
        let wanted = Wanted {
            name,
            dir: storage.dir.unwrap_or(&temporary),
            config: None,
            under: None,
            has_disk: storage.has_disk,
            host: Ipv4Addr::LOCALHOST,
            interrupt,
        };
        let mut child = wanted.spawn(program, || Ok(storage.settings()))?;
        child.socket = match &child.dir {
            Some(dir) if storage.socket => Some(dir.path().join(SOCKET)),
            _ => None,
        };
        Ok(child)
    }

    /// Kills it, and starts it again with the same arguments and files.
    ///
    /// # Errors
    /// If it does not start again, or if `interrupt` was set meanwhile.
    pub(crate) fn restart(&mut self, interrupt: &AtomicBool) -> Result<(), Failure> {
        self.kill();
        let (program, words) = &self.started_as;
        (self.process, self.output) = start(&self.name, program, words, None, None)?;
        self.comes_up(interrupt)
    }

    /// Ends it with SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        // Both fail only if the process has already ended, which is the goal.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Lets later restarts listen on its present address. Our own server would choose another free port.
    pub(crate) fn keep_address(&mut self) {
        for word in &mut self.started_as.1 {
            if word == ANY_PORT {
                *word = self.address.to_string().into();
            }
        }
    }

    /// Gives a redis-server keys to read after a restart, and lets it pause at each of them then, so that this takes about a
    /// second. It must have an append-only file.
    ///
    /// # Errors
    /// If the server refuses.
    pub(crate) fn load_slowly(&mut self) -> Result<(), Failure> {
        let endpoint = Endpoint::local(self.server());
        endpoint.say(&["EVAL", LOADED_SCRIPT, "0", PREFIX, LOADED_KEYS])?;
        let pause = ["--key-load-delay", LOADED_PAUSE_US].map(OsString::from);
        self.started_as.1.extend(pause);
        Ok(())
    }

    /// Fills the small file system of its directory with a file, and returns the path of the file.
    ///
    /// # Errors
    /// If the file system cannot be reached.
    ///
    /// # Panics
    /// If it was started without a small file system.
    pub(crate) fn fill_disk(&self) -> io::Result<PathBuf> {
        let dir = self.dir().expect("it was started with a disk");
        // Only it sees the file system.
        let root = PathBuf::from(format!("/proc/{}/root", self.pid()));
        let path = root.join(dir.strip_prefix("/").unwrap_or(dir)).join(FILLER);
        let mut file = File::create(&path)?;
        let piece = [0; 1 << 16];
        loop {
            match file.write(&piece) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(path),
                Err(error) => return Err(error),
            }
        }
    }

    /// The digest of its configuration file, if it has one.
    pub(crate) fn config_sha256(&self) -> Option<&str> {
        self.config_sha256.as_deref()
    }

    /// The directory of its files, if it has one.
    pub(crate) fn dir(&self) -> Option<&Path> {
        self.dir.as_ref().map(TempDir::path)
    }

    /// The address that it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address.
    pub(crate) fn server(&self) -> Server {
        match &self.socket {
            Some(path) => Server {
                address: Address::Unix(path.clone()),
                ..Server::local(self.address)
            },
            None => Server::local(self.address),
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Checks the child until `look` reports that it is up.
    fn wait_until(
        &mut self,
        interrupt: &AtomicBool,
        mut look: impl FnMut(&mut Self) -> Answer,
    ) -> Result<(), Failure> {
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(failure) = self.has_ended() {
                return Err(failure);
            }
            let why = match look(self) {
                Answer::Yes => return Ok(()),
                Answer::NotYet => "",
                Answer::FromAnother => {
                    " (another program answers on its port; it was already in use)"
                }
            };
            go_on(&self.name, interrupt)?;
            if Instant::now() >= deadline {
                let why = format!(
                    "did not answer within {} seconds{why}",
                    self.patience.as_secs()
                );
                return Err(self.failure(&why));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// The failure of a child that has ended during its start, with its last output.
    fn has_ended(&mut self) -> Option<Failure> {
        let status = self.process.try_wait().ok()??;
        self.output.wait_for_end();
        Some(self.failure(&format!("ended before it answered ({status})")))
    }

    /// Whether the server answers, and whether it is this child.
    fn answers(&mut self) -> Answer {
        let endpoint = Endpoint::local(self.server());
        let Ok(info) = Admin::open(&endpoint).and_then(|mut admin| admin.info(&["server"])) else {
            return Answer::NotYet;
        };
        match info.number("process_id") {
            Some(pid) if pid != u64::from(self.pid()) => Answer::FromAnother,
            _ => Answer::Yes,
        }
    }

    /// The address in the line printed by `loadline serve`, if it is complete.
    fn announced(&self) -> Option<SocketAddr> {
        let text = self.output.text();
        let (_, rest) = text.split_once(LISTENING)?;
        let (line, _) = rest.split_once('\n')?;
        line.trim().parse().ok()
    }

    fn failure(&self, what: &str) -> Failure {
        let text = self.output.text();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let words = lines[lines.len().saturating_sub(2)..].join("\n");
        let words = if words.is_empty() {
            "It printed nothing.".into()
        } else {
            format!("It said: {}", crate::printer::printable(&words))
        };
        Failure::unavailable(format!("{} {what}.\n{words}", self.name))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server program to start.
#[derive(Debug, Clone, Copy)]
struct Wanted<'w> {
    /// Its name in messages.
    name: &'w str,
    /// Parent of its directory.
    dir: &'w Path,
    /// Its settings, as text; without them, persistence is off.
    config: Option<&'w [u8]>,
    /// The simulator that it runs in.
    under: Option<&'w Callgrind>,
    /// Whether its directory is a small file system.
    has_disk: bool,
    /// The address of the loopback interface that it listens on.
    host: Ipv4Addr,
    /// Interrupts the start.
    interrupt: &'w AtomicBool,
}

impl Wanted<'_> {
    /// Starts `program` with additional settings, which are chosen again for each attempt.
    fn spawn(
        self,
        program: &Path,
        settings: impl Fn() -> Result<Vec<String>, Failure>,
    ) -> Result<Child, Failure> {
        let name = self.name;
        let path = find_program(program).ok_or_else(|| {
            Failure::unavailable(format!(
                "{name}: program not found.\nInstall it, or give its path."
            ))
        })?;
        let mut attempt = 1;
        loop {
            match self.spawn_on(&path, free_port(name)?, settings()?) {
                Err(Start::PortTaken(_)) if attempt < PORT_ATTEMPTS => attempt += 1,
                Err(Start::PortTaken(failure) | Start::Failed(failure)) => return Err(failure),
                Ok(child) => return Ok(child),
            }
        }
    }

    /// The arguments of the program: its settings in `dir`, and those that are ours.
    fn words(self, dir: &Path, port: u16) -> Result<Vec<OsString>, Failure> {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(text) = self.config {
            let file = dir.join(CONFIG_FILE);
            std::fs::write(&file, text).map_err(|error| no_directory(self.name, &error))?;
            words.push(file.into());
        }
        let (host, port) = (self.host.to_string(), port.to_string());
        words.extend(["--port", &port, "--bind", &host].map(OsString::from));
        if self.config.is_none() {
            words.extend(["--save", "", "--appendonly", "no"].map(OsString::from));
        }
        words.extend(["--daemonize", "no", "--logfile", "", "--dir"].map(OsString::from));
        words.push(dir.into());
        Ok(words)
    }

    fn spawn_on(self, path: &Path, port: u16, settings: Vec<String>) -> Result<Child, Start> {
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(self.dir);
        let dir = dir.map_err(|error| Start::Failed(no_directory(self.name, &error)))?;
        let mut words = self.words(dir.path(), port).map_err(Start::Failed)?;
        words.extend(settings.into_iter().map(OsString::from));
        let disk = Some(dir.path()).filter(|_| self.has_disk);
        let (process, output) =
            start(self.name, path, &words, self.under, disk).map_err(Start::Failed)?;
        let address = SocketAddr::from((self.host, port));
        let mut child = Child {
            name: self.name.to_owned(),
            process,
            address,
            output,
            patience: patience(self.under),
            dir: Some(dir),
            socket: None,
            started_as: (path.to_owned(), words),
            config_sha256: self.config.map(config::digest),
        };
        match child.wait_until(self.interrupt, |child| child.answers()) {
            Ok(()) => Ok(child),
            Err(failure)
                if child
                    .output
                    .text()
                    .to_ascii_lowercase()
                    .contains("already in use") =>
            {
                Err(Start::PortTaken(failure))
            }
            Err(failure) => Err(Start::Failed(failure)),
        }
    }
}

fn patience(under: Option<&Callgrind>) -> Duration {
    if under.is_some() {
        COUNTED_START_PATIENCE
    } else {
        START_PATIENCE
    }
}

/// State of a starting server.
enum Answer {
    Yes,
    NotYet,
    FromAnother,
}

/// The reason why a server did not start.
enum Start {
    PortTaken(Failure),
    Failed(Failure),
}

fn no_directory(name: &str, error: &io::Error) -> Failure {
    Failure::unavailable(format!(
        "{name}: cannot create a directory for its files: {error}.\nSet TMPDIR to a writable directory."
    ))
}

/// # Errors
/// The failure that the start of `name` was interrupted.
fn go_on(name: &str, interrupt: &AtomicBool) -> Result<(), Failure> {
    if interrupt.load(Ordering::Relaxed) {
        return Err(Failure::new(
            Exit::Interrupted,
            format!("{name}: interrupted while it started. Nothing was measured."),
        ));
    }
    Ok(())
}

fn free_port(name: &str) -> Result<u16, Failure> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| Failure::unavailable(format!("{name}: no free port: {error}.")))
}

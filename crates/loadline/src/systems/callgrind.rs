//! A server or a client under valgrind's callgrind, which counts the instructions that it executes.
//!
//! The program runs in a simulator, some fifty times slower than on the CPU. The counts of a server are controlled from
//! outside by `vgdb`, which comes with valgrind: [`Callgrind::start_pass`] and [`Callgrind::end_pass`]. That takes a
//! tenth of a second each time, so our own client controls its counts itself: [`mark`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use loadline_measure::work::callgrind::{self, Profile};
use tempfile::TempDir;

use super::servers::Tail;
use crate::exit::Failure;
use crate::files::find_program;
use crate::units::duration_text;

/// The function of the C library whose calls end a profile of our own client. It has no other effect and no other callers,
/// and stripped programs have its symbol, too.
const MARK: &str = "getppid";
/// Largest profile to read, in bytes; that of redis-server has some hundred kilobytes.
const LARGEST_PROFILE_BYTES: u64 = 64 << 20;
/// Time limit of one command of `vgdb`, which usually takes a tenth of a second. It waits without a limit for a server
/// that is stopped.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The bytes that a server reads in place of random numbers. The value does not matter, as long as it never changes.
const FIXED_RANDOM: [u8; 4_096] = [0x4c; 4_096];

/// The sentence for a machine without valgrind.
pub(crate) const MISSING: &str = "Instructions per operation were not counted: valgrind is not on PATH. Install the package `valgrind`.";

/// Valgrind, and the directory for the counts of one server.
#[derive(Debug)]
pub(crate) struct Callgrind {
    valgrind: PathBuf,
    vgdb: PathBuf,
    dir: TempDir,
    /// Time limit of one command of `vgdb`.
    patience: Duration,
    /// Profiles read so far.
    profiles: u32,
}

/// Valgrind and its `vgdb`, if both are on PATH.
fn programs() -> Option<[PathBuf; 2]> {
    let [valgrind, vgdb] = ["valgrind", "vgdb"].map(|name| find_program(Path::new(name)));
    Some([valgrind?, vgdb?])
}

impl Callgrind {
    /// Whether the programs for counting are installed.
    pub(crate) fn is_installed() -> bool {
        programs().is_some()
    }

    /// Prepares the counts of one process.
    ///
    /// # Errors
    /// If valgrind is missing, or no directory can be created for the counts.
    pub(crate) fn new() -> Result<Self, Failure> {
        let [valgrind, vgdb] = programs().ok_or_else(|| Failure::unavailable(MISSING))?;
        let dir = tempfile::Builder::new().prefix("loadline-").tempdir();
        let no_directory = |error: std::io::Error| {
            Failure::unavailable(format!(
                "Cannot create a directory for the counts of callgrind: {error}.\nSet TMPDIR to a writable directory."
            ))
        };
        let dir = dir.map_err(no_directory)?;
        std::fs::write(dir.path().join("random"), FIXED_RANDOM).map_err(no_directory)?;
        Ok(Self {
            valgrind,
            vgdb,
            dir,
            patience: PATIENCE,
            profiles: 0,
        })
    }

    /// The version of valgrind, such as `valgrind-3.19.0`.
    ///
    /// # Errors
    /// If it cannot be run.
    pub(crate) fn version(&self) -> Result<String, Failure> {
        let output = Command::new(&self.valgrind).arg("--version").output();
        let output = output.map_err(|error| {
            Failure::unavailable(format!("`valgrind --version` could not be run: {error}."))
        })?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// A command that counts the program appended to it: its program and first arguments.
    pub(crate) fn command(&self) -> (PathBuf, Vec<OsString>) {
        let mut out = OsString::from("--callgrind-out-file=");
        out.push(self.dir.path().join("profile"));
        let words = [
            "--tool=callgrind".into(),
            // The program can be a script that starts the server with exec.
            "--trace-children=yes".into(),
            "--collect-systime=yes".into(),
            self.vgdb_prefix(),
            out,
        ];
        (self.valgrind.clone(), words.into())
    }

    /// The option with which [`mark`] ends a profile.
    pub(crate) fn marked() -> String {
        format!("--dump-before={MARK}")
    }

    /// The option for the pipes between valgrind and `vgdb`. They are in the directory of the counts, because a killed
    /// program leaves its pipes behind, and `vgdb` searches all pipes with its prefix.
    fn vgdb_prefix(&self) -> OsString {
        let mut option = OsString::from("--vgdb-prefix=");
        option.push(self.dir.path().join("vgdb"));
        option
    }

    /// The file for the standard error of the program.
    pub(crate) fn said(&self) -> PathBuf {
        self.dir.path().join("said")
    }

    /// The file that a server reads in place of random numbers.
    pub(crate) fn random(&self) -> PathBuf {
        self.dir.path().join("random")
    }

    /// Resets the counts of the process `pid`, by writing a profile that is not read: valgrind's own `zero` keeps
    /// the count of system calls.
    ///
    /// # Errors
    /// If the process does not obey.
    pub(crate) fn start_pass(&mut self, pid: u32) -> Result<(), Failure> {
        self.tell(pid, "dump")?;
        self.profiles += 1;
        Ok(())
    }

    /// Returns the counts of the process `pid` since [`start_pass`](Self::start_pass).
    ///
    /// # Errors
    /// If the process does not write its profile, or the profile cannot be read.
    pub(crate) fn end_pass(&mut self, pid: u32) -> Result<Profile, Failure> {
        self.tell(pid, "dump")?;
        self.profiles += 1;
        self.last_profile()
    }

    /// The instructions that a process that marks its passes has executed between two [`mark`]s, if it has made no
    /// others.
    ///
    /// # Errors
    /// If the profile cannot be read.
    pub(crate) fn marked_pass(&mut self) -> Result<Profile, Failure> {
        self.profiles += 2;
        self.last_profile()
    }

    fn last_profile(&self) -> Result<Profile, Failure> {
        let path = self.dir.path().join(format!("profile.{}", self.profiles));
        let failed = |why: &dyn std::fmt::Display| {
            Failure::unavailable(format!("The profile of callgrind cannot be read: {why}."))
        };
        let bytes = std::fs::metadata(&path)
            .map_err(|error| failed(&error))?
            .len();
        if bytes > LARGEST_PROFILE_BYTES {
            return Err(failed(&format!("it has {bytes} bytes")));
        }
        let text = std::fs::read(&path).map_err(|error| failed(&error))?;
        callgrind::parse(&String::from_utf8_lossy(&text)).map_err(|error| failed(&error))
    }

    /// Copies the profile of the last pass to `path`.
    ///
    /// # Errors
    /// If the copy fails.
    pub(crate) fn keep_last(&self, path: &Path) -> Result<(), Failure> {
        let from = self.dir.path().join(format!("profile.{}", self.profiles));
        std::fs::copy(from, path).map(drop).map_err(|error| {
            Failure::unavailable(format!(
                "The profile {} cannot be written: {error}.",
                path.display()
            ))
        })
    }

    /// Runs a command of `vgdb` on the process `pid`, up to its time limit.
    ///
    /// # Errors
    /// If it fails, or is not done within the limit.
    fn tell(&self, pid: u32, command: &str) -> Result<(), Failure> {
        let failed = |why: String| {
            Failure::unavailable(format!(
                "`vgdb --pid={pid} {command}`, which controls callgrind, failed: {why}."
            ))
        };
        let mut vgdb = Command::new(&self.vgdb)
            .arg(self.vgdb_prefix())
            // If the server does not answer, vgdb would retry forever. The server is blocked in a system call, which
            // vgdb would interrupt after 100 ms only.
            .args(["--wait=5", "--max-invoke-ms=5"])
            .args([&format!("--pid={pid}"), command])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let said = Tail::default();
        if let Some(stderr) = vgdb.stderr.take() {
            said.follow(stderr);
        }
        let deadline = Instant::now() + self.patience;
        let status = loop {
            match vgdb.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < deadline => thread::sleep(LOOK_EVERY),
                Ok(None) => {
                    // Both fail only if the process is gone already.
                    let _ = vgdb.kill();
                    let _ = vgdb.wait();
                    let limit = duration_text(self.patience);
                    return Err(failed(format!("it did not end within {limit}")));
                }
                Err(error) => return Err(failed(error.to_string())),
            }
        };
        if !status.success() {
            said.wait_for_end();
            let text = said.text();
            let text = crate::printer::printable(text.trim());
            return Err(failed(format!("{status}: {text}")));
        }
        Ok(())
    }
}

/// Ends a profile of this process, and begins the next one, if it runs under a [`Callgrind::marked`] callgrind. Other
/// than by `vgdb` that takes no time.
pub(crate) fn mark() {
    let _ = std::os::unix::process::parent_id();
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Counts that are controlled by a shell script in place of `vgdb`.
    fn controlled_by(script: &str, patience: Duration) -> Callgrind {
        let dir = tempfile::tempdir().unwrap();
        let vgdb = dir.path().join("vgdb");
        std::fs::write(&vgdb, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&vgdb, PermissionsExt::from_mode(0o755)).unwrap();
        Callgrind {
            valgrind: "valgrind".into(),
            vgdb,
            dir,
            patience,
            profiles: 0,
        }
    }

    #[test]
    fn silent_vgdb_is_ended_after_its_time_limit() {
        let mut callgrind = controlled_by("exec sleep 5", Duration::from_millis(50));
        let failure = callgrind.start_pass(1).unwrap_err().to_string();
        assert_eq!(
            failure,
            "`vgdb --pid=1 dump`, which controls callgrind, failed: it did not end within 50ms."
        );
    }

    #[test]
    fn failing_vgdb_is_quoted() {
        let mut callgrind = controlled_by("echo no process >&2; exit 3", PATIENCE);
        let failure = callgrind.start_pass(1).unwrap_err().to_string();
        assert_eq!(
            failure,
            "`vgdb --pid=1 dump`, which controls callgrind, failed: exit status: 3: no process."
        );
    }
}

//! A directory that is removed when this program ends, however it ends.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use std::os::unix::process::CommandExt;
use tempfile::TempDir;

use super::process::own_executable;
use super::{PREFIX, no_directory};
use crate::exit::Failure;

/// Time during which files can still appear there, because the programs that write them are killed at the same
/// time.
const PATIENCE: Duration = Duration::from_secs(5);
const TRY_EVERY: Duration = Duration::from_millis(20);

/// A directory for files of children, and the process that removes it. That process waits for the end of a pipe
/// that is never written to; the pipe closes with this value or with this program.
#[derive(Debug)]
pub(super) struct WatchedDir {
    dir: TempDir,
    remover: process::Child,
}

impl WatchedDir {
    /// Creates an empty one for the files of `name`.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(super) fn new(name: &str) -> Result<Self, Failure> {
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir();
        let dir = dir.map_err(|error| no_directory(name, &error))?;
        let remover = Command::new(own_executable()?)
            .arg("__tidy")
            .args(dir.path().file_name())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Its own process group, so that Ctrl-C in a terminal does not end it, too.
            .process_group(0)
            .spawn()
            .map_err(|error| no_directory(name, &error))?;
        Ok(Self { dir, remover })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for WatchedDir {
    fn drop(&mut self) {
        // Closes the pipe and waits. If the process has already ended, the directory removes itself when it is
        // dropped.
        let _ = self.remover.wait();
    }
}

/// Waits until the program at the other end of standard input has ended, and removes `name` from the directory for
/// temporary files. Accepts only names in the format of this program, because everything below is lost.
///
/// # Errors
/// A usage error for another name; an error if it cannot be removed.
pub(crate) fn tidy(name: &OsStr) -> Result<(), Failure> {
    let shown = Path::new(name).display();
    let is_plain = Path::new(name).file_name() == Some(name);
    if !is_plain || !name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
        return Err(Failure::usage(format!(
            "__tidy {shown}: not a directory of a run."
        )));
    }
    let left = |error: io::Error| {
        Failure::unavailable(format!(
            "The directory {shown} could not be removed: {error}."
        ))
    };
    io::copy(&mut io::stdin(), &mut io::sink()).map_err(left)?;
    let dir = env::temp_dir().join(name);
    let deadline = Instant::now() + PATIENCE;
    loop {
        match fs::remove_dir_all(&dir) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() >= deadline => return Err(left(error)),
            Err(_) => thread::sleep(TRY_EVERY),
        }
    }
}

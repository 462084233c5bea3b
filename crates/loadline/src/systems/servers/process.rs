//! Processes that end with this one.
//!
//! Every child is started through our own executable as `__child`, which asks the kernel to kill it when its
//! parent ends, and then becomes the program; the request survives that. The kernel watches the *thread* that
//! started the child, so children are started from the main thread, or from a thread that outlives them.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::process::{Resource, Rlimit, setrlimit};

use super::output::Tail;
use super::random;
use crate::exit::Failure;
use crate::systems::callgrind::Callgrind;

/// Size of a small file system.
const DISK: &str = "size=64m,mode=0700";

/// Starts `program` as a process that ends with this one, under a simulator if there is one, and follows its output. `disk` becomes a
/// small file system that ends with it.
///
/// # Errors
/// If it cannot be started.
pub(super) fn start(
    name: &str,
    program: &Path,
    words: &[OsString],
    under: Option<&Callgrind>,
    disk: Option<&Path>,
) -> Result<(process::Child, Tail), Failure> {
    let mut command = match under {
        None => child_command(program, None, disk)?,
        Some(callgrind) => {
            let (valgrind, first) = callgrind.command();
            let mut command = child_command(&valgrind, Some(&callgrind.random()), None)?;
            command.args(first).arg(program);
            command
        }
    };
    let mut process = command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Its own process group, so that Ctrl-C in a terminal reaches only us, and the results can still be
        // collected.
        .process_group(0)
        .spawn()
        .map_err(|error| Failure::unavailable(format!("{name} could not be started: {error}.")))?;
    let output = Tail::default();
    if let Some(stdout) = process.stdout.take() {
        output.follow(stdout);
    }
    if let Some(stderr) = process.stderr.take() {
        output.follow(stderr);
    }
    Ok((process, output))
}

/// A command of this program as a process that ends with this one; see the module documentation about threads.
///
/// # Errors
/// If the path of this program cannot be determined.
pub(crate) fn own_child(words: &[&str]) -> Result<Command, Failure> {
    let mut command = child_command(&own_executable()?, None, None)?;
    command.args(words);
    Ok(command)
}

/// `program` as a process that ends with this one, with at most `memory_bytes` of address space.
///
/// # Errors
/// If the path of this program cannot be determined.
pub(crate) fn limited_child(program: &Path, memory_bytes: Option<u64>) -> Result<Command, Failure> {
    let parent = process::id().to_string();
    let mut command = Command::new(own_executable()?);
    command.args(["__child", "--parent", &parent].map(OsStr::new));
    if let Some(bytes) = memory_bytes {
        command.args(["--memory", &bytes.to_string()]);
    }
    command.arg("--").arg(program);
    Ok(command)
}

/// The hidden command `word` of this program under `callgrind`, as a process that ends with this one.
///
/// # Errors
/// If the path of this program cannot be determined.
pub(crate) fn counted_child(word: &str, callgrind: &Callgrind) -> Result<Command, Failure> {
    let (valgrind, first) = callgrind.command();
    let mut command = child_command(&valgrind, None, None)?;
    command
        .args(first)
        .arg(Callgrind::marked())
        .arg(own_executable()?)
        .arg(word)
        .process_group(0);
    Ok(command)
}

/// `program` as a process that ends with this one, that reads the file `random` in place of random numbers, and to which `disk` is a
/// small file system.
fn child_command(
    program: &Path,
    random: Option<&Path>,
    disk: Option<&Path>,
) -> Result<Command, Failure> {
    let parent = process::id().to_string();
    let mut command = Command::new(own_executable()?);
    command.args(["__child", "--parent", &parent].map(OsStr::new));
    if let Some(file) = random {
        command.arg("--random").arg(file);
    }
    if let Some(disk) = disk {
        command.arg("--disk").arg(disk);
    }
    command.arg("--").arg(program);
    Ok(command)
}

pub(super) fn own_executable() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::unavailable(format!(
            "Cannot determine the path of this program: {error}."
        ))
    })
}

/// Becomes `program`, tied to the life of the process `parent`, with at most `memory_bytes` of address space. If
/// possible, the program reads the file `random` in place of random numbers. The directory `disk` is a small file system to it, and to
/// nobody else. Returns only on failure.
pub(crate) fn become_child(
    parent: u32,
    random: Option<&Path>,
    memory_bytes: Option<u64>,
    disk: Option<&Path>,
    program: &[OsString],
) -> Failure {
    let Some((name, words)) = program.split_first() else {
        return Failure::usage("__child needs a program.");
    };
    if let Err(error) =
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
    {
        return Failure::unavailable(format!(
            "Cannot make the child process end with its parent: {error}."
        ));
    }
    // The parent can end before the system call; then another process has adopted this one.
    let adopted = rustix::process::getppid()
        .is_none_or(|pid| pid.as_raw_nonzero().get().unsigned_abs() != parent);
    if adopted {
        return Failure::unavailable("The parent process has ended.");
    }
    if let Some(bytes) = memory_bytes {
        let limit = Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        };
        if let Err(error) = setrlimit(Resource::As, limit) {
            return Failure::unavailable(format!("Cannot limit memory to {bytes} bytes: {error}."));
        }
    }
    if let Some(Err(errno)) = disk.map(mount_disk) {
        return Failure::unavailable(format!("Cannot mount a small file system: {errno}."));
    }
    if let Some(file) = random {
        // Without permission, the numbers stay random; see `has_fixed_random`.
        let _ = random::fix(file);
    }
    let error = Command::new(name).args(words).exec();
    Failure::unavailable(format!(
        "{} could not be started: {error}.",
        Path::new(name).display()
    ))
}

/// Makes the directory `disk` a small file system in memory for this process alone, so that it ends with it in every case.
fn mount_disk(disk: &Path) -> nix::Result<()> {
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    // Mounts spread to other processes by default.
    mount(none, "/", none, MsFlags::MS_PRIVATE | MsFlags::MS_REC, none)?;
    let (source, kind) = (Some("loadline"), Some("tmpfs"));
    mount(source, disk, kind, MsFlags::empty(), Some(DISK))
}

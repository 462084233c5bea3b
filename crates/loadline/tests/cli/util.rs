//! The fixture: the binary in an empty directory and a quiet environment.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Time limit of a wait, after which a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A directory to work in, removed at the end.
pub(crate) struct Dir(tempfile::TempDir);

impl Dir {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    pub(crate) fn is_empty(&self) -> bool {
        std::fs::read_dir(self.path()).unwrap().next().is_none()
    }

    /// The binary, called in this directory.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        // The tests may run under `nohup`, whose ignored signal would be inherited.
        let mut command = Command::new("/usr/bin/env");
        command
            .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_loadline")])
            .args(words)
            .current_dir(self.path())
            .stdin(Stdio::null());
        // A password or a terminal setting of the user who runs the tests must not matter.
        for name in ["LOADLINE_REDIS_PASSWORD", "NO_COLOR", "COLUMNS"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Ended {
        Ended::of(words, self.command(words).output().unwrap())
    }
}

/// A run that has ended.
pub(crate) struct Ended {
    pub(crate) words: String,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn of(words: &[&str], output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self {
            words: words.join(" "),
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Checks that it failed as it should: the code, a sentence that holds `reason`, no output, and
    /// at most three lines from us.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, reason: &str) {
        assert_eq!(self.code, Some(code), "{}\n{}", self.words, self.stderr);
        assert!(
            self.stderr.contains(reason),
            "{}\n{}",
            self.words,
            self.stderr
        );
        assert_eq!(self.stdout, "", "{}", self.words);
        let ours = self.stderr.starts_with("loadline: ");
        assert!(
            ours && self.stderr.lines().count() <= 3,
            "{}\n{}",
            self.words,
            self.stderr
        );
        assert!(
            !self.stderr.contains("panicked"),
            "{}\n{}",
            self.words,
            self.stderr
        );
    }

    /// Checks that it ended well and returns what it printed.
    #[track_caller]
    pub(crate) fn succeeded(self) -> String {
        assert_eq!(self.code, Some(0), "{}\n{}", self.words, self.stderr);
        self.stdout
    }
}

/// A `loadline serve` that is ended with the test.
pub(crate) struct Serving {
    pub(crate) process: Child,
    pub(crate) address: SocketAddr,
    /// The second address that it listens on, if there is one.
    pub(crate) second: Option<SocketAddr>,
}

impl Serving {
    pub(crate) fn start(dir: &Dir, words: &[&str]) -> Self {
        Self::start_as("serve", dir, words)
    }

    /// Starts the server of the target `embedded`.
    pub(crate) fn embedded(dir: &Dir, words: &[&str]) -> Self {
        Self::start_as("__embedded", dir, words)
    }

    fn start_as(command: &str, dir: &Dir, words: &[&str]) -> Self {
        let mut process = dir
            .command(&[&[command, "--listen", "127.0.0.1:0"], words].concat())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let places = line
            .strip_prefix("Listening on ")
            .unwrap_or_else(|| panic!("{line:?}"));
        let mut places = places.trim().split(", ");
        let address = places.next().unwrap().parse().unwrap();
        let second = places.next().and_then(|place| place.parse().ok());
        Self {
            process,
            address,
            second,
        }
    }

    /// Sends `request` and checks that exactly `reply` comes back.
    #[track_caller]
    pub(crate) fn answers(&self, request: &str, reply: &str) {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        converse(stream, request, reply);
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends `request` over a fresh connection with a read timeout and checks that exactly `reply` comes back.
#[track_caller]
pub(crate) fn converse(mut stream: impl Read + Write, request: &str, reply: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut received = vec![0; reply.len()];
    let read = stream.read_exact(&mut received);
    assert_eq!(
        String::from_utf8_lossy(&received),
        reply,
        "{request:?} {read:?}"
    );
}

/// Waits until `done`, and fails when that takes too long.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(
            Instant::now() < deadline,
            "{what}: still not after {PATIENCE:?}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the process runs; one that has ended and was not yet collected does not.
pub(crate) fn is_running(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    // The name before it is in brackets and may hold anything.
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

/// Whether tests take as long as their published figures need.
pub(crate) fn is_long() -> bool {
    std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1")
}

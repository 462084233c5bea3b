//! A server program that ends with the test, in whatever way the test ends.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts a server, and ends it, without mercy, as soon as standard input is closed: then the test has ended. Its directory
/// goes with it.
const SUPERVISOR: &str = r#"
    trap '' INT TERM
    dir="$1"; shift
    "$@" >/dev/null 2>&1 &
    read -r _
    kill -9 $!
    wait
    rm -rf "$dir"
"#;

/// A server with a directory of its own. It ends when this is dropped; a static is not dropped, and then the server ends
/// with the process.
pub(crate) struct Supervised {
    supervisor: Child,
}

impl Supervised {
    /// Starts redis-server with these arguments.
    pub(crate) fn start(dir: &Path, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR, "sh"])
            .arg(dir)
            .arg("redis-server")
            .args(args)
            .stdin(Stdio::piped())
            .spawn()
            .expect(
                "these tests need sh and redis-server; `cargo xtask test --install` installs it",
            );
        Self { supervisor }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        let _ = self.supervisor.wait();
    }
}

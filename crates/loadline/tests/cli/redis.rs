//! A real redis-server for a test, ended with it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use crate::port::Port;
use crate::util::{Dir, PATIENCE, converse, wait_until};

/// A redis-server of a test's own, ended with it.
pub(crate) struct Redis {
    process: Child,
    port: Port,
    dir: Dir,
}

impl Redis {
    pub(crate) fn start(settings: &[&str]) -> Self {
        Self::start_as(|server| server, settings)
    }

    /// Starts it by the command that `wrap` makes of its own.
    pub(crate) fn start_as(wrap: impl FnOnce(Command) -> Command, settings: &[&str]) -> Self {
        let port = Port::reserve();
        let dir = Dir::new();
        let mut server = Command::new("redis-server");
        server
            .args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--unixsocket",
                "redis.sock",
            ])
            .args(["--save", "", "--appendonly", "no"])
            .args(settings)
            .current_dir(dir.path());
        let process = wrap(server)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("these tests need redis-server; `cargo xtask test --install` installs it");
        let redis = Self { process, port, dir };
        // Its socket in the file system is the last place where it starts to listen.
        let socket = redis.dir.path().join("redis.sock");
        wait_until("redis-server answers", || {
            UnixStream::connect(&socket).is_ok()
        });
        redis
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn socket(&self) -> String {
        format!("unix://{}", self.dir.path().join("redis.sock").display())
    }

    #[track_caller]
    pub(crate) fn answers(&self, request: &str, reply: &str) {
        let stream = UnixStream::connect(self.dir.path().join("redis.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        converse(stream, request, reply);
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The number of `command`s that it got, by its own count.
    pub(crate) fn calls(&self, command: &str) -> u64 {
        let text = self.command_stats();
        let mark = format!("cmdstat_{command}:calls=");
        let digits = text
            .split_once(&mark)
            .map_or("0", |(_, rest)| rest.split(',').next().unwrap_or("0"));
        digits.parse().unwrap()
    }

    /// The commands that it got, by its own count; subcommands with a bar, such as `config|get`.
    pub(crate) fn commands(&self) -> Vec<String> {
        let text = self.command_stats();
        let names = text.lines().filter_map(|line| {
            let (name, _) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            Some(name.to_owned())
        });
        names.collect()
    }

    /// Whether what it answers to `command` holds `part`.
    pub(crate) fn says(&self, command: &str, part: &str) -> bool {
        self.ask(command).contains(part)
    }

    /// The number of entries of the stream `key`.
    pub(crate) fn length_of(&self, key: &str) -> u64 {
        let text = self.ask(&format!("XLEN {key}"));
        let number = text.lines().next().and_then(|line| line.strip_prefix(':'));
        number.unwrap().parse().unwrap()
    }

    /// Its name in a cluster.
    pub(crate) fn id(&self) -> String {
        let text = self.ask("CLUSTER MYID");
        text.lines().nth(1).unwrap().to_owned()
    }

    fn command_stats(&self) -> String {
        self.ask("INFO commandstats")
    }

    pub(crate) fn ask(&self, command: &str) -> String {
        // Also from another network namespace.
        let mut stream = UnixStream::connect(self.dir.path().join("redis.sock")).unwrap();
        let request = format!("{command}\r\nQUIT\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        String::from_utf8_lossy(&reply).into_owned()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

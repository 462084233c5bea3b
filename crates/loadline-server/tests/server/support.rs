//! Servers that end with their values, and a way to ask them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loadline_resp::{Limits, Skipper};
use loadline_server::{Listen, Server, ServerConfig};

/// Commands that the redis-server of the tests, version 7.0, does not have.
pub(crate) const LATER: [&str; 12] = [
    "HEXPIRE",
    "HEXPIREAT",
    "HEXPIRETIME",
    "HGETDEL",
    "HGETEX",
    "HPERSIST",
    "HPEXPIRE",
    "HPEXPIREAT",
    "HPEXPIRETIME",
    "HPTTL",
    "HSETEX",
    "HTTL",
];

/// Subcommands that it does not have.
pub(crate) const LATER_SUBCOMMANDS: [&str; 2] = ["CLIENT|NO-TOUCH", "CLIENT|SETINFO"];

/// Our server on a thread of its own; it ends with this value.
pub(crate) struct Ours {
    pub(crate) address: SocketAddr,
    /// The address of the port for encrypted connections, if it has one.
    pub(crate) encrypted: Option<SocketAddr>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ours {
    pub(crate) fn start(config: ServerConfig) -> Self {
        let mut listen = vec![Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())];
        listen.extend(config.listen);
        let mut server = Server::bind(ServerConfig { listen, ..config }).unwrap();
        let addresses = server.local_addrs();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || server.run(&stopped).unwrap());
        Self {
            address: addresses[0],
            encrypted: addresses.get(1).copied(),
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A real redis-server on a Unix socket; it ends with this value.
pub(crate) struct Redis {
    process: Child,
    dir: tempfile::TempDir,
}

impl Redis {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts it with further options.
    pub(crate) fn start_with(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let process = Command::new("redis-server")
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--unixsocket",
            ])
            .arg(dir.path().join("socket"))
            .arg("--dir")
            .arg(dir.path())
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .expect("this test needs redis-server; `cargo xtask test --install` installs it");
        Self { process, dir }
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match UnixStream::connect(self.dir.path().join("socket")) {
                Ok(stream) => {
                    stream
                        .set_read_timeout(Some(Duration::from_secs(60)))
                        .unwrap();
                    return stream;
                }
                Err(error) => assert!(
                    Instant::now() < deadline,
                    "redis-server does not answer: {error}"
                ),
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// Sends `line` and an ECHO behind it, and returns everything before the echo.
pub(crate) fn ask(stream: &mut (impl Read + Write), line: &str) -> String {
    const END: &[u8] = b"$5\r\n(end)\r\n";
    stream
        .write_all(format!("{line}\r\nECHO (end)\r\n").as_bytes())
        .unwrap();
    let mut reply = Vec::new();
    let mut buffer = [0; 4_096];
    while !reply.ends_with(END) {
        let bytes = stream.read(&mut buffer).unwrap();
        assert!(bytes > 0, "closed after {line}");
        reply.extend_from_slice(&buffer[..bytes]);
    }
    reply.truncate(reply.len() - END.len());
    // Every byte is a letter, so that all of them are compared.
    reply.into_iter().map(char::from).collect()
}

/// Sends one command and returns its one reply. Unlike [`ask`], it can ask within a transaction.
pub(crate) fn ask_one(stream: &mut (impl Read + Write), line: &str) -> String {
    stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut skipper = Skipper::new(Limits::default());
    let mut reply = Vec::new();
    let mut buffer = [0; 4_096];
    let mut replies = 0;
    while replies == 0 {
        let bytes = stream.read(&mut buffer).unwrap();
        assert!(bytes > 0, "closed after {line}");
        reply.extend_from_slice(&buffer[..bytes]);
        skipper.feed(&buffer[..bytes], |_| replies += 1).unwrap();
    }
    assert!(
        replies == 1 && skipper.is_between_replies(),
        "{line}: {reply:?}"
    );
    reply.into_iter().map(char::from).collect()
}

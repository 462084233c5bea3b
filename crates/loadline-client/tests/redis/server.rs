//! Servers of a test's own, ended with it.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::Deref;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use loadline_client::{Builder, Client};
use rustix::process::{Pid, Signal, kill_process};

use crate::port::Port;

/// Time that a server may take to start or to answer, on a machine with other work too.
const PATIENCE: Duration = Duration::from_secs(60);

/// A real redis-server, or a program that takes the same arguments, on a port and a socket.
pub(crate) struct Redis {
    program: OsString,
    process: Child,
    port: Port,
    extra: Vec<String>,
    dir: tempfile::TempDir,
}

impl Redis {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(extra: &[&str]) -> Self {
        Self::start_program(OsStr::new("redis-server"), extra)
    }

    pub(crate) fn start_program(program: &OsStr, extra: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = Port::reserve();
        let extra: Vec<String> = extra.iter().map(|&arg| arg.to_owned()).collect();
        let process = spawn(program, &port, dir.path().to_owned(), &extra);
        let mut server = Self {
            program: program.to_owned(),
            process,
            port,
            extra,
            dir,
        };
        server.wait_until_up();
        server
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port.number()).into()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn unix_url(&self) -> String {
        format!("unix://{}", self.dir.path().join("socket").display())
    }

    pub(crate) fn builder(&self) -> Builder {
        Client::builder().url(&self.url()).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        self.builder().build()
    }

    /// Says something to the server past the client under test, and returns the answer as it is.
    pub(crate) fn ask(&self, inline: &str) -> String {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
            .write_all(format!("{inline}\r\nQUIT\r\n").as_bytes())
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts the server again on the same port, without what it knew; the moment when it was up.
    pub(crate) fn restart(&mut self) -> Instant {
        self.process = spawn(
            &self.program,
            &self.port,
            self.dir.path().to_owned(),
            &self.extra,
        );
        self.wait_until_up()
    }

    fn wait_until_up(&mut self) -> Instant {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "redis-server does not start: {ended:?}");
            if answers(self.address()) {
                return Instant::now();
            }
            assert!(Instant::now() < deadline, "redis-server does not come up");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Whether a server answers; a port that is free can connect to itself, and would say the same again.
fn answers(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return false;
    };
    stream
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let mut first = [0];
    stream.write_all(b"PING\r\n").is_ok()
        && stream.read_exact(&mut first).is_ok()
        && matches!(first[0], b'+' | b'-')
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may be stopped, or gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(program: &OsStr, port: &Port, dir: PathBuf, extra: &[String]) -> Child {
    Command::new(program)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--unixsocket"])
        .arg(dir.join("socket"))
        .arg("--dir")
        .arg(dir)
        .args(extra)
        .stdout(Stdio::null())
        .spawn()
        .expect("these tests need redis-server; `cargo xtask test --install` installs it")
}

pub(crate) fn runtime() -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    Runtime(runtime.enable_all().build().unwrap())
}

/// A runtime that waits for futures as trait objects: the code that waits is compiled once for each type of result, and not
/// for each test.
pub(crate) struct Runtime(pub(crate) tokio::runtime::Runtime);

impl Runtime {
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let future: Pin<&mut dyn Future<Output = T>> = pin!(future);
        self.0.block_on(future)
    }
}

impl Deref for Runtime {
    type Target = tokio::runtime::Runtime;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// The median of some times.
pub(crate) fn median_time(times: &[Duration]) -> Duration {
    let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    Duration::from_secs_f64(loadline_measure::quantile::median(&seconds).unwrap())
}

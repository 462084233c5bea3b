//! Three sentinels, a master and two replicas of a test's own.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use loadline_client::sentinel::{Node, Sentinel};
use loadline_client::{Address, Builder, Client};
use rustix::process::{Pid, Signal, kill_process};

#[path = "../redis/port.rs"]
mod port;
#[path = "../redis/supervised.rs"]
mod supervised;

use port::Port;
use supervised::Supervised;

pub(crate) const NAME: &str = "mymaster";
/// The name of the client's connections in `CLIENT LIST`.
pub(crate) const OURS: &str = "under-test";
/// Longer than anything takes that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);
/// Time after which the sentinels take a server for down.
const DOWN_AFTER_MS: u32 = 500;
/// Short periods of the sentinels' work, so that they agree soon. A replica can be promoted if it was heard of within five
/// of the periods between pings, which must be longer than the second between questions to it in a failover.
const PERIODS: &str = "SENTINEL DEBUG INFO-PERIOD 100 PUBLISH-PERIOD 100 PING-PERIOD 250 ASK-PERIOD 50 \
                       MIN-LINK-RECONNECT-PERIOD 100";
/// A longer one while they change masters: the sentinels make a replica out of a master that they do not know of after four
/// of these, and the one that leads a failover looks for the new master once per second.
const PUBLISH_LESS: &str = "SENTINEL DEBUG PUBLISH-PERIOD 1000";

/// Time after which a failover may have been given up, on a machine that had no time for a sentinel.
const GIVEN_UP: Duration = Duration::from_secs(4);
/// Text behind an answer that shows its end. Sentinels know no QUIT.
const END: &str = "END-OF-ANSWER";

/// The servers and sentinels.
pub(crate) struct Topology {
    pub(crate) servers: Vec<Server>,
    pub(crate) sentinels: Vec<Server>,
}

/// One of them, which can be killed and started again on the same port.
pub(crate) struct Server {
    port: Port,
    process: Option<Supervised>,
    pid: Option<Pid>,
    args: Vec<String>,
    /// The configuration of a sentinel.
    config: Option<String>,
}

/// The servers that the tests share. Each test has them for itself, and finds them well.
pub(crate) fn shared() -> MutexGuard<'static, Topology> {
    static SHARED: OnceLock<Mutex<Topology>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| Mutex::new(Topology::start()));
    // A test that failed has said so itself.
    let mut topology = shared.lock().unwrap_or_else(PoisonError::into_inner);
    topology.restore();
    topology
}

impl Topology {
    fn start() -> Self {
        let mut servers: Vec<Server> = (0..3).map(|_| Server::new(&[], None)).collect();
        let master = servers[0].port();
        for (place, server) in servers.iter_mut().enumerate() {
            if place > 0 {
                server.args.push("--replicaof".into());
                server.args.push(format!("127.0.0.1 {master}"));
            }
            server.start();
            // The sentinels say later whose replica it is.
            server
                .args
                .truncate(server.args.len() - if place > 0 { 2 } else { 0 });
        }
        let monitor = format!(
            "sentinel monitor {NAME} 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}\n\
             sentinel failover-timeout {NAME} 2500\n\
             sentinel parallel-syncs {NAME} 2\n"
        );
        let mut sentinels: Vec<Server> = (0..3)
            .map(|_| Server::new(&["--sentinel"], Some(monitor.clone())))
            .collect();
        sentinels.iter_mut().for_each(Server::start);
        let mut topology = Self { servers, sentinels };
        topology.restore();
        topology
    }

    /// Starts what was killed, lets what was stopped go on, and waits until all sentinels agree and all replicas follow.
    fn restore(&mut self) {
        for server in self.servers.iter_mut().chain(&mut self.sentinels) {
            if server.process.is_none() {
                server.start();
            } else {
                server.signal(Signal::CONT);
            }
        }
        for sentinel in &self.sentinels {
            sentinel.ask(PERIODS);
        }
        wait_for("all sentinels agree and all replicas follow", || {
            self.is_well()
        });
        for sentinel in &self.sentinels {
            sentinel.ask(PUBLISH_LESS);
        }
    }

    fn is_well(&self) -> bool {
        let named: Vec<Option<u16>> = self.sentinels.iter().map(|one| named(one, NAME)).collect();
        let Some(Some(master)) = named.first() else {
            return false;
        };
        let Some(master) = self.servers.iter().find(|server| server.port() == *master) else {
            return false;
        };
        let followers = |server: &Server| server.info().contains("connected_slaves:2");
        let is_fine = |sentinel: &Server| {
            let about = sentinel.ask_lines(&format!("SENTINEL MASTER {NAME}"));
            let has = |name: &str, value: &str| {
                let place = about.iter().position(|line| line == name);
                place.is_some_and(|place| about[place + 2] == value)
            };
            has("flags", "master") && has("num-slaves", "2") && has("num-other-sentinels", "2")
        };
        named.iter().all(|one| *one == named[0])
            && followers(master)
            && self.sentinels.iter().all(is_fine)
            && self.sentinels.iter().all(replicas_are_up)
    }

    /// The place of the master according to the sentinels.
    pub(crate) fn master(&self) -> usize {
        let port = named(&self.sentinels[0], NAME).unwrap();
        self.at(port)
    }

    fn at(&self, port: u16) -> usize {
        let place = self.servers.iter().position(|server| server.port() == port);
        place.expect("the sentinels name one of the servers")
    }

    /// Begins a failover that nobody needs.
    pub(crate) fn begin_failover(&self) {
        wait_for("a failover begins", || {
            let said = self.sentinels[1].ask(&format!("SENTINEL FAILOVER {NAME}"));
            said == "+OK"
        });
    }

    /// Waits until a sentinel that is not the first names another master than this one.
    pub(crate) fn wait_for_switch(&self, old: usize) -> usize {
        let old = self.servers[old].port();
        let (mut new, mut begun) = (None, Instant::now());
        wait_for("another master is named", || {
            new = named(&self.sentinels[2], NAME).filter(|&port| port != old);
            let is_given_up =
                begun.elapsed() > GIVEN_UP && named(&self.sentinels[1], NAME) == Some(old);
            if is_given_up && new.is_none() {
                // The sentinel refuses if the failover still goes on.
                self.sentinels[1].ask(&format!("SENTINEL FAILOVER {NAME}"));
                begun = Instant::now();
            }
            new.is_some()
        });
        self.at(new.unwrap())
    }

    pub(crate) fn url(&self) -> String {
        let ports = self.sentinels.iter().map(Server::port);
        let hosts: Vec<String> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
        format!("sentinel://{}/{NAME}?client_name={OURS}", hosts.join(","))
    }

    pub(crate) fn builder(&self) -> Builder {
        Client::builder().url(&self.url()).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        self.builder().response_timeout(Some(PATIENCE)).build()
    }

    pub(crate) fn sentinel(&self) -> Sentinel {
        match &self.client().config().address {
            Address::Sentinel(sentinel) => sentinel.clone(),
            other => panic!("{other:?}"),
        }
    }
}

/// Whether a sentinel sees both replicas up.
fn replicas_are_up(sentinel: &Server) -> bool {
    let about = sentinel.ask_lines(&format!("SENTINEL REPLICAS {NAME}"));
    // A name, the length of its value, and the value.
    let is_up = |lines: &&[String]| lines[0] == "flags" && lines[2] == "slave";
    about.windows(3).filter(is_up).count() == 2
}

/// The port of the master according to a sentinel.
fn named(sentinel: &Server, name: &str) -> Option<u16> {
    let lines = sentinel.ask_lines(&format!("SENTINEL GET-MASTER-ADDR-BY-NAME {name}"));
    lines.last()?.parse().ok()
}

/// Waits until something is so.
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it does not come that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Server {
    pub(crate) fn new(args: &[&str], config: Option<String>) -> Self {
        Self {
            port: Port::reserve(),
            process: None,
            pid: None,
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            config,
        }
    }

    #[cfg(feature = "tls")]
    pub(crate) fn add_args(&mut self, args: &[&str]) {
        self.args.extend(args.iter().map(|&arg| arg.to_owned()));
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    pub(crate) fn node(&self) -> Node {
        Node::new("127.0.0.1", self.port())
    }

    pub(crate) fn start(&mut self) {
        let dir = tempfile::tempdir().unwrap().keep();
        let mut args: Vec<String> = Vec::new();
        if let Some(config) = &self.config {
            // A sentinel keeps its state in the file.
            let mut file = tempfile::NamedTempFile::new_in(&dir).unwrap();
            file.write_all(config.as_bytes()).unwrap();
            let (_, path) = file.keep().unwrap();
            args.push(path.to_str().unwrap().to_owned());
        }
        let port = self.port.to_string();
        let own = [
            "--port",
            &port,
            "--bind",
            "127.0.0.1",
            "--dir",
            dir.to_str().unwrap(),
        ];
        args.extend(own.map(ToOwned::to_owned));
        if self.config.is_none() {
            let quick = [
                "--save",
                "",
                "--repl-diskless-sync-delay",
                "0",
                "--repl-ping-replica-period",
                "1",
            ];
            args.extend(quick.map(ToOwned::to_owned));
        }
        args.extend(self.args.iter().cloned());
        self.process = Some(Supervised::start(&dir, args));
        wait_for("redis-server comes up", || {
            let Ok(mut stream) = self.connect() else {
                return false;
            };
            stream.write_all(b"PING\r\n").is_ok()
                && BufReader::new(stream)
                    .lines()
                    .next()
                    .is_some_and(|line| line.is_ok_and(|line| line.starts_with(['+', '-'])))
        });
        self.pid = self
            .info_field("process_id")
            .and_then(|pid| Pid::from_raw(pid.parse().ok()?));
    }

    /// Kills it as if its machine had lost its power.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid.expect("a server that was started"), signal).unwrap();
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port()))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(stream)
    }

    /// Says a line past the client under test, and returns the first line of the answer; empty without one.
    pub(crate) fn ask(&self, line: &str) -> String {
        self.ask_lines(line).into_iter().next().unwrap_or_default()
    }

    /// The same with all lines of the answer.
    pub(crate) fn ask_lines(&self, line: &str) -> Vec<String> {
        let Ok(mut stream) = self.connect() else {
            return Vec::new();
        };
        if stream
            .write_all(format!("{line}\r\nPING {END}\r\n").as_bytes())
            .is_err()
        {
            return Vec::new();
        }
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        let mut answer: Vec<String> = lines.take_while(|line| line != END).collect();
        // The length of the text that ends it.
        answer.pop();
        answer
    }

    pub(crate) fn info(&self) -> String {
        self.ask_lines("INFO").join("\n")
    }

    pub(crate) fn info_field(&self, field: &str) -> Option<String> {
        let info = self.info();
        let found = info.lines().find_map(|line| line.strip_prefix(field));
        found?
            .strip_prefix(':')
            .map(|value| value.trim().to_owned())
    }

    /// The number of the client's connections.
    pub(crate) fn connections(&self) -> usize {
        let clients = self.ask_lines("CLIENT LIST");
        clients
            .iter()
            .filter(|line| line.contains(&format!("name={OURS}")))
            .count()
    }

    /// The number of connections so far.
    pub(crate) fn connections_received(&self) -> u64 {
        let received = self.info_field("total_connections_received");
        received.and_then(|received| received.parse().ok()).unwrap()
    }

    pub(crate) fn is_master(&self) -> bool {
        self.info_field("role").as_deref() == Some("master")
    }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

//! A cluster of a test's own.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use loadline_client::cluster::{Builder, Node};
use loadline_client::commands::ping;
use loadline_client::{Client, Error, blocking, cmd};

#[path = "../redis/port.rs"]
pub(crate) mod port;

#[path = "../redis/supervised.rs"]
mod supervised;

use port::Port;
use supervised::Supervised;

/// Masters, and as many replicas.
const MASTERS: usize = 3;
const SLOTS: usize = 16_384;
/// Time that a cluster may take to agree on something.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster of three masters, the first nodes, and a replica for each.
pub(crate) struct Cluster {
    nodes: Vec<Server>,
    /// Held while a slot moves.
    moving: Mutex<()>,
}

pub(crate) struct Server {
    pub(crate) port: u16,
    /// Where it speaks TLS, if it does.
    tls_port: Option<u16>,
    bus: u16,
    /// Its ports stay its own.
    _ports: [Option<Port>; 3],
    _process: Supervised,
}

/// The cluster that tests share which do not break it.
pub(crate) fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(Cluster::start)
}

impl Cluster {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// A cluster whose nodes have these options; where they are about TLS, each has a port for it.
    pub(crate) fn start_with(options: &[&str]) -> Self {
        let nodes: Vec<Server> = (0..2 * MASTERS).map(|_| Server::start(options)).collect();
        let moving = Mutex::new(());
        let cluster = Self { nodes, moving };
        for (place, server) in cluster.nodes.iter().enumerate() {
            server.ask(&format!("CLUSTER SET-CONFIG-EPOCH {}", place + 1));
            if place < MASTERS {
                let (first, last) = (place * SLOTS / MASTERS, (place + 1) * SLOTS / MASTERS - 1);
                server.ask(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
            }
        }
        cluster.introduce();
        for place in 0..MASTERS {
            let id = cluster.nodes[place].ask("CLUSTER MYID");
            cluster.nodes[MASTERS + place].ask(&format!("CLUSTER REPLICATE {id}"));
        }
        cluster.wait_for("the cluster is well", |server| {
            server.cluster_info().contains("cluster_state:ok")
        });
        cluster.wait_for("every master has its replica", |server| {
            let slots = server
                .connection()
                .run(cmd::<Vec<loadline_client::OwnedReply>>("CLUSTER SLOTS"));
            let ranges = slots.unwrap();
            let full = |range: &_| match range {
                loadline_client::OwnedReply::Array(fields) => fields.len() == 4,
                _ => false,
            };
            ranges.len() == MASTERS && ranges.iter().all(full)
        });
        cluster.wait_for("replicas are in step", |server| {
            let info: String = server
                .connection()
                .run(cmd("INFO").arg("replication"))
                .unwrap();
            info.contains("role:master") || info.contains("master_link_status:up")
        });
        cluster
    }

    /// Introduces the nodes to each other. An introduction is lost if its connection fails, so it is repeated.
    fn introduce(&self) {
        let known = format!("cluster_known_nodes:{}", 2 * MASTERS);
        let knows = |server: &Server| server.cluster_info().contains(&known);
        let is_done = (0..10).any(|_| {
            for (place, server) in self.nodes.iter().enumerate() {
                for other in &self.nodes[..place] {
                    server.ask(&format!(
                        "CLUSTER MEET 127.0.0.1 {} {}",
                        other.port, other.bus
                    ));
                }
            }
            self.comes(PATIENCE / 10, knows)
        });
        assert!(is_done, "it does not come that all nodes know each other");
    }

    /// Two of the nodes, of which one is a replica; the client finds the others.
    pub(crate) fn builder(&self) -> Builder {
        Builder::from_url(&self.url()).unwrap()
    }

    pub(crate) fn url(&self) -> String {
        let (master, replica) = (self.nodes[0].port, self.nodes[2 * MASTERS - 1].port);
        format!("cluster://127.0.0.1:{replica},127.0.0.1:{master}")
    }

    pub(crate) fn masters(&self) -> &[Server] {
        &self.nodes[..MASTERS]
    }

    pub(crate) fn replicas(&self) -> &[Server] {
        &self.nodes[MASTERS..]
    }

    pub(crate) fn server(&self, node: &Node) -> &Server {
        let found = self.nodes.iter().find(|server| server.is_at(node));
        found.expect("a node of this cluster")
    }

    /// All nodes, masters first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter()
    }

    /// The first node of which this is so.
    pub(crate) fn find(&self, is_so: impl Fn(&Server) -> bool) -> Node {
        let found = self.nodes.iter().find(|server| is_so(server));
        found.expect("a node of this kind").node()
    }

    /// Kills a node as if its machine had lost its power.
    pub(crate) fn kill(&mut self, node: &Node) {
        let place = self.nodes.iter().position(|server| server.is_at(node));
        drop(self.nodes.remove(place.expect("a node of this cluster")));
    }

    /// Moves a slot to the next master, some keys at a time, until every node knows. (Masters that have not
    /// heard of the last move yet may give the next one the same epoch, and then no node serves the slot. So tests
    /// that share the cluster wait for each other here.)
    pub(crate) fn move_slot(&self, slot: u16) {
        // A test that failed within a move has said so itself.
        let _alone = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let masters = self.masters();
        let from = masters.iter().position(|server| server.serves(slot));
        let from = from.expect("a master serves the slot");
        let (from, to) = (&masters[from], &masters[(from + 1) % masters.len()]);
        let (from_id, to_id) = (from.ask("CLUSTER MYID"), to.ask("CLUSTER MYID"));
        to.ask(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}"));
        from.ask(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}"));
        let mut connection = from.connection();
        while move_keys(&mut connection, slot, &to.node()) {}
        for server in [to, from] {
            server.ask(&format!("CLUSTER SETSLOT {slot} NODE {to_id}"));
        }
        let knows = |server: &Server| server.gives(slot, &to_id);
        self.wait_for("all nodes know where the slot went", knows);
    }

    fn wait_for(&self, what: &str, is_so: impl Fn(&Server) -> bool) {
        assert!(self.comes(PATIENCE, is_so), "it does not come that {what}");
    }

    /// Whether this is so of all nodes within the time.
    fn comes(&self, patience: Duration, is_so: impl Fn(&Server) -> bool) -> bool {
        let deadline = Instant::now() + patience;
        while !self.nodes.iter().all(&is_so) {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }
}

impl Server {
    fn start(options: &[&str]) -> Self {
        let speaks_tls = options.contains(&"--tls-cluster");
        let ports = [true, true, speaks_tls].map(|wanted| wanted.then(Port::reserve));
        let numbers = ports.each_ref().map(|port| port.as_ref().map(Port::number));
        let [Some(port), Some(bus), tls_port] = numbers else {
            unreachable!("both are wanted");
        };
        let dir = tempfile::tempdir().unwrap().keep();
        let (port_text, bus_text) = (port.to_string(), bus.to_string());
        let mut args = vec![
            "--cluster-enabled",
            "yes",
            "--bind",
            "127.0.0.1",
            "--port",
            &port_text,
            "--cluster-port",
            &bus_text,
            "--cluster-node-timeout",
            "1000",
            "--cluster-replica-validity-factor",
            "0",
            "--repl-diskless-sync-delay",
            "0",
            "--repl-ping-replica-period",
            "1",
            "--save",
            "",
            "--appendonly",
            "no",
        ];
        let dir_text = dir.to_str().unwrap();
        args.extend(["--dir", dir_text]);
        let tls_text = tls_port.map(|port| port.to_string());
        if let Some(port) = &tls_text {
            args.extend(["--tls-port", port]);
        }
        args.extend(options);
        let process = Supervised::start(&dir, args);
        let server = Self {
            port,
            tls_port,
            bus,
            _ports: ports,
            _process: process,
        };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(
                Instant::now() < deadline,
                "redis-server does not come up; is it on the PATH?"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// Whether a node is this server, on either of its ports.
    fn is_at(&self, node: &Node) -> bool {
        [Some(self.port), self.tls_port].contains(&Some(node.port()))
    }

    /// Where it speaks TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn tls_node(&self) -> Node {
        let port = self.tls_port.expect("a server that speaks TLS");
        Node::new("127.0.0.1", port)
    }

    pub(crate) fn node(&self) -> Node {
        Node::new("127.0.0.1", self.port)
    }

    /// A plain connection, which follows no redirections.
    pub(crate) fn connection(&self) -> blocking::Connection {
        // A machine that pauses delays the answer, and no test is about that.
        let options = "connect_timeout=60s&response_timeout=60s";
        let url = format!("redis://127.0.0.1:{}?{options}", self.port);
        let client = Client::open(&url).unwrap();
        let mut connection = client.blocking().unwrap();
        connection.run(ping()).unwrap();
        connection
    }

    /// Says a line to the node past the client under test, and returns the first line of the answer.
    pub(crate) fn ask(&self, line: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
        let first = lines.next().unwrap();
        assert!(
            !first.starts_with('-'),
            "`{line}` was answered with `{first}`"
        );
        if first.starts_with('$') {
            return lines.next().unwrap();
        }
        first
    }

    /// Says a line to the node, and returns all lines of the answer.
    pub(crate) fn ask_lines(&self, line: &str) -> Vec<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
            .write_all(format!("{line}\r\nQUIT\r\n").as_bytes())
            .unwrap();
        let lines = BufReader::new(stream).lines().map(Result::unwrap);
        let mut lines: Vec<String> = lines.collect();
        assert_eq!(lines.pop().as_deref(), Some("+OK"), "`{line}`: {lines:?}");
        lines
    }

    /// The lines of `CLIENT LIST` for connections of a type.
    pub(crate) fn list_clients(&self, kind: &str) -> String {
        self.ask_lines(&format!("CLIENT LIST TYPE {kind}"))
            .join("\n")
    }

    /// Whether the node says that it serves a slot itself.
    pub(crate) fn serves(&self, slot: u16) -> bool {
        self.gives(slot, &self.ask("CLUSTER MYID"))
    }

    /// Whether the node says that this one serves a slot.
    fn gives(&self, slot: u16, id: &str) -> bool {
        let nodes: String = self.connection().run(cmd("CLUSTER NODES")).unwrap();
        let line = nodes.lines().find(|line| line.starts_with(id)).unwrap();
        let ranges = line
            .split(' ')
            .skip(8)
            .filter(|range| !range.starts_with('['));
        ranges
            .map(|range| range.split_once('-').unwrap_or((range, range)))
            .any(|(first, last)| {
                (first.parse::<u16>().unwrap()..=last.parse().unwrap()).contains(&slot)
            })
    }

    fn cluster_info(&self) -> String {
        self.connection().run(cmd("CLUSTER INFO")).unwrap()
    }
}

/// Moves some keys; whether there were any.
fn move_keys(connection: &mut blocking::Connection, slot: u16, to: &Node) -> bool {
    let question = cmd::<Vec<String>>("CLUSTER GETKEYSINSLOT").arg((slot, 25u32));
    let keys = connection.run(question).unwrap();
    if keys.is_empty() {
        return false;
    }
    let migrate =
        cmd::<()>("MIGRATE").arg((to.host(), to.port(), "", 0u32, 5_000u32, "KEYS", &keys));
    let moved: Result<(), Error> = connection.run(migrate);
    moved.unwrap();
    true
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

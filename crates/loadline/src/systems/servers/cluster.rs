//! A cluster of child servers on loopback: three masters, and a replica for each.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use std::{io, thread};

use loadline_client::blocking::Connection;

use super::tidy::WatchedDir;
use super::{Child, Wanted, free_port, go_on};
use crate::exit::Failure;
use crate::spelling::Server;
use crate::systems::connect::{Endpoint, command};

const MASTERS: usize = 3;
const SLOTS: usize = 16_384;
/// Time limit for the nodes to agree.
const PATIENCE: Duration = Duration::from_secs(30);
/// The address of the nodes across a line from the first master, so that the two sides know each other by other addresses.
const ACROSS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Interval between queries meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// A cluster that ends when this value is dropped. The nodes write their view of the cluster to disk, so each
/// needs a directory until it ends.
#[derive(Debug)]
pub(crate) struct ClusterChild {
    nodes: Vec<Child>,
    /// The parent of their directories, removed after they have ended.
    dir: WatchedDir,
}

/// The addresses of a node: for clients, and of the cluster bus.
pub(crate) type NodeAddresses = [SocketAddr; 2];

/// Draws a line between the first of these nodes and the others: listens for the first one at the ports of the others, and
/// returns the addresses at which the others find the first one.
pub(crate) type DrawLine<'l> =
    &'l mut dyn FnMut(&[NodeAddresses]) -> Result<NodeAddresses, Failure>;

/// The reason why the nodes did not form a cluster.
#[derive(Debug)]
enum Apart {
    /// A node refuses a command.
    Node(io::Error),
    /// The start was interrupted.
    Interrupted(Failure),
}

impl From<io::Error> for Apart {
    fn from(error: io::Error) -> Self {
        Self::Node(error)
    }
}

/// A node and the connection for commands to it.
struct Member<'c> {
    child: &'c Child,
    connection: Connection,
    /// The addresses at which later nodes find it.
    seen: NodeAddresses,
}

impl ClusterChild {
    /// Starts a cluster of `program`, which is redis-server 7.0 or later, or compatible with it. A replica takes over
    /// some time after its master was silent for `node_timeout`, by default 15 s. With `line`, all that passes between the
    /// first master and the other nodes crosses a line.
    ///
    /// # Errors
    /// If a node is not found or does not start, with its last output; if the nodes do not agree; if `interrupt`
    /// was set meanwhile.
    pub(crate) fn spawn(
        program: &Path,
        node_timeout: Option<Duration>,
        line: Option<DrawLine<'_>>,
        interrupt: &AtomicBool,
    ) -> Result<Self, Failure> {
        let name = format!("spawn-cluster:{}", program.display());
        let mut cluster = Self {
            nodes: Vec::with_capacity(2 * MASTERS),
            dir: WatchedDir::new(&name)?,
        };
        let wanted = Wanted {
            name: &name,
            dir: cluster.dir.path(),
            config: None,
            under: None,
            has_disk: false,
            host: Ipv4Addr::LOCALHOST,
            interrupt,
        };
        let mut addresses = Vec::with_capacity(2 * MASTERS);
        for place in 0..2 * MASTERS {
            let host = match (&line, place) {
                (Some(_), 1..) => ACROSS,
                _ => wanted.host,
            };
            let wanted = Wanted { host, ..wanted };
            let (node, bus) = wanted.spawn_node(program, node_timeout)?;
            addresses.push([node.address, SocketAddr::from((host, bus))]);
            cluster.nodes.push(node);
        }
        let is_parted = line.is_some();
        if let Some(draw) = line {
            addresses[0] = draw(&addresses)?;
        }
        match cluster.form(wanted, &addresses, is_parted) {
            Ok(()) => Ok(cluster),
            Err(Apart::Interrupted(failure)) => Err(failure),
            Err(Apart::Node(error)) => {
                // A node that ends closes the connection first.
                thread::sleep(ASK_EVERY);
                let gone = cluster.nodes.iter_mut().find_map(Child::has_ended);
                Err(gone.unwrap_or_else(|| {
                    Failure::unavailable(format!(
                        "{name}: its nodes do not form a cluster: {error}."
                    ))
                }))
            }
        }
    }

    /// The address of one of its masters.
    pub(crate) fn seed(&self) -> Server {
        self.nodes[0].server()
    }

    /// Its nodes: the masters, then the replica of each in the same order.
    pub(crate) fn nodes(&self) -> &[Child] {
        &self.nodes
    }

    /// Those that were the masters at the start.
    pub(crate) fn masters(&self) -> &[Child] {
        &self.nodes[..MASTERS]
    }

    /// The first master.
    pub(crate) fn first_master(&mut self) -> &mut Child {
        &mut self.nodes[0]
    }

    /// The replica of the first master.
    pub(crate) fn first_replica(&self) -> &Child {
        &self.nodes[MASTERS]
    }

    /// The replica of the first master, to end it.
    pub(crate) fn first_replica_mut(&mut self) -> &mut Child {
        &mut self.nodes[MASTERS]
    }

    /// The place of the master that served the keys of `slot` at the start.
    pub(crate) fn first_owner(slot: u16) -> usize {
        let begins = |place: &usize| place * SLOTS / MASTERS <= usize::from(slot);
        (0..MASTERS).rev().find(begins).unwrap_or_default()
    }

    /// The processes of its nodes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.nodes.iter().map(Child::pid).collect()
    }

    /// Forms one cluster of the nodes, which find each other at `addresses`.
    fn form(
        &self,
        wanted: Wanted<'_>,
        addresses: &[NodeAddresses],
        is_parted: bool,
    ) -> Result<(), Apart> {
        let members = self.nodes.iter().zip(addresses);
        let mut members = members
            .map(|(child, &seen)| Member::open(child, seen))
            .collect::<io::Result<Vec<_>>>()?;
        if is_parted {
            members[0].is_seen_elsewhere()?;
        }
        assemble(&mut members, wanted)?;
        if is_parted {
            wait_for_line(&mut members, wanted)?;
        }
        Ok(())
    }
}

impl Wanted<'_> {
    /// Starts a node, and returns it with the port of its cluster bus.
    fn spawn_node(
        self,
        program: &Path,
        node_timeout: Option<Duration>,
    ) -> Result<(Child, u16), Failure> {
        let bus = std::cell::Cell::new(0);
        let node = self.spawn(program, || {
            bus.set(free_port(self.name)?);
            let bus = bus.get().to_string();
            // By default, a master waits 5 s for more replicas before it sends its data.
            let settings = [
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                &bus,
                "--repl-diskless-sync-delay",
                "0",
            ];
            let mut settings: Vec<String> = settings.map(ToOwned::to_owned).into();
            if self.host == ACROSS {
                // Others see the address that it calls from. In protected mode, a server accepts only the usual loopback address.
                let from = ["--bind-source-addr", &ACROSS.to_string()];
                let accepts = ["--protected-mode", "no"];
                settings.extend(from.into_iter().chain(accepts).map(ToOwned::to_owned));
            }
            if let Some(timeout) = node_timeout {
                let timeout = timeout.as_millis().to_string();
                settings.extend(["--cluster-node-timeout".to_owned(), timeout]);
            }
            Ok(settings)
        })?;
        Ok((node, bus.get()))
    }
}

/// Introduces the nodes to each other, assigns the slots to the first ones, and makes the others their replicas.
fn assemble(members: &mut [Member<'_>], wanted: Wanted<'_>) -> Result<(), Apart> {
    let all = members.iter();
    let all: Vec<[String; 3]> = all
        .map(|member| {
            let [clients, bus] = member.seen;
            [
                clients.ip().to_string(),
                clients.port().to_string(),
                bus.port().to_string(),
            ]
        })
        .collect();
    for (place, member) in members.iter_mut().enumerate() {
        // Without distinct epochs, the nodes would take seconds to resolve conflicts.
        member.say(&["SET-CONFIG-EPOCH", &(place + 1).to_string()])?;
        // They would hear of each other from a third one, but later.
        for [host, port, bus] in &all[..place] {
            member.say(&["MEET", host, port, bus])?;
        }
        if place < MASTERS {
            let first = place * SLOTS / MASTERS;
            let last = (place + 1) * SLOTS / MASTERS - 1;
            member.say(&["ADDSLOTSRANGE", &first.to_string(), &last.to_string()])?;
        }
    }
    let known = format!("cluster_known_nodes:{}", 2 * MASTERS);
    wait_for(members, wanted, &["CLUSTER", "INFO"], &known)?;
    for place in 0..MASTERS {
        let id = members[place].say(&["MYID"])?;
        members[MASTERS + place].say(&["REPLICATE", &id])?;
    }
    wait_for(members, wanted, &["CLUSTER", "INFO"], "cluster_state:ok")?;
    let (masters, replicas) = members.split_at_mut(MASTERS);
    let info = ["INFO", "replication"];
    wait_for(replicas, wanted, &info, "master_link_status:up")?;
    wait_for(masters, wanted, &info, "state=online")
}

/// Waits until the nodes call each other only across the line, or on their side of it. A node can first hear of another
/// from one on the other side, and then corrects the address once that one calls.
fn wait_for_line(members: &mut [Member<'_>], wanted: Wanted<'_>) -> Result<(), Apart> {
    let across = |text: &str| text.matches(&format!(" {ACROSS}:")).count();
    let (first, others) = members.split_at_mut(1);
    let nodes = ["CLUSTER", "NODES"];
    wait_until(first, wanted, &nodes, "its line", |text| across(text) == 0)?;
    wait_until(others, wanted, &nodes, "its line", |text| {
        across(text) == 2 * MASTERS - 1
    })
}

/// Queries every node until its answer contains this text.
fn wait_for(
    members: &mut [Member<'_>],
    wanted: Wanted<'_>,
    question: &[&str],
    text: &str,
) -> Result<(), Apart> {
    wait_until(members, wanted, question, text, |answer| {
        answer.contains(text)
    })
}

/// Queries every node until its answer is right.
fn wait_until(
    members: &mut [Member<'_>],
    wanted: Wanted<'_>,
    question: &[&str],
    name: &str,
    is_right: impl Fn(&str) -> bool,
) -> Result<(), Apart> {
    let deadline = Instant::now() + PATIENCE;
    for member in members {
        while !is_right(&member.ask(question)?) {
            go_on(wanted.name, wanted.interrupt).map_err(Apart::Interrupted)?;
            if Instant::now() >= deadline {
                let why = format!(
                    "{} did not report {name} within {PATIENCE:?}",
                    member.child.address
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, why).into());
            }
            thread::sleep(ASK_EVERY);
        }
    }
    Ok(())
}

impl<'c> Member<'c> {
    fn open(child: &'c Child, seen: NodeAddresses) -> io::Result<Self> {
        let endpoint = Endpoint::local(child.server());
        Ok(Self {
            child,
            connection: endpoint.open().map_err(io::Error::other)?,
            seen,
        })
    }

    /// Makes the node name the addresses at which others find it, and not its own.
    fn is_seen_elsewhere(&mut self) -> io::Result<()> {
        let [clients, bus] = self.seen.map(|address| address.port().to_string());
        for (setting, port) in [
            ("cluster-announce-port", clients),
            ("cluster-announce-bus-port", bus),
        ] {
            self.ask(&["CONFIG", "SET", setting, &port])?;
        }
        Ok(())
    }

    /// Sends a subcommand of CLUSTER, and returns the text of its answer.
    fn say(&mut self, words: &[&str]) -> io::Result<String> {
        self.ask(&[&["CLUSTER"], words].concat())
    }

    fn ask(&mut self, words: &[&str]) -> io::Result<String> {
        let replied = self.connection.run(command(words));
        let reply = replied
            .map_err(|error| io::Error::other(format!("{} failed: {error}", words.join(" "))))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(reply.as_bytes().map(text).unwrap_or_default())
    }
}

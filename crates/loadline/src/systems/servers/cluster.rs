//! A cluster of child servers on loopback: three masters, and a replica for each.

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
    /// The port of the cluster bus.
    bus: u16,
}

impl ClusterChild {
    /// Starts a cluster of `program`, which is redis-server 7.0 or later, or compatible with it. A replica takes over
    /// some time after its master was silent for `node_timeout`, by default 15 s.
    ///
    /// # Errors
    /// If a node is not found or does not start, with its last output; if the nodes do not agree; if `interrupt`
    /// was set meanwhile.
    pub(crate) fn spawn(
        program: &Path,
        node_timeout: Option<Duration>,
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
            interrupt,
        };
        let mut buses = Vec::with_capacity(2 * MASTERS);
        for _ in 0..2 * MASTERS {
            let bus = std::cell::Cell::new(0);
            let node = wanted.spawn(program, || {
                bus.set(free_port(&name)?);
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
                if let Some(timeout) = node_timeout {
                    let timeout = timeout.as_millis().to_string();
                    settings.extend(["--cluster-node-timeout".to_owned(), timeout]);
                }
                Ok(settings)
            })?;
            cluster.nodes.push(node);
            buses.push(bus.get());
        }
        match cluster.form(wanted, &buses) {
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

    /// Forms one cluster of the nodes.
    fn form(&self, wanted: Wanted<'_>, buses: &[u16]) -> Result<(), Apart> {
        let members = self.nodes.iter().zip(buses);
        let mut members = members
            .map(|(child, &bus)| Member::open(child, bus))
            .collect::<io::Result<Vec<_>>>()?;
        assemble(&mut members, wanted)
    }
}

/// Introduces the nodes to each other, assigns the slots to the first ones, and makes the others their replicas.
fn assemble(members: &mut [Member<'_>], wanted: Wanted<'_>) -> Result<(), Apart> {
    let all = members.iter();
    let all: Vec<[String; 3]> = all
        .map(|member| {
            let (host, port) = (member.child.address.ip(), member.child.address.port());
            [host.to_string(), port.to_string(), member.bus.to_string()]
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

/// Queries every node until its answer contains this text.
fn wait_for(
    members: &mut [Member<'_>],
    wanted: Wanted<'_>,
    question: &[&str],
    text: &str,
) -> Result<(), Apart> {
    let deadline = Instant::now() + PATIENCE;
    for member in members {
        while !member.ask(question)?.contains(text) {
            go_on(wanted.name, wanted.interrupt).map_err(Apart::Interrupted)?;
            if Instant::now() >= deadline {
                let why = format!(
                    "{} did not report {text} within {PATIENCE:?}",
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
    fn open(child: &'c Child, bus: u16) -> io::Result<Self> {
        let endpoint = Endpoint::local(child.server());
        Ok(Self {
            child,
            connection: endpoint.open().map_err(io::Error::other)?,
            bus,
        })
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

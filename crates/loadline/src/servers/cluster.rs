//! A cluster of child servers on loopback: three masters, and a replica for each.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{io, thread};

use loadline_resp::{OwnedReply, Protocol};

use super::{Child, free_port};
use crate::connect::{Conversation, Endpoint};
use crate::exit::Failure;
use crate::target::Server;

const MASTERS: usize = 3;
const SLOTS: usize = 16_384;
/// How long the nodes may take to agree.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often they are asked meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// A cluster that lives as long as this value. Its nodes write down what they know of each other, so each
/// has a directory, which stays behind, with that one small file, only where this program is killed.
#[derive(Debug)]
pub(crate) struct ClusterChild {
    nodes: Vec<Child>,
}

/// A node, and how it is told things.
struct Member<'c> {
    child: &'c Child,
    conversation: Conversation,
    /// The port on which nodes talk to each other.
    bus: u16,
}

impl ClusterChild {
    /// A cluster of `program`, redis-server 7.0 or later, or what behaves like it.
    ///
    /// # Errors
    /// That a node is not there or did not start, with its last words, or that the nodes do not agree.
    pub(crate) fn spawn(program: &Path) -> Result<Self, Failure> {
        let name = format!("spawn-cluster:{}", program.display());
        let mut nodes = Vec::with_capacity(2 * MASTERS);
        let mut buses = Vec::with_capacity(2 * MASTERS);
        for _ in 0..2 * MASTERS {
            let bus = std::cell::Cell::new(0);
            let node = Child::spawn_with(&name, program, || {
                bus.set(free_port(&name)?);
                let bus = bus.get().to_string();
                let settings = ["--cluster-enabled", "yes", "--cluster-port", &bus];
                Ok(settings.map(ToOwned::to_owned).into())
            })?;
            nodes.push(node);
            buses.push(bus.get());
        }
        let mut cluster = Self { nodes };
        cluster.form(&buses).map_err(|error| {
            // A node that ends hangs up first.
            thread::sleep(ASK_EVERY);
            let gone = cluster.nodes.iter_mut().find_map(Child::has_ended);
            gone.unwrap_or_else(|| {
                Failure::unavailable(format!("{name}: its nodes do not form a cluster: {error}."))
            })
        })?;
        Ok(cluster)
    }

    /// Where one of its masters listens.
    pub(crate) fn seed(&self) -> Server {
        self.nodes[0].server()
    }

    /// The processes of its nodes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.nodes.iter().map(Child::pid).collect()
    }

    /// Makes one cluster of the nodes.
    fn form(&self, buses: &[u16]) -> io::Result<()> {
        let members = self.nodes.iter().zip(buses);
        let mut members = members
            .map(|(child, &bus)| Member::open(child, bus))
            .collect::<io::Result<Vec<_>>>()?;
        assemble(&mut members)
    }
}

/// Lets the nodes meet, gives the first ones the slots, and makes the others their replicas.
fn assemble(members: &mut [Member<'_>]) -> io::Result<()> {
    let (address, bus) = (members[0].child.address, members[0].bus);
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    for (place, member) in members.iter_mut().enumerate() {
        // Without epochs of their own, the nodes would take seconds to sort them out.
        member.say(&["SET-CONFIG-EPOCH", &(place + 1).to_string()])?;
        member.say(&["MEET", &host, &port, &bus.to_string()])?;
        if place < MASTERS {
            let first = place * SLOTS / MASTERS;
            let last = (place + 1) * SLOTS / MASTERS - 1;
            member.say(&["ADDSLOTSRANGE", &first.to_string(), &last.to_string()])?;
        }
    }
    let known = format!("cluster_known_nodes:{}", 2 * MASTERS);
    wait_for(members, &["CLUSTER", "INFO"], &known)?;
    for place in 0..MASTERS {
        let id = members[place].say(&["MYID"])?;
        members[MASTERS + place].say(&["REPLICATE", &id])?;
    }
    wait_for(members, &["CLUSTER", "INFO"], "cluster_state:ok")?;
    let (masters, replicas) = members.split_at_mut(MASTERS);
    let info = ["INFO", "replication"];
    wait_for(replicas, &info, "master_link_status:up")?;
    wait_for(masters, &info, "state=online")
}

/// Asks every node until its answer has this text in it.
fn wait_for(members: &mut [Member<'_>], question: &[&str], text: &str) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    for member in members {
        while !member.ask(question)?.contains(text) {
            if Instant::now() >= deadline {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!(
                        "{} does not say {text} within {PATIENCE:?}",
                        member.child.address
                    ),
                ));
            }
            thread::sleep(ASK_EVERY);
        }
    }
    Ok(())
}

impl<'c> Member<'c> {
    fn open(child: &'c Child, bus: u16) -> io::Result<Self> {
        let endpoint = Endpoint::new(child.server(), Protocol::Resp2, None);
        Ok(Self {
            child,
            conversation: endpoint.open()?,
            bus,
        })
    }

    /// Sends a subcommand of CLUSTER, and returns the text of its answer.
    fn say(&mut self, words: &[&str]) -> io::Result<String> {
        self.ask(&[&["CLUSTER"], words].concat())
    }

    fn ask(&mut self, words: &[&str]) -> io::Result<String> {
        let reply: OwnedReply = self.conversation.call(words)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match reply.error_text() {
            Some(error) => Err(io::Error::other(format!(
                "{} was answered `{}`",
                words.join(" "),
                text(error)
            ))),
            None => Ok(reply.as_bytes().map(text).unwrap_or_default()),
        }
    }
}

//! The servers of a topology for `loadline failover`: started on loopback, ended with this value, and brought back after
//! one of them was killed.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use loadline_client::cluster::{self, Node, slot_of};
use loadline_client::sentinel::Role;
use loadline_client::{Address, OwnedReply, RetryPolicy, Tls};
use loadline_measure::failover::{Fault, MinReplicas, ReadFrom, Topology};
use loadline_measure::record::ServerEnvironment;

use super::admin::Admin;
use super::client::{Connector, node};
use super::connect::{Endpoint, builder, command};
use super::divide::Divide;
use super::drivers::SentinelConfig;
use super::environment::described;
use super::faulty::FaultyPath;
use super::ruled::Ruled;
use super::sentinel::sentinel;
use super::servers::{Child, ClusterChild, SentinelChildren, Storage};
use super::slots::move_slot;
use crate::exit::{Exit, Failure};
use crate::spelling::{self, Durability, Server};

/// Silence after which the nodes of a cluster call a master failed.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);
/// Silence after which sentinels do so. They ask once per second, so with one second they can take the master that they have
/// just promoted for failed before they have asked it, and fail over again.
const DOWN_AFTER: Duration = Duration::from_secs(2);
/// Time limit for a server to accept writes after a fault, and for a replica to follow its master.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval between attempts meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// A port without a listener.
const UNUSED_PORT: &str = "1";
/// Closes the connections of all other clients.
const KILL_CLIENTS: [&str; 6] = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
/// The most clients of a redis-server by default.
const USUAL_CLIENTS: &str = "10000";
/// A key that shows whether a replica follows.
const FOLLOWED: &str = "loadline:followed";

/// The servers of a topology. They end when this value is dropped.
#[derive(Debug)]
pub(crate) struct Site {
    servers: Servers,
    /// The paths that a partition cuts, for servers that can have one.
    divide: Option<Divide>,
}

/// A partition, which lasts until it is ended or dropped.
#[derive(Debug)]
pub(crate) struct CutOff<'s> {
    site: &'s Site,
    divide: &'s Divide,
}

#[derive(Debug)]
enum Servers {
    One(Child),
    Pair {
        master: Box<Child>,
        replica: Box<Child>,
    },
    Sentinel {
        master: Box<Child>,
        around: SentinelChildren,
    },
    Cluster(ClusterChild),
}

impl Site {
    /// Starts the servers of `topology`, of `program` where it is not our own, so that `fault` is possible. Must be called on
    /// the main thread.
    ///
    /// # Errors
    /// If a server does not start, or if `interrupt` was set meanwhile.
    pub(crate) fn start(
        topology: &Topology,
        program: &Path,
        durability: Durability,
        fault: &Fault,
        interrupt: &AtomicBool,
    ) -> Result<Self, Failure> {
        let storage = Storage {
            durability,
            dir: None,
            socket: false,
            has_disk: *fault == Fault::FullDisk,
        };
        let name = format!("spawn:{}", program.display());
        let spawn = || Child::spawn_storing(&name, program, storage, interrupt);
        let mut divide = None;
        // The address at which the other servers find the master.
        let mut seen = |master: &Child| match fault {
            Fault::Partition | Fault::Lag => {
                let paths = divide.insert(Divide::in_front_of(master)?);
                Ok(paths.master())
            }
            _ => Ok(master.address()),
        };
        let servers = match topology {
            Topology::Embedded => {
                let mut child = Child::embedded_storing(storage, interrupt)?;
                child.keep_address();
                Servers::One(child)
            }
            Topology::Cluster => {
                let mut draw = |nodes: &[_]| Ok(divide.insert(Divide::between(nodes)?).node());
                let line = (*fault == Fault::Partition).then_some(&mut draw as _);
                let cluster = ClusterChild::spawn(program, Some(NODE_TIMEOUT), line, interrupt)?;
                Servers::Cluster(cluster)
            }
            Topology::Sentinel => {
                let spawned =
                    SentinelChildren::spawn(program, Some(DOWN_AFTER), &mut seen, interrupt)?;
                let (master, around) = (Box::new(spawned.0), spawned.1);
                if let Some(divide) = &mut divide {
                    divide.keep_client_from(around.replicas().iter().chain(around.sentinels()))?;
                }
                Servers::Sentinel { master, around }
            }
            Topology::Replica => {
                let (master, replica) = (Box::new(spawn()?), Box::new(spawn()?));
                follow(&master, seen(&master)?, &replica, interrupt)?;
                if let Some(divide) = divide.as_mut().filter(|_| *fault == Fault::Partition) {
                    divide.keep_client_from([&*replica])?;
                }
                Servers::Pair { master, replica }
            }
            _ if *fault == Fault::Loading => {
                let mut child = spawn()?;
                child.load_slowly()?;
                Servers::One(child)
            }
            _ => Servers::One(spawn()?),
        };
        Ok(Self { servers, divide })
    }

    /// Lets masters refuse writes without enough replicas.
    ///
    /// # Errors
    /// If a server refuses.
    pub(crate) fn require_replicas(&self, min: MinReplicas) -> Result<(), Failure> {
        let servers = match &self.servers {
            Servers::Pair { master, replica } => vec![master.server(), replica.server()],
            _ => self.nodes(),
        };
        let lag = Duration::from_nanos(min.max_lag_ns).as_secs().to_string();
        let replicas = min.replicas.to_string();
        for server in servers {
            say(&server, &["CONFIG", "SET", "min-replicas-max-lag", &lag])?;
            let words = ["CONFIG", "SET", "min-replicas-to-write", &replicas];
            say(&server, &words)?;
        }
        Ok(())
    }

    /// The server that fails.
    pub(crate) fn victim(&self) -> &Child {
        match &self.servers {
            Servers::One(child) => child,
            Servers::Pair { master, .. } | Servers::Sentinel { master, .. } => master,
            Servers::Cluster(cluster) => &cluster.nodes()[0],
        }
    }

    /// The servers that the client can be led to.
    fn nodes(&self) -> Vec<Server> {
        match &self.servers {
            Servers::Cluster(cluster) => cluster.nodes().iter().map(Child::server).collect(),
            Servers::Sentinel { master, around } => {
                let servers = std::iter::once(&**master).chain(around.replicas());
                servers.map(Child::server).collect()
            }
            _ => vec![self.victim().server()],
        }
    }

    /// The addresses at which the keys of the victim can be written once something has taken its place.
    fn successors(&self) -> Vec<Server> {
        match &self.servers {
            Servers::Cluster(cluster) => vec![cluster.first_replica().server()],
            Servers::Sentinel { around, .. } => {
                around.replicas().iter().map(Child::server).collect()
            }
            Servers::One(_) | Servers::Pair { .. } => vec![self.victim().server()],
        }
    }

    /// Whether another server takes the place of one that does not answer, without help.
    pub(crate) fn heals_itself(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_) | Servers::Sentinel { .. })
    }

    /// The addresses of the servers that the client can be led to.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let nodes = self.nodes();
        let addresses = nodes.iter().filter_map(|server| match &server.address {
            spelling::Address::Tcp { host, port } => {
                Some(SocketAddr::new(host.parse().ok()?, *port))
            }
            spelling::Address::Unix(_) => None,
        });
        addresses.collect()
    }

    /// The address that a client is given: that of a node of the cluster that stays, or of the master.
    pub(crate) fn told(&self) -> SocketAddr {
        match &self.servers {
            Servers::Cluster(cluster) => cluster.first_replica().address(),
            _ => self.victim().address(),
        }
    }

    /// The sentinels that a client is given, if there are any.
    pub(crate) fn sentinels(&self) -> Option<SentinelConfig> {
        let Servers::Sentinel { around, .. } = &self.servers else {
            return None;
        };
        let addresses = around.sentinels().iter().map(|one| one.address().into());
        Some(SentinelConfig {
            master: around.named().name,
            addresses: addresses.collect(),
        })
    }

    /// Whether it is a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// Connections of loadline-client with its defaults, through the proxy `path` if there is one, that read from `from`.
    ///
    /// # Errors
    /// If the configuration is not valid for a cluster.
    pub(crate) fn connector(
        &self,
        path: Option<&FaultyPath>,
        from: &ReadFrom,
    ) -> Result<Connector, Failure> {
        let own = self.nodes();
        let entrances: Vec<Server> = match path {
            Some(path) => path.addresses().map(Server::local).collect(),
            None => own.clone(),
        };
        let client = builder(&entrances[0], &Tls::default()).retry(RetryPolicy::default());
        let led = own.iter().zip(&entrances).filter_map(|(own, entrance)| {
            let (own, entrance) = (node(&own.address)?, node(&entrance.address)?);
            (own != entrance).then_some((own, entrance))
        });
        // A cluster and sentinels name servers at the addresses of their side of a line.
        let paths = self.divide.iter().flat_map(|divide| {
            let paths = divide.paths();
            paths.map(|(named, reached)| (node_at(named), node_at(reached)))
        });
        let led = led.chain(paths);
        let reads_replicas = *from == ReadFrom::Replica;
        match &self.servers {
            Servers::Pair { replica, .. } if reads_replicas => {
                let own = replica.address();
                let paths = self.divide.iter().flat_map(Divide::paths);
                let reached = paths.filter(|(named, _)| *named == own);
                let reached = reached.map(|(_, reached)| reached).next();
                let client = builder(&Server::local(reached.unwrap_or(own)), &Tls::default());
                let client = client.retry(RetryPolicy::default());
                Ok(Connector::Server(client.build()))
            }
            Servers::One(_) | Servers::Pair { .. } => Ok(Connector::Server(client.build())),
            Servers::Sentinel { around, .. } => {
                let named = sentinel(&around.named());
                let named = led.fold(named, |named, (own, entrance)| named.reach(own, entrance));
                let named = match from {
                    ReadFrom::Replica => named.role(Role::Replica),
                    _ => named,
                };
                let client = client.address(Address::Sentinel(named));
                Ok(Connector::Server(client.build()))
            }
            Servers::Cluster(_) => {
                let config = client.build().config().clone();
                let builder = cluster::Builder::from_config(config)
                    .map_err(|error| Failure::unavailable(format!("{error}.")))?;
                // The first node may be the one that was killed.
                let others = entrances.iter().skip(1);
                let seeds = others.filter_map(|entrance| node(&entrance.address));
                let builder = seeds.fold(builder, cluster::Builder::seed);
                let builder = led.fold(builder, |builder, (own, entrance)| {
                    builder.reach(own, entrance)
                });
                let builder = builder.read_from(match from {
                    ReadFrom::Replica => cluster::ReadFrom::Replica,
                    _ => cluster::ReadFrom::Master,
                });
                Ok(Connector::Cluster(Box::new(builder)))
            }
        }
    }

    /// A hash tag for each writer, so that writers take turns on the masters, the first one on the victim.
    pub(crate) fn tags(&self, writers: u32) -> Vec<String> {
        let masters = match &self.servers {
            Servers::Cluster(cluster) => cluster.nodes().len() / 2,
            _ => 1,
        };
        let mut candidates: Vec<String> = (0..)
            .map(|number| format!("w{number}"))
            .take(1_000 + 16 * writers as usize)
            .collect();
        let owner = |tag: &str| match masters {
            1 => 0,
            _ => ClusterChild::first_owner(slot_of(tag.as_bytes())),
        };
        let tags = (0..writers as usize).map(|writer| {
            let place = candidates
                .iter()
                .position(|tag| owner(tag) == writer % masters);
            candidates.remove(place.expect("a third of the tags belong to each master"))
        });
        tags.collect()
    }

    /// Ends the victim with SIGKILL and brings its part of the keys back: started again, or by a replica that takes
    /// over. Returns once a fresh connection can write `probe`, a key of the victim. Must be called on the main thread.
    ///
    /// # Errors
    /// If no server accepts writes again, or if `interrupt` was set meanwhile.
    pub(crate) fn kill(&mut self, probe: &str, interrupt: &AtomicBool) -> Result<(), Failure> {
        match &mut self.servers {
            Servers::One(child) => child.restart(interrupt)?,
            Servers::Pair { master, replica } => {
                let server = master.server();
                master.kill();
                say(&replica.server(), &["REPLICAOF", "NO", "ONE"])?;
                listen_at(replica, port(&server))?;
            }
            Servers::Sentinel { master, .. } => master.kill(),
            Servers::Cluster(cluster) => cluster.first_master().kill(),
        }
        wait_for("accepts writes", interrupt, || {
            self.accepts(probe).then_some(())
        })
    }

    /// Makes a replica of the victim the master and the victim its replica, as before maintenance. Returns once a fresh
    /// connection can write `probe`, a key of the victim.
    ///
    /// # Errors
    /// If a server refuses, if none accepts writes again, or if `interrupt` was set meanwhile.
    pub(crate) fn fail_over(&self, probe: &str, interrupt: &AtomicBool) -> Result<(), Failure> {
        match &self.servers {
            Servers::One(_) => unreachable!("it has no replica"),
            Servers::Pair { master, replica } => change_places(master, replica, interrupt)?,
            Servers::Sentinel { around, .. } => around.fail_over()?,
            Servers::Cluster(cluster) => {
                say(&cluster.first_replica().server(), &["CLUSTER", "FAILOVER"])?;
            }
        }
        wait_for("accepts writes", interrupt, || {
            self.accepts(probe).then_some(())
        })
    }

    /// Cuts the client and the victim off from the other servers.
    ///
    /// # Errors
    /// If the proxies have ended.
    ///
    /// # Panics
    /// If the site was not started for a partition.
    pub(crate) fn cut_off(&self) -> Result<CutOff<'_>, Failure> {
        let divide = self.divide.as_ref().expect("it was started for this fault");
        divide.cut()?;
        Ok(CutOff { site: self, divide })
    }

    /// Holds everything between the victim and its replicas for the time of `meanwhile`.
    ///
    /// # Errors
    /// If the proxies have ended.
    ///
    /// # Panics
    /// If the site was not started for this fault.
    pub(crate) fn hold_replication(&self, meanwhile: impl FnOnce()) -> Result<(), Failure> {
        let divide = self.divide.as_ref().expect("it was started for this fault");
        divide.cut()?;
        meanwhile();
        divide.join()
    }

    /// Whether a fresh connection can write `probe`, a key of the victim, to a server in its place.
    pub(crate) fn accepts(&self, probe: &str) -> bool {
        let write = ["SET", probe, "1"];
        let mut successors = self.successors().into_iter();
        successors.any(|server| Endpoint::local(server).hurried().say(&write).is_ok())
    }

    /// Closes the connections of all clients of the victim, and returns their number.
    ///
    /// # Errors
    /// If the server refuses.
    pub(crate) fn kill_clients(&self) -> Result<u64, Failure> {
        count(&say(&self.victim().server(), &KILL_CLIENTS)?)
    }

    /// Makes the victim a replica of no server for the time of `meanwhile`. It keeps its data, because it never receives any.
    ///
    /// # Errors
    /// If the server refuses.
    pub(crate) fn demote(&self, meanwhile: impl FnOnce()) -> Result<(), Failure> {
        let mut victim = Ruled::open(&self.victim().server())?;
        victim.tell(&["REPLICAOF", "127.0.0.1", UNUSED_PORT])?;
        meanwhile();
        victim.tell(&["REPLICAOF", "NO", "ONE"])
    }

    /// Closes the connections of all clients of the victim, which takes no others for the time of `meanwhile`. Returns the number of
    /// these connections.
    ///
    /// # Errors
    /// If the server refuses.
    pub(crate) fn crowd_out(&self, meanwhile: impl FnOnce()) -> Result<u64, Failure> {
        let mut victim = Ruled::open(&self.victim().server())?;
        victim.tell(&["CONFIG", "SET", "maxclients", "1"])?;
        let closed = victim.ask(&KILL_CLIENTS).and_then(|reply| count(&reply));
        meanwhile();
        victim.tell(&["CONFIG", "SET", "maxclients", USUAL_CLIENTS])?;
        closed
    }

    /// Moves the slots of `tags` that belong to the victim to another master in about `time`. Returns their number.
    ///
    /// # Errors
    /// If a server refuses, or if `interrupt` was set meanwhile.
    ///
    /// # Panics
    /// If it is not a cluster.
    pub(crate) fn move_slots(
        &self,
        tags: &[String],
        time: Duration,
        interrupt: &AtomicBool,
    ) -> Result<u64, Failure> {
        let Servers::Cluster(cluster) = &self.servers else {
            unreachable!("it has slots");
        };
        let slots = tags.iter().map(|tag| slot_of(tag.as_bytes()));
        let slots: BTreeSet<u16> = slots
            .filter(|slot| ClusterChild::first_owner(*slot) == 0)
            .collect();
        let masters = cluster.masters();
        let count = slots.len() as u32;
        for slot in slots {
            move_slot(slot, masters, time / count, interrupt)?;
        }
        Ok(count.into())
    }

    /// Fills the file system of the victim for the time of `meanwhile`.
    ///
    /// # Errors
    /// If that fails.
    ///
    /// # Panics
    /// If the site was not started for this fault.
    pub(crate) fn fill_disk(&self, meanwhile: impl FnOnce()) -> Result<(), Failure> {
        let failed =
            |error| Failure::unavailable(format!("The disk could not be filled: {error}."));
        let filler = self.victim().fill_disk().map_err(failed)?;
        meanwhile();
        std::fs::remove_file(filler).map_err(failed)
    }

    /// Ends a replica of the victim with SIGKILL.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn lose_replica(&mut self) {
        match &mut self.servers {
            Servers::One(_) => unreachable!("it has no replica"),
            Servers::Pair { replica, .. } => replica.kill(),
            Servers::Sentinel { around, .. } => around.first_replica().kill(),
            Servers::Cluster(cluster) => cluster.first_replica_mut().kill(),
        }
    }

    /// Version of the servers, for the record.
    pub(crate) fn environment(&self, subject: &str) -> Option<ServerEnvironment> {
        let mut admin = Admin::open(&Endpoint::local(self.victim().server())).ok()?;
        let info = admin.info(&["server", "memory"]).ok()?;
        Some(described(subject, |name| info.get(name)))
    }
}

impl CutOff<'_> {
    /// Whether a server on the other side accepts a write of `probe`, a key of the victim. Without sentinels, the replica
    /// is promoted by hand.
    pub(crate) fn promoted(&self, probe: &str) -> bool {
        let Servers::Pair { replica, .. } = &self.site.servers else {
            return self.site.accepts(probe);
        };
        let replica = replica.server();
        say(&replica, &["REPLICAOF", "NO", "ONE"]).is_ok()
            && say(&replica, &["SET", probe, "1"]).is_ok()
    }

    /// Connects the servers again. Without sentinels, the promoted replica takes the port of the old master, which becomes its
    /// replica.
    ///
    /// # Errors
    /// If a server refuses, or if `interrupt` was set meanwhile.
    pub(crate) fn end(self, interrupt: &AtomicBool) -> Result<(), Failure> {
        self.divide.join()?;
        match &self.site.servers {
            Servers::Pair { master, replica } if !interrupt.load(Ordering::Relaxed) => {
                let server = master.server();
                let mut old = Ruled::open(&server)?;
                let port = port(&replica.server()).to_string();
                old.tell(&["REPLICAOF", "127.0.0.1", &port])?;
                old.hand_over(replica)
            }
            // The sentinels make the old master a replica.
            _ => Ok(()),
        }
    }
}

impl Ruled {
    /// Lets `replica` listen in its place, and closes the connections of its clients: they find the new master where they
    /// look, as when a name moves.
    fn hand_over(&mut self, replica: &Child) -> Result<(), Failure> {
        // Once it does not listen any more, only this connection is left.
        self.tell(&["CONFIG", "SET", "port", "0"])?;
        listen_at(replica, port(&self.server))?;
        self.tell(&KILL_CLIENTS)
    }
}

/// The number of connections that a server has closed.
fn count(reply: &OwnedReply) -> Result<u64, Failure> {
    match reply {
        OwnedReply::Integer(count) => Ok(u64::try_from(*count).unwrap_or(0)),
        other => Err(Failure::unavailable(format!(
            "CLIENT KILL: unexpected reply {other:?}."
        ))),
    }
}

fn node_at(address: SocketAddr) -> Node {
    Node::new(address.ip().to_string(), address.port())
}

/// Makes `replica` a replica of `master`, which it finds at `seen`, and waits until it has its data.
fn follow(
    master: &Child,
    seen: SocketAddr,
    replica: &Child,
    interrupt: &AtomicBool,
) -> Result<(), Failure> {
    // By default, a master waits 5 s for more replicas before it sends its data.
    let delay = ["CONFIG", "SET", "repl-diskless-sync-delay", "0"];
    say(&master.server(), &delay)?;
    let port = seen.port().to_string();
    say(&replica.server(), &["REPLICAOF", "127.0.0.1", &port])?;
    let mut open = Endpoint::local(master.server())
        .open()
        .map_err(|error| Failure::unavailable(format!("{}: {error}.", master.server())))?;
    let mut admin = Admin::open(&Endpoint::local(master.server()))?;
    // A replica that is online has the data of its start. The master sends its writes once the replica has said so, which
    // can take a second; a write that it confirms shows that.
    wait_for("follows its master", interrupt, || {
        let info = admin.info(&["replication"]).ok()?;
        info.get("slave0")?.contains("state=online").then_some(())?;
        open.run(command(&["SET", FOLLOWED, "1"])).ok()?;
        let replicas = open.run(command(&["WAIT", "1", "100"])).ok()?;
        (replicas == OwnedReply::Integer(1)).then_some(())
    })?;
    say(&master.server(), &["DEL", FOLLOWED]).map(drop)
}

/// Makes `replica` the master at the address of `master`, and `master` its replica.
fn change_places(master: &Child, replica: &Child, interrupt: &AtomicBool) -> Result<(), Failure> {
    let mut old = Ruled::open(&master.server())?;
    old.tell(&["FAILOVER"])?;
    let mut admin = Admin::open(&Endpoint::local(replica.server()))?;
    wait_for("was promoted", interrupt, || {
        let info = admin.info(&["replication"]).ok()?;
        (info.get("role") == Some("master")).then_some(())
    })?;
    old.hand_over(replica)
}

/// Lets a server listen on another port.
fn listen_at(child: &Child, port: u16) -> Result<(), Failure> {
    let words = ["CONFIG", "SET", "port", &port.to_string()];
    say(&child.server(), &words).map(drop)
}

fn port(server: &Server) -> u16 {
    match &server.address {
        spelling::Address::Tcp { port, .. } => *port,
        spelling::Address::Unix(_) => unreachable!("it listens on loopback"),
    }
}

fn say(server: &Server, words: &[&str]) -> Result<OwnedReply, Failure> {
    Endpoint::local(server.clone()).say(words)
}

/// Asks again until there is an answer.
fn wait_for<T>(
    what: &str,
    interrupt: &AtomicBool,
    mut ask: impl FnMut() -> Option<T>,
) -> Result<T, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        if interrupt.load(Ordering::Relaxed) {
            let why = format!("Interrupted while waiting until a server {what}.");
            return Err(Failure::new(Exit::Interrupted, why));
        }
        if Instant::now() >= deadline {
            let why = format!("No server {what} within {} s.", PATIENCE.as_secs());
            return Err(Failure::unavailable(why));
        }
        thread::sleep(ASK_EVERY);
    }
}

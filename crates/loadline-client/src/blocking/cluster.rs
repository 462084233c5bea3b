//! A cluster for one thread.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::halves::Written;
use super::interleaved::Interleaved;
use super::{Connection, PubSub};
use crate::cluster::batch::{Batch, Group, Next, nobody};
use crate::cluster::builder::Plain;
use crate::cluster::plan::{Outcome, Plan};
use crate::cluster::replies::Collected;
use crate::cluster::scan::{Cursor, Page, Step, read_as};
use crate::cluster::topology::Topology;
use crate::cluster::view::{View, question};
use crate::cluster::{Builder, Node, slot_of};
use crate::pubsub::core::Core;
use crate::request::Failed;
use crate::{Config, Error, FromReply, Request, Scan};

/// The map is asked for at most this often, however many requests find it wrong.
const THROTTLE: Duration = Duration::from_millis(100);
/// How many nodes are asked at a time.
const AT_A_TIME: usize = 3;

/// A cluster for one thread: a connection to each node that is used. See [`cluster`](crate::cluster), which
/// says what is routed where and what is sent again; it is the same here.
///
/// ```no_run
/// use loadline_client::blocking::Cluster;
/// use loadline_client::commands::{get, mset};
///
/// let mut cluster = Cluster::open("cluster://10.0.0.1:7000,10.0.0.2:7000")?;
/// cluster.run(mset([("a", 1), ("b", 2)]))?;
/// // The parts of a pipeline are written to all of their nodes before the first reply is read.
/// let (a, b) = cluster.run((get::<i64>("a"), get::<i64>("b")));
/// assert_eq!((a?, b?), (1, 2));
/// # Ok::<(), loadline_client::Error>(())
/// ```
#[derive(Debug)]
pub struct Cluster {
    plain: Plain,
    topology: Topology,
    connections: HashMap<Node, Connection>,
    /// Counts up, so that nodes are used in turn.
    turn: u64,
    /// When the map was last asked for.
    asked: Option<Instant>,
    /// Whether something has shown since that it is old.
    stale: bool,
}

impl Cluster {
    /// Opens a cluster; see [`Builder::from_url`] for the URL, and [`Builder`] for options.
    ///
    /// # Errors
    /// [`Error::Url`], or why no node said which nodes there are.
    pub fn open(url: &str) -> Result<Self, Error> {
        Builder::from_url(url)?.open_blocking()
    }

    pub(crate) fn connect(plain: Plain) -> Result<Self, Error> {
        let mut cluster = Self {
            plain,
            topology: Topology::empty(),
            connections: HashMap::new(),
            turn: 0,
            asked: None,
            stale: true,
        };
        cluster.refresh()?;
        Ok(cluster)
    }

    /// Runs a command, or several as a pipeline, each on the node that serves its keys.
    pub fn run<Q: Request>(&mut self, request: Q) -> Q::Output {
        let mut second_try = false;
        loop {
            let turn = self.next_turn();
            let plan = match Plan::new(&request, second_try, &self.topology, turn) {
                Ok(plan) => plan,
                Err(error) => return request.decode(&mut Failed(error)),
            };
            let batch = Batch::new(&plan, &self.plain.config, Instant::now());
            self.refresh_if_stale();
            let output = if plan.is_plain() {
                let mut replies = Interleaved::send(self, &plan, batch);
                let output = request.decode(&mut replies);
                replies.finish();
                output
            } else {
                request.decode(&mut Collected::new(self.execute(batch)))
            };
            if second_try || !request.wants_second_try(&output) {
                return output;
            }
            second_try = true;
        }
    }

    /// The masters that serve slots, as far as is known.
    #[must_use]
    pub fn masters(&self) -> Vec<Node> {
        self.topology.masters()
    }

    /// All nodes, masters before their replicas, as far as is known.
    #[must_use]
    pub fn nodes(&self) -> Vec<Node> {
        self.topology.nodes().cloned().collect()
    }

    /// The master that serves a key, as far as is known.
    #[must_use]
    pub fn master_of(&self, key: impl AsRef<[u8]>) -> Option<Node> {
        let shard = self.topology.shard(slot_of(key.as_ref()))?;
        Some(shard.master.clone())
    }

    /// The replicas of the master that serves a key, as far as is known.
    #[must_use]
    pub fn replicas_of(&self, key: impl AsRef<[u8]>) -> Vec<Node> {
        let shard = self.topology.shard(slot_of(key.as_ref()));
        shard.map_or_else(Vec::new, |shard| shard.replicas.clone())
    }

    /// Returns some keys that match a pattern, of one master, and moves the cursor on: call it until
    /// [`Cursor::is_finished`]. `count` is how many the node should look at, not how many there are to be.
    ///
    /// Every key that is there from the beginning to the end is returned at least once, also where slots move
    /// or a replica takes over meanwhile: a slot counts when its node has served it all through its X    ///
    /// ```no_run
    /// # fn example(mut cluster: loadline_client::blocking::Cluster) -> Result<(), loadline_client::Error> {
    /// use loadline_client::cluster::Cursor;
    ///
    /// let mut cursor = Cursor::start();
    /// while !cursor.is_finished() {
    ///     let keys: Vec<String> = cluster.scan_page(&mut cursor, "user:*", 1000)?;
    ///     println!("{keys:?}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Why the node did not answer; its slots are begun anew then, so the call can be repeated.
    /// [`Error::Cluster`] where slots are served by nobody, or were on the move each of 16 times.
    pub fn scan_page<T: FromReply>(
        &mut self,
        cursor: &mut Cursor,
        pattern: impl AsRef<[u8]>,
        count: u64,
    ) -> Result<Vec<T>, Error> {
        let pattern = Bytes::copy_from_slice(pattern.as_ref());
        let scan = Scan::<T>::keys().matching(pattern).count(count);
        self.page_of_keys(cursor, &scan)
    }

    pub(crate) fn page_of_keys<T: FromReply>(
        &mut self,
        cursor: &mut Cursor,
        scan: &Scan<T>,
    ) -> Result<Vec<T>, Error> {
        self.stale |= cursor.is_fruitless();
        self.refresh_if_stale();
        let Some(step) = cursor.step(&self.topology)? else {
            return Ok(Vec::new());
        };
        std::thread::sleep(step.pause);
        match self.page(&step, scan) {
            Ok(page) => read_as(cursor.took(step, page)),
            Err(error) => {
                cursor.lost();
                self.stale = true;
                Err(error)
            }
        }
    }

    fn page<T: FromReply>(&mut self, step: &Step, scan: &Scan<T>) -> Result<Page, Error> {
        let connection = self.connection_to(&step.node);
        Page::of(connection.run(step.question(scan))?)
    }

    /// Opens a connection to one node, for commands that are about it: `INFO`, `CONFIG`. It follows
    /// no redirections.
    ///
    /// # Errors
    /// Why there is none; it is tried once.
    pub fn connection(&self, node: &Node) -> Result<Connection, Error> {
        Connection::open(Arc::new(self.plain.server(node)))
    }

    /// Opens a connection to the master that serves a key, for commands that wait or that change the
    /// connection's state: `BLPOP`, `WATCH`. It follows no redirections.
    ///
    /// # Errors
    /// [`Error::Cluster`] where no node serves the key, or why there is no connection; it is tried once.
    pub fn dedicated(&self, key: impl AsRef<[u8]>) -> Result<Connection, Error> {
        let slot = slot_of(key.as_ref());
        let master = self.master_of(key).ok_or_else(|| nobody(slot))?;
        self.connection(&master)
    }

    /// Opens a subscriber: a connection to one node, or another when that one goes, for channels and
    /// patterns, and one to each master that serves a sharded channel that is subscribed to, which follows
    /// the slot of the channel. Whatever may be missing is announced; see [`pubsub`](crate::pubsub).
    ///
    /// # Errors
    /// Why there is no connection; each node is tried once. Later on connections come back by themselves.
    pub fn pubsub(&mut self) -> Result<PubSub, Error> {
        // Any part of the number will do.
        let turn = self.next_turn() as usize;
        let (plain, topology) = (self.plain.clone(), self.topology.clone());
        let config = plain.config.clone();
        let seeds = plain.seeds.clone();
        let core = Core::of_cluster(config, topology.clone(), seeds, turn, Instant::now());
        let cluster = Self {
            plain,
            topology,
            connections: HashMap::new(),
            turn: self.turn,
            asked: self.asked,
            stale: false,
        };
        PubSub::on_cluster(cluster, core)
    }

    /// Asks some nodes for the map of slots. That is done by itself where a redirection or a lost node
    /// shows that it is old.
    ///
    /// # Errors
    /// Why no node has answered.
    pub fn refresh(&mut self) -> Result<(), Error> {
        let view = self.ask();
        self.asked = Some(Instant::now());
        self.topology = view?.topology;
        self.stale = false;
        let topology = &self.topology;
        self.connections
            .retain(|node, _| topology.nodes().any(|known| known == node));
        Ok(())
    }

    /// The map as it is known.
    pub(super) fn topology(&self) -> Topology {
        self.topology.clone()
    }

    pub(super) fn config(&self) -> &Config {
        &self.plain.config
    }

    /// How to talk to a node as to a server that stands for itself.
    pub(super) fn config_of(&self, node: &Node) -> Arc<Config> {
        Arc::new(self.plain.server(node))
    }

    /// Sends a request in rounds until all of it is answered or given up.
    pub(super) fn execute(&mut self, mut batch: Batch<'_>) -> Vec<Outcome> {
        loop {
            let groups = self.groups(&mut batch);
            // All are written before one is read, so that the nodes work at the same time.
            let written: Vec<Result<Written, Error>> =
                groups.iter().map(|group| self.write(group)).collect();
            for (group, written) in groups.iter().zip(written) {
                let outcomes = match written {
                    Ok(written) => self.read(group, &written, batch.limit()),
                    Err(error) => vec![Err(error); group.commands()],
                };
                batch.settle(group, outcomes);
            }
            if !self.goes_on(&mut batch) {
                return batch.finish();
            }
        }
    }

    /// What is sent in the next round.
    pub(super) fn groups<'p>(&mut self, batch: &mut Batch<'p>) -> Vec<Group<'p>> {
        let turn = self.next_turn();
        batch.groups(&self.topology, self.plain.from, turn)
    }

    /// Learns from a round; where there has to be another, waits until it is time for it.
    pub(super) fn goes_on(&mut self, batch: &mut Batch<'_>) -> bool {
        for (slot, master) in batch.take_moved() {
            self.topology.moved(slot, master);
            self.stale = true;
        }
        self.stale |= batch.is_troubled();
        match batch.next(Instant::now()) {
            // What is stale is asked for when it is needed again.
            Next::Finish => false,
            Next::Again(pause) => {
                self.refresh_if_stale();
                std::thread::sleep(pause);
                true
            }
        }
    }

    fn write(&mut self, group: &Group<'_>) -> Result<Written, Error> {
        self.connection_to(&group.node).write_half(group)
    }

    fn read(
        &mut self,
        group: &Group<'_>,
        written: &Written,
        limit: Option<Instant>,
    ) -> Vec<Outcome> {
        let connection = self.connection_to(&group.node);
        connection.read_half(group, written, limit)
    }

    /// The connection to a node, to be given back.
    pub(super) fn take_connection(&mut self, node: &Node) -> Connection {
        let known = self.connections.remove(node);
        known.unwrap_or_else(|| Connection::unopened(self.plain.node(node)))
    }

    pub(super) fn give_connection(&mut self, node: Node, connection: Connection) {
        self.connections.insert(node, connection);
    }

    fn connection_to(&mut self, node: &Node) -> &mut Connection {
        let config = &self.plain;
        self.connections
            .entry(node.clone())
            .or_insert_with(|| Connection::unopened(config.node(node)))
    }

    /// Where no node answers, the old map has to do.
    fn refresh_if_stale(&mut self) {
        let long_ago = self.asked.is_none_or(|asked| asked.elapsed() >= THROTTLE);
        if self.stale
            && long_ago
            && let Err(error) = self.refresh()
        {
            crate::meter::lost(&self.plain.config, &error);
        }
    }

    /// Asks some nodes at a time, until one or more have answered.
    fn ask(&mut self) -> Result<View, Error> {
        let mut reason = Error::Cluster("there is no node to ask for the map of slots".into());
        for nodes in self.candidates().chunks(AT_A_TIME) {
            let written: Vec<Result<Written, Error>> = nodes
                .iter()
                .map(|node| self.connection_to(node).write_half(&question()))
                .collect();
            let mut views = Vec::new();
            for (node, written) in nodes.iter().zip(written) {
                let answers = written.map(|written| {
                    let connection = self.connection_to(node);
                    connection.read_half(&question(), &written, None)
                });
                match answers.and_then(|answers| View::read(answers, node)) {
                    Ok(view) => views.push(view),
                    Err(error) => reason = error,
                }
            }
            if let Some(view) = View::best(views) {
                return Ok(view);
            }
        }
        Err(reason)
    }

    /// Whom to ask: nodes that are connected, then the others, then those that were given at the start.
    fn candidates(&mut self) -> Vec<Node> {
        let turn = self.next_turn();
        let mut nodes: Vec<Node> = self.topology.nodes().cloned().collect();
        if !nodes.is_empty() {
            let turn = turn % nodes.len() as u64;
            nodes.rotate_left(turn as usize);
        }
        let connections = &self.connections;
        nodes.sort_by_key(|node| {
            let connection = connections.get(node);
            !connection.is_some_and(Connection::is_connected)
        });
        for seed in &self.plain.seeds {
            if !nodes.contains(seed) {
                nodes.push(seed.clone());
            }
        }
        nodes
    }

    fn next_turn(&mut self) -> u64 {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }
}

//! The client of a cluster, for one thread.

mod interleaved;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::Connection;
use super::halves::Written;
use crate::cluster::batch::{Batch, Group, Next, unserved};
use crate::cluster::builder::Plain;
use crate::cluster::plan::{Encoded, Plan};
use crate::cluster::replies::{Collected, Outcome};
use crate::cluster::scan::{Cursor, Page, Visit};
use crate::cluster::survey::{Survey, Throttle};
use crate::cluster::topology::Topology;
use crate::cluster::view::{View, question};
use crate::cluster::{Builder, Node, node_methods, slot_of};
use crate::request::Failed;
use crate::{Config, Error, FromReply, Request, Scan};
use interleaved::Interleaved;

/// A cluster for one thread, with a connection to each node that is used. See [`cluster`](crate::cluster) for the
/// rules of routing and of sending again.
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
    asked: Throttle,
    /// Whether a redirection or a lost node has shown that it is outdated.
    stale: bool,
}

impl Builder {
    /// As `Builder::open`, for one thread.
    ///
    /// # Errors
    /// The reason why none answered. Nothing was executed.
    pub fn open_blocking(self) -> Result<Cluster, Error> {
        Cluster::connect(self.plain())
    }
}

impl Cluster {
    /// Opens a cluster; see [`Builder::from_url`] for the URL, and [`Builder`] for options.
    ///
    /// # Errors
    /// [`Error::Url`], or the reason why no node gave the map of slots.
    pub fn open(url: &str) -> Result<Self, Error> {
        Builder::from_url(url)?.open_blocking()
    }

    fn connect(plain: Plain) -> Result<Self, Error> {
        let mut cluster = Self {
            plain,
            topology: Topology::empty(),
            connections: HashMap::new(),
            turn: 0,
            asked: Throttle::default(),
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
            let encoded = Encoded::of(&request, second_try);
            let plan = match encoded.and_then(|encoded| Plan::new(encoded, &self.topology, turn)) {
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

    node_methods!();

    #[doc = include_str!("../../cluster/scan_page.md")]
    ///
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
    #[doc = include_str!("../../cluster/scan_page_errors.md")]
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
        let page = self.page(&step, scan);
        self.stale |= page.is_err();
        cursor.answered(step, page)
    }

    fn page<T: FromReply>(&mut self, step: &Visit, scan: &Scan<T>) -> Result<Page, Error> {
        let connection = self.connection_to(&step.node);
        Page::of(connection.run(step.question(scan))?)
    }

    /// Opens a connection to one node, for commands about that node, such as `INFO` and `CONFIG`. It follows no
    /// redirections.
    ///
    /// # Errors
    /// Fails if the single connection attempt fails.
    pub fn connection(&self, node: &Node) -> Result<Connection, Error> {
        Connection::open(Arc::new(self.plain.server(node)))
    }

    /// Opens a connection to the master that serves a key, for commands that block or that change the state of the
    /// connection, such as `BLPOP` and `WATCH`. It follows no redirections.
    ///
    /// # Errors
    /// [`Error::Cluster`] if no node serves the key. Fails if the single connection attempt fails.
    pub fn dedicated(&self, key: impl AsRef<[u8]>) -> Result<Connection, Error> {
        let slot = slot_of(key.as_ref());
        let master = self.master_of(key).ok_or_else(|| unserved(slot))?;
        self.connection(&master)
    }

    /// The same cluster with connections of its own.
    pub(super) fn apart(&self) -> Self {
        Self {
            plain: self.plain.clone(),
            topology: self.topology(),
            connections: HashMap::new(),
            turn: self.turn,
            asked: self.asked,
            stale: false,
        }
    }

    /// Asks some nodes for the map of slots. This happens automatically when a redirection or a lost node shows that
    /// the map is outdated.
    ///
    /// # Errors
    /// The reason why no node answered.
    pub fn refresh(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        let view = self.ask();
        self.asked.asked(begun, Instant::now());
        self.topology = view?.topology;
        self.topology.prefer(&self.plain.near);
        self.stale = false;
        let topology = &self.topology;
        self.connections
            .retain(|node, _| topology.nodes().any(|known| known == node));
        Ok(())
    }

    fn map(&self) -> &Topology {
        &self.topology
    }

    /// The current map.
    pub(super) fn topology(&self) -> Topology {
        self.topology.clone()
    }

    /// The nodes that are asked first.
    pub(super) fn seeds(&self) -> &[Node] {
        &self.plain.seeds
    }

    pub(super) fn config(&self) -> &Config {
        &self.plain.config
    }

    /// The configuration of a connection to a node as to a single server.
    pub(super) fn config_of(&self, node: &Node) -> Arc<Config> {
        Arc::new(self.plain.server(node))
    }

    /// Sends a request in rounds until all of its commands are answered or given up.
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

    /// The groups of the next round.
    pub(super) fn groups<'p>(&mut self, batch: &mut Batch<'p>) -> Vec<Group<'p>> {
        let turn = self.next_turn();
        batch.groups(&self.topology, self.plain.from, turn, Instant::now())
    }

    /// Learns from a round. If another one follows, waits until it is time for it.
    pub(super) fn goes_on(&mut self, batch: &mut Batch<'_>) -> bool {
        for (slot, master) in batch.take_moved() {
            crate::meter::moved(&self.plain.config, slot, &master);
            self.topology.moved(slot, master);
            self.stale = true;
        }
        self.stale |= batch.is_troubled();
        match batch.next(Instant::now()) {
            // A stale map is asked for when it is needed again.
            Next::Finish => false,
            Next::Again(pause) => {
                let before = self.stale.then(|| self.topology());
                self.refresh_if_stale();
                // Another master ends the pause.
                if before.is_none_or(|before| self.topology.has_masters_of(&before)) {
                    std::thread::sleep(pause);
                }
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

    /// Takes the connection to a node, to be given back.
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

    /// Asks for the map if it is stale. If no node answers, the old one stays.
    fn refresh_if_stale(&mut self) {
        if self.stale
            && self.asked.is_due(Instant::now())
            && let Err(error) = self.refresh()
        {
            crate::meter::lost(&self.plain.config, &error);
        }
    }

    /// Asks some nodes at a time, until one or more have answered.
    fn ask(&mut self) -> Result<View, Error> {
        let turn = self.next_turn();
        let connections = &self.connections;
        let is_connected = |node: &Node| {
            let connection = connections.get(node);
            connection.is_some_and(Connection::is_connected)
        };
        let mut survey = Survey::new(&self.topology, &self.plain.seeds, turn, is_connected);
        loop {
            let nodes = survey.next()?;
            let answers = self.ask_some(&nodes);
            if let Some(view) = survey.took(answers) {
                return Ok(view);
            }
        }
    }

    /// Asks all of these nodes before it reads the first answer.
    fn ask_some(&mut self, nodes: &[Node]) -> Vec<Result<View, Error>> {
        let written: Vec<Result<Written, Error>> = nodes
            .iter()
            .map(|node| self.connection_to(node).write_half(&question()))
            .collect();
        let answers = nodes.iter().zip(written).map(|(node, written)| {
            let connection = self.connection_to(node);
            let answer = connection.read_half(&question(), &written?, None);
            View::read(answer, node)
        });
        answers.collect()
    }

    pub(super) fn next_turn(&mut self) -> u64 {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }
}

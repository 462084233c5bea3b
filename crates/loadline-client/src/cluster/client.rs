//! The client of a cluster on tokio: a multiplexed connection to each node that is used.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout, timeout_at};

use super::batch::{Batch, Group, Next};
use super::builder::{Builder, Plain};
use super::plan::{Encoded, Plan};
use super::replies::{Collected, Outcome};
use super::scan::{Cursor, Page, Visit};
use super::slot_of;
use super::survey::Throttle;
use super::topology::{Node, Topology};
use crate::conn::shell::current_runtime;
use crate::multiplexed::{Connection, Dedicated, Running};
use crate::request::Failed;
use crate::{Config, Error, FromReply, Request, Scan, meter};

/// A cluster that any number of tasks share; a clone is the same. See the [module](super).
///
/// Its connections live on the runtime on which it was opened. When that runtime ends, requests fail with
/// [`Error::Closed`].
#[derive(Clone, Debug)]
pub struct Cluster {
    pub(super) shared: Arc<Hub>,
}

#[derive(Debug)]
pub(super) struct Hub {
    pub(super) plain: Plain,
    topology: Mutex<Arc<Topology>>,
    connections: Mutex<HashMap<Node, Connection>>,
    /// Counts up, so that nodes are used in turn.
    turn: AtomicU64,
    /// When the map was last asked for. Locked while it is being asked for.
    pub(super) asked: tokio::sync::Mutex<Throttle>,
    /// Whether a task is about to ask for the map.
    pub(super) asking: AtomicBool,
    /// Number of requests that wait for a node.
    pub(super) waiting: AtomicUsize,
    /// Whether a task asks for the map as long as there are any.
    pub(super) watching: AtomicBool,
    /// Wakes requests when a slot has another master.
    pub(super) changed: Notify,
    /// The runtime of all connections. Handles may be used on other runtimes, which may end before.
    pub(super) runtime: runtime::Handle,
}

impl Builder {
    /// Asks the nodes for the map of slots until one answers. Needs a runtime of tokio with its drivers for I/O and
    /// time.
    ///
    /// # Errors
    /// The reason why none answered. Nothing was executed.
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub async fn open(self) -> Result<Cluster, Error> {
        Cluster::connect(self.plain()).await
    }
}

impl Cluster {
    /// Opens a cluster; see [`Builder::from_url`] for the URL, and [`Builder`] for options.
    ///
    /// # Errors
    /// [`Error::Url`], or the reason why no node gave the map of slots.
    pub async fn open(url: &str) -> Result<Self, Error> {
        Builder::from_url(url)?.open().await
    }

    async fn connect(plain: Plain) -> Result<Self, Error> {
        let shared = Arc::new(Hub {
            plain,
            topology: Mutex::new(Arc::new(Topology::empty())),
            connections: Mutex::new(HashMap::new()),
            turn: AtomicU64::new(0),
            asked: tokio::sync::Mutex::default(),
            asking: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            watching: AtomicBool::new(false),
            changed: Notify::new(),
            runtime: current_runtime()?,
        });
        shared.refresh().await?;
        Ok(Self { shared })
    }

    /// Runs a command, or several as a pipeline, each on the node that serves its keys.
    ///
    /// `MGET`, `MSET`, `DEL`, `UNLINK`, `EXISTS` and `TOUCH` with keys in different slots are executed in parts, and
    /// not atomically. Any other command or transaction needs its keys in one slot, and is refused with
    /// [`Error::Usage`] otherwise. The commands of a pipeline go to their nodes at the same time; commands on one
    /// slot are executed in their order.
    pub async fn run<Q: Request>(&self, request: Q) -> Q::Output {
        let hub = &self.shared;
        let plan = |request| Plan::new(request, &hub.topology(), hub.turn());
        let mut connect = |node: &Node| hub.connection(node);
        hub.run(request, &plan, &mut connect).await
    }

    node_methods!();

    #[doc = include_str!("scan_page.md")]
    ///
    /// ```no_run
    /// # async fn example(cluster: loadline_client::cluster::Cluster) -> Result<(), loadline_client::Error> {
    /// use loadline_client::cluster::Cursor;
    ///
    /// let mut cursor = Cursor::start();
    /// while !cursor.is_finished() {
    ///     let keys: Vec<String> = cluster.scan_page(&mut cursor, "user:*", 1000).await?;
    ///     println!("{keys:?}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    #[doc = include_str!("scan_page_errors.md")]
    pub async fn scan_page<T: FromReply>(
        &self,
        cursor: &mut Cursor,
        pattern: impl AsRef<[u8]>,
        count: u64,
    ) -> Result<Vec<T>, Error> {
        let pattern = Bytes::copy_from_slice(pattern.as_ref());
        let scan = Scan::<T>::keys().matching(pattern).count(count);
        self.page_of_keys(cursor, &scan).await
    }

    pub(crate) async fn page_of_keys<T: FromReply>(
        &self,
        cursor: &mut Cursor,
        scan: &Scan<T>,
    ) -> Result<Vec<T>, Error> {
        if cursor.is_fruitless() {
            self.shared.refresh_until(None).await;
        }
        let Some(step) = cursor.step(&self.shared.topology())? else {
            return Ok(Vec::new());
        };
        sleep(step.pause).await;
        let page = self.page(&step, scan).await;
        if page.is_err() {
            self.shared.refresh_until(None).await;
        }
        cursor.answered(step, page)
    }

    async fn page<T: FromReply>(&self, step: &Visit, scan: &Scan<T>) -> Result<Page, Error> {
        let connection = self.shared.connection(&step.node);
        Page::of(connection.run(step.question(scan)).await?)
    }

    /// Opens a connection to one node, for commands about that node, such as `INFO` and `CONFIG`. It follows no
    /// redirections.
    ///
    /// # Errors
    /// Fails if the single connection attempt fails.
    pub async fn connection(&self, node: &Node) -> Result<Connection, Error> {
        Connection::open(Arc::new(self.shared.plain.server(node))).await
    }

    /// Opens a connection with one owner to the master that serves a key, for commands that block or that change the
    /// state of the connection, such as `BLPOP` and `WATCH`. It follows no redirections: after an [`Error::Server`]
    /// with the code `MOVED`, open another.
    ///
    /// # Errors
    /// [`Error::Cluster`] if no node serves the key. Fails if the single connection attempt fails.
    pub async fn dedicated(&self, key: impl AsRef<[u8]>) -> Result<Dedicated, Error> {
        let slot = slot_of(key.as_ref());
        let master = self
            .master_of(key)
            .ok_or_else(|| super::batch::unserved(slot))?;
        Dedicated::open(Arc::new(self.shared.plain.server(&master))).await
    }

    /// The options of its connections.
    pub(crate) fn plain(&self) -> &Plain {
        &self.shared.plain
    }

    /// Counts up, so that nodes are used in turn.
    pub(crate) fn turn(&self) -> u64 {
        self.shared.turn()
    }

    /// The configuration of a connection to a node as to a single server.
    pub(crate) fn config_of(&self, node: &Node) -> Config {
        self.shared.plain.server(node)
    }

    /// Returns whether there is a connection to any node, as far as is known.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        let connections = lock(&self.shared.connections);
        connections.values().any(Connection::is_connected)
    }

    /// Returns the number of open connections that all tasks share. Those of [`Pools`](super::Pools) and others with one owner are
    /// not counted.
    #[must_use]
    pub fn connections(&self) -> usize {
        let connections = lock(&self.shared.connections);
        let open = connections.values().filter(|one| one.is_connected());
        open.count()
    }

    /// Asks some nodes for the map of slots. This happens automatically when a redirection or a lost node shows that
    /// the map is outdated.
    ///
    /// # Errors
    /// The reason why no node answered.
    pub async fn refresh(&self) -> Result<(), Error> {
        self.shared.refresh().await
    }

    fn map(&self) -> Arc<Topology> {
        self.shared.topology()
    }

    /// The current map.
    pub(crate) fn topology(&self) -> Topology {
        Topology::clone(&self.shared.topology())
    }
}

impl Hub {
    /// Cuts a request by `plan` and sends it on the connections of `connect`. Only what depends on the type of the request
    /// is compiled for each.
    pub(super) async fn run<Q: Request>(
        self: &Arc<Self>,
        request: Q,
        plan: &(dyn Fn(Encoded) -> Result<Plan, Error> + Sync),
        connect: &mut (dyn FnMut(&Node) -> Connection + Send),
    ) -> Q::Output {
        let mut second_try = false;
        loop {
            // Nothing of the request is borrowed while it waits, so it need not be `Sync`.
            let plan = Encoded::of(&request, second_try).and_then(plan);
            let outcomes = match plan {
                Ok(plan) => self.execute(&plan, connect).await,
                Err(error) => return request.decode(&mut Failed(error)),
            };
            let output = request.decode(&mut Collected::new(outcomes));
            if second_try || !request.wants_second_try(&output) {
                return output;
            }
            second_try = true;
        }
    }

    /// Sends a request in rounds until all of its commands are answered or given up.
    async fn execute(
        self: &Arc<Self>,
        plan: &Plan,
        connect: &mut (dyn FnMut(&Node) -> Connection + Send),
    ) -> Vec<Outcome> {
        let mut batch = Batch::new(plan, &self.plain.config, Instant::now());
        let mut waits = None;
        loop {
            let now = Instant::now();
            let groups = batch.groups(&self.topology(), self.plain.from, self.turn(), now);
            let connections = groups.iter().map(|group| connect(&group.node)).collect();
            let outcomes = self.send(&groups, connections, batch.limit()).await;
            for (group, outcomes) in groups.iter().zip(outcomes) {
                batch.settle(group, outcomes);
            }
            self.learn(batch.take_moved());
            let troubled = batch.is_troubled();
            match batch.next(Instant::now()) {
                Next::Finish => {
                    if troubled {
                        self.refresh_soon();
                    }
                    return batch.finish();
                }
                Next::Again(pause) => {
                    let changed = self.changed.notified();
                    if troubled {
                        waits.get_or_insert_with(|| self.wait_for_node());
                        self.refresh_until(batch.deadline()).await;
                        self.watch();
                    }
                    if !pause.is_zero() {
                        // Another master ends the pause.
                        let _ = timeout(pause, changed).await;
                    }
                }
            }
        }
    }

    /// Sends each group on the connection to its node, and waits for all of them until the limit.
    async fn send(
        &self,
        groups: &[Group<'_>],
        connections: Vec<Connection>,
        limit: Option<Instant>,
    ) -> Vec<Vec<Outcome>> {
        let mut runs: Vec<Running<'_, &Group<'_>>> = connections
            .iter()
            .zip(groups)
            .map(|(connection, group)| connection.run(group))
            .collect();
        let mut outcomes: Vec<Option<Vec<Outcome>>> = groups.iter().map(|_| None).collect();
        let all = all(&mut runs, &mut outcomes);
        match limit {
            None => all.await,
            // Outcomes that did not arrive in time are missing below.
            Some(limit) => drop(timeout_at(limit.into(), all).await),
        }
        let after = self.plain.config.response_timeout.unwrap_or(Duration::MAX);
        let missing = |group: &Group<'_>, run: &mut Running<'_, &Group<'_>>| {
            let late = Error::Timeout {
                maybe_executed: run.withdraw(),
                after,
            };
            vec![Err(late); group.commands()]
        };
        let parts = outcomes.into_iter().zip(groups).zip(&mut runs);
        parts
            .map(|((outcome, group), run)| outcome.unwrap_or_else(|| missing(group, run)))
            .collect()
    }

    /// The connection to a node, which is started if there is none.
    pub(super) fn connection(&self, node: &Node) -> Connection {
        let mut connections = lock(&self.connections);
        if let Some(connection) = connections.get(node) {
            return connection.clone();
        }
        let connection = Connection::to_node(self.plain.node(node), true, &self.runtime);
        connections.insert(node.clone(), connection.clone());
        connection
    }

    /// Whether there is an open connection to a node.
    pub(super) fn is_connected(&self, node: &Node) -> bool {
        lock(&self.connections)
            .get(node)
            .is_some_and(Connection::is_connected)
    }

    pub(super) fn topology(&self) -> Arc<Topology> {
        Arc::clone(&lock(&self.topology))
    }

    /// Installs a new map. Connections to nodes that are not on it are closed.
    pub(super) fn install(&self, mut topology: Topology) {
        topology.prefer(&self.plain.near);
        let topology = Arc::new(topology);
        let before = std::mem::replace(&mut *lock(&self.topology), Arc::clone(&topology));
        if !topology.has_masters_of(&before) {
            self.changed.notify_waiters();
        }
        lock(&self.connections).retain(|node, _| topology.nodes().any(|known| known == node));
    }

    /// Applies redirections at once, and asks for the whole map later.
    fn learn(self: &Arc<Self>, moved: Vec<(u16, Node)>) {
        if moved.is_empty() {
            return;
        }
        let mut topology = lock(&self.topology);
        for (slot, master) in moved {
            meter::moved(&self.plain.config, slot, &master);
            Arc::make_mut(&mut topology).moved(slot, master);
        }
        drop(topology);
        self.refresh_soon();
    }

    pub(super) fn turn(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }
}

/// Polls all requests until each has its output. They are sent in their order.
async fn all<Q: Request>(runs: &mut [Running<'_, Q>], outputs: &mut [Option<Q::Output>]) {
    poll_fn(|cx| {
        let mut pending = false;
        for (run, output) in runs.iter_mut().zip(&mut *outputs) {
            if output.is_none() {
                match Pin::new(run).poll(cx) {
                    Poll::Ready(done) => *output = Some(done),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
}

/// The guarded values are complete whenever the locks are free.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! A pool of connections to each master of a cluster.

use std::collections::HashMap;
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout;

use super::client::{Cluster, Hub};
use super::slot_connection::SlotConnection;
use super::slot_of;
use super::topology::Node;
use crate::Error;
use crate::multiplexed::Dedicated;
use crate::pool::{Borrowed, Limits, Pool, Status};

/// Interval at which the pools are compared with the map of slots.
const KEEP_EVERY: Duration = Duration::from_millis(100);

/// A pool of connections to each master of a cluster, each of which is lent to one borrower at a time; a clone is the same pools.
///
/// Each master has a [`Pool`] of its own with the same [`Limits`]. A replica that takes over gets one, which is filled to its
/// minimum, and that of the lost master ends. Borrowers that wait for the lost master then join the queue for the new one, where
/// callers that come at that moment can be ahead of them; otherwise borrowers are served in the order in which they asked.
///
/// ```no_run
/// use loadline_client::cluster::Cluster;
/// use loadline_client::commands::{get, incr_by};
/// use loadline_client::pool::Limits;
///
/// # async fn example() -> Result<(), loadline_client::Error> {
/// let cluster = Cluster::open("cluster://10.0.0.1:7000").await?;
/// let pools = cluster.pools(Limits::default()).await?;
/// let mut connection = pools.get("{user:7}").await?;
/// connection.run(incr_by("{user:7}:visits", 1)).await?;
/// // WATCH needs the connection itself, which follows no redirections.
/// let dedicated = connection.dedicated();
/// let done = dedicated.transaction("{user:7}:visits", 10, |connection| async move {
///     let visits: i64 = connection.run(get("{user:7}:visits")).await?;
///     Ok(incr_by("{user:7}:visits", visits))
/// });
/// done.await??;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Pools {
    shared: Arc<PoolsState>,
}

#[derive(Debug)]
struct PoolsState {
    hub: Arc<Hub>,
    limits: Limits,
    of: Mutex<HashMap<Node, Pool>>,
    /// Notified when a connection could not be opened.
    failed: Arc<Notify>,
}

/// A borrowed connection to the master of a slot. It goes back to its pool when this is dropped, and is replaced if it broke.
///
/// Requests follow their slot as on any [`SlotConnection`]: after a redirection, they continue on a new connection to the other
/// master, which belongs to no pool and is closed when this is dropped.
#[derive(Debug)]
pub struct Lent {
    following: SlotConnection,
    borrowed: Borrowed,
}

impl Cluster {
    /// Opens a pool for each master, and its first connections. The map of slots decides which masters there are.
    ///
    /// # Errors
    /// [`Error::Usage`] for limits that contradict each other. Fails if the single attempt to open a connection fails.
    pub async fn pools(&self, limits: Limits) -> Result<Pools, Error> {
        let shared = Arc::new(PoolsState {
            hub: Arc::clone(&self.shared),
            limits,
            of: Mutex::default(),
            failed: Arc::default(),
        });
        for master in self.masters() {
            let config = self.shared.plain.node(&master);
            let pool = Pool::open(config, limits, &shared.failed).await?;
            shared.lock().insert(master, pool);
        }
        let runtime = &self.shared.runtime;
        runtime.spawn(keep(Arc::downgrade(&shared), Arc::clone(&shared.failed)));
        Ok(Pools { shared })
    }
}

impl Pools {
    /// Borrows a connection to the master that serves a key, and waits for one if all are lent. While it waits, it goes to the pool
    /// of another master if that takes over.
    ///
    /// A future that is dropped gives up its place in the queue. A connection that was on its way goes back.
    ///
    /// # Errors
    /// [`Error::Pool`] if none was free in time, with the state of the pool of the master; [`Error::Cluster`] if no node serves the
    /// key; [`Error::Closed`] if the runtime of the cluster has ended.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Lent, Error> {
        let (hub, slot) = (&self.shared.hub, slot_of(key.as_ref()));
        let begun = Instant::now();
        loop {
            let mut changed = pin!(hub.changed.notified());
            let map = hub.topology();
            let shard = map.shard(slot);
            let master = &shard.ok_or_else(|| super::batch::unserved(slot))?.master;
            let pool = self.shared.pool(master);
            let left = self.shared.limits.wait.saturating_sub(begun.elapsed());
            let mut borrowed = pin!(pool.get_within(left));
            let borrowed = poll_fn(|cx| match borrowed.as_mut().poll(cx) {
                Poll::Ready(borrowed) => Poll::Ready(Some(borrowed)),
                Poll::Pending => changed.as_mut().poll(cx).map(|()| None),
            });
            let Some(borrowed) = borrowed.await else {
                continue;
            };
            let borrowed = borrowed?;
            let following = SlotConnection {
                hub: Arc::clone(hub),
                slot,
                open: Some((master.clone(), borrowed.connection())),
            };
            return Ok(Lent {
                following,
                borrowed,
            });
        }
    }

    /// Returns the state of the pool of the master that serves a key, which is empty if there is none.
    #[must_use]
    pub fn status_of(&self, key: impl AsRef<[u8]>) -> Status {
        let map = self.shared.hub.topology();
        let shard = map.shard(slot_of(key.as_ref()));
        let pools = self.shared.lock();
        let pool = shard.and_then(|shard| pools.get(&shard.master));
        pool.map(Pool::status).unwrap_or_default()
    }

    /// Returns the state of all pools together.
    #[must_use]
    pub fn status(&self) -> Status {
        let pools = self.shared.lock();
        let all = pools.values().map(Pool::status);
        all.fold(Status::default(), Status::with)
    }
}

impl PoolsState {
    fn lock(&self) -> MutexGuard<'_, HashMap<Node, Pool>> {
        // No panic can leave it half written.
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pool of a master, which is started if there is none.
    fn pool(&self, master: &Node) -> Pool {
        let mut pools = self.lock();
        if let Some(pool) = pools.get(master) {
            return pool.clone();
        }
        let config = self.hub.plain.node(master);
        let pool = Pool::start(config, self.limits, &self.hub.runtime, &self.failed);
        pools.insert(master.clone(), pool.clone());
        pool
    }

    /// Starts the pools of new masters, and ends those of lost ones.
    fn follow(&self) {
        let masters = self.hub.topology().masters();
        for master in &masters {
            self.pool(master);
        }
        self.lock().retain(|node, _| masters.contains(node));
    }

    /// Whether borrowers wait for a master to which connections are still to be opened.
    fn is_stuck(&self) -> bool {
        let pools = self.lock();
        let mut statuses = pools.values().map(Pool::status);
        statuses
            .any(|status| status.waiting > 0 && (status.opening > 0 || status.last_error.is_some()))
    }
}

/// Keeps a pool for each master of the map, until the pools are gone. Each failure to open a connection is a reason to ask for the
/// map. Its rate falls with the pauses of the pool, unless borrowers wait.
async fn keep(pools: Weak<PoolsState>, failed: Arc<Notify>) {
    let Some(hub) = pools.upgrade().map(|pools| Arc::clone(&pools.hub)) else {
        return;
    };
    let mut waits = None;
    while let Some(pools) = pools.upgrade() {
        pools.follow();
        if !pools.is_stuck() {
            waits = None;
        } else if waits.is_none() {
            waits = Some(hub.wait_for_node());
            hub.watch();
        }
        drop(pools);
        if timeout(KEEP_EVERY, failed.notified()).await.is_ok() {
            hub.refresh_until(None).await;
        }
    }
}

impl Lent {
    /// The borrowed connection itself, for commands that block or that change its state, such as `BLPOP` and `WATCH`. It follows no
    /// redirections: after an [`Error::Server`] with the code `MOVED`, call [`Cluster::refresh`] and borrow another.
    pub fn dedicated(&mut self) -> &mut Dedicated {
        &mut self.borrowed
    }
}

impl Deref for Lent {
    type Target = SlotConnection;

    fn deref(&self) -> &SlotConnection {
        &self.following
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut SlotConnection {
        &mut self.following
    }
}

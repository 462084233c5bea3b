//! The pool of the writers, with the order in which its callers are served and the connections that it leaves behind.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use loadline_client::cluster::slot_of;
use loadline_client::{Error, cmd};
use loadline_measure::failover::Turns;

use super::LOOK_EVERY;
use crate::systems::client::{LentConnection, Pooled, SharedConnection};
use crate::systems::named_clients;

/// Time limit for the server to notice connections that the client has closed.
const PATIENCE: Duration = Duration::from_secs(1);

/// A pool, or one for each master of a cluster. A clone is the same.
#[derive(Debug, Clone)]
pub(super) struct Lender {
    pool: Pooled,
    /// The order of the calls of each slot.
    turns: Rc<RefCell<BTreeMap<u16, Turns>>>,
}

/// A call that waits for a connection.
struct Waiting {
    turns: Rc<RefCell<BTreeMap<u16, Turns>>>,
    slot: u16,
    number: u64,
}

impl Lender {
    pub(super) fn new(pool: Pooled) -> Self {
        Self {
            pool,
            turns: Rc::default(),
        }
    }

    /// Borrows a connection to the server of a key, and waits for one if all are lent.
    ///
    /// # Errors
    /// Those of [`Pooled::get`].
    pub(super) async fn get(&self, key: &str) -> Result<LentConnection, Error> {
        let others_wait = self.pool.is_waited_for(key);
        let slot = slot_of(key.as_bytes());
        in_turn(&self.turns, slot, others_wait, self.pool.get(key)).await
    }

    /// Notes that a connection was not to the master of its key.
    pub(super) async fn was_moved(&self) {
        if let Pooled::Cluster(cluster, _) = &self.pool {
            // Without an answer, the map stays as it is, and so does the error of the caller.
            let _ = cluster.refresh().await;
        }
    }

    /// One of `tags` for each pool.
    pub(super) fn tag_of_each<'t>(&self, tags: &'t [String]) -> Vec<&'t str> {
        let mut seen = BTreeSet::new();
        let tags = tags.iter().map(String::as_str);
        tags.filter(|tag| seen.insert(self.pool.master_of(tag)))
            .collect()
    }

    /// The number of calls that waited, and of those that were served out of turn.
    pub(super) fn counts(&self) -> (u64, u64) {
        let turns = self.turns.borrow();
        turns.values().fold((0, 0), |(waited, overtaken), turns| {
            let (more_waited, more_overtaken) = turns.counts();
            (waited + more_waited, overtaken + more_overtaken)
        })
    }

    /// The connections that the servers have under the client name `name` and the pool does not count; `None` if they do
    /// not report them. A connection that was just closed is given time to end.
    pub(super) async fn leaked(&self, servers: &SharedConnection, name: &str) -> Option<u64> {
        let begun = Instant::now();
        loop {
            let named = named(servers, name).await?;
            let leaked = named.saturating_sub(self.pool.connections() as u64);
            if leaked == 0 || begun.elapsed() >= PATIENCE {
                return Some(leaked);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The connections that the servers have under a client name; `None` if they do not report them.
async fn named(servers: &SharedConnection, name: &str) -> Option<u64> {
    let list = || cmd::<String>("CLIENT").arg("LIST");
    let cluster = match servers {
        SharedConnection::Server(server) => {
            return Some(named_clients(&server.run(list()).await.ok()?, name));
        }
        SharedConnection::Cluster(cluster) => cluster,
    };
    let mut all = 0;
    for node in cluster.nodes() {
        // Those of a node that is gone have ended with it.
        if let Ok(node) = cluster.connection(&node).await {
            all += named_clients(&node.run(list()).await.ok()?, name);
        }
    }
    Some(all)
}

/// Awaits a call for a connection, and notes whether it is served in its turn among those of its slot.
async fn in_turn<T>(
    turns: &Rc<RefCell<BTreeMap<u16, Turns>>>,
    slot: u16,
    others_wait: bool,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut call = pin!(call);
    let at_once = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
    if let Poll::Ready(got) = at_once {
        if got.is_ok() {
            let mut turns = turns.borrow_mut();
            turns.entry(slot).or_default().served_at_once(others_wait);
        }
        return got;
    }
    let number = turns.borrow_mut().entry(slot).or_default().wait();
    let waiting = Waiting {
        turns: Rc::clone(turns),
        slot,
        number,
    };
    let got = call.await?;
    waiting.end(Turns::served);
    Ok(got)
}

impl Waiting {
    fn end(&self, how: impl FnOnce(&mut Turns, u64)) {
        if let Some(turns) = self.turns.borrow_mut().get_mut(&self.slot) {
            how(turns, self.number);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.end(Turns::gave_up);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::process::{Child, Command, Stdio};

    use loadline_client::pool::Limits;
    use loadline_client::{Address, Client};
    use tokio::task::{LocalSet, spawn_local};

    use super::*;
    use crate::systems::client::Connector;

    const NAME: &str = "loadline:test:pool";

    struct Redis(Child);

    impl Drop for Redis {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Runs a test with connections to a redis-server.
    fn with_redis<F: Future>(test: impl FnOnce(Connector) -> F) {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("redis.sock");
        let server = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket", "redis.sock"])
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("these tests need redis-server; `cargo xtask test --install` installs it");
        let mut server = Redis(server);
        while UnixStream::connect(&socket).is_err() {
            assert!(server.0.try_wait().unwrap().is_none(), "it has ended");
            std::thread::yield_now();
        }
        let client = Client::builder().address(Address::Unix(socket)).build();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        LocalSet::new().block_on(&runtime.unwrap(), test(Connector::Server(client)));
    }

    async fn lender(connector: &Connector, max: usize) -> Lender {
        let limits = Limits {
            min: 1,
            max,
            ..Limits::default()
        };
        Lender::new(connector.pool(limits, NAME.into()).await.unwrap())
    }

    /// Returns once `count` calls have waited.
    async fn waited(lender: &Lender, count: u64) {
        while lender.counts().0 < count {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn pool_serves_its_callers_in_turn() {
        with_redis(async |connector| {
            let lender = lender(&connector, 2).await;
            let calls = (0..20).map(|_| {
                let lender = lender.clone();
                spawn_local(async move {
                    let mut connection = lender.get("key").await.unwrap();
                    connection.run(cmd::<String>("PING")).await.unwrap();
                })
            });
            for call in calls.collect::<Vec<_>>() {
                call.await.unwrap();
            }
            assert_eq!(lender.counts(), (19, 0));
        });
    }

    #[test]
    fn call_that_is_served_before_an_earlier_one_is_out_of_turn() {
        with_redis(async |connector| {
            let first = lender(&connector, 1).await;
            // Another pool with the same order, of which a connection comes back first.
            let second = Lender {
                turns: Rc::clone(&first.turns),
                ..lender(&connector, 1).await
            };
            let held = [
                first.get("key").await.unwrap(),
                second.get("key").await.unwrap(),
            ];
            let call = |lender: &Lender| {
                let lender = lender.clone();
                spawn_local(async move { lender.get("key").await.unwrap() })
            };
            let earlier = call(&first);
            waited(&first, 1).await;
            let later = call(&second);
            waited(&first, 2).await;
            let [of_first, of_second] = held;
            drop(of_second);
            drop(later.await.unwrap());
            assert_eq!(first.counts(), (2, 1));
            drop(of_first);
            drop(earlier.await.unwrap());
            assert_eq!(first.counts(), (2, 1));
        });
    }

    #[test]
    fn connection_that_the_pool_does_not_count_is_leaked() {
        with_redis(async |connector| {
            let server = connector.shared().await.unwrap();
            let pool = lender(&connector, 2).await;
            let lent = pool.get("key").await.unwrap();
            assert_eq!(pool.leaked(&server, NAME).await, Some(0));
            let other = lender(&connector, 1).await;
            assert_eq!(pool.leaked(&server, NAME).await, Some(1));
            // Its connection ends with it.
            drop(other);
            assert_eq!(pool.leaked(&server, NAME).await, Some(0));
            drop(lent);
        });
    }
}

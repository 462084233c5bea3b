//! The pool of the writers, with the order in which its callers are served and the connections that it leaves behind.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use loadline_client::pool::{Borrowed, Pool};
use loadline_client::{Error, cmd};
use loadline_measure::failover::Turns;

use super::LOOK_EVERY;
use crate::systems::client::SharedConnection;
use crate::systems::named_clients;

/// Time limit for the server to notice connections that the client has closed.
const PATIENCE: Duration = Duration::from_secs(1);

/// A pool. A clone is the same.
#[derive(Debug, Clone)]
pub(super) struct Lender {
    pool: Pool,
    turns: Rc<RefCell<Turns>>,
}

/// A call that waits for a connection.
struct Waiting {
    turns: Rc<RefCell<Turns>>,
    number: u64,
}

impl Lender {
    pub(super) fn new(pool: Pool) -> Self {
        Self {
            pool,
            turns: Rc::default(),
        }
    }

    /// Borrows a connection, and waits for one if all are lent.
    ///
    /// # Errors
    /// Those of [`Pool::get`].
    pub(super) async fn get(&self) -> Result<Borrowed, Error> {
        let others_wait = self.pool.status().waiting > 0;
        in_turn(&self.turns, others_wait, self.pool.get()).await
    }

    /// The number of calls that waited, and of those that were served out of turn.
    pub(super) fn counts(&self) -> (u64, u64) {
        self.turns.borrow().counts()
    }

    /// The connections that a server has under the client name `name` and the pool does not count; `None` if the server does
    /// not report them. A connection that was just closed is given time to end.
    pub(super) async fn leaked(&self, server: &SharedConnection, name: &str) -> Option<u64> {
        let begun = Instant::now();
        loop {
            let list = server.run(cmd::<String>("CLIENT").arg("LIST")).await.ok()?;
            let status = self.pool.status();
            let known = status.free + status.in_use + status.opening;
            let leaked = named_clients(&list, name).saturating_sub(known as u64);
            if leaked == 0 || begun.elapsed() >= PATIENCE {
                return Some(leaked);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Awaits a call for a connection, and notes whether it is served in its turn.
async fn in_turn<T>(
    turns: &Rc<RefCell<Turns>>,
    others_wait: bool,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut call = pin!(call);
    let at_once = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
    if let Poll::Ready(got) = at_once {
        if got.is_ok() {
            turns.borrow_mut().served_at_once(others_wait);
        }
        return got;
    }
    let waiting = Waiting {
        number: turns.borrow_mut().wait(),
        turns: Rc::clone(turns),
    };
    let got = call.await?;
    waiting.turns.borrow_mut().served(waiting.number);
    Ok(got)
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.turns.borrow_mut().gave_up(self.number);
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
        Lender::new(connector.pool(limits, NAME.into()).await.unwrap().unwrap())
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
                    let mut connection = lender.get().await.unwrap();
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
            let held = [first.get().await.unwrap(), second.get().await.unwrap()];
            let call = |lender: &Lender| {
                let lender = lender.clone();
                spawn_local(async move { lender.get().await.unwrap() })
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
            let lent = pool.get().await.unwrap();
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

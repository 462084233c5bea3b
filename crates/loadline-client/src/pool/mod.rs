//! A pool of connections, each of which is lent to one borrower at a time.
//!
//! A multiplexed connection already carries any number of tasks. A pool is for commands that need a connection of
//! their own, such as `WATCH` and `BLPOP`, and for large transfers that others should not wait behind. It holds
//! at least [`Limits::min`] connections, opens more under load up to [`Limits::max`], and closes
//! connections that were idle for [`Limits::idle`]. Borrowers are served in the order in which they asked.
//!
//! Each borrower gets a connection in the state of a new one. A connection that comes back with watched
//! keys, an open transaction, another database or a subscription is reset (`RESET` and a new handshake, one
//! round trip in the background). One with an unanswered blocking command, such as a `BLPOP` whose future
//! was dropped, or one whose reset fails, is closed and replaced.
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! use loadline_client::Client;
//! use loadline_client::commands::{get, set};
//! use loadline_client::pool::Limits;
//!
//! let url = "redis://localhost";
//! # let url = &include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/server.rs"));
//! let pool = Client::open(url)?.pool(Limits::default()).await?;
//! let mut connection = pool.get().await?;
//! connection.run(set("key", "value")).await?;
//! let value: String = connection.run(get("key")).await?;
//! assert_eq!(value, "value");
//! drop(connection); // It goes back to the pool.
//! # Ok::<(), loadline_client::Error>(())
//! # }).unwrap();
//! ```

mod core;
mod reset;
mod status;

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use crate::conn::backoff::Backoff;
use crate::conn::core::Residue;
use crate::conn::shell::{self, current_runtime};
use crate::multiplexed::Dedicated;
use crate::{Config, Error};
use core::Books;
pub use status::Status;

/// Interval at which the pool looks for connections that are broken, missing or idle.
const KEEP_EVERY: Duration = Duration::from_millis(100);

/// The size and the time limits of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of connections that are kept, used or not. Default 2.
    pub min: usize,
    /// The maximum number of connections, including those that are being opened. Default 10.
    pub max: usize,
    /// The longest that a borrower waits. Default 5 s.
    pub wait: Duration,
    /// The time after which an idle connection is closed if there are more than `min`. Default 30 s.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min: 2,
            max: 10,
            wait: Duration::from_secs(5),
            idle: Duration::from_secs(30),
        }
    }
}

/// The pool has no runtime any more.
const CLOSED: Error = Error::Closed {
    maybe_executed: false,
};

/// A pool of connections; a clone is the same pool. See the [module](self).
///
/// It ends with its last clone. Connections that are still lent are closed when they come back.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<PoolState>,
}

/// A borrowed connection. It goes back to the pool when this is dropped, and is replaced if it broke.
#[derive(Debug)]
pub struct Borrowed {
    /// Always there until it is dropped.
    connection: Option<Dedicated>,
    pool: Weak<PoolState>,
}

#[derive(Debug)]
struct PoolState {
    config: Arc<Config>,
    wait: Duration,
    books: Mutex<Books<Dedicated, oneshot::Sender<Borrowed>>>,
    /// Wakes the keeper when a connection is wanted.
    wanted: Notify,
    /// Notified when a connection could not be opened.
    failed: Arc<Notify>,
    /// Where connections are reset.
    runtime: Handle,
}

impl Pool {
    /// Opens a pool and its first connections. `failed` is notified when a later one could not be opened.
    pub(crate) async fn open(
        config: Arc<Config>,
        limits: Limits,
        failed: &Arc<Notify>,
    ) -> Result<Self, Error> {
        if limits.max == 0 || limits.min > limits.max {
            return Err(Error::Usage(
                "invalid limits of a pool: `max` must be at least 1 and at least `min`",
            ));
        }
        let pool = Self::new(config, limits, current_runtime()?, Arc::clone(failed));
        let shared = &pool.shared;
        // The first ones are opened here, so that the caller learns at once that there is no server.
        let first = shared.lock().open_more();
        for _ in 0..first {
            match Dedicated::open(Arc::clone(&shared.config)).await {
                Ok(connection) => shared.opened(connection),
                Err(error) => {
                    shared.lock().failed(error.to_string());
                    return Err(error);
                }
            }
        }
        tokio::spawn(keep(Keeper(Arc::downgrade(shared))));
        Ok(pool)
    }

    /// A pool without connections, which opens its first ones in the background.
    pub(crate) fn start(
        config: Arc<Config>,
        limits: Limits,
        runtime: &Handle,
        failed: &Arc<Notify>,
    ) -> Self {
        let pool = Self::new(config, limits, runtime.clone(), Arc::clone(failed));
        runtime.spawn(keep(Keeper(Arc::downgrade(&pool.shared))));
        pool
    }

    fn new(config: Arc<Config>, limits: Limits, runtime: Handle, failed: Arc<Notify>) -> Self {
        let shared = Arc::new(PoolState {
            config,
            wait: limits.wait,
            books: Mutex::new(Books::new(limits)),
            wanted: Notify::new(),
            failed,
            runtime,
        });
        Self { shared }
    }

    /// Borrows a connection, and waits for one if all are lent.
    ///
    /// A future that is dropped gives up its place in the queue. A connection that was on its way goes back.
    ///
    /// # Errors
    /// [`Error::Pool`] if none was free in time, with the state of the pool; [`Error::Closed`] if the runtime on
    /// which the pool was opened has ended.
    pub async fn get(&self) -> Result<Borrowed, Error> {
        self.get_within(self.shared.wait).await
    }

    /// As [`Pool::get`], with a limit of the caller.
    pub(crate) async fn get_within(&self, wait: Duration) -> Result<Borrowed, Error> {
        let receiver = {
            let mut books = self.shared.lock();
            loop {
                match books.borrow() {
                    // It may have broken since the last look.
                    Some(connection) if !connection.is_connected() => books.lost(),
                    Some(connection) => {
                        drop(books);
                        return Ok(self.shared.lend(connection));
                    }
                    None => break,
                }
            }
            if books.is_closed() {
                return Err(CLOSED);
            }
            let (sender, receiver) = oneshot::channel();
            books.wait(sender);
            receiver
        };
        self.shared.wanted.notify_one();
        match tokio::time::timeout(wait, receiver).await {
            Ok(Ok(borrowed)) => Ok(borrowed),
            // The pool was closed meanwhile.
            Ok(Err(_)) => Err(CLOSED),
            Err(_) => {
                let mut books = self.shared.lock();
                let status = books.status();
                books.forget(oneshot::Sender::is_closed);
                Err(Error::Pool {
                    waited: wait,
                    status,
                })
            }
        }
    }

    /// Returns the state of the pool.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.lock().status()
    }
}

impl PoolState {
    fn lock(&self) -> MutexGuard<'_, Books<Dedicated, oneshot::Sender<Borrowed>>> {
        // No panic can leave the books half written.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lend(self: &Arc<Self>, connection: Dedicated) -> Borrowed {
        Borrowed {
            connection: Some(connection),
            pool: Arc::downgrade(self),
        }
    }

    /// Takes back a connection in the state of a new one.
    fn give_back(self: &Arc<Self>, connection: Dedicated) {
        let next = self.lock().give_back(connection, Instant::now());
        self.serve(next);
    }

    /// A connection that was lent is gone.
    fn lost(&self) {
        self.lock().lost();
        self.wanted.notify_one();
    }

    fn opened(self: &Arc<Self>, connection: Dedicated) {
        let next = self.lock().opened(connection, Instant::now());
        self.serve(next);
    }

    /// Hands a connection to the borrower that waits. If that one has gone, the connection comes back by being
    /// dropped, and goes to the next.
    fn serve(self: &Arc<Self>, next: Option<(oneshot::Sender<Borrowed>, Dedicated)>) {
        if let Some((waiter, connection)) = next {
            drop(waiter.send(self.lend(connection)));
        }
    }
}

impl Drop for PoolState {
    fn drop(&mut self) {
        let (free, waiting) = self.lock().close();
        drop((free, waiting));
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let (Some(connection), Some(pool)) = (self.connection.take(), self.pool.upgrade()) else {
            return;
        };
        match connection.residue() {
            Residue::None => pool.give_back(connection),
            Residue::Unusable => pool.lost(),
            Residue::State => {
                let runtime = pool.runtime.clone();
                runtime.spawn(give_back_reset(pool, connection));
            }
        }
    }
}

/// Takes back a connection once it is in the state of a new one.
async fn give_back_reset(pool: Arc<PoolState>, mut connection: Dedicated) {
    let reset = reset::reset(&mut connection, &pool.config).await;
    if let Err(error) = &reset {
        crate::meter::lost(&pool.config, error);
    }
    match (reset, connection.residue()) {
        (Ok(()), Residue::None) => pool.give_back(connection),
        _ => pool.lost(),
    }
}

impl Deref for Borrowed {
    type Target = Dedicated;

    fn deref(&self) -> &Dedicated {
        self.connection
            .as_ref()
            .expect("it is taken only when it is dropped")
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut Dedicated {
        self.connection
            .as_mut()
            .expect("it is taken only when it is dropped")
    }
}

/// The pool as its keeper sees it. When the runtime ends, so does the pool.
struct Keeper(Weak<PoolState>);

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            let (free, waiting) = pool.lock().close();
            drop((free, waiting));
        }
    }
}

/// Keeps the pool at its size, until the pool is gone.
async fn keep(pool: Keeper) {
    let mut backoff = Backoff::new();
    loop {
        let Some(shared) = pool.0.upgrade() else {
            return;
        };
        let (idle, more) = {
            let mut books = shared.lock();
            books.forget(oneshot::Sender::is_closed);
            drop(books.sift(Instant::now(), Dedicated::is_connected));
            (books.idle(), books.open_more())
        };
        let opening: Vec<_> = (0..more)
            .map(|_| tokio::spawn(Dedicated::open(Arc::clone(&shared.config))))
            .collect();
        let mut pause = None;
        for connection in opening {
            match connection.await {
                Ok(Ok(connection)) => {
                    backoff.connected();
                    shared.opened(connection);
                }
                Ok(Err(error)) => {
                    shared.lock().failed(error.to_string());
                    shared.failed.notify_one();
                    pause = Some(backoff.failed(Instant::now()));
                }
                Err(error) => shared.lock().failed(error.to_string()),
            }
        }
        match pause {
            Some(pause) => shell::pause(&shared.config, pause).await,
            None => {
                let look = KEEP_EVERY.min(idle.max(Duration::from_millis(1)));
                let wanted = shared.wanted.notified();
                let _ = tokio::time::timeout(look, wanted).await;
            }
        }
    }
}

//! A connection that any number of tasks share: their requests are written together, and the replies come
//! back to each.
//!
//! Requests need not be collected for that. A task puts its request into a common buffer; the driver, a
//! task of its own, lets other tasks do the same before it writes the buffer with one call.
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! use loadline_client::Client;
//! use loadline_client::commands::{get, incr, set};
//!
//! let url = "redis://localhost";
//! # let url = &include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/server.rs"));
//! let connection = Client::open(url)?.multiplexed().await?;
//! connection.run(set("key", "value")).await?;
//! let value: String = connection.run(get("key")).await?;
//! assert_eq!(value, "value");
//! let (visits, name) = connection.run((incr("visits"), get::<Option<String>>("name"))).await;
//! assert_eq!((visits?, name?), (1, None));
//! # Ok::<(), loadline_client::Error>(())
//! # }).unwrap();
//! ```

mod driver;
mod reading;
mod scan;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use loadline_resp::{OwnedReply, Protocol, Reply};
use tokio::runtime;

use crate::conn::core::{Conn, Events, Residue, SlotId};
use crate::conn::shell::current_runtime;
use crate::lending::Lending;
use crate::meter::{self, Meter};
use crate::transaction::{optimistic, transaction_text};
use crate::{Config, Error, Request, ToArgs};
use driver::Driver;
pub use scan::Scanning;

/// Push messages that are kept for the caller; older ones give way.
const KEPT_PUSHES: usize = 1024;

/// A connection that any number of tasks share; a clone is the same connection. See the [module](self).
///
/// When it breaks it is made again, at once and then with growing pauses; requests wait for it as long as
/// for a reply. Which of those in flight are sent again is up to the [`RetryPolicy`](crate::RetryPolicy);
/// the others fail with an error that says whether the server may have executed them. It is closed when
/// the last clone and the last request are dropped.
#[derive(Clone, Debug)]
pub struct Connection {
    handle: Arc<Handle>,
}

/// A connection with one owner, for commands that wait at the server or that change its state: `BLPOP`,
/// `WATCH`, `XREAD` with a time to wait.
///
/// Requests that depend on the state of the connection, such as a transaction after a `WATCH`, fail when it
/// breaks, and are never sent to the next one.
///
/// ```no_run
/// use std::time::Duration;
///
/// use loadline_client::Client;
/// use loadline_client::commands::blpop;
///
/// # async fn example() -> Result<(), loadline_client::Error> {
/// let mut connection = Client::open("redis://localhost")?.dedicated().await?;
/// let taken = connection.run(blpop::<String>("jobs", Duration::from_secs(5))).await?;
/// # drop(taken);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Dedicated {
    connection: Connection,
}

/// The connection of a transaction that is being planned; see [`Dedicated::transaction`].
#[derive(Debug)]
pub struct Planning(Connection);

impl Planning {
    /// Runs a command, or several as a pipeline; see [`Connection::run`].
    pub fn run<Q: Request>(&self, request: Q) -> Running<'_, Q> {
        self.0.run(request)
    }
}

/// Closes the connection when it is dropped.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let driver = self.shared.lock().close();
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

/// The state that the handles and the driver share.
struct Shared {
    config: Arc<Config>,
    conn: Mutex<Conn>,
    opening: Mutex<Opening>,
    pushes: Mutex<VecDeque<OwnedReply>>,
}

/// The address and whether there is a connection. Buffers are left out, since they hold what was sent.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("address", &self.config.address)
            .field("connected", &self.lock().is_ready())
            .finish_non_exhaustive()
    }
}

/// The progress of the first connection.
#[derive(Debug, Default)]
struct Opening {
    outcome: Option<Result<(), Error>>,
    waker: Option<Waker>,
}

/// The facts that the driver needs after each turn.
struct Turn {
    closed: bool,
    overdue: Option<Error>,
    outgoing: bool,
    next: Option<Instant>,
}

impl Connection {
    pub(crate) async fn open(config: Arc<Config>) -> Result<Self, Error> {
        Self::open_as(config, true).await
    }

    async fn open_as(config: Arc<Config>, shared: bool) -> Result<Self, Error> {
        let connection = Self::start(config, shared, true, &current_runtime()?);
        std::future::poll_fn(|cx| connection.handle.shared.poll_opening(cx)).await?;
        Ok(connection)
    }

    /// A connection to a node of a cluster, which is still to be made; requests wait for the next attempt.
    /// It lives as long as `runtime`, whichever runtime asks for it first.
    pub(crate) fn to_node(config: Arc<Config>, shared: bool, runtime: &runtime::Handle) -> Self {
        Self::start(config, shared, false, runtime)
    }

    /// Starts the driver, which ends if the connection `must_open` at the first attempt and does not.
    fn start(
        config: Arc<Config>,
        shared: bool,
        must_open: bool,
        runtime: &runtime::Handle,
    ) -> Self {
        let conn = Conn::new(Arc::clone(&config), shared, Instant::now());
        let shared = Arc::new(Shared {
            config,
            conn: Mutex::new(conn),
            opening: Mutex::new(Opening::default()),
            pushes: Mutex::new(VecDeque::new()),
        });
        let connection = Self {
            handle: Arc::new(Handle {
                shared: Arc::clone(&shared),
            }),
        };
        // Its timer belongs to the runtime in whose context it is made.
        let context = runtime.enter();
        let driver = Driver::new(shared);
        drop(context);
        runtime.spawn(driver.run(must_open));
        connection
    }

    /// Runs a command, or several as a pipeline. The request is sent when the future is first polled; a
    /// future that is dropped after that takes nothing back.
    pub fn run<Q: Request>(&self, request: Q) -> Running<'_, Q> {
        Running {
            shared: &self.handle.shared,
            request,
            state: Run::New,
            second_try: false,
            meter: Meter::begin(),
        }
    }

    /// Runs one command, and lends its reply to `read`, which sees the received bytes without a copy.
    ///
    /// # Errors
    /// As for any request; [`Error::Server`] where the reply is an error, and [`Error::Usage`] where the
    /// request is more than one command. A request that `read` itself runs on this connection fails with
    /// [`Error::Usage`].
    pub async fn run_with<Q: Request, T>(
        &self,
        request: Q,
        read: impl FnOnce(Reply<'_>) -> T,
    ) -> Result<T, Error> {
        self.run(Lending::new(request, read)).await
    }

    /// The oldest push message that came along, such as an invalidation of client-side caching. At most
    /// 1,024 are kept.
    #[must_use]
    pub fn take_push(&self) -> Option<OwnedReply> {
        lock(&self.handle.shared.pushes).pop_front()
    }

    /// The version of the protocol that is spoken; `None` while there is no connection.
    #[must_use]
    pub fn protocol(&self) -> Option<Protocol> {
        self.handle.shared.lock().protocol()
    }

    /// Whether there is a connection, as far as is known.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.handle.shared.lock().is_ready()
    }

    /// Bytes of the connection's own buffers, but for the one that its task reads into.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.handle.shared.lock().buffer_bytes()
    }
}

impl Dedicated {
    pub(crate) async fn open(config: Arc<Config>) -> Result<Self, Error> {
        let connection = Connection::open_as(config, false).await?;
        Ok(Self { connection })
    }

    /// The connection, for the code that follows the slots of a cluster on it.
    pub(crate) fn connection(&self) -> Connection {
        self.connection.clone()
    }

    /// Runs a command, or several as a pipeline; see [`Connection::run`].
    pub fn run<Q: Request>(&mut self, request: Q) -> Running<'_, Q> {
        self.connection.run(request)
    }

    #[doc = transaction_text!(what)]
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// # runtime.block_on(async {
    /// # let url = &include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/server.rs"));
    /// # let mut connection = loadline_client::Client::open(url)?.dedicated().await?;
    /// use loadline_client::commands::{get, set};
    ///
    /// connection.run(set("balance", 21)).await?;
    /// let doubled = connection.transaction("balance", 10, |connection| async move {
    ///     let balance: i64 = connection.run(get("balance")).await?;
    ///     Ok(set("balance", 2 * balance))
    /// }).await?;
    /// doubled?;
    /// assert_eq!(connection.run(get::<i64>("balance")).await?, 42);
    /// # Ok::<(), loadline_client::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// A future that is dropped before its end has written all or nothing. Keys can still be watched then, which costs
    /// the next transaction of this connection at most one attempt.
    ///
    #[doc = transaction_text!(errors)]
    pub async fn transaction<Q: Request, F: Future<Output = Result<Q, Error>>>(
        &mut self,
        keys: impl ToArgs,
        attempts: u32,
        mut plan: impl FnMut(Planning) -> F,
    ) -> Result<Q::Output, Error> {
        let connection = self.connection.clone();
        optimistic!(
            self,
            keys,
            attempts,
            plan(Planning(connection.clone())).await,
            await
        )
    }

    /// The number of sockets so far.
    fn sockets(&self) -> u64 {
        self.connection.handle.shared.lock().sockets()
    }

    /// The state that the owner leaves behind for the next one.
    pub(crate) fn residue(&self) -> Residue {
        let shared = &self.connection.handle.shared;
        lock(&shared.pushes).clear();
        shared.lock().residue()
    }

    /// Notes that a `RESET` and a new handshake were answered.
    pub(crate) fn was_reset(&self) {
        self.connection.handle.shared.lock().was_reset();
    }

    /// The version of the protocol that is spoken; `None` while there is no connection.
    #[must_use]
    pub fn protocol(&self) -> Option<Protocol> {
        self.connection.protocol()
    }

    /// The oldest push message that came along; see [`Connection::take_push`].
    pub fn take_push(&mut self) -> Option<OwnedReply> {
        self.connection.take_push()
    }

    /// Whether there is a connection, as far as is known.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connection.is_connected()
    }
}

/// A request on its way.
///
/// Dropping it does not shift replies to others: the request keeps its place, and its reply is dropped.
#[derive(Debug)]
#[must_use = "a request is sent when it is awaited"]
pub struct Running<'c, Q: Request> {
    shared: &'c Shared,
    request: Q,
    state: Run,
    second_try: bool,
    meter: Meter,
}

#[derive(Clone, Copy, Debug)]
enum Run {
    New,
    Waiting(SlotId),
    Done,
}

// The request is only ever borrowed, never pinned.
impl<Q: Request> Unpin for Running<'_, Q> {}

impl<Q: Request> Future for Running<'_, Q> {
    type Output = Q::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Q::Output> {
        let this = &mut *self;
        loop {
            let slot = match this.state {
                Run::Waiting(slot) => slot,
                Run::New => match this.submit(cx.waker()) {
                    Ok(()) => return Poll::Pending,
                    Err(error) => {
                        this.state = Run::Done;
                        let config = &this.shared.config;
                        return Poll::Ready(this.meter.failed(config, &this.request, error));
                    }
                },
                Run::Done => panic!("a request was polled after its end"),
            };
            let polled = this.shared.lock().poll(slot, cx.waker(), reading::spare);
            let Poll::Ready(taken) = polled else {
                return Poll::Pending;
            };
            this.state = Run::Done;
            let (request, meter, config) = (&this.request, &this.meter, &this.shared.config);
            let output = reading::read(this.shared, taken, |replies| {
                meter.decode(config, request, replies)
            });
            if this.second_try || !this.request.wants_second_try(&output) {
                return Poll::Ready(output);
            }
            this.second_try = true;
            this.meter = Meter::begin();
            this.state = Run::New;
        }
    }
}

impl<Q: Request> Running<'_, Q> {
    fn submit(&mut self, waker: &Waker) -> Result<(), Error> {
        if self.request.commands() == 0 {
            return Err(Error::Usage("the request has no commands"));
        }
        if reading::is_reading(self.shared) {
            return Err(Error::Usage(
                "a connection cannot run a request while one of its replies is being read",
            ));
        }
        let (slot, driver) =
            self.shared
                .lock()
                .submit(&self.request, self.second_try, waker, &mut self.meter)?;
        self.state = Run::Waiting(slot);
        if let Some(driver) = driver {
            driver.wake();
        }
        Ok(())
    }
}

impl<Q: Request> Running<'_, Q> {
    /// Takes the request back. Returns whether the server may execute it, or a part of it, nevertheless, or has done so.
    pub(crate) fn withdraw(&mut self) -> bool {
        match std::mem::replace(&mut self.state, Run::Done) {
            Run::New => false,
            Run::Waiting(slot) => self.shared.lock().withdraw(slot),
            Run::Done => true,
        }
    }
}

impl<Q: Request> Drop for Running<'_, Q> {
    fn drop(&mut self) {
        if let Run::Waiting(slot) = self.state {
            self.shared.lock().cancel(slot);
        }
    }
}

impl Shared {
    /// The state is whole whenever the lock is free: no code of a caller runs under it.
    fn lock(&self) -> MutexGuard<'_, Conn> {
        lock(&self.conn)
    }

    fn turn(&self, driver: &Waker, now: Instant, events: &mut Events) -> Turn {
        let mut conn = self.lock();
        conn.register_driver(driver);
        let overdue = conn.turn(now, events).err();
        Turn {
            closed: conn.is_closed(),
            overdue,
            outgoing: conn.has_outgoing(),
            next: conn.next_turn(),
        }
    }

    fn next_turn(&self) -> Option<Instant> {
        self.lock().next_turn()
    }

    fn receive(&self, bytes: &[u8], now: Instant, events: &mut Events) -> Result<(), Error> {
        let mut conn = self.lock();
        let was_ready = conn.is_ready();
        let received = conn.receive(bytes, now, events);
        let is_ready = conn.is_ready();
        drop(conn);
        if is_ready && !was_ready {
            meter::connected(&self.config);
            self.opened(Ok(()));
        }
        received
    }

    /// The reason with its likely cause, and whether there was a connection.
    fn broke(&self, error: Error, now: Instant, events: &mut Events) -> (Error, bool) {
        let mut conn = self.lock();
        let was_ready = conn.is_ready();
        let error = conn.explain(error);
        conn.broke(&error, now, events);
        (error, was_ready)
    }

    /// There will be no connection any more: every request fails from now on.
    fn finish(&self, error: &Error, now: Instant, events: &mut Events) {
        let mut conn = self.lock();
        conn.finish(error, now, events);
        drop(conn);
        self.opened(Err(error.clone().with_executed(false)));
    }

    fn is_idle(&self) -> bool {
        self.lock().is_idle()
    }

    fn shrink(&self) -> bool {
        self.lock().shrink()
    }

    /// Acts on what came of received bytes.
    fn act(&self, events: &mut Events) {
        events.wake.drain(..).for_each(Waker::wake);
        for push in events.pushes.drain(..) {
            self.push(push);
        }
    }

    fn push(&self, push: OwnedReply) {
        let mut pushes = lock(&self.pushes);
        if pushes.len() == KEPT_PUSHES {
            pushes.pop_front();
        }
        pushes.push_back(push);
    }

    fn opened(&self, outcome: Result<(), Error>) {
        let mut opening = lock(&self.opening);
        if opening.outcome.is_none() {
            opening.outcome = Some(outcome);
            if let Some(waker) = opening.waker.take() {
                waker.wake();
            }
        }
    }

    fn poll_opening(&self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut opening = lock(&self.opening);
        match &opening.outcome {
            Some(outcome) => Poll::Ready(outcome.clone()),
            None => {
                opening.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

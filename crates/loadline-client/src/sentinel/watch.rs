//! The watch over the sentinels of a name, which its threads and the connections share, and the connections that it ends
//! when the sentinels name another server.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, shutdown};

use super::names::Sentinel;
use super::outlook::{Outlook, Verdict};
use crate::cluster::Node;
use crate::{Address, Config, Error};

/// The longest pause between two attempts to connect around a failover.
const UNSETTLED_PAUSE: Duration = Duration::from_millis(20);

/// The threads of a watch, which end when this is dropped.
#[derive(Debug)]
pub(crate) struct Handle {
    watch: Arc<Watch>,
}

/// State that the threads and the connections share.
pub(crate) struct Watch {
    state: Mutex<State>,
    /// The outlook has changed.
    changed: Condvar,
    #[cfg(feature = "tokio")]
    notify: tokio::sync::Notify,
}

/// Starts a thread that listens to the sentinel at a node with this configuration, until the watch is closed; a byte at the
/// socket wakes it.
type Listen = fn(Arc<Watch>, Sentinel, Node, Config, UnixStream) -> io::Result<()>;

/// Starts the thread for a sentinel, with the end by which it is woken.
type Start = Box<dyn Fn(&Arc<Watch>, Node, UnixStream) -> io::Result<()> + Send>;

struct State {
    outlook: Outlook,
    leases: Vec<Weak<Lease>>,
    /// The sentinels that have a thread, and how to wake it.
    threads: Vec<(Node, UnixStream)>,
    start: Start,
    is_closed: bool,
}

/// The address of a server for one connection, and its socket once there is one. The connection keeps it as long as it
/// lives; its end makes the sentinels be asked again.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) address: Address,
    node: Node,
    watch: Arc<Watch>,
    socket: OnceLock<OwnedFd>,
    is_over: AtomicBool,
}

impl Lease {
    fn new(address: Address, node: Node, watch: Arc<Watch>) -> Self {
        Self {
            address,
            node,
            watch,
            socket: OnceLock::new(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Hands over the socket of the connection, which is closed at once if the sentinels name another server by now.
    ///
    /// # Errors
    /// The operating system has no room for another handle of the socket.
    pub(crate) fn holds(self: &Arc<Self>, socket: impl AsFd) -> io::Result<()> {
        let socket = socket.as_fd().try_clone_to_owned()?;
        // A lease is for one socket, so it has none yet.
        let _ = self.socket.set(socket);
        self.watch.register(self);
        Ok(())
    }

    /// Ends the connection: reads and writes fail from now on, also those that wait.
    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(socket) = self.socket.get() {
            // A connection that has broken already is fine too.
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    /// The reason why the connection has ended, if it has ended from here.
    pub(crate) fn end_reason(&self) -> Option<io::Error> {
        self.is_over.load(Ordering::Acquire).then(|| {
            let what = "the sentinels name another server, so the connection was closed";
            io::Error::new(io::ErrorKind::ConnectionAborted, what)
        })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !*self.is_over.get_mut() {
            self.watch.lost();
        }
    }
}

impl Handle {
    /// Starts a thread for each sentinel.
    pub(super) fn start(sentinel: &Sentinel, config: &Config, listen: Listen) -> Self {
        // The handle keeps the watch open, so the threads have settings of their own.
        let settings = Sentinel::from(sentinel.settings().clone());
        let own = settings.own_config(config);
        let start: Start = Box::new(move |watch, node, wake| {
            let own = Config {
                address: settings.address_of(&node),
                ..own.clone()
            };
            listen(Arc::clone(watch), settings.clone(), node, own, wake)
        });
        let watch = Arc::new(Watch {
            state: Mutex::new(State {
                outlook: Outlook::from(sentinel),
                leases: Vec::new(),
                threads: Vec::new(),
                start,
                is_closed: false,
            }),
            changed: Condvar::new(),
            #[cfg(feature = "tokio")]
            notify: tokio::sync::Notify::new(),
        });
        watch.start_threads();
        Self { watch }
    }

    pub(super) fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.watch.lock();
        state.is_closed = true;
        state.wake_threads();
    }
}

impl Watch {
    // ---- The side of the connections ----

    /// The server to connect to by now.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(super) fn find(
        self: &Arc<Self>,
        sentinel: &Sentinel,
        deadline: Instant,
    ) -> Result<Arc<Lease>, Error> {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let until = match state.verdict(now) {
                Verdict::Go(node) => {
                    drop(state);
                    return Ok(self.lease(sentinel, node));
                }
                Verdict::None(error) => return Err(error),
                Verdict::Wait(until) => until.map_or(deadline, |until| until.min(deadline)),
            };
            if now >= deadline {
                let what = "no sentinel answered within the connect timeout";
                let late = io::Error::new(io::ErrorKind::TimedOut, what);
                return Err(Error::connection(late, false));
            }
            let left = until.saturating_duration_since(now);
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The server to connect to by now.
    ///
    /// # Errors
    /// The reason why there is none.
    #[cfg(feature = "tokio")]
    pub(super) async fn find_async(
        self: &Arc<Self>,
        sentinel: &Sentinel,
    ) -> Result<Arc<Lease>, Error> {
        loop {
            // Before the look, so that no change is missed.
            let mut changed = std::pin::pin!(self.notify.notified());
            changed.as_mut().enable();
            let verdict = self.lock().verdict(Instant::now());
            match verdict {
                Verdict::Go(node) => return Ok(self.lease(sentinel, node)),
                Verdict::None(error) => return Err(error),
                Verdict::Wait(Some(until)) => {
                    // The time is one of the two reasons to look again.
                    let _ = tokio::time::timeout_at(until.into(), changed).await;
                }
                Verdict::Wait(None) => changed.await,
            }
        }
    }

    fn lease(self: &Arc<Self>, sentinel: &Sentinel, node: Node) -> Arc<Lease> {
        let address = sentinel.server(&node);
        Arc::new(Lease::new(address, node, Arc::clone(self)))
    }

    /// Takes note of a connection, and ends it if it is to a server that the sentinels do not name any more.
    fn register(&self, lease: &Arc<Lease>) {
        let mut state = self.lock();
        state.leases.retain(|other| other.strong_count() > 0);
        state.leases.push(Arc::downgrade(lease));
        let stays = state.outlook.allows(&lease.node);
        drop(state);
        if !stays {
            lease.end();
        }
    }

    /// A connection broke, or could not be made.
    fn lost(&self) {
        let mut state = self.lock();
        state.outlook.lost(Instant::now());
        state.wake_threads();
    }

    /// Sleeps for a pause between two attempts to connect, unless there is news of the server before its end.
    pub(crate) fn pause(&self, pause: Duration) {
        let state = self.lock();
        let version = state.outlook.version();
        let pause = state.pause(pause);
        let same = |state: &mut State| state.outlook.version() == version;
        let waited = self.changed.wait_timeout_while(state, pause, same);
        drop(waited);
    }

    /// As [`Watch::pause`].
    #[cfg(feature = "tokio")]
    pub(crate) async fn pause_async(&self, pause: Duration) {
        let (until, version) = {
            let state = self.lock();
            (Instant::now() + state.pause(pause), state.outlook.version())
        };
        loop {
            let mut changed = std::pin::pin!(self.notify.notified());
            changed.as_mut().enable();
            if self.lock().outlook.version() != version {
                return;
            }
            if tokio::time::timeout_at(until.into(), changed)
                .await
                .is_err()
            {
                return;
            }
        }
    }

    /// The pause that remains of one between two attempts, around a failover.
    pub(crate) fn shortened(&self, pause: Duration) -> Duration {
        self.lock().pause(pause)
    }

    // ---- The side of the threads ----

    /// When a sentinel is to be asked next; `None` if its thread has to end.
    pub(crate) fn ask_at(&self, sentinel: &Node) -> Option<Instant> {
        let state = self.lock();
        if state.is_closed {
            return None;
        }
        state.outlook.ask_at(sentinel, Instant::now())
    }

    /// A sentinel is asked now.
    pub(crate) fn asked(&self, sentinel: &Node) {
        self.lock().outlook.asked(sentinel, Instant::now());
    }

    /// Changes the outlook. Connections to servers that it does not allow any more are ended, and threads for new
    /// sentinels are started.
    pub(crate) fn update(self: &Arc<Self>, change: impl FnOnce(&mut Outlook, Instant)) {
        let mut state = self.lock();
        let before = state.outlook.version();
        change(&mut state.outlook, Instant::now());
        let is_changed = state.outlook.version() != before;
        let leases = if is_changed {
            state.forbidden()
        } else {
            Vec::new()
        };
        state.wake_threads();
        drop(state);
        // Without the lock, since the last owner of a lease takes it.
        for lease in leases {
            lease.end();
        }
        self.changed.notify_all();
        #[cfg(feature = "tokio")]
        self.notify.notify_waiters();
        self.start_threads();
    }

    fn start_threads(self: &Arc<Self>) {
        let mut state = self.lock();
        let State {
            outlook,
            threads,
            start,
            is_closed,
            ..
        } = &mut *state;
        threads.retain(|(node, _)| outlook.sentinels().any(|known| known == node));
        let new: Vec<Node> = outlook
            .sentinels()
            .filter(|node| !threads.iter().any(|(known, _)| known == *node))
            .cloned()
            .collect();
        if *is_closed {
            return;
        }
        for node in new {
            let started = UnixStream::pair().and_then(|(own, theirs)| {
                own.set_nonblocking(true)?;
                theirs.set_nonblocking(true)?;
                start(self, node.clone(), theirs)?;
                Ok(own)
            });
            match started {
                Ok(own) => threads.push((node, own)),
                Err(error) => {
                    let error = Error::connection(error, false);
                    outlook.failed(&node, error, Instant::now());
                }
            }
        }
    }

    /// The state is whole whenever the lock is free.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn verdict(&mut self, now: Instant) -> Verdict {
        let verdict = self.outlook.verdict(now);
        // They ask more often while a connection looks for a server.
        self.wake_threads();
        verdict
    }

    /// Connections to servers that the sentinels do not name any more.
    fn forbidden(&mut self) -> Vec<Arc<Lease>> {
        let mut leases: Vec<_> = self.leases.iter().filter_map(Weak::upgrade).collect();
        self.leases.retain(|lease| lease.strong_count() > 0);
        leases.retain(|lease| !self.outlook.allows(&lease.node));
        leases
    }

    fn pause(&self, pause: Duration) -> Duration {
        match self.outlook.is_unsettled(Instant::now()) {
            true => pause.min(UNSETTLED_PAUSE),
            false => pause,
        }
    }

    fn wake_threads(&mut self) {
        for (_, thread) in &mut self.threads {
            // A thread that has ended needs no waking, and one that was woken often enough is awake.
            let _ = thread.write(&[0]);
        }
    }
}

/// The number of connections, without their sockets.
impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

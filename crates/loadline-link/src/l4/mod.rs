//! A delay line for TCP and unix sockets: a proxy that forwards bytes later.
//!
//! It terminates its clients' connections and opens its own to the server, so effects of packets are not
//! visible: see the comparison in docs/link.md.

mod arrival;
mod engine;
mod exchange;
mod faults;
mod pair;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::fault::Fault;
use crate::lateness::{Counts, Lateness};
use crate::script::{Messages, Script};
use crate::shape::Shape;
use crate::socket::Listener;
use crate::wait::Waker;
use crate::{Error, Scheduling, wait};

use engine::{Engine, Parts};

/// A route: connections that arrive at `listen` are forwarded to `upstream`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The address to listen on; port 0 selects a free port.
    pub listen: Address,
    /// The address of the server.
    pub upstream: Address,
}

impl Route {
    /// A route from a free port of the loopback interface.
    #[must_use]
    pub fn from_loopback(upstream: Address) -> Self {
        Self {
            listen: Address::any_loopback(),
            upstream,
        }
    }
}

/// A proxy with its own thread. Dropping it closes its connections and joins the thread.
#[derive(Debug)]
pub struct Proxy {
    addresses: Vec<Address>,
    stats: Arc<Counters>,
    commands: Sender<Command>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// Counters of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Connections accepted from clients.
    pub connections: u64,
    /// Connections currently open.
    pub connections_open: u64,
    /// Bytes received from clients.
    pub bytes_up: u64,
    /// Bytes received from servers.
    pub bytes_down: u64,
    /// Bytes currently in flight.
    pub bytes_in_flight: u64,
    /// The highest number of bytes in flight.
    pub bytes_in_flight_peak: u64,
    /// The greatest lateness of a release, caused by a delayed wake-up or too much work.
    pub latest_release: Duration,
    /// The current scheduling of its thread.
    pub scheduling: Scheduling,
}

/// A script and what a proxy needs to follow it.
pub struct Scripted {
    /// The script, whose time starts with the proxy.
    pub script: Script,
    /// Separates the messages of each connection; only needed by a script that counts messages.
    pub messages: Option<NewMessages>,
    /// The most connections at a time; others wait in the kernel. A client at fault does not take all descriptors.
    pub max_connections: usize,
}

/// Makes what separates the messages of a new connection.
pub type NewMessages = Box<dyn Fn() -> Box<dyn Messages> + Send>;

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted")
            .field("script", &self.script)
            .finish_non_exhaustive()
    }
}

/// An occurrence of a step of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occurrence {
    /// The place of the step in the script.
    pub step: usize,
    /// The time at which it began.
    pub began: Instant,
    /// The time at which it ended; `None` while a fault lasts.
    pub ended: Option<Instant>,
}

/// The most occurrences that are kept.
pub const MOST_OCCURRENCES: usize = 100_000;

/// The most bytes in flight per connection and direction; above it, the source is not read. It is about the
/// size that the kernel's own buffers grow to. It limits one connection to `LIMIT_BYTES / delay` bytes per
/// second.
pub const LIMIT_BYTES: usize = 4 << 20;

impl Proxy {
    /// Listens on every route and forwards in the given shape.
    ///
    /// # Errors
    /// [`Error::NoRoute`] without routes, [`Error::Shape`] for an invalid shape or one with packet loss,
    /// [`Error::Listen`] if an address is taken, [`Error::System`] if the operating system refuses.
    pub fn start(routes: &[Route], shape: Shape) -> Result<Self, Error> {
        Self::with(routes, shape, None, Box::new(Listener::bind), None)
    }

    /// Like [`Proxy::start`], with faults by a script, which starts at once.
    ///
    /// # Errors
    /// [`Error::Script`] for an impossible script, and those of [`Proxy::start`].
    pub fn scripted(routes: &[Route], shape: Shape, scripted: Scripted) -> Result<Self, Error> {
        let bind = Box::new(Listener::bind);
        Self::with(routes, shape, Some(scripted), bind, None)
    }

    /// Like [`Proxy::start`], with a script, a custom `bind` (called at the start and again after connections were
    /// refused) and a companion that runs on the same thread.
    pub(crate) fn with(
        routes: &[Route],
        shape: Shape,
        scripted: Option<Scripted>,
        bind: Binder,
        companion: Option<Box<dyn Companion>>,
    ) -> Result<Self, Error> {
        check(&shape)?;
        if routes.is_empty() {
            return Err(Error::NoRoute);
        }
        let waiter = wait::Waiter::new()?;
        let waker = waiter.waker()?;
        let stats = Arc::new(Counters::default());
        let (commands, inbox) = channel();
        let parts = Parts {
            waiter,
            bind,
            companion,
            counters: Arc::clone(&stats),
            inbox,
        };
        let engine = Engine::new(routes, shape, scripted, parts)?;
        let addresses = engine.addresses();
        let thread = std::thread::Builder::new()
            .name("link-l4".into())
            .spawn(move || engine.run())
            .map_err(Error::system("a thread for the link"))?;
        Ok(Self {
            addresses,
            stats,
            commands,
            waker,
            thread: Some(thread),
        })
    }

    /// The addresses that clients connect to, one per route, in order.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Changes the shape for data that arrives from now on.
    ///
    /// # Errors
    /// [`Error::Shape`] for an invalid shape or one with packet loss, [`Error::Stopped`] if the thread has
    /// ended.
    pub fn set_shape(&self, shape: Shape) -> Result<(), Error> {
        check(&shape)?;
        self.tell(Order::SetShape(shape))
    }

    /// Injects a fault, which has taken effect when this returns.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the thread has ended.
    pub fn inject(&self, fault: Fault) -> Result<(), Error> {
        self.tell(Order::Inject(fault))
    }

    /// Clears the lasting faults.
    ///
    /// # Errors
    /// [`Error::Listen`] if an address that was refused has been taken by another socket, [`Error::Stopped`]
    /// if the thread has ended.
    pub fn clear(&self) -> Result<(), Error> {
        self.tell(Order::Clear)
    }

    /// Counters so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats.read()
    }

    /// The lateness of releases so far.
    #[must_use]
    pub fn lateness(&self) -> Lateness {
        self.stats.release_late.read()
    }

    /// The occurrences of the script's steps so far, in order; at most [`MOST_OCCURRENCES`].
    #[must_use]
    pub fn occurrences(&self) -> Vec<Occurrence> {
        self.stats.occurrences().clone()
    }

    /// Wakes the thread, so that its companion gets a turn.
    pub(crate) fn wake(&self) -> Result<(), Error> {
        self.tell(Order::Nothing)
    }

    /// Closes the connections and joins the thread, as dropping does.
    pub fn stop(self) {
        drop(self);
    }

    fn tell(&self, order: Order) -> Result<(), Error> {
        let (done, answer) = sync_channel(1);
        self.commands
            .send(Command { order, done })
            .map_err(|_| Error::Stopped)?;
        self.waker.wake();
        answer.recv().map_err(|_| Error::Stopped)?
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The thread stops now, or has already stopped.
        let _ = self.tell(Order::Stop);
        if let Some(thread) = self.thread.take() {
            // The thread has printed its own panic; a second one would hide the source.
            let _ = thread.join();
        }
    }
}

/// Work that shares the thread of a proxy and its way of waiting.
pub(crate) trait Companion: Send {
    /// Registers for events, with tokens from `first_token` on.
    fn watch(&self, waiter: &wait::Waiter, first_token: u64) -> Result<(), Error>;

    /// The time of the next action that needs no event.
    fn next_time(&self) -> Option<Instant>;

    /// Records an event for `first_token + index`.
    fn note(&mut self, index: usize);

    /// Does all work that is due.
    fn turn(&mut self);

    /// Runs once, after all connections are closed.
    fn finish(&mut self);
}

type Binder = Box<dyn Fn(&Address) -> Result<Listener, Error> + Send>;

#[derive(Debug)]
struct Command {
    order: Order,
    done: SyncSender<Result<(), Error>>,
}

#[derive(Debug, Clone, Copy)]
enum Order {
    SetShape(Shape),
    Inject(Fault),
    Clear,
    Nothing,
    Stop,
}

pub(crate) fn check(shape: &Shape) -> Result<(), Error> {
    shape.check()?;
    if shape.loses_packets() {
        return Err(Error::Shape {
            what: "a proxy handles bytes and cannot lose packets; a link at the packet level can",
        });
    }
    Ok(())
}

/// [`Stats`] that are being written, by one thread only.
#[derive(Debug, Default)]
struct Counters {
    connections: AtomicU64,
    connections_open: AtomicU64,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
    bytes_in_flight: AtomicU64,
    bytes_in_flight_peak: AtomicU64,
    latest_release_ns: AtomicU64,
    is_real_time: AtomicBool,
    release_late: Counts,
    occurrences: Mutex<Vec<Occurrence>>,
}

impl Counters {
    fn occurrences(&self) -> MutexGuard<'_, Vec<Occurrence>> {
        self.occurrences
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the beginning of a step, and returns its place if there is room.
    fn note(&self, occurrence: Occurrence) -> Option<usize> {
        let mut occurrences = self.occurrences();
        let place = occurrences.len();
        let has_room = place < MOST_OCCURRENCES;
        if has_room {
            occurrences.push(occurrence);
        }
        has_room.then_some(place)
    }

    fn note_end(&self, place: usize, now: Instant) {
        if let Some(occurrence) = self.occurrences().get_mut(place) {
            occurrence.ended = Some(now);
        }
    }

    fn write(&self, stats: &Stats) {
        let store = |to: &AtomicU64, value| to.store(value, Ordering::Relaxed);
        store(&self.connections, stats.connections);
        store(&self.connections_open, stats.connections_open);
        store(&self.bytes_up, stats.bytes_up);
        store(&self.bytes_down, stats.bytes_down);
        store(&self.bytes_in_flight, stats.bytes_in_flight);
        store(&self.bytes_in_flight_peak, stats.bytes_in_flight_peak);
        let ns = u64::try_from(stats.latest_release.as_nanos()).unwrap_or(u64::MAX);
        store(&self.latest_release_ns, ns);
        let is_real_time = stats.scheduling == Scheduling::RealTime;
        self.is_real_time.store(is_real_time, Ordering::Relaxed);
    }

    fn read(&self) -> Stats {
        let load = |from: &AtomicU64| from.load(Ordering::Relaxed);
        Stats {
            connections: load(&self.connections),
            connections_open: load(&self.connections_open),
            bytes_up: load(&self.bytes_up),
            bytes_down: load(&self.bytes_down),
            bytes_in_flight: load(&self.bytes_in_flight),
            bytes_in_flight_peak: load(&self.bytes_in_flight_peak),
            latest_release: Duration::from_nanos(load(&self.latest_release_ns)),
            scheduling: if self.is_real_time.load(Ordering::Relaxed) {
                Scheduling::RealTime
            } else {
                Scheduling::Ordinary
            },
        }
    }
}

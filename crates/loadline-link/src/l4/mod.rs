//! A delay line for TCP and unix sockets: a proxy that forwards bytes later.
//!
//! It terminates the connections of its clients and opens its own to the server, so what depends on
//! packets does not show: see the comparison in docs/link.md.

mod arrival;
mod engine;
mod pair;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::address::{Address, Listener};
use crate::fault::Fault;
use crate::lateness::{Counts, Lateness};
use crate::shape::Shape;
use crate::wait::Waker;
use crate::{Error, Scheduling, wait};

use engine::{Engine, Means};

/// Connections that arrive at `listen` are led to `upstream`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Where to listen; port 0 takes a free one.
    pub listen: Address,
    /// Where the server is.
    pub upstream: Address,
}

impl Route {
    /// From a free port of the loopback interface.
    #[must_use]
    pub fn from_loopback(upstream: Address) -> Self {
        Self {
            listen: Address::any_loopback(),
            upstream,
        }
    }
}

/// A proxy with a thread of its own. Dropping it closes its connections and waits for the thread.
#[derive(Debug)]
pub struct Proxy {
    addresses: Vec<Address>,
    stats: Arc<Counters>,
    commands: Sender<Command>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// What a proxy has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Connections that clients have opened.
    pub connections: u64,
    /// Connections that are open.
    pub connections_open: u64,
    /// Bytes that clients sent.
    pub bytes_up: u64,
    /// Bytes that servers sent.
    pub bytes_down: u64,
    /// Bytes that are under way.
    pub bytes_in_flight: u64,
    /// The most bytes that were under way at a time.
    pub bytes_in_flight_peak: u64,
    /// The longest by which the thread came late to release something: it was not scheduled, or had
    /// too much to do.
    pub latest_release: Duration,
    /// How its thread is scheduled while it has time to sleep.
    pub scheduling: Scheduling,
}

/// The bytes that one connection may have under way in one direction; above them its source is not
/// read. It is about what the kernel's own buffers grow to. It bounds one connection to
/// `LIMIT_BYTES / delay` bytes per second.
pub const LIMIT_BYTES: usize = 4 << 20;

impl Proxy {
    /// Listens on every route and forwards in the given shape.
    ///
    /// # Errors
    /// [`Error::NoRoute`] without any, [`Error::Shape`] for an impossible shape or one that loses
    /// packets, [`Error::Listen`] where an address is taken, [`Error::System`] when the operating
    /// system refuses.
    pub fn start(routes: &[Route], shape: Shape) -> Result<Self, Error> {
        Self::with(routes, shape, Box::new(Listener::bind), None)
    }

    /// As [`Proxy::start`], where listening needs more than the address (`bind` is asked at the start
    /// and again after connections were refused), and with what else is to run on the thread.
    pub(crate) fn with(
        routes: &[Route],
        shape: Shape,
        bind: Binder,
        beside: Option<Box<dyn Beside>>,
    ) -> Result<Self, Error> {
        check(&shape)?;
        if routes.is_empty() {
            return Err(Error::NoRoute);
        }
        let waiter = wait::Waiter::new()?;
        let waker = waiter.waker()?;
        let stats = Arc::new(Counters::default());
        let (commands, inbox) = channel();
        let means = Means {
            waiter,
            bind,
            beside,
            counters: Arc::clone(&stats),
            inbox,
        };
        let engine = Engine::new(routes, shape, means)?;
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

    /// Where clients connect to: one address per route, in their order.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Changes the shape for what arrives from now on.
    ///
    /// # Errors
    /// [`Error::Shape`] for an impossible shape or one that loses packets, [`Error::Stopped`] when the
    /// thread has ended.
    pub fn set_shape(&self, shape: Shape) -> Result<(), Error> {
        check(&shape)?;
        self.tell(Order::SetShape(shape))
    }

    /// Makes something go wrong. It has happened when this returns.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the thread has ended.
    pub fn inject(&self, fault: Fault) -> Result<(), Error> {
        self.tell(Order::Inject(fault))
    }

    /// Ends the faults that last.
    ///
    /// # Errors
    /// [`Error::Listen`] when refused addresses have been taken by others meanwhile,
    /// [`Error::Stopped`] when the thread has ended.
    pub fn clear(&self) -> Result<(), Error> {
        self.tell(Order::Clear)
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats.read()
    }

    /// How late it released what was due, so far.
    #[must_use]
    pub fn lateness(&self) -> Lateness {
        self.stats.release_late.read()
    }

    /// Gives what runs beside it a turn.
    pub(crate) fn wake(&self) -> Result<(), Error> {
        self.tell(Order::Nothing)
    }

    /// Closes the connections and waits for the thread, as dropping does.
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
        // Either it stops now, or it has stopped already.
        let _ = self.tell(Order::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed by it; a second one would hide its place.
            let _ = thread.join();
        }
    }
}

/// What else runs on the thread of a proxy, and waits as it does.
pub(crate) trait Beside: Send {
    /// Asks for events, with tokens from `first_token` on.
    fn watch(&self, waiter: &wait::Waiter, first_token: u64) -> Result<(), Error>;

    /// When it has something to do without an event.
    fn next_time(&self) -> Option<Instant>;

    /// There was an event for `first_token + index`.
    fn note(&mut self, index: usize);

    /// Does what can be done now.
    fn turn(&mut self);

    /// The last turn, after all connections are closed.
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

/// [`Stats`] while they change: the thread is the only writer.
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
}

impl Counters {
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

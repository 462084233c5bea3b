//! Subscriptions of one thread.

use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use super::Cluster;
use super::timed::TimedSocket;
use super::wires::{Wire, wait_for_any};
use crate::pubsub::core::{ConnectionId, Core};
use crate::pubsub::{Event, Kind, names_of};
use crate::{Config, Error, ToArgs, meter};

/// Room for what one read brings.
const READ_BYTES: usize = 8 << 10;
/// The map of a cluster is asked for at most this often.
const THROTTLE: Duration = Duration::from_millis(100);

/// A connection that receives what is published on channels; see [`pubsub`](crate::pubsub).
///
/// It reads, answers for itself and connects again only while one of its methods runs. What the server sends
/// meanwhile waits in the buffers of the systems; where the server gives up on that (see
/// `client-output-buffer-limit`), the gap is announced.
///
/// ```no_run
/// use std::time::Duration;
///
/// use loadline_client::Client;
/// use loadline_client::pubsub::Event;
///
/// let mut pubsub = Client::open("redis://localhost")?.blocking_pubsub()?;
/// pubsub.subscribe("news")?;
/// loop {
///     match pubsub.next(Duration::from_secs(1)) {
///         Some(Event::Message(message)) => println!("{:?}", message.payload),
///         Some(gap) => println!("something is missing: {gap:?}"),
///         None => println!("nothing new"),
///     }
/// }
/// # Ok::<(), loadline_client::Error>(())
/// ```
pub struct PubSub {
    config: Arc<Config>,
    core: Core,
    wires: Vec<Wire>,
    /// Where the nodes are, on a cluster.
    map: Option<Map>,
    buf: Vec<u8>,
    wake: Vec<Waker>,
}

/// The address. Buffers and messages are left out.
impl fmt::Debug for PubSub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PubSub")
            .field("address", &self.config.address)
            .finish_non_exhaustive()
    }
}

/// A cluster whose map is asked for.
#[derive(Debug)]
struct Map {
    cluster: Box<Cluster>,
    /// When it was last asked for.
    asked: Instant,
}

impl PubSub {
    /// Connects once.
    pub(crate) fn open(config: Arc<Config>) -> Result<Self, Error> {
        let core = Core::new(Arc::clone(&config), Instant::now());
        Self::start(config, core, None)
    }

    /// Connects to any node of a cluster.
    fn on_cluster(cluster: Cluster, core: Core) -> Result<Self, Error> {
        let config = Arc::new(cluster.config().clone());
        let map = Map {
            cluster: Box::new(cluster),
            asked: Instant::now(),
        };
        Self::start(config, core, Some(map))
    }

    fn start(config: Arc<Config>, core: Core, map: Option<Map>) -> Result<Self, Error> {
        let main = Wire::new(ConnectionId::MAIN, Arc::clone(&config), Instant::now());
        let mut pubsub = Self {
            config,
            core,
            wires: vec![main],
            map,
            buf: vec![0; READ_BYTES],
            wake: Vec::new(),
        };
        for _ in 0..pubsub.core.candidates() {
            while !pubsub.core.is_ready(ConnectionId::MAIN) {
                pubsub.step(None);
                if pubsub.core.outage().is_some() {
                    break;
                }
            }
        }
        match pubsub.core.outage() {
            Some(error) => Err(error),
            None => Ok(pubsub),
        }
    }

    /// Subscribes to one or more channels. Once this returns, whatever is published on them is received.
    ///
    /// # Errors
    /// [`Error::Server`] where the server refuses one of them, [`Error::Timeout`] where no confirmation
    /// came in time; those that the server did not confirm are given up then.
    pub fn subscribe(&mut self, channels: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Channel, &channels, true)
    }

    /// Subscribes to all channels that match one of these patterns; see [`PubSub::subscribe`].
    ///
    /// # Errors
    /// As [`PubSub::subscribe`].
    pub fn psubscribe(&mut self, patterns: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Pattern, &patterns, true)
    }

    /// Subscribes to channels of a shard; see [`PubSub::subscribe`].
    ///
    /// # Errors
    /// As [`PubSub::subscribe`].
    pub fn ssubscribe(&mut self, channels: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Shard, &channels, true)
    }

    /// Ends subscriptions to channels. Messages that came before are still handed out.
    ///
    /// # Errors
    /// [`Error::Timeout`] where no confirmation came in time. The subscription is given up all the same.
    pub fn unsubscribe(&mut self, channels: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Channel, &channels, false)
    }

    /// Ends subscriptions to patterns; see [`PubSub::unsubscribe`].
    ///
    /// # Errors
    /// As [`PubSub::unsubscribe`].
    pub fn punsubscribe(&mut self, patterns: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Pattern, &patterns, false)
    }

    /// Ends subscriptions to channels of a shard; see [`PubSub::unsubscribe`].
    ///
    /// # Errors
    /// As [`PubSub::unsubscribe`].
    pub fn sunsubscribe(&mut self, channels: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Shard, &channels, false)
    }

    /// The next event, if there is one within this time.
    pub fn next(&mut self, timeout: Duration) -> Option<Event> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if let Some(event) = self.waiting() {
                return Some(event);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return None;
            }
            self.step(deadline);
        }
    }

    /// The reason why there is no connection; `None` while there is one, as far as is known.
    #[must_use]
    pub fn outage(&self) -> Option<Error> {
        self.core.outage()
    }

    pub(super) fn change(
        &mut self,
        kind: Kind,
        names: &impl ToArgs,
        wanted: bool,
    ) -> Result<(), Error> {
        let (names, now) = (names_of(names)?, Instant::now());
        let ticket = if wanted {
            self.core.subscribe(kind, names, now)
        } else {
            self.core.unsubscribe(kind, names, now, &mut self.wake)
        };
        loop {
            if let Poll::Ready(settled) = self.core.poll_ticket(ticket, Waker::noop()) {
                return settled;
            }
            self.step(None);
        }
    }

    /// The next event if there is one by now.
    pub(super) fn waiting(&mut self) -> Option<Event> {
        match self.core.poll_next(Waker::noop()) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        }
    }

    /// Does the work that is due on each connection, and one read where there is something, until `deadline`.
    fn step(&mut self, deadline: Option<Instant>) {
        Self::step_all(&mut [self], deadline);
    }

    /// The same for several subscribers, of which each can end the wait.
    pub(super) fn step_all(pubsubs: &mut [&mut Self], deadline: Option<Instant>) {
        for pubsub in &mut *pubsubs {
            pubsub.send_all();
        }
        let now = Instant::now();
        let steps = pubsubs.iter().filter_map(|pubsub| pubsub.next_step());
        let until = steps.chain(deadline).min();
        let wait = until.map(|until| until.saturating_duration_since(now));
        // A single socket waits by itself, which saves a call.
        let mut read_wait = Some(Duration::ZERO);
        let wires = pubsubs.iter_mut().flat_map(|pubsub| &mut pubsub.wires);
        let mut wires: Vec<&mut Wire> = wires.collect();
        let waited = match &mut wires[..] {
            [only] if only.socket.is_some() => {
                (only.readable, read_wait) = (true, wait);
                Ok(())
            }
            wires => wait_for_any(wires, wait),
        };
        if let (Err(error), Some(first)) = (waited, pubsubs.first_mut()) {
            // The sockets are all the same to the system, so it is the first that gets the blame.
            first.look_at(0, Err(Error::connection(error, true)));
        }
        for pubsub in pubsubs {
            pubsub.receive_all(read_wait);
        }
    }

    fn send_all(&mut self) {
        self.follow_cluster();
        for place in 0..self.wires.len() {
            let done = self.send(place);
            self.look_at(place, done);
        }
    }

    fn receive_all(&mut self, wait: Option<Duration>) {
        for place in 0..self.wires.len() {
            if std::mem::take(&mut self.wires[place].readable) {
                let done = self.receive(place, wait);
                self.look_at(place, done);
            }
        }
        // There are no tasks to wake: the caller looks after each step.
        self.wake.clear();
    }

    /// When something is due at the latest.
    fn next_step(&self) -> Option<Instant> {
        let turns = self
            .wires
            .iter()
            .filter_map(|wire| self.core.next_turn(wire.id));
        let connects = self.wires.iter().filter(|wire| wire.socket.is_none());
        let connects = connects.map(|wire| wire.again_at);
        turns.chain(connects).chain(self.map_due()).min()
    }

    /// The time of the next question for the map: soon if something has shown that it is outdated, else once in
    /// each keepalive period, since a node that is cut off from the others does not know it, and sends nothing.
    fn map_due(&self) -> Option<Instant> {
        let map = self.map.as_ref()?;
        if self.core.is_stale() {
            return Some(map.asked + THROTTLE);
        }
        map.asked.checked_add(self.config.keepalive?)
    }

    /// Asks for the map when that is due, and makes and ends connections as the core wants them.
    fn follow_cluster(&mut self) {
        let due = self.map_due().is_some_and(|due| Instant::now() >= due);
        if let Some(map) = self.map.as_mut().filter(|_| due) {
            // If no node answers, the connections continue with the old map, and it stays outdated.
            match map.cluster.refresh() {
                Ok(()) => {
                    let topology = map.cluster.topology();
                    self.core.install(topology, Instant::now(), &mut self.wake);
                }
                Err(error) => meter::lost(&self.config, &error),
            }
            map.asked = Instant::now();
        }
        for id in self.core.take_new() {
            let wire = Wire::new(id, Arc::clone(&self.config), Instant::now());
            self.wires.push(wire);
        }
        let core = &mut self.core;
        self.wires.retain(|wire| {
            let ended = core.has_ended(wire.id);
            if ended {
                core.remove(wire.id);
            }
            !ended
        });
    }

    /// Connects where it is time to, and writes what is to be written.
    fn send(&mut self, place: usize) -> Result<(), Error> {
        let wire = &mut self.wires[place];
        let now = Instant::now();
        self.core.turn(wire.id, now, &mut self.wake)?;
        if wire.socket.is_none() {
            if now < wire.again_at {
                return Ok(());
            }
            if let (Some(node), Some(map)) = (self.core.target(wire.id), &self.map) {
                wire.config = map.cluster.config_of(&node);
            }
            wire.connect()?;
            let named = wire.socket.as_ref().and_then(TimedSocket::named_address);
            self.core.is_to(wire.id, named);
            self.core.connected(wire.id, Instant::now());
        }
        let out = self.core.take_out(wire.id);
        wire.write(&out)
    }

    fn receive(&mut self, place: usize, wait: Option<Duration>) -> Result<(), Error> {
        let wire = &mut self.wires[place];
        let bytes = match wire.read(wait, &mut self.buf)? {
            0 => return Ok(()),
            bytes => &self.buf[..bytes],
        };
        let now = Instant::now();
        self.core.receive(wire.id, bytes, now, &mut self.wake)
    }

    /// A connection on which something went wrong is given up.
    fn look_at(&mut self, place: usize, done: Result<(), Error>) {
        let Err(error) = done else { return };
        let wire = &mut self.wires[place];
        let error = self.core.explain(wire.id, error);
        meter::lost(&wire.config, &error);
        self.core.broke(wire.id, error, &mut self.wake);
        let now = Instant::now();
        let pause = self.core.pause(wire.id, now);
        wire.broke(now, self.config.shortened(pause));
    }
}

impl Cluster {
    /// Opens a subscriber. Channels and patterns are received on a connection to one node, and on one to another node
    /// when that one goes. A sharded channel is received from the master of its slot, also after the slot moves. Gaps
    /// are announced; see [`pubsub`](crate::pubsub).
    ///
    /// # Errors
    /// Fails if one connection attempt to each node fails. Later on connections come back by themselves.
    pub fn pubsub(&mut self) -> Result<PubSub, Error> {
        // Any part of the number will do.
        let turn = self.next_turn() as usize;
        let config = self.config().clone();
        let seeds = self.seeds().to_vec();
        let core = Core::of_cluster(config, self.topology(), seeds, turn, Instant::now());
        PubSub::on_cluster(self.apart(), core)
    }
}

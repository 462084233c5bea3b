//! The event loop of a proxy.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use crate::Error;
use crate::address::Address;
use crate::fault::Fault;
use crate::l4::arrival::Reader;
use crate::l4::exchange::Exchange;
use crate::l4::pair::{BOTH, Direction, Fate, Flow, Pair, Path, reset_on_close};
use crate::l4::{
    Binder, Command, Companion, Counters, LIMIT_BYTES, NewMessages, Order, Route, Scripted, Stats,
};
use crate::queue::Schedule;
use crate::script::Progress;
use crate::shape::Shape;
use crate::socket::{Listener, start_connecting};
use crate::wait::{Events, Waiter};

const READ_BYTES: usize = 64 << 10;

pub(super) struct Engine {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) pairs: HashMap<u64, Entry>,
    next_id: u64,
    /// The time of the next release, one entry per armed direction of a pair.
    releases: BinaryHeap<Reverse<(Instant, u64, bool)>>,
    pub(super) path: Path,
    /// Pairs that gave way to others before they were done.
    pub(super) busy: Vec<u64>,
    pub(super) lasting: Vec<Lasting>,
    pub(super) staging: Option<Staging>,
    pub(super) parts: Parts,
}

/// Parts of the event loop.
pub(super) struct Parts {
    pub(super) waiter: Waiter,
    pub(super) bind: Binder,
    pub(super) companion: Option<Box<dyn Companion>>,
    pub(super) counters: Arc<Counters>,
    pub(super) inbox: Receiver<Command>,
}

/// The first token of the companion: above the tokens of all possible connections.
const COMPANION: u64 = 1 << 63;

/// A route: a listening address and the server behind it.
pub(super) struct Endpoint {
    /// `None` while connections are refused.
    pub(super) listener: Option<Listener>,
    pub(super) address: Address,
    upstream: Address,
}

pub(super) struct Entry {
    pub(super) pair: Pair,
    /// Whether a fault holds its data.
    pub(super) is_frozen: bool,
    /// Whether `releases` has an entry, for each direction.
    armed: [bool; 2],
}

/// A fault that lasts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lasting {
    pub(super) fault: Fault,
    /// The only pair that it affects, if it does not affect all.
    pub(super) pair: Option<u64>,
    pub(super) until: Option<Instant>,
    /// Its place among the occurrences of the script.
    pub(super) occurrence: Option<usize>,
}

/// The parts of a script that the event loop needs.
pub(super) struct Staging {
    pub(super) started: Instant,
    /// Separates the messages of each connection, if the script counts them.
    pub(super) messages: Option<NewMessages>,
    /// Further connections wait until one is closed.
    pub(super) max_connections: usize,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    pub(super) fn new(
        routes: &[Route],
        shape: Shape,
        scripted: Option<Scripted>,
        parts: Parts,
    ) -> Result<Self, Error> {
        if let Some(companion) = &parts.companion {
            companion.watch(&parts.waiter, COMPANION)?;
        }
        let (staging, progress) = match scripted {
            None => (None, None),
            Some(scripted) => {
                let (staging, progress) = stage(scripted)?;
                (Some(staging), Some(progress))
            }
        };
        let mut engine = Self {
            endpoints: Vec::with_capacity(routes.len()),
            pairs: HashMap::new(),
            next_id: 0,
            releases: BinaryHeap::new(),
            path: Path {
                flow: Flow {
                    up: Schedule::new(shape.up, shape.seed),
                    down: Schedule::new(shape.down, !shape.seed),
                    delay: Duration::ZERO,
                    close_delay: Duration::ZERO,
                    stats: Stats::default(),
                    progress,
                    due: Vec::new(),
                },
                reader: Reader::new(READ_BYTES),
            },
            busy: Vec::new(),
            lasting: Vec::new(),
            staging,
            parts,
        };
        for (index, route) in routes.iter().enumerate() {
            let listener = engine.listen(index, &route.listen)?;
            engine.endpoints.push(Endpoint {
                address: listener.address.clone(),
                listener: Some(listener),
                upstream: route.upstream.clone(),
            });
        }
        Ok(engine)
    }

    pub(super) fn addresses(&self) -> Vec<Address> {
        self.endpoints
            .iter()
            .map(|endpoint| endpoint.address.clone())
            .collect()
    }

    /// Runs until a stop is requested or the handle is dropped.
    pub(super) fn run(mut self) {
        let mut events = Events::new();
        let mut touched = Vec::new();
        self.path.flow.stats.scheduling = self.parts.waiter.claim_priority();
        self.parts.counters.write(&self.path.flow.stats);
        loop {
            match self.parts.waiter.wait(self.next_time(), &mut events) {
                Ok(true) => {
                    self.note_events(&events, &mut touched);
                    if self.obey().is_break() {
                        break;
                    }
                }
                Ok(false) => {}
                // Waiting fails only if the kernel is out of memory; the handle then reports a stopped link.
                Err(_) => break,
            }
            self.keep_time();
            touched.append(&mut self.busy);
            touched.sort_unstable();
            touched.dedup();
            for id in touched.drain(..) {
                self.turn(id);
            }
            self.release();
            if let Some(companion) = &mut self.parts.companion {
                companion.turn();
            }
            self.parts.counters.write(&self.path.flow.stats);
        }
        self.pairs.clear();
        if let Some(companion) = &mut self.parts.companion {
            companion.finish();
        }
    }

    /// The time of the next action that needs no event.
    fn next_time(&self) -> Option<Instant> {
        let companion = self.parts.companion.as_ref();
        let times = [
            self.next_release(),
            self.next_fault(),
            companion.and_then(|it| it.next_time()),
        ];
        times.into_iter().flatten().min()
    }

    fn next_release(&self) -> Option<Instant> {
        if self.is_still() {
            return None;
        }
        if !self.busy.is_empty() {
            return Some(Instant::now());
        }
        self.releases.peek().map(|Reverse((release, ..))| *release)
    }

    fn note_events(&mut self, events: &Events, touched: &mut Vec<u64>) {
        let endpoints = self.endpoints.len() as u64;
        let mut arrivals = false;
        for (token, flags) in events.iter() {
            if let (Some(index), Some(companion)) =
                (token.checked_sub(COMPANION), &mut self.parts.companion)
            {
                companion.note(index as usize);
                continue;
            }
            let Some(token) = token.checked_sub(endpoints) else {
                arrivals = true;
                continue;
            };
            let (id, is_server) = (token / 2, token % 2 == 1);
            if let Some(entry) = self.pairs.get_mut(&id) {
                let pair = &mut entry.pair;
                let side = if is_server {
                    &mut pair.server
                } else {
                    &mut pair.client
                };
                side.note(flags);
                touched.push(id);
            }
        }
        if arrivals {
            self.accept();
        }
    }

    pub(super) fn accept(&mut self) {
        if self.is_still() {
            return;
        }
        let staging = self.staging.as_ref();
        let most = staging.map_or(usize::MAX, |staging| staging.max_connections);
        for index in 0..self.endpoints.len() {
            let endpoint = &self.endpoints[index];
            let Some(listener) = &endpoint.listener else {
                continue;
            };
            // A connection that closed before it was accepted must not stop the link, and neither must a full
            // table of open files: accepting is tried again when a pair closes.
            while self.pairs.len() < most
                && let Ok(client) = listener.accept()
            {
                let Ok(server) = start_connecting(&endpoint.upstream) else {
                    // The client sees what it would see if the attempt failed a moment later.
                    reset_on_close(&client);
                    continue;
                };
                let id = self.next_id;
                let token = self.endpoints.len() as u64 + 2 * id;
                let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
                let added = self
                    .parts
                    .waiter
                    .add(&client, token, flags)
                    .and_then(|()| self.parts.waiter.add(&server, token + 1, flags));
                if added.is_err() {
                    continue;
                }
                self.next_id += 1;
                let messages = staging.and_then(|staging| staging.messages.as_ref());
                let exchange = messages.map(|new| Box::new(Exchange::new(new())));
                let entry = Entry {
                    pair: Pair::new(client, server, LIMIT_BYTES, exchange),
                    is_frozen: false,
                    armed: [false; 2],
                };
                self.pairs.insert(id, entry);
                self.path.flow.stats.connections += 1;
                self.path.flow.stats.connections_open += 1;
            }
        }
    }

    /// Moves data on one pair and arms its next releases.
    fn turn(&mut self, id: u64) {
        if self.is_still() {
            return;
        }
        let Some(entry) = self.pairs.get_mut(&id).filter(|entry| !entry.is_frozen) else {
            return;
        };
        match entry.pair.turn(&mut self.path) {
            fate @ (Fate::Open | Fate::Busy) => {
                if fate == Fate::Busy {
                    self.busy.push(id);
                }
                for direction in BOTH {
                    let armed = &mut entry.armed[direction as usize];
                    if let Some(release) = entry.pair.next_release(direction)
                        && !*armed
                    {
                        *armed = true;
                        let is_down = direction == Direction::Down;
                        self.releases.push(Reverse((release, id, is_down)));
                    }
                }
            }
            Fate::Stopped => {
                for step in std::mem::take(&mut self.path.flow.due) {
                    self.act(step, Some(id));
                }
                self.busy.push(id);
            }
            Fate::Closed => self.close(id),
            Fate::Reset => self.reset(id),
        }
    }

    fn release(&mut self) {
        if self.is_still() {
            return;
        }
        while let Some(Reverse((release, id, is_down))) = self.releases.peek().copied() {
            let now = Instant::now();
            if release > now {
                return;
            }
            let stats = &mut self.path.flow.stats;
            stats.latest_release = stats.latest_release.max(now - release);
            self.parts.counters.release_late.note(now - release);
            self.releases.pop();
            if let Some(entry) = self.pairs.get_mut(&id) {
                entry.armed[usize::from(is_down)] = false;
                self.turn(id);
            }
        }
    }

    fn obey(&mut self) -> ControlFlow<()> {
        while let Ok(Command { order, done }) = self.parts.inbox.try_recv() {
            let answer = match order {
                Order::Stop => {
                    // Only the handle can wait for this answer, and it is being dropped.
                    let _ = done.send(Ok(()));
                    return ControlFlow::Break(());
                }
                Order::SetShape(shape) => {
                    self.path.flow.up.set_lane(shape.up);
                    self.path.flow.down.set_lane(shape.down);
                    Ok(())
                }
                Order::Inject(fault) => self.begin(fault, None, None, None),
                Order::Clear => self.clear(),
                Order::Nothing => Ok(()),
            };
            self.parts.counters.write(&self.path.flow.stats);
            // The caller can have stopped waiting, which does not affect the link.
            let _ = done.send(answer);
        }
        ControlFlow::Continue(())
    }

    pub(super) fn listen(&self, index: usize, address: &Address) -> Result<Listener, Error> {
        let listener = (self.parts.bind)(address)?;
        let flags = EventFlags::IN | EventFlags::ET;
        self.parts.waiter.add(&listener.fd, index as u64, flags)?;
        Ok(listener)
    }

    pub(super) fn reset(&mut self, id: u64) {
        if let Some(entry) = self.pairs.get(&id) {
            entry.pair.reset_on_close();
        }
        self.close(id);
    }

    fn close(&mut self, id: u64) {
        if let Some(entry) = self.pairs.remove(&id) {
            self.path.flow.stats.bytes_in_flight -= entry.pair.in_flight() as u64;
            self.path.flow.stats.connections_open -= 1;
            drop(entry);
            // Pending connections may have been waiting for room.
            self.accept();
        }
    }
}

/// Prepares a script, which starts now.
fn stage(scripted: Scripted) -> Result<(Staging, Progress), Error> {
    if scripted.script.counts_messages() && scripted.messages.is_none() {
        return Err(Error::Script {
            what: "counting messages needs a protocol",
        });
    }
    let messages = scripted.messages;
    let staging = Staging {
        started: Instant::now(),
        messages: messages.filter(|_| scripted.script.counts_messages()),
        max_connections: scripted.max_connections,
    };
    Ok((staging, Progress::new(scripted.script)?))
}

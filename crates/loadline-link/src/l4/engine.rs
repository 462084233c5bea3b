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
use crate::address::{Address, Listener, start_connecting};
use crate::fault::Fault;
use crate::l4::arrival::Reader;
use crate::l4::pair::{BOTH, Direction, Fate, Pair, Path, reset_on_close};
use crate::l4::{Beside, Binder, Command, Counters, LIMIT_BYTES, Order, Route, Stats};
use crate::queue::Schedule;
use crate::shape::Shape;
use crate::wait::{Events, Waiter};

const READ_BYTES: usize = 64 << 10;

pub(super) struct Engine {
    doors: Vec<Door>,
    pairs: HashMap<u64, Entry>,
    next_id: u64,
    /// When which pair has something to release: one entry per direction that is armed.
    releases: BinaryHeap<Reverse<(Instant, u64, bool)>>,
    path: Path,
    /// Pairs that were not finished with, so that others had their turn.
    busy: Vec<u64>,
    black_hole: bool,
    means: Means,
}

/// What the loop works with.
pub(super) struct Means {
    pub(super) waiter: Waiter,
    pub(super) bind: Binder,
    pub(super) beside: Option<Box<dyn Beside>>,
    pub(super) counters: Arc<Counters>,
    pub(super) inbox: Receiver<Command>,
}

/// The first token of the additional work: above those of all connections that are possible.
const BESIDE: u64 = 1 << 63;

/// Where connections arrive and where they are led to.
struct Door {
    /// `None` while connections are refused.
    listener: Option<Listener>,
    address: Address,
    upstream: Address,
}

struct Entry {
    pair: Pair,
    /// Whether `releases` holds an entry, for each direction.
    armed: [bool; 2],
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    pub(super) fn new(routes: &[Route], shape: Shape, means: Means) -> Result<Self, Error> {
        if let Some(beside) = &means.beside {
            beside.watch(&means.waiter, BESIDE)?;
        }
        let mut engine = Self {
            doors: Vec::with_capacity(routes.len()),
            pairs: HashMap::new(),
            next_id: 0,
            releases: BinaryHeap::new(),
            path: Path {
                up: Schedule::new(shape.up, shape.seed),
                down: Schedule::new(shape.down, !shape.seed),
                close_delay: Duration::ZERO,
                stats: Stats::default(),
                reader: Reader::new(READ_BYTES),
            },
            busy: Vec::new(),
            black_hole: false,
            means,
        };
        for (index, route) in routes.iter().enumerate() {
            let listener = engine.listen(index, &route.listen)?;
            engine.doors.push(Door {
                address: listener.address.clone(),
                listener: Some(listener),
                upstream: route.upstream.clone(),
            });
        }
        Ok(engine)
    }

    pub(super) fn addresses(&self) -> Vec<Address> {
        self.doors.iter().map(|door| door.address.clone()).collect()
    }

    /// Until a stop is requested, or its handle is gone.
    pub(super) fn run(mut self) {
        let mut events = Events::new();
        let mut touched = Vec::new();
        self.path.stats.scheduling = self.means.waiter.claim_priority();
        self.means.counters.write(&self.path.stats);
        loop {
            match self.means.waiter.wait(self.next_time(), &mut events) {
                Ok(true) => {
                    self.note_events(&events, &mut touched);
                    if self.obey().is_break() {
                        break;
                    }
                }
                Ok(false) => {}
                // Waiting fails only for want of kernel memory; the handle then says that the link
                // has stopped.
                Err(_) => break,
            }
            touched.append(&mut self.busy);
            touched.sort_unstable();
            touched.dedup();
            for id in touched.drain(..) {
                self.turn(id);
            }
            self.release();
            if let Some(beside) = &mut self.means.beside {
                beside.turn();
            }
            self.means.counters.write(&self.path.stats);
        }
        self.pairs.clear();
        if let Some(beside) = &mut self.means.beside {
            beside.finish();
        }
    }

    /// When there is something to do without an event.
    fn next_time(&self) -> Option<Instant> {
        let beside = self.means.beside.as_ref();
        let times = [self.next_release(), beside.and_then(|it| it.next_time())];
        times.into_iter().flatten().min()
    }

    fn next_release(&self) -> Option<Instant> {
        if self.black_hole {
            return None;
        }
        if !self.busy.is_empty() {
            return Some(Instant::now());
        }
        self.releases.peek().map(|Reverse((release, ..))| *release)
    }

    fn note_events(&mut self, events: &Events, touched: &mut Vec<u64>) {
        let doors = self.doors.len() as u64;
        let mut arrivals = false;
        for (token, flags) in events.iter() {
            if let (Some(index), Some(beside)) = (token.checked_sub(BESIDE), &mut self.means.beside)
            {
                beside.note(index as usize);
                continue;
            }
            let Some(token) = token.checked_sub(doors) else {
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

    fn accept(&mut self) {
        if self.black_hole {
            return;
        }
        for index in 0..self.doors.len() {
            let door = &self.doors[index];
            let Some(listener) = &door.listener else {
                continue;
            };
            // One that went away before it was accepted is no reason to stop, and neither is a full
            // table of open files: closing a pair tries again.
            while let Ok(client) = listener.accept() {
                let Ok(server) = start_connecting(&door.upstream) else {
                    // As when the attempt fails a moment later.
                    reset_on_close(&client);
                    continue;
                };
                let id = self.next_id;
                let token = self.doors.len() as u64 + 2 * id;
                let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
                let added = self
                    .means
                    .waiter
                    .add(&client, token, flags)
                    .and_then(|()| self.means.waiter.add(&server, token + 1, flags));
                if added.is_err() {
                    continue;
                }
                self.next_id += 1;
                let entry = Entry {
                    pair: Pair::new(client, server, LIMIT_BYTES),
                    armed: [false; 2],
                };
                self.pairs.insert(id, entry);
                self.path.stats.connections += 1;
                self.path.stats.connections_open += 1;
            }
        }
    }

    /// Moves what can be moved on one pair, and arms its next releases.
    fn turn(&mut self, id: u64) {
        if self.black_hole {
            return;
        }
        let Some(entry) = self.pairs.get_mut(&id) else {
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
            Fate::Closed => self.close(id),
            Fate::Reset => self.reset(id),
        }
    }

    fn release(&mut self) {
        if self.black_hole {
            return;
        }
        while let Some(Reverse((release, id, is_down))) = self.releases.peek().copied() {
            let now = Instant::now();
            if release > now {
                return;
            }
            let stats = &mut self.path.stats;
            stats.latest_release = stats.latest_release.max(now - release);
            self.means.counters.release_late.note(now - release);
            self.releases.pop();
            if let Some(entry) = self.pairs.get_mut(&id) {
                entry.armed[usize::from(is_down)] = false;
                self.turn(id);
            }
        }
    }

    fn obey(&mut self) -> ControlFlow<()> {
        while let Ok(Command { order, done }) = self.means.inbox.try_recv() {
            let answer = match order {
                Order::Stop => {
                    // Nobody waits for the answer but the handle, which is being dropped.
                    let _ = done.send(Ok(()));
                    return ControlFlow::Break(());
                }
                Order::SetShape(shape) => {
                    self.path.up.set_lane(shape.up);
                    self.path.down.set_lane(shape.down);
                    Ok(())
                }
                Order::Inject(fault) => {
                    self.inject(fault);
                    Ok(())
                }
                Order::Clear => self.clear(),
                Order::Nothing => Ok(()),
            };
            self.means.counters.write(&self.path.stats);
            // A caller that no longer waits is no concern of the link.
            let _ = done.send(answer);
        }
        ControlFlow::Continue(())
    }

    fn inject(&mut self, fault: Fault) {
        let ids: Vec<u64> = self.pairs.keys().copied().collect();
        match fault {
            Fault::Cut => self.each(|pair, path| pair.cut(path)),
            Fault::HalfOpen => self.each(|pair, path| pair.half_open(path)),
            Fault::Reset => ids.into_iter().for_each(|id| self.reset(id)),
            Fault::BlackHole => self.black_hole = true,
            Fault::Refuse => {
                for door in &mut self.doors {
                    if let Some(listener) = &mut door.listener.take() {
                        listener.keep_file();
                    }
                }
            }
            Fault::SlowClose { delay } => self.path.close_delay = delay,
        }
    }

    fn clear(&mut self) -> Result<(), Error> {
        self.path.close_delay = Duration::ZERO;
        if self.black_hole {
            self.black_hole = false;
            let ids: Vec<u64> = self.pairs.keys().copied().collect();
            ids.into_iter().for_each(|id| self.turn(id));
        }
        for index in 0..self.doors.len() {
            if self.doors[index].listener.is_none() {
                let address = self.doors[index].address.clone();
                self.doors[index].listener = Some(self.listen(index, &address)?);
            }
        }
        self.accept();
        Ok(())
    }

    fn listen(&self, index: usize, address: &Address) -> Result<Listener, Error> {
        let listener = (self.means.bind)(address)?;
        let flags = EventFlags::IN | EventFlags::ET;
        self.means.waiter.add(&listener.fd, index as u64, flags)?;
        Ok(listener)
    }

    fn each(&mut self, what: impl Fn(&mut Pair, &mut Path)) {
        for (id, entry) in &mut self.pairs {
            what(&mut entry.pair, &mut self.path);
            // What waits to be read is now to be thrown away.
            self.busy.push(*id);
        }
    }

    fn reset(&mut self, id: u64) {
        if let Some(entry) = self.pairs.get(&id) {
            entry.pair.reset_on_close();
        }
        self.close(id);
    }

    fn close(&mut self, id: u64) {
        if let Some(entry) = self.pairs.remove(&id) {
            self.path.stats.bytes_in_flight -= entry.pair.in_flight() as u64;
            self.path.stats.connections_open -= 1;
            drop(entry);
            // There may have been no room for the connections that wait.
            self.accept();
        }
    }
}

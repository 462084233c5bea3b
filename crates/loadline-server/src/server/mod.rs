//! The event loop.

mod clients;
#[cfg(test)]
mod held;
mod net;
mod pages;
#[cfg(test)]
mod posted;
#[cfg(test)]
mod rig;
mod waiting;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use loadline_store::Pace;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::Timespec;

use crate::Error;
use crate::connection::{Connection, MOST_HELD, Over};
use crate::listen::{Listener, ServerConfig};
use crate::persistence::Persistence;
use crate::settings::Settings;
use crate::state::{Shared, Warnings, wall_ms};
use crate::waker::Waker;
use net::{Connections, Meanwhile, Net};
use pages::Pages;

const READ_BYTES: usize = 64 << 10;
const EVENTS: usize = 256;
/// The token of the event that the log was synced in the background, or a migration has ended.
const WOKEN: u64 = u64::MAX;
/// Open files of a server besides its connections.
const SPARE_FILES: u64 = 32;
/// The longest sleep of the loop, which bounds the interval of expiry and the reaction to a stop.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// The most entries per database that a sweep checks for expiry.
const SWEEP_ENTRIES: usize = 20_000;
const SWEEP_EVERY_MS: u64 = 100;

/// A listening server.
#[derive(Debug)]
pub struct Server {
    net: Net,
    shared: Shared,
    /// Connections that were read in this turn and whose replies are sent at its end.
    turn: Vec<u64>,
    /// Connections with replies that are held back, in the order of the positions of the log that they wait for.
    held: VecDeque<(u64, u64)>,
    /// Connections whose waits for keys have ended, and whose later requests are executed at the end of the turn.
    served: Vec<u64>,
    pace: Pace,
    pages: Pages,
    /// Connections over the soft limit of output, with the times since when.
    over_limit: HashMap<u64, u64>,
    /// Whether the memory of each connection is counted, since `maxmemory-clients` limits it.
    weighs_clients: bool,
    /// Whether accepting is paused because the process has no more file descriptors.
    full: bool,
    swept_at: u64,
}

impl Server {
    /// Listens on the addresses of `config`. The process's limit of open files is raised to fit the clients;
    /// if the system refuses, fewer clients are accepted.
    ///
    /// # Errors
    /// [`Error::Unprotected`] for an address without a password that other machines can reach,
    /// [`Error::Nowhere`] without any address, [`Error::Listen`] if an address is taken.
    pub fn bind(mut config: ServerConfig) -> Result<Self, Error> {
        if config.listen.is_empty() {
            return Err(Error::Nowhere);
        }
        let listeners = config
            .listen
            .iter()
            .map(|listen| Listener::bind(listen, &config))
            .collect::<Result<Vec<_>, _>>()?;
        config.max_clients = allow_connections(config.max_clients);
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system("epoll_create"))?;
        for (token, listener) in listeners.iter().enumerate() {
            epoll::add(
                &epoll,
                listener,
                EventData::new_u64(token as u64),
                EventFlags::IN,
            )
            .map_err(Error::system("epoll_ctl"))?;
        }
        let port = port_where(&listeners, |listener| matches!(listener, Listener::Tcp(_)));
        let commands = crate::commands::places().len();
        let mut shared = Shared::new(
            config.password.as_deref(),
            config.max_clients,
            port,
            commands,
        );
        #[cfg(feature = "slowdown")]
        {
            shared.slowdown = config.slowdown;
        }
        shared.warnings = Warnings::new(config.on_warning);
        shared.debug_command = config.debug_command;
        shared.tls = config.tls.take();
        shared.tls_port = port_where(&listeners, |listener| matches!(listener, Listener::Tls(_)));
        if let Some(path) = config.acl_file.clone() {
            load_users(path, &mut shared)?;
        }
        if let Some(dir) = config.dir.clone() {
            Persistence::open(dir, config.durability, &mut shared)?;
        }
        shared.waker = wake(&epoll)?;
        shared.wake_after_syncs();
        shared.set(Settings {
            maxmemory: config.max_memory_bytes,
            eviction: config.eviction,
            ..Settings::default()
        });
        Ok(Self {
            net: Net {
                config,
                listeners,
                epoll,
                connections: Connections::default(),
                newcomers: RefCell::default(),
                served: RefCell::default(),
            },
            shared,
            turn: Vec::new(),
            held: VecDeque::new(),
            served: Vec::new(),
            pace: Pace::default(),
            pages: Pages::default(),
            over_limit: HashMap::new(),
            weighs_clients: false,
            full: false,
            swept_at: 0,
        })
    }

    /// The TCP addresses it listens on, with the ports that the kernel chose.
    #[must_use]
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.net
            .listeners
            .iter()
            .filter_map(Listener::address)
            .collect()
    }

    /// Serves until `stop` is set (checked ten times a second) or a client sends SHUTDOWN.
    ///
    /// # Errors
    /// [`Error::System`] if the operating system refuses to wait for events.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), Error> {
        let mut events = Vec::with_capacity(EVENTS);
        let mut buffer = vec![0; READ_BYTES];
        while !stop.load(Ordering::Relaxed) && !self.shared.shutdown {
            self.turn(stop, &mut events, &mut buffer)?;
            if let Some(failure) = self.shared.failure.take() {
                return Err(failure);
            }
        }
        if !self.shared.abandons_script {
            if !self.held.is_empty() {
                self.shared.sync();
            }
            self.answer(true);
        }
        // Without a log there is nothing to close.
        self.shared.close()?;
        Ok(())
    }

    /// Waits for events, executes what came with them, and answers.
    fn turn(
        &mut self,
        stop: &AtomicBool,
        events: &mut Vec<epoll::Event>,
        buffer: &mut [u8],
    ) -> Result<(), Error> {
        events.clear();
        let sleep = self.longest_sleep();
        let room = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.net.epoll, room, Some(&sleep)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::system("epoll_wait")(errno)),
        }
        self.shared.now = wall_ms();
        self.shared.begin_turn();
        for event in events {
            let token = event.data.u64();
            match self.net.listeners.get(token as usize) {
                Some(_) => self.accept(token as usize),
                // The end of the turn looks for the reason.
                None if token == WOKEN => {}
                None => self.receive(stop, token, event.flags, buffer),
            }
        }
        self.end_migrations();
        self.end_pause(stop);
        self.go_on_with_served(stop);
        self.take_in();
        // No reply of this turn leaves then.
        if self.shared.abandons_script || self.shared.failure.is_some() {
            return Ok(());
        }
        self.answer(false);
        self.sweep();
        self.shared.rewrite_some();
        Ok(())
    }

    /// The longest sleep, which ends with a pause or a wait for keys at the latest, and when a sync is due. There is none during a rewrite.
    fn longest_sleep(&self) -> Timespec {
        let mut sleep = LONGEST_SLEEP;
        if self.shared.is_rewriting() {
            sleep = Duration::ZERO;
        }
        if let Some(pause) = self.shared.pause {
            let left_ms = pause.until_ms.saturating_sub(wall_ms());
            sleep = sleep.min(Duration::from_millis(left_ms));
        }
        let waiting = &self.shared.watched.waiting;
        if let Some(deadline) = waiting.first_deadline() {
            let left_ms = deadline.saturating_sub(wall_ms());
            sleep = sleep.min(Duration::from_millis(left_ms));
        }
        if waiting.has_work() || self.shared.pubsub.has_listed() {
            sleep = Duration::ZERO;
        }
        if !self.held.is_empty()
            && let Some(due) = self.pace.longest_sleep(Instant::now())
        {
            sleep = sleep.min(due);
        }
        // It is much shorter than a second.
        Timespec {
            tv_sec: 0,
            tv_nsec: sleep.subsec_nanos().into(),
        }
    }

    /// Ends a pause that has run out, and executes the postponed commands once there is no pause.
    fn end_pause(&mut self, stop: &AtomicBool) {
        let now = self.shared.now;
        self.shared.pause = self.shared.pause.filter(|pause| now < pause.until_ms);
        if self.shared.pause.is_some() || !std::mem::take(&mut self.shared.has_postponed) {
            return;
        }
        let mut tokens = self.net.connections.tokens_where(Connection::is_postponed);
        // Oldest connections first, so that the order is deterministic.
        tokens.sort_unstable();
        for token in tokens {
            let others = Meanwhile {
                net: &self.net,
                stop,
                turn: &self.turn,
            };
            let connection = self.net.connections.borrow(token);
            match connection.map(|mut connection| connection.resume(&mut self.shared, &others)) {
                Some(Ok(())) => self.turn.push(token),
                Some(Err(Over)) => self.close(token),
                None => {}
            }
            self.serve_and_go_on(stop, token);
        }
    }

    fn receive(&mut self, stop: &AtomicBool, token: u64, flags: EventFlags, buffer: &mut [u8]) {
        let others = Meanwhile {
            net: &self.net,
            stop,
            turn: &self.turn,
        };
        let Some(mut connection) = self.net.connections.borrow(token) else {
            return;
        };
        // No one receives the replies that are held back or to come, and the event would come again until they leave.
        let is_gone = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        let has_to_wait = connection.is_holding() || connection.is_postponed();
        let received = if is_gone && has_to_wait {
            Err(Over)
        } else {
            connection.receive(&mut self.shared, &others, buffer)
        };
        drop(connection);
        match received {
            Ok(()) => self.turn.push(token),
            Err(Over) => self.close(token),
        }
        self.serve_and_go_on(stop, token);
    }

    /// Writes the replies of a turn, with one write per connection. Writing them at the end lets a peer with
    /// many connections wake up once instead of once per connection. The messages of many subscribers leave in parts, unless
    /// the turn is the last one.
    fn answer(&mut self, is_last: bool) {
        let first = self.net.listeners.len() as u64;
        if self.shared.watched.tracking.is_used() {
            self.post_notices();
        }
        if self.shared.monitors.are_used() {
            self.show_commands();
        }
        let pubsub = &mut self.shared.pubsub;
        let due = if is_last { usize::MAX } else { pubsub.due() };
        let receivers = pubsub.take_listed(due);
        self.turn.extend(receivers.map(|id| first + id));
        if std::mem::take(&mut self.shared.is_reopened) {
            self.release_all();
        }
        let is_committed = self.shared.commit();
        let unsynced = self.shared.unsynced();
        for token in &self.turn {
            let Some(connection) = self.net.connections.get_mut(token) else {
                continue;
            };
            let position = connection.settle(is_committed, unsynced, &mut self.shared);
            self.held
                .extend(position.map(|position| (position, *token)));
        }
        if !self.held.is_empty() {
            self.sync(unsynced);
        }
        let mut turn = std::mem::take(&mut self.turn);
        for token in &turn {
            self.flush(*token);
        }
        if self.weighs_clients || self.shared.client_limit().is_some() {
            self.limit_clients(&turn);
        }
        turn.clear();
        self.turn = turn;
        if std::mem::take(&mut self.shared.killed) {
            self.close_where(Connection::is_killed);
        }
    }

    /// Puts the commands of a turn behind the replies of the clients that watch them.
    #[cold]
    fn show_commands(&mut self) {
        let (lines, clients) = self.shared.monitors.take();
        if lines.is_empty() {
            return;
        }
        for id in clients {
            let token = self.net.token_of(id);
            if let Some(connection) = self.net.connections.get_mut(&token) {
                connection.show(&lines, &mut self.shared);
                self.turn.push(token);
            }
        }
    }

    /// Puts notices about changed keys behind the replies of their clients.
    #[cold]
    fn post_notices(&mut self) {
        self.shared.send_broadcasts();
        for id in self.shared.watched.tracking.receivers() {
            let token = self.net.token_of(id);
            if let Some(connection) = self.net.connections.get_mut(&token) {
                connection.prepare_output(&mut self.shared);
                self.turn.push(token);
            }
        }
    }

    /// Lets replies leave that waited for a sync, and begins the next one when it is due. `unsynced` is the position that
    /// the newest replies wait for; there is none once replies no longer wait, except for those that did before.
    fn sync(&mut self, unsynced: Option<u64>) {
        let waiting = self.held.len();
        if self.pace.is_under_way() && !self.shared.is_syncing() {
            self.pace.end(waiting, Instant::now());
        }
        self.release();
        let Some((newest, _)) = self.held.back() else {
            return;
        };
        let position = unsynced.unwrap_or(*newest);
        let (waiting, now) = (self.held.len(), Instant::now());
        if !self.pace.is_due(waiting, now) {
            return;
        }
        self.pace.begin(now);
        self.shared.sync_to(position);
    }

    /// Lets replies leave whose position of the log has reached the disk; after an error of a sync, all of them.
    fn release(&mut self) {
        let has_failed = self.shared.has_failed();
        while let Some((position, token)) = self.held.front().copied()
            && (has_failed || self.shared.is_synced(position))
        {
            self.held.pop_front();
            // It can be closed already.
            let Some(connection) = self.net.connections.get_mut(&token) else {
                continue;
            };
            if has_failed {
                connection.refuse_held(&mut self.shared);
            } else {
                connection.release(position);
            }
            self.turn.push(token);
        }
    }

    /// Lets all replies leave that were held back: everything has reached the disk.
    #[cold]
    fn release_all(&mut self) {
        for (_, token) in self.held.drain(..) {
            if let Some(connection) = self.net.connections.get_mut(&token) {
                connection.release(u64::MAX);
                self.turn.push(token);
            }
        }
    }

    fn flush(&mut self, token: u64) {
        let Some(mut borrowed) = self.net.connections.borrow(token) else {
            return;
        };
        let connection = &mut *borrowed;
        let flushed = connection.flush(&mut self.shared);
        let told = flushed.and_then(|interest| {
            if interest.contains(EventFlags::OUT) || !self.over_limit.is_empty() {
                note_soft_limit(&mut self.over_limit, token, connection, &mut self.shared);
            }
            self.net.await_events(token, connection, interest)
        });
        drop(borrowed);
        if told == Err(Over) {
            self.close(token);
        }
    }

    fn accept(&mut self, listener: usize) {
        if self.net.accept(listener, &mut self.shared) {
            self.listen_later();
        }
        self.take_in();
    }

    /// Takes in the connections that were accepted, and those that were served while a script ran.
    fn take_in(&mut self) {
        for (token, mut connection) in self.net.newcomers.get_mut().drain() {
            if self.weighs_clients {
                connection.weigh(&mut self.shared);
            }
            self.net.connections.insert(token, connection);
        }
        for (token, outcome) in std::mem::take(self.net.served.get_mut()) {
            match outcome {
                Ok(()) => self.turn.push(token),
                Err(Over) => self.close(token),
            }
        }
    }

    /// Stops accepting until the next sweep: without free file descriptors, pending connections would wake
    /// the loop endlessly.
    fn listen_later(&mut self) {
        self.full = true;
        self.net.listen(EventFlags::empty());
    }

    fn close(&mut self, token: u64) {
        if let Some(mut connection) = self.net.connections.remove(token) {
            connection.forget(&mut self.shared);
            self.over_limit.remove(&token);
        }
        self.shared.clients = self.net.connections.len();
        // While a sync hangs, closed connections must not add up. Half of the entries or more are theirs.
        if self.held.len() > 2 * MOST_HELD * (self.net.connections.len() + 1) {
            let connections = &self.net.connections;
            self.held
                .retain(|(_, token)| connections.contains_key(token));
        }
    }

    fn close_where(&mut self, is_over: impl Fn(&Connection) -> bool) {
        let over = self.net.connections.tokens_where(is_over);
        over.into_iter().for_each(|token| self.close(token));
    }

    /// Closes connections whose output was over the soft limit for too long.
    fn close_over_limit(&mut self) {
        let now = self.shared.now;
        let is_over = |(token, since): (&u64, &u64)| {
            let connection = self.net.connections.borrow(*token)?;
            let seconds = connection.output_limit(&self.shared).soft_seconds;
            (now.saturating_sub(*since) > seconds.saturating_mul(1_000)).then_some(*token)
        };
        let over: Vec<u64> = self.over_limit.iter().filter_map(is_over).collect();
        over.into_iter().for_each(|token| self.close(token));
    }

    /// Ten times a second: expires keys in a bounded part of the keyspace and samples the rates.
    fn sweep(&mut self) {
        // A clock that was set back must not stop the sweeps.
        if self.shared.now.abs_diff(self.swept_at) < SWEEP_EVERY_MS {
            return;
        }
        self.swept_at = self.shared.now;
        self.on_timer();
    }

    /// The work of a sweep. A separate function in every build, so that a profiler can distinguish its
    /// instructions from those of commands.
    #[inline(never)]
    fn on_timer(&mut self) {
        // The data must not change during a pause.
        let begun = Instant::now();
        let databases = self.shared.databases.iter();
        let expires = self.shared.pause.is_none() && self.shared.expires_actively;
        for database in databases.filter(|_| expires) {
            database.expire_some(self.shared.now, SWEEP_ENTRIES);
        }
        let (took, now) = (begun.elapsed(), self.shared.now / 1_000);
        self.shared.slow.sample("expire-cycle", took, now);
        self.shared.note_expired();
        self.shared.follow_tracking();
        self.shared.check_log();
        self.shared.check_rewrite();
        let is_steady = self.shared.pause.is_some() || self.shared.is_stuck();
        if self.shared.settings.maxmemory > 0 && !is_steady {
            self.shared.make_room();
        }
        if self.shared.notifies() {
            self.shared.notify_gone();
        }
        self.shared.stats.sample(self.shared.now);
        self.shared.trim_memory();
        self.pages.follow(&self.shared);
        self.close_over_limit();
        if self.shared.settings.timeout > 0 {
            self.close_idle();
        }
        if self.shared.has_draining {
            let now = self.shared.now;
            self.close_where(|connection| connection.is_drained(now));
            let draining = self.net.connections.tokens_where(Connection::is_draining);
            self.shared.has_draining = !draining.is_empty();
        }
        if self.shared.has_handshaking {
            let timeout = self.net.config.handshake_timeout;
            self.close_where(|connection| connection.stream.is_overdue(timeout));
            let connections = &mut self.net.connections;
            let left = connections.tokens_where(|connection| connection.stream.is_handshaking());
            self.shared.has_handshaking = !left.is_empty();
        }
        if std::mem::take(&mut self.full) {
            self.net.listen(EventFlags::IN);
        }
    }
}

/// Notes whether the output of a connection is over the soft limit of its class.
#[cold]
fn note_soft_limit(
    over_limit: &mut HashMap<u64, u64>,
    token: u64,
    connection: &Connection,
    shared: &mut Shared,
) {
    let soft = connection.output_limit(shared).soft;
    let bytes = connection.waiting_output_bytes(shared) as u64;
    if soft > 0 && bytes >= soft {
        over_limit.entry(token).or_insert(shared.now);
    } else {
        over_limit.remove(&token);
    }
}

/// The port of the first listener of a kind; 0 without one.
fn port_where(listeners: &[Listener], is_of: impl Fn(&Listener) -> bool) -> u16 {
    let mut listeners = listeners.iter().filter(|listener| is_of(listener));
    let address = listeners.find_map(Listener::address);
    address.map_or(0, |address| address.port())
}

/// Reads the file of users.
fn load_users(path: PathBuf, shared: &mut Shared) -> Result<(), Error> {
    let name = path.display().to_string();
    let text = std::fs::read(&path).map_err(|error| error.to_string());
    let loaded = text.and_then(|text| shared.acl.load(&name, &text));
    loaded.map_err(|why| Error::Users { path: name, why })?;
    shared.acl.file = Some(path);
    Ok(())
}

/// A way for other threads to wake the event loop.
fn wake(epoll: &OwnedFd) -> Result<Waker, Error> {
    let waker = Waker::new().map_err(Error::system("eventfd"))?;
    // Every write to it is an event, so that it need not be read.
    let (data, interest) = (EventData::new_u64(WOKEN), EventFlags::IN | EventFlags::ET);
    if let Some(event) = waker.descriptor() {
        epoll::add(epoll, event, data, interest).map_err(Error::system("epoll_ctl"))?;
    }
    Ok(waker)
}

/// Raises the process's limit of open files to fit `max_clients` connections, if the system permits it, and
/// returns the number of connections that fit.
fn allow_connections(max_clients: usize) -> usize {
    let wanted = max_clients as u64 + SPARE_FILES;
    let limit = getrlimit(Resource::Nofile);
    let is_enough = |allowed: Option<u64>| allowed.is_none_or(|files| files >= wanted);
    if is_enough(limit.current) {
        return max_clients;
    }
    let raised = Rlimit {
        current: Some(limit.maximum.map_or(wanted, |most| most.min(wanted))),
        ..limit
    };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        Err(_) => limit.current,
    };
    let files = allowed.unwrap_or(wanted).saturating_sub(SPARE_FILES);
    usize::try_from(files).map_or(max_clients, |files| files.clamp(1, max_clients))
}

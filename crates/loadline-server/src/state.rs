//! State shared by all connections, and state of each connection.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use loadline_resp::Protocol;
use loadline_store::{Evicted, Keyspace, Victim};

use crate::buffer::Part;
use crate::commands::{self, Interpreter};
use crate::memory::Trimmer;
use crate::persistence::Persistence;
use crate::pubsub::{PubSub, Subscriptions};
use crate::settings::Settings;
use crate::stats::{Gone, Stats};
use crate::waiting::{Release, Wait, WaitingClients};

/// The number of databases.
pub(crate) const DATABASES: usize = 16;

/// The state of the server.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) databases: Vec<Keyspace>,
    pub(crate) password: Option<String>,
    pub(crate) max_clients: usize,
    pub(crate) started: Instant,
    /// The random id of this run: 40 hexadecimal digits.
    pub(crate) run_id: String,
    pub(crate) port: u16,
    /// The time of this turn of the event loop, in milliseconds since the Unix epoch.
    pub(crate) now: u64,
    pub(crate) clients: usize,
    pub(crate) next_id: u64,
    pub(crate) stats: Stats,
    pub(crate) watched: Watched,
    pub(crate) pubsub: PubSub,
    /// Bytes of replies that sockets did not take.
    pub(crate) output_bytes: usize,
    /// The log, for a server with a directory.
    pub(crate) persistence: Option<Persistence>,
    /// All connections, by their ids.
    pub(crate) peers: BTreeMap<u64, Arc<Peer>>,
    /// Whether a connection was killed since the last turn.
    pub(crate) killed: bool,
    /// Whether a connection can be discarding its input.
    pub(crate) has_draining: bool,
    /// Set by SHUTDOWN.
    pub(crate) shutdown: bool,
    /// A known slowdown of every command.
    #[cfg(feature = "slowdown")]
    pub(crate) slowdown: Option<crate::Slowdown>,
    pub(crate) warnings: Warnings,
    pub(crate) settings: Settings,
    /// The interpreter of scripts, from the first script on; not there while a script runs.
    pub(crate) interpreter: Option<Box<Interpreter>>,
    pub(crate) trimmer: Trimmer,
    /// The current pause by CLIENT PAUSE.
    pub(crate) pause: Option<Pause>,
    /// Whether a command can be waiting for the end of a pause.
    pub(crate) has_postponed: bool,
    /// The size of the data in bytes when it was last computed, and the time of that.
    added_up: Option<(usize, Instant)>,
    /// The order in which the databases evict.
    victim: Option<Victim>,
    /// The database in which eviction continues.
    evicting: usize,
    /// No search for keys to evict before this time, because the last one found none, in milliseconds since
    /// the Unix epoch.
    fruitless_until: u64,
}

/// The wait after a search found no key to evict.
const FRUITLESS_MS: u64 = 10;

/// The most keys that are removed for one command, so that lowering the limit does not block other commands.
const MOST_EVICTED: usize = 1_000;

/// Reports an event to the operator at most once a minute, because clients can repeat it at will.
#[derive(Debug)]
pub(crate) struct Warnings {
    pub(crate) report: fn(&str),
    last: Option<Instant>,
}

impl Warnings {
    const EVERY: Duration = Duration::from_secs(60);

    pub(crate) fn new(report: fn(&str)) -> Self {
        Self { report, last: None }
    }

    pub(crate) fn warn(&mut self, text: impl FnOnce() -> String) {
        if self.last.is_none_or(|last| last.elapsed() >= Self::EVERY) {
            self.last = Some(Instant::now());
            (self.report)(&text());
        }
    }
}

/// A pause by CLIENT PAUSE.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pause {
    /// The end of the pause, in milliseconds since the Unix epoch.
    pub(crate) until_ms: u64,
    /// Whether all commands wait, or only those that write.
    pub(crate) holds_all: bool,
}

/// Keys that connections watch for changes, or wait for.
#[derive(Debug)]
pub(crate) struct Watched {
    /// The connections that watch each key of a database.
    keys: HashMap<(usize, Vec<u8>), HashSet<u64>>,
    /// Connections with a changed watched key.
    pub(crate) changed: HashSet<u64>,
    pub(crate) waiting: WaitingClients,
    /// Whether no key is watched or waited for.
    is_idle: bool,
}

impl Default for Watched {
    fn default() -> Self {
        Self {
            keys: HashMap::new(),
            changed: HashSet::new(),
            waiting: WaitingClients::default(),
            is_idle: true,
        }
    }
}

/// A key that a connection watches.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) database: usize,
    pub(crate) key: Vec<u8>,
    /// Whether it existed when the connection started to watch.
    pub(crate) was_there: bool,
}

impl Watched {
    /// Watches a key for a connection, unless it is already watched.
    pub(crate) fn add(&mut self, session: &mut Session, watch: Watch) {
        let place = (watch.database, watch.key.clone());
        let watchers = self.keys.entry(place).or_default();
        if watchers.insert(session.id) {
            session.watched_bytes += 2 * watch.key.len() + size_of::<Watch>();
            session.watches.push(watch);
        }
        self.is_idle = false;
    }

    /// Lets a client wait for keys.
    pub(crate) fn wait(&mut self, id: u64, wait: Wait) {
        self.waiting.add(id, wait);
        self.note_idle();
    }

    /// Lets the clients look at a key that wait for it, although no one who watches it sees a change.
    pub(crate) fn note_ready(&mut self, database: usize, key: &[u8]) {
        self.waiting.note(database, key);
    }

    /// Ends the wait of a client.
    pub(crate) fn end_wait(&mut self, id: u64) {
        self.waiting.remove(id);
        self.note_idle();
    }

    /// Ends the wait of another client and returns whether it waited.
    pub(crate) fn release(&mut self, id: u64, how: Release) -> bool {
        let has_waited = self.waiting.release(id, how);
        self.note_idle();
        has_waited
    }

    fn note_idle(&mut self) {
        self.is_idle = self.keys.is_empty() && self.waiting.are_none();
    }

    /// Records the change of a key.
    #[inline]
    pub(crate) fn touch(&mut self, database: usize, key: &[u8]) {
        if !self.is_idle {
            self.note(database, key);
        }
    }

    #[cold]
    fn note(&mut self, database: usize, key: &[u8]) {
        self.waiting.note(database, key);
        if let Some(watchers) = self.keys.get(&(database, key.to_vec())) {
            self.changed.extend(watchers);
        }
    }

    /// Records changes of all watched keys for which `has_changed` returns true.
    pub(crate) fn touch_where(&mut self, has_changed: impl Fn(usize, &[u8]) -> bool) {
        for ((database, key), watchers) in &self.keys {
            if has_changed(*database, key) {
                self.changed.extend(watchers);
            }
        }
        self.waiting.note_where(has_changed);
    }

    /// Removes all watches of a connection.
    pub(crate) fn forget(&mut self, session: &mut Session) {
        for watch in session.watches.drain(..) {
            let place = (watch.database, watch.key);
            if let Some(watchers) = self.keys.get_mut(&place) {
                watchers.remove(&session.id);
                if watchers.is_empty() {
                    self.keys.remove(&place);
                }
            }
        }
        session.watched_bytes = 0;
        self.changed.remove(&session.id);
        self.note_idle();
    }
}

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) protocol: Protocol,
    pub(crate) database: usize,
    pub(crate) authenticated: bool,
    /// Whether all commands are allowed: the client has authenticated, and does not get messages between replies.
    pub(crate) is_free: bool,
    pub(crate) closing: bool,
    /// The commands queued since MULTI.
    pub(crate) queue: Option<Queue>,
    pub(crate) watches: Vec<Watch>,
    watched_bytes: usize,
    /// A command that waits. Later commands wait behind it.
    pub(crate) waiting: Option<Waiting>,
    /// The replies to commands whose changes are not yet as durable as requested.
    pub(crate) unconfirmed: Vec<Part>,
    /// Whether a reply of this turn depends on the data.
    pub(crate) has_seen_data: bool,
    pub(crate) replies: Replies,
    /// Messages of a command whose replies are not wanted.
    pub(crate) pushed: Vec<u8>,
    pub(crate) subscriptions: Subscriptions,
    /// Whether a command must reply at once: it is a part of a transaction.
    pub(crate) may_not_block: bool,
    /// The state that other connections can see.
    pub(crate) peer: Arc<Peer>,
}

/// A command that waits.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// For the end of a pause.
    ForPause(Vec<Vec<u8>>),
    /// For a key.
    ForKeys { words: Vec<Vec<u8>>, at_end: AtEnd },
    /// The command found no data again.
    Unserved,
}

impl Waiting {
    fn held_bytes(&self) -> usize {
        match self {
            Self::ForPause(words) => words.iter().map(Vec::len).sum(),
            // The keys are held a second time.
            Self::ForKeys { words, .. } => 2 * words.iter().map(Vec::len).sum::<usize>(),
            Self::Unserved => 0,
        }
    }
}

/// The reply at the end of the time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AtEnd {
    NullArray,
    Zero,
}

/// Whether a client wants replies, as set by CLIENT REPLY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replies {
    On,
    Off,
    /// Off for the current command, and on again after it.
    Skip,
    /// Becomes [`Skip`](Self::Skip) with the next command.
    SkipNext,
}

impl Replies {
    /// Whether the reply to the current command is dropped.
    pub(crate) fn are_dropped(self) -> bool {
        matches!(self, Self::Off | Self::Skip)
    }

    /// The mode for the next command.
    pub(crate) fn after_command(self) -> Self {
        match self {
            Self::Skip => Self::On,
            Self::SkipNext => Self::Skip,
            Self::On | Self::Off => self,
        }
    }
}

impl Session {
    /// Bytes of queued commands, watched keys and subscriptions.
    pub(crate) fn held_bytes(&self) -> usize {
        let queued = self.queue.as_ref().map_or(0, Queue::held_bytes);
        let waiting = self.waiting.as_ref().map_or(0, Waiting::held_bytes);
        queued + waiting + self.watched_bytes + self.subscriptions.held_bytes
    }

    /// Notes after a change of the authentication, the protocol or the subscriptions whether all commands are allowed.
    pub(crate) fn note_mode(&mut self) {
        let is_subscriber = self.protocol == Protocol::Resp2 && !self.subscriptions.are_none();
        self.is_free = self.authenticated && !is_subscriber;
    }
}

/// The remote and local address of a connection.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    pub(crate) address: String,
    pub(crate) local_address: String,
    pub(crate) fd: i32,
    pub(crate) is_unix: bool,
}

/// The fields of CLIENT LIST, shared with other connections.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    pub(crate) id: u64,
    /// The remote and local address.
    pub(crate) address: String,
    pub(crate) local_address: String,
    pub(crate) fd: i32,
    pub(crate) is_unix: bool,
    /// The time of the connection, in milliseconds since the Unix epoch.
    pub(crate) since_ms: u64,
    /// The time of the last received data.
    pub(crate) active_ms: AtomicU64,
    pub(crate) name: Mutex<Vec<u8>>,
    pub(crate) database: AtomicUsize,
    pub(crate) resp: AtomicUsize,
    /// The last command: its index in [`commands::names`], and that of its subcommand.
    pub(crate) command: AtomicUsize,
    pub(crate) subcommand: AtomicUsize,
    pub(crate) gauges: Gauges,
    /// The numbers of channels, patterns and channels of shards that it is subscribed to.
    pub(crate) subscriptions: [AtomicUsize; 3],
    /// The number of its mailbox plus one; 0 without one.
    pub(crate) mailbox: AtomicUsize,
    /// Set to close the connection.
    pub(crate) killed: AtomicBool,
}

/// Buffer sizes of a connection at the end of its last turn.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    /// Bytes of pending requests, and the free capacity.
    pub(crate) input: AtomicUsize,
    pub(crate) input_room: AtomicUsize,
    /// Bytes of the argument positions of an incomplete request.
    pub(crate) arguments: AtomicUsize,
    /// Commands of a transaction plus one, 0 without one, and their bytes.
    pub(crate) queued: AtomicUsize,
    pub(crate) queued_bytes: AtomicUsize,
    /// Bytes of pending replies, their peak, and the capacity.
    pub(crate) output: AtomicUsize,
    pub(crate) output_peak: AtomicUsize,
    pub(crate) output_room: AtomicUsize,
    /// Whether it waits until the socket is writable.
    pub(crate) is_writing: AtomicBool,
    /// Whether a command waits for a key or for the end of a pause.
    pub(crate) is_waiting: AtomicBool,
}

impl Peer {
    /// The name set by the client.
    pub(crate) fn name(&self) -> Vec<u8> {
        self.name
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn rename(&self, name: &[u8]) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name.to_vec();
    }
}

/// A transaction being queued. Its commands share one buffer, because separate allocations for a million
/// short commands would take many times their size.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    bytes: Vec<u8>,
    /// The end of each word in the bytes.
    word_ends: Vec<usize>,
    /// The end of each command in the words.
    command_ends: Vec<usize>,
    /// Whether a command could not be queued, so that EXEC must fail.
    pub(crate) spoilt: bool,
    /// Whether a command adds data.
    pub(crate) grows: bool,
    /// Whether a command writes.
    pub(crate) writes: bool,
}

impl Queue {
    pub(crate) fn push(&mut self, words: &[&[u8]]) {
        for word in words {
            self.bytes.extend_from_slice(word);
            self.word_ends.push(self.bytes.len());
        }
        self.command_ends.push(self.word_ends.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.command_ends.len()
    }

    /// Iterates over the words of each command.
    pub(crate) fn commands(&self) -> impl Iterator<Item = Vec<&[u8]>> {
        let word = |index: usize| {
            let begin = index.checked_sub(1).map_or(0, |last| self.word_ends[last]);
            &self.bytes[begin..self.word_ends[index]]
        };
        let mut begin = 0;
        self.command_ends.iter().map(move |end| {
            let words = begin..*end;
            begin = *end;
            words.map(word).collect()
        })
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.len() + (self.word_ends.len() + self.command_ends.len()) * size_of::<usize>()
    }
}

impl Shared {
    pub(crate) fn new(password: Option<String>, max_clients: usize, port: u16) -> Self {
        let now = wall_ms();
        Self {
            databases: (0..DATABASES).map(|_| Keyspace::new()).collect(),
            password,
            max_clients,
            started: Instant::now(),
            run_id: new_run_id(),
            port,
            now,
            clients: 0,
            next_id: 1,
            stats: Stats::new(commands::names().count(), Gone::default(), now),
            watched: Watched::default(),
            pubsub: PubSub::default(),
            output_bytes: 0,
            persistence: None,
            peers: BTreeMap::new(),
            killed: false,
            has_draining: false,
            shutdown: false,
            #[cfg(feature = "slowdown")]
            slowdown: None,
            warnings: Warnings::new(|_| {}),
            settings: Settings::default(),
            interpreter: None,
            trimmer: Trimmer::default(),
            pause: None,
            has_postponed: false,
            added_up: None,
            victim: None,
            evicting: 0,
            fruitless_until: 0,
        }
    }

    /// Creates the session of a new connection.
    pub(crate) fn session(&mut self, origin: Origin) -> Session {
        let id = self.next_id;
        self.next_id += 1;
        let peer = Arc::new(Peer {
            id,
            address: origin.address,
            local_address: origin.local_address,
            fd: origin.fd,
            is_unix: origin.is_unix,
            since_ms: self.now,
            active_ms: self.now.into(),
            resp: 2.into(),
            ..Peer::default()
        });
        self.peers.insert(id, Arc::clone(&peer));
        Session {
            id,
            protocol: Protocol::Resp2,
            database: 0,
            authenticated: self.password.is_none(),
            is_free: self.password.is_none(),
            closing: false,
            queue: None,
            watches: Vec::new(),
            watched_bytes: 0,
            waiting: None,
            unconfirmed: Vec::new(),
            has_seen_data: false,
            replies: Replies::On,
            pushed: Vec::new(),
            subscriptions: Subscriptions::default(),
            may_not_block: false,
            peer,
        }
    }

    /// Replaces the settings.
    pub(crate) fn set(&mut self, settings: Settings) {
        let has_limit = settings.maxmemory > 0;
        let victim = settings.eviction.victim().filter(|_| has_limit);
        if victim != self.victim {
            for database in &mut self.databases {
                database.evict_by(victim);
            }
            self.victim = victim;
        }
        self.settings = settings;
        self.added_up = None;
        self.fruitless_until = 0;
    }

    /// Whether accesses to keys are counted, for eviction.
    pub(crate) fn counts_uses(&self) -> bool {
        self.victim == Some(Victim::LeastUsed)
    }

    /// Releases the clients whose time to wait is over.
    pub(crate) fn time_out_waiting(&mut self) {
        self.watched.waiting.time_out(self.now);
        self.watched.note_idle();
    }

    /// Notes keys that have expired while clients wait for their removal.
    pub(crate) fn note_expired(&mut self) {
        let (databases, now) = (&self.databases, self.now);
        self.watched.waiting.note_missing(|database, key| {
            databases[database].inspect(key, now, |value| value.is_none())
        });
    }

    /// The number of connections with a command that waits.
    pub(crate) fn blocked(&self) -> usize {
        let peers = self.peers.values();
        let is_waiting = |peer: &&Arc<Peer>| peer.gauges.is_waiting.load(Ordering::Relaxed);
        peers.filter(is_waiting).count()
    }

    /// The size of the data in bytes, without the allocator's overhead and without the free part of pages
    /// that are being filled.
    pub(crate) fn data_bytes(&self) -> usize {
        self.databases.iter().map(Keyspace::charged_bytes).sum()
    }

    /// Bytes of output that waits for its connections.
    pub(crate) fn waiting_output_bytes(&self) -> usize {
        self.output_bytes + self.pubsub.message_bytes()
    }

    /// Bytes that count towards `maxmemory`: the data, and output that waits.
    pub(crate) fn used_bytes(&self) -> usize {
        self.data_bytes() + self.waiting_output_bytes()
    }

    /// Returns memory to the operating system, at most once a second, if much data was removed.
    pub(crate) fn trim_memory(&mut self) {
        let now = Instant::now();
        if self.trimmer.is_sample_due(now) {
            let bytes = self.data_bytes();
            self.trimmer.sample(bytes, now);
        }
    }

    /// Evicts keys, if the policy permits it, until data and output fit in `maxmemory`; returns whether there is
    /// room. Without eviction the size is computed only from time to time, because that takes some 50
    /// microseconds.
    pub(crate) fn make_room(&mut self) -> bool {
        if self.victim.is_none() {
            return self.added_up() <= self.settings.maxmemory;
        }
        let is_volatile = self.settings.eviction.is_volatile();
        let (mut evicted, mut wrapped) = (0, 0);
        while self.used_bytes() as u64 > self.settings.maxmemory {
            if self.now < self.fruitless_until {
                return false;
            }
            // After this many rounds even the most used key would have been evicted.
            if wrapped > 5 * DATABASES {
                self.fruitless_until = self.now + FRUITLESS_MS;
                return false;
            }
            // The next command or sweep continues.
            if evicted == MOST_EVICTED {
                return true;
            }
            let (database, watched) = (self.evicting, &mut self.watched);
            let persistence = &mut self.persistence;
            let visit = |key: &[u8]| {
                watched.touch(database, key);
                if let Some(persistence) = persistence {
                    persistence.change(database, key).delete(database, key);
                }
            };
            match self.databases[database].evict(is_volatile, None, visit) {
                Evicted::One => (evicted, wrapped) = (evicted + 1, 0),
                Evicted::Wrapped => wrapped += 1,
            }
            // Random keys are taken from all databases in turn, the others from one after the other.
            if wrapped > 0 || self.victim == Some(Victim::Random) {
                self.evicting = (database + 1) % DATABASES;
            }
        }
        true
    }

    #[cold]
    fn added_up(&mut self) -> u64 {
        const VALID_FOR: Duration = Duration::from_millis(10);
        match self.added_up {
            Some((bytes, at)) if at.elapsed() < VALID_FOR => bytes as u64,
            _ => {
                let bytes = self.used_bytes();
                self.added_up = Some((bytes, Instant::now()));
                bytes as u64
            }
        }
    }

    /// The number of evicted keys since the start.
    pub(crate) fn evicted(&self) -> u64 {
        let each = self.databases.iter().map(|database| database.tally());
        each.map(|tally| tally.evictions).sum()
    }

    /// The number of expired keys that were freed since the start.
    pub(crate) fn expired(&self) -> u64 {
        self.databases.iter().map(Keyspace::expired).sum()
    }
}

/// 160 random bits as hexadecimal digits.
fn new_run_id() -> String {
    let bits: [u32; 5] = rand::random();
    bits.iter().map(|part| format!("{part:08x}")).collect()
}

/// Milliseconds since the Unix epoch.
pub(crate) fn wall_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

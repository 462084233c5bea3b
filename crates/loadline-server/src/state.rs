//! What all connections share, and what each has for itself.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use loadline_resp::Protocol;
use loadline_store::{Evicted, Keyspace};

use crate::commands;
use crate::listen::Slowdown;
use crate::memory::Trimmer;
use crate::settings::{Eviction, Settings};
use crate::stats::{Gone, Stats};

/// Databases that SELECT can choose from.
pub(crate) const DATABASES: usize = 16;

/// What the server holds and counts.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) databases: Vec<Keyspace>,
    pub(crate) password: Option<String>,
    pub(crate) max_clients: usize,
    pub(crate) started: Instant,
    /// The name of this start of the server: 40 hexadecimal digits.
    pub(crate) run_id: String,
    pub(crate) port: u16,
    /// The time of this turn of the event loop, in milliseconds since the Unix epoch.
    pub(crate) now: u64,
    pub(crate) clients: usize,
    pub(crate) next_id: u64,
    pub(crate) stats: Stats,
    pub(crate) watched: Watched,
    /// All connections, by their ids.
    pub(crate) peers: BTreeMap<u64, Arc<Peer>>,
    /// Whether one of them has been killed since the last turn.
    pub(crate) killed: bool,
    /// Whether a connection may be discarding what it still receives.
    pub(crate) has_draining: bool,
    /// Set by SHUTDOWN.
    pub(crate) shutdown: bool,
    /// A slowdown that is known, for every command; `None` for none.
    pub(crate) slowdown: Option<Slowdown>,
    pub(crate) warnings: Warnings,
    pub(crate) settings: Settings,
    pub(crate) trimmer: Trimmer,
    /// What CLIENT PAUSE asked for, while it lasts.
    pub(crate) pause: Option<Pause>,
    /// Whether a command may be waiting for its end.
    pub(crate) has_postponed: bool,
    /// The bytes that the data took when they were last added up, and when that was.
    added_up: Option<(usize, Instant)>,
    /// Whether the databases count uses, for eviction.
    counts_uses: bool,
    /// The database in which eviction goes on.
    evicting: usize,
    /// Until when no key is looked for, since there was none to remove, in milliseconds since the Unix epoch.
    fruitless_until: u64,
}

/// How long no key is looked for after there was none to remove.
const FRUITLESS_MS: u64 = 10;

/// Keys that are removed for one command at most, so that a limit that was lowered does not hold the others up.
const MOST_EVICTED: usize = 1_000;

/// Reports an event to the operator, at most once a minute, since a client can repeat it at will.
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

/// The time in which commands wait, after CLIENT PAUSE.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pause {
    /// When it ends, in milliseconds since the Unix epoch.
    pub(crate) until_ms: u64,
    /// Whether all commands wait; else those that write.
    pub(crate) holds_all: bool,
}

/// Keys that connections watch for changes.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Which connections watch a key of a database.
    keys: HashMap<(usize, Vec<u8>), HashSet<u64>>,
    /// Connections one of whose keys has changed since.
    pub(crate) changed: HashSet<u64>,
}

/// A key that a connection watches.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) database: usize,
    pub(crate) key: Vec<u8>,
    /// Whether it was there when the connection began to watch.
    pub(crate) was_there: bool,
}

impl Watched {
    /// Watches a key for a connection, unless it does so already.
    pub(crate) fn add(&mut self, session: &mut Session, watch: Watch) {
        let place = (watch.database, watch.key.clone());
        let watchers = self.keys.entry(place).or_default();
        if watchers.insert(session.id) {
            session.watched_bytes += 2 * watch.key.len() + size_of::<Watch>();
            session.watches.push(watch);
        }
    }

    /// Notes that a key has changed.
    #[inline]
    pub(crate) fn touch(&mut self, database: usize, key: &[u8]) {
        if self.keys.is_empty() {
            return;
        }
        if let Some(watchers) = self.keys.get(&(database, key.to_vec())) {
            self.changed.extend(watchers);
        }
    }

    /// Notes that every watched key has changed that `has_changed` says it of.
    pub(crate) fn touch_where(&mut self, has_changed: impl Fn(usize, &[u8]) -> bool) {
        for ((database, key), watchers) in &self.keys {
            if has_changed(*database, key) {
                self.changed.extend(watchers);
            }
        }
    }

    /// Forgets what a connection watches.
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
    }
}

/// What one connection is in the middle of.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) protocol: Protocol,
    pub(crate) database: usize,
    pub(crate) authenticated: bool,
    pub(crate) closing: bool,
    /// The commands queued since MULTI.
    pub(crate) queue: Option<Queue>,
    pub(crate) watches: Vec<Watch>,
    watched_bytes: usize,
    /// A command that waits for the end of a pause. Those behind it wait with it.
    pub(crate) postponed: Option<Postponed>,
    pub(crate) replies: Replies,
    /// What other connections may see of this one.
    pub(crate) peer: Arc<Peer>,
}

/// The words of a command that waits.
pub(crate) type Postponed = Vec<Vec<u8>>;

/// Whether a client wants replies, as CLIENT REPLY says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replies {
    On,
    Off,
    /// Off for the current command, and on again after it.
    Skip,
    /// As [`Skip`](Self::Skip) from the next command on.
    SkipNext,
}

impl Replies {
    /// Whether the reply to the current command is dropped.
    pub(crate) fn are_dropped(self) -> bool {
        matches!(self, Self::Off | Self::Skip)
    }

    /// What holds for the next command.
    pub(crate) fn after_command(self) -> Self {
        match self {
            Self::Skip => Self::On,
            Self::SkipNext => Self::Skip,
            Self::On | Self::Off => self,
        }
    }
}

impl Session {
    /// Bytes that queued commands and watched keys hold.
    pub(crate) fn held_bytes(&self) -> usize {
        let queued = self.queue.as_ref().map_or(0, Queue::held_bytes);
        let postponed = self.postponed.as_ref();
        let postponed = postponed.map_or(0, |words| words.iter().map(Vec::len).sum());
        queued + postponed + self.watched_bytes
    }
}

/// Where a connection comes from and where it arrived.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    pub(crate) address: String,
    pub(crate) local_address: String,
    pub(crate) fd: i32,
    pub(crate) is_unix: bool,
}

/// What CLIENT LIST shows of a connection, and how CLIENT KILL reaches it.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    pub(crate) id: u64,
    /// Where it comes from and where it arrived.
    pub(crate) address: String,
    pub(crate) local_address: String,
    pub(crate) fd: i32,
    pub(crate) is_unix: bool,
    /// When it connected, in milliseconds since the Unix epoch.
    pub(crate) since_ms: u64,
    /// When it last sent something.
    pub(crate) active_ms: AtomicU64,
    pub(crate) name: Mutex<Vec<u8>>,
    pub(crate) database: AtomicUsize,
    pub(crate) resp: AtomicUsize,
    /// The command that it sent last: its place among [`commands::names`], and that of its subcommand.
    pub(crate) command: AtomicUsize,
    pub(crate) subcommand: AtomicUsize,
    pub(crate) gauges: Gauges,
    /// Set to close it.
    pub(crate) killed: AtomicBool,
}

/// What a connection held at the end of its last turn.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    /// Bytes of requests that wait, and the room that is left for more.
    pub(crate) input: AtomicUsize,
    pub(crate) input_room: AtomicUsize,
    /// Bytes of the places of an incomplete request's arguments.
    pub(crate) arguments: AtomicUsize,
    /// Commands of a transaction and one, 0 where there is none, and their bytes.
    pub(crate) queued: AtomicUsize,
    pub(crate) queued_bytes: AtomicUsize,
    /// Bytes of replies that wait, the most that ever did, and the room for them.
    pub(crate) output: AtomicUsize,
    pub(crate) output_peak: AtomicUsize,
    pub(crate) output_room: AtomicUsize,
    /// Whether it waits for the socket to take more.
    pub(crate) is_writing: AtomicBool,
    /// Whether a command of it waits for the end of a pause.
    pub(crate) is_postponed: AtomicBool,
}

impl Peer {
    /// The name that the client gave itself.
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

/// A transaction that is being put together. Its commands lie in a row, since a million of short ones
/// would take many times their bytes in allocations of their own.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    bytes: Vec<u8>,
    /// Where each word ends among the bytes.
    word_ends: Vec<usize>,
    /// Where each command ends among the words.
    command_ends: Vec<usize>,
    /// Whether a command could not be queued, so that EXEC must fail.
    pub(crate) spoilt: bool,
    /// Whether one of them adds to the data.
    pub(crate) grows: bool,
    /// Whether one of them writes.
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

    /// The words of each command.
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
            peers: BTreeMap::new(),
            killed: false,
            has_draining: false,
            shutdown: false,
            slowdown: None,
            warnings: Warnings::new(|_| {}),
            settings: Settings::default(),
            trimmer: Trimmer::default(),
            pause: None,
            has_postponed: false,
            added_up: None,
            counts_uses: false,
            evicting: 0,
            fruitless_until: 0,
        }
    }

    /// A session for a connection that has just arrived.
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
            closing: false,
            queue: None,
            watches: Vec::new(),
            watched_bytes: 0,
            postponed: None,
            replies: Replies::On,
            peer,
        }
    }

    /// Changes the settings.
    pub(crate) fn set(&mut self, settings: Settings) {
        let counts_uses = settings.maxmemory > 0 && settings.eviction != Eviction::None;
        if counts_uses != self.counts_uses {
            for database in &mut self.databases {
                database.count_uses(counts_uses);
            }
            self.counts_uses = counts_uses;
        }
        self.settings = settings;
        self.added_up = None;
        self.fruitless_until = 0;
    }

    /// Whether the uses of keys are counted, for eviction.
    pub(crate) fn counts_uses(&self) -> bool {
        self.counts_uses
    }

    /// Connections with a command that waits.
    pub(crate) fn postponed(&self) -> usize {
        let peers = self.peers.values();
        let is_waiting = |peer: &&Arc<Peer>| peer.gauges.is_postponed.load(Ordering::Relaxed);
        peers.filter(is_waiting).count()
    }

    /// Bytes of memory that the data takes, without what an allocator adds and without the room of pages that are
    /// being filled.
    pub(crate) fn data_bytes(&self) -> usize {
        self.databases.iter().map(Keyspace::charged_bytes).sum()
    }

    /// Gives memory back to the operating system once a second if much data went.
    pub(crate) fn trim_memory(&mut self) {
        let now = Instant::now();
        if self.trimmer.is_sample_due(now) {
            let bytes = self.data_bytes();
            self.trimmer.sample(bytes, now);
        }
    }

    /// Removes keys, where the settings allow it, until the data takes no more than `maxmemory`, and returns whether
    /// there is room for more. Without eviction the data is added up now and then only, since that takes some 50
    /// microseconds.
    pub(crate) fn make_room(&mut self) -> bool {
        if !self.counts_uses {
            return self.added_up() <= self.settings.maxmemory;
        }
        let is_volatile = self.settings.eviction == Eviction::LeastUsedVolatile;
        let (mut evicted, mut wrapped) = (0, 0);
        while self.data_bytes() as u64 > self.settings.maxmemory {
            if self.now < self.fruitless_until {
                return false;
            }
            // After as many rounds even the most used key would be gone.
            if wrapped > 5 * DATABASES {
                self.fruitless_until = self.now + FRUITLESS_MS;
                return false;
            }
            // The remainder follows with the next command, or ten times a second.
            if evicted == MOST_EVICTED {
                return true;
            }
            let (database, watched) = (self.evicting, &mut self.watched);
            let visit = |key: &[u8]| watched.touch(database, key);
            match self.databases[database].evict(is_volatile, None, visit) {
                Evicted::One => (evicted, wrapped) = (evicted + 1, 0),
                Evicted::Wrapped => {
                    wrapped += 1;
                    self.evicting = (database + 1) % DATABASES;
                }
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
                let bytes = self.data_bytes();
                self.added_up = Some((bytes, Instant::now()));
                bytes as u64
            }
        }
    }

    /// Keys that were removed to make room, since the server started.
    pub(crate) fn evicted(&self) -> u64 {
        let each = self.databases.iter().map(|database| database.tally());
        each.map(|tally| tally.evictions).sum()
    }

    /// Keys that were freed because their time had come, since the server started.
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

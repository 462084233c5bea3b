//! State shared by all connections.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use loadline_resp::Protocol;
use loadline_store::{AccessMetric, Evicted, Keyspace, Victim, View};

use crate::Error;
use crate::acl::{Acl, DEFAULT};
use crate::commands::{Interpreter, Libraries};
use crate::long_script::LongScript;
use crate::memory::Trimmer;
use crate::migration::Migrations;
use crate::monitor::Monitors;
use crate::notify::{Noted, What};
use crate::peer::{Origin, Peer};
use crate::persistence::Persistence;
use crate::pubsub::{PubSub, Subscriptions};
use crate::session::{Replies, Session, Watch};
use crate::settings::{DebugCommand, Settings};
use crate::slow::Slow;
use crate::stats::{Gone, Stats};
use crate::tls::Tls;
use crate::tracking::Tracking;
use crate::waiting::{Release, Wait, WaitingClients};
use crate::waker::Waker;

/// The number of databases.
pub(crate) const DATABASES: usize = 16;

/// The database behind them, with what the server keeps for itself: the libraries of functions by name.
pub(crate) const OWN_DATABASE: usize = DATABASES;

/// The state of the server.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) databases: Vec<Keyspace>,
    pub(crate) acl: Acl,
    pub(crate) max_clients: usize,
    pub(crate) started: Instant,
    /// The random id of this run: 40 hexadecimal digits.
    pub(crate) run_id: String,
    pub(crate) port: u16,
    /// The certificates of encrypted connections, and their port.
    pub(crate) tls: Option<Tls>,
    pub(crate) tls_port: u16,
    /// The time of this turn of the event loop, in milliseconds since the Unix epoch.
    pub(crate) now: u64,
    pub(crate) clients: usize,
    pub(crate) next_id: u64,
    pub(crate) stats: Stats,
    /// The index of the command that was found last.
    pub(crate) last_found: Option<usize>,
    /// The same of the commands that scripts call.
    pub(crate) last_called: Option<usize>,
    pub(crate) watched: Watched,
    pub(crate) pubsub: PubSub,
    pub(crate) migrations: Migrations,
    /// Wakes the event loop.
    pub(crate) waker: Waker,
    /// Bytes of replies that sockets did not take.
    pub(crate) output_bytes: usize,
    /// Bytes of memory of the connections, while `maxmemory-clients` limits them.
    pub(crate) client_bytes: usize,
    /// The log, for a server with a directory.
    pub(crate) persistence: Option<Persistence>,
    /// All connections, by their ids.
    pub(crate) peers: BTreeMap<u64, Arc<Peer>>,
    /// Whether a connection was killed since the last turn.
    pub(crate) killed: bool,
    /// Whether a connection can be discarding its input.
    pub(crate) has_draining: bool,
    /// Whether a handshake of TLS can be under way.
    pub(crate) has_handshaking: bool,
    /// The error with which the server ends.
    pub(crate) failure: Option<Error>,
    /// Whether the log was opened again in this turn. Nothing waits for the disk then.
    pub(crate) is_reopened: bool,
    /// Keys that were gone when the databases were replaced.
    pub(crate) gone_before_reload: Gone,
    /// Set by SHUTDOWN.
    pub(crate) shutdown: bool,
    /// A known slowdown of every command.
    #[cfg(feature = "slowdown")]
    pub(crate) slowdown: Option<crate::Slowdown>,
    pub(crate) warnings: Warnings,
    pub(crate) settings: Settings,
    /// The clients that can call DEBUG.
    pub(crate) debug_command: DebugCommand,
    /// Whether expired keys are removed before a command names them.
    pub(crate) expires_actively: bool,
    pub(crate) slow: Slow,
    pub(crate) monitors: Monitors,
    /// The interpreter of scripts, from the first script on.
    pub(crate) interpreter: Option<Arc<Interpreter>>,
    /// The libraries of functions, from the first use on.
    pub(crate) libraries: Option<Arc<Libraries>>,
    /// The script that runs, once it has run for long enough for others to be served.
    pub(crate) long_script: Option<Box<LongScript>>,
    /// Whether the server stops in a script, whose changes are dropped.
    pub(crate) abandons_script: bool,
    pub(crate) trimmer: Trimmer,
    /// The current pause by CLIENT PAUSE.
    pub(crate) pause: Option<Pause>,
    /// Whether a command can be waiting for the end of a pause.
    pub(crate) has_postponed: bool,
    /// The size of the data in bytes when it was last computed, and the time of that.
    added_up: Option<(usize, Instant)>,
    /// The order in which the databases evict.
    victim: Option<Victim>,
    /// The fact about accesses that the databases keep.
    access: Option<AccessMetric>,
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
    pub(crate) tracking: Tracking,
    /// What can become keyspace notifications, while there are some.
    noted: Option<Vec<Noted>>,
    /// Whether no key is watched waited for or tracked, and no change noted.
    is_idle: bool,
    /// Changes of keys since the start.
    pub(crate) changes: u64,
}

impl Default for Watched {
    fn default() -> Self {
        Self {
            keys: HashMap::new(),
            changed: HashSet::new(),
            waiting: WaitingClients::default(),
            tracking: Tracking::default(),
            noted: None,
            is_idle: true,
            changes: 0,
        }
    }
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

    pub(crate) fn note_idle(&mut self) {
        let has_keys = !self.keys.is_empty() || !self.waiting.are_none();
        self.is_idle = !has_keys && !self.tracking.is_used() && self.noted.is_none();
    }

    /// Sets whether occurrences are noted for keyspace notifications.
    fn set_noting(&mut self, is_noting: bool) {
        match (is_noting, &self.noted) {
            (true, None) => self.noted = Some(Vec::new()),
            (false, Some(_)) => self.noted = None,
            _ => {}
        }
        self.note_idle();
    }

    #[inline]
    pub(crate) fn is_noting(&self) -> bool {
        self.noted.is_some()
    }

    /// Notes an occurrence, while they are noted.
    pub(crate) fn note_what(&mut self, database: usize, key: &[u8], what: What) {
        if let Some(noted) = &mut self.noted {
            noted.push(Noted {
                database,
                key: key.to_vec(),
                what,
            });
        }
    }

    /// Takes what was noted.
    pub(crate) fn take_noted(&mut self) -> Vec<Noted> {
        self.noted.as_mut().map_or_else(Vec::new, std::mem::take)
    }

    /// Records the change of a key.
    #[inline]
    pub(crate) fn touch(&mut self, database: usize, key: &[u8]) {
        self.changes += 1;
        if !self.is_idle {
            self.note(database, key);
        }
    }

    #[cold]
    fn note(&mut self, database: usize, key: &[u8]) {
        self.note_what(database, key, What::Changed);
        self.waiting.note(database, key);
        self.tracking.note(key);
        if let Some(watchers) = self.keys.get(&(database, key.to_vec())) {
            self.changed.extend(watchers);
        }
    }

    /// Records that a key was evicted.
    fn touch_evicted(&mut self, database: usize, key: &[u8]) {
        self.touch(database, key);
        if let Some(noted) = &mut self.noted
            && let Some(last) = noted.last_mut()
        {
            last.what = What::Evicted;
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

impl Shared {
    /// Creates the state of a server with this number of commands.
    pub(crate) fn new(
        password: Option<&str>,
        max_clients: usize,
        port: u16,
        commands: usize,
    ) -> Self {
        let now = wall_ms();
        Self {
            databases: (0..=OWN_DATABASE).map(|_| Keyspace::new()).collect(),
            acl: Acl::new(password),
            max_clients,
            started: Instant::now(),
            run_id: new_run_id(),
            port,
            tls: None,
            tls_port: 0,
            now,
            clients: 0,
            next_id: 1,
            stats: Stats::new(commands, Gone::default(), now),
            last_found: None,
            last_called: None,
            watched: Watched::default(),
            pubsub: PubSub::default(),
            migrations: Migrations::default(),
            waker: Waker::default(),
            output_bytes: 0,
            client_bytes: 0,
            persistence: None,
            peers: BTreeMap::new(),
            killed: false,
            has_draining: false,
            has_handshaking: false,
            failure: None,
            is_reopened: false,
            gone_before_reload: Gone::default(),
            shutdown: false,
            #[cfg(feature = "slowdown")]
            slowdown: None,
            warnings: Warnings::new(|_| {}),
            settings: Settings::default(),
            debug_command: DebugCommand::default(),
            expires_actively: true,
            slow: Slow::default(),
            monitors: Monitors::default(),
            interpreter: None,
            libraries: None,
            long_script: None,
            abandons_script: false,
            trimmer: Trimmer::default(),
            pause: None,
            has_postponed: false,
            added_up: None,
            victim: None,
            access: None,
            evicting: 0,
            fruitless_until: 0,
        }
    }

    /// Stops the server in a script that runs for long. What the script has changed does not reach the log.
    pub(crate) fn shut_down_in_script(&mut self) {
        self.shutdown = true;
        self.abandons_script = true;
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
            is_local: origin.is_local,
            since_ms: self.now,
            active_ms: self.now.into(),
            resp: 2.into(),
            user: DEFAULT.to_vec().into(),
            ..Peer::default()
        });
        self.peers.insert(id, Arc::clone(&peer));
        Session {
            id,
            protocol: Protocol::Resp2,
            database: 0,
            authenticated: self.acl.is_open(),
            user: DEFAULT.to_vec(),
            is_free: self.acl.is_open(),
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
            is_tracking: false,
            prefix_bytes: 0,
            may_not_block: false,
            peer,
        }
    }

    /// Lets another connection be closed at the end of the turn.
    pub(crate) fn kill(&mut self, id: u64) {
        if let Some(peer) = self.peers.get(&id) {
            peer.killed.store(true, Ordering::Relaxed);
            self.watched.end_wait(id);
            self.killed = true;
        }
    }

    /// Replaces the settings.
    pub(crate) fn set(&mut self, settings: Settings) {
        // Uses are counted without a limit too, for one that is set later.
        let is_used = |victim: &Victim| settings.maxmemory > 0 || *victim == Victim::LeastUsed;
        let victim = settings.eviction.victim().filter(is_used);
        if victim != self.victim {
            for database in &mut self.databases {
                database.evict_by(victim);
            }
            self.victim = victim;
        }
        let access = Some(settings.eviction.access());
        if access != self.access {
            for database in &mut self.databases {
                database.keep_access(settings.eviction.access(), self.now);
            }
            self.access = access;
        }
        let (before, after) = (self.settings.notified, settings.notified);
        if before != after {
            self.watched.set_noting(after.are_published());
        }
        self.slow.set(&settings);
        self.settings = settings;
        self.note_tracking();
        self.added_up = None;
        self.fruitless_until = 0;
    }

    /// Applies the settings to databases that were replaced.
    pub(crate) fn set_again(&mut self) {
        (self.victim, self.access) = (None, None);
        self.set(self.settings.clone());
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

    /// The limit of the memory of all clients, if there is one.
    #[inline]
    pub(crate) fn client_limit(&self) -> Option<u64> {
        let settings = &self.settings;
        settings.maxmemory_clients.bytes(settings.maxmemory)
    }

    /// Sets whether commands count as uses of the keys that they find.
    pub(crate) fn count_uses(&mut self, counts: bool) {
        for database in &mut self.databases {
            database.count_uses(counts);
        }
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
                watched.touch_evicted(database, key);
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
        self.gone_before_reload.evicted + each.map(|tally| tally.evictions).sum::<u64>()
    }

    /// The number of expired keys that were freed since the start.
    pub(crate) fn expired(&self) -> u64 {
        let each = self.databases.iter().map(Keyspace::expired);
        self.gone_before_reload.expired + each.sum::<u64>()
    }
}

/// Entries that the server keeps for itself, also in the log.
impl Shared {
    /// All entries, by key.
    pub(crate) fn own_strings(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut entries = Vec::new();
        let database = &self.databases[OWN_DATABASE];
        database.scan(0, usize::MAX, self.now, |key, value| {
            if let View::String(bytes) = value {
                entries.push((key.to_vec(), bytes.to_vec()));
            }
        });
        entries.sort_unstable();
        entries
    }

    pub(crate) fn put_own(&mut self, key: &[u8], bytes: &[u8]) {
        self.databases[OWN_DATABASE].put_string(key, bytes, self.now, |_| Some(None));
        if let Some(persistence) = &mut self.persistence {
            let log = persistence.change(OWN_DATABASE, key);
            log.put_string(OWN_DATABASE, key, bytes, None);
        }
    }

    pub(crate) fn remove_own(&mut self, key: &[u8]) {
        self.databases[OWN_DATABASE].remove(key, self.now);
        if let Some(persistence) = &mut self.persistence {
            persistence
                .change(OWN_DATABASE, key)
                .delete(OWN_DATABASE, key);
        }
    }

    pub(crate) fn clear_own(&mut self) {
        self.databases[OWN_DATABASE].clear();
        if let Some(persistence) = &mut self.persistence {
            persistence.change_all().clear(OWN_DATABASE);
        }
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

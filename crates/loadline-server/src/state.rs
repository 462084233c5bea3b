//! What all connections share, and what each has for itself.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use loadline_resp::Protocol;
use loadline_store::Store;

use crate::commands;

/// Databases that SELECT can choose from.
pub(crate) const DATABASES: usize = 16;

/// What the server holds and counts.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) databases: Vec<Store>,
    pub(crate) password: Option<String>,
    pub(crate) max_clients: usize,
    pub(crate) started: Instant,
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
    /// Set by SHUTDOWN.
    pub(crate) shutdown: bool,
}

/// Keys that connections watch for changes.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Which connections watch a key of a database.
    pub(crate) keys: HashMap<(usize, Vec<u8>), Vec<u64>>,
    /// Connections one of whose keys has changed since.
    pub(crate) changed: HashSet<u64>,
}

impl Watched {
    /// Notes that a key has changed.
    pub(crate) fn touch(&mut self, database: usize, key: &[u8]) {
        if self.keys.is_empty() {
            return;
        }
        if let Some(watchers) = self.keys.get(&(database, key.to_vec())) {
            self.changed.extend(watchers);
        }
    }

    /// Forgets what a connection watches.
    pub(crate) fn forget(&mut self, session: &mut Session) {
        for (database, key, _) in session.watches.drain(..) {
            let place = (database, key);
            if let Some(watchers) = self.keys.get_mut(&place) {
                watchers.retain(|id| *id != session.id);
                if watchers.is_empty() {
                    self.keys.remove(&place);
                }
            }
        }
        self.changed.remove(&session.id);
    }
}

/// What is counted since the start.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) connections: u64,
    pub(crate) commands: u64,
    pub(crate) errors: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) rejected_connections: u64,
    /// By command, in the order of [`commands::names`].
    pub(crate) calls: Vec<CallStat>,
}

/// What is counted about one command.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CallStat {
    pub(crate) calls: u64,
    /// Calls that were answered with an error.
    pub(crate) failed: u64,
    /// Calls whose time was taken, and the time they took.
    pub(crate) timed: u64,
    pub(crate) time: Duration,
}

impl CallStat {
    /// Calls that are all timed.
    const FIRST: u64 = 64;
    /// After those, one of so many is.
    const ONE_IN: u64 = 16;

    /// Whether the next call is to be timed.
    pub(crate) fn is_timed(&self) -> bool {
        self.calls < Self::FIRST || self.calls.is_multiple_of(Self::ONE_IN)
    }

    /// The time of all calls: what the timed ones took, on average, times their number.
    pub(crate) fn total_time(&self) -> Duration {
        let mean_ns = self.time.as_nanos() as f64 / self.timed.max(1) as f64;
        Duration::from_nanos((mean_ns * self.calls as f64) as u64)
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
    /// The keys watched, each with its database and whether it was there.
    pub(crate) watches: Vec<(usize, Vec<u8>, bool)>,
    /// What other connections may see of this one.
    pub(crate) peer: Arc<Peer>,
}

/// What CLIENT LIST shows of a connection, and how CLIENT KILL reaches it.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    pub(crate) id: u64,
    /// Where it comes from and where it arrived.
    pub(crate) address: String,
    pub(crate) local_address: String,
    /// When it connected, in milliseconds since the Unix epoch.
    pub(crate) since_ms: u64,
    /// When it last sent something.
    pub(crate) active_ms: AtomicU64,
    pub(crate) name: Mutex<Vec<u8>>,
    pub(crate) database: AtomicUsize,
    pub(crate) resp: AtomicUsize,
    /// The place of the command that it sent last among [`commands::names`].
    pub(crate) command: AtomicUsize,
    /// Set to close it.
    pub(crate) killed: AtomicBool,
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

/// A transaction that is being put together.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) commands: Vec<Vec<Vec<u8>>>,
    /// Whether a command could not be queued, so that EXEC must fail.
    pub(crate) spoilt: bool,
}

impl Shared {
    pub(crate) fn new(password: Option<String>, max_clients: usize, port: u16) -> Self {
        Self {
            databases: (0..DATABASES).map(|_| Store::new()).collect(),
            password,
            max_clients,
            started: Instant::now(),
            port,
            now: wall_ms(),
            clients: 0,
            next_id: 1,
            stats: Stats {
                calls: vec![CallStat::default(); commands::names().count()],
                ..Stats::default()
            },
            watched: Watched::default(),
            peers: BTreeMap::new(),
            killed: false,
            shutdown: false,
        }
    }

    /// A session for a connection that has just arrived.
    pub(crate) fn session(&mut self, address: String, local_address: String) -> Session {
        let id = self.next_id;
        self.next_id += 1;
        let peer = Arc::new(Peer {
            id,
            address,
            local_address,
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
            peer,
        }
    }
}

/// Milliseconds since the Unix epoch.
pub(crate) fn wall_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

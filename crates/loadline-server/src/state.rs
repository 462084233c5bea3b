//! What all connections share, and what each has for itself.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use loadline_resp::Protocol;
use loadline_store::Store;

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
    pub(crate) expired: u64,
    /// Calls by command.
    pub(crate) calls: BTreeMap<&'static str, u64>,
}

/// What one connection is in the middle of.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) name: Vec<u8>,
    pub(crate) protocol: Protocol,
    pub(crate) database: usize,
    pub(crate) authenticated: bool,
    pub(crate) closing: bool,
    /// The commands queued since MULTI.
    pub(crate) queue: Option<Queue>,
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
            stats: Stats::default(),
        }
    }

    pub(crate) fn session(&mut self) -> Session {
        let id = self.next_id;
        self.next_id += 1;
        Session {
            id,
            name: Vec::new(),
            protocol: Protocol::Resp2,
            database: 0,
            authenticated: self.password.is_none(),
            closing: false,
            queue: None,
        }
    }
}

/// Milliseconds since the Unix epoch.
pub(crate) fn wall_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

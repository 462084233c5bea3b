//! The part of a connection's state that other connections see.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The remote and local address of a connection.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    pub(crate) address: String,
    pub(crate) local_address: String,
    pub(crate) fd: i32,
    pub(crate) is_unix: bool,
    /// Whether the peer is on this machine.
    pub(crate) is_local: bool,
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
    /// Whether the peer is on this machine.
    pub(crate) is_local: bool,
    /// The time of the connection, in milliseconds since the Unix epoch.
    pub(crate) since_ms: u64,
    /// The time at which data was last received or sent.
    pub(crate) active_ms: AtomicU64,
    pub(crate) name: Mutex<Vec<u8>>,
    pub(crate) user: Mutex<Vec<u8>>,
    pub(crate) database: AtomicUsize,
    pub(crate) resp: AtomicUsize,
    /// The last command: its place in the statistics plus one; 0 before the first.
    pub(crate) command: AtomicUsize,
    pub(crate) gauges: Gauges,
    /// The numbers of channels, patterns and channels of shards that it is subscribed to.
    pub(crate) subscriptions: [AtomicUsize; 3],
    /// The number of its mailbox plus one; 0 without one.
    pub(crate) mailbox: AtomicUsize,
    /// Set to close the connection.
    pub(crate) killed: AtomicBool,
    /// Whether it stays open when clients use too much memory.
    pub(crate) is_kept: AtomicBool,
    /// Whether its commands do not count as uses of keys, except for TOUCH.
    pub(crate) leaves_uses: AtomicBool,
}

/// Buffer sizes of a connection at the end of its last turn.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    /// Bytes of the connection itself.
    pub(crate) own: AtomicUsize,
    /// Bytes of pending requests, and the free capacity.
    pub(crate) input: AtomicUsize,
    pub(crate) input_room: AtomicUsize,
    /// Bytes of the argument positions of an incomplete request.
    pub(crate) arguments: AtomicUsize,
    /// Commands of a transaction plus one, 0 without one, and their bytes.
    pub(crate) queued: AtomicUsize,
    pub(crate) queued_bytes: AtomicUsize,
    /// Bytes of a command that waits, of watched and tracked keys, and of subscriptions.
    pub(crate) held: AtomicUsize,
    /// Bytes of pending replies, their peak, and the capacity.
    pub(crate) output: AtomicUsize,
    pub(crate) output_peak: AtomicUsize,
    pub(crate) output_room: AtomicUsize,
    /// Whether it waits until the socket is writable.
    pub(crate) is_writing: AtomicBool,
    /// Whether a command waits for a key or for the end of a pause.
    pub(crate) is_waiting: AtomicBool,
}

impl Gauges {
    /// Bytes of memory of the connection, without messages that wait for it.
    pub(crate) fn total(&self) -> usize {
        let parts = [
            &self.own,
            &self.input,
            &self.input_room,
            &self.arguments,
            &self.queued_bytes,
            &self.held,
            &self.output_room,
        ];
        parts.iter().map(|part| part.load(Ordering::Relaxed)).sum()
    }
}

impl Peer {
    /// Whether it has exchanged nothing since a time, and neither waits nor is subscribed.
    pub(crate) fn is_idle_since(&self, ms: u64) -> bool {
        self.active_ms.load(Ordering::Relaxed) < ms
            && !self.gauges.is_waiting.load(Ordering::Relaxed)
            && !self.is_subscriber()
    }

    /// Whether the connection has subscriptions.
    pub(crate) fn is_subscriber(&self) -> bool {
        let mut numbers = self.subscriptions.iter();
        numbers.any(|number| number.load(Ordering::Relaxed) > 0)
    }

    /// The name set by the client.
    pub(crate) fn name(&self) -> Vec<u8> {
        self.name
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The name of the user of the client.
    pub(crate) fn user(&self) -> Vec<u8> {
        self.user
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn log_in(&self, user: &[u8]) {
        *self.user.lock().unwrap_or_else(PoisonError::into_inner) = user.to_vec();
    }

    pub(crate) fn rename(&self, name: &[u8]) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name.to_vec();
    }
}

//! Options of opening a store.

use std::time::Duration;

use crate::keyspace::{Keyspace, Victim};

/// The failures that a write has survived when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The end of this process, `kill -9` included. A failure of the machine or its power can lose the
    /// most recent writes.
    #[default]
    Process,
    /// As [`Process`](Self::Process); and what is older than this interval has reached the disk, provided a
    /// sync takes less than half of it.
    Interval(Duration),
    /// A failure of the machine: the write has reached the disk (fdatasync). Threads share syncs. For that, a sync
    /// waits until as many threads have written as waited at the end of the last one, or for half of the time that
    /// the last one took. A single thread never waits.
    Always,
}

impl Durability {
    /// The interval of [`Interval`](Self::Interval).
    pub(crate) fn interval(self) -> Option<Duration> {
        match self {
            Self::Interval(interval) => Some(interval),
            Self::Process | Self::Always => None,
        }
    }
}

/// Options of opening a store.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The failures that a write has survived when it returns, unless the write itself says otherwise.
    pub durability: Durability,
    /// Values of at least this many bytes are kept in the log only, and read from there.
    pub value_in_log_bytes: usize,
    /// Largest segment of the log, in bytes. Smaller ones are made while the store holds little.
    pub segment_bytes: u64,
    /// Bytes of the log that are allowed in addition to those in proportion to the live bytes. With few, a log that holds
    /// few data is reclaimed often, and its segments are small. On a small disk, an eighth of the disk if that is less.
    pub slack_bytes: u64,
    /// Bytes of the log that are allowed besides the live ones while writes go on, if that is more than the above. A second
    /// after the last one, the log shrinks. With little, everything that is written to a small store has to reach the
    /// disk, and writers wait for it. On a small disk, a quarter of the disk if that is less.
    pub burst_bytes: u64,
    /// Whether the log is written through mapped memory where the file system allows it, and not by system
    /// calls.
    pub mapped: bool,
    /// The most keys; `None` for no limit.
    pub max_keys: Option<u64>,
    /// The most bytes of memory that keys, values and tables take, as [`Stats::memory_bytes`](crate::Stats::memory_bytes)
    /// counts them; `None` for no limit. Pieces of memory that are being filled count in full: 2 KiB for each 32 to 64 KiB of
    /// the limit, and at most 8 MiB. An entry that does not fit alone is refused ([`Error::AtLimit`](crate::Error::AtLimit)).
    ///
    /// The overhead of the allocator, and entries that only a snapshot still keeps, are not counted.
    pub max_memory_bytes: Option<u64>,
    /// The behaviour at these limits.
    pub at_limit: AtLimit,
    /// The time that a key lives which is put without one. Keys of a batch have those that the batch names.
    pub ttl: Option<Duration>,
}

/// The behaviour of a store that holds as much as its options allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AtLimit {
    /// The least used keys are removed, for most of the memory before an entry is written. While writes go on, there can be
    /// some more for a moment: a key for each thread and each put of a batch, and the tables that grow with them.
    #[default]
    Evict,
    /// Writes that add to the store are refused ([`Error::AtLimit`](crate::Error::AtLimit)), so that it never exceeds its
    /// limits; a batch is refused as a whole. Of several threads, one adds at a time.
    Refuse,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            value_in_log_bytes: 4 << 10,
            segment_bytes: 64 << 20,
            slack_bytes: 512 << 10,
            burst_bytes: 48 << 20,
            mapped: true,
            max_keys: None,
            max_memory_bytes: None,
            at_limit: AtLimit::default(),
            ttl: None,
        }
    }
}

impl Options {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A cache of at most `keys` keys, each of which lives for `ttl`. The least used ones make room for new ones:
    /// the choice goes by counts of uses, which finds more keys again than the order of use (LRU) does.
    #[must_use]
    pub fn cache(keys: u64, ttl: Duration) -> Self {
        Self {
            max_keys: Some(keys),
            ttl: Some(ttl),
            ..Self::default()
        }
    }

    /// The same with at most this many bytes of memory.
    #[must_use]
    pub fn max_memory_bytes(self, bytes: u64) -> Self {
        Self {
            max_memory_bytes: Some(bytes),
            ..self
        }
    }

    /// The same with at most this many keys.
    #[must_use]
    pub fn max_keys(self, keys: u64) -> Self {
        Self {
            max_keys: Some(keys),
            ..self
        }
    }

    /// The same, with this at the limits of keys and memory.
    #[must_use]
    pub fn at_limit(self, at_limit: AtLimit) -> Self {
        Self { at_limit, ..self }
    }

    /// The same with this durability.
    #[must_use]
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// The same, with values of at least `bytes` bytes in the log only.
    #[must_use]
    pub fn value_in_log_bytes(self, bytes: usize) -> Self {
        Self {
            value_in_log_bytes: bytes,
            ..self
        }
    }

    /// The same with segments of at most `bytes` bytes, from 64 KiB to 1 GiB.
    #[must_use]
    pub fn segment_bytes(self, bytes: u64) -> Self {
        Self {
            segment_bytes: bytes.clamp(64 << 10, 1 << 30),
            ..self
        }
    }

    /// The same, with `bytes` bytes of the log allowed in addition to those in proportion to the live bytes.
    #[must_use]
    pub fn slack_bytes(self, bytes: u64) -> Self {
        Self {
            slack_bytes: bytes,
            ..self
        }
    }

    /// The same, with `bytes` bytes of the log allowed besides the live ones while writes go on.
    #[must_use]
    pub fn burst_bytes(self, bytes: u64) -> Self {
        Self {
            burst_bytes: bytes,
            ..self
        }
    }

    /// The same, with the log written by system calls.
    #[must_use]
    pub fn without_mapping(self) -> Self {
        Self {
            mapped: false,
            ..self
        }
    }

    pub(super) fn has_limit(&self) -> bool {
        self.max_keys.is_some() || self.max_memory_bytes.is_some()
    }

    /// The entries that go at a limit, if there is one.
    pub(super) fn victim(&self) -> Option<Victim> {
        self.has_limit().then_some(Victim::LeastUsed)
    }

    /// A keyspace for a store with these options.
    pub(super) fn keyspace(&self) -> Keyspace {
        let bound = |limit: Option<u64>| {
            limit.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX))
        };
        let mut keyspace = Keyspace::within(bound(self.max_keys), bound(self.max_memory_bytes));
        keyspace.evict_by(self.victim());
        keyspace
    }
}

//! The settings of a tier below memory.

use std::sync::Arc;
use std::time::Duration;

use super::backlog::Bounds;
use super::breaker::BreakerPolicy;
use super::frame::{Compression, Format};
use super::hedge::HedgeAt;
use super::lower::{Keeps, OnError, WriteMode};
#[cfg(feature = "tokio")]
use crate::AsyncKeyValue;
use crate::leases::CANNOT_LEASE;
use crate::place::Place;
use crate::{Error, KeyValue};

/// Where the bytes of a tier are.
pub(crate) enum Source {
    Url(String),
    Threads(Arc<dyn KeyValue>),
    #[cfg(feature = "tokio")]
    Tasks(Arc<dyn AsyncKeyValue>),
}

impl Tier {
    /// # Errors
    /// [`Error::Settings`] if settings contradict each other; [`Error::Url`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.lease.is_none() {
            return Ok(());
        }
        if !self.is_shared()? {
            return Err(CANNOT_LEASE);
        }
        if self.mode != WriteMode::Through || self.hedge.is_some() {
            return Err(Error::Settings(
                "processes share loads if values are written before calls return, and loads are not hedged",
            ));
        }
        Ok(())
    }
}

impl Tier {
    /// Whether processes share it.
    ///
    /// # Errors
    /// [`Error::Url`].
    pub(crate) fn is_shared(&self) -> Result<bool, Error> {
        let is_shared = match &self.source {
            Source::Url(url) => {
                matches!(Place::parse(url)?, Place::Server(..) | Place::Cluster(..))
            }
            Source::Threads(store) => store.is_shared(),
            #[cfg(feature = "tokio")]
            Source::Tasks(store) => store.is_shared(),
        };
        Ok(is_shared && !self.is_exclusive)
    }
}

impl Source {
    /// Whether it can keep keys like one.
    ///
    /// # Errors
    /// [`Error::Url`].
    pub(crate) fn keeps(&self) -> Result<Keeps, Error> {
        Ok(match self {
            Self::Url(url) => {
                let place = Place::parse(url)?;
                Box::new(move |key| place.keeps(key))
            }
            Self::Threads(store) => {
                let store = Arc::clone(store);
                Box::new(move |key| store.keeps(key))
            }
            #[cfg(feature = "tokio")]
            Self::Tasks(store) => {
                let store = Arc::clone(store);
                Box::new(move |key| store.keeps(key))
            }
        })
    }
}

/// A tier below memory: one of the stores that [`open`](crate::open) opens, or any other behind the same interface.
///
/// Its failures never reach the caller of a cache. While it is down, values are loaded.
///
/// | store | what it keeps | while it is down |
/// | --- | --- | --- |
/// | `ram` | values of this process in their encoded form, which needs less memory than objects | - |
/// | `store:DIR` | values of this process, over a restart | - |
/// | `heed:DIR` (LMDB), `redb:DIR`, `fjall:DIR`, `rocksdb:DIR` | the same. Expired values are removed as others are written; nothing is evicted, so give values a time to live | - |
/// | `redis://`, `cluster://` | values that all processes [share](crate#several-processes), until it evicts them | the breaker opens after three failures; one call at a time probes it |
pub struct Tier {
    pub(crate) source: Source,
    pub(crate) timeout: Duration,
    pub(crate) mode: WriteMode,
    pub(crate) prefix: Vec<u8>,
    pub(crate) format: Format,
    pub(crate) batch_bytes: usize,
    pub(crate) breaker: BreakerPolicy,
    pub(crate) backlog: Bounds,
    pub(crate) bypass_if_slower: bool,
    pub(crate) is_tracked: bool,
    pub(crate) hedge: Option<HedgeAt>,
    pub(crate) lease: Option<Duration>,
    pub(crate) is_exclusive: bool,
    pub(crate) on_error: Option<OnError>,
}

impl Tier {
    /// The store at a URL of [`open`](crate::open). If it cannot be reached, it counts as down.
    #[must_use]
    pub fn open(url: &str) -> Self {
        Self::new(Source::Url(url.to_owned()))
    }

    /// A store for a cache of threads. It should return within the [timeout](Self::timeout) by itself: a call cannot be
    /// interrupted, and only counts as failed if it takes longer.
    #[must_use]
    pub fn store(store: Arc<dyn KeyValue>) -> Self {
        Self::new(Source::Threads(store))
    }

    /// A store for a cache of tasks.
    #[cfg(feature = "tokio")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    #[must_use]
    pub fn async_store(store: Arc<dyn AsyncKeyValue>) -> Self {
        Self::new(Source::Tasks(store))
    }

    fn new(source: Source) -> Self {
        Self {
            source,
            timeout: Duration::from_millis(100),
            mode: WriteMode::default(),
            prefix: Vec::new(),
            format: Format::default(),
            batch_bytes: 1 << 20,
            breaker: BreakerPolicy::default(),
            backlog: Bounds {
                keys: 10_000,
                bytes: 16 << 20,
            },
            bypass_if_slower: false,
            is_tracked: false,
            hedge: None,
            lease: None,
            is_exclusive: false,
            on_error: None,
        }
    }

    /// The limit for one read or write of the tier, after which the value is loaded. Default 100 ms.
    ///
    /// A cache of threads passes it to the connection, where it is the limit for connecting and for the reply, one after
    /// the other.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// When values are written. Default [`WriteMode::Through`].
    #[must_use]
    pub fn mode(mut self, mode: WriteMode) -> Self {
        self.mode = mode;
        self
    }

    /// The prefix of each key, such as `floors:`. Default nothing.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<Vec<u8>>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The schema version of encoded values. Values of another one count as misses and are replaced. Default 0.
    #[must_use]
    pub fn schema(mut self, version: u32) -> Self {
        self.format.schema = version;
        self
    }

    /// Compresses values of more than `above` bytes. Default none.
    #[must_use]
    pub fn compress(mut self, compression: Compression, above: usize) -> Self {
        self.format.compression = compression;
        self.format.compress_above = above;
        self
    }

    /// The most bytes that an encoded value can have before compression. Larger ones are kept in memory only, and what a
    /// tier returns is never decompressed beyond it. Default 64 MiB.
    #[must_use]
    pub fn max_value_bytes(mut self, bytes: usize) -> Self {
        self.format.max_value_bytes = bytes;
        self
    }

    /// The bytes of one request for several keys. Reads are split by the mean size of the values seen before. Default
    /// 1 MiB: larger replies cost more per value.
    #[must_use]
    pub fn batch_bytes(mut self, bytes: usize) -> Self {
        self.batch_bytes = bytes;
        self
    }

    /// The breaker: it opens after `failures` in a row, and lets a probe pass after `first_pause`, which doubles up to
    /// `longest_pause`. Default 3, 100 ms and 800 ms.
    ///
    /// A lost connection ([`Error::Client`]) and a request that ran into its timeout concern the tier as a whole. Reads,
    /// values and invalidations have a breaker each besides, which any other failure of theirs concerns: what a store refuses
    /// that answers (a Redis server that is full, a replica, or without enough replicas; a full disk), and errors that say
    /// nothing about other requests. [`TierStats`](super::TierStats) has their states.
    #[must_use]
    pub fn breaker(
        mut self,
        failures: u32,
        first_pause: Duration,
        longest_pause: Duration,
    ) -> Self {
        self.breaker = BreakerPolicy {
            failures: failures.max(1),
            first_pause,
            longest_pause: longest_pause.max(first_pause),
        };
        self
    }

    /// Has the server report every change of the keys with the [prefix](Self::prefix), by whatever process, and drops the
    /// values from memory. For a Redis server or a cluster that is named by its URL, and with keys that can be read back
    /// ([`Key::IS_READABLE`](crate::Key::IS_READABLE)). Default off.
    ///
    /// A value in memory is then older than the last write to the server for as long as the notice is on its way, which is
    /// measured ([`TierStats::notices`](super::TierStats::notices)). A value that is read or loaded while its notice arrives
    /// does not enter memory. While
    /// there is no connection for the notices ([`TierStats::is_tracking`](super::TierStats::is_tracking)), values stay until
    /// their time to live ends; once there is one again, memory is emptied. On a cluster that holds for the connection to
    /// each master. A node that becomes a master reports after a second at most, and memory is emptied then.
    ///
    /// The server reports this process's own writes as well, so the call after a load reads the value back from the tier.
    #[must_use]
    pub fn tracked(mut self) -> Self {
        self.is_tracked = true;
        self
    }

    /// Loads a value while its read is still under way, if that takes longer than all but one in a hundred of the reads
    /// before. The first result is used. Default off: a read has the [timeout](Self::timeout).
    ///
    /// It begins after 32 reads. With as many reads past their deadline as failures open the [breaker](Self::breaker), the
    /// tier is not asked. Reads of several keys have the time of their number, by the time per key of those before, and
    /// begin after 32 of them; their values are then copied before they are decoded. A value that was loaded beside its read is
    /// not written to a tier that processes share, since it has no [lease](crate#several-processes). A cache of threads loads late keys one
    /// after the other, a cache of tasks at the same time, as it does after a miss. In a cache of threads, a read is hedged if the tier is a
    /// Redis server, or a store with [`begin_get`](KeyValue::begin_get); the read and the load then end on threads of their
    /// own. In a cache of tasks, the deadline is exact to the millisecond.
    #[must_use]
    pub fn hedge(mut self) -> Self {
        self.hedge = Some(HedgeAt::P99);
        self
    }

    /// The same as [`hedge`](Self::hedge), after a fixed time.
    #[must_use]
    pub fn hedge_after(mut self, time: Duration) -> Self {
        self.hedge = Some(HedgeAt::After(time));
        self
    }

    /// Has one process at a time load a key: the others wait until the value is in the tier. Default off: each process
    /// that misses a key loads it.
    ///
    /// The process that loads holds the lease of the key, which each load of a tier that processes share
    /// [takes](crate#several-processes), and removes it once the value is written. If it is killed, the others wait until
    /// the lease has expired, so `lease` should be a few times what a load takes: a process that has waited for that long
    /// loads. The others ask for the lease and the value after 1 ms, then at intervals that grow to 16 ms, give or take a half.
    ///
    /// A miss costs no round trip more than without, but where there is nothing to write. All processes of a tier should have
    /// this setting, or none. For a Redis server or a cluster that is [written](Self::mode) before calls return; not together
    /// with [`hedge`](Self::hedge).
    #[must_use]
    pub fn shared_loads(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Takes no leases: this process alone uses the keys with the [prefix](Self::prefix). Default off: processes
    /// [share](crate#several-processes) a server or a cluster.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.is_exclusive = true;
        self
    }

    /// Calls `note` with each error of the store, or of connecting to it, which callers of the cache never see. `note` must
    /// not call the cache. A request that only takes too long is no error.
    #[must_use]
    pub fn on_error(mut self, note: impl Fn(&Error) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Box::new(note));
        self
    }

    /// Bypasses the tier while it costs more than it saves, by the measured times of loads, reads and writes and the
    /// measured hit ratio: values are then loaded without asking it, and not written to it. Default off.
    ///
    /// One key in 16 uses the tier all the same. Only these keys decide, before, during and after, and at the earliest
    /// after 200 reads of them. [`Costs`](crate::cost::Costs) has the formula, and
    /// [`Cache::explain`](crate::Cache::explain) prints the figures.
    #[must_use]
    pub fn bypass_if_slower(mut self) -> Self {
        self.bypass_if_slower = true;
        self
    }

    /// The most keys and bytes that wait to be written: values in [`WriteMode::Behind`], and in each mode the
    /// invalidations that the tier has missed. Default 10,000 keys and 16 MiB.
    ///
    /// A value without room is not written and counted in [`TierStats::lost_puts`](super::TierStats::lost_puts). Of an
    /// invalidation without room, [`TierStats::lost_deletes`](super::TierStats::lost_deletes) says what follows.
    #[must_use]
    pub fn backlog(mut self, keys: usize, bytes: usize) -> Self {
        self.backlog = Bounds { keys, bytes };
        self
    }
}

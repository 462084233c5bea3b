//! The settings of a cache.

use std::error::Error as StdError;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::backlog::Backlog;
use super::blocking::{Cache, Link};
use super::breaker::Breaker;
use super::clock::{Clock, SystemClock};
use super::codec::Codec;
use super::core::{Core, OwnTtl, Weigher};
use super::entry::Lifetimes;
use super::flights::Flights;
use super::hedge::Hedge;
use super::key::Key;
use super::lower::{Lower, Select};
use super::memory::Memory;
use super::metrics::{Metrics, TierMetrics};
use super::tier::{Source, Tier};
use super::tracking::Notices;
use super::weigh::{Weigh, weight_in_arc};
use super::worth::Ledger;
use crate::{Error, LoadError};

/// The budget for memory by default.
const DEFAULT_BUDGET: u64 = 64 << 20;
/// The guess for the size of an entry.
const EXPECTED_ENTRY_BYTES: u64 = 1_024;

/// A cache without its connections.
struct Parts<K, V> {
    core: Core<K, V>,
    /// Where its tier is, and its timeout.
    tier: Option<(Source, Duration)>,
    notices: Option<Notices>,
}

/// Sets up a [`Cache`] or an `AsyncCache`.
pub struct Builder<K, V> {
    budget: u64,
    expected_entry_bytes: u64,
    weigher: Weigher<K, V>,
    lifetimes: Lifetimes,
    own_ttl: Option<OwnTtl<K, V>>,
    select: Option<Select<K, V>>,
    tier: Option<(Tier, Arc<dyn Codec<V>>)>,
    clock: Arc<dyn Clock>,
}

impl<K: Key, V: Weigh + Send + Sync + 'static> Cache<K, V> {
    /// Starts from the defaults: 64 MiB of memory, no tier below it, and values without an end.
    #[must_use]
    pub fn builder() -> Builder<K, V> {
        Builder::new()
    }
}

impl<K: Key, V: Send + Sync + 'static> Cache<K, V> {
    /// Starts like [`builder`](Self::builder), with the bytes of memory and of a value, for values that do not implement
    /// [`Weigh`].
    #[must_use]
    pub fn builder_weighed(
        bytes: u64,
        weigher: impl Fn(&K, &V) -> u64 + Send + Sync + 'static,
    ) -> Builder<K, V> {
        Builder::of(bytes, Box::new(weigher))
    }
}

#[cfg(feature = "tokio")]
impl<K: Key, V: Weigh + Send + Sync + 'static> super::tasks::AsyncCache<K, V> {
    /// Starts from the defaults, as [`Cache::builder`](crate::Cache::builder) does.
    #[must_use]
    pub fn builder() -> Builder<K, V> {
        Builder::new()
    }
}

#[cfg(feature = "tokio")]
impl<K: Key, V: Send + Sync + 'static> super::tasks::AsyncCache<K, V> {
    /// Starts like [`builder`](Self::builder), with the bytes of memory and of a value, for values that do not implement
    /// [`Weigh`].
    #[must_use]
    pub fn builder_weighed(
        bytes: u64,
        weigher: impl Fn(&K, &V) -> u64 + Send + Sync + 'static,
    ) -> Builder<K, V> {
        Builder::of(bytes, Box::new(weigher))
    }
}
impl<K: Key, V: Weigh + Send + Sync + 'static> Builder<K, V> {
    pub(crate) fn new() -> Self {
        Self::of(DEFAULT_BUDGET, Box::new(|_, value| weight_in_arc(value)))
    }
}

impl<K: Key, V: Send + Sync + 'static> Builder<K, V> {
    pub(crate) fn of(budget: u64, weigher: Weigher<K, V>) -> Self {
        Self {
            budget,
            expected_entry_bytes: EXPECTED_ENTRY_BYTES,
            weigher,
            lifetimes: Lifetimes::default(),
            own_ttl: None,
            select: None,
            tier: None,
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// The bytes of memory for the cache: values, keys, and its own bytes for each, some 110. Default 64 MiB. Entries are
    /// evicted to stay within them. They are bytes of the allocator, so the process grows by about as much.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.budget = bytes;
        self
    }

    /// The same, with the bytes of a value: its own size and that of its memory. Default [`Weigh`], which counts both.
    #[must_use]
    pub fn memory(
        mut self,
        bytes: u64,
        weigher: impl Fn(&K, &V) -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.budget = bytes;
        self.weigher = Box::new(weigher);
        self
    }

    /// The usual size of an entry, from which the number of shards follows. A shard has a fixed share of the budget, at
    /// least 64 entries of this size, and an entry larger than the share of its shard is not kept in memory. Default
    /// 1 KiB.
    #[must_use]
    pub fn expected_entry_bytes(mut self, bytes: u64) -> Self {
        self.expected_entry_bytes = bytes;
        self
    }

    /// The time to live of values. Default none: they stay until they are evicted.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.lifetimes.ttl = Some(ttl);
        self
    }

    /// The time to live of each value; where it is `None`, that of the cache.
    #[must_use]
    pub fn ttl_of(
        mut self,
        ttl: impl Fn(&K, &V) -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        self.own_ttl = Some(Box::new(ttl));
        self
    }

    /// The share of a time to live (0 to 1) that is taken off at random, at most, so that values loaded together do not
    /// end together. Default 0.1.
    #[must_use]
    pub fn jitter(mut self, share: f64) -> Self {
        self.lifetimes.jitter = share;
        self
    }

    /// The time for which the absence of an object is remembered. Default: not at all.
    #[must_use]
    pub fn absent_ttl(mut self, ttl: Duration) -> Self {
        self.lifetimes.absent_ttl = Some(ttl);
        self
    }

    /// The time for which a value in memory is served after its time to live, while it is loaded again in the
    /// background. Default not at all.
    #[must_use]
    pub fn stale_for(mut self, time: Duration) -> Self {
        self.lifetimes.stale_for = time;
        self
    }

    /// The time after its time to live for which a value is served if it cannot be loaded. Default not at all.
    #[must_use]
    pub fn stale_on_error(mut self, time: Duration) -> Self {
        self.lifetimes.stale_on_error = time;
        self
    }

    /// The share of a time to live (0 to 1) after which a hit in memory has the value loaded again in the background.
    /// Default never.
    #[must_use]
    pub fn refresh_after(mut self, share: f64) -> Self {
        self.lifetimes.refresh_after = Some(share);
        self
    }

    /// The tier below memory, and how it keeps values.
    #[must_use]
    pub fn tier(mut self, tier: Tier, codec: impl Codec<V> + 'static) -> Self {
        self.tier = Some((tier, Arc::new(codec)));
        self
    }

    /// Decides which loaded values are written to the tier, by the value and the time that its load took. Default all.
    /// Inserted values are always written.
    #[must_use]
    pub fn select(
        mut self,
        select: impl Fn(&K, &V, Duration) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.select = Some(Box::new(select));
        self
    }

    /// The clock, for tests. Default [`SystemClock`].
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// A cache for threads, with what loads a value; `None` is that there is no such object.
    ///
    /// `load` must not ask this cache for a key that waits for the one it loads: neither would end.
    ///
    /// # Errors
    /// [`Error::Url`] and [`Error::Settings`]. A tier that cannot be reached is no error.
    pub fn build<E: Into<Box<dyn StdError + Send + Sync>>>(
        self,
        load: impl Fn(&K) -> Result<Option<V>, E> + Send + Sync + 'static,
    ) -> Result<Cache<K, V>, Error> {
        let Parts {
            core,
            tier,
            notices,
        } = self.parts()?;
        let link = match tier {
            None => None,
            Some((Source::Url(url), timeout)) => Some(Link::open(&url, timeout)?),
            Some((Source::Threads(store), _)) => Some(Link::of(store)),
            #[cfg(feature = "tokio")]
            Some((Source::Tasks(_), _)) => {
                return Err(Error::Settings(
                    "a cache for threads needs a store for threads",
                ));
            }
        };
        let load = move |key: &K| load(key).map_err(|error| LoadError::from(error.into()));
        Ok(Cache::new(core, link, notices, Box::new(load)))
    }

    /// A cache for tasks, with what loads a value; `None` is that there is no such object. Needs a runtime of tokio with
    /// its drivers for I/O and time.
    ///
    /// `load` must not ask this cache for a key that waits for the one it loads: neither would end.
    ///
    /// # Errors
    /// Those of [`build`](Self::build).
    #[cfg(feature = "tokio")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub async fn build_async<E, F>(
        self,
        load: impl Fn(K) -> F + Send + Sync + 'static,
    ) -> Result<super::tasks::AsyncCache<K, V>, Error>
    where
        E: Into<Box<dyn StdError + Send + Sync>>,
        F: Future<Output = Result<Option<V>, E>> + Send + 'static,
    {
        use super::tasks::{AsyncCache, AsyncLink};

        let Parts {
            core,
            tier,
            notices,
        } = self.parts()?;
        let link = match tier {
            None => None,
            Some((Source::Url(url), timeout)) => Some(AsyncLink::open(&url, timeout).await?),
            Some((Source::Tasks(store), timeout)) => Some(AsyncLink::of(store, timeout)),
            Some((Source::Threads(_), _)) => {
                return Err(Error::Settings("a cache for tasks needs a store for tasks"));
            }
        };
        let load = move |key: K| {
            let loaded = load(key);
            let loaded = async { loaded.await.map_err(|error| LoadError::from(error.into())) };
            Box::pin(loaded) as super::tasks::Loaded<V>
        };
        Ok(AsyncCache::new(core, link, notices, Box::new(load)))
    }

    fn parts(self) -> Result<Parts<K, V>, Error> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        if !is_share(self.lifetimes.jitter) || !self.lifetimes.refresh_after.is_none_or(is_share) {
            return Err(Error::Settings(
                "a share of a time to live is between 0 and 1",
            ));
        }
        let mut source = None;
        let mut notices = None;
        if let Some((tier, _)) = &self.tier
            && tier.is_tracked
        {
            let url = match &tier.source {
                Source::Url(url) => Some(&url[..]),
                _ => None,
            };
            notices = Some(Notices::of::<K>(url, &tier.prefix)?);
        }
        self.tier
            .as_ref()
            .map_or(Ok(()), |(tier, _)| tier.check())?;
        let keeps = self.tier.as_ref().map(|(tier, _)| tier.source.keeps());
        let keeps = keeps.transpose()?;
        let is_shared = self.tier.as_ref().map(|(tier, _)| tier.is_shared());
        let is_shared = is_shared.transpose()?.unwrap_or(false);
        let lower = self.tier.zip(keeps).map(|((tier, codec), keeps)| {
            source = Some((tier.source, tier.timeout));
            Lower {
                codec,
                format: tier.format,
                prefix: tier.prefix,
                keeps,
                on_error: tier.on_error,
                mode: tier.mode,
                select: self.select,
                timeout: tier.timeout,
                hedge: tier.hedge.map(|at| {
                    let most_late = tier.breaker.failures as usize;
                    Arc::new(Hedge::new(at, tier.timeout, most_late))
                }),
                is_shared,
                lease: tier.lease,
                longest_load_ns: AtomicU64::new(0),
                probe: Mutex::default(),
                // Its keys are random.
                nonce: RandomState::new().build_hasher().finish(),
                batch_bytes: tier.batch_bytes.max(1),
                breaker: Mutex::new(Breaker::new(tier.breaker)),
                backlog: Mutex::new(Backlog::new(tier.backlog)),
                draining: Mutex::default(),
                metrics: TierMetrics::default(),
                ledger: Ledger::new(tier.bypass_if_slower),
                mean_bytes: AtomicU64::new(0),
            }
        });
        let core = Core {
            clock: self.clock,
            memory: Memory::new(self.budget, self.expected_entry_bytes),
            flights: Flights::new(),
            lifetimes: self.lifetimes,
            own_ttl: self.own_ttl,
            weigher: self.weigher,
            lower,
            metrics: Metrics::default(),
            last_stamp: AtomicU64::new(0),
        };
        Ok(Parts {
            core,
            tier: source,
            notices,
        })
    }
}

//! Replies in memory, kept current by the server: client-side caching of Redis.
//!
//! A [`ReadCache`] keeps the replies to commands that read one key, and drops them when the server reports a change of the
//! key ([`tracking`](crate::tracking)). Connections read through it by `get_cached` and `run_cached`:
//!
//! ```no_run
//! use loadline_client::Client;
//! use loadline_client::commands::{hget, set};
//!
//! let client = Client::open("redis://localhost")?;
//! let cache = client.blocking_cache("user:", 64 << 20)?;
//! let mut connection = client.blocking()?;
//! let name: Option<String> = connection.get_cached(&cache, "user:1")?;
//! // From memory, without a request, until a client changes the key.
//! let again: Option<String> = connection.get_cached(&cache, "user:1")?;
//! // Any command that reads one key can be kept, and one that writes drops what is kept of its keys.
//! let mail: Option<String> = connection.run_cached(&cache, hget("user:1:fields", "mail"))?;
//! connection.run_cached(&cache, set("user:1", "Ann"))?;
//! # drop((name, again, mail));
//! # Ok::<(), loadline_client::Error>(())
//! ```
//!
//! How old a kept reply can be:
//!
//! - After a change by another client, or by a request outside `run_cached`, it is used until the notice arrives. After a write
//!   by `run_cached` that has returned, it is not used.
//! - A reply that is on its way while a notice of its key arrives is not kept.
//! - While the connection for notices is down, requests go to the server, and nothing is kept. The loss of a connection is
//!   seen within a second of its end; a server that is silent, after the time of
//!   [`Config::keepalive`](crate::Config::keepalive). Replies that were kept before are used until then. After an outage, memory is emptied.
//! - A key with a time to live is reported when the server removes it, which can be some time after its end.
//!
//! Use it with connections of the same client or cluster: notices do not say which database a key is in. Reads from
//! replicas can be older than a notice, so they do not belong in a cache.

mod core;

use std::sync::{Arc, Weak};
use std::time::Duration;

use self::core::{Core, Look};
use crate::commands::get;
use crate::pubsub::names_of;
use crate::tracking::Invalidation;
use crate::{Arg, Client, Cmd, Error, FromReply, OwnedReply, ToArgs, blocking};

/// Time between two looks at the connection for notices, and the longest for which it outlives the last handle.
const LOOK: Duration = Duration::from_secs(1);

/// Replies to commands that read, up to a number of bytes; see the [module](self). Handles share them.
///
/// `Client::cache`, [`Client::blocking_cache`] and the functions of this name of a cluster open one.
#[derive(Clone, Debug)]
pub struct ReadCache {
    core: Arc<Core>,
}

/// Counts of a [`ReadCache`] so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadCacheStats {
    /// Requests that were answered from memory.
    pub hits: u64,
    /// Requests that were sent, and whose replies were to be kept.
    pub misses: u64,
    /// Those of them whose replies were not kept, since a notice of their key arrived in the meantime.
    pub overtaken: u64,
    /// Times that memory was emptied, since notices may be missing or a database was emptied.
    pub gaps: u64,
    /// Keys with replies in memory.
    pub keys: u64,
    /// Estimated bytes of memory that they take.
    pub bytes: u64,
    /// Whether changes are reported at the moment, as far as is known.
    pub is_current: bool,
}

impl ReadCache {
    fn new(prefixes: &impl ToArgs, bytes: usize) -> Result<Self, Error> {
        let core = Arc::new(Core::new(names_of(prefixes)?, bytes));
        Ok(Self { core })
    }

    /// Counts so far.
    #[must_use]
    pub fn stats(&self) -> ReadCacheStats {
        self.core.stats()
    }

    /// Drops what is kept of a key, and of the replies about it that are on their way.
    pub fn forget(&self, key: impl AsRef<[u8]>) {
        self.core.forget(key.as_ref());
    }

    /// Takes notices on a thread of their own until the last handle is gone.
    fn follow(self, mut tracking: blocking::Tracking) -> Result<Self, Error> {
        let core = Arc::downgrade(&self.core);
        let follow = move || {
            loop {
                let notice = tracking.next(LOOK);
                if !pass_on(&core, notice, tracking.outage().is_some()) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("read-cache".into());
        let spawned = thread.spawn(follow);
        spawned.map_err(|error| Error::connection(error, false))?;
        Ok(self)
    }

    /// The same on a task.
    #[cfg(feature = "tokio")]
    fn follow_on_task(self, mut tracking: crate::tracking::Tracking) -> Self {
        let core = Arc::downgrade(&self.core);
        tokio::spawn(async move {
            loop {
                let notice = match tokio::time::timeout(LOOK, tracking.next()).await {
                    Ok(None) => return,
                    Ok(notice) => notice,
                    Err(_) => None,
                };
                if !pass_on(&core, notice, tracking.outage().is_some()) {
                    return;
                }
            }
        });
        self
    }
}

/// Passes on a notice, if there is one, and the state of the connection. Returns whether there is still a cache.
fn pass_on(core: &Weak<Core>, notice: Option<Invalidation>, is_out: bool) -> bool {
    let core = core.upgrade();
    if let Some(core) = &core {
        core.take(notice, is_out);
    }
    core.is_some()
}

impl Client {
    /// Opens a connection for notices, with a thread that takes them, and keeps replies about keys with these prefixes in up
    /// to this number of bytes; see [`caching`](crate::caching). The empty prefix is all keys.
    ///
    /// # Errors
    /// Those of [`Client::blocking_tracking`], and of starting a thread.
    #[cfg_attr(docsrs, doc(cfg(feature = "cache")))]
    pub fn blocking_cache(&self, prefixes: impl ToArgs, bytes: usize) -> Result<ReadCache, Error> {
        let tracking = self.blocking_tracking(&prefixes)?;
        ReadCache::new(&prefixes, bytes)?.follow(tracking)
    }

    /// Opens a connection for notices, with a task that takes them; see [`Client::blocking_cache`].
    ///
    /// # Errors
    /// Those of [`Client::tracking`].
    #[cfg(feature = "tokio")]
    #[cfg_attr(docsrs, doc(cfg(all(feature = "cache", feature = "tokio"))))]
    pub async fn cache(&self, prefixes: impl ToArgs, bytes: usize) -> Result<ReadCache, Error> {
        let tracking = self.tracking(&prefixes).await?;
        Ok(ReadCache::new(&prefixes, bytes)?.follow_on_task(tracking))
    }
}

impl blocking::Cluster {
    /// Opens connections for notices to all masters, with a thread that takes them; see [`Client::blocking_cache`].
    ///
    /// # Errors
    /// Those of [`blocking::Cluster::tracking`], and of starting a thread.
    #[cfg_attr(docsrs, doc(cfg(feature = "cache")))]
    pub fn cache(&self, prefixes: impl ToArgs, bytes: usize) -> Result<ReadCache, Error> {
        let tracking = self.tracking(&prefixes)?;
        ReadCache::new(&prefixes, bytes)?.follow(tracking)
    }
}

#[cfg(feature = "tokio")]
impl crate::cluster::Cluster {
    /// Opens connections for notices to all masters, with a task that takes them; see [`Client::blocking_cache`].
    ///
    /// # Errors
    /// Those of [`Cluster::tracking`](crate::cluster::Cluster::tracking).
    #[cfg_attr(docsrs, doc(cfg(all(feature = "cache", feature = "tokio"))))]
    pub async fn cache(&self, prefixes: impl ToArgs, bytes: usize) -> Result<ReadCache, Error> {
        let tracking = self.tracking(&prefixes).await?;
        Ok(ReadCache::new(&prefixes, bytes)?.follow_on_task(tracking))
    }
}

/// The functions of a connection that read through a cache: the way to receive it, and to wait for a reply.
macro_rules! cached_reads {
    ($connection:ty, $this:ident, [$($receiver:tt)*] $(, $async:ident, $await:tt)?) => {
        #[cfg_attr(docsrs, doc(cfg(feature = "cache")))]
        impl $connection {
            /// Gets a value from memory, or from the server; see [`caching`](crate::caching).
            ///
            /// # Errors
            /// As for any request.
            pub $($async)? fn get_cached<T: FromReply>(
                $($receiver)*,
                cache: &ReadCache,
                key: impl Arg,
            ) -> Result<T, Error> {
                $this.run_cached(cache, get::<T>(key))$(.$await)?
            }

            /// Runs a command, and keeps its reply if it reads one key with a prefix of the cache. If it is not a read, what
            /// is kept of its keys is dropped.
            ///
            /// Commands whose replies change by themselves (`TTL`, `SRANDMEMBER`, `OBJECT`) are not kept.
            ///
            /// # Errors
            /// As for any request.
            pub $($async)? fn run_cached<T: FromReply>(
                $($receiver)*,
                cache: &ReadCache,
                command: impl Into<Cmd<T>>,
            ) -> Result<T, Error> {
                let command: Cmd<T> = command.into();
                match cache.core.look(&command) {
                    Look::Kept(reply) => T::from_reply(reply.borrowed()),
                    Look::Read(read) => {
                        let command = command.read_as::<OwnedReply>();
                        let reply = $this.run(&command)$(.$await)??;
                        let value = T::from_reply(reply.borrowed());
                        read.keep(&command, reply);
                        value
                    }
                    Look::Pass => {
                        let outcome = $this.run(&command)$(.$await)?;
                        cache.core.has_run(&command);
                        outcome
                    }
                }
            }
        }
    };
}

cached_reads!(blocking::Connection, self, [&mut self]);
cached_reads!(blocking::Cluster, self, [&mut self]);
#[cfg(feature = "tokio")]
cached_reads!(crate::multiplexed::Connection, self, [&self], async, await);
#[cfg(feature = "tokio")]
cached_reads!(crate::cluster::Cluster, self, [&self], async, await);

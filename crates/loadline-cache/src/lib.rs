//! A cache in tiers, and one interface to a key-value store in memory, in a directory, on a Redis server or on a Redis
//! Cluster.
//!
//! An application opens a URL and grows by changing it:
//!
//! | URL | what it is |
//! | --- | --- |
//! | `ram` | a store in the memory of this process |
//! | `store:DIR` | a store of this process in a directory |
//! | `heed:DIR`, `redb:DIR`, `fjall:DIR`, `rocksdb:DIR` | LMDB, redb, fjall or RocksDB in a directory |
//! | `redis://HOST:PORT` (and `rediss://`, `unix://`) | a Redis or Valkey server |
//! | `cluster://HOST:PORT,...` | a Redis or Valkey Cluster |
//!
//! [`KeyValue`] is the interface for threads, [`open`] opens it. `AsyncKeyValue` and `open_async` (feature `tokio`) are the
//! same for tasks. What each of them guarantees is different, and docs/growing.md has the table.
//!
//! [`Cache`] (and `AsyncCache` for tasks) keeps values of the application in tiers: objects in memory, their bytes in one
//! of these stores, and below them what the application loads. A miss goes down the tiers, and the value is kept on the
//! way back.
//!
//! | tier | what it guarantees |
//! | --- | --- |
//! | memory | A hit returns the object itself in an `Arc`, never a copy. It is never older than the last [`Cache::insert`] or [`Cache::invalidate`] in this process that had returned when the call began. |
//! | store | The same, also while the store fails, loses replies, or is down: what it may have missed is not used. A value that is damaged, or of another schema version, is a miss and is replaced. Its errors never reach the caller. |
//! | load | One load per key at a time, however many callers wait. If it fails, is cancelled, or panics, its waiters do not hang. |
//!
//! # Several processes
//!
//! Processes that use the same server or cluster have a memory each. Before a process loads a value, it takes a lease of the
//! key on the server. [`Cache::insert`] and [`Cache::invalidate`] of any process end it, and the loaded value is written only
//! if the lease is still there. Otherwise it leaves memory, too ([`TierStats::overtaken`]). A hit costs nothing for that, and a
//! miss one round trip.
//!
//! | mode | what the server has, once `insert` or `invalidate` has returned | what a call that begins then in another process can return |
//! | --- | --- | --- |
//! | [`Through`](WriteMode::Through) | Nothing older, whatever others load. | What its memory has, until the time to live of that value ends, and `stale_for` after it; with [`Tier::tracked`] until the notice arrives ([`TierStats::notices`]). What a read or a load returns that was under way in its process when the change was made. |
//! | [`Behind`](WriteMode::Behind) | The older value until the write has left the backlog ([`Cache::flush`]). An insert then replaces what the server has, even if another process has written or invalidated it since; an invalidation is always safe. | The same, from the moment when the write has left the backlog; until then also what the server has. |
//! | [`ReadOnly`](WriteMode::ReadOnly) | The older value: nothing is written. | What it could before. |
//!
//! Without [`Tier::tracked`], memory keeps a value that has no time to live until it is evicted, whatever other processes
//! change.
//!
//! If the server was not reached, it has the older value until this process has removed it in the background
//! ([`TierStats::backlog`]). If the backlog had no room for that ([`TierStats::lost_deletes`]), or the process has ended, the
//! server has it until its expiry: the time to live, and then the longer of `stale_for` and `stale_on_error`. Without a time to
//! live, it stays.
//!
//! A value is loaded without a lease if the server was not asked or failed, took no writes, or was slow ([`Tier::hedge`]), if
//! [`Tier::bypass_if_slower`] left it out, if an invalidation of the key waits in the backlog, and in mode `ReadOnly`. It is
//! then not written to the server. In memory it can be older than a change that another process has made during the load,
//! until its time to live ends or the notice arrives. The same holds for a value that `select` does not choose, and, until its
//! time to live ends, for one that is written behind under a key that cannot be read back ([`Key::IS_READABLE`]).
//!
//! Further limits:
//!
//! - Where two processes insert a key at the same time, the server keeps what arrives last. Insert while the source is
//!   locked, or invalidate.
//! - An insert that ran into its timeout can be executed by the server after an invalidation that was sent later on another
//!   connection.
//! - Clocks of machines are compared. Where the clock of a reader is behind that of the writer by some time, the reader uses a
//!   value that much longer, and at most one time to live from its read on; where it is ahead, that much shorter. After
//!   invalidations were lost ([`TierStats::lost_deletes`]), a process does not use values of the server whose load began before
//!   the loss by the clock of the machine that loaded them: a machine whose clock is ahead by some time can have
//!   loaded an older value up to that time before.
//! - A replica that takes over may lack the last writes. Leases that it lacks are ended ones.
//! - A program that changes a key by other means removes its lease as well: `DEL p:7 lease:{p:7}`.
//! - A lease lasts a minute, or four times the longest load so far if that is more. The first load that takes longer is not
//!   kept. A server that evicts the keys with the nearest expiry first (`volatile-ttl`) evicts leases, and what was loaded
//!   is then not kept either.
//!
//! A store in a directory, in an engine, or in memory belongs to one process. It needs no leases, since the calls of a
//! process wait for each other.
//!
//! ```
//! use std::time::Duration;
//! use loadline_cache::codec::Raw;
//! use loadline_cache::{Cache, Tier};
//!
//! let cache = Cache::<u32, String>::builder()
//!     .memory_bytes(64 << 20)
//!     .ttl(Duration::from_secs(60))
//!     .tier(Tier::open("ram").prefix("pages:"), Raw)
//!     .build(|number| Ok::<_, std::io::Error>(Some(format!("page {number}"))))?;
//! assert_eq!(cache.get(&7)?.as_deref().map(String::as_str), Some("page 7"));
//! # Ok::<(), loadline_cache::Error>(())
//! ```
//!
//! | feature | adds |
//! | --- | --- |
//! | `tokio` | the interfaces for tasks |
//! | `bitcode`, `postcard`, `message-pack`, `prost`, `json`, `rkyv` | a codec each, in [`codec`] |
//! | `tracing` | spans and events of lookups for the `tracing` crate |
//! | `lz4`, `zstd` | compression of large values |
//! | `heed`, `redb`, `fjall`, `rocksdb` | a store each, in [`engines`] |
//! | `tls` | `rediss://`, `clusters://` |
//!
//! A store by itself:
//!
//! ```
//! use loadline_cache::open;
//!
//! let store = open("ram")?;
//! store.put(b"greeting", b"hello")?;
//! assert!(store.compare_and_swap(b"greeting", Some(b"hello"), Some(b"goodbye"))?);
//! assert_eq!(store.get(b"greeting")?.as_deref(), Some(&b"goodbye"[..]));
//! # Ok::<(), loadline_cache::Error>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "heed"), forbid(unsafe_code))]

mod batch;
mod blocking;
pub mod cost;
pub mod engines;
mod error;
mod idle;
mod key_value;
mod leases;
mod place;
mod requests;
mod steps;
#[cfg(feature = "tokio")]
mod tasks;
mod tiered;

pub use batch::Batch;
pub use blocking::{connect, open};
pub use error::{Error, LoadError};
pub use key_value::{Begun, KeyValue, Rest};
pub use leases::{Leased, LeasedWrite};
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use tasks::{Answer, AsyncKeyValue, open_async};
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use tiered::AsyncCache;
pub use tiered::codec;
pub use tiered::{
    Builder, Cache, Clock, Compression, Explanation, Found, Key, ManualClock, Stats, Step,
    SystemClock, Tier, TierStats, Times, WarmUp, WarmUpEnd, Weigh, Worth, WriteMode, entry_bytes,
};

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
//! Other processes see an invalidation once they read the store. What they have in memory, or were loading at that moment,
//! stays until its time to live ends, or with [`Tier::tracked`] until the notice of the server arrives.
//!
//! One case is left in which a process can read an older value from a server: a write that ran into its timeout is still
//! executed by the server, after an invalidation that was sent later on another connection.
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
//! | `bytes` | [`Weigh`] for `bytes::Bytes` |
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
mod place;
mod requests;
#[cfg(feature = "tokio")]
mod tasks;
mod tiered;

pub use batch::Batch;
pub use blocking::{Begun, KeyValue, Rest, open};
pub use error::{Error, LoadError};
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

/// The examples of the README compile, with the features that they name.
#[cfg(all(doctest, feature = "postcard", feature = "tokio"))]
#[doc = include_str!("../README.md")]
struct Readme;

//! One interface to a key-value store in memory, in a directory, on a Redis server or on a Redis Cluster.
//!
//! An application opens a URL and grows by changing it:
//!
//! | URL | what it is |
//! | --- | --- |
//! | `ram` | a store in the memory of this process |
//! | `store:DIR` | a store of this process in a directory |
//! | `redis://HOST:PORT` (and `rediss://`, `unix://`) | a Redis or Valkey server |
//! | `cluster://HOST:PORT,...` | a Redis or Valkey Cluster |
//!
//! [`KeyValue`] is the interface for threads, [`open`] opens it. `AsyncKeyValue` and `open_async` (feature `tokio`) are the
//! same for tasks. What each of them guarantees is different, and docs/growing.md has the table.
//!
//! It is not a cache: nothing is kept in a second place. It is what the tiers of one are made of.
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
#![forbid(unsafe_code)]

mod batch;
mod blocking;
mod error;
mod idle;
mod place;
mod requests;
#[cfg(feature = "tokio")]
mod tasks;

pub use batch::Batch;
pub use blocking::{KeyValue, open};
pub use error::Error;
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use tasks::{Answer, AsyncKeyValue, open_async};

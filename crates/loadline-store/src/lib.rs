//! A store of bytes by key, usable as a library, and the keyspace that it is made of.
//!
//! [`Store`] is the library: one handle for many threads, with its own clock. A key that has expired stays away, also where
//! the clock of the machine is set back.
//!
//! [`Keyspace`] is the part in memory. Keys and values are bytes; a value is a string, a set, a hash, a list,
//! a sorted set or a stream. It reads no clock: `now` is an argument of every call, in milliseconds since the Unix epoch. An
//! entry whose time has come is gone for every reader at once and freed when it is looked up (lazy
//! expiry); [`Keyspace::expire_some`] frees the rest (active expiry).
//!
//! ```
//! use loadline_store::{Keyspace, View};
//!
//! let keyspace = Keyspace::new();
//! let now = 1_000;
//! keyspace.put_string(b"greeting", b"hello", now, |_| Some(Some(2_000)));
//! let is_hello = |value: Option<View<'_>>| matches!(value, Some(View::String(b"hello")));
//! assert!(keyspace.view(b"greeting", now, is_hello));
//! assert!(keyspace.view(b"greeting", 2_000, |value| value.is_none()));
//! ```

mod age;
mod arena;
mod clock;
mod error;
mod fields;
mod index;
mod keyspace;
mod list;
mod log;
mod page;
mod record;
mod shard;
mod slab;
mod slot;
mod sorted;
mod storage;
mod store;
mod stream;
mod sync;
mod table;
mod value;

pub use age::{AccessMetric, LastAccess};
pub use error::Error;
pub use fields::Fields;
pub use keyspace::{Evicted, Expired, FullPages, HugePages, Keyspace, Snapshot, Tally, Victim};
pub use list::List;
pub use log::pace::Pace;
pub use log::recovery::Torn;
pub use sorted::{SortedSet, SortedView};
pub use store::{
    AtLimit, Batch, ChangeLog, Checked, Damage, Durability, Edit, IgnoredBytes, IgnoredHint,
    LogStats, Options, Rewrite, RewriteStep, Stats, Store, StoreSnapshot, Writer,
};
pub use stream::{
    BlockLimits, Consumer, Group, Keep, Pairs, Pending, Stream, StreamBlock, StreamEdit,
    StreamEntry, StreamId, StreamWords, Trim,
};
pub use table::{Bytes, Held, Table};
pub use value::{Change, Entry, Expiry, Members, Shape, Value, View};

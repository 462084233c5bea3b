//! A sharded in-memory keyspace with expiry, usable as a library.
//!
//! Keys and values are bytes; a value is a string, a set, a hash or a list. The store reads no clock: `now`
//! is an argument of every call, in milliseconds since the Unix epoch. An entry whose time has come
//! is gone for every reader at once and freed when it is looked up (lazy expiry);
//! [`Store::expire_some`] frees the rest (active expiry). It is no database yet: it holds
//! nothing on disk.
//!
//! ```
//! use loadline_store::{Store, View};
//!
//! let store = Store::new();
//! let now = 1_000;
//! store.put_string(b"greeting", b"hello", now, |_| Some(Some(2_000)));
//! let is_hello = |value: Option<View<'_>>| matches!(value, Some(View::String(b"hello")));
//! assert!(store.view(b"greeting", now, is_hello));
//! assert!(store.view(b"greeting", 2_000, |value| value.is_none()));
//! ```

mod list;
mod shard;
mod slot;
mod store;
mod table;
mod value;

pub use list::List;
pub use store::Store;
pub use table::{Bytes, Held, Table};
pub use value::{Change, Entry, Expiry, Fields, Members, Shape, Value, View};

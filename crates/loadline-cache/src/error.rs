//! Errors of all stores, and of the cache.

use std::sync::Arc;

/// The error of the application that could not load a value. All callers that waited for it share it.
pub type LoadError = Arc<dyn std::error::Error + Send + Sync>;

/// The reason why an operation has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL does not name a store.
    #[error("invalid URL `{url}`: {reason}")]
    Url {
        /// The part of the URL before any password.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The store of this process failed.
    #[error(transparent)]
    Store(#[from] loadline_store::Error),
    /// An engine of this process failed: LMDB, redb, fjall or RocksDB.
    #[error(transparent)]
    Engine(Box<dyn std::error::Error + Send + Sync>),
    /// The store cannot keep a key of this length. Nothing was written.
    #[error("the store cannot keep keys of {key_bytes} bytes")]
    Key {
        /// Length of the key.
        key_bytes: usize,
    },
    /// The server or the connection failed; [`loadline_client::Error::maybe_executed`] says whether a write may have
    /// happened.
    #[error(transparent)]
    Client(#[from] loadline_client::Error),
    /// The keys of a batch are not in one slot of the cluster. Nothing was written.
    #[error(
        "the keys of a batch have to be in one slot of the cluster: give them a common hash tag, such as \
         `{{order:7}}:state` and `{{order:7}}:total`"
    )]
    Slots,
    /// The write has happened, but fewer replicas than were asked for confirmed it in time.
    #[error(
        "the write reached the master, and {reached} of {wanted} replicas confirmed it in time"
    )]
    Unconfirmed {
        /// Replicas that confirmed it.
        reached: u64,
        /// Replicas that were asked for.
        wanted: u64,
    },
    /// The value was in no tier of the cache, and the application could not load it.
    #[error("the value could not be loaded: {0}")]
    Load(#[source] LoadError),
    /// The settings of a cache contradict each other.
    #[error("invalid settings of the cache: {0}")]
    Settings(&'static str),
}

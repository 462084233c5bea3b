//! Changes of keys, for a cache in the application: client-side caching of Redis.
//!
//! [`Tracking`] (feature `tokio`) and [`blocking::Tracking`](crate::blocking::Tracking) have a connection of
//! their own, on which the server reports every change of the keys with given prefixes (`CLIENT TRACKING` in broadcasting
//! mode), no matter what causes it: another client, this one, or the end of a time to live. They begin again after an outage, and
//! announce it as [`Invalidation::Gap`] in its place: values that were read before can be outdated then.
//!
//! A value that is read while it changes needs care. The notice can be handled before the reply to the read, so a cache
//! has to mark a key before it reads it, and keep the value only if no notice came in between.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use loadline_client::Client;
//! use loadline_client::tracking::Invalidation;
//!
//! let mut tracking = Client::open("redis://localhost")?.blocking_tracking("floors:")?;
//! while let Some(change) = tracking.next(Duration::from_secs(1)) {
//!     match change {
//!         Invalidation::Key(key) => println!("{key:?} has changed"),
//!         everything => println!("anything can have changed: {everything:?}"),
//!     }
//! }
//! # Ok::<(), loadline_client::Error>(())
//! ```
//!
//! On a cluster (`cluster::Cluster::tracking`, [`blocking::Cluster::tracking`](crate::blocking::Cluster::tracking)), each master
//! reports the changes of its own keys, so there is a connection to each of them. The map is asked for once per second, and
//! ten times per second while a master does not report. A new master announces a gap once it reports: what was read from it
//! before can be outdated.
//!
//! See [Client-side caching](https://redis.io/docs/latest/develop/reference/client-side-caching/).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use loadline_resp::Protocol;

use crate::pubsub::Event;
use crate::{Config, Error};

/// A notice of changes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Invalidation {
    /// A key was written, removed, evicted, or has expired.
    Key(Bytes),
    /// A database was emptied.
    All,
    /// Changes are missing here: any key can have changed.
    Gap {
        /// The time from the last byte of the lost connection until the server confirmed the new one, or the time since
        /// all masters of a cluster were known to report; `None` if the queue of
        /// [`Config::max_queue_bytes`](crate::Config) was full.
        outage: Option<Duration>,
    },
    /// The server did not accept the prefix again after an outage. Its changes are not reported any more.
    Refused {
        /// The prefix.
        prefix: Bytes,
        /// The error that the server answered with.
        error: Error,
    },
}

impl From<Event> for Invalidation {
    fn from(event: Event) -> Self {
        match event {
            // The core marks the change of all keys with a pattern.
            Event::Message(message) if message.pattern.is_some() => Self::All,
            Event::Message(message) => Self::Key(message.channel),
            Event::Resubscribed { outage } => Self::Gap {
                outage: Some(outage),
            },
            Event::Lagged { .. } => Self::Gap { outage: None },
            Event::Refused { name, error, .. } => Self::Refused {
                prefix: name,
                error,
            },
        }
    }
}

/// The settings with RESP3 as the only protocol. In RESP2, a server accepts the command and reports nothing.
pub(crate) fn with_resp3(config: &Config) -> Result<Arc<Config>, Error> {
    if config.protocol == Some(Protocol::Resp2) {
        return Err(Error::Usage("changes of keys are reported in RESP3 only"));
    }
    let mut config = config.clone();
    config.protocol = Some(Protocol::Resp3);
    Ok(Arc::new(config))
}

pub(crate) mod masters;
#[cfg(feature = "tokio")]
mod tasks;
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use tasks::Tracking;

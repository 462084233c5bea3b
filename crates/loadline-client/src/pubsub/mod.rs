//! Subscriptions that outlive their connection.
//!
//! `PubSub` (feature `tokio`) and [`blocking::PubSub`](crate::blocking::PubSub) have a connection of their
//! own. After a reconnection they subscribe again and announce it: messages published in between are lost,
//! since Redis keeps none, and only the consumer knows what that means. Every gap is announced in its place
//! among the messages:
//!
//! - [`Event::Resubscribed`]: the connection was lost for a time; all subscriptions work again from here on.
//! - [`Event::Lagged`]: the consumer was too slow, and messages were dropped.
//! - [`Event::Refused`]: the server did not take a subscription again.
//!
//! ```no_run
//! use loadline_client::Client;
//! use loadline_client::pubsub::Event;
//!
//! # #[cfg(feature = "tokio")]
//! # async fn example() -> Result<(), loadline_client::Error> {
//! let mut pubsub = Client::open("redis://localhost")?.pubsub().await?;
//! pubsub.subscribe(["prices", "news"]).await?;
//! while let Some(event) = pubsub.next().await {
//!     match event {
//!         Event::Message(message) => println!("{:?}: {:?}", message.channel, message.payload),
//!         gap => println!("something is missing, read the state anew: {gap:?}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! On a cluster (`cluster::Cluster::pubsub`, [`blocking::Cluster::pubsub`](crate::blocking::Cluster::pubsub))
//! channels and patterns are heard on one node, and on another when that one goes; sharded channels on the
//! master of their slot, wherever it moves. Each of these connections announces its own gaps.
//!
//! Messages that must not be lost belong in a stream, not a channel.

#[cfg(test)]
mod cluster_tests;
pub(crate) mod core;
#[cfg(feature = "tokio")]
mod driver;
#[cfg(feature = "tokio")]
mod follow;
#[cfg(feature = "tokio")]
mod handle;
mod queue;
#[cfg(feature = "tokio")]
mod subscriber;
#[cfg(test)]
mod tests;
mod tickets;
mod wanted;

use std::time::Duration;

use bytes::Bytes;
use loadline_resp::Decoder;

use crate::args::ArgWriter;
use crate::{Error, ToArgs};
#[cfg(feature = "tokio")]
pub use handle::PubSub;

/// The target of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A channel: `SUBSCRIBE`.
    Channel,
    /// All channels whose names match a pattern: `PSUBSCRIBE`.
    Pattern,
    /// A channel of a shard: `SSUBSCRIBE`, from Redis 7.0 on.
    Shard,
    /// The keys that begin with a prefix: `CLIENT TRACKING`; see [`tracking`](crate::tracking). A subscriber to channels
    /// has none of these.
    Keys,
}

/// A message that was published.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// Which kind of subscription brought it.
    pub kind: Kind,
    /// Where it was published.
    pub channel: Bytes,
    /// The pattern that the channel matches, with [`Kind::Pattern`].
    pub pattern: Option<Bytes>,
    /// The published bytes.
    pub payload: Bytes,
}

/// An event for the consumer of a subscriber.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A message.
    Message(Message),
    /// The connection was lost, and all subscriptions work again from here on. Messages that were published in
    /// between are missing, and so are those that the lost connection had not delivered yet.
    Resubscribed {
        /// The time from the last byte of the lost connection until all subscriptions were confirmed again. Outages
        /// with nothing between them are one event, with the sum of their times.
        outage: Duration,
    },
    /// Messages were dropped here, since the queue of [`Config::max_queue_bytes`](crate::Config) was full.
    Lagged {
        /// The number of messages.
        messages: u64,
    },
    /// The server did not take a subscription again after an outage. It is given up.
    Refused {
        /// The target of the subscription.
        kind: Kind,
        /// The channel or pattern.
        name: Bytes,
        /// The error that the server answered with.
        error: Error,
    },
}

/// The names in some arguments, encoded as on the wire and read back from there.
pub(crate) fn names_of(args: &impl ToArgs) -> Result<Vec<Bytes>, Error> {
    let mut wire = Vec::new();
    args.write_args(&mut ArgWriter::new(&mut wire));
    let (mut names, mut rest) = (Vec::new(), &wire[..]);
    while let Ok(Some((name, used))) = Decoder::new(loadline_resp::Limits::default()).decode(rest) {
        names.push(Bytes::copy_from_slice(name.as_bytes().unwrap_or_default()));
        rest = &rest[used..];
    }
    if names.is_empty() {
        return Err(Error::Usage("a subscription needs a channel or pattern"));
    }
    Ok(names)
}

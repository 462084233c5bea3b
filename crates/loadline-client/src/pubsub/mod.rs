//! Subscriptions that outlive their connection.
//!
//! [`PubSub`] has a connection of its own. It subscribes again when it had to be made again, and says so:
//! what was published meanwhile is lost, since Redis keeps no messages, and nobody but the consumer knows
//! what that means. Whatever is missing is announced, in its place among what was received:
//!
//! - [`Event::Resubscribed`]: the connection was gone for a time; every subscription stands from here on.
//! - [`Event::Lagged`]: the consumer was too slow, and so many messages found no room.
//! - [`Event::Refused`]: the server did not take a subscription again.
//!
//! ```no_run
//! use loadline_client::Client;
//! use loadline_client::pubsub::Event;
//!
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
//! What must not lose anything is a stream, not a channel.

mod core;
mod driver;
mod queue;
#[cfg(test)]
mod tests;
mod tickets;
mod wanted;

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use loadline_resp::Decoder;
use tokio::sync::oneshot;

use crate::args::ArgWriter;
use crate::{Config, Error, ToArgs};
use core::Core;
use driver::Driver;
use tickets::TicketId;

/// What a subscription is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A channel: `SUBSCRIBE`.
    Channel,
    /// All channels whose names match a pattern: `PSUBSCRIBE`.
    Pattern,
    /// A channel of a shard: `SSUBSCRIBE`, from Redis 7.0 on.
    Shard,
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
    /// What was published.
    pub payload: Bytes,
}

/// What a consumer gets.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A message.
    Message(Message),
    /// The connection was gone, and all subscriptions stand again from here on. What was published
    /// meanwhile is missing, and so is what the lost connection had still to bring.
    Resubscribed {
        /// The time from the last byte of the lost connection until all subscriptions stood again. Outages
        /// with nothing between them are told as one, with the sum of their times.
        outage: Duration,
    },
    /// So many messages found no room in the queue of [`Config::max_queue_bytes`] and were dropped here.
    Lagged {
        /// How many.
        messages: u64,
    },
    /// The server did not take a subscription again after an outage. It is given up.
    Refused {
        /// What it was to.
        kind: Kind,
        /// The channel or pattern.
        name: Bytes,
        /// What the server answered.
        error: Error,
    },
}

/// A connection that receives what is published on channels. See the [module](self).
///
/// It is made again when it breaks, at once and then with growing pauses, and when the server is silent and
/// does not answer a `PING`. It is closed when it is dropped.
#[derive(Debug)]
pub struct PubSub {
    shared: Arc<Shared>,
}

/// What the handle and the driver share.
#[derive(Debug)]
struct Shared {
    config: Arc<Config>,
    core: Mutex<Core>,
}

impl PubSub {
    pub(crate) async fn open(config: Arc<Config>) -> Result<Self, Error> {
        let core = Core::new((*config).clone(), Instant::now());
        let shared = Arc::new(Shared {
            config,
            core: Mutex::new(core),
        });
        let (opened, opening) = oneshot::channel();
        let pubsub = Self {
            shared: Arc::clone(&shared),
        };
        tokio::spawn(Driver::new(shared, opened).run());
        let ended = Err(Error::Closed {
            maybe_executed: false,
        });
        opening.await.unwrap_or(ended)?;
        Ok(pubsub)
    }

    /// Subscribes to one or more channels. Once this returns, whatever is published on them is received.
    ///
    /// A future that is dropped takes nothing back: the subscription stands when the server confirms it.
    ///
    /// # Errors
    /// [`Error::Server`] where the server refuses one of them, [`Error::Timeout`] where no confirmation
    /// came in time; those that the server did not confirm are given up then.
    pub async fn subscribe(&self, channels: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Channel, &channels, true).await
    }

    /// Subscribes to all channels that match one of these patterns; see [`PubSub::subscribe`].
    ///
    /// # Errors
    /// As [`PubSub::subscribe`].
    pub async fn psubscribe(&self, patterns: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Pattern, &patterns, true).await
    }

    /// Subscribes to channels of a shard; see [`PubSub::subscribe`].
    ///
    /// # Errors
    /// As [`PubSub::subscribe`].
    pub async fn ssubscribe(&self, channels: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Shard, &channels, true).await
    }

    /// Ends subscriptions to channels. Messages that came before are still handed out. To end what does not
    /// stand is no error.
    ///
    /// # Errors
    /// [`Error::Timeout`] where no confirmation came in time. The subscription is given up all the same.
    pub async fn unsubscribe(&self, channels: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Channel, &channels, false).await
    }

    /// Ends subscriptions to patterns; see [`PubSub::unsubscribe`].
    ///
    /// # Errors
    /// As [`PubSub::unsubscribe`].
    pub async fn punsubscribe(&self, patterns: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Pattern, &patterns, false).await
    }

    /// Ends subscriptions to channels of a shard; see [`PubSub::unsubscribe`].
    ///
    /// # Errors
    /// As [`PubSub::unsubscribe`].
    pub async fn sunsubscribe(&self, channels: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Shard, &channels, false).await
    }

    /// The next event; `None` once the runtime that the connection was opened in has ended. A future that
    /// is dropped loses nothing.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|cx| self.shared.lock().poll_next(cx.waker())).await
    }

    /// The next event if there is one by now.
    #[must_use]
    pub fn try_next(&mut self) -> Option<Event> {
        match self.shared.lock().poll_next(Waker::noop()) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        }
    }

    /// Why there is no connection; `None` while there is one, as far as is known.
    #[must_use]
    pub fn outage(&self) -> Option<Error> {
        self.shared.lock().outage()
    }

    async fn change(&self, kind: Kind, names: &impl ToArgs, wanted: bool) -> Result<(), Error> {
        let names = names_of(names);
        if names.is_empty() {
            return Err(Error::Usage("a subscription needs a channel or pattern"));
        }
        let mut wake = Vec::new();
        let ticket = {
            let mut core = self.shared.lock();
            let now = Instant::now();
            wake.extend(core.take_driver());
            if wanted {
                core.subscribe(kind, names, now)
            } else {
                core.unsubscribe(kind, names, now, &mut wake)
            }
        };
        wake.into_iter().for_each(Waker::wake);
        let waiting = Waiting {
            shared: &self.shared,
            ticket,
        };
        poll_fn(|cx| waiting.shared.lock().poll_ticket(ticket, cx.waker())).await
    }
}

impl Drop for PubSub {
    fn drop(&mut self) {
        let driver = self.shared.lock().close();
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

/// Somebody who waits for confirmations, and may stop to.
struct Waiting<'p> {
    shared: &'p Shared,
    ticket: TicketId,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.lock().abandon(self.ticket);
    }
}

impl Shared {
    /// The state is whole whenever the lock is free.
    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Arguments are written as they stand on the wire, so names are read back from there.
fn names_of(args: &impl ToArgs) -> Vec<Bytes> {
    let mut wire = Vec::new();
    args.write_args(&mut ArgWriter::new(&mut wire));
    let (mut names, mut rest) = (Vec::new(), &wire[..]);
    while let Ok(Some((name, used))) = Decoder::new(loadline_resp::Limits::default()).decode(rest) {
        names.push(Bytes::copy_from_slice(name.as_bytes().unwrap_or_default()));
        rest = &rest[used..];
    }
    names
}

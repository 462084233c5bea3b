//! The handle that tasks hold.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use futures_core::Stream;
use tokio::sync::oneshot;

use super::core::{ConnectionId, Core};
use super::driver::Driver;
use super::subscriber::Subscriber;
use super::tickets::TicketId;
use super::{Event, Kind, follow, names_of};
use crate::cluster::Cluster;
use crate::cluster::builder::Plain;
use crate::conn::shell::current_runtime;
use crate::{Config, Error, ToArgs};

/// A connection that receives what is published on channels. See the [module](super).
///
/// It is made again when it breaks, at once and then with growing pauses, and when the server is silent and
/// does not answer a `PING`. It is closed when it is dropped. On a cluster
/// ([`Cluster::pubsub`](crate::cluster::Cluster::pubsub)) there is one connection to each node that is needed.
#[derive(Debug)]
pub struct PubSub {
    shared: Arc<Subscriber>,
}

impl PubSub {
    pub(crate) async fn open(config: Arc<Config>) -> Result<Self, Error> {
        let core = Core::new(Arc::clone(&config), Instant::now());
        Self::start(config, None, core).await
    }

    /// Connects to any node of a cluster, and follows its map from then on.
    async fn on_cluster(cluster: Cluster, plain: Plain, core: Core) -> Result<Self, Error> {
        let config = Arc::new(plain.config.clone());
        let pubsub = Self::start(config, Some(plain), core).await?;
        tokio::spawn(follow::start_connections(Arc::clone(&pubsub.shared)));
        tokio::spawn(follow::refresh(Arc::clone(&pubsub.shared), cluster));
        Ok(pubsub)
    }

    async fn start(config: Arc<Config>, plain: Option<Plain>, core: Core) -> Result<Self, Error> {
        let runtime = current_runtime()?;
        let shared = Arc::new(Subscriber::new(config, plain, core));
        let (opened, opening) = oneshot::channel();
        let pubsub = Self {
            shared: Arc::clone(&shared),
        };
        runtime.spawn(Driver::new(shared, ConnectionId::MAIN, Some(opened)).run());
        let ended = Err(Error::Closed {
            maybe_executed: false,
        });
        opening.await.unwrap_or(ended)?;
        Ok(pubsub)
    }

    /// Subscribes to one or more channels. Once this returns, whatever is published on them is received.
    ///
    /// Dropping the future takes nothing back: the subscription begins when the server confirms it.
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

    /// The reason why there is no connection; `None` while there is one, as far as is known.
    #[must_use]
    pub fn outage(&self) -> Option<Error> {
        self.shared.lock().outage()
    }

    pub(crate) async fn change(
        &self,
        kind: Kind,
        names: &impl ToArgs,
        wanted: bool,
    ) -> Result<(), Error> {
        let names = names_of(names)?;
        let mut wake = Vec::new();
        let ticket = {
            let mut core = self.shared.lock();
            let now = Instant::now();
            let ticket = if wanted {
                core.subscribe(kind, names, now)
            } else {
                core.unsubscribe(kind, names, now, &mut wake)
            };
            wake.extend(core.take_drivers());
            ticket
        };
        wake.into_iter().for_each(Waker::wake);
        let waiting = Waiting {
            shared: &self.shared,
            ticket,
        };
        poll_fn(|cx| waiting.shared.lock().poll_ticket(ticket, cx.waker())).await
    }
}

impl Cluster {
    /// Opens a subscriber. Channels and patterns are received on a connection to one node, and on one to another node
    /// when that one goes. A sharded channel is received from the master of its slot, also after the slot moves. Gaps
    /// are announced; see [`pubsub`](crate::pubsub).
    ///
    /// # Errors
    /// Fails if one connection attempt to each node fails. Later on connections come back by themselves.
    pub async fn pubsub(&self) -> Result<PubSub, Error> {
        let plain = self.plain().clone();
        let (topology, seeds) = (self.topology(), plain.seeds.clone());
        // Any part of the number will do.
        let turn = self.turn() as usize;
        let config = plain.config.clone();
        let core = Core::of_cluster(config, topology, seeds, turn, Instant::now());
        PubSub::on_cluster(self.clone(), plain, core).await
    }
}

/// As [`PubSub::next`].
impl Stream for PubSub {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.shared.lock().poll_next(cx.waker())
    }
}

impl Drop for PubSub {
    fn drop(&mut self) {
        let drivers = self.shared.lock().close();
        drivers.into_iter().for_each(Waker::wake);
    }
}

/// A caller that waits for confirmations until it is dropped.
struct Waiting<'p> {
    shared: &'p Subscriber,
    ticket: TicketId,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.lock().abandon(self.ticket);
    }
}

//! Changes of keys for tasks.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_core::Stream;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::masters::{Masters, Reports, unknown};
use super::{Invalidation, with_resp3};
use crate::cluster::{Cluster, Node};
use crate::pubsub::{Kind, PubSub, names_of};
use crate::{Config, Error, ToArgs};

/// Connections that report changes of keys: one to a server, and one to each master of a cluster; see the
/// [module](super). They are closed when it is dropped.
#[derive(Debug)]
pub struct Tracking {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Server(PubSub),
    Cluster(Box<Following>),
}

impl Tracking {
    pub(crate) async fn open(config: &Config, prefixes: &impl ToArgs) -> Result<Self, Error> {
        let pubsub = PubSub::open(with_resp3(config)?).await?;
        pubsub.change(Kind::Keys, prefixes, true).await?;
        Ok(Self {
            source: Source::Server(pubsub),
        })
    }

    async fn on_cluster(cluster: Cluster, prefixes: &impl ToArgs) -> Result<Self, Error> {
        let masters = Following::open(cluster, names_of(prefixes)?).await?;
        Ok(Self {
            source: Source::Cluster(Box::new(masters)),
        })
    }

    /// The next change; `None` once the runtime that the connection was opened in has ended. A future that is dropped
    /// loses nothing.
    pub async fn next(&mut self) -> Option<Invalidation> {
        match &mut self.source {
            Source::Server(pubsub) => pubsub.next().await.map(Invalidation::from),
            Source::Cluster(masters) => poll_fn(|cx| masters.poll_next(cx)).await,
        }
    }

    /// The reason why there is no connection, or none to one of the masters; `None` while there is one, as far as is known.
    #[must_use]
    pub fn outage(&self) -> Option<Error> {
        match &self.source {
            Source::Server(pubsub) => pubsub.outage(),
            Source::Cluster(masters) => masters.outage(),
        }
    }
}

impl Cluster {
    /// Opens connections to all masters that report changes of the keys with these prefixes; see
    /// [`tracking`](crate::tracking). The empty prefix is all keys. One prefix must not begin with another one.
    ///
    /// # Errors
    /// Fails if the single connection attempt to a master fails, if it refuses a prefix, and without RESP3. Later on
    /// connections come back by themselves.
    pub async fn tracking(&self, prefixes: impl ToArgs) -> Result<Tracking, Error> {
        Tracking::on_cluster(self.clone(), &prefixes).await
    }
}

impl Reports for PubSub {
    fn outage(&self) -> Option<Error> {
        Self::outage(self)
    }
}

/// A connection to each master, and the next look at the map.
#[derive(Debug)]
struct Following {
    cluster: Cluster,
    prefixes: Vec<Bytes>,
    masters: Masters<PubSub>,
    look: JoinHandle<Followed>,
}

/// The result of a look at the map.
#[derive(Debug)]
struct Followed {
    /// The masters, or why no node gave the map: the connections continue with the old one then.
    masters: Result<Vec<Node>, Error>,
    opened: Vec<(Node, PubSub)>,
    /// The reason why there is no connection to one of the masters.
    failed: Option<Error>,
}

impl Following {
    async fn open(cluster: Cluster, prefixes: Vec<Bytes>) -> Result<Self, Error> {
        let first = follow(cluster.clone(), prefixes.clone(), vec![], Duration::ZERO).await;
        first.masters?;
        if let Some(error) = first.failed {
            return Err(error);
        }
        let masters = Masters::new(first.opened, Instant::now());
        let (known, pause) = (masters.known(), masters.pause());
        let look = tokio::spawn(follow(cluster.clone(), prefixes.clone(), known, pause));
        Ok(Self {
            cluster,
            prefixes,
            masters,
            look,
        })
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Invalidation>> {
        loop {
            // First, since nodes can bring changes without end.
            match Pin::new(&mut self.look).poll(cx) {
                Poll::Ready(Ok(followed)) => self.take(followed),
                Poll::Ready(Err(_)) => return Poll::Ready(None),
                Poll::Pending => break,
            }
        }
        if let Some(gap) = self.masters.take_gap() {
            return Poll::Ready(Some(gap));
        }
        let next = self
            .masters
            .in_turn(|pubsub| match Pin::new(pubsub).poll_next(cx) {
                Poll::Ready(event) => Some(event.map(Invalidation::from)),
                Poll::Pending => None,
            });
        next.map_or(Poll::Pending, Poll::Ready)
    }

    /// Takes the outcome of a look at the map, and begins the next one.
    fn take(&mut self, followed: Followed) {
        // If no node gives the map, the connections continue with the old one.
        if let Ok(masters) = &followed.masters {
            let now = Instant::now();
            (self.masters).take(masters, followed.opened, followed.failed, now);
        }
        let (known, pause) = (self.masters.known(), self.masters.pause());
        let look = follow(self.cluster.clone(), self.prefixes.clone(), known, pause);
        self.look = tokio::spawn(look);
    }

    fn outage(&self) -> Option<Error> {
        self.masters.outage()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.look.abort();
    }
}

/// After a pause, asks for the map, and connects to the masters that do not report yet.
async fn follow(
    cluster: Cluster,
    prefixes: Vec<Bytes>,
    known: Vec<Node>,
    pause: Duration,
) -> Followed {
    sleep(pause).await;
    let masters = cluster.refresh().await.map(|()| cluster.masters());
    let (mut opened, mut failed) = (Vec::new(), None);
    for node in unknown(masters.as_deref().unwrap_or_default(), &known) {
        match report(&cluster, &node, &prefixes).await {
            Ok(pubsub) => opened.push((node, pubsub)),
            Err(error) => failed = Some(error),
        }
    }
    Followed {
        masters,
        opened,
        failed,
    }
}

/// Has a node report the changes of its keys.
async fn report(cluster: &Cluster, node: &Node, prefixes: &[Bytes]) -> Result<PubSub, Error> {
    let pubsub = PubSub::open(with_resp3(&cluster.config_of(node))?).await?;
    pubsub.change(Kind::Keys, &prefixes, true).await?;
    Ok(pubsub)
}

//! Changes of keys for tasks.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_core::Stream;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{Invalidation, MAP_PAUSE, MAP_PERIOD, keep_masters, with_resp3};
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
    Cluster(Box<Masters>),
}

impl Tracking {
    pub(crate) async fn open(config: &Config, prefixes: &impl ToArgs) -> Result<Self, Error> {
        let pubsub = PubSub::open(with_resp3(config)?).await?;
        pubsub.change(Kind::Keys, prefixes, true).await?;
        Ok(Self {
            source: Source::Server(pubsub),
        })
    }

    pub(crate) async fn on_cluster(
        cluster: Cluster,
        prefixes: &impl ToArgs,
    ) -> Result<Self, Error> {
        let masters = Masters::open(cluster, names_of(prefixes)?).await?;
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

/// A connection to each master.
#[derive(Debug)]
struct Masters {
    cluster: Cluster,
    prefixes: Vec<Bytes>,
    nodes: Vec<(Node, PubSub)>,
    /// Why a master has no connection.
    missing: Option<Error>,
    following: JoinHandle<Followed>,
    gap: Option<Invalidation>,
    /// When all masters were last known to report.
    whole_at: Instant,
    /// Counts up, so that the nodes are heard in turn.
    turn: usize,
}

/// What came of a look at the map.
#[derive(Debug)]
struct Followed {
    /// The masters, or why no node gave the map: the connections continue with the old one then.
    masters: Result<Vec<Node>, Error>,
    opened: Vec<(Node, PubSub)>,
    /// Why there is no connection to one of the masters.
    failed: Option<Error>,
}

impl Masters {
    async fn open(cluster: Cluster, prefixes: Vec<Bytes>) -> Result<Self, Error> {
        let followed = follow(
            cluster.clone(),
            prefixes.clone(),
            Vec::new(),
            Duration::ZERO,
        )
        .await;
        followed.masters?;
        if let Some(error) = followed.failed {
            return Err(error);
        }
        let nodes = followed.opened;
        let known = nodes.iter().map(|(node, _)| node.clone()).collect();
        let following = follow(cluster.clone(), prefixes.clone(), known, MAP_PERIOD);
        Ok(Self {
            following: tokio::spawn(following),
            cluster,
            prefixes,
            nodes,
            missing: None,
            gap: None,
            whole_at: Instant::now(),
            turn: 0,
        })
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Invalidation>> {
        loop {
            // First, since nodes can bring changes without end.
            match Pin::new(&mut self.following).poll(cx) {
                Poll::Ready(Ok(followed)) => {
                    self.take(followed);
                    continue;
                }
                Poll::Ready(Err(_)) => return Poll::Ready(None),
                Poll::Pending => {}
            }
            if let Some(gap) = self.gap.take() {
                return Poll::Ready(Some(gap));
            }
            self.turn = self.turn.wrapping_add(1);
            let count = self.nodes.len();
            for place in 0..count {
                let (_, pubsub) = &mut self.nodes[(self.turn % count + place) % count];
                if let Poll::Ready(event) = Pin::new(pubsub).poll_next(cx) {
                    return Poll::Ready(event.map(Invalidation::from));
                }
            }
            return Poll::Pending;
        }
    }

    /// Takes the outcome of a look at the map, and begins the next one.
    fn take(&mut self, followed: Followed) {
        let before = self.nodes.len();
        if let Ok(masters) = &followed.masters {
            keep_masters(&mut self.nodes, masters);
            self.missing = followed.failed;
        }
        let has_changed = self.nodes.len() < before || !followed.opened.is_empty();
        self.nodes.extend(followed.opened);
        let now = Instant::now();
        if has_changed {
            let outage = Some(now.saturating_duration_since(self.whole_at));
            self.gap = Some(Invalidation::Gap { outage });
        }
        let pause = match self.outage() {
            Some(_) => MAP_PAUSE,
            None => {
                self.whole_at = now;
                MAP_PERIOD
            }
        };
        let known = self.nodes.iter().map(|(node, _)| node.clone()).collect();
        let following = follow(self.cluster.clone(), self.prefixes.clone(), known, pause);
        self.following = tokio::spawn(following);
    }

    fn outage(&self) -> Option<Error> {
        let mut nodes = self.nodes.iter();
        let outage = || nodes.find_map(|(_, pubsub)| pubsub.outage());
        self.missing.clone().or_else(outage)
    }
}

impl Drop for Masters {
    fn drop(&mut self) {
        self.following.abort();
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
    let mut known = known.into_iter().map(|node| (node, ())).collect();
    for node in keep_masters(&mut known, masters.as_deref().unwrap_or_default()) {
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

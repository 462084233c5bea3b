//! Changes of keys for one thread.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{Cluster, PubSub};
use crate::cluster::Node;
use crate::pubsub::{Kind, names_of};
use crate::tracking::{Invalidation, MAP_PAUSE, MAP_PERIOD, keep_masters, with_resp3};
use crate::{Config, Error, ToArgs};

/// Connections that report changes of keys: one to a server, and one to each master of a cluster; see
/// [`tracking`](crate::tracking).
///
/// It reads, answers for itself and connects again only while [`next`](Self::next) runs.
#[derive(Debug)]
pub struct Tracking {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Server(Box<PubSub>),
    Cluster(Box<Masters>),
}

impl Tracking {
    pub(crate) fn open(config: &Config, prefixes: &impl ToArgs) -> Result<Self, Error> {
        let pubsub = report(config, prefixes)?;
        Ok(Self {
            source: Source::Server(Box::new(pubsub)),
        })
    }

    pub(super) fn on_cluster(cluster: Cluster, prefixes: &impl ToArgs) -> Result<Self, Error> {
        let masters = Masters::open(cluster, names_of(prefixes)?)?;
        Ok(Self {
            source: Source::Cluster(Box::new(masters)),
        })
    }

    /// The next change, if there is one within this time. On a cluster it can take longer by the time for connecting to a
    /// node.
    pub fn next(&mut self, timeout: Duration) -> Option<Invalidation> {
        match &mut self.source {
            Source::Server(pubsub) => pubsub.next(timeout).map(Invalidation::from),
            Source::Cluster(masters) => masters.next(timeout),
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
    /// When the map was last asked for.
    asked: Instant,
    gap: Option<Invalidation>,
    /// When all masters were last known to report.
    whole_at: Instant,
    /// Counts up, so that the nodes are heard in turn.
    turn: usize,
}

impl Masters {
    fn open(cluster: Cluster, prefixes: Vec<Bytes>) -> Result<Self, Error> {
        let now = Instant::now();
        let mut masters = Self {
            cluster,
            prefixes,
            nodes: Vec::new(),
            missing: None,
            asked: now,
            gap: None,
            whole_at: now,
            turn: 0,
        };
        masters.follow()?;
        // It is not a gap for a consumer that begins here.
        masters.gap = None;
        match masters.missing.take() {
            Some(error) => Err(error),
            None => Ok(masters),
        }
    }

    fn next(&mut self, timeout: Duration) -> Option<Invalidation> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            // If no node gives the map, the connections continue with the old one.
            if Instant::now() >= self.map_due()
                && let Err(error) = self.follow()
            {
                crate::meter::lost(self.cluster.config(), &error);
            }
            if let Some(gap) = self.gap.take() {
                return Some(gap);
            }
            self.turn = self.turn.wrapping_add(1);
            let count = self.nodes.len();
            for place in 0..count {
                let (_, pubsub) = &mut self.nodes[(self.turn % count + place) % count];
                if let Some(event) = pubsub.waiting() {
                    return Some(event.into());
                }
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return None;
            }
            let until = deadline.into_iter().chain([self.map_due()]).min();
            let pubsubs = self.nodes.iter_mut().map(|(_, pubsub)| pubsub);
            PubSub::step_all(&mut pubsubs.collect::<Vec<_>>(), until);
        }
    }

    fn map_due(&self) -> Instant {
        let has_outage = self.missing.is_some()
            || self.nodes.is_empty()
            || self
                .nodes
                .iter()
                .any(|(_, pubsub)| pubsub.outage().is_some());
        self.asked + if has_outage { MAP_PAUSE } else { MAP_PERIOD }
    }

    /// Asks for the map, and connects to the masters that do not report yet.
    ///
    /// # Errors
    /// The reason why no node gave the map.
    fn follow(&mut self) -> Result<(), Error> {
        let refreshed = self.cluster.refresh();
        self.asked = Instant::now();
        refreshed?;
        let masters = self.cluster.masters();
        let before = self.nodes.len();
        let missing = keep_masters(&mut self.nodes, &masters);
        let mut has_changed = self.nodes.len() < before;
        self.missing = None;
        for node in missing {
            match report(&self.cluster.config_of(&node), &self.prefixes) {
                Ok(pubsub) => {
                    self.nodes.push((node, pubsub));
                    has_changed = true;
                }
                Err(error) => self.missing = Some(error),
            }
        }
        self.asked = Instant::now();
        if has_changed {
            let outage = Some(self.asked.saturating_duration_since(self.whole_at));
            self.gap = Some(Invalidation::Gap { outage });
        }
        if self.outage().is_none() {
            self.whole_at = self.asked;
        }
        Ok(())
    }

    fn outage(&self) -> Option<Error> {
        let mut nodes = self.nodes.iter();
        let outage = || nodes.find_map(|(_, pubsub)| pubsub.outage());
        self.missing.clone().or_else(outage)
    }
}

/// Has a server or a node report the changes of its keys.
fn report(config: &Config, prefixes: &impl ToArgs) -> Result<PubSub, Error> {
    let mut pubsub = PubSub::open(with_resp3(config)?)?;
    pubsub.change(Kind::Keys, prefixes, true)?;
    Ok(pubsub)
}

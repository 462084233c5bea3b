//! Changes of keys for one thread.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{Cluster, PubSub};
use crate::pubsub::{Kind, names_of};
use crate::tracking::masters::{Masters, Reports, unknown};
use crate::tracking::{Invalidation, with_resp3};
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
    Cluster(Box<Following>),
}

impl Tracking {
    pub(crate) fn open(config: &Config, prefixes: &impl ToArgs) -> Result<Self, Error> {
        let pubsub = report(config, prefixes)?;
        Ok(Self {
            source: Source::Server(Box::new(pubsub)),
        })
    }

    fn on_cluster(cluster: Cluster, prefixes: &impl ToArgs) -> Result<Self, Error> {
        let masters = Following::open(cluster, names_of(prefixes)?)?;
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

impl Cluster {
    /// Opens connections to all masters that report changes of the keys with these prefixes; see
    /// [`tracking`](crate::tracking). The empty prefix is all keys. One prefix must not begin with another one.
    ///
    /// # Errors
    /// Fails if the single connection attempt to a master fails, if it refuses a prefix, and without RESP3. Later on
    /// connections come back by themselves.
    pub fn tracking(&self, prefixes: impl ToArgs) -> Result<Tracking, Error> {
        Tracking::on_cluster(self.apart(), &prefixes)
    }
}

impl Reports for PubSub {
    fn outage(&self) -> Option<Error> {
        Self::outage(self)
    }
}

/// A connection to each master.
#[derive(Debug)]
struct Following {
    cluster: Cluster,
    prefixes: Vec<Bytes>,
    masters: Masters<PubSub>,
    /// When the map was last asked for.
    asked: Instant,
}

impl Following {
    fn open(cluster: Cluster, prefixes: Vec<Bytes>) -> Result<Self, Error> {
        let now = Instant::now();
        let mut following = Self {
            cluster,
            prefixes,
            masters: Masters::new(Vec::new(), now),
            asked: now,
        };
        following.follow()?;
        // It is not a gap for a consumer that begins here.
        following.masters.take_gap();
        match following.masters.outage() {
            Some(error) => Err(error),
            None => Ok(following),
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
            if let Some(gap) = self.masters.take_gap() {
                return Some(gap);
            }
            if let Some(event) = self.masters.in_turn(PubSub::waiting) {
                return Some(event.into());
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return None;
            }
            let until = deadline.into_iter().chain([self.map_due()]).min();
            PubSub::step_all(&mut self.masters.sources().collect::<Vec<_>>(), until);
        }
    }

    fn map_due(&self) -> Instant {
        self.asked + self.masters.pause()
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
        let (mut opened, mut failed) = (Vec::new(), None);
        for node in unknown(&masters, &self.masters.known()) {
            match report(&self.cluster.config_of(&node), &self.prefixes) {
                Ok(pubsub) => opened.push((node, pubsub)),
                Err(error) => failed = Some(error),
            }
        }
        self.asked = Instant::now();
        self.masters.take(&masters, opened, failed, self.asked);
        Ok(())
    }

    fn outage(&self) -> Option<Error> {
        self.masters.outage()
    }
}

/// Has a server or a node report the changes of its keys.
fn report(config: &Config, prefixes: &impl ToArgs) -> Result<PubSub, Error> {
    let mut pubsub = PubSub::open(with_resp3(config)?)?;
    pubsub.change(Kind::Keys, prefixes, true)?;
    Ok(pubsub)
}

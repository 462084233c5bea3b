//! Changes of keys for one thread.

use std::time::Duration;

use super::PubSub;
use crate::pubsub::Kind;
use crate::tracking::{Invalidation, with_resp3};
use crate::{Config, Error, ToArgs};

/// A connection that reports changes of keys; see [`tracking`](crate::tracking).
///
/// It reads, answers for itself and connects again only while [`next`](Self::next) runs.
#[derive(Debug)]
pub struct Tracking {
    pubsub: PubSub,
}

impl Tracking {
    pub(crate) fn open(config: &Config, prefixes: &impl ToArgs) -> Result<Self, Error> {
        let mut pubsub = PubSub::open(with_resp3(config)?)?;
        pubsub.change(Kind::Keys, prefixes, true)?;
        Ok(Self { pubsub })
    }

    /// The next change, if there is one within this time.
    pub fn next(&mut self, timeout: Duration) -> Option<Invalidation> {
        self.pubsub.next(timeout).map(Invalidation::from)
    }

    /// The reason why there is no connection; `None` while there is one, as far as is known.
    #[must_use]
    pub fn outage(&self) -> Option<Error> {
        self.pubsub.outage()
    }
}

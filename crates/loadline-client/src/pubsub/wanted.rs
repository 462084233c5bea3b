//! The subscriptions that a consumer asked for, and which of them the server has confirmed.

use std::collections::HashMap;
use std::time::Instant;

use bytes::Bytes;

use super::Kind;
use super::core::ConnectionId;
use super::tickets::TicketId;

/// All subscriptions, by kind and name.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    channels: HashMap<Bytes, Subscription>,
    patterns: HashMap<Bytes, Subscription>,
    shards: HashMap<Bytes, Subscription>,
    /// Prefixes of keys.
    keys: HashMap<Bytes, Subscription>,
}

/// The state of a subscription.
#[derive(Debug, Default)]
pub(super) struct Subscription {
    /// Its connection; `None` if no node serves it.
    pub(super) connection: Option<ConnectionId>,
    /// The number of the question that asked for it on this connection.
    pub(super) asked: Option<u64>,
    pub(super) confirmed: bool,
    /// The time since when messages can be missing.
    pub(super) lost_since: Option<Instant>,
    /// The redirections since it was last confirmed, or since the last map.
    pub(super) moves: u8,
    /// Whether it was ever confirmed. The consumer relies on it then.
    pub(super) was_confirmed: bool,
    /// The tickets of the callers that wait for the confirmation.
    pub(super) waiting: Vec<TicketId>,
}

impl Subscription {
    /// Whether this question of this connection was the last one that asked for it.
    pub(super) fn is_asked_by(&self, connection: ConnectionId, question: u64) -> bool {
        self.connection == Some(connection) && self.asked == Some(question)
    }
}

impl Wanted {
    pub(super) fn of(&mut self, kind: Kind) -> &mut HashMap<Bytes, Subscription> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shards,
            Kind::Keys => &mut self.keys,
        }
    }

    /// The stored copy of a name, if it is wanted.
    pub(super) fn name(&mut self, kind: Kind, name: &[u8]) -> Option<Bytes> {
        let (name, _) = self.of(kind).get_key_value(name)?;
        Some(name.clone())
    }

    /// Every name, with its kind.
    pub(super) fn names(&self) -> Vec<(Kind, Bytes)> {
        let kinds = [
            (Kind::Channel, &self.channels),
            (Kind::Pattern, &self.patterns),
            (Kind::Shard, &self.shards),
            (Kind::Keys, &self.keys),
        ];
        let names = kinds.into_iter().flat_map(|(kind, names)| {
            let names = names.keys().cloned();
            names.map(move |name| (kind, name))
        });
        names.collect()
    }

    /// Every name on a connection, with its kind.
    pub(super) fn names_on(&self, connection: ConnectionId) -> Vec<(Kind, Bytes)> {
        let on = |(name, subscription): (&Bytes, &Subscription)| {
            (subscription.connection == Some(connection)).then(|| name.clone())
        };
        let channels = self.channels.iter().filter_map(on);
        let patterns = self.patterns.iter().filter_map(on);
        let shards = self.shards.iter().filter_map(on);
        let keys = self.keys.iter().filter_map(on);
        let channels = channels.map(|name| (Kind::Channel, name));
        let patterns = patterns.map(|name| (Kind::Pattern, name));
        let shards = shards.map(|name| (Kind::Shard, name));
        let keys = keys.map(|name| (Kind::Keys, name));
        let names = channels.chain(patterns).chain(shards).chain(keys);
        names.collect()
    }

    /// Whether the changes of any keys are wanted.
    pub(super) fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Whether a connection has any sharded channel.
    pub(super) fn is_on(&self, connection: ConnectionId) -> bool {
        let mut shards = self.shards.values();
        shards.any(|subscription| subscription.connection == Some(connection))
    }

    /// Forgets the confirmations of a lost connection, whose last bytes came at `heard`. True if there were
    /// any.
    pub(super) fn forget_connection(&mut self, connection: ConnectionId, heard: Instant) -> bool {
        let mut any_confirmed = false;
        let kinds = [
            &mut self.channels,
            &mut self.patterns,
            &mut self.shards,
            &mut self.keys,
        ];
        let subscriptions = kinds.into_iter().flat_map(HashMap::values_mut);
        for subscription in
            subscriptions.filter(|subscription| subscription.connection == Some(connection))
        {
            if subscription.confirmed {
                any_confirmed = true;
                subscription.lost_since.get_or_insert(heard);
            }
            subscription.asked = None;
            subscription.confirmed = false;
        }
        any_confirmed
    }

    /// Removes a ticket whose caller has stopped waiting. Returns the names that are not wanted any more: those
    /// that were never confirmed and have no other waiting caller.
    pub(super) fn give_up(&mut self, ticket: TicketId) -> Vec<(Kind, Bytes)> {
        let mut given_up = Vec::new();
        for (kind, name) in self.names() {
            let names = self.of(kind);
            let Some(subscription) = names.get_mut(&name) else {
                continue;
            };
            let before = subscription.waiting.len();
            subscription.waiting.retain(|waiting| *waiting != ticket);
            let waited = subscription.waiting.len() < before;
            if waited && subscription.waiting.is_empty() && !subscription.was_confirmed {
                given_up.push((kind, name));
            }
        }
        given_up
    }
}

//! What a consumer wants to be subscribed to, and how far the server has confirmed it.

use std::collections::HashMap;

use bytes::Bytes;

use super::Kind;
use super::tickets::TicketId;

/// Everything that is wanted, by kind and name.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    channels: HashMap<Bytes, Standing>,
    patterns: HashMap<Bytes, Standing>,
    shards: HashMap<Bytes, Standing>,
}

/// How a subscription stands.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// The number of the question that asked for it on this connection, if it was asked.
    pub(super) asked: Option<u64>,
    pub(super) confirmed: bool,
    /// Whether it was ever confirmed, so that the consumer relies on it.
    pub(super) stood: bool,
    /// Who waits for the confirmation.
    pub(super) waiting: Vec<TicketId>,
}

impl Wanted {
    pub(super) fn of(&mut self, kind: Kind) -> &mut HashMap<Bytes, Standing> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shards,
        }
    }

    /// The name as it is kept, if it is wanted.
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
        ];
        let names = kinds.into_iter().flat_map(|(kind, names)| {
            let names = names.keys().cloned();
            names.map(move |name| (kind, name))
        });
        names.collect()
    }

    /// The connection is gone, and with it what it had confirmed; whether that was anything.
    pub(super) fn forget_connection(&mut self) -> bool {
        let mut stood = false;
        let kinds = [&mut self.channels, &mut self.patterns, &mut self.shards];
        for standing in kinds.into_iter().flat_map(HashMap::values_mut) {
            stood |= standing.confirmed;
            standing.asked = None;
            standing.confirmed = false;
        }
        stood
    }

    /// Whoever waits with this ticket does so no longer. Gives the names that nobody wants now: those that
    /// never stood and that nobody else waits for.
    pub(super) fn give_up(&mut self, ticket: TicketId) -> Vec<(Kind, Bytes)> {
        let mut given_up = Vec::new();
        for (kind, name) in self.names() {
            let names = self.of(kind);
            let Some(standing) = names.get_mut(&name) else {
                continue;
            };
            let before = standing.waiting.len();
            standing.waiting.retain(|waiting| *waiting != ticket);
            let waited = standing.waiting.len() < before;
            if waited && standing.waiting.is_empty() && !standing.stood {
                given_up.push((kind, name));
            }
        }
        given_up
    }
}

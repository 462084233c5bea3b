//! What a consumer wants to be subscribed to, and how far the server has confirmed it.

use std::collections::HashMap;
use std::time::Instant;

use bytes::Bytes;

use super::Kind;
use super::core::LaneId;
use super::tickets::TicketId;

/// Everything that is wanted, by kind and name.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    channels: HashMap<Bytes, Standing>,
    patterns: HashMap<Bytes, Standing>,
    shards: HashMap<Bytes, Standing>,
}

/// The state of a subscription.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// The connection that it is on, if it belongs anywhere.
    pub(super) lane: Option<LaneId>,
    /// The number of the question that asked for it on this connection, if it was asked.
    pub(super) asked: Option<u64>,
    pub(super) confirmed: bool,
    /// Since when its messages may be missing.
    pub(super) lost_since: Option<Instant>,
    /// How often it was sent elsewhere since it stood, or since the last map.
    pub(super) moves: u8,
    /// Whether it was ever confirmed, so that the consumer relies on it.
    pub(super) stood: bool,
    /// The callers that wait for the confirmation.
    pub(super) waiting: Vec<TicketId>,
}

impl Standing {
    /// Whether this question of a lane is the one that asked for it last.
    pub(super) fn is_asked_by(&self, lane: LaneId, question: u64) -> bool {
        self.lane == Some(lane) && self.asked == Some(question)
    }
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

    /// Every name on a connection, with its kind.
    pub(super) fn names_on(&self, lane: LaneId) -> Vec<(Kind, Bytes)> {
        let on = |(name, standing): (&Bytes, &Standing)| {
            (standing.lane == Some(lane)).then(|| name.clone())
        };
        let channels = self.channels.iter().filter_map(on);
        let patterns = self.patterns.iter().filter_map(on);
        let shards = self.shards.iter().filter_map(on);
        let channels = channels.map(|name| (Kind::Channel, name));
        let patterns = patterns.map(|name| (Kind::Pattern, name));
        let shards = shards.map(|name| (Kind::Shard, name));
        channels.chain(patterns).chain(shards).collect()
    }

    /// Whether anything sharded is on a connection.
    pub(super) fn is_on(&self, lane: LaneId) -> bool {
        let mut shards = self.shards.values();
        shards.any(|standing| standing.lane == Some(lane))
    }

    /// A connection is gone that was last heard of then, and with it what it had confirmed; whether that
    /// was anything.
    pub(super) fn forget_connection(&mut self, lane: LaneId, heard: Instant) -> bool {
        let mut stood = false;
        let kinds = [&mut self.channels, &mut self.patterns, &mut self.shards];
        let standings = kinds.into_iter().flat_map(HashMap::values_mut);
        for standing in standings.filter(|standing| standing.lane == Some(lane)) {
            if standing.confirmed {
                stood = true;
                standing.lost_since.get_or_insert(heard);
            }
            standing.asked = None;
            standing.confirmed = false;
        }
        stood
    }

    /// Drops a ticket whose caller stopped waiting. Returns the names that are no longer wanted: those that
    /// were never confirmed and that no other ticket waits for.
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

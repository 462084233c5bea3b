//! Groups of consumers, and the entries that were delivered to them and not acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::id::StreamId;

/// The name of a group or a consumer.
type Name = Arc<[u8]>;

/// Bytes of memory that a group takes besides its name, a consumer, and a pending entry, with its place among those of its
/// consumer. Trees keep at least half of their places in use.
const GROUP_BYTES: usize = 160;
const CONSUMER_BYTES: usize = 96;
const PENDING_BYTES: usize = 96;

/// A group of consumers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// The last entry that was delivered.
    pub last_id: StreamId,
    /// Entries that were delivered, those included that the group has skipped; `None` where that is unknown.
    pub entries_read: Option<u64>,
    pending: BTreeMap<StreamId, Pending>,
    consumers: BTreeMap<Name, Consumer>,
    names_bytes: usize,
}

/// An entry that was delivered and not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    consumer: Name,
    /// The last delivery, in milliseconds since the Unix epoch.
    pub delivered_ms: u64,
    /// Number of deliveries.
    pub deliveries: u64,
}

impl Pending {
    /// The consumer that has it.
    #[must_use]
    pub fn consumer(&self) -> &[u8] {
        &self.consumer
    }
}

/// A consumer of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Consumer {
    /// The last command of the consumer, in milliseconds since the Unix epoch.
    pub seen_ms: u64,
    pending: BTreeSet<StreamId>,
}

impl Consumer {
    /// The entries that it has not acknowledged.
    #[must_use]
    pub fn pending(&self) -> &BTreeSet<StreamId> {
        &self.pending
    }
}

impl Group {
    /// All pending entries.
    #[must_use]
    pub fn pending(&self) -> &BTreeMap<StreamId, Pending> {
        &self.pending
    }

    /// All consumers with their names, in the order of these.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = (&[u8], &Consumer)> {
        self.consumers
            .iter()
            .map(|(name, consumer)| (&**name, consumer))
    }

    /// A consumer.
    #[must_use]
    pub fn consumer(&self, name: &[u8]) -> Option<&Consumer> {
        self.consumers.get(name)
    }

    pub(super) fn held_bytes(&self) -> usize {
        let fixed = GROUP_BYTES + self.consumers.len() * CONSUMER_BYTES;
        fixed + self.names_bytes + self.pending.len() * PENDING_BYTES
    }

    /// Notes that a consumer has sent a command; a new one is added.
    pub(super) fn see(&mut self, name: &[u8], now_ms: u64) {
        if let Some(consumer) = self.consumers.get_mut(name) {
            consumer.seen_ms = now_ms;
            return;
        }
        self.names_bytes += name.len();
        let consumer = Consumer {
            seen_ms: now_ms,
            ..Consumer::default()
        };
        self.consumers.insert(name.into(), consumer);
    }

    /// Removes a consumer with its pending entries.
    pub(super) fn remove_consumer(&mut self, name: &[u8]) {
        if let Some(consumer) = self.consumers.remove(name) {
            self.names_bytes -= name.len();
            for id in consumer.pending {
                self.pending.remove(&id);
            }
        }
    }

    /// Notes a delivery to a consumer that is there.
    pub(super) fn deliver(
        &mut self,
        name: &[u8],
        id: StreamId,
        delivered_ms: u64,
        deliveries: u64,
    ) {
        let Some((name, _)) = self.consumers.get_key_value(name) else {
            return;
        };
        let pending = Pending {
            consumer: Arc::clone(name),
            delivered_ms,
            deliveries,
        };
        let name = Arc::clone(name);
        if let Some(before) = self.pending.insert(id, pending)
            && before.consumer != name
            && let Some(consumer) = self.consumers.get_mut(&before.consumer)
        {
            consumer.pending.remove(&id);
        }
        if let Some(consumer) = self.consumers.get_mut(&name) {
            consumer.pending.insert(id);
        }
    }

    /// Ends the wait for an acknowledgement.
    pub(super) fn acknowledge(&mut self, id: StreamId) {
        if let Some(pending) = self.pending.remove(&id)
            && let Some(consumer) = self.consumers.get_mut(&pending.consumer)
        {
            consumer.pending.remove(&id);
        }
    }
}

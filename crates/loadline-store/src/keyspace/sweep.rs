//! A walk over the shards that finds what lies in old segments of the log.

use super::Keyspace;
use super::locked::Locked;
use crate::index::Position;
use crate::log::Appended;
use crate::slot::Slot;

/// Totals of a keyspace after entries whose time had come were freed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Remaining {
    /// Bytes that all entries take in the log when they are written anew; 0 without a log.
    pub(crate) logged_bytes: u64,
    /// Entries with an expiry.
    pub(crate) expiring: usize,
}

impl Remaining {
    /// The totals of two keyspaces.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            logged_bytes: self.logged_bytes + other.logged_bytes,
            expiring: self.expiring + other.expiring,
        }
    }
}

impl Keyspace {
    /// Frees all expired entries, and returns the sizes of the others, in one walk over the shards.
    pub(crate) fn expire_all(&self, now: u64) -> Remaining {
        let shards = self.shards.get().map_or(&[][..], |shards| shards);
        let each = (0..shards.len()).map(|index| {
            let mut shard = Locked::new(self, shards, index, 0);
            if shard.can_expire() {
                shard.expire(now);
            }
            Remaining {
                logged_bytes: shard.logged_bytes(),
                expiring: shard.expiring(),
            }
        });
        each.fold(Remaining::default(), Remaining::plus)
    }

    /// Number of shards; 0 where there has never been a key.
    pub(crate) fn shard_count(&self) -> usize {
        self.shards.get().map_or(0, |shards| shards.len())
    }

    /// Locks the shard with this number. `None` where there is none.
    pub(crate) fn lock_shard(&self, index: usize) -> Option<LockedShard<'_>> {
        let shards = self.shards.get().filter(|shards| index < shards.len())?;
        Some(LockedShard(Locked::new(self, shards, index, 0)))
    }
}

/// An entry of a shard that is locked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LockedEntry {
    position: Position,
    at: u32,
}

/// A shard that is locked. The places of its entries hold until the next change other than
/// [`lie_in`](Self::lie_in).
#[derive(Debug)]
pub(crate) struct LockedShard<'k>(Locked<'k>);

impl LockedShard<'_> {
    /// The entries of which a part lies in a segment of the log before `until`.
    pub(crate) fn entries_before(&self, until: u32) -> impl Iterator<Item = LockedEntry> {
        let entries = self.0.entries_before(until);
        entries.map(|(position, at)| LockedEntry { position, at })
    }

    /// An entry, also where its time has come.
    pub(crate) fn slot(&self, found: LockedEntry) -> Slot<'_> {
        self.0.slot(found.at)
    }

    /// Brings an entry into the cache of the processor.
    #[inline]
    pub(crate) fn warm(&self, found: LockedEntry) {
        self.0.warm(found.at);
    }

    /// Notes that all of an entry lies in the record `appended`, with its value ending at `end` in the body.
    pub(crate) fn lie_in(&mut self, found: LockedEntry, appended: &Appended, end: usize) {
        if let Some(outside) = self.slot(found).record.outside() {
            let outside = appended.outside(end, outside.bytes);
            self.0.set_outside(found.at, outside);
        }
        self.0.set_segment(found.position, appended.segment);
    }

    /// Frees every entry whose time has come.
    pub(crate) fn expire(&mut self, now: u64) {
        self.0.expire(now);
    }
}

//! A walk over the shards that finds what lies in old segments of the log.

use super::Keyspace;
use super::locked::Locked;
use crate::log::Appended;
use crate::slot::Slot;

impl Keyspace {
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

/// A shard that is locked. The places of its entries hold until the next change other than
/// [`lie_in`](Self::lie_in).
#[derive(Debug)]
pub(crate) struct LockedShard<'k>(Locked<'k>);

impl LockedShard<'_> {
    /// Where the entries are of which a part lies in a segment of the log before `until`.
    pub(crate) fn places_before(&self, until: u32) -> impl Iterator<Item = u32> {
        self.0.places_before(until)
    }

    /// The entry at `at`, also where its time has come.
    pub(crate) fn slot(&self, at: u32) -> Slot<'_> {
        self.0.slot(at)
    }

    /// Notes that all of the entry at `at` lies in the record `appended`, with its value ending at `end` in the body.
    pub(crate) fn lie_in(&mut self, at: u32, appended: &Appended, end: usize) {
        match self.0.slot(at).record.outside() {
            Some(outside) => self.0.set_outside(at, appended.outside(end, outside.bytes)),
            None => self.0.set_segment(at, appended.segment),
        }
    }

    /// Frees every entry whose time has come.
    pub(crate) fn expire(&mut self, now: u64) {
        self.0.expire(now);
    }
}

//! The last access to an entry.

use std::hash::BuildHasher;

use super::Keyspace;
use crate::age::{AccessMetric, LastAccess, Stamp, seconds};
use crate::sync::atomic::Ordering;

/// The changes that come with an access to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noting {
    /// None.
    Nothing,
    /// The time is set: the usual case of a server, and apart from others to take few instructions.
    Time,
    /// Others, or others too.
    Others,
}

impl Keyspace {
    /// Keeps this fact about the accesses to each entry from now on, in the place of the one that was kept before, if any. That
    /// of entries from before is converted, which takes time for each of them, and that of entries for which none was kept
    /// counts from now on.
    pub fn keep_access(&mut self, access: AccessMetric, now: u64) {
        if self.access.is_none() {
            self.kept_since = seconds(now);
        }
        self.access = Some(access);
        self.count_uses(true);
        for shard in self.shards.get_mut().into_iter().flatten() {
            if let Some(shard) = shard.get_mut() {
                shard.keep(access, now);
            }
        }
    }

    /// The last access to `key`, which this is none of. `None` if there is no such key, or if no accesses are kept.
    #[must_use]
    pub fn last_access(&self, key: &[u8], now: u64) -> Option<LastAccess> {
        self.access?;
        let mut shard = self.shard_of(key);
        let at = shard.find_unused(key, now)?;
        Some(shard.stamp(at).shown(now, self.kept_since))
    }

    /// Sets the last access to `key`, if there is one and accesses are kept.
    pub fn set_last_access(&self, key: &[u8], last: LastAccess, now: u64) {
        let Some(access) = self.access else {
            return;
        };
        let mut shard = self.shard_of(key);
        if let Some(at) = shard.find_unused(key, now) {
            shard.set_stamp(at, last.stamp(access, now));
        }
    }

    /// The stamp of an entry that is added now.
    #[inline]
    pub(super) fn new_stamp(&self, now: u64) -> Stamp {
        match self.access {
            Some(access) => Stamp::new(access, now),
            None => Stamp::Unknown,
        }
    }

    /// Random bits. The number of the draw is hashed, which makes them random.
    pub(super) fn draw(&self) -> u32 {
        let number = self.draws.fetch_add(1, Ordering::Relaxed);
        self.hasher.hash_one(number) as u32
    }
}

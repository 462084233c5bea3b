//! Eviction: removing keys to make room for others.

use std::hash::BuildHasher;

use super::Keyspace;
use super::age::Noting;
use super::locked::Locked;
use crate::age::AccessMetric;
use crate::shard::{Passed, Victim};
use crate::slot::Slot;
use crate::sync::atomic::Ordering;

/// The result of a step of eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evicted {
    /// It removed a key.
    One,
    /// It reached the end of the keyspace, and the next step begins at its start.
    Wrapped,
}

impl Keyspace {
    /// Sets by what [`evict`](Self::evict) chooses, and starts to count what it needs for that; `None` stops that.
    pub fn evict_by(&mut self, victim: Option<Victim>) {
        // Counted while nothing is added, and added to from then on.
        self.victim = None;
        if victim.is_some() {
            let (keys, bytes) = (self.len(), self.charged_bytes());
            *self.keys.get_mut() = keys;
            *self.charged_bytes.get_mut() = bytes;
        }
        self.victim = victim;
        self.count_uses(true);
    }

    /// Sets whether an access to an entry is a use of it, as it is by default.
    pub fn count_uses(&mut self, counts: bool) {
        self.noting = match (self.access, self.victim) {
            _ if !counts => Noting::Nothing,
            (None, None) => Noting::Nothing,
            (Some(AccessMetric::Time), None) => Noting::Time,
            _ => Noting::Others,
        };
    }

    /// Takes the next step of eviction, which removes a key or reaches the end of the keyspace. The key is
    /// shown to `visit` before it goes. Expired keys go as others do.
    ///
    /// A hand passes over the entries as that of CLOCK does. Of the next 16 at the hand, the [`Victim`] of
    /// [`evict_by`](Self::evict_by) goes, by default the one with the fewest uses, which are forgotten where all 16 have
    /// some. [`Victim::Random`] is one at a random place. The key `spared` stays, and with `is_volatile` every key without
    /// an expiry.
    pub fn evict(
        &self,
        is_volatile: bool,
        spared: Option<&[u8]>,
        visit: impl FnOnce(&[u8]),
    ) -> Evicted {
        let Some(shards) = self.shards.get() else {
            return Evicted::Wrapped;
        };
        let may_go = |slot: Slot<'_>| {
            (!is_volatile || slot.expires_at().is_some()) && spared != Some(slot.key())
        };
        let mut visit = Some(visit);
        let mut evict_in = |index: usize, random: Option<u64>| {
            let mut shard = Locked::new(self, shards, index, 0);
            let is_empty = shard.len() == 0 || (is_volatile && shard.expiring() == 0);
            let show = |key: &[u8]| {
                if let Some(visit) = visit.take() {
                    visit(key);
                }
            };
            !is_empty && shard.evict(random, may_go, show) == Passed::One
        };
        if self.victim == Some(Victim::Random) {
            // The numbers of the steps are hashed, which makes them random.
            let step = self.hand.fetch_add(1, Ordering::Relaxed);
            let random = self.hasher.hash_one(step);
            let first = self.index_of(random);
            let all = (first..self.count).chain(0..first);
            let mut steps = all.map(|index| evict_in(index, Some(random)));
            return match steps.any(|is_one| is_one) {
                true => Evicted::One,
                false => Evicted::Wrapped,
            };
        }
        loop {
            let hand = self.hand.load(Ordering::Relaxed) % self.count;
            if evict_in(hand, None) {
                return Evicted::One;
            }
            // Of several threads one moves the hand on.
            let next = (hand + 1) % self.count;
            let _ = self
                .hand
                .compare_exchange(hand, next, Ordering::Relaxed, Ordering::Relaxed);
            if next == 0 {
                return Evicted::Wrapped;
            }
        }
    }
}

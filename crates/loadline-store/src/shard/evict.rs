//! Eviction: which entry of a shard goes to make room.

use std::hash::BuildHasher;

use super::Shard;
use crate::slot::{Expiring, Slot};

/// Which entry eviction removes, of those that it looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Victim {
    /// The one with the fewest uses; up to three are counted.
    #[default]
    LeastUsed,
    /// One that was read or written longer ago than the others. The age of an entry is known in four steps: how often
    /// eviction has passed over it since then. An entry that was written once is a step older than one that was used again.
    LeastRecent,
    /// The one that expires first.
    FirstToExpire,
    /// Any.
    Random,
}

/// The thing that eviction found at its hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    /// An entry, which went.
    One,
    /// The end of the shard.
    End,
}

/// Entries among which eviction chooses. Counts of uses lie in the entries, so no list takes memory. On keys by Zipf's
/// law the hit ratio is 0.02 to 0.06 above that of LRU and 0.01 to 0.06 below that of S3-FIFO, which takes two queues
/// and a list of names; `tests/eviction.rs` has them side by side.
const WINDOW: usize = 16;

/// Entries that the hand passes over with each one that goes by its age, of those that were `seen`. Of a shard, a quarter goes
/// in a turn of the hand then, which is as exact as four steps of age are; with fewer, entries of any age would go. In a
/// shard of few entries, one goes.
const fn passed_by_age(seen: usize) -> usize {
    if seen > WINDOW / 2 { WINDOW / 4 } else { seen }
}

/// The same by the expiry: the more, the fewer entries go that others expire before.
const fn passed_by_expiry(seen: usize) -> usize {
    if seen == WINDOW { WINDOW / 2 } else { seen }
}

impl Shard {
    /// Sets the hand of eviction to a random entry, by random bits. Positions that are not in use are tried in vain a few
    /// times: the entry behind them would be chosen too often.
    pub(crate) fn move_hand(&mut self, random: u64) {
        const TRIES: u32 = 16;
        let positions = self.index.positions().max(1) as u64;
        for attempt in 0..TRIES {
            self.hand = (random.rotate_left(11 * attempt) % positions) as usize;
            if self.index.get(self.hand).is_some() {
                break;
            }
        }
    }

    /// Removes the victim among the next entries at the hand of eviction, which are at most [`WINDOW`], and moves the hand
    /// on by one or more. The entry is shown to `visit` before. One that `may_go` refuses stays.
    ///
    /// Uses: if each of the entries was used, their counts shrink by the smallest one, so that what is not used any more
    /// goes in the end. Of a few entries alone, one that was used stays. Age: the counts of those that the hand passes over
    /// shrink by one.
    pub(crate) fn evict(
        &mut self,
        victim: Victim,
        hasher: &impl BuildHasher,
        may_go: impl Fn(Slot<'_>) -> bool,
        visit: impl FnOnce(&[u8]),
    ) -> Passed {
        let mut window = [(0, 0); WINDOW];
        let seen = self.look_ahead(&mut window, may_go);
        let window = &window[..seen];
        let uses = |at: u32| self.slot(at).record.uses();
        let rank = |at: u32| match victim {
            Victim::LeastUsed | Victim::LeastRecent => uses(at).into(),
            Victim::FirstToExpire => self.slot(at).expires_at().unwrap_or(u64::MAX),
            Victim::Random => 0,
        };
        let least = window.iter().min_by_key(|(_, at)| rank(*at));
        let positions = self.index.positions();
        let Some((position, at)) = least.copied().filter(|_| self.hand < positions) else {
            self.hand = 0;
            return Passed::End;
        };
        let (passed, forgotten, uses) = match victim {
            Victim::LeastUsed => (1, seen, uses(at)),
            Victim::LeastRecent => (passed_by_age(seen), passed_by_age(seen), 1),
            Victim::FirstToExpire => (passed_by_expiry(seen), 0, 0),
            Victim::Random => (1, 0, 0),
        };
        for (_, at) in &window[..forgotten] {
            self.arena.forget_uses(*at, uses);
        }
        if victim == Victim::LeastUsed && uses > 0 && seen < WINDOW / 2 {
            self.hand = 0;
            return Passed::End;
        }
        // Where it began again at the start, the hand does so after this step.
        let (last, _) = window[passed - 1];
        self.hand = if last >= self.hand {
            last + 1
        } else {
            positions
        };
        let key = self.slot(at).key();
        let hash = hasher.hash_one(key);
        visit(key);
        self.recount(self.slot(at).expiring(), Expiring::default());
        self.index.remove(hash, position);
        self.arena.discard(at);
        self.counts.evicted += 1;
        Passed::One
    }

    /// Fills the window with the positions and places of the next entries at the hand that may go, and returns how many
    /// there are.
    fn look_ahead(
        &self,
        window: &mut [(usize, u32); WINDOW],
        may_go: impl Fn(Slot<'_>) -> bool,
    ) -> usize {
        let positions = self.index.positions();
        let all = (self.hand..positions).chain(0..self.hand.min(positions));
        let entries = all.filter_map(|position| Some((position, self.index.get(position)?)));
        let mut seen = 0;
        let entries = entries.filter(|(_, at)| may_go(self.slot(*at)));
        for (place, entry) in window.iter_mut().zip(entries) {
            *place = entry;
            seen += 1;
        }
        seen
    }
}

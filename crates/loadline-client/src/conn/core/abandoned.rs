//! Requests whose callers do not wait any more.

use super::{Conn, Owner, SlotId};

impl Conn {
    /// The caller in this slot does not wait any more. The request stays in its place, and its replies are
    /// dropped when they come.
    pub(crate) fn cancel(&mut self, slot: SlotId) {
        if let Some(place) = self.leave(slot) {
            self.queue[place].owner = Owner::Dropped;
        }
    }

    /// Takes back the request in a slot, whose caller does not wait any more. Returns whether the server may execute
    /// it nevertheless, or has done so: a request of which bytes were taken out to be written stays in its place, as
    /// after [`Conn::cancel`].
    pub(crate) fn withdraw(&mut self, slot: SlotId) -> bool {
        let held = self.hold.tries_of(slot);
        let Some(place) = self.leave(slot) else {
            // Unless it is held, it is answered.
            return held.is_none_or(|tries| tries > 0);
        };
        let taken = self.taken_requests();
        let entry = &mut self.queue[place];
        if place < taken {
            entry.owner = Owner::Dropped;
            return true;
        }
        entry.owner = Owner::Withdrawn;
        self.withdrawn = true;
        entry.tries > 0
    }

    /// Empties a slot. Returns the place of its request in the queue, if it is there.
    fn leave(&mut self, slot: SlotId) -> Option<usize> {
        self.hold.cancel(slot);
        let place = self.slots.release(slot)?.checked_sub(self.front)?;
        let place = usize::try_from(place).ok()?;
        let entry = self.queue.get(place)?;
        debug_assert_eq!(entry.owner, Owner::Slot(slot), "a slot knows its request");
        Some(place)
    }

    /// Number of requests of which bytes were taken out to be written. They are the oldest.
    fn taken_requests(&self) -> usize {
        let taken = self.out.taken_unanswered();
        let mut before = 0;
        let is_taken = |bytes: usize| {
            let start = before;
            before += bytes as u64;
            start < taken
        };
        let requests = self.queue.iter().map(|entry| entry.bytes);
        requests.map(is_taken).take_while(|&taken| taken).count()
    }

    /// Removes withdrawn requests.
    #[inline]
    pub(super) fn drop_withdrawn(&mut self) {
        if self.withdrawn {
            self.keep_untaken(|owner| owner != Owner::Withdrawn);
        }
    }

    /// Removes requests whose caller was dropped, while none of them is written.
    pub(super) fn drop_abandoned(&mut self) {
        let waits = |owner| matches!(owner, Owner::Slot(_));
        if !self.queue.iter().all(|entry| waits(entry.owner)) {
            self.keep_untaken(waits);
        }
    }

    /// Removes the requests that are not to be kept, of those of which nothing was taken out.
    #[cold]
    fn keep_untaken(&mut self, keeps: impl Fn(Owner) -> bool) {
        self.withdrawn = false;
        let taken = self.taken_requests();
        let untaken = self.queue.split_off(taken);
        let mut all = self.out.take_untaken();
        let mut removed = Vec::new();
        for (number, entry) in (self.front + taken as u64..).zip(untaken) {
            let bytes = all.next(entry.bytes);
            if !keeps(entry.owner) {
                removed.push(number);
                continue;
            }
            if let Owner::Slot(slot) = entry.owner {
                self.slots.renumber(slot, number - removed.len() as u64);
            }
            self.queue.push_back(entry);
            self.out.pending.extend_from_slice(bytes);
            self.out.put_aside();
        }
        for stamp in &mut self.stamps {
            stamp.below -= removed.partition_point(|&number| number < stamp.below) as u64;
        }
    }
}

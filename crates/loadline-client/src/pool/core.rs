//! The state of a pool: lent and free connections, waiting borrowers. No socket, no clock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Limits, Status};

/// The books of a pool of connections `T` with waiting borrowers `W`.
#[derive(Debug)]
pub(super) struct Books<T, W> {
    limits: Limits,
    /// Free connections with the time since when, the last used one at the end.
    free: Vec<(T, Instant)>,
    /// Waiting borrowers, the first at the front.
    waiting: VecDeque<W>,
    in_use: usize,
    opening: usize,
    last_error: Option<String>,
    closed: bool,
}

impl<T, W> Books<T, W> {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            free: Vec::new(),
            waiting: VecDeque::new(),
            in_use: 0,
            opening: 0,
            last_error: None,
            closed: false,
        }
    }

    /// Whether the pool has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Lends the connection that was used last, unless others already wait.
    pub(super) fn borrow(&mut self) -> Option<T> {
        if !self.waiting.is_empty() {
            return None;
        }
        let (connection, _) = self.free.pop()?;
        self.in_use += 1;
        Some(connection)
    }

    /// Adds a waiting borrower.
    pub(super) fn wait(&mut self, waiter: W) {
        self.waiting.push_back(waiter);
    }

    /// Takes a connection back; the borrower that gets it next.
    pub(super) fn give_back(&mut self, connection: T, now: Instant) -> Option<(W, T)> {
        self.in_use -= 1;
        self.offer(connection, now)
    }

    /// A lent connection is gone.
    pub(super) fn lost(&mut self) {
        self.in_use -= 1;
    }

    /// The number of connections to open now. They count as being opened from here on.
    pub(super) fn open_more(&mut self) -> usize {
        if self.closed {
            return 0;
        }
        let total = self.total();
        let missing = self.limits.min.saturating_sub(total);
        // Each connection that is being opened is for a waiting borrower.
        let wanted = self.waiting.len().saturating_sub(self.opening);
        let more = missing
            .max(wanted)
            .min(self.limits.max.saturating_sub(total));
        self.opening += more;
        more
    }

    /// A connection was opened; the borrower that gets it.
    pub(super) fn opened(&mut self, connection: T, now: Instant) -> Option<(W, T)> {
        self.opening -= 1;
        self.last_error = None;
        self.offer(connection, now)
    }

    /// A connection could not be opened.
    pub(super) fn failed(&mut self, why: String) {
        self.opening -= 1;
        self.last_error = Some(why);
    }

    fn offer(&mut self, connection: T, now: Instant) -> Option<(W, T)> {
        if self.closed {
            return None;
        }
        match self.waiting.pop_front() {
            Some(waiter) => {
                self.in_use += 1;
                Some((waiter, connection))
            }
            None => {
                self.free.push((connection, now));
                None
            }
        }
    }

    /// Removes the connections that are not fit to be lent, and those above the minimum that were idle for too
    /// long.
    pub(super) fn sift(&mut self, now: Instant, fit: impl Fn(&T) -> bool) -> Vec<T> {
        let (kept, mut out): (Vec<_>, Vec<_>) = self.free.drain(..).partition(|(one, _)| fit(one));
        self.free = kept;
        while let Some((_, since)) = self.free.first()
            && self.total() > self.limits.min
            && now.saturating_duration_since(*since) >= self.limits.idle
        {
            out.push(self.free.remove(0));
        }
        out.into_iter().map(|(connection, _)| connection).collect()
    }

    /// Ends the pool: returns the free connections and the waiting borrowers.
    pub(super) fn close(&mut self) -> (Vec<T>, Vec<W>) {
        self.closed = true;
        let free = self.free.drain(..).map(|(connection, _)| connection);
        (free.collect(), self.waiting.drain(..).collect())
    }

    /// Removes the borrower that gave up waiting.
    pub(super) fn forget(&mut self, gave_up: impl Fn(&W) -> bool) {
        let before = self.waiting.len();
        // All wait equally long, so it is nearly always the first one. A search for each would make the time that thousands
        // need quadratic.
        while self.waiting.front().is_some_and(&gave_up) {
            self.waiting.pop_front();
        }
        if self.waiting.len() == before {
            self.waiting.retain(|waiter| !gave_up(waiter));
        }
    }

    fn total(&self) -> usize {
        self.free.len() + self.in_use + self.opening
    }

    pub(super) fn status(&self) -> Status {
        Status {
            free: self.free.len(),
            in_use: self.in_use,
            opening: self.opening,
            waiting: self.waiting.len(),
            max: self.limits.max,
            last_error: self.last_error.clone(),
        }
    }

    pub(super) fn idle(&self) -> Duration {
        self.limits.idle
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits(min: usize, max: usize) -> Limits {
        Limits {
            min,
            max,
            idle: Duration::from_secs(10),
            ..Limits::default()
        }
    }

    #[derive(Debug, Clone)]
    enum PoolStep {
        Ask,
        Open(bool),
        GiveBack,
        Break,
        GiveUp(u8),
        Pass(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<PoolStep>> {
        let step = prop_oneof![
            3 => Just(PoolStep::Ask),
            3 => any::<bool>().prop_map(PoolStep::Open),
            3 => Just(PoolStep::GiveBack),
            1 => Just(PoolStep::Break),
            1 => any::<u8>().prop_map(PoolStep::GiveUp),
            1 => any::<u8>().prop_map(PoolStep::Pass),
        ];
        proptest::collection::vec(step, 1..200)
    }

    #[test]
    fn borrowers_that_give_up_in_order_are_forgotten_without_a_search() {
        let mut books: Books<u32, u32> = Books::new(limits(0, 1));
        (0..1_000).for_each(|waiter| books.wait(waiter));
        let asked = std::cell::Cell::new(0);
        for gone in 0..1_000 {
            books.forget(|waiter| {
                asked.set(asked.get() + 1);
                *waiter <= gone
            });
        }
        assert_eq!(books.status().waiting, 0);
        assert!(asked.get() <= 2_000, "{}", asked.get());
    }

    proptest! {
        /// In any order of events there are never more connections than allowed, none is lent twice or lost, and
        /// borrowers are served in order.
        #[test]
        fn connections_are_neither_lost_nor_lent_twice(steps in steps(), min in 0_usize..3, extra in 1_usize..4) {
            let (start, max) = (Instant::now(), min + extra);
            let mut books: Books<u32, u32> = Books::new(limits(min, max));
            let (mut now, mut opening, mut next, mut asked) = (start, 0, 0, 0);
            let mut lent: Vec<u32> = Vec::new();
            let mut queue: VecDeque<u32> = VecDeque::new();
            opening += books.open_more();
            for step in steps {
                let served = match step {
                    PoolStep::Ask => {
                        match books.borrow() {
                            Some(connection) => lent.push(connection),
                            None => {
                                asked += 1;
                                queue.push_back(asked);
                                books.wait(asked);
                            }
                        }
                        None
                    }
                    PoolStep::Open(_) if opening == 0 => None,
                    PoolStep::Open(true) => {
                        (opening, next) = (opening - 1, next + 1);
                        books.opened(next, now)
                    }
                    PoolStep::Open(false) => {
                        opening -= 1;
                        books.failed("refused".into());
                        None
                    }
                    PoolStep::GiveBack if lent.is_empty() => None,
                    PoolStep::GiveBack => {
                        let connection = lent.remove(0);
                        books.give_back(connection, now)
                    }
                    PoolStep::Break if lent.is_empty() => None,
                    PoolStep::Break => {
                        lent.remove(0);
                        books.lost();
                        None
                    }
                    PoolStep::GiveUp(which) => {
                        if !queue.is_empty() {
                            let gone = queue.remove(usize::from(which) % queue.len()).unwrap_or(0);
                            books.forget(|waiter| *waiter == gone);
                        }
                        None
                    }
                    PoolStep::Pass(seconds) => {
                        now += Duration::from_secs(u64::from(seconds));
                        books.sift(now, |connection| connection % 7 != 0);
                        None
                    }
                };
                if let Some((waiter, connection)) = served {
                    prop_assert_eq!(queue.pop_front(), Some(waiter));
                    prop_assert!(!lent.contains(&connection));
                    lent.push(connection);
                }
                opening += books.open_more();
                let status = books.status();
                prop_assert_eq!((status.in_use, status.opening, status.waiting), (lent.len(), opening, queue.len()));
                prop_assert!(status.free + status.in_use + status.opening <= max);
                prop_assert!(status.free + status.in_use + status.opening >= min);
                // No borrower waits while a connection is free or another one could be opened.
                prop_assert!(status.waiting == 0 || status.free == 0);
                prop_assert!(status.waiting <= status.opening || status.in_use + status.opening == max);
            }
        }
    }

    #[test]
    fn idle_connections_shrink_to_the_minimum() {
        let start = Instant::now();
        let mut books: Books<u32, ()> = Books::new(limits(2, 10));
        (0..3).for_each(|_| books.wait(()));
        assert_eq!(books.open_more(), 3);
        for connection in 0..3 {
            assert!(books.opened(connection, start).is_some());
        }
        for connection in 0..3 {
            assert!(books.give_back(connection, start).is_none());
        }
        assert!(
            books
                .sift(start + Duration::from_secs(9), |_| true)
                .is_empty()
        );
        // The one that was not used for the longest time goes.
        assert_eq!(books.sift(start + Duration::from_secs(10), |_| true), [0]);
        assert_eq!(
            books.sift(start + Duration::from_secs(99), |_| false).len(),
            2
        );
        assert_eq!(books.open_more(), 2);
    }
}

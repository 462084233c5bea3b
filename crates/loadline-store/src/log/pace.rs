//! When a sync of the log begins that writers wait for.

use std::time::{Duration, Instant};

/// Decides when the next sync of a log begins, for the threads or connections that share it.
///
/// Without a wait, they take turns: while a sync for one half of them is under way, the other half writes, and each waits
/// for two syncs. So a sync begins once as many wait as at the end of the last one (those whose sync ended, and those that
/// came later), or after half of the time that the last one took. A single writer never waits.
#[derive(Debug, Default)]
pub struct Pace {
    /// When the sync that is under way began.
    begun: Option<Instant>,
    /// When the next one begins at the latest.
    latest: Option<Instant>,
    /// Number of writers that waited at the end of the last sync.
    crowd: usize,
}

impl Pace {
    /// Notes that a sync begins.
    pub fn begin(&mut self, now: Instant) {
        self.begun = Some(now);
    }

    /// Whether a sync is under way.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.begun.is_some()
    }

    /// Notes that the sync has ended. `waiting` is the number of those that waited for it or wait for the next one.
    pub fn end(&mut self, waiting: usize, now: Instant) {
        let Some(begun) = self.begun.take() else {
            return;
        };
        self.crowd = waiting;
        self.latest = Some(now + (now - begun) / 2);
    }

    /// Whether it is time for the next sync, for which `waiting` threads or connections wait.
    #[must_use]
    pub fn is_due(&self, waiting: usize, now: Instant) -> bool {
        let is_late = self.latest.is_none_or(|latest| latest <= now);
        self.begun.is_none() && (waiting >= self.crowd || is_late)
    }

    /// The time until the next sync is due; `None` while one is under way.
    #[must_use]
    pub fn longest_sleep(&self, now: Instant) -> Option<Duration> {
        let latest = self.latest.filter(|_| self.begun.is_none())?;
        Some(latest.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sync_waits_for_those_of_the_last_one_and_not_long() {
        let start = crate::clock::monotonic();
        let at = |ms| start + Duration::from_millis(ms);
        let mut pace = Pace::default();
        assert!(pace.is_due(1, at(0)));
        pace.begin(at(0));
        assert!(pace.is_under_way() && !pace.is_due(50, at(1)));
        pace.end(50, at(8));
        // It took 8 ms, so the next one begins within 4.
        assert!(!pace.is_due(49, at(9)));
        assert_eq!(pace.longest_sleep(at(9)), Some(Duration::from_millis(3)));
        assert!(pace.is_due(50, at(9)) && pace.is_due(1, at(12)));
        pace.begin(at(12));
        assert_eq!(pace.longest_sleep(at(12)), None);
        pace.end(1, at(13));
        assert!(pace.is_due(1, at(13)));
    }
}

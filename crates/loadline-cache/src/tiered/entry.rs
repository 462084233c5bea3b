//! Lifetimes of values.

use std::sync::Arc;
use std::time::Duration;

use super::clock::to_ns;

/// A moment that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// A value in memory, or the fact that there is none. Moments are nanoseconds of [`Clock::now`](super::Clock::now).
#[derive(Debug)]
pub(crate) struct Entry<V> {
    /// `None`: the source has no such object.
    pub(crate) value: Option<Arc<V>>,
    pub(crate) fresh_until: u64,
    /// From here on, a hit has the value loaded again in the background, or the value is past its time to live. A hit
    /// compares nothing else.
    pub(crate) due_at: u64,
    /// When the load of the value began, in microseconds since 1970; see [`Core::stamp`](super::core::Core::stamp).
    pub(crate) stamp: u64,
    pub(crate) weight: u64,
}

impl<V> Clone for Entry<V> {
    fn clone(&self) -> Self {
        Self {
            value: self.value.clone(),
            ..*self
        }
    }
}

/// The use that an entry can be put to at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    Fresh,
    /// Usable, and due for a refresh ahead of its end.
    Due,
    /// Past its time to live; usable while it is loaded again.
    Stale,
    /// Only better than an error.
    Fallback,
    Dead,
}

/// The settings of how long values are used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lifetimes {
    pub(crate) ttl: Option<Duration>,
    pub(crate) absent_ttl: Option<Duration>,
    /// The share of a time to live that is taken off at random, at most.
    pub(crate) jitter: f64,
    pub(crate) stale_for: Duration,
    pub(crate) stale_on_error: Duration,
    /// The share of a time to live after which a hit refreshes.
    pub(crate) refresh_after: Option<f64>,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            ttl: None,
            absent_ttl: None,
            jitter: 0.1,
            stale_for: Duration::ZERO,
            stale_on_error: Duration::ZERO,
            refresh_after: None,
        }
    }
}

impl Lifetimes {
    /// The time to live of a value in nanoseconds, shortened by the jitter. `random` is any number.
    pub(crate) fn draw(&self, own: Option<Duration>, is_absent: bool, random: u64) -> u64 {
        let ttl = match is_absent {
            true => self.absent_ttl,
            false => own.or(self.ttl),
        };
        let Some(ttl) = ttl else {
            return NEVER;
        };
        // The upper 53 bits of a well-mixed number, as a share below 1.
        let share = (mix(random) >> 11) as f64 / (1_u64 << 53) as f64;
        let ns = to_ns(ttl);
        ns - (ns as f64 * self.jitter * share) as u64
    }

    /// When an entry with `remaining` nanoseconds of its time to live `ttl` is due for a refresh.
    pub(crate) fn refresh_at(&self, now: u64, ttl: u64, remaining: u64) -> u64 {
        let Some(share) = self.refresh_after else {
            return NEVER;
        };
        if ttl == NEVER {
            return NEVER;
        }
        let after = (ttl as f64 * share) as u64;
        let age = ttl.saturating_sub(remaining);
        now.saturating_add(after.saturating_sub(age))
    }

    /// The time for which a value is kept after its time to live, in nanoseconds.
    pub(crate) fn kept_ns(&self) -> u64 {
        to_ns(self.stale_for.max(self.stale_on_error))
    }

    pub(crate) fn judge<V>(&self, entry: &Entry<V>, now: u64) -> Freshness {
        if now < entry.fresh_until {
            return match now >= entry.due_at {
                true => Freshness::Due,
                false => Freshness::Fresh,
            };
        }
        // An absence is not served beyond its time: the object may have been created.
        let past = now - entry.fresh_until;
        if entry.value.is_none() {
            Freshness::Dead
        } else if past < to_ns(self.stale_for) {
            Freshness::Stale
        } else if past < to_ns(self.stale_on_error) {
            Freshness::Fallback
        } else {
            Freshness::Dead
        }
    }
}

/// Mixes the bits of a number (the finalizer of splitmix64).
pub(crate) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifetimes() -> Lifetimes {
        Lifetimes {
            ttl: Some(Duration::from_secs(100)),
            absent_ttl: Some(Duration::from_secs(10)),
            jitter: 0.2,
            stale_for: Duration::from_secs(5),
            stale_on_error: Duration::from_secs(50),
            refresh_after: Some(0.8),
        }
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn jitter_spreads_the_end_and_never_prolongs() {
        let drawn: Vec<u64> = (0..1_000)
            .map(|random| lifetimes().draw(None, false, random))
            .collect();
        assert!(
            drawn
                .iter()
                .all(|ns| (80 * SECOND..=100 * SECOND).contains(ns))
        );
        let early = drawn.iter().filter(|ns| **ns < 90 * SECOND).count();
        assert!((400..600).contains(&early), "{early}");
        let own = lifetimes().draw(Some(Duration::from_secs(1)), false, 7);
        assert!((SECOND * 8 / 10..=SECOND).contains(&own));
        assert!(lifetimes().draw(None, true, 7) <= 10 * SECOND);
        assert_eq!(Lifetimes::default().draw(None, false, 7), NEVER);
    }

    #[test]
    fn entry_ages_in_steps() {
        let mut entry = Entry {
            value: Some(Arc::new(())),
            fresh_until: 100 * SECOND,
            due_at: lifetimes().refresh_at(0, 100 * SECOND, 100 * SECOND),
            stamp: 0,
            weight: 1,
        };
        let at = |entry: &Entry<()>, seconds: u64| lifetimes().judge(entry, seconds * SECOND);
        assert_eq!(at(&entry, 79), Freshness::Fresh);
        assert_eq!(at(&entry, 80), Freshness::Due);
        assert_eq!(at(&entry, 100), Freshness::Stale);
        assert_eq!(at(&entry, 105), Freshness::Fallback);
        assert_eq!(at(&entry, 150), Freshness::Dead);
        entry.value = None;
        assert_eq!(at(&entry, 100), Freshness::Dead);
    }

    #[test]
    fn entry_from_another_tier_is_due_at_the_same_age() {
        // 60 of 100 s are over, and it is due at 80.
        let due = lifetimes().refresh_at(7 * SECOND, 100 * SECOND, 40 * SECOND);
        assert_eq!(due, 27 * SECOND);
    }
}

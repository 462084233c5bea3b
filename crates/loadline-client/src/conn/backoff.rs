//! When to try to connect again.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant};

/// The pause after the first attempt to connect again.
const FIRST: Duration = Duration::from_millis(1);
/// The longest pause of the first seconds. A server that comes back in this time is found within this time.
const EARLY_CAP: Duration = Duration::from_millis(25);
/// Time for which that cap holds.
const EARLY: Duration = Duration::from_secs(3);
/// The longest pause of all.
const CAP: Duration = Duration::from_secs(1);

/// The schedule of reconnection: the first attempt at once, then pauses that double, each cut by up to
/// half by chance, so that clients that lost the same server do not come back all at once.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    /// When the first attempt of this outage failed, and the last pause before the cut.
    outage: Option<(Instant, Duration)>,
    random: u64,
}

impl Backoff {
    /// A schedule with chances of its own.
    pub(crate) fn new() -> Self {
        Self::seeded(RandomState::new().build_hasher().finish())
    }

    pub(crate) fn seeded(random: u64) -> Self {
        Self {
            outage: None,
            random,
        }
    }

    /// The pause after a connection broke, or an attempt failed, at `now`. The first one is none.
    pub(crate) fn failed(&mut self, now: Instant) -> Duration {
        let (since, pause) = match self.outage {
            None => (now, Duration::ZERO),
            Some((since, last)) => {
                let early = now.saturating_duration_since(since) < EARLY;
                let cap = if early { EARLY_CAP } else { CAP };
                (since, (last * 2).clamp(FIRST, cap))
            }
        };
        self.outage = Some((since, pause));
        pause.mul_f64(1.0 - 0.5 * self.chance())
    }

    /// The outage is over.
    pub(crate) fn connected(&mut self) {
        self.outage = None;
    }

    /// A number from 0 to below 1 (SplitMix64: Steele, Lea, Flood, 2014).
    fn chance(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pauses of an outage, each with the time at which it began.
    fn pauses(seed: u64, outage: Duration) -> Vec<(Duration, Duration)> {
        let mut backoff = Backoff::seeded(seed);
        let start = Instant::now();
        let mut now = start;
        let mut pauses = Vec::new();
        while now - start < outage {
            let pause = backoff.failed(now);
            pauses.push((now - start, pause));
            now += pause;
        }
        pauses
    }

    #[test]
    fn pauses_are_short_at_first_and_then_rise_to_a_second() {
        for seed in 0..50 {
            let pauses = pauses(seed, Duration::from_secs(30));
            assert_eq!(pauses[0].1, Duration::ZERO);
            assert!(pauses[1].1 <= FIRST && pauses[1].1 >= FIRST / 2);
            for (at, pause) in &pauses {
                let cap = if *at < EARLY { EARLY_CAP } else { CAP };
                assert!(*pause <= cap, "{pause:?} at {at:?}");
            }
            let (_, last) = pauses[pauses.len() - 1];
            assert!(last >= CAP / 2);
        }
    }

    #[test]
    fn clients_do_not_come_back_together() {
        let mut second: Vec<_> = (0..20)
            .map(|seed| pauses(seed, Duration::from_millis(200)).pop())
            .collect();
        second.sort();
        second.dedup();
        assert_eq!(second.len(), 20);
    }

    #[test]
    fn next_outage_starts_afresh() {
        let mut backoff = Backoff::seeded(1);
        let now = Instant::now();
        for _ in 0..20 {
            backoff.failed(now);
        }
        backoff.connected();
        assert_eq!(backoff.failed(now), Duration::ZERO);
    }
}

//! Loads that processes share: of those that miss a key at the same time, the one that holds the lease loads it.
//!
//! The lease is a key of the tier with a token and an expiry. Its holder removes it once the value is written, if the token
//! is still its own. The others ask for the value again and again, and for the lease, which is free once the holder has
//! ended or its time is over.

use std::time::{Duration, Instant};

use super::super::breaker::WriteKind;
use super::super::core::Core;
use super::super::entry::mix;
use super::super::explain::Found as Seen;
use super::super::key::Key;
use super::super::lower::{Lower, Written};
use super::super::metrics::Held;
use super::{Fetch, Slot};

/// The pauses between two questions of a process that waits. They double.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const MOST_DOUBLINGS: u32 = 4;

/// What a key has to do with leases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Lease {
    /// It was not asked for.
    #[default]
    None,
    /// This call loads, and removes this token afterwards.
    Held(Vec<u8>),
    /// Another process loads; look again then.
    Taken(Instant),
    /// Loaded without one.
    Without,
}

/// Leases to ask for.
pub(crate) struct Leasing<'c> {
    slots: Vec<usize>,
    /// The keys of the leases.
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) token: Vec<u8>,
    pub(crate) time: Duration,
    _in_flight: Held<'c>,
}

/// A lease to remove, if it still has this token.
pub(crate) struct Release {
    pub(crate) key: Vec<u8>,
    pub(crate) token: Vec<u8>,
}

impl<K: Key, V> Slot<K, V> {
    fn wants_lease(&self) -> bool {
        self.is_open() && self.stamp == 0 && self.was_read && self.lease == Lease::None
    }

    /// Whether the tier is asked again, since another process may have written the value before this one had the lease.
    pub(super) fn reads_again(&self) -> bool {
        matches!(self.lease, Lease::Held(_)) && self.asks()
    }

    /// Whether the tier was asked for this key before in the same call, which says nothing about its hit ratio.
    pub(super) fn is_repeated(&self) -> bool {
        self.leased_since.is_some() || matches!(self.lease, Lease::Held(_))
    }

    fn lease_key(&self) -> Vec<u8> {
        // Not below the prefix, where it would be taken for a value.
        [b"lease:", &self.bytes[..]].concat()
    }

    /// Whether the value may be loaded now.
    pub(super) fn may_load(&self) -> bool {
        !matches!(self.lease, Lease::Taken(_)) && !self.reads_again()
    }
}

impl<K: Key, V> Core<K, V> {
    /// The leases that are to be asked for before values are loaded.
    pub(crate) fn leasing(&self, fetch: &mut Fetch<K, V>) -> Option<Leasing<'_>> {
        let lower = self.lower.as_ref()?;
        let time = lower.lease?;
        let wanted = fetch.slots.iter().enumerate();
        let wanted = wanted.filter(|(_, slot)| slot.wants_lease());
        let slots: Vec<usize> = wanted.map(|(index, _)| index).collect();
        if slots.is_empty() {
            return None;
        }
        if !(lower.breaker()).permits_write(WriteKind::Puts, self.clock.now()) {
            for slot in slots {
                fetch.slots[slot].lease = Lease::Without;
            }
            return None;
        }
        let keys = slots.iter().map(|slot| fetch.slots[*slot].lease_key());
        Some(Leasing {
            keys: keys.collect(),
            slots,
            token: format!("{:x}-{:x}", lower.nonce, self.stamp()).into_bytes(),
            time,
            _in_flight: lower.metrics.in_flight.hold(),
        })
    }

    /// Takes the answer: for each lease whether this call has it, or why it is not known.
    pub(crate) fn leased(
        &self,
        fetch: &mut Fetch<K, V>,
        leasing: Leasing<'_>,
        taken: Result<Vec<bool>, Written>,
        elapsed: Duration,
    ) {
        let lower = self.lower.as_ref().expect("a tier was asked");
        let result = taken.as_ref().err().copied().unwrap_or(Written::Done);
        lower.report_write(WriteKind::Puts, result, elapsed, self.clock.now());
        let taken = taken.map(|taken| taken.into_iter().chain(std::iter::repeat(false)));
        let Ok(taken) = taken else {
            lower.metrics.put_errors.add(1);
            for slot in leasing.slots {
                fetch.slots[slot].lease = Lease::Without;
                fetch.slots[slot].step(lower.failure(elapsed), Some(elapsed));
            }
            return;
        };
        for (slot, is_own) in leasing.slots.into_iter().zip(taken) {
            let slot = &mut fetch.slots[slot];
            if is_own {
                slot.lease = Lease::Held(leasing.token.clone());
                slot.was_asked = false;
            } else {
                self.wait_for_lease(lower, slot, leasing.time);
            }
        }
    }

    /// Waits for the process that loads the value; no longer than its lease can last.
    fn wait_for_lease(&self, lower: &Lower<K, V>, slot: &mut Slot<K, V>, time: Duration) {
        if slot.is_refresh {
            // The other process has the value loaded; what memory has is used until then.
            let older = slot.older.as_ref().and_then(|older| older.value.clone());
            slot.answer = Some(Ok(older));
            slot.lead = None;
            return;
        }
        let now = Instant::now();
        if slot.leased_since.is_none() {
            lower.metrics.lease_waits.add(1);
            slot.step(Seen::LoadedElsewhere, None);
        }
        let since = *slot.leased_since.get_or_insert(now);
        if now.duration_since(since) >= time {
            lower.metrics.lease_timeouts.add(1);
            slot.lease = Lease::Without;
            return;
        }
        let pause = FIRST_PAUSE * (1 << slot.polls.min(MOST_DOUBLINGS));
        // From half of it to one and a half, so that processes do not ask at the same time.
        let share = (mix(lower.nonce ^ self.stamp()) >> 11) as f64 / (1_u64 << 53) as f64;
        slot.polls += 1;
        slot.lease = Lease::Taken(now + pause.mul_f64(0.5 + share));
    }

    /// The pause before the tier is asked again, if a key waits for that.
    pub(crate) fn pause(&self, fetch: &Fetch<K, V>) -> Option<Duration> {
        self.lower.as_ref()?.lease?;
        let now = Instant::now();
        let pauses = fetch.slots.iter().filter_map(|slot| match &slot.lease {
            Lease::Taken(until) if slot.is_open() => Some(until.saturating_duration_since(now)),
            _ => slot.reads_again().then_some(Duration::ZERO),
        });
        pauses.min()
    }

    /// Lets the tier be asked again, after the pause.
    pub(crate) fn poll(&self, fetch: &mut Fetch<K, V>) {
        let now = Instant::now();
        for slot in &mut fetch.slots {
            if matches!(slot.lease, Lease::Taken(until) if until <= now) {
                slot.lease = Lease::None;
                (slot.was_asked, slot.was_read) = (false, false);
            }
        }
    }

    /// The next lease that is not needed any more. With a tier that has just been slow, it is left to its expiry.
    pub(crate) fn release(&self, fetch: &mut Fetch<K, V>) -> Option<Release> {
        let lower = self.lower.as_ref()?;
        lower.lease?;
        let is_over = |slot: &&mut Slot<K, V>| {
            matches!(slot.lease, Lease::Held(_)) && slot.answer.is_some() && slot.write.is_none()
        };
        while let Some(slot) = fetch.slots.iter_mut().find(is_over) {
            let lease = std::mem::replace(&mut slot.lease, Lease::Without);
            if let Lease::Held(token) = lease
                && !slot.was_slow
                && !lower.breaker().is_open()
            {
                let key = slot.lease_key();
                return Some(Release { key, token });
            }
        }
        None
    }
}

//! Leases of keys that processes share.
//!
//! A call that loads a value first takes the lease of its key, a key of the tier with a token and an expiry. Whatever changes
//! the key in the tier ends the lease, and the value is written only if the lease still has the token. Where another
//! process has it, this one uses the same token: if nothing has changed the key since the lease was taken, nothing has
//! since this load began.
//!
//! Where processes share loads, only the one that holds the lease loads. The others ask for it, and for the value, again and
//! again, until the holder has ended or their time is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::backlog::Token;
use super::super::breaker::RequestKind;
use super::super::core::Core;
use super::super::entry::mix;
use super::super::explain::Found;
use super::super::failure::Failure;
use super::super::key::Key;
use super::super::lower::{Lower, TierRead};
use super::super::metrics::Held;
use super::{Fetch, Slot};
use crate::Leased;

/// The pauses between two questions of a process that waits. They double.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const MOST_DOUBLINGS: u32 = 4;
/// The longest token that is believed to be one.
const TOKEN_BYTES: usize = 64;

/// The state of a key's lease, as this call knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Lease {
    /// It was not asked for.
    #[default]
    None,
    /// This call has taken it.
    Held(Token),
    /// Another one has taken it, and this call loads all the same.
    Borrowed(Token),
    /// Another process loads; look again then.
    Taken(Instant),
    /// Loaded without one.
    Without,
}

impl Lease {
    /// The token that the lease must have when the value is written.
    pub(super) fn token(&self) -> Option<Token> {
        match self {
            Self::Held(token) | Self::Borrowed(token) => Some(Arc::clone(token)),
            Self::None | Self::Taken(_) | Self::Without => None,
        }
    }
}

/// Leases to ask for.
pub(crate) struct Leasing<'c> {
    slots: Vec<usize>,
    pub(crate) token: Token,
    pub(crate) time: Duration,
    _in_flight: Held<'c>,
}

impl Leasing<'_> {
    /// The keys, in the order of the answer.
    pub(crate) fn keys<'f, K: Key, V>(&self, fetch: &'f Fetch<K, V>) -> Vec<&'f [u8]> {
        let slots = self.slots.iter();
        slots.map(|slot| &fetch.slots[*slot].bytes[..]).collect()
    }
}

/// A lease to remove, if it still has this token.
pub(crate) struct Release {
    pub(crate) key: Vec<u8>,
    pub(crate) token: Token,
}

impl<K: Key, V> Slot<K, V> {
    fn wants_lease(&self) -> bool {
        self.is_open() && self.stamp == 0 && self.was_read && self.lease == Lease::None
    }

    /// Whether the tier was asked for this key before in the same call, which says nothing about its hit ratio.
    pub(super) fn is_repeated(&self) -> bool {
        self.leased_since.is_some() || self.lease != Lease::None
    }

    /// Whether the value may be loaded now.
    pub(super) fn may_load(&self) -> bool {
        !matches!(self.lease, Lease::Taken(_))
    }
}

impl<K: Key, V> Core<K, V> {
    /// The leases that are to be asked for before values are loaded.
    pub(super) fn leasing(&self, fetch: &mut Fetch<K, V>) -> Option<Leasing<'_>> {
        let lower = self.lower.as_ref().filter(|lower| lower.takes_leases())?;
        let wanted = fetch.slots.iter().enumerate();
        let wanted = wanted.filter(|(_, slot)| slot.wants_lease());
        let slots: Vec<usize> = wanted.map(|(index, _)| index).collect();
        if slots.is_empty() {
            return None;
        }
        if !(lower.breaker()).permits(RequestKind::Puts, self.clock.now()) {
            for slot in slots {
                fetch.slots[slot].lease = Lease::Without;
            }
            return None;
        }
        let token = format!("{:x}-{:x}", lower.nonce, self.stamp());
        Some(Leasing {
            slots,
            token: token.into_bytes().into(),
            time: lower.lease_time(),
            _in_flight: lower.metrics.in_flight.hold(),
        })
    }

    /// Takes the answer: what became of each lease, or why it is not known.
    pub(crate) fn leased(
        &self,
        fetch: &mut Fetch<K, V>,
        leasing: Leasing<'_>,
        leased: Result<Vec<Leased>, Failure>,
        elapsed: Duration,
    ) {
        let lower = self.lower.as_ref().expect("a tier was asked");
        lower.report(RequestKind::Puts, &leased, elapsed, self.clock.now());
        let leased = match leased {
            Ok(leased) => leased,
            Err(failure) => {
                lower.metrics.put_errors.add(1);
                for slot in leasing.slots {
                    fetch.slots[slot].lease = Lease::Without;
                    // A tier that refuses writes has not failed, and the value is not written.
                    if failure != Failure::Refused {
                        fetch.slots[slot].step(lower.failure(elapsed), Some(elapsed));
                    }
                }
                return;
            }
        };
        let leased = leased
            .into_iter()
            .chain(std::iter::repeat(Leased::default()));
        for (slot, Leased { token, value }) in leasing.slots.into_iter().zip(leased) {
            let slot = &mut fetch.slots[slot];
            slot.lease = match token {
                Some(token) if token[..] == leasing.token[..] => Lease::Held(token.into()),
                Some(token) if token.len() <= TOKEN_BYTES => Lease::Borrowed(token.into()),
                _ => Lease::Without,
            };
            if let Some(value) = value {
                self.look_again(lower, slot, &value, elapsed);
            }
            if let (Lease::Borrowed(_), Some(time)) = (&slot.lease, lower.lease)
                && slot.answer.is_none()
            {
                self.wait_for_lease(lower, slot, time);
            }
        }
    }

    /// Takes a value that another process may have written before this one had the lease.
    fn look_again(
        &self,
        lower: &Lower<K, V>,
        slot: &mut Slot<K, V>,
        value: &[u8],
        elapsed: Duration,
    ) {
        let decoded = lower.decode(&slot.bytes, Some(value), self.unix_us());
        if matches!(decoded.found, TierRead::Value(..)) {
            self.take_found(lower, slot, decoded, Some(elapsed), None);
        }
    }

    /// Waits for the process that loads the value, for the time that leases have.
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
            slot.step(Found::LoadedElsewhere, None);
        }
        let since = *slot.leased_since.get_or_insert(now);
        if now.duration_since(since) >= time {
            lower.metrics.lease_timeouts.add(1);
            return;
        }
        let pause = FIRST_PAUSE * (1 << slot.polls.min(MOST_DOUBLINGS));
        // From half of it to one and a half, so that processes do not ask at the same time.
        let share = (mix(lower.nonce ^ self.stamp()) >> 11) as f64 / (1_u64 << 53) as f64;
        slot.polls += 1;
        slot.lease = Lease::Taken(now + pause.mul_f64(0.5 + share));
    }

    /// The pause before the tier is asked again, if a key waits for that.
    pub(super) fn pause(&self, fetch: &Fetch<K, V>) -> Option<Duration> {
        self.lower.as_ref()?.lease?;
        let now = Instant::now();
        let pauses = fetch.slots.iter().filter_map(|slot| match &slot.lease {
            Lease::Taken(until) if slot.is_open() => Some(until.saturating_duration_since(now)),
            _ => None,
        });
        pauses.min()
    }

    /// Lets the lease be asked for again, after the pause.
    pub(crate) fn poll(&self, fetch: &mut Fetch<K, V>) {
        let now = Instant::now();
        for slot in &mut fetch.slots {
            if matches!(slot.lease, Lease::Taken(until) if until <= now) {
                slot.lease = Lease::None;
            }
        }
    }

    /// The next lease that is not needed any more, where others wait for its end. With a tier that has just been slow, it is
    /// left to its expiry.
    pub(super) fn release(&self, fetch: &mut Fetch<K, V>) -> Option<Release> {
        let lower = self.lower.as_ref()?;
        lower.lease?;
        let is_over = |slot: &&mut Slot<K, V>| {
            matches!(slot.lease, Lease::Held(_)) && slot.answer.is_some() && slot.write.is_none()
        };
        while let Some(slot) = fetch.slots.iter_mut().find(is_over) {
            let lease = std::mem::replace(&mut slot.lease, Lease::Without);
            if let Lease::Held(token) = lease
                && !slot.was_slow
                && !lower.breaker().is_down()
            {
                let key = slot.bytes.clone();
                return Some(Release { key, token });
            }
        }
        None
    }
}

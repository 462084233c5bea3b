//! Filling memory from the tier below.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::breaker::RequestKind;
use super::core::Core;
use super::failure::Failure;
use super::flights::{Joined, Lead, Outcome};
use super::key::Key;
use super::lower::{Lower, TierRead};
use super::metrics::Held;
use crate::Error;

/// The work that [`Cache::warm_up`](super::Cache::warm_up) has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WarmUp {
    /// Keys found in the tier that were not in memory.
    pub keys: u64,
    /// Values put into memory.
    pub values: u64,
    /// Their weight in bytes.
    pub bytes: u64,
    /// Values that were not usable, or that another caller was loading or writing.
    pub left_out: u64,
    /// The reason for its end.
    pub end: WarmUpEnd,
}

/// The reason for the end of a warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WarmUpEnd {
    /// All values of the tier were read.
    Complete,
    /// The limit of bytes was reached, or memory is full.
    Bytes,
    /// The limit of time was reached.
    Time,
    /// The tier failed, or its breaker is open.
    TierFailed,
}

/// A warm-up under way.
pub(crate) struct Warming<K> {
    keys: std::vec::IntoIter<K>,
    prefix: Vec<u8>,
    most_keys: usize,
    most_bytes: u64,
    until: Instant,
    done: WarmUp,
}

/// Keys that are read together. No other call loads or writes them meanwhile.
pub(crate) struct Batch<'c, K: Key, V> {
    leads: Vec<(Lead<K, V>, Vec<u8>)>,
    _in_flight: Held<'c>,
}

impl<K: Key, V> Batch<'_, K, V> {
    /// The keys in the tier.
    pub(crate) fn keys(&self) -> Vec<&[u8]> {
        self.leads.iter().map(|(_, bytes)| &bytes[..]).collect()
    }
}

impl<K: Key> Warming<K> {
    /// The prefix of the tier's keys.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    pub(crate) fn done(&self) -> WarmUp {
        self.done
    }

    /// Takes the keys that [`Core::sees`] has accepted.
    pub(crate) fn scanned(&mut self, keys: Vec<K>, is_complete: bool) {
        self.done.keys = keys.len() as u64;
        if is_complete {
            self.done.end = WarmUpEnd::Complete;
        }
        self.keys = keys.into_iter();
    }
}

impl<K: Key, V> Core<K, V> {
    /// Begins a warm-up of at most `bytes` within `time`.
    ///
    /// # Errors
    /// [`Error::Settings`].
    pub(crate) fn warm_up(&self, bytes: u64, time: Duration) -> Result<Warming<K>, Error> {
        let Some(lower) = &self.lower else {
            return Err(Error::Settings(
                "a cache without a tier cannot be warmed up",
            ));
        };
        if !K::IS_READABLE {
            return Err(Error::Settings(
                "a cache is warmed up by keys that can be read back",
            ));
        }
        let room = self.memory.budget().saturating_sub(self.memory.bytes());
        let most_bytes = bytes.min(room);
        // More keys than that have no room, so the list of keys stays within the limit as well.
        let most_keys = usize::try_from(most_bytes / Self::least_weight());
        Ok(Warming {
            keys: Vec::new().into_iter(),
            prefix: lower.prefix.clone(),
            most_keys: most_keys.unwrap_or(usize::MAX),
            most_bytes,
            until: Instant::now() + time,
            done: WarmUp {
                keys: 0,
                values: 0,
                bytes: 0,
                left_out: 0,
                end: WarmUpEnd::TierFailed,
            },
        })
    }

    /// Takes a key of the tier into `keys`, unless it is in memory, and breaks once there are enough.
    pub(crate) fn sees(
        &self,
        warming: &mut Warming<K>,
        keys: &mut Vec<K>,
        bytes: &[u8],
    ) -> ControlFlow<()> {
        if keys.len() >= warming.most_keys {
            warming.done.end = WarmUpEnd::Bytes;
            return ControlFlow::Break(());
        }
        if Instant::now() >= warming.until {
            warming.done.end = WarmUpEnd::Time;
            return ControlFlow::Break(());
        }
        let own = bytes.strip_prefix(&warming.prefix[..]);
        if let Some(key) = own.and_then(K::from_bytes)
            && self.memory.get(&key).is_none()
        {
            keys.push(key);
        }
        ControlFlow::Continue(())
    }

    /// The next keys to read, or `None` at the end.
    pub(crate) fn warm_next(&self, warming: &mut Warming<K>) -> Option<Batch<'_, K, V>> {
        let lower = self.lower.as_ref()?;
        loop {
            let taken: Vec<K> = warming.keys.by_ref().take(lower.batch_len()).collect();
            if taken.is_empty() {
                return None;
            }
            let stop = if warming.done.bytes >= warming.most_bytes {
                Some(WarmUpEnd::Bytes)
            } else if Instant::now() >= warming.until {
                Some(WarmUpEnd::Time)
            } else if !(lower.breaker()).permits(RequestKind::Reads, self.clock.now()) {
                Some(WarmUpEnd::TierFailed)
            } else {
                None
            };
            if let Some(end) = stop {
                warming.end(end);
                return None;
            }
            let before = taken.len();
            let leads: Vec<_> = (taken.iter())
                .filter_map(|key| self.lead_of(lower, key))
                .collect();
            warming.done.left_out += (before - leads.len()) as u64;
            if !leads.is_empty() {
                return Some(Batch {
                    leads,
                    _in_flight: lower.metrics.in_flight.hold(),
                });
            }
        }
    }

    /// The right to read a key, unless another call is reading it or the tier does not have its newest value.
    fn lead_of(&self, lower: &Lower<K, V>, key: &K) -> Option<(Lead<K, V>, Vec<u8>)> {
        let Joined::Lead(lead) = self.flights.join(key) else {
            return None;
        };
        let bytes = lower.key(&key.bytes());
        let is_open = self.memory.get(key).is_none() && lower.backlog().look(&bytes).is_none();
        is_open.then_some((lead, bytes))
    }

    /// Takes the values of a batch.
    pub(crate) fn warmed(
        &self,
        warming: &mut Warming<K>,
        batch: Batch<'_, K, V>,
        values: Result<Vec<Option<Vec<u8>>>, Failure>,
        elapsed: Duration,
    ) {
        let lower = self
            .lower
            .as_ref()
            .expect("there is a tier to warm up from");
        lower.metrics.gets.record(elapsed);
        lower.report(RequestKind::Reads, &values, elapsed, self.clock.now());
        let Ok(values) = values else {
            lower.metrics.get_errors.add(1);
            warming.end(WarmUpEnd::TierFailed);
            return;
        };
        let values = values.into_iter().chain(std::iter::repeat(None));
        for ((lead, bytes), value) in batch.leads.into_iter().zip(values) {
            let found = lower.read(&bytes, value.as_deref(), self.unix_us());
            let TierRead::Value(value, times) = found else {
                warming.done.left_out += 1;
                continue;
            };
            let value = value.map(std::sync::Arc::new);
            let entry = self.entry_of(lead.key(), value.clone(), times);
            if warming.done.bytes + entry.weight > warming.most_bytes {
                warming.end(WarmUpEnd::Bytes);
                return;
            }
            if !lead.begin_writing() {
                warming.done.left_out += 1;
                continue;
            }
            warming.done.values += 1;
            warming.done.bytes += entry.weight;
            self.place(&lead, entry);
            lead.answer(Outcome::Value(value));
        }
    }
}

impl<K> Warming<K> {
    fn end(&mut self, end: WarmUpEnd) {
        self.done.end = end;
        self.keys = Vec::new().into_iter();
    }
}

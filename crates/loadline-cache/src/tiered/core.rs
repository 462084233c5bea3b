//! The state that all callers of a cache share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loadline_client::tracking::Invalidation;

use super::backlog::{Token, Write};
use super::clock::Clock;
use super::entry::{Entry, Freshness, Lifetimes, NEVER};
use super::failure::Failure;
use super::flights::{Flights, Lead};
use super::frame::Times;
use super::key::Key;
use super::lower::{Lower, WriteMode};
use super::memory::Memory;
use super::metrics::{Metrics, Stats};
use super::weigh::{ARC_BYTES, allocated};
use super::worth::Worth;
use crate::Error;

/// Bytes of an entry beyond its key and its fields: its place in the lists and the table of memory, with their room to
/// spare, and the counts of the `Arc`. Measured by `tests/memory.rs`.
const ENTRY_BYTES: usize = 64;
/// The share of nanoseconds in a microsecond: a shared tier counts in microseconds.
const US: u64 = 1_000;

/// The weight of a value in bytes.
pub(crate) type Weigher<K, V> = Box<dyn Fn(&K, &V) -> u64 + Send + Sync>;
/// The time to live of a value, where it has one of its own.
pub(crate) type OwnTtl<K, V> = Box<dyn Fn(&K, &V) -> Option<Duration> + Send + Sync>;

/// A value that replaces another one, and its time to live if it has its own; or none.
pub(crate) type NewValue<V> = Option<(Arc<V>, Option<Duration>)>;

/// Everything but the loader and the connections.
pub(crate) struct Core<K, V> {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) memory: Memory<K, V>,
    pub(crate) flights: Flights<K, V>,
    pub(crate) lifetimes: Lifetimes,
    pub(crate) own_ttl: Option<OwnTtl<K, V>>,
    pub(crate) weigher: Weigher<K, V>,
    pub(crate) lower: Option<Lower<K, V>>,
    pub(crate) metrics: Metrics,
    pub(crate) last_stamp: AtomicU64,
}

/// The result of looking a key up in memory.
#[derive(Debug)]
pub(crate) enum Look<V> {
    Hit(Option<Arc<V>>),
    /// Usable, and to be loaded again in the background.
    Refresh(Option<Arc<V>>),
    /// Nothing, or a value that is only better than an error.
    Miss(Option<Entry<V>>),
}

impl<K: Key, V> Core<K, V> {
    /// Looks into memory.
    #[inline]
    pub(crate) fn look(&self, key: &K) -> Look<V> {
        // Only two fields are read: a copy of the entry waits until all of it is written.
        let found = self.memory.get(key);
        let Some(Entry { due_at, .. }) = found else {
            return Look::Miss(None);
        };
        // Values without an end do without a clock.
        if due_at == NEVER || self.now_ns() < due_at {
            self.metrics.hits.add();
            return Look::Hit(found.and_then(|entry| entry.value));
        }
        self.look_at_due(key, found)
    }

    /// Judges an entry that is not simply fresh.
    #[cold]
    fn look_at_due(&self, key: &K, found: Option<Entry<V>>) -> Look<V> {
        let Some(entry) = found else {
            return Look::Miss(None);
        };
        match self.lifetimes.judge(&entry, self.now_ns()) {
            Freshness::Fresh | Freshness::Due => {
                self.metrics.hits.add();
                Look::Refresh(entry.value)
            }
            Freshness::Stale => {
                self.metrics.stale_hits.add(1);
                Look::Refresh(entry.value)
            }
            Freshness::Fallback => Look::Miss(Some(entry)),
            Freshness::Dead => {
                self.memory.remove_stamp(key, entry.stamp);
                Look::Miss(None)
            }
        }
    }

    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    pub(crate) fn unix_us(&self) -> u64 {
        u64::try_from(self.clock.unix_time().as_micros()).unwrap_or(u64::MAX)
    }

    /// The present in microseconds since 1970, later than every stamp before in this process.
    pub(crate) fn stamp(&self) -> u64 {
        let now = self.unix_us();
        let next = |last: u64| Some(now.max(last + 1));
        let order = Ordering::SeqCst;
        let last = (self.last_stamp.fetch_update(order, order, next)).unwrap_or_else(|last| last);
        now.max(last + 1)
    }

    /// Puts an entry into memory, unless a notice came that the value has changed elsewhere since the flight began.
    pub(crate) fn place(&self, lead: &Lead<K, V>, entry: Entry<V>) {
        self.memory.insert(lead.key().clone(), entry);
        // A notice marks the flight before it removes the entry. One that came before this removed it too early.
        if lead.is_doubtful() {
            self.memory.remove(lead.key());
        }
    }

    /// Replaces or removes a value that only memory has. Returns the value if another write of the key is under way.
    pub(crate) fn overwrite_alone(&self, key: &K, value: NewValue<V>) -> Result<(), NewValue<V>> {
        // Code of the application, and the drop of its values, run outside the lock of the flights.
        let Some((value, ttl)) = value else {
            let removed = (self.flights).write_at_once(key, (), |()| self.memory.remove(key));
            return removed.map(drop).map_err(|()| None);
        };
        // Without a tier below, stamps are compared with those of this process only.
        let stamp = 1 + self.last_stamp.fetch_add(1, Ordering::Relaxed);
        let (entry, _) = self.entry(key, Some(value), ttl, stamp);
        let insert = |(key, entry)| self.memory.insert(key, entry);
        let inserted = (self.flights).write_at_once(key, (key.clone(), entry), insert);
        inserted
            .map(drop)
            .map_err(|(_, entry)| Some((entry.value?, ttl)))
    }

    /// Takes a notice of the server. Returns whether there will be more.
    pub(crate) fn take_notice(&self, notice: Invalidation) -> bool {
        let Some(lower) = &self.lower else {
            return false;
        };
        match notice {
            Invalidation::Key(bytes) => {
                if let Some(key) = lower.key_of(&bytes) {
                    lower.metrics.changed.add(1);
                    self.flights.doubt(&key);
                    lower.backlog().doubt(Some(&bytes));
                    self.memory.remove(&key);
                    if let Some(delay) = lower.end_wait(Some(&bytes)) {
                        lower.metrics.notices.record(delay);
                    }
                }
                true
            }
            Invalidation::Refused { .. } => false,
            // Anything may have changed.
            _ => {
                lower.metrics.gaps.add(1);
                self.flights.doubt_all();
                lower.backlog().doubt(None);
                lower.end_wait(None);
                self.memory.clear();
                true
            }
        }
    }

    /// A fresh entry for a value whose load began at `stamp`, and its time to live in nanoseconds.
    pub(crate) fn entry(
        &self,
        key: &K,
        value: Option<Arc<V>>,
        ttl: Option<Duration>,
        stamp: u64,
    ) -> (Entry<V>, u64) {
        let own = match (&value, &self.own_ttl) {
            (Some(value), Some(own)) if ttl.is_none() => own(key, value),
            _ => ttl,
        };
        let ttl_ns = self.lifetimes.draw(own, value.is_none(), stamp);
        // Values without an end do without a clock.
        let now = match ttl_ns {
            NEVER => 0,
            _ => self.now_ns(),
        };
        let fresh_until = now.saturating_add(ttl_ns);
        let refresh_at = self.lifetimes.refresh_at(now, ttl_ns, ttl_ns);
        let entry = Entry {
            weight: self.weight(key, value.as_deref()),
            value,
            fresh_until,
            due_at: fresh_until.min(refresh_at),
            stamp,
        };
        (entry, ttl_ns)
    }

    /// The entry for a value that another process may have written.
    pub(crate) fn entry_of(&self, key: &K, value: Option<Arc<V>>, times: Times) -> Entry<V> {
        let now = self.now_ns();
        let (fresh_until, refresh_at) = match times.fresh_until {
            NEVER => (NEVER, NEVER),
            until => {
                let unix = self.unix_us();
                let ttl = times.ttl.saturating_mul(US);
                // Clocks of other machines differ: nothing stays longer than the time to live.
                let left = until.saturating_sub(unix).saturating_mul(US).min(ttl);
                let over = unix.saturating_sub(until).saturating_mul(US);
                (
                    now.saturating_add(left).saturating_sub(over),
                    self.lifetimes.refresh_at(now, ttl, left),
                )
            }
        };
        Entry {
            weight: self.weight(key, value.as_deref()),
            value,
            fresh_until,
            due_at: fresh_until.min(refresh_at),
            stamp: times.stamp,
        }
    }

    fn weight(&self, key: &K, value: Option<&V>) -> u64 {
        let own = value.map_or(0, |value| (self.weigher)(key, value));
        // A key that owns memory holds about as much as its bytes.
        let held = match std::mem::needs_drop::<K>() {
            true => allocated(key.bytes().len()) as u64,
            false => 0,
        };
        own.saturating_add(held + Self::least_weight())
    }

    /// The weight of an entry whose value weighs nothing.
    pub(crate) const fn least_weight() -> u64 {
        (ENTRY_BYTES + size_of::<K>() + size_of::<Entry<V>>()) as u64
    }

    /// The write of an entry to the tier below, if it is to have one.
    pub(crate) fn put(
        &self,
        key_bytes: &[u8],
        entry: &Entry<V>,
        ttl_ns: u64,
        replaces: bool,
        token: Option<Token>,
    ) -> Option<Write> {
        let lower = self.lower.as_ref()?;
        if lower.mode == WriteMode::ReadOnly {
            return None;
        }
        let (times, ttl) = match ttl_ns {
            NEVER => (
                Times {
                    stamp: entry.stamp,
                    ttl: NEVER,
                    fresh_until: NEVER,
                },
                None,
            ),
            ns => {
                let times = Times {
                    stamp: entry.stamp,
                    ttl: ns / US,
                    fresh_until: self.unix_us().saturating_add(ns / US),
                };
                let kept = ns.saturating_add(self.lifetimes.kept_ns());
                (times, Some(Duration::from_nanos(kept)))
            }
        };
        let frame = lower.frame(key_bytes, entry.value.as_deref(), times);
        match frame {
            Some(frame) => Some(Write::Put {
                frame,
                ttl,
                replaces,
                token,
            }),
            // The older value must go even if the new one cannot be written.
            None => replaces.then_some(Write::Delete),
        }
    }

    /// Whether values are ever loaded again in the background.
    pub(crate) fn refreshes(&self) -> bool {
        self.lifetimes.refresh_after.is_some() || !self.lifetimes.stale_for.is_zero()
    }

    /// Whether this process writes to the tier below.
    pub(crate) fn writes_below(&self) -> bool {
        let lower = self.lower.as_ref();
        lower.is_some_and(|lower| lower.mode != WriteMode::ReadOnly)
    }

    /// Tells of an error of the tier below.
    pub(crate) fn note(&self, error: &Error) {
        let lower = self.lower.as_ref();
        if let Some(note) = lower.and_then(|lower| lower.on_error.as_ref()) {
            note(error);
        }
    }

    /// The reason of an error of the tier below, which is reported.
    pub(crate) fn failed(&self, error: Error) -> Failure {
        self.note(&error);
        error.into()
    }

    /// Whether processes share the tier below.
    pub(crate) fn is_shared(&self) -> bool {
        self.lower.as_ref().is_some_and(|lower| lower.is_shared)
    }

    pub(crate) fn worth(&self) -> Option<Worth> {
        self.lower.as_ref()?.ledger.worth()
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = self.metrics.stats();
        stats.entries = self.memory.len();
        stats.bytes = self.memory.bytes();
        stats.budget_bytes = self.memory.budget();
        stats.tier = self.lower.as_ref().map(Lower::stats);
        stats
    }
}

/// The bytes that a text of `value_bytes` takes in the memory of a cache, with a text of `key_bytes` for its key (0: a
/// number) and the bytes of the cache itself.
#[must_use]
pub fn entry_bytes(key_bytes: u64, value_bytes: u64) -> u64 {
    let held = |bytes: u64| allocated(usize::try_from(bytes).unwrap_or(usize::MAX)) as u64;
    let value = held((ARC_BYTES + size_of::<String>()) as u64) - ARC_BYTES as u64;
    let key = if key_bytes == 0 {
        size_of::<u64>()
    } else {
        size_of::<String>()
    };
    let own = Core::<u64, String>::least_weight() - size_of::<u64>() as u64;
    (own + value + key as u64)
        .saturating_add(held(key_bytes))
        .saturating_add(held(value_bytes))
}

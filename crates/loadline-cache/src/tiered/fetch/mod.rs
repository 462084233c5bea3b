//! The way of keys through the tiers, without waiting for anything.
//!
//! A [`Fetch`] is the state of one call. Its caller performs the [`Work`] that it asks for, in a loop.

mod hedged;
mod leases;
mod reads;
pub(super) mod writes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::leases::Lease;
pub(crate) use self::leases::{Leasing, Release};
pub(crate) use self::reads::Question;
use self::writes::Writes;
use super::backlog::Write;
use super::core::{Core, Look};
use super::entry::{Entry, Freshness};
use super::explain::{Found, Step};
use super::flights::{Flight, Joined, Lead, Outcome};
use super::key::Key;
use super::lower::{Lower, WriteMode};
use super::metrics::Held;
use super::trace;
use crate::LoadError;

/// The result for one key.
pub(crate) type Answered<V> = Result<Option<Arc<V>>, LoadError>;

/// The keys of one call.
pub(crate) struct Fetch<K: Key, V> {
    slots: Vec<Slot<K, V>>,
}

struct Slot<K: Key, V> {
    key: K,
    /// The key in the tier below.
    bytes: Vec<u8>,
    lead: Option<Lead<K, V>>,
    wait: Option<Arc<Flight<V>>>,
    /// The entry that memory had at the beginning, or the tier below: older than its time to live.
    older: Option<Entry<V>>,
    /// Whether only what is newer than `older` is an answer.
    is_refresh: bool,
    was_asked: bool,
    is_in_no_backlog: bool,
    /// Whether the tier below is bypassed.
    is_bypassed: bool,
    /// Whether the tier below has just kept this call waiting without a result.
    was_slow: bool,
    /// Whether the tier below has answered, or failed at once, as where the key holds a list.
    was_read: bool,
    lease: Lease,
    /// Start of the lease of another process, and the number of questions to the tier since then.
    leased_since: Option<Instant>,
    polls: u32,
    stamp: u64,
    write: Option<Write>,
    answer: Option<Answered<V>>,
    /// Whether the caller is to have the value loaded again in the background.
    refresh: bool,
    steps: Vec<Step>,
}

/// A load that the application performs.
pub(crate) struct Loading<'c> {
    slot: usize,
    _in_flight: Held<'c>,
}

/// The next thing that a call needs.
pub(crate) enum Work<'c, V> {
    /// A read of the tier below.
    Ask(Question<'c>),
    Lease(Leasing<'c>),
    /// A load, and perhaps others ([`Core::load`]).
    Load(Loading<'c>),
    Write(Writes<'c>),
    Release(Release),
    /// A pause before [`Core::poll`].
    Pause(Duration),
    /// The outcome of another call.
    Wait(usize, Arc<Flight<V>>),
}

impl<K: Key, V> Fetch<K, V> {
    /// Keys of a question, in its order.
    pub(crate) fn keys<'a>(&'a self, question: &Question<'_>) -> Vec<&'a [u8]> {
        let slots = question.slots.iter();
        slots.map(|slot| &self.slots[*slot].bytes[..]).collect()
    }

    pub(crate) fn key(&self, loading: &Loading<'_>) -> &K {
        &self.slots[loading.slot].key
    }

    /// Another call to wait for, once there is nothing else to do.
    fn next_wait(&self) -> Option<(usize, Arc<Flight<V>>)> {
        let slots = self.slots.iter().enumerate();
        let mut waiting = slots.filter_map(|(index, slot)| Some((index, slot.wait.clone()?)));
        waiting.next()
    }

    /// Keys whose values are due for a refresh.
    pub(crate) fn due(&self) -> impl Iterator<Item = &K> {
        let due = self.slots.iter().filter(|slot| slot.refresh);
        due.map(|slot| &slot.key)
    }

    /// The results, in the order of the keys.
    pub(crate) fn into_answers(self) -> Vec<Answered<V>> {
        let answers = self.slots.into_iter().map(|slot| slot.answer);
        answers
            .map(|answer| answer.expect("every key was answered"))
            .collect()
    }

    /// The steps of the first key.
    pub(crate) fn take_steps(&mut self) -> Vec<Step> {
        self.slots
            .first_mut()
            .map_or_else(Vec::new, |slot| std::mem::take(&mut slot.steps))
    }
}

impl<K: Key, V> Slot<K, V> {
    fn new(key: &K, bytes: Vec<u8>) -> Self {
        Self {
            key: key.clone(),
            bytes,
            lead: None,
            wait: None,
            older: None,
            is_refresh: false,
            was_asked: false,
            is_in_no_backlog: false,
            is_bypassed: false,
            was_slow: false,
            was_read: false,
            lease: Lease::None,
            leased_since: None,
            polls: 0,
            stamp: 0,
            write: None,
            answer: None,
            refresh: false,
            steps: Vec::new(),
        }
    }

    fn is_open(&self) -> bool {
        self.lead.is_some() && self.answer.is_none()
    }

    /// Whether the tier below is still to be asked.
    fn asks(&self) -> bool {
        self.is_open() && !self.was_asked
    }

    /// Answers the key, and everyone who waits for it. Without a write to come, the flight ends.
    fn finish(&mut self, answer: Answered<V>) {
        if let Some(lead) = &self.lead {
            lead.answer(match &answer {
                Ok(value) => Outcome::Value(value.clone()),
                Err(error) => Outcome::Failed(error.clone()),
            });
        }
        self.answer = Some(answer);
        if self.write.is_none() {
            self.lead = None;
        }
    }

    /// Notes a step for `explain`.
    fn step(&mut self, found: Found, elapsed: Option<Duration>) {
        trace::step(found, elapsed);
        self.steps.push(Step { found, elapsed });
    }
}

impl<K: Key, V> Core<K, V> {
    /// Begins to look for keys.
    pub(crate) fn fetch<'k>(&self, keys: impl Iterator<Item = &'k K>) -> Fetch<K, V> {
        let slots = keys.map(|key| {
            let mut slot = Slot::new(key, self.tier_key(key));
            self.admit(&mut slot);
            slot
        });
        Fetch {
            slots: slots.collect(),
        }
    }

    /// Begins to look for a newer value than the one in memory, unless this happens already.
    pub(crate) fn refresh(&self, key: &K) -> Option<Fetch<K, V>> {
        let Joined::Lead(lead) = self.flights.join(key) else {
            return None;
        };
        // Another refresh may have ended just before.
        if let Some(entry) = self.memory.get(key)
            && self.lifetimes.judge(&entry, self.now_ns()) == Freshness::Fresh
        {
            return None;
        }
        let mut slot = Slot::new(key, self.tier_key(key));
        slot.lead = Some(lead);
        slot.older = self.memory.get(key);
        slot.is_refresh = true;
        Some(Fetch { slots: vec![slot] })
    }

    /// The next thing to be done for a call, or `None` if all its keys are answered.
    pub(crate) fn next(&self, fetch: &mut Fetch<K, V>) -> Option<Work<'_, V>> {
        if let Some(question) = self.question(fetch) {
            return Some(Work::Ask(question));
        }
        if let Some(leasing) = self.leasing(fetch) {
            return Some(Work::Lease(leasing));
        }
        if let Some(loading) = self.load(fetch) {
            return Some(Work::Load(loading));
        }
        if let Some(writes) = self.writes(fetch) {
            return Some(Work::Write(writes));
        }
        if let Some(release) = self.release(fetch) {
            return Some(Work::Release(release));
        }
        if let Some(pause) = self.pause(fetch) {
            return Some(Work::Pause(pause));
        }
        let (index, flight) = fetch.next_wait()?;
        Some(Work::Wait(index, flight))
    }

    fn tier_key(&self, key: &K) -> Vec<u8> {
        let lower = self.lower.as_ref();
        lower.map_or_else(Vec::new, |lower| lower.key(&key.bytes()))
    }

    /// Takes a key from memory, or begins or joins a flight.
    fn admit(&self, slot: &mut Slot<K, V>) {
        if self.take_from_memory(slot) {
            return;
        }
        match self.flights.join(&slot.key) {
            Joined::Lead(lead) => {
                // A flight may have ended between the look and this one.
                if self.take_from_memory(slot) {
                    return;
                }
                self.metrics.misses.add(1);
                slot.step(Found::NotInMemory, None);
                slot.lead = Some(lead);
            }
            Joined::Wait(flight) => {
                self.metrics.misses.add(1);
                self.metrics.waited.add(1);
                slot.step(Found::Waits, None);
                slot.wait = Some(flight);
            }
        }
    }

    fn take_from_memory(&self, slot: &mut Slot<K, V>) -> bool {
        match self.look(&slot.key) {
            Look::Hit(value) => {
                slot.step(Found::InMemory, None);
                slot.answer = Some(Ok(value));
            }
            Look::Refresh(value) => {
                slot.step(Found::InMemoryDue, None);
                slot.answer = Some(Ok(value));
                slot.refresh = true;
            }
            Look::Miss(older) => {
                slot.older = older;
                return false;
            }
        }
        true
    }

    /// Begins the next load.
    pub(crate) fn load(&self, fetch: &mut Fetch<K, V>) -> Option<Loading<'_>> {
        let mut slots = fetch.slots.iter_mut().enumerate();
        let (index, slot) =
            slots.find(|(_, slot)| slot.is_open() && slot.stamp == 0 && slot.may_load())?;
        slot.stamp = self.stamp();
        Some(Loading {
            slot: index,
            _in_flight: self.metrics.loading.hold(),
        })
    }

    /// Takes the result of a load.
    pub(crate) fn loaded(
        &self,
        fetch: &mut Fetch<K, V>,
        loading: Loading<'_>,
        result: Result<Option<V>, LoadError>,
        elapsed: Duration,
    ) {
        let Loading { slot, _in_flight } = loading;
        let slot = &mut fetch.slots[slot];
        self.metrics.loads.record(elapsed);
        let value = match result {
            Ok(value) => value.map(Arc::new),
            Err(error) => {
                self.metrics.load_errors.add(1);
                slot.step(Found::LoadFailed, Some(elapsed));
                let answer = self.fall_back(slot.older.take(), error);
                slot.finish(answer);
                return;
            }
        };
        let seen = match value {
            Some(_) => Found::Loaded,
            None => Found::Absent,
        };
        slot.step(seen, Some(elapsed));
        if let Some(lower) = &self.lower {
            lower.ledger.loaded(elapsed);
            lower.saw_load(elapsed);
        }
        if slot.lead.as_ref().is_some_and(Lead::begin_writing) {
            self.keep(slot, value.clone(), elapsed);
        }
        slot.finish(Ok(value));
    }

    /// Puts a loaded value into memory, and says what is to be written below.
    fn keep(&self, slot: &mut Slot<K, V>, value: Option<Arc<V>>, cost: Duration) {
        if value.is_none() && self.lifetimes.absent_ttl.is_none() {
            self.memory.remove(&slot.key);
            return;
        }
        let (entry, ttl) = self.entry(&slot.key, value, None, slot.stamp);
        if let Some(lower) = &self.lower {
            // A tier that was slow to fail would keep the caller waiting for a write as well.
            let is_left_out = slot.was_slow && lower.mode == WriteMode::Through;
            let is_selected = match (&lower.select, &entry.value) {
                (Some(select), Some(value)) => select(&slot.key, value, cost),
                _ => true,
            };
            // Without the lease, it could be from before an invalidation by another process.
            let token = slot.lease.token();
            let is_known = token.is_some() || !lower.is_shared;
            if slot.lease == Lease::Without {
                slot.step(Found::NotWritten, None);
            }
            if is_selected && !slot.is_bypassed && !is_left_out && is_known {
                slot.write = self.put(&slot.bytes, &entry, ttl, false, token);
                self.defer(lower, slot);
            }
        }
        if let Some(lead) = &slot.lead {
            self.place(lead, entry);
        }
    }

    /// Leaves a write to the background, where the tier is written behind.
    fn defer(&self, lower: &Lower<K, V>, slot: &mut Slot<K, V>) {
        if lower.mode == WriteMode::Behind
            && let Some(write) = slot.write.take()
        {
            lower.backlog().push(&slot.bytes, write, self.stamp());
        }
    }

    /// The value past its time to live, if it is still allowed, or else the error.
    fn fall_back(&self, older: Option<Entry<V>>, error: LoadError) -> Answered<V> {
        match older {
            Some(entry) if self.lifetimes.judge(&entry, self.now_ns()) != Freshness::Dead => {
                self.metrics.fallbacks.add(1);
                Ok(entry.value)
            }
            _ => Err(error),
        }
    }

    /// Takes the outcome of a call that was waited for.
    pub(crate) fn waited(&self, fetch: &mut Fetch<K, V>, index: usize, outcome: Outcome<V>) {
        let slot = &mut fetch.slots[index];
        slot.wait = None;
        match outcome {
            Outcome::Value(value) => slot.finish(Ok(value)),
            Outcome::Failed(error) => {
                let answer = self.fall_back(slot.older.take(), error);
                slot.finish(answer);
            }
            Outcome::Again => self.admit(slot),
        }
    }
}

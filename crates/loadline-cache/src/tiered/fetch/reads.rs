//! Reads of the tier below: which keys are asked for at once, and what its answers mean.

use std::sync::Arc;
use std::time::Duration;

use super::super::backlog::Write;
use super::super::breaker::RequestKind;
use super::super::core::Core;
use super::super::explain::Found;
use super::super::failure::Failure;
use super::super::key::Key;
use super::super::lower::{Decoded, Lower, TierRead, Why};
use super::super::metrics::Held;
use super::{Fetch, Slot};

/// A read of the tier below.
pub(crate) struct Question<'c> {
    pub(super) slots: Vec<usize>,
    _in_flight: Held<'c>,
}

impl<K: Key, V> Core<K, V> {
    /// The next read of the tier below: as many keys as fit into a batch.
    pub(super) fn question(&self, fetch: &mut Fetch<K, V>) -> Option<Question<'_>> {
        let lower = self.lower.as_ref()?;
        for slot in fetch.slots.iter_mut().filter(|slot| slot.asks()) {
            if !slot.is_in_no_backlog {
                slot.is_in_no_backlog = true;
                if !(lower.keeps)(&slot.bytes) {
                    (slot.was_asked, slot.is_bypassed) = (true, true);
                    lower.metrics.unfit_keys.add(1);
                    slot.step(Found::UnfitKey, None);
                    continue;
                }
                slot.was_asked = self.answer_from_backlog(lower, slot);
                if !slot.was_asked && lower.ledger.bypasses(&slot.bytes) {
                    (slot.was_asked, slot.is_bypassed) = (true, true);
                    lower.metrics.bypassed.add(1);
                    slot.step(Found::Bypassed, None);
                }
            }
        }
        let open = fetch
            .slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.asks());
        let slots: Vec<usize> = (open.map(|(index, _)| index).take(lower.batch_len())).collect();
        if slots.is_empty() {
            return None;
        }
        if lower.hedge.as_ref().is_some_and(|hedge| hedge.is_overdue()) {
            Self::skip(lower, fetch, Found::Overdue);
            return None;
        }
        if !(lower.breaker()).permits(RequestKind::Reads, self.clock.now()) {
            Self::skip(lower, fetch, Found::NotAsked);
            return None;
        }
        for slot in &slots {
            fetch.slots[*slot].was_asked = true;
        }
        Some(Question {
            slots,
            _in_flight: lower.metrics.in_flight.hold(),
        })
    }

    /// Leaves out the tier below for all keys that it was not asked for yet.
    fn skip(lower: &Lower<K, V>, fetch: &mut Fetch<K, V>, why: Found) {
        for slot in fetch.slots.iter_mut().filter(|slot| slot.asks()) {
            slot.was_asked = true;
            // A write would wait as long as the reads.
            slot.was_slow |= why == Found::Overdue;
            lower.metrics.not_asked.add(1);
            slot.step(why, None);
        }
    }

    /// Takes the value of a key that the tier does not have yet. Returns whether the tier need not be asked.
    fn answer_from_backlog(&self, lower: &Lower<K, V>, slot: &mut Slot<K, V>) -> bool {
        let backlog = lower.backlog();
        let Some(write) = backlog.look(&slot.bytes).cloned() else {
            return false;
        };
        drop(backlog);
        match write {
            Write::Delete => slot.step(Found::Invalidated, None),
            Write::Put { frame, .. } => {
                let decoded = lower.decode(&slot.bytes, Some(&frame), self.unix_us());
                self.take_found(lower, slot, decoded, None, None);
            }
        }
        true
    }

    /// Takes the answer to a question: values in the order of its keys.
    pub(crate) fn answered(
        &self,
        fetch: &mut Fetch<K, V>,
        question: Question<'_>,
        values: Result<Vec<Option<Vec<u8>>>, Failure>,
        elapsed: Duration,
    ) {
        let lower = self.lower.as_ref().expect("a tier was asked");
        let decoded = values.map(|values| {
            let both = fetch.keys(&question).into_iter().zip(&values);
            both.map(|(key, value)| lower.decode(key, value.as_deref(), self.unix_us()))
                .collect()
        });
        self.decoded(fetch, question, decoded, elapsed);
    }

    /// The same with values that were decoded where they were received. `elapsed` is the time without it.
    pub(crate) fn decoded(
        &self,
        fetch: &mut Fetch<K, V>,
        question: Question<'_>,
        values: Result<Vec<Decoded<V>>, Failure>,
        elapsed: Duration,
    ) {
        let lower = self.lower.as_ref().expect("a tier was asked");
        lower.metrics.gets.record(elapsed);
        lower.report(RequestKind::Reads, &values, elapsed, self.clock.now());
        let Ok(values) = values else {
            lower.metrics.get_errors.add(1);
            let was_slow = elapsed >= lower.timeout / 2;
            for slot in &mut fetch.slots {
                slot.was_slow |= was_slow;
            }
            for slot in question.slots {
                let slot = &mut fetch.slots[slot];
                if slot.answer.is_some() {
                    continue;
                }
                lower.ledger.failed(&slot.bytes, elapsed);
                slot.was_read = !was_slow;
                slot.step(lower.failure(elapsed), Some(elapsed));
            }
            // The other batches of this call would wait just as long.
            Self::skip(lower, fetch, Found::NotAsked);
            return;
        };
        if let Some(hedge) = &lower.hedge {
            hedge.record(question.slots.len(), elapsed);
        }
        let share = elapsed / question.slots.len().max(1) as u32;
        let values = values
            .into_iter()
            .map(Some)
            .chain(std::iter::repeat_with(|| None));
        for (index, decoded) in question.slots.into_iter().zip(values) {
            let slot = &mut fetch.slots[index];
            // Loaded beside the read.
            if slot.answer.is_some() {
                continue;
            }
            slot.was_read = true;
            let share = (!slot.is_repeated()).then_some(share);
            let decoded = decoded.unwrap_or_else(Decoded::missing);
            self.take_found(lower, slot, decoded, Some(elapsed), share);
        }
    }

    /// Takes what the tier has at a key. `elapsed` is the time of the request, of which `share` is that of this key.
    pub(super) fn take_found(
        &self,
        lower: &Lower<K, V>,
        slot: &mut Slot<K, V>,
        decoded: Decoded<V>,
        elapsed: Option<Duration>,
        share: Option<Duration>,
    ) {
        let newest = slot.older.as_ref().map(|older| older.stamp);
        let Decoded { found, took } = decoded;
        // Looking again after the lease was asked for is no step of its own, unless it finds the value.
        if slot.is_repeated() && !matches!(found, TierRead::Value(..)) {
            return;
        }
        if let Some(share) = share {
            match found {
                TierRead::Value(..) => lower.ledger.hit(&slot.bytes, share + took),
                _ => lower.ledger.miss(&slot.bytes, share + took),
            }
        }
        match found {
            TierRead::Value(value, times)
                if !(slot.is_refresh && newest.is_some_and(|newest| times.stamp <= newest)) =>
            {
                lower.metrics.hits.add(1);
                slot.step(Found::InTier, elapsed);
                let value = value.map(Arc::new);
                let entry = self.entry_of(&slot.key, value.clone(), times);
                if let Some(lead) = slot.lead.as_ref().filter(|lead| lead.begin_writing()) {
                    self.place(lead, entry);
                }
                slot.finish(Ok(value));
                return;
            }
            TierRead::Value(..) if slot.is_repeated() => return,
            TierRead::Value(..) => slot.step(Found::NotNewer, elapsed),
            TierRead::Expired(value, times) => {
                slot.step(Found::Expired, elapsed);
                let over = self.unix_us().saturating_sub(times.fresh_until);
                let is_kept = over <= self.lifetimes.kept_ns() / 1_000;
                if is_kept && value.is_some() && newest.is_none_or(|newest| newest < times.stamp) {
                    slot.older = Some(self.entry_of(&slot.key, value.map(Arc::new), times));
                }
            }
            TierRead::Nothing(why) => slot.step(
                match why {
                    Why::Missing => Found::NotInTier,
                    Why::Damaged => Found::Damaged,
                    Why::OtherVersion => Found::OtherVersion,
                    Why::Outdated => Found::Outdated,
                },
                elapsed,
            ),
        }
        lower.metrics.misses.add(1);
    }
}

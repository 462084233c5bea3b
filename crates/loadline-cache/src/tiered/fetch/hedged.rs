//! Loads beside the read of a [`Fetch`] that is still under way.

use std::time::Duration;

use super::super::breaker::RequestKind;
use super::super::core::Core;
use super::super::explain::Found;
use super::super::failure::Failure;
use super::super::hedge::LateRead;
use super::super::key::Key;
use super::{Fetch, Loading, Question};
use crate::LoadError;

impl<K: Key, V> Fetch<K, V> {
    /// Whether the key of a load has its answer.
    pub(crate) fn is_answered(&self, loading: &Loading<'_>) -> bool {
        self.slots[loading.slot].answer.is_some()
    }

    /// Whether a load has begun whose key has no answer.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_loading(&self) -> bool {
        let mut slots = self.slots.iter();
        slots.any(|slot| slot.is_open() && slot.stamp != 0)
    }
}

impl<K: Key, V> Core<K, V> {
    /// Time to wait for the answer to a question before its values are loaded as well. `None`: until the timeout.
    pub(crate) fn patience(&self, question: &Question<'_>) -> Option<Duration> {
        let hedge = self.lower.as_ref()?.hedge.as_ref()?;
        hedge.patience(question.slots.len())
    }

    /// Notes that a question has waited for `elapsed`, and that its values are loaded from here on.
    pub(crate) fn hedge(
        &self,
        fetch: &mut Fetch<K, V>,
        question: &Question<'_>,
        elapsed: Duration,
    ) -> LateRead {
        let lower = self.lower.as_ref().expect("a tier was asked");
        let hedge = lower.hedge.as_ref().expect("its reads have a deadline");
        for slot in &question.slots {
            fetch.slots[*slot].step(Found::TierSlow, Some(elapsed));
        }
        lower.metrics.hedges.add(1);
        hedge.late()
    }

    /// Begins the next load beside the read of a question.
    pub(crate) fn load_beside(
        &self,
        fetch: &mut Fetch<K, V>,
        question: &Question<'_>,
    ) -> Option<Loading<'_>> {
        let mut slots = question.slots.iter();
        let slot = *slots.find(|slot| {
            let slot = &fetch.slots[**slot];
            slot.is_open() && slot.stamp == 0
        })?;
        fetch.slots[slot].stamp = self.stamp();
        Some(Loading {
            slot,
            _in_flight: self.metrics.loading.hold(),
        })
    }

    /// Takes a value that was loaded before the read has ended.
    pub(crate) fn loaded_beside(
        &self,
        fetch: &mut Fetch<K, V>,
        loading: Loading<'_>,
        value: Option<V>,
        elapsed: Duration,
    ) {
        // A write would be as slow.
        fetch.slots[loading.slot].was_slow = true;
        self.loaded(fetch, loading, Ok(value), elapsed);
    }

    /// Takes the result of a load once the read has ended, unless the read has answered its key.
    pub(crate) fn loaded_late(
        &self,
        fetch: &mut Fetch<K, V>,
        loading: Loading<'_>,
        result: Result<Option<V>, LoadError>,
        elapsed: Duration,
    ) {
        if !fetch.is_answered(&loading) {
            self.loaded(fetch, loading, result, elapsed);
        }
    }

    /// All values of a question were loaded before its read has ended. The read is left to itself.
    pub(crate) fn loads_won(&self) {
        if let Some(lower) = &self.lower {
            lower.metrics.hedges_won.add(1);
        }
    }

    /// Takes the end of a read of `keys` keys that was left to itself.
    pub(crate) fn read_late<T>(&self, keys: usize, result: &Result<T, Failure>, elapsed: Duration) {
        let Some(lower) = &self.lower else {
            return;
        };
        lower.metrics.gets.record(elapsed);
        lower.report(RequestKind::Reads, result, elapsed, self.clock.now());
        match &lower.hedge {
            Some(hedge) if result.is_ok() => hedge.record(keys, elapsed),
            _ => lower.metrics.get_errors.add(1),
        }
    }
}

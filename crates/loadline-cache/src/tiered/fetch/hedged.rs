//! A load beside the read of a [`Fetch`] that is still under way.

use std::time::Duration;

use super::super::core::Core;
use super::super::explain::Found as Seen;
use super::super::hedge::LateRead;
use super::super::key::Key;
use super::{Fetch, Loading, Question};
use crate::LoadError;

impl<K: Key, V> Fetch<K, V> {
    /// Whether the key of a load has its answer.
    pub(crate) fn is_answered(&self, loading: &Loading<'_>) -> bool {
        self.slots[loading.slot].answer.is_some()
    }
}

impl<K: Key, V> Core<K, V> {
    /// How long to wait for the answer to a question before its value is loaded as well. `None`: until the timeout. That
    /// holds for several keys, too, whose loads could take much longer than the read.
    pub(crate) fn patience(&self, question: &Question<'_>) -> Option<Duration> {
        let hedge = self.lower.as_ref()?.hedge.as_ref()?;
        match question.slots[..] {
            [_] => hedge.patience(),
            _ => None,
        }
    }

    /// Begins to load the key of a question that has waited for `elapsed`.
    pub(crate) fn hedge(
        &self,
        fetch: &mut Fetch<K, V>,
        question: &Question<'_>,
        elapsed: Duration,
    ) -> (Loading<'_>, LateRead) {
        let lower = self.lower.as_ref().expect("a tier was asked");
        let hedge = lower.hedge.as_ref().expect("its reads have a deadline");
        let slot = question.slots[0];
        fetch.slots[slot].stamp = self.stamp();
        fetch.slots[slot].step(Seen::TierSlow, Some(elapsed));
        lower.metrics.hedges.add(1);
        let loading = Loading {
            slot,
            _in_flight: self.metrics.loading.hold(),
        };
        (loading, hedge.late())
    }

    /// Takes the value of a load that ended before the read. The read is left to itself.
    pub(crate) fn load_won(
        &self,
        fetch: &mut Fetch<K, V>,
        loading: Loading<'_>,
        result: Result<Option<V>, LoadError>,
        elapsed: Duration,
    ) {
        if let Some(lower) = &self.lower {
            lower.metrics.hedges_won.add(1);
        }
        // A write would be as slow.
        fetch.slots[loading.slot].was_slow = true;
        self.loaded(fetch, loading, result, elapsed);
    }

    /// Takes the end of a read that was left to itself.
    pub(crate) fn read_late(&self, succeeded: bool, elapsed: Duration) {
        let Some(lower) = &self.lower else {
            return;
        };
        lower.metrics.gets.record(elapsed);
        lower.report(succeeded, elapsed, self.clock.now());
        match &lower.hedge {
            Some(hedge) if succeeded => hedge.record(elapsed),
            _ => lower.metrics.get_errors.add(1),
        }
    }
}

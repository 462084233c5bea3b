//! The writes of a [`Fetch`] to the tier below, and those of the backlog.

use std::sync::Arc;
use std::time::Duration;

use super::super::backlog::Write;
use super::super::breaker::RequestKind;
use super::super::core::{Core, NewValue};
use super::super::explain::Found;
use super::super::failure::Failure;
use super::super::flights::{Flight, Lead};
use super::super::frame::stamp_of;
use super::super::key::Key;
use super::super::lower::{Lower, WriteMode, Written};
use super::super::metrics::Held;
use super::{Fetch, Lease, Slot};

/// Writes to the tier below.
pub(crate) struct Writes<'c> {
    slots: Vec<usize>,
    pub(crate) writes: Vec<(Vec<u8>, Write)>,
    _in_flight: Held<'c>,
}

/// Writes from the backlog. Dropped before they are done, they wait again.
pub(crate) struct Drain<'c, K: Key, V> {
    core: &'c Core<K, V>,
    lower: &'c Lower<K, V>,
    pub(crate) writes: Vec<(Vec<u8>, Write)>,
    kind: RequestKind,
    flight: Arc<Flight<()>>,
    succeeded: bool,
    _in_flight: Held<'c>,
}

impl<K: Key, V> Drain<'_, K, V> {
    /// The writes of another caller, if it has all there are.
    pub(crate) fn other(&self) -> Option<Arc<Flight<()>>> {
        self.writes.is_empty().then(|| Arc::clone(&self.flight))
    }

    /// Ends the writes, and returns whether there can be more.
    pub(crate) fn written(mut self, result: Written, elapsed: Duration) -> bool {
        let metrics = &self.lower.metrics;
        metrics.puts.record(elapsed);
        let now = self.core.clock.now();
        self.lower.report(self.kind, &result, elapsed, now);
        self.succeeded = result.is_ok();
        match result {
            Ok(overtaken) => {
                let overtaken = overtaken.into_iter();
                overtaken.for_each(|place| self.overtaken(place));
            }
            Err(_) => {
                metrics.put_errors.add(1);
                self.lower.end_wait(None);
            }
        }
        self.succeeded
    }
}

impl<K: Key, V> Drain<'_, K, V> {
    /// Drops a value from memory that the tier has refused.
    fn overtaken(&self, place: usize) {
        let (bytes, write) = &self.writes[place];
        self.lower.overtaken(bytes);
        if let Write::Put { frame, .. } = write
            && let (Some(key), Some(stamp)) = (self.lower.key_of(bytes), stamp_of(frame))
        {
            self.core.memory.remove_stamp(&key, stamp);
        }
    }
}

impl<K: Key, V> Lower<K, V> {
    /// Notes that the tier has refused a value.
    fn overtaken(&self, bytes: &[u8]) {
        self.metrics.overtaken.add(1);
        self.end_wait(Some(bytes));
    }
}

impl<K: Key, V> Drop for Drain<'_, K, V> {
    fn drop(&mut self) {
        // Another drain has the writes.
        if self.writes.is_empty() {
            return;
        }
        let stamp = self.core.stamp();
        (self.lower.backlog()).finish(self.succeeded, stamp);
        self.flight.close();
    }
}

impl<K: Key, V> Core<K, V> {
    /// Begins to replace the value of a key, whose flight is `lead`, or to remove it.
    pub(crate) fn overwrite(&self, key: &K, lead: Lead<K, V>, value: NewValue<V>) -> Fetch<K, V> {
        let mut slot = Slot::new(key, self.tier_key(key));
        match value {
            Some((value, ttl)) => {
                let (entry, ttl) = self.entry(key, Some(value), ttl, self.stamp());
                slot.write = self.put(&slot.bytes, &entry, ttl, true, None);
                self.place(&lead, entry);
            }
            None => {
                self.memory.remove(key);
                let writes = self.lower.as_ref().map(|lower| lower.mode);
                if writes.is_some_and(|mode| mode != WriteMode::ReadOnly) {
                    slot.write = Some(Write::Delete);
                }
            }
        }
        slot.lead = Some(lead);
        if let Some(lower) = &self.lower {
            // The tier has no value that could be older.
            if !(lower.keeps)(&slot.bytes) {
                slot.write = None;
            }
            self.defer(lower, &mut slot);
        }
        slot.answer = Some(Ok(None));
        if slot.write.is_none() {
            slot.lead = None;
        }
        Fetch { slots: vec![slot] }
    }

    /// The next writes to the tier below: as many bytes as fit into a batch.
    pub(super) fn writes(&self, fetch: &mut Fetch<K, V>) -> Option<Writes<'_>> {
        let lower = self.lower.as_ref()?;
        let (mut slots, mut writes, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (index, slot) in fetch.slots.iter_mut().enumerate() {
            let Some(write) = &slot.write else {
                continue;
            };
            let own = match write {
                Write::Put { frame, .. } => frame.len(),
                Write::Delete => 0,
            };
            if !writes.is_empty() && bytes + own > lower.batch_bytes {
                break;
            }
            bytes += own;
            // From here on until it is done, the tier's older value is not believed.
            self.distrust(lower, &slot.bytes, write);
            let write = slot.write.take().expect("there is one");
            writes.push((slot.bytes.clone(), write));
            slots.push(index);
        }
        if writes.is_empty() {
            return None;
        }
        let permits = |kind| lower.breaker().permits(kind, self.clock.now());
        if !permits(kind_of(&writes)) {
            lower.metrics.not_written.add(writes.len());
            slots
                .into_iter()
                .for_each(|slot| fetch.slots[slot].lead = None);
            self.give_up_writes(lower, fetch);
            return None;
        }
        lower.metrics.written_bytes.add(bytes);
        lower.await_notice(&writes);
        Some(Writes {
            slots,
            writes,
            _in_flight: lower.metrics.in_flight.hold(),
        })
    }

    /// Remembers that the tier below may have an older value than `write`.
    fn distrust(&self, lower: &Lower<K, V>, bytes: &[u8], write: &Write) {
        if !matches!(
            write,
            Write::Put {
                replaces: false,
                ..
            }
        ) {
            lower.backlog().push(bytes, Write::Delete, self.stamp());
        }
    }

    /// Leaves out all writes that are left.
    fn give_up_writes(&self, lower: &Lower<K, V>, fetch: &mut Fetch<K, V>) {
        for slot in &mut fetch.slots {
            if let Some(write) = slot.write.take() {
                self.distrust(lower, &slot.bytes, &write);
                slot.lead = None;
            }
        }
    }

    /// Takes the result of writes.
    pub(crate) fn written(
        &self,
        fetch: &mut Fetch<K, V>,
        writes: Writes<'_>,
        result: &Written,
        elapsed: Duration,
    ) {
        let Writes {
            slots,
            writes,
            _in_flight,
        } = writes;
        let succeeded = result.is_ok();
        let lower = self.lower.as_ref().expect("a tier was written to");
        lower.metrics.puts.record(elapsed);
        let (kind, now) = (kind_of(&writes), self.clock.now());
        lower.report(kind, result, elapsed, now);
        match succeeded {
            true => lower.ledger.written(writes.len(), elapsed),
            false => {
                lower.metrics.put_errors.add(1);
                lower.end_wait(None);
            }
        }
        for (place, (index, (key, write))) in slots.into_iter().zip(&writes).enumerate() {
            let slot = &mut fetch.slots[index];
            if succeeded {
                // The write has ended it, or what overtook the write.
                slot.lease = Lease::Without;
            }
            let seen = match result {
                Ok(overtaken) if overtaken.contains(&place) => {
                    lower.overtaken(key);
                    self.memory.remove_stamp(&slot.key, slot.stamp);
                    Found::Overtaken
                }
                Ok(_) => {
                    lower.backlog().forget(key);
                    Found::Written
                }
                // It can happen after a later invalidation, so it is to be removed, unless its lease ends by then.
                Err(Failure::Opaque | Failure::Unknown)
                    if matches!(write, Write::Put { token: None, .. }) =>
                {
                    lower.backlog().push(key, Write::Delete, self.stamp());
                    Found::NotWritten
                }
                // Its reason to be is in the backlog, if it has one.
                Err(_) => Found::NotWritten,
            };
            slot.step(seen, Some(elapsed));
            slot.lead = None;
        }
        if !succeeded {
            self.give_up_writes(lower, fetch);
        }
    }

    /// Takes writes from the backlog of the tier below, if it can be written to.
    pub(crate) fn drain(&self) -> Option<Drain<'_, K, V>> {
        let lower = self.lower.as_ref()?;
        if lower.mode == WriteMode::ReadOnly || lower.backlog().len() == 0 {
            return None;
        }
        let now = self.clock.now();
        let permits = |kind| lower.breaker().would_permit(kind, now);
        let only_deletes = !permits(RequestKind::Puts);
        if only_deletes && !permits(RequestKind::Deletes) {
            return None;
        }
        let mut draining = lower.draining();
        let (writes, is_underway) = {
            let mut backlog = lower.backlog();
            let is_underway = backlog.is_underway();
            (backlog.take(lower.batch_bytes, only_deletes), is_underway)
        };
        if writes.is_empty() && !is_underway {
            return None;
        }
        let flight = match &*draining {
            Some(flight) if writes.is_empty() => Arc::clone(flight),
            _ => Arc::clone(draining.insert(Flight::of_drain())),
        };
        drop(draining);
        lower.await_notice(&writes);
        let drain = Drain {
            core: self,
            lower,
            kind: kind_of(&writes),
            writes,
            flight,
            succeeded: false,
            _in_flight: lower.metrics.in_flight.hold(),
        };
        // Another write can be the probe by now. Then these wait again.
        let permits = |kind| lower.breaker().permits(kind, now);
        (drain.writes.is_empty() || permits(drain.kind)).then_some(drain)
    }
}

fn kind_of(writes: &[(Vec<u8>, Write)]) -> RequestKind {
    match writes.iter().all(|(_, write)| *write == Write::Delete) {
        true => RequestKind::Deletes,
        false => RequestKind::Puts,
    }
}

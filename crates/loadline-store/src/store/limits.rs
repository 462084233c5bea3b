//! Limits of a store, and what happens at them.

use std::collections::HashMap;
use std::sync::PoisonError;

use super::batch::Batch;
use super::inner::Inner;
use super::options::{AtLimit, Durability, Options};
use super::writer::{Plan, Planned, append};
use crate::error::Error;
use crate::keyspace::{Evicted, Keyspace, LockedKeys};
use crate::log::op::{Kind, Ops};
use crate::sync::MutexGuard;

/// Keys and bytes that writes add to a store.
#[derive(Debug, Clone, Copy, Default)]
struct Growth {
    keys: i64,
    bytes: i64,
}

impl Growth {
    /// Adds a put of a value of `value` bytes. The entry of the key has taken `was` bytes, if it was there.
    fn put(&mut self, key: &[u8], value: usize, was: Option<usize>) {
        let was = was.unwrap_or_else(|| {
            self.keys += 1;
            0
        });
        // A value that is no longer than the one before takes its place.
        if key.len() + value > was {
            self.bytes += entry_bytes(key, value) as i64 - was as i64;
        }
    }
}

/// Bytes that an entry takes at most, with its header, counts of owners, and an eighth for the unused ends of pages.
fn entry_bytes(key: &[u8], value: usize) -> usize {
    const HEADER_BYTES: usize = 64;
    let bytes = key.len() + value + HEADER_BYTES;
    bytes + bytes / 8
}

/// Ends of the keyspace that eviction passes before it gives up: after fewer, even the most used entry has gone.
const MOST_WRAPS: u32 = 6;

impl Options {
    /// Whether the keyspace would exceed its limits with `more`.
    fn would_be_exceeded(&self, keyspace: &Keyspace, more: Growth) -> bool {
        let keys = keyspace.len() as i64 + more.keys;
        let bytes = (keyspace.charged_bytes() + keyspace.open_bytes()) as i64 + more.bytes;
        let exceeds = |value: i64, most: u64| u64::try_from(value).is_ok_and(|it| it > most);
        self.max_keys.is_some_and(|most| exceeds(keys, most))
            || self
                .max_memory_bytes
                .is_some_and(|most| exceeds(bytes, most))
    }

    /// Bytes of memory that a value takes.
    fn bytes_in_memory(&self, value: &[u8], has_log: bool) -> usize {
        match has_log && value.len() >= self.value_in_log_bytes {
            true => 0,
            false => value.len(),
        }
    }
}

impl Inner {
    /// Lets no other thread add to a store that is not to remove anything, while this one checks its limits and adds.
    #[inline]
    pub(super) fn lock_growth(&self) -> Option<MutexGuard<'_, ()>> {
        let options = &self.options;
        if options.at_limit == AtLimit::Evict || !options.has_limit() {
            return None;
        }
        Some(self.growth.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Refuses a put in a store that would exceed its limits, and is not to remove anything. The result is held until the
    /// put has happened in memory.
    ///
    /// # Errors
    /// [`Error::AtLimit`].
    #[inline]
    pub(super) fn check_limit(
        &self,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<MutexGuard<'_, ()>>, Error> {
        let Some(guard) = self.lock_growth() else {
            return Ok(None);
        };
        let value = self.options.bytes_in_memory(value, self.disk.is_some());
        let mut growth = Growth::default();
        let mut locked = self.keyspace().lock(key);
        let was = locked.find(key).map(|slot| slot.held_bytes());
        growth.put(key, value, was);
        growth.bytes += locked.growth_bytes(usize::from(was.is_none()), key.len() + value) as i64;
        drop(locked);
        self.refuse(growth)?;
        Ok(Some(guard))
    }

    /// As [`check_limit`](Self::check_limit), for a batch whose keys are locked.
    ///
    /// # Errors
    /// [`Error::AtLimit`].
    pub(super) fn check_batch(
        &self,
        plan: &Plan<'_>,
        locked: &mut LockedKeys<'_>,
    ) -> Result<(), Error> {
        let mut growth = Growth::default();
        // Memory of each key after the operations so far.
        let mut held: HashMap<&[u8], Option<usize>> = HashMap::new();
        let shard = |planned: &Planned<'_>| self.keyspace().shard_index(planned.hash);
        let planned: Vec<&Planned<'_>> = plan.iter().collect();
        for group in planned.chunk_by(|one, other| shard(one) == shard(other)) {
            let (mut new_keys, mut new_bytes) = (0, 0);
            for planned in group {
                let Some(key) = planned.op.key() else {
                    continue;
                };
                let find = || {
                    let slot = locked.key(planned.hash).find(key);
                    slot.map(|slot| slot.held_bytes())
                };
                let was = *held.entry(key).or_insert_with(find);
                let is = match planned.op.kind {
                    Kind::Put { value, .. } => {
                        let value = self.options.bytes_in_memory(value, self.disk.is_some());
                        growth.put(key, value, was);
                        new_keys += usize::from(was.is_none());
                        new_bytes += key.len() + value;
                        Some(entry_bytes(key, value))
                    }
                    _ => {
                        growth.keys -= i64::from(was.is_some());
                        growth.bytes -= was.unwrap_or(0) as i64;
                        None
                    }
                };
                held.insert(key, is);
            }
            if let Some(planned) = group.first() {
                let tables = locked.key(planned.hash).growth_bytes(new_keys, new_bytes);
                growth.bytes += tables as i64;
            }
        }
        locked.rewind();
        self.refuse(growth)
    }

    /// Refuses `growth` beyond the limits.
    fn refuse(&self, growth: Growth) -> Result<(), Error> {
        let adds = growth.keys > 0 || growth.bytes > 0;
        match adds && self.options.would_be_exceeded(self.keyspace(), growth) {
            true => Err(Error::AtLimit),
            false => Ok(()),
        }
    }

    /// Removes entries to make room for a put in a store that removes the least used ones. The entry of the key stays.
    ///
    /// # Errors
    /// [`Error::AtLimit`] where the entry alone would exceed the limit of memory, and those of the log.
    #[inline]
    pub(super) fn make_room_for(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if !self.evicts_by_memory() {
            return Ok(());
        }
        let value = self.options.bytes_in_memory(value, self.disk.is_some());
        self.make_room_for_bytes(entry_bytes(key, value), Some(key))
    }

    /// As [`make_room_for`](Self::make_room_for), for the puts of a batch.
    ///
    /// # Errors
    /// As of [`make_room_for`](Self::make_room_for).
    pub(super) fn make_room_for_batch(&self, batch: &Batch) -> Result<(), Error> {
        if !self.evicts_by_memory() {
            return Ok(());
        }
        let has_log = self.disk.is_some();
        let bytes = Ops::new(&batch.body).map(|(_, op)| match op.kind {
            Kind::Put { key, value, .. } => {
                entry_bytes(key, self.options.bytes_in_memory(value, has_log))
            }
            _ => 0,
        });
        self.make_room_for_bytes(bytes.sum(), None)
    }

    fn evicts_by_memory(&self) -> bool {
        self.options.at_limit == AtLimit::Evict && self.options.max_memory_bytes.is_some()
    }

    #[inline]
    fn make_room_for_bytes(&self, bytes: usize, spared: Option<&[u8]>) -> Result<(), Error> {
        let most = self.options.max_memory_bytes.unwrap_or(u64::MAX);
        if (self.keyspace().least_bytes() + bytes) as u64 > most {
            return Err(Error::AtLimit);
        }
        let growth = Growth {
            keys: 0,
            bytes: bytes as i64,
        };
        self.evict(growth, spared)
    }

    /// Removes the least used entries until the store holds no more than it may. The entry of `written` goes last.
    ///
    /// # Errors
    /// Those of the log. What was removed from memory can come back when the store is opened again then.
    #[inline]
    pub(super) fn make_room(&self, written: Option<&[u8]>) -> Result<(), Error> {
        let options = &self.options;
        if options.at_limit == AtLimit::Refuse || !options.has_limit() {
            return Ok(());
        }
        self.evict(Growth::default(), written)?;
        match written {
            Some(_) => self.evict(Growth::default(), None),
            None => Ok(()),
        }
    }

    /// Removes the least used entries until the store would hold no more than it may after `growth`.
    fn evict(&self, growth: Growth, spared: Option<&[u8]>) -> Result<(), Error> {
        let keyspace = self.keyspace();
        let mut wraps = 0;
        while wraps < MOST_WRAPS && self.options.would_be_exceeded(keyspace, growth) {
            let mut appended = None;
            let log = |key: &[u8]| {
                let disk = self.disk.as_ref();
                appended = disk.map(|disk| (disk, append(disk, Kind::Delete { key }, || ())));
            };
            match keyspace.evict(false, spared, log) {
                Evicted::One => wraps = 0,
                Evicted::Wrapped => wraps += 1,
            }
            if let Some((disk, appended)) = appended {
                // Its durability is that of the next write: an entry that comes back is one that was put.
                self.settle(disk, appended?, Durability::Process)?;
            }
        }
        Ok(())
    }
}

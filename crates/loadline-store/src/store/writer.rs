//! Writes to a store.

use std::time::Duration;

use super::Store;
use super::batch::Batch;
use super::inner::{Disk, Inner};
use super::options::{Durability, Options};
use crate::clock::{millis, now_ms};
use crate::error::Error;
use crate::keyspace::{ByShard, Keyspace, LockedKey, NewString, Purpose};
use crate::log::op::{Kind, MAX_KEY_BYTES, Op, Ops};
use crate::log::record::{Draft, MAX_BODY_BYTES, with_draft};
use crate::log::{Appended, Room};
use crate::slot::Slot;
use crate::value::View;

/// A [`Store`] with a durability for single writes.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'s> {
    inner: &'s Inner,
    durability: Durability,
}

impl<'s> Writer<'s> {
    pub(super) fn new(store: &'s Store, durability: Durability) -> Self {
        Self {
            inner: &store.inner,
            durability,
        }
    }

    /// The durability of its writes.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// As [`Store::put`].
    ///
    /// # Errors
    /// As of [`Store::put`].
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.put_until(key, value, self.usual_expiry())
    }

    /// As [`Store::put_for`].
    ///
    /// # Errors
    /// As of [`Store::put`].
    pub fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(), Error> {
        let expires_at = now_ms().saturating_add(millis(ttl));
        self.put_until(key, value, Some(expires_at))
    }

    /// As [`Store::delete`].
    ///
    /// # Errors
    /// As of [`Store::put`].
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.inner.with_room(|| {
            let mut locked = self.inner.keyspace().lock(key);
            if locked.find(key).is_none() {
                return Ok(false);
            }
            let written = self.write(locked, key, None, None)?;
            self.settle(written)?;
            Ok(true)
        })
    }

    /// As [`Store::compare_and_swap`].
    ///
    /// # Errors
    /// As of [`Store::put`].
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
    ) -> Result<bool, Error> {
        let expires_at = self.usual_expiry();
        if expires_at.is_some() {
            self.inner.wakeup.has_expiries();
        }
        if let Some(next) = next {
            self.inner.make_room_for(key, next)?;
        }
        let swap = || self.try_swap(key, expected, next, expires_at);
        let is_expected = self.inner.with_room(swap)?;
        if is_expected {
            self.inner.make_room(Some(key))?;
        }
        Ok(is_expected)
    }

    fn try_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
        expires_at: Option<u64>,
    ) -> Result<bool, Error> {
        let growth = match next {
            Some(next) => self.inner.check_limit(key, next)?,
            None => None,
        };
        let mut locked = self.inner.keyspace().lock(key);
        let slot = locked.find(key);
        let was_there = slot.is_some();
        let is_expected = show(self.inner, slot, |value| value == expected)?;
        if is_expected && (was_there || next.is_some()) {
            let written = self.write(locked, key, next, expires_at)?;
            drop(growth);
            self.settle(written)?;
        }
        Ok(is_expected)
    }

    /// As [`Store::apply`].
    ///
    /// # Errors
    /// As of [`Store::apply`].
    pub fn apply(&self, batch: &Batch) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        check_size(batch.longest_key, MAX_KEY_BYTES)?;
        check_size(batch.body.len(), MAX_BODY_BYTES)?;
        self.inner.make_room_for_batch(batch)?;
        self.inner.with_room(|| self.try_apply(batch))?;
        self.inner.make_room(None)
    }

    fn try_apply(&self, batch: &Batch) -> Result<(), Error> {
        let growth = self.inner.lock_growth();
        let keyspace = self.inner.keyspace();
        let plan = Plan::new(keyspace, &batch.body);
        let is_put = |planned: &Planned<'_>| matches!(planned.op.kind, Kind::Put { .. });
        let room = match plan.iter().any(is_put) {
            true => Room::Common,
            false => Room::Deletions,
        };
        let hashes = plan.iter().map(|planned| planned.hash);
        let mut locked = keyspace.lock_all(hashes, Purpose::Change);
        if growth.is_some() {
            self.inner.check_batch(&plan, &mut locked)?;
        }
        let appended = match &self.inner.disk {
            None => None,
            Some(disk) => Some(with_draft(|draft| {
                draft.begin().extend_from_slice(&batch.body);
                draft.finish();
                disk.log
                    .append(draft, room)
                    .map(|appended| (disk, appended))
            })?),
        };
        let place = appended.as_ref().map(|(_, appended)| appended);
        for planned in plan.iter() {
            match planned.op.kind {
                Kind::Put {
                    key,
                    value,
                    expires_at,
                } => {
                    let new = new_string(&self.inner.options, value, place, planned.end);
                    locked.key(planned.hash).put(key, new, expires_at);
                }
                Kind::Delete { key } => locked.key(planned.hash).remove(key),
                _ => unreachable!("a batch puts and deletes only"),
            }
        }
        drop(locked);
        drop(growth);
        if appended.is_none() {
            self.inner.wakeup.has_grown();
        }
        self.settle(appended)
    }

    /// When a key expires that is put without an expiry of its own.
    fn usual_expiry(&self) -> Option<u64> {
        let ttl = self.inner.options.ttl;
        ttl.map(|ttl| now_ms().saturating_add(millis(ttl)))
    }

    /// As [`Store::put_until`].
    ///
    /// # Errors
    /// As of [`Store::put`].
    #[inline]
    pub fn put_until(
        &self,
        key: &[u8],
        value: &[u8],
        expires_at: Option<u64>,
    ) -> Result<(), Error> {
        if expires_at.is_some() {
            self.inner.wakeup.has_expiries();
        }
        self.inner.make_room_for(key, value)?;
        self.inner.with_room(|| {
            let growth = self.inner.check_limit(key, value)?;
            let locked = self.inner.keyspace().lock(key);
            let written = self.write(locked, key, Some(value), expires_at)?;
            drop(growth);
            self.settle(written)
        })?;
        self.inner.make_room(Some(key))
    }

    /// Puts a value at a key, or deletes it, in the log and in memory. [`settle`](Self::settle) follows.
    #[inline]
    fn write(
        &self,
        mut locked: LockedKey<'_>,
        key: &[u8],
        value: Option<&[u8]>,
        expires_at: Option<u64>,
    ) -> Result<Option<(&'s Disk, Appended)>, Error> {
        let inner: &'s Inner = self.inner;
        let Some(disk) = &inner.disk else {
            match value {
                Some(value) => {
                    locked.put(key, NewString::Held(value), expires_at);
                    self.inner.wakeup.has_grown();
                }
                None => locked.remove(key),
            }
            return Ok(None);
        };
        let kind = match value {
            Some(value) => Kind::Put {
                key,
                value,
                expires_at,
            },
            None => Kind::Delete { key },
        };
        // The memory is read while the record is made.
        locked.warm();
        let appended = append(disk, kind, || locked.warm_entry())?;
        match value {
            Some(value) => {
                let end = appended.body_bytes;
                let new = new_string(&self.inner.options, value, Some(&appended), end);
                locked.put(key, new, expires_at);
            }
            None => locked.remove(key),
        }
        Ok(Some((disk, appended)))
    }

    /// Finishes a write once no lock is held.
    #[inline]
    fn settle(&self, written: Option<(&Disk, Appended)>) -> Result<(), Error> {
        match written {
            Some((disk, appended)) => self.inner.settle(disk, appended, self.durability),
            None => Ok(()),
        }
    }
}

/// Shows `look` the string of an entry.
#[inline]
pub(super) fn show<R>(
    inner: &Inner,
    slot: Option<Slot<'_>>,
    look: impl FnOnce(Option<&[u8]>) -> R,
) -> Result<R, Error> {
    let Some(slot) = slot else {
        return Ok(look(None));
    };
    if let Some(outside) = slot.record.outside() {
        return inner.read_outside(outside, |value| look(Some(value)));
    }
    show_held(slot, look)
}

/// As [`show`], of the key that is locked. The checksum of a value that is in the log only is verified once.
#[inline]
pub(super) fn show_locked<R>(
    inner: &Inner,
    mut locked: LockedKey<'_>,
    key: &[u8],
    look: impl FnOnce(Option<&[u8]>) -> R,
) -> Result<R, Error> {
    let Some(slot) = locked.look_up(key) else {
        return Ok(look(None));
    };
    let Some(outside) = slot.record.outside() else {
        return show_held(slot, look);
    };
    let shown = inner.read_outside(outside, |value| look(Some(value)))?;
    if outside.unverified.is_some() {
        locked.set_verified(key);
    }
    Ok(shown)
}

#[inline]
fn show_held<R>(slot: Slot<'_>, look: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Error> {
    match slot.view() {
        View::String(value) => Ok(look(Some(value))),
        other => Err(Error::NotAString { kind: other.kind() }),
    }
}

/// Appends one operation as a record. Calls `prepare` when the record is made and before the log is locked.
#[inline]
pub(super) fn append(
    disk: &Disk,
    kind: Kind<'_>,
    prepare: impl FnOnce(),
) -> Result<Appended, Error> {
    let mut room = Room::Deletions;
    if let Kind::Put { key, value, .. } = kind {
        room = Room::Common;
        check_size(key.len(), MAX_KEY_BYTES)?;
        check_size(key.len() + value.len(), MAX_BODY_BYTES)?;
    }
    with_draft(|draft: &mut Draft| {
        Op { database: 0, kind }.encode(draft.begin());
        draft.finish();
        prepare();
        disk.log.append(draft, room)
    })
}

fn check_size(bytes: usize, max_bytes: usize) -> Result<(), Error> {
    if bytes > max_bytes {
        return Err(Error::TooLarge { bytes, max_bytes });
    }
    Ok(())
}

/// The string as the entry of its key holds it. Its value ends at `end` in the body of the record.
#[inline]
pub(super) fn new_string<'v>(
    options: &Options,
    value: &'v [u8],
    appended: Option<&Appended>,
    end: usize,
) -> NewString<'v> {
    match appended {
        None => NewString::Held(value),
        Some(appended) if value.len() < options.value_in_log_bytes => {
            NewString::Logged(value, appended.segment)
        }
        // A record is shorter than this number can say.
        Some(appended) => NewString::Outside(appended.outside(end, value.len() as u32)),
    }
}

/// An operation of a batch, with the hash of its key and where it ends in the body.
#[derive(Debug)]
pub(super) struct Planned<'b> {
    pub(super) hash: u64,
    pub(super) end: usize,
    pub(super) op: Op<'b>,
}

/// The operations of a body on keys, in the order of the shards of their keys; those of one shard stay in order.
#[derive(Debug)]
pub(super) struct Plan<'b> {
    planned: Vec<Planned<'b>>,
    order: ByShard,
}

impl<'b> Plan<'b> {
    pub(super) fn new(keyspace: &Keyspace, body: &'b [u8]) -> Self {
        let planned = Ops::new(body).filter_map(|(end, op)| {
            let hash = keyspace.hash(op.key()?);
            Some(Planned { hash, end, op })
        });
        let planned: Vec<Planned<'b>> = planned.collect();
        let order = keyspace.by_shard(planned.iter().map(|planned| planned.hash));
        Self { planned, order }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Planned<'b>> + Clone {
        self.order.iter().map(|number| &self.planned[number])
    }
}

//! Changes of keys by commands, for those that watch them and for the log.

use loadline_store::{Change, Edit, Entry, Value};

use super::Call;
use super::refusal::Refusal;

/// The effect of a change on a collection.
pub(super) enum Effect<R> {
    Changed(R),
    Same(R),
}

impl<R> Effect<R> {
    /// A change if `changed`.
    pub(super) fn of(changed: bool, result: R) -> Self {
        if changed {
            Self::Changed(result)
        } else {
            Self::Same(result)
        }
    }
}

impl Call<'_> {
    /// Records the change of `key` for connections that watch it, and for the log.
    #[inline]
    pub(super) fn touched(&mut self, key: &[u8]) {
        self.shared.touched(self.session.database, key);
    }

    /// Records that `key` expires at another time, or has gone.
    pub(super) fn expiry_touched(&mut self, key: &[u8]) {
        self.shared.expiry_touched(self.session.database, key);
    }

    /// Records that `key` holds a string as it was stored.
    #[inline]
    pub(super) fn string_touched(&mut self, key: &[u8], bytes: &[u8], expires_at: Option<u64>) {
        self.shared.watched.touch(self.session.database, key);
        self.log_string(key, bytes, expires_at);
    }

    #[inline]
    fn log_string(&mut self, key: &[u8], bytes: &[u8], expires_at: Option<u64>) {
        let database = self.session.database;
        if let Some(persistence) = &mut self.shared.persistence {
            let log = persistence.change(database, key);
            log.put_string(database, key, bytes, expires_at);
        }
    }

    /// Counts the change of a key as that of its elements, as Redis does. Without any, nothing has changed.
    #[inline]
    pub(super) fn count_elements(&mut self, elements: usize) {
        self.shared.watched.changes += (elements as u64).saturating_sub(1);
    }

    /// Counts all changes since there were `before` as this many, where Redis counts neither keys nor elements.
    pub(super) fn count_as(&mut self, before: u64, changes: usize) {
        self.shared.watched.changes = before + changes as u64;
    }

    /// Removes `key` and returns whether it existed.
    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        let was_there = self.store().remove(key, self.now());
        if was_there {
            self.touched(key);
        }
        was_there
    }

    /// Stores a string at `key`, replacing any value.
    pub(super) fn put_string(&mut self, key: &[u8], bytes: &[u8], expires_at: Option<u64>) {
        self.store()
            .put_string(key, bytes, self.now(), |_| Some(expires_at));
        self.string_touched(key, bytes, expires_at);
    }

    /// Gives a string the encoding for changes in place; creates an empty one if there is no key, which counts as a change with
    /// the one that follows.
    pub(super) fn make_growing(&mut self, key: &[u8]) {
        if !self.store().make_growing(key, self.now()) {
            self.store()
                .put_string(key, b"", self.now(), |_| Some(None));
            self.log_string(key, b"", None);
            self.store().make_growing(key, self.now());
        }
    }

    /// Stores `entry` at `key`.
    pub(super) fn put(&mut self, key: &[u8], entry: Entry) {
        self.store()
            .modify(key, self.now(), |_| ((), Change::Put(entry)));
        self.touched(key);
    }

    /// Changes the value at `key` in place; a missing value is created first. Removes a key whose collection
    /// is empty afterwards, and does not keep a new value that was not changed.
    pub(super) fn change<R>(
        &mut self,
        key: &[u8],
        fresh: impl FnOnce() -> Value,
        change: impl FnOnce(&mut Value) -> Result<Effect<R>, Refusal>,
    ) -> Result<R, Refusal> {
        Ok(match self.modify(key, fresh, change)? {
            (Effect::Changed(result), _) => {
                self.touched(key);
                result
            }
            (Effect::Same(result), _) => result,
        })
    }

    /// As [`change`](Self::change), for changes of a part of a value: `note` shows that part to its second argument,
    /// so that the log has no need to hold the whole value.
    pub(super) fn change_part<R>(
        &mut self,
        key: &[u8],
        fresh: impl FnOnce() -> Value,
        change: impl FnOnce(&mut Value) -> Result<Effect<R>, Refusal>,
        note: impl FnOnce(&R, &mut dyn FnMut(Edit<'_>)),
    ) -> Result<R, Refusal> {
        let (effect, is_part) = self.modify(key, fresh, change)?;
        let result = match effect {
            Effect::Same(result) => return Ok(result),
            Effect::Changed(result) => result,
        };
        let database = self.session.database;
        match &mut self.shared.persistence {
            Some(persistence) if is_part => {
                self.shared.watched.touch(database, key);
                let log = persistence.change(database, key);
                note(&result, &mut |edit| log.edit(database, key, edit));
            }
            _ => self.touched(key),
        }
        Ok(result)
    }

    /// Changes the value at `key` in place. Also returns whether the key was there before and still is, its elements being
    /// in order if they were.
    pub(super) fn modify<R>(
        &mut self,
        key: &[u8],
        fresh: impl FnOnce() -> Value,
        change: impl FnOnce(&mut Value) -> Result<Effect<R>, Refusal>,
    ) -> Result<(Effect<R>, bool), Refusal> {
        let mut is_part = false;
        let effect = self
            .store()
            .modify(key, self.now(), |current| match current {
                Some(entry) => {
                    let was_ordered = is_ordered(&entry.value);
                    let effect = change(&mut entry.value);
                    let after = if entry.value.is_empty_collection() {
                        Change::Remove
                    } else {
                        is_part = is_ordered(&entry.value) == was_ordered;
                        Change::Keep
                    };
                    (effect, after)
                }
                None => {
                    let mut value = fresh();
                    let effect = change(&mut value);
                    let after = match effect {
                        Ok(Effect::Changed(_)) => Change::Put(Entry::lasting(value)),
                        Ok(Effect::Same(_)) | Err(_) => Change::Keep,
                    };
                    (effect, after)
                }
            })?;
        Ok((effect, is_part))
    }
}

fn is_ordered(value: &Value) -> bool {
    match value {
        Value::String(_) | Value::List(_) | Value::Stream(_) => true,
        Value::Set(members) => members.is_ordered(),
        Value::Hash(fields) => fields.is_ordered(),
        Value::Sorted(set) => set.is_packed(),
    }
}

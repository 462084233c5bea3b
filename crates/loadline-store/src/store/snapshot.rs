//! Reading a store as it was, while writes go on.

use super::Store;
use super::inner::Inner;
use super::writer::show;
use crate::clock::now_ms;
use crate::error::Error;
use crate::keyspace::Snapshot;

/// A store as it was when [`Store::snapshot`] was called.
///
/// A write that follows copies the part of the keyspace that it changes first, some microseconds, once for each
/// snapshot. While there is one, the log keeps the files that it may read from, so the disk fills up with what is
/// overwritten.
#[derive(Debug)]
pub struct StoreSnapshot<'s> {
    inner: &'s Inner,
    snapshot: Snapshot<'s>,
}

impl Store {
    /// The present entries, for reading while writes go on. A batch is in it as a whole or not at all. Entries that
    /// expire later stay in it.
    #[must_use]
    pub fn snapshot(&self) -> StoreSnapshot<'_> {
        StoreSnapshot {
            inner: &self.inner,
            snapshot: self.inner.keyspace().snapshot(now_ms()),
        }
    }
}

impl StoreSnapshot<'_> {
    /// A copy of the value that `key` had.
    ///
    /// # Errors
    /// Those of [`Store::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.get_with(key, |value| value.map(<[u8]>::to_vec))
    }

    /// Shows the value that `key` had to `look`, which must not call the store.
    ///
    /// # Errors
    /// Those of [`Store::get`].
    pub fn get_with<R>(
        &self,
        key: &[u8],
        look: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, Error> {
        self.snapshot.slot(key, |slot| show(self.inner, slot, look))
    }

    /// Continues a walk over the keys that begin with `prefix`, as [`Store::scan`] does it; every key of the snapshot is
    /// shown exactly once.
    ///
    /// # Errors
    /// Those of [`Store::get`].
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, Error> {
        let mut result = Ok(());
        let next = self.snapshot.scan_slots(cursor, count, |slot| {
            if result.is_ok() && slot.is_string() && slot.key().starts_with(prefix) {
                result = show(self.inner, Some(slot), |value| {
                    visit(slot.key(), value.unwrap_or_default());
                });
            }
        });
        result.map(|()| next)
    }
}

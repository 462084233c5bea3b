//! Limits of a store, and what happens at them.

use super::inner::Inner;
use super::options::{AtLimit, Durability, Options};
use super::writer::append;
use crate::error::Error;
use crate::keyspace::{Evicted, Keyspace, Victim};
use crate::log::op::Kind;

/// Ends of the keyspace that eviction passes before it gives up: after fewer, even the most used entry has gone.
const MOST_WRAPS: u32 = 6;

/// A keyspace for a store with these options.
pub(super) fn keyspace(options: &Options) -> Keyspace {
    let keys = options.max_keys.and_then(|keys| usize::try_from(keys).ok());
    let mut keyspace = match keys {
        Some(keys) => Keyspace::for_keys(keys),
        None => Keyspace::new(),
    };
    keyspace.evict_by(options.victim());
    keyspace
}

impl Options {
    pub(super) fn has_limit(&self) -> bool {
        self.max_keys.is_some() || self.max_memory_bytes.is_some()
    }

    /// By what a store with a limit chooses what goes.
    pub(super) fn victim(&self) -> Option<Victim> {
        self.has_limit().then_some(Victim::LeastUsed)
    }

    /// Whether the keyspace would exceed its limits with `more_keys` more keys.
    fn is_exceeded(&self, keyspace: &Keyspace, more_keys: u64) -> bool {
        let keys = keyspace.len() as u64 + more_keys;
        let bytes = keyspace.charged_bytes() as u64;
        self.max_keys.is_some_and(|most| keys > most)
            || self.max_memory_bytes.is_some_and(|most| bytes > most)
    }
}

impl Inner {
    /// Refuses a write of `key`, or a batch, in a store that is full and is not to remove anything. Of a batch,
    /// the new keys are not counted before.
    ///
    /// # Errors
    /// [`Error::AtLimit`].
    #[inline]
    pub(super) fn check_limit(&self, key: Option<&[u8]>) -> Result<(), Error> {
        let options = &self.options;
        if options.at_limit == AtLimit::Evict || !options.has_limit() {
            return Ok(());
        }
        let is_new = |key| self.keyspace().lock(key).find(key).is_none();
        let more = u64::from(key.is_some_and(is_new));
        if options.is_exceeded(self.keyspace(), more) {
            return Err(Error::AtLimit);
        }
        Ok(())
    }

    /// Removes the least used entries until the store holds no more than it may. The entry of `written` stays.
    ///
    /// # Errors
    /// Those of the log. What was removed from memory can come back when the store is opened again then.
    #[inline]
    pub(super) fn make_room(&self, written: Option<&[u8]>) -> Result<(), Error> {
        let options = &self.options;
        if options.at_limit == AtLimit::Refuse || !options.has_limit() {
            return Ok(());
        }
        let keyspace = self.keyspace();
        let mut wraps = 0;
        while wraps < MOST_WRAPS && options.is_exceeded(keyspace, 0) {
            let mut appended = None;
            let log = |key: &[u8]| {
                let disk = self.disk.as_ref();
                appended = disk.map(|disk| (disk, append(disk, Kind::Delete { key }, || ())));
            };
            match keyspace.evict(false, written, log) {
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

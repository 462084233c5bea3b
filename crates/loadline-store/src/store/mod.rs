//! A store of bytes by key, used as a library.

mod batch;
mod change_log;
mod collections;
mod expiry;
mod inner;
mod limits;
mod operators;
mod options;
mod reclaim;
mod replay;
mod snapshot;
#[cfg(test)]
mod tests;
mod upkeep;
mod wakeup;
mod writer;

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use batch::Batch;
pub use change_log::{ChangeLog, Edit, LogStats, Rewrite, RewriteStep};
use inner::{Disk, Inner};
pub use operators::{Checked, Damage, IgnoredBytes, IgnoredHint};
pub use options::{AtLimit, Durability, Options};
use reclaim::{Load, Reclaim};
pub use snapshot::StoreSnapshot;
use upkeep::Upkeep;
pub use writer::Writer;
use writer::{show, show_locked};

use crate::clock::now_ms;
use crate::error::Error;
use crate::keyspace::{Keyspace, Remaining};
use crate::log::Log;
use crate::log::hint::Hints;
use crate::log::recovery::{self, Torn};
use crate::storage::{Directory, Storage};

/// The result of opening a log.
#[derive(Debug, Default)]
struct Opened {
    torn: Option<Torn>,
    /// Whether entries have an expiry.
    has_expiries: bool,
    /// Number of hints that were read in the place of their segments, and of those that were ignored.
    hints: u64,
    ignored_hints: u64,
}

/// Reads the log in `storage`: returns it, open for writing, with the databases that it makes and with what was found.
fn recover(
    storage: Box<dyn Storage>,
    options: &Options,
) -> Result<(Disk, Vec<Keyspace>, Opened), Error> {
    let hints = match options.value_in_log_bytes {
        usize::MAX => Hints::Leave,
        bytes => Hints::Use(bytes),
    };
    let examined = recovery::examine(&*storage, hints)?;
    let recovered = recovery::recover(&*storage, examined, false)?;
    let mut databases = Inner::empty_databases(options);
    for (database, puts) in databases.iter_mut().zip(recovered.puts) {
        // A new store can become any size.
        if recovered.operations > 0 {
            database.expect(puts);
        }
    }
    replay::replay(&*storage, &recovered, options, &mut databases)?;
    let mut opened = Opened {
        torn: recovered.torn.clone(),
        has_expiries: false,
        hints: recovered.hints.iter().flatten().count() as u64,
        ignored_hints: recovered.ignored_hints,
    };
    // Expiries need a small segment, if any.
    let log = Arc::new(Log::new(storage, recovered, 0));
    expiry::log_expiries(&log, &mut databases);
    let now = now_ms();
    let remaining = databases.iter().map(|database| database.expire_all(now));
    let remaining = remaining.fold(Remaining::default(), Remaining::plus);
    opened.has_expiries = remaining.expiring > 0;
    let reclaim = Reclaim::new(options, log.oldest());
    reclaim.assess_with(remaining.logged_bytes, &log, &databases, Load::Busy);
    Ok((Disk { log, reclaim }, databases, opened))
}

/// A store of bytes by key. Threads share it by reference (or in an `Arc`).
///
/// ```
/// use loadline_store::{Options, Store};
///
/// let store = Store::in_memory(Options::new());
/// store.put(b"greeting", b"hello")?;
/// assert_eq!(store.get(b"greeting")?.as_deref(), Some(&b"hello"[..]));
/// # Ok::<(), loadline_store::Error>(())
/// ```
#[derive(Debug)]
pub struct Store {
    /// Before `inner`, so that the thread ends first.
    upkeep: Option<Upkeep>,
    inner: Arc<Inner>,
    opened: Opened,
    is_mapped: bool,
}

/// Counts of a store's content and of its events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Number of keys, including expired ones that are not freed yet.
    pub keys: u64,
    /// Reads that found their key, since the store was opened.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Keys that were removed to make room.
    pub evictions: u64,
    /// Keys that were freed because their time had come.
    pub expirations: u64,
    /// Bytes of memory that keys, values and tables take, without what an allocator adds.
    pub memory_bytes: u64,
    /// Bytes that all entries would take in the log if they were written anew; 0 for a store in memory.
    pub live_bytes: u64,
    /// Bytes of the log's files, room that is reserved and hints included; 0 for a store in memory.
    pub disk_bytes: u64,
    /// Number of the log's files.
    pub segments: u64,
    /// Number of files whose hint was read in their place when the store was opened.
    pub hints: u64,
    /// Number of hints that were ignored then, since they were incomplete, damaged, or outdated.
    pub ignored_hints: u64,
    /// Bytes of records that have not reached the disk yet.
    pub unsynced_bytes: u64,
    /// Whether the log is written through mapped memory.
    pub is_mapped: bool,
    /// The part that was cut off when the store was opened, since it had not been written completely.
    pub torn: Option<Torn>,
}

impl Store {
    /// A store that keeps nothing on disk. Its durability has no effect.
    #[must_use]
    pub fn in_memory(options: Options) -> Self {
        let databases = Inner::empty_databases(&options);
        let inner = Arc::new(Inner::new(options, None, databases));
        Self {
            // Without the thread, expired entries go when they are looked up.
            upkeep: Upkeep::start(&inner).ok(),
            inner,
            opened: Opened::default(),
            is_mapped: false,
        }
    }

    /// Opens the store in the directory `dir`, which is made where it does not exist. What was being written when a
    /// process or the machine stopped is cut off ([`Stats::torn`]).
    ///
    /// # Errors
    /// [`Error::InUse`] where it is open already; [`Error::Damaged`] where data is wrong that had reached the disk;
    /// [`Error::Version`]; [`Error::Io`].
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let dir = dir.as_ref();
        let directory = Directory::open(dir, options.mapped)?;
        let is_mapped = directory.is_mapped();
        let mut store = Self::open_on(Box::new(directory), options)?;
        store.is_mapped = is_mapped;
        let upkeep = Upkeep::start(&store.inner);
        store.upkeep = Some(upkeep.map_err(|error| Error::io(dir, error))?);
        if store.opened.has_expiries {
            store.inner.wakeup.has_expiries();
        }
        // Recovered changes are synced while the store is in use already.
        store.inner.wakeup.wake(wakeup::SyncMode::Always);
        Ok(store)
    }

    /// Opens the store in `storage`, without a thread in the background: writers do its work.
    pub(crate) fn open_on(storage: Box<dyn Storage>, options: Options) -> Result<Self, Error> {
        let (disk, mut databases, opened) = recover(storage, &options)?;
        // A server can have exchanged the numbers of databases.
        databases[0].evict_by(options.victim());
        let inner = Inner::new(options, Some(disk), databases);
        // The options can allow less than those of the last time.
        inner.make_room(None)?;
        Ok(Self {
            upkeep: None,
            inner: Arc::new(inner),
            opened,
            is_mapped: false,
        })
    }

    /// A copy of the value of `key`.
    ///
    /// # Errors
    /// [`Error::NotAString`]; [`Error::Io`] where the value is in the log only and cannot be read; [`Error::Damaged`] where its
    /// checksum is wrong. That was verified when the store was opened, or is when the value is read for the first time.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.get_with(key, |value| value.map(<[u8]>::to_vec))
    }

    /// Shows the value of `key` to `look` without copying it, or `None` where there is no such key. `look` must
    /// not call this store.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    #[inline]
    pub fn get_with<R>(
        &self,
        key: &[u8],
        look: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, Error> {
        let locked = self.inner.keyspace().lock(key);
        show_locked(&self.inner, locked, key, look)
    }

    /// Copies of the values of `keys`, as [`get_many_with`](Self::get_many_with) shows them.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let mut values = Vec::with_capacity(keys.len());
        self.get_many_with(keys.iter().map(K::as_ref), |_, value| {
            values.push(value.map(<[u8]>::to_vec));
        })?;
        Ok(values)
    }

    /// Shows `visit` each key with its value, or with `None` where there is no such key, in the order of `keys`. All of
    /// them are from the same moment: a [`Batch`] is seen as a whole or not at all. `visit` must not call this
    /// store.
    ///
    /// A hundred keys together take less than half the time of a hundred calls of [`get_with`](Self::get_with), since
    /// the processor waits for the memory of many keys at once. Writes of keys in the same parts of the store wait
    /// as long.
    ///
    /// ```
    /// use loadline_store::{Options, Store};
    ///
    /// let store = Store::in_memory(Options::new());
    /// store.put(b"one", b"1")?;
    /// let values = store.get_many(&["one", "two"])?;
    /// assert_eq!(values, [Some(b"1".to_vec()), None]);
    /// # Ok::<(), loadline_store::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`get`](Self::get), for the first key that has one; the keys behind it are not shown.
    pub fn get_many_with<'k, K>(
        &self,
        keys: K,
        mut visit: impl FnMut(&[u8], Option<&[u8]>),
    ) -> Result<(), Error>
    where
        K: IntoIterator<Item = &'k [u8], IntoIter: Clone>,
    {
        let keyspace = self.inner.keyspace();
        keyspace.look_up_all(keys.into_iter(), |key, slot| {
            show(&self.inner, slot, |value| visit(key, value))
        })
    }

    /// Puts `value` at `key`, without an expiry.
    ///
    /// # Errors
    /// [`Error::Full`] where the disk has no room, [`Error::Failed`] where a write or a sync has failed, now or
    /// before; [`Error::Io`] for a new file of the log; [`Error::TooLarge`]. The key is as before, except that
    /// after a sync that failed it can hold the new value. None for a store in memory.
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.writer(self.inner.options.durability).put(key, value)
    }

    /// Puts `value` at `key` for the time `ttl` from now on.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(), Error> {
        self.writer(self.inner.options.durability)
            .put_for(key, value, ttl)
    }

    /// Puts `value` at `key` until `expires_at`, in milliseconds since the Unix epoch; `None` for no expiry.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn put_until(
        &self,
        key: &[u8],
        value: &[u8],
        expires_at: Option<u64>,
    ) -> Result<(), Error> {
        self.writer(self.inner.options.durability)
            .put_until(key, value, expires_at)
    }

    /// Removes `key` and returns whether it was there.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.writer(self.inner.options.durability).delete(key)
    }

    /// Puts `next` at `key`, or removes it where `next` is `None`, if its value is `expected`; `None` expects no
    /// such key. Returns whether it did. The key has no expiry from then on.
    ///
    /// # Errors
    /// Those of [`put`](Self::put) and [`get`](Self::get).
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
    ) -> Result<bool, Error> {
        self.writer(self.inner.options.durability)
            .compare_and_swap(key, expected, next)
    }

    /// Performs the writes of `batch` as one.
    ///
    /// # Errors
    /// Those of [`put`](Self::put); none of the writes has happened then, or all where a sync has failed.
    pub fn apply(&self, batch: &Batch) -> Result<(), Error> {
        self.writer(self.inner.options.durability).apply(batch)
    }

    /// The same store with another durability, for single writes. [`Durability::Interval`] is that of the store,
    /// if it has one, and else [`Durability::Process`].
    #[must_use]
    #[inline]
    pub fn writer(&self, durability: Durability) -> Writer<'_> {
        Writer::new(self, durability)
    }

    /// Continues a walk over the keys that begin with `prefix`: shows `visit` about `count` of them with
    /// their values and returns the cursor to continue from, 0 at the end. A walk starts with cursor 0.
    /// Keys that hold no string are passed over. `visit` must not call this store.
    ///
    /// A key that is there during the whole walk is shown exactly once, even if others are added or removed.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, Error> {
        self.scan_entries(cursor, count, |key, value, _| {
            if key.starts_with(prefix) {
                visit(key, value);
            }
        })
    }

    /// Continues a walk over all keys as [`scan`](Self::scan) does, and shows when they expire as well, in
    /// milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn scan_entries(
        &self,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&[u8], &[u8], Option<u64>),
    ) -> Result<u64, Error> {
        let mut result = Ok(());
        let keyspace = self.inner.keyspace();
        let next = keyspace.scan_slots(cursor, count, now_ms(), |slot| {
            if result.is_ok() && slot.is_string() {
                result = show(&self.inner, Some(slot), |value| {
                    visit(slot.key(), value.unwrap_or_default(), slot.expires_at());
                });
            }
        });
        result.map(|()| next)
    }

    /// Returns when everything written before has reached the disk.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn sync(&self) -> Result<(), Error> {
        match self.inner.written_disk() {
            Some(disk) => disk.log.sync(disk.log.position()),
            None => Ok(()),
        }
    }

    /// Writes all entries anew, so that the log holds nothing else.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn compact(&self) -> Result<(), Error> {
        match &self.inner.disk {
            Some(disk) => disk.reclaim.compact(&self.inner.databases, &disk.log),
            None => Ok(()),
        }
    }

    /// Counts of the present content and of the events so far. Counting visits every shard, which takes some 50
    /// microseconds.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let tally = self.inner.keyspace().tally();
        let stats = Stats {
            keys: tally.keys,
            hits: tally.hits,
            misses: tally.misses,
            evictions: tally.evictions,
            expirations: tally.expirations,
            memory_bytes: tally.memory_bytes,
            is_mapped: self.is_mapped,
            hints: self.opened.hints,
            ignored_hints: self.opened.ignored_hints,
            torn: self.opened.torn.clone(),
            ..Stats::default()
        };
        let Some(disk) = &self.inner.disk else {
            return stats;
        };
        Stats {
            live_bytes: reclaim::live_bytes(&self.inner.databases),
            disk_bytes: disk.log.allocated_bytes(),
            segments: disk.log.segment_count() as u64,
            unsynced_bytes: disk.log.position().saturating_sub(disk.log.synced()),
            ..stats
        }
    }

    /// Closes the store; everything written has reached the disk then. A store that is dropped is closed as
    /// by the end of its process: nothing is lost but by a failure of the machine.
    ///
    /// # Errors
    /// Those of [`sync`](Self::sync), and [`Error::Full`] where there is no room for a last record of 24 bytes; the
    /// data has reached the disk then.
    pub fn close(mut self) -> Result<(), Error> {
        /// Hints that are written now at most, of large and of small segments, and bytes of segments that are small together.
        /// The thread in the background has written the older ones, unless the store was opened just before.
        const MOST_HINTS: RangeInclusive<u64> = 16..=256;
        const SMALL_BYTES: u64 = 64 << 20;
        self.upkeep = None;
        let Some(disk) = self.inner.written_disk() else {
            return Ok(());
        };
        disk.log.finish()?;
        let of_small = SMALL_BYTES / disk.log.segment_bytes().max(1);
        let mut left = of_small.clamp(*MOST_HINTS.start(), *MOST_HINTS.end());
        disk.log
            .write_hints(self.inner.options.value_in_log_bytes, || {
                let stops = left == 0;
                left = left.saturating_sub(1);
                stops
            });
        Ok(())
    }
}

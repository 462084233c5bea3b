//! The log of databases that a server keeps in memory and changes itself.

use std::path::Path;
use std::sync::Arc;

use super::collections;
use super::expiry::Expired;
use super::inner::{Disk, Inner};
use super::options::{Durability, Options};
use super::recover;
use super::upkeep::Upkeep;
use super::wakeup::SyncMode;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::log::Room;
use crate::log::op::{self, Elements, Form, Kind, Op, Ops};
use crate::log::record::Draft;
use crate::log::recovery::Torn;
use crate::storage::{Directory, Storage};
use crate::stream::StreamEdit;
use crate::value::View;

/// The log of databases that its owner keeps in memory and changes itself. The files are those of a
/// [`Store`](crate::Store).
///
/// The owner notes each change after it has made it, and [`commit`](Self::commit)s them: all changes since the last
/// commit are one record, which is there after a crash as a whole or not at all. Nothing may be acknowledged, and no
/// other thread may change a database, between a change and its commit.
#[derive(Debug)]
pub struct ChangeLog {
    /// Before `inner`, so that the thread ends first.
    upkeep: Option<Upkeep>,
    inner: Arc<Inner>,
    durability: Durability,
    /// The changes since the last commit, and how many they are.
    draft: Draft,
    pending: u64,
    /// Expiries since the last change. They are written before the next one, which can be of the same key.
    expired: Arc<Expired>,
    /// Changes that were committed since the log was opened.
    committed: u64,
    /// Memory for the elements of a change.
    elements: Vec<u8>,
    /// The segment that the databases take their new entries to be in.
    segment: u32,
    torn: Option<Torn>,
    is_mapped: bool,
}

/// A change of a part of a value, which is in memory already. The key was there before, and is there now.
#[derive(Debug, Clone, Copy)]
pub enum Edit<'e> {
    /// Bytes of a string were replaced from an offset on, or added.
    Write(usize, &'e [u8]),
    /// Members were added to a set that has kept its order, or had none before.
    AddMembers(&'e [&'e [u8]]),
    /// Members of a set went.
    RemoveMembers(&'e [&'e [u8]]),
    /// Fields of a hash, in turn with their values, were set. The hash has kept its order, or had none before.
    SetFields(&'e [&'e [u8]]),
    /// Fields of a hash went.
    RemoveFields(&'e [&'e [u8]]),
    /// Expiries of fields of a hash were set, in milliseconds since the Unix epoch; `None` for never.
    SetFieldExpiries(&'e [(&'e [u8], Option<u64>)]),
    /// Items were added in front of a list, one after the other.
    PushFront(&'e [&'e [u8]]),
    /// Items were added at the end of a list.
    PushBack(&'e [&'e [u8]]),
    /// Items went from the front of a list.
    PopFront(usize),
    /// Items went from the end of a list.
    PopBack(usize),
    /// The item at an index of a list was replaced.
    SetItem(usize, &'e [u8]),
    /// An item was inserted into a list in front of the one at an index, or at the end.
    InsertItem(usize, &'e [u8]),
    /// Items of a list that are equal to this one went: so many of the first ones, of the last ones if negative, or all
    /// for 0.
    RemoveItems(i64, &'e [u8]),
    /// Scores of members of a sorted set were set. The set is packed as it was before, or was not.
    SetScores(&'e [(&'e [u8], f64)]),
    /// Members of a sorted set went.
    RemoveScored(&'e [&'e [u8]]),
    /// A stream was changed.
    Stream(&'e StreamEdit<'e>),
}

/// A rewrite of a log: all entries are written anew, and what was overwritten or deleted goes with the old files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewrite {
    /// The first segment that stays.
    end: u32,
}

/// The progress of a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteStep {
    /// Entries are left to be written.
    Writing,
    /// All entries are written. The old files are removed once the new ones have reached the disk.
    Removing,
    /// The old files are removed.
    Done,
}

/// The content of a log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LogStats {
    /// Bytes that all entries would take in the log if they were written anew.
    pub live_bytes: u64,
    /// Bytes of the files, room that is reserved included.
    pub disk_bytes: u64,
    /// Number of files.
    pub segments: u64,
    /// Bytes of records that have not reached the disk yet.
    pub unsynced_bytes: u64,
    /// Whether the log is written through mapped memory.
    pub is_mapped: bool,
}

impl ChangeLog {
    /// Opens the log in the directory `dir`, which is made where it does not exist, and returns it with the databases.
    /// All values are in memory. Of `options`, durability, the size of segments, the slack and mapping count.
    ///
    /// # Errors
    /// Those of [`Store::open`](crate::Store::open).
    pub fn open(dir: impl AsRef<Path>, options: &Options) -> Result<(Self, Vec<Keyspace>), Error> {
        let dir = dir.as_ref();
        let directory = Directory::open(dir, options.mapped)?;
        let is_mapped = directory.is_mapped();
        let (mut log, databases) = Self::open_on(Box::new(directory), options)?;
        log.is_mapped = is_mapped;
        let upkeep = Upkeep::start(&log.inner);
        log.upkeep = Some(upkeep.map_err(|error| Error::io(dir, error))?);
        // Recovered changes are synced while the databases are in use already.
        log.inner.wakeup.wake(SyncMode::Always);
        Ok((log, databases))
    }

    /// Opens the log in `storage`, without a thread in the background: commits do its work.
    pub(crate) fn open_on(
        storage: Box<dyn Storage>,
        options: &Options,
    ) -> Result<(Self, Vec<Keyspace>), Error> {
        let options = Options {
            value_in_log_bytes: usize::MAX,
            durability: options.durability,
            segment_bytes: options.segment_bytes,
            slack_bytes: options.slack_bytes,
            // Its owner sweeps it, and does so only while it writes.
            burst_bytes: 0,
            mapped: options.mapped,
            ..Options::default()
        };
        let (disk, databases, opened) = recover(storage, &options)?;
        let durability = options.durability;
        let inner = Inner::new(options, Some(disk), vec![]);
        let mut databases = databases;
        let mut log = Self {
            upkeep: None,
            inner: Arc::new(inner),
            durability,
            draft: Draft::default(),
            pending: 0,
            expired: Expired::collect(&mut databases),
            committed: 0,
            elements: vec![],
            segment: 0,
            torn: opened.torn,
            is_mapped: false,
        };
        log.draft.begin();
        log.lie_in(log.disk().log.newest(), &mut databases);
        Ok((log, databases))
    }

    fn disk(&self) -> &Disk {
        let Some(disk) = &self.inner.disk else {
            unreachable!("it is opened with one")
        };
        disk
    }

    /// Sets the segment of new entries in all databases.
    fn lie_in(&mut self, segment: u32, databases: &mut [Keyspace]) {
        if segment != self.segment {
            self.segment = segment;
            databases
                .iter_mut()
                .for_each(|database| database.log_to(segment));
        }
    }

    #[inline]
    fn note(&mut self, database: usize, kind: Kind<'_>) {
        self.pending += 1;
        let database = database as u8;
        Op { database, kind }.encode(self.more());
    }

    /// The record of the changes since the last commit, with all expiries so far.
    #[inline]
    fn more(&mut self) -> &mut Vec<u8> {
        if self.expired.bytes() > 0 {
            self.expired.move_to(self.draft.more());
        }
        self.draft.more()
    }

    /// Notes that `key` holds this string.
    #[inline]
    pub fn put_string(
        &mut self,
        database: usize,
        key: &[u8],
        value: &[u8],
        expires_at: Option<u64>,
    ) {
        let kind = Kind::Put {
            key,
            value,
            expires_at,
        };
        self.note(database, kind);
    }

    /// Notes that `key` holds this value.
    pub fn put(&mut self, database: usize, key: &[u8], value: View<'_>, expires_at: Option<u64>) {
        self.pending += 1;
        collections::encode(database as u8, key, value, expires_at, self.more());
    }

    /// Notes that there is no `key` any more.
    pub fn delete(&mut self, database: usize, key: &[u8]) {
        self.note(database, Kind::Delete { key });
    }

    /// Notes when `key` goes, in milliseconds since the Unix epoch; `None` for never.
    pub fn expire(&mut self, database: usize, key: &[u8], expires_at: Option<u64>) {
        self.note(database, Kind::Expire { key, expires_at });
    }

    /// Notes that all keys of a database went.
    pub fn clear(&mut self, database: usize) {
        self.drop_changes_of(database);
        self.note(database, Kind::Clear);
    }

    /// Drops the changes since the last commit that the removal of all keys makes void: on a full disk, they could be those
    /// for which there is no room.
    fn drop_changes_of(&mut self, database: usize) {
        self.more();
        let body = self.draft.pending();
        let (mut kept, mut begin) = (vec![], 0);
        for (end, op) in Ops::new(body) {
            if matches!(op.kind, Kind::Exchange { .. }) {
                return;
            }
            if usize::from(op.database) != database {
                kept.extend_from_slice(&body[begin..end]);
            }
            begin = end;
        }
        self.draft.begin().extend(kept);
    }

    /// Notes that two databases have exchanged their numbers.
    pub fn exchange(&mut self, database: usize, other: usize) {
        let number = other as u8;
        self.note(database, Kind::Exchange { other: number });
        self.expired.exchange(database, other);
        self.disk().reclaim.restart();
    }

    /// Notes a change of a part of the value of `key`.
    pub fn edit(&mut self, database: usize, key: &[u8], edit: Edit<'_>) {
        let mut bytes = std::mem::take(&mut self.elements);
        bytes.clear();
        let elements = match edit {
            Edit::AddMembers(elements)
            | Edit::RemoveMembers(elements)
            | Edit::SetFields(elements)
            | Edit::RemoveFields(elements)
            | Edit::RemoveScored(elements)
            | Edit::PushFront(elements)
            | Edit::PushBack(elements) => elements,
            _ => &[],
        };
        for element in elements {
            Elements::push(&mut bytes, element);
        }
        if let Edit::SetScores(members) = edit {
            for (member, score) in members {
                Elements::push(&mut bytes, member);
                Elements::push(&mut bytes, &score.to_le_bytes());
            }
        }
        if let Edit::SetFieldExpiries(fields) = edit {
            for (field, at) in fields {
                Elements::push(&mut bytes, field);
                Elements::push(&mut bytes, &op::time_element(*at));
            }
        }
        if let Edit::PopFront(count) | Edit::PopBack(count) = edit {
            (0..count).for_each(|_| Elements::push(&mut bytes, b""));
        }
        if let Edit::Stream(edit) = edit {
            edit.encode(&mut bytes);
        }
        self.note(database, kind_of(key, edit, &bytes));
        const KEPT_BYTES: usize = 64 << 10;
        bytes.shrink_to(KEPT_BYTES);
        self.elements = bytes;
    }

    /// Bytes of the changes since the last commit, expiries included.
    #[inline]
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.draft.pending_bytes() + self.expired.bytes()
    }

    /// Changes since the last commit. Expiries do not count.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Changes since the log was opened.
    #[inline]
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.committed + self.pending
    }

    /// Writes the changes since the last commit to the log as one record, and returns when they are as durable as the
    /// options say. It also does a part of the reclaiming.
    ///
    /// # Errors
    /// [`Error::Full`], and [`Error::Io`] for a new file: the changes are kept, and the next commit tries again.
    /// [`Error::Failed`] where a write or a sync has failed, now or before.
    pub fn commit(&mut self, databases: &mut [Keyspace]) -> Result<(), Error> {
        self.append(databases)?;
        match self.durability() {
            Durability::Always => {
                let log = &self.disk().log;
                log.sync_commit(log.position())
            }
            Durability::Process | Durability::Interval(_) => Ok(()),
        }
    }

    /// As [`commit`](Self::commit), without waiting for a sync whatever the options say. [`sync_later`](Self::sync_later)
    /// starts one.
    ///
    /// # Errors
    /// As of [`commit`](Self::commit).
    pub fn append(&mut self, databases: &mut [Keyspace]) -> Result<(), Error> {
        self.more();
        let disk = self.inner.disk.as_ref();
        let Some(disk) = disk.filter(|_| self.draft.pending_bytes() > 0) else {
            return self.disk().log.check();
        };
        self.draft.finish();
        let appended = match disk.log.append(&mut self.draft, Room::All) {
            Ok(appended) => appended,
            Err(Error::TooLarge { bytes, max_bytes }) => {
                let reason = format!("changes of {bytes} bytes at once; {max_bytes} fit");
                return Err(disk.log.fail(&reason));
            }
            Err(error) => {
                self.draft.reopen();
                return Err(error);
            }
        };
        self.draft.begin();
        self.committed += std::mem::take(&mut self.pending);
        self.lie_in(appended.segment, databases);
        self.inner.settle_in(databases, self.disk(), appended);
        Ok(())
    }

    /// Whether there is room for new data on the disk. Otherwise, only changes that make room should follow: the log writes
    /// them, and all others as long as they fit, to the room that it has kept for that.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.disk().log.is_low()
    }

    /// Bytes of changes from which on they should be committed, if that is possible: with so many, a record fits into the
    /// room that is kept, also on a full disk. 0 as long as none is kept.
    #[must_use]
    pub fn record_bytes(&self) -> u64 {
        self.disk().log.reserved_bytes() / 3
    }

    /// Reclaims room for some milliseconds where there is none for new data. To be called regularly while
    /// [`has_room`](Self::has_room) is false.
    ///
    /// # Errors
    /// [`Error::Failed`] where a write or a sync has failed, now or before.
    pub fn make_room(&mut self, databases: &mut [Keyspace]) -> Result<(), Error> {
        self.check()?;
        let disk = self.disk();
        if self.pending_bytes() == 0 {
            disk.reclaim.make_room(databases, &disk.log)?;
        }
        disk.log.refill();
        self.lie_in(self.disk().log.newest(), databases);
        self.check()
    }

    /// Whether a write or a sync has failed since the log was opened; it takes no more changes then.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn check(&self) -> Result<(), Error> {
        self.disk().log.check()
    }

    /// Position in the log behind the last commit, for [`is_synced`](Self::is_synced).
    #[must_use]
    pub fn position(&self) -> u64 {
        self.disk().log.position()
    }

    /// Whether everything before `position` has reached the disk.
    #[must_use]
    pub fn is_synced(&self, position: u64) -> bool {
        self.disk().log.synced() >= position
    }

    /// Returns when everything that was committed has reached the disk.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn sync(&self) -> Result<(), Error> {
        let log = &self.disk().log;
        log.sync(log.position())
    }

    /// Calls `notify` after each sync of the thread in the background, on that thread. It also calls it after one that
    /// failed, which [`check`](Self::check) tells. Only the first call of this function has an effect.
    pub fn on_sync(&self, notify: impl Fn() + Send + Sync + 'static) {
        self.inner.wakeup.notify_after_sync(Box::new(notify));
    }

    /// Lets the thread in the background sync what was committed.
    pub fn sync_later(&self) {
        self.wake_or_work(SyncMode::Always);
    }

    /// As [`sync_later`](Self::sync_later), for replies that wait for every commit ([`Durability::Always`]): it takes one sync
    /// of the disk instead of two. Damage to the last commits can then be told from an incomplete record unless the
    /// machine fails before the next sync.
    pub fn sync_commits_later(&self) {
        self.wake_or_work(SyncMode::Commit);
    }

    fn wake_or_work(&self, sync: SyncMode) {
        if !self.inner.wakeup.wake(sync) {
            self.inner.work(sync);
        }
    }

    /// Begins to write all entries anew. [`rewrite_some`](Self::rewrite_some) does the work.
    ///
    /// # Errors
    /// [`Error::Full`], and [`Error::Io`] for a new file; [`Error::Failed`] where a write or a sync has failed before.
    pub fn begin_rewrite(&mut self, databases: &mut [Keyspace]) -> Result<Rewrite, Error> {
        let end = self.disk().log.roll()?;
        self.lie_in(end, databases);
        Ok(Rewrite { end })
    }

    /// Does a small part of a rewrite: writes the entries of one of 4,096 parts of a database. While changes are not
    /// committed, it does nothing, since they must not reach the disk before their commit. With
    /// [`RewriteStep::Removing`], the thread in the background has the rest to do.
    ///
    /// # Errors
    /// [`Error::Full`], and [`Error::Io`] for a new file: the part is left as it was. [`Error::Failed`] where a write or a
    /// sync has failed, now or before.
    pub fn rewrite_some(
        &mut self,
        rewrite: Rewrite,
        databases: &mut [Keyspace],
    ) -> Result<RewriteStep, Error> {
        let Rewrite { end } = rewrite;
        self.check()?;
        let disk = self.disk();
        let before = disk.reclaim.reclaimed();
        if before < end && self.pending_bytes() > 0 {
            return Ok(RewriteStep::Writing);
        }
        if disk.log.is_tight() && disk.reclaim.has_removable() {
            // The next step needs the room of what was reclaimed before.
            self.sync_later();
            return Ok(RewriteStep::Writing);
        }
        let reclaimed = disk.reclaim.step_before(end, databases, &disk.log)?;
        let is_removed = disk.log.oldest() >= end;
        self.lie_in(self.disk().log.newest(), databases);
        // The files of what was reclaimed go with the next sync.
        if reclaimed > before || (reclaimed >= end && !is_removed) {
            self.sync_later();
        }
        Ok(match reclaimed >= end {
            false => RewriteStep::Writing,
            true if is_removed => RewriteStep::Done,
            true => RewriteStep::Removing,
        })
    }

    /// The durability of a commit.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Sets the durability of all later commits. A stronger one also starts a sync of what was committed before.
    pub fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
        self.inner.wakeup.set_interval(durability.interval());
        if durability != Durability::Process {
            self.sync_later();
        }
    }

    /// The part that was cut off when the log was opened, since it had not been written completely.
    #[must_use]
    pub fn torn(&self) -> Option<&Torn> {
        self.torn.as_ref()
    }

    /// The present content of the log. Counting visits all shards of `databases`, which takes some 50 microseconds.
    #[must_use]
    pub fn stats(&self, databases: &[Keyspace]) -> LogStats {
        let log = &self.disk().log;
        LogStats {
            live_bytes: super::reclaim::live_bytes(databases),
            disk_bytes: log.allocated_bytes(),
            segments: log.segment_count() as u64,
            unsynced_bytes: log.position().saturating_sub(log.synced()),
            is_mapped: self.is_mapped,
        }
    }

    /// Closes the log; everything that was committed has reached the disk then. One that is dropped is closed as by the
    /// end of its process.
    ///
    /// # Errors
    /// Those of [`Store::close`](crate::Store::close).
    pub fn close(mut self) -> Result<(), Error> {
        self.upkeep = None;
        self.disk().log.finish()
    }
}

/// The operation that a change is.
fn kind_of<'k>(key: &'k [u8], edit: Edit<'k>, bytes: &'k [u8]) -> Kind<'k> {
    let elements = Elements::new(bytes);
    let add = |form, at_front| Kind::Add {
        key,
        form,
        at_front,
        elements,
    };
    let take = |form, at_front| Kind::Take {
        key,
        form,
        at_front,
        elements,
    };
    match edit {
        // A string has at most 512 MiB, and a list fewer items than a record has bytes.
        Edit::Write(offset, bytes) => Kind::Patch {
            key,
            offset: offset as u32,
            bytes,
        },
        Edit::SetItem(index, item) => Kind::SetItem {
            key,
            index: index as u32,
            item,
        },
        Edit::InsertItem(index, item) => Kind::InsertItem {
            key,
            index: index as u32,
            item,
        },
        Edit::RemoveItems(count, item) => Kind::RemoveItems { key, count, item },
        Edit::SetScores(_) => add(Form::Sorted, false),
        Edit::RemoveScored(_) => take(Form::Sorted, false),
        Edit::AddMembers(_) => add(Form::Set, false),
        Edit::RemoveMembers(_) => take(Form::Set, false),
        Edit::SetFields(_) => add(Form::Hash, false),
        Edit::SetFieldExpiries(_) => add(Form::FieldTimes, false),
        Edit::RemoveFields(_) => take(Form::Hash, false),
        Edit::PushFront(_) => add(Form::List, true),
        Edit::PushBack(_) => add(Form::List, false),
        Edit::PopFront(_) => take(Form::List, true),
        Edit::PopBack(_) => take(Form::List, false),
        Edit::Stream(_) => Kind::EditStream { key, edit: bytes },
    }
}

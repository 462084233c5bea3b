//! The log: operations in the order in which they happened, in segments.

pub(crate) mod op;
pub(crate) mod pace;
pub(crate) mod record;
pub(crate) mod recovery;
pub(crate) mod segment;

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, OnceLock, PoisonError};

use crate::clock::monotonic;
use crate::error::Error;
use crate::record::Outside;
use crate::storage::{Appender, NewFile, Storage};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, RwLock, wait};
use op::{Kind, Op};
use pace::Pace;
use record::{Draft, HEADER_BYTES, MAX_BODY_BYTES};
use segment::{HEAD_BYTES, Head, Segment};

/// Version of the format that is written. All before it are read as well.
pub(crate) const VERSION: u32 = 2;

/// A record that was appended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Appended {
    pub(crate) segment: u32,
    /// Offset of the record in the segment's file.
    pub(crate) offset: u32,
    /// Position in the log behind the record.
    pub(crate) end: u64,
    /// Bytes that it takes in the file.
    pub(crate) bytes: u64,
    /// Bytes of its operations.
    pub(crate) body_bytes: usize,
    /// Whether it is the first one of its segment.
    pub(crate) is_first: bool,
}

impl Appended {
    /// Where a value of `bytes` bytes lies that ends at `end` in the body.
    pub(crate) fn outside(&self, end: usize, bytes: u32) -> Outside {
        Outside {
            segment: self.segment,
            // A segment is no longer than an offset can say.
            offset: self.offset + (HEADER_BYTES + end) as u32 - bytes,
            bytes,
        }
    }
}

/// Smallest room of a segment for records, in bytes.
const MIN_SEGMENT_BYTES: u64 = 64 << 10;

/// A log that is open for writing.
#[derive(Debug)]
pub(crate) struct Log {
    storage: Box<dyn Storage>,
    /// Room of a new segment for records, in bytes.
    segment_bytes: AtomicU64,
    tail: Mutex<Tail>,
    /// All segments that have a meaning, the oldest first.
    segments: RwLock<VecDeque<Arc<Segment>>>,
    /// Everything before this position has reached the disk.
    synced: AtomicU64,
    /// Held by the thread that syncs, with the segments that wait for it.
    syncing: Mutex<Unsynced>,
    /// The threads that wait for a sync, and the notification of its end.
    writers: Mutex<Writers>,
    sync_ended: Condvar,
    /// The first error of a write or a sync.
    failure: OnceLock<String>,
}

/// Where the log is written.
#[derive(Debug)]
struct Tail {
    /// The segment that is written; `None` until the first record.
    active: Option<Active>,
    /// Position in the log and number of the next record.
    position: u64,
    sequence: u64,
    next_segment: u32,
    /// Segments that became full since the last sync.
    full: Vec<Arc<Segment>>,
    /// Whether a file was made since the last sync.
    has_new_names: bool,
}

#[derive(Debug)]
struct Active {
    segment: Arc<Segment>,
    appender: Box<dyn Appender>,
    offset: u64,
}

/// What a sync that failed or never was leaves to the next one.
#[derive(Debug, Default)]
struct Unsynced {
    segments: Vec<Arc<Segment>>,
    names: bool,
}

/// The threads that wait until their records have reached the disk.
#[derive(Debug, Default)]
struct Writers {
    /// Position behind the record of each of them. Those before `synced` no longer wait.
    positions: Vec<u64>,
    pace: Pace,
}

impl Writers {
    /// The number of threads that still wait when everything before `synced` has reached the disk.
    fn waiting(&mut self, synced: u64) -> usize {
        self.positions.retain(|position| *position > synced);
        self.positions.len()
    }
}

/// Locks even where a thread panicked: what these locks protect is changed in single steps.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    /// The log whose segments were recovered; new records go to a new segment.
    pub(crate) fn new(
        storage: Box<dyn Storage>,
        recovered: recovery::Recovered,
        segment_bytes: u64,
    ) -> Self {
        let is_unsynced = |segment: &&Arc<Segment>| segment.end_position() > recovered.synced;
        let unsynced = recovered.segments.iter().filter(is_unsynced).cloned();
        let unsynced = Unsynced {
            segments: unsynced.collect(),
            names: true,
        };
        Self {
            storage,
            segment_bytes: AtomicU64::new(segment_bytes),
            tail: Mutex::new(Tail {
                active: None,
                position: recovered.position,
                sequence: recovered.sequence,
                next_segment: recovered.next_segment,
                full: vec![],
                has_new_names: false,
            }),
            segments: RwLock::new(recovered.segments.into()),
            synced: AtomicU64::new(recovered.synced),
            syncing: Mutex::new(unsynced),
            writers: Mutex::default(),
            sync_ended: Condvar::new(),
            failure: OnceLock::new(),
        }
    }

    /// Appends a record.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::Io`] where there is no new segment, and the log is as before;
    /// [`Error::Failed`] where a write has failed, now or before; [`Error::TooLarge`].
    pub(crate) fn append(&self, draft: &mut Draft) -> Result<Appended, Error> {
        if draft.body().len() > MAX_BODY_BYTES {
            return Err(Error::TooLarge {
                bytes: draft.body().len(),
                max_bytes: MAX_BODY_BYTES,
            });
        }
        let mut tail = locked(&self.tail);
        self.check()?;
        let bytes = draft.len() as u64;
        let fits = |active: &Active| active.offset + bytes <= active.segment.allocated();
        if !tail.active.as_ref().is_some_and(fits) {
            self.begin_segment(&mut tail, bytes)?;
        }
        let Tail {
            active: Some(active),
            position,
            sequence,
            ..
        } = &mut *tail
        else {
            return Err(self.fail("there is no segment to write to"));
        };
        let unsynced = *position - self.synced.load(Ordering::Relaxed);
        let sealed = draft.seal(active.segment.head.salt, *sequence, unsynced);
        if let Err(error) = active.appender.append(sealed) {
            return Err(self.write_failed(active.segment.head.id, error));
        }
        let offset = active.offset;
        active.offset += bytes;
        active.segment.set_end(active.offset);
        *position += bytes;
        *sequence += 1;
        Ok(Appended {
            segment: active.segment.head.id,
            offset: offset as u32,
            end: *position,
            bytes,
            body_bytes: draft.body().len(),
            is_first: offset == HEAD_BYTES as u64,
        })
    }

    /// Returns when everything before `position`, the end of a record of this thread, has reached the disk. Threads
    /// share syncs: the next one waits a moment for the threads of the last one, as [`Pace`] says.
    ///
    /// # Errors
    /// Those of [`sync`](Self::sync).
    pub(crate) fn sync_shared(&self, position: u64) -> Result<(), Error> {
        let mut writers = locked(&self.writers);
        writers.positions.push(position);
        loop {
            let synced = self.synced();
            if synced >= position {
                return Ok(());
            }
            self.check()?;
            let now = monotonic();
            let waiting = writers.waiting(synced);
            if writers.pace.is_due(waiting, now) {
                writers.pace.begin(now);
                drop(writers);
                let outcome = self.sync(position);
                writers = locked(&self.writers);
                let waiting = writers.positions.len();
                writers.pace.end(waiting, monotonic());
                self.sync_ended.notify_all();
                return outcome;
            }
            let timeout = writers.pace.longest_sleep(now);
            writers = wait(&self.sync_ended, &self.writers, writers, timeout);
        }
    }

    /// Returns when everything before `position` has reached the disk, and starts a sync for that at once. Threads that
    /// call it at the same time share one.
    ///
    /// # Errors
    /// [`Error::Failed`]; what has reached the disk is uncertain then.
    pub(crate) fn sync(&self, position: u64) -> Result<(), Error> {
        self.check()?;
        if self.synced.load(Ordering::Acquire) >= position {
            return Ok(());
        }
        let mut unsynced = locked(&self.syncing);
        if self.synced.load(Ordering::Acquire) >= position {
            return Ok(());
        }
        self.check()?;
        let target = self.sync_segments(&mut unsynced, 0)?;
        unsynced.segments.clear();
        self.sync_names(&mut unsynced)?;
        self.synced.store(target, Ordering::Release);
        Ok(())
    }

    /// Syncs the segments from `oldest` on that were not synced, and returns the position up to which they reach.
    fn sync_segments(&self, unsynced: &mut Unsynced, oldest: u32) -> Result<u64, Error> {
        let (target, active) = {
            let mut tail = locked(&self.tail);
            unsynced.segments.append(&mut tail.full);
            unsynced.names |= std::mem::take(&mut tail.has_new_names);
            let active = tail.active.as_ref();
            (
                tail.position,
                active.map(|active| Arc::clone(&active.segment)),
            )
        };
        let segments = unsynced.segments.iter().chain(&active);
        for segment in segments.filter(|segment| segment.head.id >= oldest) {
            let synced = segment.file.sync();
            synced.map_err(|error| self.sync_failed(&segment::name(segment.head.id), &error))?;
        }
        Ok(target)
    }

    fn sync_names(&self, unsynced: &mut Unsynced) -> Result<(), Error> {
        if unsynced.names {
            let synced = self.storage.sync_names();
            synced.map_err(|error| self.sync_failed("", &error))?;
            unsynced.names = false;
        }
        Ok(())
    }

    /// Number of the segment that is written, or of the next one where none is.
    pub(crate) fn newest(&self) -> u32 {
        let tail = locked(&self.tail);
        let active = tail.active.as_ref();
        active.map_or(tail.next_segment, |active| active.segment.head.id)
    }

    /// Position behind the last record.
    pub(crate) fn position(&self) -> u64 {
        locked(&self.tail).position
    }

    /// Everything before this position has reached the disk.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Bytes of all files, room that is reserved included.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        let segments = self.segments.read();
        let segments = segments.unwrap_or_else(PoisonError::into_inner);
        segments.iter().map(|segment| segment.allocated()).sum()
    }

    /// Number of segments.
    pub(crate) fn segment_count(&self) -> usize {
        let segments = self.segments.read();
        segments.unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The segment with this number.
    pub(crate) fn segment(&self, id: u32) -> Option<Arc<Segment>> {
        let segments = self.segments.read();
        let segments = segments.unwrap_or_else(PoisonError::into_inner);
        let oldest = segments.front()?.head.id;
        let index = id.checked_sub(oldest)? as usize;
        segments.get(index).cloned()
    }

    /// Number of the oldest segment there is, or of the first one there will be.
    pub(crate) fn oldest(&self) -> u32 {
        let next = locked(&self.tail).next_segment;
        let segments = self.segments.read();
        let segments = segments.unwrap_or_else(PoisonError::into_inner);
        segments.front().map_or(next, |segment| segment.head.id)
    }

    /// Syncs, and appends a record that says so, for those before it, if records were appended since the log was opened.
    /// Without it, damage to the last records could not be told from a torn tail.
    ///
    /// # Errors
    /// Those of [`sync`](Self::sync) and [`append`](Self::append).
    pub(crate) fn finish(&self) -> Result<(), Error> {
        self.sync(self.position())?;
        if locked(&self.tail).active.is_none() {
            return Ok(());
        }
        let segment = self.oldest();
        let mut draft = Draft::default();
        let kind = Kind::Oldest { segment };
        Op { database: 0, kind }.encode(draft.begin());
        draft.finish();
        let appended = self.append(&mut draft)?;
        self.sync(appended.end)
    }

    /// Begins a new segment and returns its number.
    ///
    /// # Errors
    /// Those of [`append`](Self::append).
    pub(crate) fn roll(&self) -> Result<u32, Error> {
        let mut tail = locked(&self.tail);
        self.check()?;
        self.begin_segment(&mut tail, 0)?;
        Ok(tail.next_segment - 1)
    }

    /// Syncs the segments from `oldest` on, forgets those before it, and removes their files. The record that says so
    /// ends at `position`.
    ///
    /// Segments that go and were never synced are not synced first: most of what was written to a small store was
    /// overwritten before it had to reach the disk. Until their files have gone, their content after a failure of the
    /// machine is uncertain, so `synced` stays where it was: recovery then finds a torn log, and not a damaged one. Files are
    /// removed from the newest one on, because the first one that is missing separates all others from the segments that
    /// stay.
    ///
    /// # Errors
    /// [`Error::Failed`] of a sync; [`Error::Io`] for a file that could not be removed. The next opening removes it.
    pub(crate) fn retire_before(&self, oldest: u32, position: u64) -> Result<(), Error> {
        self.check()?;
        let mut unsynced = locked(&self.syncing);
        self.check()?;
        let is_synced = self.synced.load(Ordering::Acquire) >= position;
        let target = match is_synced {
            true => None,
            false => Some(self.sync_segments(&mut unsynced, oldest)?),
        };
        for segment in self.forget_before(oldest).into_iter().rev() {
            let name = segment::name(segment.head.id);
            drop(segment);
            self.storage
                .remove(&name)
                .map_err(|error| Error::io(&self.storage.path(&name), error))?;
            unsynced.names = true;
        }
        if let Some(target) = target {
            self.sync_names(&mut unsynced)?;
            unsynced.segments.clear();
            self.synced.store(target, Ordering::Release);
        }
        Ok(())
    }

    /// Takes the segments before `oldest` out of the list, the oldest first.
    fn forget_before(&self, oldest: u32) -> Vec<Arc<Segment>> {
        let segments = self.segments.write();
        let mut segments = segments.unwrap_or_else(PoisonError::into_inner);
        let most = segments.len().saturating_sub(1);
        let count = segments.partition_point(|segment| segment.head.id < oldest);
        segments.drain(..count.min(most)).collect()
    }

    /// Sets the room of the segments that are made from now on.
    pub(crate) fn set_segment_bytes(&self, bytes: u64) {
        self.segment_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Ends the segment that is written and begins one with room for `bytes` more.
    fn begin_segment(&self, tail: &mut Tail, bytes: u64) -> Result<(), Error> {
        let room = self.segment_bytes.load(Ordering::Relaxed);
        let room = room.max(MIN_SEGMENT_BYTES).max(bytes);
        let allocated = room + HEAD_BYTES as u64;
        let segments = self.segments.read();
        let segments = segments.unwrap_or_else(PoisonError::into_inner);
        let oldest = segments.front().map(|segment| segment.head.id);
        drop(segments);
        let id = tail.next_segment;
        let head = Head {
            id,
            oldest: oldest.unwrap_or(id),
            position: tail.position,
            sequence: tail.sequence,
            salt: segment::new_salt(id),
        };
        let name = segment::name(id);
        let file = self.storage.create(&name, allocated, &head.encode());
        let NewFile { appender, stored } = file.map_err(|error| {
            if is_full(&error) {
                Error::Full { source: error }
            } else {
                Error::io(&self.storage.path(&name), error)
            }
        })?;
        let segment = Arc::new(Segment::new(head, stored, HEAD_BYTES as u64, allocated));
        let segments = self.segments.write();
        let mut segments = segments.unwrap_or_else(PoisonError::into_inner);
        segments.push_back(Arc::clone(&segment));
        drop(segments);
        let old = tail.active.replace(Active {
            segment,
            appender,
            offset: HEAD_BYTES as u64,
        });
        tail.next_segment += 1;
        tail.has_new_names = true;
        if let Some(Active {
            segment, appender, ..
        }) = old
        {
            drop(appender);
            // Room that cannot be given back is still counted as taken.
            let _ = segment.trim();
            tail.full.push(segment);
        }
        Ok(())
    }

    /// Refuses where the log has failed.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.failure.get() {
            None => Ok(()),
            Some(reason) => Err(Error::Failed {
                reason: reason.clone(),
            }),
        }
    }

    /// An error of reading a segment.
    pub(crate) fn read_failed(&self, segment: u32, error: io::Error) -> Error {
        Error::io(&self.storage.path(&segment::name(segment)), error)
    }

    fn write_failed(&self, segment: u32, error: io::Error) -> Error {
        // The next record goes to the same place.
        if is_full(&error) {
            return Error::Full { source: error };
        }
        let path = self.storage.path(&segment::name(segment));
        self.fail(&format!("{}: {error}", path.display()))
    }

    fn sync_failed(&self, name: &str, error: &io::Error) -> Error {
        let path = self.storage.path(name);
        self.fail(&format!("{}: {error}", path.display()))
    }

    /// Takes no writes from now on, and returns the error that says so.
    pub(crate) fn fail(&self, reason: &str) -> Error {
        let reason = self.failure.get_or_init(|| reason.to_owned());
        Error::Failed {
            reason: reason.clone(),
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let tail = self.tail.get_mut();
        let tail = tail.unwrap_or_else(PoisonError::into_inner);
        if let Some(Active {
            segment, appender, ..
        }) = tail.active.take()
        {
            drop(appender);
            // The next opening gives the room back if this does not.
            let _ = segment.trim();
        }
    }
}

/// Whether the error says that there is no room.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

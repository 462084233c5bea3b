//! The log: operations in the order in which they happened, in segments.

pub(crate) mod aside;
pub(crate) mod end;
mod file;
pub(crate) mod hint;
pub(crate) mod mark;
pub(crate) mod op;
pub(crate) mod pace;
pub(crate) mod record;
pub(crate) mod recovery;
mod room;
mod scan;
pub(crate) mod segment;
mod sync;

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, OnceLock, PoisonError};

use crate::error::Error;
use crate::record::Outside;
use crate::storage::{Appender, NewFile, Storage};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, RwLock};
use mark::MarkFile;
use op::{Kind, Op};
use record::{Draft, HEADER_BYTES, MAX_BODY_BYTES};
pub(crate) use room::Room;
use segment::{HEAD_BYTES, Head, Segment};
use sync::{Unsynced, Writers};

/// Version of the format that is written. All before it are read as well.
pub(crate) const VERSION: u32 = 3;

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
            unverified: None,
        }
    }
}

/// Smallest room of a segment for records, in bytes.
const MIN_SEGMENT_BYTES: u64 = 64 << 10;

/// Bytes for which a thread that writes prepares the file, when it finds less prepared.
const AHEAD_BYTES: usize = 64 << 10;

/// The same for a thread for which no one waits.
const FAR_AHEAD_BYTES: usize = 256 << 10;

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
    /// A mark that has reached the disk says so of everything before this position.
    marked: AtomicU64,
    /// Held by the thread that syncs, with the segments that wait for it.
    syncing: Mutex<Unsynced>,
    /// Held by the thread that removes files.
    removing: Mutex<()>,
    /// Whether a segment became full that is not written back yet.
    has_full: AtomicBool,
    /// The threads that wait for a sync, and the notification of its end.
    writers: Mutex<Writers>,
    sync_ended: Condvar,
    /// Held while the file of a hint is made.
    hints: Mutex<()>,
    /// The first error of a write or a sync.
    failure: OnceLock<String>,
    /// Whether the reserve is in use.
    is_low: AtomicBool,
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
    /// Number of these, from the first one on, that are being written back.
    written_back: usize,
    /// Whether a file was made since the last sync.
    has_new_names: bool,
    /// Bytes of the disk that are kept for deletions and copies.
    reserved: u64,
}

#[derive(Debug)]
struct Active {
    segment: Arc<Segment>,
    appender: Box<dyn Appender>,
    offset: u64,
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
            mark: MarkFile::new(recovered.next_mark),
        };
        let reserved = storage.reserved_bytes();
        Self {
            storage,
            segment_bytes: AtomicU64::new(segment_bytes),
            tail: Mutex::new(Tail {
                active: None,
                position: recovered.position,
                sequence: recovered.sequence,
                next_segment: recovered.next_segment,
                full: vec![],
                written_back: 0,
                has_new_names: false,
                reserved,
            }),
            segments: RwLock::new(recovered.segments.into()),
            synced: AtomicU64::new(recovered.synced),
            // One that was found can have survived the end of the process only.
            marked: AtomicU64::new(0),
            syncing: Mutex::new(unsynced),
            removing: Mutex::default(),
            has_full: AtomicBool::new(false),
            writers: Mutex::default(),
            sync_ended: Condvar::new(),
            hints: Mutex::default(),
            failure: OnceLock::new(),
            is_low: AtomicBool::new(false),
        }
    }

    /// Appends a record.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::Io`] where there is no new segment, and the log is as before;
    /// [`Error::Failed`] where a write has failed, now or before; [`Error::TooLarge`].
    pub(crate) fn append(&self, draft: &mut Draft, room: Room) -> Result<Appended, Error> {
        if draft.body().len() > MAX_BODY_BYTES {
            return Err(Error::TooLarge {
                bytes: draft.body().len(),
                max_bytes: MAX_BODY_BYTES,
            });
        }
        let mut tail = locked(&self.tail);
        self.check_write()?;
        self.check_room(&mut tail, room)?;
        let bytes = draft.len() as u64;
        let fits = |active: &Active| active.offset + bytes <= active.segment.allocated();
        if !tail.active.as_ref().is_some_and(fits) {
            self.begin_segment(&mut tail, bytes, room)?;
        }
        let Tail {
            active: Some(active),
            position,
            sequence,
            reserved,
            ..
        } = &mut *tail
        else {
            return Err(self.fail("there is no segment to write to"));
        };
        let unsynced = *position - self.synced.load(Ordering::Relaxed);
        let sealed = draft.seal(active.segment.head.salt, *sequence, unsynced);
        let mut written = active.appender.append(sealed);
        if room != Room::Common
            && written.as_ref().is_err_and(is_full)
            && self.use_reserve(reserved)
        {
            written = active.appender.append(sealed);
        }
        if let Err(error) = written {
            return Err(self.write_failed(active.segment.head.id, error));
        }
        let offset = active.offset;
        active.offset += bytes;
        active.segment.set_end(active.offset);
        *position += bytes;
        *sequence += 1;
        let appended = Appended {
            segment: active.segment.head.id,
            offset: offset as u32,
            end: *position,
            bytes,
            body_bytes: draft.body().len(),
            is_first: offset == HEAD_BYTES as u64,
        };
        if active.appender.wants_pages(AHEAD_BYTES) {
            let segment = Arc::clone(&active.segment);
            // Others write in the meantime.
            drop(tail);
            segment.file.prepare(AHEAD_BYTES);
        }
        Ok(appended)
    }

    /// Prepares room for records that come soon, for a thread for which no one waits.
    pub(crate) fn prepare(&self) {
        let segments = self.segments.read();
        let segments = segments.unwrap_or_else(PoisonError::into_inner);
        let newest = segments.back().cloned();
        drop(segments);
        if let Some(segment) = newest {
            segment.file.prepare(FAR_AHEAD_BYTES);
        }
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

    /// Bytes of all files, room that is reserved and hints included.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        let segments = self.segments.read();
        let segments = segments.unwrap_or_else(PoisonError::into_inner);
        let bytes = |segment: &Arc<Segment>| segment.allocated() + segment.hint();
        segments.iter().map(bytes).sum()
    }

    /// Bytes of the files of the segments before `oldest`.
    pub(crate) fn bytes_before(&self, oldest: u32) -> u64 {
        let segments = self.segments.read();
        let segments = segments.unwrap_or_else(PoisonError::into_inner);
        let before = segments
            .iter()
            .take_while(|segment| segment.head.id < oldest);
        let bytes = |segment: &Arc<Segment>| segment.allocated() + segment.hint();
        before.map(bytes).sum()
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
        self.oldest_in(&locked(&self.tail))
    }

    fn oldest_in(&self, tail: &Tail) -> u32 {
        let segments = self.segments.read();
        let segments = segments.unwrap_or_else(PoisonError::into_inner);
        let oldest = segments.front().map(|segment| segment.head.id);
        oldest.unwrap_or(tail.next_segment)
    }

    /// Syncs, which leaves a mark at the end, and appends a record that says so, for those before it, if records were appended
    /// since the log was opened. It says so also where the files of the log are copied without the mark.
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
        let appended = self.append(&mut draft, Room::All)?;
        self.sync(appended.end)
    }

    /// Begins a new segment and returns its number.
    ///
    /// # Errors
    /// Those of [`append`](Self::append).
    pub(crate) fn roll(&self) -> Result<u32, Error> {
        let mut tail = locked(&self.tail);
        self.check_write()?;
        self.begin_segment(&mut tail, 0, Room::All)?;
        Ok(tail.next_segment - 1)
    }

    /// Sets the room of the segments that are made from now on.
    pub(crate) fn set_segment_bytes(&self, bytes: u64) {
        self.segment_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Room of the segments that are made from now on.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes.load(Ordering::Relaxed)
    }

    /// Ends the segment that is written and begins one with room for `bytes` more.
    fn begin_segment(&self, tail: &mut Tail, bytes: u64, room: Room) -> Result<(), Error> {
        let least = MIN_SEGMENT_BYTES.max(bytes);
        let wanted = self.segment_bytes.load(Ordering::Relaxed).max(least);
        let sizes = (wanted + HEAD_BYTES as u64, least + HEAD_BYTES as u64);
        let id = tail.next_segment;
        let head = Head {
            id,
            oldest: self.oldest_in(tail),
            position: tail.position,
            sequence: tail.sequence,
            salt: segment::new_salt(id),
        };
        let name = segment::name(id);
        let file = self.create(tail, room, sizes, (&name, &head.encode()));
        let (NewFile { appender, stored }, allocated) = file.map_err(|error| {
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
            // Writers wait for this, so little room is given back by the sync. Room that cannot be given back is still counted
            // as taken.
            if segment.is_worth_trimming() {
                let _ = segment.trim();
            }
            tail.full.push(segment);
            self.has_full.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether nothing is written.
    pub(crate) fn is_read_only(&self) -> bool {
        self.storage.is_read_only()
    }

    /// Refuses where nothing is written, or the log has failed.
    fn check_write(&self) -> Result<(), Error> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        self.check()
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

    /// The error of a value whose checksum is wrong.
    pub(crate) fn value_damaged(&self, outside: Outside) -> Error {
        let path = self.storage.path(&segment::name(outside.segment));
        segment::damaged_value(path, outside)
    }

    /// Shows `look` a value that is kept in the log only. The shard of its key has to be locked: the log keeps the
    /// segment as long.
    pub(crate) fn read_outside<R>(
        &self,
        outside: Outside,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Error> {
        let Some(segment) = self.segment(outside.segment) else {
            unreachable!("a segment stays as long as an entry lies in it")
        };
        let read = segment::read_value(&*segment.file, outside, look);
        let read = read.map_err(|error| self.read_failed(outside.segment, error))?;
        read.ok_or_else(|| self.value_damaged(outside))
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

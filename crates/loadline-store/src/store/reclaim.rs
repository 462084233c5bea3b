//! Reclaiming the room of entries that were overwritten or deleted.
//!
//! The oldest segment is read again, what is still alive in it is written to the end of the log, and its file is
//! removed. Since it is always the oldest one, nothing older can come back: a deletion needs no record once
//! its segment is reclaimed, and the numbers of the files have no gaps.
//!
//! Writers do the work, in proportion to what they write, so that it is spread evenly.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::collections;
use super::inner::{Disk, Inner, with_draft};
use super::options::Options;
use super::writer::{Planned, plan};
use crate::clock::now_ms;
use crate::error::Error;
use crate::keyspace::{Keyspace, NewString};
use crate::log::op::{Kind, Op};
use crate::log::segment::HEAD_BYTES;
use crate::log::{Log, record};
use crate::slot::Slot;
use crate::value::View;

/// Bytes that are read again for every byte that is written.
const BYTES_PER_BYTE: u64 = 4;

/// Bytes that are read again in one step, if the records are not larger.
const STEP_BYTES: u64 = 1 << 10;

/// Bytes of files that are allowed beside what is in proportion to the live bytes.
const SLACK_BYTES: u64 = 2 << 20;

/// Reclaiming, as far as it has come.
#[derive(Debug)]
pub(crate) struct Reclaim {
    /// Whether there is more garbage than is allowed.
    is_active: AtomicBool,
    /// Bytes that were written since the last step.
    owed: AtomicU64,
    progress: Mutex<Progress>,
    largest_segment_bytes: u64,
}

#[derive(Debug)]
struct Progress {
    /// The segment that is read, and the offset of its next record.
    segment: u32,
    offset: u64,
    /// Segments before this one can be removed, when the log has reached the disk up to this position.
    removable: Option<(u32, u64)>,
    /// Memory for the records of a step.
    body: Vec<u8>,
}

impl Reclaim {
    /// Of a log whose oldest segment is `oldest`.
    pub(crate) fn new(options: &Options, oldest: u32) -> Self {
        Self {
            is_active: AtomicBool::new(false),
            owed: AtomicU64::new(0),
            progress: Mutex::new(Progress {
                segment: oldest,
                offset: HEAD_BYTES as u64,
                removable: None,
                body: vec![],
            }),
            largest_segment_bytes: options.segment_bytes,
        }
    }

    /// Whether there is more garbage than is allowed.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// Finds out whether there is more garbage than is allowed, and how large the next segment is to be. Returns whether
    /// there is so much that writers have to wait until reclaimed segments are removed, as on a slow disk.
    pub(crate) fn assess(&self, log: &Log, databases: &[Keyspace]) -> bool {
        let live = live_bytes(databases);
        let (allocated, allowed) = (log.allocated_bytes(), allowed_bytes(live));
        let is_active = allocated > allowed;
        self.is_active.store(is_active, Ordering::Relaxed);
        log.set_segment_bytes(segment_bytes(live, self.largest_segment_bytes));
        allocated > allowed + live / 50 + SLACK_BYTES / 2
    }

    /// Does a part of the work for a writer that has written `bytes`. Returns whether a segment can be removed.
    pub(crate) fn pay(&self, databases: &[Keyspace], disk: &Disk, bytes: u64) -> bool {
        let owes = bytes.saturating_mul(BYTES_PER_BYTE);
        let owed = self.owed.fetch_add(owes, Ordering::Relaxed) + owes;
        if owed < STEP_BYTES {
            return false;
        }
        // Another thread is at it; what this one owes is paid with the next write.
        let Ok(mut progress) = self.progress.try_lock() else {
            return false;
        };
        let owed = self.owed.swap(0, Ordering::Relaxed);
        let mut paid = 0;
        while paid < owed && self.is_active() {
            match progress.step(databases, disk) {
                // An error of the log stays in it, and the next write returns it. When there is no
                // room, the segment waits until there is some.
                Err(_) => return false,
                Ok(Step::Read(bytes)) => paid += bytes,
                Ok(Step::Done) => {
                    self.assess(&disk.log, databases);
                    return true;
                }
                Ok(Step::Nothing) => return false,
            }
        }
        false
    }

    /// Removes the segments that were reclaimed, when the copies of what was alive in them have reached the disk.
    ///
    /// # Errors
    /// Those of [`Log::sync`] and [`Log::remove_before`].
    pub(crate) fn remove(&self, log: &Log, databases: &[Keyspace]) -> Result<(), Error> {
        // A snapshot may read from them. They go the next time.
        if databases.iter().any(Keyspace::has_snapshots) {
            return Ok(());
        }
        let progress = || self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let removable = progress().removable;
        if let Some((oldest, position)) = removable {
            log.sync(position)?;
            log.remove_before(oldest)?;
            let mut progress = progress();
            if progress.removable == removable {
                progress.removable = None;
            }
        }
        Ok(())
    }

    /// Reclaims all segments there are now, so that no garbage is left.
    ///
    /// # Errors
    /// Those of the log.
    pub(crate) fn compact(&self, inner: &Inner, disk: &Disk) -> Result<(), Error> {
        let end = disk.log.roll()?;
        loop {
            let progress = self.progress.lock();
            let mut progress = progress.unwrap_or_else(PoisonError::into_inner);
            if progress.segment >= end {
                break;
            }
            progress.step(&inner.databases, disk)?;
            drop(progress);
            self.remove(&disk.log, &inner.databases)?;
        }
        self.remove(&disk.log, &inner.databases)?;
        self.assess(&disk.log, &inner.databases);
        Ok(())
    }
}

/// Bytes that all entries take in the log when they are written anew.
pub(crate) fn live_bytes(databases: &[Keyspace]) -> u64 {
    databases.iter().map(Keyspace::logged_bytes).sum()
}

/// Bytes of files that so many live bytes may take.
fn allowed_bytes(live: u64) -> u64 {
    live + live / 5 * 2 + SLACK_BYTES
}

/// Room of the next segment in a log with so many live bytes. Small ones cost more files, large ones more room
/// that is reserved and not used.
pub(crate) fn segment_bytes(live: u64, largest: u64) -> u64 {
    (live / 16).max(1 << 20).min(largest)
}

/// What a step has done.
enum Step {
    /// It has read so many bytes.
    Read(u64),
    /// It has come to the end of a segment.
    Done,
    /// There is no segment to reclaim.
    Nothing,
}

impl Progress {
    /// Reads some records of the oldest segment again, and writes what is alive in them.
    fn step(&mut self, databases: &[Keyspace], disk: &Disk) -> Result<Step, Error> {
        let Some(segment) = disk.log.reclaimable(self.segment) else {
            return Ok(Step::Nothing);
        };
        let end = segment.end();
        let until = (self.offset + STEP_BYTES).min(end);
        let mut offset = self.offset;
        self.body.clear();
        while offset < until {
            let read = record::read_body(&*segment.file, offset, &mut self.body);
            let read = read.map_err(|error| disk.log.read_failed(self.segment, error))?;
            offset += read;
        }
        let read = offset - self.offset;
        if offset < end {
            self.copy_live(databases, disk)?;
            self.offset = offset;
            return Ok(Step::Read(read));
        }
        self.copy_live(databases, disk)?;
        let oldest = self.segment + 1;
        let appended = with_draft(|draft| {
            let kind = Kind::Oldest { segment: oldest };
            Op { database: 0, kind }.encode(draft.begin());
            draft.finish();
            disk.log.append(draft)
        })?;
        self.removable = Some((oldest, appended.end));
        (self.segment, self.offset) = (oldest, HEAD_BYTES as u64);
        Ok(Step::Done)
    }

    /// Writes the entries that the operations of `body` are about, as far as they lie in this segment. Databases may
    /// have exchanged their numbers since, so the keys are looked for in all of them.
    fn copy_live(&self, databases: &[Keyspace], disk: &Disk) -> Result<(), Error> {
        for (database, keyspace) in databases.iter().enumerate() {
            if keyspace.is_untouched() {
                continue;
            }
            let mut planned = plan(keyspace, &self.body);
            // A key is written once, however many operations there are.
            planned
                .sort_unstable_by_key(|planned| (keyspace.shard_index(planned.hash), planned.hash));
            planned.dedup_by(|one, other| one.hash == other.hash && one.op.key() == other.op.key());
            if !planned.is_empty() {
                self.copy_keys(keyspace, disk, database as u8, &planned)?;
            }
        }
        Ok(())
    }

    fn copy_keys(
        &self,
        keyspace: &Keyspace,
        disk: &Disk,
        database: u8,
        planned: &[Planned<'_>],
    ) -> Result<(), Error> {
        let mut locked = keyspace.lock_all(planned.iter().map(|planned| planned.hash));
        let now = now_ms();
        with_draft(|draft| {
            let body = draft.begin();
            // Which ones are written, and where they end in the body.
            let mut copies: Vec<(&Planned<'_>, usize)> = vec![];
            for planned in planned {
                let Some(key) = planned.op.key() else {
                    continue;
                };
                let Some(slot) = locked.key(planned.hash).find_any(key) else {
                    continue;
                };
                if slot
                    .record
                    .segment()
                    .is_none_or(|segment| segment > self.segment)
                {
                    continue;
                }
                if slot.is_gone(now) {
                    locked.key(planned.hash).remove(key);
                    continue;
                }
                encode(disk, database, key, slot, body)?;
                copies.push((planned, body.len() - record::HEADER_BYTES));
            }
            if copies.is_empty() {
                return Ok(());
            }
            draft.finish();
            let appended = disk.log.append(draft)?;
            locked.rewind();
            for (planned, end) in copies {
                let Some(key) = planned.op.key() else {
                    continue;
                };
                let Some(slot) = locked.key(planned.hash).find_any(key) else {
                    continue;
                };
                if let Some(outside) = slot.record.outside() {
                    let expires_at = slot.expires_at();
                    let new = NewString::Outside(appended.outside(end, outside.bytes));
                    locked.key(planned.hash).put(key, new, expires_at);
                } else {
                    locked.key(planned.hash).set_segment(key, appended.segment);
                }
            }
            Ok(())
        })
    }
}

/// Appends the operation that puts an entry as it is.
fn encode(
    disk: &Disk,
    database: u8,
    key: &[u8],
    slot: Slot<'_>,
    body: &mut Vec<u8>,
) -> Result<(), Error> {
    let expires_at = slot.expires_at();
    let encode =
        |value: View<'_>, body| collections::encode(database, key, value, expires_at, body);
    match slot.record.outside() {
        Some(outside) => disk.read_outside(outside, |value| encode(View::String(value), body))?,
        None => encode(slot.view(), body),
    }
    Ok(())
}

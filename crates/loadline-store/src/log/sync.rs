//! When the log reaches the disk, and when its oldest segments go.

use std::sync::{Arc, PoisonError};

use super::mark::{self, Mark, MarkFile};
use super::pace::Pace;
use super::segment::{self, HEAD_BYTES, Segment};
use super::{Log, is_full, locked};
use crate::clock::monotonic;
use crate::error::Error;
use crate::sync::atomic::Ordering;
use crate::sync::wait;

/// The work that a sync that failed or never was leaves to the next one.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) names: bool,
    /// Where each sync leaves its mark.
    pub(super) mark: MarkFile,
}

/// Whether the mark of a sync has to reach the disk with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marking {
    /// It is written, and only syncs of it that are due are waited for. Until it has reached the disk, the records behind it
    /// say the same.
    Written,
    Synced,
}

/// Gives back the room behind the records of a full segment. Room that cannot be given back is still counted as taken.
fn trim(segment: &Segment) {
    let _ = segment.trim();
}

/// The result of a sync of segments.
#[derive(Debug)]
struct Reached {
    /// Everything before this position is on the disk, except in segments that are to be removed.
    end: u64,
    /// Number of the segments that waited for a sync and are done, from the first one on.
    count: usize,
}

/// The threads that wait until their records have reached the disk.
#[derive(Debug, Default)]
pub(super) struct Writers {
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

impl Log {
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
                let outcome = self.sync_commit(position);
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
    /// call it at the same time share one. A mark that says so has reached the disk, too.
    ///
    /// # Errors
    /// [`Error::Failed`]; what has reached the disk is uncertain then.
    pub(crate) fn sync(&self, position: u64) -> Result<(), Error> {
        self.sync_until(position, u64::MAX, Marking::Synced)
    }

    /// As [`sync`](Self::sync), for writers that wait for every record: the mark takes no second sync.
    ///
    /// # Errors
    /// Those of [`sync`](Self::sync).
    pub(crate) fn sync_commit(&self, position: u64) -> Result<(), Error> {
        self.sync_until(position, u64::MAX, Marking::Written)
    }

    /// Returns when all segments that are full now have reached the disk.
    ///
    /// # Errors
    /// Those of [`sync`](Self::sync).
    pub(crate) fn sync_full(&self) -> Result<(), Error> {
        let end = {
            let tail = locked(&self.tail);
            let active = tail.active.as_ref();
            active.map_or(tail.position, |active| active.segment.head.position)
        };
        self.sync_until(end, end, Marking::Written)
    }

    /// Returns when everything before `position` has reached the disk. A sync for that goes as far as `until`.
    fn sync_until(&self, position: u64, until: u64, marking: Marking) -> Result<(), Error> {
        self.check()?;
        let is_done = || {
            self.synced() >= position
                && (marking == Marking::Written || self.marked.load(Ordering::Acquire) >= position)
        };
        if is_done() {
            return Ok(());
        }
        let mut unsynced = locked(&self.syncing);
        if is_done() {
            return Ok(());
        }
        self.check()?;
        let synced = self.synced();
        if synced >= position {
            return self.mark(&mut unsynced.mark, synced, Marking::Synced);
        }
        let reached = self.sync_segments(&mut unsynced, 0, until)?;
        self.note_synced(&mut unsynced, &reached, marking)
    }

    /// Leaves a mark that everything before `position` has reached the disk. On a full disk there is none, and the records
    /// alone say what has.
    fn mark(&self, file: &mut MarkFile, position: u64, marking: Marking) -> Result<(), Error> {
        let Some(mark) = self.mark_at(position) else {
            return Ok(());
        };
        let now = monotonic();
        let written = file.write(&*self.storage, mark);
        let marked = written.and_then(|()| {
            if marking == Marking::Synced || file.is_due(now) {
                file.sync(now)?;
                self.marked.store(position, Ordering::Release);
            }
            Ok(())
        });
        match marked {
            Err(error) if !is_full(&error) => Err(self.sync_failed(mark::NAME, &error)),
            _ => Ok(()),
        }
    }

    /// The mark of a position. Before the first record, there is none.
    fn mark_at(&self, position: u64) -> Option<Mark> {
        let segments = self.segments.read();
        let segments = segments.unwrap_or_else(PoisonError::into_inner);
        let mut newest_first = segments.iter().rev();
        let head = newest_first.find(|segment| segment.head.position < position)?;
        let head = &head.head;
        Some(Mark {
            number: 0,
            segment: head.id,
            salt: head.salt,
            offset: u32::try_from(position - head.position + HEAD_BYTES as u64).ok()?,
            position,
        })
    }

    /// Starts to write segments that became full to the disk, so that a sync takes less time later. Returns whether there
    /// was one.
    pub(crate) fn write_back(&self) -> bool {
        if !self.has_full.load(Ordering::Relaxed) {
            return false;
        }
        self.has_full.store(false, Ordering::Relaxed);
        let full = {
            let mut tail = locked(&self.tail);
            let begun = tail.written_back;
            tail.written_back = tail.full.len();
            tail.full[begun..].to_vec()
        };
        for segment in &full {
            trim(segment);
            segment.file.write_back();
        }
        !full.is_empty()
    }

    /// Syncs the segments from `oldest` on that were not synced, as far as `position` requires it. The segment that is
    /// being written is synced only if `position` is in it.
    fn sync_segments(
        &self,
        unsynced: &mut Unsynced,
        oldest: u32,
        position: u64,
    ) -> Result<Reached, Error> {
        let (mut end, mut active) = {
            let mut tail = locked(&self.tail);
            unsynced.segments.append(&mut tail.full);
            tail.written_back = 0;
            unsynced.names |= std::mem::take(&mut tail.has_new_names);
            let active = tail.active.as_ref();
            (
                tail.position,
                active.map(|active| Arc::clone(&active.segment)),
            )
        };
        let full = &unsynced.segments;
        let last = full
            .iter()
            .position(|segment| segment.end_position() >= position);
        let mut count = full.len();
        if let Some(last) = last {
            (count, end, active) = (last + 1, full[last].end_position(), None);
        }
        let stays = |segment: &&Arc<Segment>| segment.head.id >= oldest;
        full[..count].iter().filter(stays).for_each(|it| trim(it));
        let segments = full[..count].iter().chain(&active).filter(stays);
        if oldest > 0 && full.len() > 1 {
            // Writers can wait for a removal. The disk works on all of them at the same time, and goes on with those that are
            // not waited for here. Otherwise it would only slow the writers down.
            let all = full.iter().filter(|segment| segment.head.id >= oldest);
            all.for_each(|segment| segment.file.write_back());
        }
        for segment in segments {
            let synced = segment.file.sync();
            synced.map_err(|error| self.sync_failed(&segment::name(segment.head.id), &error))?;
        }
        Ok(Reached { end, count })
    }

    /// Notes what has reached the disk, after the names of new files have.
    fn note_synced(
        &self,
        unsynced: &mut Unsynced,
        reached: &Reached,
        marking: Marking,
    ) -> Result<(), Error> {
        self.sync_names(unsynced)?;
        unsynced.segments.drain(..reached.count);
        self.mark(&mut unsynced.mark, reached.end, marking)?;
        self.synced.store(reached.end, Ordering::Release);
        Ok(())
    }

    fn sync_names(&self, unsynced: &mut Unsynced) -> Result<(), Error> {
        if unsynced.names {
            let synced = self.storage.sync_names();
            synced.map_err(|error| self.sync_failed("", &error))?;
            unsynced.names = false;
        }
        Ok(())
    }

    /// Syncs the segments from `oldest` on up to `position`, where the record ends that says that those before it have no
    /// meaning, forgets these, and removes their files.
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
        let synced = self.synced.load(Ordering::Acquire);
        let reached = match synced >= position {
            true => None,
            false => Some(self.sync_segments(&mut unsynced, oldest, position)?),
        };
        let retired = self.forget_before(oldest);
        // A hint that is being made for one of them is there then, and later ones are not made any more.
        drop(locked(&self.hints));
        let is_synced = |segment: &Arc<Segment>| segment.end_position() <= synced;
        // While this is held, so that files go in the order of their numbers also where another thread removes the next ones.
        let removing = locked(&self.removing);
        if retired.last().is_none_or(is_synced) {
            if let Some(reached) = reached {
                self.note_synced(&mut unsynced, &reached, Marking::Written)?;
            }
            // Removing a file takes a while, and others wait for syncs.
            drop(unsynced);
            let removed = self.remove_files(retired);
            drop(removing);
            locked(&self.syncing).names = true;
            return removed;
        }
        unsynced.names = true;
        self.remove_files(retired)?;
        match reached {
            Some(reached) => self.note_synced(&mut unsynced, &reached, Marking::Written),
            None => Ok(()),
        }
    }

    /// Removes the files of segments that were forgotten.
    fn remove_files(&self, retired: Vec<Arc<Segment>>) -> Result<(), Error> {
        for segment in retired.into_iter().rev() {
            let id = segment.head.id;
            if segment.hint() > 0 {
                self.remove_hint(id)?;
            }
            let name = segment::name(id);
            drop(segment);
            self.storage
                .remove(&name)
                .map_err(|error| Error::io(&self.storage.path(&name), error))?;
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
}

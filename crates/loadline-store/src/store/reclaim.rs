//! Reclaiming the room of entries that were overwritten or deleted.
//!
//! A sweep over the table writes every entry that lies in one of the oldest segments to the end of the log, and their
//! files are removed. Since they are always the oldest ones, nothing older can come back: a deletion needs no record once
//! its segment is reclaimed, and the numbers of the files have no gaps.
//!
//! The plain version reads a segment and looks up each of its keys, which waits for the memory at each of them. The table
//! is read in order instead, a shard at a time.
//!
//! The thread in the background of a store does the work; writers help where it falls behind. The owner of a
//! [`ChangeLog`](super::ChangeLog) does it itself, in proportion to what it writes.

use std::ops::Range;
use std::sync::PoisonError;
use std::time::Duration;

use super::collections;
use super::options::Options;
use crate::clock::{monotonic, now_ms};
use crate::error::Error;
use crate::keyspace::{Keyspace, LockedEntry, LockedShard};
use crate::log::op::{Kind, Op};
use crate::log::record::{self, with_draft};
use crate::log::{Log, Room};
use crate::slot::Slot;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, wait};
use crate::value::View;

/// Bytes from which on copies are written as a record. While one is written, other writers wait.
const COPY_BYTES: usize = 8 << 10;

/// The part of the segments that one sweep reclaims. With a smaller one, the walk over the table takes more time than the
/// shorter waits of writers save.
const PART: u32 = 8;

/// Steps in which the thread in the background and writers that help sweep a database. They lock what they share once per
/// step.
const SHARED_STEPS: usize = 256;

/// The owner of a log of changes sweeps one shard per step, since it answers no one in the meantime.
const OWN_STEPS: usize = usize::MAX;

/// Bytes of files for each live byte from which on a sweep reclaims all segments. It copies all that is alive, which is
/// little then, and what was overwritten in the meantime never has to reach the disk.
const WHOLE: u64 = 3;

/// The parts of the disk that slack, a burst and a segment take at most.
const SLACK_PART: u64 = 8;
const BURST_PART: u64 = 4;
const SEGMENT_PART: u64 = 64;

/// Reclaiming, as far as it has come.
#[derive(Debug)]
pub(crate) struct Reclaim {
    /// Whether there is more garbage than is allowed.
    is_active: AtomicBool,
    /// Bytes of files at which writers have to help.
    limit: AtomicU64,
    /// Bytes that may be written for each shard that is swept.
    bytes_per_shard: AtomicU64,
    /// Bytes that were written since the last shard was swept.
    owed: AtomicU64,
    /// Whether the next sweep reclaims all segments.
    is_whole: AtomicBool,
    /// Whether sweeps reclaim all segments when they begin at the limit, so that few of the segments that become full are
    /// ever synced.
    is_lazy: AtomicBool,
    progress: Mutex<Progress>,
    /// Notifies of the end of the work on a shard.
    shard_ended: Condvar,
    largest_segment_bytes: u64,
    slack_bytes: u64,
    burst_bytes: u64,
}

/// Whether writes go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// A small log is allowed to grow before it is swept.
    Busy,
    /// The log shrinks to what is in proportion to the live bytes.
    Idle,
}

#[derive(Debug)]
struct Progress {
    /// Nothing alive lies in segments before this one.
    reclaimed: u32,
    sweep: Option<Sweep>,
    /// Threads that are working on shards of the sweep, and those that wait for their end.
    in_work: usize,
    waiting: usize,
    /// Segments that can be removed, if there are some.
    removable: Option<Removable>,
    /// Memory of the threads that work on a shard.
    spare: Vec<Copier>,
}

/// Segments without anything alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Removable {
    /// They are those before this one.
    oldest: u32,
    /// They can be removed when the log has reached the disk up to this position, which lies in this segment.
    position: u64,
    segment: u32,
}

/// Copies the entries of a shard.
#[derive(Debug, Default)]
struct Copier {
    entries: Vec<LockedEntry>,
    /// Those that are copied, with their ends in the record.
    copies: Vec<(LockedEntry, usize)>,
}

/// A walk over the shards of all databases.
#[derive(Debug, Clone, Copy)]
struct Sweep {
    /// The first segment that stays.
    until: u32,
    /// The next shard.
    database: usize,
    shard: usize,
}

/// Shards to sweep.
#[derive(Debug, Clone)]
struct Task {
    database: usize,
    shards: Range<usize>,
    until: u32,
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Swept {
    /// It has swept shards.
    Shard,
    /// It has come to the end of a sweep.
    Done,
    /// There is no segment to reclaim.
    Nothing,
}

impl Reclaim {
    /// Of a log whose oldest segment is `oldest`.
    pub(crate) fn new(options: &Options, oldest: u32) -> Self {
        Self {
            is_active: AtomicBool::new(false),
            limit: AtomicU64::new(u64::MAX),
            bytes_per_shard: AtomicU64::new(u64::MAX),
            owed: AtomicU64::new(0),
            is_whole: AtomicBool::new(false),
            is_lazy: AtomicBool::new(false),
            progress: Mutex::new(Progress {
                reclaimed: oldest,
                sweep: None,
                in_work: 0,
                waiting: 0,
                removable: None,
                spare: vec![],
            }),
            shard_ended: Condvar::new(),
            largest_segment_bytes: options.segment_bytes,
            slack_bytes: options.slack_bytes,
            burst_bytes: options.burst_bytes,
        }
    }

    /// Whether there is more garbage than is allowed.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// Whether segments that became full are to be synced only when it is known that they stay.
    pub(crate) fn is_lazy(&self) -> bool {
        self.is_lazy.load(Ordering::Relaxed)
    }

    /// Finds out whether there is more garbage than is allowed, and how large the next segment is to be.
    pub(crate) fn assess(&self, log: &Log, databases: &[Keyspace], load: Load) {
        self.assess_with(live_bytes(databases), log, databases, load);
    }

    /// The same, where the live bytes are known.
    pub(crate) fn assess_with(&self, live: u64, log: &Log, databases: &[Keyspace], load: Load) {
        let allocated = log.allocated_bytes();
        // On a small disk, all of it would be garbage.
        let disk_bytes = log.disk_bytes().unwrap_or(u64::MAX);
        let slack = self.slack_bytes.min(disk_bytes / SLACK_PART);
        let burst = self.burst_bytes.min(disk_bytes / BURST_PART);
        let at_rest = live + live * 9 / 25 + slack;
        let in_burst = at_rest.max(live + burst);
        let allowed = match load {
            Load::Busy => in_burst,
            Load::Idle => at_rest,
        };
        // Segments that are about to be removed have been reclaimed already.
        let left = allocated - log.bytes_before(self.progress().reclaimed).min(allocated);
        // Where there is no room, all garbage is worth its reclaiming, but for the unused ends of segments.
        let is_tight = log.is_tight() && left > live + live / 16 + 2 * log.segment_bytes();
        self.is_active
            .store(left > allowed || is_tight, Ordering::Relaxed);
        self.is_whole.store(left > WHOLE * live, Ordering::Relaxed);
        let is_lazy = in_burst > WHOLE * live;
        self.is_lazy.store(is_lazy, Ordering::Relaxed);
        // A sweep reclaims a part of the segments, so it has to end before many bytes were written. One that reclaims
        // all of them can take longer, and first adds what is alive.
        let mut sweep_bytes = live / 16 + (slack / 16).max(256 << 10);
        let mut copied_bytes = 0;
        if is_lazy {
            sweep_bytes = sweep_bytes.max(in_burst / 8);
            copied_bytes = live;
        }
        self.limit
            .store(in_burst + sweep_bytes + copied_bytes, Ordering::Relaxed);
        let shards: usize = databases.iter().map(Keyspace::shard_count).sum();
        let bytes_per_shard = sweep_bytes / (shards as u64).max(1);
        let bytes_per_shard = if is_tight { 1 } else { bytes_per_shard.max(1) };
        self.bytes_per_shard
            .store(bytes_per_shard, Ordering::Relaxed);
        let largest = self.largest_segment_bytes.min(disk_bytes / SEGMENT_PART);
        // Larger ones while a small log grows: a file for every few records would take longer than these.
        let grown = allocated.min(burst) / 16;
        let segment = segment_bytes(live, slack, largest);
        log.set_segment_bytes(segment.max(grown).min(largest));
    }

    /// Whether there is so much garbage that writers have to wait until segments are removed, as where the thread in the
    /// background or the disk is slower than they are.
    pub(crate) fn is_behind(&self, log: &Log) -> bool {
        log.allocated_bytes() > self.limit.load(Ordering::Relaxed) || log.is_low()
    }

    /// Does a part of the work for the owner of the databases, who has written `bytes`. Returns whether segments can be
    /// removed.
    pub(crate) fn pay(&self, databases: &[Keyspace], log: &Log, bytes: u64) -> bool {
        let each = self.bytes_per_shard.load(Ordering::Relaxed);
        let mut owed = self.owed.load(Ordering::Relaxed) + bytes;
        let mut is_done = false;
        while owed >= each && !is_done {
            owed -= each;
            match self.step(databases, log, OWN_STEPS) {
                Ok(Swept::Shard) => {}
                Ok(Swept::Done) => is_done = true,
                // An error of the log stays in it, and the next write returns it. When there is no
                // room, the shard waits until there is some.
                Ok(Swept::Nothing) | Err(_) => owed = 0,
            }
        }
        self.owed.store(owed, Ordering::Relaxed);
        if is_done {
            self.assess(log, databases, Load::Busy);
        }
        is_done
    }

    /// Begins the sweep again, since databases were exchanged: it would pass over some of their shards.
    pub(crate) fn restart(&self) {
        if let Some(sweep) = &mut self.progress().sweep {
            (sweep.database, sweep.shard) = (0, 0);
        }
    }

    /// Sweeps until there is no more garbage than is allowed, or all segments that there are now are reclaimed, or `stops`
    /// says so. Segments can take more than is allowed without any garbage, where records do not fill them: large values in
    /// small segments.
    ///
    /// # Errors
    /// Those of the log.
    pub(crate) fn sweep(
        &self,
        databases: &[Keyspace],
        log: &Log,
        load: Load,
        stops: impl Fn() -> bool,
    ) -> Result<(), Error> {
        let newest = log.newest();
        self.assess(log, databases, load);
        while self.is_active() && !stops() {
            match self.step(databases, log, SHARED_STEPS)? {
                Swept::Shard => {
                    log.prepare();
                    self.write_back(log, databases)?;
                }
                Swept::Done => {
                    if log.is_tight() {
                        self.remove(log, databases)?;
                    }
                    self.assess(log, databases, load);
                    if self.progress().reclaimed >= newest {
                        break;
                    }
                }
                Swept::Nothing => break,
            }
        }
        match stops() {
            true => Ok(()),
            false => self.remove(log, databases),
        }
    }

    /// Writes segments that became full back while the sweep goes on. What was reclaimed before is removed once the copies
    /// lie in full segments: most of them have reached the disk then, and the sync does not take long.
    fn write_back(&self, log: &Log, databases: &[Keyspace]) -> Result<(), Error> {
        if self.is_lazy() || !log.write_back() {
            return Ok(());
        }
        let removable = self.progress().removable;
        match removable.is_some_and(|removable| removable.segment < log.newest()) {
            true => self.remove(log, databases),
            false => Ok(()),
        }
    }

    /// Sweeps until there is room for more deletions, or all segments that there are now are reclaimed, or `stops` says so.
    ///
    /// # Errors
    /// Those of the log.
    pub(crate) fn make_room_for_deletions(
        &self,
        databases: &[Keyspace],
        log: &Log,
        stops: impl Fn() -> bool,
    ) -> Result<(), Error> {
        let newest = log.newest();
        while !log.takes_deletions() && self.progress().reclaimed < newest && !stops() {
            match self.step(databases, log, SHARED_STEPS)? {
                Swept::Shard => {}
                Swept::Done => self.remove(log, databases)?,
                Swept::Nothing => break,
            }
        }
        Ok(())
    }

    /// Removes the segments that were reclaimed, when the copies of what was alive in them have reached the disk.
    ///
    /// # Errors
    /// Those of [`Log::retire_before`].
    pub(crate) fn remove(&self, log: &Log, databases: &[Keyspace]) -> Result<(), Error> {
        // A snapshot may read from them. They go the next time.
        if databases.iter().any(Keyspace::has_snapshots) {
            return Ok(());
        }
        let removable = self.progress().removable;
        if let Some(Removable {
            oldest, position, ..
        }) = removable
        {
            log.retire_before(oldest, position)?;
            let mut progress = self.progress();
            if progress.removable == removable {
                progress.removable = None;
            }
            drop(progress);
            log.refill();
        }
        Ok(())
    }

    /// Whether there are segments that are reclaimed and not removed.
    pub(crate) fn has_removable(&self) -> bool {
        self.progress().removable.is_some()
    }

    /// Reclaims for the owner of the databases, and removes what is reclaimed, until there is no garbage, or for a moment.
    ///
    /// # Errors
    /// Those of the log but [`Error::Full`].
    pub(crate) fn make_room(&self, databases: &[Keyspace], log: &Log) -> Result<(), Error> {
        const MOMENT: Duration = Duration::from_millis(5);
        let end = monotonic() + MOMENT;
        let swept = self.sweep(databases, log, Load::Busy, || monotonic() >= end);
        match swept.and_then(|()| self.remove(log, databases)) {
            Err(Error::Full { .. }) => Ok(()),
            outcome => outcome,
        }
    }

    /// Reclaims all segments there are now, so that no garbage is left.
    ///
    /// # Errors
    /// Those of the log.
    pub(crate) fn compact(&self, databases: &[Keyspace], log: &Log) -> Result<(), Error> {
        let end = log.roll()?;
        while self.progress().reclaimed < end {
            let step = self.step_of(databases, log, SHARED_STEPS, PART)?;
            match step {
                Swept::Shard => {}
                Swept::Done => self.remove(log, databases)?,
                Swept::Nothing => break,
            }
        }
        self.remove(log, databases)?;
        self.assess(log, databases, Load::Idle);
        Ok(())
    }

    /// Does a step of reclaiming all segments before `end`, for the owner of the databases. Returns the number of the
    /// first segment that is not reclaimed.
    ///
    /// # Errors
    /// Those of the log.
    pub(crate) fn step_before(
        &self,
        end: u32,
        databases: &[Keyspace],
        log: &Log,
    ) -> Result<u32, Error> {
        if self.reclaimed() < end && self.step_of(databases, log, OWN_STEPS, PART)? == Swept::Done {
            self.assess(log, databases, Load::Busy);
        }
        Ok(self.reclaimed())
    }

    /// Nothing alive lies in segments before this one.
    pub(crate) fn reclaimed(&self) -> u32 {
        self.progress().reclaimed
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A step of a sweep. While a snapshot keeps the segments of the last one, there is nothing to do: entries would be
    /// copied again and again.
    fn step(&self, databases: &[Keyspace], log: &Log, steps: usize) -> Result<Swept, Error> {
        let progress = self.progress();
        if progress.removable.is_some() && databases.iter().any(Keyspace::has_snapshots) {
            return Ok(Swept::Nothing);
        }
        drop(progress);
        let is_whole = self.is_whole.load(Ordering::Relaxed);
        self.step_of(databases, log, steps, if is_whole { 1 } else { PART })
    }

    /// Sweeps the shards of the next one of `steps` for a database, while other threads sweep others. A sweep that begins
    /// reclaims a `part` of the segments.
    fn step_of(
        &self,
        databases: &[Keyspace],
        log: &Log,
        steps: usize,
        part: u32,
    ) -> Result<Swept, Error> {
        let mut progress = self.progress();
        let task = loop {
            let sweep = progress.sweep.or_else(|| progress.next_sweep(log, part));
            let Some(sweep) = sweep else {
                return Ok(Swept::Nothing);
            };
            progress.sweep = Some(sweep);
            if let Some(task) = progress.next_task(databases, steps) {
                break task;
            }
            if progress.in_work == 0 {
                progress.end_sweep(log, sweep.until)?;
                return Ok(Swept::Done);
            }
            // The last ones are about to end.
            progress.waiting += 1;
            progress = wait(&self.shard_ended, &self.progress, progress, None);
            progress.waiting -= 1;
        };
        progress.in_work += 1;
        let mut copier = progress.spare.pop().unwrap_or_default();
        drop(progress);
        let keyspace = &databases[task.database];
        let mut locked = task.shards.filter_map(|shard| keyspace.lock_shard(shard));
        let copied =
            locked.try_for_each(|shard| copier.copy(shard, task.database as u8, task.until, log));
        let mut progress = self.progress();
        let reclaimed = progress.reclaimed;
        progress.in_work -= 1;
        progress.spare.push(copier);
        if copied.is_err()
            && let Some(sweep) = &mut progress.sweep
        {
            // Entries of the shard are left, so the sweep has to pass it again. Where there is no room for all copies, it
            // reclaims the oldest segment first.
            (sweep.database, sweep.shard) = (0, 0);
            sweep.until = reclaimed + 1;
        }
        if progress.waiting > 0 {
            self.shard_ended.notify_all();
        }
        drop(progress);
        copied.map(|()| Swept::Shard)
    }
}

/// Bytes that all entries take in the log when they are written anew.
pub(crate) fn live_bytes(databases: &[Keyspace]) -> u64 {
    databases.iter().map(Keyspace::logged_bytes).sum()
}

/// Size of the next segment in a log with `live` live bytes and `slack` bytes of slack. Small segments cost more files, which
/// all are opened with the store; large ones cost more space that is reserved and not used.
pub(crate) fn segment_bytes(live: u64, slack: u64, largest: u64) -> u64 {
    let least = (live / 4).clamp(256 << 10, 1 << 20);
    (live / 32 + slack / 16).max(least).min(largest)
}

impl Progress {
    /// Takes the shards of the next one of `steps`; `None` at the end of the sweep.
    fn next_task(&mut self, databases: &[Keyspace], steps: usize) -> Option<Task> {
        let sweep = self.sweep.as_mut()?;
        while let Some(keyspace) = databases.get(sweep.database) {
            let begin = sweep.shard;
            let count = keyspace.shard_count();
            let end = count.min(begin + count.div_ceil(steps));
            if begin < end {
                sweep.shard = end;
                return Some(Task {
                    database: sweep.database,
                    shards: begin..end,
                    until: sweep.until,
                });
            }
            (sweep.database, sweep.shard) = (sweep.database + 1, 0);
        }
        None
    }

    /// Says in the log that everything alive lies in the segments from `until` on.
    fn end_sweep(&mut self, log: &Log, until: u32) -> Result<(), Error> {
        let appended = with_draft(|draft| {
            let kind = Kind::Oldest { segment: until };
            Op { database: 0, kind }.encode(draft.begin());
            draft.finish();
            log.append(draft, Room::All)
        })?;
        self.sweep = None;
        self.reclaimed = until;
        self.removable = Some(Removable {
            oldest: until,
            position: appended.end,
            segment: appended.segment,
        });
        Ok(())
    }

    /// The next sweep, if there are segments besides the one that is written.
    fn next_sweep(&self, log: &Log, part: u32) -> Option<Sweep> {
        let sealed = log.newest().saturating_sub(self.reclaimed);
        let mut count = (sealed / part).max(1);
        // All of them could be alive, and the copies take as much room as they do before they go.
        while let Some(free) = log.free_bytes()
            && count > 1
            && log.bytes_before(self.reclaimed + count) > free / 2
        {
            count /= 2;
        }
        let until = self.reclaimed + count;
        (sealed > 0).then_some(Sweep {
            until,
            database: 0,
            shard: 0,
        })
    }
}

impl Copier {
    /// Writes the entries of a shard that lie in segments before `until`.
    fn copy(
        &mut self,
        mut shard: LockedShard<'_>,
        database: u8,
        until: u32,
        log: &Log,
    ) -> Result<(), Error> {
        self.entries.clear();
        self.entries.extend(shard.entries_before(until));
        // One after the other, each of them would wait for the memory.
        self.entries.iter().for_each(|found| shard.warm(*found));
        let now = now_ms();
        let mut rest = &self.entries[..];
        let mut has_gone = false;
        while !rest.is_empty() {
            let copies = &mut self.copies;
            copies.clear();
            rest = with_draft(|draft| {
                let body = draft.begin();
                let mut left = rest;
                while let Some((found, others)) = left.split_first()
                    && body.len() < COPY_BYTES
                {
                    left = others;
                    let slot = shard.slot(*found);
                    if slot.is_gone(now) {
                        has_gone = true;
                        continue;
                    }
                    encode(log, database, slot, body)?;
                    copies.push((*found, body.len() - record::HEADER_BYTES));
                }
                if !copies.is_empty() {
                    draft.finish();
                    let appended = log.append(draft, Room::All)?;
                    for (found, end) in copies.drain(..) {
                        shard.lie_in(found, &appended, end);
                    }
                }
                Ok(left)
            })?;
        }
        if has_gone {
            // The places of entries change, so this comes last.
            shard.expire(now);
        }
        Ok(())
    }
}

/// Appends the operation that puts an entry as it is.
fn encode(log: &Log, database: u8, slot: Slot<'_>, body: &mut Vec<u8>) -> Result<(), Error> {
    let (key, expires_at) = (slot.key(), slot.expires_at());
    let encode =
        |value: View<'_>, body| collections::encode(database, key, value, expires_at, body);
    match slot.record.outside() {
        Some(outside) => {
            let read = log.read_outside(outside, |value| encode(View::String(value), body));
            // The segment could never be reclaimed, and the log would grow without an end.
            read.map_err(|error| match error {
                Error::Damaged { .. } => log.fail(&error.to_string()),
                _ => error,
            })?;
        }
        None => encode(slot.view(), body),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::journal::Journal;
    use crate::store::Store;

    const KEYS: u32 = 2_000;

    /// A store with several segments, which is reclaimed by those who ask for it.
    fn open(journal: &Journal) -> Store {
        let options = Options::new().segment_bytes(64 << 10).max_keys(10_000);
        Store::open_on(Box::new(journal.clone()), options).unwrap()
    }

    fn fill(store: &Store) {
        for number in 0..KEYS {
            let written = store.put(&number.to_le_bytes(), &[number as u8; 100]);
            written.unwrap();
        }
    }

    #[test]
    fn sweep_ends_after_the_last_of_its_threads() {
        let journal = Journal::default();
        let store = open(&journal);
        fill(&store);
        let disk = store.inner.disk.as_ref().unwrap();
        let before = disk.reclaim.progress().reclaimed;
        std::thread::scope(|scope| {
            let held = store.inner.keyspace().lock_shard(0).unwrap();
            for _ in 0..2 {
                scope.spawn(|| store.compact().unwrap());
            }
            // One of them waits for this shard, and the other one sweeps the rest.
            loop {
                let progress = disk.reclaim.progress();
                assert_eq!(progress.reclaimed, before, "entries of a shard are left");
                if progress.waiting == 1 {
                    break;
                }
                drop(progress);
                std::thread::yield_now();
            }
            drop(held);
        });
        assert!(disk.reclaim.progress().reclaimed > before);
        drop(store);
        let store = open(&journal);
        for number in 0..KEYS {
            let value = store.get(&number.to_le_bytes()).unwrap();
            assert_eq!(value, Some(vec![number as u8; 100]), "{number}");
        }
    }

    #[test]
    fn full_segments_are_synced_without_the_one_that_is_written() {
        let journal = Journal::default();
        let store = open(&journal);
        fill(&store);
        let log = &store.inner.disk.as_ref().unwrap().log;
        let begin = log.segment(log.newest()).unwrap().head.position;
        assert!(log.newest() > 2 && log.synced() < begin && begin < log.position());
        log.sync_full().unwrap();
        assert_eq!(log.synced(), begin);
        log.sync(log.position()).unwrap();
        assert_eq!(log.synced(), log.position());
    }
}

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

use std::sync::PoisonError;

use super::collections;
use super::inner::{Disk, Inner, with_draft};
use super::options::Options;
use crate::clock::now_ms;
use crate::error::Error;
use crate::keyspace::{Found, Keyspace, LockedShard};
use crate::log::op::{Kind, Op};
use crate::log::{Log, record};
use crate::slot::Slot;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::value::View;

/// Bytes from which on copies are written as a record. While one is written, other writers wait.
const COPY_BYTES: usize = 8 << 10;

/// The part of the segments that one sweep reclaims.
const PART: u32 = 8;

/// Bytes of files for each live byte from which on a sweep reclaims all segments. It copies all that is alive, which is
/// little then, and what was overwritten in the meantime never has to reach the disk.
const WHOLE: u64 = 3;

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
    /// Segments before this one can be removed, when the log has reached the disk up to this position.
    removable: Option<(u32, u64)>,
    /// Memory for the entries of a shard, and for those that are copied with their ends in the record.
    entries: Vec<Found>,
    copies: Vec<(Found, usize)>,
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

/// What a step has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It has swept a shard.
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
                removable: None,
                entries: vec![],
                copies: vec![],
            }),
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
        let live = live_bytes(databases);
        let allocated = log.allocated_bytes();
        let at_rest = live + live * 9 / 25 + self.slack_bytes;
        let in_burst = at_rest.max(live + self.burst_bytes);
        let allowed = match load {
            Load::Busy => in_burst,
            Load::Idle => at_rest,
        };
        self.is_active.store(allocated > allowed, Ordering::Relaxed);
        self.is_whole
            .store(allocated > WHOLE * live, Ordering::Relaxed);
        let is_lazy = in_burst > WHOLE * live;
        self.is_lazy.store(is_lazy, Ordering::Relaxed);
        // A sweep reclaims an eighth of the segments, so it has to end before many bytes were written. One that reclaims
        // all of them can take longer, and first adds what is alive.
        let mut sweep_bytes = live / 16 + (self.slack_bytes / 16).max(256 << 10);
        let mut copied_bytes = 0;
        if is_lazy {
            sweep_bytes = sweep_bytes.max(in_burst / 8);
            copied_bytes = live;
        }
        self.limit
            .store(in_burst + sweep_bytes + copied_bytes, Ordering::Relaxed);
        let shards: usize = databases.iter().map(Keyspace::shard_count).sum();
        let bytes_per_shard = sweep_bytes / (shards as u64).max(1);
        let bytes_per_shard = bytes_per_shard.max(1);
        self.bytes_per_shard
            .store(bytes_per_shard, Ordering::Relaxed);
        let (slack, largest) = (self.slack_bytes, self.largest_segment_bytes);
        // Larger ones while a small log grows: a file for every few records would take longer than these.
        let grown = allocated.min(self.burst_bytes) / 16;
        let segment = segment_bytes(live, slack, largest);
        log.set_segment_bytes(segment.max(grown).min(largest));
    }

    /// Whether there is so much garbage that writers have to wait until segments are removed, as where the thread in the
    /// background or the disk is slower than they are.
    pub(crate) fn is_behind(&self, log: &Log) -> bool {
        log.allocated_bytes() > self.limit.load(Ordering::Relaxed)
    }

    /// Does a part of the work for the owner of the databases, who has written `bytes`. Returns whether segments can be
    /// removed.
    pub(crate) fn pay(&self, databases: &[Keyspace], disk: &Disk, bytes: u64) -> bool {
        let each = self.bytes_per_shard.load(Ordering::Relaxed);
        let mut owed = self.owed.load(Ordering::Relaxed) + bytes;
        let mut is_done = false;
        while owed >= each && !is_done {
            owed -= each;
            match self.step(databases, disk) {
                Ok(Step::Shard) => {}
                Ok(Step::Done) => is_done = true,
                // An error of the log stays in it, and the next write returns it. When there is no
                // room, the shard waits until there is some.
                Ok(Step::Nothing) | Err(_) => owed = 0,
            }
        }
        self.owed.store(owed, Ordering::Relaxed);
        if is_done {
            self.assess(&disk.log, databases, Load::Busy);
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
        disk: &Disk,
        load: Load,
        stops: impl Fn() -> bool,
    ) -> Result<(), Error> {
        let newest = disk.log.newest();
        self.assess(&disk.log, databases, load);
        while self.is_active() && !stops() {
            match self.step(databases, disk)? {
                Step::Shard => {}
                Step::Done => {
                    self.remove(&disk.log, databases)?;
                    self.assess(&disk.log, databases, load);
                    if self.progress().reclaimed >= newest {
                        break;
                    }
                }
                Step::Nothing => break,
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
        if let Some((oldest, position)) = removable {
            log.retire_before(oldest, position)?;
            let mut progress = self.progress();
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
        while self.progress().reclaimed < end {
            let step = self.progress().step(&inner.databases, disk, false)?;
            match step {
                Step::Shard => {}
                Step::Done => self.remove(&disk.log, &inner.databases)?,
                Step::Nothing => break,
            }
        }
        self.remove(&disk.log, &inner.databases)?;
        self.assess(&disk.log, &inner.databases, Load::Idle);
        Ok(())
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A step of a sweep. While a snapshot keeps the segments of the last one, there is nothing to do: entries would be
    /// copied again and again.
    fn step(&self, databases: &[Keyspace], disk: &Disk) -> Result<Step, Error> {
        let mut progress = self.progress();
        if progress.removable.is_some() && databases.iter().any(Keyspace::has_snapshots) {
            return Ok(Step::Nothing);
        }
        let is_whole = self.is_whole.load(Ordering::Relaxed);
        progress.step(databases, disk, is_whole)
    }
}

/// Bytes that all entries take in the log when they are written anew.
pub(crate) fn live_bytes(databases: &[Keyspace]) -> u64 {
    databases.iter().map(Keyspace::logged_bytes).sum()
}

/// Size of the next segment in a log with `live` live bytes and `slack` bytes of slack. Small segments cost more files,
/// large ones more space that is reserved and not used.
pub(crate) fn segment_bytes(live: u64, slack: u64, largest: u64) -> u64 {
    (live / 32 + slack / 16).max(256 << 10).min(largest)
}

impl Progress {
    /// Sweeps the next shard. A sweep that begins reclaims all segments if it `is_whole`.
    fn step(&mut self, databases: &[Keyspace], disk: &Disk, is_whole: bool) -> Result<Step, Error> {
        let sweep = self.sweep.or_else(|| self.next_sweep(&disk.log, is_whole));
        let Some(sweep) = sweep else {
            return Ok(Step::Nothing);
        };
        self.sweep = Some(sweep);
        let Sweep {
            until,
            database,
            shard,
        } = sweep;
        if let Some(keyspace) = databases.get(database) {
            if let Some(locked) = keyspace.lock_shard(shard) {
                self.copy_shard(locked, database as u8, until, disk)?;
            }
            let is_last = shard + 1 >= keyspace.shard_count();
            self.sweep = Some(match is_last {
                true => Sweep {
                    database: database + 1,
                    shard: 0,
                    ..sweep
                },
                false => Sweep {
                    shard: shard + 1,
                    ..sweep
                },
            });
            return Ok(Step::Shard);
        }
        let appended = with_draft(|draft| {
            let kind = Kind::Oldest { segment: until };
            Op { database: 0, kind }.encode(draft.begin());
            draft.finish();
            disk.log.append(draft)
        })?;
        self.sweep = None;
        self.reclaimed = until;
        self.removable = Some((until, appended.end));
        Ok(Step::Done)
    }

    /// The next sweep, if there are segments besides the one that is written.
    fn next_sweep(&self, log: &Log, is_whole: bool) -> Option<Sweep> {
        let sealed = log.newest().saturating_sub(self.reclaimed);
        let part = if is_whole { 1 } else { PART };
        let until = self.reclaimed + (sealed / part).max(1);
        (sealed > 0).then_some(Sweep {
            until,
            database: 0,
            shard: 0,
        })
    }

    /// Writes the entries of a shard that lie in segments before `until`.
    fn copy_shard(
        &mut self,
        mut shard: LockedShard<'_>,
        database: u8,
        until: u32,
        disk: &Disk,
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
                    encode(disk, database, slot, body)?;
                    copies.push((*found, body.len() - record::HEADER_BYTES));
                }
                if !copies.is_empty() {
                    draft.finish();
                    let appended = disk.log.append(draft)?;
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
fn encode(disk: &Disk, database: u8, slot: Slot<'_>, body: &mut Vec<u8>) -> Result<(), Error> {
    let (key, expires_at) = (slot.key(), slot.expires_at());
    let encode =
        |value: View<'_>, body| collections::encode(database, key, value, expires_at, body);
    match slot.record.outside() {
        Some(outside) => disk.read_outside(outside, |value| encode(View::String(value), body))?,
        None => encode(slot.view(), body),
    }
    Ok(())
}

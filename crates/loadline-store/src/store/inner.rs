//! The state that the threads of a store share.

use std::io;
use std::sync::Arc;

use super::options::{Durability, Options};
use super::reclaim::{Load, Reclaim};
use super::wakeup::{SyncMode, Wakeup};
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::log::op::DATABASES;
use crate::log::{Appended, Log};
use crate::record::Outside;
use crate::sync::Mutex;

/// The state that the threads of a store share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) databases: Vec<Keyspace>,
    pub(crate) options: Options,
    pub(crate) disk: Option<Disk>,
    pub(crate) wakeup: Wakeup,
    /// Held by a thread that adds to a store that refuses what exceeds its limits.
    pub(super) growth: Mutex<()>,
}

/// The part of a store that is on disk.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) log: Arc<Log>,
    pub(crate) reclaim: Reclaim,
}

impl Inner {
    pub(crate) fn new(options: Options, disk: Option<Disk>, databases: Vec<Keyspace>) -> Self {
        let wakeup = Wakeup::default();
        wakeup.set_interval(options.durability.interval());
        Self {
            databases,
            options,
            disk,
            wakeup,
            growth: Mutex::default(),
        }
    }

    /// Databases without keys. The options limit the first one, which the functions of the library use.
    pub(crate) fn empty_databases(options: &Options) -> Vec<Keyspace> {
        let others = (1..DATABASES).map(|_| Keyspace::new());
        std::iter::once(options.keyspace()).chain(others).collect()
    }

    /// The database that the functions of the library use.
    #[inline]
    pub(crate) fn keyspace(&self) -> &Keyspace {
        &self.databases[0]
    }

    /// The part on disk, if it is written.
    pub(crate) fn written_disk(&self) -> Option<&Disk> {
        self.disk.as_ref().filter(|disk| !disk.log.is_read_only())
    }

    /// Shows `look` a value that is kept in the log only. The shard of its key has to be locked: the log
    /// keeps the segment as long.
    pub(crate) fn read_outside<R>(
        &self,
        outside: Outside,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Error> {
        let Some(disk) = &self.disk else {
            unreachable!("without a log, all values are in memory")
        };
        disk.log.read_outside(outside, look)
    }

    /// Finishes an append once no lock is held: waits until the record is as durable as was asked for, and
    /// lets the background thread reclaim what is garbage.
    #[inline]
    pub(crate) fn settle(
        &self,
        disk: &Disk,
        appended: Appended,
        durability: Durability,
    ) -> Result<(), Error> {
        if appended.is_first {
            self.begin_segment(disk);
        }
        if durability == Durability::Always {
            disk.log.sync_shared(appended.end)?;
        }
        self.wakeup.was_written();
        Ok(())
    }

    /// The same with databases that belong to the caller, who does a part of the reclaiming, and waits for the sync.
    pub(crate) fn settle_in(&self, databases: &[Keyspace], disk: &Disk, appended: Appended) {
        if appended.is_first {
            disk.reclaim.assess(&disk.log, databases, Load::Busy);
            self.begin_segment(disk);
        }
        self.wakeup.was_written();
        if disk.reclaim.is_active() && disk.reclaim.pay(databases, &disk.log, appended.bytes) {
            self.wake_or_work();
        }
    }

    /// Performs a write, and once more after reclaiming where the disk had no room for it.
    #[inline]
    pub(crate) fn with_room<R>(&self, write: impl Fn() -> Result<R, Error>) -> Result<R, Error> {
        match write() {
            Err(Error::Full { source }) => self.reclaim_room(source).and_then(|()| write()),
            outcome => outcome,
        }
    }

    /// Reclaims all garbage, since the disk is full.
    #[cold]
    fn reclaim_room(&self, source: io::Error) -> Result<(), Error> {
        let Some(disk) = &self.disk else {
            return Err(Error::Full { source });
        };
        let stops = || self.wakeup.stops();
        let (databases, log) = (&self.databases, &disk.log);
        let swept = disk.reclaim.sweep(databases, log, Load::Idle, stops);
        let swept = swept.and_then(|()| match log.is_low() {
            true => disk.reclaim.make_room_for_deletions(databases, log, stops),
            false => Ok(()),
        });
        match swept {
            Err(Error::Full { .. }) => Err(Error::Full { source }),
            outcome => outcome,
        }
    }

    /// Does the work that each new segment requires.
    #[cold]
    fn begin_segment(&self, disk: &Disk) {
        if !disk.reclaim.is_behind(&disk.log) {
            self.wake_or_work();
        } else if self.databases.is_empty() {
            self.work(SyncMode::IfUseful);
        } else {
            self.help(disk);
        }
    }

    /// Reclaims in the thread of a writer that has to wait for so much garbage: no more than that requires, and without
    /// syncs that the removal of segments does not need. The rest is left to the background thread, which works at the
    /// same time.
    fn help(&self, disk: &Disk) {
        self.wakeup.wake(SyncMode::IfUseful);
        let is_enough = || self.wakeup.stops() || !disk.reclaim.is_behind(&disk.log);
        let load = Load::Busy;
        // An error of the log stays in it, and the next write returns it.
        let _ = disk
            .reclaim
            .sweep(&self.databases, &disk.log, load, is_enough);
    }

    /// Lets the background thread work, or this one where there is none.
    fn wake_or_work(&self) {
        if !self.wakeup.wake(SyncMode::IfUseful) {
            self.work(SyncMode::IfUseful);
        }
    }

    /// Does the work of the background thread when it is woken: syncs segments that are full, unless they probably go
    /// soon, removes those that were reclaimed, and reclaims more. An error of the log stays in it, and the next write
    /// returns it.
    pub(crate) fn work(&self, sync: SyncMode) {
        self.work_under(Load::Busy, sync, || self.wakeup.stops());
    }

    /// Does the work of the background thread when nothing was written for a while: syncs everything, and reclaims what
    /// the log was allowed in addition while it was written.
    pub(crate) fn rest(&self) {
        self.work_under(Load::Idle, SyncMode::Always, || self.wakeup.interrupts());
    }

    /// Both, with the load and the interruption that they differ in.
    pub(crate) fn work_under(&self, load: Load, sync: SyncMode, stops: impl Fn() -> bool) {
        let Some(disk) = &self.disk else { return };
        // The owner of a log of changes has the databases, and sweeps them itself.
        let sweeps = !self.databases.is_empty();
        let is_lazy = disk.reclaim.is_lazy();
        let synced = match sync {
            SyncMode::No => Ok(()),
            SyncMode::IfUseful if is_lazy => Ok(()),
            // Full segments are written while others are reclaimed, and synced after that.
            SyncMode::IfUseful if sweeps => Ok(()),
            SyncMode::IfUseful | SyncMode::Commit | SyncMode::Always => {
                let position = disk.log.position();
                let synced = match sync {
                    SyncMode::Commit => disk.log.sync_commit(position),
                    _ => disk.log.sync(position),
                };
                self.wakeup.synced();
                synced
            }
        };
        // Segments that are not removed now are removed at the next opening.
        let removed = synced.and_then(|()| disk.reclaim.remove(&disk.log, &self.databases));
        if removed.is_ok() && sweeps {
            let oldest = disk.log.oldest();
            let swept = disk.reclaim.sweep(&self.databases, &disk.log, load, &stops);
            if load == Load::Busy && disk.reclaim.is_lazy() || stops() {
                return;
            }
            let synced = swept.and_then(|()| disk.log.sync_full());
            // The writes of the sweep are a part of those that are synced at rest.
            let synced = synced.and_then(|()| match load {
                Load::Idle => disk.log.sync(disk.log.synced()),
                Load::Busy => Ok(()),
            });
            // Segments of a store that is overwritten go before an opening could use their hints.
            if synced.is_ok() && (load == Load::Idle || disk.log.oldest() == oldest) {
                disk.log.write_hints(self.options.value_in_log_bytes, stops);
            }
        }
    }
}

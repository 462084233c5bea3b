//! Data that survives the end of the server: what commands change goes into a log, as one record for each turn of the
//! event loop, and replies leave after it.
//!
//! With the durability `always`, the event loop does not wait for the disk. A thread syncs the log while the loop goes on,
//! and replies are held back until the sync covers everything that was changed before they were made, by whatever
//! connection: no client ever sees data that a failure of the machine could take back. Replies that do not depend on
//! unsynced changes, such as those to PING and INFO and to GET of a key that was not changed since the last sync, leave at
//! once if no reply waits before them.

use std::path::PathBuf;

use loadline_store::{ChangeLog, Durability, Error, LogStats, Options};

use crate::commands::Refusal;
use crate::rewrite::Rewrites;
use crate::state::Shared;
use crate::unsynced::Unsynced;

/// Changes of a turn from which on they are written before its end, between two commands.
const MUCH_BYTES: usize = 16 << 20;

/// Changes up to which they are never written before the end of a turn.
const NOT_MUCH_BYTES: usize = 64 << 10;

/// Garbage that the log may hold whatever the size of the data, but at most an eighth of the disk: that from which on Redis rewrites its file
/// (`auto-aof-rewrite-min-size`). A log of little data would be reclaimed all the time with less.
const SLACK_BYTES: u64 = 64 << 20;

/// The log of a server with a directory.
#[derive(Debug)]
pub(crate) struct Persistence {
    pub(crate) log: ChangeLog,
    /// The directory, as an absolute path.
    pub(crate) dir: PathBuf,
    /// Reason for refusing commands that write.
    failure: Option<String>,
    /// Whether that is a full disk: commands that add no data are executed then.
    is_full: bool,
    /// Time until which everything had reached the disk, in seconds since the Unix epoch: the last SAVE or BGSAVE, or
    /// the start.
    last_save: u64,
    /// Changes that the log had at that time.
    saved_changes: u64,
    save: Save,
    pub(crate) rewrites: Rewrites,
    /// Whether the replies of this turn wait until the log has reached the disk: the durability is `always`, or was at
    /// any time of the turn.
    holds_replies: bool,
    /// Changes since the log was synced, if replies wait for that.
    unsynced: Unsynced,
    /// The position of the log up to which a sync was requested.
    requested: u64,
    /// The position of the log that no sync reaches beyond.
    #[cfg(test)]
    pub(crate) hangs_at: Option<u64>,
    /// The error of a sync.
    #[cfg(test)]
    pub(crate) fault: Option<String>,
    /// Whether the last one reached the disk.
    last_save_failed: bool,
}

/// A BGSAVE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Save {
    None,
    /// It begins with the next commit.
    Wanted,
    /// It ends when everything before this position of the log has reached the disk.
    Running {
        position: u64,
        changes: u64,
        now_ms: u64,
    },
}

impl Persistence {
    /// Opens the log in a directory, and puts what it holds into the databases.
    ///
    /// # Errors
    /// Those of [`ChangeLog::open`].
    pub(crate) fn open(
        dir: PathBuf,
        durability: Durability,
        shared: &mut Shared,
    ) -> Result<(), Error> {
        let options = Options::new()
            .durability(durability)
            .slack_bytes(SLACK_BYTES);
        let (log, databases) = ChangeLog::open(&dir, &options)?;
        if let Some(torn) = log.torn() {
            (shared.warnings.report)(&format!(
                "cut off the last {} bytes of the log, from byte {} of {} on: they had not been written completely, and no sync had covered them; {}",
                torn.bytes,
                torn.offset,
                torn.path.display(),
                torn.whereabouts()
            ));
        }
        shared.databases = databases;
        shared.persistence = Some(Self {
            log,
            dir: std::path::absolute(&dir).unwrap_or(dir),
            failure: None,
            is_full: false,
            last_save: shared.now / 1_000,
            saved_changes: 0,
            save: Save::None,
            rewrites: Rewrites::default(),
            holds_replies: durability == Durability::Always,
            unsynced: Unsynced::default(),
            requested: 0,
            #[cfg(test)]
            hangs_at: None,
            #[cfg(test)]
            fault: None,
            last_save_failed: false,
        });
        Ok(())
    }

    /// Whether the replies of this turn wait until the log has reached the disk.
    pub(crate) fn holds_replies(&self) -> bool {
        self.holds_replies
    }

    /// Sets the durability from the next reply on. Replies of this turn wait for the disk if they had to before.
    pub(crate) fn set_durability(&mut self, durability: Durability) {
        if self.log.durability() == durability {
            return;
        }
        self.log.set_durability(durability);
        if durability == Durability::Always {
            self.holds_replies = true;
            // Writes acknowledged before may not have reached the disk.
            self.unsynced.note_all();
        }
    }

    /// Begins a turn of the event loop.
    fn begin_turn(&mut self) {
        self.holds_replies = self.log.durability() == Durability::Always;
        self.forget_synced();
    }

    /// The log, for a change of `key`.
    #[inline]
    pub(crate) fn change(&mut self, database: usize, key: &[u8]) -> &mut ChangeLog {
        if self.holds_replies {
            self.unsynced.note(database, key);
        }
        &mut self.log
    }

    /// The log, for a change of whole databases.
    pub(crate) fn change_all(&mut self) -> &mut ChangeLog {
        if self.holds_replies {
            self.unsynced.note_all();
        }
        &mut self.log
    }

    /// Whether a change of `key` may not have reached the disk.
    pub(crate) fn is_unsynced(&self, database: usize, key: &[u8]) -> bool {
        self.unsynced.contains(database, key)
    }

    fn forget_synced(&mut self) {
        let position = self.unsynced.position();
        if position.is_some_and(|position| self.is_synced(position)) {
            self.unsynced.forget();
        }
        // Changes that could not be written are behind that position.
        if self.unsynced.is_uncovered() && self.log.pending_bytes() == 0 {
            self.unsynced.cover(self.log.position());
        }
    }

    fn is_synced(&self, position: u64) -> bool {
        #[cfg(test)]
        if self.hangs_at.is_some_and(|at| at < position) {
            return false;
        }
        self.log.is_synced(position)
    }

    /// Whether a sync was requested and has not ended.
    pub(crate) fn is_syncing(&self) -> bool {
        !self.is_synced(self.requested) && self.log.check().is_ok()
    }

    /// Whether the last write succeeded.
    pub(crate) fn writes(&self) -> bool {
        self.failure.is_none()
    }

    pub(crate) fn last_save(&self) -> u64 {
        self.last_save
    }

    pub(crate) fn last_save_succeeded(&self) -> bool {
        !self.last_save_failed
    }

    pub(crate) fn is_saving(&self) -> bool {
        self.save != Save::None
    }

    /// Changes since the last save.
    pub(crate) fn unsaved_changes(&self) -> u64 {
        self.log.changes().saturating_sub(self.saved_changes)
    }

    /// Lets everything that was changed so far reach the disk in the background. Returns whether that was not under way.
    pub(crate) fn save_later(&mut self) -> bool {
        let is_new = self.save == Save::None;
        if is_new {
            self.save = Save::Wanted;
        }
        is_new
    }

    /// Starts and ends a BGSAVE, when it is time for that.
    fn go_on_saving(&mut self, now_ms: u64) {
        match self.save {
            Save::None => {}
            Save::Wanted => {
                self.save = Save::Running {
                    position: self.log.position(),
                    changes: self.log.changes(),
                    now_ms,
                };
                self.log.sync_later();
            }
            Save::Running { .. } if self.failure.is_some() => {
                self.save = Save::None;
                self.last_save_failed = true;
            }
            Save::Running {
                position,
                changes,
                now_ms,
            } => {
                if self.is_synced(position) {
                    self.save = Save::None;
                    self.saved(changes, now_ms);
                }
            }
        }
    }

    fn saved(&mut self, changes: u64, now_ms: u64) {
        self.last_save = now_ms / 1_000;
        self.saved_changes = changes;
        self.last_save_failed = false;
    }

    /// Value of the setting `appendfsync` of Redis for this durability.
    pub(crate) fn appendfsync(&self) -> &'static str {
        match self.log.durability() {
            Durability::Process => "no",
            Durability::Interval(_) => "everysec",
            Durability::Always => "always",
        }
    }

    /// The durability as `loadline serve` names it.
    pub(crate) fn durability(&self) -> String {
        match self.log.durability() {
            Durability::Process => "process".to_owned(),
            Durability::Interval(interval) => format!("interval:{}ms", interval.as_millis()),
            Durability::Always => "always".to_owned(),
        }
    }
}

impl Shared {
    /// Notes the change of a key, for those that watch it and for the log, which gets the whole value.
    #[inline]
    pub(crate) fn touched(&mut self, database: usize, key: &[u8]) {
        self.watched.touch(database, key);
        if let Some(persistence) = &mut self.persistence {
            let log = persistence.change(database, key);
            self.databases[database].peek(key, self.now, |value| match value {
                Some((value, expires_at)) => log.put(database, key, value, expires_at),
                None => log.delete(database, key),
            });
        }
    }

    /// Notes that a key goes at another time, or has gone.
    pub(crate) fn expiry_touched(&mut self, database: usize, key: &[u8]) {
        self.watched.touch(database, key);
        if let Some(persistence) = &mut self.persistence {
            let log = persistence.change(database, key);
            self.databases[database].peek(key, self.now, |value| match value {
                Some((_, expires_at)) => log.expire(database, key, expires_at),
                None => log.delete(database, key),
            });
        }
    }

    /// Number of changes that were noted for the log since the start; 0 without one.
    #[inline]
    pub(crate) fn noted(&self) -> u64 {
        let persistence = self.persistence.as_ref();
        persistence.map_or(0, |persistence| persistence.log.changes())
    }

    /// Bytes of requests, and of the log. The memory of the databases grows no faster.
    pub(crate) fn written_bytes(&self) -> u64 {
        let persistence = self.persistence.as_ref();
        let log_bytes = persistence.map_or(0, |persistence| persistence.log.position());
        self.stats.bytes_in + log_bytes
    }

    /// The reply to a command that writes, if the log cannot take its changes. Commands that add no data to the log make room
    /// on a full disk.
    pub(crate) fn unwritable(&self, adds_data: bool) -> Option<Refusal> {
        let persistence = self.persistence.as_ref()?;
        if persistence.writes() && adds_data && !persistence.log.has_room() {
            let reason = nix::errno::Errno::ENOSPC.desc();
            return Some(format!("MISCONF Errors writing to the AOF file: {reason}").into());
        }
        self.misconfigured()
            .filter(|_| adds_data || !persistence.is_full)
    }

    /// The reply to a command that has written, while the log takes no changes.
    pub(crate) fn misconfigured(&self) -> Option<Refusal> {
        let reason = self.persistence.as_ref()?.failure.as_ref()?;
        Some(format!("MISCONF Errors writing to the AOF file: {reason}").into())
    }

    /// Commits the changes if they are many, between two commands. Replies wait for the end of the turn in any case.
    #[inline]
    pub(crate) fn commit_much(&mut self) {
        let Some(persistence) = &self.persistence else {
            return;
        };
        let bytes = persistence.log.pending_bytes();
        let is_much = || match persistence.log.record_bytes() {
            0 => bytes > MUCH_BYTES,
            fit => bytes > MUCH_BYTES || bytes as u64 > fit,
        };
        if bytes > NOT_MUCH_BYTES && is_much() {
            self.commit();
        }
    }

    /// Writes the changes to the log, and returns whether all of them are there. Those that are not stay, and
    /// [`check_log`](Self::check_log) tries again. Where replies wait for the disk, [`unsynced`](Self::unsynced) says so.
    pub(crate) fn commit(&mut self) -> bool {
        let Some(persistence) = &mut self.persistence else {
            return true;
        };
        if !persistence.writes() {
            return false;
        }
        if persistence.save == Save::None && persistence.log.pending_bytes() == 0 {
            return true;
        }
        let appended = persistence.log.append(&mut self.databases);
        self.note_outcome(appended)
    }

    /// The position of the log that replies have to wait for, if they have to wait: a reply leaves only after everything
    /// that was changed before it has reached the disk.
    pub(crate) fn unsynced(&self) -> Option<u64> {
        let persistence = self.persistence.as_ref();
        let persistence = persistence.filter(|it| it.holds_replies)?;
        let log = &persistence.log;
        let position = log.position();
        // After an error of a sync there is nothing to wait for.
        (!persistence.is_synced(position) && log.check().is_ok()).then_some(position)
    }

    /// Whether the log has reached the disk up to `position`.
    pub(crate) fn is_synced(&self, position: u64) -> bool {
        let persistence = self.persistence.as_ref();
        persistence.is_none_or(|persistence| persistence.is_synced(position))
    }

    /// Begins a turn of the event loop.
    pub(crate) fn begin_turn(&mut self) {
        if let Some(persistence) = &mut self.persistence {
            persistence.begin_turn();
        }
    }

    /// Syncs everything before `position` in the background. The event loop goes on even if all of its connections wait: a
    /// disk that hangs must not keep it from new ones.
    pub(crate) fn sync_to(&mut self, position: u64) {
        if let Some(persistence) = &mut self.persistence {
            persistence.requested = position;
            persistence.log.sync_commits_later();
        }
    }

    /// Whether a sync is under way that replies wait for.
    pub(crate) fn is_syncing(&self) -> bool {
        let persistence = self.persistence.as_ref();
        persistence.is_some_and(Persistence::is_syncing)
    }

    /// Waits until everything that was written has reached the disk. An error is noted.
    pub(crate) fn sync(&mut self) {
        if let Some(persistence) = &self.persistence {
            let synced = persistence.log.sync();
            self.note_outcome(synced);
        }
    }

    /// Notes an error of a sync in the background. Returns whether the log has failed for good.
    pub(crate) fn has_failed(&mut self) -> bool {
        let Some(persistence) = &self.persistence else {
            return false;
        };
        #[cfg(test)]
        if let Some(reason) = persistence.fault.clone() {
            return !self.note_outcome(Err(Error::Failed { reason }));
        }
        match persistence.log.check() {
            Ok(()) => false,
            failed => !self.note_outcome(failed),
        }
    }

    /// Checks for errors of the thread in the background, and tries again what could not be written.
    pub(crate) fn check_log(&mut self) {
        if let Some(persistence) = &mut self.persistence {
            let mut appended = persistence.log.append(&mut self.databases);
            if !persistence.log.has_room() && self.pause.is_none() {
                appended = appended.and(persistence.log.make_room(&mut self.databases));
            }
            self.note_outcome(appended);
        }
    }

    /// Makes everything that was changed so far durable.
    ///
    /// # Errors
    /// The reply that says why it could not.
    pub(crate) fn save(&mut self) -> Result<(), Refusal> {
        self.commit();
        let Some(persistence) = &self.persistence else {
            return Ok(());
        };
        if persistence.writes() {
            self.sync();
        }
        if let Some(refusal) = self.misconfigured() {
            if let Some(persistence) = &mut self.persistence {
                persistence.last_save_failed = true;
            }
            return Err(refusal);
        }
        let now = self.now;
        if let Some(persistence) = &mut self.persistence {
            let changes = persistence.log.changes();
            persistence.saved(changes, now);
        }
        Ok(())
    }

    fn note_outcome(&mut self, outcome: Result<(), Error>) -> bool {
        let Some(persistence) = &mut self.persistence else {
            return true;
        };
        let is_done = outcome.is_ok();
        match outcome {
            Ok(()) => persistence.failure = None,
            Err(error) => {
                persistence.is_full = matches!(error, Error::Full { .. });
                let reason = reason(&error);
                self.warnings
                    .warn(|| format!("commands that write are refused: {error}"));
                persistence.failure = Some(reason);
            }
        }
        persistence.go_on_saving(self.now);
        is_done
    }

    /// Whether the data must stay as it is, since changes could not be written.
    pub(crate) fn is_stuck(&self) -> bool {
        let persistence = self.persistence.as_ref();
        persistence.is_some_and(|persistence| !persistence.writes())
    }

    /// Contents of the log.
    pub(crate) fn log_stats(&self) -> LogStats {
        let persistence = self.persistence.as_ref();
        persistence.map_or_else(LogStats::default, |persistence| {
            persistence.log.stats(&self.databases)
        })
    }

    /// Closes the log, so that all of it has reached the disk.
    ///
    /// # Errors
    /// That of the last changes, or of the log.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        let Some(mut persistence) = self.persistence.take() else {
            return Ok(());
        };
        persistence.log.commit(&mut self.databases)?;
        persistence.log.close()
    }
}

/// The reason for an error as Redis has it where there is one: that of the operating system.
fn reason(error: &Error) -> String {
    match error {
        Error::Full { source } | Error::Io { source, .. } => match source.raw_os_error() {
            Some(code) => nix::errno::Errno::from_raw(code).desc().to_owned(),
            None => source.to_string(),
        },
        error => error.to_string(),
    }
}

//! The log as the event loop and commands use it.

use std::path::PathBuf;

use loadline_store::{ChangeLog, Durability, Error, LogStats, Options};

use super::rewrite::Rewrites;
use super::unsynced::Unsynced;
use super::{Persistence, Save};
use crate::commands::Refusal;
use crate::state::Shared;

/// Changes of a turn from which on they are written before its end, between two commands.
const MUCH_BYTES: usize = 16 << 20;

/// Changes up to which they are never written before the end of a turn.
const NOT_MUCH_BYTES: usize = 64 << 10;

/// Garbage that the log may hold whatever the size of the data, but at most an eighth of the disk: that from which on Redis rewrites its file
/// (`auto-aof-rewrite-min-size`). A log of little data would be reclaimed all the time with less.
const SLACK_BYTES: u64 = 64 << 20;

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
            saved_changes: shared.watched.changes,
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
}

impl Shared {
    /// Closes the log and opens it again, which replaces the databases.
    ///
    /// # Errors
    /// That of the last changes, or of the log. There is none then.
    pub(crate) fn reopen(&mut self) -> Result<(), Error> {
        let Some(persistence) = &self.persistence else {
            return Ok(());
        };
        let (dir, durability) = (persistence.dir.clone(), persistence.log.durability());
        self.close()?;
        Persistence::open(dir, durability, self)?;
        self.wake_after_syncs();
        Ok(())
    }

    /// Makes syncs of the log in the background wake the event loop: replies may wait for them, now or after CONFIG SET.
    pub(crate) fn wake_after_syncs(&self) {
        if let Some(persistence) = &self.persistence {
            let waker = self.waker.clone();
            persistence.log.on_sync(move || waker.wake());
        }
    }

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

    /// Bytes of changes that are not in the log yet.
    pub(crate) fn pending_bytes(&self) -> usize {
        let persistence = self.persistence.as_ref();
        persistence.map_or(0, |persistence| persistence.log.pending_bytes())
    }

    /// Bytes of requests, and of the log. The memory of the databases grows no faster.
    pub(crate) fn written_bytes(&self) -> u64 {
        let persistence = self.persistence.as_ref();
        let log_bytes = persistence.map_or(0, |persistence| persistence.log.position());
        self.stats.bytes_in + log_bytes
    }

    /// The reply to a command that writes, if the log cannot take its changes, or there have to be replicas. Commands that add
    /// no data to the log make room on a full disk.
    pub(crate) fn unwritable(&self, adds_data: bool) -> Option<Refusal> {
        self.unloggable(adds_data)
            .or_else(|| self.short_of_replicas())
    }

    /// The reply to a command that writes, if there have to be replicas.
    pub(crate) fn short_of_replicas(&self) -> Option<Refusal> {
        let is_short = self.settings.min_replicas_to_write > 0;
        is_short.then(|| "NOREPLICAS Not enough good replicas to write.".into())
    }

    /// The reply to a command that writes, if the log cannot take its changes.
    pub(crate) fn unloggable(&self, adds_data: bool) -> Option<Refusal> {
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
        if !persistence.writes() || self.abandons_script {
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
            persistence.saved(self.watched.changes, now);
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
        persistence.go_on_saving(self.watched.changes, self.now);
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
        if !self.abandons_script {
            persistence.log.commit(&mut self.databases)?;
        }
        persistence.log.close()
    }

    /// Whether a rewrite has work to do in the next turn. The data must stay as it is during a pause, in which expired
    /// entries would go.
    pub(crate) fn is_rewriting(&self) -> bool {
        let persistence = self.persistence.as_ref();
        persistence.is_some_and(|it| it.rewrites.has_work()) && self.pause.is_none()
    }

    /// Does the part of a rewrite that is due in a turn.
    pub(crate) fn rewrite_some(&mut self) {
        if self.is_rewriting() {
            self.go_on_rewriting();
        }
    }

    /// Finds out whether the old files of a rewrite are removed. A check ten times a second is enough.
    pub(crate) fn check_rewrite(&mut self) {
        let persistence = self.persistence.as_ref();
        if persistence.is_some_and(|it| it.rewrites.is_removing()) {
            self.go_on_rewriting();
        }
    }

    fn go_on_rewriting(&mut self) {
        // Changes that are not committed must not reach the disk before.
        let is_committed = self.commit();
        let Some(persistence) = &mut self.persistence else {
            return;
        };
        if !is_committed {
            return persistence.rewrites.end(true);
        }
        let log = &mut persistence.log;
        if let Err(error) = persistence.rewrites.go_on(log, &mut self.databases) {
            self.warnings
                .warn(|| format!("the log was not rewritten: {error}"));
        }
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

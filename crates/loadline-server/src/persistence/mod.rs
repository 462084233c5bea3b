//! Data that survives the end of the server: what commands change goes into a log, as one record for each turn of the
//! event loop, and replies leave after it.
//!
//! With the durability `always`, the event loop does not wait for the disk. A thread syncs the log while the loop goes on,
//! and replies are held back until the sync covers everything that was changed before they were made, by whatever
//! connection: no client ever sees data that a failure of the machine could take back. Replies that do not depend on
//! unsynced changes, such as those to PING and INFO and to GET of a key that was not changed since the last sync, leave at
//! once if no reply waits before them.

mod log;
mod rewrite;
mod unsynced;

use std::path::PathBuf;

use loadline_store::{ChangeLog, Durability};

use rewrite::Rewrites;
use unsynced::Unsynced;

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

    /// Changes since the last save, of `changes` since the start.
    pub(crate) fn unsaved(&self, changes: u64) -> u64 {
        changes.saturating_sub(self.saved_changes)
    }

    /// Lets everything that was changed so far reach the disk in the background. Returns whether that was not under way.
    pub(crate) fn save_later(&mut self) -> bool {
        let is_new = self.save == Save::None;
        if is_new {
            self.save = Save::Wanted;
        }
        is_new
    }

    /// Starts and ends a BGSAVE, when it is time for that. There were `changes` since the start.
    fn go_on_saving(&mut self, changes: u64, now_ms: u64) {
        match self.save {
            Save::None => {}
            Save::Wanted => {
                self.save = Save::Running {
                    position: self.log.position(),
                    changes,
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

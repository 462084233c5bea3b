//! BGREWRITEAOF: the log is written anew while the server serves, a small part in each turn of the event loop. There is
//! no second process, so no memory is copied.

use std::time::{Duration, Instant};

use loadline_store::{ChangeLog, Error, Keyspace, Rewrite, RewriteStep};

/// Time that a turn of the event loop works on a rewrite. Connections wait for it.
const TURN: Duration = Duration::from_micros(250);

/// Rewrites of the log.
#[derive(Debug, Default)]
pub(crate) struct Rewrites {
    state: State,
    /// Duration of the last rewrite.
    last: Option<Duration>,
    last_failed: bool,
    /// Number of those that have ended well.
    done: u64,
}

#[derive(Debug, Clone, Copy, Default)]
enum State {
    #[default]
    None,
    /// It begins with the next turn.
    Wanted(Instant),
    /// Entries are left to be written.
    Writing(Instant, Rewrite),
    /// The old files are about to be removed.
    Removing(Instant, Rewrite),
}

impl Rewrites {
    /// Lets the log be written anew. Returns whether that was not under way.
    pub(crate) fn begin(&mut self) -> bool {
        let is_new = !self.is_under_way();
        if is_new {
            self.state = State::Wanted(Instant::now());
        }
        is_new
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.since().is_some()
    }

    /// Start of the rewrite that is under way.
    fn since(&self) -> Option<Instant> {
        match self.state {
            State::None => None,
            State::Wanted(since) | State::Writing(since, _) | State::Removing(since, _) => {
                Some(since)
            }
        }
    }

    /// Time since the start of the rewrite that is under way.
    pub(crate) fn current(&self) -> Option<Duration> {
        self.since().map(|since| since.elapsed())
    }

    /// Duration of the last rewrite.
    pub(crate) fn last(&self) -> Option<Duration> {
        self.last
    }

    /// Whether the last one has ended well, or there was none.
    pub(crate) fn last_succeeded(&self) -> bool {
        !self.last_failed
    }

    /// Number of those that have ended well.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    pub(super) fn end(&mut self, has_failed: bool) {
        self.last = self.current();
        self.last_failed = has_failed;
        self.done += u64::from(!has_failed);
        self.state = State::None;
    }

    /// Whether the next turn has a part of a rewrite to do.
    pub(super) fn has_work(&self) -> bool {
        matches!(self.state, State::Wanted(_) | State::Writing(..))
    }

    /// Whether the old files of a rewrite are being removed.
    pub(super) fn is_removing(&self) -> bool {
        matches!(self.state, State::Removing(..))
    }

    /// Does the part of a rewrite that is due in a turn. An error ends the rewrite.
    ///
    /// # Errors
    /// Those of the log.
    pub(super) fn go_on(
        &mut self,
        log: &mut ChangeLog,
        databases: &mut [Keyspace],
    ) -> Result<(), Error> {
        let outcome = self.advance(log, databases);
        if outcome.is_err() {
            self.end(true);
        }
        outcome
    }

    fn advance(&mut self, log: &mut ChangeLog, databases: &mut [Keyspace]) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            self.state = match self.state {
                State::None => return Ok(()),
                State::Wanted(since) => State::Writing(since, log.begin_rewrite(databases)?),
                State::Writing(since, rewrite) | State::Removing(since, rewrite) => {
                    match log.rewrite_some(rewrite, databases)? {
                        RewriteStep::Writing if begun.elapsed() < TURN => {
                            State::Writing(since, rewrite)
                        }
                        RewriteStep::Writing => return Ok(()),
                        RewriteStep::Removing => {
                            self.state = State::Removing(since, rewrite);
                            return Ok(());
                        }
                        RewriteStep::Done => {
                            self.end(false);
                            return Ok(());
                        }
                    }
                }
            };
        }
    }
}

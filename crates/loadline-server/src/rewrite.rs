//! BGREWRITEAOF: the log is written anew while the server serves, a small part in each turn of the event loop. There is
//! no second process, so no memory is copied.

use std::time::{Duration, Instant};

use loadline_store::{Error, Rewrite, RewriteStep};

use crate::state::Shared;

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

    fn end(&mut self, has_failed: bool) {
        self.last = self.current();
        self.last_failed = has_failed;
        self.done += u64::from(!has_failed);
        self.state = State::None;
    }
}

impl Shared {
    /// Whether a rewrite has work to do in the next turn. The data must stay as it is during a pause, in which expired
    /// entries would go.
    pub(crate) fn is_rewriting(&self) -> bool {
        let state = self.persistence.as_ref().map(|it| it.rewrites.state);
        let has_work = matches!(state, Some(State::Wanted(_) | State::Writing(..)));
        has_work && self.pause.is_none()
    }

    /// Does the part of a rewrite that is due in a turn.
    pub(crate) fn rewrite_some(&mut self) {
        if self.is_rewriting() {
            self.go_on_rewriting();
        }
    }

    /// Finds out whether the old files of a rewrite are removed. A check ten times a second is enough.
    pub(crate) fn check_rewrite(&mut self) {
        let state = self.persistence.as_ref().map(|it| it.rewrites.state);
        if matches!(state, Some(State::Removing(..))) {
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
        let (log, rewrites) = (&mut persistence.log, &mut persistence.rewrites);
        let begun = Instant::now();
        let mut go_on = || -> Result<(), Error> {
            loop {
                rewrites.state = match rewrites.state {
                    State::None => return Ok(()),
                    State::Wanted(since) => {
                        State::Writing(since, log.begin_rewrite(&mut self.databases)?)
                    }
                    State::Writing(since, rewrite) | State::Removing(since, rewrite) => {
                        match log.rewrite_some(rewrite, &mut self.databases)? {
                            RewriteStep::Writing if begun.elapsed() < TURN => {
                                State::Writing(since, rewrite)
                            }
                            RewriteStep::Writing => return Ok(()),
                            RewriteStep::Removing => {
                                rewrites.state = State::Removing(since, rewrite);
                                return Ok(());
                            }
                            RewriteStep::Done => {
                                rewrites.end(false);
                                return Ok(());
                            }
                        }
                    }
                };
            }
        };
        if let Err(error) = go_on() {
            persistence.rewrites.end(true);
            self.warnings
                .warn(|| format!("the log was not rewritten: {error}"));
        }
    }
}

//! Execution of commands: admission, transactions, pauses, and counting.

use std::sync::atomic::Ordering;
use std::time::Instant;

use loadline_resp::encode::Sink as _;

use super::call::Call;
use super::refusal::{self, Refusal};
use super::table::{Access, Known, fits};
use super::{Words, find_again, is, transactions};
use crate::buffer::{Output, Part};
use crate::others::Others;
use crate::session::{Replies, Session};
use crate::state::Shared;

/// Executes the words of a request, of which there is at least one, and writes the reply to `out`.
pub(crate) fn execute(
    words: Words<'_>,
    session: &mut Session,
    shared: &mut Shared,
    out: &mut Output,
    others: &dyn Others,
) {
    #[cfg(feature = "slowdown")]
    if let Some(slowdown) = &shared.slowdown {
        crate::slowdown::slow_down(slowdown);
    }
    if shared.watched.tracking.is_used() {
        shared.begin_tracked(session.id, out);
    }
    let begin = out.len();
    let noted = shared.noted();
    Call {
        session,
        shared,
        out,
        changed: None,
        others,
    }
    .execute(words);
    if session.is_tracking && session.queue.is_none() && !is(words[0], "CLIENT") {
        shared.watched.tracking.end_caching(session.id);
    }
    if session.waiting.is_none() {
        finish(begin, noted, session, shared, out);
    }
}

/// Ends a command: drops its reply if it is not wanted, and notes where the reply is to be replaced if the changes cannot be
/// written.
#[inline]
pub(super) fn finish(
    begin: usize,
    noted: u64,
    session: &mut Session,
    shared: &mut Shared,
    out: &mut Output,
) {
    if session.replies != Replies::On {
        if session.replies.are_dropped() {
            out.truncate(begin);
            // Messages are no replies.
            out.put(&std::mem::take(&mut session.pushed));
        }
        session.replies = session.replies.after_command();
    }
    if shared.noted() != noted {
        let part = Part {
            begin: out.end() - (out.len().saturating_sub(begin)) as u64,
            end: out.end(),
        };
        if part.end > part.begin {
            session.unconfirmed.push(part);
        }
        shared.commit_much();
    }
    if shared.watched.tracking.is_used() {
        shared.end_tracked(session, out);
    }
}

impl Call<'_> {
    pub(super) fn execute(&mut self, words: Words<'_>) {
        match self.admit(words) {
            Ok(known) if self.is_paused(known) => self.postpone(words),
            Ok(known) if self.is_held(known, words) => self.hold(words),
            Ok(known)
                if self.session.queue.is_some() && !transactions::runs_at_once(known.name) =>
            {
                self.queue(known, words);
            }
            Ok(known) => self.perform(known, words),
            // Neither is a command.
            Err(_) if is(words[0], "POST") || is(words[0], "Host:") => self.refuse_http(),
            Err(refusal) => {
                let refusal = transactions::spoil(self, words, refusal);
                self.refuse(&refusal);
            }
        }
    }

    /// Closes a connection that speaks HTTP, as Redis does: a web page can make a browser send such a request
    /// to a local port, with commands in its body. Every such request contains one of these two lines; other
    /// header lines get the error for unknown commands.
    #[cold]
    pub(super) fn refuse_http(&mut self) {
        self.session.closing = true;
        let address = &self.session.peer.address;
        self.shared.warnings.warn(|| {
            format!(
                "closed the connection from {address}: it sent POST or Host:, as a web page does that \
                 attacks the server through the browser of someone on this machine"
            )
        });
    }

    /// Finds the command, or the subcommand, and checks that it can be called.
    pub(super) fn admit(&mut self, words: Words<'_>) -> Result<&'static Known, Refusal> {
        let known = self.admit_any_size(words)?;
        if let Some(script) = &self.shared.long_script
            && !known.item.has("allow_busy")
        {
            let refusal = script.refusal();
            self.count_rejected(known);
            return Err(refusal);
        }
        if self.shared.settings.maxmemory > 0 && self.is_growing(known) && !self.shared.make_room()
        {
            self.count_rejected(known);
            return Err("OOM command not allowed when used memory > 'maxmemory'.".into());
        }
        Ok(known)
    }

    /// As [`admit`](Self::admit), without a look at the limit of memory.
    pub(super) fn admit_any_size(&mut self, words: Words<'_>) -> Result<&'static Known, Refusal> {
        let command = find_again(&mut self.shared.last_found, words[0]);
        let command = command.ok_or_else(|| refusal::unknown(words))?;
        let known = command.of(words);
        let known = known.ok_or_else(|| refusal::unknown_subcommand(words))?;
        self.admit_known(known, words)?;
        Ok(known)
    }

    /// Checks that a command that was found can be called, without a look at the limit of memory.
    pub(super) fn admit_known(&mut self, known: &Known, words: Words<'_>) -> Result<(), Refusal> {
        if !fits(known.arity, words.len()) {
            self.count_rejected(known);
            return Err(refusal::wrong_number(known.item.name));
        }
        let is_free = self.session.is_free && self.shared.acl.is_plain();
        if !is_free && let Some(refusal) = self.restriction(known, words) {
            self.count_rejected(known);
            return Err(refusal);
        }
        if known.access == Access::None
            && let Some(refusal) = self.unless_debugging(known)
        {
            self.count_rejected(known);
            return Err(refusal);
        }
        if self.session.queue.is_some() && known.item.has("no_multi") {
            self.count_rejected(known);
            return Err("ERR Command not allowed inside a transaction".into());
        }
        if self.is_writing(known) {
            let refusal = self.shared.unloggable(self.is_adding_to_log(known));
            let short = || self.shared.short_of_replicas();
            let refusal = refusal.or_else(|| short().filter(|_| self.needs_replicas(known)));
            if let Some(refusal) = refusal {
                self.count_rejected(known);
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Counts a call that was refused.
    #[cold]
    pub(super) fn count_rejected(&mut self, known: &Known) {
        self.shared.stats.calls[known.place].rejected += 1;
    }

    /// Whether a command changes the data, directly or by a transaction.
    pub(super) fn is_writing(&self, known: &Known) -> bool {
        let queue = self.session.queue.as_ref();
        let executes = known.name == "EXEC" && queue.is_some_and(|queue| queue.writes);
        known.access == Access::Write || executes
    }

    /// Whether a command that writes is refused without the replicas that there have to be. A script is refused once it writes,
    /// or if it declares that it does.
    fn needs_replicas(&self, known: &Known) -> bool {
        let queue = self.session.queue.as_ref().filter(|_| known.name == "EXEC");
        queue.map_or(!known.runs_script(), |queue| queue.needs_replicas)
    }

    /// Whether a command adds data, directly or by a transaction.
    pub(super) fn is_growing(&self, known: &Known) -> bool {
        match &self.session.queue {
            Some(queue) if known.name == "EXEC" => queue.grows,
            Some(_) => known.grows || !transactions::ends_one(known.name),
            None => known.grows,
        }
    }

    /// Whether a command adds data to the log, directly or by a transaction.
    fn is_adding_to_log(&self, known: &Known) -> bool {
        match &self.session.queue {
            Some(queue) if known.name == "EXEC" => queue.grows,
            _ => known.grows_log,
        }
    }

    /// Runs a command and counts it. The first calls and then one in a few are timed, because reading the
    /// clock takes a large part of a short command's time.
    pub(super) fn perform(&mut self, known: &Known, words: Words<'_>) {
        let place = known.place;
        let stat = &self.shared.stats.calls[place];
        let is_measured = known.is_measured || self.shared.slow.measures_all();
        let weight = if is_measured { 1 } else { stat.weight() };
        let begun = (is_measured || stat.is_timed()).then(Instant::now);
        let peer = &self.session.peer;
        peer.command.store(place + 1, Ordering::Relaxed);
        self.session.has_seen_data |= self.sees_unsynced(known, words);
        let is_shown = self.shared.monitors.are_used();
        // Scripts come in front of the commands that they call, others behind: a transaction too, and SELECT.
        let comes_first = is_shown && known.runs_script();
        if comes_first {
            self.show_to_monitors(known, words);
        }
        let outcome = match self.session.peer.leaves_uses.load(Ordering::Relaxed) {
            false => self.handle_noting(known, words),
            true => self.handle_leaving_uses(known, words),
        };
        if is_shown && !comes_first {
            self.show_to_monitors(known, words);
        }
        self.shared.stats.commands += 1;
        let stat = &mut self.shared.stats.calls[place];
        stat.calls += 1;
        if let Some(begun) = begun {
            let took = begun.elapsed();
            stat.timed += 1;
            stat.time += took;
            self.count_time(place, took, weight);
            if self.shared.slow.is_noted(took) && self.session.waiting.is_none() {
                self.note_slow(known, words, took);
            }
        }
        let own_failures = std::mem::take(&mut self.shared.stats.own_failures);
        self.shared.stats.calls[place].failed += own_failures;
        if let Err(refusal) = outcome {
            self.shared.stats.calls[place].failed += 1;
            self.refuse(&refusal);
        }
        if self.session.is_tracking {
            self.remember(known, words);
        }
    }

    /// Whether the reply has to wait if there are unsynced changes. It matters only where replies can wait.
    #[inline]
    fn sees_unsynced(&self, known: &Known, words: Words<'_>) -> bool {
        let persistence = self.shared.persistence.as_ref();
        persistence
            .filter(|persistence| persistence.holds_replies())
            .is_some_and(|persistence| {
                let database = self.session.database;
                known.sees_unsynced(words, |key| persistence.is_unsynced(database, key))
            })
    }

    /// Runs the function of a command, and publishes its events.
    #[inline]
    pub(super) fn handle_noting(&mut self, known: &Known, words: Words<'_>) -> Result<(), Refusal> {
        if self.shared.notifies() {
            self.handle_with_events(known, words)
        } else {
            (known.handler)(self, words)
        }
    }

    /// Runs the function of a command for a client whose commands are no uses of keys (CLIENT NO-TOUCH).
    #[cold]
    fn handle_leaving_uses(&mut self, known: &Known, words: Words<'_>) -> Result<(), Refusal> {
        self.shared.count_uses(known.name == "TOUCH");
        let outcome = self.handle_noting(known, words);
        self.shared.count_uses(true);
        outcome
    }

    pub(super) fn queue(&mut self, known: &Known, words: Words<'_>) {
        if let Some(queue) = &mut self.session.queue {
            queue.grows |= known.grows;
            let writes = known.access == Access::Write;
            queue.writes |= writes;
            queue.needs_replicas |= writes && !known.runs_script();
            queue.push(words);
        }
        self.reply().simple("QUEUED");
    }
}

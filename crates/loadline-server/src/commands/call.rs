//! A call of a command: whether it is admitted, and its access to the connection, the store and the reply.

use std::sync::atomic::Ordering;
use std::time::Instant;

use loadline_resp::Protocol;
use loadline_store::{Change, Entry, Keyspace, Value, View};

use super::refusal::{self, Refusal};
use super::reply::Reply;
use super::table::{Access, Found, Known, find, fits, subcommand};
use super::{Words, connection, help, is, transactions};
use crate::buffer::Output;
use crate::state::{Session, Shared};

/// The state that a command can access.
pub(super) struct Call<'c> {
    pub(super) session: &'c mut Session,
    pub(super) shared: &'c mut Shared,
    pub(super) out: &'c mut Output,
}

/// The effect of a change on a collection.
pub(super) enum Effect<R> {
    Changed(R),
    Same(R),
}

impl<R> Effect<R> {
    /// A change if `changed`.
    pub(super) fn of(changed: bool, result: R) -> Self {
        if changed {
            Self::Changed(result)
        } else {
            Self::Same(result)
        }
    }
}

impl Call<'_> {
    pub(super) fn execute(&mut self, words: Words<'_>) {
        if is(words[0], "POST") || is(words[0], "Host:") {
            return self.refuse_http();
        }
        match self.admit(words) {
            Ok(found) if self.is_paused(found.known) => self.postpone(words),
            Ok(found)
                if self.session.queue.is_some()
                    && !transactions::runs_at_once(found.known.name) =>
            {
                self.queue(found.known, words);
            }
            Ok(found) => self.perform(found, words),
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

    /// Finds the command and checks that it can be called.
    pub(super) fn admit(&mut self, words: Words<'_>) -> Result<Found, Refusal> {
        let found = find(words[0]).ok_or_else(|| refusal::unknown(words))?;
        let known = found.known;
        let stat = &mut self.shared.stats.calls[found.index];
        if !fits(known.arity, words.len()) {
            stat.rejected += 1;
            return Err(refusal::wrong_number(known.name));
        }
        if let ([_, second, ..], [_, ..]) = (words, known.subcommands) {
            let named = known.subcommands.iter().map(|sub| (sub.name, sub.arity));
            let mut named = named.chain([("HELP", 2)]);
            let refusal = match named.find(|(name, _)| is(second, name)) {
                Some((_, arity)) if fits(arity, words.len()) => None,
                Some((name, _)) => Some(refusal::wrong_number(&format!("{}|{name}", known.name))),
                None => Some(refusal::unknown_subcommand(words)),
            };
            if let Some(refusal) = refusal {
                stat.rejected += 1;
                return Err(refusal);
            }
        }
        let is_open = self.session.authenticated || connection::is_for_strangers(known.name);
        if !is_open {
            stat.rejected += 1;
            return Err("NOAUTH Authentication required.".into());
        }
        if self.session.queue.is_some() && transactions::is_forbidden(known.name) {
            stat.rejected += 1;
            return Err("ERR Command not allowed inside a transaction".into());
        }
        if self.shared.settings.maxmemory > 0 && self.is_growing(known) && !self.shared.make_room()
        {
            self.shared.stats.calls[found.index].rejected += 1;
            return Err("OOM command not allowed when used memory > 'maxmemory'.".into());
        }
        Ok(found)
    }

    /// Whether a command adds data, directly or by a transaction.
    pub(super) fn is_growing(&self, known: &Known) -> bool {
        match &self.session.queue {
            Some(queue) if known.name == "EXEC" => queue.grows,
            Some(_) => known.grows() || !transactions::runs_at_once(known.name),
            None => known.grows(),
        }
    }

    /// Runs a command and counts it. The first calls and then one in a few are timed, because reading the
    /// clock takes a large part of a short command's time.
    pub(super) fn perform(&mut self, found: Found, words: Words<'_>) {
        let stat = &self.shared.stats.calls[found.index];
        let begun = stat.is_timed().then(Instant::now);
        let peer = &self.session.peer;
        peer.command.store(found.index, Ordering::Relaxed);
        peer.subcommand
            .store(subcommand(found.known, words), Ordering::Relaxed);
        let outcome = self.handle(found.known, words);
        self.shared.stats.commands += 1;
        let stat = &mut self.shared.stats.calls[found.index];
        stat.calls += 1;
        if let Some(begun) = begun {
            stat.timed += 1;
            stat.time += begun.elapsed();
        }
        if let Err(refusal) = outcome {
            stat.failed += 1;
            self.refuse(&refusal);
        }
    }

    pub(super) fn handle(&mut self, known: &Known, words: Words<'_>) -> Result<(), Refusal> {
        match words {
            [_, second] if !known.subcommands.is_empty() && is(second, "HELP") => {
                help::help(self, known)
            }
            _ => (known.handler)(self, words),
        }
    }

    pub(super) fn queue(&mut self, known: &Known, words: Words<'_>) {
        if let Some(queue) = &mut self.session.queue {
            queue.grows |= known.grows();
            queue.writes |= known.access == Access::Write;
            queue.push(words);
        }
        self.reply().simple("QUEUED");
    }

    pub(super) fn refuse(&mut self, Refusal(text): &Refusal) {
        self.shared.stats.count_error(text);
        loadline_resp::encode::error(self.out, text);
    }

    pub(super) fn store(&self) -> &Keyspace {
        &self.shared.databases[self.session.database]
    }

    pub(super) fn now(&self) -> u64 {
        self.shared.now
    }

    pub(super) fn protocol(&self) -> Protocol {
        self.session.protocol
    }

    pub(super) fn reply(&mut self) -> Reply<'_> {
        Reply {
            out: self.out,
            protocol: self.session.protocol,
        }
    }

    /// Passes the value at `key` to a closure without a copy, and counts the look-up.
    #[inline]
    pub(super) fn show<R>(
        &mut self,
        key: &[u8],
        look: impl FnOnce(Option<View<'_>>, &mut Reply<'_>) -> R,
    ) -> R {
        let mut was_there = false;
        let result = self.show_again(key, |value, reply| {
            was_there = value.is_some();
            look(value, reply)
        });
        self.shared.stats.count_lookup(was_there);
        result
    }

    /// Like [`show`](Self::show), without counting the look-up.
    #[inline]
    pub(super) fn show_again<R>(
        &mut self,
        key: &[u8],
        look: impl FnOnce(Option<View<'_>>, &mut Reply<'_>) -> R,
    ) -> R {
        let mut reply = Reply {
            out: self.out,
            protocol: self.session.protocol,
        };
        let store = &self.shared.databases[self.session.database];
        store.view(key, self.shared.now, |value| look(value, &mut reply))
    }

    /// Whether `key` exists. Does not count as a look-up.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.store().view(key, self.now(), |value| value.is_some())
    }

    /// Records the change of `key` for connections that watch it.
    #[inline]
    pub(super) fn touched(&mut self, key: &[u8]) {
        self.shared.watched.touch(self.session.database, key);
    }

    /// Removes `key` and returns whether it existed.
    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        let was_there = self.store().remove(key, self.now());
        if was_there {
            self.touched(key);
        }
        was_there
    }

    /// Stores a string at `key`, replacing any value.
    pub(super) fn put_string(&mut self, key: &[u8], bytes: &[u8], expires_at: Option<u64>) {
        self.store()
            .put_string(key, bytes, self.now(), |_| Some(expires_at));
        self.touched(key);
    }

    /// Gives a string the encoding for changes in place; creates an empty one if there is no key.
    pub(super) fn make_growing(&mut self, key: &[u8]) {
        if !self.has(key) {
            self.store()
                .put_string(key, b"", self.now(), |_| Some(None));
        }
        self.store().make_growing(key, self.now());
    }

    /// Stores `entry` at `key`.
    pub(super) fn put(&mut self, key: &[u8], entry: Entry) {
        self.store()
            .modify(key, self.now(), |_| ((), Change::Put(entry)));
        self.touched(key);
    }

    /// Changes the value at `key` in place; a missing value is created first. Removes a key whose collection
    /// is empty afterwards, and does not keep a new value that was not changed.
    pub(super) fn change<R>(
        &mut self,
        key: &[u8],
        fresh: impl FnOnce() -> Value,
        change: impl FnOnce(&mut Value) -> Result<Effect<R>, Refusal>,
    ) -> Result<R, Refusal> {
        let effect = self
            .store()
            .modify(key, self.now(), |current| match current {
                Some(entry) => {
                    let effect = change(&mut entry.value);
                    let after = if entry.value.is_empty_collection() {
                        Change::Remove
                    } else {
                        Change::Keep
                    };
                    (effect, after)
                }
                None => {
                    let mut value = fresh();
                    let effect = change(&mut value);
                    let after = match effect {
                        Ok(Effect::Changed(_)) => Change::Put(Entry::lasting(value)),
                        Ok(Effect::Same(_)) | Err(_) => Change::Keep,
                    };
                    (effect, after)
                }
            })?;
        Ok(match effect {
            Effect::Changed(result) => {
                self.touched(key);
                result
            }
            Effect::Same(result) => result,
        })
    }
}

//! MIGRATE: keys that move to another server while other clients are served.

use std::sync::atomic::Ordering;
use std::time::Duration;

use loadline_resp::encode;

use super::blocking::owned;
use super::describe::keys_of;
use super::numbers::integer;
use super::refusal::{Refusal, SYNTAX};
use super::table::Access;
use super::{Call, Keys, Known, Listed, Words, dump, find, finish, is, listed};
use crate::buffer::Output;
use crate::migration::{Ended, Errand};
use crate::notify::{Class, What};
use crate::others::Nobody;
use crate::session::{Session, Waiting};
use crate::state::Shared;

pub(super) const TABLE: &[Listed] = &[listed("MIGRATE", -6, Keys::Migrated, migrate)];

/// The longest time that is waited for one step.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The options of MIGRATE.
#[derive(Debug, Default)]
struct Options<'w> {
    copies: bool,
    replaces: bool,
    /// The words of AUTH: a password, or a user with a password.
    auth: &'w [&'w [u8]],
    keys: &'w [&'w [u8]],
}

impl<'w> Options<'w> {
    fn parse(words: Words<'w>) -> Result<Self, Refusal> {
        let mut options = Self {
            keys: &words[3..4],
            ..Self::default()
        };
        let mut rest = &words[6..];
        while let [word, others @ ..] = rest {
            rest = others;
            if is(word, "COPY") {
                options.copies = true;
            } else if is(word, "REPLACE") {
                options.replaces = true;
            } else if is(word, "AUTH") || is(word, "AUTH2") {
                let count = if is(word, "AUTH") { 1 } else { 2 };
                (options.auth, rest) = rest.split_at_checked(count).ok_or(SYNTAX)?;
            } else if is(word, "KEYS") {
                if !words[3].is_empty() {
                    return Err("ERR When using MIGRATE KEYS option, the key argument must be set to the empty string".into());
                }
                (options.keys, rest) = (rest, &[]);
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(options)
    }
}

/// The places of the passwords among the words.
pub(super) fn secrets(words: Words<'_>) -> std::ops::Range<usize> {
    let is_auth = |word: &&[u8]| is(word, "AUTH") || is(word, "AUTH2");
    let options = words.get(6..).unwrap_or_default();
    let Some(place) = options.iter().position(is_auth) else {
        return 0..0;
    };
    let count = if is(options[place], "AUTH") { 1 } else { 2 };
    6 + place + 1..6 + place + 1 + count
}

fn migrate(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let options = Options::parse(words)?;
    let timeout = integer(words[5])?;
    let database = integer(words[4])?;
    let timeout = Duration::from_millis(u64::try_from(timeout).unwrap_or(0));
    let timeout = if timeout.is_zero() {
        Duration::from_secs(1)
    } else {
        timeout
    };
    if call.session.may_not_block {
        return Err(
            "ERR MIGRATE inside a transaction or a script would hold up all clients".into(),
        );
    }
    let (keys, restores) = restores(call, &options);
    if keys.is_empty() {
        call.reply().simple("NOKEY");
        return Ok(());
    }
    let mut greeting = Vec::new();
    if !options.auth.is_empty() {
        encode::command(&mut greeting, &[&[&b"AUTH"[..]], options.auth].concat());
    }
    encode::command(&mut greeting, &[b"SELECT", database.to_string().as_bytes()]);
    let errand = Errand {
        client: call.session.id,
        host: String::from_utf8_lossy(words[1]).into_owned(),
        // As in Redis, a word that is no port is one that no server listens on.
        port: integer(words[2])
            .ok()
            .and_then(|port| port.try_into().ok())
            .unwrap_or(0),
        timeout: timeout.min(LONGEST),
        greeting,
        greetings: 1 + usize::from(!options.auth.is_empty()),
        restores,
        database: call.session.database,
        keys,
        copies: options.copies,
    };
    let held_bytes = errand.restores.len();
    let shared = &mut *call.shared;
    let started = shared.migrations.start(errand, shared.waker.clone());
    started.map_err(|error| format!("ERR MIGRATE cannot start: {error}"))?;
    call.session.waiting = Some(Waiting::ForMigration { held_bytes });
    let gauges = &call.session.peer.gauges;
    gauges.is_waiting.store(true, Ordering::Relaxed);
    Ok(())
}

/// The keys that exist, and the requests that restore them with the rest of their lives.
fn restores(call: &mut Call<'_>, options: &Options<'_>) -> (Vec<Vec<u8>>, Vec<u8>) {
    let (mut keys, mut requests) = (Vec::new(), Vec::new());
    for key in options.keys {
        let now = call.now();
        let found = call.store().peek(key, now, |found| {
            found.map(|(value, expires_at)| (dump::dumped(value), expires_at))
        });
        call.count_lookup(key, found.is_some());
        let Some((payload, expires_at)) = found else {
            continue;
        };
        // It stays with COPY, or if the migration fails, and this is a use of it, as in Redis.
        call.finds(key);
        let life = expires_at
            .map_or(0, |at| at.saturating_sub(now).max(1))
            .to_string();
        let mut words = vec![&b"RESTORE"[..], key, life.as_bytes(), &payload];
        words.extend(options.replaces.then_some(&b"REPLACE"[..]));
        encode::command(&mut requests, &words);
        keys.push(key.to_vec());
    }
    (keys, requests)
}

impl Call<'_> {
    /// Whether a command has to wait for the end of a migration: it can change a key that is on its way.
    pub(super) fn is_held(&self, known: &Known, words: Words<'_>) -> bool {
        let is_queued = self.session.queue.is_some() && known.name != "EXEC";
        if self.shared.migrations.are_none() || is_queued || !self.is_writing(known) {
            return false;
        }
        known.name == "MIGRATE" && self.shared.migrations.are_full()
            || self.shared.is_on_its_way(known, words)
    }

    /// Lets a command wait for the end of a migration.
    #[cold]
    pub(super) fn hold(&mut self, words: Words<'_>) {
        self.session.waiting = Some(Waiting::ForPause(owned(words)));
        let gauges = &self.session.peer.gauges;
        gauges.is_waiting.store(true, Ordering::Relaxed);
        self.shared.migrations.are_awaited = true;
    }
}

impl Shared {
    /// Whether a command that writes can change a key that is on its way to another server.
    pub(super) fn is_on_its_way(&self, known: &Known, words: Words<'_>) -> bool {
        if self.migrations.are_none() || known.access == Access::None && known.name != "EXEC" {
            return false;
        }
        // A script can change keys that it does not name.
        let keys = keys_of(words).ok().filter(|_| !known.runs_script());
        keys.is_none_or(|keys| keys.iter().any(|key| self.migrations.has(key)))
    }

    /// Removes the keys that another server has now, and lets the commands go on that have waited for that.
    pub(crate) fn end_migration(&mut self, ended: &Ended) {
        if self.notifies() {
            self.notify_gone();
        }
        for key in &ended.moved {
            if self.databases[ended.database].remove(key, self.now) {
                self.touched(ended.database, key);
            }
        }
        for noted in self.watched.take_noted() {
            if noted.what == What::Changed {
                self.notify(Class::GENERIC, "del", noted.database, &noted.key);
            }
        }
        self.has_postponed |= std::mem::take(&mut self.migrations.are_awaited);
        for (database, key) in std::mem::take(&mut self.migrations.unserved) {
            self.watched.note_ready(database, &key);
        }
    }
}

/// Replies to the client of a migration that has ended. `noted` changes were noted for the log before its end.
pub(crate) fn reply_migrated(
    session: &mut Session,
    shared: &mut Shared,
    out: &mut Output,
    noted: u64,
    refusal: Option<String>,
) {
    if session
        .waiting
        .take_if(|waiting| matches!(waiting, Waiting::ForMigration { .. }))
        .is_none()
    {
        return;
    }
    let begin = out.len();
    session.has_seen_data = true;
    session
        .peer
        .gauges
        .is_waiting
        .store(false, Ordering::Relaxed);
    let mut call = Call {
        session,
        shared,
        out,
        changed: None,
        others: &Nobody,
    };
    match refusal {
        None => call.reply().ok(),
        Some(text) => {
            let known = find(b"MIGRATE").expect("it is in the table");
            call.shared.stats.calls[known.place].failed += 1;
            call.refuse(&text.into());
        }
    }
    finish(begin, noted, session, shared, out);
}

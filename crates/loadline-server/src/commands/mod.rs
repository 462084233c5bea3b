//! The commands: one file per family. This one lists them and dispatches.

mod bits;
mod client;
mod config;
mod connection;
mod describe;
mod dump;
mod expiry;
mod functions;
mod glob;
mod hashes;
mod help;
mod info;
mod keys;
mod lcs;
mod lists;
#[cfg(test)]
mod model;
mod numbers;
mod pause;
mod refusal;
mod reply;
mod scan;
mod server;
mod sets;
mod sort;
mod strings;
mod transactions;

use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use loadline_resp::{Protocol, Request};
use loadline_store::{Change, Entry, Keyspace, Value, View};

use crate::buffer::Output;
use crate::listen::Slowdown;
use crate::state::{Replies, Session, Shared};
pub(crate) use pause::resume;
use refusal::Refusal;
use reply::Reply;

/// The words of a command, its name first.
type Words<'w> = &'w [&'w [u8]];

/// The function of a command, which writes the reply or returns an error.
type Handler = fn(&mut Call<'_>, Words<'_>) -> Result<(), Refusal>;

/// One command of the table.
#[derive(Debug)]
struct Known {
    name: &'static str,
    /// Number of words including the name; negative for a minimum.
    arity: i32,
    access: Access,
    keys: Keys,
    /// Subcommands, if the second word selects one; HELP is always included.
    subcommands: &'static [Sub],
    handler: Handler,
}

impl Known {
    const fn with(self, subcommands: &'static [Sub]) -> Self {
        Self {
            subcommands,
            ..self
        }
    }
}

/// A subcommand.
#[derive(Debug)]
struct Sub {
    name: &'static str,
    /// Number of words; negative for a minimum.
    arity: i32,
    /// A line with its arguments, followed by its description.
    help: &'static str,
}

const fn sub(name: &'static str, arity: i32, help: &'static str) -> Sub {
    Sub { name, arity, help }
}

/// The access of a command to keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    /// No keys.
    None,
}

/// The positions of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    None,
    /// From the first index to the last one (counted from the end if negative), with a step.
    At(i32, i32, i32),
    /// A count at this index, followed by the keys.
    Counted(usize),
}

const ONE: Keys = Keys::At(1, 1, 1);
const TWO: Keys = Keys::At(1, 2, 1);
const ALL: Keys = Keys::At(1, -1, 1);
const PAIRS: Keys = Keys::At(1, -1, 2);

const fn read(name: &'static str, arity: i32, keys: Keys, handler: Handler) -> Known {
    Known {
        name,
        arity,
        access: Access::Read,
        keys,
        subcommands: &[],
        handler,
    }
}

const fn write(name: &'static str, arity: i32, keys: Keys, handler: Handler) -> Known {
    Known {
        name,
        arity,
        access: Access::Write,
        keys,
        subcommands: &[],
        handler,
    }
}

const fn other(name: &'static str, arity: i32, handler: Handler) -> Known {
    Known {
        name,
        arity,
        access: Access::None,
        keys: Keys::None,
        subcommands: &[],
        handler,
    }
}

/// The tables of all families, with their group names in the Redis documentation.
const FAMILIES: [(&str, &[Known]); 15] = [
    ("string", strings::TABLE),
    ("generic", keys::TABLE),
    ("generic", expiry::TABLE),
    ("generic", dump::TABLE),
    ("set", sets::TABLE),
    ("hash", hashes::TABLE),
    ("list", lists::TABLE),
    ("bitmap", bits::TABLE),
    ("generic", sort::TABLE),
    ("scripting", functions::TABLE),
    ("connection", connection::TABLE),
    ("connection", client::TABLE),
    ("server", server::TABLE),
    ("server", describe::TABLE),
    ("transactions", transactions::TABLE),
];

fn all() -> impl Iterator<Item = &'static Known> {
    FAMILIES.into_iter().flat_map(|(_, table)| table)
}

/// The name of a command with its subcommand, if any.
fn full_name(command: usize, subcommand: usize) -> String {
    let Some(known) = all().nth(command) else {
        return "NULL".to_owned();
    };
    let sub = subcommand
        .checked_sub(1)
        .and_then(|at| known.subcommands.get(at));
    let name = match sub {
        Some(sub) => format!("{}|{}", known.name, sub.name),
        None => known.name.to_owned(),
    };
    name.to_ascii_lowercase()
}

/// Writing commands that are allowed when memory is full, because they add no data.
const NEVER_GROWING: [&str; 21] = [
    "DEL",
    "UNLINK",
    "RENAME",
    "RENAMENX",
    "MOVE",
    "GETDEL",
    "GETEX",
    "EXPIRE",
    "PEXPIRE",
    "EXPIREAT",
    "PEXPIREAT",
    "PERSIST",
    "SREM",
    "SPOP",
    "SMOVE",
    "HDEL",
    "LPOP",
    "RPOP",
    "FLUSHDB",
    "FLUSHALL",
    "SWAPDB",
];

impl Known {
    /// Whether `word` names one of its subcommands.
    fn has_subcommand(&self, word: &[u8]) -> bool {
        is(word, "HELP") || self.subcommands.iter().any(|sub| is(word, sub.name))
    }

    /// Whether it can add data.
    fn grows(&self) -> bool {
        self.access == Access::Write && !NEVER_GROWING.contains(&self.name)
    }
}

/// The names of all commands, in the order of their statistics.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|known| known.name)
}

/// A command and its index in the statistics.
#[derive(Debug, Clone, Copy)]
struct Found {
    index: usize,
    known: &'static Known,
}

/// The length of the longest name; every name fits into one number.
const LONGEST_NAME: usize = 16;

fn find(name: &[u8]) -> Option<Found> {
    static BY_NAME: LazyLock<HashMap<u128, Found>> = LazyLock::new(|| {
        all()
            .enumerate()
            .filter_map(|(index, known)| {
                Some((number(known.name.as_bytes())?, Found { index, known }))
            })
            .collect()
    });
    BY_NAME.get(&number(name)?).copied()
}

/// An upper-case name as a number, for hashing and comparison in one step. Zero bytes are not letters, so
/// padding is unambiguous.
fn number(name: &[u8]) -> Option<u128> {
    let mut capitals = [0; LONGEST_NAME];
    capitals.get_mut(..name.len())?.copy_from_slice(name);
    capitals.make_ascii_uppercase();
    (!name.ends_with(&[0])).then(|| u128::from_le_bytes(capitals))
}

/// Executes a request and writes the reply to `out`.
pub(crate) fn execute(
    request: &Request<'_>,
    session: &mut Session,
    shared: &mut Shared,
    out: &mut Output,
) {
    // Most commands have few words, which need no allocation.
    let mut few: [&[u8]; 8] = [&[]; 8];
    let many: Vec<&[u8]>;
    let words = if request.len() <= few.len() {
        for (place, word) in few.iter_mut().zip(request.iter()) {
            *place = word;
        }
        &few[..request.len()]
    } else {
        many = request.iter().collect();
        &many
    };
    execute_words(words, session, shared, out);
}

fn execute_words(words: Words<'_>, session: &mut Session, shared: &mut Shared, out: &mut Output) {
    if let Some(slowdown) = &shared.slowdown {
        slow_down(slowdown);
    }
    let begin = out.len();
    Call {
        session,
        shared,
        out,
    }
    .execute(words);
    if session.postponed.is_some() {
        return;
    }
    if session.replies != Replies::On {
        if session.replies.are_dropped() {
            out.truncate(begin);
        }
        session.replies = session.replies.after_command();
    }
}

/// Applies the slowdown of a command. A separate function in every build, so that a profiler can name it and
/// commands without it pay only for the call.
#[inline(never)]
fn slow_down(slowdown: &Slowdown) {
    for round in 0..slowdown.work {
        std::hint::black_box(round);
    }
    if !slowdown.burn.is_zero() {
        burn(slowdown.burn);
    }
}

/// Keeps the CPU busy for `time`.
#[cold]
#[inline(never)]
fn burn(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// The state that a command can access.
struct Call<'c> {
    session: &'c mut Session,
    shared: &'c mut Shared,
    out: &'c mut Output,
}

/// The effect of a change on a collection.
enum Effect<R> {
    Changed(R),
    Same(R),
}

impl<R> Effect<R> {
    /// A change if `changed`.
    fn of(changed: bool, result: R) -> Self {
        if changed {
            Self::Changed(result)
        } else {
            Self::Same(result)
        }
    }
}

impl Call<'_> {
    fn execute(&mut self, words: Words<'_>) {
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
    fn refuse_http(&mut self) {
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
    fn admit(&mut self, words: Words<'_>) -> Result<Found, Refusal> {
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
    fn is_growing(&self, known: &Known) -> bool {
        match &self.session.queue {
            Some(queue) if known.name == "EXEC" => queue.grows,
            Some(_) => known.grows() || !transactions::runs_at_once(known.name),
            None => known.grows(),
        }
    }

    /// Runs a command and counts it. The first calls and then one in a few are timed, because reading the
    /// clock takes a large part of a short command's time.
    fn perform(&mut self, found: Found, words: Words<'_>) {
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

    fn handle(&mut self, known: &Known, words: Words<'_>) -> Result<(), Refusal> {
        match words {
            [_, second] if !known.subcommands.is_empty() && is(second, "HELP") => {
                help::help(self, known)
            }
            _ => (known.handler)(self, words),
        }
    }

    fn queue(&mut self, known: &Known, words: Words<'_>) {
        if let Some(queue) = &mut self.session.queue {
            queue.grows |= known.grows();
            queue.writes |= known.access == Access::Write;
            queue.push(words);
        }
        self.reply().simple("QUEUED");
    }

    fn refuse(&mut self, Refusal(text): &Refusal) {
        self.shared.stats.count_error(text);
        loadline_resp::encode::error(self.out, text);
    }

    fn store(&self) -> &Keyspace {
        &self.shared.databases[self.session.database]
    }

    fn now(&self) -> u64 {
        self.shared.now
    }

    fn protocol(&self) -> Protocol {
        self.session.protocol
    }

    fn reply(&mut self) -> Reply<'_> {
        Reply {
            out: self.out,
            protocol: self.session.protocol,
        }
    }

    /// Passes the value at `key` to a closure without a copy, and counts the look-up.
    #[inline]
    fn show<R>(
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
    fn show_again<R>(
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
    fn has(&self, key: &[u8]) -> bool {
        self.store().view(key, self.now(), |value| value.is_some())
    }

    /// Records the change of `key` for connections that watch it.
    #[inline]
    fn touched(&mut self, key: &[u8]) {
        self.shared.watched.touch(self.session.database, key);
    }

    /// Removes `key` and returns whether it existed.
    fn remove(&mut self, key: &[u8]) -> bool {
        let was_there = self.store().remove(key, self.now());
        if was_there {
            self.touched(key);
        }
        was_there
    }

    /// Stores a string at `key`, replacing any value.
    fn put_string(&mut self, key: &[u8], bytes: &[u8], expires_at: Option<u64>) {
        self.store()
            .put_string(key, bytes, self.now(), |_| Some(expires_at));
        self.touched(key);
    }

    /// Gives a string the encoding for changes in place; creates an empty one if there is no key.
    fn make_growing(&mut self, key: &[u8]) {
        if !self.has(key) {
            self.store()
                .put_string(key, b"", self.now(), |_| Some(None));
        }
        self.store().make_growing(key, self.now());
    }

    /// Stores `entry` at `key`.
    fn put(&mut self, key: &[u8], entry: Entry) {
        self.store()
            .modify(key, self.now(), |_| ((), Change::Put(entry)));
        self.touched(key);
    }

    /// Changes the value at `key` in place; a missing value is created first. Removes a key whose collection
    /// is empty afterwards, and does not keep a new value that was not changed.
    fn change<R>(
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

/// The index of the subcommand, counted from 1; 0 without one.
fn subcommand(known: &Known, words: Words<'_>) -> usize {
    match words {
        [_, second, ..] if !known.subcommands.is_empty() => {
            let mut subs = known.subcommands.iter();
            subs.position(|sub| is(second, sub.name))
                .map_or(0, |at| at + 1)
        }
        _ => 0,
    }
}

/// Whether this number of words fits `arity`.
fn fits(arity: i32, words: usize) -> bool {
    let asked = arity.unsigned_abs() as usize;
    if arity < 0 {
        words >= asked
    } else {
        words == asked
    }
}

/// Whether a word is this keyword, in any case.
fn is(word: &[u8], keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case() {
        for known in all() {
            let found = find(known.name.to_ascii_lowercase().as_bytes());
            assert!(found.is_some_and(|found| found.known.name == known.name));
        }
        for name in [&b"GETT"[..], b"", b"GET\0", b"A-NAME-LONGER-THAN-ANY"] {
            assert!(find(name).is_none());
        }
    }

    #[test]
    fn every_command_stands_once_in_the_table() {
        let mut names: Vec<&str> = names().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|name| *name == name.to_ascii_uppercase()));
    }
}

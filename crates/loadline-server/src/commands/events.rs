//! Events of commands for keyspace notifications: which ones, in which order, as Redis publishes them.

use super::describe::keys_of;
use super::refusal::{Refusal, lower};
use super::table::{Access, Known};
use super::{Call, Words, is};
use crate::notify::{Class, Noted, What};
use crate::state::OWN_DATABASE;

/// The events of a key that a command has changed.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// This event, and `del` behind it if the key is gone.
    Changed(Class, &'static str),
    /// This event, or `del` if the key is gone.
    Replaced(Class, &'static str),
    /// As [`Replaced`](Self::Replaced), with the name of the command as the event.
    Stored(Class),
    /// As [`Changed`](Self::Changed), with the name of the command as the event.
    Named(Class),
    /// Depends on the arguments.
    Other,
}

fn rule(name: &str) -> Rule {
    use Rule::{Changed, Named, Other, Replaced, Stored};
    match name {
        "SETNX" | "GETSET" | "MSET" | "MSETNX" => Changed(Class::STRING, "set"),
        "BITOP" => Replaced(Class::STRING, "set"),
        "INCR" | "DECR" | "INCRBY" | "DECRBY" => Changed(Class::STRING, "incrby"),
        "INCRBYFLOAT" | "APPEND" | "SETRANGE" | "PFADD" => Named(Class::STRING),
        "PFMERGE" => Changed(Class::STRING, "pfadd"),
        "SETBIT" | "BITFIELD" => Changed(Class::STRING, "setbit"),
        "DEL" | "UNLINK" | "GETDEL" => Replaced(Class::GENERIC, "del"),
        "EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT" => Replaced(Class::GENERIC, "expire"),
        "PERSIST" => Named(Class::GENERIC),
        "RESTORE" => Replaced(Class::GENERIC, "restore"),
        "COPY" => Changed(Class::GENERIC, "copy_to"),
        "SORT" => Replaced(Class::LIST, "sortstore"),
        "LPUSH" | "LPUSHX" => Changed(Class::LIST, "lpush"),
        "RPUSH" | "RPUSHX" => Changed(Class::LIST, "rpush"),
        "BLPOP" => Changed(Class::LIST, "lpop"),
        "BRPOP" => Changed(Class::LIST, "rpop"),
        "LPOP" | "RPOP" | "LINSERT" | "LSET" | "LTRIM" | "LREM" => Named(Class::LIST),
        "SADD" | "SREM" | "SPOP" => Named(Class::SET),
        "SINTERSTORE" | "SUNIONSTORE" | "SDIFFSTORE" => Stored(Class::SET),
        "HSET" | "HMSET" | "HSETNX" => Changed(Class::HASH, "hset"),
        "HINCRBY" | "HINCRBYFLOAT" | "HDEL" => Named(Class::HASH),
        "ZINCRBY" => Changed(Class::SORTED_SET, "zincr"),
        "GEOADD" => Changed(Class::SORTED_SET, "zadd"),
        "GEORADIUS" | "GEORADIUSBYMEMBER" => Replaced(Class::SORTED_SET, "georadiusstore"),
        "ZREM" | "ZPOPMIN" | "ZPOPMAX" | "ZREMRANGEBYRANK" | "ZREMRANGEBYSCORE"
        | "ZREMRANGEBYLEX" => Named(Class::SORTED_SET),
        "BZPOPMIN" => Changed(Class::SORTED_SET, "zpopmin"),
        "BZPOPMAX" => Changed(Class::SORTED_SET, "zpopmax"),
        "ZUNIONSTORE" | "ZINTERSTORE" | "ZDIFFSTORE" | "ZRANGESTORE" | "GEOSEARCHSTORE" => {
            Stored(Class::SORTED_SET)
        }
        _ => Other,
    }
}

impl Call<'_> {
    /// Runs the function of a command and publishes its events.
    #[cold]
    pub(super) fn handle_with_events(
        &mut self,
        known: &Known,
        words: Words<'_>,
    ) -> Result<(), Refusal> {
        let class = self.shared.settings.notified;
        let needs_missing = class.has(Class::NEW) || class.has(Class::MISS);
        let missing = if needs_missing && known.access == Access::Write {
            self.missing_keys(words)
        } else {
            Vec::new()
        };
        let outcome = (known.handler)(self, words);
        self.publish_events(known.name, words, &missing);
        outcome
    }

    /// The keys of a command that do not exist.
    fn missing_keys(&self, words: Words<'_>) -> Vec<(usize, Vec<u8>)> {
        let keys = keys_of(words).unwrap_or_default();
        let missing = keys.into_iter().filter(|key| !self.has(key));
        missing
            .map(|key| (self.session.database, key.to_vec()))
            .collect()
    }

    /// Publishes what was noted while a command ran. `missing` are keys that did not exist before.
    fn publish_events(&mut self, name: &str, words: Words<'_>, missing: &[(usize, Vec<u8>)]) {
        let noted = self.shared.watched.take_noted();
        for database in 0..OWN_DATABASE {
            self.shared.note_expired_in(database);
        }
        // These look a key up for reading, which is not counted here.
        let reads_old =
            name == "GETSET" || name == "SET" && words[3..].iter().any(|word| is(word, "GET"));
        if reads_old && let [(database, key)] = missing {
            let shared = &mut *self.shared;
            shared.notify(Class::MISS, "keymiss", *database, key);
        }
        if ["LMOVE", "BLMOVE", "RPOPLPUSH", "BRPOPLPUSH"].contains(&name) {
            return self.publish_move(words, &noted, missing);
        }
        // A change of a key can be noted more than once.
        let is_repeated = name == "MSET" || name == "MSETNX";
        let moves = ["RENAME", "RENAMENX", "MOVE"].contains(&name);
        if moves {
            for one in &noted {
                self.publish_new(name, words, one, missing);
            }
        }
        for (place, one) in noted.iter().enumerate() {
            if one.what != What::Changed {
                self.publish_noted(name, words, one);
                continue;
            }
            let is_first = !noted[..place].contains(one);
            if is_first && !moves {
                self.publish_new(name, words, one, missing);
            }
            if is_first || is_repeated {
                self.publish_change(name, words, one.database, &one.key);
            }
        }
    }

    /// Publishes an event that is no change of a key.
    fn publish_noted(&mut self, name: &str, words: Words<'_>, noted: &Noted) {
        let changes_stream = ["XADD", "XGROUP", "XDEL", "XTRIM"].contains(&name);
        let event;
        let (class, text) = match noted.what {
            // Redis looks streams up for writing where they are changed.
            What::Missed if changes_stream => return,
            What::Missed => (Class::MISS, "keymiss"),
            What::Evicted => (Class::EVICTED, "evicted"),
            What::Of(Class::STREAM, "xgroup-") if name == "XGROUP" => {
                event = format!("xgroup-{}", lower(words[1]));
                (Class::STREAM, event.as_str())
            }
            What::Of(Class::STREAM, "xgroup-") | What::Changed => return,
            What::Of(class, text) => (class, text),
        };
        self.shared.notify(class, text, noted.database, &noted.key);
    }

    /// Publishes that a changed key is new, if it is. That comes before its other events, and before all events of a command
    /// that moves a value.
    fn publish_new(
        &mut self,
        name: &str,
        words: Words<'_>,
        Noted {
            database,
            key,
            what,
        }: &Noted,
        missing: &[(usize, Vec<u8>)],
    ) {
        let is_new = match name {
            // What was there is deleted before.
            "RENAME" | "RENAMENX" => words.get(2).is_some_and(|to| to == key),
            "MOVE" => *database != self.session.database,
            "COPY" | "RESTORE" => true,
            _ => missing
                .iter()
                .any(|(index, other)| (index, other) == (database, key)),
        };
        if is_new && *what == What::Changed && self.is_there(*database, key) {
            self.shared.notify(Class::NEW, "new", *database, key);
        }
    }

    fn is_there(&self, database: usize, key: &[u8]) -> bool {
        let store = &self.shared.databases[database];
        store.inspect(key, self.now(), |value| value.is_some())
    }

    fn publish_change(&mut self, name: &str, words: Words<'_>, database: usize, key: &[u8]) {
        let is_there = self.is_there(database, key);
        let command = name.to_ascii_lowercase();
        let (class, event, replaced) = match rule(name) {
            Rule::Changed(class, event) => (class, event, false),
            Rule::Named(class) => (class, command.as_str(), false),
            Rule::Replaced(class, event) => (class, event, true),
            Rule::Stored(class) => (class, command.as_str(), true),
            Rule::Other => {
                let Some((class, event)) = self.other_event(name, words, database, key) else {
                    return;
                };
                (class, event, false)
            }
        };
        if is_there || !replaced {
            self.shared.notify(class, event, database, key);
        }
        let is_renamed = class == Class::GENERIC && !replaced;
        if !is_there && !is_renamed {
            self.shared.notify(Class::GENERIC, "del", database, key);
        }
        let sets_expiry = match name {
            "SET" => has_expiry(&words[3..]),
            "SETEX" | "PSETEX" => true,
            _ => false,
        };
        if is_there && sets_expiry {
            self.shared.notify(Class::GENERIC, "expire", database, key);
        }
    }

    /// The event of a command whose arguments decide on it.
    fn other_event(
        &self,
        name: &str,
        words: Words<'_>,
        database: usize,
        key: &[u8],
    ) -> Option<(Class, &'static str)> {
        let is_first = words.get(1).is_some_and(|word| *word == key);
        Some(match name {
            "SET" | "SETEX" | "PSETEX" => (Class::STRING, "set"),
            "GETEX" if words[2..].iter().any(|word| is(word, "PERSIST")) => {
                (Class::GENERIC, "persist")
            }
            "GETEX" if self.is_there(database, key) => (Class::GENERIC, "expire"),
            "GETEX" => (Class::GENERIC, "del"),
            "RENAME" | "RENAMENX" if is_first => (Class::GENERIC, "rename_from"),
            "RENAME" | "RENAMENX" => (Class::GENERIC, "rename_to"),
            "MOVE" if database == self.session.database => (Class::GENERIC, "move_from"),
            "MOVE" => (Class::GENERIC, "move_to"),
            "SMOVE" if is_first => (Class::SET, "srem"),
            "SMOVE" => (Class::SET, "sadd"),
            "LMPOP" | "BLMPOP" if last_of(words, "LEFT", "RIGHT") => (Class::LIST, "lpop"),
            "LMPOP" | "BLMPOP" => (Class::LIST, "rpop"),
            "ZMPOP" | "BZMPOP" if last_of(words, "MIN", "MAX") => (Class::SORTED_SET, "zpopmin"),
            "ZMPOP" | "BZMPOP" => (Class::SORTED_SET, "zpopmax"),
            "ZADD" if increments(&words[2..]) => (Class::SORTED_SET, "zincr"),
            "ZADD" => (Class::SORTED_SET, "zadd"),
            _ => return None,
        })
    }

    /// The events of an item that moves: it is added before it is removed.
    fn publish_move(&mut self, words: Words<'_>, noted: &[Noted], fresh: &[(usize, Vec<u8>)]) {
        let database = self.session.database;
        let is_missed = |noted: &&Noted| noted.what == What::Missed && noted.key == words[1];
        let missed = noted.iter().filter(is_missed);
        for noted in missed {
            let shared = &mut *self.shared;
            shared.notify(Class::MISS, "keymiss", database, &noted.key);
        }
        if !noted.iter().any(|noted| noted.what == What::Changed) {
            return;
        }
        let has_ends = is(words[0], "LMOVE") || is(words[0], "BLMOVE");
        let is_left = |place: usize| has_ends && is(words[place], "LEFT");
        let pop = if is_left(3) { "lpop" } else { "rpop" };
        let push = if has_ends && !is_left(4) {
            "rpush"
        } else {
            "lpush"
        };
        let (from, to) = (words[1], words[2]);
        if fresh.iter().any(|(_, key)| key == to) {
            self.shared.notify(Class::NEW, "new", database, to);
        }
        self.shared.notify(Class::LIST, push, database, to);
        self.shared.notify(Class::LIST, pop, database, from);
        if !self.is_there(database, from) {
            self.shared.notify(Class::GENERIC, "del", database, from);
        }
    }
}

/// Whether options of SET set an expiry.
fn has_expiry(options: &[&[u8]]) -> bool {
    let names = ["EX", "PX", "EXAT", "PXAT"];
    let is_one = |word: &&[u8]| names.iter().any(|name| is(word, name));
    options.iter().any(is_one)
}

/// Whether the last word that is one of these two is the first of them.
fn last_of(words: Words<'_>, one: &str, other: &str) -> bool {
    let mut words = words.iter().rev();
    words
        .find(|word| is(word, one) || is(word, other))
        .is_some_and(|word| is(word, one))
}

/// Whether INCR is among the options in front of the scores of ZADD.
fn increments(words: &[&[u8]]) -> bool {
    let names = ["NX", "XX", "GT", "LT", "CH", "INCR"];
    let options = words
        .iter()
        .take_while(|word| names.iter().any(|name| is(word, name)));
    options.into_iter().any(|word| is(word, "INCR"))
}

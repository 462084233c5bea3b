//! Random commands compared with a plain map and its own clock, and random words that must not make a command
//! panic.

use std::collections::{BTreeMap, BTreeSet};

use loadline_resp::{Limits, Skipper};
use proptest::prelude::*;

use super::{all, execute, places, release};
use crate::buffer::Output;
use crate::others::Nobody;
use crate::peer::Origin;
use crate::session::{Session, Waiting};
use crate::state::Shared;
use crate::waiting::Release;

/// A server without sockets, with one session.
pub(super) struct Rig {
    pub(super) shared: Shared,
    session: Session,
}

impl Rig {
    pub(super) fn new() -> Self {
        let mut shared = Shared::new(None, 1, 0, places().len());
        shared.now = 1_000_000;
        let session = shared.session(Origin::default());
        Self { shared, session }
    }

    pub(super) fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> Vec<u8> {
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        let mut out = Output::new(usize::MAX);
        execute(
            &words,
            &mut self.session,
            &mut self.shared,
            &mut out,
            &Nobody,
        );
        if let Some(Waiting::ForKeys { .. }) = self.session.waiting {
            self.shared.watched.end_wait(self.session.id);
            let how = Release::TimedOut;
            release(&mut self.session, &mut self.shared, &mut out, how);
        }
        out.as_slice().to_vec()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Held {
    String(String),
    Set(BTreeSet<String>),
    Hash(BTreeMap<String, String>),
}

#[derive(Debug)]
struct Model {
    entries: BTreeMap<String, (Held, Option<u64>)>,
    now: u64,
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

fn number(number: usize) -> String {
    format!(":{number}\r\n")
}

fn bulks<'w>(words: impl IntoIterator<Item = &'w String>) -> String {
    let bulks: Vec<String> = words
        .into_iter()
        .map(|word| format!("${}\r\n{word}\r\n", word.len()))
        .collect();
    format!("*{}\r\n{}", bulks.len(), bulks.concat())
}

impl Model {
    /// Executes the command on the model and returns the expected reply.
    fn ask(&mut self, words: &[String]) -> String {
        let now = self.now;
        let is_there = |_: &String, (_, until): &mut (Held, Option<u64>)| {
            until.is_none_or(|until| until > now)
        };
        self.entries.retain(is_there);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[0] {
            "SADD" | "SREM" | "SMEMBERS" | "SUNIONSTORE" => self.ask_set(&words),
            "HSET" | "HDEL" | "HGETALL" => self.ask_hash(&words),
            "SET" | "GET" | "APPEND" => self.ask_string(&words),
            _ => self.ask_key(&words),
        }
    }

    fn ask_string(&mut self, words: &[&str]) -> String {
        let key = words[1].to_owned();
        let current = self.entries.get_mut(&key);
        match (words[0], &words[2..], current) {
            ("SET", [_, "NX"], Some(_)) | ("GET", [], None) => return "$-1\r\n".into(),
            ("GET", [], Some((Held::String(text), _))) => {
                return format!("${}\r\n{text}\r\n", text.len());
            }
            ("APPEND", [tail], Some((Held::String(text), _))) => {
                text.push_str(tail);
                return number(text.len());
            }
            ("GET" | "APPEND", _, Some(_)) => return WRONG_TYPE.into(),
            _ => {}
        }
        let until = match &words[3..] {
            ["PX", life] => Some(self.now + life.parse::<u64>().unwrap()),
            ["KEEPTTL"] => self.entries.get(&key).and_then(|(_, until)| *until),
            _ => None,
        };
        let held = Held::String(words[2].to_owned());
        self.entries.insert(key, (held, until));
        if words[0] == "SET" {
            "+OK\r\n".into()
        } else {
            number(words[2].len())
        }
    }

    /// The set at a key, empty if there is no key; `None` for another kind.
    fn set(&self, key: &str) -> Option<BTreeSet<String>> {
        match self.entries.get(key) {
            None => Some(BTreeSet::new()),
            Some((Held::Set(members), _)) => Some(members.clone()),
            Some(_) => None,
        }
    }

    fn ask_set(&mut self, words: &[&str]) -> String {
        if let ["SUNIONSTORE", target, one, other] = words {
            let (Some(mut union), Some(other)) = (self.set(one), self.set(other)) else {
                return WRONG_TYPE.into();
            };
            union.extend(other);
            let size = union.len();
            self.entries.remove(*target);
            self.put(target, Held::Set(union), size);
            return number(size);
        }
        let Some(mut members) = self.set(words[1]) else {
            return WRONG_TYPE.into();
        };
        let done = match (words[0], words.get(2)) {
            ("SADD", Some(member)) => members.insert((*member).to_owned()),
            ("SREM", Some(member)) => members.remove(*member),
            _ => return bulks(&members),
        };
        let size = members.len();
        self.put(words[1], Held::Set(members), size);
        number(usize::from(done))
    }

    fn ask_hash(&mut self, words: &[&str]) -> String {
        let mut fields = match self.entries.get(words[1]) {
            None => BTreeMap::new(),
            Some((Held::Hash(fields), _)) => fields.clone(),
            Some(_) => return WRONG_TYPE.into(),
        };
        let done = match (words[0], &words[2..]) {
            ("HSET", [field, value]) => fields
                .insert((*field).to_owned(), (*value).to_owned())
                .is_none(),
            ("HDEL", [field]) => fields.remove(*field).is_some(),
            _ => return bulks(fields.iter().flat_map(|(field, value)| [field, value])),
        };
        let size = fields.len();
        self.put(words[1], Held::Hash(fields), size);
        number(usize::from(done))
    }

    /// Stores a collection of this size, with the existing expiry.
    fn put(&mut self, key: &str, held: Held, size: usize) {
        let until = self.entries.remove(key).and_then(|(_, until)| until);
        if size > 0 {
            self.entries.insert(key.to_owned(), (held, until));
        }
    }

    fn ask_key(&mut self, words: &[&str]) -> String {
        let now = self.now;
        let key = words[1];
        match (words[0], self.entries.get_mut(key)) {
            ("DEL", current) => {
                let was_there = current.is_some();
                self.entries.remove(key);
                number(usize::from(was_there))
            }
            ("EXISTS", current) => number(usize::from(current.is_some())),
            ("PTTL", None) => ":-2\r\n".into(),
            ("PTTL", Some((_, None))) => ":-1\r\n".into(),
            ("PTTL", Some((_, Some(until)))) => number((*until - now) as usize),
            ("PEXPIRE", Some((_, until))) => {
                *until = Some(now + words[2].parse::<u64>().unwrap());
                number(1)
            }
            ("PERSIST", Some((_, until))) => number(usize::from(until.take().is_some())),
            ("RENAME", None) => "-ERR no such key\r\n".into(),
            ("RENAME" | "COPY", Some(entry)) => {
                let entry = entry.clone();
                if words[0] == "COPY" && key == words[2] {
                    return "-ERR source and destination objects are the same\r\n".into();
                }
                if words[0] == "RENAME" {
                    self.entries.remove(key);
                }
                self.entries.insert(words[2].to_owned(), entry);
                if words[0] == "RENAME" {
                    "+OK\r\n".into()
                } else {
                    number(1)
                }
            }
            ("COPY", None) if key == words[2] => {
                "-ERR source and destination objects are the same\r\n".into()
            }
            _ => number(0),
        }
    }
}

/// A command or a step of the clock.
#[derive(Debug, Clone)]
enum Step {
    Ask(Vec<String>),
    Pass(u64),
}

const COMMANDS: [&str; 20] = [
    "SET k w",
    "SET k w PX t",
    "SET k w KEEPTTL",
    "SET k w NX",
    "GET k",
    "APPEND k w",
    "SADD k w",
    "SREM k w",
    "SMEMBERS k",
    "SUNIONSTORE k k k",
    "HSET k w w",
    "HDEL k w",
    "HGETALL k",
    "DEL k",
    "EXISTS k",
    "PTTL k",
    "PEXPIRE k t",
    "PERSIST k",
    "RENAME k k",
    "COPY k k REPLACE",
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let choices = proptest::collection::vec(any::<prop::sample::Index>(), 4);
    let ask = (prop::sample::select(&COMMANDS[..]), choices).prop_map(|(template, choices)| {
        let words = template.split(' ').zip(choices.iter().cycle());
        let word = |(word, choice): (&str, &prop::sample::Index)| match word {
            "k" => ["a", "b", "c"][choice.index(3)].to_owned(),
            "w" => ["", "x", "y", "a longer word"][choice.index(4)].to_owned(),
            "t" => (1 + choice.index(40)).to_string(),
            word => word.to_owned(),
        };
        Step::Ask(words.map(word).collect())
    });
    let step = prop_oneof![5 => ask, 1 => (1..30_u64).prop_map(Step::Pass)];
    proptest::collection::vec(step, 1..200)
}

/// The lines of a reply, sorted if they are elements without an order.
fn lines(words: &[String], reply: &str) -> Vec<String> {
    let mut lines: Vec<String> = reply.split("\r\n").map(str::to_owned).collect();
    if ["SMEMBERS", "HGETALL"].contains(&words[0].as_str()) {
        lines.sort();
    }
    lines
}

proptest! {
    #[test]
    fn commands_do_to_the_store_what_they_do_to_a_map(steps in steps()) {
        let mut rig = Rig::new();
        let mut model = Model { entries: BTreeMap::new(), now: rig.shared.now };
        for step in &steps {
            match step {
                Step::Pass(time) => {
                    rig.shared.now += time;
                    model.now += time;
                }
                Step::Ask(words) => {
                    let reply = String::from_utf8(rig.ask(words)).unwrap();
                    let wanted = model.ask(words);
                    prop_assert_eq!(lines(words, &reply), lines(words, &wanted), "{:?}", words);
                }
            }
        }
    }

    #[test]
    fn any_words_get_one_reply(
        commands in proptest::collection::vec(
            (any::<prop::sample::Index>(), proptest::collection::vec(
                prop_oneof![
                    "[abc]", "-?[0-9]{1,19}", "[ -~]{0,12}",
                    prop::sample::select(vec![
                        "EX", "PX", "NX", "GET", "MATCH", "COUNT", "LIMIT", "WITHVALUES", "KILL",
                        "LIST", "ID", "SETNAME", "REPLACE", "DB", "USAGE", "ENCODING", "GETKEYS",
                        "INFO", "DOCS", "RESETSTAT", "SET", "everything",
                    ]).prop_map(str::to_owned),
                ].prop_map(String::into_bytes)
                .boxed()
                .prop_union(proptest::collection::vec(any::<u8>(), 0..8).boxed()),
                0..7,
            )),
            1..60,
        )
    ) {
        let names: Vec<&str> = all().iter().map(|known| known.name).collect();
        let mut rig = Rig::new();
        for (name, arguments) in commands {
            let mut words = vec![name.get(&names).as_bytes().to_vec()];
            words.extend(arguments);
            let reply = rig.ask(&words);
            if name.get(&names).ends_with("SUBSCRIBE") {
                // It can have several replies, and restricts the commands that follow.
                rig.ask(&["RESET"]);
                continue;
            }
            let mut replies = 0;
            let mut skipper = Skipper::new(Limits::default());
            skipper.feed(&reply, |_| replies += 1).unwrap();
            prop_assert!(skipper.is_between_replies());
            // These commands can have no reply.
            let is_silent = words[0] == b"SHUTDOWN" || words[0] == b"CLIENT"
                || rig.session.replies != crate::session::Replies::On;
            prop_assert!(replies == 1 || (replies == 0 && is_silent), "{:?}: {:?}", words, reply);
        }
    }
}

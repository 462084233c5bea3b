//! The commands: one file per family. This one lists them and dispatches.

mod client;
mod connection;
mod hashes;
mod keys;
mod scan;
mod server;
mod sets;
mod strings;
mod transactions;

use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::Instant;

use hashbrown::HashMap;
use loadline_resp::{Protocol, Request, encode};
use loadline_store::{Change, Entry, Store, Value};

use crate::state::{Session, Shared};

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
const SYNTAX: &str = "ERR syntax error";

/// The words of a command, its name first.
pub(crate) type Words<'w> = &'w [&'w [u8]];

/// A command: executes and writes its reply.
type Handler = fn(&mut Call<'_>, Words<'_>) -> Result<(), Refusal>;

/// Why a command is refused; the text goes to the client as it is.
#[derive(Debug)]
struct Refusal(String);

impl From<&str> for Refusal {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// One command of the table.
#[derive(Debug)]
struct Known {
    name: &'static str,
    /// Words with the name; negative for "at least".
    arity: i32,
    /// Whether it changes keys.
    writes: bool,
    /// Position of the first and the last key, and the step; zeros for none.
    keys: (i32, i32, i32),
    handler: Handler,
}

/// Everything a command may touch.
struct Call<'c> {
    session: &'c mut Session,
    shared: &'c mut Shared,
    out: &'c mut Vec<u8>,
}

const fn known(
    name: &'static str,
    arity: i32,
    writes: bool,
    keys: (i32, i32, i32),
    handler: Handler,
) -> Known {
    Known {
        name,
        arity,
        writes,
        keys,
        handler,
    }
}

/// The key position of most commands.
const ONE: (i32, i32, i32) = (1, 1, 1);
const ALL: (i32, i32, i32) = (1, -1, 1);
const NONE: (i32, i32, i32) = (0, 0, 0);

/// All tables; each family has its own. The families that are called most come first.
const FAMILIES: [&[Known]; 8] = [
    strings::TABLE,
    keys::TABLE,
    sets::TABLE,
    hashes::TABLE,
    connection::TABLE,
    client::TABLE,
    server::TABLE,
    transactions::TABLE,
];

fn all() -> impl Iterator<Item = &'static Known> {
    FAMILIES.into_iter().flatten()
}

/// A command and its place among all, where its statistics stand.
#[derive(Debug, Clone, Copy)]
struct Found {
    index: usize,
    known: &'static Known,
}

/// The longest name of a command.
const LONGEST_NAME: usize = 16;

fn find(name: &[u8]) -> Option<Found> {
    static BY_NAME: LazyLock<HashMap<&[u8], Found>> = LazyLock::new(|| {
        all()
            .enumerate()
            .map(|(index, known)| (known.name.as_bytes(), Found { index, known }))
            .collect()
    });
    let mut capitals = [0; LONGEST_NAME];
    let capitals = capitals.get_mut(..name.len())?;
    capitals.copy_from_slice(name);
    capitals.make_ascii_uppercase();
    BY_NAME.get(&*capitals).copied()
}

/// The names of all commands, in the order of their statistics.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|known| known.name)
}

/// Executes a request and writes the reply to `out`.
pub(crate) fn execute(
    request: &Request<'_>,
    session: &mut Session,
    shared: &mut Shared,
    out: &mut Vec<u8>,
) {
    // Most commands have few words, and those need no memory of their own.
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
    Call {
        session,
        shared,
        out,
    }
    .execute(words);
}

impl Call<'_> {
    fn execute(&mut self, words: Words<'_>) {
        match self.admit(words) {
            Ok(found)
                if self.session.queue.is_some()
                    && !transactions::runs_at_once(found.known.name) =>
            {
                self.queue(words);
            }
            Ok(found) => self.perform(found, words),
            Err(Refusal(text)) => self.refuse(&text),
        }
    }

    /// Finds the command and checks that it may be called so. What fails here spoils a transaction.
    fn admit(&mut self, words: Words<'_>) -> Result<Found, Refusal> {
        let found = find(words[0])
            .ok_or_else(|| Refusal(unknown(words)))
            .and_then(|found| {
                let known = found.known;
                let fits = if known.arity < 0 {
                    words.len() >= known.arity.unsigned_abs() as usize
                } else {
                    words.len() == known.arity as usize
                };
                if !fits {
                    let name = known.name.to_ascii_lowercase();
                    return Err(Refusal(format!(
                        "ERR wrong number of arguments for '{name}' command"
                    )));
                }
                if !self.session.authenticated
                    && !["AUTH", "HELLO", "QUIT", "RESET"].contains(&known.name)
                {
                    return Err("NOAUTH Authentication required.".into());
                }
                Ok(found)
            });
        if let (Err(_), Some(queue)) = (&found, &mut self.session.queue) {
            queue.spoilt = true;
        }
        found
    }

    /// Runs a command and counts it. Its time is taken at its first calls and then in one of a few,
    /// since reading the clock takes a good part of what a short command does.
    fn perform(&mut self, found: Found, words: Words<'_>) {
        self.shared.stats.commands += 1;
        let begun = self.shared.stats.calls[found.index]
            .is_timed()
            .then(Instant::now);
        self.session
            .peer
            .command
            .store(found.index, Ordering::Relaxed);
        let reply = self.out.len();
        let outcome = (found.known.handler)(self, words);
        let stat = &mut self.shared.stats.calls[found.index];
        stat.calls += 1;
        if let Some(begun) = begun {
            stat.timed += 1;
            stat.time += begun.elapsed();
        }
        match outcome {
            Err(Refusal(text)) => {
                stat.failed += 1;
                self.refuse(&text);
            }
            Ok(()) if found.known.writes => {
                transactions::note_write(self, found.known, words, reply);
            }
            Ok(()) => {}
        }
    }

    fn queue(&mut self, words: Words<'_>) {
        if let Some(queue) = &mut self.session.queue {
            queue
                .commands
                .push(words.iter().map(|word| word.to_vec()).collect());
        }
        self.simple("QUEUED");
    }

    fn refuse(&mut self, text: &str) {
        self.shared.stats.errors += 1;
        encode::error(self.out, text.as_bytes());
    }

    fn store(&self) -> &Store {
        &self.shared.databases[self.session.database]
    }

    fn now(&self) -> u64 {
        self.shared.now
    }

    fn protocol(&self) -> Protocol {
        self.session.protocol
    }

    fn simple(&mut self, text: &str) {
        encode::simple(self.out, text.as_bytes());
    }

    fn integer(&mut self, number: i64) {
        encode::integer(self.out, number);
    }

    fn count(&mut self, count: usize) {
        self.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }

    fn bulk(&mut self, bytes: &[u8]) {
        encode::bulk(self.out, bytes);
    }

    fn null(&mut self) {
        encode::null(self.out, self.session.protocol);
    }

    fn array(&mut self, len: usize) {
        encode::array_header(self.out, len as u64);
    }

    fn map(&mut self, pairs: usize) {
        encode::map_header(self.out, pairs as u64, self.session.protocol);
    }

    /// Counts a look-up for the statistics.
    fn looked_up(&mut self, found: bool) {
        if found {
            self.shared.stats.hits += 1;
        } else {
            self.shared.stats.misses += 1;
        }
    }

    /// Changes the collection at `key`: an empty one from `fresh` where there is none; a key whose
    /// collection is empty afterwards goes.
    fn change<R>(
        &self,
        key: &[u8],
        fresh: impl FnOnce() -> Value,
        change: impl FnOnce(&mut Value) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        self.store()
            .modify(key, self.now(), |current| match current {
                Some(entry) => {
                    let result = change(&mut entry.value);
                    let after = if entry.value.is_empty_collection() {
                        Change::Remove
                    } else {
                        Change::Keep
                    };
                    (result, after)
                }
                None => {
                    let mut value = fresh();
                    match change(&mut value) {
                        Ok(result) if value.is_empty_collection() => (Ok(result), Change::Keep),
                        Ok(result) => (Ok(result), Change::Put(Entry::lasting(value))),
                        Err(refusal) => (Err(refusal), Change::Keep),
                    }
                }
            })
    }
}

fn unknown(words: Words<'_>) -> String {
    let shown = |word: &[u8]| {
        String::from_utf8_lossy(&word[..word.len().min(128)]).replace(['\r', '\n'], " ")
    };
    let mut text = format!(
        "ERR unknown command '{}', with args beginning with: ",
        shown(words[0])
    );
    for word in &words[1..] {
        if text.len() > 128 {
            break;
        }
        text.push_str(&format!("'{}' ", shown(word)));
    }
    text
}

/// Why a subcommand is refused: one of `known` has the wrong number of arguments, and any other is
/// not known.
fn subcommand_refused(words: Words<'_>, known: &[&str]) -> Refusal {
    let command = String::from_utf8_lossy(words[0]).to_lowercase();
    let word = String::from_utf8_lossy(words[1]);
    if known.iter().any(|name| is(words[1], name)) {
        let word = word.to_lowercase();
        return Refusal(format!(
            "ERR wrong number of arguments for '{command}|{word}' command"
        ));
    }
    let capitals = command.to_uppercase();
    Refusal(format!(
        "ERR unknown subcommand '{word}'. Try {capitals} HELP."
    ))
}

/// Reads a whole number as Redis does: no sign but `-`, no zeros in front, no spaces.
fn integer(word: &[u8]) -> Result<i64, Refusal> {
    let text = std::str::from_utf8(word).map_err(|_| NOT_INTEGER)?;
    let number: i64 = text.parse().map_err(|_| NOT_INTEGER)?;
    if number.to_string() == text {
        Ok(number)
    } else {
        Err(NOT_INTEGER.into())
    }
}

/// Reads a decimal number as Redis does: no spaces, and neither infinite nor none.
fn float(word: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(word).ok()?;
    let number: f64 = text.parse().ok()?;
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    (plain && number.is_finite()).then_some(number)
}

/// A sum as Redis writes it: plain decimals, and no zeros at its end. Redis calculates with the 80
/// bits of x87 where it runs on that; here are 64, so a last digit may differ.
fn float_text(number: f64) -> String {
    let text = format!("{number:.17}");
    // The shortest form that reads back as the same number says no more than what was added.
    let shortest = number.to_string();
    if shortest.contains(['e', 'E']) {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        shortest
    }
}

/// The most elements that a random choice with repetition may be asked for: the reply is built in
/// memory, and Redis's own bound of half of all numbers would fill it.
const MOST_SAMPLES: u64 = 1 << 20;

/// How many elements a random choice is to have; negative for a choice with repetition.
fn sample_count(word: &[u8]) -> Result<i64, Refusal> {
    let count = integer(word)?;
    if count < 0 && count.unsigned_abs() > MOST_SAMPLES {
        return Err("ERR value is out of range".into());
    }
    Ok(count)
}

fn is(word: &[u8], keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword.as_bytes())
}

/// Whether `text` matches a glob of Redis: `*`, `?`, `[a-c]`, `[^x]` and backslash. The star goes
/// back to the last one only, so that no pattern takes exponential time.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
            continue;
        }
        match single(&pattern[p..], text[t]) {
            Some(length) => {
                p += length;
                t += 1;
            }
            None => {
                let Some((place, reach)) = star else {
                    return false;
                };
                star = Some((place, reach + 1));
                p = place + 1;
                t = reach + 1;
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// How much of `pattern` stands for one byte, where that byte is `byte`.
fn single(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        b'[' => {
            let negated = pattern.get(1) == Some(&b'^');
            let start = 1 + usize::from(negated);
            let end = pattern
                .iter()
                .skip(start)
                .position(|b| *b == b']')
                .map_or(pattern.len(), |at| start + at);
            let class = &pattern[start..end];
            let listed = class.contains(&byte)
                || class
                    .windows(3)
                    .any(|range| range[1] == b'-' && (range[0]..=range[2]).contains(&byte));
            (listed != negated).then_some((end + 1).min(pattern.len()))
        }
        literal => (literal == byte).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_as_in_redis() {
        for (pattern, text, wanted) in [
            ("*", "", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("h?llo", "hello", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("a\\*c", "a*c", true),
            ("a\\*c", "abc", false),
            ("", "a", false),
        ] {
            assert_eq!(
                glob(pattern.as_bytes(), text.as_bytes()),
                wanted,
                "{pattern} on {text}"
            );
        }
        // Exponential matchers never come back from this one.
        assert!(!glob("a*".repeat(60).as_bytes(), "a".repeat(59).as_bytes()));
    }

    #[test]
    fn every_command_is_found_in_any_case() {
        for known in all() {
            assert!(known.name.len() <= LONGEST_NAME, "{}", known.name);
            let found = find(known.name.to_ascii_lowercase().as_bytes());
            assert!(found.is_some_and(|found| found.known.name == known.name));
        }
        for name in [&b"GETT"[..], b"", b"A-NAME-LONGER-THAN-ANY"] {
            assert!(find(name).is_none());
        }
    }

    #[test]
    fn every_command_stands_once_in_the_table() {
        let mut names: Vec<&str> = all().map(|known| known.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|name| *name == name.to_ascii_uppercase()));
    }
}

//! The commands: one file per family. This one lists them and dispatches.

mod connection;
mod hashes;
mod keys;
mod server;
mod sets;
mod strings;
mod transactions;

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
const FAMILIES: [&[Known]; 7] = [
    strings::TABLE,
    keys::TABLE,
    sets::TABLE,
    hashes::TABLE,
    connection::TABLE,
    server::TABLE,
    transactions::TABLE,
];

fn all() -> impl Iterator<Item = &'static Known> {
    FAMILIES.into_iter().flatten()
}

fn find(name: &[u8]) -> Option<&'static Known> {
    all().find(|known| name.eq_ignore_ascii_case(known.name.as_bytes()))
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
        let outcome = self.admit(words).and_then(|known| {
            if self.session.queue.is_some() && !transactions::runs_at_once(known.name) {
                self.queue(words);
                return Ok(());
            }
            self.perform(known, words)
        });
        if let Err(Refusal(text)) = outcome {
            self.refuse(&text);
        }
    }

    /// Finds the command and checks that it may be called so. What fails here spoils a transaction.
    fn admit(&mut self, words: Words<'_>) -> Result<&'static Known, Refusal> {
        let found = find(words[0])
            .ok_or_else(|| Refusal(unknown(words)))
            .and_then(|known| {
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
                Ok(known)
            });
        if let (Err(_), Some(queue)) = (&found, &mut self.session.queue) {
            queue.spoilt = true;
        }
        found
    }

    fn perform(&mut self, known: &'static Known, words: Words<'_>) -> Result<(), Refusal> {
        self.shared.stats.commands += 1;
        *self.shared.stats.calls.entry(known.name).or_default() += 1;
        (known.handler)(self, words)
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
    fn every_command_stands_once_in_the_table() {
        let mut names: Vec<&str> = all().map(|known| known.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|name| *name == name.to_ascii_uppercase()));
    }
}

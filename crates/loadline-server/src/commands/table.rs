//! A command as its family lists it: its name, its words, its keys and its function.

use super::refusal::Refusal;
use super::{Call, Words, is};

/// The function of a command, which writes the reply or returns an error.
pub(super) type Handler = fn(&mut Call<'_>, Words<'_>) -> Result<(), Refusal>;

/// One command of the table.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: &'static str,
    /// Number of words including the name; negative for a minimum.
    pub(super) arity: i32,
    pub(super) access: Access,
    pub(super) keys: Keys,
    /// Subcommands, if the second word selects one; HELP is always included.
    pub(super) subcommands: &'static [Sub],
    pub(super) handler: Handler,
    /// Whether it can add data.
    pub(super) grows: bool,
    /// Whether it can add data to the log.
    pub(super) grows_log: bool,
}

impl Known {
    pub(super) const fn with(self, subcommands: &'static [Sub]) -> Self {
        Self {
            subcommands,
            ..self
        }
    }
}

/// A subcommand.
#[derive(Debug)]
pub(super) struct Sub {
    pub(super) name: &'static str,
    /// Number of words; negative for a minimum.
    pub(super) arity: i32,
    /// A line with its arguments, followed by its description.
    pub(super) help: &'static str,
}

pub(super) const fn sub(name: &'static str, arity: i32, help: &'static str) -> Sub {
    Sub { name, arity, help }
}

/// The access of a command to keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    /// No keys.
    None,
}

/// The positions of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    None,
    /// From the first index to the last one (counted from the end if negative), with a step.
    At(i32, i32, i32),
    /// A count at this index, followed by the keys.
    Counted(usize),
    /// The same; COMMAND GETKEYS shows none where the count is invalid.
    CountedOrNone(usize),
    /// All words behind the name; COMMAND GETKEYS refuses the first one alone.
    TargetAndSources,
    /// The first word behind the name, followed by a count and other keys.
    TargetAndCounted,
    /// Behind STREAMS, followed by as many ids.
    Streams,
    /// The first word behind the name, and those behind STORE and STOREDIST from this index on.
    OneAndStored(usize),
    /// Those of SORT: the first word behind the name, and the one behind the last STORE.
    Sort,
}

pub(super) const ONE: Keys = Keys::At(1, 1, 1);
pub(super) const TWO: Keys = Keys::At(1, 2, 1);
pub(super) const ALL: Keys = Keys::At(1, -1, 1);
pub(super) const PAIRS: Keys = Keys::At(1, -1, 2);

pub(super) const fn read(name: &'static str, arity: i32, keys: Keys, handler: Handler) -> Known {
    Known {
        name,
        arity,
        access: Access::Read,
        keys,
        subcommands: &[],
        handler,
        grows: false,
        grows_log: false,
    }
}

pub(super) const fn write(name: &'static str, arity: i32, keys: Keys, handler: Handler) -> Known {
    // Here and not for each call: comparing a name with all of them took a tenth of a short command.
    let grows = !lists(&NEVER_GROWING, name);
    Known {
        name,
        arity,
        access: Access::Write,
        keys,
        subcommands: &[],
        handler,
        grows,
        grows_log: grows || lists(&REWRITING, name),
    }
}

pub(super) const fn other(name: &'static str, arity: i32, handler: Handler) -> Known {
    Known {
        name,
        arity,
        access: Access::None,
        keys: Keys::None,
        subcommands: &[],
        handler,
        grows: false,
        grows_log: false,
    }
}

/// Whether `name` is one of `names`, while the table is compiled.
const fn lists(names: &[&str], name: &str) -> bool {
    let name = name.as_bytes();
    let mut at = 0;
    while at < names.len() {
        let other = names[at].as_bytes();
        let mut same = 0;
        while same < name.len() && same < other.len() && name[same] == other[same] {
            same += 1;
        }
        if same == name.len() && same == other.len() {
            return true;
        }
        at += 1;
    }
    false
}

/// The name of a command with a subcommand by its index; 0 is for none, and the one behind the last for HELP.
pub(super) fn name_of(known: &Known, subcommand: usize) -> String {
    let name = match subcommand.checked_sub(1) {
        None => known.name.to_owned(),
        Some(at) => {
            let sub = known.subcommands.get(at).map_or("HELP", |sub| sub.name);
            format!("{}|{sub}", known.name)
        }
    };
    name.to_ascii_lowercase()
}

/// The keys of [`Keys::At`].
pub(super) fn keys_at<'w>(
    words: &[&'w [u8]],
    first: i32,
    last: i32,
    step: i32,
) -> impl Iterator<Item = &'w [u8]> {
    let length = words.len() as i32;
    let end = if last < 0 { length + last } else { last };
    (first..=end.min(length - 1))
        .step_by(step.unsigned_abs() as usize)
        .map(|place| words[place as usize])
}

/// Reading commands that read other keys besides those that they name.
const READS_OTHERS: [&str; 1] = ["SORT_RO"];

/// Writing commands that are allowed when memory is full, because they add no data.
const NEVER_GROWING: [&str; 53] = [
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
    "HEXPIRE",
    "HEXPIREAT",
    "HGETDEL",
    "HGETEX",
    "HPERSIST",
    "HPEXPIRE",
    "HPEXPIREAT",
    "XACK",
    "XAUTOCLAIM",
    "XCLAIM",
    "XDEL",
    "XREADGROUP",
    "XTRIM",
    "LPOP",
    "RPOP",
    "BLMPOP",
    "BLPOP",
    "BZMPOP",
    "BZPOPMAX",
    "BZPOPMIN",
    "BRPOP",
    "LTRIM",
    "LREM",
    "LMPOP",
    "ZREM",
    "ZPOPMIN",
    "ZPOPMAX",
    "ZMPOP",
    "ZREMRANGEBYRANK",
    "ZREMRANGEBYSCORE",
    "ZREMRANGEBYLEX",
    "FLUSHDB",
    "FLUSHALL",
    "SWAPDB",
    // The commands of a script are checked.
    "EVAL",
    "EVALSHA",
    "FCALL",
];

/// Those of them that write a value again, in the log, or note deliveries there.
const REWRITING: [&str; 9] = [
    "EVAL",
    "EVALSHA",
    "FCALL",
    "RENAME",
    "RENAMENX",
    "MOVE",
    "XAUTOCLAIM",
    "XCLAIM",
    "XREADGROUP",
];

impl Known {
    /// Whether `word` names one of its subcommands.
    pub(super) fn has_subcommand(&self, word: &[u8]) -> bool {
        self.subcommand(word).is_some()
    }

    /// The name and the arity of the subcommand that `word` names, HELP included.
    pub(super) fn subcommand(&self, word: &[u8]) -> Option<(&'static str, i32)> {
        let named = self.subcommands.iter().map(|sub| (sub.name, sub.arity));
        let mut named = named.chain([("HELP", 2)]);
        named.find(|(name, _)| is(word, name))
    }

    /// The number of its places in the statistics: its own, one for each subcommand, and one for HELP.
    pub(super) fn places(&self) -> usize {
        match self.subcommands {
            [] => 1,
            subcommands => subcommands.len() + 2,
        }
    }

    /// The arity at one of these places: its own at 0, and that of HELP behind those of the subcommands.
    pub(super) fn sub_arity(&self, sub: usize) -> i32 {
        match sub.checked_sub(1) {
            None => self.arity,
            Some(at) => self.subcommands.get(at).map_or(2, |sub| sub.arity),
        }
    }

    /// The number of words that it takes with its subcommand, at least if negative; `None` if there is no such subcommand.
    pub(super) fn arity_of(&self, words: Words<'_>) -> Option<i32> {
        match words {
            [_, second, ..] if !self.subcommands.is_empty() => {
                self.subcommand(second).map(|(_, arity)| arity)
            }
            _ => Some(self.arity),
        }
    }

    /// Whether it has a help. Redis without a cluster refuses that of CLUSTER as it refuses all of CLUSTER.
    pub(super) fn has_help(&self) -> bool {
        self.subcommands.iter().any(|sub| !sub.help.is_empty())
    }

    /// Whether its reply depends on the data. The figures of INFO about keys do not count.
    pub(super) fn sees_data(&self) -> bool {
        self.access != Access::None || ["EXEC", "DBSIZE", "FUNCTION"].contains(&self.name)
    }

    /// Whether its reply depends on changes that are not on the disk: those of the keys for which `is_unsynced`.
    pub(super) fn sees_unsynced(
        &self,
        words: Words<'_>,
        is_unsynced: impl Fn(&[u8]) -> bool,
    ) -> bool {
        match self.keys {
            Keys::At(first, last, step)
                if self.access == Access::Read && !READS_OTHERS.contains(&self.name) =>
            {
                let mut keys = keys_at(words, first, last, step).peekable();
                // Subcommands without a key can be about all of them.
                keys.peek().is_none() || keys.any(is_unsynced)
            }
            _ => self.sees_data(),
        }
    }
}

/// A command and its place in the statistics.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    /// The place of the command. Those of its subcommands follow.
    pub(super) first: usize,
    pub(super) known: &'static Known,
    /// Whether each call is measured.
    pub(super) is_measured: bool,
}

impl Found {
    /// The place of the command in the statistics, or that of the subcommand that the words name.
    #[inline]
    pub(super) fn place(&self, words: Words<'_>) -> usize {
        self.first + subcommand(self.known, words)
    }
}

/// The length up to which a name fits into one number.
pub(super) const LONGEST_NUMBER: usize = 16;

/// An upper-case name as a number, for hashing and comparison in one step. Zero bytes are not letters, so
/// padding is unambiguous.
pub(super) fn number(name: &[u8]) -> Option<u128> {
    let mut capitals = [0; LONGEST_NUMBER];
    capitals.get_mut(..name.len())?.copy_from_slice(name);
    capitals.make_ascii_uppercase();
    (!name.ends_with(&[0])).then(|| u128::from_le_bytes(capitals))
}

/// The index of the subcommand, counted from 1, HELP behind all others; 0 without one.
#[inline]
pub(super) fn subcommand(known: &Known, words: Words<'_>) -> usize {
    match words {
        [_, second, ..] if !known.subcommands.is_empty() => {
            let named = known.subcommands.iter().map(|sub| sub.name);
            let mut named = named.chain(["HELP"]);
            named
                .position(|name| is(second, name))
                .map_or(0, |at| at + 1)
        }
        _ => 0,
    }
}

/// Whether this number of words fits `arity`.
pub(super) fn fits(arity: i32, words: usize) -> bool {
    let asked = arity.unsigned_abs() as usize;
    if arity < 0 {
        words >= asked
    } else {
        words == asked
    }
}

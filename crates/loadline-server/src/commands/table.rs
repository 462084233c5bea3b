//! A command as its family lists it, with its words, its keys and its function, and what else is known about it.

use super::refusal::Refusal;
use super::{Call, Words, is};
use crate::catalogue::{Catalogue, Item};

/// The function of a command, which writes the reply or returns an error.
pub(super) type Handler = fn(&mut Call<'_>, Words<'_>) -> Result<(), Refusal>;

/// A command as its family lists it. What else is known about it is in the catalogue.
#[derive(Debug)]
pub(super) struct Listed {
    /// In capitals.
    name: &'static str,
    /// Number of words including the name; negative for a minimum.
    arity: i32,
    keys: Keys,
    /// Subcommands, if the second word selects one; HELP is always included.
    subcommands: &'static [Sub],
    handler: Handler,
}

impl Listed {
    pub(super) const fn with(self, subcommands: &'static [Sub]) -> Self {
        Self {
            subcommands,
            ..self
        }
    }
}

pub(super) const fn listed(name: &'static str, arity: i32, keys: Keys, handler: Handler) -> Listed {
    Listed {
        name,
        arity,
        keys,
        subcommands: &[],
        handler,
    }
}

/// A command or a subcommand of the table.
#[derive(Debug)]
pub(super) struct Known {
    /// The name of the command in capitals, also that of a subcommand's command.
    pub(super) name: &'static str,
    /// The second word of a subcommand in capitals; empty for a command.
    pub(super) second: &'static str,
    /// A line with the arguments of a subcommand, followed by its description.
    pub(super) help: &'static str,
    /// Its group in the Redis documentation.
    pub(super) group: &'static str,
    /// Its place in the statistics. Subcommands follow their command.
    pub(super) place: usize,
    /// Number of words including the names; negative for a minimum.
    pub(super) arity: i32,
    /// A command with subcommands has no keys of its own.
    pub(super) keys: Keys,
    pub(super) handler: Handler,
    /// Its row in the catalogue.
    pub(super) item: &'static Item,
    pub(super) access: Access,
    /// Whether it can add data.
    pub(super) grows: bool,
    /// Whether it can add data to the log.
    pub(super) grows_log: bool,
    /// Whether each call is measured.
    pub(super) is_measured: bool,
    /// Whether scripts can call it.
    pub(super) is_scriptable: bool,
    /// Its subcommands, HELP last.
    pub(super) subcommands: Vec<Self>,
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
    /// The first word behind the name; the words name patterns of others.
    OneAndPatterns,
    /// Those of MIGRATE: the third word behind the name, or those behind KEYS.
    Migrated,
    /// Those of SORT: the first word behind the name, and the one behind the last STORE.
    Sort,
}

impl Keys {
    /// Whether the words tell where they are, which COMMAND shows as the flag `movablekeys`.
    pub(super) fn are_movable(self) -> bool {
        !matches!(self, Self::None | Self::At(..) | Self::TargetAndSources)
    }
}

pub(super) const ONE: Keys = Keys::At(1, 1, 1);
pub(super) const TWO: Keys = Keys::At(1, 2, 1);
pub(super) const ALL: Keys = Keys::At(1, -1, 1);
pub(super) const PAIRS: Keys = Keys::At(1, -1, 2);

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

/// Commands that are allowed when memory is full, but write a value again, in the log, or note deliveries there.
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

/// Commands that are not flagged as fast, but hardly ever take long.
const SHORT: [&str; 7] = [
    "SET", "SETEX", "PSETEX", "SETBIT", "SETRANGE", "GETRANGE", "SUBSTR",
];

impl Known {
    /// The command of a family at a place in the statistics, with its subcommands. `help` replies to HELP if they have help.
    ///
    /// # Panics
    /// If the catalogue has no row for it.
    pub(super) fn new(listed: &Listed, group: &'static str, place: usize, help: Handler) -> Self {
        let has_help = listed.subcommands.iter().any(|sub| !sub.help.is_empty());
        let last = sub("HELP", 2, "\nPrints this help.");
        let subcommands = listed.subcommands.iter().chain([&last]).enumerate();
        let subcommands = subcommands.map(|(at, sub)| Self {
            second: sub.name,
            help: sub.help,
            arity: sub.arity,
            // Two words are the names alone.
            keys: if sub.arity == 2 {
                Keys::None
            } else {
                listed.keys
            },
            handler: if has_help && sub.name == last.name {
                help
            } else {
                listed.handler
            },
            ..Self::alone(listed, sub.name, group, place + 1 + at)
        });
        let mut known = Self::alone(listed, "", group, place);
        if !listed.subcommands.is_empty() {
            known.subcommands = subcommands.collect();
            known.keys = Keys::None;
        }
        known
    }

    fn alone(listed: &Listed, second: &str, group: &'static str, place: usize) -> Self {
        let name = listed.name;
        let full = if second.is_empty() {
            name.to_owned()
        } else {
            format!("{name}|{second}")
        };
        let item = Catalogue::get().find(&full);
        let item = item.unwrap_or_else(|| panic!("{full} has no row in the catalogue"));
        let (writes, reads) = (item.has("write"), item.has("readonly"));
        // The commands of a script are checked too.
        let may_write = writes || runs_script(name) && !reads;
        let grows = item.has("denyoom");
        Self {
            name,
            second: "",
            help: "",
            group,
            place,
            arity: listed.arity,
            keys: listed.keys,
            handler: listed.handler,
            item,
            access: match (may_write, reads) {
                (true, _) => Access::Write,
                (false, true) => Access::Read,
                (false, false) => Access::None,
            },
            grows,
            grows_log: grows || REWRITING.contains(&name),
            is_measured: !item.has("fast") && !SHORT.contains(&name),
            is_scriptable: !item.has("noscript"),
            subcommands: Vec::new(),
        }
    }

    /// The subcommand that the second word names, or the command itself if it has none; `None` for an unknown subcommand.
    pub(super) fn of(&self, words: Words<'_>) -> Option<&Self> {
        match words {
            [_, second, ..] if !self.subcommands.is_empty() => {
                let mut subcommands = self.subcommands.iter();
                subcommands.find(|sub| is(second, sub.second))
            }
            _ => Some(self),
        }
    }

    /// The command and its subcommands, in the order of their places.
    pub(super) fn each(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.subcommands)
    }

    /// Whether it runs a script or a function.
    pub(super) fn runs_script(&self) -> bool {
        runs_script(self.name)
    }

    /// Whether its reply depends on the data. The figures of INFO about keys do not count.
    pub(super) fn sees_data(&self) -> bool {
        self.access != Access::None || ["EXEC", "FUNCTION"].contains(&self.name)
    }

    /// Whether its reply depends on changes that are not on the disk: those of the keys for which `is_unsynced`.
    pub(super) fn sees_unsynced(
        &self,
        words: Words<'_>,
        is_unsynced: impl Fn(&[u8]) -> bool,
    ) -> bool {
        match self.keys {
            Keys::At(first, last, step) if self.access == Access::Read => {
                keys_at(words, first, last, step).any(is_unsynced)
            }
            _ => self.sees_data(),
        }
    }
}

fn runs_script(name: &str) -> bool {
    name.starts_with("EVAL") || name.starts_with("FCALL")
}

/// The length up to which a name fits into one number.
const LONGEST_NUMBER: usize = 16;

/// An upper-case name as a number, for hashing and comparison in one step. Zero bytes are not letters, so
/// padding is unambiguous.
pub(super) fn number(name: &[u8]) -> Option<u128> {
    let mut capitals = [0; LONGEST_NUMBER];
    capitals.get_mut(..name.len())?.copy_from_slice(name);
    capitals.make_ascii_uppercase();
    (!name.ends_with(&[0])).then(|| u128::from_le_bytes(capitals))
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

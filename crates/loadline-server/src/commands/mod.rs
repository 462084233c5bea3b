//! The commands: one file per family, and the look-up of a command by its name.

mod absent;
mod acl;
mod arguments;
mod bitfield;
mod bits;
mod blocking;
mod call;
mod changes;
mod client;
mod config;
mod connection;
mod debug;
mod describe;
mod digest;
mod dispatch;
mod docs;
mod dump;
mod events;
mod expiry;
#[cfg(test)]
mod full_disk;
mod geo;
mod glob;
mod hash_fields;
mod hashes;
mod help;
mod hyperloglog;
mod info;
mod key_specs;
mod keys;
mod lcs;
mod lists;
mod memory;
mod migrate;
#[cfg(test)]
mod model;
mod monitor;
mod numbers;
mod pause;
mod popping;
mod pubsub;
mod refusal;
mod reload;
mod reply;
mod rights;
mod scan;
mod scripts;
mod server;
mod sets;
mod slow;
mod sort;
mod sorted_sets;
mod streams;
mod strings;
#[cfg(test)]
mod survival;
mod table;
mod tracking;
mod transactions;
mod waits;

use std::sync::LazyLock;

use hashbrown::HashMap;

pub(crate) use blocking::{release, wake};
use call::Call;
use changes::Effect;
pub(crate) use dispatch::execute;
use dispatch::finish;
pub use dump::{dumped, restored};
pub(crate) use glob::glob;
pub(crate) use migrate::reply_migrated;
pub(crate) use pause::resume;
pub(crate) use refusal::Refusal;
pub use scripts::library_name;
pub(crate) use scripts::{Interpreter, Libraries};
use table::{ALL, Access, Keys, Known, Listed, ONE, PAIRS, TWO, fits, listed, number, sub};

/// The largest string, as in Redis.
const LARGEST: usize = 512 << 20;

/// The words of a command, its name first.
type Words<'w> = &'w [&'w [u8]];

/// Whether a word is this keyword, in any case.
fn is(word: &[u8], keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword.as_bytes())
}

/// The tables of all families, with their group names in the Redis documentation.
const FAMILIES: &[(&str, &[Listed])] = &[
    ("string", strings::TABLE),
    ("generic", keys::TABLE),
    ("generic", expiry::TABLE),
    ("generic", dump::TABLE),
    ("generic", migrate::TABLE),
    ("set", sets::TABLE),
    ("hash", hashes::TABLE),
    ("hash", hash_fields::TABLE),
    ("list", lists::TABLE),
    ("list", waits::LISTS),
    ("sorted-set", waits::SORTED_SETS),
    ("stream", streams::TABLE),
    ("generic", blocking::TABLE),
    ("sorted-set", sorted_sets::TABLE),
    ("geo", geo::TABLE),
    ("bitmap", bits::TABLE),
    ("bitmap", bitfield::TABLE),
    ("hyperloglog", hyperloglog::TABLE),
    ("generic", sort::TABLE),
    ("scripting", scripts::functions::TABLE),
    ("scripting", scripts::TABLE),
    ("connection", connection::TABLE),
    ("connection", client::TABLE),
    ("server", server::TABLE),
    ("server", memory::TABLE),
    ("server", acl::TABLE),
    ("server", describe::TABLE),
    ("server", slow::TABLE),
    ("server", monitor::TABLE),
    ("server", debug::TABLE),
    ("server", absent::TABLE),
    ("cluster", absent::CLUSTER),
    ("transactions", transactions::TABLE),
    ("pubsub", pubsub::TABLE),
];

/// All commands.
fn all() -> &'static [Known] {
    static ALL: LazyLock<Vec<Known>> = LazyLock::new(|| {
        let rows = FAMILIES
            .iter()
            .flat_map(|(group, table)| table.iter().map(move |row| (group, row)));
        let mut next = 0;
        rows.map(|(group, row)| {
            let known = Known::new(row, group, next, help::help);
            next += known.each().count();
            known
        })
        .collect()
    });
    &ALL
}

/// All commands and subcommands, in the order of their places in the statistics.
fn each() -> impl Iterator<Item = &'static Known> {
    all().iter().flat_map(Known::each)
}

/// The names of all commands and subcommands in lower case, in the same order.
pub(crate) fn places() -> &'static [&'static str] {
    static PLACES: LazyLock<Vec<&str>> =
        LazyLock::new(|| each().map(|known| known.item.name).collect());
    &PLACES
}

/// Whether there is a command with this name, in any case.
pub(crate) fn knows(name: &[u8]) -> bool {
    find(name).is_some()
}

fn find(name: &[u8]) -> Option<&'static Known> {
    all().get(index_of(name)?)
}

/// The index of the command with this name.
fn index_of(name: &[u8]) -> Option<usize> {
    static BY_NUMBER: LazyLock<HashMap<u128, usize>> = LazyLock::new(|| {
        let names = all().iter().enumerate();
        names
            .filter_map(|(index, known)| Some((number(known.name.as_bytes())?, index)))
            .collect()
    });
    match number(name) {
        Some(number) => BY_NUMBER.get(&number).copied(),
        // There are only two such names.
        None => all().iter().position(|known| is(name, known.name)),
    }
}

/// As [`find`]. `last` is the index of the command that was found last: clients often send one again and again.
#[inline]
fn find_again(last: &mut Option<usize>, name: &[u8]) -> Option<&'static Known> {
    // Most clients send capitals.
    if let Some(known) = last.and_then(|index| all().get(index))
        && (name == known.name.as_bytes() || is(name, known.name))
    {
        return Some(known);
    }
    let index = index_of(name)?;
    *last = Some(index);
    all().get(index)
}

/// The command, or the subcommand, that the words name.
fn find_of(words: Words<'_>) -> Option<&'static Known> {
    find(words[0])?.of(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case() {
        for known in all() {
            let found = find(known.name.to_ascii_lowercase().as_bytes());
            assert!(found.is_some_and(|found| found.name == known.name));
        }
        for name in [&b"GETT"[..], b"", b"GET\0", b"A-NAME-LONGER-THAN-ANY"] {
            assert!(find(name).is_none());
        }
    }

    #[test]
    fn commands_and_subcommands_have_places_of_their_own() {
        for (words, name) in [
            (&[&b"get"[..], b"k"][..], "get"),
            (&[b"CLIENT"], "client"),
            (&[b"CLIENT", b"caching", b"yes"], "client|caching"),
            (&[b"Client", b"unpause"], "client|unpause"),
            (&[b"CLIENT", b"help"], "client|help"),
        ] {
            assert_eq!(places()[find_of(words).unwrap().place], name);
        }
        assert!(find_of(&[b"CLIENT", b"nothing"]).is_none());
        let mut names = places().to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), places().len());
    }

    #[test]
    fn every_command_stands_once_in_the_table() {
        let mut names: Vec<&str> = all().iter().map(|known| known.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|name| *name == name.to_ascii_uppercase()));
    }
}

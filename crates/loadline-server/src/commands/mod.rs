//! The commands: one file per family, and the look-up of a command by its name.

mod absent;
mod acl;
mod bitfield;
mod bits;
mod blocking;
mod call;
mod changes;
mod client;
mod config;
mod connection;
mod describe;
mod dispatch;
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
mod keys;
mod lcs;
mod lists;
mod memory;
#[cfg(test)]
mod model;
mod monitor;
mod numbers;
mod pause;
mod popping;
mod pubsub;
mod refusal;
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
use dispatch::{execute_words, finish};
pub use dump::{dumped, restored};
pub(crate) use glob::glob;
pub(crate) use pause::resume;
pub(crate) use refusal::Refusal;
pub use scripts::library_name;
pub(crate) use scripts::{Interpreter, Libraries};
use table::{
    ALL, Access, Found, Keys, Known, LONGEST_NUMBER, ONE, PAIRS, TWO, fits, name_of, number, other,
    read, sub, write,
};

/// The largest string, as in Redis.
const LARGEST: usize = 512 << 20;

/// The words of a command, its name first.
type Words<'w> = &'w [&'w [u8]];

/// Whether a word is this keyword, in any case.
fn is(word: &[u8], keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword.as_bytes())
}

/// The tables of all families, with their group names in the Redis documentation.
const FAMILIES: &[(&str, &[Known])] = &[
    ("string", strings::TABLE),
    ("generic", keys::TABLE),
    ("generic", expiry::TABLE),
    ("generic", dump::TABLE),
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
    ("server", absent::TABLE),
    ("transactions", transactions::TABLE),
    ("pubsub", pubsub::TABLE),
];

fn all() -> impl Iterator<Item = &'static Known> {
    FAMILIES.iter().flat_map(|(_, table)| *table)
}

/// The name of a command with its subcommand, if any.
fn full_name(command: usize, subcommand: usize) -> String {
    let Some(known) = all().nth(command) else {
        return "NULL".to_owned();
    };
    name_of(known, subcommand)
}

/// The names of all commands, in the order of their statistics.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|known| known.name)
}

fn find(name: &[u8]) -> Option<Found> {
    static BY_NAME: LazyLock<HashMap<u128, Found>> = LazyLock::new(|| {
        all()
            .enumerate()
            .filter_map(|(index, known)| {
                let key = number(known.name.as_bytes())?;
                Some((key, found_at(index, known)))
            })
            .collect()
    });
    if name.len() <= LONGEST_NUMBER {
        return BY_NAME.get(&number(name)?).copied();
    }
    // There are only two such names.
    let mut all = all().enumerate();
    let (index, known) = all.find(|(_, known)| is(name, known.name))?;
    Some(found_at(index, known))
}

fn found_at(index: usize, known: &'static Known) -> Found {
    Found {
        index,
        known,
        is_measured: slow::is_measured(known.name),
    }
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

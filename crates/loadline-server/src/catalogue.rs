//! The commands as Redis describes them: flags, categories, and the access to keys. The rights of users, the replies of COMMAND, and
//! what is allowed where follow from it.

use std::sync::LazyLock;

use hashbrown::HashMap;

/// The categories, in the order of ACL CAT.
pub(crate) const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// A row for each command of Redis 7.0, with those that this server has in addition: its name, a letter for each key that
/// differs in its access (the last one is for all further keys), its flags in COMMAND except for `movablekeys`, with an `@`
/// those categories that do not follow from the flags, and with a `~` its hints for clients of clusters. The letters are those of
/// [`KEY_FLAGS`], and a point without keys. For commands that this server has, a semicolon, the version of Redis that had it
/// first, another one, and the summary of COMMAND DOCS.
///
/// The rest of COMMAND DOCS are lines below the row, which begin with a space, a letter and another space: `o` for the complexity,
/// `f` for flags, `d` for the version that deprecated the command and what replaces it, `h` for a version and what it changed,
/// and `a` for the arguments, whose notation is that of `commands/arguments.rs`.
const ROWS: &str = include_str!("commands.txt");

/// The flags of keys in COMMAND GETKEYSANDFLAGS, by their letter in the rows.
const KEY_FLAGS: [(u8, &[&str]); 13] = [
    (b'-', &["RO"]),
    (b'r', &["RO", "access"]),
    (b'a', &["RW", "access"]),
    (b'c', &["RW", "access", "update"]),
    (b'd', &["RW", "delete"]),
    (b'h', &["not_key"]),
    (b'i', &["RW", "insert"]),
    (b'm', &["RW", "access", "insert"]),
    (b'n', &["OW", "insert"]),
    (b'o', &["OW", "update"]),
    (b't', &["RW", "access", "delete"]),
    (b'u', &["RW", "update"]),
    (b'x', &["RM", "delete"]),
];

/// The categories that follow from a flag.
const IMPLIED: [(&str, &[&str]); 6] = [
    ("write", &["write"]),
    ("readonly", &["read"]),
    ("admin", &["admin", "dangerous"]),
    ("pubsub", &["pubsub"]),
    ("fast", &["fast"]),
    ("blocking", &["blocking"]),
];

/// A command or a subcommand.
#[derive(Debug)]
pub(crate) struct Item {
    /// Its index in the catalogue.
    pub(crate) place: usize,
    /// In lower case, a subcommand with its command: `config|get`.
    pub(crate) name: &'static str,
    access: &'static str,
    /// The bits of its categories.
    categories: u32,
    words: &'static str,
    /// The version of Redis that had it first; empty for commands that this server does not have.
    pub(crate) since: &'static str,
    pub(crate) summary: &'static str,
    /// The lines below its row.
    pub(crate) docs: &'static str,
}

impl Item {
    pub(crate) fn is_in(&self, category: usize) -> bool {
        self.categories & 1 << category != 0
    }

    /// The names of its categories.
    pub(crate) fn categories(&self) -> impl Iterator<Item = &'static str> {
        let named = CATEGORIES.iter().enumerate();
        named.filter_map(|(category, name)| self.is_in(category).then_some(*name))
    }

    /// Its flags in COMMAND, except for `movablekeys`.
    pub(crate) fn flags(&self) -> impl Iterator<Item = &'static str> {
        let words = self.words.split(' ');
        words.filter(|word| !word.is_empty() && !word.starts_with(['@', '~']))
    }

    /// Its hints for clients of clusters.
    pub(crate) fn hints(&self) -> impl Iterator<Item = &'static str> {
        self.words
            .split(' ')
            .filter_map(|word| word.strip_prefix('~'))
    }

    /// Whether it has a flag.
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags().any(|known| known == flag)
    }

    /// Whether its keys are channels of shards.
    pub(crate) fn has_channels(&self) -> bool {
        self.access == "h"
    }

    /// Number of keys that differ in their access.
    pub(crate) fn accesses(&self) -> usize {
        self.access.len()
    }

    /// The access to the key at a place among the keys.
    pub(crate) fn access(&self, place: usize) -> KeyAccess {
        let letters = self.access.as_bytes();
        let letter = letters.get(place).or(letters.last());
        KeyAccess(letter.copied().unwrap_or(b'-'))
    }
}

/// The access of a command to a key: its letter in the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyAccess(u8);

impl KeyAccess {
    /// The value is read, and not used further.
    pub(crate) const READ: Self = Self(b'r');
    /// The value is read and changed.
    pub(crate) const CHANGE: Self = Self(b'c');
    /// The value is replaced without being read.
    pub(crate) const OVERWRITE: Self = Self(b'o');

    /// Its flags, in the order of Redis.
    pub(crate) fn flags(self) -> &'static [&'static str] {
        let mut known = KEY_FLAGS.iter();
        known
            .find(|(letter, _)| *letter == self.0)
            .map_or(&[], |(_, flags)| flags)
    }

    /// Whether it takes the right to read: the value is used or returned.
    pub(crate) fn reads(self) -> bool {
        self.flags().contains(&"access")
    }

    /// Whether it takes the right to write.
    pub(crate) fn writes(self) -> bool {
        let mut flags = self.flags().iter();
        flags.any(|flag| ["insert", "update", "delete"].contains(flag))
    }
}

/// All commands and subcommands. A command is followed by its subcommands.
#[derive(Debug)]
pub(crate) struct Catalogue {
    pub(crate) items: Vec<Item>,
    places: HashMap<&'static str, usize>,
}

impl Catalogue {
    pub(crate) fn get() -> &'static Self {
        static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::new);
        &CATALOGUE
    }

    fn new() -> Self {
        let rows = rows().enumerate();
        let items = rows.map(|(place, (row, docs))| item(place, row, docs));
        let items: Vec<Item> = items.collect();
        let places = items.iter().enumerate();
        let places = places.map(|(place, item)| (item.name, place)).collect();
        Self { items, places }
    }

    /// The command or the subcommand with this name, in any case.
    pub(crate) fn find(&self, name: &str) -> Option<&Item> {
        Some(&self.items[self.place(name.as_bytes())?])
    }

    /// The place of a command or a subcommand, in any case.
    pub(crate) fn place(&self, name: &[u8]) -> Option<usize> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.places.get(name.as_str()).copied()
    }

    /// The places of the subcommands of a command.
    pub(crate) fn subcommands(&self, place: usize) -> impl Iterator<Item = usize> {
        let name = self.items[place].name;
        let rest = self.items.iter().enumerate().skip(place + 1);
        rest.take_while(move |(_, item)| {
            let rest = item.name.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with('|'))
        })
        .map(|(place, _)| place)
    }
}

/// The rows, each with the lines below it.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut rest = ROWS;
    std::iter::from_fn(move || {
        let (row, behind) = rest.split_once('\n')?;
        let lines = behind.split_inclusive('\n');
        let lines = lines.take_while(|line| line.starts_with(' '));
        let (docs, behind) = behind.split_at(lines.map(str::len).sum());
        rest = behind;
        Some((row, docs))
    })
}

/// Reads a row.
fn item(place: usize, row: &'static str, docs: &'static str) -> Item {
    let mut parts = row.splitn(3, ';');
    let mut head = parts.next().unwrap_or_default().splitn(3, ' ');
    let mut item = Item {
        place,
        name: head.next().unwrap_or_default(),
        access: head.next().unwrap_or_default(),
        categories: 0,
        words: head.next().unwrap_or_default(),
        since: parts.next().unwrap_or_default(),
        summary: parts.next().unwrap_or_default(),
        docs,
    };
    let own = item
        .words
        .split(' ')
        .filter_map(|word| word.strip_prefix('@'));
    // The access of a script to keys is that of its commands.
    let reads = !own.clone().any(|category| category == "scripting");
    let implied = IMPLIED.iter().filter(|(flag, _)| item.has(flag));
    let implied = implied.filter(|(flag, _)| reads || *flag != "readonly");
    let implied = implied.flat_map(|(_, categories)| categories.iter().copied());
    let slow = (!item.has("fast")).then_some("slow");
    let named = own.chain(implied).chain(slow).filter_map(category);
    item.categories = named.fold(0, |bits, category| bits | 1 << category);
    item
}

/// The number of a category.
pub(crate) fn category(name: &str) -> Option<usize> {
    let mut known = CATEGORIES.iter();
    known.position(|known| known.eq_ignore_ascii_case(name))
}

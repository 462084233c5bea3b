//! The specifications of keys in COMMAND INFO: rules by which a client finds the keys of a command and their access.
//!
//! They follow from the positions of the keys in the table of commands, and from the access in the catalogue.

use super::reply::Reply;
use super::{ALL, Keys, Known, ONE};

/// Where the search for keys begins.
#[derive(Debug, Clone, Copy)]
enum Begin {
    At(i32),
    /// Behind a word, which is looked for from this index on.
    Behind(&'static str, i32),
    Unknown,
}

/// The words that are keys from there on.
#[derive(Debug, Clone, Copy)]
enum Find {
    /// Up to an index from the beginning, or from the end of the words if it is negative; with a step, and the part of the
    /// words that are keys (1/2 for 2).
    Range(i32, i32, i32),
    /// As many as their first word says.
    Counted,
    Unknown,
}

/// A specification: where keys are, and the place of their access in the catalogue.
type Spec = (Begin, Find, usize);

const ONE_WORD: Find = Find::Range(0, 1, 0);

/// The positions of keys that COMMAND INFO shows. The channels of shards are keys there.
pub(super) fn shown_keys(known: &Known) -> Keys {
    match known.keys {
        Keys::None if known.item.has_channels() && known.arity > 0 => ONE,
        Keys::None if known.item.has_channels() => ALL,
        keys => keys,
    }
}

/// Writes the specifications of the keys of a command.
pub(super) fn reply_specs(reply: &mut Reply<'_>, known: &Known) {
    let specs = specs(known);
    reply.set(specs.len());
    for (number, (begin, find, place)) in specs.into_iter().enumerate() {
        let notes = notes(known, number);
        reply.map(3 + usize::from(notes.is_some()));
        if let Some(notes) = notes {
            reply.bulk(b"notes");
            reply.bulk(notes.as_bytes());
        }
        let flags = known.item.access(place).flags().iter();
        let variable = ["SET", "BITFIELD"].contains(&known.name);
        // A word KEYS can be a value of another option.
        let is_incomplete = known.keys == Keys::Migrated && number == 1;
        let flags: Vec<&str> = flags
            .copied()
            .chain(variable.then_some("variable_flags"))
            .chain(is_incomplete.then_some("incomplete"))
            .collect();
        reply.bulk(b"flags");
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
        reply_begin(reply, begin);
        reply_find(reply, find);
    }
}

fn specs(known: &Known) -> Vec<Spec> {
    let streams = |from| (Begin::Behind("STREAMS", from), Find::Range(-1, 1, 2), 0);
    match shown_keys(known) {
        Keys::None => Vec::new(),
        Keys::At(first, last, step) => ranges(known, first, last, step),
        Keys::TargetAndSources => ranges(known, 1, -1, 1),
        Keys::Counted(place) | Keys::CountedOrNone(place) => {
            vec![(Begin::At(place as i32), Find::Counted, 0)]
        }
        Keys::TargetAndCounted => vec![
            (Begin::At(1), ONE_WORD, 0),
            (Begin::At(2), Find::Counted, 1),
        ],
        Keys::Streams if known.name == "XREADGROUP" => vec![streams(4)],
        Keys::Streams => vec![streams(1)],
        Keys::OneAndStored(place) => vec![
            (Begin::At(1), ONE_WORD, 0),
            (Begin::Behind("STORE", place as i32), ONE_WORD, 1),
            (Begin::Behind("STOREDIST", place as i32), ONE_WORD, 1),
        ],
        Keys::OneAndPatterns => vec![
            (Begin::At(1), ONE_WORD, 0),
            (Begin::Unknown, Find::Unknown, 0),
        ],
        Keys::Migrated => vec![
            (Begin::At(3), ONE_WORD, 0),
            (Begin::Behind("KEYS", -2), Find::Range(-1, 1, 0), 0),
        ],
        Keys::Sort => vec![
            (Begin::At(1), ONE_WORD, 0),
            (Begin::Unknown, Find::Unknown, 0),
            (Begin::Unknown, Find::Unknown, 1),
        ],
    }
}

/// A specification for each access: a word each, and the last one for all further keys.
fn ranges(known: &Known, first: i32, last: i32, step: i32) -> Vec<Spec> {
    let accesses = known.item.accesses();
    let spec = |place: usize| {
        let begin = first + place as i32;
        let find = match last {
            _ if place + 1 < accesses => ONE_WORD,
            ..0 => Find::Range(last, step, 0),
            _ => Find::Range(last - begin, step, 0),
        };
        (Begin::At(begin), find, place)
    };
    (0..accesses).map(spec).collect()
}

fn reply_begin(reply: &mut Reply<'_>, begin: Begin) {
    reply.bulk(b"begin_search");
    match begin {
        Begin::At(index) => reply_rule(reply, "index", &[("index", index)]),
        Begin::Behind(word, from) => {
            reply_kind(reply, "keyword", 2);
            reply.bulk(b"keyword");
            reply.bulk(word.as_bytes());
            reply.bulk(b"startfrom");
            reply.integer(from.into());
        }
        Begin::Unknown => reply_rule(reply, "unknown", &[]),
    }
}

fn reply_find(reply: &mut Reply<'_>, find: Find) {
    reply.bulk(b"find_keys");
    match find {
        Find::Range(last, step, limit) => {
            let numbers = [("lastkey", last), ("keystep", step), ("limit", limit)];
            reply_rule(reply, "range", &numbers);
        }
        Find::Counted => {
            let numbers = [("keynumidx", 0), ("firstkey", 1), ("keystep", 1)];
            reply_rule(reply, "keynum", &numbers);
        }
        Find::Unknown => reply_rule(reply, "unknown", &[]),
    }
}

fn reply_rule(reply: &mut Reply<'_>, kind: &str, numbers: &[(&str, i32)]) {
    reply_kind(reply, kind, numbers.len());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(i64::from(*number));
    }
}

/// The kind of a rule, and the header of its fields.
fn reply_kind(reply: &mut Reply<'_>, kind: &str, fields: usize) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(fields);
}

/// The notes of Redis on a specification.
fn notes(known: &Known, number: usize) -> Option<&'static str> {
    Some(match (known.name, number) {
        ("SET", _) => "RW and ACCESS due to the optional `GET` argument",
        ("BITFIELD", _) => "This command allows both access and modification of the key",
        ("GETEX", _) => "RW and UPDATE because it changes the TTL",
        ("PFCOUNT", _) => {
            "RW because it may change the internal representation of the key, and propagate to replicas"
        }
        ("XADD", _) => "UPDATE instead of INSERT because of the optional trimming feature",
        ("EVAL" | "FCALL", _) => {
            "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE"
        }
        ("EVAL_RO" | "FCALL_RO", _) => {
            "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS"
        }
        ("SORT" | "SORT_RO", 1) => {
            "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort"
        }
        ("SORT", 2) => {
            "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array"
        }
        _ => return None,
    })
}

//! The built-in workloads.

use loadline_load::keys::KeyDist;
use loadline_load::values::ValueSize;

use super::catalog::Family;
use super::template::FIELDS;
use super::{
    COLLECTION_KEYS, Definition, ELEMENTS, HASH_KEYS, Operation, Rules, STRING_KEYS, VALUE_BYTES,
};

/// Their names.
pub(crate) const NAMES: [&str; 24] = [
    "ping",
    "get",
    "set",
    "del",
    "incr",
    "mget",
    "mset",
    "getset-70-30",
    "sadd",
    "smembers",
    "hset",
    "hget",
    "lpush",
    "lrange",
    "zadd",
    "xadd",
    "xread",
    "publish",
    "ycsb-a",
    "ycsb-b",
    "ycsb-c",
    "ycsb-d",
    "ycsb-e",
    "ycsb-f",
];

/// The exponent of YCSB's zipfian distribution.
const YCSB_EXPONENT: f64 = 0.99;
/// Bytes of each field of a YCSB record.
const YCSB_FIELD_BYTES: u64 = 100;
/// Records that a scan returns at most: the mean of YCSB's uniform 1 to 100. A length that changes
/// from scan to scan would need numbers of changing width.
const YCSB_SCAN: u64 = 50;

/// The workload called `name`, in upper or lower case; `batch` is the number of keys of MGET and MSET.
pub(crate) fn named(name: &str, batch: u32) -> Option<Definition> {
    let name = name.to_ascii_lowercase();
    if let Some(letter) = name.strip_prefix("ycsb-") {
        return ycsb(&name, letter);
    }
    let mget = format!("MGET{}", " {key}".repeat(batch as usize));
    let mset = format!("MSET{}", " {key} {value}".repeat(batch as usize));
    let definition = match name.as_str() {
        "ping" => bare(&name, STRING_KEYS, &["PING"]),
        "get" => strings(&name, &[(1, "GET {key}")]),
        "set" => strings(&name, &[(1, "SET {key} {value}")]),
        "getset-70-30" => strings(&name, &[(70, "GET {key}"), (30, "SET {key} {value}")]),
        "mget" => strings(&name, &[(1, &mget)]),
        "mset" => strings(&name, &[(1, &mset)]),
        // A bare DEL would soon find nothing to delete, and be fast for that reason.
        "del" => bare(&name, STRING_KEYS, &["SET {key} {value}", "DEL {samekey}"]),
        "incr" => bare(&name, STRING_KEYS, &["INCR {key}"]),
        "sadd" => bare(&name, HASH_KEYS, &["SADD {key} {member}"]),
        "smembers" => loaded(&name, COLLECTION_KEYS, Family::Set, "SMEMBERS {key}"),
        "hset" => Definition {
            space: "hash".into(),
            ..loaded(&name, HASH_KEYS, Family::Hash, "HSET {key} {field} {value}")
        },
        "hget" => Definition {
            space: "hash".into(),
            ..loaded(&name, HASH_KEYS, Family::Hash, "HGET {key} {field}")
        },
        "lpush" => bare(&name, HASH_KEYS, &["LPUSH {key} {value}"]),
        "lrange" => loaded(&name, COLLECTION_KEYS, Family::List, "LRANGE {key} 0 99"),
        "zadd" => bare(&name, HASH_KEYS, &["ZADD {key} {score} {member}"]),
        // Without a bound the streams of a long run would fill the server.
        "xadd" => bare(
            &name,
            COLLECTION_KEYS,
            &["XADD {key} MAXLEN ~ 1000 * field {value}"],
        ),
        "xread" => loaded(
            &name,
            COLLECTION_KEYS,
            Family::Stream,
            "XREAD COUNT 10 STREAMS {key} 0",
        ),
        "publish" => bare(&name, STRING_KEYS, &["PUBLISH {prefix}channel {value}"]),
        _ => return None,
    };
    Some(definition)
}

/// The operation that writes a value of `family` to every key.
pub(crate) fn load_of(family: Family) -> Operation {
    let each = |element: &dyn Fn(u64) -> String, count: u64| {
        (0..count)
            .map(|index| format!(" {}", element(index)))
            .collect::<String>()
    };
    match family {
        Family::Text | Family::Any => operation(&["SET {key} {value}"]),
        Family::Hash => operation(&[format!("HSET {{key}}{}", fields())]),
        Family::List => operation(&[format!(
            "RPUSH {{key}}{}",
            each(&|_| "{value}".into(), ELEMENTS)
        )]),
        // Literals in the form of the placeholder {member}.
        Family::Set => operation(&[format!(
            "SADD {{key}}{}",
            each(&|index| format!("member:{index:08}"), ELEMENTS)
        )]),
        Family::SortedSet => operation(&[format!(
            "ZADD {{key}}{}",
            each(&|index| format!("{index} member:{index:08}"), ELEMENTS)
        )]),
        Family::Stream => {
            let entry = |key: &str| format!("XADD {key} * field {{value}}");
            let first = std::iter::once(entry("{key}"));
            operation(
                &first
                    .chain((1..ELEMENTS).map(|_| entry("{samekey}")))
                    .collect::<Vec<_>>(),
            )
        }
    }
}

/// YCSB's core workloads, with its Redis binding's way of storing: a record is a hash of ten fields,
/// and scans go over a sorted set of all keys.
fn ycsb(name: &str, letter: &str) -> Option<Definition> {
    const READ: &str = "HGETALL {key}";
    const UPDATE: &str = "HSET {key} {field} {value}";
    let scan = format!("ZRANGEBYSCORE {{prefix}}index {{number}} +inf LIMIT 0 {YCSB_SCAN}");
    let insert = format!("HSET {{newkey}}{}", fields());
    let index = "ZADD {prefix}index {samenumber} {samekey}";
    let one = |weight, line: &str| operation(&[line]).weighing(weight);
    let (operations, space) = match letter {
        "a" => (vec![one(50, READ), one(50, UPDATE)], "ycsb"),
        "b" => (vec![one(95, READ), one(5, UPDATE)], "ycsb"),
        "c" => (vec![one(1, READ)], "ycsb"),
        "d" => (vec![one(95, READ), one(5, &insert)], "ycsb-d"),
        "e" => (
            vec![
                one(95, &scan),
                operation(&[insert.as_str(), index]).weighing(5),
            ],
            "ycsb-e",
        ),
        // Both commands are sent together, as one operation with two replies.
        "f" => (
            vec![
                one(50, READ),
                operation(&[READ, "HSET {samekey} {field} {value}"]).weighing(50),
            ],
            "ycsb",
        ),
        _ => return None,
    };
    let record = format!("HSET {{key}}{}", fields());
    let load = if letter == "e" {
        operation(&[record.as_str(), index])
    } else {
        operation(&[record])
    };
    let key_dist = if letter == "d" {
        KeyDist::Latest
    } else {
        KeyDist::Zipf {
            exponent: YCSB_EXPONENT,
        }
    };
    Some(Definition {
        name: name.to_owned(),
        space: space.to_owned(),
        operations,
        load: Some(load),
        keys: HASH_KEYS,
        key_dist,
        value_size: ValueSize::Fixed(YCSB_FIELD_BYTES),
        rules: Rules::default(),
    })
}

/// All fields of a hash, in the form of the placeholder {field}.
fn fields() -> String {
    (0..FIELDS)
        .map(|index| format!(" field:{index:08} {{value}}"))
        .collect()
}

/// A workload over strings that are loaded before. They share one space: what SET writes is what GET reads.
fn strings(name: &str, mix: &[(u32, &str)]) -> Definition {
    let operations = mix
        .iter()
        .map(|(weight, line)| operation(&[*line]).weighing(*weight))
        .collect();
    Definition {
        space: "string".into(),
        operations,
        load: Some(load_of(Family::Text)),
        ..bare(name, STRING_KEYS, &["PING"])
    }
}

/// A workload over values of `family` that are loaded before.
fn loaded(name: &str, keys: u64, family: Family, line: &str) -> Definition {
    Definition {
        load: Some(load_of(family)),
        ..bare(name, keys, &[line])
    }
}

/// A workload that needs no data.
pub(crate) fn bare(name: &str, keys: u64, lines: &[&str]) -> Definition {
    Definition {
        name: name.to_owned(),
        space: name.to_owned(),
        operations: vec![operation(lines)],
        load: None,
        keys,
        key_dist: KeyDist::Uniform,
        value_size: ValueSize::Fixed(VALUE_BYTES),
        rules: Rules::default(),
    }
}

/// A workload called `name` of weighted commands over strings that are loaded before. Workloads of one `space` share
/// their keys.
pub(crate) fn over_strings(name: &str, space: &str, commands: &[&str]) -> Definition {
    let parsed = |command: &&str| {
        super::weighted(command).expect("the built-in workloads are tested one by one")
    };
    Definition {
        space: space.to_owned(),
        operations: commands.iter().map(parsed).collect(),
        load: Some(load_of(Family::Text)),
        ..bare(name, STRING_KEYS, &["PING"])
    }
}

/// An operation of valid lines.
pub(crate) fn operation<S: AsRef<str>>(lines: &[S]) -> Operation {
    Operation::parse(lines).expect("the built-in workloads are tested one by one")
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_load::workload::Part;

    #[test]
    fn every_name_is_a_workload() {
        for name in NAMES {
            let definition = named(name, 10).unwrap();
            assert_eq!(definition.name, name);
            let compiled =
                definition.compile("loadline:r:s:", definition.keys, &definition.value_size);
            assert!(!compiled.commands.is_empty());
            // Values of sizes that differ must be possible everywhere.
            definition.compile("loadline:r:s:", definition.keys, &ValueSize::Range(1, 9));
        }
        let shown = |name: &str| format!("{:?}", named(name, 10).unwrap());
        assert_eq!(shown("YCSB-A"), shown("ycsb-a"));
        assert!(
            named("nope", 10).is_none()
                && named("ycsb-g", 10).is_none()
                && named("a", 10).is_none()
        );
    }

    #[test]
    fn reading_workloads_have_a_load() {
        for name in NAMES {
            let definition = named(name, 10).unwrap();
            let reads = definition
                .operations
                .iter()
                .flat_map(|operation| &operation.templates)
                .any(|template| template.known().gives.reads());
            assert!(!reads || definition.load.is_some(), "{name}");
        }
    }

    #[test]
    fn batches_have_their_size() {
        let keys = |name: &str| {
            let compiled = named(name, 7)
                .unwrap()
                .compile("p:", 100, &ValueSize::Fixed(8));
            compiled.commands[0]
                .parts
                .iter()
                .filter(|part| matches!(part, Part::Number(..)))
                .count()
        };
        assert_eq!([keys("mget"), keys("mset")], [7, 7]);
    }

    #[test]
    fn inserting_workloads_have_room_and_a_space_of_their_own() {
        for name in ["ycsb-d", "ycsb-e"] {
            let definition = named(name, 10).unwrap();
            let compiled = definition.compile("p:", 100, &ValueSize::Fixed(8));
            let load = compiled.load.unwrap();
            let numbers = compiled
                .commands
                .iter()
                .chain([&load])
                .flat_map(|command| &command.parts)
                .filter_map(|part| match part {
                    Part::Number(loadline_load::workload::Number::Below(_), _) => None,
                    Part::Number(_, digits) => Some(digits.width()),
                    _ => None,
                });
            assert!(numbers.into_iter().all(|width| width == 16), "{name}");
            assert_eq!(definition.space, name);
        }
    }

    /// The shares of `workloads/workload[a-f]` of YCSB 0.17, with the commands that stand for them.
    #[test]
    fn ycsb_has_its_published_mixes() {
        const READ: &[&str] = &["HGETALL"];
        const UPDATE: &[&str] = &["HSET"];
        const READ_MODIFY_WRITE: &[&str] = &["HGETALL", "HSET"];
        const SCAN: &[&str] = &["ZRANGEBYSCORE"];
        const INDEXED_INSERT: &[&str] = &["HSET", "ZADD"];
        for (letter, mix) in [
            ("a", &[(50, READ), (50, UPDATE)][..]),
            ("b", &[(95, READ), (5, UPDATE)]),
            ("c", &[(100, READ)]),
            ("d", &[(95, READ), (5, UPDATE)]),
            ("e", &[(95, SCAN), (5, INDEXED_INSERT)]),
            ("f", &[(50, READ), (50, READ_MODIFY_WRITE)]),
        ] {
            let definition = named(&format!("ycsb-{letter}"), 10).unwrap();
            let weights = definition.operations.iter().map(|one| one.weight);
            let total: u32 = weights.sum();
            let shown: Vec<(u32, Vec<&str>)> = definition
                .operations
                .iter()
                .map(|operation| {
                    let names = operation.templates.iter().map(|one| one.known().name);
                    (operation.weight * 100 / total, names.collect())
                })
                .collect();
            let wanted: Vec<(u32, Vec<&str>)> = mix
                .iter()
                .map(|(share, names)| (*share, names.to_vec()))
                .collect();
            assert_eq!(shown, wanted, "{letter}");
            let makes_keys =
                |operation: &Operation| operation.templates.iter().any(|one| one.inserts());
            let inserts = definition.operations.iter().any(makes_keys);
            assert_eq!(inserts, ["d", "e"].contains(&letter), "{letter}");
            let dist = if letter == "d" {
                KeyDist::Latest
            } else {
                KeyDist::Zipf { exponent: 0.99 }
            };
            assert_eq!(definition.key_dist, dist, "{letter}");
            assert_eq!(definition.value_size, ValueSize::Fixed(100), "{letter}");
        }
    }

    #[test]
    fn streams_are_loaded_entry_by_entry() {
        let compiled = named("xread", 10)
            .unwrap()
            .compile("p:", 100, &ValueSize::Fixed(8));
        assert_eq!(compiled.load.unwrap().replies, 100);
    }
}

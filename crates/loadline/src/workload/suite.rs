//! Suites: several cases under one name. `manager` is what the Redis manager of a game server does,
//! one thing at a time, after a write-up that measured one; `manager-classic` are those of its cases
//! that the write-up's baseline file keeps.

use loadline_load::keys::KeyDist;
use loadline_load::values::{ValueData, ValueSize};

use super::builtin::{self, bare, operation};
use super::catalog::Family;
use super::{Definition, ELEMENTS, Task};

/// The names of the suites.
pub(crate) const SUITES: [&str; 2] = ["manager", "manager-classic"];

/// SET in one pipeline of `pipeline_set`.
pub(crate) const PIPELINE_BATCH: u32 = 100;
/// Keys of cases over strings. `del` removes as many in one block at most.
const KEYS: u64 = 20_000;
/// Zones with a set of players, and streams.
const COLLECTIONS: u64 = 100;
/// Bytes of a session.
const SESSION_BYTES: u64 = 512;
/// What the manager writes is gone after a minute.
const SET: &str = "SET {key} {value} EX 60";
/// Events, with four fields and with five.
const EVENTS: [&str; 2] = [
    "XADD {key} * type move player {member} x {score} y {score}",
    "XADD {key} * type move player {member} zone {member} x {score} y {score}",
];
/// The cases that `manager-classic` has, too: the keys of the write-up's file are about these.
const CLASSIC: [&str; 7] = [
    "set",
    "get",
    "del",
    "xadd",
    "xread",
    "set_sequential",
    "pipeline_set",
];

/// What the write-up states as its targets. Its percentiles are for operations; making connections is
/// not one. Its 10 MB are those of a manager with a pool of ten connections, hence 1 MB for each. Its
/// 5,000 operations per second are for one after the other.
const LIMITS: [&str; 15] = [
    "set.p99<10ms",
    "get.p99<10ms",
    "del.p99<10ms",
    "session_set.p99<10ms",
    "session_get.p99<10ms",
    "zone_sadd.p99<10ms",
    "zone_smembers.p99<10ms",
    "xadd.p99<10ms",
    "xread.p99<10ms",
    "set_sequential.p99<10ms",
    "set_sequential.throughput>5k/s",
    "pipeline_set.p99<10ms",
    "pubsub.p99<10ms",
    "stream.p99<10ms",
    "connection_memory.client_memory<1MB",
];

/// The cases of the suite called `name`, in whatever case, in the order in which they are measured.
pub(crate) fn suite(name: &str) -> Option<Vec<Definition>> {
    let suite = SUITES
        .into_iter()
        .find(|suite| suite.eq_ignore_ascii_case(name))?;
    let mut cases = manager();
    if suite != SUITES[0] {
        cases.retain(|case| CLASSIC.contains(&case.name.as_str()));
    }
    for case in &mut cases {
        case.rules.suite = Some(suite);
    }
    Some(cases)
}

/// The limits that a suite with the cases `names` is meant to keep.
pub(crate) fn default_limits(names: &[&str]) -> Vec<&'static str> {
    let is_there = |limit: &&str| {
        let case = limit.split('.').next().unwrap_or_default();
        names.contains(&case)
    };
    LIMITS.into_iter().filter(is_there).collect()
}

fn manager() -> Vec<Definition> {
    vec![
        case("set", KEYS, &[SET]),
        loaded(case("get", KEYS, &["GET {key}"]), Family::Text),
        del(),
        session("session_set", &[SET], false),
        session("session_get", &["GET {key}"], true),
        case("zone_sadd", COLLECTIONS, &["SADD {key} {member}"]),
        loaded(
            case("zone_smembers", COLLECTIONS, &["SMEMBERS {key}"]),
            Family::Set,
        ),
        xadd(),
        xread(),
        Definition {
            key_dist: KeyDist::Sequential,
            ..case("set_sequential", KEYS, &[SET])
        },
        task("pipeline_set", Task::Pipeline, "SET {key} {value} PX 60000"),
        task("pubsub", Task::PubSub, "PUBLISH {prefix}channel {value}"),
        task(
            "stream",
            Task::Stream,
            "XADD {prefix}events MAXLEN ~ 1000 * event {value}",
        ),
        task("pool_init", Task::PoolInit, "PING"),
        task("connect", Task::Connect, "PING"),
        task("connection_memory", Task::ConnectionMemory, "PING"),
    ]
}

/// Every key is there when its turn comes: all are written again before each block, and a block ends
/// when it has removed them all.
fn del() -> Definition {
    let mut removal = operation(&["DEL {key}"]);
    removal.reads = Some(true);
    let mut del = case("del", KEYS, &["DEL {key}"]);
    del.operations = vec![removal];
    del.key_dist = KeyDist::Sequential;
    del.rules.before = Some(builtin::load_of(Family::Text));
    del.rules.consumes = true;
    del
}

fn session(name: &str, lines: &[&str], verify: bool) -> Definition {
    let mut session = case(name, KEYS, lines);
    session.value_size = ValueSize::Fixed(SESSION_BYTES);
    session.rules.value_data = ValueData::Binary;
    session.rules.verify = verify;
    if verify {
        session = loaded(session, Family::Text);
    }
    session
}

/// The streams are emptied before each block: they are not capped, since the write-up's are not, and
/// would fill the server.
fn xadd() -> Definition {
    let mut xadd = case("xadd", COLLECTIONS, &EVENTS);
    xadd.rules.before = Some(operation(&["DEL {key}"]));
    xadd
}

fn xread() -> Definition {
    let line = format!("XREAD COUNT {ELEMENTS} STREAMS {{key}} 0");
    let mut xread = case("xread", COLLECTIONS, &[&line]);
    let entry = |key: &str| EVENTS[1].replace("{key}", key);
    let first = std::iter::once(entry("{key}"));
    let rest = (1..ELEMENTS).map(|_| entry("{samekey}"));
    xread.load = Some(operation(&first.chain(rest).collect::<Vec<_>>()));
    xread
}

fn task(name: &str, task: Task, line: &str) -> Definition {
    let mut definition = case(name, KEYS, &[line]);
    definition.rules.task = Some(task);
    definition
}

fn loaded(definition: Definition, family: Family) -> Definition {
    Definition {
        load: Some(builtin::load_of(family)),
        ..definition
    }
}

/// A case of one command at a time over data of its own; several lines are a mix in equal shares.
fn case(name: &str, keys: u64, lines: &[&str]) -> Definition {
    let mut definition = bare(name, keys, &["PING"]);
    definition.operations = lines.iter().map(|line| operation(&[*line])).collect();
    definition
}

/// The sentence about the cases that `target` cannot do, each with the commands that it lacks; `None`
/// where it can do all.
pub(crate) fn left_out<'c>(
    target: &str,
    cases: impl IntoIterator<Item = (&'c str, Vec<String>)>,
) -> Option<String> {
    let (mut names, mut commands) = (Vec::new(), Vec::new());
    for (name, lacks) in cases {
        if !lacks.is_empty() {
            names.push(name);
            commands.extend(lacks);
        }
    }
    commands.sort_unstable();
    commands.dedup();
    (!names.is_empty()).then(|| {
        format!(
            "{target} has no {}: {} left out.",
            commands.join(" and no "),
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::Operation;
    use super::*;

    #[test]
    fn a_suite_has_cases_of_its_own_names_and_spaces() {
        for name in SUITES {
            let cases = suite(name).unwrap();
            let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
            let spaces: BTreeSet<&str> = cases.iter().map(|case| case.space.as_str()).collect();
            assert_eq!((names.len(), spaces.len()), (cases.len(), cases.len()));
            for case in &cases {
                assert_eq!(case.rules.suite, Some(name));
                let compiled = case.compile("loadline:r:s:", case.keys, &case.value_size);
                assert!(!compiled.commands.is_empty(), "{}", case.name);
            }
        }
        assert_eq!(suite("Manager-Classic").unwrap().len(), CLASSIC.len());
        assert!(suite("managers").is_none());
    }

    #[test]
    fn what_is_read_or_removed_is_there() {
        for case in suite("manager").unwrap() {
            let reads = case.operations.iter().any(Operation::reads);
            let filled = case.load.is_some() || case.rules.before.is_some();
            assert!(!reads || filled, "{}", case.name);
        }
    }

    #[test]
    fn limits_are_about_cases_that_are_there() {
        for text in LIMITS {
            let limit: loadline_measure::Limit = text.parse().unwrap();
            let concerned = manager()
                .iter()
                .filter(|case| limit.concerns(&case.name))
                .count();
            assert_eq!(concerned, 1, "{text}");
        }
        assert_eq!(default_limits(&["xread"]), ["xread.p99<10ms"]);
        assert_eq!(default_limits(&["connect", "pool_init"]), [""; 0]);
    }

    #[test]
    fn what_is_left_out_is_one_sentence() {
        let lacks = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        assert_eq!(
            left_out(
                "embedded",
                [
                    ("set", lacks(&[])),
                    ("xadd", lacks(&["XADD"])),
                    ("stream", lacks(&["XADD", "XREAD"])),
                ]
            ),
            Some("embedded has no XADD and no XREAD: xadd, stream left out.".to_owned())
        );
        assert_eq!(left_out("embedded", [("set", lacks(&[]))]), None);
    }
}

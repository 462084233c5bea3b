//! The suite `manager` is what the Redis manager of a game server does, one operation at a time, after a
//! write-up that measured one. `manager-classic` has those of its cases that the write-up's baseline file keeps.

pub(crate) mod classic;
mod delivery;
mod made;
mod memory;

use std::fmt;

use loadline_load::keys::KeyDist;
use loadline_load::values::{ValueData, ValueSize};

use crate::exit::Failure;
use crate::workload::{Bundle, Definition, ELEMENTS, Family, Job, bare, load_of, operation};

pub(crate) use memory::hold_connections;

/// All cases.
pub(super) const MANAGER: Bundle = Bundle {
    name: "manager",
    cases: manager,
    limits: &LIMITS,
};
/// The cases that the write-up's baseline file keeps.
pub(super) const MANAGER_CLASSIC: Bundle = Bundle {
    name: classic::SUITE,
    cases: manager_classic,
    limits: &LIMITS,
};

/// Keys of cases over strings. `del` removes as many in one block at most.
const KEYS: u64 = 20_000;
/// Zones with a set of players, and streams.
const COLLECTIONS: u64 = 100;
/// Bytes of a session.
const SESSION_BYTES: u64 = 512;
/// The manager's keys expire after a minute.
const SET: &str = "SET {key} {value} EX 60";
/// Events, with four fields and with five.
const EVENTS: [&str; 2] = [
    "XADD {key} * type move player {member} x {score} y {score}",
    "XADD {key} * type move player {member} zone {member} x {score} y {score}",
];
/// The cases of `manager-classic`, which the keys of the write-up's file refer to.
const CLASSIC: [&str; 7] = [
    "set",
    "get",
    "del",
    "xadd",
    "xread",
    "set_sequential",
    "pipeline_set",
];

/// The targets that the write-up states. Its percentiles are for operations; making connections is not one. Its 10 MB are those of a manager with a pool of ten connections, hence 1 MB for each. Its
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

fn manager_classic() -> Vec<Definition> {
    let mut cases = manager();
    cases.retain(|case| CLASSIC.contains(&case.name.as_str()));
    cases
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
        performed(
            "pipeline_set",
            &delivery::PipelineSet,
            "SET {key} {value} PX 60000",
        ),
        performed(
            "pubsub",
            &delivery::Message,
            "PUBLISH {prefix}channel {value}",
        ),
        performed(
            "stream",
            &delivery::Entry,
            "XADD {prefix}events MAXLEN ~ 1000 * event {value}",
        ),
        performed("pool_init", &made::PoolInit, "PING"),
        performed("connect", &made::Connect, "PING"),
        performed("connection_memory", &memory::ConnectionMemory, "PING"),
    ]
}

/// Every key is there when its turn comes: all are written again before each block, and a block ends
/// when it has removed them all.
fn del() -> Definition {
    let mut del = case("del", KEYS, &["DEL {key}"]);
    del.operations = vec![operation(&["DEL {key}"]).reading()];
    del.key_dist = KeyDist::Sequential;
    del.rules.before = Some(load_of(Family::Text));
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

/// A case that `job` performs.
fn performed(name: &str, job: &'static dyn Job, line: &str) -> Definition {
    let mut definition = case(name, KEYS, &[line]);
    definition.rules.job = Some(job);
    definition
}

fn loaded(definition: Definition, family: Family) -> Definition {
    Definition {
        load: Some(load_of(family)),
        ..definition
    }
}

/// A case of one command at a time over data of its own; several lines are a mix in equal shares.
fn case(name: &str, keys: u64, lines: &[&str]) -> Definition {
    let mut definition = bare(name, keys, &["PING"]);
    definition.operations = lines.iter().map(|line| operation(&[*line])).collect();
    definition
}

/// The failure of a case whose job cannot be opened.
fn unreachable(case: &str, error: &impl fmt::Display) -> Failure {
    Failure::unavailable(format!("{case}: {error}."))
}

#[cfg(test)]
mod tests;

//! A limit of memory at which keys are removed.

use std::io::{Read, Write};
use std::net::TcpStream;

use loadline_server::{Eviction, ServerConfig};

use crate::support::{Ours, ask, ask_one};

const LIMIT: u64 = 6 << 20;

fn limited(eviction: Eviction) -> Ours {
    Ours::start(ServerConfig {
        max_memory_bytes: LIMIT,
        eviction,
        ..ServerConfig::default()
    })
}

/// A number of INFO.
fn info(stream: &mut TcpStream, name: &str) -> u64 {
    let text = ask(stream, "INFO");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|line| line.strip_prefix(':')).unwrap();
    value.trim().parse().unwrap()
}

/// Puts some keys of a kind, with the words behind the value, and returns how many were put.
fn put(stream: &mut TcpStream, kind: &str, keys: std::ops::Range<usize>, words: &str) -> usize {
    let value = "v".repeat(200);
    let count = keys.len();
    let set = |key| format!("SET {kind}:{key} {value}{words}\r\n");
    let requests: String = keys.map(set).collect();
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(requests.as_bytes()).unwrap());
    let (mut line, mut lines, mut stored) = (Vec::new(), 0, 0);
    let mut buffer = [0; 16 << 10];
    while lines < count {
        let read = stream.read(&mut buffer).unwrap();
        for byte in &buffer[..read] {
            line.push(*byte);
            if *byte == b'\n' {
                lines += 1;
                match &line[..] {
                    b"+OK\r\n" => stored += 1,
                    other => assert!(
                        other.starts_with(b"-OOM "),
                        "{:?}",
                        String::from_utf8_lossy(other)
                    ),
                }
                line.clear();
            }
        }
    }
    sender.join().unwrap();
    stored
}

#[test]
fn uses_are_counted_without_a_limit() {
    let ours = Ours::start(ServerConfig {
        eviction: Eviction::LeastUsed,
        ..ServerConfig::default()
    });
    let mut stream = ours.connect();
    ask(&mut stream, "SET k v\r\nSET other v\r\nGET k\r\nGET k");
    let uses = |stream: &mut TcpStream, key: &str| -> u8 {
        let reply = ask(stream, &format!("OBJECT FREQ {key}"));
        reply.trim_start_matches(':').trim().parse().unwrap()
    };
    assert!(uses(&mut stream, "k") > uses(&mut stream, "other"));
}

#[test]
fn least_used_keys_go() {
    const KEYS: usize = 60_000;
    let ours = limited(Eviction::LeastUsed);
    let mut stream = ours.connect();
    let mut stored = put(&mut stream, "used", 0..100, "");
    for first in (0..KEYS).step_by(2_000) {
        // Each is read three times among 2,000 writes.
        for _ in 0..3 {
            for key in 0..100 {
                ask(&mut stream, &format!("GET used:{key}"));
            }
        }
        stored += put(&mut stream, "other", first..first + 2_000, "");
    }
    assert_eq!(stored, KEYS + 100);
    let used = info(&mut stream, "used_memory");
    // Room is made before a command, which then adds to the data.
    assert!((LIMIT / 2..=LIMIT + 4_096).contains(&used), "{used} bytes");
    // The server evicts between commands as well, as long as the last write exceeds the limit.
    ask(&mut stream, "CONFIG SET maxmemory-policy noeviction");
    let evicted = info(&mut stream, "evicted_keys");
    let size: u64 = ask(&mut stream, "DBSIZE").trim()[1..].parse().unwrap();
    assert_eq!(size + evicted, stored as u64);
    let is_there = |stream: &mut TcpStream, key| ask(stream, &format!("EXISTS {key}")) == ":1\r\n";
    let left = (0..100).filter(|key| is_there(&mut stream, format!("used:{key}")));
    assert_eq!(left.count(), 100, "keys that are read often");
    ask(&mut stream, "CONFIG RESETSTAT");
    assert_eq!(info(&mut stream, "evicted_keys"), 0);
}

#[test]
fn only_commands_that_use_a_key_count() {
    // Nothing is evicted here: that makes the counts of other keys smaller.
    let ours = limited(Eviction::LeastUsed);
    let mut stream = ours.connect();
    ask(&mut stream, "SET fresh v");
    // A minute can end meanwhile, which takes one from the counter.
    for counters in [[":5\r\n", ":4\r\n"], [":6\r\n", ":5\r\n"]] {
        // None of these is a use, as in Redis.
        for question in ["EXISTS", "TYPE", "TTL", "OBJECT ENCODING", "MEMORY USAGE"] {
            ask(&mut stream, &format!("{question} fresh"));
        }
        let freq = ask(&mut stream, "OBJECT FREQ fresh");
        assert!(counters.contains(&&*freq), "{freq}");
        assert_eq!(ask(&mut stream, "GET fresh"), "$1\r\nv\r\n");
    }
}

#[test]
fn keys_without_expiry_stay_where_the_policy_says_so() {
    let ours = limited(Eviction::LeastUsedVolatile);
    let mut stream = ours.connect();
    assert_eq!(put(&mut stream, "kept", 0..10_000, ""), 10_000);
    assert_eq!(put(&mut stream, "volatile", 0..60_000, " EX 1000"), 60_000);
    let evicted = info(&mut stream, "evicted_keys");
    assert!(evicted > 20_000, "{evicted}");
    let more = put(&mut stream, "kept", 10_000..60_000, "");
    assert!((1_000..40_000).contains(&more), "{more}");
    let size: usize = ask(&mut stream, "DBSIZE").trim()[1..].parse().unwrap();
    // The last keys with an expiry went, and nothing else did.
    assert_eq!(size, 10_000 + more);
    assert_eq!(ask(&mut stream, "EXISTS kept:0"), ":1\r\n");
}

/// By age, by expiry and at random: each removes what it says, and only keys with an expiry where it says so.
#[test]
fn each_policy_removes_its_keys() {
    const KEYS: usize = 40_000;
    for (name, policy) in Eviction::NAMES {
        let ours = limited(policy);
        let mut stream = ours.connect();
        let get = ask(&mut stream, "CONFIG GET maxmemory-policy");
        assert!(get.contains(name), "{get}");
        assert_eq!(put(&mut stream, "kept", 0..2_000, ""), 2_000, "{name}");
        let stored = put(&mut stream, "volatile", 0..KEYS, " EX 1000");
        let evicted = info(&mut stream, "evicted_keys");
        if policy == Eviction::None {
            assert!(stored < KEYS && evicted == 0, "{name}: {stored} {evicted}");
            continue;
        }
        assert_eq!(stored, KEYS, "{name}");
        assert!(evicted > 10_000, "{name}: {evicted}");
        let keys = (0..2_000).map(|key| format!(" kept:{key}"));
        let exists = keys.fold("EXISTS".to_owned(), |exists, key| exists + &key);
        let kept = ask(&mut stream, &exists);
        let is_volatile = name.starts_with("volatile-");
        assert_eq!(kept == ":2000\r\n", is_volatile, "{name}: {kept}");
        let freq = ask(&mut stream, "SET k v\r\nOBJECT FREQ k");
        let is_shown = freq.starts_with("+OK\r\n:");
        assert_eq!(is_shown, name.ends_with("-lfu"), "{freq}");
    }
}

/// Random keys come from all databases.
#[test]
fn random_keys_of_every_database_go() {
    let ours = limited(Eviction::Random);
    let mut stream = ours.connect();
    for database in [3, 5] {
        ask(&mut stream, &format!("SELECT {database}"));
        assert_eq!(put(&mut stream, "key", 0..8_000, ""), 8_000);
    }
    ask(&mut stream, "SELECT 9");
    assert_eq!(put(&mut stream, "key", 0..10_000, ""), 10_000);
    for database in [3, 5, 9] {
        ask(&mut stream, &format!("SELECT {database}"));
        let size: usize = ask(&mut stream, "DBSIZE").trim()[1..].parse().unwrap();
        assert!((1_000..10_000).contains(&size), "{size} in {database}");
    }
}

#[test]
fn watched_key_that_was_removed_has_changed() {
    let ours = limited(Eviction::LeastUsed);
    let (mut stream, mut other) = (ours.connect(), ours.connect());
    assert_eq!(put(&mut stream, "key", 0..20_000, ""), 20_000);
    for first in (0..20_000).step_by(1_000) {
        let keys = (first..first + 1_000).map(|key| format!(" key:{key}"));
        let watch = keys.fold("WATCH".to_owned(), |watch, key| watch + &key);
        assert_eq!(ask(&mut stream, &watch), "+OK\r\n");
    }
    for (command, reply) in [("MULTI", "+OK\r\n"), ("PING", "+QUEUED\r\n")] {
        assert_eq!(ask_one(&mut stream, command), reply);
    }
    assert_eq!(put(&mut other, "more", 0..20_000, ""), 20_000);
    assert!(info(&mut other, "evicted_keys") > 0);
    assert!(ask_one(&mut stream, "EXEC").starts_with("*-1\r\n"));
}

#[test]
fn limit_and_the_policy_can_be_set_while_it_runs() {
    let ours = Ours::start(ServerConfig::default());
    let mut stream = ours.connect();
    assert_eq!(put(&mut stream, "key", 0..40_000, ""), 40_000);
    let set = format!("CONFIG SET maxmemory {LIMIT} maxmemory-policy ALLKEYS-LFU");
    assert_eq!(ask(&mut stream, &set), "+OK\r\n");
    let policy = ask(&mut stream, "CONFIG GET maxmemory-policy");
    assert!(policy.contains("allkeys-lfu"), "{policy}");
    // It happens by itself, in bounded steps.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while info(&mut stream, "used_memory") > LIMIT {
        assert!(std::time::Instant::now() < until, "the data stays");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(
        ask(&mut stream, "CONFIG SET maxmemory-policy noeviction"),
        "+OK\r\n"
    );
    let stored = put(&mut stream, "more", 0..20_000, "");
    assert!(stored < 20_000, "{stored}");
}

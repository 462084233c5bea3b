//! Scans of servers whose keys come and go, whose connections are killed, and that are restarted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use loadline_client::commands::{del, hset, sadd, set, zadd};
use loadline_client::pool::Limits;
use loadline_client::{Client, Error, Password, Protocol, Scan, blocking, cmd};

use crate::server::{Redis, runtime};

const KEYS: usize = 3_000;

fn names(prefix: &str, count: usize) -> BTreeSet<String> {
    (0..count).map(|n| format!("{prefix}:{n}")).collect()
}

fn write(client: &Client, names: &BTreeSet<String>) {
    let writes = Vec::from_iter(names.iter().map(|name| set(name, 1)));
    let written = client.blocking().unwrap().run(writes);
    written.into_iter().for_each(|written| written.unwrap());
}

/// All that a scan finds, and how many errors came between.
fn found(scanning: blocking::Scanning<'_, String>) -> (BTreeSet<String>, u64) {
    let (mut found, mut errors) = (BTreeSet::new(), 0);
    let begun = Instant::now();
    for element in scanning {
        match element {
            Ok(element) => drop(found.insert(element)),
            Err(Error::Type { .. } | Error::Usage(_)) => panic!("the scan itself is wrong"),
            Err(_) => errors += 1,
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{errors} errors");
    }
    (found, errors)
}

#[test]
fn one_thread_scans_each_kind_of_collection_whole() {
    let redis = Redis::start();
    let names = names("name", 1_000);
    let scores: BTreeMap<&String, f64> = names.iter().zip((0..).map(f64::from)).collect();
    write(&redis.client(), &names);
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let client = redis.builder().protocol(Some(protocol)).build();
        let mut connection = client.blocking().unwrap();
        let pairs = Vec::from_iter(scores.iter().map(|(name, score)| (*name, *score)));
        let pairs_of_scores = Vec::from_iter(scores.iter().map(|(name, score)| (*score, *name)));
        connection.run(hset("hash", &pairs)).unwrap();
        connection.run(sadd("set", &names)).unwrap();
        connection.run(zadd("sorted", &pairs_of_scores)).unwrap();
        let expected = Vec::from_iter(names.iter().cloned());

        let keys = Scan::keys().matching("name:*").of_type("string");
        let (keys, _) = found(connection.scan(keys));
        assert_eq!(keys, names);
        let (kinds, _) = found(connection.scan(Scan::keys().of_type("zset")));
        assert_eq!(Vec::from_iter(kinds), ["sorted"]);
        let (members, _) = found(connection.scan(Scan::set("set").count(10)));
        assert_eq!(Vec::from_iter(members), expected);
        for scan in [Scan::hash("hash"), Scan::sorted_set("sorted").count(1)] {
            let pairs: Result<BTreeMap<String, f64>, _> = connection.scan(scan).collect();
            let pairs = pairs.unwrap();
            assert!(
                pairs
                    .iter()
                    .eq(scores.iter().map(|(name, score)| (*name, score)))
            );
        }
        assert_eq!(connection.scan(Scan::<String>::set("none")).count(), 0);
    }
}

#[test]
fn tasks_scan_on_shared_borrowed_and_owned_connections() {
    let redis = Redis::start();
    let names = names("name", 1_000);
    write(&redis.client(), &names);
    runtime().block_on(async {
        let client = redis.client();
        let shared = client.multiplexed().await.unwrap();
        let pool = client.pool(Limits::default()).await.unwrap();
        let mut borrowed = pool.get().await.unwrap();
        let scan = Scan::<String>::keys().matching("name:*").count(50);
        let mut of_shared = shared.scan(scan.clone());
        let mut of_borrowed = borrowed.scan(scan);
        let (mut one, mut other) = (BTreeSet::new(), BTreeSet::new());
        loop {
            let next = (
                of_shared.next().await.unwrap(),
                of_borrowed.next().await.unwrap(),
            );
            if next == (None, None) {
                break;
            }
            one.extend(next.0);
            other.extend(next.1);
        }
        assert_eq!((&one, &other), (&names, &names));
    });
}

#[test]
fn page_is_asked_for_only_when_the_one_before_is_used_up() {
    let redis = Redis::start();
    write(&redis.client(), &names("name", 1_000));
    let mut connection = redis.client().blocking().unwrap();
    let mut scanning = connection.scan(Scan::<String>::keys().count(100));
    scanning.next().unwrap().unwrap();
    let stats = cmd::<String>("INFO commandstats");
    let scans = |stats: String| {
        let line = stats.lines().find(|line| line.starts_with("cmdstat_scan:"));
        line.unwrap().split([':', ',']).nth(1).unwrap().to_owned()
    };
    let mut other = redis.client().blocking().unwrap();
    assert_eq!(scans(other.run(&stats).unwrap()), "calls=1");
    let rest = scanning.by_ref().filter(Result::is_ok).count();
    assert!(rest >= 999, "{rest}");
    assert!(scanning.next().is_none());
    assert_eq!(scans(other.run(&stats).unwrap()), "calls=10");
}

#[test]
fn fifty_kills_and_keys_that_come_and_go_hide_no_key_from_a_scan() {
    let redis = Redis::start_with(&["--user", "reader", "on", "nopass", "~*", "&*", "+@all"]);
    let names = names("stays", KEYS);
    write(&redis.client(), &names);
    let client = redis
        .builder()
        .login("reader", Password::new("any"))
        .build();
    let mut killer = redis.client().blocking().unwrap();
    let mut connection = client.blocking().unwrap();
    let (mut seen, mut killed, mut elements) = (BTreeSet::new(), 0u64, 0);
    for key in connection.scan(Scan::<String>::keys().matching("stays:*").count(20)) {
        seen.insert(key.unwrap());
        elements += 1;
        if elements % (KEYS / 60) == 0 {
            killed += killer
                .run(cmd::<u64>("CLIENT").arg(("KILL", "USER", "reader")))
                .unwrap();
            // The table grows and shrinks, so that a page and its cursor are of different sizes of it.
            let passing = Vec::from_iter((0..400).map(|n| format!("passing:{n}")));
            if killed % 2 == 1 {
                let writes = Vec::from_iter(passing.iter().map(|name| set(name, 1)));
                drop(killer.run(writes));
            } else {
                killer.run(del(passing)).unwrap();
            }
        }
    }
    println!("{killed} kills, {elements} elements of {KEYS} keys");
    assert!(killed >= 50, "only {killed} connections were killed");
    assert_eq!(seen, names);
}

#[test]
fn server_that_was_restarted_is_scanned_from_its_beginning() {
    let mut redis = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let names = names("stays", KEYS);
    write(&redis.client(), &names);
    let client = redis.client();
    let (mut checked, mut unchecked) = (client.blocking().unwrap(), client.blocking().unwrap());
    let scan = Scan::<String>::keys().count(50);
    let mut guarded = checked.scan(scan.clone());
    let mut plain = unchecked.scan(scan.unchecked());
    let mut half = BTreeSet::new();
    let mut plain_half = BTreeSet::new();
    for _ in 0..KEYS / 2 {
        half.insert(guarded.next().unwrap().unwrap());
        plain_half.insert(plain.next().unwrap().unwrap());
    }
    redis.kill();
    redis.restart();
    let (rest, errors) = found(guarded);
    let (plain_rest, _) = found(plain);
    half.extend(rest);
    plain_half.extend(plain_rest);
    println!(
        "{errors} errors; without a look at the server {} of {KEYS} keys are missing",
        KEYS - plain_half.len()
    );
    assert_eq!(half, names);
    assert!(
        plain_half.len() < KEYS,
        "the restart did not make the cursor meaningless, so this test proves nothing"
    );
}

#[test]
fn scan_of_a_wrong_type_is_an_error_each_time() {
    let redis = Redis::start_with(&["--user", "plain", "on", "nopass", "~*", "+@all", "-info"]);
    let client = redis.client();
    write(&client, &names("name", 10));
    let mut connection = client.blocking().unwrap();
    let mut wrong = connection.scan(Scan::<String>::set("name:1"));
    for _ in 0..2 {
        let error = wrong.next().unwrap().unwrap_err();
        assert!(error.is_server_code("WRONGTYPE"), "{error}");
    }
    let plain = redis.builder().login("plain", Password::new("any")).build();
    let mut connection = plain.blocking().unwrap();
    let error = connection.scan(Scan::<String>::keys()).next().unwrap();
    let error = error.unwrap_err();
    assert!(error.is_server_code("NOPERM"), "{error}");
    let (keys, errors) = found(connection.scan(Scan::keys().unchecked()));
    assert_eq!((keys.len(), errors), (10, 0));
}

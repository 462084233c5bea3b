//! Scans of large collections: in pages, and with every element that is there all the time.

use std::collections::BTreeSet;

use loadline_server::ServerConfig;

use crate::help::{decoded, items, text};
use crate::support::{Ours, ReadWrite, Redis, ask};

/// The next cursor, and the elements, each with its value if it has one.
fn page(stream: &mut dyn ReadWrite, line: &str) -> (String, Vec<String>) {
    let reply = decoded(stream, line);
    let parts = items(&reply);
    (text(&parts[0]), items(&parts[1]).iter().map(text).collect())
}

#[test]
fn large_collections_are_scanned_in_pages() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    for (add, scan, remove, words) in [
        ("SADD k #", "SSCAN", "SREM k #", 1),
        ("HSET k # v", "HSCAN", "HDEL k #", 2),
        ("ZADD k 1.5 #", "ZSCAN", "ZREM k #", 2),
    ] {
        let name = |number: usize| format!("element-{number}");
        let lines = |command: &str, numbers: &mut dyn Iterator<Item = usize>| {
            let lines = numbers.map(|number| command.replace('#', &name(number)));
            lines.collect::<Vec<_>>().join("\r\n")
        };
        for stream in [
            &mut ours.connect() as &mut dyn ReadWrite,
            &mut redis.connect(),
        ] {
            let mut stream = stream;
            let setup = lines(add, &mut (0..2_000));
            ask(&mut stream, &format!("DEL k\r\n{setup}"));
            let (mut cursor, mut seen, mut pages) = ("0".to_owned(), BTreeSet::new(), 0);
            loop {
                let line = format!("{scan} k {cursor} COUNT 100");
                let (next, elements) = page(stream, &line);
                assert!(elements.len() <= words * 200, "{} elements", elements.len());
                seen.extend(elements.into_iter().step_by(words));
                pages += 1;
                if next == "0" {
                    break;
                }
                cursor = next;
                // A third of the elements goes, and others come.
                let gone = lines(
                    remove,
                    &mut (pages * 30..pages * 30 + 30).map(|number| 3 * number),
                );
                let new = lines(add, &mut (10_000 + 10 * pages..10_010 + 10 * pages));
                ask(&mut stream, &format!("{gone}\r\n{new}"));
            }
            assert!(pages > 8, "{scan}: {pages} pages");
            let stay = (0..2_000).filter(|number| number % 3 != 0).map(name);
            let missing: Vec<String> = stay.filter(|name| !seen.contains(name)).collect();
            assert!(missing.is_empty(), "{scan}: {missing:?}");
        }
    }
}

/// As in Redis, small collections are shown as a whole, whatever the count and the cursor.
#[test]
fn small_collections_are_scanned_at_once() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    ask(
        &mut one,
        "SADD s 3 1 2\r\nHSET h a 1 b 2 c 3\r\nZADD z 1 a 2 b 3 c",
    );
    ask(
        &mut other,
        "SADD s 3 1 2\r\nHSET h a 1 b 2 c 3\r\nZADD z 1 a 2 b 3 c",
    );
    for line in [
        "SSCAN s 0 COUNT 1",
        "SSCAN s 7 COUNT 1 MATCH [12]",
        "HSCAN h 0 COUNT 1",
        "HSCAN h 99999999999 COUNT 2",
        "ZSCAN z 0 COUNT 1",
        "ZSCAN z 1 COUNT 1",
    ] {
        assert_eq!(ask(&mut one, line), ask(&mut other, line), "{line}");
    }
}

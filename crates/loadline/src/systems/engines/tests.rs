use std::time::Duration;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Mutex;

use loadline_cache::{Batch, connect};
use loadline_client::Tls;
use loadline_null::{Answers, Reads};
use loadline_resp::Protocol;

use super::*;
use crate::spelling::{Durability, Server};
use crate::systems::client::client;

/// Every engine of this build with each of its classes of durability.
fn opened() -> Vec<(String, EngineAccess)> {
    let classes = ["memory", "process", "interval:10ms", "always"];
    let mut all = Vec::new();
    for (name, kind) in Kind::ALL.into_iter().filter(|(_, kind)| kind.is_built_in()) {
        for class in classes {
            let choice = Choice::Embedded(kind, None);
            let durability = Durability::parse(class).unwrap();
            if choice.lacks(durability).is_none() {
                let engine = Engine {
                    choice,
                    durability,
                    dir: None,
                    cache: None,
                    memory_bytes: None,
                };
                let name = format!("{name}, {class}");
                all.push((name, EngineAccess::open(kind, &engine).unwrap()));
            }
        }
    }
    all
}

fn batch(pairs: &[(&str, &str)]) -> Batch {
    let mut batch = Batch::new();
    for (key, value) in pairs {
        batch.put(key.as_bytes(), value.as_bytes());
    }
    batch
}

fn read(store: &dyn KeyValue, key: &str) -> Option<String> {
    let mut out = Vec::new();
    let is_there = store.get_into(key.as_bytes(), &mut out).unwrap();
    is_there.then(|| String::from_utf8(out).unwrap())
}

#[test]
fn every_engine_reads_what_it_was_given() {
    for (name, access) in opened() {
        let store = access.connect().unwrap();
        store.put(b"a", b"one").unwrap();
        store.put(b"a", b"two").unwrap();
        assert_eq!(read(&*store, "a").as_deref(), Some("two"), "{name}");
        assert_eq!(read(&*store, "b"), None, "{name}");
        store.remove(b"a").unwrap();
        // A missing key can be removed, too.
        store.remove(b"a").unwrap();
        assert_eq!(read(&*store, "a"), None, "{name}");
        let swap = |expected, next| store.compare_and_swap(b"a", expected, next).unwrap();
        assert!(swap(None, Some(&b"1"[..])) && !swap(None, None), "{name}");
        assert!(store.delete(b"a").unwrap() && !store.delete(b"a").unwrap());
    }
}

#[test]
fn every_engine_has_batches() {
    let pairs = batch(&[("a", "1"), ("b", "22"), ("c", "333")]);
    let (mut keys, mut none) = (Keys::default(), Batch::new());
    for (key, _) in pairs.iter() {
        keys.push(|out| out.extend_from_slice(key));
        none.delete(key);
    }
    for (name, access) in opened() {
        let store = access.connect().unwrap();
        store.apply(&pairs).unwrap();
        let mut out = Vec::new();
        assert_eq!(keys.read(&*store, &mut out).unwrap(), 3, "{name}");
        assert_eq!(out, b"122333", "{name}");
        let mut shown = Vec::new();
        let mut show = |key: &[u8], value: &[u8]| shown.push([key, value].concat());
        store.scan(b"b", &mut show).unwrap();
        assert_eq!(shown, [b"b22"], "{name}");
        store.remove(b"b").unwrap();
        store.apply(&none).unwrap();
        assert_eq!(keys.read(&*store, &mut out).unwrap(), 0, "{name}");
    }
}

/// In the order of the keys, except in hash tables; behind the last key comes the first one.
#[test]
fn every_engine_scans_from_a_key_on() {
    let keys: Vec<String> = (0..1_000).map(|key| format!("{key:04}")).collect();
    let pairs: Vec<(&str, &str)> = keys.iter().map(|key| (&key[..], &key[..])).collect();
    for (name, access) in opened() {
        let store = access.connect().unwrap();
        store.apply(&batch(&pairs)).unwrap();
        let is_ordered = !name.starts_with("map") && !name.starts_with("store");
        for (from, count) in [("0000", 1), ("0500", 100), ("0990", 30), ("0007", 1_000)] {
            let mut out = Vec::new();
            let found = scan(&*store, from.as_bytes(), count, &mut out).unwrap();
            assert_eq!(found, count, "{name}");
            let found = out.chunks(4).map(|key| std::str::from_utf8(key).unwrap());
            let found: Vec<&str> = found.collect();
            let first: usize = from.parse().unwrap();
            let mut expected: Vec<&str> = keys.iter().map(String::as_str).collect();
            expected.rotate_left(first);
            if is_ordered {
                assert_eq!(found, expected[..count], "{name}");
            } else if count < keys.len() {
                let distinct: std::collections::BTreeSet<&&str> = found.iter().collect();
                assert_eq!(distinct.len(), count, "{name}");
            }
        }
    }
}

#[test]
fn threads_share_their_engine() {
    for (name, access) in opened() {
        let (one, other) = (access.connect().unwrap(), access.connect().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(move || one.put(b"key", b"value").unwrap());
        });
        assert_eq!(read(&*other, "key").as_deref(), Some("value"), "{name}");
    }
}

#[test]
fn store_as_a_cache_keeps_its_limits_of_keys_and_time() {
    let open = |cache| {
        let dir = tempfile::tempdir().unwrap();
        let kind = Kind::Store;
        EngineAccess::open_at(kind, Durability::Memory, Some(cache), None, dir.path()).unwrap()
    };
    let found = |access: &EngineAccess| {
        let store = access.connect().unwrap();
        let keys = 0..100;
        keys.filter(|key| read(&*store, &key.to_string()).is_some())
            .count()
    };
    let (keys, ttl) = (10, Duration::from_secs(1_800));
    let access = open(CacheLimits { keys, ttl });
    let store = access.connect().unwrap();
    for key in 0..100 {
        store.put(key.to_string().as_bytes(), b"value").unwrap();
    }
    assert!((1..=10).contains(&found(&access)), "{}", found(&access));
    let access = open(CacheLimits {
        keys: 100,
        ttl: Duration::from_millis(20),
    });
    let store = access.connect().unwrap();
    for key in 0..100 {
        store.put(key.to_string().as_bytes(), b"value").unwrap();
    }
    while found(&access) > 0 {
        std::thread::yield_now();
    }
}

/// The errors of the store name their cause themselves; those of other engines leave it to the caller.
#[test]
fn cause_of_an_error_is_said_once() {
    let source = std::io::Error::from_raw_os_error(28);
    let error = anyhow::Error::new(loadline_store::Error::Full { source });
    let full = "No space left on device (os error 28)";
    assert_eq!(described(&*error), format!("no room on the disk: {full}"));
    let error = anyhow::Error::msg(full).context("the journal was not written");
    assert_eq!(
        described(&*error),
        format!("the journal was not written: {full}")
    );
}

/// Answers a connection, and records what it has received.
fn hear(mut stream: TcpStream, heard: &Mutex<Vec<u8>>) {
    let (mut answers, mut buffer) = (Answers::new(Reads::Ok), [0; 4_096]);
    while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
        heard.lock().unwrap().extend_from_slice(&buffer[..bytes]);
        let mut replies = Vec::new();
        answers.take(&buffer[..bytes], &mut replies).unwrap();
        stream.write_all(&replies).unwrap();
    }
}

#[test]
fn writes_of_a_cache_have_their_time_to_live_alone_and_in_batches() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hearing = Arc::clone(&heard);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = Server::local(listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let hearing = Arc::clone(&hearing);
            std::thread::spawn(move || hear(stream, &hearing));
        }
    });
    let client = client(&at, &at.address, &Tls::default(), Protocol::Resp3);
    let pairs = |ttl| {
        let mut pairs = Batch::new();
        for key in [b'a', b'b'] {
            pairs.put_with(ttl, |out| out.push(key), |out| out.push(b'1'));
        }
        pairs
    };
    let sent = |ttl: Option<Duration>| {
        let store = connect(client.clone()).unwrap();
        heard.lock().unwrap().clear();
        match ttl {
            None => store.put(b"k", b"v").unwrap(),
            Some(ttl) => store.put_for(b"k", b"v", ttl).unwrap(),
        }
        store.apply(&pairs(ttl)).unwrap();
        let sent = heard.lock().unwrap();
        String::from_utf8(sent.clone())
            .unwrap()
            .replace("\r\n", " ")
    };
    assert_eq!(
        sent(None),
        "*3 $3 SET $1 k $1 v *5 $4 MSET $1 a $1 1 $1 b $1 1 "
    );
    let set = |key: &str, value: &str| format!("*5 $3 SET $1 {key} $1 {value} $2 PX $7 1800000 ");
    assert_eq!(
        sent(Some(Duration::from_secs(1_800))),
        format!(
            "{}*1 $5 MULTI {}{}*1 $4 EXEC ",
            set("k", "v"),
            set("a", "1"),
            set("b", "1")
        )
    );
}

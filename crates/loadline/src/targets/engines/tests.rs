use std::time::Duration;

use super::*;
use crate::target::Durability;

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
    let mut batch = Batch::default();
    for (key, value) in pairs {
        batch.push(
            |out| out.extend_from_slice(key.as_bytes()),
            |out| out.extend_from_slice(value.as_bytes()),
        );
    }
    batch
}

fn read(handle: &mut dyn Handle, key: &str) -> Option<String> {
    let mut out = Vec::new();
    let is_there = handle.get(key.as_bytes(), &mut out).unwrap();
    is_there.then(|| String::from_utf8(out).unwrap())
}

#[test]
fn every_engine_reads_what_it_was_given() {
    for (name, access) in opened() {
        let mut handle = access.handle().unwrap();
        handle.put(b"a", b"one").unwrap();
        handle.put(b"a", b"two").unwrap();
        assert_eq!(read(&mut *handle, "a").as_deref(), Some("two"), "{name}");
        assert_eq!(read(&mut *handle, "b"), None, "{name}");
        handle.delete(b"a").unwrap();
        // A missing key can be removed, too.
        handle.delete(b"a").unwrap();
        assert_eq!(read(&mut *handle, "a"), None, "{name}");
    }
}

#[test]
fn every_engine_has_batches() {
    let pairs = batch(&[("a", "1"), ("b", "22"), ("c", "333")]);
    for (name, access) in opened() {
        let mut handle = access.handle().unwrap();
        handle.put_all(&pairs).unwrap();
        let mut out = Vec::new();
        assert_eq!(handle.get_all(&pairs, &mut out).unwrap(), 3, "{name}");
        assert_eq!(out, b"122333", "{name}");
        handle.delete(b"b").unwrap();
        handle.delete_all(&pairs).unwrap();
        assert_eq!(handle.get_all(&pairs, &mut out).unwrap(), 0, "{name}");
    }
}

/// In the order of the keys, except in hash tables; behind the last key comes the first one.
#[test]
fn every_engine_scans_from_a_key_on() {
    let keys: Vec<String> = (0..1_000).map(|key| format!("{key:04}")).collect();
    let pairs: Vec<(&str, &str)> = keys.iter().map(|key| (&key[..], &key[..])).collect();
    for (name, access) in opened() {
        let mut handle = access.handle().unwrap();
        handle.put_all(&batch(&pairs)).unwrap();
        let is_ordered = !name.starts_with("map") && !name.starts_with("store");
        for (from, count) in [("0000", 1), ("0500", 100), ("0990", 30), ("0007", 1_000)] {
            let mut out = Vec::new();
            let found = handle.scan(from.as_bytes(), count, &mut out).unwrap();
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

/// A handle sees the writes of another thread.
#[test]
fn handles_share_their_engine() {
    for (name, access) in opened() {
        let (mut one, mut other) = (access.handle().unwrap(), access.handle().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(move || one.put(b"key", b"value").unwrap());
        });
        assert_eq!(read(&mut *other, "key").as_deref(), Some("value"), "{name}");
    }
}

#[test]
fn a_batch_keeps_its_keys_and_values_apart() {
    let pairs = batch(&[("key", "value"), ("", ""), ("k", "v")]);
    let all: Vec<(&[u8], &[u8])> = pairs.pairs().collect();
    assert_eq!(
        all,
        [(&b"key"[..], &b"value"[..]), (b"", b""), (b"k", b"v")]
    );
    assert_eq!(pairs.keys().count(), pairs.len());
}

#[test]
fn the_store_as_a_cache_holds_so_many_keys_for_so_long() {
    let open = |cache| {
        let dir = tempfile::tempdir().unwrap();
        let kind = Kind::Store;
        EngineAccess::open_at(kind, Durability::Memory, Some(cache), None, dir.path()).unwrap()
    };
    let found = |access: &EngineAccess| {
        let mut handle = access.handle().unwrap();
        let keys = 0..100;
        keys.filter(|key| read(&mut *handle, &key.to_string()).is_some())
            .count()
    };
    let (keys, ttl) = (10, Duration::from_secs(1_800));
    let access = open(CacheLimits { keys, ttl });
    let mut handle = access.handle().unwrap();
    for key in 0..100 {
        handle.put(key.to_string().as_bytes(), b"value").unwrap();
    }
    assert!((1..=10).contains(&found(&access)), "{}", found(&access));
    let access = open(CacheLimits {
        keys: 100,
        ttl: Duration::from_millis(20),
    });
    let mut handle = access.handle().unwrap();
    for key in 0..100 {
        handle.put(key.to_string().as_bytes(), b"value").unwrap();
    }
    while found(&access) > 0 {
        std::thread::yield_now();
    }
}

/// The errors of the store name their cause themselves; those of other engines leave it to the caller.
#[test]
fn the_cause_of_an_error_is_said_once() {
    let source = std::io::Error::from_raw_os_error(28);
    let error = anyhow::Error::new(loadline_store::Error::Full { source });
    let full = "No space left on device (os error 28)";
    assert_eq!(described(&error), format!("no room on the disk: {full}"));
    let error = anyhow::Error::msg(full).context("the journal was not written");
    assert_eq!(
        described(&error),
        format!("the journal was not written: {full}")
    );
}

//! Limits of keys and memory, counts, and snapshots of a store, in memory and in a directory.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test waits for the store's own clock"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use loadline_store::{AtLimit, Batch, Error, Options, Store, StoreSnapshot};

/// Runs `test` on a store in memory and on one in a directory; some of its values are in the log only.
fn on_both(options: &Options, test: impl Fn(&Store)) {
    let (before, store) = on_each(options, test);
    assert!(before == all(&store), "after opening again");
}

/// The same, but returns the entries of the store in the directory, and that store opened again.
fn on_each(options: &Options, test: impl Fn(&Store)) -> (BTreeMap<Vec<u8>, Vec<u8>>, Store) {
    let options = options
        .clone()
        .value_in_log_bytes(300)
        .segment_bytes(1 << 20);
    test(&Store::in_memory(options.clone()));
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options.clone()).unwrap();
    test(&store);
    let entries = all(&store);
    drop(store);
    (entries, Store::open(dir.path(), options).unwrap())
}

fn all(store: &Store) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    let visit = |key: &[u8], value: &[u8]| {
        all.insert(key.to_vec(), value.to_vec());
    };
    assert_eq!(store.scan(0, usize::MAX, b"", visit).unwrap(), 0);
    all
}

fn name(number: usize) -> Vec<u8> {
    format!("key:{number:08}").into_bytes()
}

/// The write-up's cache: 10,000 entries, 30 minutes.
#[test]
fn cache_holds_as_many_keys_as_it_may() {
    let options = Options::cache(10_000, Duration::from_secs(1_800));
    on_both(&options, |store| {
        for number in 0..20_000 {
            store.put(&name(number), b"value").unwrap();
            assert!(
                store.get(&name(number)).unwrap().is_some(),
                "what was just put"
            );
            // A few keys are read all the time.
            assert!(store.get(&name(number % 10)).unwrap().is_some());
        }
        let stats = store.stats();
        assert_eq!((stats.keys, stats.evictions), (10_000, 10_000));
        assert_eq!((stats.hits, stats.misses), (40_000, 0));
        assert_eq!(store.get(b"none").unwrap(), None);
        assert_eq!(store.stats().misses, 1);
    });
}

#[test]
fn time_to_live_of_the_options_holds_for_every_put() {
    let options = Options::cache(100, Duration::from_millis(50));
    on_both(&options, |store| {
        store.put(b"put", b"").unwrap();
        assert!(store.compare_and_swap(b"swapped", None, Some(b"")).unwrap());
        store
            .put_for(b"longer", b"", Duration::from_secs(1_000))
            .unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while store.stats().expirations < 2 {
            assert!(Instant::now() < until, "{:?}", store.stats());
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(all(store).keys().collect::<Vec<_>>(), [b"longer"]);
    });
}

/// Values of different sizes, in stores of few and of many parts; puts, swaps, and batches.
#[test]
fn memory_stays_below_a_limit_that_evicts() {
    for limit in [200 << 10, 2 << 20] {
        for bytes in [10, 290] {
            let options = Options::new().max_memory_bytes(limit);
            let (before, opened) = on_each(&options, |store| {
                let value = vec![b'v'; bytes];
                let count = 3 * limit as usize / (bytes + 60);
                let check = |number: usize| {
                    let memory = store.stats().memory_bytes;
                    assert!(
                        memory <= limit,
                        "{memory} of {limit}, {bytes} bytes, key {number}"
                    );
                };
                for number in 0..count {
                    match number % 50 {
                        0 => {
                            let mut batch = Batch::new();
                            let keys = (0..50).map(|key| name(1_000_000 + number * 50 + key));
                            keys.for_each(|key| _ = batch.put(&key, &value[bytes / 2..]));
                            store.apply(&batch).unwrap();
                        }
                        1 => {
                            let swapped = store.compare_and_swap(&name(number), None, Some(&value));
                            assert!(swapped.unwrap());
                        }
                        _ => store.put(&name(number), &value).unwrap(),
                    }
                    if number % 50 < 3 && number % 1_000 < 50 {
                        check(number);
                    }
                }
                check(count);
                let stats = store.stats();
                assert!(
                    stats.evictions > 0 && stats.memory_bytes > limit / 2,
                    "{stats:?}"
                );
            });
            // Keys lie in other parts then, so that some more can have gone.
            let after = all(&opened);
            assert!(opened.stats().memory_bytes <= limit);
            assert!(
                after
                    .iter()
                    .all(|(key, value)| before.get(key) == Some(value))
            );
            assert!(
                after.len() > before.len() * 3 / 4,
                "{} of {}",
                after.len(),
                before.len()
            );
        }
    }
}

/// Nothing else goes for an entry that does not fit.
#[test]
fn entry_above_the_limit_of_memory_is_refused() {
    const LIMIT: usize = 1 << 20;
    let options = Options::new().max_memory_bytes(LIMIT as u64);
    let store = Store::in_memory(options.clone());
    let kept = |store: &Store| (store.stats().keys, store.stats().evictions);
    (0..10).for_each(|number| store.put(&name(number), b"value").unwrap());
    let refused = store.put(&name(10), &vec![0; LIMIT]);
    assert!(matches!(refused, Err(Error::AtLimit)), "{refused:?}");
    let mut batch = Batch::new();
    (10..20).for_each(|number| _ = batch.put(&name(number), &vec![0; LIMIT / 8]));
    let refused = store.apply(&batch);
    assert!(matches!(refused, Err(Error::AtLimit)), "{refused:?}");
    assert_eq!(kept(&store), (10, 0));
    // In the log, it takes no memory.
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options).unwrap();
    store.put(&name(10), &vec![0; LIMIT]).unwrap();
    assert_eq!(kept(&store), (1, 0));
}

#[test]
fn full_store_refuses_where_it_is_to_remove_nothing() {
    let options = Options::new().max_keys(10).at_limit(AtLimit::Refuse);
    on_both(&options, |store| {
        (0..10).for_each(|number| store.put(&name(number), b"").unwrap());
        let refused = |result: Result<(), Error>| matches!(result, Err(Error::AtLimit));
        assert!(refused(store.put(&name(10), b"")));
        assert!(refused(
            store
                .compare_and_swap(&name(10), None, Some(b""))
                .map(|_| ())
        ));
        // An existing key can change, and go.
        store.put(&name(9), b"other").unwrap();
        assert!(store.delete(&name(0)).unwrap());
        store.put(&name(10), b"").unwrap();
        assert_eq!((store.stats().keys, store.stats().evictions), (10, 0));
    });
}

#[test]
fn full_store_refuses_a_batch_of_new_keys() {
    let options = Options::new().max_keys(1_000).at_limit(AtLimit::Refuse);
    on_both(&options, |store| {
        let batch = |numbers: std::ops::Range<usize>| {
            let mut batch = Batch::new();
            numbers.for_each(|number| _ = batch.put(&name(number), b""));
            batch
        };
        store.apply(&batch(0..999)).unwrap();
        let refused = store.apply(&batch(5_000..8_000));
        assert!(
            matches!(refused, Err(Error::AtLimit)),
            "{:?}",
            store.stats()
        );
        assert_eq!(store.stats().keys, 999);
        // Keys that are there, or twice in the batch, or that make room, do not count.
        store.apply(batch(500..1_000).put(&name(999), b"")).unwrap();
        let mut exchange = batch(1_000..1_001);
        assert!(matches!(store.apply(&exchange), Err(Error::AtLimit)));
        store.apply(exchange.delete(&name(0))).unwrap();
        assert_eq!(store.stats().keys, 1_000);
    });
}

/// Neither single writes nor batches exceed the limit, and it is used but for a small part.
#[test]
fn memory_stays_below_a_limit_that_refuses() {
    const LIMIT: u64 = 2 << 20;
    for bytes in [20, 290] {
        let options = Options::new()
            .max_memory_bytes(LIMIT)
            .at_limit(AtLimit::Refuse);
        on_both(&options, |store| {
            let value = vec![1; bytes];
            let mut refused = 0;
            for number in 0..200_000_usize {
                let written = if number.is_multiple_of(100) {
                    let mut batch = Batch::new();
                    let keys = (0..100).map(|key| name(1_000_000 + number * 100 + key));
                    keys.for_each(|key| _ = batch.put(&key, &value));
                    store.apply(&batch)
                } else {
                    store.put(&name(number), &value)
                };
                match written {
                    Ok(()) => {}
                    Err(Error::AtLimit) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
                if refused > 200 {
                    break;
                }
            }
            let memory = store.stats().memory_bytes;
            assert!(
                refused > 200 && (LIMIT * 3 / 4..=LIMIT).contains(&memory),
                "{bytes}: {memory} of {LIMIT}"
            );
        });
    }
}

fn snapshotted(snapshot: &StoreSnapshot<'_>, prefix: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut cursor = 0;
    loop {
        let visit = |key: &[u8], value: &[u8]| {
            assert!(
                all.insert(key.to_vec(), value.to_vec()).is_none(),
                "shown twice"
            );
        };
        cursor = snapshot.scan(cursor, 100, prefix, visit).unwrap();
        if cursor == 0 {
            return all;
        }
    }
}

/// Values in the log only stay readable too, although their segments are reclaimed meanwhile.
#[test]
fn snapshot_stays_as_it_was() {
    on_both(&Options::new(), |store| {
        let value = |number: usize, round: u8| vec![round; [10, 100, 280, 1_000][number % 4]];
        (0..2_000).for_each(|number| store.put(&name(number), &value(number, 1)).unwrap());
        let before = all(store);
        let snapshot = store.snapshot();
        for round in 2..6 {
            (0..2_000).for_each(|number| store.put(&name(number), &value(number, round)).unwrap());
        }
        store.compact().unwrap();
        (0..1_000).for_each(|number| assert!(store.delete(&name(number)).unwrap()));
        assert_eq!(snapshotted(&snapshot, b""), before);
        assert_eq!(snapshotted(&snapshot, b"key:0000000").len(), 10);
        assert_eq!(snapshot.get(&name(3)).unwrap(), Some(value(3, 1)));
        assert_eq!(snapshot.get(b"none").unwrap(), None);
        drop(snapshot);
        let files = store.stats().disk_bytes;
        store.compact().unwrap();
        let stats = store.stats();
        assert!(
            stats.disk_bytes < files || files == 0,
            "{files} bytes, then {stats:?}"
        );
        assert_eq!(snapshotted(&store.snapshot(), b"").len(), 1_000);
    });
}

/// A thread writes the same number to many keys at once, again and again.
#[test]
fn snapshot_has_batches_as_a_whole() {
    on_both(&Options::new(), |store| {
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for round in 0..200_u32 {
                    let mut batch = Batch::new();
                    for number in 0..50 {
                        batch.put(&name(number), &round.to_le_bytes());
                    }
                    store.apply(&batch).unwrap();
                }
            });
            while !writer.is_finished() {
                let all = snapshotted(&store.snapshot(), b"");
                let mut values: Vec<_> = all.values().collect();
                values.dedup();
                assert!(
                    values.len() <= 1 && [0, 50].contains(&all.len()),
                    "{values:?}"
                );
            }
        });
    });
}

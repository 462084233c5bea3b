//! Snapshots against copies of the model.

use super::*;

type Shown = BTreeMap<Vec<u8>, Value>;

fn shown(snapshot: &Snapshot<'_>, prefix: &[u8]) -> Shown {
    let mut shown = Shown::new();
    let mut cursor = 0;
    loop {
        cursor = snapshot.scan(cursor, 1, prefix, |key, view| {
            let again = shown.insert(key.to_vec(), view.to_value());
            assert!(again.is_none(), "{key:?} is shown twice");
        });
        if cursor == 0 {
            return shown;
        }
    }
}

fn modelled(model: &Model) -> Shown {
    let entries = model.entries.iter();
    entries
        .map(|(key, entry)| (name(*key), entry.value.clone()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Snapshots, several at a time, against copies of the model.
    #[test]
    fn snapshot_shows_what_there_was(steps in steps(), taken_at in proptest::collection::btree_set(0..100_usize, 0..3)) {
        let store = Keyspace::for_keys(12);
        let mut model = Model::default();
        let mut snapshots = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            if taken_at.contains(&number) {
                snapshots.push((store.snapshot(model.now), modelled(&model)));
            }
            take_step(&store, step, &model);
            model.take_step(step);
            if number == 150 && !snapshots.is_empty() {
                snapshots.remove(0);
            }
        }
        for (snapshot, expected) in &snapshots {
            prop_assert_eq!(&shown(snapshot, b""), expected);
            for key in 0..12 {
                let value = snapshot.view(&name(key), |view| view.map(View::to_value));
                prop_assert_eq!(value.as_ref(), expected.get(&name(key)));
            }
            let expected: Shown = expected.clone().into_iter().filter(|(key, _)| key.starts_with(b"lon")).collect();
            prop_assert_eq!(shown(snapshot, b"lon"), expected);
        }
        drop(snapshots);
        prop_assert!(!store.snapshots.are_open());
    }
}

/// A thread raises `first` and then `second`, so that `second` is never ahead.
#[test]
fn snapshot_has_no_write_without_those_before_it() {
    const WRITES: u64 = 20_000;
    let store = Keyspace::new();
    let put = |key: &[u8], number: u64| {
        store.put_string(key, &number.to_le_bytes(), 0, |_| Some(None));
    };
    let number = |view: Option<View<'_>>| match view {
        Some(View::String(bytes)) => u64::from_le_bytes(bytes.try_into().unwrap()),
        _ => 0,
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 1..=WRITES {
                put(b"first", n);
                put(b"second", n);
            }
        });
        let mut distinct = 0;
        let mut last = 0;
        while !writer.is_finished() {
            let snapshot = store.snapshot(0);
            let second = snapshot.view(b"second", number);
            let first = snapshot.view(b"first", number);
            assert!(first == second || first == second + 1, "{first}, {second}");
            assert_eq!(snapshot.view(b"second", number), second);
            assert!(first >= last);
            distinct += usize::from(first > last);
            last = first;
        }
        println!("{distinct} different snapshots");
        writer.join().unwrap();
    });
    assert_eq!(store.snapshot(0).view(b"second", number), WRITES);
}

/// Without a snapshot nothing is copied, and with one each changed shard once.
#[test]
fn snapshot_costs_a_copy_of_what_changes() {
    let store = Keyspace::new();
    let put = |n: u32| store.put_string(&n.to_le_bytes(), b"value", 0, |_| Some(None));
    (0..10_000).for_each(|n| assert!(put(n)));
    let copies = |snapshot: &Snapshot<'_>| snapshot.copies();
    let snapshot = store.snapshot(0);
    assert_eq!(copies(&snapshot), 0);
    assert!(put(1) && put(1) && put(1));
    assert!(store.remove(&1_u32.to_le_bytes(), 0));
    assert_eq!(copies(&snapshot), 1);
    let later = store.snapshot(0);
    assert!(put(1));
    assert_eq!((copies(&snapshot), copies(&later)), (1, 1));
    drop(snapshot);
    drop(later);
    assert!(put(1));
    assert_eq!(copies(&store.snapshot(0)), 0);
}

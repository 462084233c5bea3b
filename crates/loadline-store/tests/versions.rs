//! Stores that were written by every version of the format.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use std::fs;
use std::path::Path;

use loadline_store::{
    Batch, Bytes, Change, ChangeLog, Edit, Entry, Fields, Keyspace, List, Members, Options,
    SortedSet, Store, Value, View,
};

/// Checks the content that every kept store has.
fn check(store: &Store) {
    assert_eq!(store.get(b"short").unwrap().unwrap(), b"value");
    assert_eq!(store.get(b"").unwrap().unwrap(), b"");
    assert_eq!(store.get(b"swapped").unwrap().unwrap(), b"new");
    assert_eq!(store.get(b"long").unwrap().unwrap(), vec![7; 5_000]);
    assert_eq!(store.get(b"late").unwrap().unwrap(), b"far away");
    assert_eq!(store.get(b"over").unwrap(), None);
    assert_eq!(store.get(b"deleted").unwrap(), None);
    assert_eq!(store.get(b"batch").unwrap().unwrap(), b"of three");
    assert_eq!(store.stats().keys, 6);
    assert_eq!(store.stats().torn, None);
}

/// Writes what [`check`] expects; how the stores in `tests/versions` were made.
fn write(store: &Store) {
    const CENTURIES: std::time::Duration = std::time::Duration::from_secs(20_000_000_000);
    store.put(b"short", b"value").unwrap();
    store.put(b"", b"").unwrap();
    store.put(b"deleted", b"value").unwrap();
    store.put(b"over", b"value").unwrap();
    store
        .put_for(b"over", b"again", std::time::Duration::ZERO)
        .unwrap();
    store.put_for(b"late", b"far away", CENTURIES).unwrap();
    assert!(
        store
            .compare_and_swap(b"swapped", None, Some(b"old"))
            .unwrap()
    );
    assert!(
        store
            .compare_and_swap(b"swapped", Some(b"old"), Some(b"new"))
            .unwrap()
    );
    let mut batch = Batch::new();
    batch.put(b"batch", b"of three").delete(b"deleted");
    batch.put(b"long", &[7; 5_000]);
    store.apply(&batch).unwrap();
}

/// Writes the same to a store of two segments, the first of which has a hint.
fn write_hinted(dir: &Path) {
    let store = Store::open(dir, Options::new()).unwrap();
    write(&store);
    store.close().unwrap();
    let store = Store::open(dir, Options::new()).unwrap();
    store.put(b"short", b"value").unwrap();
    store.close().unwrap();
}

/// Checks the content that every kept log of a server has, of the version that added sorted sets and of older ones.
fn check_served(databases: &[Keyspace], has_sorted: bool) {
    let has = |database: usize, key: &[u8], is_it: fn(View<'_>, Option<u64>) -> bool| {
        databases[database].peek(key, 0, |value| {
            value.is_some_and(|(value, at)| is_it(value, at))
        })
    };
    assert!(has(2, b"text", |value, at| {
        matches!(value, View::String(b"te\0\0end")) && at == Some(u64::MAX - 1)
    }));
    assert!(has(2, b"set", |value, _| match value {
        View::Set(members) =>
            members.is_ordered() && members.iter().map(|(name, ())| name).eq([b"2", b"3"]),
        _ => false,
    }));
    assert!(has(2, b"hash", |value, _| match value {
        View::Hash(fields) =>
            !fields.is_ordered() && fields.get(b"f").map(|value| &**value) == Some(b"w"),
        _ => false,
    }));
    assert!(has(2, b"list", |value, _| match value {
        View::List(items) => items.iter().eq([&b"b"[..], b"c"]),
        _ => false,
    }));
    if has_sorted {
        for (key, is_packed) in [(&b"packed"[..], true), (b"large", false)] {
            let set = databases[2].entry(key, 0).unwrap().value;
            let Value::Sorted(set) = set else {
                panic!("{set:?}");
            };
            assert_eq!(set.is_packed(), is_packed);
            assert!(set.view().iter().eq([(&b"a"[..], 0.1), (b"c", 3.0)]));
        }
        assert!(has(2, b"inside", |value, _| match value {
            View::List(items) => items.iter().eq([&b"b"[..], b"c"]),
            _ => false,
        }));
    }
    let keys: Vec<usize> = databases.iter().map(Keyspace::len).collect();
    let expected = if has_sorted { 7 } else { 4 };
    assert_eq!((keys[2], keys.iter().sum::<usize>()), (expected, expected));
}

/// Writes what [`check_served`] expects.
fn write_served(log: &mut ChangeLog, databases: &mut [Keyspace]) {
    let (mut members, mut fields, mut list) = (Members::new(), Fields::new(), List::new());
    let (mut packed, mut large) = (SortedSet::new(), SortedSet::new());
    large.unpack();
    for set in [&mut packed, &mut large] {
        set.insert(b"a", 1e300);
        set.insert(b"b", 2.0);
    }
    members.insert(b"1", ());
    members.insert(b"3", ());
    fields.insert(b"f", Bytes::from(&b"v"[..]));
    fields.relax();
    list.push_back(b"a");
    let values = [
        (&b"text"[..], Value::String(b"te".to_vec())),
        (b"set", Value::Set(members)),
        (b"hash", Value::Hash(fields)),
        (b"inside", Value::List(list.clone())),
        (b"list", Value::List(list)),
        (b"packed", Value::Sorted(packed)),
        (b"large", Value::Sorted(large)),
        (b"deleted", Value::Set(Members::new())),
    ];
    for (key, value) in values {
        log.put(1, key, value.view(), None);
        databases[1].modify(key, 0, |_| ((), Change::Put(Entry::lasting(value))));
    }
    for (key, edit) in [
        (&b"text"[..], Edit::Write(4, b"end")),
        (b"set", Edit::AddMembers(&[b"2"])),
        (b"set", Edit::RemoveMembers(&[b"1"])),
        (b"hash", Edit::SetFields(&[b"f", b"w", b"g", b"x"])),
        (b"hash", Edit::RemoveFields(&[b"g"])),
        (b"list", Edit::PushBack(&[b"b"])),
        (b"list", Edit::PushFront(&[b"0", b"1"])),
        (b"list", Edit::PushBack(&[b"x", b"y", b"z"])),
        (b"list", Edit::PopFront(3)),
        (b"list", Edit::PopBack(2)),
        (b"list", Edit::SetItem(1, b"c")),
        (b"inside", Edit::PushBack(&[b"c", b"a", b"a"])),
        (b"inside", Edit::RemoveItems(0, b"a")),
        (b"inside", Edit::InsertItem(0, b"b")),
        (b"packed", Edit::SetScores(&[(b"c", 3.0), (b"a", 0.1)])),
        (b"packed", Edit::RemoveScored(&[b"b"])),
        (b"large", Edit::SetScores(&[(b"c", 3.0), (b"a", 0.1)])),
        (b"large", Edit::RemoveScored(&[b"b"])),
    ] {
        log.edit(1, key, edit);
    }
    log.expire(1, b"text", Some(u64::MAX - 1));
    log.delete(1, b"deleted");
    log.put_string(7, b"cleared", b"value", None);
    log.clear(7);
    log.exchange(1, 2);
    log.commit(databases).unwrap();
}

#[test]
fn stores_of_all_versions_open() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/versions");
    let (mut versions, mut served) = (0, 0);
    for version in fs::read_dir(kept).unwrap() {
        let copy = tempfile::tempdir().unwrap();
        let version = version.unwrap();
        for file in fs::read_dir(version.path()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
        let name = version.file_name();
        let name = name.to_string_lossy();
        if name.ends_with("-served") {
            let databases = ChangeLog::open(copy.path(), &Options::new()).unwrap().1;
            check_served(&databases, !name.starts_with('2'));
            served += 1;
        } else {
            let store = Store::open(copy.path(), Options::new()).unwrap();
            check(&store);
            let hints = u64::from(name.ends_with("-hinted"));
            assert_eq!(
                (store.stats().hints, store.stats().ignored_hints),
                (hints, 0)
            );
            versions += 1;
        }
    }
    assert_eq!((versions, served), (3, 2));
}

#[test]
fn a_new_store_holds_the_same() {
    let directory = match std::env::var_os("LOADLINE_KEEP_STORE") {
        Some(directory) => std::path::PathBuf::from(directory),
        None => tempfile::tempdir().unwrap().keep(),
    };
    let store = Store::open(&directory, Options::new()).unwrap();
    write(&store);
    drop(store);
    check(&Store::open(&directory, Options::new()).unwrap());
    let hinted = directory.with_extension("hinted");
    write_hinted(&hinted);
    let store = Store::open(&hinted, Options::new()).unwrap();
    check(&store);
    assert_eq!(store.stats().hints, 1);
    drop(store);
    let served = directory.with_extension("served");
    let (mut log, mut databases) = ChangeLog::open(&served, &Options::new()).unwrap();
    write_served(&mut log, &mut databases);
    drop(log);
    check_served(&ChangeLog::open(&served, &Options::new()).unwrap().1, true);
    if std::env::var_os("LOADLINE_KEEP_STORE").is_none() {
        fs::remove_dir_all(directory).unwrap();
        fs::remove_dir_all(hinted).unwrap();
        fs::remove_dir_all(served).unwrap();
    }
}

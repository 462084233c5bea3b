//! Stores that were written by every version of the format.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use std::fs;
use std::path::Path;

use loadline_store::{
    Batch, Bytes, Change, ChangeLog, Edit, Entry, Fields, Keyspace, List, Members, Options,
    SortedSet, Store, Stream, StreamEdit, StreamId, StreamWords, Value, View,
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

const GROUP: &[u8] = b"g";
const CONSUMER: &[u8] = b"c";

fn id(ms: u64) -> StreamId {
    StreamId { ms, seq: 0 }
}

fn append(ms: u64, begins_block: bool, fields: &[&'static [u8]]) -> StreamEdit<'static> {
    StreamEdit::Append {
        id: id(ms),
        begins_block,
        fields: StreamWords::Held(fields.to_vec()),
    }
}

fn set_group(group: &[u8], ms: u64, entries_read: Option<u64>) -> StreamEdit<'_> {
    StreamEdit::SetGroup {
        group,
        last_id: id(ms),
        entries_read,
    }
}

fn deliver(ms: u64, deliveries: u64) -> StreamEdit<'static> {
    StreamEdit::Deliver {
        group: GROUP,
        consumer: CONSUMER,
        delivered_ms: 6,
        entries: vec![(id(ms), deliveries)],
    }
}

/// Writes a stream as a whole, and changes it in all ways.
fn write_streams(log: &mut ChangeLog, databases: &mut [Keyspace]) {
    let see = |group, consumer| StreamEdit::See {
        group,
        consumer,
        seen_ms: 5,
    };
    let mut stream = Stream::new();
    for edit in [
        append(1, true, &[b"f", b"one", b"g", b"two"]),
        append(2, false, &[b"f", b"three", b"g", b"four"]),
        append(3, true, &[b"h", b"five"]),
        set_group(GROUP, 1, None),
        see(GROUP, CONSUMER),
        deliver(1, 1),
    ] {
        stream.perform(&edit);
    }
    let value = Value::Stream(Box::new(stream));
    log.put(0, b"stream", value.view(), None);
    databases[0].modify(b"stream", 0, |_| ((), Change::Put(Entry::lasting(value))));
    let (other, gone) = (&b"other"[..], &b"gone"[..]);
    for edit in [
        append(4, false, &[b"h", b"six", b"i", b"seven"]),
        append(5, false, &[b"h", b"eight"]),
        StreamEdit::Delete(vec![id(4)]),
        StreamEdit::Trim {
            blocks: 0,
            marked: 1,
        },
        StreamEdit::SetIds {
            last_id: id(9),
            max_deleted_id: id(7),
            entries_added: 20,
        },
        set_group(GROUP, 3, Some(3)),
        deliver(3, 2),
        deliver(5, 1),
        StreamEdit::Acknowledge {
            group: GROUP,
            ids: vec![id(1)],
        },
        set_group(other, 2, None),
        see(other, b"d"),
        StreamEdit::RemoveConsumer {
            group: other,
            consumer: b"d",
        },
        set_group(gone, 2, None),
        StreamEdit::RemoveGroup(gone),
    ] {
        log.edit(0, b"stream", Edit::Stream(&edit));
    }
    log.commit(databases).unwrap();
}

/// Checks what [`write_streams`] has written.
fn check_streams(databases: &[Keyspace]) {
    let value = databases[0].entry(b"stream", 0).unwrap().value;
    let Value::Stream(stream) = value else {
        panic!("{value:?}");
    };
    let entries: Vec<String> = stream
        .range(StreamId::MIN, StreamId::MAX)
        .map(|entry| {
            format!(
                "{} {:?}",
                entry.id,
                entry
                    .pairs()
                    .map(|(_, value)| value.len())
                    .collect::<Vec<_>>()
            )
        })
        .collect();
    assert_eq!(entries, ["2-0 [5, 4]", "3-0 [4]", "5-0 [5]"]);
    let ids = [stream.first_id(), stream.last_id(), stream.max_deleted_id()];
    assert_eq!(ids.map(|id| id.ms), [2, 9, 7]);
    assert_eq!((stream.entries_added(), stream.blocks().len()), (20, 2));
    let groups: Vec<&[u8]> = stream.groups().map(|(name, _)| name).collect();
    assert_eq!(groups, [&b"g"[..], b"other"]);
    let group = stream.group(b"g").unwrap();
    assert_eq!((group.last_id.ms, group.entries_read), (3, Some(3)));
    let pending: Vec<_> = group
        .pending()
        .iter()
        .map(|(id, pending)| (id.ms, pending.deliveries))
        .collect();
    assert_eq!(pending, [(3, 2), (5, 1)]);
    assert_eq!(group.consumer(b"c").unwrap().pending().len(), 2);
    assert_eq!(stream.group(b"other").unwrap().consumers().len(), 0);
}

#[test]
fn stores_of_all_versions_open() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/versions");
    let (mut versions, mut served, mut streams) = (0, 0, 0);
    for version in fs::read_dir(kept).unwrap() {
        let copy = tempfile::tempdir().unwrap();
        let version = version.unwrap();
        for file in fs::read_dir(version.path()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
        let name = version.file_name();
        let name = name.to_string_lossy();
        if name.ends_with("-streams") {
            check_streams(&ChangeLog::open(copy.path(), &Options::new()).unwrap().1);
            streams += 1;
        } else if name.ends_with("-served") {
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
    assert_eq!((versions, served, streams), (3, 2, 1));
}

#[test]
fn new_store_holds_the_same() {
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
    let streams = directory.with_extension("streams");
    let (mut log, mut databases) = ChangeLog::open(&streams, &Options::new()).unwrap();
    write_streams(&mut log, &mut databases);
    drop(log);
    check_streams(&ChangeLog::open(&streams, &Options::new()).unwrap().1);
    if std::env::var_os("LOADLINE_KEEP_STORE").is_none() {
        fs::remove_dir_all(directory).unwrap();
        fs::remove_dir_all(hinted).unwrap();
        fs::remove_dir_all(served).unwrap();
        fs::remove_dir_all(streams).unwrap();
    }
}

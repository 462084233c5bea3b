//! Stores in real directories.

use super::*;
use crate::store::Durability;

fn ways() -> [Options; 2] {
    [Options::new(), Options::new().without_mapping()]
}

#[test]
fn store_is_there_after_it_was_closed_or_dropped() {
    for options in ways() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), options.clone()).unwrap();
        store.put(b"small", b"value").unwrap();
        store.put(b"large", &[7; 10_000]).unwrap();
        store.put(b"gone", b"value").unwrap();
        assert!(store.delete(b"gone").unwrap());
        assert!(!store.delete(b"gone").unwrap());
        let expected = held(&store);
        assert_eq!(expected.len(), 2);
        store.close().unwrap();

        let store = Store::open(dir.path(), options.clone()).unwrap();
        assert_eq!(held(&store), expected);
        store.put(b"more", b"").unwrap();
        drop(store);
        let store = Store::open(dir.path(), options).unwrap();
        assert_eq!(held(&store).len(), 3);
        assert_eq!(store.stats().torn, None);
    }
}

/// Empty parts take most of the memory of such a store, and most of the time in which it is opened.
#[test]
fn store_of_few_keys_is_opened_with_fewer_parts_and_can_grow() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    store.put(b"one", b"value").unwrap();
    let as_new = store.stats().memory_bytes;
    drop(store);
    let store = Store::open(dir.path(), Options::new()).unwrap();
    let reopened = store.stats().memory_bytes;
    assert!(reopened < as_new / 3, "{reopened} of {as_new} bytes");
    for number in 0..20_000_u32 {
        store.put(&number.to_le_bytes(), b"value").unwrap();
    }
    let expected = held(&store);
    assert_eq!(expected.len(), 20_001);
    drop(store);
    let store = Store::open(dir.path(), Options::new()).unwrap();
    assert_eq!(held(&store), expected);
    assert!(store.stats().memory_bytes > as_new);
}

/// They go without a look-up and without a write.
#[test]
fn entries_from_before_a_store_was_opened_expire_in_the_background() {
    use std::time::Duration;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    let ttl = Duration::from_secs(1);
    store.put_for(b"over", b"value", ttl).unwrap();
    store.put(b"stays", b"value").unwrap();
    drop(store);
    let store = Store::open(dir.path(), Options::new()).unwrap();
    let begun = crate::clock::now_ms();
    while store.stats().keys > 1 {
        assert!(crate::clock::now_ms() < begun + 60_000, "it stays");
        std::thread::yield_now();
    }
    assert!(store.get(b"stays").unwrap().is_some());
}

/// The same bytes are written in both ways.
#[test]
fn store_can_be_opened_in_the_other_way() {
    let dir = tempfile::tempdir().unwrap();
    for (number, options) in ways().into_iter().cycle().take(4).enumerate() {
        let store = Store::open(dir.path(), options).unwrap();
        store.put(&[number as u8], &[1; 5_000]).unwrap();
        assert_eq!(held(&store).len(), number + 1);
    }
}

/// A process that is being started has the open files of this one for a moment, among them the lock.
#[test]
fn store_that_was_closed_can_be_opened_while_a_process_is_started() {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    let lock = dir.path().join("LOCK");
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let descriptor = descriptors
        .map(|entry| entry.unwrap().path())
        .find(|path| std::fs::read_link(path).is_ok_and(|file| file == lock))
        .unwrap();
    let number = descriptor.file_name().unwrap().to_str().unwrap();
    let process = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let shared = pidfd_getfd(process, number.parse().unwrap(), PidfdGetfdFlags::empty());
    let shared = shared.unwrap();
    drop(store);
    Store::open(dir.path(), Options::new()).unwrap();
    drop(shared);
}

#[test]
fn existing_store_is_opened_and_none_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let open = || Store::open_existing(&path, Options::new());
    let refused = |expected: &str| match open() {
        Err(Error::NoStore { reason, .. }) => assert_eq!(reason, expected),
        other => panic!("{other:?}"),
    };
    refused("there is no store here");
    assert!(!path.exists());
    // One that is open, and to which nothing was written.
    let store = Store::open(&path, Options::new()).unwrap();
    assert!(matches!(open(), Err(Error::InUse { .. })));
    drop(store);
    refused("there is no store here: LOCK was left by one, but there are no log files");
    let store = Store::open(&path, Options::new()).unwrap();
    store.put(b"key", b"value").unwrap();
    drop(store);
    let value = open().unwrap().get(b"key").unwrap();
    assert_eq!(value.as_deref(), Some(&b"value"[..]));
}

#[test]
fn one_store_at_a_time_is_open_in_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    let error = Store::open(dir.path(), Options::new()).unwrap_err();
    let expected = format!(
        "{} is in use by process {}",
        dir.path().display(),
        std::process::id()
    );
    assert_eq!(error.to_string(), expected);
    drop(store);
    Store::open(dir.path(), Options::new()).unwrap();
}

#[test]
fn writers_on_several_threads_lose_nothing() {
    const THREADS: u32 = 4;
    const PUTS: u32 = 500;
    for (options, durability) in ways()
        .into_iter()
        .zip([Durability::Process, Durability::Always])
    {
        let dir = tempfile::tempdir().unwrap();
        let puts = if durability == Durability::Always {
            50
        } else {
            PUTS
        };
        let options = options.segment_bytes(64 << 10).durability(durability);
        let store = Store::open(dir.path(), options.clone()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let store = &store;
                scope.spawn(move || {
                    for number in 0..puts {
                        let key = [thread.to_le_bytes(), number.to_le_bytes()].concat();
                        store.put(&key, &[9; 600]).unwrap();
                        store.put(b"shared", &key).unwrap();
                    }
                });
            }
        });
        let expected = held(&store);
        assert_eq!(expected.len() as u32, THREADS * puts + 1);
        drop(store);
        let store = Store::open(dir.path(), options).unwrap();
        assert_eq!(held(&store), expected);
    }
}

#[test]
fn entries_expire_and_do_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    let day = std::time::Duration::from_secs(86_400);
    store.put(b"over", b"old").unwrap();
    store
        .put_for(b"over", b"new", std::time::Duration::ZERO)
        .unwrap();
    store.put_for(b"later", b"value", day).unwrap();
    let expected = Map::from([(b"later".to_vec(), b"value".to_vec())]);
    assert_eq!(held(&store), expected);
    drop(store);
    let store = Store::open(dir.path(), Options::new()).unwrap();
    assert_eq!(held(&store), expected);
    store.compact().unwrap();
    drop(store);
    let store = Store::open(dir.path(), Options::new()).unwrap();
    assert_eq!(held(&store), expected);
}

#[test]
fn damaged_store_is_refused_checked_and_repaired() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().unwrap();
    let missing = Store::check(dir.path()).unwrap_err();
    assert!(
        missing.to_string().ends_with("there is no store here"),
        "{missing}"
    );
    let store = Store::open(dir.path(), Options::new()).unwrap();
    for number in 0..10_u8 {
        store.put(&[number], &[number; 30]).unwrap();
        store.sync().unwrap();
    }
    assert!(matches!(Store::check(dir.path()), Err(Error::InUse { .. })));
    store.close().unwrap();
    let checked = Store::check(dir.path()).unwrap();
    assert_eq!(
        (checked.files, checked.records, checked.bytes),
        (1, 11, 64 + 10 * 56 + 24)
    );
    assert_eq!((checked.torn, checked.damage), (None, None));

    let path = dir.path().join("0000000001.log");
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"!", 64 + 4 * 56 + 20).unwrap();
    let error = Store::open(dir.path(), Options::new()).unwrap_err();
    let expected = format!(
        "{} is damaged at byte 288: the record's checksum is wrong",
        path.display()
    );
    assert_eq!(error.to_string(), expected);
    for checked in [
        Store::check(dir.path()).unwrap(),
        Store::repair(dir.path()).unwrap(),
    ] {
        let damage = checked.damage.unwrap();
        assert_eq!(
            (damage.path, damage.offset, damage.records),
            (path.clone(), 288, 6)
        );
        assert!((350..=360).contains(&damage.bytes));
    }
    let store = Store::open(dir.path(), Options::new()).unwrap();
    assert_eq!(held(&store).len(), 4);
}

#[test]
fn export_holds_every_entry_with_its_expiry() {
    let (store, copy) = (
        Store::in_memory(Options::new()),
        Store::in_memory(Options::new()),
    );
    store.put(b"stays", b"value").unwrap();
    store
        .put_until(b"goes", b"value", Some(u64::MAX - 1))
        .unwrap();
    let mut expiries = vec![];
    let cursor = store.scan_entries(0, usize::MAX, |key, value, expires_at| {
        expiries.push(expires_at);
        copy.put_until(key, value, expires_at).unwrap();
    });
    assert_eq!(cursor.unwrap(), 0);
    expiries.sort_unstable();
    assert_eq!(expiries, [None, Some(u64::MAX - 1)]);
    assert_eq!(held(&copy), held(&store));
}

/// A record at the end says that everything before it had reached the disk.
#[test]
fn damage_to_the_last_write_before_a_close_is_noticed() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    store.put(b"k", b"the only one").unwrap();
    store.close().unwrap();
    // Opening and closing alone adds nothing.
    Store::open(dir.path(), Options::new())
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(Store::check(dir.path()).unwrap().records, 2);
    let path = dir.path().join("0000000001.log");
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"!", 90).unwrap();
    let error = Store::open(dir.path(), Options::new()).unwrap_err();
    assert!(
        matches!(error, Error::Damaged { offset: 64, .. }),
        "{error}"
    );
}

/// Names, bytes and times of change of the files in a directory.
fn files(dir: &std::path::Path) -> Vec<(String, Vec<u8>, std::time::SystemTime)> {
    let files = std::fs::read_dir(dir).unwrap().map(|file| {
        let file = file.unwrap();
        let changed = file.metadata().unwrap().modified().unwrap();
        let name = file.file_name().into_string().unwrap();
        (name, std::fs::read(file.path()).unwrap(), changed)
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

#[test]
fn reading_a_store_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let read = || Store::open_read_only(dir.path(), Options::new());
    assert!(matches!(read(), Err(Error::NoStore { .. })));
    assert!(files(dir.path()).is_empty());
    let store = Store::open(dir.path(), Options::new()).unwrap();
    for number in 0..100_u8 {
        store.put(&[number], &[number; 1_000]).unwrap();
    }
    let soon = crate::clock::now_ms() + 1;
    store.put_until(b"expiring", b"", Some(soon)).unwrap();
    assert!(matches!(read(), Err(Error::InUse { pid: Some(_), .. })));
    drop(store);
    // The last record is torn, and there is a hint of no segment.
    let log = dir.path().join("0000000001.log");
    let bytes = std::fs::read(&log).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    std::fs::write(&log, &bytes[..last - 1]).unwrap();
    std::fs::write(dir.path().join("0000000007.hint"), b"x").unwrap();
    let before = files(dir.path());
    let (store, other) = (read().unwrap(), read().unwrap());
    assert_eq!(held(&store), held(&other));
    assert_eq!(store.stats().keys, 100);
    assert!(store.stats().torn.is_some());
    let written = [
        store.put(b"key", b"value"),
        store.put(&[1], &[0; 10_000]),
        store.delete(&[1]).map(drop),
        store.compact(),
        store.apply(crate::store::Batch::new().delete(&[1])),
    ];
    for written in written {
        assert!(matches!(written, Err(Error::ReadOnly)), "{written:?}");
    }
    assert_eq!(store.get(&[1]).unwrap(), Some(vec![1; 1_000]));
    assert_eq!(Store::check(dir.path()).unwrap().files, 1);
    let writing = Store::open(dir.path(), Options::new());
    assert!(matches!(writing, Err(Error::InUse { pid: None, .. })));
    store.sync().unwrap();
    store.close().unwrap();
    drop(other);
    assert!(files(dir.path()) == before, "a file has changed");
    Store::open(dir.path(), Options::new()).unwrap();
    assert!(files(dir.path()) != before);
}

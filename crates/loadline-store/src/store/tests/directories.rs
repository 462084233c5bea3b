//! Stores in real directories.

use super::*;
use crate::store::Durability;

fn ways() -> [Options; 2] {
    [Options::new(), Options::new().without_mapping()]
}

#[test]
fn a_store_is_there_after_it_was_closed_or_dropped() {
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
        assert!(store.stats().unsynced_bytes > 10_000);
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

/// The same bytes are written in both ways.
#[test]
fn a_store_can_be_opened_in_the_other_way() {
    let dir = tempfile::tempdir().unwrap();
    for (number, options) in ways().into_iter().cycle().take(4).enumerate() {
        let store = Store::open(dir.path(), options).unwrap();
        store.put(&[number as u8], &[1; 5_000]).unwrap();
        assert_eq!(held(&store).len(), number + 1);
    }
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

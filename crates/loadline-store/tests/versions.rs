//! Stores that were written by every version of the format.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use std::fs;
use std::path::Path;

use loadline_store::{Batch, Options, Store};

/// What every kept store holds.
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

#[test]
fn stores_of_all_versions_open() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/versions");
    let mut versions = 0;
    for version in fs::read_dir(kept).unwrap() {
        let copy = tempfile::tempdir().unwrap();
        for file in fs::read_dir(version.unwrap().path()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
        let store = Store::open(copy.path(), Options::new()).unwrap();
        check(&store);
        versions += 1;
    }
    assert_eq!(versions, 1);
}

#[test]
fn a_new_store_holds_the_same() {
    let directory = match std::env::var_os("LOADLINE_KEEP_STORE") {
        Some(directory) => directory.into(),
        None => tempfile::tempdir().unwrap().keep(),
    };
    let store = Store::open(&directory, Options::new()).unwrap();
    write(&store);
    drop(store);
    check(&Store::open(&directory, Options::new()).unwrap());
    if std::env::var_os("LOADLINE_KEEP_STORE").is_none() {
        fs::remove_dir_all(directory).unwrap();
    }
}

//! A disk that is small, and one that is full.

use super::*;
use crate::keyspace::Keyspace;
use crate::store::{Batch, ChangeLog};

/// A disk of this size.
fn disk(bytes: u64) -> Journal {
    let journal = Journal::default();
    journal.limit(bytes);
    journal
}

/// The log of a server, with its options.
fn server(journal: &Journal) -> (ChangeLog, Vec<Keyspace>) {
    let options = Options::new().slack_bytes(64 << 20);
    ChangeLog::open_on(Box::new(journal.clone()), &options).unwrap()
}

#[test]
fn few_data_of_a_server_are_overwritten_on_a_small_disk() {
    let journal = disk(20 << 20);
    let (mut log, mut databases) = server(&journal);
    for round in 0..3_000_u32 {
        let (key, value) = ([round as u8 % 10], [round as u8; 20_000]);
        databases[0].put_string(&key, &value, 0, |_| Some(None));
        log.put_string(0, &key, &value, None);
        let committed = log.commit(&mut databases);
        committed.unwrap_or_else(|error| panic!("write {round}: {error}"));
    }
}

#[test]
fn few_data_of_the_library_are_overwritten_on_a_small_disk() {
    let journal = disk(20 << 20);
    let store = Store::open_on(Box::new(journal), Options::new()).unwrap();
    for round in 0..3_000_u32 {
        let (key, value) = ([round as u8 % 10], [round as u8; 20_000]);
        let put = store.put(&key, &value);
        put.unwrap_or_else(|error| panic!("write {round}: {error}"));
    }
}

/// Puts keys until the disk is full, and returns how many there are.
fn fill(store: &Store, value: &[u8]) -> u32 {
    for number in 0_u32.. {
        match store.put(&number.to_le_bytes(), value) {
            Ok(()) => {}
            Err(Error::Full { .. }) => return number,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("a disk is finite")
}

#[test]
fn deletes_make_room_on_a_full_disk() {
    for bytes in [100, 1_000, 20_000] {
        let journal = disk(2 << 20);
        let open = || Store::open_on(Box::new(journal.clone()), Options::new());
        let store = open().unwrap();
        let value = vec![7; bytes];
        let keys = fill(&store, &value);
        assert!(
            keys as usize * bytes > 1 << 19,
            "{keys} keys of {bytes} bytes"
        );
        // Neither an opening nor a compaction needs room, and every delete has some.
        drop(store);
        let store = open().unwrap();
        store.compact().unwrap();
        for number in 0..keys / 2 {
            let deleted = store.delete(&number.to_le_bytes());
            assert!(deleted.unwrap_or_else(|error| panic!("delete {number}: {error}")));
        }
        for number in 0..keys / 4 {
            let put = store.put(&number.to_le_bytes(), &value);
            put.unwrap_or_else(|error| panic!("put {number} of {keys}: {error}"));
        }
        let mut batch = Batch::new();
        (0..keys).for_each(|number| _ = batch.delete(&number.to_le_bytes()));
        store.apply(&batch).unwrap();
        store.compact().unwrap();
        assert!(fill(&store, &value) >= keys * 3 / 4);
        drop(store);
        assert!(open().unwrap().stats().keys >= u64::from(keys) * 3 / 4);
    }
}

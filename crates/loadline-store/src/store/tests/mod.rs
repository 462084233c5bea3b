//! Tests of a store with a log.

mod change_log;
mod clock;
mod crashes;
mod damaged;
mod directories;
mod hints;
mod hostile;
mod model;
mod reads;
mod repairs;
mod room;
mod small_disk;

use std::collections::BTreeMap;

use super::Store;
use super::options::Options;
use super::reclaim::Load;
use super::wakeup::SyncMode;
use crate::error::Error;
use crate::storage::journal::Journal;

/// The expected content of a store.
type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The content of a store.
fn held(store: &Store) -> Map {
    let mut map = Map::new();
    let mut cursor = 0;
    loop {
        cursor = store
            .scan(cursor, 100, b"", |key, value| {
                assert!(map.insert(key.to_vec(), value.to_vec()).is_none());
            })
            .unwrap();
        if cursor == 0 {
            break;
        }
    }
    for (key, value) in &map {
        assert_eq!(store.get(key).unwrap().as_ref(), Some(value));
    }
    map
}

/// Does what the thread in the background does when nothing was written for a while.
fn rest(store: &Store) {
    let (load, sync) = (Load::Idle, SyncMode::Always);
    store.inner.work_under(load, sync, || false);
}

/// Opens a store in `journal`. Its segments are small, and long values are kept in the log only.
fn open(journal: &Journal, options: Options) -> Result<Store, Error> {
    let options = options.segment_bytes(64 << 10).value_in_log_bytes(100);
    // Without a thread in the background, nothing would be reclaimed afterwards.
    let options = options.burst_bytes(0);
    Store::open_on(Box::new(journal.clone()), options)
}

/// Whether tests use their long settings; see CONTRIBUTING.md.
fn is_long() -> bool {
    std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1")
}

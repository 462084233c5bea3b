//! Reads of several keys at once.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::clock::now_ms;
use crate::store::Batch;

/// Every batch puts one number at all keys, and no read of these keys sees two of them.
#[test]
fn batch_is_read_as_a_whole_or_not_at_all() {
    let keys: Vec<[u8; 2]> = (0..40).map(|key| [key, 1]).collect();
    let store = Store::in_memory(Options::new());
    let stops = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut batch = Batch::new();
            for number in 0_u64.. {
                batch.clear();
                for key in &keys {
                    batch.put(key, &number.to_le_bytes());
                }
                store.apply(&batch).unwrap();
                if stops.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut seen = 0;
        let mut last = None;
        while seen < 200 {
            let values = store.get_many(&keys).unwrap();
            let is_one = values.iter().all(|value| *value == values[0]);
            if !is_one {
                stops.store(true, Ordering::Relaxed);
                panic!("a part of a batch: {values:?}");
            }
            seen += u32::from(values[0] != last);
            last.clone_from(&values[0]);
        }
        stops.store(true, Ordering::Relaxed);
        seen
    });
    assert_eq!(seen, 200);
}

#[test]
fn expired_and_repeated_keys_are_read_like_single_ones() {
    let store = Store::in_memory(Options::new());
    for number in 0..200_u8 {
        let expires_at = number.is_multiple_of(2).then_some(1);
        store
            .put_until(&[number], &[number; 80], expires_at)
            .unwrap();
    }
    let keys = (0..=255_u8).rev().chain(0..=255).map(|key| [key]);
    let keys: Vec<[u8; 1]> = keys.collect();
    let values = store.get_many(&keys).unwrap();
    assert_eq!(values.len(), keys.len());
    for ([key], value) in keys.iter().zip(values) {
        let is_there = *key < 200 && !key.is_multiple_of(2);
        assert_eq!(value, is_there.then(|| vec![*key; 80]), "{key}");
    }
    let stats = store.stats();
    assert_eq!((stats.hits, stats.misses), (200, 312));
    assert_eq!((stats.keys, stats.expirations), (100, 100));
    assert_eq!(store.get_many::<&[u8]>(&[]).unwrap(), []);
}

/// The thread in the background follows the memory of a store without a log, too.
#[test]
fn memory_of_a_store_without_a_directory_is_moved_to_huge_pages() {
    use crate::storage::{HUGE_BYTES, use_huge_page};
    use std::sync::atomic::Ordering;
    let mut other = vec![1_u8; 3 * HUGE_BYTES];
    let can_move = use_huge_page(other.as_mut_ptr().addr() + HUGE_BYTES).is_ok();
    println!("this kernel moves memory: {can_move}");
    for is_batch in [false, true] {
        let store = Store::in_memory(Options::new());
        for key in 0..200_000_u32 {
            if is_batch {
                let mut batch = Batch::new();
                batch.put(&key.to_le_bytes(), &[1; 200]);
                store.apply(&batch).unwrap();
            } else {
                store.put(&key.to_le_bytes(), &[1; 200]).unwrap();
            }
        }
        let moved = || store.inner.wakeup.huge_pages.load(Ordering::Relaxed);
        let until = now_ms() + 60_000;
        while can_move && moved() == 0 {
            assert!(now_ms() < until, "nothing was moved");
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
        assert_eq!(moved() > 0, can_move);
        assert_eq!(store.get(&7_u32.to_le_bytes()).unwrap().unwrap(), [1; 200]);
    }
}

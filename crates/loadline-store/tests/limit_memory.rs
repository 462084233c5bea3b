//! Memory that a store with a limit takes of the process. One test, since that is about the whole process.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

use std::alloc::System;

use loadline_store::{Options, Store};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const LIMIT: u64 = 16 << 20;
/// The limit of resident memory. Beyond the limit of the store, it has room for headers of the allocator, for pieces
/// that the allocator cannot use again, and for the stack and the arena of the thread in the background.
const MOST_RESIDENT: u64 = LIMIT + LIMIT / 6 + (1 << 20);

/// Bytes of resident memory that belong to no file.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let kib = line.unwrap().split_ascii_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() * 1024
}

/// Values of one size, and of sizes up to it.
#[test]
fn limited_store_takes_little_more_than_its_limit() {
    let before = resident_bytes();
    for (value_bytes, is_mixed) in [
        (100_000, false),
        (10_000, true),
        (1_000, false),
        (300, true),
        (20, false),
    ] {
        let region = Region::new(COUNTED);
        let store = Store::in_memory(Options::new().max_memory_bytes(LIMIT));
        let value = vec![b'v'; value_bytes];
        let (mut allocated, mut resident) = (0, 0);
        let count = 3 * LIMIT as usize / (value_bytes / (1 + usize::from(is_mixed)) + 50);
        for number in 0..count {
            let shorter = number.wrapping_mul(7_919) % value_bytes * usize::from(is_mixed);
            let key = format!("key:{number:08}");
            store
                .put(key.as_bytes(), &value[..value_bytes - shorter])
                .unwrap();
            if number % (count / 50) == 0 {
                let change = region.change();
                allocated = allocated.max(change.bytes_allocated - change.bytes_deallocated);
                resident = resident.max(resident_bytes().saturating_sub(before));
            }
        }
        let counted = store.stats().memory_bytes;
        println!(
            "values of {value_bytes} bytes: {counted} bytes counted, {allocated} allocated, {resident} resident"
        );
        assert!((LIMIT * 3 / 4..=LIMIT).contains(&counted), "{counted}");
        assert!(allocated as u64 <= LIMIT + (256 << 10), "{allocated}");
        assert!(resident <= MOST_RESIDENT, "{resident}");
    }
}

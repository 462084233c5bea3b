//! Memory of a key, and allocations of a GET. One test, since both are about the whole process.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

use std::alloc::System;

use loadline_store::{Keyspace, View};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const KEYS: usize = 1_000_000;
const VALUE_BYTES: usize = 64;

/// The most that a key of 16 bytes with a value of 64 may take of the resident memory.
const MOST_BYTES_PER_KEY: usize = 130;
/// The same after values of other lengths were put in the places of the first ones.
const MOST_BYTES_AFTERWARDS: usize = 140;

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.unwrap().split_ascii_whitespace().nth(1).unwrap();
    kib.parse::<usize>().unwrap() * 1024
}

fn name(key: &mut [u8; 16], number: usize) {
    let digits = &mut key[4..];
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

#[test]
fn key_takes_little_and_a_get_allocates_nothing() {
    let keyspace = Keyspace::new();
    let before = resident_bytes();
    let mut key = *b"key:000000000000";
    for number in 0..KEYS {
        name(&mut key, number);
        keyspace.put_string(&key, &[b'v'; VALUE_BYTES], 0, |_| Some(None));
    }
    let per_key = (resident_bytes() - before) / KEYS;
    let counted = keyspace.total_memory_bytes() / KEYS;
    println!("{per_key} bytes of resident memory per key, {counted} counted");
    assert!(per_key <= MOST_BYTES_PER_KEY, "{per_key} bytes per key");

    let region = Region::new(COUNTED);
    let mut found = 0;
    for number in (0..2 * KEYS).step_by(100) {
        name(&mut key, number);
        let bytes = keyspace.look_up(&key, 0, |value| match value {
            Some(View::String(bytes)) => bytes.len(),
            _ => 0,
        });
        found += usize::from(bytes == VALUE_BYTES);
    }
    let allocations = region.change().allocations;
    println!("{allocations} allocations in {} GETs", 2 * KEYS / 100);
    assert_eq!((found, allocations), (KEYS / 100, 0));

    // Values of other lengths in the places of some: what the old ones leave behind is bounded.
    let is_long = std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1");
    let (rounds, step) = if is_long { (10, 1) } else { (1, 5) };
    for round in 1..=rounds {
        for number in (0..KEYS).step_by(step) {
            name(&mut key, number);
            let value = &[b'v'; VALUE_BYTES][..VALUE_BYTES - round % 4];
            keyspace.put_string(&key, value, 0, |_| Some(None));
        }
    }
    let per_key = (resident_bytes() - before) / KEYS;
    println!("{per_key} bytes of resident memory per key after {rounds} rounds of other values");
    assert!(per_key <= MOST_BYTES_AFTERWARDS, "{per_key} bytes");
}

//! A hostile server against a subscriber: cut or whole, its bytes lead to an end without a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loadline_client::Limits;
use loadline_client::fuzzing::{Hostile, subscriptions};

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (cut, greets, bytes) = input;
    let told = subscriptions(Hostile {
        bytes,
        piece_bytes: usize::from(cut) + 1,
        greets,
        limits: Limits::default(),
    });
    assert!(!told.is_empty());
});

//! A node's answers about its cluster: the map, and redirections.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loadline_resp::{Decoder, Limits};

fuzz_target!(|input: (&str, &[u8])| {
    let (error, bytes) = input;
    if let Ok(Some((reply, _))) = Decoder::new(Limits::default()).decode(bytes) {
        loadline_client::fuzzing::topology(&reply, error);
    }
});

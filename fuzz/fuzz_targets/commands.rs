//! Requests from anywhere, executed on a fresh store: each has one whole reply.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| loadline_server::fuzzing::serve(bytes));

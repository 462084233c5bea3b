//! A hostile server against a connection of the client: every request has a result, which is the same for
//! bytes that come cut or whole.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loadline_client::Limits;
use loadline_client::fuzzing::{Hostile, connection};
use loadline_fuzz::TIGHT;

fuzz_target!(|input: (u8, bool, bool, &[u8])| {
    let (cut, greets, tight, bytes) = input;
    let whole = Hostile {
        bytes,
        piece_bytes: bytes.len().max(1),
        greets,
        limits: if tight { TIGHT } else { Limits::default() },
    };
    let cut = Hostile {
        piece_bytes: usize::from(cut) + 1,
        ..whole
    };
    let results = (connection(whole), connection(cut));
    // Without a handshake, the requests are written once the client has taken some bytes for one, and whether
    // others were there before is a matter of the cuts.
    if greets {
        assert_eq!(results.0, results.1);
    }
});

//! Speed of the skipper: nanoseconds per reply for a buffer full of one kind of reply, fed in pieces of
//! 16 KiB as from a socket. Run it with `--release`; pass a part of a name to run only what matches.

use std::hint::black_box;
use std::time::Instant;

use loadline_resp::{Limits, ReplyKind, Skipper, encode};

/// Bytes of each piece that is fed; replies are cut wherever a piece ends.
const PIECE_BYTES: usize = 16 << 10;

/// Number of rounds. The fastest one is shown, because only disturbances make a round slower.
const ROUNDS: usize = 15;

/// Replies that a mixture repeats after.
const MIXED_REPLIES: u64 = 1 << 16;

/// Bytes to skip per round.
const ROUND_BYTES: usize = 8 << 20;

#[expect(
    clippy::print_stdout,
    reason = "the figures are what this program is for"
)]
fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    for (name, replies) in cases() {
        if name.contains(&wanted) {
            println!("{name:<36} {:6.2} ns per reply", nanos_per_reply(&replies));
        }
    }
}

fn cases() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let same = |reply: &[u8]| vec![reply.to_vec()];
    let many = |reply: fn(u64) -> Vec<u8>| (0..MIXED_REPLIES).map(reply).collect();
    vec![
        ("+OK", same(b"+OK\r\n")),
        ("+PONG", same(b"+PONG\r\n")),
        (
            "a simple string of 20 bytes",
            same(b"+twenty bytes of text\r\n"),
        ),
        (":1", same(b":1\r\n")),
        (
            "integers from 0 to 65535",
            many(|place| format!(":{place}\r\n").into_bytes()),
        ),
        ("integers of 10 digits", same(b":1234567890\r\n")),
        ("$-1", same(b"$-1\r\n")),
        ("$64", same(&bulk(64))),
        ("$1024", same(&bulk(1024))),
        (
            "strings of 1 to 200 bytes at random",
            many(|place| bulk(1 + random(place) % 200)),
        ),
        ("+OK and $64 in turns", vec![b"+OK\r\n".to_vec(), bulk(64)]),
        (
            "$64 or $-1 at random",
            many(|place| {
                if random(place).is_multiple_of(2) {
                    bulk(64)
                } else {
                    b"$-1\r\n".to_vec()
                }
            }),
        ),
        ("-ERR", same(b"-ERR unknown command 'FOO'\r\n")),
        ("*10 of $64", same(&list(10))),
        ("*100 of $64", same(&list(100))),
    ]
}

fn bulk(bytes: u64) -> Vec<u8> {
    let mut out = Vec::new();
    encode::bulk(&mut out, &b"x".repeat(bytes as usize));
    out
}

/// An array of this number of strings of 64 bytes.
fn list(len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    encode::command(&mut out, &vec![[b'x'; 64]; len]);
    out
}

/// A number without a pattern that a branch predictor could learn: one step of SplitMix64.
fn random(place: u64) -> u64 {
    let mixed = (place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the library has no clock, its benchmark has to"
)]
fn nanos_per_reply(replies: &[Vec<u8>]) -> f64 {
    let mut buf = Vec::with_capacity(ROUND_BYTES);
    let mut count = 0u64;
    while buf.len() < ROUND_BYTES {
        for reply in replies {
            buf.extend_from_slice(reply);
            count += 1;
        }
    }
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let mut skipper = Skipper::new(Limits::default());
        let mut counted = [0u64; 2];
        let start = Instant::now();
        for piece in black_box(&buf).chunks(PIECE_BYTES) {
            let fed = skipper.feed(piece, |reply| {
                counted[usize::from(reply.kind == ReplyKind::Error)] += 1;
            });
            fed.expect("the replies are RESP");
        }
        let elapsed = start.elapsed();
        assert_eq!(black_box(counted).iter().sum::<u64>(), count);
        best = best.min(elapsed.as_secs_f64() * 1e9 / count as f64);
    }
    best
}

//! Hostile bytes against every parser: each is refused with an error, or waited for, without a panic and
//! without memory for what was only announced.
//!
//! `cargo test -p loadline-resp --test hostile -- --nocapture` shows what was fed, what came of it and what
//! memory it took.

use std::sync::{Mutex, MutexGuard, PoisonError};

use loadline_resp::{
    DEPTH_CEILING, Decoder, Error, Limits, Malformed, RequestFault, RequestParser, Skipper,
};

/// Bytes that a connection reads at once.
const PIECE_BYTES: usize = 64 << 10;

/// The most memory that one input may add to the process at its peak, including the piece of it that is read.
const MEMORY_BOUND_BYTES: u64 = 4 << 20;

/// The tests take turns, so that the memory of one is not counted for another.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes to feed: `unit` over and over until there are `bytes` of them.
struct Feed {
    name: &'static str,
    unit: Vec<u8>,
    bytes: usize,
}

impl Feed {
    fn once(name: &'static str, unit: &[u8]) -> Self {
        Self {
            name,
            unit: unit.to_vec(),
            bytes: unit.len(),
        }
    }

    fn repeated(name: &'static str, unit: &[u8], times: usize) -> Self {
        Self {
            name,
            unit: unit.to_vec(),
            bytes: unit.len() * times,
        }
    }

    /// The bytes as a connection would read them.
    fn pieces(&self) -> impl Iterator<Item = Vec<u8>> {
        let unit = &self.unit;
        (0..self.bytes).step_by(PIECE_BYTES).map(move |start| {
            let end = self.bytes.min(start + PIECE_BYTES);
            (start..end).map(|place| unit[place % unit.len()]).collect()
        })
    }
}

/// Progress of a parser before it gave up.
#[derive(Debug, PartialEq)]
struct Outcome {
    fed_bytes: usize,
    end: Result<(), Error>,
}

fn skip(feed: &Feed, limits: Limits) -> Outcome {
    let mut skipper = Skipper::new(limits);
    let mut fed_bytes = 0;
    for piece in feed.pieces() {
        fed_bytes += piece.len();
        if let Err(error) = skipper.feed(&piece, |_| {}) {
            return Outcome {
                fed_bytes,
                end: Err(error),
            };
        }
    }
    Outcome {
        fed_bytes,
        end: Ok(()),
    }
}

fn decode(feed: &Feed, limits: Limits) -> Outcome {
    let mut decoder = Decoder::new(limits);
    let mut buf = Vec::new();
    let mut fed_bytes = 0;
    for piece in feed.pieces() {
        fed_bytes += piece.len();
        buf.extend_from_slice(&piece);
        loop {
            match decoder.decode(&buf) {
                Err(error) => {
                    return Outcome {
                        fed_bytes,
                        end: Err(error),
                    };
                }
                Ok(None) => break,
                Ok(Some((_, used))) => drop(buf.drain(..used)),
            }
        }
    }
    Outcome {
        fed_bytes,
        end: Ok(()),
    }
}

fn request(feed: &Feed) -> Outcome {
    let mut parser = RequestParser::new(Limits::default());
    let mut buf = Vec::new();
    let mut fed_bytes = 0;
    for piece in feed.pieces() {
        fed_bytes += piece.len();
        buf.extend_from_slice(&piece);
        loop {
            match parser.parse(&buf) {
                Err(error) => {
                    return Outcome {
                        fed_bytes,
                        end: Err(error),
                    };
                }
                Ok((used, request)) => {
                    let waits = request.is_none();
                    buf.drain(..used);
                    if waits {
                        break;
                    }
                }
            }
        }
    }
    Outcome {
        fed_bytes,
        end: Ok(()),
    }
}

/// Result of `work`, and the growth of the resident size of this process at its peak, in bytes.
#[expect(
    clippy::disallowed_methods,
    reason = "the kernel forgets a peak by a file"
)]
fn measured<T>(work: impl FnOnce() -> T) -> (T, u64) {
    std::fs::write("/proc/self/clear_refs", "5").expect("a process may forget its own peak");
    let before = memory("VmRSS:");
    let result = work();
    (result, memory("VmHWM:").saturating_sub(before))
}

/// A size of this process according to Linux, in bytes.
#[expect(
    clippy::disallowed_methods,
    reason = "the size is read from a file of the system; the codec reads none"
)]
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux describes the process");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .expect("the size is among it");
    let kib = line
        .split_whitespace()
        .next()
        .and_then(|number| number.parse::<u64>().ok());
    kib.expect("a size is a number of KiB") << 10
}

/// One line of the table: what was fed, how much of it was taken, the memory for that, and what came back.
#[expect(
    clippy::print_stdout,
    reason = "what was fed and what came of it is there to be shown"
)]
fn show(parser: &str, name: &str, fed_bytes: &str, peak_kib: &str, back: &str) {
    println!("{parser:<8}  {name:<38}  {fed_bytes:>9}  {peak_kib:>8}  {back}");
}

/// Feeds a parser, shows what came of it, and looks at the memory.
fn fed(parser: &str, feed: &Feed, parse: impl FnOnce(&Feed) -> Outcome) -> Outcome {
    let (outcome, peak_bytes) = measured(|| parse(feed));
    let back = match &outcome.end {
        Ok(()) => "accepted so far, waits for more".to_owned(),
        Err(error) => error.to_string(),
    };
    let (fed_bytes, peak_kib) = (
        outcome.fed_bytes.to_string(),
        (peak_bytes >> 10).to_string(),
    );
    show(parser, feed.name, &fed_bytes, &peak_kib, &back);
    assert!(
        peak_bytes <= MEMORY_BOUND_BYTES,
        "{parser}: {}: {peak_bytes} bytes of memory",
        feed.name
    );
    outcome
}

/// Replies, and the error that the decoder and the skipper both give under the default limits.
fn replies() -> Vec<(Feed, Error)> {
    let mut all = nestings();
    all.extend(lengths());
    all.extend(lines());
    all
}

fn nestings() -> Vec<(Feed, Error)> {
    let limit = Limits::default().max_depth;
    let units: [(&'static str, &[u8]); 4] = [
        ("200,000 nested arrays", b"*1\r\n"),
        ("200,000 nested maps", b"%1\r\n"),
        ("200,000 attributes in a row", b"|0\r\n"),
        ("200,000 nested attributes", b"|1\r\n"),
    ];
    let fed = |(name, unit)| {
        (
            Feed::repeated(name, unit, 200_000),
            Error::TooDeep { limit },
        )
    };
    units.into_iter().map(fed).collect()
}

fn lengths() -> Vec<(Feed, Error)> {
    let defaults = Limits::default();
    let length = Error::Malformed(Malformed::Length);
    let bulk = |bytes| Error::BulkTooLong {
        bytes,
        limit: defaults.max_bulk_bytes,
    };
    let aggregate = |len| Error::AggregateTooLong {
        len,
        limit: defaults.max_aggregate_len,
    };
    let texts = [
        ("$-5", length),
        ("*-2", length),
        ("%-1", length),
        ("*2000000000", aggregate(2_000_000_000)),
        ("$10737418240", bulk(10_737_418_240)),
        ("$536870913", bulk((512 << 20) + 1)),
        ("$18446744073709551615", bulk(u64::MAX)),
        ("$18446744073709551616", length),
        ("%9223372036854775807", aggregate(i64::MAX.unsigned_abs())),
        ("|9223372036854775808", aggregate(1 << 63)),
        ("$?", Error::Streamed),
        ("*?", Error::Streamed),
        (";4", Error::Streamed),
    ];
    let fed = |(text, error): (&'static str, Error)| {
        (Feed::once(text, format!("{text}\r\n").as_bytes()), error)
    };
    texts.into_iter().map(fed).collect()
}

fn lines() -> Vec<(Feed, Error)> {
    let line = Error::LineTooLong {
        limit: Limits::default().max_line_bytes,
    };
    let malformed = Error::Malformed;
    vec![
        (
            Feed::repeated("a simple string of 256 MB", b"+", 256_000_000),
            line,
        ),
        (
            Feed::repeated("an error of 256 MB", b"-", 256_000_000),
            line,
        ),
        (
            Feed::repeated("a big number of 256 MB", b"(", 256_000_000),
            line,
        ),
        (
            Feed::repeated("a length of 256 MB", b"$", 256_000_000),
            malformed(Malformed::Length),
        ),
        (
            Feed::once("a string longer than announced", b"$1\r\nxx\r\n"),
            malformed(Malformed::Terminator),
        ),
        (
            Feed::once("a web page", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            malformed(Malformed::Type(b'H')),
        ),
    ]
}

#[test]
fn hostile_bytes_are_refused_in_bounded_memory() {
    let _turn = turn();
    show("parser", "fed", "bytes", "peak KiB", "what came back");
    let defaults = Limits::default();
    for (feed, error) in replies() {
        for (parser, outcome) in [
            (
                "skipper",
                fed("skipper", &feed, |feed| skip(feed, defaults)),
            ),
            (
                "decoder",
                fed("decoder", &feed, |feed| decode(feed, defaults)),
            ),
        ] {
            assert_eq!(outcome.end, Err(error), "{parser}: {}", feed.name);
            // The line limit is the largest of all: nothing is read for longer than that.
            assert!(
                outcome.fed_bytes <= 2 * PIECE_BYTES,
                "{parser}: {}",
                feed.name
            );
        }
    }
    for (feed, fault) in requests() {
        let outcome = fed("request", &feed, request);
        assert_eq!(outcome.end, Err(fault.into()), "{}", feed.name);
        assert!(outcome.fed_bytes <= 2 * PIECE_BYTES, "{}", feed.name);
    }
    for (feed, limits) in waited_for() {
        for outcome in [
            fed("skipper", &feed, |feed| skip(feed, limits)),
            fed("decoder", &feed, |feed| decode(feed, limits)),
        ] {
            let expected = Outcome {
                fed_bytes: feed.bytes,
                end: Ok(()),
            };
            assert_eq!(outcome, expected, "{}", feed.name);
        }
    }
}

/// Requests, and the error that they are refused with.
fn requests() -> Vec<(Feed, RequestFault)> {
    vec![
        (
            Feed::once("*2147483648", b"*2147483648\r\n"),
            RequestFault::MultibulkLength,
        ),
        (
            Feed::once("*9223372036854775808", b"*9223372036854775808\r\n"),
            RequestFault::MultibulkLength,
        ),
        (
            Feed::once("$10737418240", b"*1\r\n$10737418240\r\n"),
            RequestFault::BulkLength,
        ),
        (
            Feed::once("$-5", b"*1\r\n$-5\r\n"),
            RequestFault::BulkLength,
        ),
        (
            Feed::repeated("nested arrays", b"*1\r\n", 200_000),
            RequestFault::ExpectedBulk(b'*'),
        ),
        (
            Feed::repeated("an inline request of 256 MB", b"A", 256_000_000),
            RequestFault::InlineLine,
        ),
        (
            Feed::repeated("an array length of 256 MB", b"*", 256_000_000),
            RequestFault::MultibulkLine,
        ),
    ]
}

/// Announcements that the limits allow: nothing may be reserved for what has not arrived.
fn waited_for() -> Vec<(Feed, Limits)> {
    let defaults = Limits::default();
    let none = Limits {
        max_bulk_bytes: u64::MAX,
        max_aggregate_len: u64::MAX,
        max_reply_bytes: u64::MAX,
        ..defaults
    };
    vec![
        (Feed::once("$536870912", b"$536870912\r\nx"), defaults),
        (Feed::once("*4194304", b"*4194304\r\n:1\r\n"), defaults),
        (
            Feed::repeated("64 nested arrays of 16777216", b"*16777216\r\n", 64),
            Limits {
                max_reply_bytes: u64::MAX,
                ..defaults
            },
        ),
        (
            Feed::once(
                "$18446744073709551615 without limits",
                b"$18446744073709551615\r\nx",
            ),
            none,
        ),
        (
            Feed::once(
                "%9223372036854775807 without limits",
                b"%9223372036854775807\r\n:1\r\n",
            ),
            none,
        ),
        (
            Feed::once(
                "|9223372036854775807 without limits",
                b"|9223372036854775807\r\n:1\r\n",
            ),
            none,
        ),
        (
            Feed::repeated("1,000,000 empty arrays", b"*0\r\n", 1_000_000),
            defaults,
        ),
        (
            Feed::repeated("1,000,000 arrays of one", b"*1\r\n_\r\n", 1_000_000),
            defaults,
        ),
    ]
}

#[test]
fn twice_as_many_as_can_be_counted_are_too_many() {
    let _turn = turn();
    let limits = Limits {
        max_aggregate_len: u64::MAX,
        ..Limits::default()
    };
    for bytes in [
        &b"%9223372036854775808\r\n"[..],
        b"|9223372036854775808\r\n",
    ] {
        let feed = Feed::once("2^63 pairs without limits", bytes);
        let expected = Err(Error::AggregateTooLong {
            len: 1 << 63,
            limit: u64::MAX,
        });
        assert_eq!(skip(&feed, limits).end, expected);
        assert_eq!(decode(&feed, limits).end, expected);
    }
}

#[test]
fn deepest_reply_fits_a_small_stack() {
    let _turn = turn();
    let work = || {
        let limits = Limits {
            max_depth: usize::MAX,
            ..Limits::default()
        };
        let mut bytes = b"*1\r\n".repeat(DEPTH_CEILING);
        bytes.extend_from_slice(b":1\r\n");
        let (reply, used) = Decoder::new(limits)
            .decode(&bytes)
            .unwrap()
            .expect("the reply is complete");
        assert_eq!(used, bytes.len());
        let owned = reply.to_owned();
        assert_eq!(owned, owned.clone());
        assert_eq!(format!("{owned:?}"), format!("{reply:?}"));
        drop((reply, owned));

        let deeper = Feed::repeated("one level more", b"*1\r\n", DEPTH_CEILING + 1);
        let expected = Err(Error::TooDeep {
            limit: DEPTH_CEILING,
        });
        assert_eq!(decode(&deeper, limits).end, expected);
        assert_eq!(skip(&deeper, limits).end, expected);
    };
    let thread = std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(work)
        .expect("a thread can be started");
    thread.join().expect("the deepest reply is handled");
}

#[test]
fn large_reply_in_small_pieces_takes_linear_time() {
    let _turn = turn();
    let mut bytes = b"*300000\r\n".to_vec();
    bytes.extend_from_slice(&b":1\r\n".repeat(300_000));
    let mut decoder = Decoder::new(Limits::default());
    // With a fresh start at every call this would look at 9 * 10^10 bytes, and take minutes.
    for end in (0..bytes.len()).step_by(8) {
        assert!(decoder.decode(&bytes[..end]).unwrap().is_none());
    }
    let (_, used) = decoder
        .decode(&bytes)
        .unwrap()
        .expect("the reply is complete");
    assert_eq!(used, bytes.len());
}

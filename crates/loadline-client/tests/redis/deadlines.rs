//! Timeouts of blocking connections hold against peers that read slowly.

use std::io::Read;
use std::time::{Duration, Instant};

use loadline_client::commands::{get, set};
use loadline_client::{Client, Error};

use crate::fake::{greet, serve};

/// The time between two reads or writes of a slow peer: well within each timeout.
pub(crate) const DRIP: Duration = Duration::from_millis(20);
/// Far beyond each timeout here, and far below the time that the peers would take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

#[test]
fn peer_that_reads_slowly_is_given_up_in_time() {
    let address = serve(|mut stream, _| {
        greet(&mut stream);
        // Enough that each write goes on within its timeout, and that the whole takes 20 s.
        let mut some = vec![0; 64 << 10];
        while stream.read_exact(&mut some).is_ok() {
            std::thread::sleep(DRIP);
        }
    });
    let url = format!("redis://{address}?response_timeout=300ms");
    let mut connection = Client::open(&url).unwrap().blocking().unwrap();
    let begun = Instant::now();
    let error = connection.run(set("k", "x".repeat(64 << 20))).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert!(!error.maybe_executed(), "the command lacked its end");
}

/// The timeout of a socket is rounded up to ticks of the system, so 2 ms took 8 ms where a tick is 4 ms.
#[test]
fn short_timeout_is_not_rounded_up_to_ticks() {
    const SHORT: Duration = Duration::from_millis(2);
    let address = serve(|mut stream, _| {
        greet(&mut stream);
        // Reads requests and replies to none.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let url = format!("redis://{address}?response_timeout=2ms");
    let took = || {
        let mut connection = Client::open(&url).unwrap().blocking().unwrap();
        let begun = Instant::now();
        let error = connection.run(get::<String>("k")).unwrap_err();
        let took = begun.elapsed();
        assert!(
            matches!(error, Error::Timeout { after, .. } if after == SHORT),
            "{error}"
        );
        assert!(took >= SHORT, "{took:?}");
        took
    };
    // One of them is not interrupted by other work of the machine; with ticks of 4 ms, each would take as long.
    let until = Instant::now() + Duration::from_secs(60);
    let mut fastest = took();
    while fastest >= SHORT * 3 / 2 {
        assert!(Instant::now() < until, "{fastest:?}");
        fastest = fastest.min(took());
    }
}

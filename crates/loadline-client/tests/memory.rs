//! Memory of a process that holds the manager of ten connections. One test, since it is about the whole process.

#![cfg(all(feature = "tokio", target_os = "linux"))]
#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

#[path = "redis/port.rs"]
mod port;
#[path = "redis/server.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod server;

use std::fs;

use loadline_client::commands::{get, set};
use loadline_client::pool::Limits;

const CONNECTIONS: usize = 10;
const ROUNDS: usize = 200;
/// The most that the process may hold: ten megabytes.
const PROCESS_BYTES: u64 = 10_000_000;

/// A line of what the system says of this process, in bytes.
#[expect(
    clippy::disallowed_methods,
    reason = "the size is read from a file of the system; the client reads none"
)]
fn resident(what: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(what)).unwrap();
    let kib = line.split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() * 1024
}

#[test]
fn pool_of_ten_connections_fits_into_ten_megabytes() {
    let redis = server::Redis::start();
    let before = (resident("VmRSS"), resident("RssAnon"));
    server::runtime().block_on(async {
        let limits = Limits {
            min: CONNECTIONS,
            max: CONNECTIONS,
            ..Limits::default()
        };
        let pool = redis.client().pool(limits).await.unwrap();
        for round in 0..ROUNDS {
            // All ten at once, each with a write and a read of a kilobyte.
            let mut borrowed = Vec::new();
            for _ in 0..CONNECTIONS {
                borrowed.push(pool.get().await.unwrap());
            }
            for (number, connection) in borrowed.iter_mut().enumerate() {
                let key = format!("{round}:{number}");
                connection.run(set(&key, "x".repeat(1024))).await.unwrap();
                let value: String = connection.run(get(&key)).await.unwrap();
                assert_eq!(value.len(), 1024);
            }
        }
        assert_eq!(pool.status().free, CONNECTIONS);
        let after = (resident("VmRSS"), resident("RssAnon"));
        println!(
            "resident with {CONNECTIONS} connections after {} requests: {} KiB, of which {} KiB are \
             not files; before: {} KiB and {} KiB",
            2 * ROUNDS * CONNECTIONS,
            after.0 >> 10,
            after.1 >> 10,
            before.0 >> 10,
            before.1 >> 10
        );
        assert!(after.0 < PROCESS_BYTES, "{} bytes are resident", after.0);
    });
}

//! The memory of a process with a full cache, against the budget of the cache.

#![cfg(target_os = "linux")]
#![expect(
    clippy::print_stdout,
    reason = "a process prints its result, and a test what it has found"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

use std::io;
use std::process::Command;

use loadline_cache::{Cache, Key, Weigh};

/// Gives the case to the test that runs as a process of its own.
const CASE: &str = "CACHE_MEMORY_CASE";
const BUDGET: u64 = 16 << 20;

/// Bytes of this process in memory.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.unwrap().parse::<u64>().unwrap() * 1_024
}

/// Fills a cache with twice as much as fits, and prints what the process has grown by, and by its own count.
fn fill<K: Key, V: Weigh + Send + Sync + 'static>(
    mean_bytes: u64,
    key: impl Fn(u64) -> K,
    value: impl Fn(Vec<u8>) -> V,
) {
    let build = || {
        let builder = Cache::<K, V>::builder().memory_bytes(BUDGET);
        builder.build(|_| Ok::<_, io::Error>(None)).unwrap()
    };
    // The code itself is in memory once it has run.
    build().insert(&key(0), value(vec![b'x']));
    let (before, cache) = (resident_bytes(), build());
    for number in 0..2 * BUDGET / (mean_bytes + 100) {
        // From half of the mean to one and a half.
        let bytes = mean_bytes / 2 + number * 7_919 % (mean_bytes + 1);
        cache.insert(&key(number), value(vec![b'x'; bytes as usize]));
    }
    let stats = cache.stats();
    println!(
        "resident {} {}",
        resident_bytes() - before,
        stats.bytes * 100 / BUDGET
    );
}

/// Does nothing when it is run as a test.
#[test]
fn process_that_fills_a_cache() {
    let Ok(case) = std::env::var(CASE) else {
        return;
    };
    let (kind, mean_bytes) = case.split_once(' ').unwrap();
    let mean_bytes = mean_bytes.parse().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    match kind {
        "string" => fill(mean_bytes, |number| number, text),
        "key" => fill(mean_bytes, |number| format!("a longer key {number}"), text),
        "shared" => fill(mean_bytes, |number| number, std::sync::Arc::<[u8]>::from),
        _ => fill(
            mean_bytes,
            |number| number,
            |bytes| {
                let half = bytes.len() / 2;
                Some(vec![
                    text(bytes[half..].to_vec()),
                    text(bytes[..half].to_vec()),
                ])
            },
        ),
    }
}

#[test]
fn process_grows_by_the_budget() {
    for case in [
        "string 50",
        "string 1000",
        "string 10000",
        "key 50",
        "shared 50",
        "nested 1000",
    ] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process_that_fills_a_cache", "--nocapture"])
            .env(CASE, case)
            .output()
            .unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let (_, grown) = output.split_once("resident ").unwrap();
        let grown = grown.split_whitespace().next().unwrap();
        let percent = grown.parse::<u64>().unwrap() * 100 / BUDGET;
        println!("{case}: {percent} % of the budget");
        assert!((85..=115).contains(&percent), "{case}: {output}");
    }
}

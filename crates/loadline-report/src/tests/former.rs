//! A record of each kind as an earlier version wrote it, without what reports do not show.

use loadline_measure::Record;

use super::PIPE;
use crate::text;

/// The text of a record, without line breaks, and with them.
fn shown(json: &str) -> (String, String) {
    let record = Record::from_json(json.as_bytes()).unwrap();
    let text = text(&record, &PIPE);
    (text.split_whitespace().collect::<Vec<_>>().join(" "), text)
}

fn assert_shown(json: &str, wanted: &[&str]) {
    let (joined, text) = shown(json);
    for said in wanted {
        assert!(joined.contains(said), "{said}:\n{text}");
    }
}

#[test]
fn former_record_of_cases_is_shown() {
    let wanted = [
        "spawn:redis-server compared with embedded: inconclusive: get, set, getset-70-30, get pipeline 16.",
        "embedded 314.3k 56.8 us",
        "throughput 48.5k/s 48.8k/s 0.99x [too few rounds]",
    ];
    assert_shown(include_str!("former/cases.json"), &wanted);
}

#[test]
fn former_sweep_is_shown() {
    let wanted = [
        "Fastest: batch with no added latency, at least 81.6 times as fast as sync.",
        "batch 1.81 ms 55.1k",
    ];
    assert_shown(include_str!("former/sweep.json"), &wanted);
}

#[test]
fn former_capacity_is_shown() {
    let wanted = [
        "embedded carries at least 33.5k operations per second with p99 < 50 ms (3 trials held the limit); no upper bound found",
        "33.5k 32.1k 1.33 ms 18.0 ms",
        "2 by pauses of a CPU",
    ];
    assert_shown(include_str!("former/capacity.json"), &wanted);
}

#[test]
fn former_record_of_engines_is_shown() {
    let wanted = [
        "Fastest durable writes: process, 100 B values: store with 419 ns per operation, alone in its class;",
        "map memory 84.1 ns 11.9M 1.10x",
        "Smallest on disk: process, 24.8 KiB of data: store with 31.45 bytes per live byte",
    ];
    assert_shown(include_str!("former/engines.json"), &wanted);
}

#[test]
fn former_record_of_clients_is_shown() {
    let wanted = [
        "For users of redis-py 8.1.0: no other client in Python was measured.",
        "Best of all languages: get is 1.95 times [1.62, 2.85] as fast with loadline-client 0.1.0 (Rust)",
        "redis-py 8.1.0 5.43k - 90.1+42.5 87.7 us",
    ];
    assert_shown(include_str!("former/clients.json"), &wanted);
}

/// Its rows have no identifiers of cases.
#[test]
fn former_record_of_tiers_is_shown() {
    let wanted = [
        "Inconclusive for redis: an answer takes at least 8 rounds, and this run is too short for them (--duration). store: inconclusive.",
        "only expensive objects inconclusive 1.33 us to recompute pays from 56.0 us",
        "memory: deep copy 124 ns",
        "recompute: this object 1.32 us",
        "redis 19.7 us 17.3 us - nnn",
        "columns+lz4 778 ns 246 ns 147 B",
        "redis get 49.6 us 4.51 us 10.99x",
        "redis new runtime 253 us",
        "memory hit 52.0 ns 90 ns",
        "redis get through the cache, columns 29.8 us",
        "a runtime and a connection for each read 355 us 31.9 us 323 us",
        "LRU hit 573 us 1.18 us 746 ns Not explained here: too few rounds for an interval.",
    ];
    assert_shown(include_str!("former/tiers.json"), &wanted);
}

#[test]
fn former_load_of_tiers_is_shown() {
    let wanted = [
        "Under this load (zipf:0.99 over 100 keys, 4 KiB of memory), a get with store below memory takes 28.4 ns less than the 4.99 us without it",
        "restart 1.79 us too few too few 43.0 % 41.0 % 70.2 % 79.7 % -701 ns",
    ];
    assert_shown(include_str!("former/load.json"), &wanted);
}

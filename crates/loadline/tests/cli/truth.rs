//! Whether the figures are true, against servers whose behaviour is known.

use std::time::{Duration, Instant};

use loadline_measure::Record;

use crate::run::Redis;
use crate::util::{Dir, signal, wait_until};

fn record(dir: &Dir) -> Record {
    Record::from_json(dir.read("out.json").as_bytes()).unwrap()
}

/// At 10,000 requests per second for 6 s, those due while the server is frozen for T wait from T down
/// to nothing. The slowest hundredth are 600 of them, due in the first 60 ms: so the response time's
/// p99 on paper is T less 60 ms. Service times, from the sending, must show nothing of it.
#[test]
fn a_frozen_server_is_seen_in_full() {
    let (redis, dir) = (Redis::start(&[]), Dir::new());
    let url = redis.url();
    let words = [
        "run",
        &url,
        "--workload",
        "get",
        "--keys",
        "1000",
        "--rate",
        "10k",
        "--duration",
        "6s",
        "--rounds",
        "1",
        "--warmup",
        "0ms",
        "--quiet",
        "--json",
        "out.json",
    ];
    let mut run = dir.command(&words).spawn().unwrap();
    wait_until("the run is on its way", || redis.calls("get") > 10_000);
    signal(redis.pid(), "STOP");
    let frozen = Instant::now();
    // Not a wait for something to happen: the freeze is what happens.
    std::thread::sleep(Duration::from_secs(1));
    signal(redis.pid(), "CONT");
    let frozen = frozen.elapsed().as_secs_f64();
    assert!(run.wait().unwrap().success());
    let record = record(&dir);
    let case = &record.cases[0];
    assert_eq!(case.planned, Some(60_000));
    assert_eq!(case.ops + case.not_sent.unwrap(), 60_000);
    let p99 = case.response_time_ns.p99.unwrap() as f64 / 1e9;
    let paper = frozen - 0.06;
    println!("frozen for {frozen:.3} s: p99 {p99:.3} s, on paper {paper:.3} s");
    assert!(
        (p99 / paper - 1.0).abs() < 0.05,
        "p99 {p99} s, on paper {paper} s"
    );
    assert!(case.service_time_ns.p99.unwrap() < 500_000_000);
}

/// Little's law: what is in flight is the rate times the mean response time.
#[test]
fn littles_law_holds_in_a_deep_pipeline_and_operations_are_those_of_the_server() {
    let (redis, dir) = (Redis::start(&[]), Dir::new());
    let url = redis.url();
    let ended = dir.run(&[
        "run",
        &url,
        "--workload",
        "get",
        "--keys",
        "1000",
        "--connections",
        "1",
        "--pipeline",
        "1000",
        "--ops",
        "1M",
        "--rounds",
        "1",
        "--warmup",
        "0ms",
        "--quiet",
        "--json",
        "out.json",
    ]);
    ended.succeeded();
    let record = record(&dir);
    let case = &record.cases[0];
    let in_flight = case.throughput_ops_per_s * case.response_time_ns.mean.unwrap() / 1e9;
    let counted = redis.calls("get");
    println!(
        "in flight {in_flight:.1} of 1000; {} operations, {counted} by the server",
        case.ops
    );
    assert!(
        (in_flight / 1_000.0 - 1.0).abs() < 0.02,
        "{in_flight} in flight"
    );
    assert_eq!((case.ops, counted), (1_000_000, 1_000_000));
}

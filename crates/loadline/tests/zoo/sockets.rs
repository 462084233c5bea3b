//! Flaws of benchmarks that `loadline` itself cannot be talked into.

use std::time::Instant;

use loadline_measure::doctor::{self, Finding, Work};

use crate::bench::{Client, Watched, timed, watched};
use crate::redis::Redis;
use crate::{alone, caught};

/// Operations of a benchmark that answers one after the other: some tenths of a second.
const OPS: u64 = 5_000;

/// The findings without those about the machine meanwhile and about few samples. A generator
/// that had to wait for a CPU looks like one that has too much to do.
fn rules(findings: &[Finding]) -> Vec<&str> {
    let has = |rule: &str| findings.iter().any(|finding| finding.rule.as_str() == rule);
    let is_known = |rule: &str| match rule {
        "LL005" | "LL006" => true,
        "LL003" => has("LL005"),
        _ => false,
    };
    let rules = findings.iter().map(|finding| finding.rule.as_str());
    rules.filter(|rule| !is_known(rule)).collect()
}

#[test]
fn honest_benchmark_has_none_of_these_flaws() {
    let _alone = alone();
    let redis = Redis::start(&[]);
    let mut client = Client::open(&redis);
    client.call("SET key value");
    let seen = watched(&redis, &["get"], OPS, |times| {
        timed(times, OPS, |_| assert_eq!(client.call("GET key"), "value"));
    });
    assert_eq!(rules(&seen.findings()), <[&str; 0]>::default(), "{seen:#?}");
}

#[test]
fn connection_per_operation() {
    let _alone = alone();
    let redis = Redis::start(&[]);
    Client::open(&redis).call("SET key value");
    let ops = 1_000;
    let seen = watched(&redis, &["get"], ops, |times| {
        timed(times, ops, |_| {
            Client::open(&redis).call("GET key");
        });
    });
    let findings = seen.findings();
    caught("a connection per operation", "LL001", &findings);
    assert_eq!(rules(&findings), ["LL001"]);
}

#[test]
fn setup_inside_the_loop() {
    let _alone = alone();
    let redis = Redis::start(&[]);
    let mut client = Client::open(&redis);
    let seen = watched(&redis, &["get"], OPS, |times| {
        timed(times, OPS, |op| {
            client.call(&format!("DEL key:{op}"));
            client.call(&format!("SET key:{op} value"));
            client.call(&format!("GET key:{op}"));
        });
    });
    let findings = seen.findings();
    let found = caught("setup inside the loop", "LL002", &findings);
    assert!(
        found
            .evidence
            .contains("5000 DEL and 5000 SET, which the workload does not declare"),
        "{}",
        found.evidence
    );
    assert_eq!(rules(&findings), ["LL002"]);
}

#[test]
fn work_that_never_reached_the_server() {
    let _alone = alone();
    let redis = Redis::start(&[]);
    let mut client = Client::open(&redis);
    client.call("SET key value");
    let mut cached = None;
    let seen = watched(&redis, &["get"], OPS, |times| {
        timed(times, OPS, |_| {
            cached.get_or_insert_with(|| client.call("GET key"));
        });
    });
    let findings = seen.findings();
    let found = caught("a cache in the client answers", "LL002", &findings);
    assert!(
        found.evidence.contains("5000 operations and the server 1,"),
        "{}",
        found.evidence
    );
}

#[test]
fn generation_inside_the_loop() {
    let _alone = alone();
    let redis = Redis::start(&[]);
    let mut client = Client::open(&redis);
    // Enough work per operation to make waits for the server small in comparison, even on a busy machine.
    let ops = 100;
    let mut look = || {
        watched(&redis, &["set"], ops, |times| {
            timed(times, ops, |op| {
                // A value that is made anew for every operation, digit by digit.
                let value = (0..40_000).fold(String::new(), |value, digit| {
                    format!(
                        "{}{}",
                        &value[value.len().saturating_sub(900)..],
                        (op * 31 + digit) % 10
                    )
                });
                client.call(&format!("SET key:{op} {value}"));
            });
        })
    };
    // A thread that gets next to no CPU is no generator at work: it is looked at again, a few times.
    let starved = |seen: &Watched| {
        let wait = seen.observed.run_queue_wait;
        wait.is_some_and(|share| share > 0.6)
    };
    let mut seen = look();
    for _ in 0..5 {
        if !starved(&seen) {
            break;
        }
        seen = look();
    }
    let findings = seen.findings();
    caught("generation inside the loop", "LL003", &findings);
    let others: Vec<&str> = rules(&findings)
        .into_iter()
        .filter(|rule| *rule != "LL003")
        .collect();
    assert_eq!(others, <[&str; 0]>::default());
}

#[test]
fn work_whose_result_nobody_reads() {
    let _alone = alone();
    let redis = Redis::start(&[]);
    let mut client = Client::open(&redis);
    client.call("SET key value");
    let small = 100;
    let large = 100 * small;
    let mut lazily = |units: u64| {
        let begun = Instant::now();
        // The iterator is lazy and never advanced.
        let _replies = (0..units).map(|_| client.call("GET key"));
        work(units, begun)
    };
    let finding = doctor::time_stays_flat("zoo", lazily(small), lazily(large));
    caught(
        "code whose result is not used",
        "LL017",
        &loadline_report::findings(finding),
    );
    let mut eagerly = |units: u64| {
        let begun = Instant::now();
        let replies: Vec<String> = (0..units).map(|_| client.call("GET key")).collect();
        assert_eq!(replies.len() as u64, units);
        work(units, begun)
    };
    // The shortest of some, since a pause of the machine can be as long as the large one.
    let shortest = (0..20)
        .map(|_| eagerly(small))
        .min_by_key(|work| work.duration_ns);
    let none = doctor::time_stays_flat("zoo", shortest.unwrap(), eagerly(large));
    assert_eq!(none, None);
}

fn work(units: u64, begun: Instant) -> Work {
    Work {
        units,
        duration_ns: u64::try_from(begun.elapsed().as_nanos()).unwrap(),
    }
}

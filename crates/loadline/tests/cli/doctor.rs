//! `loadline doctor`: what it says of setups whose flaws are known, and that it leaves servers as it
//! found them.

use loadline_measure::Record;
use loadline_measure::record::Severity;

use crate::port::Port;
use crate::redis::Redis;
use crate::util::{Dir, Ended, wait_until};

/// Rules that show that the machine was busy: contention, steal and a slow machine.
const BUSY: [&str; 3] = ["LL005", "LL035", "LL036"];
/// Rules that a busy machine breaks: idle round trips that spread, a generator that gets too little of a CPU,
/// and hits that happened to be disturbed more than misses.
const OF_THE_MACHINE: [&str; 3] = ["LL003", "LL016", "LL027"];
/// A stall: a finding about the server, unless the record shows that the machine was busy.
const STALL: &str = "LL037";

fn examine(dir: &Dir, words: &[&str]) -> (Ended, Record) {
    let ended = dir.run(&[&["doctor", "--quiet", "--json", "doctor.json"], words].concat());
    assert_eq!(ended.stderr, "", "{}", ended.words);
    let record = Record::from_json(dir.read("doctor.json").as_bytes()).unwrap();
    (ended, record)
}

/// The rules of what was found, but for those of a busy machine.
fn rules(record: &Record) -> Vec<&str> {
    let mut rules: Vec<&str> = record
        .doctor
        .iter()
        .map(|finding| finding.rule.as_str())
        .collect();
    let is_busy = rules.iter().any(|rule| BUSY.contains(rule));
    rules.retain(|rule| {
        let by_machine = BUSY.contains(rule) || OF_THE_MACHINE.contains(rule);
        !(by_machine || is_busy && *rule == STALL)
    });
    rules
}

#[test]
fn plain_server_has_no_findings_of_its_own() {
    let dir = Dir::new();
    let (ended, record) = examine(&dir, &["embedded"]);
    assert_eq!(
        rules(&record),
        <[&str; 0]>::default(),
        "{:?}",
        record.doctor
    );
    assert_eq!(ended.code, Some(0));
    let expected = format!("loadline: doctor: {} finding", record.doctor.len());
    assert!(ended.stdout.starts_with(&expected), "{}", ended.stdout);
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    let probes: Vec<&str> = record
        .cases
        .iter()
        .map(|case| case.scenario.workload.as_str())
        .collect();
    assert_eq!(probes, ["ping", "get", "ping", "hit", "miss"]);
    assert_eq!(record.findings.len(), 5, "{:?}", record.findings);
    assert_eq!(record.errors(), 0);
}

#[test]
fn findings_come_numbered_with_what_to_do_and_strict_turns_them_into_a_code() {
    let dir = Dir::new();
    let redis = Redis::start(&["--slowlog-log-slower-than", "0"]);
    redis.answers("SET somebodys 1\r\n", "+OK\r\n");
    let url = redis.url();
    let words = ["--strict", "--allow-non-empty", "--json", "doctor.json"];
    let ended = dir.run(&[&["doctor", &url][..], &words].concat());
    assert_eq!(ended.code, Some(1), "{}\n{}", ended.stdout, ended.stderr);
    let text = &ended.stdout;
    assert!(text.contains("1. warning LL"), "{text}");
    assert!(text.contains("warning LL026"), "{text}");
    assert!(text.contains("(slowlog-log-slower-than 0)"), "{text}");
    assert!(text.contains("    -> "), "{text}");
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("loadline: doctor: "), "{text}");
    assert!(last.contains("warning"), "{text}");
    let record = Record::from_json(dir.read("doctor.json").as_bytes()).unwrap();
    assert_eq!(record.cases.len(), 5);
    redis.answers("DBSIZE\r\n", ":1\r\n");
}

#[test]
fn server_with_keys_is_only_looked_at() {
    let dir = Dir::new();
    let redis = Redis::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    redis.answers("SET somebodys 1\r\n", "+OK\r\n");
    let url = redis.url();
    let (_, record) = examine(&dir, &[&url]);
    assert_eq!(record.cases.len(), 1);
    assert!(
        record.findings[1].contains("holds a key"),
        "{:?}",
        record.findings
    );
    let found = rules(&record);
    assert!(
        found.contains(&"LL021") && found.contains(&"LL009"),
        "{found:?}"
    );
    // Looking wrote nothing: SET was called once, by this test.
    assert_eq!(redis.calls("set"), 1);
}

#[test]
fn cluster_that_is_alike_has_no_findings_of_its_own() {
    let dir = Dir::new();
    let (ended, record) = examine(&dir, &["spawn-cluster:redis-server"]);
    // Three masters and the generator can have more threads than there are CPUs.
    let found = rules(&record);
    let odd: Vec<&&str> = found.iter().filter(|rule| **rule != "LL024").collect();
    assert_eq!(odd, <[&&str; 0]>::default(), "{:?}", record.doctor);
    assert_eq!(ended.code, Some(0));
    assert_eq!(record.cases.len(), 5);
    assert_eq!(record.errors(), 0);
    assert!(
        record.findings[0].contains("on this machine"),
        "{:?}",
        record.findings
    );
}

#[test]
fn findings_about_a_cluster_name_the_node() {
    let dir = Dir::new();
    let node =
        |settings: &[&str]| Redis::start(&[&["--cluster-enabled", "yes"], settings].concat());
    let [first, bus] = [(), ()].map(|()| Port::reserve());
    let plain = node(&["--cluster-port", &first.to_string()]);
    let odd = node(&[
        "--cluster-port",
        &bus.to_string(),
        "--appendonly",
        "yes",
        "--slowlog-log-slower-than",
        "0",
    ]);
    plain.answers("CLUSTER ADDSLOTSRANGE 0 9999\r\n", "+OK\r\n");
    odd.answers("CLUSTER ADDSLOTSRANGE 10000 16383\r\n", "+OK\r\n");
    plain.answers(
        &format!("CLUSTER MEET 127.0.0.1 {} {bus}\r\n", odd.port()),
        "+OK\r\n",
    );
    for one in [&plain, &odd] {
        wait_until("the cluster is formed", || {
            one.says("CLUSTER INFO", "cluster_state:ok")
        });
    }
    // With a key of another program it is only looked at, which is all that these findings need. `a` is in slot 15495.
    odd.answers("SET a 1\r\n", "+OK\r\n");
    let (_, record) = examine(&dir, &[&format!("cluster://127.0.0.1:{}", plain.port())]);
    assert_eq!(record.cases.len(), 1);
    let scopes = |rule: &str| -> Vec<&str> {
        let of_rule = record
            .doctor
            .iter()
            .filter(|finding| finding.rule.as_str() == rule);
        of_rule.map(|finding| finding.scope.as_str()).collect()
    };
    let its = format!("node 127.0.0.1:{}", odd.port());
    for rule in ["LL009", "LL026"] {
        let [scope] = scopes(rule)[..] else {
            panic!("{rule}: {:?}", record.doctor);
        };
        assert!(scope.ends_with(&its), "{rule}: {scope}");
    }
    for (rule, evidence) in [
        ("LL031", format!("yes (127.0.0.1:{})", odd.port())),
        ("LL032", format!("127.0.0.1:{} serves 10000", plain.port())),
    ] {
        let found = record
            .doctor
            .iter()
            .find(|finding| finding.rule.as_str() == rule);
        let found = found.unwrap_or_else(|| panic!("{rule}: {:?}", record.doctor));
        assert!(found.evidence.contains(&evidence), "{}", found.evidence);
    }
    plain.answers("DBSIZE\r\n", ":0\r\n");
    odd.answers("DBSIZE\r\n", ":1\r\n");
}

#[test]
fn output_of_a_program_stays_whole() {
    let dir = Dir::new();
    // A server with keys is only looked at.
    let redis = Redis::start(&[]);
    redis.answers("SET somebodys 1\r\n", "+OK\r\n");
    let url = redis.url();
    let ended = dir.run(&["doctor", &url, "--quiet", "--json", "-"]);
    let record = Record::from_json(ended.stdout.as_bytes()).unwrap();
    assert!(
        ended.stderr.starts_with("loadline: doctor: "),
        "{}",
        ended.stderr
    );
    assert!(
        record
            .doctor
            .is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity))
    );
    assert!(
        record
            .doctor
            .iter()
            .all(|finding| finding.severity < Severity::Critical),
        "{:?}",
        record.doctor
    );
}

#[test]
fn doctor_refuses_a_target_that_is_no_server() {
    let dir = Dir::new();
    dir.run(&["doctor", "ram"])
        .failed(64, "examines only servers");
    dir.run(&["doctor", "redis://127.0.0.1:1"])
        .failed(69, "cannot be used");
    let shown = dir.run(&["doctor", "embedded", "--dry-run"]).succeeded();
    assert!(
        shown.contains("Case: hit") && shown.contains("Case: miss"),
        "{shown}"
    );
}

//! The suites `manager` and `manager-classic`.

use std::collections::BTreeSet;

use loadline_measure::Record;
use loadline_measure::record::Case;

use crate::redis::Redis;
use crate::util::Dir;

/// The names of the cases, in their order.
pub(crate) const MANAGER: [&str; 16] = [
    "set",
    "get",
    "del",
    "session_set",
    "session_get",
    "zone_sadd",
    "zone_smembers",
    "xadd",
    "xread",
    "set_sequential",
    "pipeline_set",
    "pubsub",
    "stream",
    "pool_init",
    "connect",
    "connection_memory",
];

/// Short and the same in every run: a fixed number of operations in two rounds, without a warm-up.
fn words<'w>(suite: &'w str, targets: &[&'w str]) -> Vec<&'w str> {
    let length = ["--ops", "400", "--rounds", "2", "--warmup", "0ms"];
    let output = ["--quiet", "--json", "out.json"];
    let suite = ["--workload", suite];
    [&["run"], targets, &suite, &length, &output].concat()
}

fn record(dir: &Dir) -> Record {
    Record::from_json(dir.read("out.json").as_bytes()).unwrap()
}

fn case<'r>(record: &'r Record, target: &str, name: &str) -> Option<&'r Case> {
    let is_it = |case: &&Case| case.subject.name == target && case.name() == name;
    record.cases.iter().find(is_it)
}

#[test]
fn every_case_is_measured_and_exactly_its_commands_are_sent() {
    let (redis, dir) = (Redis::start(&[]), Dir::new());
    let url = redis.url();
    dir.run(&words("manager", &[&url])).succeeded();
    // Before the test itself has asked anything.
    let sent = redis.commands();
    let record = record(&dir);
    let names: Vec<String> = record.cases.iter().map(Case::name).collect();
    assert_eq!(names, MANAGER);
    for case in &record.cases {
        assert_eq!((case.ops, case.error_count()), (400, 0), "{}", case.name());
        let found = ["get", "del", "session_get", "xread"].contains(&case.name().as_str());
        assert_eq!(case.hit_ratio, found.then_some(1.0), "{}", case.name());
    }
    // 20,000 keys are loaded for `get` and `session_get`, and before each of the two blocks of `del`.
    let set = 4 * 400 + 4 * 20_000;
    // 100 streams of 100 entries are loaded for `xread`.
    let xadd = 2 * 400 + 100 * 100;
    for (command, calls) in [
        ("set", set),
        ("get", 2 * 400),
        // Before each of its two blocks, `xadd` empties its 100 streams.
        ("del", 400 + 2 * 100),
        ("sadd", 400 + 100),
        ("smembers", 400),
        ("xadd", xadd),
        ("publish", 400),
        ("subscribe", 1),
    ] {
        assert_eq!(redis.calls(command), calls, "{command}");
    }
    // The call that waits when a block of `stream` ends is answered in the next one, or never.
    assert!((800..=801).contains(&redis.calls("xread")));
    // Rights are tried in a transaction that is never executed.
    let undeclared = [
        "client", "command", "config", "dbsize", "hello", "info", "multi", "ping", "scan", "unlink",
    ];
    let declared = [
        "set",
        "get",
        "del",
        "sadd",
        "smembers",
        "xadd",
        "xread",
        "publish",
        "subscribe",
    ];
    let known: BTreeSet<&str> = undeclared.into_iter().chain(declared).collect();
    for command in sent {
        let command = command.split('|').next().unwrap();
        assert!(known.contains(command), "{command} was sent, too");
    }
    redis.answers("DBSIZE\r\n", ":0\r\n");
}

#[test]
fn tasks_are_shown_as_what_they_are() {
    let (redis, dir) = (Redis::start(&[]), Dir::new());
    let url = redis.url();
    dir.run(&words("manager", &[&url])).succeeded();
    let record = record(&dir);
    let of = |name: &str| case(&record, &url, name).unwrap();
    let pipeline = of("pipeline_set");
    assert_eq!(
        (pipeline.scenario.mode.as_str(), pipeline.scenario.batch),
        ("pipeline", 100)
    );
    // Four batches: an operation's time is its share of one, and its response time that of the batch.
    let per_op = pipeline.duration_ns as f64 / pipeline.ops as f64;
    let batch = pipeline.response_time_ns.mean.unwrap();
    assert!(
        (per_op * 100.0 / batch - 1.0).abs() < 0.01,
        "{per_op} {batch}"
    );
    assert_eq!(of("pubsub").scenario.connections, 2);
    let memory = &of("connection_memory").cost;
    let (client, server) = (
        memory.client_bytes_per_connection.unwrap(),
        memory.server_bytes_per_connection.unwrap(),
    );
    // A connection has buffers of some kilobytes on either side, and none of a megabyte.
    assert!((1e3..1e6).contains(&client), "{client} bytes");
    assert!((1e3..1e6).contains(&server), "{server} bytes");
    let flaws = ["LL007", "LL008"];
    let flawed =
        |finding: &&loadline_measure::doctor::Finding| flaws.contains(&finding.rule.as_str());
    assert_eq!(record.doctor.iter().find(flawed), None);
}

#[test]
fn embedded_server_runs_every_case_beside_redis() {
    let dir = Dir::new();
    let targets = ["embedded", "spawn:redis-server"];
    dir.run(&words("manager-classic", &targets)).succeeded();
    let record = record(&dir);
    for name in [
        "set",
        "get",
        "del",
        "xadd",
        "xread",
        "set_sequential",
        "pipeline_set",
    ] {
        for target in targets {
            let case = case(&record, target, name).unwrap();
            assert_eq!((case.ops, case.error_count()), (400, 0), "{target} {name}");
        }
    }
    let compared: BTreeSet<String> = record
        .comparisons
        .iter()
        .map(|comparison| record.cases[comparison.b].name())
        .collect();
    assert_eq!(compared.len(), 7, "{compared:?}");
}

#[test]
fn options_fixed_by_a_suite_are_refused() {
    let dir = Dir::new();
    for (more, reason) in [
        (&["--workload", "get"][..], "cannot be combined"),
        (&["--rate", "1k"], "remove --rate"),
        (&["--connections", "5"], "remove --connections"),
        (&["ram"], "name servers"),
    ] {
        let words = [&["run", "--workload", "manager"], more].concat();
        dir.run(&words).failed(64, reason);
    }
}

//! Servers of our own with the settings of a running one.

use std::collections::BTreeMap;

use loadline_measure::Record;

use crate::redis::Redis;
use crate::util::Dir;

/// As short as possible: the times do not matter here.
const SHORT: [&str; 10] = [
    "--workload",
    "get",
    "--keys",
    "100",
    "--duration",
    "100ms",
    "--rounds",
    "2",
    "--instructions",
    "off",
];

#[test]
fn copies_of_a_running_server_are_compared_and_it_is_only_asked() {
    let settings = [
        "--maxmemory",
        "123456789",
        "--save",
        "3600",
        "1",
        "--min-replicas-to-write",
        "1",
        "--client-output-buffer-limit",
        "pubsub 32mb 8mb 61",
    ];
    let redis = Redis::start(&settings);
    let dir = Dir::new();
    let url = redis.url();
    let words = [
        "compare",
        &url,
        "--like-config",
        "maxmemory-policy=allkeys-lru",
    ];
    let words = [&words, &SHORT[..], &["--json", "out.json"]].concat();
    let ended = dir.run(&words);
    assert!(
        matches!(ended.code, Some(0..=2)),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    let [a, b] = &record.environment.servers[..] else {
        panic!("{:?}", record.environment.servers);
    };
    let value = |settings: &BTreeMap<String, String>, name: &str| settings[name].clone();
    for server in [a, b] {
        assert_eq!(value(&server.settings, "maxmemory"), "123456789");
        assert_eq!(value(&server.settings, "save"), "3600 1");
    }
    assert_eq!(value(&a.settings, "maxmemory-policy"), "noeviction");
    assert_eq!(value(&b.settings, "maxmemory-policy"), "allkeys-lru");
    assert!(a.config_sha256.is_some() && a.config_sha256 != b.config_sha256);
    assert_eq!(a.subject, format!("spawn:redis-server (settings of {url})"));
    let said = ended
        .stderr
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for part in [
        "gets: client-output-buffer-limit, maxmemory, save",
        "min-replicas-to-write",
        "port",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(
        record
            .findings
            .iter()
            .any(|sentence| sentence.contains("maxmemory"))
    );
    let mut sent = redis.commands();
    sent.retain(|command| {
        !["info", "ping", "hello", "client|setname", "client|setinfo"].contains(&command.as_str())
    });
    assert_eq!(sent, ["config|get"]);
}

#[test]
fn server_that_refuses_its_settings_is_named_with_another_way() {
    let redis = Redis::start(&["--rename-command", "CONFIG", ""]);
    let dir = Dir::new();
    let words = ["compare", &redis.url(), "--like-config", "hz=20", "--quiet"];
    let ended = dir.run(&words);
    ended.failed(69, "CONFIG GET answered");
    assert!(ended.stderr.contains("?config=FILE"), "{}", ended.stderr);
}

#[test]
fn changes_and_targets_that_cannot_be_are_usage_errors() {
    let redis = Redis::start(&[]);
    let (dir, url) = (Dir::new(), redis.url());
    for (words, reason) in [
        (
            &["embedded", "--like-config", "hz=20"][..],
            "has no settings to read",
        ),
        (
            &[&url, "--like-config", "port=1"],
            "`port` cannot be changed",
        ),
        (
            &[&url, "embedded", "--like-config", "hz=20"],
            "B is `embedded`",
        ),
        (
            &[&url, "--like-config", "maxmemry=1", "--quiet"],
            "did you mean `maxmemory`?",
        ),
    ] {
        dir.run(&[&["compare"], words].concat()).failed(64, reason);
    }
    let untyped = dir.run(&["compare", &url, "--like-config", "hz"]);
    assert_eq!(untyped.code, Some(64));
    assert!(untyped.stderr.contains("NAME=VALUE"), "{}", untyped.stderr);
    assert_eq!(dir.run(&["compare", &url]).code, Some(64));
}

#[test]
fn dry_run_asks_no_server() {
    let dir = Dir::new();
    let words = [
        "compare",
        "redis://127.0.0.1:1",
        "--like-config",
        "hz=20",
        "--dry-run",
    ];
    let plan = dir.run(&words).succeeded();
    assert!(
        plan.contains("spawn:redis-server (settings of redis://127.0.0.1:1, hz=20)"),
        "{plan}"
    );
}

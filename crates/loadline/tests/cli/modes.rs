//! `loadline modes` against real servers.

use loadline_measure::Record;
use loadline_measure::record::Rule;

use crate::redis::Redis;
use crate::util::Dir;

/// A command line that ends with `--json out.json`, as one text: what it printed, and its record.
fn measured(dir: &Dir, words: &str) -> (String, Record) {
    let mut words: Vec<&str> = words.split_ascii_whitespace().collect();
    if words[0] == "modes" {
        // The test of instructions counts them.
        words.extend(["--instructions", "off"]);
    }
    let text = dir.run(&words).succeeded();
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    assert_eq!(record.errors(), 0);
    (
        text.split_whitespace().collect::<Vec<_>>().join(" "),
        record,
    )
}

/// A short sweep on our own server, through a proxy that adds two milliseconds.
#[test]
fn every_mode_is_measured_under_every_latency() {
    let dir = Dir::new();
    let words = "modes embedded --ops 50,400 --latency 0,2ms --link l4 --budget 100ms --batch 20 --sizes 1,20 \
        --keys 100 --json out.json --color never";
    let (text, record) = measured(&dir, words);
    assert_eq!(record.links.len(), 1);
    assert_eq!(record.links[0].class.as_str(), "l4");
    assert!(record.links[0].through_p50_ns >= 2_000_000);
    for mode in [
        "sync",
        "async",
        "pipeline",
        "batch",
        "transaction",
        "script",
    ] {
        for (latency_ns, op) in [
            (0, "get"),
            (0, "set"),
            (2_000_000, "get"),
            (2_000_000, "set"),
        ] {
            let cell = record
                .cases
                .iter()
                .find(|case| {
                    let scenario = &case.scenario;
                    (scenario.mode.as_str(), scenario.latency_ns) == (mode, latency_ns)
                        && scenario.workload == op
                        && scenario.ops_asked == Some(50)
                })
                .unwrap_or_else(|| panic!("{mode}, {op}, {latency_ns} ns is missing"));
            assert!(cell.ops > 0 && cell.hit_ratio.is_none_or(|hits| hits == 1.0));
            // Nothing comes back before the link lets it.
            let fastest = cell.response_time_ns.min.unwrap();
            assert!(fastest >= latency_ns, "{mode}, {op}: {fastest} ns");
        }
    }
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert_eq!(record.run.plan["pinned"], cpus > 1);
    // Few operations are made ten times over, so that their time is no accident.
    let repeated = |case: &&loadline_measure::record::Case| {
        case.scenario.ops_asked == Some(50) && case.scenario.latency_ns == 0
    };
    for case in record.cases.iter().filter(repeated) {
        assert_eq!(case.rounds.len(), 10, "{}", case.scenario.mode);
    }
    // 400 operations one after the other, at 2 ms each, do not fit a tenth of a second.
    assert!(text.contains('~'), "{text}");
    // All sizes ran in the same ten rounds.
    let sizes = || {
        let cells = record.cases.iter();
        cells.filter(|case| case.scenario.ops_asked.is_none())
    };
    assert!(sizes().count() > 0 && sizes().all(|case| case.rounds.len() == 10));
    // With a round trip of 2 ms, a call of 20 beats twenty calls on any machine.
    assert!(
        text.contains(
            "all sizes but 20 are more than 5 % slower in 10 rounds; larger sizes were not tried"
        ),
        "{text}"
    );
    // One sentence at the top, then a row for each latency, and what was left out comes after them.
    assert!(text.starts_with("Fastest: "), "{text}");
    let top = text.split("get, no added latency").next().unwrap();
    for row in [" none get ", " none set ", " 2 ms get ", " 2 ms set "] {
        assert!(top.contains(row), "{row}: {text}");
    }
}

#[test]
fn requested_mode_that_the_server_lacks_ends_with_69() {
    let dir = Dir::new();
    let without = "rename-command EVAL \"\"\nrename-command EVALSHA \"\"\n";
    dir.write("no-scripts.conf", without);
    let target = "spawn:redis-server?config=no-scripts.conf";
    dir.run(&["modes", target, "--mode", "script", "--latency", "0"])
        .failed(69, "script was left out");
}

#[test]
fn plan_says_how_long_it_would_take_in_full() {
    let dir = Dir::new();
    let plan = dir.run(&["modes", "embedded", "--dry-run"]).succeeded();
    assert!(plan.contains("27.8 h"), "{plan}");
}

/// Objects come back as they were written, by every codec and in every mode, and what their encoding
/// takes is known apart from the calls.
#[test]
fn objects_are_encoded_and_decoded_and_both_are_timed_apart() {
    let dir = Dir::new();
    let words = "modes spawn:redis-server --codec raw,json,msgpack,protobuf --ops 50 --latency 0 \
        --budget 20ms --sizes 1,20 --batch 20 --in-flight 8 --keys 300 --json out.json --color never";
    let (text, record) = measured(&dir, words);
    for codec in [None, Some("json"), Some("msgpack"), Some("protobuf")] {
        for op in ["get", "set"] {
            let cells: Vec<_> = record
                .cases
                .iter()
                .filter(|case| {
                    let scenario = &case.scenario;
                    (scenario.codec.as_deref(), scenario.workload.as_str()) == (codec, op)
                        && scenario.ops_asked == Some(50)
                })
                .collect();
            assert_eq!(cells.len(), 6, "{op} as {codec:?}");
            for cell in cells {
                let (parts, mode) = (&cell.parts_ns, &cell.scenario.mode);
                let bytes = cell.cost.encoded_value_bytes;
                assert_eq!(
                    parts.encode.is_some(),
                    codec.is_some() && op == "set",
                    "{mode}"
                );
                assert_eq!(
                    parts.decode.is_some(),
                    codec.is_some() && op == "get",
                    "{mode}"
                );
                assert_eq!(bytes.is_some(), codec.is_some());
                assert_eq!(codec == Some("json"), bytes == Some(512.0), "{bytes:?}");
                assert_ne!(cell.hit_ratio, Some(0.0));
                assert!(
                    cell.hit_ratio.is_none_or(|hits| hits == 1.0),
                    "{op}, {mode}"
                );
                // Encoding is a part of the call.
                let spent = parts.encode.or(parts.decode).unwrap_or(0) as f64;
                let mean = cell.service_time_ns.mean.unwrap();
                assert!(
                    spent < mean,
                    "{op} as {codec:?}, {mode}: {spent} ns of {mean} ns"
                );
            }
        }
    }
    assert!(
        text.contains("values as json: 512 bytes each, decoded in"),
        "{text}"
    );
    assert!(text.contains(" none set as protobuf "), "{text}");
}

/// A workload without a form in a mode says so in its place.
#[test]
fn other_operations_are_called_in_every_mode_that_they_have() {
    let dir = Dir::new();
    let others = "incr,hset,hget,lpush,sadd,zadd,xadd,publish";
    let words = format!(
        "modes spawn:redis-server --workload {others} --ops 60 --latency 0 --budget 50ms \
         --sizes 1 --batch 20 --in-flight 8 --keys 50 --json out.json --color never"
    );
    let (text, record) = measured(&dir, &words);
    for workload in others.split(',') {
        for mode in ["sync", "async", "pipeline", "transaction", "script"] {
            let cell = record.cases.iter().find(|case| {
                let scenario = &case.scenario;
                (scenario.workload.as_str(), scenario.mode.as_str()) == (workload, mode)
            });
            let cell = cell.unwrap_or_else(|| panic!("{workload}, {mode} is missing"));
            assert!(cell.ops > 0 && cell.hit_ratio.is_none_or(|hits| hits == 1.0));
        }
        let batch = |left_out: &&loadline_measure::record::LeftOut| {
            (left_out.workload.as_str(), left_out.mode.as_str()) == (workload, "batch")
        };
        let left_out = record.left_out.iter().find(batch);
        assert!(
            left_out.is_some_and(|left_out| left_out.reason.contains("for many keys")),
            "{workload}"
        );
    }
    let cell = "batch: Redis has no command that is zadd for many keys";
    assert!(text.contains(cell), "{text}");
}

/// A path that varies and is narrow is what was asked for, in the record and in what is printed.
#[test]
fn jitter_and_bandwidth_are_in_the_path() {
    let dir = Dir::new();
    let words = "modes embedded --op get --mode sync --ops 100 --latency 4ms --jitter 1ms:uniform \
        --bandwidth 8Mbit --link l4 --budget 1s --sizes 1 --keys 20 --value-size 10KiB \
        --json out.json --color never";
    let (text, record) = measured(&dir, words);
    let link = &record.links[0];
    assert_eq!(link.jitter.as_deref(), Some("1ms:uniform"));
    assert_eq!(link.bandwidth_bytes_per_s, Some(1_000_000));
    let shown = "get, 4 ms added by l4 jitter 1ms:uniform, 8.00 Mbit/s each way, round trips";
    assert!(text.contains(shown), "{text}");
    // 10 KiB take 10.24 ms at a million bytes per second, on top of 4 ms less the jitter.
    let fastest = record.cases[0].response_time_ns.min.unwrap();
    assert!(fastest >= 12_240_000, "{fastest} ns");
    let plan = "modes embedded --latency 4ms --jitter 1ms --bandwidth 8Mbit --link l3 --dry-run";
    let plan = dir.run(&plan.split(' ').collect::<Vec<_>>()).succeeded();
    assert!(
        plan.contains("link l3, jitter 1ms:normal, 8Mbit/s"),
        "{plan}"
    );
}

/// A run has the same path, also where nothing is added to its latency.
#[test]
fn run_goes_through_a_narrow_path() {
    let dir = Dir::new();
    let words = "run embedded --workload get --ops 40 --rounds 2 --warmup 10ms --connections 1 \
        --threads 1 --bandwidth 800kbit --keys 10 --value-size 1000B --json out.json \
        --color never";
    let (text, record) = measured(&dir, words);
    let fastest = record.cases[0].response_time_ns.min.unwrap();
    assert!(fastest >= 10_000_000, "{fastest} ns");
    assert!(text.contains("800 kbit/s each way"), "{text}");
    dir.run(&["run", "ram", "--jitter", "1ms"])
        .failed(64, "runs in this process");
}

/// However little time there is, a figure comes from at least one call.
#[test]
fn budget_of_less_than_a_round_trip_leaves_no_cell_empty() {
    let dir = Dir::new();
    let words = "modes embedded --ops 1k --latency 30ms --link l4 --budget 10ms --batch 20 --in-flight 7 --sizes 1,20 \
        --keys 100 --op get --mode sync,async,pipeline,batch --json out.json --color never";
    let (text, record) = measured(&dir, words);
    assert_eq!(record.cases.len(), 8);
    for cell in &record.cases {
        let blocks = cell.rounds.len() as u64;
        assert!(blocks >= 1 && cell.rounds.iter().all(|round| round.ops > 0));
        let size = match cell.scenario.mode.as_str() {
            "async" => 7,
            _ => cell.scenario.batch,
        };
        assert!(cell.ops >= blocks * size, "{}: {text}", cell.scenario.mode);
    }
}

/// The doctor looks at a sweep as at any other measurement.
#[test]
fn other_work_of_the_server_during_a_sweep_is_reported() {
    let dir = Dir::new();
    let redis = Redis::start(&["--save", "900 1", "--maxmemory", "1gb"]);
    let target = format!("redis://127.0.0.1:{}", redis.port());
    let words = format!(
        "modes {target} --ops 200 --latency 0 --budget 50ms --batch 20 --sizes 1,20 --keys 100 --op get \
         --mode sync,pipeline --json out.json --color never"
    );
    let (text, record) = measured(&dir, &words);
    let persists = |finding: &&loadline_measure::doctor::Finding| {
        finding.rule == Rule::ServerBusyElsewhere && finding.evidence.contains("save 900 1")
    };
    let found = record.doctor.iter().find(persists);
    let found = found.unwrap_or_else(|| panic!("persistence is not named: {text}"));
    assert_eq!(found.scope, format!("{target}, get, no latency added"));
    // No command of a sweep is attributed to another client.
    assert!(
        record
            .doctor
            .iter()
            .all(|finding| finding.rule != Rule::CountsDiffer),
        "{text}"
    );
}

#[test]
fn password_comes_from_a_file_as_in_any_other_command() {
    let dir = Dir::new();
    let redis = Redis::start(&["--requirepass", "hunter2-tell-nobody"]);
    dir.write("secret.txt", "hunter2-tell-nobody\n");
    let words = format!(
        "modes {} --ops 50 --latency 0 --budget 50ms --sizes 1,20 --keys 100 --op get --mode sync --json out.json \
         --color never",
        redis.url()
    );
    let without: Vec<&str> = words.split_ascii_whitespace().collect();
    dir.run(&without).failed(69, "NOAUTH");
    let (text, record) = measured(&dir, &format!("{words} --password-file secret.txt"));
    assert!(record.cases[0].ops > 0);
    assert!(!text.contains("hunter2") && !dir.read("out.json").contains("hunter2"));
    let words = "modes embedded --user ann --dry-run";
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    dir.run(&words).failed(
        64,
        "--user and --password-file apply only to existing servers",
    );
}

//! `loadline merge` of the records of load generators that ran at the same time.

use std::process::Stdio;

use loadline_measure::Histogram;
use loadline_measure::record::{Record, Rule};

use crate::redis::Redis;
use crate::util::{Dir, Ended};

const RUN: [&str; 11] = [
    // The keys of the others are there.
    "--allow-non-empty",
    "--workload",
    "get",
    "--rate",
    "2000",
    "--keys",
    "500",
    "--connections",
    "4",
    "--threads",
    "1",
];

/// Long enough that load generators which start one after the other overlap.
const LONG: [&str; 2] = ["--duration", "2s"];

/// Runs one load generator per file at the same time, and returns their records.
fn records(dir: &Dir, url: &str, files: &[&str]) -> Vec<Record> {
    let running: Vec<_> = files
        .iter()
        .map(|file| {
            let words = [&["run", url, "--quiet", "--json", file], &RUN[..], &LONG].concat();
            let mut command = dir.command(&words);
            let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
            (words.join(" "), command.spawn().unwrap())
        })
        .collect();
    for (words, process) in running {
        let output = process.wait_with_output().unwrap();
        Ended::of(&[&words], output).succeeded();
    }
    let read = |file: &&str| Record::from_json(dir.read(file).as_bytes()).unwrap();
    files.iter().map(read).collect()
}

#[test]
fn records_of_two_load_generators_become_one() {
    let redis = Redis::start(&[]);
    let dir = Dir::new();
    let parts = records(&dir, &redis.url(), &["one.json", "two.json"]);
    let words = ["merge", "one.json", "two.json", "--json", "all.json"];
    let text = dir.run(&words).succeeded();
    assert!(text.contains(", from 2 agents"), "{text}");
    assert!(
        text.contains("agent 0") && text.contains("agent 1"),
        "{text}"
    );
    assert!(text.ends_with("loadline: merge: done (0)\n"), "{text}");

    let merged = Record::from_json(dir.read("all.json").as_bytes()).unwrap();
    let case = &merged.cases[0];
    assert_eq!(
        case.ops,
        parts.iter().map(|part| part.cases[0].ops).sum::<u64>()
    );
    assert_eq!(case.planned, Some(8_000));
    assert_eq!(case.scenario.connections, 8);
    let mut expected = Histogram::new();
    for part in &parts {
        expected.merge(&part.cases[0].response_histogram().unwrap().unwrap());
    }
    assert_eq!(case.response_histogram().unwrap().unwrap(), expected);
    let runs: Vec<&str> = merged
        .agents
        .iter()
        .map(|agent| agent.run.as_str())
        .collect();
    assert_eq!(runs, [&parts[0].run.id, &parts[1].run.id]);

    // Both ran here, and the server counted the operations of both.
    let rules = |record: &Record| -> Vec<Rule> {
        record
            .doctor
            .iter()
            .map(|finding| finding.rule.clone())
            .collect()
    };
    assert!(
        rules(&merged).contains(&Rule::AgentsOnOneHost),
        "{:?}",
        merged.doctor
    );
    assert!(
        parts
            .iter()
            .any(|part| rules(part).contains(&Rule::CountsDiffer))
    );
    assert!(!rules(&merged).contains(&Rule::CountsDiffer));

    let shown = dir.run(&["report", "all.json"]).succeeded();
    assert!(shown.contains("agent 1"), "{shown}");
    dir.run(&["merge", "one.json", "all.json"])
        .failed(3, "all.json is a merge already");
    dir.run(&["merge", "one.json", "two.json", "one.json"])
        .failed(3, "one.json and one.json are the same run");
    dir.run(&["merge", "one.json", "two.json", "--json", "two.json"])
        .failed(64, "two.json is an input");
    dir.run(&["merge", "one.json"]).failed(64, "FILE");
}

#[test]
fn records_of_two_servers_are_refused() {
    let dir = Dir::new();
    let file = |name: &str, url: &str| {
        let short = ["--duration", "200ms"];
        let words = [&["run", url, "--quiet", "--json", name], &RUN[..], &short].concat();
        dir.run(&words).succeeded();
    };
    let port = {
        let redis = Redis::start(&[]);
        file("one.json", &redis.url());
        redis.port()
    };
    // The same address, but another process.
    let again = Redis::start(&["--port", &port.to_string()]);
    file("two.json", &format!("redis://127.0.0.1:{port}"));
    drop(again);
    dir.run(&["merge", "one.json", "two.json"])
        .failed(3, "run_id");
}

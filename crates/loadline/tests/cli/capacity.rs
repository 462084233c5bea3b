//! `loadline capacity` against real servers: that it searches, not how fast they are.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use loadline_measure::Record;
use loadline_measure::capacity::Outcome;
use loadline_measure::record::{Answer, Capacity, Pacing};

use crate::util::{Dir, Serving, signal, wait_until};

pub(crate) fn answer(record: &Record) -> &Capacity {
    match &record.answer {
        Answer::Capacity(found) => found,
        other => panic!("{other:?}"),
    }
}

/// A limit that any machine keeps at some rate and misses at some other, also while others use it.
const LOOSE: &str = "p90<60ms";

/// The last line names the command.
fn without_last_line(text: &str) -> &str {
    text.rsplit_once("\nloadline: ").unwrap().0
}

#[test]
fn search_on_redis_records_every_trial() {
    let dir = Dir::new();
    let words = [
        "capacity",
        "spawn:redis-server",
        "--slo",
        LOOSE,
        "--duration",
        "100ms",
        "--max-time",
        "4s",
        "--keys",
        "1000",
        "--connections",
        "10",
        "--seed",
        "7",
        "--json",
        "out.json",
        "--html",
        "out.html",
        "--markdown",
        "out.md",
        "--csv",
        "out.csv",
        "--junit",
        "out.xml",
        "--color",
        "never",
    ];
    let text = dir.run(&words).succeeded();
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    let answer = answer(&record);
    assert_eq!(answer.slo.to_string(), LOOSE);
    assert_eq!(record.findings[0].lines().count(), 1);
    // A case for the closed loop that it starts from, and one for every trial.
    assert_eq!(record.cases[0].scenario.pacing, Pacing::Closed);
    assert_eq!(record.cases[0].throughput_ops_per_s, answer.closed_loop);
    let trials: u32 = answer.curve.iter().map(|point| point.trials.trials()).sum();
    let closed = record
        .cases
        .iter()
        .filter(|case| case.scenario.pacing == Pacing::Closed);
    assert_eq!(record.cases.len(), closed.count() + trials as usize);
    for point in &answer.curve {
        let case = &record.cases[point.case];
        assert_eq!(case.scenario.pacing, Pacing::Rate(point.rate));
        assert_eq!(case.scenario.arrivals, Some("poisson".into()));
        assert_eq!(case.response_time_ns.p99, point.p99_ns);
        assert_eq!(
            case.response_time_ns.p90.map(|ns| ns as f64),
            point.value_ns
        );
    }
    assert!(!answer.curve.is_empty() && text.contains("held"), "{text}");
    let first = &record.findings[0].split(' ').next().unwrap().to_owned();
    assert!(text.contains(first), "{text}");
    // A written record can be shown again, and the other forms hold the curve too.
    let shown = dir.run(&["report", "out.json", "--color", "never"]);
    assert_eq!(
        without_last_line(&shown.succeeded()),
        without_last_line(&text)
    );
    assert!(dir.read("out.html").contains("Response time by rate"));
    assert!(dir.read("out.md").contains("| rate | answered |"));
    assert_eq!(dir.read("out.csv").lines().count(), 1 + record.cases.len());
    let junit = dir.read("out.xml");
    assert!(junit.contains("<testcase name=\"p90&lt;60ms\""), "{junit}");
}

#[test]
fn limit_that_no_rate_keeps_is_an_answer() {
    let dir = Dir::new();
    let words = [
        "capacity",
        "spawn:redis-server",
        "--slo",
        "p50<1ns",
        "--duration",
        "50ms",
        "--max-time",
        "3s",
        "--keys",
        "100",
        "--json",
        "out.json",
        "--quiet",
    ];
    dir.run(&words).succeeded();
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    let answer = answer(&record);
    assert_eq!((answer.rate, answer.value_ns), (None, None));
    let sentence = &record.findings[0];
    let expected = match answer.outcome {
        Outcome::NeverHeld => ["p50 below 1 ns", "at the lowest"],
        // While others use the machine, a bound is known at most.
        _ => ["p50 < 1 ns", ", since "],
    };
    assert!(
        expected.iter().all(|part| sentence.contains(part)),
        "{sentence}"
    );
}

/// No machine confirms a rate within so little time, but some held.
#[test]
fn search_without_a_confirmed_rate_leads_with_a_lower_bound_and_strict_fails() {
    let dir = Dir::new();
    let words = [
        "capacity",
        "spawn:redis-server",
        "--slo",
        "p50<50ms",
        "--duration",
        "50ms",
        "--max-time",
        "800ms",
        "--keys",
        "100",
        "--json",
        "out.json",
        "--color",
        "never",
    ];
    let text = dir.run(&words).succeeded();
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    let answer = answer(&record);
    assert_eq!(answer.rate, None);
    assert!(!answer.outcome.is_decided());
    let sentence = &record.findings[0];
    let lower = answer.lower.unwrap();
    assert!(lower.held > 0 && lower.rate > 0.0, "{lower:?}");
    assert!(sentence.contains(" carries "), "{sentence}");
    assert!(sentence.contains(" held"), "{sentence}");
    assert!(sentence.contains(", since "), "{sentence}");
    assert!(text.contains("inconclusive (0)"), "{text}");
    let strict: Vec<&str> = words.into_iter().chain(["--strict", "--quiet"]).collect();
    let ended = dir.run(&strict);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert_eq!(ended.stdout, "loadline: capacity: inconclusive (3)\n");
}

#[test]
fn load_is_removed_from_a_server_that_stays() {
    let dir = Dir::new();
    let server = Serving::start(&dir, &[]);
    let target = format!("redis://{}", server.address);
    let words = [
        "capacity",
        &target,
        "--slo",
        "p50<60ms",
        "--duration",
        "50ms",
        "--max-time",
        "2s",
        "--keys",
        "100",
        "--workload",
        "set",
        "--quiet",
    ];
    dir.run(&words).succeeded();
    server.answers("*1\r\n$6\r\nDBSIZE\r\n", ":0\r\n");
}

#[test]
fn impossible_search_ends_with_its_exit_code() {
    let dir = Dir::new();
    for (words, code, reason) in [
        (&["capacity"][..], 64, "<TARGET>"),
        (
            &["capacity", "embedded", "--slo", "p99<2"],
            64,
            "expected a value with a unit",
        ),
        (
            &["capacity", "embedded", "--slo", "throughput>5k"],
            64,
            "a percentile of the response time",
        ),
        (
            &["capacity", "embedded", "--max-time", "2s"],
            64,
            "at least 4500ms",
        ),
        (&["capacity", "ram"], 64, "only for servers"),
        (
            &["capacity", "embedded", "--json", "one", "--junit", "one"],
            64,
            "Two outputs",
        ),
        (&["capacity", "redis://127.0.0.1:1"], 69, "127.0.0.1:1"),
        (&["capacity", "spawn:no-such-server"], 69, "no-such-server"),
        // Ten connections with a round trip of 200 ms carry 50 operations per second.
        (
            &[
                "capacity",
                "embedded",
                "--latency",
                "200ms",
                "--connections",
                "10",
                "--duration",
                "300ms",
                "--max-time",
                "5s",
                "--keys",
                "10",
                "--quiet",
            ],
            64,
            "--max-time",
        ),
        (
            &[
                "capacity",
                "spawn:redis-server",
                "--command",
                "LPUSH {key} x",
                "--command",
                "INCR {key}",
                "--duration",
                "50ms",
                "--max-time",
                "1s",
                "--keys",
                "1",
                "--quiet",
            ],
            69,
            "operations failed in the closed loop",
        ),
    ] {
        dir.run(words).failed(code, reason);
    }
}

#[test]
fn interrupt_ends_the_search_and_keeps_what_was_measured() {
    let dir = Dir::new();
    let words = [
        "capacity",
        "embedded",
        "--slo",
        LOOSE,
        "--duration",
        "200ms",
        "--max-time",
        "15s",
        "--keys",
        "100",
        "--json",
        "out.json",
    ];
    let mut child = dir
        .command(&words)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let begun = lines.find(|line| line.as_ref().unwrap().contains("a closed loop on embedded"));
    assert!(begun.is_some());
    std::thread::sleep(std::time::Duration::from_millis(700));
    signal(child.id(), "INT");
    let mut status = None;
    wait_until("the search ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(130));
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    assert!(record.run.cut_short && answer(&record).closed_loop > 0.0);
}

/// A server that stops answering in the middle of a search is not there any more.
#[test]
fn server_that_freezes_ends_the_search_with_69() {
    let dir = Dir::new();
    let server = Serving::start(&dir, &[]);
    let target = format!("redis://{}", server.address);
    let words = [
        "capacity",
        &target,
        "--slo",
        LOOSE,
        "--duration",
        "200ms",
        "--max-time",
        "15s",
        "--keys",
        "100",
    ];
    let mut child = dir
        .command(&words)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let begun = lines.find(|line| line.as_ref().unwrap().contains("a closed loop on"));
    assert!(begun.is_some());
    signal(server.process.id(), "STOP");
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(69), "{said:?}");
    // It may freeze while it is asked, or while a connection to it is opened.
    let said = said.join("\n");
    assert!(
        said.contains(&target) && said.contains(" within "),
        "{said}"
    );
}

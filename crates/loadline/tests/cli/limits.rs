//! `--limit`: output, record and exit code.

use loadline_measure::Record;
use loadline_measure::gate::RowVerdict;

use crate::util::{Dir, Ended};

const RUN: [&str; 10] = [
    "run",
    "embedded",
    "--workload",
    "get",
    "--keys",
    "500",
    "--ops",
    "5000",
    "--warmup",
    "0ms",
];

fn limited(dir: &Dir, more: &[&str]) -> Ended {
    dir.run(&[&RUN, more].concat())
}

#[track_caller]
fn ends(ended: &Ended, code: i32, last: &str) {
    assert_eq!(ended.code, Some(code), "{}\n{}", ended.words, ended.stderr);
    assert_eq!(ended.stdout.lines().last(), Some(last), "{}", ended.words);
}

#[test]
fn limits_that_are_kept_are_said_to_be() {
    let dir = Dir::new();
    let limits = ["--limit", "get.p50<10s", "--limit", "throughput>1"];
    let more = [&limits[..], &["--strict", "--json", "out.json"]].concat();
    ends(&limited(&dir, &more), 0, "loadline: run: none (0)");
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    let verdicts: Vec<_> = record
        .limits
        .iter()
        .map(|row| (row.limit.as_deref(), row.verdict))
        .collect();
    assert_eq!(
        verdicts,
        [
            (Some("get.p50<10s"), RowVerdict::Equivalent),
            (Some("throughput>1"), RowVerdict::Equivalent)
        ]
    );
}

#[test]
fn broken_limit_is_critical_and_named() {
    let dir = Dir::new();
    let limits = ["--limit", "get.p50<1ns", "--limit", "throughput>1"];
    let ended = limited(&dir, &limits);
    ends(&ended, 2, "loadline: run: critical (2)");
    // Once, in the report.
    assert_eq!(
        ended.stdout.matches("breaks get.p50<1ns").count(),
        1,
        "{}",
        ended.stdout
    );
    // Without the report, the sentence is above the last line.
    let quiet = limited(&dir, &[&limits[..], &["--quiet"]].concat());
    let lines: Vec<&str> = quiet.stdout.lines().collect();
    let [named, "loadline: run: critical (2)"] = lines[..] else {
        panic!("{lines:?}");
    };
    assert!(
        named.starts_with("get, p50: ") && named.ends_with(" breaks get.p50<1ns."),
        "{named}"
    );
}

#[test]
fn with_the_record_on_standard_output_the_last_line_is_on_the_other() {
    let dir = Dir::new();
    let ended = limited(&dir, &["--limit", "p50<1ns", "--quiet", "--json", "-"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let record = Record::from_json(ended.stdout.as_bytes()).unwrap();
    assert_eq!(record.limits[0].verdict, RowVerdict::Critical);
    assert_eq!(
        ended.stderr.lines().last(),
        Some("loadline: run: critical (2)")
    );
}

/// 5,000 operations are too few for p99.9, and the longest took longer than a nanosecond.
#[test]
fn unjudgeable_limit_fails_only_under_strict() {
    let dir = Dir::new();
    let limit = ["--limit", "get.p99.9<1ns"];
    let ended = limited(&dir, &limit);
    ends(&ended, 0, "loadline: run: inconclusive (0)");
    assert!(
        ended.stdout.contains("samples are too few to judge"),
        "{}",
        ended.stdout
    );
    let strict = [&limit[..], &["--strict"]].concat();
    ends(
        &limited(&dir, &strict),
        3,
        "loadline: run: inconclusive (3)",
    );
}

#[test]
fn limits_that_cannot_be_are_refused_before_anything_runs() {
    let dir = Dir::new();
    for (more, reason) in [
        (
            &["--limit", "xread.p99<10ms"][..],
            "unknown case: expected get.",
        ),
        (&["--limit", "get.p99<10"], "a value with a unit"),
        (&["--limit", "default"], "add --workload manager"),
        (&["--strict"], "--limit"),
    ] {
        limited(&dir, more).failed(64, reason);
    }
}

#[test]
fn plan_shows_the_limits_of_its_suite() {
    let dir = Dir::new();
    let suite = ["run", "embedded", "--workload", "manager", "--dry-run"];
    let text = dir.run(&suite).succeeded();
    let (_, offered) = text.split_once("judged only with --limit default").unwrap();
    for limit in [
        "xread.p99<10ms",
        "set_sequential.throughput>5k/s",
        "connection_memory.client_memory<1MB",
    ] {
        assert!(offered.contains(limit), "{limit}\n{text}");
    }
    let judged = [&suite[..], &["--limit", "default"]].concat();
    let text = dir.run(&judged).succeeded();
    assert!(text.contains("judged  xread.p99<10ms"), "{text}");
}

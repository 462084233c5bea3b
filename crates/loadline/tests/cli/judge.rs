//! compare, baseline and gate: what they say, what they write, and how they end.

use loadline_measure::Record;
use loadline_measure::gate::{Baseline, Outcome, RowVerdict};

use crate::redis::Redis;
use crate::util::{Dir, Ended, Serving};

/// Short blocks: these tests are about what is done with figures, and not about figures.
const SHORT: [&str; 8] = [
    "--connections",
    "1",
    "--keys",
    "100",
    "--duration",
    "30ms",
    "--rounds",
    "3",
];

/// The same in enough rounds for a verdict about two servers of which one is many times slower.
const JUDGED: [&str; 8] = [
    "--connections",
    "1",
    "--keys",
    "100",
    "--duration",
    "240ms",
    "--rounds",
    "24",
];

#[track_caller]
fn ends(ended: &Ended, code: i32, last: &str) {
    assert_eq!(
        (ended.code, ended.stdout.lines().last()),
        (Some(code), Some(last)),
        "{}\n{}{}",
        ended.words,
        ended.stdout,
        ended.stderr
    );
}

fn save(dir: &Dir, file: &str, more: &[&str]) -> Ended {
    let words = ["baseline", "save", file, "embedded", "--quiet"];
    // Counts have tests of their own, which take longer.
    let times_only = ["--instructions", "off"];
    dir.run(&[&words, &SHORT[..], &times_only, more].concat())
}

fn baseline(dir: &Dir, file: &str) -> Baseline {
    Baseline::from_json(dir.read(file).as_bytes()).unwrap()
}

fn record(dir: &Dir, file: &str) -> Record {
    Record::from_json(dir.read(file).as_bytes()).unwrap()
}

/// One server burns 300 us of CPU per command, which is many times what a GET takes: no noise hides it.
#[test]
fn slower_server_is_critical_in_every_form() {
    let dir = Dir::new();
    let fast = Serving::start(&dir, &[]);
    let slow = Serving::embedded(&dir, &["--burn-per-command", "300us"]);
    let urls = [&fast, &slow].map(|server| format!("redis://{}", server.address));
    let words = ["compare", &urls[0], &urls[1], "--workload", "get"];
    let files = [
        "--json",
        "out.json",
        "--junit",
        "out.xml",
        "--markdown",
        "out.md",
    ];
    let ended = dir.run(&[&words, &JUDGED[..], &files].concat());
    ends(&ended, 2, "loadline: compare: critical (2)");
    assert!(ended.stdout.starts_with("Critical: "), "{}", ended.stdout);
    let said = "by more than 2 % in 2";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
    let judgement = record(&dir, "out.json").judgement.unwrap();
    assert_eq!(judgement.outcome, Outcome::Critical);
    let markdown = dir.read("out.md");
    assert!(
        markdown.starts_with("**Critical: ") && markdown.contains("\n## loadline compare\n"),
        "{markdown}"
    );
    let junit = dir.read("out.xml");
    assert!(junit.contains("<failure type=\"critical\""), "{junit}");
    let shown = dir.run(&["report", "out.json"]).succeeded();
    assert!(shown.starts_with("Critical: "), "{shown}");
    // The other way round it is no regression, however much faster.
    let words = [
        "compare",
        &urls[1],
        &urls[0],
        "--workload",
        "get",
        "--quiet",
    ];
    let ended = dir.run(&[&words, &JUDGED[..]].concat());
    ends(&ended, 0, "loadline: compare: none (0)");
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
}

#[test]
fn records_of_different_times_are_compared_with_care_and_others_not_at_all() {
    let dir = Dir::new();
    for (file, workload) in [
        ("one.json", "get"),
        ("two.json", "get"),
        ("set.json", "set"),
    ] {
        let words = [
            "run",
            "embedded",
            "--workload",
            workload,
            "--quiet",
            "--json",
            file,
        ];
        dir.run(&[&words, &SHORT[..]].concat()).succeeded();
    }
    let ended = dir.run(&["compare", "one.json", "two.json"]);
    assert!(
        [Some(0), Some(1), Some(2)].contains(&ended.code),
        "{}",
        ended.stderr
    );
    let said = ended.stdout.contains("different times");
    assert!(said, "{}", ended.stdout);
    let refused = dir.run(&["compare", "one.json", "set.json"]);
    ends(&refused, 3, "loadline: compare: inconclusive (3)");
    dir.run(&["compare", "one.json", "embedded"])
        .failed(64, "cannot compare a record with a target");
    dir.run(&["compare", "one.json", "missing.json"])
        .failed(65, "missing.json could not be read");
}

#[test]
fn baseline_is_saved_shown_added_to_and_not_overwritten() {
    let dir = Dir::new();
    save(&dir, "b.json", &["--workload", "get", "--runs", "2"]).succeeded();
    let saved = baseline(&dir, "b.json");
    assert_eq!((saved.target.as_str(), saved.runs.len()), ("embedded", 2));
    assert_ne!(saved.runs[0].id, saved.runs[1].id);
    save(&dir, "b.json", &["--workload", "get"]).failed(64, "already exists");
    let added = dir.run(&["baseline", "add", "b.json"]).succeeded();
    assert!(
        added.starts_with("A baseline of embedded: 3 runs"),
        "{added}"
    );
    let shown = dir.run(&["baseline", "show", "b.json"]).succeeded();
    assert_eq!(added, shown);
    assert!(shown.contains("It needs 8 runs to raise an alarm; add 5 more."));
    assert_eq!(baseline(&dir, "b.json").runs.len(), 3);
    dir.run(&["report", "b.json"])
        .failed(65, "`loadline baseline show b.json` prints it");
}

#[test]
fn gate_with_too_few_runs_judges_limits_only() {
    let dir = Dir::new();
    save(&dir, "b.json", &["--workload", "get", "--runs", "1"]).succeeded();
    let gate = ["gate", "b.json"];
    let ended = dir.run(&[&gate[..], &["--json", "candidate.json"]].concat());
    ends(&ended, 0, "loadline: gate: inconclusive (0)");
    assert!(ended.stdout.contains("add 7 more"), "{}", ended.stdout);
    ends(
        &dir.run(&[&gate[..], &["candidate.json", "--strict"]].concat()),
        3,
        "loadline: gate: inconclusive (3)",
    );
    let limit = ["--limit", "get.max<1ns", "--json", "out.json"];
    ends(
        &dir.run(&[&gate[..], &limit].concat()),
        2,
        "loadline: gate: critical (2)",
    );
    let rows = record(&dir, "out.json").judgement.unwrap().rows;
    let broken = rows
        .iter()
        .find(|row| row.verdict == RowVerdict::Critical)
        .unwrap();
    // An alarm counts only where a second run agrees.
    assert!(
        broken.evidence.contains("in the second run"),
        "{}",
        broken.evidence
    );
}

#[test]
fn gate_ends_as_the_contract_says() {
    let dir = Dir::new();
    save(&dir, "b.json", &["--workload", "get", "--runs", "1"]).succeeded();
    let words = [
        "run",
        "embedded",
        "--workload",
        "set",
        "--quiet",
        "--json",
        "set.json",
    ];
    dir.run(&[&words, &SHORT[..]].concat()).succeeded();
    let other = dir.run(&["gate", "b.json", "set.json"]);
    ends(&other, 3, "loadline: gate: inconclusive (3)");
    assert!(
        other.stdout.contains("cannot be compared"),
        "{}",
        other.stdout
    );
    dir.run(&["gate", "b.json", "--limit", "p99<10"])
        .failed(64, "a value with a unit");
    dir.run(&["gate", "b.json", "--warning", "1%"])
        .failed(64, "--warning must be 2 % or more");
    dir.run(&["gate", "b.json", "spawn:no-such-server"])
        .failed(69, "program not found");
    dir.run(&["gate", "missing.json"])
        .failed(65, "could not be read");
    dir.write("bad.json", "{\"schema\": \"loadline.baseline/9\"}");
    dir.run(&["gate", "bad.json"]).failed(65, "baseline/9");
    let text = dir.read("b.json").replace("--workload=get", "--what=get");
    dir.write("edited.json", &text);
    dir.run(&["gate", "edited.json"])
        .failed(65, "cannot use its plan");
    let text = dir
        .read("b.json")
        .replace("--workload=get", "--workload=set");
    dir.write("changed.json", &text);
    dir.run(&["gate", "changed.json"])
        .failed(3, "resolves to a different workload");
}

/// The file of the write-up, with numbers that no machine misses or meets.
fn classic(dir: &Dir, metric: &str, thresholds: &str) {
    let text = format!(
        "{{\"last_updated\": \"2026-01-31\", \"environment\": \"CI\", \"metrics\": {{{metric}}}, \"thresholds\": {{\"critical_latency_ms\": 3600000, {thresholds}}}}}"
    );
    dir.write("classic.json", &text);
}

#[test]
fn classic_file_is_judged_by_its_own_thresholds() {
    let (redis, dir) = (Redis::start(&[]), Dir::new());
    let url = format!("redis://127.0.0.1:{}", redis.port());
    let words = [
        "run",
        &url,
        "--workload",
        "manager-classic",
        "--duration",
        "100ms",
        "--rounds",
        "8",
        "--quiet",
        "--json",
        "run.json",
    ];
    dir.run(&words).succeeded();
    let gate = ["gate", "classic.json", "run.json"];
    let latency = "\"latency_regression_pct\": 20";
    classic(&dir, "\"get_latency_us\": 1000000000", latency);
    ends(&dir.run(&gate), 0, "loadline: gate: none (0)");
    classic(&dir, "\"get_latency_us\": 0.001", latency);
    ends(&dir.run(&gate), 1, "loadline: gate: warning (1)");
    let least = "\"critical_throughput_min_ops_sec\": 9000000000";
    classic(&dir, "\"throughput_ops_sec\": 10", least);
    ends(&dir.run(&gate), 2, "loadline: gate: critical (2)");
    classic(&dir, "\"get_latency_us\": \"fast\"", latency);
    dir.run(&gate).failed(65, "metrics.get_latency_us");
    classic(&dir, "\"get_latency_us\": 1", latency);
    dir.run(&[&gate[..], &["--policy", "strict"]].concat())
        .failed(64, "does not contain the variation between runs");
}

#[test]
fn proof_says_what_it_will_not_do() {
    let dir = Dir::new();
    dir.run(&["prove", "--runs", "5000"])
        .failed(64, "--runs: invalid count `5000`: at most 1000");
    dir.run(&["prove", "--workload", "nonsense"])
        .failed(64, "unknown workload `nonsense`");
    dir.run(&["prove", "--json", "/no/such/dir/p.json"])
        .failed(64, "there is no directory");
    dir.run(&["prove", "--plant", "none,disk+5"])
        .failed(64, "invalid slowdown `disk+5`");
}

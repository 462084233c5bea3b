//! Servers that refuse, go away or are of another kind, and runs that are ended from outside.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use loadline_measure::Metric;
use loadline_measure::proof::Proof;
use loadline_measure::record::Record;

use crate::redis::Redis;
use crate::util::{Dir, Ended, signal, wait_until};

/// A short load of keys, and nothing else that takes long.
const SHORT: [&str; 6] = ["--ops", "1k", "--keys", "2k", "--rounds", "1"];

fn run_on(redis: &Redis, more: &[&str]) -> Ended {
    let url = redis.url();
    let words = [
        &["run", &url, "--workload", "get", "--quiet"],
        &SHORT[..],
        more,
    ]
    .concat();
    Dir::new().run(&words)
}

/// A run under way, ended with the test.
struct Running(Child);

impl Running {
    fn start(dir: &Dir, words: &[&str]) -> Self {
        let child = dir.command(words).stderr(Stdio::piped()).spawn();
        Self(child.unwrap())
    }

    fn signal(&self, name: &str) {
        signal(self.0.id(), name);
    }

    /// Exit code and output, once it has ended.
    #[track_caller]
    fn ended(mut self) -> (Option<i32>, String) {
        let mut status = None;
        wait_until("it ends", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        let (mut stderr, mut said) = (self.0.stderr.take().unwrap(), String::new());
        stderr.read_to_string(&mut said).unwrap();
        (status.unwrap().code(), said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A node takes UNLINK of several keys only where all are in one slot.
#[test]
fn keys_are_removed_from_a_node_of_a_cluster() {
    let node = Redis::start(&["--cluster-enabled", "yes"]);
    node.answers("CLUSTER ADDSLOTSRANGE 0 16383\r\n", "+OK\r\n");
    wait_until("the slots are served", || {
        node.says("CLUSTER INFO", "cluster_state:ok")
    });
    run_on(&node, &[]).succeeded();
    assert!(node.calls("unlink") > 0, "keys were there to be removed");
    node.answers("DBSIZE\r\n", ":0\r\n");
}

#[test]
fn keys_are_removed_after_some_of_them_were_refused() {
    let node = Redis::start(&[
        "--cluster-enabled",
        "yes",
        "--cluster-require-full-coverage",
        "no",
    ]);
    node.answers("CLUSTER ADDSLOTSRANGE 0 8000\r\n", "+OK\r\n");
    wait_until("the slots are served", || {
        node.says("CLUSTER INFO", "cluster_state:ok")
    });
    run_on(&node, &[]).failed(69, "use `cluster://HOST:PORT` for the whole cluster");
    assert!(node.calls("set") > 0, "keys were written before");
    node.answers("DBSIZE\r\n", ":0\r\n");
}

#[test]
fn server_that_refuses_keys_is_reported_with_advice() {
    let settings: [(&[&str], &str); 3] = [
        (&["--replicaof", "127.0.0.1", "1"], "use its primary"),
        (&["--maxmemory", "1mb"], "maxmemory"),
        (&["--min-replicas-to-write", "1"], "min-replicas-to-write"),
    ];
    for (settings, advice) in settings {
        let redis = Redis::start(settings);
        run_on(&redis, &[]).failed(69, advice);
    }
}

#[test]
fn sweep_ends_when_its_server_does() {
    let (redis, dir) = (Redis::start(&[]), Dir::new());
    let url = redis.url();
    let words = [
        "modes",
        &url,
        "--quiet",
        "--latency",
        "0",
        "--mode",
        "sync",
        "--op",
        "get",
        "--budget",
        "1h",
        "--ops",
        "1G",
    ];
    let run = Running::start(&dir, &words);
    wait_until("the sweep begins", || redis.calls("get") > 1_000);
    drop(redis);
    let (code, said) = run.ended();
    assert_eq!(code, Some(69), "{said}");
    assert!(
        said.contains("the connection to the server was lost"),
        "{said}"
    );
    assert!(said.lines().count() <= 3, "{said}");
}

#[test]
fn interrupted_sweep_does_not_wait_for_a_server_that_is_frozen() {
    for mode in ["sync", "pipeline", "async"] {
        let (redis, dir) = (Redis::start(&[]), Dir::new());
        let url = redis.url();
        let words = format!(
            "modes {url} --quiet --latency 0 --mode {mode} --op get --ops 10,1G --budget 1h --json out.json"
        );
        let run = Running::start(&dir, &words.split(' ').collect::<Vec<_>>());
        wait_until("the large cell begins", || redis.calls("get") > 10_000);
        signal(redis.pid(), "STOP");
        run.signal("INT");
        // It ends while the server is frozen: a reply may take a minute.
        let (code, said) = run.ended();
        assert_eq!(code, Some(130), "{said}");
        assert!(
            said.contains("no reply, so the keys were not removed"),
            "{said}"
        );
        assert!(
            said.contains("Remove them with: loadline clean redis://"),
            "{said}"
        );
        let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
        assert!(record.run.cut_short);
        let first = &record.cases[0];
        assert_eq!(
            first.scenario.ops_asked,
            Some(10),
            "the cell before was whole"
        );
        assert!(first.ops >= 10, "{}", first.ops);
        assert!(
            record
                .findings
                .iter()
                .any(|sentence| sentence.contains("no reply"))
        );
    }
}

/// A run of many short rounds on `redis`, with some of them done.
fn run_under_way(redis: &Redis, dir: &Dir, workload: &str) -> Running {
    let url = redis.url();
    let words = [
        "run",
        &url,
        "--workload",
        workload,
        "--ops",
        "20M",
        "--rounds",
        "10000",
        "--keys",
        "1k",
        "--warmup",
        "1ms",
        "--connections",
        "4",
        "--json",
        "out.json",
        "--markdown",
        "out.md",
        "--quiet",
    ];
    let run = Running::start(dir, &words);
    // A round has 2,000 operations.
    wait_until("some rounds are done", || redis.calls(workload) > 20_000);
    run
}

/// The record of a run whose server was lost: the rounds before, marked.
fn finished_rounds(dir: &Dir) -> Record {
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    assert!(record.run.cut_short, "it is marked");
    let case = &record.cases[0];
    assert!(case.ops >= 10_000, "{} operations", case.ops);
    assert_eq!(case.ops % 2_000, 0, "whole rounds");
    assert_eq!(record.errors(), 0);
    assert!(dir.read("out.md").contains("get"), "it is reported");
    record
}

#[test]
fn rounds_before_a_server_died_are_kept() {
    let (redis, dir) = (Redis::start(&[]), Dir::new());
    let url = redis.url();
    let run = run_under_way(&redis, &dir, "get");
    drop(redis);
    let (code, said) = run.ended();
    assert_eq!(code, Some(69), "{said}");
    let record = finished_rounds(&dir);
    let clean = format!("loadline clean {url} --run {}", record.run.id);
    assert!(said.contains(&clean), "{said}");
}

#[test]
fn run_ends_soon_after_its_server_froze() {
    let (redis, dir) = (Redis::start(&[]), Dir::new());
    let run = run_under_way(&redis, &dir, "get");
    signal(redis.pid(), "STOP");
    let frozen = Instant::now();
    let (code, said) = run.ended();
    let took = frozen.elapsed();
    assert_eq!(code, Some(69), "{said}");
    // A reply may take 5 s, and cleaning up waits for one more answer, shortly and not for its two minutes.
    assert!(took < Duration::from_secs(45), "{took:?}");
    finished_rounds(&dir);
}

#[test]
fn server_that_becomes_full_is_reported_with_its_errors() {
    let (redis, dir) = (Redis::start(&[]), Dir::new());
    let url = redis.url();
    let words = [
        "run",
        &url,
        "--workload",
        "set",
        "--duration",
        "1500ms",
        "--rounds",
        "10",
        "--keys",
        "1k",
        "--json",
        "out.json",
        "--quiet",
    ];
    let run = Running::start(&dir, &words);
    wait_until("some rounds are done", || redis.calls("set") > 3_000);
    redis.answers("CONFIG SET maxmemory 1\r\n", "+OK\r\n");
    let (code, said) = run.ended();
    assert_eq!(code, Some(69), "{said}");
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    let case = &record.cases[0];
    let errors = record.errors();
    assert!(case.ops > 0 && errors > 0, "{} and {errors}", case.ops);
    assert!(said.contains("OOM"), "{said}");
    redis.answers("DBSIZE\r\n", ":0\r\n");
}

/// Every latency would have its link measured first, for seconds.
/// A reply may take a minute. The blocks that were finished are in the record.
#[test]
fn interrupted_tiers_do_not_wait_for_a_server_that_is_frozen() {
    let (redis, dir) = (Redis::start(&[]), Dir::new());
    let url = redis.url();
    let words = format!(
        "tiers {url} store --quiet --floor 12x12 --duration 10s --rounds 10000 --warmup 1ms --json out.json"
    );
    let run = Running::start(&dir, &words.split(' ').collect::<Vec<_>>());
    // Several rounds, in each of which all arms had a block of a millisecond.
    wait_until("the rounds are under way", || redis.calls("get") > 2_000);
    signal(redis.pid(), "STOP");
    // Blocks of a millisecond, so by then a call waits for the server.
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    run.signal("INT");
    let (code, said) = run.ended();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(45), "{took:?}");
    assert_eq!(code, Some(130), "{said}");
    assert!(
        said.contains("no reply, so the keys were not removed"),
        "{said}"
    );
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    assert!(record.run.cut_short);
    let has_blocks = |subject: &str| {
        let mut cases = record.cases.iter();
        cases.any(|case| case.subject.name == subject && case.ops > 0)
    };
    assert!(has_blocks(&url) && has_blocks("store"));
}

#[test]
fn interrupted_sweep_opens_no_further_link() {
    let (redis, dir) = (Redis::start(&[]), Dir::new());
    let url = redis.url();
    let words = [
        "modes",
        &url,
        "--quiet",
        "--latency",
        "0,1ms,2ms,3ms",
        "--mode",
        "sync",
        "--op",
        "get",
        "--json",
        "out.json",
    ];
    let run = Running::start(&dir, &words);
    wait_until("the sweep begins", || redis.calls("get") > 100);
    run.signal("INT");
    let (code, said) = run.ended();
    assert_eq!(code, Some(130), "{said}");
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    assert!(record.run.cut_short);
    assert_eq!(record.links.len(), 0);
    redis.answers("DBSIZE\r\n", ":0\r\n");
}

#[test]
fn interrupted_proof_says_what_it_has_found() {
    let dir = Dir::new();
    let words = ["prove", "--runs", "100", "--plant", "none,tail+50"];
    let mut command = dir.command(&[&words[..], &["--json", "proof.json"]].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut proving = Running(command.spawn().unwrap());
    // A comparison takes seconds, on a busy machine many of them; the lines come when one is done.
    let lines = BufReader::new(proving.0.stderr.take().unwrap()).lines();
    let said = lines.map(Result::unwrap).find(|line| line.contains(" of "));
    proving.signal("INT");
    let mut stdout = proving.0.stdout.take().unwrap();
    let mut text = String::new();
    stdout.read_to_string(&mut text).unwrap();
    let said = said.unwrap_or_else(|| panic!("it ended without a comparison: {text}"));
    assert!(said.starts_with("loadline: 1 of 200, nothing: "), "{said}");
    assert_eq!(proving.0.wait().unwrap().code(), Some(130), "{text}");
    assert!(text.contains("\n+50 % of p99, as CPU "), "{text}");
    assert!(text.contains(" (1 comparison)."), "{text}");
    assert!(text.contains("Cut short"), "{text}");
    assert!(
        text.ends_with("loadline: prove: interrupted (130)\n"),
        "{text}"
    );
    let proof: Proof = serde_json::from_str(&dir.read("proof.json")).unwrap();
    assert!(proof.cut_short);
    let [nothing, tail] = proof.kinds.as_slice() else {
        panic!("{:?}", proof.kinds);
    };
    assert_eq!((nothing.trials.len(), tail.trials.len()), (1, 0));
    // On a busy machine all rounds can be too starved for a ratio, but they took their time.
    assert!(nothing.trials[0].duration_ns > 0, "{:?}", nothing.trials[0]);
    assert_eq!((tail.metric, tail.planted), (Metric::CorrectedP99, 0.5));
}

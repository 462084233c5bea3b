//! `loadline run` on the masters of a cluster.

use std::net::TcpListener;
use std::process::Stdio;

use loadline_client::cluster::slot_of;
use loadline_measure::Record;

use crate::redis::Redis;
use crate::util::{Dir, Ended, wait_until};

const SHORT: &str = "--quiet --json - --keys 601 --connections 5";

/// A master, and the port on which it talks to the others.
struct Master {
    redis: Redis,
    bus: u16,
}

impl Master {
    fn start(epoch: u8, slots: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let bus = listener.local_addr().unwrap().port();
        drop(listener);
        let settings = ["--cluster-enabled", "yes", "--cluster-port"];
        let redis = Redis::start(&[&settings[..], &[&bus.to_string()]].concat());
        redis.answers(&format!("CLUSTER SET-CONFIG-EPOCH {epoch}\r\n"), "+OK\r\n");
        redis.answers(&format!("CLUSTER ADDSLOTSRANGE {slots}\r\n"), "+OK\r\n");
        Self { redis, bus }
    }
}

/// A cluster of two masters, each with half of the slots.
fn two_masters() -> [Redis; 2] {
    let [one, other] = [Master::start(1, "0 8191"), Master::start(2, "8192 16383")];
    let meet = format!(
        "CLUSTER MEET 127.0.0.1 {} {}\r\n",
        other.redis.port(),
        other.bus
    );
    one.redis.answers(&meet, "+OK\r\n");
    for node in [&one.redis, &other.redis] {
        wait_until("the masters agree", || {
            node.says("CLUSTER INFO", "cluster_state:ok")
                && node.says("CLUSTER INFO", "cluster_slots_ok:16384")
                && node.says("CLUSTER INFO", "cluster_size:2")
        });
    }
    [one.redis, other.redis]
}

fn words(target: &str, rest: &str) -> Vec<String> {
    let line = format!("run {target} {rest} {SHORT}");
    line.split_ascii_whitespace().map(Into::into).collect()
}

fn run(dir: &Dir, target: &str, rest: &str) -> Ended {
    let words = words(target, rest);
    dir.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn measured(dir: &Dir, target: &str, rest: &str) -> Record {
    let text = run(dir, target, rest).succeeded();
    Record::from_json(text.as_bytes()).unwrap()
}

#[test]
fn every_master_gets_its_part_and_is_left_as_it_was() {
    let masters = two_masters();
    let dir = Dir::new();
    let target = format!("cluster://127.0.0.1:{}", masters[0].port());
    let suite = "--workload get --workload mset --batch 7 --warmup 0s --rounds 4 --ops 4000";
    let record = measured(&dir, &target, suite);
    let [get, mset] = &record.cases[..] else {
        panic!("{} cases", record.cases.len())
    };
    assert_eq!(record.errors(), 0);
    assert_eq!(get.hit_ratio, Some(1.0));
    for case in [get, mset] {
        let command = case.scenario.workload.as_str();
        let calls = masters.each_ref().map(|master| master.calls(command));
        assert_eq!(calls, [2_000, 2_000], "{command}");
        assert_eq!(case.ops, 4_000);
        assert_eq!(case.scenario.keys, 601);
        assert_eq!(case.scenario.threads, 2);
        assert!(case.cost.server_cpu_ns_per_op.is_some());
        // The busiest master is no busier than both together.
        let busy = case.server_cpu_busy.unwrap();
        let both = case.cost.server_cpu_ns_per_op.unwrap() * case.throughput_ops_per_s / 1e9;
        assert!(
            busy <= both * 1.000_1 && busy >= both * 0.499,
            "{busy} of {both}"
        );
    }
    // The keys were loaded once, half of them on each master, and are gone.
    for master in &masters {
        assert_eq!(master.calls("set"), 301);
        master.answers("DBSIZE\r\n", ":0\r\n");
    }
    // No rule of the doctor says that the servers counted other operations than the generator.
    let rules: Vec<&str> = record.doctor.iter().map(|it| it.rule.as_str()).collect();
    assert!(!rules.contains(&"LL002"), "{rules:?}");

    let names = (0..).map(|number| format!("somebodys{number}"));
    let mut names = names.filter(|name| slot_of(name.as_bytes()) > 8_191);
    let name = names.next().unwrap();
    masters[1].answers(&format!("SET {name} 1\r\n"), "+OK\r\n");
    run(&dir, &target, "--workload get --ops 100").failed(64, "already holds 1 key");
    let record = measured(&dir, &target, "--workload get --ops 100 --allow-non-empty");
    assert_eq!(record.errors(), 0);
    masters[1].answers("DBSIZE\r\n", ":1\r\n");
}

/// A master with one connection, whose operations take 3 ms each, gets 667 of them per second. One at a time
/// it could answer 333.
#[test]
fn schedule_and_a_link_concern_every_master() {
    let dir = Dir::new();
    let open = "--workload set --rate 2000 --pipeline 16 --duration 600ms --warmup 10ms";
    let rest = format!("{open} --latency 3ms");
    let record = measured(&dir, "spawn-cluster:redis-server", &rest);
    let [case] = &record.cases[..] else {
        panic!("{} cases", record.cases.len())
    };
    assert_eq!(record.errors(), 0);
    assert_eq!(case.subject.kind.as_str(), "spawned cluster");
    assert_eq!(case.scenario.threads, 3);
    assert_eq!((case.planned, case.not_sent), (Some(1_200), Some(0)));
    assert_eq!(case.ops, 1_200);
    assert_eq!(record.links.len(), 1);
    assert!(
        case.response_time_ns.min >= Some(3_000_000),
        "{:?}",
        case.response_time_ns
    );
}

/// The slot whose keys the first master gets goes to the other between two looks at it.
#[test]
fn slot_that_moves_is_followed_after_the_round_that_saw_it() {
    let masters = two_masters();
    let dir = Dir::new();
    let target = format!("cluster://127.0.0.1:{}", masters[0].port());
    // A command that leaves no keys: a slot that holds some cannot just be given away.
    let mut words = words(&target, "--duration 4s --rounds 8 --warmup 0s --rate 4000");
    words.extend(["--command".into(), "DEL {key}".into()]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let child = dir
        .command(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the first master is under load", || {
        masters[0].calls("del") > 200
    });
    let tags = (0..).map(|number| format!("{number:06}"));
    let slots = tags.map(|tag| slot_of(tag.as_bytes()));
    let slot = slots.into_iter().find(|slot| *slot < 8_192).unwrap();
    let id = masters[1].id();
    for master in &masters {
        master.answers(&format!("CLUSTER SETSLOT {slot} NODE {id}\r\n"), "+OK\r\n");
    }
    let ended = Ended::of(&words, child.wait_with_output().unwrap());
    let record = Record::from_json(ended.stdout.as_bytes())
        .unwrap_or_else(|error| panic!("{error}\n{}", ended.stderr));
    assert_ne!(ended.code, Some(0), "{}", ended.stderr);
    let case = &record.cases[0];
    let kinds: Vec<&str> = case.errors.keys().map(String::as_str).collect();
    assert_eq!(kinds, ["MOVED"]);
    assert_eq!(case.ops, 16_000);
    let errors: Vec<u64> = case.rounds.iter().map(|round| round.errors).collect();
    assert!(
        errors.iter().filter(|count| **count > 0).count() <= 2,
        "{errors:?}"
    );
    assert_eq!(errors.last(), Some(&0), "{errors:?}");
}

#[test]
fn search_for_capacity_takes_a_cluster() {
    let dir = Dir::new();
    let line = "capacity spawn-cluster:redis-server --slo p50<60ms --duration 50ms --max-time 2s --keys 900 \
                --connections 6 --json out.json --color never";
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let text = dir.run(&words).succeeded();
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    let answer = crate::capacity::answer(&record);
    assert!(
        !answer.curve.is_empty() && answer.closed_loop > 0.0,
        "{text}"
    );
    assert_eq!(record.errors(), 0, "{text}");
    assert!(record.cases.iter().all(|case| case.scenario.threads == 3));
}

#[test]
fn options_unfit_for_a_cluster_are_refused() {
    let dir = Dir::new();
    let cluster = "spawn-cluster:redis-server";
    let text = dir.run(&["run", cluster, "--dry-run"]).succeeded();
    assert!(
        text.contains("each master of a cluster gets an equal part"),
        "{text}"
    );
    let text = dir.run(&["run", "embedded", "--dry-run"]).succeeded();
    assert!(!text.contains("each master"), "{text}");
    dir.run(&["run", cluster, "--workload", "manager"])
        .failed(64, "is a cluster");
    dir.run(&["run", cluster, "--quiet", "--connections", "2"])
        .failed(64, "each of its 3 servers needs a connection");
}

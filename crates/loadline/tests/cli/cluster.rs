//! Clusters as targets: started for a run, or running already.

use std::collections::BTreeSet;
use std::net::TcpListener;

use loadline_measure::Record;

use crate::failover::driven;
use crate::redis::Redis;
use crate::util::Dir;

const SHORT: &str = "--instructions off --ops 300 --budget 100ms --sizes 1,20 --batch 20 --in-flight 8 --keys 200 --json out.json --color never";

/// The output of `loadline modes` about a target, and its record.
fn modes(dir: &Dir, words: &str) -> (String, Record) {
    let line = format!("modes {words} {SHORT}");
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let text = dir.run(&words).succeeded();
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    assert_eq!(record.errors(), 0, "{text}");
    for case in record
        .cases
        .iter()
        .filter(|case| case.scenario.ops_asked.is_some())
    {
        assert!(
            case.ops > 0 && case.hit_ratio.is_none_or(|hits| hits == 1.0),
            "{text}"
        );
    }
    (text, record)
}

fn measured(record: &Record) -> BTreeSet<&str> {
    let modes = record.cases.iter().map(|case| case.scenario.mode.as_str());
    modes.collect()
}

#[test]
fn cluster_of_its_own_is_called_in_every_mode_that_its_slots_allow() {
    let dir = Dir::new();
    let (text, record) = modes(&dir, "spawn-cluster:redis-server --latency 0");
    let plain = ["async", "batch", "pipeline", "sync"];
    assert_eq!(measured(&record), plain.into());
    assert!(text.contains("--hash-tag puts them into one"), "{text}");
    let (_, record) = modes(
        &dir,
        "spawn-cluster:redis-server --latency 0 --hash-tag --workload get,set,incr",
    );
    let all = [
        "async",
        "batch",
        "pipeline",
        "script",
        "sync",
        "transaction",
    ];
    assert_eq!(measured(&record), all.into());
    assert_eq!(record.cases[0].subject.kind.as_str(), "spawned cluster");
}

#[test]
fn cluster_that_runs_already_is_left_as_it_was() {
    let bus = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let bus = bus.to_string();
    let node = Redis::start(&["--cluster-enabled", "yes", "--cluster-port", &bus]);
    node.answers("CLUSTER ADDSLOTSRANGE 0 16383\r\n", "+OK\r\n");
    let dir = Dir::new();
    let target = format!("cluster://127.0.0.1:{}", node.port());
    modes(&dir, &format!("{target} --latency 0"));
    node.answers("DBSIZE\r\n", ":0\r\n");
    let line = format!("failover {target} --watch --duration 300ms --rate 200");
    let text = dir.run(&line.split(' ').collect::<Vec<_>>()).succeeded();
    assert!(
        text.contains("none of 60 acknowledged writes was"),
        "{text}"
    );
    node.answers("DBSIZE\r\n", ":0\r\n");
    let port = node.port();
    let server = format!(r#""host":"127.0.0.1","port":{port},"password":null,"cluster":true"#);
    let lines = driven(&dir, &server);
    assert_eq!(lines.matches("acknowledged").count(), 3, "{lines}");
    node.answers("DEL {w0}:0 {w0}:1 {w0}:2\r\n", ":3\r\n");
    node.answers("SET somebodys key\r\n", "+OK\r\n");
    dir.run(&["modes", &target])
        .failed(64, "already holds 1 key");
    modes(
        &dir,
        &format!("{target} --latency 0 --allow-non-empty --mode sync --op get"),
    );
    node.answers("DBSIZE\r\n", ":1\r\n");
}

#[test]
fn single_server_is_refused_as_a_cluster() {
    let dir = Dir::new();
    let redis = Redis::start(&[]);
    let target = format!("cluster://127.0.0.1:{}", redis.port());
    dir.run(&["modes", &target])
        .failed(69, "cluster support disabled");
    dir.run(&["run", &target])
        .failed(69, "a single server is redis://HOST:PORT");
    dir.run(&["modes", "spawn-cluster:no-such-program"])
        .failed(69, "program not found");
}

/// Clients follow the addresses that the nodes name, and each of those must lead through the link.
#[test]
fn no_node_of_a_cluster_is_reached_past_the_link() {
    let dir = Dir::new();
    let (text, record) = modes(
        &dir,
        "spawn-cluster:redis-server --latency 0,5ms --link l4 --mode sync,async,pipeline,batch --op get",
    );
    assert_eq!(record.links.len(), 1);
    assert_eq!(record.links[0].class.as_str(), "l4");
    assert!(text.contains("5 ms added by l4"), "{text}");
    let fastest = |latency_ns| {
        let cells = record.cases.iter();
        let cells = cells.filter(move |cell| cell.scenario.latency_ns == latency_ns);
        cells.map(|cell| cell.response_time_ns.min.unwrap())
    };
    // All keys are read by each cell of some hundred operations, so every master has its part.
    assert_eq!(fastest(5_000_000).count(), 8);
    assert!(fastest(5_000_000).all(|ns| ns >= 5_000_000), "{text}");
    assert!(fastest(0).any(|ns| ns < 5_000_000), "{text}");
}

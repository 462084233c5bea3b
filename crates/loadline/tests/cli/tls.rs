//! Servers and clusters that are reached by TLS.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use loadline_measure::record::Record;
use rcgen::{CertificateParams, KeyPair};

use crate::port::Port;
use crate::redis::Redis;
use crate::util::{Dir, wait_until};

/// A server with a TLS port, whose certificate is self-signed and for 127.0.0.1.
struct Encrypted {
    redis: Redis,
    port: Port,
    files: Dir,
}

impl Encrypted {
    fn start(settings: &[&str]) -> Self {
        let files = Dir::new();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = certificate.self_signed(&key).unwrap();
        let certificate = files.write("cert.pem", &certificate.pem());
        let key = files.write("key.pem", &key.serialize_pem());
        let port = Port::reserve();
        let tls = [
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            certificate.to_str().unwrap(),
            "--tls-key-file",
            key.to_str().unwrap(),
            "--tls-ca-cert-file",
            certificate.to_str().unwrap(),
            "--tls-auth-clients",
            "no",
        ];
        let redis = Redis::start(&[&tls[..], settings].concat());
        Self { redis, port, files }
    }

    fn certificate(&self) -> PathBuf {
        self.files.path().join("cert.pem")
    }
}

fn record(dir: &Dir) -> Record {
    Record::from_json(dir.read("out.json").as_bytes()).unwrap()
}

#[test]
fn sweep_and_a_run_go_through_tls_and_a_link() {
    let server = Encrypted::start(&[]);
    let dir = Dir::new();
    let url = format!("rediss://127.0.0.1:{}", server.port);
    let ca = server.certificate();
    let trust = [
        "--tls-ca",
        ca.to_str().unwrap(),
        "--quiet",
        "--json",
        "out.json",
    ];
    let words = [
        "modes",
        &url,
        "--instructions",
        "off",
        "--op",
        "get",
        "--ops",
        "100",
        "--latency",
        "0,1ms",
        "--sizes",
        "10",
    ];
    dir.run(&[&words[..], &trust].concat()).succeeded();
    let sweep = record(&dir);
    assert_eq!(sweep.errors(), 0);
    assert_eq!(sweep.links.len(), 1);
    assert!(sweep.cases.len() >= 12, "{} cases", sweep.cases.len());
    let words = [
        "run",
        &url,
        "--workload",
        "get",
        "--ops",
        "1k",
        "--keys",
        "100",
        "--latency",
        "1ms",
    ];
    dir.run(&[&words[..], &trust].concat()).succeeded();
    let run = record(&dir);
    assert_eq!((run.errors(), run.cases[0].ops), (0, 1_000));
    assert!(run.cases[0].response_time_ns.min >= Some(1_000_000));
    server.redis.answers("DBSIZE\r\n", ":0\r\n");
}

#[test]
fn cluster_is_reached_by_tls() {
    let server = Encrypted::start(&["--cluster-enabled", "yes", "--tls-cluster", "yes"]);
    server
        .redis
        .answers("CLUSTER ADDSLOTSRANGE 0 16383\r\n", "+OK\r\n");
    wait_until("the slots are served", || {
        server.redis.says("CLUSTER INFO", "cluster_state:ok")
    });
    let dir = Dir::new();
    let url = format!("clusters://127.0.0.1:{}", server.port);
    let ca = server.certificate();
    let trust = [
        "--tls-ca",
        ca.to_str().unwrap(),
        "--quiet",
        "--json",
        "out.json",
    ];
    for words in [
        &[
            "run",
            &url,
            "--workload",
            "set",
            "--ops",
            "1k",
            "--latency",
            "1ms",
        ][..],
        &[
            "modes",
            &url,
            "--instructions",
            "off",
            "--op",
            "get",
            "--ops",
            "100",
            "--latency",
            "0,1ms",
            "--sizes",
            "10",
        ],
    ] {
        dir.run(&[words, &trust].concat()).succeeded();
        let record = record(&dir);
        assert_eq!((record.errors(), record.links.len()), (0, 1));
        assert!(record.cases.iter().all(|case| case.ops > 0));
        server.redis.answers("DBSIZE\r\n", ":0\r\n");
    }
    server
        .redis
        .answers("SET loadline:abcde7t4:x 1\r\n", "+OK\r\n");
    dir.run(&["clean", &url, "--tls-ca", ca.to_str().unwrap()])
        .succeeded();
    server.redis.answers("DBSIZE\r\n", ":0\r\n");
}

/// A server without TLS waits in silence for the end of what it takes for a command.
#[test]
fn tls_on_one_side_only_is_found_out_soon() {
    let server = Encrypted::start(&[]);
    let (plain, encrypted) = (server.redis.port(), server.port);
    for (url, hint) in [
        (format!("rediss://127.0.0.1:{plain}"), "answers without TLS"),
        (format!("redis://127.0.0.1:{encrypted}"), "expects TLS"),
    ] {
        // A busy machine may take its time once.
        let took = (0..3).map(|_| {
            let begun = Instant::now();
            let words = ["run", &url, "--workload", "get", "--quiet"];
            Dir::new().run(&words).failed(69, hint);
            begun.elapsed()
        });
        let quickest = took.min().unwrap();
        // Less than a connection waits for an answer.
        assert!(quickest < Duration::from_secs(4), "{url}: {quickest:?}");
    }
}

/// The coordinator and the target ask for a password, and have certificates of their own.
#[test]
fn agents_meet_by_tls_with_passwords() {
    let [target, coordinator] =
        ["hunter2", "hunter3"].map(|password| Encrypted::start(&["--requirepass", password]));
    let dir = Dir::new();
    let certificates = [&target, &coordinator].map(|server| {
        let path = server.certificate();
        std::fs::read_to_string(path).unwrap()
    });
    dir.write("ca.pem", &certificates.concat());
    dir.write("secret.txt", "a secret of many letters");
    let [url, meeting] =
        [&target, &coordinator].map(|server| format!("rediss://127.0.0.1:{}", server.port));
    let start = |words: &[&str]| {
        let common = [
            "--coordinator",
            &meeting,
            "--run",
            "sealed",
            "--tls-ca",
            "ca.pem",
        ];
        let secret = ["--secret-file", "secret.txt"];
        let mut command = dir.command(&[words, &common, &secret].concat());
        command.env("LOADLINE_REDIS_PASSWORD", "hunter2");
        command.env("LOADLINE_COORDINATOR_PASSWORD", "hunter3");
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let own = [
        "run", &url, "--agents", "2", "--rank", "0", "--lease", "30s",
    ];
    let load = [
        "--workload",
        "get",
        "--keys",
        "100",
        "--ops",
        "500",
        "--json",
        "out.json",
    ];
    let agents = [
        start(&[own, load].concat()),
        start(&["agent", "--rank", "1"]),
    ];
    for mut agent in agents {
        assert!(agent.wait().unwrap().success());
    }
    let record = record(&dir);
    assert_eq!((record.agents.len(), record.cases[0].ops), (2, 1_000));
    assert!(!dir.read("out.json").contains("hunter"));
}

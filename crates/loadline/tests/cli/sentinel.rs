//! The master that sentinels name as a target: running already, or started for a run.

use loadline_measure::Record;

use crate::failover::driven;
use crate::port::Port;
use crate::redis::Redis;
use crate::util::{Dir, wait_until};

/// A master and a sentinel that knows it as `m`.
struct Watched {
    _master: Redis,
    sentinel: std::process::Child,
    port: Port,
    _dir: Dir,
}

impl Watched {
    fn start() -> Self {
        let master = Redis::start(&["--requirepass", "hunter2"]);
        let (dir, port) = (Dir::new(), Port::reserve());
        let config = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor m 127.0.0.1 {} 1\nsentinel auth-pass m hunter2\n",
            master.port()
        );
        dir.write("sentinel.conf", &config);
        let sentinel = std::process::Command::new("redis-server")
            .args(["sentinel.conf", "--sentinel"])
            .current_dir(dir.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        wait_until("the sentinel answers", || {
            std::net::TcpStream::connect(("127.0.0.1", port.number())).is_ok()
        });
        Self {
            _master: master,
            sentinel,
            port,
            _dir: dir,
        }
    }

    fn target(&self, name: &str) -> String {
        format!("sentinel://:hunter2@127.0.0.1:{}/{name}", self.port)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.sentinel.kill();
        let _ = self.sentinel.wait();
    }
}

#[test]
fn master_that_sentinels_name_is_measured_and_left_as_it_was() {
    let watched = Watched::start();
    let dir = Dir::new();
    let target = watched.target("m");
    let short = "--workload set --ops 500 --rounds 2 --connections 2 --json out.json --color never";
    let line = format!("run {target} {short}");
    let text = dir.run(&line.split(' ').collect::<Vec<_>>()).succeeded();
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    assert_eq!(record.errors(), 0, "{text}");
    let subject = &record.cases[0].subject;
    let shown = target.replace("hunter2", "***");
    assert_eq!(
        (subject.target.as_str(), subject.kind.as_str()),
        (shown.as_str(), "server")
    );
    assert!(!dir.read("out.json").contains("hunter2"));
    assert!(record.cases[0].ops >= 500, "{text}");
    assert!(subject.version.is_some(), "the master was asked for it");
    dir.run(&["clean", &target]).succeeded();
    let capacity = "--slo p99<1s --workload ping --color never";
    let line = format!("capacity {target} {capacity} --dry-run");
    dir.run(&line.split(' ').collect::<Vec<_>>()).succeeded();
    let unknown = watched.target("nobody");
    let failed = dir.run(&["run", &unknown]);
    failed.failed(69, "no sentinel knows a master named `nobody`");
    dir.run(&["clients", &target])
        .failed(64, "drivers call a server or a cluster by its address");
    dir.run(&["run", "sentinel://127.0.0.1:1"])
        .failed(64, "the name of the master is missing");
}

#[test]
fn outage_of_the_master_that_sentinels_name_is_observed_and_drivers_find_it() {
    let watched = Watched::start();
    let dir = Dir::new();
    let target = watched.target("m");
    let short = "--watch --duration 300ms --rate 200 --json out.json";
    let line = format!("failover {target} {short}");
    let text = dir.run(&line.split(' ').collect::<Vec<_>>()).succeeded();
    assert!(
        text.contains("none of 60 acknowledged writes was"),
        "{text}"
    );
    assert!(!dir.read("out.json").contains("hunter2"));
    // The keys are removed, so that it counts as empty again.
    let line = format!("failover {target} {short} --operations publish");
    dir.run(&line.split(' ').collect::<Vec<_>>()).succeeded();
    let server = format!(
        r#""host":"127.0.0.1","port":1,"password":"hunter2","sentinel":{{"master":"m","addresses":[{{"host":"127.0.0.1","port":{}}}]}}"#,
        watched.port
    );
    let lines = driven(&dir, &server);
    assert_eq!(lines.matches("acknowledged").count(), 3, "{lines}");
}

#[test]
fn started_master_has_two_replicas_under_three_sentinels() {
    let dir = Dir::new();
    let line = "run spawn-sentinel:redis-server --workload set --ops 500 --rounds 2 --connections 2 --json out.json \
                --color never";
    dir.run(&line.split_ascii_whitespace().collect::<Vec<_>>())
        .succeeded();
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    assert_eq!(record.errors(), 0);
    let subject = &record.cases[0].subject;
    assert_eq!(subject.target, "spawn-sentinel:redis-server");
    assert_eq!(subject.kind.as_str(), "spawned server");
}

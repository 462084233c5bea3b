//! Agents in network namespaces of their own, as on machines with addresses of their own.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use loadline_measure::histogram::Histogram;
use loadline_measure::record::Record;

use crate::redis::Redis;
use crate::util::{Dir, Ended, is_long, is_running, signal, wait_until};

const AGENTS: usize = 8;
const SECRET: &str = "a secret of many letters\n";
/// The address of the servers, in the namespace of the bridge.
const SERVERS: &str = "10.77.0.254";

/// A bridge with servers, and agents behind it, each in a namespace of its own.
struct Network {
    /// A process in each namespace keeps it: that of the bridge first.
    holders: Vec<Child>,
    /// The name of the common run.
    run: String,
    dir: Dir,
    target: Redis,
    coordinator: Redis,
}

/// Returns false, with a prominent message, if this process must not make namespaces.
fn possible(test: &str) -> bool {
    let output = Command::new("unshare").args(["--net", "true"]).output();
    let output = output.expect("util-linux has unshare");
    if output.status.success() {
        return true;
    }
    let why = String::from_utf8_lossy(&output.stderr);
    let said = format!("\n*** NOT TESTED: {test}: {}\n", why.trim());
    // Written directly, so that the test harness does not capture it.
    std::io::stderr().write_all(said.as_bytes()).unwrap();
    false
}

/// A command in the network namespace of `holder`.
fn inside(holder: u32, command: &Command) -> Command {
    let mut entered = Command::new("nsenter");
    entered.args(["--net", "--target", &holder.to_string(), "--"]);
    entered.arg(command.get_program()).args(command.get_args());
    if let Some(dir) = command.get_current_dir() {
        entered.current_dir(dir);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => entered.env(name, value),
            None => entered.env_remove(name),
        };
    }
    entered.stdin(Stdio::null());
    entered
}

fn shell(holder: u32, script: &str) {
    let output = inside(holder, Command::new("sh").args(["-ec", script])).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{said}");
}

impl Network {
    fn new() -> Self {
        let hold = |_| {
            let mut command = Command::new("unshare");
            // Until the test ends.
            command.args(["--net", "cat"]).stdin(Stdio::piped());
            command.spawn().unwrap()
        };
        let holders: Vec<Child> = (0..=AGENTS).map(hold).collect();
        let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
        for holder in &holders {
            wait_until("a namespace is there", || {
                namespace(&holder.id().to_string()) != namespace("self")
            });
        }
        let bridge = holders[0].id();
        shell(
            bridge,
            &format!(
                "ip link set lo up; ip link add sw type bridge; ip address add {SERVERS}/24 dev sw; ip link set sw up"
            ),
        );
        for (holder, rank) in holders[1..].iter().zip(0..) {
            let pid = holder.id();
            shell(
                bridge,
                &format!(
                    "ip link add port{rank} type veth peer name eth0 netns {pid}; ip link set port{rank} master sw up"
                ),
            );
            shell(
                pid,
                &format!(
                    "ip link set lo up; ip address add 10.77.0.{}/24 dev eth0; ip link set eth0 up",
                    rank + 1
                ),
            );
        }
        let redis = || {
            let settings = ["--bind", SERVERS, "--protected-mode", "no"];
            Redis::start_as(|server| inside(bridge, &server), &settings)
        };
        let dir = Dir::new();
        dir.write("secret.txt", SECRET);
        Self {
            target: redis(),
            coordinator: redis(),
            holders,
            run: "net".to_owned(),
            dir,
        }
    }

    /// Starts the agent `rank` with `words`.
    fn start(&self, rank: usize, words: &[&str]) -> Child {
        let coordinator = format!("redis://{SERVERS}:{}", self.coordinator.port());
        let number = rank.to_string();
        let own = [
            "--coordinator",
            &coordinator,
            "--run",
            &self.run,
            "--secret-file",
            "secret.txt",
            "--rank",
            &number,
        ];
        let command = self.dir.command(&[words, &own].concat());
        let mut command = inside(self.holders[rank + 1].id(), &command);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Starts all agents, which run with `words` on top of a small load.
    fn start_all(&self, words: &[&str]) -> Vec<Child> {
        let target = format!("redis://{SERVERS}:{}", self.target.port());
        let own = ["run", &target, "--agents", "8", "--json", "all.json"];
        let load = [
            "--workload",
            "get",
            "--keys",
            "200",
            "--connections",
            "2",
            "--threads",
            "1",
            "--warmup",
            "0s",
        ];
        let leader = self.start(0, &[&own[..], &load, words].concat());
        let others = (1..AGENTS).map(|rank| {
            let file = format!("own-{rank}.json");
            self.start(rank, &["agent", "--json", &file])
        });
        std::iter::once(leader).chain(others).collect()
    }

    fn record(&self, name: &str) -> Record {
        Record::from_json(self.dir.read(name).as_bytes()).unwrap()
    }

    /// Waits until all agents measure.
    fn measures(&self, agents: &mut [Child]) {
        let before = self.target.calls("get");
        wait_until("all measure", || {
            let ended = agents.iter().position(|agent| !is_running(agent.id()));
            assert_eq!(ended, None, "an agent has ended early");
            self.target.calls("get") > before + 500
        });
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for holder in &mut self.holders {
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

fn ends(agents: Vec<Child>) -> Vec<Ended> {
    let ends = agents
        .into_iter()
        .map(|agent| Ended::of(&["an agent"], agent.wait_with_output().unwrap()));
    ends.collect()
}

/// The ends of agents, all of which say that the run is incomplete.
fn incomplete(agents: Vec<Child>) -> Vec<Ended> {
    let ended = ends(agents);
    for (place, end) in ended.iter().enumerate() {
        let Ended { stdout, stderr, .. } = end;
        assert_eq!(end.code, Some(4), "{place}: {stdout}{stderr}");
    }
    ended
}

/// The response times of the first case.
fn times(record: &Record) -> Histogram {
    let times = record.cases[0].response_histogram().unwrap();
    times.expect("it has its histogram")
}

/// Prints how far the starts of the processes are apart, by the one clock that all of them read. The record of rank 0
/// itself is only a part of the common one. With `LOADLINE_LONG=1`, there are 100 starts.
#[test]
fn eight_agents_in_namespaces_start_together() {
    if !possible("eight agents in network namespaces") {
        return;
    }
    let network = Network::new();
    let (rounds, duration) = if is_long() {
        ("50", "5s")
    } else {
        ("3", "300ms")
    };
    // Uniform arrivals of several agents start apart. Two targets start together in each round.
    let target = format!("redis://{SERVERS}:{}", network.target.port());
    let words = ["--rate", "800", "--arrivals", "poisson", "--lease", "30s"];
    let more = [&target, "--rounds", rounds, "--duration", duration];
    let agents = network.start_all(&[&words[..], &more].concat());
    for ended in ends(agents) {
        ended.succeeded();
    }
    let record = network.record("all.json");
    assert_eq!(record.agents.len(), AGENTS);
    let own: Vec<Record> = (1..AGENTS)
        .map(|rank| network.record(&format!("own-{rank}.json")))
        .collect();
    let mut spreads = Histogram::new();
    for case in 0..record.cases.len() {
        for round in 0..record.cases[case].rounds.len() {
            let start = |own: &Record| own.cases[case].rounds[round].start_unix_ns.unwrap();
            let starts: Vec<u64> = own.iter().map(start).collect();
            let spread = starts.iter().max().unwrap() - starts.iter().min().unwrap();
            // A machine with fewer CPUs than agents wakes them one after the other.
            assert!(spread < 100_000_000, "{starts:?}");
            spreads.record(spread);
        }
    }
    let us = |quantile| spreads.value_at(quantile).expect("there are starts") / 1_000;
    println!(
        "{} starts: half within {} us, 99 % within {} us, all within {} us",
        spreads.count(),
        us(0.5),
        us(0.99),
        us(1.0)
    );
}

/// With `LOADLINE_LONG=1`, 100 agents are killed, each in a run of its own. A machine that stands still for the length of a
/// lease can lose other agents as well, or the coordinator.
#[test]
fn killed_agent_in_a_namespace_makes_the_run_incomplete() {
    if !possible("a killed agent in a network namespace") {
        return;
    }
    let mut network = Network::new();
    let (kills, lease) = match is_long() {
        true => (100, "2200ms"),
        false => (1, "4s"),
    };
    let mut named = 0;
    for kill in 0..kills {
        let rank = 1 + kill % (AGENTS - 1);
        network.run = format!("net-{kill}");
        let words = ["--rate", "800", "--duration", "60s", "--lease", lease];
        // The keys of the agents that were killed before.
        let keys = ["--allow-non-empty"];
        let mut agents = network.start_all(&[&words[..], &keys].concat());
        network.measures(&mut agents);
        let mut killed = agents.remove(rank);
        signal(killed.id(), "KILL");
        killed.wait().unwrap();
        let ended = incomplete(agents).swap_remove(0);
        let said: Vec<&str> = ended.stdout.split_whitespace().collect();
        let said = said.join(" ");
        if said.contains(&format!("INCOMPLETE: agent {rank} sent nothing")) {
            named += 1;
            let record = network.record("all.json");
            assert!(record.run.cut_short && record.findings.is_empty());
            assert_eq!(record.lost_agents[0].rank, rank as u64);
        } else {
            assert!(is_long(), "{said}{}", ended.stderr);
            println!("kill {kill}: {said}\n{}", ended.stderr);
            assert!(said.is_empty() || said.contains("INCOMPLETE: "));
        }
    }
    println!("{kills} of {kills} runs are incomplete, and {named} name the killed agent first");
}

#[test]
fn histograms_of_eight_processes_are_merged_bit_for_bit() {
    if !possible("the records of eight agents in network namespaces") {
        return;
    }
    let network = Network::new();
    let mut agents = network.start_all(&["--rate", "800", "--duration", "60s", "--lease", "4s"]);
    network.measures(&mut agents);
    signal(network.coordinator.pid(), "KILL");
    incomplete(agents);
    let mut files = vec!["loadline-net-0.json".to_owned()];
    files.extend((1..AGENTS).map(|rank| format!("own-{rank}.json")));
    let mut all = Histogram::new();
    for file in &files {
        all.merge(&times(&network.record(file)));
    }
    let files = files.iter().map(String::as_str);
    let words: Vec<&str> = ["merge"]
        .into_iter()
        .chain(files)
        .chain(["--json", "merged.json"])
        .collect();
    assert_eq!(network.dir.run(&words).code, Some(4));
    let merged = network.record("merged.json");
    assert_eq!(merged.agents.len(), AGENTS);
    assert_eq!(merged.cases[0].ops, all.count());
    assert_eq!(
        merged.cases[0].histograms.response_time,
        all.encode(),
        "bit for bit"
    );
}

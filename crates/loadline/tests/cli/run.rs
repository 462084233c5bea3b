//! `loadline run` against real servers: what is measured, what is refused, and what is left behind.

use std::net::{TcpListener, TcpStream};

use loadline_measure::Record;
use loadline_measure::record::{Mode, Rule};

use crate::redis::Redis;
use crate::util::{Dir, Ended, PATIENCE, converse, is_running, signal, wait_until};

/// Common arguments of all runs of these tests: they are short.
const SHORT: [&str; 6] = ["--warmup", "10ms", "--keys", "500", "--connections", "4"];

/// Runs with the record on standard output, and gives the end and the record.
fn measured(dir: &Dir, words: &[&str]) -> (Ended, Record) {
    let words = [&["run", "--quiet", "--json", "-"], words, &SHORT].concat();
    let ended = dir.run(&words);
    let record = Record::from_json(ended.stdout.as_bytes())
        .unwrap_or_else(|error| panic!("{error}\n{}", ended.stderr));
    (ended, record)
}

/// No reply arrives before the delay of the link, and the record describes the link.
#[test]
fn latency_is_added_in_the_path() {
    let dir = Dir::new();
    let words = [
        "embedded",
        "--workload",
        "get",
        "--latency",
        "3ms",
        "--duration",
        "300ms",
    ];
    let (ended, record) = measured(&dir, &words);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let [link] = &record.links[..] else {
        panic!("{} links", record.links.len())
    };
    assert_eq!(link.latency_ns, 3_000_000);
    assert!(link.through_p50_ns >= 3_000_000);
    let case = &record.cases[0];
    assert_eq!(case.scenario.latency_ns, 3_000_000);
    assert!(
        case.response_time_ns.min >= Some(3_000_000),
        "{:?}",
        case.response_time_ns
    );
}

/// Ten rounds of 100 ms, each at a rate that nothing carries.
#[test]
fn overloaded_open_loop_ends_in_time_and_says_what_was_not_sent() {
    let dir = Dir::new();
    let rate = "embedded --workload get --rate 10M --duration 1s --rounds 10";
    let words: Vec<&str> = rate.split(' ').collect();
    let (ended, record) = measured(&dir, &words);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let case = &record.cases[0];
    assert_eq!(case.planned, Some(10_000_000));
    assert_eq!(case.ops + case.not_sent.unwrap(), 10_000_000);
    // Half of the length may follow it, in which no machine sends half of this; a loop without an end would send all.
    let not_sent = case.not_sent.unwrap();
    assert!(not_sent > 5_000_000, "{not_sent} operations");
    let mut rules = record.doctor.iter().map(|found| &found.rule);
    let is_found = rules.any(|rule| *rule == Rule::Overloaded);
    assert!(is_found, "{:?}", record.doctor);
}

#[test]
fn other_work_of_the_server_is_found() {
    let redis = Redis::start(&["--appendonly", "yes"]);
    let dir = Dir::new();
    // Somebody else, who asks for something all the time.
    let mut other = TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
    other.set_read_timeout(Some(PATIENCE)).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let rules = std::thread::scope(|scope| {
        scope.spawn(|| {
            let until = std::time::Instant::now() + PATIENCE;
            while !done.load(std::sync::atomic::Ordering::Relaxed)
                && std::time::Instant::now() < until
            {
                converse(&mut other, "PING\r\n", "+PONG\r\n");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let (ended, record) = measured(&dir, &[&redis.url(), "--workload", "set", "--ops", "5k"]);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        record
            .doctor
            .into_iter()
            .map(|finding| (finding.rule.to_string(), finding.evidence))
            .collect::<Vec<_>>()
    });
    let evidence = |rule: &str| {
        rules
            .iter()
            .find(|(name, _)| name == rule)
            .map(|(_, said)| said.as_str())
    };
    assert!(
        evidence("LL009").is_some_and(|said| said.contains("appendonly yes")),
        "{rules:?}"
    );
    assert!(
        evidence("LL010").is_some_and(|said| said.starts_with("1 other client")),
        "{rules:?}"
    );

    // And a server of our own does nothing else.
    let (_, record) = measured(&dir, &["embedded", "--workload", "set", "--ops", "5k"]);
    let rules: Vec<_> = record
        .doctor
        .iter()
        .map(|finding| finding.rule.as_str())
        .collect();
    assert!(
        !rules.contains(&"LL009") && !rules.contains(&"LL010"),
        "{rules:?}"
    );
}

#[test]
fn store_in_process_is_measured_beside_a_server() {
    let dir = Dir::new();
    let words = [
        "ram",
        "embedded",
        "--workload",
        "getset-70-30",
        "--ops",
        "20k",
        "--verify",
    ];
    let (ended, record) = measured(&dir, &words);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let [ram, embedded] = &record.cases[..] else {
        panic!("{} cases", record.cases.len())
    };
    assert_eq!((ram.ops, ram.error_count()), (20_000, 0));
    assert_eq!(ram.scenario.mode, Mode::Call);
    assert_eq!(ram.hit_ratio, Some(1.0));
    // The medians, since a pause of the machine is long beside all operations in process.
    let [in_process, served] = [ram, embedded].map(|case| case.response_time_ns.p50.unwrap());
    assert!(in_process < served, "{in_process} ns and {served} ns");
    let unlike = record
        .doctor
        .iter()
        .find(|finding| finding.rule == Rule::ArmsDiffer);
    assert_eq!(unlike, None);

    dir.run(&["run", "ram", "--workload", "lpush"])
        .failed(69, "ram does not have LPUSH");
}

#[test]
fn started_server_is_measured() {
    let dir = Dir::new();
    let (ended, record) = measured(
        &dir,
        &[
            "spawn:redis-server",
            "--workload",
            "getset-70-30",
            "--ops",
            "20k",
            "--rounds",
            "4",
        ],
    );
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let case = &record.cases[0];
    assert_eq!(
        (case.ops, case.error_count(), case.rounds.len()),
        (20_000, 0, 4)
    );
    assert_eq!(case.hit_ratio, Some(1.0));
    assert_eq!(record.run.plan["cases"][0]["workload"], "getset-70-30");
}

#[test]
fn several_targets_are_compared() {
    let dir = Dir::new();
    let words = [
        "spawn:redis-server",
        "spawn:redis-server",
        "--workload",
        "get",
        "--ops",
        "8k",
        "--rounds",
        "8",
    ];
    let (ended, record) = measured(&dir, &words);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(record.cases.len(), 2);
    assert!(
        record
            .comparisons
            .iter()
            .all(|comparison| (comparison.a, comparison.b) == (0, 1))
    );
    assert!(!record.comparisons.is_empty());
}

#[test]
fn somebodys_keys_are_neither_touched_nor_ignored() {
    let (redis, dir) = (Redis::start(&[]), Dir::new());
    redis.answers("SET theirs 1\r\n", "+OK\r\n");
    let url = redis.url();
    dir.run(&["run", &url, "--ops", "100"])
        .failed(64, "--allow-non-empty");
    redis.answers("DBSIZE\r\n", ":1\r\n");
    let (ended, record) = measured(
        &dir,
        &[
            &url,
            "--allow-non-empty",
            "--workload",
            "set",
            "--workload",
            "hset",
            "--ops",
            "2k",
        ],
    );
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(record.cases.len(), 2);
    redis.answers("DBSIZE\r\n", ":1\r\n");
    redis.answers("GET theirs\r\n", "$1\r\n1\r\n");
}

#[test]
fn values_are_verified_over_a_socket_and_resp3() {
    let (redis, dir) = (Redis::start(&[]), Dir::new());
    let words = [
        "--verify",
        "--resp",
        "3",
        "--workload",
        "getset-70-30",
        "--value-size",
        "1B..300B",
        "--ops",
        "5k",
        "--pipeline",
        "7",
    ];
    let (ended, record) = measured(&dir, &[&[redis.socket().as_str()], &words[..]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(
        (record.cases[0].ops, record.cases[0].error_count()),
        (5_000, 0)
    );
    redis.answers("DBSIZE\r\n", ":0\r\n");
}

#[test]
fn password_opens_the_server_and_stays_out_of_the_record() {
    const PASSWORD: &str = "hunter2-tell-nobody";
    let (redis, dir) = (Redis::start(&["--requirepass", PASSWORD]), Dir::new());
    let url = |password: &str| format!("redis://:{password}@127.0.0.1:{}", redis.port());
    let wrong = dir.run(&["run", &url("hunter3-tell-nobody"), "--ops", "100"]);
    wrong.failed(69, "WRONGPASS");
    assert!(!wrong.stderr.contains("tell-nobody"), "{}", wrong.stderr);
    dir.run(&["run", &redis.url(), "--ops", "100"])
        .failed(69, "NOAUTH");
    let (ended, _) = measured(&dir, &[&url(PASSWORD), "--workload", "get", "--ops", "1k"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.stdout.contains(PASSWORD) && !ended.stderr.contains(PASSWORD));
    assert!(ended.stdout.contains("redis://:***@127.0.0.1"));
}

#[test]
fn error_replies_are_no_success() {
    let dir = Dir::new();
    let words = [
        "spawn:redis-server",
        "--command",
        "SET {key} {value}",
        "--command",
        "LPUSH {key} {value}",
        "--ops",
        "1k",
    ];
    let (ended, record) = measured(&dir, &words);
    assert!(
        ended.code != Some(0) && ended.stderr.contains("WRONGTYPE"),
        "{:?} {}",
        ended.code,
        ended.stderr
    );
    assert!(record.cases[0].errors["WRONGTYPE"] > 0);
}

#[test]
fn server_that_lacks_a_command_is_named_with_it() {
    let (redis, dir) = (Redis::start(&["--rename-command", "XADD", ""]), Dir::new());
    dir.run(&["run", &redis.url(), "--workload", "xadd"])
        .failed(69, "does not have XADD");
}

#[test]
fn silent_target_ends_with_exit_code_69() {
    let dir = Dir::new();
    // Bound and never listened on by Redis: connections are refused.
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    dir.run(&["run", &format!("redis://{free}")])
        .failed(69, "refused");
    dir.run(&["run", "unix:///no/such.sock"])
        .failed(69, "/no/such.sock");
    dir.run(&["run", "spawn:no-such-server"])
        .failed(69, "program not found");
    dir.run(&["run", "spawn:/bin/false"])
        .failed(69, "ended before it answered");
}

/// HUP is what a closed terminal sends.
#[test]
fn interrupt_keeps_what_was_measured_and_removes_the_keys() {
    for name in ["INT", "TERM", "HUP"] {
        let (redis, dir) = (Redis::start(&[]), Dir::new());
        let url = redis.url();
        let words = [
            &[
                "run",
                &url,
                "--quiet",
                "--workload",
                "get",
                "--duration",
                "1h",
                "--json",
                "out.json",
            ][..],
            &SHORT,
        ]
        .concat();
        let mut run = dir.command(&words).spawn().unwrap();
        wait_until("the load begins", || redis.calls("get") > 10_000);
        signal(run.id(), name);
        let mut status = None;
        wait_until("the run ends", || {
            status = run.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().code(), Some(130), "{name}");
        let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
        assert!(record.run.cut_short && record.cases[0].ops > 0, "{name}");
        redis.answers("DBSIZE\r\n", ":0\r\n");
    }
}

/// No destructor runs after SIGKILL: the kernel has to end the child, and its directory must be gone
/// before.
#[test]
fn killed_run_leaves_nothing_behind() {
    let dir = Dir::new();
    let words = [
        &[
            "run",
            "spawn:redis-server",
            "--quiet",
            "--workload",
            "get",
            "--duration",
            "1h",
        ][..],
        &SHORT,
    ]
    .concat();
    let mut run = dir
        .command(&words)
        .env("TMPDIR", dir.path())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", run.id());
    let mut server = None;
    wait_until("the server runs", || {
        let pid = std::fs::read_to_string(&children)
            .ok()
            .and_then(|text| text.split_whitespace().next()?.parse().ok());
        let is_redis = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name.contains("redis-server"))
        };
        server = pid.filter(is_redis);
        server.is_some()
    });
    let stands_in = format!("/proc/{}/cwd", server.unwrap());
    wait_until("the server's directory is gone", || {
        std::fs::read_link(&stands_in).is_ok_and(|dir| dir.to_string_lossy().ends_with("(deleted)"))
    });
    assert!(dir.is_empty());
    signal(run.id(), "KILL");
    run.wait().unwrap();
    wait_until("the server ends", || !is_running(server.unwrap()));
    assert!(dir.is_empty());
}

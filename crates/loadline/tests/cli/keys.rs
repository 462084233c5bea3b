//! Keys on an existing server: what runs leave, what is removed, and the messages about it.

use loadline_measure::Record;

use crate::redis::Redis;
use crate::util::Dir;

/// Names that runs can have.
const RUNS: [&str; 2] = ["3k9fz0cd", "abcde7t4"];

/// A server with keys of two runs, and similar keys of another user.
fn used() -> Redis {
    let redis = Redis::start(&[]);
    for number in 0..1_500 {
        redis.answers(
            &format!("SET loadline:{}:string:{number} x\r\n", RUNS[0]),
            "+OK\r\n",
        );
    }
    redis.answers(
        &format!("SET loadline:{}:string:1 x\r\n", RUNS[1]),
        "+OK\r\n",
    );
    for theirs in [
        "loadline:config",
        "loadline:a:b",
        "loadline:ABCDE7T4:x",
        "loadline:database:x",
        "shop:1",
    ] {
        redis.answers(&format!("SET {theirs} x\r\n"), "+OK\r\n");
    }
    redis
}

#[test]
fn clean_removes_the_keys_of_runs_and_nothing_else() {
    let (redis, dir) = (used(), Dir::new());
    let text = dir.run(&["clean", &redis.url()]).succeeded();
    assert!(text.contains("3k9fz0cd: 1,500 keys removed\n"), "{text}");
    assert!(text.contains("abcde7t4: 1 key removed\n"), "{text}");
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("loadline: clean: 1,501 keys of 2 runs removed"),
        "{text}"
    );
    redis.answers("DBSIZE\r\n", ":5\r\n");
    let text = dir.run(&["clean", &redis.url()]).succeeded();
    assert!(text.contains("0 keys of 0 runs"), "{text}");
}

#[test]
fn clean_removes_the_keys_of_one_run() {
    let (redis, dir) = (used(), Dir::new());
    dir.run(&["clean", &redis.url(), "--run", RUNS[1]])
        .succeeded();
    redis.answers("DBSIZE\r\n", ":1505\r\n");
    dir.run(&["clean", &redis.url(), "--run", "shop"])
        .failed(64, "invalid run id");
    dir.run(&["clean", "embedded"])
        .failed(64, "nothing to remove");
}

#[test]
fn keys_of_earlier_runs_are_named_with_the_command_that_removes_them() {
    let (redis, dir) = (used(), Dir::new());
    let url = redis.url();
    let ended = dir.run(&["run", &url, "--workload", "get", "--quiet"]);
    ended.failed(
        64,
        "1,501 of them are left from earlier runs of Loadline (3k9fz0cd, abcde7t4)",
    );
    ended.failed(64, &format!("Remove those with: loadline clean {url}"));
    // The command does what it says.
    dir.run(&["clean", &url]).succeeded();
    let ended = dir.run(&["run", &url, "--workload", "get", "--quiet"]);
    ended.failed(64, "already holds 5 keys");
    assert!(!ended.stderr.contains("earlier runs"), "{}", ended.stderr);
}

/// A user without UNLINK left 100,000 keys behind.
#[test]
fn user_who_may_not_remove_keys_writes_none() {
    for lacks in ["-unlink -del", "-scan"] {
        let redis = Redis::start(&[]);
        redis.answers(
            &format!("ACL SETUSER ann on >secret ~* +@all {lacks}\r\n"),
            "+OK\r\n",
        );
        let url = format!("redis://ann:secret@127.0.0.1:{}", redis.port());
        let ended = Dir::new().run(&["run", &url, "--workload", "set", "--quiet", "--ops", "1k"]);
        ended.failed(69, "could not be removed afterwards");
        ended.failed(69, "ACL SETUSER");
        redis.answers("DBSIZE\r\n", ":0\r\n");
    }
}

/// 100,000 keys were loaded before the first GET was refused.
#[test]
fn user_who_may_not_run_the_workload_loads_no_keys() {
    for (lacks, command) in [("-get", "GET"), ("-set", "SET"), ("-get -multi", "GET")] {
        let redis = Redis::start(&[]);
        redis.answers(
            &format!("ACL SETUSER ann on >secret ~loadline:* +@all {lacks}\r\n"),
            "+OK\r\n",
        );
        let url = format!("redis://ann:secret@127.0.0.1:{}", redis.port());
        let ended = Dir::new().run(&["run", &url, "--workload", "get", "--quiet", "--ops", "1k"]);
        ended.failed(
            69,
            &format!("{command}, which workload get needs, was answered `NOPERM"),
        );
        redis.answers("DBSIZE\r\n", ":0\r\n");
        // Without MULTI a key is written to try it, and removed.
        assert!(redis.calls("set") <= 1, "{lacks}");
    }
}

#[test]
fn case_of_a_suite_that_the_user_may_not_run_is_left_out() {
    let redis = Redis::start(&[]);
    redis.answers(
        "ACL SETUSER ann on >secret ~loadline:* &* +@all -sadd\r\n",
        "+OK\r\n",
    );
    let url = format!("redis://ann:secret@127.0.0.1:{}", redis.port());
    let words = ["run", &url, "--workload", "manager", "--quiet"];
    let brief = ["--ops", "200", "--rounds", "1", "--warmup", "0ms"];
    let dir = Dir::new();
    dir.run(&[&words[..], &brief, &["--json", "out.json"]].concat())
        .succeeded();
    let record = dir.read("out.json");
    let left_out = "has no right to run SADD: zone_sadd, zone_smembers left out.";
    assert!(record.contains(left_out), "{record}");
    redis.answers("DBSIZE\r\n", ":0\r\n");
}

/// The commands of a mode, which are not those of the operation, were refused in the middle of the sweep.
#[test]
fn mode_that_the_user_may_not_run_is_left_out_before_keys_are_loaded() {
    let redis = Redis::start(&[]);
    redis.answers(
        "ACL SETUSER ann on >secret ~loadline:* +@all -evalsha -mget -exec\r\n",
        "+OK\r\n",
    );
    let url = format!("redis://ann:secret@127.0.0.1:{}", redis.port());
    let sweep = |modes: &str| {
        let words = format!(
            "modes {url} --quiet --latency 0 --op get --mode {modes} --ops 10 --sizes 1,2 --budget 10ms --keys 10 \
             --instructions off --json out.json"
        );
        let dir = Dir::new();
        let ended = dir.run(&words.split(' ').collect::<Vec<_>>());
        (ended, dir)
    };
    let (ended, dir) = sweep("sync,batch,transaction,script");
    ended.succeeded();
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    let left_out = record.left_out.iter();
    let reasons: Vec<&str> = left_out.map(|left_out| left_out.reason.as_str()).collect();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    for (reason, command) in reasons.iter().zip(["MGET", "EXEC", "EVALSHA"]) {
        let said = format!("has no right to run {command}");
        assert!(reason.ends_with(&said), "{reason}");
    }
    assert_eq!(record.errors(), 0);
    let before = redis.calls("set");
    let (ended, _dir) = sweep("batch,script");
    ended.failed(69, "none of the modes is supported");
    assert_eq!(redis.calls("set"), before, "no key was loaded");
    redis.answers("DBSIZE\r\n", ":0\r\n");
}

/// A job sends commands that no workload names.
#[test]
fn job_that_the_user_may_not_run_is_left_out() {
    let redis = Redis::start(&[]);
    redis.answers(
        "ACL SETUSER ann on >secret ~loadline:* &* +@all -subscribe -client|list -xread\r\n",
        "+OK\r\n",
    );
    let url = format!("redis://ann:secret@127.0.0.1:{}", redis.port());
    let words = ["run", &url, "--workload", "manager", "--quiet"];
    let brief = ["--ops", "200", "--rounds", "1", "--warmup", "0ms"];
    let dir = Dir::new();
    dir.run(&[&words[..], &brief, &["--json", "out.json"]].concat())
        .succeeded();
    let record = dir.read("out.json");
    for name in ["SUBSCRIBE", "CLIENT", "XREAD"] {
        let said = format!("no right to run {name}");
        assert!(record.contains(&said), "{name}: {record}");
    }
    let left_out = "xread, pubsub, stream, connection_memory left out.";
    assert!(record.contains(left_out), "{record}");
    redis.answers("DBSIZE\r\n", ":0\r\n");
}

#[test]
fn user_without_unlink_removes_keys_by_del() {
    let redis = Redis::start(&[]);
    redis.answers(
        "ACL SETUSER ann on >secret ~loadline:* +@all -unlink -client -info -config\r\n",
        "+OK\r\n",
    );
    let url = format!("redis://ann:secret@127.0.0.1:{}", redis.port());
    let words = [
        "run",
        &url,
        "--workload",
        "set",
        "--quiet",
        "--ops",
        "1k",
        "--keys",
        "2k",
    ];
    Dir::new().run(&words).succeeded();
    assert!(redis.calls("del") > 0);
    redis.answers("DBSIZE\r\n", ":0\r\n");
}

/// Refusals of connections, and the hint to each.
#[test]
fn refused_connection_comes_with_the_hint_that_fits() {
    let redis = Redis::start(&["--requirepass", "secret"]);
    let (port, dir) = (redis.port(), Dir::new());
    for (url, hint) in [
        (
            format!("redis://127.0.0.1:{port}"),
            "Give a user and password",
        ),
        (
            format!("redis://:wrong@127.0.0.1:{port}"),
            "Check the user and the password",
        ),
        (
            format!("redis://ann:secret@127.0.0.1:{port}"),
            "Check the user and the password",
        ),
        (
            format!("redis://:secret@127.0.0.1:{port}/99"),
            "CONFIG GET databases",
        ),
    ] {
        for version in ["2", "3"] {
            dir.run(&["run", &url, "--resp", version, "--quiet"])
                .failed(69, hint);
        }
    }
    let redis = Redis::start(&[]);
    let url = format!("redis://:secret@127.0.0.1:{}", redis.port());
    dir.run(&["run", &url, "--quiet"])
        .failed(69, "has no password");
    redis.answers("CONFIG SET maxclients 8\r\n", "+OK\r\n");
    let words = [
        "run",
        &redis.url(),
        "--workload",
        "get",
        "--quiet",
        "--connections",
        "20",
    ];
    dir.run(&words)
        .failed(69, "raise its maxclients, or lower --connections");
    redis.answers("DBSIZE\r\n", ":0\r\n");
    redis.answers("ACL SETUSER default -ping\r\n", "+OK\r\n");
    dir.run(&["run", &redis.url(), "--quiet"])
        .failed(69, "ACL SETUSER");
}

use std::collections::{BTreeMap, BTreeSet};

use clap::Parser;

use super::*;
use crate::args::{Cli, ClientsArgs, Command};
use crate::exit::Exit;
use crate::spelling::Address;

fn around() -> Surroundings {
    Surroundings {
        cores: 8,
        bundles: &crate::suites::ALL,
        ..Surroundings::of_tests()
    }
}

fn typed(words: &[&str]) -> Result<RunArgs, clap::Error> {
    let cli = Cli::try_parse_from(["loadline", "run"].iter().chain(words))?;
    match cli.command {
        Command::Run(args) => Ok(*args),
        other => panic!("{other:?}"),
    }
}

fn plan(words: &[&str]) -> Plan {
    resolve(&typed(words).unwrap(), &around()).unwrap()
}

/// The message that refuses `words`, from the plan or from clap.
fn refusal(words: &[&str]) -> String {
    match typed(words) {
        Err(error) => error.to_string(),
        Ok(args) => {
            let failure = resolve(&args, &around()).expect_err(&words.join(" "));
            assert_eq!(failure.exit(), Exit::Usage, "{failure}");
            failure.to_string()
        }
    }
}

#[test]
fn default_plan_is_the_suite_on_both_servers() {
    let plan = plan(&[]);
    assert_eq!(
        plan.targets,
        [Target::Embedded, Target::Spawn("redis-server".into())]
    );
    let cases: Vec<_> = plan
        .cases
        .iter()
        .map(|case| (case.name.as_str(), case.pipeline))
        .collect();
    assert_eq!(
        cases,
        [
            ("get", 1),
            ("set", 1),
            ("getset-70-30", 1),
            ("get, pipeline 16", 16)
        ]
    );
    let first = &plan.cases[0];
    assert_eq!(
        (first.connections, first.threads, first.keys),
        (50, 4, 100_000)
    );
    assert_eq!(
        (&first.value_size, &first.pacing),
        (&ValueSize::Fixed(64), &Pacing::Closed)
    );
    assert_eq!(
        (plan.rounds, plan.protocol, plan.seed),
        (30, Protocol::Resp2, 7)
    );
    let lonely = Surroundings {
        has_redis_server: false,
        cores: 1,
        ..around()
    };
    let plan = resolve(&typed(&[]).unwrap(), &lonely).unwrap();
    assert_eq!(
        (plan.targets, plan.cases[0].threads),
        (vec![Target::Embedded], 1)
    );
}

#[test]
fn workloads_bring_their_own_defaults_and_flags_win() {
    let ycsb = &plan(&["embedded", "--workload", "ycsb-a"]).cases[0];
    assert_eq!(
        (&ycsb.value_size, &ycsb.key_dist),
        (&ValueSize::Fixed(100), &KeyDist::Zipf { exponent: 0.99 })
    );
    let told = &plan(&[
        "embedded",
        "--workload",
        "ycsb-d",
        "--key-dist",
        "uniform",
        "--value-size",
        "8B",
        "--keys",
        "7",
    ])
    .cases[0];
    assert_eq!(
        (&told.value_size, &told.key_dist, told.keys),
        (&ValueSize::Fixed(8), &KeyDist::Uniform, 7)
    );
    assert_eq!(
        plan(&["--workload", "mget", "--batch", "3"]).cases[0].batch,
        Some(3)
    );
    assert_eq!(plan(&["--in-flight", "800"]).cases[0].pipeline, 16);
    assert_eq!(plan(&["--pipeline", "4"]).cases.len(), 3);
}

#[test]
fn cases_that_share_data_share_their_keys() {
    let plan = plan(&[
        "--workload",
        "get",
        "--workload",
        "set",
        "--workload",
        "incr",
        "--workload",
        "hget",
    ]);
    let prefixes: Vec<String> = plan.cases.iter().map(|case| case.prefix("abc")).collect();
    assert_eq!(
        prefixes,
        [
            "loadline:abc:string:",
            "loadline:abc:string:",
            "loadline:abc:incr:",
            "loadline:abc:hash:"
        ]
    );
    let id = new_run_id();
    assert!(
        id.len() == 8
            && id
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()),
        "{id}"
    );
}

#[test]
fn url_comes_before_the_flags_and_the_environment() {
    let login = |words: &[&str], around: &Surroundings| {
        let plan = resolve(&typed(words).unwrap(), around).unwrap();
        let server = targets::server_of(&plan.targets[0]).unwrap().clone();
        assert!(matches!(server.address, Address::Tcp { .. }));
        (
            server.login.user,
            server
                .login
                .password
                .map(|password| password.reveal().to_owned()),
        )
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "from-file\n").unwrap();
    let path = file.path().to_str().unwrap();
    let env = Surroundings {
        password: Some(Secret::new("from-env".into())),
        ..around()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        login(
            &[
                "redis://ann:url@h",
                "--user",
                "bob",
                "--password-file",
                path
            ],
            &env
        ),
        (some("ann"), some("url"))
    );
    assert_eq!(
        login(
            &["redis://h", "--user", "bob", "--password-file", path],
            &env
        ),
        (some("bob"), some("from-file"))
    );
    assert_eq!(login(&["redis://h"], &env), (None, some("from-env")));
    assert_eq!(login(&["redis://h"], &around()), (None, None));
}

#[test]
fn impossible_plans_are_refused_with_a_reason() {
    for (words, reason) in [
        (
            &["--ops", "10", "--duration", "1s"][..],
            "cannot be used with",
        ),
        (&["--duration", "0s"], "above zero"),
        (&["--ops", "10", "--rounds", "11"], "too many for a run"),
        (
            &["--threads", "51"],
            "at most 50, the number of connections",
        ),
        (&["--pipeline", "0"], "at least 1"),
        (&["--pipeline", "200k"], "too many"),
        (&["--pipeline", "100k", "--connections", "1k"], "too many"),
        (&["--in-flight", "60"], "multiple of 50"),
        (
            &["--pipeline", "2", "--in-flight", "100"],
            "cannot be used with",
        ),
        (&["--connections", "1M"], "number of ports"),
        (
            &["--connections", "20k", "--threads", "10k"],
            "at most 1024",
        ),
        (&["--rate", "0"], "expected 1 to"),
        (&["--rate", "-5"], "unexpected argument"),
        (&["--arrivals", "poisson"], "--rate"),
        (&["--batch", "5"], "neither is among"),
        (
            &["--workload", "mget", "--batch", "1001"],
            "at most 1000 keys",
        ),
        (
            &["--workload", "nope"],
            "unknown workload `nope`: expected ping",
        ),
        (
            &["--workload", "get", "--command", "PING"],
            "cannot be used with",
        ),
        (&["--command", "FLUSHALL"], "not supported in a workload"),
        (&["--command", "GET foo"], "not a key of this run"),
        (&["--verify", "--workload", "set"], "none of the cases"),
        (&["--keys", "0"], "at least 1"),
        (
            &["--keys", "10", "--key-dist", "hotspot:10:0.5"],
            "smaller than",
        ),
        (&["--value-size", "1GiB"], "512MiB"),
        (&["--duration", "1000h"], "at most 168h"),
        (&["--warmup", "1000h"], "at most 168h"),
        (&["--ops", "2000G"], "at most 1000000000000"),
        (&["--latency", "1h"], "at most"),
        (&["ram", "--latency", "1ms"], "runs in this process"),
        (
            &["--latency", "x"],
            "--latency: invalid duration `x`: expected a number",
        ),
    ] {
        let sentence = refusal(words);
        assert!(sentence.contains(reason), "{words:?}: {sentence}");
    }
    assert_eq!(plan(&["--latency", "0"]).cases.len(), 4);
}

/// Values refused by the plan and by the parser have the same format of message.
#[test]
fn bad_value_is_refused_in_one_form() {
    for (words, start) in [
        (&["--ops", "0"][..], "--ops: invalid count `0`: "),
        (
            &["--ops", "2000G"],
            "--ops: invalid count `2000000000000`: ",
        ),
        (&["--duration", "0s"], "--duration: invalid duration `0s`: "),
        (
            &["--warmup", "1000h"],
            "--warmup: invalid duration `1000h`: ",
        ),
        (&["--rounds", "1M"], "--rounds: invalid count `1000000`: "),
        (
            &["--ops", "5", "--rounds", "6"],
            "--rounds: invalid count `6`: ",
        ),
        (
            &["--connections", "1M"],
            "--connections: invalid count `1000000`: ",
        ),
        (
            &["--connections", "2", "--threads", "3"],
            "--threads: invalid count `3`: ",
        ),
        (&["--in-flight", "7"], "--in-flight: invalid count `7`: "),
        (
            &["--keys", "2000G"],
            "--keys: invalid count `2000000000000`: ",
        ),
        (
            &["--value-size", "1GiB"],
            "--value-size: invalid size `1GiB`: ",
        ),
        (&["--rate", "0"], "--rate: invalid rate `0`: "),
        (&["--latency", "1h"], "--latency: invalid duration `1h`: "),
        (&["--latency", "x"], "--latency: invalid duration `x`: "),
        (&["--jitter", "x"], "--jitter: invalid duration `x`: "),
        (
            &["--jitter", "1ms:flat"],
            "--jitter: invalid jitter `1ms:flat`: ",
        ),
        (
            &["--bandwidth", "10"],
            "--bandwidth: invalid bandwidth `10`: ",
        ),
        (
            &["--bandwidth", "xMiB/s"],
            "--bandwidth: invalid size `xMiB`: ",
        ),
        (
            &["--workload", "mget", "--batch", "1001"],
            "--batch: invalid count `1001`: ",
        ),
        (
            &["--keys", "10", "--key-dist", "hotspot:10:0.5"],
            "--key-dist: invalid key distribution `hotspot:10:0.5`: ",
        ),
    ] {
        let words: Vec<&str> = ["loadline", "run"].iter().chain(words).copied().collect();
        let sentence = match Cli::try_parse_from(&words) {
            Err(error) => {
                let words: Vec<std::ffi::OsString> = words.iter().map(Into::into).collect();
                crate::args::refusal(&words, &error)
            }
            Ok(_) => refusal(&words[2..]),
        };
        let sentence = sentence.trim_start_matches("loadline: ");
        assert!(sentence.starts_with(start), "{words:?}: {sentence}");
    }
}

#[test]
fn workloads_unfit_for_the_targets_are_refused_with_a_reason() {
    for (words, reason) in [
        (&["embedded", "--user", "ann"][..], "no TARGET is one"),
        (&["redis://h", "--user", "ann"], "has no password"),
        (&["redis://h", "--tls-insecure"], "no TARGET is one"),
        (&["rediss://h", "--tls-cert", "x"], "--tls-key"),
        (&["--resp", "4"], "4"),
        (&["heed:/tmp/x"], "which `loadline engines` measures"),
        (&["ram", "--connections", "8"], "runs in this process"),
        (
            &["ram", "embedded", "--pipeline", "8"],
            "runs in this process",
        ),
    ] {
        let sentence = refusal(words);
        assert!(sentence.contains(reason), "{words:?}: {sentence}");
    }
}

/// The machine of these tests has 8 GiB to spare.
#[test]
fn data_larger_than_memory_are_refused_before_loading() {
    let huge = ["--value-size", "512MiB"];
    let wide = ["--connections", "50", "--pipeline", "1000"];
    for (words, needs) in [
        (&["embedded", "--keys", "10G"][..], "1192.1 GiB"),
        (&["redis://localhost", "--keys", "10G"], "1192.1 GiB"),
        (
            &[
                &["embedded", "--workload", "set", "--keys", "20"],
                &huge[..],
            ]
            .concat(),
            "10.5 GiB",
        ),
        // Two targets hold two copies, and a cluster's replicas another one.
        (
            &["ram", "embedded", "--keys", "1M", "--value-size", "5kB"],
            "9.4 GiB",
        ),
        (
            &[
                "spawn-cluster:redis-server",
                "--keys",
                "1M",
                "--value-size",
                "5kB",
            ],
            "9.4 GiB",
        ),
        // The values of a range count by their mean.
        (
            &["embedded", "--keys", "1M", "--value-size", "1kB..19kB"],
            "9.4 GiB",
        ),
        (
            &[
                &["embedded", "--keys", "1", "--value-size", "1MiB"],
                &wide[..],
            ]
            .concat(),
            "48.8 GiB",
        ),
    ] {
        let sentence = refusal(words);
        assert!(
            sentence.contains(needs) && sentence.contains("this machine has 8.0 GiB to spare"),
            "{words:?}: {sentence}"
        );
    }
    for words in [
        &["embedded", "--keys", "10M"][..],
        &["embedded", "--keys", "1M", "--value-size", "5kB"],
        // The memory of another machine is queried when the server is opened.
        &["redis://db.example", "--keys", "10G"],
        // Nothing is loaded for a ping.
        &["embedded", "--workload", "ping", "--keys", "10G"],
    ] {
        plan(words);
    }
    let elsewhere = plan(&["redis://db.example", "--keys", "10G"]);
    elsewhere.check_server_memory("db", 1 << 41).unwrap();
    let failure = elsewhere.check_server_memory("db", 1 << 35).unwrap_err();
    assert_eq!(failure.exit(), Exit::Usage);
    assert!(
        failure
            .to_string()
            .contains("the machine of db has 32.0 GiB"),
        "{failure}"
    );
    let unknown = Surroundings {
        memory_bytes: None,
        ..around()
    };
    assert!(resolve(&typed(&["embedded", "--keys", "10G"]).unwrap(), &unknown).is_ok());
}

#[test]
fn called_subjects_have_no_pipelined_case() {
    let plan = plan(&["ram", "embedded", "--connections", "8"]);
    assert_eq!(plan.targets, [Target::RAM, Target::Embedded]);
    assert!(plan.cases.iter().all(|case| case.pipeline == 1));
    assert_eq!(plan.cases.len(), 3);
}

#[test]
fn plan_shows_itself_without_passwords() {
    let plan = plan(&[
        "redis://ann:hunter2@db/1",
        "--rate",
        "20k",
        "--arrivals",
        "poisson",
        "--verify",
        "--duration",
        "10s",
        "--workload",
        "get",
    ]);
    insta::assert_snapshot!(plan.describe().to_text(), @"
    Plan (dry run: no connection is made, no file is written)

    Targets
      redis://ann:***@db:6379/1

    Case: get
      open loop at 20000 operations per second, poisson arrivals, 10s per target
      50 connections, 4 threads, pipeline 1
      100,000 keys, uniform; values of 64B, random
      loads before   SET {key} {value}
      sends     x1   GET {key}
      checks every value that it reads

    All cases
      10 rounds
      a warm-up of 500ms for each case and target
      RESP2, seed 7

    This takes about 12 s.
    ");
    let json = plan.to_json();
    assert_eq!(json["targets"][0], "redis://ann:***@db:6379/1");
    assert_eq!(json["cases"][0]["pacing"]["arrivals"], "poisson");
    assert_eq!(json["cases"][0]["duration_ns"], 10_000_000_000_u64);
    assert!(!format!("{plan:?}{json}").contains("hunter2"));
}

#[test]
fn rounds_of_several_targets_end_by_precision() {
    let both = plan(&["embedded", "spawn:redis-server", "--workload", "get"]);
    assert_eq!(
        (both.rounds, both.schedule.end),
        (40, RoundsEnd::OncePrecise)
    );
    assert_eq!(
        both.cases[0].block(0, both.rounds).duration,
        Some(Duration::from_millis(125))
    );
    let text = both.describe().to_text();
    assert!(
        text.contains("10 to 40 rounds, until the ratios are precise enough\n"),
        "{text}"
    );
    assert!(text.contains("\nThis takes up to 14 s.\n"), "{text}");
    assert_eq!(both.to_json()["until_precise"], true);

    let others: [&[&str]; 7] = [
        &["embedded", "--workload", "get"],
        &["embedded", "redis://h"],
        &["embedded", "embedded", "--workload", "manager"],
        &["embedded", "embedded", "--latency", "10ms"],
        &["embedded", "embedded", "--rounds", "12"],
        &["embedded", "embedded", "--duration", "4s"],
        &["embedded", "embedded", "--ops", "1M"],
    ];
    for words in others {
        let plan = plan(words);
        assert_eq!(plan.schedule.end, RoundsEnd::Planned, "{words:?}");
        let rounds = if words.contains(&"--rounds") { 12 } else { 10 };
        assert_eq!(plan.rounds, rounds, "{words:?}");
        assert!(plan.to_json()["until_precise"].is_null(), "{words:?}");
    }
}

/// The fields of the objects in a plan, by path; elements of lists share a path.
fn paths(value: &serde_json::Value, path: &str, found: &mut BTreeMap<String, BTreeSet<String>>) {
    match value {
        serde_json::Value::Object(fields) => {
            let names = found.entry(path.to_owned()).or_default();
            names.extend(fields.keys().cloned());
            for (name, value) in fields {
                paths(value, &format!("{path}.{name}"), found);
            }
        }
        serde_json::Value::Array(items) => {
            items
                .iter()
                .for_each(|item| paths(item, &format!("{path}[]"), found));
        }
        _ => {}
    }
}

/// The plan of a comparison of clients, whose driver every machine has.
fn clients_plan() -> serde_json::Value {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("shell");
    std::fs::create_dir(&folder).unwrap();
    let manifest = "language = \"Shell\"\ncommand = [\"sh\"]\n[[client]]\nname = \"a\"\nmodes = [\"sync\"]\nresp = [2]\n";
    std::fs::write(folder.join("driver.toml"), manifest).unwrap();
    let cli = Cli::try_parse_from(["loadline", "clients", "embedded"]).unwrap();
    let Command::Clients(args) = cli.command else {
        panic!("it is clients");
    };
    let args = ClientsArgs {
        drivers: Some(dir.path().to_owned()),
        ..*args
    };
    let known = known_drivers(&args).unwrap();
    resolve_clients(&args, known, &around())
        .unwrap()
        .describe()
        .into_json()
}

#[test]
fn page_about_the_record_describes_exactly_the_fields_of_plans() {
    let page = include_str!("../../../../docs/record.md");
    let mut described = BTreeMap::new();
    for section in page.split("\n## `run.plan").skip(1) {
        let (path, text) = section.split_once('`').unwrap();
        let text = text.split("\n## ").next().unwrap();
        let names = text.lines().filter_map(|line| line.strip_prefix("| `"));
        let names: BTreeSet<String> = names
            .map(|row| row.split('`').next().unwrap().to_owned())
            .collect();
        described.insert(format!("run.plan{path}"), names);
    }
    let mut written = BTreeMap::new();
    let run = plan(&["redis://h", "--jitter", "1ms", "--latency", "5ms"]);
    paths(&run.to_json(), "run.plan", &mut written);
    for words in [
        &["modes", "embedded"][..],
        &["capacity", "embedded"],
        &["engines", "map"],
        &["tiers"],
        &["tiers", "--key-dist", "uniform"],
        &["failover"],
    ] {
        let cli = Cli::try_parse_from(["loadline"].iter().chain(words)).unwrap();
        let plan = match cli.command {
            Command::Modes(args) => resolve_modes(&args, &around()).unwrap().to_json(),
            Command::Capacity(args) => resolve_capacity(&args, &around()).unwrap().to_json(),
            Command::Engines(args) => resolve_engines(&args, &around()).unwrap().to_json(),
            Command::Tiers(args) => resolve_tiers(&args, &around()).unwrap().to_json(),
            Command::Failover(args) => resolve_failover(&args, &around()).unwrap().to_json(),
            other => panic!("{other:?}"),
        };
        paths(&plan, "run.plan", &mut written);
    }
    paths(&clients_plan(), "run.plan", &mut written);
    // Known only after the start of the sweep.
    let plan = written.get_mut("run.plan").unwrap();
    plan.insert("pinned".into());
    assert_eq!(described, written);
}

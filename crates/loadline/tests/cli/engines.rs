//! `loadline engines`: engines in process and a real redis-server, in small sizes.

use loadline_measure::Record;
use loadline_measure::engines::Operation;
use loadline_measure::record::{Answer, Case, Engines, SubjectKind};

use crate::util::Dir;

fn engines_of(record: &Record) -> &Engines {
    match &record.answer {
        Answer::Engines(found) => found,
        other => panic!("{other:?}"),
    }
}

/// Few operations: the figures do not matter here.
const SHORT: [&str; 10] = [
    "--keys",
    "500",
    "--duration",
    "30ms",
    "--rounds",
    "3",
    "--warmup",
    "1ms",
    "--json",
    "out.json",
];

fn measured(words: &[&str]) -> (Record, String) {
    let dir = Dir::new();
    let dir_words = ["--dir", dir.path().to_str().unwrap()];
    let stdout = dir
        .run(&[&["engines"], words, &SHORT[..], &dir_words[..]].concat())
        .succeeded();
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "directories of engines are left: {left:?}");
    (record, stdout)
}

/// Engines that only some builds have.
const BEHIND_FEATURES: &[&str] = &[
    #[cfg(feature = "rocksdb")]
    "rocksdb",
    #[cfg(feature = "sqlite")]
    "sqlite",
];

/// `first`, what the build has besides, and `rest`.
fn of_build<'w>(first: &[&'w str], rest: &[&'w str]) -> Vec<&'w str> {
    [first, BEHIND_FEATURES, rest].concat()
}

fn of<'r>(record: &'r Record, name: &str, workload: &str) -> &'r Case {
    let mut cases = record.cases.iter();
    cases
        .find(|case| case.subject.name == name && case.scenario.workload == workload)
        .unwrap_or_else(|| panic!("{name} has no {workload}"))
}

#[test]
fn engines_in_memory_stand_beside_redis_and_every_row_names_the_class() {
    let (record, stdout) = measured(&[
        "map",
        "store",
        "redis",
        "redis-unix",
        "embedded",
        "--durability",
        "memory",
        "--thorough",
    ]);
    // With a server over TCP, the null server is measured too.
    assert_eq!(record.cases.len(), 9 * 6);
    assert_eq!(record.errors(), 0);
    for case in &record.cases {
        let scenario = &case.scenario;
        assert_eq!(scenario.durability.as_deref(), Some("memory"));
        let is_called = matches!(case.subject.name.as_str(), "map" | "store");
        let kind = match case.subject.name.as_str() {
            "map" => SubjectKind::Engine,
            "store" => SubjectKind::Store,
            "redis" => SubjectKind::SpawnedServer,
            "redis-unix" => SubjectKind::SpawnedOnSocket,
            "embedded" => SubjectKind::Embedded,
            _ => SubjectKind::NullServer,
        };
        assert_eq!(case.subject.kind, kind, "{}", case.subject.name);
        assert_eq!(scenario.connections == 0, is_called);
        assert_eq!(
            scenario.batch,
            if scenario.workload.starts_with("batch") {
                100
            } else {
                1
            }
        );
        // Every key that is read is there, also after the removals.
        assert!(
            case.hit_ratio.is_none_or(|hits| hits == 1.0),
            "{}: {:?}",
            case.name(),
            case.hit_ratio
        );
        assert!(case.ops > 0, "{}", case.name());
    }
    // Each of the others is compared with redis, in the same rounds.
    let ratios = record
        .comparisons
        .iter()
        .filter(|told| told.metric == "throughput_ops_per_s");
    for told in ratios.clone() {
        assert_eq!(record.cases[told.a].subject.name, "redis");
        assert_eq!(
            record.cases[told.a].scenario.workload,
            record.cases[told.b].scenario.workload
        );
    }
    assert_eq!(ratios.count(), 9 * 5);
    // A call is far from a round trip. No pause of the machine is in the fastest ones.
    let fastest = |name| of(&record, name, "get").response_time_ns.min.unwrap();
    assert!(fastest("store") * 2 < fastest("redis"));
    // The tests run an unoptimized build, and the doctor says so.
    let found = |rule: &str| {
        record
            .doctor
            .iter()
            .any(|found| found.rule.as_str() == rule)
    };
    let expected = ["LL040", "LL041", "LL042"];
    assert!(expected.into_iter().all(found), "{:?}", record.doctor);
    assert!(!found("LL002") && !found("LL009"), "{:?}", record.doctor);
    says_what_it_compares(&stdout);
}

/// The parts of the report about a class of durability.
fn says_what_it_compares(stdout: &str) {
    for said in [
        "Durability memory, 100 B values, 500 keys",
        "By need",
        "Fastest reads:",
        "Redis is the right answer",
        "batch get of 100",
        "vs redis",
        "p99/p50",
        "null is a server that replies and does no work",
    ] {
        assert!(stdout.contains(said), "{said}:\n{stdout}");
    }
}

/// The write-up that this command answers compared an engine that does not sync with one that does.
#[test]
fn classes_are_never_mixed_and_an_engine_that_lacks_one_is_named() {
    let (record, stdout) = measured(&of_build(
        &["map", "heed", "redb", "fjall"],
        &["redis", "--op", "put,get", "--durability", "process,always"],
    ));
    for told in &record.comparisons {
        let class = |place: usize| record.cases[place].scenario.durability.clone();
        assert_eq!(class(told.a), class(told.b));
    }
    let names = |class: &str| -> Vec<&str> {
        let of_class = record.cases.iter().filter(|case| {
            case.scenario.durability.as_deref() == Some(class) && case.scenario.workload == "put"
        });
        of_class.map(|case| case.subject.name.as_str()).collect()
    };
    assert_eq!(
        names("process"),
        of_build(&["redis", "heed", "fjall"], &["null"])
    );
    assert_eq!(
        names("always"),
        of_build(&["redis", "heed", "redb", "fjall"], &["null"])
    );
    for sentence in [
        "map is left out of process and always: it keeps nothing on disk.",
        "redb is left out of process: a commit that it does not sync is lost with the process.",
    ] {
        assert!(
            record.findings.iter().any(|said| said == sentence),
            "{:?}",
            record.findings
        );
    }
    assert!(stdout.contains("Fastest durable writes:"), "{stdout}");
    // The servers persist as their class says.
    let appends = record.environment.servers.iter().map(|server| {
        (
            server.subject.as_str(),
            server
                .settings
                .iter()
                .any(|(name, value)| name == "appendonly" && value == "yes"),
        )
    });
    assert_eq!(
        appends.collect::<Vec<_>>(),
        [("redis (process)", true), ("redis (always)", true)]
    );
}

#[test]
fn acknowledged_writes_survive_a_kill_and_the_record_has_their_footprint() {
    let (record, stdout) = measured(&of_build(
        &["map", "heed", "redb", "fjall", "store", "redis", "embedded"],
        &["--op", "get", "--durability", "memory,always"],
    ));
    let footprints = engines_of(&record).footprints.iter();
    let mut durable = 0;
    for footprint in footprints {
        let name = &footprint.subject;
        assert_eq!(footprint.keys, 500);
        // A key is 19 bytes of prefix and 8 digits.
        assert_eq!(footprint.live_bytes, 500 * (19 + 8 + 100), "{name}");
        if footprint.durability == "memory" {
            assert_eq!(
                (footprint.disk_bytes, footprint.open_ns, footprint.lost),
                (None, None, None)
            );
            // A read into a buffer that is there allocates nothing. Those of a server are not counted.
            let reads = footprint.allocations.map(|of| of.get);
            assert!(reads.is_none_or(|reads| reads < 0.05), "{name}: {reads:?}");
            let is_server = ["redis", "embedded"].contains(&name.as_str());
            assert_eq!(reads.is_none(), is_server);
            assert!(footprint.memory_bytes.is_some(), "{name}");
            continue;
        }
        durable += 1;
        assert_eq!(footprint.lost, Some(0), "{name}");
        assert!(
            footprint.disk_bytes.unwrap() >= footprint.live_bytes,
            "{name}"
        );
        assert!(
            footprint.open_ns.unwrap() > 0 && footprint.opens == 3,
            "{name}"
        );
    }
    assert_eq!(durable, 6 + BEHIND_FEATURES.len());
    assert!(stdout.contains("Besides time"), "{stdout}");
}

/// Ten times the data in all rounds together, with values that are large enough to fill segments.
#[test]
fn sustained_writes_write_the_data_ten_times_over() {
    let words = [
        "store",
        "fjall",
        "--op",
        "sustained",
        "--durability",
        "process",
    ];
    let (record, stdout) = measured(&words);
    for name in ["store", "fjall"] {
        let case = of(&record, name, "sustained put");
        assert_eq!((case.ops, case.rounds.len()), (10 * 500, 3), "{name}");
        assert_eq!(
            case.scenario.value_bytes,
            loadline_measure::record::ValueBytes::Fixed(1_024),
            "{name}"
        );
        assert!(case.response_time_ns.p50.is_some(), "{name}");
    }
    assert!(stdout.contains("sustained put"), "{stdout}");
}

/// The set of the write-up, and what its claims compare.
#[test]
fn set_of_the_write_up_compares_like_with_like() {
    let (record, stdout) = measured(&["--workload", "writeup", "--op", "put,get,batch-put,mixed"]);
    let engines = engines_of(&record);
    assert!(engines.is_writeup);
    let claims = engines.claims(&record.cases);
    let classes: Vec<&str> = claims.iter().map(|claims| claims.class).collect();
    assert_eq!(classes, ["memory", "process", "always"]);
    let claimed = [Operation::Put, Operation::Get];
    for claims in &claims {
        let called = claims.in_process.iter().map(|claim| &claim.operation);
        assert!(called.eq(&claimed), "{claims:?}");
    }
    let served = claims[0].behind_sockets.iter();
    assert!(
        served.map(|claim| &claim.operation).eq(&claimed),
        "{claims:?}"
    );
    assert!(stdout.contains("The claims of the write-up"), "{stdout}");
    assert_eq!(record.errors(), 0);
    for case in &record.cases {
        // The cache has room for every key.
        let hits = case.hit_ratio;
        assert!(
            hits.is_none_or(|hits| hits == 1.0),
            "{}: {hits:?}",
            case.name()
        );
    }
    for footprint in &engines.footprints {
        assert!(footprint.lost.is_none_or(|lost| lost == 0), "{footprint:?}");
    }
}

#[test]
fn impossible_engine_plans_are_refused() {
    let dir = Dir::new();
    for (words, reason) in [
        (&["berkeley"][..], "unknown engine"),
        (&["map", "map"], "named twice"),
        (&["map", "--reference", "redb"], "not among the engines"),
        (
            &["map", "--durability", "never"],
            "expected memory, process",
        ),
        (
            &["map", "--durability", "always"],
            "None of the engines has the requested durability",
        ),
        (&["map", "--batch", "1"], "--batch 1"),
        (&["null"], "unknown engine"),
        (
            &["map", "--workload", "writeup"],
            "ENGINE `map`: it has no time to live",
        ),
        (
            &["store", "--workload", "writeup", "--keys", "20k"],
            "at most 10000",
        ),
    ] {
        dir.run(&[&["engines"], words].concat()).failed(64, reason);
    }
    let words = [
        "engines",
        "heed",
        "--durability",
        "process",
        "--dir",
        "no/such",
    ];
    dir.run(&[&words, &SHORT[..]].concat())
        .failed(69, "cannot create a directory in no/such");
    assert!(dir.is_empty());
    let plan = dir
        .run(&["engines", "map", "redis", "--dry-run"])
        .succeeded();
    assert!(plan.contains("Durability memory, values of 100B"), "{plan}");
    assert!(plan.contains("compared with redis"), "{plan}");
}

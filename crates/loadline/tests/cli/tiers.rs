//! `loadline tiers`: small floors in embedded stores and a real redis-server.

use loadline_measure::Record;
use loadline_measure::record::{Answer, Case, SubjectKind, TierVerdict, Tiers, Waterfall};

use crate::redis::Redis;
use crate::util::{Dir, Serving};

/// Small objects and few operations: the figures do not matter here.
const SHORT: [&str; 10] = [
    "--floor",
    "12x12",
    "--duration",
    "16ms",
    "--rounds",
    "2",
    "--warmup",
    "1ms",
    "--json",
    "out.json",
];

fn measured_with(words: &[&str], length: &[&str]) -> (Record, String) {
    let dir = Dir::new();
    let dir_words = ["--dir", dir.path().to_str().unwrap()];
    let stdout = dir
        .run(&[&["tiers"], words, length, &dir_words[..]].concat())
        .succeeded();
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "directories of stores are left: {left:?}");
    (record, stdout)
}

fn measured(words: &[&str]) -> (Record, String) {
    measured_with(words, &SHORT)
}

fn tiers(record: &Record) -> &Tiers {
    match &record.answer {
        Answer::Tiers(tiers) => tiers,
        other => panic!("{other:?}"),
    }
}

fn codecs_of<'t>(tiers: &'t Tiers, subject: &str) -> Vec<&'t str> {
    let costs = tiers.costs.iter().filter(|cost| cost.subject == subject);
    costs.filter_map(|cost| cost.codec.as_deref()).collect()
}

fn waterfall<'r>(record: &'r Record, subject: &str, operation: &str) -> &'r Waterfall {
    let mut waterfalls = tiers(record).waterfalls.iter();
    waterfalls
        .find(|one| one.subject == subject && one.operation == operation)
        .unwrap_or_else(|| panic!("{subject} has no {operation}"))
}

fn of<'r>(record: &'r Record, subject: &str, operation: &str) -> &'r Case {
    let mut cases = record.cases.iter();
    cases
        .find(|case| case.subject.name == subject && case.scenario.workload == operation)
        .unwrap_or_else(|| panic!("{subject} has no {operation}"))
}

#[test]
fn every_tier_is_measured_in_the_same_rounds_and_split_into_its_parts() {
    let (record, stdout) = measured(&["redis", "redis-unix", "store", "--batch", "3"]);
    assert_eq!(record.errors(), 0);
    assert!(record.cases.iter().all(|case| case.ops > 0));
    let answers = tiers(&record);
    let subjects: Vec<&str> = answers
        .costs
        .iter()
        .map(|cost| cost.subject.as_str())
        .collect();
    // The first server has other codecs, too, among them those of the write-up.
    assert_eq!(subjects[..4], ["redis", "redis-unix", "store", "redis"]);
    let codecs = ["columns", "rkyv", "bitcode", "protobuf", "protobuf-tiles"];
    assert_eq!(codecs_of(answers, "redis"), codecs);
    // Two rounds are too few for an interval, and no answer is better than a wrong one.
    for cost in &answers.costs {
        assert_eq!(cost.pays, TierVerdict::Inconclusive);
        assert!(cost.break_even_interval.is_none() && cost.get_ns > 0.0);
    }
    let names: Vec<&str> = answers
        .options
        .iter()
        .map(|option| option.name.as_str())
        .collect();
    assert_eq!(names, ["drop", "fix", "selective", "embedded"]);
    for (subject, kind) in [
        ("redis", SubjectKind::SpawnedServer),
        ("redis-unix", SubjectKind::SpawnedOnSocket),
    ] {
        let get = waterfall(&record, subject, "get");
        let parts: Vec<_> = get.parts().map(|(part, _)| part.to_string()).collect();
        let expected = [
            "client", "write", "network", "server", "read", "parse", "decode",
        ];
        assert_eq!(parts, expected, "{subject}");
        assert!(get.server_command_ns.is_some_and(|ns| ns > 0.0));
        assert_eq!(of(&record, subject, "get").subject.kind, kind);
    }
    let set = waterfall(&record, "store", "set");
    let parts: Vec<_> = set.parts().map(|(part, _)| part.to_string()).collect();
    assert_eq!(parts, ["encode", "write"]);
    let sizes: Vec<u64> = answers.batches[0]
        .sizes
        .iter()
        .map(|size| size.objects)
        .collect();
    assert_eq!(sizes, [1, 3]);
    assert_eq!(of(&record, "redis", "get").hit_ratio, Some(1.0));
    assert_eq!(
        of(&record, "recompute", "recompute").subject.kind,
        SubjectKind::Application
    );
    for said in [
        "The options",
        "Tier ladder and decision map",
        "expected hit ratio of 80",
        "Where the time goes",
        "columns+lz4",
        "rkyv+lz4",
        "bitcode+lz4",
        "new runtime",
        "get through the cache",
    ] {
        assert!(stdout.contains(said), "{said}:\n{stdout}");
    }
}

/// Rounds of an operation or two: the medians ignore those that other programs delayed.
const SINGLE: [&str; 9] = [
    "--floor",
    "12x12",
    "--warmup",
    "1ms",
    "--batch",
    "2",
    "--json",
    "out.json",
    "--duration",
];

/// A delay in the path belongs to the network and to no other part, and the parts explain the whole: no more than 5 % is left
/// in the median round. The scheduler delays the server and the null server of a round by different times, so the interval of
/// the rests over the rounds decides, and not the difference of two medians.
#[test]
fn added_latency_is_found_in_the_network() {
    undisturbed(an_added_latency);
}

/// Repeats a test of parts that are differences of times, until it succeeds or has failed five times. Other programs can
/// disturb one side of a difference and not the other; a part that goes to the wrong place is there in all runs.
fn undisturbed(test: fn() -> Result<(), String>) {
    let faults: Vec<String> = (0..5).map_while(|_| test().err()).collect();
    assert!(faults.len() < 5, "{faults:#?}");
}

fn ensure(holds: bool, what: &str, waterfall: &Waterfall) -> Result<(), String> {
    if holds {
        return Ok(());
    }
    Err(format!("{what}: {waterfall:?}"))
}

fn an_added_latency() -> Result<(), String> {
    let length = [&SINGLE[..], &["160ms", "--rounds", "16"]].concat();
    let (record, _) = measured_with(&["redis", "--latency", "20ms"], &length);
    assert_eq!(record.links.len(), 1);
    for operation in ["get", "set"] {
        let far = waterfall(&record, "redis +20ms", operation);
        let network = far.network_ns.unwrap();
        ensure((19.5e6..40e6).contains(&network), "network", far)?;
        let others: f64 = far.parts().map(|(_, part)| part).sum::<f64>() - network;
        ensure(others < 5e6, "other parts", far)?;
        let near = waterfall(&record, "redis", operation);
        ensure(near.network_ns.unwrap() < 10e6, "network", near)?;
        let rest = far.unattributed_interval.unwrap();
        let limit = 0.05 * far.whole_ns;
        ensure(rest.lo <= limit && rest.hi >= -limit, "rest", far)?;
    }
    Ok(())
}

/// A slow server is found in the server, although it is not a process of this run.
#[test]
fn slow_command_is_found_in_the_server() {
    undisturbed(a_slow_command);
}

fn a_slow_command() -> Result<(), String> {
    let dir = Dir::new();
    let slow = Serving::embedded(&dir, &["--burn-per-command", "3ms"]);
    let url = format!("redis://{}", slow.address);
    let length = [&SINGLE[..], &["30ms", "--rounds", "10"]].concat();
    let (record, stdout) = measured_with(&[&url], &length);
    // A cache opens connections of its own, so it is measured on servers of the run only.
    assert!(!stdout.contains("get through the cache"), "{stdout}");
    let get = waterfall(&record, &url, "get");
    ensure(
        (2.9e6..6e6).contains(&get.server_ns.unwrap()),
        "server",
        get,
    )?;
    ensure(get.network_ns.unwrap() < 1.5e6, "network", get)
}

#[test]
fn flaws_of_the_write_up_are_measured_with_and_without() {
    let (record, stdout) = measured(&["redis", "--reproduce", "--batch", "10"]);
    assert_eq!(record.errors(), 0);
    let answers = tiers(&record);
    assert_eq!(answers.flaws.len(), 8);
    assert_eq!(answers.claims.len(), 11);
    assert!(answers.claims.iter().all(|claim| claim.right_ns.is_some()));
    let unflawed = answers
        .claims
        .iter()
        .filter(|claim| claim.flawed_ns.is_none());
    assert_eq!(unflawed.count(), 1, "only recomputing has no flaw");
    for said in [
        "What each flaw adds",
        "The write-up's figures and those of this run",
        "SET takes 3.12 ms + n x 778 us",
        // Two rounds have no interval, so no sentence explains anything.
        "Not explained here: too few rounds for an interval.",
    ] {
        let joined = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.contains(said), "{said}:\n{stdout}");
    }
}

#[test]
fn object_of_the_user_has_the_given_cost_or_that_of_a_command() {
    let dir = Dir::new();
    let path = dir.write("profile.bin", &"profile ".repeat(100));
    let length = &SHORT[2..];
    let file = [
        "store",
        "--object-file",
        path.to_str().unwrap(),
        "--load-cost",
        "3ms",
    ];
    let (record, _) = measured_with(&file, length);
    let object = &tiers(&record).object;
    assert!(
        object.is_recompute_given && object.recompute_ns == 3e6,
        "{object:?}"
    );
    assert!(
        record
            .cases
            .iter()
            .all(|case| case.subject.name != "recompute")
    );
    let (record, _) = measured_with(&["store", "--load-command", "printf abcdef"], length);
    let object = &tiers(&record).object;
    assert!(
        !object.is_recompute_given && object.recompute_ns > 1e5,
        "{object:?}"
    );
    // Without a server, three of the options have no subject.
    let names: Vec<&str> = tiers(&record)
        .options
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names, ["embedded"]);
    dir.run(&[
        "tiers",
        "store",
        "--object-file",
        "missing",
        "--load-cost",
        "1ms",
    ])
    .failed(65, "--object-file missing");
    dir.run(&["tiers", "store", "--load-command", "exit 3"])
        .failed(69, "exit status: 3");
}

/// Caches with and without each tier get the same keys; a running server has no keys of the run afterwards.
#[test]
fn caches_under_load_start_cold_and_lose_their_memory_at_the_restart() {
    let (redis, dir) = (Redis::start(&[]), Dir::new());
    let url = redis.url();
    // Room for 50 objects in memory, and for all in the tiers.
    let words = format!(
        "tiers {url} store --distribution zipf:0.99 --keys 500 --ram 150KiB --tier-size 8MiB \
         --floor 12x12 --ops 3k --rounds 10 --seed 7 --json out.json --html out.html"
    );
    let stdout = dir
        .run(&words.split_whitespace().collect::<Vec<_>>())
        .succeeded();
    redis.answers("DBSIZE\r\n", ":0\r\n");
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    assert_eq!(record.errors(), 0);
    assert_eq!(record.cases.len(), 9, "three phases of three caches");
    let load = tiers(&record).load.as_ref().unwrap();
    let names: Vec<&str> = load.subjects.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["no tier", url.as_str(), "store"]);
    for subject in &load.subjects {
        assert_eq!(subject.windows.len(), 30);
        let [cold, warm, restart] = &subject.phases[..] else {
            panic!("{subject:?}");
        };
        for phase in [cold, warm, restart] {
            assert_eq!(phase.gets, 1_000);
            // The seed decides the draws; the cache evicts otherwise than the prediction, by at most a few percent.
            let error = phase.memory_hit_ratio - phase.predicted_memory_hit_ratio;
            assert!((-0.1..0.2).contains(&error), "{subject:?}");
            // The same keys are in memory, whatever is below it.
            let same = load.subjects[0]
                .phases
                .iter()
                .find(|one| one.name == phase.name);
            assert_eq!(
                Some(phase.memory_hit_ratio),
                same.map(|one| one.memory_hit_ratio)
            );
        }
        if subject.tier.is_none() {
            assert!(
                subject
                    .phases
                    .iter()
                    .all(|phase| phase.tier_hit_ratio.is_none())
            );
            continue;
        }
        let ratios = [cold, warm, restart].map(|phase| phase.tier_hit_ratio.unwrap());
        assert!(ratios[0] < ratios[1] && ratios[1] < ratios[2], "{ratios:?}");
        for (phase, ratio) in [cold, warm, restart].into_iter().zip(ratios) {
            let error = ratio - phase.predicted_tier_hit_ratio.unwrap();
            assert!(error.abs() < 0.15, "{subject:?}");
            assert!(phase.saves_interval.is_some());
        }
        let by: Vec<&str> = subject.answers.iter().map(|one| one.by.as_str()).collect();
        assert_eq!(by, ["memory", subject.name.as_str(), "recompute"]);
        let all: u64 = subject.answers.iter().map(|answer| answer.gets).sum();
        assert_eq!(all, 3_000);
    }
    for said in [
        "Under this load (zipf:0.99 over 500 keys",
        "once the cache is warm",
        "memory LRU",
        "steady",
    ] {
        let joined = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.contains(said), "{said}:\n{stdout}");
    }
    assert!(dir.read("out.html").contains("Mean time of a get"));
}

/// A load of 5 ms that is asked for every 1 ms: each get of a window waits for those before it, and its response time has
/// that wait. Nothing here depends on how fast the machine is: slower gets wait longer.
#[test]
fn cache_that_does_not_keep_the_rate_answers_late() {
    let dir = Dir::new();
    dir.write("profile.bin", "profile");
    let words = "tiers store --key-dist sequential --keys 1k --rate 1k --object-file profile.bin --load-cost 5ms \
                 --ops 60 --rounds 2 --dir . --json out.json --html out.html";
    let stdout = dir
        .run(&words.split_whitespace().collect::<Vec<_>>())
        .succeeded();
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    let load = tiers(&record).load.as_ref().unwrap();
    assert_eq!(load.rate_ops_per_s, Some(1_000.0));
    for subject in &load.subjects {
        let cold = &subject.phases[0];
        assert_eq!(cold.gets, 20, "{subject:?}");
        // Ten gets in a window, due after 0 to 9 ms and done after 5 to 50 ms at the earliest.
        let mean = cold.response_time_ns.unwrap();
        assert!(mean > 22e6, "{subject:?}");
        assert!(cold.get_ns >= 5e6, "{subject:?}");
        for window in &subject.windows {
            assert!(window.response_time_ns.is_some(), "{subject:?}");
        }
    }
    let case = &record.cases[0];
    assert_eq!((case.planned, case.not_sent), (Some(20), Some(0)));
    let joined = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "Response times at 1k gets per second",
        "does not keep this rate after a cold start",
        "from the intended start of the get",
    ] {
        assert!(joined.contains(said), "{said}:\n{stdout}");
    }
    assert!(dir.read("out.html").contains("Mean response time of a get"));
}

/// A tier that has no room left keeps what it has, and the rest is recomputed.
#[test]
fn tier_under_load_gets_no_more_than_its_size() {
    let words = [
        "redis",
        "--key-dist",
        "uniform",
        "--keys",
        "300",
        "--ram",
        "16KiB",
        "--tier-size",
        "32KiB",
    ];
    let length = [
        "--floor", "12x12", "--ops", "2400", "--rounds", "8", "--json", "out.json",
    ];
    let (record, _) = measured_with(&words, &length);
    let load = tiers(&record).load.as_ref().unwrap();
    // An encoded object has 1.3 kB, so there is room for 25 of 300.
    let restart = &load.subjects[1].phases[2];
    let ratio = restart.tier_hit_ratio.unwrap();
    assert!((0.02..0.2).contains(&ratio), "{restart:?}");
}

/// A line for each operation would be ninety lines before the answer.
#[test]
fn progress_in_a_pipe_has_no_line_per_operation() {
    let dir = Dir::new();
    let words = [
        &["tiers", "store", "--batch", "3", "--dir", "."],
        &SHORT[..],
    ]
    .concat();
    let stderr = dir.run(&words).stderr;
    assert!(!stderr.contains("is warmed up"), "{stderr}");
    assert!(stderr.lines().count() < 20, "{stderr}");
    assert!(stderr.contains("measured 100 %"), "{stderr}");
}

#[test]
fn impossible_tier_plans_are_refused_before_the_start() {
    let dir = Dir::new();
    for (words, why) in [
        (&["--floor", "0x10"][..], "expected WIDTHxHEIGHT"),
        (&["--hit-ratio", "0%"], "must be above 0%"),
        (&["--batch", "1"], "from 2 to 1000"),
        (
            &["store", "--latency", "1ms"],
            "none of the tiers is a server over TCP",
        ),
        (&["store", "--reproduce"], "none of the tiers is a server"),
        (&["stor"], "did you mean `store`"),
        (&["store", "store"], "named twice"),
        (&["cluster://localhost:1"], "a single server is needed"),
        (&["--object-file", "profile.bin"], "--load-cost"),
        (&["--ram", "64MiB"], "--key-dist"),
        (&["--rate", "1k"], "--key-dist"),
        (
            &["--key-dist", "uniform", "--arrivals", "poisson"],
            "--rate",
        ),
        (
            &["--key-dist", "uniform", "--rate", "0"],
            "operations per second",
        ),
        (&["--key-dist", "zipf:-1"], "zipf:-1"),
        (
            &["--key-dist", "uniform", "--keys", "5G"],
            "at most 4294967296",
        ),
        (&["--key-dist", "uniform", "--ram", "1B"], "at least 1KiB"),
        (
            &["--key-dist", "uniform", "--reproduce"],
            "cannot be used with",
        ),
        (
            &["--key-dist", "uniform", "--ram", "900GiB"],
            "The tiers need up to",
        ),
    ] {
        dir.run(&[&["tiers"], words].concat()).failed(64, why);
    }
    assert!(dir.is_empty());
}

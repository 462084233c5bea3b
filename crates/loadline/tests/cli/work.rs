//! Instructions per operation: counted, judged and named.

use loadline_measure::Record;
use loadline_measure::gate::{Outcome, RowVerdict};
use loadline_measure::metric::Metric;
use loadline_measure::work::Source;

use crate::redis::Redis;
use crate::util::{Dir, Ended};

/// All call modes, in the order of their names.
const MODES: [&str; 6] = [
    "async",
    "batch",
    "pipeline",
    "script",
    "sync",
    "transaction",
];

/// Few rounds: the times do not matter here.
const SHORT: [&str; 12] = [
    "--workload",
    "get",
    "--pipeline",
    "16",
    "--keys",
    "500",
    "--duration",
    "200ms",
    "--rounds",
    "2",
    "--json",
    "out.json",
];

fn record(dir: &Dir) -> Record {
    Record::from_json(dir.read("out.json").as_bytes()).unwrap()
}

/// A server that logs every command executes half as many instructions again, in functions that the log names.
#[test]
fn more_work_is_found_and_its_functions_are_named() {
    let dir = Dir::new();
    let script = "#!/bin/sh\nexec redis-server \"$@\" --slowlog-log-slower-than 0\n";
    let path = dir.write("candidate", script);
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path, executable).unwrap();
    let words = [
        "compare",
        "spawn:redis-server",
        "spawn:./candidate",
        "--instructions",
        "valgrind",
        "--profile",
        "profiles",
        "--html",
        "out.html",
    ];
    let ended = dir.run(&[&words, &SHORT[..]].concat());
    assert_eq!(ended.code, Some(2), "{}{}", ended.stdout, ended.stderr);
    let record = record(&dir);
    for case in &record.cases {
        let work = case.work.as_ref().unwrap();
        assert_eq!(work.source, Source::Callgrind);
        assert!(work.passes.len() >= 3, "{:?}", work.passes);
        // One read, one write and one wait for 16 operations, and few more.
        let calls = work.passes[0].system_calls.unwrap() as f64 / work.passes[0].ops as f64;
        assert!((0.18..2.0).contains(&calls), "{calls}");
        // A GET with a key of some bytes, and a value of 64.
        let bytes = work.passes[0].bytes_sent.unwrap() / work.passes[0].ops;
        assert!((64..80).contains(&bytes), "{bytes}");
        let roots = work.frames.iter().filter(|frame| frame.parent.is_none());
        assert!(roots.count() < work.frames.len(), "{:?}", work.frames);
    }
    stored_records_are_compared(&dir, &record);
    profiles_are_kept(&dir);
    let page = dir.read("out.html");
    assert!(page.contains("class=\"flame\"") && page.contains("slowlogCreateEntry"));
    let judgement = record.judgement.unwrap();
    assert_eq!(judgement.outcome, Outcome::Critical);
    let row = judgement
        .rows
        .iter()
        .find(|row| row.metric == Metric::ServerInstructions)
        .unwrap();
    assert_eq!(row.verdict, RowVerdict::Critical, "{}", row.evidence);
    let ratio = row.ratio.unwrap();
    assert!((1.4..1.8).contains(&ratio), "{ratio}");
    let named = |name: &str| row.functions.iter().any(|function| function.name == name);
    assert!(named("slowlogCreateEntry"), "{:?}", row.functions);
    assert!(
        ended.stdout.contains("slowlogCreateEntry"),
        "{}",
        ended.stdout
    );
}

/// Two records, as of two runs on different days, give the verdict that the two servers give in one run.
fn stored_records_are_compared(dir: &Dir, record: &Record) {
    for (index, name) in ["before.json", "after.json"].into_iter().enumerate() {
        let mut one = record.clone();
        one.cases = vec![record.cases[index].clone()];
        one.cases[0].subject = record.cases[0].subject.clone();
        one.comparisons.clear();
        one.judgement = None;
        one.run.id = name.to_owned();
        dir.write(name, &one.to_json_pretty().unwrap());
    }
    let ended = dir.run(&["compare", "before.json", "after.json"]);
    assert_eq!(ended.code, Some(2), "{}{}", ended.stdout, ended.stderr);
    for part in ["more instructions per operation", "slowlogCreateEntry"] {
        assert!(ended.stdout.contains(part), "{}", ended.stdout);
    }
    // A threshold beyond the difference.
    let words = ["--work-warning", "100%", "--work-critical", "100%"];
    let words = [&["compare", "before.json", "after.json"], &words[..]].concat();
    assert_ne!(dir.run(&words).code, Some(2));
}

/// Each pass of each server is a file that callgrind's programs and ours can read.
fn profiles_are_kept(dir: &Dir) {
    let names = std::fs::read_dir(dir.path().join("profiles")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().path()).collect();
    assert!(names.len() >= 6, "{names:?}");
    for path in names {
        let text = std::fs::read_to_string(path).unwrap();
        let profile = loadline_measure::work::callgrind::parse(&text).unwrap();
        assert!(profile.instructions > 1_000_000, "{}", profile.instructions);
    }
}

/// A server compared with itself: no difference of a percent, however busy the machine is, and no file is left behind.
#[test]
fn equal_work_is_no_difference() {
    let dir = Dir::new();
    let words = [
        "compare",
        "embedded",
        "embedded",
        "--instructions",
        "valgrind",
    ];
    let words = [&words, &SHORT[..]].concat();
    let files = Dir::new();
    let ended = dir.command(&words).env("TMPDIR", files.path()).output();
    let ended = Ended::of(&words, ended.unwrap());
    let record = record(&dir);
    assert_eq!(record.not_counted, None, "{}", ended.stderr);
    let left = std::fs::read_dir(files.path()).unwrap();
    let left: Vec<_> = left.map(|file| file.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    let judgement = record.judgement.unwrap();
    let row = judgement
        .rows
        .iter()
        .find(|row| row.metric == Metric::ServerInstructions)
        .unwrap();
    let ratio = row.ratio.unwrap();
    assert!((0.99..1.01).contains(&ratio), "{}", row.evidence);
}

#[test]
fn servers_that_run_already_are_not_counted_and_the_record_says_why() {
    let dir = Dir::new();
    let one = crate::util::Serving::start(&dir, &[]);
    let url = format!("redis://{}", one.address);
    let words = ["compare", &url, &url, "--instructions", "auto"];
    dir.run(&[&words, &SHORT[..]].concat());
    let sentence = record(&dir).not_counted.unwrap();
    assert!(
        sentence.contains("only servers that Loadline starts"),
        "{sentence}"
    );
    assert!(
        sentence.contains("spawn:redis-server?config=FILE"),
        "{sentence}"
    );
}

/// Two files with the settings of a production server: the one with a slow log of every command executes more, and
/// neither the port nor the password nor the paths in the files reach the servers that are started.
#[test]
fn configuration_files_of_two_servers_are_counted() {
    let dir = Dir::new();
    let common = "port 1\nbind 192.0.2.1\ndir /nonexistent\ndaemonize yes\nrequirepass hunter2\n\
                  logfile /nonexistent/log\nreplicaof 192.0.2.1 6379\nmaxmemory 200mb\nsave \"\"\n";
    dir.write("old.conf", common);
    dir.write("new.conf", &format!("{common}slowlog-log-slower-than 0\n"));
    let words = [
        "compare",
        "spawn:redis-server?config=old.conf",
        "spawn:redis-server?config=new.conf",
        "--instructions",
        "valgrind",
    ];
    let ended = dir.run(&[&words, &SHORT[..]].concat());
    assert_eq!(ended.code, Some(2), "{}{}", ended.stdout, ended.stderr);
    let named: Vec<String> = record(&dir)
        .cases
        .into_iter()
        .map(|case| case.subject.name)
        .collect();
    assert_eq!(named, [words[1], words[2]]);
    let text = ended
        .stdout
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        text.contains("slowlogCreateEntry") && text.contains("[slowlog-log-slower-than]"),
        "{text}"
    );
    let missing = dir.run(&["run", "spawn:redis-server?config=none.conf"]);
    assert_eq!(missing.code, Some(65), "{}", missing.stderr);
    assert!(missing.stderr.contains("none.conf"), "{}", missing.stderr);
}

/// The client of a sweep, in each mode: counted once, at the first cell without an added latency. Two records are compared
/// by it.
#[test]
fn client_of_a_sweep_is_counted_in_every_mode() {
    let dir = Dir::new();
    let redis = Redis::start(&[]);
    let words = format!(
        "modes {} --op get --mode {} --ops 50,100 --latency 0 --budget 20ms --sizes 10 --keys 100 \
         --instructions valgrind --json out.json --color never",
        redis.url(),
        MODES.join(","),
    );
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    let text = dir.run(&words).succeeded();
    let record = record(&dir);
    assert_eq!(record.not_counted, None);
    let counted = record
        .cases
        .iter()
        .filter(|case| case.client_work.is_some());
    let mut cells: Vec<_> = counted
        .map(|case| (case.scenario.mode.as_str(), case.scenario.ops_asked))
        .collect();
    cells.sort_unstable();
    assert_eq!(cells, MODES.map(|mode| (mode, Some(50))));
    let lowest = |mode: &str| {
        let mut works = record
            .cases
            .iter()
            .filter(|case| case.scenario.mode.as_str() == mode);
        let work = works.find_map(|case| case.client_work.clone()).unwrap();
        assert!(work.passes.len() >= 3 && work.passes.iter().all(|pass| pass.ops == 600));
        assert!(!work.functions.is_empty() && !work.frames.is_empty());
        let each = work
            .passes
            .iter()
            .map(|pass| pass.instructions_per_op().unwrap());
        each.fold(f64::INFINITY, f64::min)
    };
    // The table has a column if the passes of any mode agree, which those of a client may not on a busy machine.
    let mut works = record
        .cases
        .iter()
        .filter_map(|case| case.client_work.as_ref());
    let is_told = works.any(|work| work.estimate().is_ok());
    assert_eq!(text.contains("instr."), is_told, "{text}");
    // A call of fifty operations shares a write and a read.
    let sync = lowest("sync");
    for mode in ["pipeline", "batch", "transaction", "script"] {
        let shared = lowest(mode);
        assert!(
            shared > 100.0 && shared < sync,
            "{mode} {shared}, sync {sync}"
        );
    }
    assert!(lowest("async") > 100.0);

    sweeps_are_compared(&dir, record);
}

/// A sweep beside one whose client executes twice as much.
fn sweeps_are_compared(dir: &Dir, mut record: Record) {
    dir.write("before.json", &record.to_json_pretty().unwrap());
    record.run.id = "after".to_owned();
    for work in record
        .cases
        .iter_mut()
        .filter_map(|case| case.client_work.as_mut())
    {
        for pass in &mut work.passes {
            pass.instructions *= 2;
        }
    }
    dir.write("after.json", &record.to_json_pretty().unwrap());
    let ended = dir.run(&["compare", "before.json", "after.json"]);
    let told = ended
        .stdout
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for part in [
        "client instructions",
        "The times of two sweeps are not compared",
    ] {
        assert!(told.contains(part), "{told}");
    }
}

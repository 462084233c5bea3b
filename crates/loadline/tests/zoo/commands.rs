//! Flaws that `loadline run` can be told to have.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use loadline_measure::Record;
use loadline_measure::doctor;
use loadline_measure::record::{Case, Rule, Severity};

use crate::bench::Client;
use crate::redis::Redis;
use crate::util::Dir;
use crate::{alone, caught};

/// Common arguments of these runs: they are short.
const SHORT: [&str; 6] = ["--warmup", "20ms", "--keys", "500", "--seed", "1"];

/// Runs to its end, however that is, and reads the record.
pub(crate) fn measured(dir: &Dir, words: &[&str]) -> Record {
    let words = [&["run", "--quiet", "--json", "-"], words].concat();
    let ended = dir.run(&words);
    Record::from_json(ended.stdout.as_bytes())
        .unwrap_or_else(|error| panic!("{}: {error}\n{}", ended.words, ended.stderr))
}

/// A short run of `words` against a redis-server with `settings`.
fn flawed(settings: &[&str], words: &[&str]) -> Record {
    let (dir, redis) = (Dir::new(), Redis::start(settings));
    measured(&dir, &[&[&redis.url()[..]], words, &SHORT].concat())
}

/// Does `work` over and over on threads of its own, as long as `body` runs.
fn meanwhile<T>(threads: usize, work: impl Fn(&AtomicBool) + Sync, body: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(&over));
        }
        // The threads end also where the body panics: a scope waits for them.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        over.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
fn too_few_samples_in_too_short_blocks() {
    let _alone = alone();
    let record = flawed(&[], &["--workload", "get", "--ops", "150", "--rounds", "5"]);
    caught("too few samples", "LL006", &record.doctor);
    caught("too short blocks", "LL011", &record.doctor);
}

#[test]
fn overloaded_open_loop() {
    let _alone = alone();
    let words = [
        "--workload",
        "get",
        "--connections",
        "1",
        "--threads",
        "1",
        "--rate",
        "2M",
    ];
    let record = flawed(
        &[],
        &[&words[..], &["--duration", "300ms", "--rounds", "3"]].concat(),
    );
    caught("an overloaded open loop", "LL013", &record.doctor);
}

#[test]
fn late_starts_on_a_crowded_machine() {
    let _alone = alone();
    let cores = thread::available_parallelism().unwrap().get();
    let spin = |over: &AtomicBool| {
        while !over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    // So few operations that the server keeps up, and enough of them for a p99.
    let words = [
        "--workload",
        "get",
        "--connections",
        "300",
        "--threads",
        "1",
    ];
    let pace = ["--rate", "5k", "--duration", "2200ms", "--rounds", "4"];
    let words = [&words[..], &pace].concat();
    let record = meanwhile(2 * cores, spin, || flawed(&[], &words));
    caught("late starts", "LL004", &record.doctor);
    caught("contention", "LL005", &record.doctor);
}

#[test]
fn errors_counted_as_replies() {
    let _alone = alone();
    let (dir, redis) = (Dir::new(), Redis::start(&[]));
    let file = dir.write(
        "wrong.toml",
        "setup = \"SET {key} {value}\"\n[[command]]\ntemplate = \"LPUSH {key} {value}\"\n",
    );
    let words = ["--workload", file.to_str().unwrap(), "--ops", "5k"];
    let record = measured(&dir, &[&[&redis.url()[..]], &words[..], &SHORT].concat());
    let found = caught("errors counted as replies", "LL007", &record.doctor);
    assert!(found.evidence.contains("WRONGTYPE"), "{}", found.evidence);
}

#[test]
fn keys_that_expire_before_they_are_read() {
    let _alone = alone();
    let (dir, redis) = (Dir::new(), Redis::start(&[]));
    let file = dir.write(
        "expire.toml",
        "setup = \"SET {key} {value} PX 1\"\n[[command]]\ntemplate = \"GET {key}\"\n",
    );
    let words = ["--workload", file.to_str().unwrap(), "--ops", "5k"];
    let record = measured(&dir, &[&[&redis.url()[..]], &words[..], &SHORT].concat());
    caught(
        "keys that expire before they are read",
        "LL008",
        &record.doctor,
    );
}

#[test]
fn persistence_is_on() {
    let _alone = alone();
    let settings = ["--appendonly", "yes", "--appendfsync", "always"];
    let record = flawed(&settings, &["--workload", "set", "--ops", "2k"]);
    let found = caught("persistence is on", "LL009", &record.doctor);
    assert!(
        found.evidence.contains("appendonly yes"),
        "{}",
        found.evidence
    );
    caught("every write waits for the disk", "LL021", &record.doctor);
}

#[test]
fn server_evicts() {
    let _alone = alone();
    let settings = ["--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random"];
    let words = ["--workload", "set", "--value-size", "16KiB", "--ops", "5k"];
    let record = flawed(&settings, &words);
    let found = caught("a server evicts", "LL009", &record.doctor);
    assert!(found.evidence.contains("it evicted"), "{}", found.evidence);
}

#[test]
fn other_clients_use_the_server() {
    let _alone = alone();
    let (dir, redis) = (Dir::new(), Redis::start(&[]));
    let hammer = |over: &AtomicBool| {
        let mut client = Client::open(&redis);
        while !over.load(Ordering::Relaxed) {
            client.call("ECHO hello");
        }
    };
    let url = redis.url();
    let words = [&[&url[..], "--workload", "get", "--ops", "20k"][..], &SHORT].concat();
    let record = meanwhile(1, hammer, || measured(&dir, &words));
    caught("other clients", "LL010", &record.doctor);
    let found = caught("undeclared commands", "LL002", &record.doctor);
    assert!(
        found.evidence.contains(" ECHO, which the workload"),
        "{}",
        found.evidence
    );
}

#[test]
fn no_steady_state() {
    let _alone = alone();
    let (dir, redis) = (Dir::new(), Redis::start(&[]));
    let growing =
        "[[command]]\ntemplate = [\"RPUSH {prefix}list {value}\", \"LRANGE {prefix}list 0 -1\"]\n";
    let file = dir.write("growing.toml", growing);
    let words = ["--workload", file.to_str().unwrap(), "--connections", "2"];
    // Enough rounds for a trend to be visible despite disturbances of single ones.
    let words = [&words[..], &["--duration", "3s", "--rounds", "30"]].concat();
    let record = measured(&dir, &[&[&redis.url()[..]], &words[..], &SHORT].concat());
    caught(
        "work that grows while it is measured",
        "LL012",
        &record.doctor,
    );
}

#[test]
fn arms_that_differ() {
    let _alone = alone();
    let arm = |words: &[&str]| {
        flawed(&[], &[&["--ops", "5k"], words].concat())
            .cases
            .remove(0)
    };
    let a = arm(&["--workload", "get", "--pipeline", "16"]);
    let b = arm(&["--workload", "get", "--value-size", "1KiB"]);
    let found = doctor::arms_differ(&a, &b);
    let found = caught(
        "arms that differ",
        "LL014",
        &loadline_report::findings(found),
    );
    assert!(
        found.evidence.contains("pipeline") && found.evidence.contains("value size"),
        "{}",
        found.evidence
    );
    assert_eq!(doctor::arms_differ(&a, &a.clone()), None);
}

/// Reads of one connection, in rounds that suffice for a bound.
fn reads(words: &[&str]) -> Case {
    let common = ["--connections", "1", "--ops", "6k", "--rounds", "20"];
    flawed(&[], &[words, &common].concat()).cases.remove(0)
}

#[test]
fn hit_that_is_slower_than_a_miss() {
    let _alone = alone();
    let dir = Dir::new();
    let nothing = dir.write(
        "miss.toml",
        "setup = []\n[[command]]\ntemplate = \"GET {key}\"\n",
    );
    let hit = reads(&["--workload", "get", "--value-size", "256KiB"]);
    let miss = reads(&["--workload", nothing.to_str().unwrap()]);
    assert_eq!((hit.hit_ratio, miss.hit_ratio), (Some(1.0), Some(0.0)));
    let found = doctor::hit_beside_miss(&hit, &miss);
    let found = caught(
        "a hit slower than a miss, by its payload",
        "LL016",
        &loadline_report::findings(found),
    );
    assert!(
        found.evidence.contains("a hit returns 2621"),
        "{}",
        found.evidence
    );
    // The reads of another kind than the keys' are refused, and taken for misses.
    let wrong = dir.write(
        "wrong.toml",
        "setup = \"LPUSH {key} {value}\"\n[[command]]\ntemplate = \"GET {key}\"\n",
    );
    let refused = reads(&["--workload", wrong.to_str().unwrap()]);
    let found = doctor::hit_beside_miss(&hit, &refused);
    let found = caught(
        "a hit slower than an error",
        "LL016",
        &loadline_report::findings(found),
    );
    assert!(
        found.evidence.contains("were error replies"),
        "{}",
        found.evidence
    );
}

#[test]
fn settings_that_lie() {
    let _alone = alone();
    let dir = Dir::new();
    let redis = Redis::start(&[
        "--maxmemory",
        "1mb",
        "--slowlog-log-slower-than",
        "0",
        "--client-output-buffer-limit",
        "normal 64mb 32mb 10",
    ]);
    let mut monitor = Client::open(&redis);
    monitor.call("MONITOR");
    redis.answers("CONFIG SET maxmemory 1200000\r\n", "+OK\r\n");
    let url = redis.url();
    let words = [
        "run",
        &url,
        "--quiet",
        "--json",
        "-",
        "--workload",
        "ping",
        "--ops",
        "2k",
    ];
    let ended = dir.run(&[&words[..], &SHORT].concat());
    let record = Record::from_json(ended.stdout.as_bytes()).unwrap();
    caught("a memory limit that is near", "LL022", &record.doctor);
    caught(
        "connections closed when replies pile up",
        "LL025",
        &record.doctor,
    );
    let found = caught("a server that is watched", "LL026", &record.doctor);
    assert!(
        found.evidence.contains("MONITOR") && found.evidence.contains("logs every command"),
        "{}",
        found.evidence
    );
}

/// Rules whose evidence is refused stay silent, and the report says which.
#[test]
fn user_who_may_not_look() {
    let _alone = alone();
    let (dir, redis) = (Dir::new(), Redis::start(&[]));
    redis.answers(
        "ACL SETUSER app on >secret ~* &* +@all -info -config -client|list\r\n",
        "+OK\r\n",
    );
    let url = format!("redis://app:secret@127.0.0.1:{}", redis.port());
    let words = ["--workload", "get", "--ops", "20k", "--rounds", "2"];
    let record = measured(&dir, &[&[&url[..]], &words[..], &SHORT].concat());
    assert_eq!(record.errors(), 0);
    let found = caught("INFO is refused", "LL034", &record.doctor);
    assert!(found.evidence.contains("NOPERM"), "{}", found.evidence);
    let is_false = |finding: &&doctor::Finding| finding.severity == Severity::Critical;
    assert_eq!(record.doctor.iter().find(is_false), None);
    let refused: Vec<&str> = record
        .not_examined
        .iter()
        .map(|refused| refused.command.as_str())
        .collect();
    assert_eq!(refused, ["CLIENT LIST", "CONFIG GET", "INFO"]);
    assert!(record.not_examined[2].rules.contains(&Rule::CountsDiffer));
}

//! A process that writes to a store and is killed: nothing it acknowledged is lost, and no batch is half there.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use loadline_store::{Batch, Durability, Options, Store};

/// Passes the store and the way to write to it to the test in a child process.
const DIRECTORY: &str = "LOADLINE_STORE_DIRECTORY";
const WAY: &str = "LOADLINE_STORE_WAY";

/// Values of every size, some of them in the log only.
fn value(number: u64) -> Vec<u8> {
    let byte = number.to_le_bytes()[0];
    vec![byte; (number * 37 % 6_000) as usize]
}

/// Keys that are written again and again, so that segments are reclaimed.
fn key(number: u64) -> [u8; 8] {
    (number % 500).to_le_bytes()
}

fn options(way: &str) -> Options {
    let options = Options::new().segment_bytes(1 << 18).burst_bytes(1 << 20);
    match way {
        "process" => options,
        "calls" => options.without_mapping(),
        "interval" => options.durability(Durability::Interval(Duration::from_millis(20))),
        "always" => options.durability(Durability::Always),
        other => panic!("{other}"),
    }
}

/// Writes until it is killed: a value, and then a batch of two with the same number. Each number is printed when it was
/// acknowledged. Does nothing when it is run as a test.
#[test]
fn process_that_is_killed() {
    let (Ok(directory), Ok(way)) = (std::env::var(DIRECTORY), std::env::var(WAY)) else {
        return;
    };
    let store = Store::open(directory, options(&way)).unwrap();
    let last = store.get(b"last").unwrap();
    let last = last.map_or(0, |last| u64::from_le_bytes(last.try_into().unwrap()));
    let mut out = std::io::stdout().lock();
    let mut batch = Batch::new();
    for number in last + 1.. {
        store.put(&key(number), &value(number)).unwrap();
        batch.clear();
        batch.put(b"first", &number.to_le_bytes());
        batch.put(b"last", &number.to_le_bytes());
        store.apply(&batch).unwrap();
        writeln!(out, "acknowledged {number}").unwrap();
    }
}

/// Lets a process write for a moment and kills it. Returns the last number that it acknowledged.
fn write_and_kill(directory: &Path, way: &str, lines: usize) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["process_that_is_killed", "--exact", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(WAY, way)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut last = 0;
    let mut line = String::new();
    let mut read = |out: &mut BufReader<_>, last: &mut u64| {
        line.clear();
        let bytes = out.read_line(&mut line).unwrap();
        // Output of the test harness can stand in front of it; a line that was cut does not count.
        let number = line
            .strip_suffix('\n')
            .and_then(|line| line.rsplit_once("acknowledged "));
        if let Some(number) = number.and_then(|(_, number)| number.parse().ok()) {
            *last = number;
        }
        bytes > 0
    };
    for _ in 0..lines {
        assert!(read(&mut out, &mut last), "it ended by itself");
    }
    child.kill().unwrap();
    // It can have acknowledged more.
    while read(&mut out, &mut last) {}
    child.wait().unwrap();
    last
}

fn check(directory: &Path, way: &str, acknowledged: u64) {
    let store = Store::open(directory, options(way)).unwrap();
    let number = |key: &[u8]| {
        let value = store.get(key).unwrap().unwrap();
        u64::from_le_bytes(value.try_into().unwrap())
    };
    let (first, last) = (number(b"first"), number(b"last"));
    assert_eq!(first, last, "half of a batch is there");
    assert!(
        last >= acknowledged,
        "{acknowledged} was acknowledged, the last one is {last}"
    );
    for older in last.saturating_sub(499).max(1)..=last {
        let found = store.get(&key(older)).unwrap();
        // The put that followed the last batch may be there as well.
        let is_next = older + 500 == last + 1 && found.as_ref() == Some(&value(last + 1));
        assert!(
            found.as_ref() == Some(&value(older)) || is_next,
            "{older} of {last}"
        );
    }
}

#[test]
fn killed_process_loses_no_acknowledged_write() {
    let is_long = std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1");
    let kills = if is_long { 250 } else { 3 };
    for way in ["process", "calls", "interval", "always"] {
        let directory = tempfile::tempdir().unwrap();
        let mut acknowledged = 0;
        for kill in 0..kills {
            let lines = if way == "always" { 30 } else { 400 };
            let before = acknowledged;
            acknowledged = write_and_kill(directory.path(), way, lines + kill % 50);
            assert!(acknowledged > before);
            check(directory.path(), way, acknowledged);
        }
        println!("{way}: {kills} kills, {acknowledged} acknowledged, none lost");
    }
}

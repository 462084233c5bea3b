//! A process that writes behind and is killed.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use loadline_cache::codec::Raw;
use loadline_cache::{Cache, Tier, WriteMode, open};

/// Gives the directory to the test that runs as a process of its own.
const DIRECTORY: &str = "LOADLINE_CACHE_DIRECTORY";
/// Keys that may be lost.
const BACKLOG: u64 = 100;

/// Loads values until it is killed, and prints after each how many were loaded and how many the backlog had no room for.
/// Does nothing when it is run as a test.
#[test]
fn process_that_is_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let tier = Tier::open(&format!("store:{directory}"))
        .timeout(Duration::from_secs(60))
        .mode(WriteMode::Behind)
        .backlog(BACKLOG as usize, 1 << 20)
        .batch_bytes(1_000);
    let cache = Cache::<u64, Vec<u8>>::builder()
        .tier(tier, Raw)
        .build(|key: &u64| Ok::<_, io::Error>(Some(key.to_le_bytes().to_vec())))
        .unwrap();
    let mut out = io::stdout().lock();
    for key in 0.. {
        cache.get(&key).unwrap();
        let lost = cache.stats().tier.unwrap().lost_puts;
        writeln!(out, "loaded {} {lost}", key + 1).unwrap();
    }
}

#[test]
fn loss_by_a_kill_is_bounded_by_the_backlog() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::process_that_is_killed", "--nocapture"])
        .env(DIRECTORY, dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let (mut loaded, mut lost) = (0, 0);
    for line in lines {
        let line = line.unwrap();
        let Some((_, numbers)) = line.split_once("loaded ") else {
            continue;
        };
        let (first, second) = numbers.split_once(' ').unwrap();
        (loaded, lost) = (
            first.parse::<u64>().unwrap(),
            second.parse::<u64>().unwrap(),
        );
        if loaded == 5_000 {
            process.kill().unwrap();
            break;
        }
    }
    process.wait().unwrap();
    assert_eq!(loaded, 5_000);
    let store = open(&format!("store:{}", dir.path().display())).unwrap();
    let mut stored = 0;
    store
        .scan(b"", &mut |key, _| {
            let key: u64 = std::str::from_utf8(key).unwrap().parse().unwrap();
            stored += u64::from(key < loaded);
        })
        .unwrap();
    println!("{loaded} loaded, {stored} stored, {lost} counted as lost before the kill");
    assert!(
        stored + lost + BACKLOG >= loaded,
        "{stored} stored, {lost} lost"
    );
    assert!(stored > 0);
}

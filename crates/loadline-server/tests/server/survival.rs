//! A server with a directory.

use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use loadline_server::{Durability, ServerConfig};

use crate::support::{Ours, ask};

fn start(dir: &Path, durability: Durability) -> Ours {
    Ours::start(ServerConfig {
        dir: Some(dir.to_owned()),
        durability,
        ..ServerConfig::default()
    })
}

/// A line of INFO, without its name.
fn info(stream: &mut (impl Read + Write), name: &str) -> String {
    let text = ask(stream, "INFO persistence");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|line| line.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("{text}")).to_owned()
}

fn wait_until(what: &str, mut is_done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_done() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Without its directory the log gets no new file, as with a disk that is full.
#[test]
fn writes_that_are_not_in_the_log_get_an_error_and_reads_go_on() {
    const ERROR: &str = "-MISCONF Errors writing to the AOF file: No such file or directory\r\n";
    let parent = tempfile::tempdir().unwrap();
    let (dir, away) = (parent.path().join("data"), parent.path().join("away"));
    let ours = start(&dir, Durability::Process);
    let mut stream = ours.connect();
    let long = "SETRANGE long 6291455 x";
    assert_eq!(
        ask(&mut stream, &format!("SET k v\r\n{long}\r\nSAVE")),
        "+OK\r\n:6291456\r\n+OK\r\n"
    );
    std::fs::rename(&dir, &away).unwrap();
    // The copy is longer than what is left of the segment.
    let pipeline =
        "GET k\r\nCOPY long other\r\nSTRLEN other\r\nMULTI\r\nINCR n\r\nGET k\r\nEXEC\r\nGET k";
    let expected =
        format!("$1\r\nv\r\n{ERROR}:6291456\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n{ERROR}$1\r\nv\r\n");
    let replies = ask(&mut stream, pipeline);
    // The pipeline can come in several turns: from the second one on, commands that write are refused at once.
    let late = format!(
        "$1\r\nv\r\n{ERROR}:6291456\r\n+OK\r\n{ERROR}+QUEUED\r\n-EXECABORT Transaction discarded because of previous errors.\r\n$1\r\nv\r\n"
    );
    assert!(replies == expected || replies == late, "{replies}");
    assert_eq!(
        ask(&mut stream, "SET k w\r\nDEL k\r\nSAVE\r\nGET k"),
        format!("{ERROR}{ERROR}{ERROR}$1\r\nv\r\n")
    );
    assert_eq!(info(&mut stream, "aof_last_write_status"), "err");
    assert_ne!(info(&mut stream, "rdb_changes_since_last_save"), "0");
    std::fs::rename(&away, &dir).unwrap();
    wait_until("writes are taken again", || {
        info(&mut stream, "aof_last_write_status") == "ok"
    });
    assert_eq!(ask(&mut stream, "SET k w\r\nSAVE"), "+OK\r\n+OK\r\n");
    drop(stream);
    drop(ours);
    let ours = start(&dir, Durability::Process);
    assert_eq!(
        ask(&mut ours.connect(), "GET k\r\nSTRLEN other"),
        "$1\r\nw\r\n:6291456\r\n"
    );
}

#[test]
fn saving_says_what_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    let ours = start(dir.path(), Durability::Process);
    let mut stream = ours.connect();
    let started: u64 = ask(&mut stream, "LASTSAVE").trim()[1..].parse().unwrap();
    assert_eq!(ask(&mut stream, "SET a 1\r\nSADD s m"), "+OK\r\n:1\r\n");
    assert_eq!(info(&mut stream, "rdb_changes_since_last_save"), "2");
    assert_eq!(ask(&mut stream, "BGSAVE"), "+Background saving started\r\n");
    wait_until("it is saved", || {
        info(&mut stream, "rdb_bgsave_in_progress") == "0"
    });
    assert_eq!(info(&mut stream, "rdb_changes_since_last_save"), "0");
    assert_eq!(info(&mut stream, "log_unsynced_bytes"), "0");
    assert_eq!(ask(&mut stream, "SET b 2"), "+OK\r\n");
    assert_ne!(info(&mut stream, "log_unsynced_bytes"), "0");
    assert_eq!(ask(&mut stream, "SAVE"), "+OK\r\n");
    assert_eq!(info(&mut stream, "log_unsynced_bytes"), "0");
    let saved: u64 = ask(&mut stream, "LASTSAVE").trim()[1..].parse().unwrap();
    assert!(saved >= started && info(&mut stream, "rdb_last_save_time") == saved.to_string());
    assert_eq!(ask(&mut stream, "BGSAVE NOW"), "-ERR syntax error\r\n");
    // In memory there is nothing to save.
    let ours = Ours::start(ServerConfig::default());
    let refused = "-ERR this server holds its data in memory only and cannot save it\r\n";
    assert_eq!(
        ask(
            &mut ours.connect(),
            "SAVE\r\nBGSAVE\r\nBGREWRITEAOF\r\nSHUTDOWN SAVE"
        ),
        refused.repeat(4)
    );
}

/// Commands are executed meanwhile, and the files have no garbage after it.
#[test]
fn log_is_rewritten_while_the_server_serves() {
    let dir = tempfile::tempdir().unwrap();
    let ours = start(dir.path(), Durability::Process);
    let mut stream = ours.connect();
    let value = "v".repeat(20_000);
    for _ in 0..20 {
        let commands: Vec<String> = (0..50).map(|key| format!("SET k{key} {value}")).collect();
        assert_eq!(
            ask(&mut stream, &commands.join("\r\n")),
            "+OK\r\n".repeat(50)
        );
    }
    assert_eq!(ask(&mut stream, "SADD s m\r\nDEL k0"), ":1\r\n:1\r\n");
    let size = |stream: &mut _| info(stream, "aof_current_size").parse::<u64>().unwrap();
    let before = size(&mut stream);
    assert!(before > 20_000_000, "{before}");
    for (field, value) in [
        ("aof_rewrite_in_progress", "0"),
        ("aof_last_rewrite_time_sec", "-1"),
        ("aof_current_rewrite_time_sec", "-1"),
    ] {
        assert_eq!(info(&mut stream, field), value, "{field}");
    }
    let started = "+Background append only file rewriting started\r\n";
    // In a transaction, so that all of it is executed in one turn.
    let commands = "MULTI\r\nBGREWRITEAOF\r\nBGREWRITEAOF\r\nSET k1 new\r\nEXEC";
    let replies = ask(&mut stream, commands);
    let busy = "-ERR Background append only file rewriting already in progress\r\n";
    assert!(
        replies.ends_with(&format!("*3\r\n{started}{busy}+OK\r\n")),
        "{replies}"
    );
    wait_until("the log is rewritten", || {
        info(&mut stream, "aof_rewrite_in_progress") == "0"
    });
    assert_eq!(info(&mut stream, "aof_rewrites"), "1");
    assert_eq!(info(&mut stream, "aof_last_bgrewrite_status"), "ok");
    assert_ne!(info(&mut stream, "aof_last_rewrite_time_sec"), "-1");
    // A segment of 4 MiB is reserved for what comes.
    let after = size(&mut stream);
    assert!(after < 8_000_000, "{after} bytes after {before}");
    drop((stream, ours));
    let ours = start(dir.path(), Durability::Process);
    assert_eq!(
        ask(
            &mut ours.connect(),
            "DBSIZE\r\nGET k1\r\nSTRLEN k49\r\nSISMEMBER s m"
        ),
        ":50\r\n$3\r\nnew\r\n:20000\r\n:1\r\n"
    );
}

/// With the durability `interval`, the thread in the background syncs without another write.
#[test]
fn durability_can_be_set_while_the_server_runs() {
    let dir = tempfile::tempdir().unwrap();
    let ours = start(dir.path(), Durability::Process);
    let mut stream = ours.connect();
    let (get, set) = ("CONFIG GET appendfsync", "CONFIG SET appendfsync");
    for (value, class) in [
        ("always", "always"),
        ("everysec", "interval:1000ms"),
        ("no", "process"),
        ("everysec", "interval:1000ms"),
        ("everysec", "interval:1000ms"),
    ] {
        assert_eq!(ask(&mut stream, &format!("{set} {value}")), "+OK\r\n");
        assert!(ask(&mut stream, get).contains(value));
        assert_eq!(info(&mut stream, "log_durability"), class);
        assert_eq!(ask(&mut stream, "SET k v"), "+OK\r\n");
        match value {
            "always" => assert_eq!(info(&mut stream, "log_unsynced_bytes"), "0"),
            "no" => assert_ne!(info(&mut stream, "log_unsynced_bytes"), "0"),
            _ => wait_until("the interval passes", || {
                info(&mut stream, "log_unsynced_bytes") == "0"
            }),
        }
    }
    let wrong = ask(&mut stream, &format!("{set} sometimes"));
    assert_eq!(
        wrong,
        "-ERR CONFIG SET failed (possibly related to argument 'appendfsync') - argument(s) must be one of the \
         following: everysec, always, no\r\n"
    );
    drop((stream, ours));
    let ours = start(dir.path(), Durability::Interval(Duration::from_millis(200)));
    let mut stream = ours.connect();
    // The interval is not known to Redis, and stays.
    assert_eq!(ask(&mut stream, &format!("{set} everysec")), "+OK\r\n");
    assert_eq!(info(&mut stream, "log_durability"), "interval:200ms");
    // Without a directory, there is no other value.
    let ours = Ours::start(ServerConfig::default());
    let refused = ask(&mut ours.connect(), &format!("{set} always"));
    assert!(refused.ends_with("it is always 'no' here\r\n"), "{refused}");
}

#[test]
fn acknowledged_write_has_reached_the_disk_where_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let ours = start(dir.path(), Durability::Always);
    let mut stream = ours.connect();
    for number in 0..20 {
        assert_eq!(ask(&mut stream, &format!("SET k {number}")), "+OK\r\n");
        assert_eq!(info(&mut stream, "log_unsynced_bytes"), "0");
    }
}

/// Keys expire at the same time as before, also while no server runs.
#[test]
fn expiries_survive() {
    let dir = tempfile::tempdir().unwrap();
    let ours = start(dir.path(), Durability::Process);
    let mut stream = ours.connect();
    let commands = "SET long v EX 1000\r\nSET kept v EX 1000\r\nPERSIST kept\r\nSET short v PX 30\r\nSADD s m\r\nPEXPIRE s 30\r\nPEXPIRETIME s\r\nPEXPIRETIME long";
    let replies = ask(&mut stream, commands);
    let mut last = replies.lines().rev();
    let at = last.next().unwrap().to_owned();
    // -2 if it has already expired.
    let short: i128 = last.next().unwrap()[1..].parse().unwrap();
    drop(stream);
    drop(ours);
    wait_until("the short keys expire", || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        i128::try_from(now.as_millis()).unwrap() > short
    });
    let ours = start(dir.path(), Durability::Process);
    let replies = ask(
        &mut ours.connect(),
        "PEXPIRETIME long\r\nEXISTS short s kept\r\nTTL kept\r\nDBSIZE",
    );
    assert_eq!(replies, format!("{at}\r\n:1\r\n:-1\r\n:2\r\n"));
}

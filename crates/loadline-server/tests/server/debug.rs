//! DEBUG of our server and of a real redis-server.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use loadline_server::{DebugCommand, Durability, ServerConfig};

use crate::support::{Ours, ReadWrite, Redis, ask};

fn start(who: DebugCommand) -> (Ours, Redis) {
    let config = ServerConfig {
        debug_command: who,
        ..ServerConfig::default()
    };
    let redis = Redis::start_with(&["--enable-debug-command", who.name()]);
    (Ours::start(config), redis)
}

#[test]
fn debug_is_refused_unless_enabled() {
    for who in [DebugCommand::No, DebugCommand::Local, DebugCommand::Yes] {
        let (ours, redis) = start(who);
        let (mut one, mut other) = (ours.connect(), redis.connect());
        for line in [
            "DEBUG ERROR \"LOADING of a test\"",
            "DEBUG",
            "MULTI\r\nDEBUG ERROR x\r\nEXEC",
            "EVAL \"return redis.call('debug', 'error', 'x')\" 0",
            "CONFIG GET enable-debug-command",
            "INFO errorstats",
        ] {
            assert_eq!(ask(&mut one, line), ask(&mut other, line), "{line} {who:?}");
        }
    }
}

/// The fields of DEBUG OBJECT that both servers have, without the address.
fn object(mut stream: &mut dyn ReadWrite, make: &str) -> Vec<String> {
    let reply = ask(&mut stream, &format!("DEL k\r\n{make}\r\nDEBUG OBJECT k"));
    let last = reply.lines().last().unwrap();
    assert!(last.starts_with("+Value at:0x"), "{make}: {reply}");
    let fields = last.split(' ').skip(2);
    let is_own = |field: &&str| field.starts_with("lru") || field.starts_with("ql_");
    fields
        .filter(|field| !is_own(field))
        .map(str::to_owned)
        .collect()
}

#[test]
fn debug_replies_as_redis_does() {
    let (ours, redis) = start(DebugCommand::Yes);
    let kinds = [
        "string", "integer", "double", "bignum", "null", "array", "set", "map", "attrib", "push",
        "verbatim", "true", "FALSE", "nosuch",
    ];
    let lines = kinds.map(|kind| format!("DEBUG PROTOCOL {kind}"));
    let others = [
        "DEBUG ERROR \"FOO \\r\\n bar\"",
        "DEBUG ERROR \"\"",
        "DEBUG ERROR a b",
        "DEBUG ERROR",
        "DEBUG SLEEP",
        "DEBUG SLEEP x",
        "DEBUG SLEEP -1",
        "DEBUG PROTOCOL",
        "DEBUG HELP x",
        "DEBUG NOSUCH",
        "DEBUG OBJECT",
        "DEBUG OBJECT nope",
        "DEBUG SET-ACTIVE-EXPIRE",
        "DEBUG RELOAD nosuch",
        "DEBUG DIGEST x",
        "DEBUG DIGEST-VALUE",
        "DEBUG POPULATE",
        "DEBUG POPULATE -1",
        "DEBUG POPULATE x",
        "DEBUG POPULATE 1 p x",
        "DEBUG POPULATE 1 p -1",
        "DEBUG POPULATE 1 p 2 3",
        "INFO errorstats",
    ];
    for hello in ["HELLO 2", "HELLO 3"] {
        let (mut one, mut other) = (ours.connect(), redis.connect());
        ask(&mut one, hello);
        ask(&mut other, hello);
        for line in lines.iter().map(String::as_str).chain(others) {
            assert_eq!(ask(&mut one, line), ask(&mut other, line), "{line} {hello}");
        }
    }
    let (mut one, mut other) = (ours.connect(), redis.connect());
    for make in [
        "SET k foo",
        "SET k 123456",
        "SET k 99999999999",
        "SET k abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "RPUSH k a b c",
        "SADD k 1 2 3",
        "SADD k a",
        "HSET k f v",
        "ZADD k 1 a",
        "XADD k 1-1 f v",
        "SET k v EX 100",
    ] {
        assert_eq!(object(&mut one, make), object(&mut other, make), "{make}");
    }
    let help = ask(&mut one, "DEBUG HELP");
    let theirs = ask(&mut other, "DEBUG HELP");
    // Ours has fewer subcommands, with the same texts. That of POPULATE goes on about replicas and clusters.
    let theirs = theirs.replace(
        "instead of the 'key' prefix. These",
        "instead of the 'key' prefix.\nThese",
    );
    assert!(
        help.lines().skip(1).all(|line| theirs.contains(line)),
        "{help}"
    );
}

/// Lines that make data of all kinds, small and large, after which the digests are compared.
const CHANGES: [&str; 18] = [
    "SET k foo",
    "SET k 123456 EX 1000",
    "RPUSH l a 1 \"\" b",
    "LREM l 1 a",
    "SADD s 1 2 3",
    "SADD s a b",
    "SREM s 2",
    "HSET h f v g 2 \"\" x",
    "HDEL h g",
    "ZADD z 1 a 1.5 b -inf c 3e300 d 0.1 7",
    "ZINCRBY z 0.2 7",
    "XADD x 5-1 f v g w",
    "XADD x 6-0 f v",
    "XDEL x 5-1",
    "SELECT 3\r\nSET k foo\r\nSELECT 0",
    "DEBUG POPULATE 300",
    "DEBUG POPULATE 3 l 4",
    "DEBUG POPULATE 12 m 8",
];

#[test]
fn digests_are_those_of_redis() {
    let (ours, redis) = start(DebugCommand::Yes);
    let (mut one, mut other) = (ours.connect(), redis.connect());
    let mut seen = BTreeSet::new();
    for line in CHANGES {
        let line = format!(
            "{line}\r\nDEBUG DIGEST-VALUE k l s h z x nope m:11 l:0\r\nGET m:11\r\nDBSIZE\r\nDEBUG DIGEST"
        );
        let reply = ask(&mut one, &line);
        assert_eq!(reply, ask(&mut other, &line), "{line}");
        seen.insert(reply.lines().last().unwrap().to_owned());
    }
    assert_eq!(
        seen.len(),
        CHANGES.len(),
        "each change has a digest of its own"
    );
    // Large collections have other encodings.
    let members: Vec<String> = (0..600)
        .map(|number| format!("{number} m{number}"))
        .collect();
    let members = members.join(" ");
    let line = format!(
        "RPUSH ll {members}\r\nSADD ls {members}\r\nHSET lh {members}\r\nZADD lz {members}\r\nDEBUG DIGEST-VALUE ll ls lh lz\r\nDEBUG DIGEST\r\nFLUSHALL\r\nDEBUG DIGEST"
    );
    let reply = ask(&mut one, &line);
    assert_eq!(reply, ask(&mut other, &line));
    assert!(
        reply.ends_with(&format!("+{}\r\n", "0".repeat(40))),
        "{reply}"
    );
}

/// With a directory, the log is closed and opened again; without one, values go through their dumps.
#[test]
fn reloaded_data_is_that_of_before() {
    let dir = tempfile::tempdir().unwrap();
    for dir in [None, Some(dir.path().to_owned())] {
        let config = ServerConfig {
            debug_command: DebugCommand::Yes,
            durability: Durability::Always,
            dir: dir.clone(),
            ..ServerConfig::default()
        };
        let ours = Ours::start(config.clone());
        let (mut client, mut watcher) = (ours.connect(), ours.connect());
        for line in CHANGES {
            ask(&mut client, line);
        }
        let many: String = (0..600)
            .map(|number| format!(" {number} m{number}"))
            .collect();
        let line = format!(
            "RPUSH ll{many}\r\nSADD ls{many}\r\nHSET lh{many}\r\nZADD lz{many}\r\nSADD t x\r\nEXPIRE t 1000\r\nHSET hf a 1 b 2\r\nHEXPIRE hf 1000 FIELDS 1 a\r\n\
             XGROUP CREATE x g 0\r\nFUNCTION LOAD \"#!lua name=lib\\nredis.register_function('f', function() return 7 end)\"\r\n\
             CONFIG SET maxmemory-policy allkeys-lfu maxmemory 1gb"
        );
        ask(&mut client, &line);
        let shown = "DEBUG DIGEST\r\nEXPIRETIME t\r\nHEXPIRETIME hf FIELDS 2 a b\r\nXINFO GROUPS x\r\nFCALL f 0\r\nDBSIZE";
        let before = ask(&mut client, shown);
        ask(&mut watcher, "WATCH k");
        let reply = ask(&mut client, "SET a 1\r\nDEBUG RELOAD\r\nGET a\r\nDEL a");
        assert_eq!(reply, "+OK\r\n+OK\r\n$1\r\n1\r\n:1\r\n");
        assert_eq!(ask(&mut client, shown), before, "{dir:?}");
        // The policy applies to what was loaded. A minute can end meanwhile, which takes one from the counter.
        let frequency = ask(&mut client, "OBJECT FREQ t");
        assert!([":5\r\n", ":4\r\n"].contains(&&*frequency), "{frequency}");
        let reply = ask(&mut watcher, "MULTI\r\nGET k\r\nEXEC");
        assert!(reply.ends_with("*-1\r\n"), "{reply}");
        let reply = ask(
            &mut client,
            "MULTI\r\nDEBUG RELOAD\r\nEXEC\r\nDEBUG RELOAD NOSAVE",
        );
        assert_eq!(reply.matches("-ERR").count(), 2, "{reply}");
        drop((client, watcher, ours));
        if dir.is_some() {
            let again = Ours::start(config);
            let digest = ask(&mut again.connect(), "DEBUG DIGEST");
            assert!(before.starts_with(&digest), "{before} {digest}");
        }
    }
}

#[test]
fn debug_sleep_stops_the_server() {
    let (ours, redis) = start(DebugCommand::Local);
    for stream in [
        &mut ours.connect() as &mut dyn ReadWrite,
        &mut redis.connect(),
    ] {
        let mut stream = stream;
        let begun = Instant::now();
        // The key expires meanwhile.
        let reply = ask(&mut stream, "SET k v PX 100\r\nDEBUG SLEEP 0.2\r\nGET k");
        assert_eq!(reply, "+OK\r\n+OK\r\n$-1\r\n");
        assert!(begun.elapsed() >= Duration::from_millis(200));
    }
}

/// Without the sweep, an expired key is counted until it is asked for.
#[test]
fn expired_keys_stay_without_active_expiry() {
    let (ours, redis) = start(DebugCommand::Yes);
    for stream in [
        &mut ours.connect() as &mut dyn ReadWrite,
        &mut redis.connect(),
    ] {
        let mut stream = stream;
        let stays = "DEBUG SET-ACTIVE-EXPIRE 0\r\nSET k v PX 1\r\nDEBUG SLEEP 0.4";
        assert_eq!(ask(&mut stream, stays), "+OK\r\n+OK\r\n+OK\r\n");
        // Several turns of the timer.
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(
            ask(&mut stream, "DBSIZE\r\nGET k\r\nDBSIZE"),
            ":1\r\n$-1\r\n:0\r\n"
        );
        ask(&mut stream, "DEBUG SET-ACTIVE-EXPIRE 1\r\nSET k v PX 1");
        let until = Instant::now() + Duration::from_secs(60);
        while ask(&mut stream, "DBSIZE") != ":0\r\n" {
            assert!(Instant::now() < until);
        }
    }
}

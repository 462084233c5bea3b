//! MIGRATE to and from a real redis-server, and beside other clients.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use loadline_server::{DebugCommand, Durability, ServerConfig};

use crate::support::{Ours, ReadWrite, Redis, ask, ask_one};

/// Values of all kinds, small and large, and one that expires.
const VALUES: &str = "SET s text\r\nSET n 12\r\nSET e x PX 3600000\r\nAPPEND long 0123456789012345678901234567890\r\nRPUSH l a b 3\r\nSADD m a b c\r\n\
    SADD i 1 2 3\r\nHSET h a 1 b two\r\nZADD z 1.5 a -2 b\r\nXADD x 1-1 a b\r\nXGROUP CREATE x g 0\r\nPFADD p a b\r\nSETBIT b 100 1";
const KEYS: &str = "s n e long l m i h z x p b";

/// A redis-server on a TCP port.
fn redis(options: &[&str]) -> (Redis, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let number = port.to_string();
    let options = [
        &["--port", &number, "--enable-debug-command", "yes"],
        options,
    ]
    .concat();
    (Redis::start_with(&options), port)
}

fn ours(config: ServerConfig) -> Ours {
    Ours::start(ServerConfig {
        debug_command: DebugCommand::Yes,
        ..config
    })
}

fn digest(mut stream: &mut dyn ReadWrite) -> String {
    ask(&mut stream, "DEBUG DIGEST")
}

#[test]
fn values_of_all_kinds_migrate_to_redis_and_back() {
    let (ours, (redis, port)) = (ours(ServerConfig::default()), redis(&[]));
    let (mut here, mut there) = (ours.connect(), redis.connect());
    let many: String = (0..600)
        .map(|number| format!(" {number} m{number}"))
        .collect();
    let values = format!(
        "{VALUES}\r\nZADD large{many}\r\nHSET fields{many}\r\nRPUSH items{many}\r\nSADD members{many}"
    );
    let keys = format!("{KEYS} large fields items members");
    for database in [0, 3] {
        ask(&mut here, &format!("SELECT {database}\r\n{values}"));
    }
    ask(&mut there, "SELECT 3");
    let empty = digest(&mut there);
    let full = digest(&mut here);
    let back = ours.address.port();
    for (port, database) in [(port, 0), (port, 3)] {
        let line = format!(
            "SELECT {database}\r\nMIGRATE localhost {port} \"\" {database} 60000 KEYS {keys} missing"
        );
        assert_eq!(ask(&mut here, &line), "+OK\r\n+OK\r\n");
    }
    assert_eq!(
        (digest(&mut here), digest(&mut there)),
        (empty.clone(), full.clone())
    );
    let life = ask(&mut there, "PTTL e");
    let life: u64 = life[1..].trim().parse().unwrap();
    assert!((1..=3_600_000).contains(&life), "{life}");
    for database in [0, 3] {
        let line = format!(
            "SELECT {database}\r\nMIGRATE 127.0.0.1 {back} \"\" {database} 60000 KEYS {keys}"
        );
        assert_eq!(ask(&mut there, &line), "+OK\r\n+OK\r\n");
    }
    assert_eq!((digest(&mut here), digest(&mut there)), (full, empty));
}

#[test]
fn migrate_replies_as_in_redis() {
    let ours = ours(ServerConfig::default());
    let (source, _) = redis(&[]);
    let (target, port) = redis(&["--requirepass", "secret"]);
    let (mut one, mut other, mut there) = (ours.connect(), source.connect(), target.connect());
    ask(
        &mut there,
        "AUTH secret\r\nACL SETUSER ann on >word ~* +@all",
    );
    let to = |rest: &str| format!("MIGRATE 127.0.0.1 {port} {rest}");
    for line in [
        to("k 0 5000"),
        to("k 0 5000 AUTH wrong"),
        to("k 0 5000 AUTH secret COPY"),
        to("k 0 5000 AUTH secret"),
        to("k 0 5000 AUTH secret REPLACE"),
        to("k 0 5000 AUTH secret"),
        to("\"\" 0 5000 AUTH secret REPLACE KEYS k gone l k"),
        to("\"\" 0 5000 AUTH secret KEYS"),
        to("\"\" 0 5000 AUTH2 ann word COPY REPLACE KEYS h"),
        to("\"\" 0 5000 AUTH2 ann secret COPY REPLACE KEYS h"),
        to("h 99 5000 AUTH secret"),
        to("h x 5000 AUTH secret"),
        to("h 0 x"),
        to("h 0 5000 KEYS h"),
        to("h 0 5000 AUTH"),
        to("h 0 5000 AUTH2 ann"),
        to("h 0 5000 NOSUCH"),
        "MIGRATE 127.0.0.1 1 h 0 500".to_owned(),
        "MIGRATE 127.0.0.1 0 gone 0 500".to_owned(),
        "MIGRATE a b c".to_owned(),
        "COMMAND GETKEYS MIGRATE a 1 \"\" 0 1 AUTH keys KEYS x y".to_owned(),
        "COMMAND GETKEYS MIGRATE a 1 k 0 1 KEYS x y".to_owned(),
        "COMMAND GETKEYSANDFLAGS MIGRATE a 1 k 0 1 AUTH2 keys keys COPY".to_owned(),
        "DBSIZE\r\nINFO errorstats".to_owned(),
    ] {
        for stream in [&mut one as &mut dyn ReadWrite, &mut other] {
            let mut stream = stream;
            ask(&mut stream, "SETNX k v\r\nRPUSH l a\r\nHSET h a b");
        }
        let first = ask(&mut one, &line);
        let state = ask(&mut there, "DBSIZE\r\nDEBUG DIGEST");
        ask(&mut there, "FLUSHALL");
        let second = ask(&mut other, &line);
        let same = ask(&mut there, "DBSIZE\r\nDEBUG DIGEST");
        ask(&mut there, "FLUSHALL");
        let left = ask(&mut one, "EXISTS k l h");
        assert_eq!(
            (&first, left),
            (&second, ask(&mut other, "EXISTS k l h")),
            "{line}"
        );
        // After an error of AUTH or SELECT, Redis restores the keys in another database, or as another user.
        if !["WRONGPASS", "DB index"]
            .iter()
            .any(|error| second.contains(error))
        {
            assert_eq!(state, same, "{line}");
        }
    }
}

/// Waits until this number of clients wait.
fn until_blocked(stream: &mut TcpStream, clients: usize) {
    let line = format!("blocked_clients:{clients}\r\n");
    while !ask(stream, "INFO clients").contains(&line) {
        std::thread::yield_now();
    }
}

#[test]
fn other_clients_are_served_while_a_key_is_on_its_way() {
    let dir = tempfile::tempdir().unwrap();
    let config = ServerConfig {
        dir: Some(dir.path().to_owned()),
        durability: Durability::Always,
        ..ServerConfig::default()
    };
    let server = ours(config.clone());
    let target = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = target.local_addr().unwrap().port();
    let mut client = server.connect();
    ask(
        &mut client,
        "RPUSH k a\r\nRPUSH gone b\r\nCONFIG SET notify-keyspace-events KEA",
    );
    let (mut mover, mut leaver) = (server.connect(), server.connect());
    let accept = |key: &str, stream: &mut TcpStream| {
        write!(stream, "MIGRATE 127.0.0.1 {port} {key} 0 60000\r\n").unwrap();
        target.accept().unwrap().0
    };
    let (mut first, mut second) = (accept("k", &mut mover), accept("gone", &mut leaver));
    // What does not change the keys is executed.
    assert_eq!(
        ask(&mut client, "LRANGE k 0 -1\r\nSET other 1"),
        "*1\r\n$1\r\na\r\n+OK\r\n"
    );
    // What does waits: by name, or by a script, and also for one that has waited for another key.
    let mut held = [server.connect(), server.connect(), server.connect()];
    let commands = [
        "RPUSH k c",
        "EVAL \"return redis.call('exists', 'k')\" 0",
        "BLMOVE source k LEFT RIGHT 0",
    ];
    for (stream, command) in held.iter_mut().zip(commands) {
        write!(stream, "{command}\r\n").unwrap();
    }
    until_blocked(&mut client, 5);
    ask(&mut client, "RPUSH source d");
    assert_eq!(ask(&mut client, "LLEN source\r\nLLEN k"), ":1\r\n:1\r\n");
    drop(leaver);
    let mut watcher = server.connect();
    ask_one(&mut watcher, "SUBSCRIBE __keyevent@0__:del");
    first.write_all(b"+OK\r\n+OK\r\n").unwrap();
    assert_eq!(ask(&mut mover, "PING"), "+OK\r\n+PONG\r\n");
    let mut event = [0; 64];
    let bytes = watcher.read(&mut event).unwrap();
    let event = String::from_utf8_lossy(&event[..bytes]);
    assert!(event.contains("del\r\n$1\r\nk\r\n"), "{event}");
    let [push, script, block] = &mut held;
    assert_eq!(ask(push, "PING"), ":1\r\n+PONG\r\n");
    assert_eq!(ask(block, "PING"), "$1\r\nd\r\n+PONG\r\n");
    // The keys of a script are not known, so that it waits for all migrations. A client that goes does not stop its own.
    until_blocked(&mut client, 1);
    second.write_all(b"+OK\r\n+OK\r\n").unwrap();
    assert_eq!(ask(script, "EXISTS gone"), ":1\r\n:0\r\n");
    drop((client, mover, held, watcher, server));
    let again = ours(config);
    assert_eq!(
        ask(&mut again.connect(), "EXISTS gone other\r\nLRANGE k 0 -1"),
        ":1\r\n*2\r\n$1\r\nc\r\n$1\r\nd\r\n"
    );
}

#[test]
fn migrate_in_a_transaction_or_a_script_is_refused() {
    let server = ours(ServerConfig::default());
    let mut client = server.connect();
    ask(&mut client, "SET k v");
    let refused = "ERR MIGRATE inside a transaction or a script would hold up all clients";
    for line in [
        "MULTI\r\nMIGRATE 127.0.0.1 1 k 0 1\r\nEXEC",
        "EVAL \"return redis.call('migrate', '127.0.0.1', 1, 'k', 0, 1)\" 0",
    ] {
        let reply = ask(&mut client, line);
        assert!(reply.contains(refused), "{reply}");
    }
}

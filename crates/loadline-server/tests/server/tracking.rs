//! CLIENT TRACKING: replies and notices of several clients, compared with those of a real redis-server.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use loadline_server::ServerConfig;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::support::{Ours, ReadWrite, Redis, ask};

/// Commands of a client; `k` stands for a key, `@` for the id of the client that gets redirected notices.
const COMMANDS: &str = "\
CLIENT TRACKING ON|CLIENT TRACKING ON NOLOOP|CLIENT TRACKING ON REDIRECT @|CLIENT TRACKING ON REDIRECT @ NOLOOP|CLIENT TRACKING OFF|CLIENT TRACKING ON OPTIN|CLIENT TRACKING ON OPTOUT
CLIENT TRACKING ON BCAST|CLIENT TRACKING ON BCAST PREFIX a PREFIX b|CLIENT TRACKING ON BCAST NOLOOP REDIRECT @|CLIENT TRACKING ON BCAST PREFIX ab|CLIENT TRACKING ON BCAST PREFIX c NOLOOP
CLIENT TRACKING ON PREFIX a|CLIENT TRACKING ON OPTIN OPTOUT|CLIENT TRACKING ON BCAST OPTIN|CLIENT TRACKING x|CLIENT TRACKING ON REDIRECT 999999|CLIENT TRACKING ON REDIRECT x|CLIENT TRACKING ON REDIRECT @ REDIRECT @|CLIENT TRACKING ON BOGUS|CLIENT TRACKING
CLIENT CACHING YES|CLIENT CACHING NO|CLIENT CACHING x|CLIENT GETREDIR|CLIENT TRACKINGINFO|CLIENT TRACKINGINFO|CLIENT TRACKING ON REDIRECT|GETT|ECHO x
GET k|GET k|GET k|MGET k k|STRLEN k|TYPE k|EXISTS k k|TTL k|LRANGE l 0 -1|SORT_RO l|OBJECT ENCODING k|KEYS *|DUMP nope|WATCH k|UNWATCH|HGET h f|HGET h f
SET k 100|SET k 100|SET k 200 NX|MSET k 1 k 2|APPEND k x|DEL k|DEL k k|RENAME k k|COPY k k REPLACE|EXPIRE k 1000|PERSIST k|GETEX k PERSIST|GETDEL k|RPUSH l x|LPOP l|HSET h f 100|HDEL h f|HDEL h f|SUNIONSTORE k k|FLUSHALL|FLUSHDB|SWAPDB 0 1|SELECT 1|SELECT 0
MULTI;GET k;SET k 100;GET k;EXEC|MULTI;SET k 100;SET k 200;EXEC|MULTI;CLIENT CACHING YES;GET k;EXEC|MULTI;FLUSHDB;EXEC|CLIENT CACHING YES;MULTI;GET k;GET k;EXEC|CLIENT REPLY SKIP;SET k 100|CLIENT CACHING YES;GET k;GET k|CLIENT CACHING NO;GET k|GET k;SET k 100;GET k
EVAL \"return redis.call('set',KEYS[1],'100')\" 1 k|EVAL \"return redis.call('get',KEYS[1])\" 2 k k|EVAL_RO \"return redis.call('get','a')\" 1 k|EVAL \"return 1\" 1 k|HELLO 2|HELLO 3|HELLO 3|RESET|RESET;HELLO 3";

const KEYS: [&str; 5] = ["a", "b", "ab", "c", "\"\""];

/// Three clients of a server: two that track keys, and one in RESP2 that gets redirected notices.
struct Clients<S> {
    streams: [S; 3],
    id: String,
}

impl<S: ReadWrite> Clients<S> {
    fn new(mut streams: [S; 3]) -> Self {
        let id = ask(&mut streams[2], "CLIENT ID");
        let id = id.trim_matches([':', '\r', '\n']).to_owned();
        ask(
            &mut streams[2],
            "SUBSCRIBE __redis__:invalidate\r\nUNSUBSCRIBE",
        );
        Self { streams, id }
    }

    fn ask(&mut self, client: usize, line: &str) -> String {
        let line = line.replace('@', &self.id).replace(';', "\r\n");
        let reply = ask_twice(&mut self.streams[client], &line);
        match line.contains("TRACKINGINFO") || line.contains("GETREDIR") {
            true => reply.replace(&format!(":{}\r\n", self.id), ":@\r\n"),
            false => reply,
        }
    }

    /// Everything that the third client was sent: a subscriber in RESP2 has no ECHO.
    fn redirected(&mut self) -> String {
        let stream = &mut self.streams[2];
        stream.write_all(b"PING end\r\n").unwrap();
        let (mut said, mut buffer) = (Vec::new(), [0; 4_096]);
        while !said.ends_with(b"$3\r\nend\r\n") {
            let bytes = stream.read(&mut buffer).unwrap();
            assert!(bytes > 0, "closed");
            said.extend_from_slice(&buffer[..bytes]);
        }
        String::from_utf8(said).unwrap()
    }
}

/// Sends `line`, and returns everything up to the reply to an ECHO that was sent after that to another one: notices about keys with
/// prefixes come behind the replies of a turn.
fn ask_twice(stream: &mut impl ReadWrite, line: &str) -> String {
    const ENDS: [&[u8]; 2] = [b"$4\r\nturn\r\n", b"$3\r\nend\r\n"];
    let (mut said, mut buffer) = (Vec::new(), [0; 4_096]);
    for (text, end) in [format!("{line}\r\nECHO turn\r\n"), "ECHO end\r\n".into()]
        .iter()
        .zip(ENDS)
    {
        stream.write_all(text.as_bytes()).unwrap();
        while !said.windows(end.len()).any(|part| part == end) {
            let bytes = stream.read(&mut buffer).unwrap();
            assert!(bytes > 0, "closed after {line}");
            said.extend_from_slice(&buffer[..bytes]);
        }
    }
    said.into_iter().map(char::from).collect()
}

#[test]
fn notices_of_random_commands_are_those_of_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let commands: Vec<&str> = COMMANDS.split(['|', '\n']).collect();
    for seed in 0..30 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut one: Clients<TcpStream> = Clients::new([(); 3].map(|()| ours.connect()));
        let mut other: Clients<UnixStream> = Clients::new([(); 3].map(|()| redis.connect()));
        for stream in [
            &mut one.streams[2] as &mut dyn ReadWrite,
            &mut other.streams[2],
        ] {
            let mode: &[u8] = match seed % 3 {
                0 => b"HELLO 3\r\n",
                _ => b"SUBSCRIBE __redis__:invalidate\r\n",
            };
            stream.write_all(mode).unwrap();
        }
        if seed % 3 == 0 {
            let _ = (one.redirected(), other.redirected());
        } else {
            assert_eq!(one.redirected(), other.redirected());
        }
        let mut before = Vec::new();
        for _ in 0..120 {
            let command = commands.choose(&mut rng).unwrap();
            let mut line = String::new();
            for word in command.split_inclusive([' ', ';']) {
                let end = if word.ends_with([' ', ';']) {
                    word.len() - 1
                } else {
                    word.len()
                };
                let (word, gap) = word.split_at(end);
                line += if word == "k" {
                    KEYS.choose(&mut rng).unwrap()
                } else {
                    word
                };
                line += gap;
            }
            let client = rng.random_range(0..2);
            before.push(format!("{client}: {line}"));
            let said = (one.ask(client, &line), other.ask(client, &line));
            assert_eq!(
                comparable(&line, &said.0),
                comparable(&line, &said.1),
                "{seed}: {before:#?}"
            );
            assert_eq!(one.redirected(), other.redirected(), "{seed}: {before:#?}");
        }
    }
}

/// The lines of a reply; the id of a connection is that of its server, and KEYS has no order.
fn comparable(command: &str, reply: &str) -> Vec<String> {
    let mut lines: Vec<String> = reply.lines().map(str::to_owned).collect();
    if let Some(place) = lines.iter().position(|line| line == "id") {
        lines.remove(place + 1);
    }
    if command.contains("KEYS *") || command.contains("DEL ") {
        lines.sort();
    }
    lines
}

/// Keys that the server removes by itself, and a client that gets no notices any more.
#[test]
fn expired_and_evicted_keys_and_a_broken_redirect_are_noticed() {
    let ours = Ours::start(ServerConfig::default());
    let [mut reader, mut all, mut writer, mut gone] = [(); 4].map(|()| ours.connect());
    ask(&mut reader, "HELLO 3\r\nCLIENT TRACKING ON");
    ask(&mut all, "HELLO 3\r\nCLIENT TRACKING ON BCAST");
    ask(&mut writer, "SET k v PX 20");
    assert_eq!(
        ask(&mut all, "PING"),
        ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n+PONG\r\n"
    );
    ask(&mut reader, "GET k");
    let notice = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
    for client in [&mut reader, &mut all] {
        until_said(client, notice);
    }
    ask(
        &mut writer,
        "SET k v EX 1000\r\nCONFIG SET maxmemory-policy volatile-ttl",
    );
    until_said(&mut all, notice);
    ask(&mut reader, "GET k");
    ask(&mut writer, "CONFIG SET maxmemory 1");
    for client in [&mut reader, &mut all] {
        until_said(client, notice);
    }
    ask(&mut writer, "CONFIG SET maxmemory 0");
    let id = ask(&mut gone, "CLIENT ID");
    let id = id.trim_matches([':', '\r', '\n']);
    let said = ask(
        &mut reader,
        &format!("CLIENT TRACKING ON REDIRECT {id}\r\nGET k"),
    );
    assert_eq!(said, "+OK\r\n_\r\n");
    drop(gone);
    let until = Instant::now() + Duration::from_secs(60);
    while ask(&mut writer, &format!("CLIENT LIST ID {id}")).contains("id=") {
        assert!(Instant::now() < until, "it is still there");
    }
    ask(&mut writer, "SET k v");
    let said = ask(&mut reader, "CLIENT TRACKINGINFO");
    let broken = format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{id}\r\n");
    assert!(
        said.starts_with(&broken) && said.contains("broken_redirect"),
        "{said}"
    );
    ask(&mut reader, "CLIENT TRACKING OFF");
    drop(all);
    let until = Instant::now() + Duration::from_secs(60);
    while !ask(&mut writer, "INFO clients").contains("tracking_clients:0\r\n") {
        assert!(Instant::now() < until, "a client that has gone tracks keys");
    }
}

fn until_said(client: &mut TcpStream, expected: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    let mut said = String::new();
    while said != expected {
        assert!(Instant::now() < until, "{said}");
        said += ask(client, "PING").trim_end_matches("+PONG\r\n");
    }
}

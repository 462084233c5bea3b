use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use loadline_resp::{Limits, Protocol, RequestParser, encode};

use super::*;
use crate::exit::Exit;
use crate::spelling::Server;

/// A server over a list of keys: it scans three at a time, knows DEL but not UNLINK, and lists its
/// commands.
fn listing(mut keys: Vec<String>) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::local(listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let (mut parser, mut buffer) = (RequestParser::new(Limits::default()), [0; 65_536]);
        loop {
            let bytes = socket.read(&mut buffer).unwrap();
            if bytes == 0 {
                return;
            }
            let mut heard = &buffer[..bytes];
            while !heard.is_empty() {
                let (used, request) = parser.parse(heard).unwrap();
                let words: Vec<String> = request
                    .unwrap()
                    .iter()
                    .map(|word| String::from_utf8(word.to_vec()).unwrap())
                    .collect();
                heard = &heard[used..];
                socket.write_all(&answer(&words, &mut keys)).unwrap();
            }
        }
    });
    Endpoint::local(server)
}

fn answer(words: &[String], keys: &mut [String]) -> Vec<u8> {
    let mut out = Vec::new();
    match words[0].as_str() {
        "PING" => encode::simple(&mut out, b"PONG"),
        "DBSIZE" => encode::integer(&mut out, keys.len() as i64),
        "SCAN" => {
            // A careless server: it ignores the pattern, and deletions do not move its cursor.
            let at: usize = words[1].parse().unwrap();
            let some = keys.iter().skip(at).take(3).collect::<Vec<_>>();
            let next = if at + 3 < keys.len() { at + 3 } else { 0 };
            encode::array_header(&mut out, 2);
            encode::bulk(&mut out, next.to_string().as_bytes());
            encode::array_header(&mut out, some.len() as u64);
            some.iter()
                .for_each(|key| encode::bulk(&mut out, key.as_bytes()));
        }
        "DEL" => {
            for key in keys.iter_mut().filter(|key| words[1..].contains(key)) {
                *key = "gone".into();
            }
            encode::integer(&mut out, words.len() as i64 - 1);
        }
        "COMMAND" => {
            encode::array_header(&mut out, words.len() as u64 - 2);
            for name in &words[2..] {
                if name == "GET" {
                    encode::command(&mut out, &["get"]);
                } else {
                    encode::null_array(&mut out, Protocol::Resp2);
                }
            }
        }
        "CONFIG" => encode::command(&mut out, &[words[2].as_str(), "yes"]),
        "INFO" => encode::bulk(&mut out, b"# Server\r\nredis_version:7.0.15\r\n"),
        _ => encode::error(&mut out, b"ERR unknown command"),
    }
    out
}

#[test]
fn clean_up_removes_the_runs_keys_and_no_others() {
    let mut keys: Vec<String> = (0..10)
        .map(|number| format!("loadline:r:string:{number:08}"))
        .collect();
    keys.extend(["theirs".into(), "loadline:x:1".into()]);
    let mut admin = Admin::open(&listing(keys)).unwrap();
    assert_eq!(admin.key_count().unwrap(), 12);
    let mut remove = |prefix: &str| {
        let deadline = Instant::now() + Duration::from_secs(60);
        admin.remove_prefix(prefix, deadline).unwrap().removed
    };
    assert_eq!(remove("loadline:r:"), 10);
    assert_eq!(remove("loadline:r:"), 0);
    assert_eq!(remove("theirs"), 1);
}

#[test]
fn server_is_asked_what_it_can_do() {
    let mut admin = Admin::open(&listing(vec![])).unwrap();
    assert_eq!(
        admin
            .missing_commands(&["GET".into(), "XADD".into()])
            .unwrap(),
        ["XADD"]
    );
    assert_eq!(admin.setting("appendonly").unwrap().as_deref(), Some("yes"));
    assert_eq!(
        admin.info(&["server"]).unwrap().get("redis_version"),
        Some("7.0.15")
    );
}

#[test]
fn info_is_read_as_it_is_written() {
    let info = Info::parse(
        b"# CPU\r\nused_cpu_sys:1.500000\r\nused_cpu_user:0.250000\r\n\r\n# Commandstats\r\n\
          cmdstat_get:calls=12,usec=34,usec_per_call=2.83,rejected_calls=0,failed_calls=0\r\ncmdstat_odd:calls=x\r\nuptime_in_seconds:7\r\n",
    );
    assert_eq!(info.cpu(), Some(Duration::from_millis(1_750)));
    assert_eq!(info.number("uptime_in_seconds"), Some(7));
    assert_eq!(info.number("used_cpu_sys"), None);
    let databases = Info::parse(b"# Keyspace\r\ndb0:keys=3,expires=0,avg_ttl=0\r\ndb7:keys=4,expires=4,avg_ttl=9\r\ndbs:keys=1\r\n");
    assert_eq!((databases.key_count(), info.key_count()), (7, 0));
    let stats: Vec<_> = info.commands().collect();
    assert_eq!(
        stats,
        [(
            "get",
            CommandStat {
                calls: 12,
                time: Some(Duration::from_micros(34))
            }
        )]
    );
}

#[test]
fn absent_server_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::local(listener.local_addr().unwrap());
    drop(listener);
    let failure = Admin::open(&Endpoint::local(server)).unwrap_err();
    assert_eq!(failure.exit(), Exit::Unavailable);
    assert!(failure.to_string().contains("refused"), "{failure}");
}

/// The address of a child server is ours: the user wrote `spawn:redis-server`.
#[test]
fn server_is_called_what_the_user_calls_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::local(listener.local_addr().unwrap());
    drop(listener);
    let endpoint = Endpoint::local(server).named("embedded".into());
    let text = Admin::open(&endpoint).unwrap_err().to_string();
    assert!(
        text.starts_with("embedded cannot be used") && !text.contains("127.0.0.1"),
        "{text}"
    );
}

#[test]
fn node_counts_the_slots_in_its_own_line() {
    let table = "07c3 127.0.0.1:30004@31004,host slave e7d1 0 1426238317239 4 connected\n\
                 67ed 127.0.0.1:30002@31002 master - 0 1426238316232 2 connected 5461-10922\n\
                 e7d1 127.0.0.1:30001@31001 myself,master - 0 0 1 connected 0-5460 7000 [93-<-07c3] [77->-67ed]\n";
    assert_eq!(own_slots(table), Some((5_462, 2)));
    let replica = "07c3 127.0.0.1:30004@31004 myself,slave e7d1 0 1 4 connected\n";
    assert_eq!(own_slots(replica), Some((0, 0)));
    assert_eq!(
        own_slots("67ed 127.0.0.1:2@3 master - 0 1 2 connected 5-6\n"),
        None
    );
    assert_eq!(
        own_slots("67ed 127.0.0.1:2@3 myself,master - 0 1 2 connected 9-6\n"),
        None
    );
}

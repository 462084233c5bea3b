//! Other clients while a script runs for long: our server and a real redis-server must send the same bytes.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use loadline_server::ServerConfig;

use crate::scripts::send;
use crate::support::{Ours, ReadWrite, Redis, ask_one};

const LIBRARY: &str = "#!lua name=l
redis.register_function{function_name='f', flags={'no-writes'}, callback=function() while true do end end}";

/// The words of each client that runs a script, and what another client sends meanwhile. The last command ends it.
const ROUNDS: [(&[&str], &str); 5] = [
    (
        &["EVAL", "while true do end", "0"],
        "GET k|NOSUCH|GET|HELLO 4|AUTH x|MULTI|GET k|EXEC|MULTI|DISCARD|WATCH k|UNWATCH|RESET|FUNCTION STATS|FUNCTION KILL|FUNCTION LIST|SCRIPT FLUSH|SCRIPT HELP|SHUTDOWN|SHUTDOWN SAVE|EVAL \"return 1\" 0|CLIENT LIST|CONFIG SET busy-reply-threshold 0|QUIT",
    ),
    (
        &[
            "EVAL",
            "while true do pcall(function() while true do end end) end",
            "0",
        ],
        "MULTI|SET k 1|DISCARD|SCRIPT KILL",
    ),
    (
        &[
            "EVAL",
            "while true do redis.pcall('get', 'a') end",
            "1",
            "a",
        ],
        "PING|SCRIPT KILL",
    ),
    (
        &[
            "EVAL",
            "local t = {} for i = 1, 100 do t[i] = i end\\Nwhile true do table.sort(t, function(a, b) return a > b end) end",
            "0",
        ],
        "PING|SCRIPT KILL",
    ),
    (
        &["FCALL", "f", "1", "k"],
        "GET k|SCRIPT KILL|EXEC|FUNCTION KILL",
    ),
];

/// The replies to a client while `script` runs, and the reply to it.
fn replies(
    connect: &dyn Fn() -> Box<dyn ReadWrite>,
    (script, commands): (&[&str], &str),
) -> Vec<String> {
    let mut runner = connect();
    let mut request = Vec::new();
    let script: Vec<String> = script
        .iter()
        .map(|word| word.replace("\\N", "\n"))
        .collect();
    loadline_resp::encode::command(&mut request, &script);
    runner.write_all(&request).unwrap();
    let mut stream = connect();
    until_busy(&mut stream);
    let mut replies = Vec::new();
    for command in commands.split('|') {
        replies.push(format!("{command}: {}", ask_one(&mut stream, command)));
        if command == "QUIT" {
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it is closed");
            stream = connect();
            replies.push(ask_one(&mut stream, "SCRIPT KILL"));
        }
    }
    replies.push(line(&mut runner));
    replies.push(ask_one(&mut stream, "RESET"));
    replies
}

/// The next line.
fn line(stream: &mut impl Read) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        line.extend(byte);
    }
    String::from_utf8(line).unwrap()
}

fn until_busy(stream: &mut impl ReadWrite) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !ask_one(stream, "PING").starts_with("-BUSY") {
        assert!(Instant::now() < deadline, "the script does not run");
    }
}

#[test]
fn clients_are_served_during_scripts_as_in_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let connect_ours = || -> Box<dyn ReadWrite> { Box::new(ours.connect()) };
    let connect_redis = || -> Box<dyn ReadWrite> { Box::new(redis.connect()) };
    for connect in [&connect_ours as &dyn Fn() -> _, &connect_redis] {
        let mut stream: Box<dyn ReadWrite> = connect();
        ask_one(&mut stream, "CONFIG SET busy-reply-threshold 20");
        send(&mut stream, &["FUNCTION", "LOAD", LIBRARY]);
    }
    for round in ROUNDS {
        assert_eq!(
            replies(&connect_ours, round),
            replies(&connect_redis, round),
            "{round:?}"
        );
    }
    // It ends with the server.
    ours.connect()
        .write_all(b"EVAL \"while true do end\" 0\r\n")
        .unwrap();
}

#[test]
fn running_function_is_in_the_statistics() {
    let ours = Ours::start(ServerConfig::default());
    let (mut stream, mut runner) = (ours.connect(), ours.connect());
    ask_one(&mut stream, "CONFIG SET busy-reply-threshold 20");
    send(&mut stream, &["FUNCTION", "LOAD", LIBRARY]);
    runner.write_all(b"FCALL f 1 k\r\n").unwrap();
    until_busy(&mut stream);
    let stats = ask_one(&mut stream, "FUNCTION STATS");
    let running = "*4\r\n$14\r\nrunning_script\r\n*6\r\n$4\r\nname\r\n$1\r\nf\r\n$7\r\ncommand\r\n*4\r\n$5\r\nFCALL\r\n$1\r\nf\r\n$1\r\n1\r\n$1\r\nk\r\n$11\r\nduration_ms\r\n:";
    let rest = stats.strip_prefix(running).expect(&stats);
    let (duration, rest) = rest.split_once("\r\n").unwrap();
    assert!(duration.parse::<u64>().unwrap() >= 20, "{duration}");
    assert_eq!(
        rest,
        "$7\r\nengines\r\n*2\r\n$3\r\nLUA\r\n*4\r\n$15\r\nlibraries_count\r\n:1\r\n$15\r\nfunctions_count\r\n:1\r\n"
    );
    assert_eq!(ask_one(&mut stream, "FUNCTION KILL"), "+OK\r\n");
    assert!(line(&mut runner).starts_with("-ERR Script killed"));
    let idle = ask_one(&mut stream, "FUNCTION STATS");
    assert!(
        idle.contains("running_script\r\n*-1\r\n") || idle.contains("running_script\r\n$-1\r\n"),
        "{idle}"
    );
}

/// A script that has written can be ended only together with the server, which drops what it has changed.
#[test]
fn shutdown_drops_the_changes_of_a_running_script() {
    let dir = tempfile::tempdir().unwrap();
    let config = || ServerConfig {
        dir: Some(dir.path().to_owned()),
        ..ServerConfig::default()
    };
    let ours = Ours::start(config());
    let (mut stream, mut runner) = (ours.connect(), ours.connect());
    ask_one(&mut stream, "CONFIG SET busy-reply-threshold 20");
    assert_eq!(ask_one(&mut stream, "SET before 1"), "+OK\r\n");
    runner
        .write_all(b"EVAL \"redis.call('set', 'during', 1) while true do end\" 0\r\n")
        .unwrap();
    until_busy(&mut stream);
    let reply = ask_one(&mut stream, "SCRIPT KILL");
    assert!(
        reply.starts_with("-UNKILLABLE Sorry the script already executed write commands"),
        "{reply}"
    );
    stream.write_all(b"SHUTDOWN NOSAVE\r\n").unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    drop(ours);
    let ours = Ours::start(config());
    assert_eq!(
        ask_one(&mut ours.connect(), "MGET before during"),
        "*2\r\n$1\r\n1\r\n$-1\r\n"
    );
}

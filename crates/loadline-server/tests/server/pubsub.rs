//! Subscribers and publishers on several connections, compared with a real redis-server, and subscribers that do not
//! read.

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use loadline_server::ServerConfig;

use crate::support::{Ours, ReadWrite, Redis, ask};

/// Scenes of three connections: the number of one, and the lines that it sends, with `~` between them. Without lines, it
/// reads messages.
const SCENES: &str = "\
0 SUBSCRIBE a b|1 PUBLISH a x|1 PUBLISH b y|0 |1 PUBSUB NUMSUB a b c|0 UNSUBSCRIBE a|1 PUBLISH a x|1 PUBLISH b y|0 |0 UNSUBSCRIBE b|0 GET k
0 SUBSCRIBE a a|0 SUBSCRIBE a|1 PUBLISH a x|0 |0 UNSUBSCRIBE a b a|0 UNSUBSCRIBE|0 PUNSUBSCRIBE|0 SUNSUBSCRIBE
0 PSUBSCRIBE f*|0 SUBSCRIBE foo|1 PUBLISH foo x|1 PUBLISH fab y|0 |0 PUNSUBSCRIBE g* f*|1 PUBLISH foo z|0 |0 UNSUBSCRIBE
0 PSUBSCRIBE a* b* c*|0 PUNSUBSCRIBE|1 PUBLISH a x|0 |0 PSUBSCRIBE h[ae]llo|1 PUBLISH hello x|1 PUBLISH hillo x|0 |0 PUNSUBSCRIBE
0 SSUBSCRIBE a|0 SUBSCRIBE a|0 PSUBSCRIBE *|1 SPUBLISH a x|1 PUBLISH a y|0 |1 PUBSUB SHARDCHANNELS|1 PUBSUB SHARDNUMSUB a b|1 PUBSUB CHANNELS|1 PUBSUB NUMPAT|0 SUNSUBSCRIBE b a|0 SUNSUBSCRIBE|0 UNSUBSCRIBE|0 PUNSUBSCRIBE
0 SUBSCRIBE a|2 SUBSCRIBE a|2 PSUBSCRIBE a?|1 PUBLISH a x|0 |2 |1 PUBSUB CHANNELS|1 PUBSUB CHANNELS b*|1 PUBSUB CHANNELS [a]|2 RESET|1 PUBLISH a y|0 |2 |0 RESET|1 PUBSUB NUMSUB a|1 PUBSUB NUMPAT
0 SUBSCRIBE a|0 GET k|0 SET k v|0 PUBLISH a x|0 PING|0 PING hello|0 PING a b|0 NOSUCH|0 GET|0 CLIENT GETNAME|0 CONFIG GET x|0 EXEC|0 SUBSCRIBE|0 ssubscribe b|0 HELLO 3|0 UNSUBSCRIBE a|0 GET k|0 SUNSUBSCRIBE|0 GET k
0 HELLO 3|0 SUBSCRIBE a|0 PING|0 GET k|1 PUBLISH a x|0 |0 PUBLISH a mine|0 SET k v~PUBLISH a mine~GET k|0 PSUBSCRIBE a*|0 PUBLISH a both|0 HELLO 2|0 GET k|1 PUBLISH a x|0 |0 RESET
1 MULTI~PUBLISH a x~SUBSCRIBE a~PUBLISH a y~UNSUBSCRIBE~EXEC|1 GET k|1 MULTI~SSUBSCRIBE a~SUNSUBSCRIBE b c~UNSUBSCRIBE~EXEC|1 MULTI~SUBSCRIBE a b~EXEC|2 PUBLISH b x|1 |1 GET k|1 RESET
0 HELLO 3|0 MULTI~SUBSCRIBE a~PUBLISH a x~GET k~EXEC|0 CLIENT REPLY OFF~GET k~SUBSCRIBE b~PUBLISH b y~CLIENT REPLY ON|0 CLIENT REPLY SKIP~UNSUBSCRIBE b~GET k|0 RESET
0 SUBSCRIBE \"\"|1 PUBLISH \"\" \"\"|0 |1 PUBSUB CHANNELS \"\"|0 UNSUBSCRIBE \"\"|0 PSUBSCRIBE \"\"|1 PUBLISH \"\" x|1 PUBLISH a x|0 |0 RESET|0 SUBSCRIBE \"a\\r\\nb\"|1 PUBLISH \"a\\r\\nb\" \"\\x00\\xff\"|0 |0 RESET";

/// Sends a line and returns all replies and messages before the reply to a PING behind it.
fn say(stream: &mut dyn ReadWrite, line: &str) -> String {
    const END: &[u8] = b"$5\r\n(end)\r\n";
    let line = if line.is_empty() {
        "PING (end)".to_owned()
    } else {
        format!("{line}\r\nPING (end)")
    };
    stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut said = Vec::new();
    let mut buffer = [0; 4_096];
    while !said.ends_with(END) {
        let bytes = stream.read(&mut buffer).unwrap();
        assert!(bytes > 0, "closed after {line}");
        said.extend_from_slice(&buffer[..bytes]);
    }
    said.into_iter().map(char::from).collect()
}

/// The lines of a reply without the id in the reply to HELLO.
fn comparable(reply: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = Vec::new();
    for line in reply.split("\r\n") {
        let is_id = lines.last().is_some_and(|last| *last == "id");
        lines.push(if is_id { ":" } else { line });
    }
    lines
}

#[test]
fn messages_are_those_of_redis_to_the_byte() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    for scene in SCENES.lines() {
        for hello in ["HELLO 2", "HELLO 3"] {
            let mut one = [(); 3].map(|()| ours.connect());
            let mut other = [(); 3].map(|()| redis.connect());
            for client in 0..3 {
                say(&mut one[client], hello);
                say(&mut other[client], hello);
            }
            for step in scene.split('|') {
                let (client, line) = step.split_once(' ').unwrap();
                let client: usize = client.parse().unwrap();
                let line = line.replace('~', "\r\n");
                let (one, other) = (say(&mut one[client], &line), say(&mut other[client], &line));
                assert_eq!(
                    comparable(&one),
                    comparable(&other),
                    "{step} of {scene} after {hello} (ours left)"
                );
            }
        }
    }
}

/// The value of a field of CLIENT LIST for the connection of this name.
fn field(stream: &mut TcpStream, name: &str, field: &str) -> Option<String> {
    let list = ask(stream, "CLIENT LIST");
    let line = list
        .lines()
        .find(|line| line.contains(&format!("name={name} ")))?;
    let value = line.split(' ').find_map(|word| word.strip_prefix(field));
    Some(value.unwrap().to_owned())
}

fn wait_until(what: &str, mut is_done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_done() {
        assert!(Instant::now() < until, "{what}");
    }
}

/// A subscriber that does not read is closed at the limits of its class; what waits for it counts as memory in use until
/// then, and the others get every message.
#[test]
fn subscribers_that_do_not_read_are_closed_at_the_limits() {
    let ours = Ours::start(ServerConfig::default());
    let mut publisher = ours.connect();
    let (mut reader, mut idle) = (ours.connect(), ours.connect());
    ask(
        &mut publisher,
        "CONFIG SET client-output-buffer-limit \"pubsub 4mb 0 0\"",
    );
    let message = "m".repeat(1_000);
    let publish = format!("PUBLISH c {message}\r\n");
    let waiting = |stream: &mut TcpStream| {
        let info = ask(stream, "INFO memory");
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("mem_clients_normal:"));
        line.unwrap().parse::<usize>().unwrap()
    };
    say(&mut reader, "CLIENT SETNAME reader\r\nSUBSCRIBE c");
    say(&mut idle, "CLIENT SETNAME idle\r\nSUBSCRIBE c");
    assert_eq!(field(&mut publisher, "idle", "flags=").unwrap(), "P");
    assert_eq!(field(&mut publisher, "idle", "sub=").unwrap(), "1");
    assert_eq!(
        ask(&mut publisher, "CLIENT LIST TYPE pubsub")
            .lines()
            .filter(|line| line.contains("id="))
            .count(),
        2
    );
    let mut most = 0;
    let mut rounds = 0;
    while field(&mut publisher, "idle", "omem=").is_some() {
        ask(&mut publisher, &publish.repeat(100));
        let messages = say(&mut reader, "");
        assert_eq!(messages.matches(&message).count(), 100);
        most = most.max(waiting(&mut publisher));
        rounds += 1;
        assert!(rounds < 1_000, "it is never closed");
    }
    assert!((2 << 20..5 << 20).contains(&most), "{most} bytes waited");
    wait_until("memory is given back", || waiting(&mut publisher) < 10_000);
    // The soft limit closes it after the time.
    let mut slow = ours.connect();
    say(&mut slow, "CLIENT SETNAME slow\r\nSUBSCRIBE s");
    ask(
        &mut publisher,
        "CONFIG SET client-output-buffer-limit \"pubsub 0 1mb 1\"",
    );
    let publish = format!("PUBLISH s {}\r\n", "m".repeat(50_000));
    let begun = Instant::now();
    ask(&mut publisher, &publish.repeat(400));
    wait_until("it is closed", || {
        field(&mut publisher, "slow", "omem=").is_none()
    });
    assert!(begun.elapsed() > Duration::from_secs(1));
    assert_eq!(ask(&mut publisher, "CLIENT KILL TYPE pubsub"), ":1\r\n");
    assert_eq!(reader.read(&mut [0; 1]).unwrap(), 0);
    drop((idle, slow));
}

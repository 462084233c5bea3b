//! Expiry of fields of hashes, which Redis has since 7.4: the replies and events that redis-server 8.2.3 gave.

use std::io::{Read, Write};

use loadline_server::ServerConfig;

use crate::notifications::{messages, subscribe, wait_for};
use crate::support::{Ours, ask};

/// A line for each command, with its reply behind a tab. A bar is an end of a line of the reply.
const REPLIES: &str = include_str!("hash_fields.txt");

#[test]
fn replies_are_those_of_redis_8_to_the_byte() {
    let ours = Ours::start(ServerConfig::default());
    let mut stream = ours.connect();
    let mut count = 0;
    for line in REPLIES.lines() {
        let (command, reply) = line.split_once('\t').unwrap();
        let expected = format!("{}\r\n", reply.replace('|', "\r\n"));
        assert_eq!(ask(&mut stream, command), expected, "{command}");
        count += 1;
    }
    assert!(count > 250, "{count} commands");
}

/// Commands in their order, with their events.
const EVENTS: &str = "\
HSET h a 1 b 2 c 3|hset
HEXPIRE h 100 FIELDS 2 a b|hexpire
HEXPIRE h 100 NX FIELDS 1 a|
HPERSIST h FIELDS 2 a c|hpersist
HPERSIST h FIELDS 1 a|
HEXPIRE h 0 FIELDS 1 a|hdel
HGETEX h EX 10 FIELDS 2 b nope|hexpire
HGETEX h PERSIST FIELDS 2 b c|hpersist
HGETEX h PERSIST FIELDS 2 b c|
HGETEX h FIELDS 1 b|
HGETEX h EX 0 FIELDS 2 b c|hdel del
HSETEX h EX 100 FIELDS 2 a 1 b 2|hset hexpire
HSETEX h FIELDS 1 a 1|hset
HSETEX h KEEPTTL FIELDS 1 a 1|hset
HSETEX h EX 0 FIELDS 2 a 1 c 2|hset hdel
HSETEX n EX 0 FIELDS 1 a 1|hset hdel del
HSETEX h FNX EX 100 FIELDS 1 b 1|
HGETDEL h FIELDS 2 b x|hdel del
HSET h a 1 b 2|hset
HEXPIRE h 0 FIELDS 2 a b|hdel del";

/// The events among the messages of a subscriber.
fn events(stream: &mut (impl Read + Write)) -> String {
    let text = messages(stream);
    let lines = text.lines();
    let events = lines.filter_map(|line| line.strip_prefix("__keyevent@0__:"));
    events.collect::<Vec<_>>().join(" ")
}

#[test]
fn events_are_those_of_redis_8() {
    let ours = Ours::start(ServerConfig::default());
    let (mut stream, mut ears) = (ours.connect(), ours.connect());
    ask(&mut stream, "CONFIG SET notify-keyspace-events EA");
    subscribe(&mut ears);
    for line in EVENTS.lines() {
        let (command, expected) = line.split_once('|').unwrap();
        ask(&mut stream, command);
        assert_eq!(events(&mut ears), expected, "{command}");
    }
    // Nobody reads these fields again.
    ask(&mut stream, "HSET h a 1 b 2\r\nHPEXPIRE h 1 FIELDS 1 a");
    wait_for(&mut ears, "__keyevent@0__:hexpired\r\n$1\r\nh");
    ask(&mut stream, "HPEXPIRE h 1 FIELDS 1 b");
    wait_for(&mut ears, "__keyevent@0__:del\r\n$1\r\nh");
    assert_eq!(ask(&mut stream, "DBSIZE"), ":0\r\n");
}

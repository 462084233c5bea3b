//! MONITOR of our server and of a real redis-server: the same commands in the same order.

use std::io::{Read, Write};

use loadline_server::ServerConfig;

use crate::support::{Ours, Redis, ask, ask_one};

const COMMANDS: &str = "\
SET a 1|get a|GET|NOSUCH x|SET a \"b\\\"\\\\c\\n\\t\\r\\x07\\x08\\x00\\xff'\"|MULTI;SET a 2;INCR a;EXEC|MULTI;NOSUCH;EXEC|MULTI;GET a;DISCARD|SELECT 3;PING;SELECT 0
EVAL \"redis.call('set',KEYS[1],ARGV[1]) return redis.pcall('incr',KEYS[1])\" 1 k v|EVAL_RO \"return redis.call('get','k')\" 0|AUTH secret|AUTH nobody secret|HELLO 2 AUTH nobody secret|HELLO 2 SETNAME me|RESET
CONFIG GET maxmemory|CLIENT GETNAME|CLIENT LIST|CLIENT KILL ID 999999|BLPOP nothing 0.01|RPUSH list x|BLPOP list 0|SCRIPT FLUSH|COMMAND COUNT|OBJECT HELP|PUBLISH c m|SORT list|SLOWLOG LEN|ACL WHOAMI|DBSIZE|INFO server|ROLE|LASTSAVE|MONITOR x";

/// The lines of a client that watches, up to the last command.
fn lines(stream: &mut (impl Read + Write)) -> Vec<String> {
    const END: &str = "\"GET\" \"the end\"\r\n";
    let mut text = String::new();
    let mut buffer = [0; 65_536];
    while !text.contains(END) {
        let bytes = stream.read(&mut buffer).unwrap();
        assert!(bytes > 0, "{text}");
        text.extend(buffer[..bytes].iter().copied().map(char::from));
    }
    let end = text.find(END).unwrap() + END.len();
    // Without the time and the address.
    let parts = |line: &str| {
        let (_, rest) = line.split_once('[').unwrap();
        let (client, words) = rest.split_once(']').unwrap();
        let (database, address) = client.split_once(' ').unwrap();
        let is_script = address == "lua";
        format!("{database} {is_script}{words}")
    };
    text[..end].lines().map(parts).collect()
}

#[test]
fn commands_are_shown_as_by_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    let (mut eyes, mut other_eyes) = (ours.connect(), redis.connect());
    assert_eq!(ask_one(&mut eyes, "MONITOR"), "+OK\r\n");
    assert_eq!(ask_one(&mut other_eyes, "MONITOR"), "+OK\r\n");
    for line in COMMANDS.split(['|', '\n']).chain(["GET \"the end\""]) {
        let commands = line.replace(';', "\r\n");
        ask(&mut one, &commands);
        ask(&mut other, &commands);
    }
    let (ours, theirs) = (lines(&mut eyes), lines(&mut other_eyes));
    assert_eq!(ours, theirs);
    assert!(ours.len() > 60, "{ours:?}");
}

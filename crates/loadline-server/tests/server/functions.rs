//! Libraries of functions, in our server and in a real redis-server: the replies must be the same bytes.

use std::io::{Read, Write};

use loadline_resp::encode;
use loadline_server::ServerConfig;

use crate::scripts::send;
use crate::support::{Ours, Redis, ask};

/// Texts behind the first line of a library, one a line.
const BODIES: &str = r#"
redis.register_function()
redis.register_function(1,2)
redis.register_function("a",2)
redis.register_function{}
redis.register_function{function_name="x"}
redis.register_function{bla=1}
redis.register_function{[1]=2}
redis.register_function{function_name=function() end}
redis.register_function{function_name="x",callback=1}
redis.register_function{function_name="x",flags=1}
redis.register_function{function_name="x",callback=function() end,flags={"bla"}}
redis.register_function{function_name="x",callback=function() end,flags={1}}
redis.register_function{function_name="x",callback=function() end,flags={function() end}}
redis.register_function{function_name="x",callback=function() end,description=function() end}
redis.register_function("a b",function() end)
redis.register_function("a",function() end) redis.register_function("a",function() end)
bad script
math.random()
redis.call("ping")
error("x")
local a = nil; a.b = 1
redis.register_function(1,function() return 1 end)
redis.register_function("g",1,2)
redis.register_function("g")
x=1
redis.foo=1
redis=1
redis.sha1hex("x")
redis.log(1,"x")
redis.log()
redis.log(redis.LOG_WARNING,redis.REDIS_VERSION) redis.register_function("f", function() return 1 end)
pcall(1)
redis.register_function{function_name="x",callback=function() end,flags={"NO-WRITES","allow-oom","allow-stale","no-cluster","allow-cross-slot-keys"},description="d"}
"#;

const HEADERS: [&str; 14] = [
    "",
    "#!lua",
    "#!lua\n",
    "#!lua name=\n",
    "#!lua name=a b\n",
    "#!lua name=a name=b\n",
    "#!lua foo=a\n",
    "#!js name=a\n",
    "#!LUA NAME=zz\n",
    "#!\n",
    "#! name=q\n",
    "#!lua name=\"qq\"\n",
    "#!lua name=\"q\n",
    "#!lua name=a-b\n",
];

const FUNCTIONS: &str = r#"#!lua name=big
redis.register_function("args", function(k,a) return {k[1],a[1],#k,#a} end)
redis.register_function("ping", function(k,a) return redis.call("ping") end)
redis.register_function("err", function(k,a)
 error("bad") end)
redis.register_function("err2", function(k,a) return redis.call("nope") end)
redis.register_function("wr", function(k,a) return redis.call("set",k[1],a[1]) end)
redis.register_function("glob", function(k,a) return KEYS[1] end)
redis.register_function("setg", function(k,a) xx = 1 end)
redis.register_function("reg", function(k,a) return redis.register_function("z", function() end) end)
redis.register_function("er", function(k,a) return redis.error_reply("My err") end)
redis.register_function("sha", function(k,a) return {redis.sha1hex(""), type(redis.set_repl), type(redis.breakpoint), type(redis.replicate_commands), type(redis.setresp), type(redis.acl_check_cmd), type(redis.debug), type(math.random),type(_G),type(loadstring), type(redis.REPL_ALL)} end)
redis.register_function{function_name="ro",callback=function(k,a) return redis.call("set",k[1],a[1]) end, flags={"no-writes"}}
redis.register_function{function_name="rog",callback=function(k,a) return redis.call("get",k[1]) end, flags={"no-writes"}}
local my = redis
redis.register_function("later", function() my.register_function("z", function() end) end)
redis.register_function("mylog", function() my.log(3, 'hi') return my.REDIS_VERSION end)
redis.register_function("mycall", function() return my.call('ping') end)
redis.register_function("rec", function() return redis.call('fcall', 'ping', 0) end)
redis.register_function{function_name="full",callback=function(k,a) return redis.call("set",k[1],a[1]) end, flags={"allow-oom"}}
local n = 0
redis.register_function("count", function() n = n + 1 return n end)
"#;

const CALLS: &str = "args 1 k a|ARGS 0|args -1|args 2 x|args x|nope 0|ping 0|err 0|err2 0|wr 1 k v|glob 1 k|setg 0|reg 0|er 0|sha 0|ro 1 k v|rog 1 k|later 0|mylog 0|mycall 0|rec 0|count 0|count 0";

/// Lines after that. A list of libraries is shown only where it has one, since Redis shows them in any order.
const LINES: &str = "\
FUNCTION LIST FOO|FUNCTION LIST LIBRARYNAME|FUNCTION LIST LIBRARYNAME L* LIBRARYNAME x|FUNCTION LIST LIBRARYNAME LI*|FUNCTION LIST LIBRARYNAME l?b WITHCODE
FUNCTION LIST WITHCODE WITHCODE|FUNCTION LOAD X Y|FUNCTION LOAD REPLACE|FUNCTION DELETE nope|FUNCTION STATS|FUNCTION KILL|FUNCTION FLUSH X|FUNCTION FLUSH SYNC Y
FUNCTION RESTORE x|FUNCTION RESTORE x BAD|FUNCTION RESTORE x FLUSH Y|FUNCTION NOSUCH|FUNCTION|FUNCTION DUMP x|FCALL|FCALL x|EVAL \"return redis.call('fcall','ping',0)\" 0|EVAL \"return redis.call('function','list')\" 0
COMMAND GETKEYS FCALL f 1 k|COMMAND GETKEYS FCALL_RO f 2 k l m|SCRIPT FLUSH|FCALL count 0|FLUSHALL|FUNCTION LIST LIBRARYNAME lib|CONFIG SET maxmemory 1;FCALL full 1 k v;FCALL wr 1 k v;SET k v;CONFIG SET maxmemory 0|MULTI;FUNCTION DELETE big;FCALL ping 0;EXEC|FUNCTION DELETE zz|FUNCTION LIST|FUNCTION FLUSH ASYNC|FUNCTION LIST|FUNCTION DELETE lib";

/// The words of a command, for the text of an assertion too.
fn both(one: &mut (impl Read + Write), other: &mut (impl Read + Write), words: &[&str]) {
    assert_eq!(send(one, words), send(other, words), "{words:?}");
}

#[test]
fn functions_reply_as_in_redis_to_the_byte() {
    for hello in ["HELLO 2", "HELLO 3"] {
        let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
        let (mut one, mut other) = (ours.connect(), redis.connect());
        ask(&mut one, hello);
        ask(&mut other, hello);
        let simple = "redis.register_function('h', function() return 1 end)";
        for header in HEADERS {
            for _ in 0..2 {
                let text = format!("{header}{simple}");
                both(&mut one, &mut other, &["FUNCTION", "LOAD", &text]);
            }
        }
        for body in BODIES.lines() {
            let text = format!("#!lua name=lib\n{body}");
            both(
                &mut one,
                &mut other,
                &["FUNCTION", "LOAD", "REPLACE", &text],
            );
        }
        both(&mut one, &mut other, &["FUNCTION", "LOAD", FUNCTIONS]);
        for line in CALLS.split('|') {
            for name in ["FCALL", "FCALL_RO"] {
                let words: Vec<&str> = [name].into_iter().chain(line.split(' ')).collect();
                both(&mut one, &mut other, &words);
            }
        }
        for line in LINES.split(['|', '\n']) {
            let line = line.replace(';', "\r\n");
            assert_eq!(ask(&mut one, &line), ask(&mut other, &line), "{line}");
        }
    }
}

/// The payload of a reply to FUNCTION DUMP.
fn dump(stream: &mut (impl Read + Write)) -> Vec<u8> {
    let reply = ask(stream, "FUNCTION DUMP");
    let begin = reply.find('\n').unwrap() + 1;
    let payload = reply[begin..].strip_suffix("\r\n").unwrap();
    payload.chars().map(|letter| letter as u8).collect()
}

fn restore(stream: &mut (impl Read + Write), payload: &[u8], policy: &str) -> String {
    let mut request = Vec::new();
    let words = [&b"FUNCTION"[..], b"RESTORE", payload, policy.as_bytes()];
    encode::command(&mut request, &words);
    stream.write_all(&request).unwrap();
    ask(stream, "")
}

#[test]
fn dumps_of_functions_are_exchanged_with_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    let library = |name: &str, function: &str| {
        format!(
            "#!lua name={name}\nredis.register_function('{function}', function() return '{name}' end)"
        )
    };
    let [mine, theirs, clashing] = [library("a", "f"), library("b", "g"), library("c", "F")];
    both(&mut one, &mut other, &["FUNCTION", "LOAD", &mine]);
    let payloads = [dump(&mut one), dump(&mut other)];
    for payload in payloads {
        for policy in ["APPEND", "REPLACE", "FLUSH", "NOSUCH"] {
            for before in [&mine, &theirs, &clashing] {
                both(&mut one, &mut other, &["FUNCTION", "FLUSH"]);
                both(&mut one, &mut other, &["FUNCTION", "LOAD", before]);
                let reply = restore(&mut one, &payload, policy);
                assert_eq!(
                    reply,
                    restore(&mut other, &payload, policy),
                    "{policy} {before}"
                );
                for line in ["FCALL f 0", "FCALL g 0", "FUNCTION STATS"] {
                    assert_eq!(
                        ask(&mut one, line),
                        ask(&mut other, line),
                        "{policy} {before}"
                    );
                }
            }
        }
        for cut in 0..payload.len() {
            let reply = restore(&mut one, &payload[..cut], "FLUSH");
            assert_eq!(reply, restore(&mut other, &payload[..cut], "FLUSH"));
        }
    }
}

#[test]
fn library_that_does_not_end_is_not_loaded() {
    let ours = Ours::start(ServerConfig::default());
    let mut stream = ours.connect();
    let reply = send(
        &mut stream,
        &["FUNCTION", "LOAD", "#!lua name=a\nwhile true do end"],
    );
    let expected = "-ERR Error registering functions: ERR FUNCTION LOAD timeout\r\n";
    assert_eq!(reply, expected);
    let text = "#!lua name=a\nredis.register_function('f', function() return 7 end)";
    assert_eq!(
        send(&mut stream, &["FUNCTION", "LOAD", text]),
        "$1\r\na\r\n"
    );
    assert_eq!(ask(&mut stream, "FCALL f 0"), ":7\r\n");
}

#[test]
fn functions_are_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let start = || {
        Ours::start(ServerConfig {
            dir: Some(dir.path().to_owned()),
            ..ServerConfig::default()
        })
    };
    let ours = start();
    let mut stream = ours.connect();
    for name in ["a", "b"] {
        let text = format!(
            "#!lua name={name}\nredis.register_function('{name}', function() return 7 end)"
        );
        send(&mut stream, &["FUNCTION", "LOAD", &text]);
    }
    assert_eq!(
        ask(&mut stream, "FUNCTION DELETE b\r\nFLUSHALL"),
        "+OK\r\n+OK\r\n"
    );
    drop((stream, ours));
    let ours = start();
    let asked = "FCALL a 0\r\nFCALL b 0\r\nDBSIZE\r\nINFO keyspace";
    let reply = ask(&mut ours.connect(), asked);
    assert!(
        reply.starts_with(":7\r\n-ERR Function not found\r\n:0\r\n"),
        "{reply}"
    );
    assert!(!reply.contains("db16"), "{reply}");
}

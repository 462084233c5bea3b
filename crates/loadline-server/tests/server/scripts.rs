//! Scripts, run by our server and by a real redis-server: the replies must be the same bytes.

use std::io::{Read, Write};
use std::time::Duration;

use loadline_resp::encode;
use loadline_server::ServerConfig;

use crate::support::{LATER, LATER_SUBCOMMANDS, Ours, Redis, ask};

/// Scripts, one a line. `k1` and `k2` are their keys, `x` and `42` their arguments.
const SCRIPTS: &str = include_str!("scripts.lua");

/// Sends a command whose words can hold any bytes, and returns its reply.
pub(crate) fn send(stream: &mut (impl Read + Write), words: &[&str]) -> String {
    let mut request = Vec::new();
    encode::command(&mut request, words);
    stream.write_all(&request).unwrap();
    ask(stream, "")
}

#[test]
fn scripts_reply_as_in_redis_to_the_byte() {
    for hello in ["HELLO 2", "HELLO 3"] {
        // Random numbers go on from script to script.
        let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
        let (mut one, mut other) = (ours.connect(), redis.connect());
        ask(&mut one, hello);
        ask(&mut other, hello);
        let (mut count, mut others) = (0, Vec::new());
        for script in SCRIPTS.lines().filter(|line| !line.starts_with("--")) {
            let script = script.replace("\\N", "\n");
            for name in ["EVAL", "EVAL_RO"] {
                let words = [name, &script, "2", "k1", "k2", "x", "42"];
                let (one, other) = (send(&mut one, &words), send(&mut other, &words));
                if one != other {
                    others.push(format!(
                        "{name} {script}\n  ours  {one:?}\n  Redis {other:?}"
                    ));
                }
                count += 1;
            }
        }
        assert!(others.is_empty(), "after {hello}:\n{}", others.join("\n"));
        assert!(count > 250, "{count} scripts");
    }
}

/// The statistics of errors: their kinds, their sum, and the calls of commands that were refused or failed.
fn counted_errors(stream: &mut (impl Read + Write)) -> Vec<String> {
    let stats: String = ["errorstats", "stats", "commandstats"]
        .map(|section| ask(stream, &format!("INFO {section}")))
        .concat();
    let mut lines: Vec<String> = stats
        .lines()
        .filter_map(|line| match line.split_once(":calls=") {
            Some((command, figures)) => {
                let is_part = [
                    "eval", "fcall", "incr", "lpush", "select", "set", "shutdown",
                ]
                .iter()
                .any(|name| command.trim_start_matches("cmdstat_") == *name);
                let (calls, rest) = figures.split_once(',')?;
                let (_, failures) = rest.split_once(",rejected")?;
                is_part.then(|| format!("{command} calls={calls} rejected{failures}"))
            }
            None if line.starts_with("errorstat_") => Some(line.to_owned()),
            None => line
                .starts_with("total_error_replies")
                .then(|| line.to_owned()),
        })
        .collect();
    lines.sort_unstable();
    lines
}

/// The same of one command, with a limit of memory.
fn errors_of(stream: &mut (impl Read + Write), memory: &str, words: &[&str]) -> Vec<String> {
    ask(stream, &format!("CONFIG SET maxmemory {memory}"));
    ask(stream, "CONFIG RESETSTAT");
    send(stream, words);
    counted_errors(stream)
}

#[test]
fn errors_of_scripts_are_counted_as_in_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    let library = "#!lua name=l\nredis.register_function('f', function() return redis.call('lpush', 's', 1) end)";
    let scripts: [(&str, &[&str]); 25] = [
        ("0", &["EVAL", "return redis.call('select', 99)", "0"]),
        ("0", &["EVAL", "return redis.pcall('select', 99)", "0"]),
        ("0", &["EVAL", "redis.pcall('select', 99) return 1", "0"]),
        ("0", &["EVAL", "error(redis.pcall('select', 99))", "0"]),
        (
            "0",
            &[
                "EVAL",
                "return {redis.pcall('select', 99), {err = 'MY own'}, 1}",
                "0",
            ],
        ),
        (
            "0",
            &[
                "EVAL",
                "redis.pcall('select', 99) return redis.call('incr', 's')",
                "0",
            ],
        ),
        (
            "0",
            &[
                "EVAL",
                "redis.pcall('select', 99) redis.pcall('incr', 's')",
                "0",
            ],
        ),
        ("0", &["EVAL", "return redis.error_reply('MY own')", "0"]),
        ("0", &["EVAL", "return {err = 'ERR own'}", "0"]),
        ("0", &["EVAL", "error({err = 'MY own'})", "0"]),
        ("0", &["EVAL", "error('own')", "0"]),
        ("0", &["EVAL", "return redis.call('nosuch')", "0"]),
        ("0", &["EVAL", "return redis.pcall('nosuch')", "0"]),
        ("0", &["EVAL", "return redis.call('set', 'x')", "0"]),
        ("0", &["EVAL", "return redis.pcall('set', 'x')", "0"]),
        ("0", &["EVAL", "return redis.call('shutdown')", "0"]),
        ("0", &["EVAL", "return redis.call()", "0"]),
        ("0", &["EVAL", "redis.pcall() return 1", "0"]),
        (
            "0",
            &[
                "EVAL",
                "#!lua flags=no-writes\nreturn redis.call('set', 'x', 'y')",
                "0",
            ],
        ),
        ("0", &["EVAL", "not Lua", "0"]),
        ("0", &["FUNCTION", "LOAD", library]),
        ("0", &["FCALL", "f", "0"]),
        ("1", &["EVAL", "return redis.call('set', 'x', 'y')", "0"]),
        ("1", &["EVAL", "return redis.pcall('set', 'x', 'y')", "0"]),
        (
            "1",
            &["EVAL", "return redis.pcall('set', 'x', 'y').err", "0"],
        ),
    ];
    ask(&mut one, "SET s text");
    ask(&mut other, "SET s text");
    for (memory, script) in scripts {
        let one = errors_of(&mut one, memory, script);
        let other = errors_of(&mut other, memory, script);
        assert_eq!(one, other, "{script:?}");
        assert!(!one.is_empty(), "{script:?}");
    }
}

#[test]
fn calls_of_scripts_are_refused_as_in_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    for line in [
        "EVAL",
        "EVAL x",
        "EVAL \"return 1\" 1",
        "EVAL \"return 1\" -1",
        "EVAL \"return 1\" x",
        "EVALSHA abc 0",
        "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
        "SCRIPT LOAD \"return 1\"",
        "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
        "EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0",
        "EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
        "SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db abc",
        "SCRIPT LOAD \"x y\"",
        "SCRIPT KILL",
        "SCRIPT FLUSH x",
        "SCRIPT FLUSH SYNC",
        "SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
        "SCRIPT DEBUG x",
        "SCRIPT NOSUCH",
        "SCRIPT",
        "MULTI\r\nEVAL \"return redis.call('incr', KEYS[1])\" 1 n\r\nGET n\r\nEXEC",
        "SELECT 3\r\nEVAL \"redis.call('select', 5) redis.call('set', 'here', 1) return 1\" 0\r\nEXISTS here\r\nSELECT 5\r\nEXISTS here",
    ] {
        assert_eq!(ask(&mut one, line), ask(&mut other, line), "{line}");
    }
}

#[test]
fn scripts_can_call_the_commands_that_redis_allows() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    let list = ask(&mut one, "COMMAND LIST");
    let names = list.lines().filter(|line| !line.starts_with(['*', '$']));
    let is_later = |name: &str| {
        let name = name.to_uppercase();
        LATER.contains(&name.as_str()) || LATER_SUBCOMMANDS.contains(&name.as_str())
    };
    let (mut allowed, mut refused) = (0, 0);
    for name in names.filter(|name| !is_later(name)) {
        let mut words = vec!["EVAL", "return redis.pcall(unpack(ARGV))", "0"];
        words.extend(name.split('|'));
        // Some number of arguments is right for each command.
        for _ in 0..6 {
            let is_refused = [send(&mut one, &words), send(&mut other, &words)]
                .map(|reply| reply.contains("not allowed from script"));
            assert_eq!(is_refused[0], is_refused[1], "{words:?} (ours left)");
            *(if is_refused[0] {
                &mut refused
            } else {
                &mut allowed
            }) += 1;
            words.push("x");
        }
    }
    assert!(allowed > 800 && refused > 200, "{allowed}, {refused}");
}

#[test]
fn memory_of_scripts_is_limited() {
    let ours = Ours::start(ServerConfig::default());
    let mut stream = ours.connect();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let script = "local t = {} while true do t[#t + 1] = string.rep('x', 1048576) .. #t end";
    let reply = send(&mut stream, &["EVAL", script, "0"]);
    assert!(reply.contains("not enough memory"), "{reply}");
    assert_eq!(send(&mut stream, &["EVAL", "return 7", "0"]), ":7\r\n");
    // Replies of commands have no room either, whatever they become and wherever the script catches that.
    send(&mut stream, &["SET", "k", &"x".repeat(4 << 20)]);
    for script in [
        "local t = {} while true do t[#t + 1] = redis.call('getrange', KEYS[1], #t, -1) end",
        "local t = {} while true do t[#t + 1] = redis.call('mget', KEYS[1], #t)[1] .. #t end",
        "local t = {} while true do t[#t + 1] = redis.call('echo', string.rep(#t, 100000)) end",
        "local t, ok, text = {}, true while ok do ok, text = pcall(redis.call, 'getrange', KEYS[1], #t, -1) t[#t + 1] = text end t = nil error(text)",
        "local t = {} coroutine.wrap(function() while true do t[#t + 1] = redis.call('getrange', KEYS[1], #t, -1) end end)()",
    ] {
        let reply = send(&mut stream, &["EVAL", script, "1", "k"]);
        assert!(reply.contains("not enough memory"), "{script}: {reply}");
        let length = ["EVAL", "return #redis.call('get', KEYS[1])", "1", "k"];
        assert_eq!(send(&mut stream, &length), ":4194304\r\n", "{script}");
    }
}

/// Neither in its own run nor in those of others.
#[test]
fn script_cannot_leave_its_sandbox() {
    let ours = Ours::start(ServerConfig::default());
    let mut stream = ours.connect();
    for script in [
        "return os",
        "return io",
        "return debug",
        "return require",
        "return getfenv",
        "return setfenv",
        "return loadfile",
        "string.upper = nil",
        "rawset(string, 'upper', nil)",
        "getmetatable('').__index = nil",
        "rawset(_G, 'x', 1)",
        "setmetatable(_G, {})",
        "redis.call = nil",
        "return loadstring(string.char(27) .. 'Lua')()",
    ] {
        let reply = send(&mut stream, &["EVAL", script, "0"]);
        assert!(reply.starts_with('-'), "{script}: {reply}");
    }
    let check = "return {('x'):upper(), type(redis.call), tostring(rawget(_G, 'x'))}";
    let reply = send(&mut stream, &["EVAL", check, "0"]);
    assert_eq!(reply, "*3\r\n$1\r\nX\r\n$8\r\nfunction\r\n$3\r\nnil\r\n");
}

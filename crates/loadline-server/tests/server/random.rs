//! Commands made up at random, to our server and to a real redis-server: the replies must be the same
//! bytes, whatever state the commands before have left.

use loadline_server::ServerConfig;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::support::{Ours, ReadWrite, Redis, ask, ask_one};

/// Commands that mean something: `k` stands for a key, `m` for a member or a value, `n` for a number and
/// `o` for an option.
const SENSIBLE: &str = "\
SET k m|SET k m o|SET k m o o|SET k n|GET k|GETSET k m|GETDEL k|GETEX k|GETEX k PERSIST|GETEX k o n|SETNX k m
MSET k m k m|MSETNX k m k m|MGET k k k|APPEND k m|STRLEN k|GETRANGE k n n|SUBSTR k n n|SETRANGE k 3 m|SETRANGE k 0 m
INCR k|DECR k|INCRBY k n|DECRBY k n|INCRBYFLOAT k n|DEL k|DEL k k|UNLINK k|EXISTS k k|TOUCH k k|TYPE k|RENAME k k|RENAMENX k k
COPY k k|COPY k k REPLACE|COPY k k DB 1|MOVE k 1|SELECT 0|SELECT 1|SELECT 0|SWAPDB 0 1|EXPIREAT k 33177117420|EXPIREAT k 33177117420 o|PEXPIREAT k 33177117420000 o
EXPIREAT k 1|EXPIRETIME k|PEXPIRETIME k|PERSIST k|SET k m EXAT 33177117420|KEYS *|KEYS [ab]|DBSIZE
SADD k m|SADD k m m m|SADD k n|SREM k m|SREM k m m|SMEMBERS k|SISMEMBER k m|SMISMEMBER k m m|SCARD k|SMOVE k k m|SPOP k 1000|SSCAN k 0|SSCAN k 0 MATCH m
SINTER k k|SUNION k k|SDIFF k k|SINTER k|SINTERSTORE k k k|SUNIONSTORE k k k|SDIFFSTORE k k k|SINTERCARD 2 k k|SINTERCARD 2 k k LIMIT n
HSET k m m|HSET k m n m m|HMSET k m m|HSETNX k m m|HGET k m|HMGET k m m|HGETALL k|HDEL k m|HDEL k m m|HLEN k|HEXISTS k m|HSTRLEN k m|HKEYS k|HVALS k
HINCRBY k m n|HINCRBYFLOAT k m n|HSCAN k 0|HSCAN k 0 MATCH m|MULTI|EXEC|EXEC|DISCARD|WATCH k|UNWATCH|PING|ECHO m|FLUSHDB";

/// Commands whose replies depend on time or chance, or on what a server is, or that end something.
const OTHERS: &str = "\
TTL PTTL SPOP SRANDMEMBER HRANDFIELD RANDOMKEY SCAN TIME LASTSAVE WAIT INFO CONFIG COMMAND CLIENT MEMORY OBJECT SHUTDOWN QUIT
HELLO AUTH RESET SLOWLOG ACL EXPIRE PEXPIRE SETEX PSETEX";

const KEYS: &[&str] = &["a", "b", "c", "d"];
const MEMBERS: &[&str] = &["m", "n", "1", "2", "x", "\"\"", "\"\\x00\\xff\""];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "7",
    "10",
    "-10",
    "3",
    "1.5",
    "-0.1",
    "1e3",
    "007",
    "+1",
    "-0",
    "abc",
    "inf",
    "nan",
    "0x10",
    "\"\"",
    "\" 1\"",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1e400",
    "1e-5",
];
const OPTIONS: &[&str] = &[
    "NX", "XX", "GT", "LT", "GET", "KEEPTTL", "EXAT", "PXAT", "PERSIST", "MATCH", "COUNT", "LIMIT",
    "REPLACE", "DB", "SYNC", "*",
];

#[test]
fn whatever_is_sent_redis_says_the_same() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    let names = names(&ask(&mut one, "COMMAND LIST"));
    let sensible: Vec<&str> = SENSIBLE.split(['|', '\n']).collect();
    for seed in 0..6 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let hello = if seed % 2 == 0 { "HELLO 2" } else { "HELLO 3" };
        for stream in [&mut one as &mut dyn ReadWrite, &mut other] {
            let mut stream = stream;
            for line in ["DISCARD", hello, "FLUSHALL", "SELECT 0"] {
                ask_one(&mut stream, line);
            }
        }
        let mut before = Vec::new();
        for _ in 0..4_000 {
            let command = if rng.random_ratio(3, 4) {
                filled(sensible.choose(&mut rng).unwrap(), &mut rng)
            } else {
                nonsense(&names, &mut rng)
            };
            let replies = (ask_one(&mut one, &command), ask_one(&mut other, &command));
            before.push(command.clone());
            let last = before.len().saturating_sub(40);
            assert_eq!(
                sorted(&command, &replies.0),
                sorted(&command, &replies.1),
                "{command} (ours left, seed {seed}), after {:?}",
                &before[last..]
            );
        }
    }
}

/// The names of all commands but the others.
fn names(list: &str) -> Vec<String> {
    let others: Vec<&str> = OTHERS.split_whitespace().collect();
    let names: Vec<String> = list
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()))
        .map(str::to_uppercase)
        .filter(|name| !others.contains(&name.as_str()))
        .collect();
    assert!(names.len() > 70, "{names:?}");
    names
}

fn filled(template: &str, rng: &mut SmallRng) -> String {
    let words = template.split(' ').map(|word| match word {
        "k" => KEYS.choose(rng).unwrap(),
        "m" => MEMBERS.choose(rng).unwrap(),
        "n" => NUMBERS.choose(rng).unwrap(),
        "o" => OPTIONS.choose(rng).unwrap(),
        word => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

fn nonsense(names: &[String], rng: &mut SmallRng) -> String {
    let mut line = names.choose(rng).unwrap().clone();
    for _ in 0..rng.random_range(0..6) {
        let words = *[KEYS, KEYS, MEMBERS, NUMBERS, OPTIONS].choose(rng).unwrap();
        line.push(' ');
        line.push_str(words.choose(rng).unwrap());
    }
    line
}

/// The lines of a reply, sorted where their order is nobody's promise.
fn sorted(command: &str, reply: &str) -> Vec<String> {
    const UNORDERED: [&str; 12] = [
        "SMEMBERS", "SINTER", "SUNION", "SDIFF", "SSCAN", "SPOP", "HGETALL", "HKEYS", "HVALS",
        "HSCAN", "KEYS", "EXEC",
    ];
    let mut lines: Vec<String> = reply.split("\r\n").map(str::to_owned).collect();
    let name = command.split(' ').next().unwrap_or_default();
    if UNORDERED.contains(&name) {
        lines.sort();
    }
    lines
}

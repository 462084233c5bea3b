//! Commands made up at random, to our server and to a real redis-server: the replies must be the same
//! bytes, whatever state the commands before have left.

use std::net::TcpStream;
use std::ops::Range;
use std::os::unix::net::UnixStream;

use loadline_server::ServerConfig;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::support::{LATER, Ours, Redis, ask, ask_one};

/// Commands that mean something: `k` stands for a key, `m` for a member or a value, `n` for a number, `f` for
/// a decimal number, `e` for the id of an entry, `t` for a time that is over at once or in days, `p` for a pattern, `c` for the name of
/// a command, `l` for a longitude or latitude and `o` for an option. Only the members of the set `lex` are asked for by their bytes: they have one score, and
/// Redis specifies no result for others.
const SENSIBLE: &str = "\
SET k m|SET k m o|SET k m o o|SET k n|GET k|GETSET k m|GETDEL k|GETEX k|GETEX k PERSIST|GETEX k o n|SETNX k m
MSET k m k m|MSETNX k m k m|MGET k k k|APPEND k m|STRLEN k|GETRANGE k n n|SUBSTR k n n|SETRANGE k 3 m|SETRANGE k 0 m
INCR k|DECR k|INCRBY k n|DECRBY k n|INCRBYFLOAT k n|DEL k|DEL k k|UNLINK k|EXISTS k k|TOUCH k k|TYPE k|RENAME k k|RENAMENX k k
COPY k k|COPY k k REPLACE|COPY k k DB 1|MOVE k 1|SELECT 0|SELECT 1|SELECT 0|SWAPDB 0 1|EXPIREAT k 33177117420|EXPIREAT k 33177117420 o|PEXPIREAT k 33177117420000 o
EXPIREAT k 1|EXPIRETIME k|PEXPIRETIME k|PERSIST k|SET k m EXAT 33177117420|KEYS *|KEYS [ab]|DBSIZE
SADD k m|SADD k m m m|SADD k n|SREM k m|SREM k m m|SMEMBERS k|SISMEMBER k m|SMISMEMBER k m m|SCARD k|SMOVE k k m|SPOP k 1000|SSCAN k 0|SSCAN k 0 MATCH m
SINTER k k|SUNION k k|SDIFF k k|SINTER k|SINTERSTORE k k k|SUNIONSTORE k k k|SDIFFSTORE k k k|SINTERCARD 2 k k|SINTERCARD 2 k k LIMIT n
HSET k m m|HSET k m n m m|HMSET k m m|HSETNX k m m|HGET k m|HMGET k m m|HGETALL k|HDEL k m|HDEL k m m|HLEN k|HEXISTS k m|HSTRLEN k m|HKEYS k|HVALS k
HINCRBY k m n|HINCRBYFLOAT k m n|HSCAN k 0|HSCAN k 0 MATCH m|MULTI|EXEC|EXEC|DISCARD|WATCH k|UNWATCH|PING|ECHO m|FLUSHDB
SET k f|INCRBYFLOAT k f|INCRBYFLOAT k f|HSET k m f|HINCRBYFLOAT k m f|HINCRBYFLOAT k m f|SINTERCARD n k k LIMIT n|SETRANGE k n m
EXPIRE k t|PEXPIRE k t|EXPIRE k t NX|PEXPIRE k t XX|EXPIRE k t o|SETEX k t m|PSETEX k t m|SET k m EX t|SET k m PX t o|GETEX k EX t|GETEX k PX t|EXPIREAT k t|PEXPIREAT k t
TTL k|PTTL k|KEYS p|SCAN 0 COUNT 1000|SCAN 0 COUNT 1000 MATCH p|SCAN 0 COUNT 1000 TYPE m|SCAN 0 COUNT 1000 TYPE set|SSCAN k 0 COUNT 1000 MATCH p|HSCAN k 0 COUNT 1000 MATCH p
SRANDMEMBER k 1000|SRANDMEMBER k 0|HRANDFIELD k 1000|HRANDFIELD k 1000 WITHVALUES|HRANDFIELD k 0|COMMAND GETKEYS c k m n|COMMAND GETKEYS c n k k|COMMAND GETKEYS c k k
LTRIM k n n|LTRIM k 0 n|LREM k n m|LREM k 0 m|LINSERT k BEFORE m m|LINSERT k AFTER m m|LPOS k m|LPOS k m RANK -1|LPOS k m COUNT n|LPOS k m RANK 2 COUNT 0 MAXLEN n|LMOVE k k LEFT RIGHT|LMOVE k k RIGHT LEFT|RPOPLPUSH k k|LMPOP 2 k k LEFT|LMPOP 1 k RIGHT COUNT n
ZADD k n m|ZADD k n m n m|ZADD k f m f m|ZADD k 0 m 0 m 0 m|ZADD k o n m|ZADD k o o n m n m|ZADD k GT n m|ZADD k LT CH n m n m|ZADD k INCR n m|ZADD k INCR GT f m|ZINCRBY k n m|ZINCRBY k f m|ZREM k m m|ZCARD k|ZSCORE k m|ZMSCORE k m m|ZRANK k m|ZREVRANK k m
ZRANGE k n n|ZRANGE k 0 -1 WITHSCORES|ZRANGE k n n REV WITHSCORES|ZRANGE k n n BYSCORE WITHSCORES|ZRANGE k (n n BYSCORE LIMIT n n|ZRANGE k n (n BYSCORE REV|ZRANGE lex [m [m BYLEX LIMIT n n|ZRANGE lex (m + BYLEX REV|ZRANGE k n n o o|ZRANGESTORE k k n n|ZRANGESTORE k k -inf n BYSCORE|ZRANGEBYSCORE k n n|ZRANGEBYSCORE k n (n WITHSCORES LIMIT n n|ZREVRANGEBYSCORE k n n|ZREVRANGE k n n|ZREVRANGE k 0 -1 WITHSCORES
ZADD lex 0 m 0 m|ZREM lex m|ZRANGEBYLEX lex [m (m|ZRANGEBYLEX lex - [m|ZREVRANGEBYLEX lex + [m LIMIT n n|ZREVRANGEBYLEX lex (m -|ZCOUNT k n n|ZCOUNT k (n +inf|ZLEXCOUNT lex [m +|ZLEXCOUNT lex (m (m|ZREMRANGEBYRANK k n n|ZREMRANGEBYRANK k 1 1|ZREMRANGEBYSCORE k n n|ZREMRANGEBYSCORE k (n 3|ZREMRANGEBYLEX lex [m [m|ZPOPMIN k|ZPOPMAX k|ZPOPMIN k n|ZMPOP 2 k k MIN|ZMPOP 1 k MAX COUNT n|ZSCAN k 0|ZSCAN k 0 MATCH m|ZRANDMEMBER k 1000|ZRANDMEMBER k 0
ZUNION 2 k k WITHSCORES|ZUNION 2 k k WEIGHTS n n WITHSCORES|ZUNION n k k AGGREGATE MIN|ZINTER 2 k k WITHSCORES|ZINTER 2 k k AGGREGATE MAX|ZDIFF 2 k k WITHSCORES|ZUNIONSTORE k 2 k k|ZUNIONSTORE k 2 k k WEIGHTS n n|ZINTERSTORE k 2 k k AGGREGATE MIN|ZDIFFSTORE k 2 k k|ZINTERCARD 2 k k|ZINTERCARD 2 k k LIMIT n
LPUSH k m|RPUSH k m m|LPUSHX k m|RPUSHX k m|LPOP k|RPOP k n|LPOP k n|RPOP k|BLMOVE k k LEFT RIGHT .001|BRPOPLPUSH k k .001|BLMPOP .001 2 k k RIGHT COUNT n|BZPOPMIN k k .001|BZPOPMAX k .001|BZMPOP .001 2 k k MIN COUNT n|BLPOP k k .001|BRPOP k n .001|LLEN k|LRANGE k n n|LRANGE k 0 -1|LINDEX k n|LSET k n m|LSET k 0 n
XADD k e m m|XADD k e m m m n|XADD k MAXLEN n e m m|XADD k MAXLEN ~ n e m m|XADD k NOMKSTREAM 50-* m m|XADD k 50-* m m|XADD k 50-* m m m m|XADD k 50-* 1 m|XADD k MINID e 50-* m m|XADD k MAXLEN = 3 50-* n m|XADD k MINID ~ e LIMIT n 50-* m m
XLEN k|XRANGE k - +|XRANGE k e e|XRANGE k e + COUNT n|XREVRANGE k + -|XREVRANGE k e e COUNT 2|XDEL k e e|XDEL k 50-1|XTRIM k MAXLEN n|XTRIM k MINID e|XTRIM k MAXLEN ~ n LIMIT n|XSETID k e|XSETID k e ENTRIESADDED n MAXDELETEDID e|XREAD STREAMS k e|XREAD COUNT n STREAMS k k e e|XREAD BLOCK 1 STREAMS k $
XGROUP CREATE k g e|XGROUP CREATE k g $ MKSTREAM|XGROUP CREATE k g 0 ENTRIESREAD n|XGROUP SETID k g e|XGROUP SETID k g e ENTRIESREAD n|XGROUP DESTROY k g|XGROUP CREATECONSUMER k g m|XGROUP DELCONSUMER k g m|XREADGROUP GROUP g m STREAMS k >|XREADGROUP GROUP g m COUNT n STREAMS k >|XREADGROUP GROUP g m NOACK STREAMS k k > >|XREADGROUP GROUP g m STREAMS k e
XACK k g e e|XACK k g 50-0 50-1|XPENDING k g|XPENDING k g - + n|XPENDING k g - + 10 m|XPENDING k g IDLE 0 e e 10|XCLAIM k g m 0 e e|XCLAIM k g m 0 e FORCE JUSTID|XCLAIM k g m 0 50-0 e FORCE RETRYCOUNT n|XCLAIM k g m 0 e LASTID e IDLE n|XAUTOCLAIM k g m 0 e|XAUTOCLAIM k g m 0 e COUNT n JUSTID|XINFO STREAM k|XINFO STREAM k FULL|XINFO GROUPS k|XINFO CONSUMERS k g
BITFIELD k GET u8 0|BITFIELD k SET u8 3 n GET i5 n|BITFIELD k INCRBY i8 n n INCRBY u3 #2 n|BITFIELD k OVERFLOW SAT INCRBY i5 0 n OVERFLOW FAIL INCRBY u4 7 n SET i64 3 n|BITFIELD_RO k GET i16 n|SETBIT k 7 1|SETBIT k n 0|GETBIT k n|BITCOUNT k|BITCOUNT k n n|BITCOUNT k n n BIT|BITPOS k 1|BITPOS k 0 n|BITPOS k 1 n n|BITPOS k 0 n n BIT|RESTORE k n m|BITOP AND k k k|BITOP XOR k k k|BITOP NOT k k|LCS k k|LCS k k IDX|LCS k k LEN|SORT k|SORT k ALPHA STORE k|SORT k DESC|SORT k ALPHA LIMIT n n STORE k|SORT k STORE k|SORT k ALPHA GET # STORE k
GEOADD k l l m|GEOADD k l l m l l m|GEOADD k CH l l m|GEODIST k m m km|GEOHASH k m m|GEOPOS k m m|GEORADIUS k l l n km WITHDIST WITHCOORD|GEORADIUS k l l 9000 km DESC STORE k|GEORADIUS_RO k l l 3000 km COUNT n ANY|GEORADIUSBYMEMBER k m 9000 km STOREDIST k|GEORADIUSBYMEMBER_RO k m 99999 km WITHHASH
GEOSEARCH k FROMLONLAT l l BYBOX 9000 9000 km ASC WITHDIST|GEOSEARCH k FROMMEMBER m BYRADIUS n mi WITHCOORD|GEOSEARCHSTORE k k FROMLONLAT l l BYBOX 9000 n km|GEOSEARCHSTORE k k FROMMEMBER m BYRADIUS 500000 ft STOREDIST
PFADD k m|PFADD k m m n|PFADD k|PFCOUNT k|PFCOUNT k k|PFMERGE k k k|PFDEBUG ENCODING k|CONFIG SET hll-sparse-max-bytes 20|CONFIG SET hll-sparse-max-bytes 3000
CLIENT SETNAME m|CLIENT GETNAME|CLIENT NO-EVICT o|AUTH m|AUTH m m|HELLO n|HELLO n SETNAME m|HELLO 2|HELLO 3|HELLO 3|RESET|OBJECT FREQ k|OBJECT o k|WAIT 0 n|ACL WHOAMI|SWAPDB n 1|SELECT n|MOVE k n|COPY k k DB n";

/// Commands whose replies depend on time or chance, or on what a server is, or that end something or have several replies. Where a
/// cursor stands that the server did not give is chance too.
const OTHERS: &str = "\
LOLWUT TTL PTTL SPOP SRANDMEMBER HRANDFIELD ZRANDMEMBER RANDOMKEY SCAN SSCAN HSCAN ZSCAN TIME LASTSAVE PFSELFTEST MONITOR WAIT INFO CONFIG COMMAND CLIENT MEMORY OBJECT SHUTDOWN QUIT
HELLO AUTH RESET FAILOVER MODULE REPLICAOF SLAVEOF SAVE BGSAVE BGREWRITEAOF ACL EXPIRE PEXPIRE SETEX PSETEX DUMP SUBSCRIBE PSUBSCRIBE SSUBSCRIBE UNSUBSCRIBE
PUNSUBSCRIBE SUNSUBSCRIBE BLPOP BRPOP BLMOVE BRPOPLPUSH BLMPOP BZPOPMIN BZPOPMAX BZMPOP XADD";

// No word has a space in it: that is how commands are taken apart again.
const KEYS: &[&str] = &["a", "b", "c", "d", "a", "b", "\"\"", "a*[b", "\"\\x00\""];
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
    "\"\\x201\"",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1e400",
    "1e-5",
];
const IDS: &[&str] = &[
    "0",
    "0-1",
    "1",
    "1-1",
    "1-2",
    "2-*",
    "3-3",
    "5-5",
    "(3-3",
    "7-*",
    "-",
    "+",
    "50-0",
    "50-1",
    "50-3",
    "(50-2",
    "50",
    "x",
    "1-",
    "-1",
    "007",
    "9223372036854775808-1",
    "18446744073709551615",
];
const DEGREES: &[&str] = &[
    "0",
    "13.361389",
    "38.115556",
    "-73.9733487",
    "2.5",
    "-180",
    "180",
    "85.05112878",
    "-85.05112878",
    "66.5",
    "1e-5",
    "x",
];
const TIMES: &[&str] = &[
    "0",
    "-1",
    "1000000",
    "999999999",
    "9223372036854775",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854774",
    "abc",
    "1e3",
    "+5",
    "\"\"",
];
const PATTERNS: &[&str] = &[
    "*",
    "**",
    "?",
    "a*",
    "*b",
    "[ab]",
    "[^a]",
    "[b-a]",
    "[a-]",
    "[",
    "[a",
    "[^",
    "a\\*",
    "\\a",
    "\\",
    "a\\",
    "*[",
    "\\[*",
    "\"\"",
    "[]]",
    "[^]a]",
    "*a*b*",
    "\"\\x00\"",
    "?*?",
    "a\\*\\[b",
];
const OPTIONS: &[&str] = &[
    "NX",
    "XX",
    "GT",
    "LT",
    "GET",
    "KEEPTTL",
    "EXAT",
    "PXAT",
    "PERSIST",
    "MATCH",
    "COUNT",
    "LIMIT",
    "REPLACE",
    "DB",
    "SYNC",
    "*",
    "REV",
    "BYSCORE",
    "WITHSCORES",
    "CH",
    "INCR",
];

/// The one time in the future that commands here name, in seconds.
const FAR_S: &str = "33177117420";

/// The seeds of a run, and those of the long setting.
const SEEDS: Range<u64> = 0..12;
const LONG_SEEDS: Range<u64> = 0..200;

#[test]
fn random_commands_get_the_replies_of_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    // The second client changes what the first one watches.
    let mut clients = [(); 2].map(|()| Both {
        one: ours.connect(),
        other: redis.connect(),
    });
    let names = names(&ask(&mut clients[0].one, "COMMAND LIST"));
    let sensible: Vec<&str> = SENSIBLE.split(['|', '\n']).collect();
    for seed in seeds() {
        let mut rng = SmallRng::seed_from_u64(seed);
        let hello = if seed % 2 == 0 { "HELLO 2" } else { "HELLO 3" };
        for client in &mut clients {
            for line in ["DISCARD", "RESET", hello, "FLUSHALL"] {
                client.ask(line);
            }
        }
        let mut before = Vec::new();
        let mut next = None;
        for _ in 0..4_000 {
            let (client, command) = next
                .take()
                .unwrap_or_else(|| made_up(&sensible, &names, &mut rng));
            next = follow_up(&command).map(|next| (client, next));
            let replies = clients[client].ask(&command);
            before.push(format!("{client}: {command}"));
            let last = before.len().saturating_sub(40);
            assert!(
                is_same(&command, &replies.0, &replies.1),
                "{command} (seed {seed}): ours {:?}, redis {:?}, after {:?}",
                replies.0,
                replies.1,
                &before[last..]
            );
        }
    }
}

/// A command, and which client sends it.
fn made_up(sensible: &[&str], names: &[String], rng: &mut SmallRng) -> (usize, String) {
    let command = if rng.random_ratio(3, 4) {
        filled(sensible.choose(rng).unwrap(), names, rng)
    } else {
        nonsense(names, rng)
    };
    (usize::from(rng.random_ratio(1, 6)), command)
}

/// The command that has to follow one, so that both servers are in the same state.
///
/// SORT of Redis takes an overflow that an earlier command met for its own, until another number is read. And a SET that
/// gives its key an end in the past is followed by the removal of the key: DBSIZE counts it until somebody looks for it or
/// it is swept, which each server does in its own time.
fn follow_up(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split(' ').collect();
    if command.contains("1e400") {
        return Some("ZINCRBY a nan a".to_owned());
    }
    let ends = words.contains(&"EXAT") || words.contains(&"PXAT");
    let is_past = ends && !words.contains(&FAR_S);
    (words[0] == "SET" && words.len() > 1 && is_past).then(|| format!("DEL {}", words[1]))
}

/// The seeds to try.
fn seeds() -> Range<u64> {
    let is_long = std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1");
    if is_long { LONG_SEEDS } else { SEEDS }
}

/// A client of both servers.
struct Both {
    one: TcpStream,
    other: UnixStream,
}

impl Both {
    fn ask(&mut self, line: &str) -> (String, String) {
        (ask_one(&mut self.one, line), ask_one(&mut self.other, line))
    }
}

/// Whether two replies say the same: the same bytes, except for an unspecified order, the time
/// that passes between two servers, and their ids of a connection.
fn is_same(command: &str, one: &str, other: &str) -> bool {
    let name = command.split(' ').next().unwrap_or_default();
    let most_apart = match name {
        "TTL" | "EXPIRETIME" => 2,
        "PTTL" | "PEXPIRETIME" => 2_000,
        _ => 0,
    };
    let times = [one, other].map(time_left);
    if let [Some(one), Some(other)] = times {
        return one.abs_diff(other) <= most_apart;
    }
    comparable(name, one) == comparable(name, other)
}

/// A number that may be one of the times that commands here set; the shortest is a thousand seconds.
fn time_left(reply: &str) -> Option<i64> {
    let number = reply.strip_prefix(':')?.trim_end().parse().ok();
    number.filter(|number| *number > 500)
}

/// The names of all commands but the others.
fn names(list: &str) -> Vec<String> {
    let others: Vec<&str> = OTHERS.split_whitespace().chain(LATER).collect();
    let names: Vec<String> = list
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()))
        .filter(|line| !line.contains('|'))
        .map(str::to_uppercase)
        .filter(|name| !others.contains(&name.as_str()))
        .collect();
    assert!(names.len() > 70, "{names:?}");
    names
}

fn filled(template: &str, names: &[String], rng: &mut SmallRng) -> String {
    let words = template.split(' ').map(|word| {
        // An end of an interval.
        let (mark, word) = match word.split_at_checked(1) {
            Some((mark @ ("(" | "["), word)) if !word.is_empty() => (mark, word),
            _ => ("", word),
        };
        let words = match word {
            "k" => KEYS,
            "m" => MEMBERS,
            "n" => NUMBERS,
            "o" => OPTIONS,
            "p" => PATTERNS,
            "e" => IDS,
            "l" => DEGREES,
            "t" => TIMES,
            "c" => return names.choose(rng).unwrap().clone(),
            "f" => return format!("{mark}{}", decimal(rng)),
            word => return format!("{mark}{word}"),
        };
        let chosen = *words.choose(rng).unwrap();
        match chosen.strip_prefix('"') {
            Some(quoted) => format!("\"{mark}{quoted}"),
            None => format!("{mark}{chosen}"),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A number as people and programs write them, with enough digits that some are lost.
fn decimal(rng: &mut SmallRng) -> String {
    let mut digits = |most: usize| -> String {
        let count = rng.random_range(0..=most);
        (0..count).map(|_| rng.random_range('0'..='9')).collect()
    };
    let (whole, part) = (digits(19), digits(19));
    let sign = ["", "", "-", "+"].choose(rng).unwrap();
    let point = if part.is_empty() && rng.random_ratio(3, 4) {
        ""
    } else {
        "."
    };
    let exponent = if rng.random_ratio(1, 4) {
        format!("e{}", rng.random_range(-25..=25))
    } else {
        String::new()
    };
    let number = format!("{sign}{whole}{point}{part}{exponent}");
    if number.is_empty() {
        "0.5".into()
    } else {
        number
    }
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

/// The lines of a reply, sorted if their order is unspecified, without the id in the reply to HELLO and
/// without the times that may be in the replies of a transaction.
fn comparable(name: &str, reply: &str) -> Vec<String> {
    const UNORDERED: [&str; 15] = [
        "SMEMBERS",
        "SINTER",
        "SUNION",
        "SDIFF",
        "SSCAN",
        "SPOP",
        "SRANDMEMBER",
        "HSCAN",
        "HRANDFIELD",
        "ZRANDMEMBER",
        "ZSCAN",
        "KEYS",
        "SCAN",
        // The long values for which Redis gives the order up are not in the reply.
        "HKEYS",
        "EXEC",
    ];
    let mut lines: Vec<String> = Vec::new();
    // The time of a delivery is followed by a number, those of a consumer have names.
    let has_times = ["EXEC", "XPENDING", "XINFO"].contains(&name);
    for line in reply.split("\r\n") {
        if has_times
            && line.starts_with(':')
            && let Some(last) = lines.last_mut()
            && last.starts_with(':')
        {
            ":".clone_into(last);
        }
        let is_of_server = |last: &String| ["id", "idle", "seen-time"].contains(&last.as_str());
        let is_id = lines.last().is_some_and(is_of_server);
        let is_time = name == "EXEC" && time_left(line).is_some();
        lines.push(if is_id || is_time { ":" } else { line }.to_owned());
    }
    // Redis gives the order of a hash up with a long value.
    const ORDERED_WHILE_SHORT: [&str; 2] = ["HGETALL", "HVALS"];
    let is_long = || lines.iter().any(|line| line.len() > 64);
    if UNORDERED.contains(&name) || (ORDERED_WHILE_SHORT.contains(&name) && is_long()) {
        lines.sort();
    }
    lines
}

//! The last access to a key and the frequency of accesses, beside a real redis-server.

use std::collections::BTreeSet;

use loadline_server::{DebugCommand, Durability, ServerConfig};

use crate::support::{Ours, ReadWrite, Redis, ask};

/// Seconds that a key was idle when a command comes.
const IDLE: u64 = 5_000;
/// The most seconds that a test takes.
const SLOW: u64 = 600;

/// The payload of the value at `key`, as a quoted word.
fn dumped(mut stream: &mut dyn ReadWrite, key: &str) -> String {
    let reply = ask(&mut stream, &format!("DUMP {key}"));
    let (_, payload) = reply.split_once("\r\n").unwrap();
    let payload = payload.strip_suffix("\r\n").unwrap();
    let bytes = payload
        .chars()
        .map(|byte| format!("\\x{:02x}", byte as u32));
    format!("\"{}\"", bytes.collect::<String>())
}

/// The integer in the last line of a reply; `None` for null.
fn last_integer(reply: &str) -> Option<u64> {
    let last = reply.lines().last().unwrap();
    last.strip_prefix(':').map(|number| number.parse().unwrap())
}

/// Kinds of values at `k`, and commands. At `o` is another value of the kind.
const USES: &str = "\
SET k 12 / SET o 34 / GET k|GETRANGE k 0 1|SUBSTR k 0 1|STRLEN k|GETBIT k 1|BITCOUNT k|BITPOS k 1|BITFIELD k GET u4 0|BITFIELD_RO k GET u4 0|MGET k o|LCS k o|EXISTS k o|TOUCH k|TYPE k|TTL k|PTTL k|EXPIRETIME k|PEXPIRETIME k|OBJECT ENCODING k|OBJECT REFCOUNT k|OBJECT IDLETIME k|MEMORY USAGE k|DUMP k|KEYS k|SCAN 0|SCAN 0 TYPE string|RANDOMKEY|DBSIZE|WATCH k|WATCH k\\r\\nMULTI\\r\\nPING\\r\\nEXEC|MULTI\\r\\nGET k\\r\\nEXEC|COMMAND GETKEYS GET k|DEBUG OBJECT k|DEBUG DIGEST|DEBUG DIGEST-VALUE k|EVAL \"return redis.call('get', 'k')\" 1 k|EVAL \"return redis.call('type', 'k')\" 1 k|EVAL \"return 1\" 1 k|GETEX k|GETEX k EX 100|GETDEL k|GETSET k v|SET k v|SET k v NX|SET k v XX|SET k v GET|SET k v KEEPTTL|SETNX k v|SETEX k 100 v|APPEND k v|SETRANGE k 1 x|SETRANGE k 0 \"\"|SETBIT k 1 1|INCR k|INCRBYFLOAT k 1.5|DECRBY k 2|MSET k v|MSETNX k v|MSETNX k v x y|BITOP NOT k o|BITOP AND d k o|BITFIELD k SET u4 0 1|EXPIRE k 100|EXPIRE k 100 XX|EXPIRE k -1|EXPIREAT k 99999999999|PERSIST k|RENAME k o|RENAME o k|RENAMENX k o|RENAMENX k free|COPY k free|COPY k o|COPY k o REPLACE|COPY o k REPLACE|MOVE k 5|DEL k|UNLINK k|LPUSH k v|HGET k f|SMEMBERS k|PFCOUNT k|PFADD k a|PFMERGE k o|RENAME k k|RENAMENX k k|SORT k|OBJECT FREQ k|MIGRATE 127.0.0.1 1 k 0 100 COPY|MIGRATE 127.0.0.1 1 o 0 100|SWAPDB 0 7\\r\\nSWAPDB 0 7
RPUSH k a b 1 / RPUSH o c / LRANGE k 0 -1|LLEN k|LINDEX k 0|LPOS k a|LPOS k z|GET k|SORT k|SORT k ALPHA|SORT k ALPHA STORE d|SORT k BY nosort GET o|SORT_RO k ALPHA|LPUSH k v|LPUSHX k v|LPOP k|RPOP k 9|LSET k 0 v|LINSERT k BEFORE a v|LINSERT k BEFORE z v|LREM k 0 a|LREM k 0 z|LTRIM k 0 0|LTRIM k 5 9|LMOVE k o LEFT LEFT|RPOPLPUSH o k|BLPOP k 0|BLMOVE k o LEFT LEFT 0|LMPOP 1 k LEFT|BLMPOP 0 2 nope k LEFT|TYPE k|OBJECT ENCODING k|DUMP k
SADD k a b 1 / SADD o b c / SMEMBERS k|SCARD k|SISMEMBER k a|SISMEMBER k z|SMISMEMBER k a z|SRANDMEMBER k|SRANDMEMBER k 9|SSCAN k 0|SINTER k o|SINTERCARD 2 k o|SUNION k o|SDIFF k o|SDIFF o k|SINTERSTORE d k o|SUNIONSTORE k o|SDIFFSTORE d o k|SADD k a|SADD k z|SREM k a|SREM k z|SPOP k|SPOP k 9|SMOVE k o a|SMOVE o k c|SMOVE k o z|ZUNION 2 k o|ZINTERCARD 2 k o|SORT k ALPHA|GET k
HSET k f v g 1 / HSET o f v / HGET k f|HGET k z|HMGET k f z|HGETALL k|HKEYS k|HVALS k|HLEN k|HEXISTS k f|HSTRLEN k f|HRANDFIELD k|HRANDFIELD k 9 WITHVALUES|HSCAN k 0|HSET k f w|HSETNX k f w|HMSET k f w|HINCRBY k g 1|HINCRBY k f 1|HINCRBYFLOAT k g 1|HDEL k f|HDEL k z|HDEL k f g|GET k|SORT o BY k->*
ZADD k 1 a 2 b / ZADD o 3 c / ZRANGE k 0 -1|ZRANGE k 0 9 BYSCORE|ZRANGE k - + BYLEX|ZREVRANGE k 0 -1|ZRANGEBYSCORE k 0 9|ZRANGEBYLEX k - +|ZREVRANGEBYSCORE k 9 0|ZREVRANGEBYLEX k + -|ZSCORE k a|ZMSCORE k a z|ZCARD k|ZCOUNT k 0 9|ZLEXCOUNT k - +|ZRANK k a|ZREVRANK k a|ZRANDMEMBER k|ZRANDMEMBER k 9|ZSCAN k 0|ZUNION 2 k o|ZINTER 2 k o|ZDIFF 2 k o|ZINTERCARD 2 k o|ZUNIONSTORE d 2 k o|ZUNIONSTORE k 1 o|ZINTERSTORE d 2 k o|ZDIFFSTORE d 2 o k|ZRANGESTORE d k 0 -1|ZRANGESTORE k o 0 -1|ZADD k 1 a|ZADD k NX 5 a|ZADD k 5 a|ZINCRBY k 1 a|ZREM k a|ZREM k z|ZREMRANGEBYRANK k 0 0|ZREMRANGEBYSCORE k 8 9|ZREMRANGEBYLEX k - +|ZPOPMIN k|ZPOPMAX k 9|ZMPOP 1 k MIN|BZPOPMIN k 0|BZMPOP 0 1 k MAX|GEOPOS k a|GEODIST k a b|GEOHASH k a|GEOSEARCH k FROMLONLAT 0 0 BYRADIUS 1 m|GEORADIUS k 0 0 1 m|GEOSEARCHSTORE d k FROMLONLAT 0 0 BYRADIUS 1 m|GEOADD k 1 1 x|GET k
XADD k 1-1 f v / XADD o 1-1 f v / XRANGE k - +|XREVRANGE k + -|XLEN k|XREAD STREAMS k 0|XREAD STREAMS k $|XREAD COUNT 1 STREAMS o k 0 0|XINFO STREAM k|XINFO STREAM k FULL|XINFO GROUPS k|XADD k 2-1 f v|XADD k NOMKSTREAM * f v|XADD k 1-1 f v|XDEL k 1-1|XDEL k 9-9|XTRIM k MAXLEN 0|XTRIM k MAXLEN 9|XSETID k 5-5|XGROUP CREATE k g 0|XGROUP DESTROY k g|XPENDING k g|XACK k g 1-1|XCLAIM k g c 0 1-1|XREADGROUP GROUP g c STREAMS k >|GET k
PFADD k a b / PFADD o c / PFCOUNT k|PFCOUNT k o|PFADD k a|PFADD k z|PFMERGE k o|PFMERGE d k o|GET k|PFDEBUG GETREG k";

/// Which of the keys were used by a command: those that were not idle for long afterwards, and those that are gone.
fn used(mut stream: &mut dyn ReadWrite, restore: &str, command: &str) -> Vec<(char, bool)> {
    ask(&mut stream, &format!("FLUSHALL\r\n{restore}"));
    ask(&mut stream, command);
    let keys = ['k', 'o', 'd'].into_iter();
    let each = keys.filter_map(|key| {
        let idle = last_integer(&ask(&mut stream, &format!("OBJECT IDLETIME {key}")))?;
        assert!(
            idle < SLOW || (IDLE..IDLE + SLOW).contains(&idle),
            "{command}: {idle}"
        );
        Some((key, idle < SLOW))
    });
    each.collect()
}

fn with_debug() -> (Ours, Redis) {
    let config = ServerConfig {
        debug_command: DebugCommand::Yes,
        ..ServerConfig::default()
    };
    let redis = Redis::start_with(&["--enable-debug-command", "yes"]);
    (Ours::start(config), redis)
}

#[test]
fn commands_use_the_keys_that_they_use_in_redis() {
    let (ours, redis) = with_debug();
    let (mut one, mut other) = (ours.connect(), redis.connect());
    let mut seen = BTreeSet::new();
    let mut differences = Vec::new();
    for group in USES.lines() {
        let [make, make_other, commands] = group.splitn(3, " / ").collect::<Vec<_>>()[..] else {
            panic!("{group}");
        };
        ask(&mut other, &format!("FLUSHALL\r\n{make}\r\n{make_other}"));
        let restores = ["k", "o"].map(|key| {
            let payload = dumped(&mut other, key);
            format!("RESTORE {key} 0 {payload} IDLETIME {IDLE}")
        });
        let restore = restores.join("\r\n");
        for command in commands.split('|') {
            let command = command.replace("\\r\\n", "\r\n");
            let is = used(&mut one, &restore, &command);
            let theirs = used(&mut other, &restore, &command);
            if is != theirs {
                differences.push(format!("{command}: {is:?}, in Redis {theirs:?}"));
            }
            seen.extend(theirs);
        }
    }
    assert_eq!(differences, Vec::<String>::new());
    // Each key was used by some commands and not by others; `d` is always new.
    assert_eq!(seen.len(), 5, "{seen:?}");
}

#[test]
fn options_and_errors_are_those_of_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    ask(&mut other, "SET k v");
    let payload = dumped(&mut other, "k");
    let options = [
        "IDLETIME",
        "IDLETIME -1",
        "IDLETIME x",
        "IDLETIME 5 FREQ 5",
        "FREQ",
        "FREQ -1",
        "FREQ 256",
        "FREQ x",
        "FREQ 5 IDLETIME 5",
        "IDLETIME 5 IDLETIME 6 REPLACE",
        "FREQ 255 REPLACE",
        "idletime 9223372036854775808",
    ];
    let policies = ["noeviction", "allkeys-lfu", "volatile-lru", "volatile-lfu"];
    for policy in policies {
        let asked = ["OBJECT FREQ nope", "OBJECT IDLETIME nope"];
        let restores = options.map(|options| format!("RESTORE k 0 {payload} {options}"));
        let lines = asked.into_iter().chain(restores.iter().map(String::as_str));
        let policy = format!("CONFIG SET maxmemory-policy {policy}");
        for line in ["FLUSHALL", &policy].into_iter().chain(lines) {
            assert_eq!(
                ask(&mut one, line),
                ask(&mut other, line),
                "{line} {policy}"
            );
        }
        let refused = match policy.ends_with("-lfu") {
            true => "OBJECT IDLETIME k",
            false => "OBJECT FREQ k",
        };
        let reply = ask(&mut one, refused);
        assert_eq!(reply, ask(&mut other, refused), "{policy}");
        assert!(
            reply.starts_with("-ERR An LFU maxmemory policy is"),
            "{reply}"
        );
    }
}

/// A minute can end between two commands, which takes one from each counter.
#[test]
fn frequencies_are_those_of_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    ask(&mut other, "SET k v");
    let payload = dumped(&mut other, "k");
    for mut stream in [&mut one as &mut dyn ReadWrite, &mut other] {
        ask(&mut stream, "CONFIG SET maxmemory-policy allkeys-lfu");
        for frequency in [0, 6, 100, 255] {
            let restore = format!("RESTORE k 0 {payload} REPLACE FREQ {frequency}");
            let reply = ask(
                &mut stream,
                &format!("{restore}\r\nTYPE k\r\nOBJECT FREQ k"),
            );
            let shown = last_integer(&reply).unwrap();
            assert!(
                (frequency.max(1) - 1..=frequency).contains(&shown),
                "{reply}"
            );
        }
        for (lines, expected) in [
            (format!("RESTORE k 0 {payload} REPLACE"), 5),
            (format!("RESTORE k 0 {payload} REPLACE IDLETIME 9"), 5),
            ("SET new v".to_owned(), 5),
            ("SET new v\r\nGET new".to_owned(), 6),
            ("SET new v\r\nTYPE new\r\nTTL new".to_owned(), 5),
            ("SET new v\r\nSET new w".to_owned(), 6),
            ("RPUSH new a".to_owned(), 5),
            (
                format!("RESTORE k 0 {payload} REPLACE FREQ 200\r\nRENAME k new"),
                200,
            ),
            (
                format!("RESTORE k 0 {payload} REPLACE FREQ 200\r\nCOPY k new"),
                5,
            ),
            (
                format!("RESTORE k 0 {payload} REPLACE FREQ 255\r\nGET k\r\nRENAME k new"),
                255,
            ),
            (
                format!("RESTORE new 0 {payload} REPLACE FREQ 200\r\nSET new v"),
                200,
            ),
        ] {
            let key = if lines.contains("new") { "new" } else { "k" };
            let reply = ask(
                &mut stream,
                &format!("DEL new\r\n{lines}\r\nOBJECT FREQ {key}"),
            );
            let shown = last_integer(&reply).unwrap();
            // Chance seldom counts an access to a key with a high counter.
            let counted = u64::from(expected == 200);
            assert!(
                (expected - 1..=expected + counted).contains(&shown),
                "{lines}: {reply}"
            );
        }
        let debug = ask(&mut stream, "CONFIG SET maxmemory-policy noeviction");
        assert_eq!(debug, "+OK\r\n");
    }
}

/// Keys of all lengths among others that come, grow and go.
#[test]
fn idle_times_stay_while_records_move() {
    let ours = Ours::start(ServerConfig::default());
    let mut stream = ours.connect();
    let value = |key: u64| "v".repeat(1 + key as usize * 7 % 300);
    let idle = |key: u64| key * 211 % 9_000_000;
    for key in 0..2_000 {
        let set = format!(
            "SET kept:{key} {}\r\nSET other:{key} {}",
            value(key),
            value(key + 1)
        );
        ask(&mut stream, &set);
    }
    for key in 0..2_000 {
        let payload = dumped(&mut stream, &format!("kept:{key}"));
        let idle = idle(key);
        ask(
            &mut stream,
            &format!("RESTORE kept:{key} 0 {payload} REPLACE IDLETIME {idle}"),
        );
    }
    for round in 1..4 {
        for key in (0..2_000).step_by(round) {
            let other = value(key + round as u64 * 13);
            ask(
                &mut stream,
                &format!(
                    "SET other:{key} {other}\r\nSET more:{key} {other}\r\nDEL more:{}",
                    key / 2
                ),
            );
        }
    }
    for key in 0..2_000 {
        let reply = ask(&mut stream, &format!("OBJECT IDLETIME kept:{key}"));
        let shown = last_integer(&reply).unwrap();
        // Up to 512 seconds by rounding, where it is more than four hours.
        let most = if idle(key) < 14_400 { SLOW } else { SLOW + 512 };
        assert!(
            (idle(key)..idle(key) + most).contains(&shown),
            "{key}: {shown}, {}",
            idle(key)
        );
    }
}

#[test]
fn idle_times_stay_while_the_policy_changes() {
    let ours = Ours::start(ServerConfig {
        debug_command: DebugCommand::Yes,
        ..ServerConfig::default()
    });
    let mut stream = ours.connect();
    ask(&mut stream, "SET k v");
    let payload = dumped(&mut stream, "k");
    ask(
        &mut stream,
        &format!("RESTORE k 0 {payload} REPLACE IDLETIME {IDLE}"),
    );
    let has_time = |stream: &mut dyn ReadWrite| {
        let mut stream = stream;
        let shown = last_integer(&ask(&mut stream, "OBJECT IDLETIME k")).unwrap();
        assert!((IDLE..IDLE + SLOW).contains(&shown), "{shown}");
    };
    for policy in [
        "allkeys-lru",
        "volatile-ttl",
        "noeviction",
        "allkeys-random",
    ] {
        ask(
            &mut stream,
            &format!("CONFIG SET maxmemory-policy {policy} maxmemory 1gb"),
        );
        has_time(&mut stream);
    }
    // An access was minutes ago, so that the counter is 0.
    let reply = ask(
        &mut stream,
        "CONFIG SET maxmemory-policy allkeys-lfu\r\nOBJECT FREQ k",
    );
    assert_eq!(reply, "+OK\r\n:0\r\n");
    let reply = ask(&mut stream, "GET k\r\nOBJECT FREQ k");
    assert!(
        ["$1\r\nv\r\n:1\r\n", "$1\r\nv\r\n:0\r\n"].contains(&&*reply),
        "{reply}"
    );
    ask(&mut stream, "CONFIG SET maxmemory-policy noeviction");
    let shown = last_integer(&ask(&mut stream, "OBJECT IDLETIME k")).unwrap();
    assert!(shown < SLOW, "{shown}");
}

/// TOUCH is a use in spite of it, as in Redis 7.2.
#[test]
fn commands_after_no_touch_are_no_uses_of_keys() {
    let ours = Ours::start(ServerConfig::default());
    let mut stream = ours.connect();
    ask(&mut stream, "SET k v");
    let payload = dumped(&mut stream, "k");
    for policy in ["noeviction", "allkeys-lru maxmemory 100mb"] {
        ask(
            &mut stream,
            &format!("CONFIG SET maxmemory-policy {policy}"),
        );
        for (line, is_use) in [
            ("GET k", true),
            ("CLIENT NO-TOUCH ON", false),
            ("GET k", false),
            ("MULTI\r\nGET k\r\nEXEC", false),
            ("EVAL \"return redis.call('get', KEYS[1])\" 1 k", false),
            ("APPEND k v", false),
            ("TOUCH k", true),
            ("GET k", false),
            ("CLIENT NO-TOUCH OFF", false),
            ("GET k", true),
        ] {
            let restore = format!("RESTORE k 0 {payload} REPLACE IDLETIME {IDLE}");
            let lines = format!("{restore}\r\n{line}\r\nOBJECT IDLETIME k");
            let shown = last_integer(&ask(&mut stream, &lines)).unwrap();
            assert_eq!(shown < SLOW, is_use, "after {line}: {shown}");
        }
    }
}

/// Idle times are not in the log.
#[test]
fn loaded_keys_were_used_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let config = ServerConfig {
        debug_command: DebugCommand::Yes,
        durability: Durability::Always,
        dir: Some(dir.path().to_owned()),
        ..ServerConfig::default()
    };
    let idle = |stream: &mut dyn ReadWrite| {
        let mut stream = stream;
        last_integer(&ask(&mut stream, "OBJECT IDLETIME k")).unwrap()
    };
    {
        let ours = Ours::start(config.clone());
        let mut stream = ours.connect();
        ask(&mut stream, "SET k v");
        let payload = dumped(&mut stream, "k");
        let restore = format!("RESTORE k 0 {payload} REPLACE IDLETIME {IDLE}");
        ask(&mut stream, &restore);
        assert!(idle(&mut stream) >= IDLE);
        ask(&mut stream, "DEBUG RELOAD");
        assert!(idle(&mut stream) < SLOW);
        ask(&mut stream, &restore);
    }
    let ours = Ours::start(config);
    let mut stream = ours.connect();
    assert!(idle(&mut stream) < SLOW);
    assert_eq!(ask(&mut stream, "GET k"), "$1\r\nv\r\n");
}

/// Two numbers of the reply of DEBUG OBJECT.
fn lru(mut stream: &mut dyn ReadWrite) -> [u64; 2] {
    let reply = ask(&mut stream, "DEBUG OBJECT k");
    ["lru:", "lru_seconds_idle:"].map(|name| {
        let field = reply
            .split_ascii_whitespace()
            .find_map(|field| field.strip_prefix(name));
        field.unwrap().parse().unwrap()
    })
}

#[test]
fn debug_object_shows_the_clock_of_redis() {
    let (ours, redis) = with_debug();
    let (mut one, mut other) = (ours.connect(), redis.connect());
    ask(&mut other, "SET k v");
    let payload = dumped(&mut other, "k");
    let restore = format!("RESTORE k 0 {payload} REPLACE IDLETIME {IDLE}");
    let [(clock, idle), (their_clock, their_idle)] = [&mut one as &mut dyn ReadWrite, &mut other]
        .map(|mut stream| {
            ask(&mut stream, &restore);
            let [clock, idle] = lru(stream);
            (clock, idle)
        });
    assert!(clock.abs_diff(their_clock) < SLOW, "{clock} {their_clock}");
    for idle in [idle, their_idle] {
        assert!((IDLE..IDLE + SLOW).contains(&idle), "{idle}");
    }
    let frequent =
        format!("CONFIG SET maxmemory-policy allkeys-lfu\r\nRESTORE k 0 {payload} REPLACE FREQ 77");
    for mut stream in [&mut one as &mut dyn ReadWrite, &mut other] {
        ask(&mut stream, &frequent);
        let [raw, _] = lru(stream);
        assert!((76..=77).contains(&(raw & 255)), "{raw}");
    }
}

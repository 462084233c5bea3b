//! Keyspace notifications of our server and of a real redis-server: the same messages in the same order.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use loadline_server::ServerConfig;

use crate::support::{Ours, Redis, ask};

const COMMANDS: &str = "\
SET a 1|SET a 2 EX 100|SET a 3 KEEPTTL|SET a 4 NX|SET a 5 XX GET|SETNX b 1|SETNX b 2|SETEX a 100 x|PSETEX a 100000 x|GETSET a y|GETSET none y|GETDEL none|GETDEL nothere
MSET a 1 b 2 a 3|MSETNX a 1 c 2|MSETNX c 1 d 2|APPEND a x|APPEND a \"\"|APPEND e xyz|SETRANGE a 2 xx|SETRANGE a 0 \"\"|SETRANGE f 2 x|INCR n|DECR n|INCRBY n 5|DECRBY n 2|INCRBYFLOAT n 1.5|INCR a
GETEX a EX 100|GETEX a PERSIST|GETEX a|GETEX a PXAT 1|GETEX nothere EX 3|GET nothere|MGET a nothere b|STRLEN nothere|EXISTS nothere a nothere|TYPE nothere|TTL nothere|TOUCH nothere|OBJECT ENCODING nothere|DUMP nothere
SETBIT bits 7 1|SETBIT bits 7 1|SETBIT bits 100 0|BITFIELD bits SET u8 0 255 INCRBY u4 8 1|BITFIELD bits GET u8 0|BITFIELD_RO bits GET u8 0|BITOP AND dst bits bits|BITOP OR dst nothere nothere2|BITOP NOT dst bits
PFADD hll a b c|PFADD hll a|PFCOUNT hll|PFMERGE hll2 hll|PFADD hll3
DEL a nothere b|UNLINK c|EXPIRE n 100|EXPIRE nothere 100|EXPIRE n 50 GT|PEXPIRE n 100000|EXPIREAT n 99999999999|PERSIST n|PERSIST n|EXPIRE n -1|SET a 1|SET b 2|RENAME a c|RENAME c b|RENAMENX b d|RENAME nothere x|COPY d e REPLACE|COPY d g|COPY nothere g|COPY d h DB 3|MOVE d 3|MOVE e 4|RENAME g g
RPUSH l 1 2 3|LPUSH l 0|LPUSHX l x|RPUSHX l y|LPUSHX nothere x|LINSERT l BEFORE 1 z|LINSERT l BEFORE none z|LSET l 0 q|LTRIM l 0 100|LTRIM l 1 -2|LREM l 0 1|LREM l 0 none|LPOP l|RPOP l|LPOP l 0|LPOP nothere|LPOP l 10|RPUSH l a b c d|LMOVE l m LEFT RIGHT|LMOVE l l LEFT RIGHT|RPOPLPUSH l m|LMPOP 2 nothere l LEFT|LMPOP 1 l RIGHT COUNT 5|BLPOP m 0|RPUSH m left|BRPOP m 0|RPUSH m 1 2|BLMOVE m l RIGHT LEFT 0|BRPOPLPUSH m l 0|BLMPOP 0 1 l LEFT COUNT 2|LTRIM nothere 0 1|RPUSH l a|LTRIM l 5 6|LMOVE nothere l LEFT LEFT|LRANGE nothere 0 1|LLEN nothere|RPUSH l 3 1 2|SORT l STORE sorted|SORT nothere STORE sorted|LREM l 0 3|LREM l 1 1|LREM l 1 2
SADD s 1 2 3|SADD s 1|SREM s 1 9|SREM s 9|SMOVE s t 2|SMOVE s t 9|SADD s 2|SMOVE s t 2|SPOP s|SADD s a b c|SPOP s 10|SPOP s|SINTERSTORE dst t t|SUNIONSTORE dst2 t nothere|SDIFFSTORE dst t t|SREM t 2|SMOVE nothere t 1|SADD s 1|SADD u 1|SINTERSTORE dst s u|SISMEMBER nothere 1|SINTER nothere s
HSET h f 1|HSET h f 1|HSETNX h f 2|HSETNX h g 2|HMSET h x 1 y 2|HINCRBY h f 2|HINCRBYFLOAT h f 1.5|HDEL h f none|HDEL h none|HDEL h g x y|HGET h f|HGETALL nothere
ZADD z 1 a 2 b|ZADD z 1 a|ZADD z INCR 1 a|ZADD z NX INCR 1 a|ZINCRBY z 2 b|ZREM z a none|ZREM z none|ZADD z 1 a 3 c 4 d 5 e|ZREMRANGEBYRANK z 0 0|ZREMRANGEBYSCORE z 3 3|ZREMRANGEBYSCORE z 100 200|ZPOPMIN z|ZPOPMAX z|ZPOPMIN nothere|ZADD z 1 a 1 b 1 c|ZREMRANGEBYLEX z [a [a|ZMPOP 1 z MIN|ZMPOP 1 z MAX COUNT 5|ZADD z 1 a 2 b 3 c|BZPOPMIN z 0|BZPOPMAX z 0|BZMPOP 0 1 z MIN|ZADD z 1 a 2 b|ZUNIONSTORE zz 2 z nothere|ZINTERSTORE zz 2 z nothere|ZDIFFSTORE zz 1 z|ZRANGESTORE zzz z 0 -1|ZRANGESTORE zzz z 5 9|ZSCORE nothere a|ZRANGE nothere 0 1
GEOADD geo 13.361389 38.115556 p 15.087269 37.502669 c|GEOADD geo 13.361389 38.115556 p|GEOSEARCHSTORE near geo FROMLONLAT 15 37 BYRADIUS 200 km|GEOSEARCHSTORE near geo FROMLONLAT 15 37 BYRADIUS 1 m|GEORADIUS geo 15 37 200 km STORE near|GEORADIUSBYMEMBER geo p 1 m STORE near
XADD x 1-1 f v|XADD x 1-2 f v|XADD x MAXLEN 1 1-3 f v|XADD y NOMKSTREAM 1-1 f v|XDEL x 9-9|XADD x 1-4 f v|XTRIM x MAXLEN 5|XTRIM x MAXLEN 1|XSETID x 9-9|XGROUP CREATE x g 0|XGROUP CREATE w g 0 MKSTREAM|XGROUP SETID x g 0|XGROUP CREATECONSUMER x g c|XGROUP CREATECONSUMER x g c|XREADGROUP GROUP g d STREAMS x >|XREADGROUP GROUP g d STREAMS x >|XACK x g 1-4|XCLAIM x g k 0 1-4|XAUTOCLAIM x g q 0 0|XGROUP DELCONSUMER x g c|XGROUP DELCONSUMER x g nothere|XGROUP DESTROY x g|XGROUP DESTROY x g|XDEL x 1-4|XLEN nothere|XRANGE nothere - +
MULTI;SET tx 1;INCR tx;EXEC|EVAL \"redis.call('set','ev',1) redis.call('del','ev') return 1\" 0|SELECT 2;SET two 2;SWAPDB 2 5;SELECT 0|SET p 1 PX 1|FLUSHDB|FLUSHALL";

/// Reads the messages that a subscriber has got. Those behind the reply to PING can be incomplete.
pub(crate) fn messages(stream: &mut (impl Read + Write)) -> String {
    const PONG: &[u8] = b"*2\r\n$4\r\npong\r\n$3\r\nend\r\n";
    stream.write_all(b"PING end\r\n").unwrap();
    let mut got = Vec::new();
    let mut buffer = [0; 65_536];
    loop {
        let found = got.windows(PONG.len()).position(|part| part == PONG);
        if let Some(begin) = found {
            got.drain(begin..begin + PONG.len());
            return got.into_iter().map(char::from).collect();
        }
        let bytes = stream.read(&mut buffer).unwrap();
        assert!(bytes > 0);
        got.extend_from_slice(&buffer[..bytes]);
    }
}

/// Subscribes to all events.
pub(crate) fn subscribe(stream: &mut (impl Read + Write)) {
    stream.write_all(b"PSUBSCRIBE __key*\r\n").unwrap();
    messages(stream);
}

#[test]
fn events_of_commands_are_those_of_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    for classes in ["KEAmn", "Kg$", "El", ""] {
        let (mut one, mut other) = (ours.connect(), redis.connect());
        let (mut ears, mut other_ears) = (ours.connect(), redis.connect());
        let setting = format!("CONFIG SET notify-keyspace-events \"{classes}\"");
        let shown = "CONFIG GET notify-keyspace-events";
        for line in [
            "CONFIG SET notify-keyspace-events KEq",
            setting.as_str(),
            shown,
            "FLUSHALL",
        ] {
            assert_eq!(ask(&mut one, line), ask(&mut other, line), "{line}");
        }
        subscribe(&mut ears);
        subscribe(&mut other_ears);
        let mut wrong = Vec::new();
        for line in COMMANDS.split(['|', '\n']) {
            let commands = line.replace(';', "\r\n");
            ask(&mut one, &commands);
            ask(&mut other, &commands);
            let (ours, theirs) = (messages(&mut ears), messages(&mut other_ears));
            if ours != theirs {
                wrong.push(format!("{line}\n  ours  {ours:?}\n  Redis {theirs:?}"));
            }
        }
        assert!(wrong.is_empty(), "with {classes}:\n{}", wrong.join("\n"));
    }
}

/// Waits until a subscriber has got a message with this text.
pub(crate) fn wait_for(stream: &mut (impl Read + Write), text: &str) {
    let until = Instant::now() + Duration::from_secs(30);
    let mut got = messages(stream);
    while !got.contains(text) {
        assert!(Instant::now() < until, "no {text}");
        std::thread::sleep(Duration::from_millis(10));
        got += &messages(stream);
    }
}

#[test]
fn keys_that_the_server_removes_are_published() {
    let ours = Ours::start(ServerConfig::default());
    let (mut stream, mut ears) = (ours.connect(), ours.connect());
    ask(&mut stream, "CONFIG SET notify-keyspace-events Eex");
    subscribe(&mut ears);
    ask(&mut stream, "SET soon 1 PX 1\r\nSET read 1 PX 1");
    wait_for(&mut ears, "__keyevent@0__:expired\r\n$4\r\nsoon");
    ask(&mut stream, "SETRANGE large 99999 x");
    ask(
        &mut stream,
        "CONFIG SET maxmemory 50000 maxmemory-policy allkeys-lru\r\nSET other 1",
    );
    wait_for(&mut ears, "__keyevent@0__:evicted\r\n$5\r\nlarge");
}

//! Every group of commands, on every kind of connection, in both protocols.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use loadline_client::commands::*;
use loadline_client::{Error, OwnedReply, Protocol, Request, blocking, cmd, multiplexed};

use crate::server::{Redis, Runtime, runtime};

/// Either kind of connection, for commands that return at once.
pub(crate) enum Kind {
    Blocking(Box<blocking::Connection>),
    Multiplexed(Runtime, multiplexed::Connection),
}

impl Kind {
    pub(crate) fn run<Q: Request>(&mut self, request: Q) -> Q::Output {
        match self {
            Self::Blocking(connection) => connection.run(request),
            Self::Multiplexed(runtime, connection) => runtime.block_on(connection.run(request)),
        }
    }
}

/// Runs commands on an empty database, on both kinds of connection and in both protocols.
pub(crate) fn everywhere(commands: impl Fn(&mut Kind)) {
    let redis = Redis::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let client = redis.builder().protocol(Some(protocol)).build();
        let connection = client.blocking().unwrap();
        assert_eq!(connection.protocol(), protocol);
        let runtime = runtime();
        let shared = runtime.block_on(client.multiplexed()).unwrap();
        assert_eq!(shared.protocol(), Some(protocol));
        for mut kind in [
            Kind::Blocking(Box::new(connection)),
            Kind::Multiplexed(runtime, shared),
        ] {
            kind.run(flushdb()).unwrap();
            commands(&mut kind);
        }
    }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn strings_numbers_and_bits() {
    everywhere(|c| {
        c.run(set("k", "value")).unwrap();
        assert_eq!(c.run(get::<String>("k")).unwrap(), "value");
        assert_eq!(c.run(get::<bytes::Bytes>("k")).unwrap(), "value");
        assert_eq!(c.run(get::<Option<String>>("none")).unwrap(), None);
        let nil = c.run(get::<String>("none"));
        assert!(
            matches!(nil, Err(Error::Type { got: "nil", .. })),
            "{nil:?}"
        );
        assert_eq!(c.run(append("k", "!")).unwrap(), 6);
        assert_eq!(c.run(strlen("k")).unwrap(), 6);
        assert_eq!(c.run(get_range::<String>("k", 1, 2)).unwrap(), "al");
        assert_eq!(c.run(set_range("k", 0, "V")).unwrap(), 6);
        assert_eq!(
            c.run(set("k", "other").get::<String>()).unwrap().unwrap(),
            "Value!"
        );
        assert_eq!(c.run(set("k", 1).nx()).unwrap(), None);
        assert_eq!(
            c.run(set("lock", 1).nx().expire(Duration::from_secs(9)))
                .unwrap(),
            Some(())
        );
        assert_eq!(c.run(set("absent", 1).xx()).unwrap(), None);
        c.run(set("short", 1).expire(Duration::from_millis(90_000)))
            .unwrap();
        assert!((80_000..=90_000).contains(&c.run(pttl("short")).unwrap()));
        assert_eq!(
            c.run(get_ex::<i64>("short", Duration::from_secs(5)))
                .unwrap(),
            1
        );
        assert_eq!(c.run(get_del::<i64>("short")).unwrap(), 1);
        assert_eq!(c.run(incr("n")).unwrap(), 1);
        assert_eq!(c.run(incr_by("n", 10)).unwrap(), 11);
        assert_eq!(c.run(decr("n")).unwrap(), 10);
        assert_eq!(c.run(decr_by("n", 3)).unwrap(), 7);
        assert_eq!(c.run(incr_by_float("f", 1.5)).unwrap(), 1.5);
        c.run(mset([("a", 1), ("b", 2)])).unwrap();
        let values = c.run(mget::<Option<i64>>(["a", "b", "none"])).unwrap();
        assert_eq!(values, [Some(1), Some(2), None]);
        assert!(!c.run(mset_nx([("a", 1), ("c", 2)])).unwrap());
        assert!(!c.run(set_bit("bits", 7, true)).unwrap());
        assert!(c.run(get_bit("bits", 7)).unwrap());
        assert_eq!(c.run(bit_count("bits")).unwrap(), 1);
        let binary = (0..=255).collect::<Vec<u8>>();
        c.run(set("binary", &binary)).unwrap();
        assert_eq!(c.run(get::<Vec<u8>>("binary")).unwrap(), binary);
        let large = "x".repeat(3 << 20);
        c.run(set("large", &large)).unwrap();
        assert_eq!(c.run(get::<String>("large")).unwrap(), large);
    });
}

#[test]
fn keys_of_any_type() {
    everywhere(|c| {
        c.run(mset([("a", 1), ("b", 2)])).unwrap();
        assert_eq!(c.run(exists(["a", "b", "none"])).unwrap(), 2);
        assert_eq!(c.run(touch("a")).unwrap(), 1);
        assert_eq!(c.run(key_type("a")).unwrap(), "string");
        assert_eq!(c.run(object_encoding("a")).unwrap().as_deref(), Some("int"));
        assert_eq!(c.run(object_encoding("none")).unwrap(), None);
        assert!(c.run(copy("a", "copied")).unwrap());
        c.run(rename("copied", "renamed")).unwrap();
        assert!(!c.run(rename_nx("renamed", "a")).unwrap());
        assert!(c.run(expire("a", Duration::from_secs(60))).unwrap());
        assert!(c.run(persist("a")).unwrap());
        assert_eq!(c.run(pttl("a")).unwrap(), -1);
        assert!(c.run(expire_at("b", 1)).unwrap());
        assert_eq!(c.run(pttl("b")).unwrap(), -2);
        assert!(c.run(random_key::<Option<String>>()).unwrap().is_some());
        let (cursor, keys) = c.run(scan::<String>(0, "*", 100)).unwrap();
        assert_eq!(cursor, 0);
        assert_eq!(
            keys.into_iter().collect::<BTreeSet<_>>(),
            BTreeSet::from(["a".into(), "renamed".into()])
        );
        assert_eq!(c.run(dbsize()).unwrap(), 2);
        assert_eq!(c.run(del(["a", "none"])).unwrap(), 1);
        assert_eq!(c.run(unlink("renamed")).unwrap(), 1);
    });
}

#[test]
fn hashes() {
    everywhere(|c| {
        assert_eq!(
            c.run(hset("h", BTreeMap::from([("a", 1), ("b", 2)])))
                .unwrap(),
            2
        );
        assert!(!c.run(hset_nx("h", "a", 9)).unwrap());
        assert_eq!(c.run(hget::<i64>("h", "a")).unwrap(), 1);
        assert_eq!(c.run(hget::<Option<i64>>("h", "none")).unwrap(), None);
        let all = c.run(hgetall::<BTreeMap<String, i64>>("h")).unwrap();
        assert_eq!(all, BTreeMap::from([("a".into(), 1), ("b".into(), 2)]));
        let pairs = c.run(hgetall::<Vec<(String, i64)>>("h")).unwrap();
        assert_eq!(pairs, [("a".into(), 1), ("b".into(), 2)]);
        assert!(
            c.run(hgetall::<HashMap<String, i64>>("none"))
                .unwrap()
                .is_empty()
        );
        assert_eq!(
            c.run(hmget::<Option<i64>>("h", ["b", "x"])).unwrap(),
            [Some(2), None]
        );
        assert_eq!(c.run(hkeys::<String>("h")).unwrap(), strings(&["a", "b"]));
        assert_eq!(c.run(hvals::<i64>("h")).unwrap(), [1, 2]);
        assert_eq!(c.run(hincr_by("h", "a", 4)).unwrap(), 5);
        assert_eq!(c.run(hincr_by_float("h", "a", 0.5)).unwrap(), 5.5);
        assert_eq!(c.run(hlen("h")).unwrap(), 2);
        assert_eq!(c.run(hstrlen("h", "a")).unwrap(), 3);
        assert!(c.run(hexists("h", "a")).unwrap());
        assert_eq!(c.run(hrandfield::<String>("h", 5)).unwrap().len(), 2);
        let (cursor, found) = c.run(hscan::<BTreeMap<String, f64>>("h", 0, 10)).unwrap();
        assert_eq!((cursor, found.len()), (0, 2));
        assert_eq!(c.run(hdel("h", ["a", "b", "c"])).unwrap(), 2);
    });
}

#[test]
fn lists() {
    everywhere(|c| {
        assert_eq!(c.run(rpush("l", ["b", "c"])).unwrap(), 2);
        assert_eq!(c.run(lpush("l", "a")).unwrap(), 3);
        assert_eq!(c.run(lpushx("none", "a")).unwrap(), 0);
        assert_eq!(c.run(rpushx("l", "d")).unwrap(), 4);
        assert_eq!(
            c.run(lrange::<String>("l", 0, -1)).unwrap(),
            strings(&["a", "b", "c", "d"])
        );
        assert_eq!(c.run(lindex::<String>("l", -1)).unwrap(), "d");
        assert_eq!(c.run(lpos("l", "c")).unwrap(), Some(2));
        assert_eq!(c.run(linsert_before("l", "b", "x")).unwrap(), 5);
        assert_eq!(c.run(linsert_after("l", "nowhere", "x")).unwrap(), -1);
        assert_eq!(c.run(lrem("l", 0, "x")).unwrap(), 1);
        c.run(lset("l", 0, "A")).unwrap();
        assert_eq!(
            c.run(lmove::<String>("l", "m", Side::Left, Side::Right))
                .unwrap(),
            "A"
        );
        assert_eq!(c.run(lpop::<String>("l")).unwrap(), "b");
        assert_eq!(c.run(rpop::<String>("l")).unwrap(), "d");
        c.run(ltrim("l", 0, 0)).unwrap();
        assert_eq!(c.run(llen("l")).unwrap(), 1);
        assert_eq!(
            c.run(lpop_count::<String>("l", 9)).unwrap(),
            Some(strings(&["c"]))
        );
        assert_eq!(c.run(rpop_count::<String>("l", 9)).unwrap(), None);
    });
}

#[test]
fn sets() {
    everywhere(|c| {
        assert_eq!(c.run(sadd("s", ["a", "b", "c"])).unwrap(), 3);
        assert_eq!(c.run(sadd("t", ["b", "z"])).unwrap(), 2);
        let set = |words: &[&str]| strings(words).into_iter().collect::<BTreeSet<_>>();
        assert_eq!(
            c.run(smembers::<BTreeSet<String>>("s")).unwrap(),
            set(&["a", "b", "c"])
        );
        assert_eq!(
            c.run(sdiff::<BTreeSet<String>>(["s", "t"])).unwrap(),
            set(&["a", "c"])
        );
        assert_eq!(
            c.run(sinter::<BTreeSet<String>>(["s", "t"])).unwrap(),
            set(&["b"])
        );
        assert_eq!(
            c.run(sunion::<BTreeSet<String>>(["s", "t"])).unwrap().len(),
            4
        );
        assert_eq!(c.run(sdiff_store("d", ["s", "t"])).unwrap(), 2);
        assert_eq!(c.run(sinter_store("i", ["s", "t"])).unwrap(), 1);
        assert_eq!(c.run(sunion_store("u", ["s", "t"])).unwrap(), 4);
        assert_eq!(c.run(scard("s")).unwrap(), 3);
        assert!(c.run(sismember("s", "a")).unwrap());
        assert_eq!(c.run(smismember("s", ["a", "z"])).unwrap(), [true, false]);
        assert!(c.run(smove("s", "t", "a")).unwrap());
        assert_eq!(c.run(srandmember::<String>("s", 9)).unwrap().len(), 2);
        assert_eq!(c.run(sscan::<String>("s", 0, 10)).unwrap().1.len(), 2);
        assert_eq!(c.run(srem("s", ["b", "none"])).unwrap(), 1);
        assert_eq!(c.run(spop::<String>("s")).unwrap(), "c");
        assert_eq!(c.run(spop_count::<String>("t", 9)).unwrap().len(), 3);
    });
}

#[test]
fn sorted_sets() {
    everywhere(|c| {
        assert_eq!(
            c.run(zadd("z", [(1.0, "a"), (2.5, "b"), (3.0, "c")]))
                .unwrap(),
            3
        );
        assert_eq!(
            c.run(zrange::<String>("z", 0, 1)).unwrap(),
            strings(&["a", "b"])
        );
        let scored = c.run(zrange_with_scores::<String>("z", 0, -1)).unwrap();
        assert_eq!(scored[1], ("b".into(), 2.5));
        assert_eq!(
            c.run(zrevrange::<String>("z", 0, 0)).unwrap(),
            strings(&["c"])
        );
        assert_eq!(
            c.run(zrange_by_score::<String>("z", "(1", "+inf")).unwrap(),
            strings(&["b", "c"])
        );
        assert_eq!(c.run(zscore("z", "b")).unwrap(), Some(2.5));
        assert_eq!(c.run(zscore("z", "none")).unwrap(), None);
        assert_eq!(
            c.run(zmscore("z", ["a", "none"])).unwrap(),
            [Some(1.0), None]
        );
        assert_eq!(c.run(zincr_by("z", 0.5, "b")).unwrap(), 3.0);
        assert_eq!(c.run(zrank("z", "a")).unwrap(), Some(0));
        assert_eq!(c.run(zrevrank("z", "none")).unwrap(), None);
        assert_eq!(c.run(zcount("z", 1, 2)).unwrap(), 1);
        assert_eq!(c.run(zcard("z")).unwrap(), 3);
        assert_eq!(
            c.run(zscan::<String>("z", 0, 10)).unwrap().1[0],
            ("a".into(), 1.0)
        );
        assert_eq!(
            c.run(zpop_min::<String>("z", 1)).unwrap(),
            [("a".into(), 1.0)]
        );
        assert_eq!(
            c.run(zpop_max::<String>("z", 1)).unwrap(),
            [("c".into(), 3.0)]
        );
        assert_eq!(c.run(zrem("z", "none")).unwrap(), 0);
        assert_eq!(c.run(zrem_range_by_rank("z", 5, 9)).unwrap(), 0);
        assert_eq!(c.run(zrem_range_by_score("z", "-inf", "+inf")).unwrap(), 1);
    });
}

#[test]
fn streams() {
    type Fields = BTreeMap<String, String>;
    everywhere(|c| {
        let first = c.run(xadd("s", [("n", "1")])).unwrap();
        let second = c.run(xadd_capped("s", 1000, [("n", "2")])).unwrap();
        let all = c.run(xrange::<Fields>("s", "-", "+")).unwrap();
        let entry = |id: &str, n: &str| (id.to_owned(), Fields::from([("n".into(), n.into())]));
        assert_eq!(all, [entry(&first, "1"), entry(&second, "2")]);
        let last = c.run(xrevrange::<Fields>("s", "+", "-", 1)).unwrap();
        assert_eq!(last, [entry(&second, "2")]);
        let read = c
            .run(xread::<Fields>("s", &first).count(10))
            .unwrap()
            .unwrap();
        assert_eq!(read, [("s".to_owned(), vec![entry(&second, "2")])]);
        assert_eq!(c.run(xread::<Fields>("s", "$")).unwrap(), None);
        c.run(xgroup_create("s", "g", 0)).unwrap();
        let twice = c.run(xgroup_create("s", "g", 0)).unwrap_err();
        assert!(twice.is_server_code("BUSYGROUP"));
        let read = c
            .run(xread_group::<Fields>("g", "me", "s", ">").count(1))
            .unwrap()
            .unwrap();
        assert_eq!(read[0].1, [entry(&first, "1")]);
        std::thread::sleep(Duration::from_millis(2));
        let claim = xautoclaim::<Fields>("s", "g", "you", Duration::from_millis(1), 0);
        let (next, claimed, gone) = c.run(claim).unwrap();
        assert_eq!(
            (next.as_str(), claimed, gone.len()),
            ("0-0", vec![entry(&first, "1")], 0)
        );
        assert_eq!(c.run(xack("s", "g", &first)).unwrap(), 1);
        assert!(c.run(xgroup_destroy("s", "g")).unwrap());
        assert_eq!(c.run(xlen("s")).unwrap(), 2);
        assert_eq!(c.run(xdel("s", &first)).unwrap(), 1);
        assert_eq!(c.run(xtrim("s", 0)).unwrap(), 1);
    });
}

#[test]
fn server_and_anything_else() {
    everywhere(|c| {
        c.run(ping()).unwrap();
        assert_eq!(c.run(echo::<String>("hello")).unwrap(), "hello");
        assert!(c.run(info("server")).unwrap().contains("redis_version"));
        let (seconds, micros) = c.run(time()).unwrap();
        assert!(seconds > 1_600_000_000 && micros < 1_000_000);
        assert_eq!(c.run(publish("channel", "message")).unwrap(), 0);
        assert_eq!(c.run(spublish("channel", "message")).unwrap(), 0);
        assert_eq!(
            c.run(cmd::<i64>("LPUSH").arg("l").arg(["a", "b"])).unwrap(),
            2
        );
        let raw = c
            .run(cmd::<OwnedReply>("CONFIG GET").arg("maxclients"))
            .unwrap();
        assert!(matches!(raw, OwnedReply::Map(_) | OwnedReply::Array(_)));
        let error = c.run(incr("l")).unwrap_err();
        assert!(error.is_server_code("WRONGTYPE"));
        assert!(
            c.run(cmd::<()>("NOSUCH").arg("x"))
                .unwrap_err()
                .is_server_code("ERR")
        );
    });
}

//! Every group of commands, on every kind of connection, in both protocols.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use loadline_client::commands::*;
use loadline_client::{Error, OwnedReply, Protocol, Request, atomic, blocking, cmd, multiplexed};

use crate::server::{Redis, runtime};

/// Either kind of connection, for commands that return at once.
enum Kind {
    Blocking(Box<blocking::Connection>),
    Multiplexed(tokio::runtime::Runtime, multiplexed::Connection),
}

impl Kind {
    fn run<Q: Request>(&mut self, request: Q) -> Q::Output {
        match self {
            Self::Blocking(connection) => connection.run(request),
            Self::Multiplexed(runtime, connection) => runtime.block_on(connection.run(request)),
        }
    }
}

/// Runs commands on an empty database, on both kinds of connection and in both protocols.
fn everywhere(commands: impl Fn(&mut Kind)) {
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
        assert_eq!(c.run(set_get::<String>("k", "other")).unwrap(), "Value!");
        assert_eq!(c.run(set_nx("k", 1)).unwrap(), None);
        assert_eq!(
            c.run(set_nx_ex("lock", 1, Duration::from_secs(9))).unwrap(),
            Some(())
        );
        assert_eq!(c.run(set_xx("absent", 1)).unwrap(), None);
        c.run(set_ex("short", 1, Duration::from_millis(90_000)))
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
        let read = c.run(xread::<Fields>("s", &first, 10)).unwrap().unwrap();
        assert_eq!(read, [("s".to_owned(), vec![entry(&second, "2")])]);
        assert_eq!(c.run(xread::<Fields>("s", "$", 10)).unwrap(), None);
        c.run(xgroup_create("s", "g", 0)).unwrap();
        let twice = c.run(xgroup_create("s", "g", 0)).unwrap_err();
        assert!(twice.is_server_code("BUSYGROUP"));
        let read = c
            .run(xread_group::<Fields>("g", "me", "s", ">", 1))
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
fn the_server_and_anything_else() {
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

#[test]
fn pipelines_have_an_error_for_each_command() {
    everywhere(|c| {
        let (set_done, wrong, n, nil) = c.run((
            set("k", "text"),
            incr("k"),
            incr("n"),
            get::<Option<String>>("none"),
        ));
        set_done.unwrap();
        assert!(matches!(wrong, Err(Error::Server(_))));
        assert_eq!((n.unwrap(), nil.unwrap()), (1, None));
        let many: Vec<_> = (0..1000).map(|n| set(format!("k{n}"), n)).collect();
        assert!(c.run(&many).into_iter().all(|done| done.is_ok()));
        let many: Vec<_> = (0..1000).map(|n| get::<i64>(format!("k{n}"))).collect();
        for (n, value) in c.run(many).into_iter().enumerate() {
            assert_eq!(value.unwrap(), n as i64);
        }
        assert!(c.run(Vec::<loadline_client::Cmd<()>>::new()).is_empty());
    });
}

#[test]
fn transactions_are_all_or_nothing() {
    everywhere(|c| {
        let done = c.run(atomic((set("a", 1), incr("a"), get::<i64>("a"))));
        let (set_done, n, value) = done.unwrap().unwrap();
        set_done.unwrap();
        assert_eq!((n.unwrap(), value.unwrap()), (2, 2));
        let (_, wrong) = c.run(atomic((set("a", "x"), incr("a")))).unwrap().unwrap();
        assert!(matches!(wrong, Err(Error::Server(_))));
        let refused = c
            .run(atomic((set("b", 1), cmd::<()>("NOSUCH"))))
            .unwrap_err();
        assert!(refused.to_string().contains("unknown command"), "{refused}");
        assert_eq!(c.run(exists("b")).unwrap(), 0);
        // The connection is as good as before.
        c.run(ping()).unwrap();
    });
}

#[test]
fn scripts_are_sent_whole_where_they_are_not_known() {
    everywhere(|c| {
        let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
        c.run(script_flush()).unwrap();
        assert_eq!(c.run(script_exists(script.digest())).unwrap(), [false]);
        assert_eq!(c.run(script.call::<i64>("n", 5)).unwrap(), 5);
        assert_eq!(c.run(script_exists(script.digest())).unwrap(), [true]);
        assert_eq!(c.run(script.call::<i64>("n", 5)).unwrap(), 10);
        let reads = Script::new("return redis.call('GET', KEYS[1])").read_only();
        assert_eq!(c.run(reads.call::<i64>("n", ())).unwrap(), 10);
        assert_eq!(
            c.run(eval::<String>("return ARGV[1]", (), "x")).unwrap(),
            "x"
        );
        let digest = c.run(script_load("return 1")).unwrap();
        assert_eq!(digest, Script::new("return 1").digest());
    });
}

#[test]
fn a_watched_key_that_changes_stops_the_transaction() {
    let redis = Redis::start();
    let mut connection = redis.client().blocking().unwrap();
    let mut other = redis.client().blocking().unwrap();
    connection.run(set("balance", 1)).unwrap();
    let mut rounds = 0;
    let (done,) = connection
        .transaction("balance", |connection| {
            rounds += 1;
            let balance: i64 = connection.run(get("balance"))?;
            if rounds == 1 {
                other.run(incr_by("balance", 99))?;
            }
            Ok((set("balance", 2 * balance),))
        })
        .unwrap();
    done.unwrap();
    assert_eq!(rounds, 2);
    assert_eq!(other.run(get::<i64>("balance")).unwrap(), 200);
}

#[test]
fn a_watch_that_was_lost_with_its_connection_stops_the_transaction() {
    let redis = Redis::start();
    let mut connection = redis.client().blocking().unwrap();
    connection.run(watch("k")).unwrap();
    redis.ask("CLIENT KILL TYPE normal SKIPME yes");
    // The read is sent again on a new connection, which watches nothing.
    assert_eq!(connection.run(get::<Option<i64>>("k")).unwrap(), None);
    assert_eq!(connection.run(atomic(set("k", 1))).unwrap().map(drop), None);
    assert_eq!(connection.run(exists("k")).unwrap(), 0);
    assert!(connection.run(atomic(set("k", 1))).unwrap().is_some());
}

#[test]
fn replies_are_lent_without_a_copy() {
    let redis = Redis::start();
    let mut connection = redis.client().blocking().unwrap();
    connection.run(set("k", "value")).unwrap();
    let reply = connection.run_ref(&get::<()>("k")).unwrap();
    assert_eq!(reply.as_bytes(), Some(&b"value"[..]));
    let error = connection.run_ref(&incr("k")).unwrap_err();
    assert!(matches!(error, Error::Server(_)));
    let two = connection.run_ref(&(ping(), ping()));
    assert!(matches!(two, Err(Error::Usage(_))));
    connection.run(ping()).unwrap();
}

#[test]
fn each_reply_of_a_pipeline_is_lent_in_its_order() {
    let redis = Redis::start();
    let mut connection = redis.client().blocking().unwrap();
    let sets: Vec<_> = (0..1_000).map(|n| set(n, n)).collect();
    connection
        .run(&sets)
        .into_iter()
        .collect::<Result<(), _>>()
        .unwrap();
    let gets: Vec<_> = (0..1_000).map(get::<()>).collect();
    let mut read = Vec::new();
    connection
        .run_each(&gets, |reply| {
            let text = reply.unwrap().as_bytes().unwrap().to_vec();
            read.push(String::from_utf8(text).unwrap().parse::<u32>().unwrap());
        })
        .unwrap();
    assert!(read.into_iter().eq(0..1_000));
    // An error is lent in its place, and so are nil and numbers.
    connection.run(set("text", "no number")).unwrap();
    let mut read = Vec::new();
    connection
        .run_each(&(get::<()>("none"), incr("text"), incr("n")), |reply| {
            read.push(reply.map(|reply| format!("{reply:?}")));
        })
        .unwrap();
    assert_eq!(read[0].as_deref(), Ok("Null"));
    assert_eq!(read[1].as_ref().unwrap_err().code(), "ERR");
    assert_eq!(read[2].as_deref(), Ok("Integer(1)"));
    connection.run(ping()).unwrap();
}

#[test]
fn commands_that_wait_may_take_longer_than_a_reply() {
    let redis = Redis::start();
    let timeout = Some(Duration::from_millis(100));
    let client = redis.builder().response_timeout(timeout).build();
    let wait = Duration::from_millis(300);
    let mut connection = client.blocking().unwrap();
    let begun = Instant::now();
    assert_eq!(connection.run(blpop::<String>("l", wait)).unwrap(), None);
    assert!(begun.elapsed() >= wait);
    runtime().block_on(async {
        let shared = client.multiplexed().await.unwrap();
        let refused = shared.run(blpop::<String>("l", wait)).await;
        assert!(matches!(refused, Err(Error::Usage(_))));
        let mut own = client.dedicated().await.unwrap();
        let begun = Instant::now();
        assert_eq!(own.run(blpop::<String>("l", wait)).await.unwrap(), None);
        assert!(begun.elapsed() >= wait);
        shared.run(rpush("l", "x")).await.unwrap();
        let popped = own.run(blpop::<String>("l", Duration::MAX)).await.unwrap();
        assert_eq!(popped, Some(("l".into(), "x".into())));
        own.run(watch("k")).await.unwrap();
        shared.run(set("k", 1)).await.unwrap();
        assert_eq!(own.run(atomic(set("k", 2))).await.unwrap().map(drop), None);
        assert!(own.run(atomic(set("k", 2))).await.unwrap().is_some());
    });
}

#[test]
fn unix_sockets_and_spinning() {
    let redis = Redis::start();
    let url = format!("{}?spin=200us&db=3&client_name=spinner", redis.unix_url());
    let client = loadline_client::Client::open(&url).unwrap();
    let mut connection = client.blocking().unwrap();
    assert_eq!(connection.run(incr("n")).unwrap(), 1);
    let list = connection.run(cmd::<String>("CLIENT LIST")).unwrap();
    assert!(
        list.contains("name=spinner") && list.contains("db=3"),
        "{list}"
    );
    runtime().block_on(async {
        let connection = client.multiplexed().await.unwrap();
        assert_eq!(connection.run(incr("n")).await.unwrap(), 2);
    });
}

#[test]
fn push_messages_come_beside_replies() {
    let redis = Redis::start();
    let client = redis.client();
    let mut other = client.blocking().unwrap();
    let mut connection = client.blocking().unwrap();
    connection
        .run(cmd::<()>("CLIENT TRACKING").arg("ON"))
        .unwrap();
    connection.run(get::<Option<String>>("k")).unwrap();
    other.run(set("k", 1)).unwrap();
    let push = connection
        .wait_push(Duration::from_secs(5))
        .unwrap()
        .unwrap();
    assert!(matches!(push, OwnedReply::Push(_)), "{push:?}");
    assert_eq!(
        connection.wait_push(Duration::from_millis(20)).unwrap(),
        None
    );
    assert_eq!(connection.run(get::<i64>("k")).unwrap(), 1);
}

#[cfg(feature = "metrics")]
#[test]
fn requests_are_counted_by_name() {
    let redis = Redis::start();
    let client = redis.client();
    let mut connection = client.blocking().unwrap();
    connection.run(set("k", "text")).unwrap();
    connection.run_ref(&get::<()>("k")).unwrap();
    connection.run(incr("k")).unwrap_err();
    runtime().block_on(async {
        let shared = client.multiplexed().await.unwrap();
        let (wrong, fine) = shared.run((incr("k"), get::<String>("k"))).await;
        assert!(wrong.is_err() && fine.is_ok());
        shared.run(get::<String>("k")).await.unwrap();
    });
    let seen: Vec<_> = client
        .metrics()
        .snapshot()
        .into_iter()
        .map(|(name, counts)| {
            assert!(counts.response_time.quantile(0.5).unwrap() > Duration::ZERO);
            (name, counts.requests, counts.errors)
        })
        .collect();
    let expected = [
        ("GET", 2, 0),
        ("INCR", 1, 1),
        ("SET", 1, 0),
        ("pipeline", 1, 1),
    ];
    assert_eq!(seen, expected);
}

//! The calls, and the data that they find.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use loadline_client::commands::*;
use loadline_client::{Cmd, Command, Error, FromReply, OwnedReply, ToArgs, blocking};

/// The reply to a command, or the error.
type Outcome = Result<String, Error>;

/// A call of a function of `commands`.
pub(super) struct Row {
    pub(super) cmd: Cmd<OwnedReply>,
    pub(super) run: Box<dyn Fn(&mut blocking::Connection) -> Outcome>,
    /// A part of the error that the server replies with; empty for none.
    pub(super) refusal: &'static str,
}

impl Row {
    pub(super) fn new<A, T>(command: &Command<A, T>, refusal: &'static str) -> Self
    where
        A: ToArgs,
        T: FromReply + fmt::Debug + 'static,
    {
        Self::encoded(command.encoded(), refusal)
    }

    /// One function for each type of reply, and not for each command, takes less time to compile.
    fn encoded<T: FromReply + fmt::Debug + 'static>(cmd: Cmd<T>, refusal: &'static str) -> Self {
        Self {
            cmd: cmd.clone().read_as(),
            run: Box::new(move |connection| {
                let reply = connection.run(&cmd);
                reply.map(|value| format!("{value:?}"))
            }),
            refusal,
        }
    }

    pub(super) fn words(&self) -> Vec<String> {
        let text = |word| String::from_utf8_lossy(word).into_owned();
        self.cmd.words().map(text).collect()
    }

    pub(super) fn line(&self) -> String {
        self.words().join(" ")
    }

    /// The names of the command and its subcommand as `COMMAND DOCS` writes them, the longer one first.
    pub(super) fn names(&self) -> [String; 2] {
        let words = self.words();
        let name = words[0].to_ascii_lowercase();
        let sub = words.get(1).map(|sub| sub.to_ascii_lowercase());
        [format!("{name}|{}", sub.unwrap_or_default()), name]
    }
}

/// Calls, each with the error that is expected of it if there is one.
macro_rules! rows {
    ($($command:expr $(=> $refusal:literal)?;)*) => {
        vec![$(Row::new(&$command, concat!($($refusal)?))),*]
    };
}

/// The commands of strings, hashes, lists and sets.
pub(super) fn keyed(c: &mut blocking::Connection) -> Vec<Row> {
    [
        strings(),
        bits(),
        keys_of_any_type(c),
        hashes(),
        hyperloglogs(),
        lists(),
        sets(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The commands of sorted sets and streams.
pub(super) fn ordered() -> Vec<Row> {
    [sorted_sets(), positions(), streams()]
        .into_iter()
        .flatten()
        .collect()
}

/// The commands without data of their own.
pub(super) fn about_the_server(c: &mut blocking::Connection) -> Vec<Row> {
    [
        channels(),
        scripts(c),
        transactions(),
        connections(),
        users(),
        settings(),
        memory_and_times(),
        modules_and_replicas(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The commands about a cluster, on a node that is alone in its own.
pub(super) fn about_the_cluster() -> Vec<Row> {
    let other = "0123456789012345678901234567890123456789";
    rows! {
        cluster_add_slots([7000, 7002]);
        cluster_add_slots_range([(200, 210), (220, 230)]);
        cluster_bump_epoch();
        cluster_count_failure_reports(other) => "Unknown node";
        cluster_count_keys_in_slot(1);
        cluster_del_slots([7001]);
        cluster_del_slots_range([(100, 105), (107, 108)]);
        cluster_failover() => "to a replica";
        cluster_failover().force() => "to a replica";
        cluster_failover().takeover() => "to a replica";
        cluster_forget(other) => "Unknown node";
        cluster_get_keys_in_slot::<String>(1, 5);
        cluster_info();
        cluster_key_slot("s");
        cluster_links::<Map>();
        cluster_meet("127.0.0.1", 1);
        cluster_meet("127.0.0.1", 1).bus_port(2);
        cluster_my_id();
        cluster_nodes();
        cluster_replicas(other) => "Unknown node";
        cluster_replicate(other) => "Unknown node";
        cluster_save_config();
        cluster_set_config_epoch(7) => "epoch";
        cluster_set_slot(3).importing(other) => "know about node";
        cluster_set_slot(7001).migrating(other) => "know about node";
        cluster_set_slot(3).node(other) => "Unknown node";
        cluster_set_slot(3).stable();
        cluster_shards::<Map>();
        readonly();
        readwrite();
        cluster_flush_slots();
        cluster_reset();
        cluster_reset().soft();
        cluster_reset().hard();
    }
}

/// The commands that end a server. `SHUTDOWN` runs once; the server's description of it covers the other options.
pub(super) fn ending() -> Vec<Row> {
    rows! {
        shutdown();
        shutdown().save();
        shutdown().no_save().now().force();
    }
}

const LIBRARY: &str = "#!lua name=lib\nredis.register_function{function_name='f', flags={'no-writes'}, \
                       callback=function(keys, args) return args[1] end}";

/// The data that every call finds.
pub(super) fn fill(c: &mut blocking::Connection) {
    c.run((replica_of_no_one(), flushall())).1.unwrap();
    let first = (
        mset([("s", "ohmytext"), ("t", "mynewtext"), ("n", "7")]),
        hset("h", [("a", "1"), ("b", "2")]),
        rpush("l", ["3", "1", "2"]),
        sadd("set", ["a", "b", "c"]),
        sadd("set2", ["b"]),
        zadd("z", [(1.0, "a"), (2.0, "b"), (3.0, "c")]),
        zadd("z2", [(5.0, "b")]),
        geo_add(
            "geo",
            [
                (13.361389, 38.115556, "Palermo"),
                (15.087269, 37.502669, "Catania"),
            ],
        ),
        pf_add("p", ["a", "b"]),
        xadd_with_id("x", "1-1", [("f", "v")]),
        xadd_with_id("x", "2-1", [("f", "w")]),
        xgroup_create("x", "g", 0),
    );
    let (.., last) = c.run(first);
    last.unwrap();
    c.run(xread_group::<Fields>("g", "c", "x", ">").count(1))
        .unwrap();
    c.run(function_load(LIBRARY).replace()).unwrap();
}

type Fields = BTreeMap<String, String>;
type Map = BTreeMap<String, OwnedReply>;

fn strings() -> Vec<Row> {
    let with_ms = Duration::from_millis;
    rows! {
        append("s", "x");
        decr("n");
        decr_by("n", 2);
        get::<String>("s");
        get_del::<String>("s");
        get_ex::<String>("s", with_ms(9000));
        get_ex_at::<String>("s", 4_102_444_800_000);
        get_persist::<String>("s");
        get_range::<String>("s", 0, 1);
        incr("n");
        incr_by("n", 2);
        incr_by_float("n", 0.5);
        lcs::<String>("s", "t");
        lcs::<String>("s", "t").len();
        lcs::<String>("s", "t").idx::<Map>().min_match_len(4).with_match_len();
        mget::<Option<String>>(["s", "none"]);
        mset([("s", 1), ("t", 2)]);
        mset_nx([("s1", 1), ("t1", 2)]);
        set("s", 1);
        set("s", 1).nx();
        set("s", 1).xx();
        set("s", 1).get::<String>();
        set("s", 1).nx().get::<String>();
        set("s", 1).xx().get::<String>().keep_ttl();
        set("s", 1).expire(with_ms(9000));
        set("s", 1).expire_at(4_102_444_800_000);
        set("s", 1).keep_ttl();
        set_range("s", 1, "x");
        strlen("s");
    }
}

fn bits() -> Vec<Row> {
    rows! {
        bit_count("s");
        bit_count("s").bytes(0, -1);
        bit_count("s").bits(0, 9);
        bitfield("s").get("u8", 0).set("i8", "#1", 5).overflow(Overflow::Wrap).incr_by("u8", 0, 200);
        bitfield("s").overflow(Overflow::Saturate).incr_by("u8", 0, 200);
        bitfield("s").overflow(Overflow::Fail).incr_by("u8", 0, 200);
        bitfield_ro("s").get("u8", 0).get("u4", "#1");
        bit_op(BitOperation::And, "to", ["s", "t"]);
        bit_op(BitOperation::Or, "to", ["s", "t"]);
        bit_op(BitOperation::Xor, "to", ["s", "t"]);
        bit_op(BitOperation::Not, "to", "s");
        bit_pos("s", true);
        bit_pos("s", true).from(1);
        bit_pos("s", false).bytes(0, 1);
        bit_pos("s", true).bits(0, 9);
        get_bit("s", 3);
        set_bit("s", 3, true);
    }
}

fn keys_of_any_type(c: &mut blocking::Connection) -> Vec<Row> {
    let dumped: bytes::Bytes = c.run(dump("s")).unwrap();
    let with_ms = Duration::from_millis;
    rows! {
        copy("s", "to");
        copy("s", "t").replace();
        copy("s", "to").database(1);
        del(["s", "t"]);
        dump::<bytes::Bytes>("s");
        exists(["s", "none"]);
        expire("s", with_ms(9000));
        expire("s", with_ms(9000)).nx();
        expire("s", with_ms(9000)).xx();
        expire("s", with_ms(9000)).gt();
        expire("s", with_ms(9000)).lt();
        expire_at("s", 4_102_444_800_000);
        expire_at("s", 4_102_444_800_000).nx();
        expire_at("s", 4_102_444_800_000).xx();
        expire_at("s", 4_102_444_800_000).gt();
        expire_at("s", 4_102_444_800_000).lt();
        expire_time("s");
        keys::<String>("*");
        key_type("s");
        migrate("127.0.0.1", 1, "s", 0, with_ms(50)) => "IOERR";
        migrate("127.0.0.1", 1, "s", 0, with_ms(50)).copy().replace().auth("password") => "IOERR";
        migrate("127.0.0.1", 1, "s", 0, with_ms(50)).auth_as("user", "password") => "IOERR";
        move_key("s", 1);
        object_encoding("s");
        object_freq("s") => "LFU";
        object_idle_time("s");
        object_ref_count("s");
        persist("s");
        pttl("s");
        random_key::<String>();
        rename("s", "t");
        rename_nx("s", "t");
        restore("to", 0, dumped.clone());
        restore("s", 9000, dumped.clone()).replace().idle_time(5);
        restore("to", 4_102_444_800_000, dumped).absolute_ttl().frequency(5);
        scan::<String>(0, "*", 10);
        scan::<String>(0, "*", 10).of_type("hash");
        sort::<i64>("l");
        sort::<String>("l").by("w_*").limit(0, 2).get("#").desc().alpha();
        sort::<String>("l").asc().store("to");
        sort_ro::<i64>("l");
        sort_ro::<Option<String>>("l").by("nosort").limit(0, 2).get("#").get("w_*").asc().alpha();
        sort_ro::<i64>("l").desc();
        touch(["s", "t"]);
        unlink(["s", "t"]);
    }
}

fn hashes() -> Vec<Row> {
    rows! {
        hdel("h", ["a", "none"]);
        hexists("h", "a");
        hget::<String>("h", "a");
        hgetall::<Fields>("h");
        hincr_by("h", "a", 2);
        hincr_by_float("h", "a", 0.5);
        hkeys::<String>("h");
        hlen("h");
        hmget::<Option<String>>("h", ["a", "none"]);
        hrandfield::<String>("h", 2);
        hrandfield::<String>("h", 2).with_values::<Fields>();
        hscan::<Fields>("h", 0, 10);
        hscan::<Fields>("h", 0, 10).matching("a*");
        hset("h", [("a", 1)]);
        hset_nx("h", "c", 1);
        hstrlen("h", "a");
        hvals::<String>("h");
    }
}

fn hyperloglogs() -> Vec<Row> {
    rows! {
        pf_add("p", ["c"]);
        pf_count(["p", "none"]);
        pf_merge("to", ["p"]);
    }
}

fn lists() -> Vec<Row> {
    let with_ms = Duration::from_millis;
    rows! {
        blmove::<String>("l", "l2", Side::Left, Side::Right, with_ms(10));
        blmpop::<String>(["l", "l2"], Side::Left, with_ms(10));
        blmpop::<String>("l", Side::Right, with_ms(10)).count(2);
        blpop::<String>(["l", "l2"], with_ms(10));
        brpop::<String>("none", with_ms(10));
        lindex::<String>("l", 0);
        linsert_before("l", "1", "x");
        linsert_after("l", "1", "x");
        llen("l");
        lmove::<String>("l", "l2", Side::Right, Side::Left);
        lmpop::<String>(["none", "l"], Side::Left);
        lmpop::<String>("l", Side::Right).count(2);
        lpop::<String>("l");
        lpop_count::<String>("l", 2);
        lpos("l", "1");
        lpos("l", "1").rank(-1).max_len(10);
        lpos("l", "1").count(0);
        lpush("l", ["x"]);
        lpushx("l", ["x"]);
        lrange::<String>("l", 0, -1);
        lrem("l", 0, "1");
        lset("l", 0, "x");
        ltrim("l", 0, 1);
        rpop::<String>("l");
        rpop_count::<String>("l", 2);
        rpush("l", ["x"]);
        rpushx("l", ["x"]);
    }
}

fn sets() -> Vec<Row> {
    rows! {
        sadd("set", ["d"]);
        scard("set");
        sdiff::<BTreeSet<String>>(["set", "set2"]);
        sdiff_store("to", ["set", "set2"]);
        sinter::<BTreeSet<String>>(["set", "set2"]);
        sinter_card(["set", "set2"]);
        sinter_card(["set", "set2"]).limit(1);
        sinter_store("to", ["set", "set2"]);
        sismember("set", "a");
        smembers::<BTreeSet<String>>("set");
        smismember("set", ["a", "none"]);
        smove("set", "set2", "a");
        spop::<String>("set");
        spop_count::<String>("set", 2);
        srandmember::<String>("set", 2);
        srem("set", ["a"]);
        sscan::<String>("set", 0, 10);
        sscan::<String>("set", 0, 10).matching("a*");
        sunion::<BTreeSet<String>>(["set", "set2"]);
        sunion_store("to", ["set", "set2"]);
    }
}

fn sorted_sets() -> Vec<Row> {
    let with_ms = Duration::from_millis;
    rows! {
        bzmpop::<String>(["none", "z"], Extreme::Min, with_ms(10));
        bzmpop::<String>("z", Extreme::Max, with_ms(10)).count(2);
        bzpop_max::<String>(["none", "z"], with_ms(10));
        bzpop_min::<String>("z", with_ms(10));
        zadd("z", [(1.5, "a")]);
        zadd("z", [(1.5, "a")]).nx();
        zadd("z", [(1.5, "a")]).xx().ch();
        zadd("z", [(1.5, "a")]).gt();
        zadd("z", [(1.5, "a")]).lt();
        zadd("z", [(1.5, "a")]).incr();
        zadd("z", [(1.5, "a")]).nx().incr();
        zcard("z");
        zcount("z", "-inf", "(3");
        zdiff::<String>(["z", "z2"]);
        zdiff::<String>(["z", "z2"]).with_scores();
        zdiff_store("to", ["z", "z2"]);
        zincr_by("z", 0.5, "a");
        zinter::<String>(["z", "z2"]);
        zinter::<String>(["z", "z2"]).weights([2, 3]).aggregate(Aggregate::Sum).with_scores();
        zinter_card(["z", "z2"]);
        zinter_card(["z", "z2"]).limit(1);
        zinter_store("to", ["z", "z2"]).weights([2, 3]).aggregate(Aggregate::Min);
        zinter_store("to", ["z", "z2"]).aggregate(Aggregate::Max);
        zinter_store("to", ["z", "z2"]).aggregate(Aggregate::Sum);
        zinter::<String>(["z", "z2"]).aggregate(Aggregate::Min);
        zinter::<String>(["z", "z2"]).aggregate(Aggregate::Max);
        zlex_count("z", "-", "+");
        zmpop::<String>(["none", "z"], Extreme::Min);
        zmpop::<String>("z", Extreme::Max).count(2);
        zmscore("z", ["a", "none"]);
        zpop_max::<String>("z", 2);
        zpop_min::<String>("z", 2);
        zrandmember::<String>("z", 2);
        zrandmember::<String>("z", 2).with_scores();
        zrange::<String>("z", 0, -1);
        zrange::<String>("z", 0, -1).rev().with_scores();
        zrange::<String>("z", "(1", "+inf").by_score().limit(0, 2).with_scores();
        zrange::<String>("z", "+", "[a").by_lex().rev().limit(1, -1);
        zrange_by_score::<String>("z", 1, 2);
        zrange_by_score::<String>("z", 1, 2).limit(0, 1);
        zrange_store("to", "z", 0, -1);
        zrange_store("to", "z", 2, 1).by_score().rev().limit(0, 5);
        zrange_store("to", "z", "-", "+").by_lex();
        zrange_with_scores::<String>("z", 0, -1);
        zrank("z", "a");
        zrem("z", ["a"]);
        zrem_range_by_lex("z", "-", "[a");
        zrem_range_by_rank("z", 0, 1);
        zrem_range_by_score("z", 0, 1);
        zrevrange::<String>("z", 0, -1);
        zrevrank("z", "a");
        zscan::<String>("z", 0, 10);
        zscan::<String>("z", 0, 10).matching("a*");
        zscore("z", "a");
        zunion::<String>(["z", "z2"]);
        zunion::<String>(["z", "z2"]).weights([2, 3]).aggregate(Aggregate::Min).with_scores();
        zunion::<String>(["z", "z2"]).aggregate(Aggregate::Max);
        zunion::<String>(["z", "z2"]).aggregate(Aggregate::Sum);
        zunion_store("to", ["z", "z2"]).weights([2, 3]).aggregate(Aggregate::Max);
        zunion_store("to", ["z", "z2"]).aggregate(Aggregate::Min);
        zunion_store("to", ["z", "z2"]).aggregate(Aggregate::Sum);
    }
}

fn positions() -> Vec<Row> {
    rows! {
        geo_add("geo", [(13.4, 52.5, "Berlin")]);
        geo_add("geo", [(13.4, 52.5, "Berlin")]).nx();
        geo_add("geo", [(13.4, 52.5, "Palermo")]).xx().ch();
        geo_dist("geo", "Palermo", "Catania", Unit::Meters);
        geo_dist("geo", "Palermo", "Catania", Unit::Kilometers);
        geo_dist("geo", "Palermo", "Catania", Unit::Feet);
        geo_dist("geo", "Palermo", "none", Unit::Miles);
        geo_hash("geo", ["Palermo", "none"]);
        geo_pos("geo", ["Palermo", "none"]);
        geo_search::<String>("geo").from_member("Palermo").by_radius(500.0, Unit::Kilometers).asc();
        geo_search::<String>("geo").from_position(15.0, 37.0).by_box(900.0, 900.0, Unit::Kilometers).desc().count(1);
        geo_search::<String>("geo").from_member("Palermo").by_box(9.0, 9.0, Unit::Feet).count_any(1);
        geo_search::<String>("geo").from_member("Palermo").by_radius(9e6, Unit::Meters).with_dist::<(String, f64)>();
        geo_search::<String>("geo").from_member("Palermo").by_radius(9e6, Unit::Feet)
            .with_position::<(String, (f64, f64))>();
        geo_search::<String>("geo").from_member("Palermo").by_radius(900.0, Unit::Miles).with_hash::<(String, u64)>();
        geo_search::<String>("geo").from_member("Palermo").by_box(9.0, 9.0, Unit::Miles);
        geo_search::<String>("geo").from_member("Palermo").by_box(9.0, 9.0, Unit::Meters);
        geo_search_store("to", "geo").from_member("Palermo").by_radius(5.0, Unit::Kilometers).asc().count(1);
        geo_search_store("to", "geo").from_position(15.0, 37.0).by_box(9.0, 9.0, Unit::Miles).desc().store_dist();
        geo_search_store("to", "geo").from_member("Palermo").by_radius(5.0, Unit::Feet).count_any(1);
        geo_search_store("to", "geo").from_member("Palermo").by_radius(5.0, Unit::Meters);
    }
}

fn streams() -> Vec<Row> {
    let with_ms = Duration::from_millis;
    rows! {
        xack("x", "g", ["1-1"]);
        xadd("x", [("f", "v")]);
        xadd("x", [("f", "v")]).no_mk_stream();
        xadd("x", [("f", "v")]).max_len(2);
        xadd("x", [("f", "v")]).max_len_about(2).limit(9);
        xadd("x", [("f", "v")]).min_id("1");
        xadd("x", [("f", "v")]).min_id_about("1").limit(9);
        xadd_capped("x", 9, [("f", "v")]);
        xadd_with_id("x", "9-1", [("f", "v")]);
        xautoclaim::<Fields>("x", "g", "d", Duration::ZERO, 0).count(5);
        xautoclaim::<Fields>("x", "g", "d", Duration::ZERO, 0).just_id();
        xclaim::<Fields>("x", "g", "d", Duration::ZERO, ["1-1"]);
        xclaim::<Fields>("x", "g", "d", Duration::ZERO, "1-1").idle(with_ms(9)).retry_count(3).force();
        xclaim::<Fields>("x", "g", "d", Duration::ZERO, "1-1").time(9).last_id("2-1").just_id();
        xdel("x", ["1-1"]);
        xgroup_create("x", "h", "$");
        xgroup_create("x", "h", "$").entries_read(2);
        xgroup_create_consumer("x", "g", "d");
        xgroup_del_consumer("x", "g", "c");
        xgroup_destroy("x", "g");
        xgroup_set_id("x", "g", "$");
        xgroup_set_id("x", "g", 0).entries_read(0);
        xinfo_consumers::<Map>("x", "g");
        xinfo_groups::<Map>("x");
        xinfo_stream::<Map>("x");
        xinfo_stream::<Map>("x").full();
        xinfo_stream::<Map>("x").full_count(1);
        xlen("x");
        xpending("x", "g");
        xpending("none", "g") => "NOGROUP";
        xpending_range("x", "g", "-", "+", 9);
        xpending_range("x", "g", "-", "+", 9).idle(Duration::ZERO);
        xpending_range_of("x", "g", "c", "-", "+", 9);
        xrange::<Fields>("x", "-", "+");
        xrange::<Fields>("x", "-", "+").count(1);
        xread::<Fields>("x", "0");
        xread::<Fields>("x", "0").count(1);
        xread_waiting::<Fields>("x", "$", with_ms(10));
        xread_waiting::<Fields>("x", "$", with_ms(10)).count(1);
        xread_group::<Fields>("g", "c", "x", ">").count(1);
        xread_group::<Fields>("g", "c", "x", ">").count(1).no_ack();
        xread_group_waiting::<Fields>("g", "c", "x", ">", with_ms(10));
        xread_group_waiting::<Fields>("g", "c", "x", ">", with_ms(10)).count(1);
        xrevrange::<Fields>("x", "+", "-", 1);
        xset_id("x", "9-1");
        xset_id("x", "9-1").entries_added(20).max_deleted_id("1-1");
        xtrim("x", 1);
        xtrim_about("x", 1).limit(5);
        xtrim_min_id("x", "2-1");
        xtrim_min_id_about("x", "2-1").limit(5);
    }
}

fn channels() -> Vec<Row> {
    rows! {
        publish("channel", "message");
        pubsub_channels(());
        pubsub_channels("a*");
        pubsub_num_pat();
        pubsub_num_sub(["channel"]);
        pubsub_shard_channels(());
        pubsub_shard_num_sub(["channel"]);
        spublish("channel", "message");
    }
}

fn scripts(c: &mut blocking::Connection) -> Vec<Row> {
    let functions: bytes::Bytes = c.run(function_dump()).unwrap();
    let digest = c.run(script_load("return 1")).unwrap();
    rows! {
        eval::<String>("return ARGV[1]", "s", "value");
        eval_ro::<String>("return ARGV[1]", ["s", "t"], "value");
        fcall::<String>("f", "s", "value");
        fcall_ro::<String>("f", (), "value");
        function_delete("lib");
        function_dump::<bytes::Bytes>();
        function_flush();
        function_flush().in_background();
        function_flush().sync();
        function_kill() => "NOTBUSY";
        function_list::<Map>();
        function_list::<Map>().library_name("l*").with_code();
        function_load("#!lua name=other\nredis.register_function('o', function() return 1 end)");
        function_load(LIBRARY).replace();
        function_restore(functions.clone()).flush();
        function_restore(functions.clone()).replace();
        function_restore(functions).append() => "already exists";
        function_stats::<Map>();
        script_exists([digest]);
        script_flush();
        script_flush().in_background();
        script_flush().sync();
        script_kill() => "NOTBUSY";
        script_load("return 1");
    }
}

fn transactions() -> Vec<Row> {
    rows! {
        watch(["s"]);
        unwatch();
    }
}

fn connections() -> Vec<Row> {
    rows! {
        client_caching(true) => "OPTIN or OPTOUT";
        client_caching(false) => "OPTIN or OPTOUT";
        client_get_name();
        client_get_redir();
        client_id();
        client_info();
        client_kill().id(999_999);
        client_kill().of_kind(ClientKind::PubSub).user("default").skip_me(true);
        client_kill().of_kind(ClientKind::Normal).user("missing") => "No such user";
        client_kill().of_kind(ClientKind::Master);
        client_kill().of_kind(ClientKind::Replica).skip_me(false);
        client_kill().address("127.0.0.1:1").local_address("127.0.0.1:1");
        client_list();
        client_list().of_kind(ClientKind::Normal);
        client_list().of_kind(ClientKind::Master);
        client_list().of_kind(ClientKind::Replica);
        client_list().of_kind(ClientKind::PubSub);
        client_list().ids([1, 2]);
        client_no_evict(true);
        client_no_evict(false);
        client_pause(Duration::from_millis(1)).writes();
        client_pause(Duration::from_millis(1)).all();
        client_set_name("name");
        client_tracking(true);
        client_tracking(true).broadcast().prefix("a:").prefix("b:").no_loop();
        client_tracking(true).opt_in();
        client_tracking(true).opt_out();
        client_tracking(true).redirect(999_999) => "does not exist";
        client_tracking(false);
        client_tracking_info::<Map>();
        client_unblock(999_999);
        client_unblock(999_999).with_timeout();
        client_unblock(999_999).with_error();
        client_unpause();
        echo::<String>("message");
        ping();
    }
}

fn users() -> Vec<Row> {
    rows! {
        acl_cat(());
        acl_cat("read");
        acl_del_user(["missing"]);
        acl_dry_run("default", ["get", "s"]);
        acl_gen_pass(64);
        acl_get_user::<Map>("default");
        acl_get_user::<Option<Map>>("missing");
        acl_list();
        acl_load();
        acl_log::<Map>(5);
        acl_log_reset();
        acl_save();
        acl_set_user("somebody", ["on", ">secret", "~cache:*", "+get"]);
        acl_users();
        acl_who_am_i();
    }
}

fn settings() -> Vec<Row> {
    rows! {
        bg_rewrite_aof();
        bg_save();
        bg_save().schedule();
        command_count();
        command_docs::<Map>(["get"]);
        command_get_keys::<String>(("mset", "a", 1, "b", 2));
        command_get_keys_and_flags::<OwnedReply>(("mset", "a", 1, "b", 2));
        command_info::<Option<OwnedReply>>(["get", "none"]);
        command_list();
        command_list().of_module("none");
        command_list().of_category("read");
        command_list().matching("x*");
        config_get::<Fields>(["maxmemory", "save"]);
        config_reset_stat();
        config_rewrite() => "without a config file";
        config_set([("maxmemory-samples", 5)]);
    }
}

fn memory_and_times() -> Vec<Row> {
    rows! {
        dbsize();
        failover() => "requires connected replicas";
        failover().to("127.0.0.1", 1).force().timeout(Duration::from_secs(1)) => "requires connected replicas";
        failover().abort() => "No failover in progress";
        flushall();
        flushall().in_background();
        flushall().sync();
        flushdb();
        flushdb().in_background();
        flushdb().sync();
        info("server");
        info(["server", "clients"]);
        last_save();
        latency_doctor();
        latency_graph("command") => "No samples";
        latency_histogram::<Map>(["set"]);
        latency_history("command");
        latency_latest();
        latency_reset(());
        lolwut();
        lolwut().version(5);
        memory_doctor();
        memory_malloc_stats();
        memory_purge();
        memory_stats::<Map>();
        memory_usage("s");
        memory_usage("h").samples(0);
    }
}

fn modules_and_replicas() -> Vec<Row> {
    rows! {
        module_list::<Map>();
        module_load("/nowhere.so", ["arg"]) => "Error loading";
        module_load_ex("/nowhere.so").config("name", "value").args(["arg"]) => "Error loading";
        module_unload("none") => "no such module";
        replica_of("127.0.0.1", 1);
        replica_of_no_one();
        role::<OwnedReply>();
        save();
        shutdown().abort() => "No shutdown";
        slow_log_get::<OwnedReply>(5);
        slow_log_len();
        slow_log_reset();
        swap_db(1, 2);
        time();
        wait(0, Duration::from_millis(1));
    }
}

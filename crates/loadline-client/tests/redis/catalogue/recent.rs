//! The commands of later versions and of modules, against each server on PATH that has them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use loadline_client::commands::*;
use loadline_client::{OwnedReply, Protocol};

use super::rows::Row;
use super::{documented, keys_by_the_server, tokens, unlike_the_server};
use crate::server::Redis;

/// Servers that may have them. A redis-server of the installed version has none.
const PROGRAMS: [&str; 3] = ["redis-server", "valkey-server", "redis-stack-server"];
/// Longer than the test takes.
const LONG: Duration = Duration::from_secs(9_000);
/// In the year 2100.
const FAR: u64 = 4_102_444_800_000;

type Map = BTreeMap<String, OwnedReply>;
type Maybe = Option<String>;
type Samples = Vec<(u64, f64)>;

/// A call, and its reply as `Debug` writes it; empty for any reply.
type Expected = (Row, &'static str);

/// Calls in their order, each with its reply if that is always the same, or with a part of the error.
macro_rules! calls {
    ($($command:expr $(=> $shown:literal)? $(=> refused $refusal:literal)?;)*) => {
        vec![$((Row::new(&$command, concat!($($refusal)?)), concat!($($shown)?))),*]
    };
}

fn hash_fields() -> Vec<Expected> {
    calls! {
        hset("h", [("f", 1), ("g", 2)]) => "2";
        hexpire("h", LONG, ["f", "none"]) => "[1, -2]";
        hexpire("h", LONG, "f").nx() => "[0]";
        hexpire("h", LONG, "g").xx() => "[0]";
        hexpire("h", LONG / 2, "f").gt() => "[0]";
        hexpire("h", LONG / 2, "f").lt() => "[1]";
        hexpire_at("h", FAR, "f") => "[1]";
        hexpire_time("h", ["f", "g", "none"]) => "[4102444800000, -1, -2]";
        hpttl("h", ["g", "none"]) => "[-1, -2]";
        hpersist("h", ["f", "g"]) => "[1, -1]";
        hget_ex::<Maybe>("h", ["f", "none"]).expire_at(FAR) => r#"[Some("1"), None]"#;
        hget_ex::<String>("h", "f").expire(LONG) => r#"["1"]"#;
        hget_ex::<String>("h", "f").persist() => r#"["1"]"#;
        hset_ex("h", [("f", 3), ("i", 4)]).fnx() => "false";
        hset_ex("h", [("f", 3)]).fxx().expire_at(FAR) => "true";
        hset_ex("h", [("f", 3)]).keep_ttl() => "true";
        hset_ex("h", [("i", 4)]).expire(LONG) => "true";
        hget_del::<Maybe>("h", ["i", "none"]) => r#"[Some("4"), None]"#;
    }
}

fn connections_and_streams() -> Vec<Expected> {
    calls! {
        client_no_touch(true) => "()";
        client_no_touch(false) => "()";
        wait_aof(0, 0, Duration::from_millis(1)) => "(0, 0)";
        xadd_with_id("x", "1-1", [("f", "v")]);
        xadd_with_id("x", "2-1", [("f", "v")]);
        xadd_with_id("x", "3-1", [("f", "v")]);
        xgroup_create("x", "g", 0) => "()";
        xdel_ex("x", ["1-1", "9-9"]).keep_ref() => "[1, -1]";
        xread_group::<()>("g", "c", "x", ">");
        xdel_ex("x", "2-1").acked() => "[2]";
        xack_del("x", "g", ["2-1", "9-9"]).acked() => "[1, -1]";
        xack_del("x", "g", "3-1").del_ref() => "[1]";
    }
}

fn older_commands() -> Vec<Expected> {
    calls! {
        hset("hh", ("f", 1)) => "1";
        hscan_fields::<String>("hh", 0, 10) => r#"(0, ["f"])"#;
        hscan_fields::<String>("hh", 0, 10).matching("x*") => "(0, [])";
        set("s", "\u{7}") => "()";
        set("t", "\u{5}") => "()";
        bit_op(BitOperation::Diff, "to", ["s", "t"]) => "1";
        bit_op(BitOperation::Diff1, "to", ["t", "s"]) => "1";
        bit_op(BitOperation::AndOr, "to", ["s", "t"]) => "1";
        bit_op(BitOperation::One, "to", ["s", "t"]) => "1";
        client_kill().max_age(LONG) => "0";
        xadd("y", [("f", "v")]).max_len(9).keep_ref();
        xadd("y", [("f", "v")]).max_len(9).del_ref();
        xadd("y", [("f", "v")]).max_len(9).acked();
        xtrim_about("y", 9).keep_ref() => "0";
        xtrim_about("y", 9).del_ref() => "0";
        xtrim_min_id_about("y", "0-1").acked() => "0";
        zadd("z", [(1.5, "a"), (2.5, "b")]) => "2";
        zrank_with_score("z", "b") => "Some((1, 2.5))";
        zrevrank_with_score("z", "b") => "Some((0, 2.5))";
        zrank_with_score("z", "none") => "None";
    }
}

fn on_a_cluster() -> Vec<Expected> {
    calls! {
        cluster_my_shard_id();
        cluster_flush_slots() => "()";
        cluster_add_slots_range([(0, 16_383)]) => "()";
        cluster_slot_stats::<Map>(7, 8);
        cluster_slot_stats_by::<BTreeMap<String, u64>>("key-count").limit(1).asc()
            => r#"[(0, {"key-count": 0})]"#;
        cluster_slot_stats_by::<Map>("key-count").desc();
    }
}

fn vectors() -> Vec<Expected> {
    calls! {
        vadd("v", [1.0, 0.0], "a").no_quant().ef(50) => "true";
        vadd("v", [1.0, 0.0], "a").no_quant() => "false";
        vadd("v", [0.0, 1.0], "b").no_quant().set_attr(r#"{"n":1}"#) => "true";
        vadd("q", [0.0, 1.0], "b").q8() => "true";
        vadd("r", [0.0, 1.0], "b").bin() => "true";
        vadd_reduced("w", 1, [1.0, 2.0], "m").links(8).cas() => "true";
        vcard("v") => "2";
        vdim("v") => "2";
        vemb("v", "a") => "Some([1.0, 0.0])";
        vemb("v", "none") => "None";
        vset_attr("v", "a", r#"{"n":2}"#) => "true";
        vget_attr::<Maybe>("v", "a") => r#"Some("{\"n\":2}")"#;
        vget_attr::<Maybe>("v", "none") => "None";
        vinfo::<Map>("v");
        vis_member("v", "a") => "true";
        vlinks::<String>("v", "a");
        vrand_member::<String>("q", 5) => r#"["b"]"#;
        vsim::<String>("v", [1.0, 0.1]).count(1) => r#"["a"]"#;
        vsim::<String>("v", [1.0, 0.1]).filter(".n == 1").filter_ef(50) => r#"["b"]"#;
        vsim::<String>("v", [1.0, 0.1]).epsilon(0.2).ef(50).no_thread() => r#"["a"]"#;
        vsim::<String>("v", [1.0, 0.0]).with_scores::<Vec<(String, f64)>>().truth()
            => r#"[("a", 1.0), ("b", 0.5)]"#;
        vsim_member::<String>("v", "a").count(2) => r#"["a", "b"]"#;
        vrem("v", "a") => "true";
        vrem("v", "a") => "false";
    }
}

fn json() -> Vec<Expected> {
    calls! {
        json_set("j", "$", r#"{"a":[1,2],"n":1,"s":"x","b":true,"o":{"k":1}}"#) => "()";
        json_set("j", "$.new", "1").xx() => "None";
        json_set("j", "$.n", "2").nx() => "None";
        json_arr_append("j", "$.a", ["3", "4"]) => "[Some(4)]";
        json_arr_append("j", "$.n", "3") => "[None]";
        json_arr_index("j", "$.a", "2") => "[Some(1)]";
        json_arr_insert("j", "$.a", 0, "0") => "[Some(5)]";
        json_arr_len("j", "$.a") => "[Some(5)]";
        json_arr_pop::<String>("j", "$.a", -1) => r#"["4"]"#;
        json_arr_trim("j", "$.a", 0, 1) => "[Some(2)]";
        json_clear("j", "$.a") => "1";
        json_debug_memory::<Vec<u64>>("j", "$");
        json_get::<String>("j", ["$.n", "$.s"]);
        json_get::<String>("j", "$.n").indent("-").newline("+").space("_") => r#""[+-1+]""#;
        json_get::<Maybe>("none", "$") => "None";
        json_merge("j", "$.o", r#"{"k":null,"l":1}"#) => "()";
        json_mset(["j", "$.n", "4", "j2", "$", "5"]) => "()";
        json_mget::<Maybe>(["j", "j2", "none"], "$.n") => r#"[Some("[4]"), Some("[]"), None]"#;
        json_num_incr_by::<()>("j", "$.n", 2.5) => "()";
        json_obj_keys::<Vec<String>>("j", "$.o") => r#"[["l"]]"#;
        json_obj_len("j", "$.o") => "[Some(1)]";
        json_resp::<()>("j", "$") => "()";
        json_str_append("j", "$.s", r#""yz""#) => "[Some(3)]";
        json_str_len("j", "$.s") => "[Some(3)]";
        json_toggle("j", "$.b") => "[Some(0)]";
        json_type::<()>("j", "$.s") => "()";
        json_del("j", "$.a") => "1";
    }
}

fn search() -> Vec<Expected> {
    calls! {
        ft_create("i", ("t", "TEXT", "n", "NUMERIC", "SORTABLE", "c", "TAG"))
            .on_hash().prefix("p:").filter("@n<9").language("english").skip_initial_scan() => "()";
        hset("p:1", [("t", "hello world"), ("n", "1"), ("c", "red")]) => "3";
        hset("p:2", [("t", "hello there"), ("n", "2"), ("c", "blue")]) => "3";
        ft_create("k", ("$.t", "AS", "t", "TEXT")).on_json().prefix(["q:", "r:"]) => "()";
        ft_list::<BTreeSet<String>>() => r#"{"i", "k"}"#;
        ft_alter("i", ("u", "TEXT")) => "()";
        ft_alias_add("other", "i") => "()";
        ft_alias_update("other", "k") => "()";
        ft_alias_del("other") => "()";
        ft_search::<()>("i", "hello").returning(["t", "n"]).sort_by("n").limit(0, 5).dialect(2) => "()";
        ft_search::<()>("i", "@n:[$from 9]").params([("from", 2)]).with_scores().dialect(2) => "()";
        ft_search::<()>("i", "hello").no_content().sort_by_desc("n") => "()";
        ft_aggregate::<()>("i", "*", ("GROUPBY", 1, "@c")) => "()";
        ft_cursor_read::<()>("i", 5, 10) => refused "ursor not found";
        ft_cursor_del("i", 5) => refused "ursor";
        ft_dict_add("d", ["a", "b"]) => "2";
        ft_dict_del("d", ["a", "none"]) => "1";
        ft_dict_dump::<Vec<String>>("d") => r#"["b"]"#;
        ft_explain("i", "hello");
        ft_info::<Map>("i");
        ft_profile::<()>("i", "hello") => "()";
        ft_spell_check::<()>("i", "helo") => "()";
        ft_sug_add("s", "hello", 1.5) => "1";
        ft_sug_get::<Vec<String>>("s", "hallo").fuzzy().max(3) => r#"["hello"]"#;
        ft_sug_get::<()>("s", "he").with_scores() => "()";
        ft_sug_len("s") => "1";
        ft_sug_del("s", "hello") => "true";
        ft_syn_update("i", "group", ["hello", "hi"]) => "()";
        ft_syn_dump::<BTreeMap<String, Vec<String>>>("i") => r#"{"hello": ["group"], "hi": ["group"]}"#;
        ft_tag_vals::<BTreeSet<String>>("i", "c") => r#"{"blue", "red"}"#;
        ft_drop_index("k") => "()";
        ft_drop_index("i").dd() => "()";
    }
}

fn time_series() -> Vec<Expected> {
    calls! {
        ts_create("t").duplicate_policy("LAST").chunk_size(128).labels([("a", "b")]) => "()";
        ts_create("u").retention(LONG) => "()";
        ts_alter("u").retention(LONG * 2) => "()";
        ts_create_rule("t", "u", "avg", Duration::from_secs(1)) => "()";
        ts_get::<Samples>("t") => "[]";
        ts_add("t", 1_000, 1.5) => "1000";
        ts_add("t", 1_500, 2.5) => "1500";
        ts_madd::<u64>(("t", 2_000, 4.0)) => "[2000]";
        ts_get::<Samples>("t") => "[(2000, 4.0)]";
        ts_range::<Samples>("t", "-", "+").filter_by_value(2.0, 9.0).count(1) => "[(1500, 2.5)]";
        ts_range::<Samples>("t", 0, 1_999).aggregation("avg", Duration::from_secs(1)) => "[(1000, 2.0)]";
        ts_range::<Samples>("u", "-", "+").latest() => "[(1000, 2.0), (2000, 4.0)]";
        ts_rev_range::<Samples>("t", "-", "+") => "[(2000, 4.0), (1500, 2.5), (1000, 1.5)]";
        ts_mget::<()>("a=b") => "()";
        ts_mrange::<()>("-", "+", "a=b").with_labels() => "()";
        ts_mrev_range::<()>("-", "+", "a=b") => "()";
        ts_query_index::<Vec<String>>("a=b") => r#"["t"]"#;
        ts_incr_by("n", 1.5);
        ts_decr_by("n", 0.5);
        ts_info::<Map>("t");
        ts_del("t", 1_500, 2_000) => "2";
        ts_delete_rule("t", "u") => "()";
    }
}

fn filters() -> Vec<Expected> {
    calls! {
        bf_reserve("b", 0.01, 100) => "()";
        bf_add("b", "a") => "true";
        bf_add("b", "a") => "false";
        bf_madd("b", ["a", "b"]) => "[false, true]";
        bf_insert("b", "c").no_create() => "[true]";
        bf_insert("b2", ["a", "b"]).capacity(9).error(0.5);
        bf_card("b") => "3";
        bf_exists("b", "a") => "true";
        bf_mexists("b", ["a", "none"]) => "[true, false]";
        bf_info::<Map>("b");
        bf_scan_dump::<bytes::Bytes>("b", 0);
        bf_load_chunk("b3", 1, "damaged") => refused "bad data";
        cf_reserve("c", 100) => "()";
        cf_add("c", "a") => "true";
        cf_add_nx("c", "a") => "false";
        cf_insert("c", ["b", "b"]).no_create() => "[1, 1]";
        cf_insert_nx("c2", ["a", "a"]).capacity(9) => "[1, 0]";
        cf_count("c", "b") => "2";
        cf_del("c", "b") => "true";
        cf_exists("c", "b") => "true";
        cf_mexists("c", ["a", "none"]) => "[true, false]";
        cf_info::<Map>("c");
        cf_scan_dump::<bytes::Bytes>("c", 0);
        cf_load_chunk("c3", 1, "damaged") => refused "Invalid header";
    }
}

fn sketches() -> Vec<Expected> {
    calls! {
        cms_init_by_dim("m", 100, 5) => "()";
        cms_init_by_prob("m2", 0.01, 0.01) => "()";
        cms_init_by_dim("m3", 100, 5) => "()";
        cms_incr_by("m", [("a", 2), ("b", 1)]) => "[2, 1]";
        cms_merge("m3", "m") => "()";
        cms_query("m3", ["a", "none"]) => "[2, 0]";
        cms_info::<BTreeMap<String, u64>>("m") => r#"{"count": 3, "depth": 5, "width": 100}"#;
        topk_reserve("k", 1) => "()";
        topk_add::<Maybe>("k", "a") => "[None]";
        topk_incr_by::<Maybe>("k", [("b", 5)]) => r#"[Some("a")]"#;
        topk_info::<Map>("k");
        topk_list::<String>("k") => r#"["b"]"#;
        topk_query("k", ["a", "b"]) => "[false, true]";
        tdigest_create("d", 100) => "()";
        tdigest_create("d2", 100) => "()";
        tdigest_add("d", [1.0, 2.0, 3.0]) => "()";
        tdigest_by_rank("d", [0, 9]) => "[1.0, inf]";
        tdigest_by_rev_rank("d", 0) => "[3.0]";
        tdigest_cdf("d", 3.0);
        tdigest_info::<Map>("d");
        tdigest_max("d") => "3.0";
        tdigest_min("d") => "1.0";
        tdigest_merge("d2", "d") => "()";
        tdigest_quantile("d", [0.0, 1.0]) => "[1.0, 3.0]";
        tdigest_rank("d", [0.0, 2.0]) => "[-1, 1]";
        tdigest_rev_rank("d", 3.0) => "[0]";
        tdigest_trimmed_mean("d", 0.0, 1.0) => "2.0";
        tdigest_reset("d") => "()";
        tdigest_max("d") => "NaN";
    }
}

/// Programs in all directories of PATH, without those that are another name of one before.
fn programs() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = Vec::new();
    let mut known = BTreeSet::new();
    for dir in std::env::split_paths(&path) {
        for program in PROGRAMS.map(|name| dir.join(name)) {
            let is_new = program.canonicalize().is_ok_and(|real| known.insert(real));
            found.extend(is_new.then_some(program));
        }
    }
    found
}

/// Words that older commands take in later versions only.
const LATER: [&str; 10] = [
    "ACKED",
    "ANDOR",
    "DELREF",
    "DIFF",
    "DIFF1",
    "KEEPREF",
    "MAXAGE",
    "NOVALUES",
    "ONE",
    "WITHSCORE",
];

/// The calls that a server has.
fn known<'a>(redis: &Redis, rows: &'a [Expected]) -> Vec<&'a Expected> {
    let resp3 = redis.builder().protocol(Some(Protocol::Resp3)).build();
    let mut c = resp3.blocking().unwrap();
    let documented = documented(&mut c);
    let takes = |row: &Row, word: &String| {
        let mut words = BTreeSet::new();
        let names = row.names();
        let docs = names.iter().find_map(|name| documented.get(name));
        docs.into_iter().for_each(|docs| tokens(docs, &mut words));
        words.contains(word)
    };
    let listed = c.run(command_list()).unwrap().into_iter();
    let listed: BTreeSet<_> = listed.map(|name| name.to_ascii_lowercase()).collect();
    let is_known = |(row, _): &&Expected| {
        let [long, short] = row.names();
        let has_parts = || {
            listed
                .iter()
                .any(|name| name.starts_with(&format!("{short}|")))
        };
        let words = row.words();
        let mut later = words.iter().filter(|word| LATER.contains(&word.as_str()));
        (listed.contains(&long) || listed.contains(&short) && !has_parts())
            && later.all(|word| takes(row, word))
    };
    rows.iter().filter(is_known).collect()
}

/// Makes the calls with each protocol, and returns those that came out otherwise than expected.
fn tried(redis: &Redis, rows: &[&Expected]) -> Vec<String> {
    let mut wrong = Vec::new();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let client = redis.builder().protocol(Some(protocol)).build();
        let mut c = client.blocking().unwrap();
        c.run(flushall()).unwrap();
        for (row, expected) in rows {
            let outcome = (row.run)(&mut c);
            let is_right = match &outcome {
                Ok(shown) => row.refusal.is_empty() && (expected.is_empty() || shown == expected),
                Err(error) => !row.refusal.is_empty() && error.to_string().contains(row.refusal),
            };
            if !is_right {
                wrong.push(format!("{protocol:?} {}: {outcome:?}", row.line()));
            }
        }
    }
    wrong
}

/// Commands of which the server names other keys than those by which they are routed, and the reason.
const ROUTED_OTHERWISE: &[(&str, &str)] = &[
    ("FT.", "an index is no key on a cluster"),
    ("JSON.MGET", "the server names the first of its keys"),
    ("JSON.MSET", "routed by the first of its keys"),
    ("TS.CREATERULE", "the server names the first of its keys"),
    ("TS.DELETERULE", "the server names the first of its keys"),
];

/// Calls that a cluster routes by other keys than the server finds in them.
fn misplaced_keys(redis: &Redis, rows: &[&Row]) -> Vec<String> {
    let mut c = redis.client().blocking().unwrap();
    let mut wrong = Vec::new();
    for row in rows {
        let line = row.line();
        let (mine, found) = (row.cmd.routing_keys(), keys_by_the_server(&mut c, row));
        let is_known = ROUTED_OTHERWISE
            .iter()
            .any(|(name, _)| line.starts_with(name));
        if mine != found && !is_known {
            wrong.push(format!("{line}: {mine:?}, the server finds {found:?}"));
        }
    }
    wrong
}

#[test]
fn recent_commands_work_on_every_server_that_has_them() {
    let plain = [
        hash_fields(),
        connections_and_streams(),
        older_commands(),
        vectors(),
        json(),
        search(),
        time_series(),
        filters(),
        sketches(),
    ];
    let plain: Vec<Expected> = plain.into_iter().flatten().collect();
    let clustered = on_a_cluster();
    let every = plain.iter().chain(&clustered).map(|(row, _)| row.line());
    let mut missing: BTreeSet<String> = every.collect();
    let mut wrong = Vec::new();
    for program in programs() {
        for (rows, extra) in [
            (&plain, &[][..]),
            (&clustered, &["--cluster-enabled", "yes"]),
        ] {
            let redis = Redis::start_program(program.as_os_str(), extra);
            let known = known(&redis, rows);
            let calls: Vec<&Row> = known.iter().map(|(row, _)| row).collect();
            let found = [
                tried(&redis, &known),
                misplaced_keys(&redis, &calls),
                unlike_the_server(&redis, &calls),
            ];
            let found = found.into_iter().flatten();
            wrong.extend(found.map(|line| format!("{}: {line}", program.display())));
            missing.retain(|line| !calls.iter().any(|row| row.line() == *line));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if !missing.is_empty() {
        let names = missing.iter().filter_map(|line| line.split(' ').next());
        let names: BTreeSet<&str> = names.collect();
        println!("not tested, since no server on PATH has them: {names:?}");
    }
}

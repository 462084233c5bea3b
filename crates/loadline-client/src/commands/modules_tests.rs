//! The words of the commands of later versions and of modules, as their documentation has them. The installed server
//! does not know them.

use std::collections::BTreeSet;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// The words of each call, and those that the documentation asks for.
macro_rules! calls {
    ($($call:expr => $expected:literal;)*) => {
        [$((words(&$call), $expected)),*]
    };
}

fn words<A: ToArgs, T: FromReply>(command: &Command<A, T>) -> String {
    let cmd = command.encoded();
    let words = cmd
        .words()
        .map(|word| String::from_utf8_lossy(word).into_owned());
    words.collect::<Vec<_>>().join(" ")
}

fn of_hashes_streams_and_vectors() -> Vec<(String, &'static str)> {
    calls! {
        hexpire("k", SECOND, ["f", "g"]) => "HPEXPIRE k 1000 FIELDS 2 f g";
        hexpire("k", SECOND, "f").nx() => "HPEXPIRE k 1000 NX FIELDS 1 f";
        hexpire_at("k", 5, "f").gt() => "HPEXPIREAT k 5 GT FIELDS 1 f";
        hexpire_time("k", "f") => "HPEXPIRETIME k FIELDS 1 f";
        hpersist("k", "f") => "HPERSIST k FIELDS 1 f";
        hpttl("k", "f") => "HPTTL k FIELDS 1 f";
        hget_del::<String>("k", ["f", "g"]) => "HGETDEL k FIELDS 2 f g";
        hget_ex::<String>("k", "f").expire(SECOND) => "HGETEX k PX 1000 FIELDS 1 f";
        hget_ex::<String>("k", "f").persist() => "HGETEX k PERSIST FIELDS 1 f";
        hset_ex("k", [("f", 1), ("g", 2)]).fnx().expire_at(5) => "HSETEX k FNX PXAT 5 FIELDS 2 f 1 g 2";
        hset_ex("k", [("f", 1)]).fxx().keep_ttl() => "HSETEX k FXX KEEPTTL FIELDS 1 f 1";
        client_no_touch(true) => "CLIENT NO-TOUCH ON";
        cluster_my_shard_id() => "CLUSTER MYSHARDID";
        cluster_slot_stats::<()>(7, 8) => "CLUSTER SLOT-STATS SLOTSRANGE 7 8";
        cluster_slot_stats_by::<()>("key-count").limit(5).asc() => "CLUSTER SLOT-STATS ORDERBY key-count LIMIT 5 ASC";
        wait_aof(1, 2, SECOND) => "WAITAOF 1 2 1000";
        xack_del("k", "g", ["1-0", "2-0"]).acked() => "XACKDEL k g ACKED IDS 2 1-0 2-0";
        xdel_ex("k", "1-0").del_ref() => "XDELEX k DELREF IDS 1 1-0";
        hscan_fields::<String>("k", 0, 10).matching("a*") => "HSCAN k 0 COUNT 10 NOVALUES MATCH a*";
        zrank_with_score("k", "m") => "ZRANK k m WITHSCORE";
        zrevrank_with_score("k", "m") => "ZREVRANK k m WITHSCORE";
        vadd("k", [1.5, 2.0], "m").no_quant().set_attr("{}") => "VADD k VALUES 2 1.5 2 m NOQUANT SETATTR {}";
        vadd_reduced("k", 1, [1.5, 2.0], "m").cas() => "VADD k REDUCE 1 VALUES 2 1.5 2 m CAS";
        vcard("k") => "VCARD k";
        vdim("k") => "VDIM k";
        vemb("k", "m") => "VEMB k m";
        vget_attr::<String>("k", "m") => "VGETATTR k m";
        vinfo::<()>("k") => "VINFO k";
        vis_member("k", "m") => "VISMEMBER k m";
        vlinks::<String>("k", "m") => "VLINKS k m";
        vrand_member::<String>("k", 3) => "VRANDMEMBER k 3";
        vrem("k", "m") => "VREM k m";
        vset_attr("k", "m", "{}") => "VSETATTR k m {}";
        vsim::<String>("k", [1.5]).count(3).filter(".a>1") => "VSIM k VALUES 1 1.5 COUNT 3 FILTER .a>1";
        vsim_member::<String>("k", "m").with_scores::<()>() => "VSIM k ELE m WITHSCORES";
    }
    .into()
}

fn of_json() -> Vec<(String, &'static str)> {
    calls! {
        json_arr_append("k", "$.a", ["1", "2"]) => "JSON.ARRAPPEND k $.a 1 2";
        json_arr_index("k", "$.a", "1") => "JSON.ARRINDEX k $.a 1";
        json_arr_insert("k", "$.a", 0, "1") => "JSON.ARRINSERT k $.a 0 1";
        json_arr_len("k", "$.a") => "JSON.ARRLEN k $.a";
        json_arr_pop::<String>("k", "$.a", -1) => "JSON.ARRPOP k $.a -1";
        json_arr_trim("k", "$.a", 0, 3) => "JSON.ARRTRIM k $.a 0 3";
        json_clear("k", "$") => "JSON.CLEAR k $";
        json_debug_memory::<()>("k", "$") => "JSON.DEBUG MEMORY k $";
        json_del("k", "$.a") => "JSON.DEL k $.a";
        json_get::<String>("k", ["$.a", "$.b"]).indent("-") => "JSON.GET k INDENT - $.a $.b";
        json_merge("k", "$", "{}") => "JSON.MERGE k $ {}";
        json_mget::<String>(["k", "l"], "$") => "JSON.MGET k l $";
        json_mset([("k", "$", "1")]) => "JSON.MSET k $ 1";
        json_num_incr_by::<()>("k", "$.n", 2.5) => "JSON.NUMINCRBY k $.n 2.5";
        json_obj_keys::<()>("k", "$") => "JSON.OBJKEYS k $";
        json_obj_len("k", "$") => "JSON.OBJLEN k $";
        json_resp::<()>("k", "$") => "JSON.RESP k $";
        json_set("k", "$", "{}") => "JSON.SET k $ {}";
        json_set("k", "$", "{}").nx() => "JSON.SET k $ {} NX";
        json_str_append("k", "$.s", "\"x\"") => "JSON.STRAPPEND k $.s \"x\"";
        json_str_len("k", "$.s") => "JSON.STRLEN k $.s";
        json_toggle("k", "$.b") => "JSON.TOGGLE k $.b";
        json_type::<()>("k", "$") => "JSON.TYPE k $";
    }
    .into()
}

fn of_search() -> Vec<(String, &'static str)> {
    calls! {
        ft_list::<()>() => "FT._LIST";
        ft_aggregate::<()>("i", "*", ("GROUPBY", 1, "@b")) => "FT.AGGREGATE i * GROUPBY 1 @b";
        ft_alias_add("a", "i") => "FT.ALIASADD a i";
        ft_alias_del("a") => "FT.ALIASDEL a";
        ft_alias_update("a", "i") => "FT.ALIASUPDATE a i";
        ft_alter("i", ("t", "TEXT")) => "FT.ALTER i SCHEMA ADD t TEXT";
        ft_create("i", ("t", "TEXT")).on_json().prefix(["p:", "q:"])
            => "FT.CREATE i ON JSON PREFIX 2 p: q: SCHEMA t TEXT";
        ft_cursor_del("i", 5) => "FT.CURSOR DEL i 5";
        ft_cursor_read::<()>("i", 5, 10) => "FT.CURSOR READ i 5 COUNT 10";
        ft_dict_add("d", ["a", "b"]) => "FT.DICTADD d a b";
        ft_dict_del("d", "a") => "FT.DICTDEL d a";
        ft_dict_dump::<()>("d") => "FT.DICTDUMP d";
        ft_drop_index("i").dd() => "FT.DROPINDEX i DD";
        ft_explain("i", "q") => "FT.EXPLAIN i q";
        ft_info::<()>("i") => "FT.INFO i";
        ft_profile::<()>("i", "q") => "FT.PROFILE i SEARCH QUERY q";
        ft_search::<()>("i", "q").returning(["a", "b"]).sort_by_desc("a").limit(0, 5).dialect(2)
            => "FT.SEARCH i q RETURN 2 a b SORTBY a DESC LIMIT 0 5 DIALECT 2";
        ft_search::<()>("i", "q").params([("v", 1)]) => "FT.SEARCH i q PARAMS 2 v 1";
        ft_spell_check::<()>("i", "q") => "FT.SPELLCHECK i q";
        ft_sug_add("k", "s", 1.5) => "FT.SUGADD k s 1.5";
        ft_sug_del("k", "s") => "FT.SUGDEL k s";
        ft_sug_get::<()>("k", "s").fuzzy().max(3) => "FT.SUGGET k s FUZZY MAX 3";
        ft_sug_len("k") => "FT.SUGLEN k";
        ft_syn_dump::<()>("i") => "FT.SYNDUMP i";
        ft_syn_update("i", "g", ["a", "b"]) => "FT.SYNUPDATE i g a b";
        ft_tag_vals::<()>("i", "f") => "FT.TAGVALS i f";
    }
    .into()
}

fn of_time_series() -> Vec<(String, &'static str)> {
    calls! {
        ts_add("k", "*", 1.5).retention(SECOND).labels([("a", "b")]) => "TS.ADD k * 1.5 RETENTION 1000 LABELS a b";
        ts_alter("k").chunk_size(128) => "TS.ALTER k CHUNK_SIZE 128";
        ts_create("k").duplicate_policy("LAST") => "TS.CREATE k DUPLICATE_POLICY LAST";
        ts_create_rule("k", "l", "avg", SECOND) => "TS.CREATERULE k l AGGREGATION avg 1000";
        ts_decr_by("k", 1.5) => "TS.DECRBY k 1.5";
        ts_del("k", 1, 2) => "TS.DEL k 1 2";
        ts_delete_rule("k", "l") => "TS.DELETERULE k l";
        ts_get::<()>("k") => "TS.GET k";
        ts_incr_by("k", 1.5) => "TS.INCRBY k 1.5";
        ts_info::<()>("k") => "TS.INFO k";
        ts_madd::<u64>([("k", 1, 1.5)]) => "TS.MADD k 1 1.5";
        ts_mget::<()>("a=b") => "TS.MGET FILTER a=b";
        ts_mrange::<()>("-", "+", "a=b").with_labels() => "TS.MRANGE - + WITHLABELS FILTER a=b";
        ts_mrev_range::<()>("-", "+", "a=b") => "TS.MREVRANGE - + FILTER a=b";
        ts_query_index::<()>("a=b") => "TS.QUERYINDEX a=b";
        ts_range::<()>("k", "-", "+").count(3).aggregation("avg", SECOND)
            => "TS.RANGE k - + COUNT 3 AGGREGATION avg 1000";
        ts_rev_range::<()>("k", "-", "+").latest().filter_by_value(1.0, 2.0)
            => "TS.REVRANGE k - + LATEST FILTER_BY_VALUE 1 2";
    }
    .into()
}

fn of_sketches() -> Vec<(String, &'static str)> {
    calls! {
        bf_add("k", "a") => "BF.ADD k a";
        bf_card("k") => "BF.CARD k";
        bf_exists("k", "a") => "BF.EXISTS k a";
        bf_info::<()>("k") => "BF.INFO k";
        bf_insert("k", ["a", "b"]).capacity(9).error(0.5) => "BF.INSERT k CAPACITY 9 ERROR 0.5 ITEMS a b";
        bf_load_chunk("k", 1, "d") => "BF.LOADCHUNK k 1 d";
        bf_madd("k", ["a", "b"]) => "BF.MADD k a b";
        bf_mexists("k", ["a", "b"]) => "BF.MEXISTS k a b";
        bf_reserve("k", 0.5, 9) => "BF.RESERVE k 0.5 9";
        bf_scan_dump::<String>("k", 0) => "BF.SCANDUMP k 0";
        cf_add("k", "a") => "CF.ADD k a";
        cf_add_nx("k", "a") => "CF.ADDNX k a";
        cf_count("k", "a") => "CF.COUNT k a";
        cf_del("k", "a") => "CF.DEL k a";
        cf_exists("k", "a") => "CF.EXISTS k a";
        cf_info::<()>("k") => "CF.INFO k";
        cf_insert("k", "a").no_create() => "CF.INSERT k NOCREATE ITEMS a";
        cf_insert_nx("k", "a").capacity(9) => "CF.INSERTNX k CAPACITY 9 ITEMS a";
        cf_load_chunk("k", 1, "d") => "CF.LOADCHUNK k 1 d";
        cf_mexists("k", ["a", "b"]) => "CF.MEXISTS k a b";
        cf_reserve("k", 9) => "CF.RESERVE k 9";
        cf_scan_dump::<String>("k", 0) => "CF.SCANDUMP k 0";
        cms_incr_by("k", [("a", 2)]) => "CMS.INCRBY k a 2";
        cms_info::<()>("k") => "CMS.INFO k";
        cms_init_by_dim("k", 9, 3) => "CMS.INITBYDIM k 9 3";
        cms_init_by_prob("k", 0.5, 0.25) => "CMS.INITBYPROB k 0.5 0.25";
        cms_merge("k", ["l", "m"]) => "CMS.MERGE k 2 l m";
        cms_query("k", "a") => "CMS.QUERY k a";
        topk_add::<()>("k", "a") => "TOPK.ADD k a";
        topk_incr_by::<()>("k", [("a", 2)]) => "TOPK.INCRBY k a 2";
        topk_info::<()>("k") => "TOPK.INFO k";
        topk_list::<()>("k") => "TOPK.LIST k";
        topk_query("k", "a") => "TOPK.QUERY k a";
        topk_reserve("k", 5) => "TOPK.RESERVE k 5";
        tdigest_add("k", [1.5, 2.0]) => "TDIGEST.ADD k 1.5 2";
        tdigest_by_rank("k", 0) => "TDIGEST.BYRANK k 0";
        tdigest_by_rev_rank("k", 0) => "TDIGEST.BYREVRANK k 0";
        tdigest_cdf("k", 1.5) => "TDIGEST.CDF k 1.5";
        tdigest_create("k", 100) => "TDIGEST.CREATE k COMPRESSION 100";
        tdigest_info::<()>("k") => "TDIGEST.INFO k";
        tdigest_max("k") => "TDIGEST.MAX k";
        tdigest_merge("k", ["l", "m"]) => "TDIGEST.MERGE k 2 l m";
        tdigest_min("k") => "TDIGEST.MIN k";
        tdigest_quantile("k", 0.5) => "TDIGEST.QUANTILE k 0.5";
        tdigest_rank("k", 1.5) => "TDIGEST.RANK k 1.5";
        tdigest_reset("k") => "TDIGEST.RESET k";
        tdigest_rev_rank("k", 1.5) => "TDIGEST.REVRANK k 1.5";
        tdigest_trimmed_mean("k", 0.1, 0.9) => "TDIGEST.TRIMMED_MEAN k 0.1 0.9";
    }
    .into()
}

#[test]
fn commands_of_modules_have_the_words_of_their_documentation() {
    let all = [
        of_hashes_streams_and_vectors(),
        of_json(),
        of_search(),
        of_time_series(),
        of_sketches(),
    ]
    .concat();
    for (words, expected) in &all {
        assert_eq!(words, expected);
    }
    let called: BTreeSet<&str> = all
        .iter()
        .filter_map(|(words, _)| words.split(' ').next())
        .collect();
    let sources = [
        include_str!("hash_fields.rs"),
        include_str!("json.rs"),
        include_str!("recent.rs"),
        include_str!("search.rs"),
        include_str!("sketches.rs"),
        include_str!("time_series.rs"),
        include_str!("vectors.rs"),
    ]
    .concat();
    let names = sources.split("= \"").skip(1);
    let names: BTreeSet<&str> = names.filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(called, names);
}

#[test]
fn later_options_of_older_commands_have_the_words_of_their_documentation() {
    let all = calls! {
        client_kill().max_age(SECOND * 5) => "CLIENT KILL MAXAGE 5";
        bit_op(BitOperation::Diff, "to", ["s", "t"]) => "BITOP DIFF to s t";
        bit_op(BitOperation::Diff1, "to", ["s", "t"]) => "BITOP DIFF1 to s t";
        bit_op(BitOperation::AndOr, "to", ["s", "t"]) => "BITOP ANDOR to s t";
        bit_op(BitOperation::One, "to", ["s", "t"]) => "BITOP ONE to s t";
        xadd("k", [("f", "v")]).max_len(5).keep_ref() => "XADD k MAXLEN 5 KEEPREF * f v";
        xadd("k", [("f", "v")]).max_len(5).del_ref() => "XADD k MAXLEN 5 DELREF * f v";
        xadd("k", [("f", "v")]).max_len(5).acked() => "XADD k MAXLEN 5 ACKED * f v";
        xtrim_about("k", 5).keep_ref() => "XTRIM k MAXLEN ~ 5 KEEPREF";
        xtrim_about("k", 5).del_ref() => "XTRIM k MAXLEN ~ 5 DELREF";
        xtrim_about("k", 5).limit(6).acked() => "XTRIM k MAXLEN ~ 5 LIMIT 6 ACKED";
    };
    for (words, expected) in all {
        assert_eq!(words, expected);
    }
}

/// Commands that a cluster routes otherwise than by their first argument.
#[test]
fn commands_of_modules_are_routed_by_their_keys() {
    let keys = |cmd: crate::Cmd<()>| cmd.routing_keys().concat();
    assert_eq!(
        keys(json_mget::<()>(["k", "l"], "$").encoded().read_as()),
        b"kl"
    );
    assert_eq!(keys(json_debug_memory::<()>("k", "$").encoded()), b"k");
    assert_eq!(
        keys(ts_create_rule("k", "l", "avg", SECOND).encoded()),
        b"kl"
    );
    assert!(keys(ft_search::<()>("i", "q").encoded()).is_empty());
    assert!(keys(ts_mget::<()>("a=b").encoded()).is_empty());
}

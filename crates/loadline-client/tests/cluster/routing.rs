//! Commands find their nodes, are split, joined, or refused.

use std::collections::{BTreeSet, HashMap};

use loadline_client::cluster::{Cluster, ReadFrom};
use loadline_client::commands::*;
use loadline_client::{Error, ServerError, atomic, cmd};

use crate::nodes::{runtime, shared};

fn with_cluster<F: Future<Output = ()>>(test: impl FnOnce(Cluster) -> F) {
    runtime().block_on(async { test(shared().builder().open().await.unwrap()).await });
}

#[test]
fn every_group_of_commands_finds_the_node_of_its_keys() {
    with_cluster(|cluster| async move {
        // Enough keys that each node has some of every kind.
        for n in 0..30 {
            let key = |kind: &str| format!("groups:{kind}:{n}");
            cluster.run(set(key("string"), n)).await.unwrap();
            assert_eq!(cluster.run(get::<u32>(key("string"))).await.unwrap(), n);
            assert_eq!(
                cluster.run(incr(key("string"))).await.unwrap(),
                i64::from(n) + 1
            );
            cluster.run(hset(key("hash"), ("f", n))).await.unwrap();
            assert_eq!(cluster.run(hget::<u32>(key("hash"), "f")).await.unwrap(), n);
            cluster.run(rpush(key("list"), ["a", "b"])).await.unwrap();
            assert_eq!(cluster.run(llen(key("list"))).await.unwrap(), 2);
            cluster.run(sadd(key("set"), ["a", "b"])).await.unwrap();
            assert_eq!(cluster.run(scard(key("set"))).await.unwrap(), 2);
            cluster
                .run(zadd(key("sorted"), [(1.5, "a")]))
                .await
                .unwrap();
            let score = cluster.run(zscore(key("sorted"), "a")).await.unwrap();
            assert_eq!(score, Some(1.5));
            cluster
                .run(xadd(key("stream"), [("f", "v")]))
                .await
                .unwrap();
            let read = cluster
                .run(xread::<HashMap<String, String>>(key("stream"), "0").count(9))
                .await;
            assert_eq!(read.unwrap().unwrap()[0].0, key("stream"));
            let length: u64 = cluster.run(cmd("STRLEN").arg(key("string"))).await.unwrap();
            assert!(length > 0);
            let encoding = cluster.run(object_encoding(key("string"))).await.unwrap();
            assert_eq!(encoding.as_deref(), Some("int"));
        }
    });
}

#[test]
fn commands_of_many_keys_are_split_over_slots_and_joined_in_order() {
    with_cluster(|cluster| async move {
        let keys: Vec<String> = (0..100).map(|n| format!("split:{n}")).collect();
        let pairs: Vec<(&String, usize)> = keys.iter().zip(0..).collect();
        cluster.run(mset(&pairs)).await.unwrap();
        let backwards: Vec<&String> = keys.iter().rev().collect();
        let values: Vec<Option<usize>> = cluster.run(mget(&backwards)).await.unwrap();
        let expected: Vec<Option<usize>> = (0..100).rev().map(Some).collect();
        assert_eq!(values, expected);
        let twice_and_absent = ["split:1", "absent:1", "split:1", "split:2"];
        let values: Vec<Option<usize>> = cluster.run(mget(twice_and_absent)).await.unwrap();
        assert_eq!(values, [Some(1), None, Some(1), Some(2)]);
        assert_eq!(cluster.run(exists(&keys)).await.unwrap(), 100);
        assert_eq!(cluster.run(touch(&keys[..7])).await.unwrap(), 7);
        assert_eq!(cluster.run(del(&keys[..60])).await.unwrap(), 60);
        assert_eq!(cluster.run(unlink(&keys)).await.unwrap(), 40);
        // An MSET with a key too many is refused as a whole.
        let error = cluster
            .run(cmd::<()>("MSET").arg(["split:1", "v", "split:2"]))
            .await;
        assert!(matches!(error, Err(Error::Server(_))), "{error:?}");
        assert_eq!(cluster.run(exists(&keys)).await.unwrap(), 0);
    });
}

#[test]
fn pipeline_goes_to_all_nodes_and_its_results_come_in_order() {
    with_cluster(|cluster| async move {
        let sets: Vec<_> = (0..300).map(|n| set(format!("pipe:{n}"), n)).collect();
        for done in cluster.run(sets).await {
            done.unwrap();
        }
        let gets: Vec<_> = (0..300).map(|n| get::<u32>(format!("pipe:{n}"))).collect();
        let values: Result<Vec<u32>, Error> = cluster.run(gets).await.into_iter().collect();
        assert_eq!(values.unwrap(), (0..300).collect::<Vec<u32>>());
        let (wrong, there, keys, missing) = cluster
            .run((
                hget::<String>("pipe:1", "f"),
                get::<u32>("pipe:2"),
                mget::<u32>(["pipe:3", "pipe:4", "pipe:5"]),
                get::<Option<u32>>("pipe:none"),
            ))
            .await;
        assert!(wrong.unwrap_err().is_server_code("WRONGTYPE"));
        assert_eq!(there.unwrap(), 2);
        assert_eq!(keys.unwrap(), [3, 4, 5]);
        assert_eq!(missing.unwrap(), None);
    });
}

#[test]
fn transactions_and_scripts_stay_in_one_slot_or_are_refused() {
    with_cluster(|cluster| async move {
        let both = atomic((set("{tx}a", 1), incr("{tx}a"), get::<i64>("{tx}a")));
        let (set_it, increased, read) = cluster.run(both).await.unwrap().unwrap();
        set_it.unwrap();
        assert_eq!((increased.unwrap(), read.unwrap()), (2, 2));
        let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
        for n in 0..12 {
            // The script is not known on the node at first, and is then sent whole.
            let key = format!("script:{n}");
            assert_eq!(cluster.run(script.call::<i64>(&key, 5)).await.unwrap(), 5);
            cluster.run(del(key)).await.unwrap();
        }
        let refused: [Result<(), Error>; 4] = [
            cluster
                .run(atomic((set("a", 1), set("b", 1))))
                .await
                .map(drop),
            cluster
                .run(script.call::<i64>(["a", "b"], 5))
                .await
                .map(drop),
            cluster.run(rename("a", "b")).await,
            cluster
                .run(atomic((mget::<String>(["a", "b"]),)))
                .await
                .map(drop),
        ];
        for refused in refused {
            let text = refused.unwrap_err().to_string();
            assert!(
                text.starts_with("CROSSSLOT") && text.contains("hash tag"),
                "{text}"
            );
        }
        let (fine, bad) = cluster.run((set("pipe:one", 1), rename("a", "b"))).await;
        assert!(matches!(
            (fine, bad),
            (Err(Error::Usage(_)), Err(Error::Usage(_)))
        ));
        assert_eq!(
            cluster.run(exists("pipe:one")).await.unwrap(),
            0,
            "nothing was sent"
        );
    });
}

#[test]
fn commands_without_keys_reach_every_master_or_are_refused() {
    with_cluster(|cluster| async move {
        cluster.run(ping()).await.unwrap();
        let digest = cluster.run(script_load("return 'there'")).await.unwrap();
        let known = cluster
            .run(script_exists([digest.as_str(), "0"]))
            .await
            .unwrap();
        assert_eq!(known, [true, false]);
        for server in shared().masters() {
            let known = server.connection().run(script_exists(&digest)).unwrap();
            assert_eq!(known, [true]);
        }
        for n in 0..20 {
            cluster
                .run(set(format!("everywhere:{n}"), n))
                .await
                .unwrap();
        }
        let keys: BTreeSet<String> = cluster.run(cmd("KEYS").arg("everywhere:*")).await.unwrap();
        assert_eq!(keys.len(), 20);
        assert!(cluster.run(dbsize()).await.unwrap() >= 20);
        assert!(
            cluster
                .run(random_key::<Option<String>>())
                .await
                .unwrap()
                .is_some()
        );
        let error = cluster.run(scan::<String>(0, "*", 10)).await.unwrap_err();
        assert!(error.to_string().contains("Cluster::masters"), "{error}");
        let mut found = BTreeSet::new();
        for node in cluster.masters() {
            let connection = cluster.connection(&node).await.unwrap();
            let (_, keys) = connection
                .run(scan::<String>(0, "everywhere:*", 10_000))
                .await
                .unwrap();
            found.extend(keys);
        }
        assert_eq!(found, keys);
    });
}

#[test]
fn commands_that_wait_run_on_a_connection_to_the_node_of_their_key() {
    with_cluster(|cluster| async move {
        let timeout = std::time::Duration::from_secs(5);
        for n in 0..6 {
            let key = format!("queue:{n}");
            let error = cluster
                .run(blpop::<String>(&key, timeout))
                .await
                .unwrap_err();
            assert!(error.to_string().contains("Cluster::dedicated"), "{error}");
            let mut dedicated = cluster.dedicated(&key).await.unwrap();
            cluster.run(rpush(&key, "job")).await.unwrap();
            let popped = dedicated.run(blpop::<String>(&key, timeout)).await.unwrap();
            assert_eq!(popped, Some((key, "job".to_owned())));
        }
    });
}

#[test]
fn replicas_answer_reads_where_that_is_wanted() {
    runtime().block_on(async {
        let writer = shared().builder().open().await.unwrap();
        let reader = shared().builder().read_from(ReadFrom::Replica);
        let reader = reader.open().await.unwrap();
        let keys: Vec<String> = (0..30).map(|n| format!("replica:{n}")).collect();
        for key in &keys {
            writer.run(set(key, key)).await.unwrap();
        }
        let reads = || -> Vec<u64> {
            shared()
                .replicas()
                .iter()
                .map(|server| calls(server, "get"))
                .collect()
        };
        let before = reads();
        for key in &keys {
            // It takes a moment until a replica has it.
            while reader
                .run(get::<Option<String>>(key))
                .await
                .unwrap()
                .as_ref()
                != Some(key)
            {}
        }
        let after = reads();
        assert!(
            before
                .iter()
                .zip(&after)
                .all(|(before, after)| after > before),
            "{before:?} {after:?}"
        );
        // Writes of the same client go to masters, and so do the reads in the same request.
        let (wrote, read) = reader
            .run((set(&keys[0], "new"), get::<String>(&keys[0])))
            .await;
        wrote.unwrap();
        assert_eq!(read.unwrap(), "new");
    });
}

/// Number of times that a node has executed a command.
fn calls(server: &crate::nodes::Server, command: &str) -> u64 {
    let info: String = server
        .connection()
        .run(cmd("INFO").arg("commandstats"))
        .unwrap();
    let stat = format!("cmdstat_{command}:calls=");
    let line = info.lines().find_map(|line| line.strip_prefix(&stat));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

#[test]
fn error_of_a_node_is_an_answer() {
    with_cluster(|cluster| async move {
        cluster.run(set("answer", "text")).await.unwrap();
        let error = cluster.run(incr("answer")).await.unwrap_err();
        assert!(error.is_server_code("ERR"), "{error}");
        let inner: Vec<Result<i64, ServerError>> = cluster
            .run(cmd("EVAL").arg(("return {1, redis.error_reply('MY own')}", 1, "answer")))
            .await
            .unwrap();
        assert_eq!(inner[0], Ok(1));
        assert_eq!(inner[1].as_ref().unwrap_err().code(), "MY");
    });
}

#[test]
fn server_that_is_no_cluster_says_so() {
    runtime().block_on(async {
        let dead = loadline_client::cluster::Builder::from_url("cluster://127.0.0.1:1").unwrap();
        let error = dead.open().await.unwrap_err();
        assert!(
            matches!(
                error,
                Error::Connection {
                    maybe_executed: false,
                    ..
                }
            ),
            "{error}"
        );
    });
}

//! Pools of connections to the masters of a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use loadline_client::cluster::{Builder, Cluster, Node, Pools, slot_of};
use loadline_client::commands::*;
use loadline_client::pool::{Limits, Status};
use loadline_client::{Error, cmd};

use crate::nodes::{self, runtime};

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(60);
const LIMITS: Limits = Limits {
    min: 2,
    max: 3,
    wait: PATIENCE,
    idle: PATIENCE,
};

/// Waits until the pools are as they should be.
async fn becomes(pools: &Pools, what: &str, is_so: impl Fn(&Status) -> bool) {
    let begun = Instant::now();
    while !is_so(&pools.status()) {
        assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", pools.status());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A key for each master.
fn keys(cluster: &Cluster) -> Vec<(String, Node)> {
    let key_of = |master: Node| {
        let mut keys = (0..).map(|n| format!("{{pools:{n}}}"));
        let key = keys.find(|key| cluster.master_of(key).as_ref() == Some(&master));
        (key.unwrap(), master)
    };
    cluster.masters().into_iter().map(key_of).collect()
}

#[test]
fn each_master_has_a_pool_with_its_own_limits() {
    let servers = nodes::shared();
    runtime().block_on(async {
        let cluster = servers.builder().open().await.unwrap();
        let pools = cluster.pools(LIMITS).await.unwrap();
        let status = pools.status();
        assert_eq!((status.free, status.max), (3 * LIMITS.min, 3 * LIMITS.max));
        let mut lent = Vec::new();
        for (key, master) in keys(&cluster) {
            for _ in 0..LIMITS.max {
                let mut connection = pools.get(&key).await.unwrap();
                let id: String = connection
                    .dedicated()
                    .run(cmd("CLUSTER MYID"))
                    .await
                    .unwrap();
                assert_eq!(id, servers.server(&master).ask("CLUSTER MYID"));
                connection.run(set(&key, "v")).await.unwrap();
                lent.push(connection);
            }
        }
        assert_eq!(pools.status().in_use, 3 * LIMITS.max);
        let (key, _) = &keys(&cluster)[0];
        let waiting = tokio::spawn({
            let (pools, key) = (pools.clone(), key.clone());
            async move { pools.get(key).await.map(drop) }
        });
        becomes(&pools, "it waits", |status| status.waiting == 1).await;
        // A connection of another master is of no use to it.
        drop(lent.pop());
        assert_eq!(pools.status().waiting, 1);
        drop(lent);
        waiting.await.unwrap().unwrap();
        let none = Limits { max: 0, ..LIMITS };
        assert!(matches!(cluster.pools(none).await, Err(Error::Usage(_))));
    });
}

#[test]
fn lent_connection_follows_its_slot_and_the_pool_gets_its_own_back() {
    let servers = nodes::shared();
    runtime().block_on(async {
        let cluster = servers.builder().open().await.unwrap();
        let pools = cluster.pools(LIMITS).await.unwrap();
        let key = "{pools:moved}";
        let mut connection = pools.get(key).await.unwrap();
        let both = || (incr(key), wait(1, Duration::from_secs(10)));
        let (first, replicas) = connection.run(both()).await;
        assert_eq!((first.unwrap(), replicas.unwrap()), (1, 1));
        servers.move_slot(slot_of(key.as_bytes()));
        let (moved, replicas) = connection.run(both()).await;
        assert_eq!((moved.unwrap(), replicas.unwrap()), (2, 1));
        let refused = connection.dedicated().run(incr(key)).await.unwrap_err();
        assert!(matches!(&refused, Error::Server(reply) if reply.code() == "MOVED"));
        drop(connection);
        becomes(&pools, "it is back", |status| {
            (status.free, status.in_use) == (3 * LIMITS.min, 0)
        })
        .await;
        // The next one is of the new master.
        let mut connection = pools.get(key).await.unwrap();
        assert_eq!(connection.dedicated().run(incr(key)).await.unwrap(), 3);
    });
}

#[test]
fn pools_follow_failovers_and_no_write_runs_twice() {
    let mut servers = nodes::Cluster::start();
    runtime().block_on(async {
        let idle = Builder::from_url(&format!("{}?client_name=idle", servers.url())).unwrap();
        let idle = idle.open().await.unwrap().pools(LIMITS).await.unwrap();
        let cluster = servers.builder().open().await.unwrap();
        let pools = cluster.pools(LIMITS).await.unwrap();
        let [(first, first_lost), (second, second_lost), _] = &keys(&cluster)[..] else {
            unreachable!("there are three masters");
        };
        let heir = cluster.replicas_of(first)[0].clone();
        waiting_borrower_goes_to_the_heir(&mut servers, &pools, first, first_lost).await;
        assert_eq!(cluster.master_of(first), Some(heir.clone()));
        writes_run_once(&mut servers, &pools, second, second_lost).await;
        for pools in [&idle, &pools] {
            becomes(pools, "all three are full", |status| {
                status.free >= 3 * LIMITS.min && status.max == 3 * LIMITS.max
            })
            .await;
        }
        let clients = servers.server(&heir).list_clients("normal");
        let named = clients.matches(" name=idle ").count();
        // Those of the pool, and the one that asked for the map.
        assert!((LIMITS.min..=LIMITS.min + 1).contains(&named), "{clients}");
    });
}

async fn waiting_borrower_goes_to_the_heir(
    servers: &mut nodes::Cluster,
    pools: &Pools,
    key: &str,
    lost: &Node,
) {
    let mut held = Vec::new();
    for _ in 0..LIMITS.max {
        held.push(pools.get(key).await.unwrap());
    }
    let waiting = tokio::spawn({
        let (pools, key) = (pools.clone(), key.to_owned());
        async move {
            let mut connection = pools.get(&key).await.unwrap();
            connection.dedicated().run(set(&key, "v")).await
        }
    });
    becomes(pools, "it waits", |status| status.waiting == 1).await;
    servers.kill(lost);
    drop(held);
    waiting.await.unwrap().unwrap();
}

async fn writes_run_once(servers: &mut nodes::Cluster, pools: &Pools, key: &str, lost: &Node) {
    let (sent, is_lost) = (
        Arc::new(AtomicU32::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let writers = (0..4).map(|writer| {
        let prefix = format!("{key}:{writer}");
        let (sent, is_lost) = (Arc::clone(&sent), Arc::clone(&is_lost));
        (
            prefix.clone(),
            tokio::spawn(count_up(pools.clone(), prefix, sent, is_lost)),
        )
    });
    let writers: Vec<_> = writers.collect();
    let begun = Instant::now();
    while sent.load(Ordering::Relaxed) < 100 {
        assert!(begun.elapsed() < PATIENCE, "nothing is written");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    servers.kill(lost);
    is_lost.store(true, Ordering::Relaxed);
    for (prefix, writer) in writers {
        let sent = writer.await.unwrap();
        let mut connection = pools.get(key).await.unwrap();
        for n in 0..sent {
            let value: Option<u32> = connection.run(get(format!("{prefix}:{n}"))).await.unwrap();
            assert!(matches!(value, None | Some(1)), "{value:?}");
        }
    }
}

/// Increments a new key each time until a hundred in a row were answered after the loss, and returns their number.
async fn count_up(
    pools: Pools,
    prefix: String,
    of_all: Arc<AtomicU32>,
    is_lost: Arc<AtomicBool>,
) -> u32 {
    let (begun, mut sent, mut in_a_row) = (Instant::now(), 0, 0);
    while in_a_row < 100 {
        assert!(begun.elapsed() < PATIENCE, "writes fail");
        let is_lost = is_lost.load(Ordering::Relaxed);
        let mut connection = pools.get(&prefix).await.unwrap();
        match connection.run(incr(format!("{prefix}:{sent}"))).await {
            Ok(1) => in_a_row += u32::from(is_lost),
            Ok(more) => panic!("a write ran {more} times"),
            Err(_) => in_a_row = 0,
        }
        sent += 1;
        of_all.fetch_add(1, Ordering::Relaxed);
    }
    sent
}

//! Changes of keys on a cluster: every master reports, whatever becomes of the nodes.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use loadline_client::cluster::{Cluster, Node, slot_of};
use loadline_client::commands::set;
use loadline_client::tracking::{Invalidation, Tracking};
use loadline_client::{Error, blocking};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::nodes::{self, runtime, shared};

/// Longer than anything takes that works.
const LIMIT: Duration = Duration::from_secs(60);

/// Changes for a thread or for tasks.
enum Changes {
    Thread(Box<blocking::Tracking>),
    Task(Box<Tracking>, Runtime),
}

impl Changes {
    fn of_thread(servers: &nodes::Cluster, prefix: &str) -> Self {
        let cluster = servers.builder().open_blocking().unwrap();
        Self::Thread(Box::new(cluster.tracking(prefix).unwrap()))
    }

    fn of_task(servers: &nodes::Cluster, prefix: &str) -> Self {
        let runtime = runtime();
        let tracking = runtime.block_on(async {
            let cluster = servers.builder().open().await.unwrap();
            cluster.tracking(prefix).await.unwrap()
        });
        Self::Task(Box::new(tracking), runtime)
    }

    fn next(&mut self, within: Duration) -> Option<Invalidation> {
        match self {
            Self::Thread(tracking) => tracking.next(within),
            Self::Task(tracking, runtime) => {
                let next = async { timeout(within, tracking.next()).await };
                match runtime.block_on(next) {
                    Ok(change) => Some(change.expect("the runtime lives")),
                    Err(_) => None,
                }
            }
        }
    }

    fn outage(&self) -> Option<Error> {
        match self {
            Self::Thread(tracking) => tracking.outage(),
            Self::Task(tracking, _) => tracking.outage(),
        }
    }

    /// Takes changes until all of these keys have come. Returns whether there was a gap.
    fn wait_for(&mut self, keys: &[String]) -> bool {
        let mut due: BTreeSet<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let mut has_gap = false;
        while !due.is_empty() {
            match self.next(LIMIT) {
                Some(Invalidation::Key(key)) => drop(due.remove(&key[..])),
                Some(Invalidation::Gap { outage: Some(_) }) => has_gap = true,
                other => panic!("{other:?}, and {due:?} are due"),
            }
        }
        has_gap
    }

    /// Waits until all masters report again after a gap.
    fn wait_for_gap(&mut self) {
        let until = Instant::now() + LIMIT;
        let mut has_gap = false;
        while !has_gap || self.outage().is_some() {
            assert!(Instant::now() < until, "no gap: {:?}", self.outage());
            let change = self.next(Duration::from_millis(20));
            has_gap |= matches!(change, Some(Invalidation::Gap { outage: Some(_) }));
        }
    }
}

/// A key on each master.
fn keys_on_all(cluster: &blocking::Cluster, prefix: &str) -> Vec<String> {
    let mut masters: Vec<Node> = Vec::new();
    let candidates = (0..10_000).map(|number| format!("{prefix}{number}"));
    let mut is_new = |key: &String| {
        let master = cluster.master_of(key).unwrap();
        let is_new = !masters.contains(&master);
        masters.extend(is_new.then_some(master));
        is_new
    };
    let keys: Vec<String> = candidates.filter(|key| is_new(key)).take(3).collect();
    assert_eq!(keys.len(), 3);
    keys
}

fn write(cluster: &mut blocking::Cluster, keys: &[String]) {
    for key in keys {
        let until = Instant::now() + LIMIT;
        // A write that a lost node may have executed is written again.
        while let Err(error) = cluster.run(set(key, "value")) {
            assert!(Instant::now() < until, "{error}");
        }
    }
}

#[test]
fn all_masters_report_also_after_a_slot_moves_and_a_connection_is_lost() {
    let servers = nodes::Cluster::start();
    let mut cluster = servers.builder().open_blocking().unwrap();
    let keys = keys_on_all(&cluster, "t:");
    for open in [Changes::of_thread, Changes::of_task] {
        let mut changes = open(&servers, "t:");
        assert!(changes.outage().is_none());
        write(&mut cluster, &["other".into()]);
        write(&mut cluster, &keys);
        assert!(!changes.wait_for(&keys));
        servers.move_slot(slot_of(keys[0].as_bytes()));
        // The old node has removed the key.
        changes.wait_for(&keys[..1]);
        write(&mut cluster, &keys);
        assert!(!changes.wait_for(&keys));
        for server in servers.masters() {
            server.ask("CLIENT KILL TYPE normal SKIPME yes");
            changes.wait_for_gap();
            write(&mut cluster, &keys);
            assert!(!changes.wait_for(&keys));
        }
    }
}

#[test]
fn replica_that_takes_over_reports_after_a_gap() {
    let mut servers = nodes::Cluster::start();
    let mut cluster = servers.builder().open_blocking().unwrap();
    let keys = keys_on_all(&cluster, "t:");
    let both = [Changes::of_thread, Changes::of_task];
    let mut both = both.map(|open| open(&servers, "t:"));
    let lost = cluster.master_of(&keys[1]).unwrap();
    servers.kill(&lost);
    for changes in &mut both {
        changes.wait_for_gap();
    }
    write(&mut cluster, &keys);
    assert_ne!(cluster.master_of(&keys[1]), Some(lost));
    for changes in &mut both {
        assert!(!changes.wait_for(&keys));
    }
}

#[test]
fn resp2_cannot_report_changes() {
    let url = format!("{}?resp=2", shared().url());
    let builder = loadline_client::cluster::Builder::from_url(&url).unwrap();
    let error = builder.open_blocking().unwrap().tracking("t:").unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
    runtime().block_on(async {
        let cluster = Cluster::open(&url).await.unwrap();
        let error = cluster.tracking("t:").await.unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error}");
    });
}

/// A reply of each master is kept, and dropped when another client writes.
#[cfg(feature = "cache")]
#[test]
fn kept_replies_follow_the_changes_on_every_master() {
    fn check(cache: &loadline_client::caching::ReadCache, mut read: impl FnMut(&str) -> String) {
        let mut other = shared().builder().open_blocking().unwrap();
        let keys = keys_on_all(&other, "kept:");
        let until = Instant::now() + LIMIT;
        for value in ["old", "new"] {
            for key in &keys {
                other.run(set(key, value)).unwrap();
            }
            let hits = |cache: &loadline_client::caching::ReadCache| cache.stats().hits;
            loop {
                let before = hits(cache);
                let are_current = keys.iter().filter(|key| read(key) == value).count() == 3;
                // All of them, and from memory.
                if are_current && hits(cache) == before + 3 {
                    break;
                }
                assert!(Instant::now() < until, "{value}: {:?}", cache.stats());
            }
        }
    }
    let mut cluster = shared().builder().open_blocking().unwrap();
    let cache = cluster.cache("kept:", 1 << 20).unwrap();
    check(&cache, |key| cluster.get_cached(&cache, key).unwrap());
    let runtime = runtime();
    let (cluster, cache) = runtime.block_on(async {
        let cluster = shared().builder().open().await.unwrap();
        let cache = cluster.cache("kept:", 1 << 20).await.unwrap();
        (cluster, cache)
    });
    check(&cache, |key| {
        let read = async {
            // The task that takes the notices runs meanwhile.
            tokio::time::sleep(Duration::from_millis(1)).await;
            cluster.get_cached(&cache, key).await
        };
        runtime.block_on(read).unwrap()
    });
}

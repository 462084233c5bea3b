//! Nodes that are lost: what is sent again, what is not, and how long it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use loadline_client::cluster::{Cluster, ReadFrom, slot_of};
use loadline_client::commands::*;
use loadline_client::{Error, cmd};

use crate::nodes::{self, runtime};

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(60);

/// The end of one unique write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// It was answered.
    Ran,
    /// The error said that it did not run.
    DidNotRun,
    /// The error said that it may have run.
    Unknown,
}

#[test]
fn no_write_runs_twice_when_connections_are_killed() {
    let servers = nodes::Cluster::start();
    runtime().block_on(async {
        let cluster = servers.builder().open().await.unwrap();
        let watch = Arc::new(Watch::default());
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                tokio::spawn(count_up(
                    cluster.clone(),
                    format!("kill:{task}"),
                    Arc::clone(&watch),
                ))
            })
            .collect();
        // It is left to chance whether a write is on its way when its connection is killed, so there are kills until one was.
        let begun = Instant::now();
        let mut kills = 0;
        while kills < 30 || watch.unknown.load(Ordering::Relaxed) == 0 {
            assert!(begun.elapsed() < PATIENCE, "no write was lost on its way");
            tokio::time::sleep(Duration::from_millis(15)).await;
            servers.masters()[kills % 3].ask("CLIENT KILL TYPE normal SKIPME yes");
            kills += 1;
        }
        watch.is_over.store(true, Ordering::Relaxed);
        let mut all = 0;
        for (task, done) in tasks.into_iter().enumerate() {
            for (n, (ended, _)) in done.await.unwrap().into_iter().enumerate() {
                let value: Option<u32> =
                    cluster.run(get(format!("kill:{task}:{n}"))).await.unwrap();
                match ended {
                    Ended::Ran => assert_eq!(value, Some(1)),
                    Ended::DidNotRun => assert_eq!(value, None),
                    Ended::Unknown => assert!(matches!(value, None | Some(1)), "{value:?}"),
                }
                all += 1;
            }
        }
        let unknown = watch.unknown.load(Ordering::Relaxed);
        println!(
            "{kills} times CLIENT KILL under {all} writes: {unknown} ended unknown, none ran twice"
        );
    });
}

#[test]
fn replica_takes_over_from_a_master_that_is_killed() {
    let mut servers = nodes::Cluster::start();
    runtime().block_on(async {
        let cluster = servers.builder().open().await.unwrap();
        let reader = servers
            .builder()
            .read_from(ReadFrom::Any)
            .open()
            .await
            .unwrap();
        let lost = cluster.master_of("lost").unwrap();
        let heir = cluster.replicas_of("lost")[0].clone();
        let stays = (0..).map(|n| format!("stays:{n}"));
        let mut stays = stays.filter(|key| cluster.master_of(key).unwrap() != lost);
        let stays = stays.next().unwrap();
        cluster.run(set("lost", "before")).await.unwrap();
        let in_step: u64 = servers
            .server(&lost)
            .connection()
            .run(cmd("WAIT").arg((1u32, 5_000u32)))
            .unwrap();
        assert_eq!(in_step, 1);
        let watch = Arc::new(Watch::default());
        let write = |tag: &str| {
            tokio::spawn(count_up(
                cluster.clone(),
                format!("{{{tag}}}"),
                Arc::clone(&watch),
            ))
        };
        let (on_lost, on_other) = (write("lost"), write(&stays));
        tokio::time::sleep(Duration::from_millis(100)).await;
        servers.kill(&lost);
        let killed = Instant::now();
        let served = serves_again(&cluster, killed).await;
        println!(
            "from SIGKILL of a master to the next write to its slots: {served:?} (node timeout 1 s)"
        );
        watch.is_over.store(true, Ordering::Relaxed);
        assert_eq!(cluster.master_of("lost"), Some(heir));
        for cluster in [&cluster, &reader] {
            let value: String = cluster.run(get("lost")).await.unwrap();
            assert_eq!(value, "after");
        }
        for (n, (ended, at)) in on_lost.await.unwrap().into_iter().enumerate() {
            let value: Option<u32> = cluster.run(get(format!("{{lost}}:{n}"))).await.unwrap();
            match ended {
                // A write that a master has acknowledged and not yet given to its replica dies with it.
                Ended::Ran if at < killed => assert!(matches!(value, None | Some(1)), "{value:?}"),
                Ended::Ran => assert_eq!(value, Some(1)),
                Ended::DidNotRun => assert_eq!(value, None),
                Ended::Unknown => assert!(matches!(value, None | Some(1)), "{value:?}"),
            }
        }
        for (n, (ended, _)) in on_other.await.unwrap().into_iter().enumerate() {
            let value: Option<u32> = cluster.run(get(format!("{{{stays}}}:{n}"))).await.unwrap();
            assert_eq!(
                (ended, value),
                (Ended::Ran, Some(1)),
                "the other masters went on"
            );
        }
        cluster.run(cmd::<()>("FLUSHALL")).await.unwrap();
        assert_eq!(cluster.run(dbsize()).await.unwrap(), 0);
    });
}

/// It is moved, and then its master is killed.
#[test]
fn writes_with_a_wait_follow_their_slot() {
    let mut servers = nodes::Cluster::start();
    runtime().block_on(async {
        let cluster = servers.builder().open().await.unwrap();
        let mut connection = cluster.slot_connection("{lost}");
        let both = |key: String| (incr(key), wait(1, Duration::from_secs(10)));
        let (first, replicas) = connection.run(both("{lost}:first".into())).await;
        assert_eq!((first.unwrap(), replicas.unwrap()), (1, 1));
        let before = cluster.master_of("{lost}").unwrap();
        servers.move_slot(slot_of(b"{lost}"));
        let (moved, replicas) = connection.run(both("{lost}:moved".into())).await;
        assert_eq!((moved.unwrap(), replicas.unwrap()), (1, 1));
        let lost = cluster.master_of("{lost}").unwrap();
        assert_ne!(lost, before, "the redirection was noted");
        servers.kill(&lost);
        let killed = Instant::now();
        let mut sent = 0;
        loop {
            let key = format!("{{lost}}:{sent}");
            let (done, replicas) = connection
                .run((incr(key), wait(1, Duration::from_millis(1))))
                .await;
            sent += 1;
            match done {
                Ok(1) => {
                    // The new master has lost its only replica.
                    assert_eq!(replicas.unwrap(), 0);
                    break;
                }
                Ok(more) => panic!("a write ran {more} times"),
                Err(error) => assert!(killed.elapsed() < PATIENCE, "{error}"),
            }
        }
        for n in 0..sent {
            let value: Option<u32> = cluster.run(get(format!("{{lost}}:{n}"))).await.unwrap();
            assert!(matches!(value, None | Some(1)), "{value:?}");
        }
        let shared = cluster.run(wait(1, Duration::from_millis(1))).await;
        assert!(matches!(shared, Err(Error::Usage(_))), "{shared:?}");
    });
}

/// Time until a key of the lost master is written again.
async fn serves_again(cluster: &Cluster, since: Instant) -> Duration {
    loop {
        match cluster.run(set("lost", "after")).await {
            Ok(()) => return since.elapsed(),
            Err(
                Error::Connection { .. }
                | Error::Timeout { .. }
                | Error::Server(_)
                | Error::Cluster(_),
            ) => {}
            Err(other) => panic!("{other}"),
        }
        assert!(since.elapsed() < PATIENCE, "no replica takes over");
    }
}

/// The state that the test shares with its writers.
#[derive(Default)]
struct Watch {
    is_over: AtomicBool,
    /// The number of writes that ended unknown.
    unknown: AtomicU32,
}

/// Increments a new key each time, so that what ran twice is seen.
async fn count_up(cluster: Cluster, prefix: String, watch: Arc<Watch>) -> Vec<(Ended, Instant)> {
    let mut writes = Vec::new();
    while !watch.is_over.load(Ordering::Relaxed) {
        let done = cluster
            .run(incr(format!("{prefix}:{}", writes.len())))
            .await;
        let ended = match done {
            Ok(1) => Ended::Ran,
            Ok(more) => panic!("a write ran {more} times"),
            Err(error) if error.maybe_executed() => Ended::Unknown,
            Err(_) => Ended::DidNotRun,
        };
        let unknown = u32::from(ended == Ended::Unknown);
        watch.unknown.fetch_add(unknown, Ordering::Relaxed);
        writes.push((ended, Instant::now()));
    }
    writes
}

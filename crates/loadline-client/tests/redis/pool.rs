//! The pool against a real redis-server that comes and goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use loadline_client::Error;
use loadline_client::commands::{get, incr, set};
use loadline_client::pool::{Limits, Pool, Status};

use crate::server::{Redis, runtime};

const SHORT: Limits = Limits {
    min: 2,
    max: 4,
    wait: Duration::from_millis(300),
    idle: Duration::from_millis(300),
};

/// Waits until the pool is as it should be, and returns how long that took.
async fn becomes(pool: &Pool, what: &str, right: impl Fn(&Status) -> bool) -> Duration {
    let begun = Instant::now();
    while !right(&pool.status()) {
        let status = pool.status();
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{what}: {status:?}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    begun.elapsed()
}

#[test]
fn it_grows_under_load_and_shrinks_when_idle() {
    let redis = Redis::start();
    runtime().block_on(async {
        let pool = redis.client().pool(SHORT).await.unwrap();
        assert_eq!((pool.status().free, pool.status().in_use), (2, 0));
        let mut lent = Vec::new();
        for _ in 0..4 {
            lent.push(pool.get().await.unwrap());
        }
        assert_eq!((pool.status().free, pool.status().in_use), (0, 4));
        lent[3].run(set("k", "v")).await.unwrap();
        drop(lent);
        let shrunk = becomes(&pool, "two are left", |status| status.free == 2).await;
        println!(
            "shrunk from 4 to 2 after {shrunk:?}, idle limit {:?}",
            SHORT.idle
        );
        assert!(shrunk >= Duration::from_millis(200), "{shrunk:?}");
        let value: String = pool.get().await.unwrap().run(get("k")).await.unwrap();
        assert_eq!(value, "v");
    });
}

#[test]
fn a_borrower_that_waits_too_long_is_told_what_the_pool_did() {
    let redis = Redis::start();
    runtime().block_on(async {
        let limits = Limits { min: 1, max: 1, ..SHORT };
        let pool = redis.client().pool(limits).await.unwrap();
        let held = pool.get().await.unwrap();
        let error = pool.get().await.unwrap_err();
        assert!(matches!(&error, Error::Pool { status, .. } if status.in_use == 1 && status.waiting == 1));
        assert_eq!(
            error.to_string(),
            "no connection of the pool was free within 300ms: of at most 1 connections 1 were in use, \
             0 free and 0 being opened, and 1 waited"
        );
        assert_eq!(pool.status().waiting, 0);
        drop(held);
        pool.get().await.unwrap();
    });
}

#[test]
fn those_that_wait_are_served_in_order() {
    let redis = Redis::start();
    runtime().block_on(async {
        let limits = Limits {
            min: 1,
            max: 1,
            wait: Duration::from_secs(10),
            ..SHORT
        };
        let pool = redis.client().pool(limits).await.unwrap();
        let held = pool.get().await.unwrap();
        let turn = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for place in 0..20_u64 {
            let (pool_of_task, turn) = (pool.clone(), Arc::clone(&turn));
            tasks.push(tokio::spawn(async move {
                let mut connection = pool_of_task.get().await.unwrap();
                connection.run(incr("turns")).await.unwrap();
                assert_eq!(turn.fetch_add(1, Ordering::SeqCst), place);
            }));
            becomes(&pool, "it waits", |status| {
                status.waiting as u64 == place + 1
            })
            .await;
        }
        drop(held);
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Futures that are dropped at any moment lose no connection.
#[test]
fn cancelled_borrowers_lose_nothing() {
    let redis = Redis::start();
    runtime().block_on(async {
        let limits = Limits {
            wait: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            ..SHORT
        };
        let pool = redis.client().pool(limits).await.unwrap();
        let mut tasks = Vec::new();
        for number in 0..2_000_u64 {
            let pool = pool.clone();
            tasks.push(tokio::spawn(async move {
                let patience = Duration::from_micros(number * 7 % 1_500);
                let work = async {
                    let mut connection = pool.get().await.unwrap();
                    connection.run(incr("n")).await.unwrap();
                };
                tokio::time::timeout(patience, work).await.is_ok()
            }));
        }
        let mut finished = 0;
        for task in tasks {
            finished += u64::from(task.await.unwrap());
        }
        println!("{finished} of 2000 finished, the others were cancelled");
        assert!(finished < 2_000);
        becomes(&pool, "all are free", |status| {
            status.in_use == 0 && status.waiting == 0 && status.opening == 0
        })
        .await;
        let mut lent = Vec::new();
        for _ in 0..4 {
            lent.push(pool.get().await.unwrap());
        }
        for connection in &mut lent {
            connection.run(set("k", "v")).await.unwrap();
        }
    });
}

#[test]
fn after_an_outage_it_is_back_at_its_minimum() {
    let mut redis = Redis::start();
    runtime().block_on(async {
        let limits = Limits {
            min: 4,
            max: 8,
            ..SHORT
        };
        let pool = redis.client().pool(limits).await.unwrap();
        let mut times = Vec::new();
        for _ in 0..3 {
            redis.kill();
            becomes(&pool, "the outage is seen", |status| status.free == 0).await;
            let error = pool.get().await.unwrap_err().to_string();
            assert!(
                error.contains("the last attempt to open one failed"),
                "{error}"
            );
            let up = redis.restart();
            becomes(&pool, "it is full again", |status| status.free >= 4).await;
            times.push(up.elapsed());
            pool.get().await.unwrap().run(set("k", "v")).await.unwrap();
        }
        println!("back at four connections after {times:?}");
        assert!(
            times.iter().all(|time| *time < Duration::from_secs(2)),
            "{times:?}"
        );
    });
}

#[test]
fn connections_that_are_killed_come_back() {
    let redis = Redis::start();
    runtime().block_on(async {
        let pool = redis.client().pool(SHORT).await.unwrap();
        let held = pool.get().await.unwrap();
        redis.ask("CLIENT KILL TYPE normal SKIPME yes");
        // Two of the pool's, and the one that asks.
        becomes(&pool, "both are connected again", |_| {
            redis.ask("CLIENT LIST").matches("id=").count() == 3
        })
        .await;
        drop(held);
        becomes(&pool, "both are there", |status| {
            status.free >= 2 && status.in_use == 0
        })
        .await;
        for _ in 0..2 {
            pool.get().await.unwrap().run(set("k", "v")).await.unwrap();
        }
    });
}

#[test]
fn limits_that_cannot_be_and_servers_that_are_not_there_are_refused() {
    runtime().block_on(async {
        let nowhere = loadline_client::Client::open("redis://127.0.0.1:1").unwrap();
        let limits = Limits {
            min: 3,
            max: 2,
            ..SHORT
        };
        assert!(matches!(nowhere.pool(limits).await, Err(Error::Usage(_))));
        assert!(matches!(
            nowhere.pool(SHORT).await,
            Err(Error::Connection { .. })
        ));
    });
}

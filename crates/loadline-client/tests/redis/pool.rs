//! The pool against a real redis-server that comes and goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use loadline_client::commands::{blpop, get, incr, llen, ping, rpush, set, watch};
use loadline_client::pool::{Borrowed, Limits, Pool, Status};
use loadline_client::{Client, Error, OwnedReply, Password, Request, cmd};

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
            begun.elapsed() < Duration::from_secs(60),
            "{what}: {status:?}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    begun.elapsed()
}

#[test]
fn pool_grows_under_load_and_shrinks_when_idle() {
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
        let idle_since = Instant::now();
        drop(lent);
        becomes(&pool, "two are left", |status| status.free == 2).await;
        let shrunk = idle_since.elapsed();
        println!(
            "shrunk from 4 to 2 after {shrunk:?}, idle limit {:?}",
            SHORT.idle
        );
        assert!(shrunk >= SHORT.idle, "{shrunk:?}");
        let value: String = pool.get().await.unwrap().run(get("k")).await.unwrap();
        assert_eq!(value, "v");
    });
}

#[test]
fn pool_timeout_reports_the_state_of_the_pool() {
    let redis = Redis::start();
    runtime().block_on(async {
        let limits = Limits { min: 1, max: 1, ..SHORT };
        let pool = redis.client().pool(limits).await.unwrap();
        let held = pool.get().await.unwrap();
        let error = pool.get().await.unwrap_err();
        assert!(matches!(&error, Error::Pool { status, .. } if status.in_use == 1 && status.waiting == 1));
        assert_eq!(
            error.to_string(),
            "no connection of the pool was free within 300ms: 1 of 1 connections in use, 0 free, 0 being \
             opened, 1 borrowers waiting"
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

/// A pool of one connection, so that the next borrower gets the connection of the one before, or one in
/// its place.
async fn pool_of_one(client: &Client) -> Pool {
    let limits = Limits {
        min: 1,
        max: 1,
        wait: Duration::from_secs(10),
        idle: Duration::from_secs(60),
    };
    client.pool(limits).await.unwrap()
}

/// Runs a request on a borrowed connection and gives the connection back; whether the server accepted it.
async fn leave<Q: Request<Output = Result<OwnedReply, Error>>>(pool: &Pool, request: Q) -> bool {
    let mut borrowed = pool.get().await.unwrap();
    let reply = borrowed.run(request).await;
    reply.is_ok_and(|reply| !reply.is_error())
}

/// The server's facts about the connection of this borrower.
async fn client_info(borrowed: &mut Borrowed) -> String {
    borrowed.run(cmd("CLIENT INFO")).await.unwrap()
}

#[test]
fn state_that_a_borrower_leaves_is_not_lent() {
    let redis = Redis::start_with(&["--requirepass", "secret"]);
    let client = redis
        .builder()
        .password(Password::new("secret"))
        .client_name("shop")
        .database(2)
        .build();
    runtime().block_on(async {
        let pool = pool_of_one(&client).await;
        let fresh = client_info(&mut pool.get().await.unwrap()).await;
        // The state of a connection without its number, its times and its counts.
        let state = |info: &str| {
            let kept = [
                "name=", "flags=", "db=", "sub=", "psub=", "multi=", "user=", "redir=", "resp=",
            ];
            let words = info.split_ascii_whitespace();
            words
                .filter(|word| kept.iter().any(|field| word.starts_with(field)))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let expected = state(&fresh);
        assert!(expected.contains("db=2"), "{expected}");
        for line in [
            "SELECT 5",
            "MULTI",
            "WATCH k",
            "CLIENT SETNAME other",
            "CLIENT TRACKING ON",
            "CLIENT NO-EVICT ON",
        ] {
            let mut words = line.split(' ');
            let command = cmd::<OwnedReply>(words.next().unwrap()).arg(words.collect::<Vec<_>>());
            assert!(leave(&pool, command).await, "{line}");
            let mut next = pool.get().await.unwrap();
            let found = next.run(cmd::<String>("CLIENT INFO")).await;
            let found = found.unwrap_or_else(|error| panic!("after {line}: {error}"));
            assert_eq!(state(&found), expected, "after {line}");
            next.run(set("k", "v")).await.unwrap();
        }
        // All of that was undone on one and the same connection.
        let last = client_info(&mut pool.get().await.unwrap()).await;
        assert_eq!(fresh.split(' ').next(), last.split(' ').next());
    });
}

#[test]
fn subscription_or_a_monitor_is_not_lent() {
    let redis = Redis::start();
    runtime().block_on(async {
        let pool = pool_of_one(&redis.client()).await;
        for line in ["MONITOR", "SUBSCRIBE channel"] {
            let mut borrowed = pool.get().await.unwrap();
            let mut words = line.split(' ');
            let command = cmd::<OwnedReply>(words.next().unwrap()).arg(words.collect::<Vec<_>>());
            // The confirmation of a subscription is a push message in RESP3, and never a reply.
            let reply = tokio::time::timeout(Duration::from_millis(100), borrowed.run(command));
            drop(reply.await);
            drop(borrowed);
            let mut next = pool.get().await.unwrap();
            redis.ask("PUBLISH channel message");
            for n in 0..3 {
                next.run(set("k", n))
                    .await
                    .unwrap_or_else(|error| panic!("after {line}: {error}"));
            }
            assert!(next.take_push().is_none(), "after {line}");
            becomes(&pool, "the server has seen the end", |_| {
                !redis.ask("CLIENT LIST").contains(" sub=1")
            })
            .await;
        }
    });
}

/// A blocking command whose future was dropped neither holds up the next borrower nor takes a job.
#[test]
fn cancelled_blocking_command_is_not_lent() {
    let redis = Redis::start();
    runtime().block_on(async {
        let pool = pool_of_one(&redis.client()).await;
        let mut borrowed = pool.get().await.unwrap();
        let endless = borrowed.run(blpop::<String>("jobs", Duration::from_secs(30)));
        drop(tokio::time::timeout(Duration::from_millis(50), endless).await);
        drop(borrowed);
        let begun = Instant::now();
        let mut next = pool.get().await.unwrap();
        next.run(ping()).await.unwrap();
        let waited = begun.elapsed();
        // It would last for half a minute.
        assert!(waited < Duration::from_secs(20), "{waited:?}");
        becomes(&pool, "the server has seen the end", |_| {
            !redis.ask("CLIENT LIST").contains("cmd=blpop")
        })
        .await;
        next.run(rpush("jobs", "one")).await.unwrap();
        assert_eq!(next.run(llen("jobs")).await.unwrap(), 1);
    });
}

/// The common use of a pool, a transaction on watched keys, leaves nothing behind and costs no reset.
#[test]
fn finished_transaction_is_given_back_as_it_is() {
    let redis = Redis::start();
    runtime().block_on(async {
        let pool = pool_of_one(&redis.client()).await;
        let mut borrowed = pool.get().await.unwrap();
        borrowed.run(watch("k")).await.unwrap();
        borrowed
            .run(loadline_client::atomic(set("k", 1)))
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        drop(borrowed);
        assert_eq!(pool.status().free, 1);
        assert!(!redis.ask("INFO commandstats").contains("cmdstat_reset"));
    });
}

#[test]
fn reply_to_a_dedicated_connection_is_overdue_also_behind_a_cancelled_blocking_command() {
    let redis = Redis::start();
    let timeout = Duration::from_millis(300);
    let client = redis.builder().response_timeout(Some(timeout)).build();
    runtime().block_on(async {
        let mut connection = client.dedicated().await.unwrap();
        let endless = connection.run(blpop::<String>("jobs", Duration::from_secs(30)));
        drop(tokio::time::timeout(Duration::from_millis(50), endless).await);
        let begun = Instant::now();
        let answer =
            tokio::time::timeout(Duration::from_secs(10), connection.run(get::<()>("k"))).await;
        let waited = begun.elapsed();
        let error = answer.expect("an answer within 10 s").unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        assert!(waited >= timeout, "{waited:?}");
        connection.run(ping()).await.unwrap();
    });
}

#[test]
fn pool_whose_runtime_has_ended_is_closed() {
    let redis = Redis::start();
    let first = runtime();
    let pool = first.block_on(pool_of_one(&redis.client()));
    drop(first);
    let begun = Instant::now();
    let error = runtime().block_on(pool.get()).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Closed {
                maybe_executed: false
            }
        ),
        "{error}"
    );
    // A borrower waits for 10 s if there is no connection.
    assert!(begun.elapsed() < Duration::from_secs(9));
}

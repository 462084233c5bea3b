//! Connections that break, servers that go and come back, and writes whose replies are cut off.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use loadline_client::commands::{exists, get, incr, set};
use loadline_client::multiplexed::Connection;
use loadline_client::{Error, RetryPolicy};
use rustix::process::Signal;

use crate::cutter::Cutter;
use crate::server::{Redis, runtime};

/// Far beyond the time that anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until a connection has noticed that it is lost, or that it is there again.
async fn wait_until_connected_is(connected: bool, connection: &Connection) {
    let begun = Instant::now();
    while connection.is_connected() != connected {
        assert!(begun.elapsed() < PATIENCE, "not noticed in time");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Ends all connections of clients, of which there must be one.
fn kill_connections(redis: &Redis) {
    let killed = redis.ask("CLIENT KILL TYPE normal SKIPME yes");
    assert!(!killed.starts_with(":0"), "there was none: {killed}");
}

#[test]
fn killed_connection_works_again() {
    let redis = Redis::start();
    let builder = redis.builder().response_timeout(Some(PATIENCE));
    let client = builder.build();
    runtime().block_on(async {
        let connection = client.multiplexed().await.unwrap();
        for _ in 0..11 {
            kill_connections(&redis);
            connection.run(exists("k")).await.unwrap();
        }
    });
    let mut connection = client.blocking().unwrap();
    for _ in 0..11 {
        kill_connections(&redis);
        connection.run(exists("k")).unwrap();
    }
}

#[test]
fn requests_wait_for_a_server_that_restarts() {
    let mut redis = Redis::start();
    let runtime = runtime();
    let builder = redis.builder().response_timeout(Some(PATIENCE));
    let client = builder.build();
    let connection = runtime.block_on(client.multiplexed()).unwrap();
    let mut blocking = client.blocking().unwrap();
    for _ in 0..5 {
        redis.kill();
        // The end of the old connection is noticed before the request comes.
        runtime.block_on(wait_until_connected_is(false, &connection));
        let waiting = connection.clone();
        let mut waiting = Box::pin(async move { waiting.run(incr("n")).await });
        runtime.block_on(async {
            let outage = Duration::from_millis(300);
            let early = tokio::time::timeout(outage, &mut waiting).await;
            assert!(early.is_err(), "there is no server: {early:?}");
        });
        redis.restart();
        let done = runtime.block_on(waiting).unwrap();
        assert_eq!(done, 1, "it was sent exactly once");
        assert_eq!(blocking.run(get::<i64>("n")).unwrap(), 1);
    }
}

#[test]
fn outage_that_lasts_fails_requests_in_time_and_bounds_their_memory() {
    const TIMEOUT: Duration = Duration::from_millis(500);
    let mut redis = Redis::start();
    let client = redis
        .builder()
        .response_timeout(Some(TIMEOUT))
        .max_queue_bytes(10_000)
        .build();
    runtime().block_on(async {
        let connection = client.multiplexed().await.unwrap();
        redis.kill();
        // The end of the old connection is noticed before requests come.
        wait_until_connected_is(false, &connection).await;
        let begun = Instant::now();
        let value = "x".repeat(1000);
        let waiting: Vec<_> = (0..50)
            .map(|_| {
                let (connection, value) = (connection.clone(), value.clone());
                tokio::spawn(async move { connection.run(set("k", value)).await })
            })
            .collect();
        let (mut full, mut lost) = (0, 0);
        for done in waiting {
            match done.await.unwrap().unwrap_err() {
                Error::QueueFull { .. } => full += 1,
                error => {
                    assert!(!error.maybe_executed(), "{error}");
                    lost += 1;
                }
            }
        }
        assert_eq!(lost, 8, "as many as fit into the queue were taken");
        assert_eq!(full, 42);
        let waited = begun.elapsed();
        assert!((TIMEOUT..PATIENCE).contains(&waited), "{waited:?}");
        assert!(connection.buffer_bytes() < 400_000);
        assert!(!connection.is_connected());
    });
    let mut blocking = client.blocking();
    assert!(blocking.is_err(), "the first connection is tried once");
    redis.restart();
    blocking = client.blocking();
    let mut connection = blocking.unwrap();
    redis.kill();
    let begun = Instant::now();
    let error = connection.run(set("k", 1)).unwrap_err();
    // The first write goes into a socket whose end is not known yet.
    assert!(matches!(error, Error::Connection { .. }), "{error}");
    let error = connection.run(set("k", 1)).unwrap_err();
    assert!(!error.maybe_executed(), "{error}");
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn frozen_server_is_noticed_and_the_connection_replaced() {
    let redis = Redis::start();
    let client = redis
        .builder()
        .response_timeout(Some(Duration::from_millis(500)))
        .keepalive(Some(Duration::from_millis(500)))
        .build();
    let mut blocking = client.blocking().unwrap();
    let runtime = runtime();
    let connection = runtime.block_on(client.multiplexed()).unwrap();
    redis.signal(Signal::STOP);
    let begun = Instant::now();
    let error = blocking.run(set("k", 1)).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Timeout {
                maybe_executed: true,
                ..
            }
        ),
        "{error}"
    );
    assert!(begun.elapsed() < PATIENCE);
    assert!(!blocking.is_connected());
    runtime.block_on(async {
        // A quiet connection notices by itself.
        wait_until_connected_is(false, &connection).await;
        let error = connection.run(incr("n")).await.unwrap_err();
        assert!(!error.maybe_executed(), "it was never sent: {error}");
    });
    redis.signal(Signal::CONT);
    assert_eq!(blocking.run(get::<Option<i64>>("n")).unwrap(), None);
    runtime.block_on(async {
        wait_until_connected_is(true, &connection).await;
        assert_eq!(connection.run(incr("n")).await.unwrap(), 1);
    });
}

/// Outcomes that callers were given for their counters.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) done: u64,
    pub(crate) maybe: u64,
    pub(crate) not: u64,
}

/// Each counter is counted up once, so its value says how often that was executed.
pub(crate) fn judge(redis: &Redis, told: HashMap<String, Result<i64, Error>>) -> Told {
    let mut direct = redis.client().blocking().unwrap();
    let mut sum = Told::default();
    for (key, result) in told {
        let executed: i64 = direct.run(get::<Option<i64>>(&key)).unwrap().unwrap_or(0);
        assert!(executed <= 1, "{key} was executed {executed} times");
        match result {
            Ok(value) => {
                assert_eq!((value, executed), (1, 1), "{key}");
                sum.done += 1;
            }
            Err(error) if error.maybe_executed() => sum.maybe += 1,
            Err(error) => {
                assert_eq!(executed, 0, "{key} was said not to have run: {error}");
                sum.not += 1;
            }
        }
    }
    sum
}

#[test]
fn writes_whose_replies_are_cut_off_are_executed_at_most_once() {
    let redis = Redis::start();
    for policy in [
        RetryPolicy::ReadOnly,
        RetryPolicy::Idempotent,
        RetryPolicy::Never,
    ] {
        let cutter = Cutter::start(redis.address(), "INCR", 60);
        let tag = format!("{policy:?}");
        let mut told = HashMap::new();
        runtime().block_on(async {
            let connection = cutter.client(policy).multiplexed().await.unwrap();
            for round in 0..400 {
                let tasks: Vec<_> = (0..20)
                    .map(|task| {
                        let connection = connection.clone();
                        let key = format!("{tag}:{round}:{task}");
                        tokio::spawn(async move { (connection.run(incr(&key)).await, key) })
                    })
                    .collect();
                for task in tasks {
                    let (result, key) = task.await.unwrap();
                    told.insert(key, result);
                }
            }
        });
        let sum = judge(&redis, told);
        let cuts = cutter.cuts();
        println!(
            "{tag}: {cuts} cuts; {} done, {} maybe, {} not",
            sum.done, sum.maybe, sum.not
        );
        assert!(cuts >= 100, "there were only {cuts} cuts");
        assert!(sum.maybe > 0 && sum.done > 0);
    }
}

#[test]
fn blocking_connection_does_not_repeat_writes_either() {
    let redis = Redis::start();
    let cutter = Cutter::start(redis.address(), "INCR", 5);
    let mut connection = cutter.client(RetryPolicy::ReadOnly).blocking().unwrap();
    let mut told = HashMap::new();
    for n in 0..500 {
        let key = format!("b:{n}");
        let result = connection.run(incr(&key));
        told.insert(key, result);
    }
    let sum = judge(&redis, told);
    let cuts = cutter.cuts();
    println!(
        "blocking: {cuts} cuts; {} done, {} maybe",
        sum.done, sum.maybe
    );
    assert_eq!(sum.maybe, cuts, "each cut reply is reported");
    assert!(cuts > 50);
}

#[test]
fn reads_whose_replies_are_cut_off_are_sent_again() {
    let redis = Redis::start();
    let cutter = Cutter::start(redis.address(), "EXISTS", 5);
    let mut connection = cutter.client(RetryPolicy::ReadOnly).blocking().unwrap();
    runtime().block_on(async {
        let shared = cutter
            .client(RetryPolicy::ReadOnly)
            .multiplexed()
            .await
            .unwrap();
        for _ in 0..200 {
            shared.run(exists("k")).await.unwrap();
            connection.run(exists("k")).unwrap();
        }
    });
    assert!(cutter.cuts() > 50);
}

//! Connections that break, servers that go and come back, and writes whose replies are cut off.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use loadline_client::commands::{exists, get, incr, set};
use loadline_client::multiplexed::Connection;
use loadline_client::{Client, Error, RetryPolicy};
use rustix::process::Signal;

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
fn a_killed_connection_works_again() {
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
fn an_outage_that_lasts_fails_requests_in_time_and_bounds_their_memory() {
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
fn a_frozen_server_is_noticed_and_the_connection_replaced() {
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

/// A proxy that forwards requests, and cuts connections instead of forwarding some of the replies.
pub(crate) struct Cutter {
    address: SocketAddr,
    orders: Arc<Orders>,
    stop: Arc<AtomicBool>,
}

/// The orders of a proxy, and the counts of its reads and cuts.
struct Orders {
    /// Each read of replies whose number is a multiple of this ends with a cut.
    nth: u64,
    reads: AtomicU64,
    /// Whether the next one does.
    next: AtomicBool,
    cuts: AtomicU64,
}

impl Cutter {
    /// Cuts at every `nth` read of replies.
    pub(crate) fn start(server: SocketAddr, nth: u64) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let cutter = Self {
            address: listener.local_addr().unwrap(),
            orders: Arc::new(Orders {
                nth,
                reads: AtomicU64::new(0),
                next: AtomicBool::new(false),
                cuts: AtomicU64::new(0),
            }),
            stop: Arc::default(),
        };
        let (orders, stop) = (Arc::clone(&cutter.orders), Arc::clone(&cutter.stop));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let orders = Arc::clone(&orders);
                std::thread::spawn(move || carry(&client.unwrap(), server, &orders));
            }
        });
        cutter
    }

    /// Number of cuts so far.
    pub(crate) fn cuts(&self) -> u64 {
        self.orders.cuts.load(Ordering::Relaxed)
    }

    /// Cuts at the next reply.
    pub(crate) fn cut_next(&self) {
        self.orders.next.store(true, Ordering::Relaxed);
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    fn client(&self, retry: RetryPolicy) -> Client {
        let builder = Client::builder().url(&self.url()).unwrap();
        builder.retry(retry).build()
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // One more connection, so that the listener looks.
        drop(TcpStream::connect(self.address));
    }
}

impl Orders {
    /// Whether this read ends with a cut.
    fn due(&self) -> bool {
        let read = self.reads.fetch_add(1, Ordering::Relaxed);
        read % self.nth == self.nth - 1 || self.next.swap(false, Ordering::Relaxed)
    }
}

fn carry(client: &TcpStream, server: SocketAddr, orders: &Orders) {
    let Ok(server) = TcpStream::connect(server) else {
        return;
    };
    let (mut requests, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let forward = std::thread::spawn(move || {
        // Either end may go at any time.
        let _ = std::io::copy(&mut requests, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let (mut from_server, mut replies) = (&server, client);
    let mut buf = [0; 64 << 10];
    let mut first = true;
    while let Ok(bytes) = from_server.read(&mut buf)
        && bytes > 0
    {
        // The first is the handshake.
        if !first && orders.due() {
            orders.cuts.fetch_add(1, Ordering::Relaxed);
            // The first half of the replies still arrives.
            let _ = replies.write_all(&buf[..bytes / 2]);
            break;
        }
        first = false;
        if replies.write_all(&buf[..bytes]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
    let _ = forward.join();
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
        let cutter = Cutter::start(redis.address(), 3);
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
fn a_blocking_connection_does_not_repeat_writes_either() {
    let redis = Redis::start();
    let cutter = Cutter::start(redis.address(), 5);
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
    let cutter = Cutter::start(redis.address(), 5);
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

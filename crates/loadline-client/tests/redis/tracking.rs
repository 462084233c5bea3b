//! Changes of keys, as a real server reports them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use loadline_client::commands::set;
use loadline_client::tracking::{Invalidation, Tracking};
use loadline_client::{Error, Protocol, blocking, cmd};
use tokio::time::timeout;

use crate::server::{Redis, runtime};

/// Longer than anything takes that works.
const LIMIT: Duration = Duration::from_secs(60);

fn key(change: Option<Invalidation>) -> String {
    match change {
        Some(Invalidation::Key(key)) => String::from_utf8(key.to_vec()).unwrap(),
        other => panic!("a key was due, and not {other:?}"),
    }
}

async fn next(tracking: &mut Tracking) -> Option<Invalidation> {
    let change = timeout(LIMIT, tracking.next()).await;
    change.expect("a change comes in time")
}

#[test]
fn every_change_of_a_prefix_is_reported() {
    let redis = Redis::start();
    let mut tracking = redis.client().blocking_tracking(["a:", "b:"]).unwrap();
    let mut connection = redis.client().blocking().unwrap();
    connection.run(set("c:1", "other")).unwrap();
    connection.run(set("a:1", "first")).unwrap();
    assert_eq!(key(tracking.next(LIMIT)), "a:1");
    // Written again without having been read in between.
    connection.run(set("a:1", "second")).unwrap();
    assert_eq!(key(tracking.next(LIMIT)), "a:1");
    connection
        .run(cmd::<()>("SET").arg(("b:1", "short", "PX", 20)))
        .unwrap();
    assert_eq!(key(tracking.next(LIMIT)), "b:1");
    assert_eq!(
        key(tracking.next(LIMIT)),
        "b:1",
        "the end of a time to live"
    );
    connection.run(cmd::<u64>("DEL").arg("a:1")).unwrap();
    assert_eq!(key(tracking.next(LIMIT)), "a:1");
    connection.run(cmd::<()>("FLUSHALL")).unwrap();
    assert!(matches!(tracking.next(LIMIT), Some(Invalidation::All)));
    assert!(tracking.next(Duration::from_millis(10)).is_none());
}

#[test]
fn all_keys_are_the_empty_prefix() {
    let redis = Redis::start();
    runtime().block_on(async {
        let mut tracking = redis.client().tracking("").await.unwrap();
        redis.ask("SET any 1");
        assert_eq!(key(next(&mut tracking).await), "any");
    });
}

#[test]
fn refused_tracking_is_an_error() {
    let redis = Redis::start();
    let overlapping = redis.client().blocking_tracking(["a:", "a:b:"]);
    let error = overlapping.unwrap_err();
    assert!(error.to_string().contains("overlaps"), "{error}");
    let resp2 = redis.builder().protocol(Some(Protocol::Resp2)).build();
    let error = resp2.blocking_tracking("a:").unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
}

/// Waits for a connection that tracks keys, and returns its number.
fn tracking_connection(asking: &mut blocking::Connection) -> String {
    let begun = Instant::now();
    loop {
        let clients: String = asking.run(cmd("CLIENT").arg("LIST")).unwrap();
        for client in clients.lines() {
            let field = |name: &str| {
                let mut fields = client.split(' ');
                fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
            };
            if field("flags").is_some_and(|flags| flags.contains('B')) {
                return field("id").unwrap().to_owned();
            }
        }
        assert!(begun.elapsed() < LIMIT, "no connection tracks keys");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Numbered keys, and a connection that is killed again and again: where a number is missing, a gap said so right there.
#[test]
fn every_gap_is_announced_while_the_connection_is_killed() {
    const KEYS: u64 = 5_000;
    const KILLS: u64 = 25;
    let redis = Redis::start();
    let mut tracking = redis.client().blocking_tracking("n:").unwrap();
    let client = redis.client();
    let is_over = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&is_over);
    let (tell, told) = mpsc::channel();
    let writer = std::thread::spawn(move || {
        let mut connection = client.blocking().unwrap();
        for number in 0..KEYS {
            connection.run(set(format!("n:{number}"), "value")).unwrap();
            match number % (KEYS / KILLS) {
                50 => {
                    let tracking = tracking_connection(&mut connection);
                    let kill = cmd::<u64>("CLIENT").arg(("KILL", "ID", tracking));
                    assert_eq!(connection.run(kill).unwrap(), 1);
                }
                // Some changes meet the outage, and the others are reported again. It was told of: a kill amid the
                // handshake would be part of the same outage.
                100 => {
                    let kills = number / (KEYS / KILLS) + 1;
                    let told = told.recv_timeout(LIMIT);
                    assert_eq!(told, Ok(kills), "the connection comes back");
                }
                _ => {}
            }
        }
        // The end is said until it is heard.
        while !heard.load(Ordering::SeqCst) {
            connection.run(set(format!("n:{KEYS}"), "end")).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let (mut due, mut announced, mut received, mut gaps) = (0, false, 0, 0);
    while due <= KEYS {
        match tracking.next(LIMIT) {
            Some(Invalidation::Key(key)) => {
                let number = std::str::from_utf8(&key[2..]).unwrap();
                let number: u64 = number.parse().unwrap();
                assert!(number >= due, "{number} came twice or late, {due} was due");
                assert!(number == due || announced, "{due} to {number} are missing");
                (due, announced, received) = (number + 1, false, received + 1);
            }
            Some(Invalidation::Gap { outage: Some(_) }) => {
                (announced, gaps) = (true, gaps + 1);
                tell.send(gaps).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    is_over.store(true, Ordering::SeqCst);
    writer.join().unwrap();
    println!("{KEYS} changes, {received} received, {gaps} gaps");
    assert_eq!(gaps, KILLS, "each is told");
    assert!(received > KEYS / 2, "only {received} changes came");
}

//! Everything works again after a server was away. How soon, these tests print and do not judge.

use std::time::{Duration, Instant};

use loadline_client::commands::{exists, publish};
use loadline_client::pubsub::Event;

use crate::server::{Redis, median_time};

/// Durations of the server's outages, and the number of each; the long setting gives times that can be compared.
fn outages() -> (&'static [Duration], usize) {
    const OUTAGES: [Duration; 3] = [
        Duration::from_millis(200),
        Duration::from_secs(1),
        Duration::from_secs(2),
    ];
    if std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1") {
        (&OUTAGES, 3)
    } else {
        (&OUTAGES[..2], 1)
    }
}

/// Far beyond the time that a reply takes after the server's return, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn all_connections_work_again_after_the_server_s_return() {
    let mut redis = Redis::start();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let client = redis.builder().response_timeout(Some(PATIENCE)).build();
    let mut blocking = client.blocking().unwrap();
    let connection = runtime.block_on(client.multiplexed()).unwrap();
    let mut pubsub = runtime.block_on(client.pubsub()).unwrap();
    runtime.block_on(pubsub.subscribe("c")).unwrap();
    let mut times = [const { Vec::new() }; 3];
    let (outages, tries) = outages();
    for outage in outages {
        for _ in 0..tries {
            redis.kill();
            std::thread::sleep(Duration::from_millis(20));
            let shared = connection.clone();
            let multiplexed = runtime.spawn(async move {
                shared.run(exists("k")).await.unwrap();
                Instant::now()
            });
            let waiting = std::thread::spawn(move || {
                blocking.run(exists("k")).unwrap();
                (Instant::now(), blocking)
            });
            let subscribed = runtime.spawn(async move {
                let event = tokio::time::timeout(PATIENCE, pubsub.next()).await;
                assert!(
                    matches!(event, Ok(Some(Event::Resubscribed { .. }))),
                    "{event:?}"
                );
                (Instant::now(), pubsub)
            });
            std::thread::sleep(outage.saturating_sub(Duration::from_millis(20)));
            let up = redis.restart();
            let multiplexed = runtime.block_on(multiplexed).unwrap();
            let (blocked, connection) = waiting.join().unwrap();
            blocking = connection;
            let (listening, subscriber) = runtime.block_on(subscribed).unwrap();
            pubsub = subscriber;
            for (times, at) in times.iter_mut().zip([multiplexed, blocked, listening]) {
                times.push(at.saturating_duration_since(up));
            }
        }
    }
    runtime.block_on(connection.run(publish("c", "x"))).unwrap();
    assert!(matches!(
        runtime.block_on(async { tokio::time::timeout(PATIENCE, pubsub.next()).await }),
        Ok(Some(Event::Message(_)))
    ));
    for (what, times) in ["multiplexed", "blocking", "pub/sub"].iter().zip(times) {
        let most = times.iter().max().copied().unwrap_or_default();
        let median = median_time(&times);
        println!(
            "{what}: from the server's return to the first reply {median:?} (median), {most:?} (longest)"
        );
    }
}

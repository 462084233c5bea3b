//! The events of connections.

use std::time::Duration;

use loadline_client::commands::{get, ping, set};
use loadline_client::{Address, Client, ConnectionEvent, ConnectionEvents, Error};

use crate::port::Port;
use crate::server::{Redis, runtime};

const LIMIT: Duration = Duration::from_secs(60);

fn port_of(address: &Address) -> u16 {
    match address {
        Address::Tcp { port, .. } => *port,
        other => panic!("{other:?}"),
    }
}

/// The next event that is no failed attempt to connect.
fn after_attempts(events: &ConnectionEvents) -> ConnectionEvent {
    loop {
        match events.wait(LIMIT).expect("an event") {
            ConnectionEvent::Failed { .. } => {}
            event => return event,
        }
    }
}

fn killed(redis: &Redis) {
    redis.ask("CLIENT KILL TYPE normal SKIPME yes");
    redis.ask("CLIENT KILL TYPE pubsub SKIPME yes");
}

/// Connected, lost and reconnected, in this order.
fn expect_a_life(redis: &Redis, events: &ConnectionEvents, go_on: impl FnOnce()) {
    let connected = events.wait(LIMIT);
    assert!(
        matches!(&connected, Some(ConnectionEvent::Connected { address })
            if port_of(address) == redis.address().port()),
        "{connected:?}"
    );
    killed(redis);
    go_on();
    let lost = events.wait(LIMIT);
    assert!(
        matches!(
            &lost,
            Some(ConnectionEvent::Lost {
                error: Error::Connection { .. },
                ..
            })
        ),
        "{lost:?}"
    );
    let again = after_attempts(events);
    assert!(
        matches!(again, ConnectionEvent::Reconnected { .. }),
        "{again:?}"
    );
}

#[test]
fn every_kind_of_connection_says_when_it_is_lost_and_made_again() {
    let redis = Redis::start();
    let events = ConnectionEvents::new(100);
    let client = redis.builder().events(events.clone()).build();
    let mut blocking = client.blocking().unwrap();
    expect_a_life(&redis, &events, || blocking.run(ping()).unwrap());
    drop(blocking);
    let mut heard = client.blocking_pubsub().unwrap();
    heard.subscribe("channel").unwrap();
    expect_a_life(&redis, &events, || {
        heard.next(LIMIT);
    });
    drop(heard);
    let runtime = runtime();
    let connection = runtime.block_on(client.multiplexed()).unwrap();
    expect_a_life(&redis, &events, || {
        runtime.block_on(connection.run(ping())).unwrap();
    });
    drop(connection);
    let mut pubsub = runtime.block_on(client.pubsub()).unwrap();
    runtime.block_on(pubsub.subscribe("channel")).unwrap();
    expect_a_life(&redis, &events, || {
        runtime.block_on(pubsub.next());
    });
    drop(pubsub);
    // A connection that the application closes itself is not lost.
    drop(runtime);
    assert!(events.try_next().is_none());
}

#[test]
fn failed_attempt_is_said_once() {
    let events = ConnectionEvents::new(100);
    let port = Port::reserve();
    let url = format!("redis://127.0.0.1:{port}");
    let client = Client::builder()
        .url(&url)
        .unwrap()
        .events(events.clone())
        .build();
    client.blocking().unwrap_err();
    let failed = events.try_next();
    assert!(
        matches!(failed, Some(ConnectionEvent::Failed { .. })),
        "{failed:?}"
    );
    let more = events.try_next();
    assert!(more.is_none(), "{more:?}");
    runtime().block_on(client.multiplexed()).unwrap_err();
    let failed = events.try_next();
    assert!(
        matches!(failed, Some(ConnectionEvent::Failed { .. })),
        "{failed:?}"
    );
    let more = events.try_next();
    assert!(more.is_none(), "{more:?}");
}

#[test]
fn task_waits_for_events_while_requests_run() {
    use futures_util::StreamExt;

    let redis = Redis::start();
    let mut events = ConnectionEvents::new(1);
    let client = redis.builder().events(events.clone()).build();
    runtime().block_on(async {
        let watching = events.clone();
        let watcher = tokio::spawn(async move { watching.next().await });
        let connection = client.multiplexed().await.unwrap();
        let first = watcher.await.unwrap();
        assert!(
            matches!(first, ConnectionEvent::Connected { .. }),
            "{first:?}"
        );
        connection.run(set("k", 1)).await.unwrap();
        killed(&redis);
        assert_eq!(connection.run(get::<i64>("k")).await.unwrap(), 1);
        // The queue has room for one event, and two came.
        let missed = StreamExt::next(&mut events).await;
        assert!(
            matches!(missed, Some(ConnectionEvent::Missed { events: 1.. })),
            "{missed:?}"
        );
        let last = StreamExt::next(&mut events).await;
        assert!(
            matches!(last, Some(ConnectionEvent::Reconnected { .. })),
            "{last:?}"
        );
    });
}

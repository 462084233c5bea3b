//! Scans, subscriptions and readers as a `Stream`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::{StreamExt, TryStreamExt};
use loadline_client::commands::*;
use loadline_client::streams::{self, GroupReader, Start, StreamReader};
use loadline_client::{ConnectionEvent, ConnectionEvents, Error, Scan, cmd, pubsub};

use crate::server::{Redis, runtime};

#[test]
fn scan_is_a_stream_of_every_element() {
    let redis = Redis::start();
    runtime().block_on(async {
        let connection = redis.client().multiplexed().await.unwrap();
        let keys: BTreeSet<String> = (0..500).map(|n| format!("key:{n}")).collect();
        for key in &keys {
            connection.run(set(key, 1)).await.unwrap();
        }
        let all = connection.scan(Scan::<String>::keys().count(10));
        let found: BTreeSet<String> = all.try_collect().await.unwrap();
        assert_eq!(found, keys);
        // Both ways to read the same scan continue where the other was, in the middle of a page too.
        let mut both = connection.scan(Scan::<String>::keys().count(10));
        let mut found = BTreeSet::new();
        loop {
            let streamed = StreamExt::next(&mut both).await.transpose().unwrap();
            let next = both.next().await.unwrap();
            let ended = next.is_none();
            found.extend(streamed);
            found.extend(next);
            if ended {
                break;
            }
        }
        assert_eq!(found, keys);
        // A task can own it.
        let owned = connection.clone();
        let count = tokio::spawn(async move {
            let all = owned.scan(Scan::<String>::keys());
            all.try_fold(0, async |count, _| Ok(count + 1)).await
        });
        assert_eq!(count.await.unwrap().unwrap(), 500);
        connection.run(set("string", 1)).await.unwrap();
        let wrong: Result<Vec<(String, String)>, Error> =
            connection.scan(Scan::hash("string")).try_collect().await;
        assert!(wrong.unwrap_err().is_server_code("WRONGTYPE"));
    });
}

#[test]
fn subscriptions_and_readers_are_streams() {
    let redis = Redis::start();
    runtime().block_on(async {
        let client = redis.client();
        let connection = client.multiplexed().await.unwrap();
        let mut pubsub = client.pubsub().await.unwrap();
        pubsub.subscribe("channel").await.unwrap();
        for n in 0..3 {
            connection.run(publish("channel", n)).await.unwrap();
            connection.run(xadd("x", [("n", n)])).await.unwrap();
        }
        let heard: Vec<_> = (&mut pubsub).take(3).collect().await;
        let payloads = heard.iter().map(|event| match event {
            pubsub::Event::Message(message) => message.payload.clone(),
            other => panic!("{other:?}"),
        });
        assert_eq!(payloads.collect::<Vec<_>>(), ["0", "1", "2"]);

        let reader = StreamReader::open(&client, "x", Start::Oldest)
            .await
            .unwrap();
        let group = GroupReader::create(&client, "x", "g", "me", Start::Oldest)
            .await
            .unwrap();
        let read: Vec<_> = reader.take(3).try_collect().await.unwrap();
        let grouped: Vec<_> = group.take(3).try_collect().await.unwrap();
        for events in [read, grouped] {
            let entries = events.iter().map(|event| match event {
                streams::Event::Entry(entry) => entry.get("n").unwrap().to_vec(),
                other => panic!("{other:?}"),
            });
            assert_eq!(entries.collect::<Vec<_>>(), [b"0", b"1", b"2"]);
        }
    });
}

/// A future of a transaction can run in a task of its own, and gives up after its last attempt.
#[test]
fn transaction_on_tokio_is_tried_a_bounded_number_of_times() {
    let redis = Redis::start();
    runtime().block_on(async {
        let mut connection = redis.client().dedicated().await.unwrap();
        let other = redis.client().multiplexed().await.unwrap();
        connection.run(set("n", 1)).await.unwrap();
        let disturbing = other.clone();
        let task = tokio::spawn(async move {
            let (rounds, disturbing) = (&AtomicU32::new(0), &disturbing);
            let written = connection.transaction("n", 3, |connection| async move {
                let n: i64 = connection.run(get("n")).await?;
                if rounds.fetch_add(1, Ordering::Relaxed) < 2 {
                    disturbing.run(incr_by("n", 10)).await?;
                }
                Ok(set("n", 2 * n))
            });
            let written = written.await;
            (written, rounds.load(Ordering::Relaxed), connection)
        });
        let (written, rounds, mut connection) = task.await.unwrap();
        written.unwrap().unwrap();
        assert_eq!(rounds, 3);
        assert_eq!(other.run(get::<i64>("n")).await.unwrap(), 42);

        let disturbing = &other;
        let conflict = connection.transaction("n", 4, |connection| async move {
            let n: i64 = connection.run(get("n")).await?;
            disturbing.run(incr("n")).await?;
            Ok(set("n", -n))
        });
        let conflict = conflict.await.unwrap_err();
        assert!(
            matches!(conflict, Error::Conflict { attempts: 4 }),
            "{conflict}"
        );
        assert!(!conflict.maybe_executed());
        assert_eq!(
            other.run(get::<i64>("n")).await.unwrap(),
            46,
            "nothing was written"
        );

        // An error of the plan ends the watch.
        let planned = connection.transaction("n", 4, |connection| async move {
            connection.run(incr("n")).await?;
            connection.run(cmd::<()>("NOSUCH")).await?;
            Ok(set("n", 0))
        });
        let planned = planned.await;
        assert!(planned.unwrap_err().is_server_code("ERR"));
        let free = connection
            .run(loadline_client::atomic(set("n", 5)))
            .await
            .unwrap();
        assert!(free.is_some(), "a key was still watched");
    });
}

#[test]
fn transaction_whose_connection_was_lost_starts_again() {
    let redis = Redis::start();
    runtime().block_on(async {
        let events = ConnectionEvents::new(10);
        let client = redis.builder().events(events.clone()).build();
        let mut connection = client.dedicated().await.unwrap();
        connection.run(set("n", 1)).await.unwrap();
        let (rounds, redis, events) = (&AtomicU32::new(0), &redis, &events);
        let written = connection.transaction("n", 2, |connection| async move {
            let n: i64 = connection.run(get("n")).await?;
            if rounds.fetch_add(1, Ordering::Relaxed) == 0 {
                redis.ask("CLIENT KILL TYPE normal SKIPME yes");
                while !matches!(events.next().await, ConnectionEvent::Lost { .. }) {}
            }
            Ok(set("n", 2 * n))
        });
        written.await.unwrap().unwrap();
        assert_eq!(rounds.load(Ordering::Relaxed), 2);
        assert_eq!(connection.run(get::<i64>("n")).await.unwrap(), 2);
    });
}

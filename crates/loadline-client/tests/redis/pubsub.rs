//! Subscriptions on a real server that kills them, dies, freezes and comes back.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use loadline_client::commands::publish;
use loadline_client::pubsub::{Event, Kind, Message, PubSub};
use loadline_client::{Error, Protocol, cmd};
use rustix::process::Signal;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::server::{Redis, runtime};

/// Longer than anything takes that works.
const LIMIT: Duration = Duration::from_secs(60);

async fn next(pubsub: &mut PubSub) -> Event {
    let event = timeout(LIMIT, pubsub.next()).await;
    event
        .expect("an event comes in time")
        .expect("the driver lives")
}

async fn message(pubsub: &mut PubSub) -> Message {
    match next(pubsub).await {
        Event::Message(message) => message,
        other => panic!("a message was due, and not {other:?}"),
    }
}

#[test]
fn every_kind_of_subscription_brings_its_messages() {
    let redis = Redis::start();
    runtime().block_on(async {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let client = redis.builder().protocol(Some(protocol)).build();
            let mut pubsub = client.pubsub().await.unwrap();
            pubsub.subscribe(["news", "prices"]).await.unwrap();
            pubsub.psubscribe("n*").await.unwrap();
            pubsub.ssubscribe("shard").await.unwrap();
            redis.ask("PUBLISH news one");
            let plain = message(&mut pubsub).await;
            assert_eq!((plain.kind, plain.pattern), (Kind::Channel, None));
            let matched = message(&mut pubsub).await;
            assert_eq!(matched.kind, Kind::Pattern);
            assert_eq!(matched.pattern.as_deref(), Some(&b"n*"[..]));
            assert_eq!(
                (&matched.channel[..], &matched.payload[..]),
                (&b"news"[..], &b"one"[..])
            );
            redis.ask("SPUBLISH shard two");
            let sharded = message(&mut pubsub).await;
            assert_eq!(
                (sharded.kind, &sharded.payload[..]),
                (Kind::Shard, &b"two"[..])
            );
            pubsub.unsubscribe(["news", "prices"]).await.unwrap();
            pubsub.punsubscribe("n*").await.unwrap();
            pubsub.sunsubscribe("shard").await.unwrap();
            assert!(redis.ask("PUBLISH news three").starts_with(":0"));
            assert!(pubsub.try_next().is_none());
        }
    });
}

#[test]
fn subscription_that_the_server_refuses_is_an_error() {
    let redis = Redis::start_with(&[
        "--user",
        "default",
        "on",
        "nopass",
        "~*",
        "resetchannels",
        "&open",
        "+@all",
    ]);
    runtime().block_on(async {
        let pubsub = redis.client().pubsub().await.unwrap();
        pubsub.subscribe("open").await.unwrap();
        let error = pubsub.subscribe(["open", "secret"]).await.unwrap_err();
        assert!(error.is_server_code("NOPERM"), "{error}");
        let error = pubsub.subscribe(Vec::<String>::new()).await.unwrap_err();
        assert!(matches!(error, Error::Usage(_)));
    });
}

#[test]
fn first_connection_is_tried_once() {
    let mut redis = Redis::start();
    redis.kill();
    let opened = runtime().block_on(async { timeout(LIMIT, redis.client().pubsub()).await });
    let error = opened.unwrap().unwrap_err();
    assert!(matches!(error, Error::Connection { .. }), "{error}");
}

/// Ten thousand numbered messages, and a subscriber whose connection is killed again and again: where
/// numbers are missing, an event said so right there.
#[test]
fn every_gap_is_announced_while_the_connection_is_killed() {
    const MESSAGES: u64 = 10_000;
    const KILLS: u64 = 50;
    let redis = Redis::start();
    runtime().block_on(async {
        let mut publisher = redis.client().dedicated().await.unwrap();
        let mut pubsub = redis.client().pubsub().await.unwrap();
        pubsub.subscribe("numbers").await.unwrap();
        let (tell, mut told) = watch::channel(0);
        let publishing = tokio::spawn(async move {
            for number in 0..MESSAGES {
                publisher.run(publish("numbers", number)).await.unwrap();
                match number % (MESSAGES / KILLS) {
                    100 => {
                        let kill = cmd::<u64>("CLIENT").arg(("KILL", "TYPE", "pubsub"));
                        assert_eq!(publisher.run(kill).await.unwrap(), 1);
                    }
                    // Some messages meet the outage, and the others have a subscriber again. It has told of it: a
                    // kill amid its handshake would be part of the same outage.
                    150 => {
                        let kills = number / (MESSAGES / KILLS) + 1;
                        let back = timeout(LIMIT, told.wait_for(|outages| *outages == kills));
                        back.await.expect("the subscriber comes back").unwrap();
                    }
                    _ => {}
                }
            }
            // The end is said until it is heard.
            loop {
                publisher.run(publish("numbers", MESSAGES)).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let (mut due, mut announced) = (0, false);
        let (mut received, mut missing, mut outages) = (0, 0, 0);
        while due <= MESSAGES {
            match next(&mut pubsub).await {
                Event::Message(message) => {
                    let text = std::str::from_utf8(&message.payload).unwrap();
                    let number: u64 = text.parse().unwrap();
                    assert!(number >= due, "{number} came twice or late, {due} was due");
                    assert!(
                        number == due || announced,
                        "{due} to {number} are missing without a report"
                    );
                    (received, missing) = (received + 1, missing + number - due);
                    (due, announced) = (number + 1, false);
                }
                Event::Resubscribed { .. } => {
                    (announced, outages) = (true, outages + 1);
                    tell.send_replace(outages);
                }
                other => panic!("{other:?}"),
            }
        }
        publishing.abort();
        println!("{MESSAGES} messages, {outages} outages: {received} received, {missing} missing");
        assert_eq!(outages, KILLS, "each is told");
        assert!(received > MESSAGES / 2, "only {received} messages came");
    });
}

#[test]
fn server_that_dies_and_comes_back_is_subscribed_to_again() {
    let mut redis = Redis::start();
    runtime().block_on(async {
        let mut pubsub = redis.client().pubsub().await.unwrap();
        pubsub.subscribe("a").await.unwrap();
        pubsub.psubscribe("b*").await.unwrap();
        redis.kill();
        let begun = Instant::now();
        while pubsub.outage().is_none() {
            assert!(begun.elapsed() < LIMIT);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let returns = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            redis.restart();
        };
        let (late, ()) = tokio::join!(pubsub.subscribe("late"), returns);
        late.unwrap();
        match next(&mut pubsub).await {
            Event::Resubscribed { outage } => assert!(outage >= Duration::from_millis(200)),
            other => panic!("{other:?}"),
        }
        redis.ask("PUBLISH bee 1");
        assert_eq!(&message(&mut pubsub).await.channel[..], b"bee");
        redis.ask("PUBLISH late 2");
        assert_eq!(&message(&mut pubsub).await.channel[..], b"late");
    });
}

/// Number of times that the server was asked whether it is there.
fn pings(redis: &Redis) -> u64 {
    let stats = redis.ask("INFO commandstats");
    let calls = stats.split_once("cmdstat_ping:calls=");
    let digits = calls.and_then(|(_, rest)| rest.split(',').next());
    digits.map_or(0, |digits| digits.parse().unwrap())
}

#[test]
fn frozen_server_is_noticed_by_its_silence() {
    let redis = Redis::start();
    let client = redis
        .builder()
        .keepalive(Some(Duration::from_millis(100)))
        .response_timeout(Some(Duration::from_secs(2)))
        .build();
    runtime().block_on(async {
        let mut pubsub = client.pubsub().await.unwrap();
        pubsub.subscribe("a").await.unwrap();
        // A server that only has nothing to say is asked whether it is there, and not given up.
        let begun = Instant::now();
        while pings(&redis) < 3 {
            assert!(begun.elapsed() < LIMIT, "it is not asked");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(pubsub.outage().is_none() && pubsub.try_next().is_none());
        redis.signal(Signal::STOP);
        let begun = Instant::now();
        while pubsub.outage().is_none() {
            assert!(begun.elapsed() < LIMIT, "the loss was not noticed");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        redis.signal(Signal::CONT);
        assert!(matches!(
            next(&mut pubsub).await,
            Event::Resubscribed { .. }
        ));
        redis.ask("PUBLISH a 1");
        assert_eq!(&message(&mut pubsub).await.payload[..], b"1");
    });
}

#[test]
fn slow_consumer_gets_the_number_of_missed_messages() {
    const MESSAGES: u64 = 1000;
    let redis = Redis::start();
    let client = redis.builder().max_queue_bytes(20_000).build();
    runtime().block_on(async {
        let publisher = redis.client().multiplexed().await.unwrap();
        let mut pubsub = client.pubsub().await.unwrap();
        pubsub.subscribe("numbers").await.unwrap();
        for number in 0..MESSAGES {
            publisher.run(publish("numbers", number)).await.unwrap();
        }
        let (mut received, mut lagged) = (0, 0);
        while received + lagged < MESSAGES {
            match next(&mut pubsub).await {
                Event::Message(_) => received += 1,
                Event::Lagged { messages } => lagged += messages,
                other => panic!("{other:?}"),
            }
        }
        assert!(pubsub.try_next().is_none());
        println!("{received} received and {lagged} dropped of {MESSAGES}");
        assert_eq!(received + lagged, MESSAGES);
        assert!(lagged > 0 && received > 50);
    });
}

#[test]
fn dropped_wait_loses_nothing() {
    const MESSAGES: u64 = 2000;
    let redis = Redis::start();
    runtime().block_on(async {
        let publisher = redis.client().multiplexed().await.unwrap();
        let mut pubsub = redis.client().pubsub().await.unwrap();
        pubsub.subscribe("numbers").await.unwrap();
        let publishing = tokio::spawn(async move {
            for number in 0..MESSAGES {
                publisher.run(publish("numbers", number)).await.unwrap();
            }
        });
        let mut numbers = BTreeSet::new();
        while (numbers.len() as u64) < MESSAGES {
            tokio::task::yield_now().await;
            // Each wait is given up as soon as it has begun.
            if let Ok(Some(Event::Message(message))) = timeout(Duration::ZERO, pubsub.next()).await
            {
                assert!(numbers.insert(message.payload), "a message came twice");
            }
        }
        publishing.await.unwrap();
    });
}

#[test]
fn connection_ends_with_its_handle() {
    let redis = Redis::start();
    runtime().block_on(async {
        let pubsub = redis.client().pubsub().await.unwrap();
        pubsub.subscribe("a").await.unwrap();
        drop(pubsub);
        let begun = Instant::now();
        while !redis.ask("PUBLISH a 1").starts_with(":0") {
            assert!(begun.elapsed() < LIMIT);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn thread_of_its_own_gets_the_same() {
    let mut redis = Redis::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let builder = redis.builder().protocol(Some(protocol));
        let client = builder.keepalive(Some(Duration::from_millis(100))).build();
        let mut pubsub = client.blocking_pubsub().unwrap();
        pubsub.subscribe(["news", "prices"]).unwrap();
        pubsub.psubscribe("n*").unwrap();
        pubsub.ssubscribe("shard").unwrap();
        assert!(
            pubsub.next(Duration::from_millis(300)).is_none(),
            "a quiet server is kept"
        );
        redis.ask("PUBLISH news one");
        redis.ask("SPUBLISH shard two");
        let kinds = [Kind::Channel, Kind::Pattern, Kind::Shard];
        for (kind, payload) in kinds.iter().zip(["one", "one", "two"]) {
            match pubsub.next(LIMIT) {
                Some(Event::Message(message)) => {
                    assert_eq!(
                        (message.kind, &message.payload[..]),
                        (*kind, payload.as_bytes())
                    );
                }
                other => panic!("{other:?}"),
            }
        }
        redis.ask("CLIENT KILL TYPE pubsub");
        let event = pubsub.next(LIMIT);
        assert!(
            matches!(event, Some(Event::Resubscribed { .. })),
            "{event:?}"
        );
        redis.kill();
        let begun = Instant::now();
        while pubsub.outage().is_none() {
            assert!(begun.elapsed() < LIMIT, "the loss was not noticed");
            assert!(pubsub.next(Duration::from_millis(50)).is_none());
        }
        redis.restart();
        let event = pubsub.next(LIMIT);
        assert!(
            matches!(event, Some(Event::Resubscribed { .. })),
            "{event:?}"
        );
        pubsub.punsubscribe("n*").unwrap();
        pubsub.sunsubscribe("shard").unwrap();
        pubsub.unsubscribe(["news", "prices"]).unwrap();
        assert!(redis.ask("PUBLISH news three").starts_with(":0"));
        assert!(pubsub.next(Duration::ZERO).is_none());
    }
    redis.kill();
    let error = redis.client().blocking_pubsub().unwrap_err();
    assert!(matches!(error, Error::Connection { .. }), "{error}");
}

#[test]
fn thread_of_its_own_notices_a_frozen_server() {
    let redis = Redis::start();
    let client = redis
        .builder()
        .keepalive(Some(Duration::from_millis(100)))
        .response_timeout(Some(Duration::from_secs(1)))
        .build();
    let mut pubsub = client.blocking_pubsub().unwrap();
    pubsub.subscribe("a").unwrap();
    redis.signal(Signal::STOP);
    let begun = Instant::now();
    while pubsub.outage().is_none() {
        assert!(begun.elapsed() < LIMIT, "the loss was not noticed");
        assert!(pubsub.next(Duration::from_millis(100)).is_none());
    }
    let error = pubsub.subscribe("b").unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    redis.signal(Signal::CONT);
    let event = pubsub.next(LIMIT);
    assert!(
        matches!(event, Some(Event::Resubscribed { .. })),
        "{event:?}"
    );
    redis.ask("PUBLISH b 1");
    assert!(
        pubsub.next(Duration::from_millis(50)).is_none(),
        "b was given up"
    );
}

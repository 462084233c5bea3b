//! Readers of streams on a server that kills their connections, dies, freezes and trims.

use std::time::{Duration, Instant};

use loadline_client::commands::{xadd, xtrim};
use loadline_client::streams::{Entry, Event, GroupReader, Start, StreamId, StreamReader};
use loadline_client::{Client, Password, Protocol, blocking, cmd};
use rustix::process::Signal;
use tokio::time::timeout;

use crate::groups::group_entry;
use crate::server::{Redis, runtime};

/// Longer than anything takes that works.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A server whose user `reader` has its connections killed without those of others.
pub(crate) fn server(extra: &[&str]) -> Redis {
    let user = ["--user", "reader", "on", "nopass", "~*", "&*", "+@all"];
    Redis::start_with(&[&user, extra].concat())
}

pub(crate) fn reading(redis: &Redis) -> Client {
    redis
        .builder()
        .login("reader", Password::new("any"))
        .build()
}

pub(crate) fn add(writer: &mut blocking::Connection, numbers: std::ops::Range<u64>) {
    for number in numbers {
        writer.run(xadd("s", ("n", number))).unwrap();
    }
}

/// Kills the connection of the reader as soon as there is one; how many connections that were.
pub(crate) fn kill_reader(writer: &mut blocking::Connection) -> u64 {
    let begun = Instant::now();
    loop {
        let kill = cmd("CLIENT").arg(("KILL", "USER", "reader"));
        let killed = writer.run(kill).unwrap();
        if killed > 0 {
            return killed;
        }
        assert!(begun.elapsed() < LIMIT, "the reader does not come back");
        std::thread::sleep(Duration::from_micros(200));
    }
}

pub(crate) fn number(entry: &Entry) -> u64 {
    let text = entry.get("n").expect("every entry has its number");
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

async fn next(reader: &mut StreamReader) -> Event {
    let event = timeout(LIMIT, reader.next()).await;
    event.expect("an event comes in time").unwrap()
}

/// The numbers of the next entries.
async fn numbers(reader: &mut StreamReader, count: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    for _ in 0..count {
        match next(reader).await {
            Event::Entry(entry) => numbers.push(number(&entry)),
            other => panic!("after {numbers:?}: {other:?}"),
        }
    }
    numbers
}

pub(crate) fn expected(numbers: std::ops::Range<u64>) -> Vec<u64> {
    numbers.collect()
}

#[test]
fn stream_reader_begins_at_the_requested_entry() {
    let redis = Redis::start();
    let mut writer = redis.client().blocking().unwrap();
    runtime().block_on(async {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            writer.run(loadline_client::commands::del("s")).unwrap();
            let client = redis.builder().protocol(Some(protocol)).build();
            let mut empty = StreamReader::open(&client, "s", Start::Latest)
                .await
                .unwrap();
            add(&mut writer, 0..250);
            let mut oldest = StreamReader::open(&client, "s", Start::Oldest)
                .await
                .unwrap();
            let mut latest = StreamReader::open(&client, "s", Start::Latest)
                .await
                .unwrap();
            assert_eq!(numbers(&mut oldest, 200).await, expected(0..200));
            let after = Start::After(oldest.last_id());
            let mut resumed = StreamReader::open(&client, "s", after).await.unwrap();
            assert_eq!(numbers(&mut empty, 250).await, expected(0..250));
            add(&mut writer, 250..260);
            assert_eq!(numbers(&mut oldest, 60).await, expected(200..260));
            assert_eq!(numbers(&mut resumed, 60).await, expected(200..260));
            assert_eq!(numbers(&mut latest, 10).await, expected(250..260));
        }
    });
}

#[test]
fn fifty_kills_cost_a_reader_nothing_and_give_it_nothing_twice() {
    const KILLS: u64 = 50;
    const BETWEEN: u64 = 40;
    let redis = server(&[]);
    let address = redis.url();
    let writing = std::thread::spawn(move || {
        let mut writer = Client::open(&address).unwrap().blocking().unwrap();
        let mut killed = 0;
        for kill in 0..KILLS {
            add(&mut writer, kill * BETWEEN..(kill + 1) * BETWEEN);
            killed += kill_reader(&mut writer);
            // So that some kills meet a reader that waits, and some one that reads.
            std::thread::sleep(Duration::from_millis(kill % 5));
        }
        killed
    });
    let runtime = runtime();
    let reader = runtime.block_on(async {
        let client = reading(&redis);
        let mut reader = StreamReader::open(&client, "s", Start::Oldest)
            .await
            .unwrap();
        let read = numbers(&mut reader, KILLS * BETWEEN).await;
        assert_eq!(read, expected(0..KILLS * BETWEEN));
        reader
    });
    let killed = writing.join().unwrap();
    // The last kill needs a connection, and may come after the last entry was read.
    drop(reader);
    println!("{killed} connections were killed");
    assert!(killed >= KILLS, "only {killed} connections were killed");
}

#[test]
fn reader_of_the_latest_misses_nothing_before_its_first_entry() {
    let redis = server(&[]);
    let mut writer = redis.client().blocking().unwrap();
    add(&mut writer, 0..3);
    runtime().block_on(async {
        let client = reading(&redis);
        let mut reader = StreamReader::open(&client, "s", Start::Latest)
            .await
            .unwrap();
        assert!(
            timeout(Duration::from_millis(50), reader.next())
                .await
                .is_err()
        );
        redis.ask("CLIENT KILL USER reader");
        // Written before the connection can be back, so that a `$` would come too late.
        add(&mut writer, 3..6);
        assert_eq!(numbers(&mut reader, 3).await, expected(3..6));
    });
}

#[test]
fn reader_goes_on_with_a_server_that_kept_the_stream() {
    let mut redis = server(&["--appendonly", "yes", "--appendfsync", "always"]);
    runtime().block_on(async {
        let client = reading(&redis);
        let mut reader = StreamReader::open(&client, "s", Start::Oldest)
            .await
            .unwrap();
        for round in 0..3 {
            let mut writer = redis.client().blocking().unwrap();
            add(&mut writer, round * 20..round * 20 + 15);
            assert_eq!(
                numbers(&mut reader, 10).await,
                expected(round * 20..round * 20 + 10)
            );
            add(&mut writer, round * 20 + 15..(round + 1) * 20);
            redis.kill();
            redis.restart();
            let rest = expected(round * 20 + 10..(round + 1) * 20);
            assert_eq!(numbers(&mut reader, 10).await, rest);
        }
    });
}

#[test]
fn reader_says_that_the_server_lost_the_stream() {
    let mut redis = server(&[]);
    runtime().block_on(async {
        // A wait that is sent again to the new server lasts for the keepalive at most.
        let client = redis
            .builder()
            .keepalive(Some(Duration::from_millis(100)))
            .build();
        let mut reader = StreamReader::open(&client, "s", Start::Oldest)
            .await
            .unwrap();
        add(&mut redis.client().blocking().unwrap(), 0..10);
        assert_eq!(numbers(&mut reader, 10).await, expected(0..10));
        redis.kill();
        redis.restart();
        match next(&mut reader).await {
            Event::Rewound { after, latest } => {
                assert_eq!((after, latest), (reader.last_id(), StreamId::MIN));
            }
            other => panic!("{other:?}"),
        }
        add(&mut redis.client().blocking().unwrap(), 10..20);
        assert_eq!(numbers(&mut reader, 10).await, expected(10..20));
    });
}

#[test]
fn lasting_outage_is_reported_and_ends() {
    let redis = server(&[]);
    runtime().block_on(async {
        let client = redis
            .builder()
            .response_timeout(Some(Duration::from_secs(1)))
            .keepalive(Some(Duration::from_millis(200)))
            .connect_timeout(Duration::from_secs(1))
            .build();
        let mut reader = StreamReader::open(&client, "s", Start::Oldest)
            .await
            .unwrap();
        add(&mut redis.client().blocking().unwrap(), 0..10);
        assert_eq!(numbers(&mut reader, 5).await, expected(0..5));
        redis.signal(Signal::STOP);
        assert_eq!(numbers(&mut reader, 5).await, expected(5..10));
        let error = timeout(LIMIT, reader.next()).await.unwrap().unwrap_err();
        println!("a frozen server: {error}");
        redis.signal(Signal::CONT);
        add(&mut redis.client().blocking().unwrap(), 10..20);
        assert_eq!(numbers(&mut reader, 10).await, expected(10..20));
    });
}

#[test]
fn entries_trimmed_before_reading_are_counted() {
    let redis = Redis::start();
    let mut writer = redis.client().blocking().unwrap();
    runtime().block_on(async {
        let client = redis.client();
        let mut reader = StreamReader::open(&client, "s", Start::Latest)
            .await
            .unwrap();
        add(&mut writer, 0..100);
        assert_eq!(numbers(&mut reader, 100).await, expected(0..100));
        let after = reader.last_id();
        // Entries that were read can be removed.
        writer.run(xtrim("s", 0)).unwrap();
        add(&mut writer, 100..200);
        writer.run(xtrim("s", 30)).unwrap();
        let entries = Some(70);
        assert_eq!(next(&mut reader).await, Event::Trimmed { after, entries });
        assert_eq!(numbers(&mut reader, 30).await, expected(170..200));
        let stale = StreamReader::open(&client, "s", Start::After(after)).await;
        let doubt = Event::Trimmed {
            after,
            entries: None,
        };
        assert_eq!(next(&mut stale.unwrap()).await, doubt);
    });
}

#[test]
fn wait_that_is_dropped_loses_nothing() {
    let redis = Redis::start();
    let mut writer = redis.client().blocking().unwrap();
    runtime().block_on(async {
        let client = redis.client();
        let mut reader = StreamReader::open(&client, "s", Start::Oldest)
            .await
            .unwrap();
        let mut group = GroupReader::create(&client, "s", "g", "c", Start::Oldest)
            .await
            .unwrap();
        let (mut read, mut grouped) = (Vec::new(), Vec::new());
        for round in 0..200u64 {
            add(&mut writer, round..round + 1);
            let patience = Duration::from_micros(50 * (round % 10));
            if let Ok(event) = timeout(patience, reader.next()).await
                && let Event::Entry(entry) = event.unwrap()
            {
                read.push(number(&entry));
            }
            if let Ok(event) = timeout(patience, group.next()).await
                && let Event::Entry(entry) = event.unwrap()
            {
                grouped.push(number(&entry));
            }
        }
        read.extend(numbers(&mut reader, 200 - read.len() as u64).await);
        while grouped.len() < 200 {
            grouped.push(number(&group_entry(&mut group).await));
        }
        assert_eq!(read, expected(0..200));
        grouped.sort_unstable();
        assert_eq!(grouped, expected(0..200));
    });
}

#[test]
fn blocking_reader_reads_each_entry_once_through_kills_and_reports_trims() {
    const ENTRIES: u64 = 2_000;
    let redis = Redis::start();
    let client = redis.client();
    let mut reader = blocking::StreamReader::open(&client, "s", Start::Oldest).unwrap();
    let nothing = reader.next(Duration::from_millis(20)).unwrap();
    assert!(nothing.is_none(), "{nothing:?}");
    let writing = std::thread::spawn(move || {
        let mut writer = client.blocking().unwrap();
        for number in 0..ENTRIES {
            writer.run(xadd("s", [("n", number)])).unwrap();
            if number % 100 == 50 {
                let kill = cmd::<u64>("CLIENT").arg(("KILL", "TYPE", "normal", "SKIPME", "yes"));
                writer.run(kill).unwrap();
            }
        }
    });
    for number in 0..ENTRIES {
        match reader.next(LIMIT).unwrap() {
            Some(Event::Entry(entry)) => {
                assert_eq!(entry.get("n").unwrap(), number.to_string().as_bytes());
                assert_eq!(reader.last_id(), entry.id);
            }
            other => panic!("{number} was due, and not {other:?}"),
        }
    }
    writing.join().unwrap();
    let mut writer = redis.client().blocking().unwrap();
    for number in 0..10 {
        writer.run(xadd("s", [("n", number)])).unwrap();
    }
    let after = reader.last_id();
    assert_eq!(writer.run(xtrim("s", 3)).unwrap(), ENTRIES + 7);
    let told = reader.next(LIMIT).unwrap();
    let trimmed = Event::Trimmed {
        after,
        entries: Some(7),
    };
    assert_eq!(told, Some(trimmed));
    for number in 7..10 {
        match reader.next(LIMIT).unwrap() {
            Some(Event::Entry(entry)) => {
                assert_eq!(entry.get("n").unwrap(), number.to_string().as_bytes());
            }
            other => panic!("{number} was due, and not {other:?}"),
        }
    }
}

//! Consumers of groups on a server that kills their connections and loses groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use loadline_client::commands::{xgroup_destroy, xlen};
use loadline_client::streams::{Entry, Event, GroupReader, Start, StreamId};
use loadline_client::{Client, Error, blocking};
use rustix::process::Signal;
use tokio::time::timeout;

use crate::server::{Redis, runtime};
use crate::streams::{LIMIT, add, expected, kill_reader, number, reading, server};

async fn group_event(reader: &mut GroupReader) -> Event {
    let event = timeout(LIMIT, reader.next()).await;
    event.expect("an event comes in time").unwrap()
}

pub(crate) async fn group_entry(reader: &mut GroupReader) -> Entry {
    match group_event(reader).await {
        Event::Entry(entry) => entry,
        other => panic!("{other:?}"),
    }
}

#[test]
fn kills_cost_a_consumer_of_a_group_nothing() {
    const KILLS: u64 = 50;
    const BETWEEN: u64 = 20;
    let redis = server(&[]);
    let url = redis.url();
    let client = reading(&redis);
    runtime().block_on(async {
        let mut reader = GroupReader::create(&client, "s", "g", "c", Start::Oldest)
            .await
            .unwrap();
        let writing = std::thread::spawn(move || {
            let mut writer = Client::open(&url).unwrap().blocking().unwrap();
            let mut killed = 0;
            for kill in 0..KILLS {
                add(&mut writer, kill * BETWEEN..(kill + 1) * BETWEEN);
                killed += kill_reader(&mut writer);
                std::thread::sleep(Duration::from_millis(kill % 5));
            }
            killed
        });
        let (mut read, mut ids) = (Vec::new(), Vec::new());
        while (read.len() as u64) < KILLS * BETWEEN {
            let entry = group_entry(&mut reader).await;
            read.push(number(&entry));
            ids.push(entry.id);
            if ids.len() == 7 {
                reader.ack(&ids).await.unwrap();
                ids.clear();
            }
        }
        reader.ack(&ids).await.unwrap();
        let killed = writing.join().unwrap();
        assert!(killed >= KILLS, "only {killed} connections were killed");
        read.sort_unstable();
        assert_eq!(
            read,
            expected(0..KILLS * BETWEEN),
            "each came, and came once"
        );
        assert_eq!(reader.unacknowledged(), 0);
        let pending = redis.ask("XPENDING s g");
        assert!(pending.starts_with("*4\r\n:0\r\n"), "{pending}");
    });
}

#[test]
fn next_reader_of_a_consumer_gets_what_was_not_acknowledged() {
    let redis = Redis::start();
    let mut writer = redis.client().blocking().unwrap();
    runtime().block_on(async {
        let client = redis.client();
        let mut first = GroupReader::create(&client, "s", "g", "c", Start::Oldest)
            .await
            .unwrap();
        add(&mut writer, 0..3);
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(group_entry(&mut first).await.id);
        }
        first.ack(&ids[..1]).await.unwrap();
        drop(first);
        redis.ask(&format!("XDEL s {}", ids[1]));
        add(&mut writer, 3..4);
        let mut second = GroupReader::open(&client, "s", "g", "c").await.unwrap();
        assert_eq!(group_event(&mut second).await, Event::Deleted(ids[1]));
        assert_eq!(number(&group_entry(&mut second).await), 2);
        assert_eq!(number(&group_entry(&mut second).await), 3);
    });
}

#[test]
fn group_that_is_lost_is_made_again_where_it_was() {
    let redis = Redis::start();
    let mut writer = redis.client().blocking().unwrap();
    runtime().block_on(async {
        let client = redis.client();
        let error = {
            let mut stranger = GroupReader::open(&client, "s", "none", "c").await.unwrap();
            timeout(LIMIT, stranger.next()).await.unwrap().unwrap_err()
        };
        assert!(error.is_server_code("NOGROUP"), "{error}");
        let mut reader = GroupReader::create(&client, "s", "g", "c", Start::Oldest)
            .await
            .unwrap();
        add(&mut writer, 0..5);
        let mut last = StreamId::MIN;
        for due in 0..5 {
            let entry = group_entry(&mut reader).await;
            assert_eq!(number(&entry), due);
            last = entry.id;
        }
        writer.run(xgroup_destroy("s", "g")).unwrap();
        add(&mut writer, 5..8);
        match group_event(&mut reader).await {
            Event::Rewound { after, .. } => assert_eq!(after, last),
            other => panic!("{other:?}"),
        }
        for due in 5..8 {
            assert_eq!(number(&group_entry(&mut reader).await), due);
        }
    });
}

/// The next event for one thread.
fn due(reader: &mut blocking::GroupReader) -> Event {
    let event = reader.next(LIMIT).unwrap();
    event.expect("an event comes in time")
}

fn due_entry(reader: &mut blocking::GroupReader) -> Entry {
    match due(reader) {
        Event::Entry(entry) => entry,
        other => panic!("{other:?}"),
    }
}

#[test]
fn fifty_kills_cost_a_consumer_of_one_thread_nothing() {
    const KILLS: u64 = 50;
    const BETWEEN: u64 = 20;
    let redis = server(&[]);
    let url = redis.url();
    let mut reader =
        blocking::GroupReader::create(&reading(&redis), "s", "g", "c", Start::Oldest).unwrap();
    let writing = std::thread::spawn(move || {
        let mut writer = Client::open(&url).unwrap().blocking().unwrap();
        let mut killed = 0;
        for kill in 0..KILLS {
            add(&mut writer, kill * BETWEEN..(kill + 1) * BETWEEN);
            killed += kill_reader(&mut writer);
            // So that some kills meet a reader that waits, and some one that reads or acknowledges.
            std::thread::sleep(Duration::from_millis(kill % 5));
        }
        killed
    });
    let (mut read, mut ids) = (Vec::new(), Vec::new());
    // It reads on until the last kill, since only a reader that is at work connects again.
    while (read.len() as u64) < KILLS * BETWEEN || !writing.is_finished() {
        match reader.next(Duration::from_millis(20)).unwrap() {
            Some(Event::Entry(entry)) => {
                read.push(number(&entry));
                ids.push(entry.id);
            }
            Some(other) => panic!("{other:?}"),
            None => {}
        }
        if ids.len() == 7 {
            reader.ack(&ids).unwrap();
            ids.clear();
        }
    }
    reader.ack(&ids).unwrap();
    let killed = writing.join().unwrap();
    println!("{killed} connections were killed");
    assert!(killed >= KILLS, "only {killed} connections were killed");
    read.sort_unstable();
    assert_eq!(read, expected(0..KILLS * BETWEEN), "each came, and once");
    assert_eq!(reader.unacknowledged(), 0);
    let pending = redis.ask("XPENDING s g");
    assert!(pending.starts_with("*4\r\n:0\r\n"), "{pending}");
}

#[test]
fn next_reader_of_one_thread_gets_what_was_not_acknowledged() {
    let redis = Redis::start();
    let client = redis.client();
    let mut writer = client.blocking().unwrap();
    let mut first = blocking::GroupReader::create(&client, "s", "g", "c", Start::Oldest).unwrap();
    assert_eq!(first.next(Duration::from_millis(5)).unwrap(), None);
    // More than are read at once, so that the next reader has to go on within them.
    add(&mut writer, 0..230);
    let ids = Vec::from_iter((0..230).map(|_| due_entry(&mut first).id));
    assert_eq!(first.unacknowledged(), 230);
    first.ack(&ids[..20]).unwrap();
    first.ack(&[]).unwrap();
    assert_eq!(first.unacknowledged(), 210);
    drop(first);
    redis.ask(&format!("XDEL s {}", ids[20]));
    add(&mut writer, 230..232);
    let mut second = blocking::GroupReader::open(&client, "s", "g", "c").unwrap();
    assert_eq!(due(&mut second), Event::Deleted(ids[20]));
    let read = Vec::from_iter((21..232).map(|_| number(&due_entry(&mut second))));
    assert_eq!(read, expected(21..232));
    assert_eq!(second.next(Duration::from_millis(5)).unwrap(), None);
    assert_eq!(second.unacknowledged(), 212);
    second.ack(&ids[20..21]).unwrap();
    assert_eq!(second.unacknowledged(), 211);
}

#[test]
fn two_consumers_of_one_thread_each_share_the_entries() {
    let redis = Redis::start();
    let client = redis.client();
    let consumer = |name: &str| {
        blocking::GroupReader::create(&client, "s", "g", name.to_owned(), Start::Oldest).unwrap()
    };
    let readers = [consumer("ann"), consumer("bob")];
    let (count, entries) = (Arc::new(AtomicU64::new(0)), 1_000);
    let working = readers.map(|mut reader| {
        let count = Arc::clone(&count);
        std::thread::spawn(move || {
            let (mut read, begun) = (Vec::new(), Instant::now());
            while count.load(Ordering::Relaxed) < entries {
                assert!(begun.elapsed() < LIMIT, "an entry went to neither");
                let Some(event) = reader.next(Duration::from_millis(100)).unwrap() else {
                    continue;
                };
                let Event::Entry(entry) = event else {
                    panic!("{event:?}")
                };
                reader.ack(&[entry.id]).unwrap();
                read.push(number(&entry));
                count.fetch_add(1, Ordering::Relaxed);
                // The other one has its turn too.
                std::thread::sleep(Duration::from_micros(100));
            }
            read
        })
    });
    add(&mut client.blocking().unwrap(), 0..entries);
    let shares = working.map(|thread| thread.join().unwrap());
    println!("shares of {} and {}", shares[0].len(), shares[1].len());
    let mut all = shares.concat();
    all.sort_unstable();
    assert_eq!(all, expected(0..entries), "no entry went to both");
}

#[test]
fn lost_group_and_frozen_server_are_reported_to_a_blocking_reader() {
    let redis = Redis::start();
    let quick = Duration::from_secs(1);
    let client = redis
        .builder()
        .response_timeout(Some(quick))
        .keepalive(Some(quick))
        .connect_timeout(quick)
        .build();
    let mut writer = redis.client().blocking().unwrap();
    let mut stranger = blocking::GroupReader::open(&client, "s", "none", "c").unwrap();
    let error = stranger.next(LIMIT).unwrap_err();
    assert!(error.is_server_code("NOGROUP"), "{error}");
    let mut reader = blocking::GroupReader::create(&client, "s", "g", "c", Start::Oldest).unwrap();
    add(&mut writer, 0..5);
    let last = (0..5).map(|_| due_entry(&mut reader).id).last();
    writer.run(xgroup_destroy("s", "g")).unwrap();
    add(&mut writer, 5..8);
    match due(&mut reader) {
        Event::Rewound { after, .. } => assert_eq!(Some(after), last),
        other => panic!("{other:?}"),
    }
    let read = Vec::from_iter((5..8).map(|_| number(&due_entry(&mut reader))));
    assert_eq!(read, expected(5..8));
    redis.signal(Signal::STOP);
    let frozen = Instant::now();
    let error = reader.next(LIMIT).unwrap_err();
    println!("a frozen server, after {:?}: {error}", frozen.elapsed());
    assert!(
        matches!(error, Error::Timeout { .. } | Error::Connection { .. }),
        "{error}"
    );
    redis.signal(Signal::CONT);
    add(&mut writer, 8..10);
    let read = Vec::from_iter((8..10).map(|_| number(&due_entry(&mut reader))));
    assert_eq!(read, expected(8..10));
    assert_eq!(writer.run(xlen("s")).unwrap(), 10);
}

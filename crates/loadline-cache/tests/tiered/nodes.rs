//! Several processes over one server, which reports changes to each of them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use loadline_cache::codec::{Codec, CodecError, Raw};
use loadline_cache::{AsyncCache, Cache, Error, Tier, WriteMode};
use loadline_client::tracking::Invalidation;
use loadline_client::{Client, cmd};

use super::redis::Redis;
use super::{MS, wait_until};

/// Longer than anything takes that works.
const LIMIT: Duration = Duration::from_secs(60);

type Pages = Cache<u32, Vec<u8>>;

fn tier(redis: &Redis) -> Tier {
    Tier::open(&redis.url()).prefix("p:").timeout(5_000 * MS)
}

fn build(tier: Tier) -> Result<Pages, Error> {
    Pages::builder()
        .tier(tier, Raw)
        .build(|_| Ok::<_, io::Error>(Some(b"0".to_vec())))
}

/// A cache that receives notices.
fn tracked(redis: &Redis) -> Pages {
    let pages = build(tier(redis).tracked()).unwrap();
    wait_until("changes are not reported", || {
        pages.stats().tier.unwrap().is_tracking
    });
    pages
}

fn seen(pages: &Pages, key: u32) -> u64 {
    let value = pages.get(&key).unwrap().unwrap();
    std::str::from_utf8(&value).unwrap().parse().unwrap()
}

#[test]
fn change_by_another_process_is_seen_at_once() {
    let redis = Redis::start();
    let (first, second, untracked) = (
        tracked(&redis),
        tracked(&redis),
        build(tier(&redis)).unwrap(),
    );
    for pages in [&first, &second, &untracked] {
        assert_eq!(seen(pages, 1), 0);
    }
    first.insert(&1, b"1".to_vec());
    wait_until("the older value stays", || seen(&second, 1) == 1);
    wait_until("the notice is not timed", || {
        first.stats().tier.unwrap().notices.count > 0
    });
    // Without the notices, it stays until its time to live ends.
    assert_eq!(seen(&untracked, 1), 0);
    assert_eq!(seen(&first, 1), 1);
    first.invalidate(&1);
    wait_until("the older value stays", || seen(&second, 1) == 0);
    redis.run(&["SET", "p:no number", "of another application"]);
    // An empty database: nothing in memory is believed.
    let before = second.stats().tier.unwrap().gaps;
    redis.run(&["FLUSHALL"]);
    wait_until("the end of all keys is not reported", || {
        second.stats().tier.unwrap().gaps > before
    });
}

#[test]
fn tasks_receive_notices_too() {
    let redis = Redis::start();
    let first = tracked(&redis);
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let pages = AsyncCache::<u32, Vec<u8>>::builder().tier(tier(&redis).tracked(), Raw);
        let load = |_| async { Ok::<_, io::Error>(Some(b"0".to_vec())) };
        let pages = pages.build_async(load).await.unwrap();
        let until = Instant::now() + LIMIT;
        while !pages.stats().tier.unwrap().is_tracking {
            assert!(Instant::now() < until, "changes are not reported");
            tokio::time::sleep(MS).await;
        }
        assert_eq!(*pages.get(&1).await.unwrap().unwrap(), b"0");
        first.insert(&1, b"1".to_vec());
        while *pages.get(&1).await.unwrap().unwrap() != b"1" {
            assert!(Instant::now() < until, "the older value stays");
            tokio::time::sleep(MS).await;
        }
    });
}

/// Ends the connections that bring notices to two caches, as soon as both have one.
fn kill_tracking(client: &mut loadline_client::blocking::Connection) {
    let until = Instant::now() + Duration::from_secs(60);
    let numbers = loop {
        let clients: String = client.run(cmd("CLIENT").arg("LIST")).unwrap();
        let numbers: Vec<String> = clients.lines().filter_map(tracking).collect();
        if numbers.len() == 2 {
            break numbers;
        }
        assert!(Instant::now() < until, "a cache does not come back");
        std::thread::sleep(MS);
    };
    for number in numbers {
        let kill = cmd::<u64>("CLIENT").arg(("KILL", "ID", number));
        assert_eq!(client.run(kill).unwrap(), 1);
    }
}

/// The number of a connection that brings notices, by its line in the list of clients.
fn tracking(line: &str) -> Option<String> {
    let field = |name: &str| {
        let mut fields = line.split(' ');
        fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    };
    field("flags")?
        .contains('B')
        .then(|| field("id").map(Into::into))?
}

/// One process writes, another one reads all the time, and the connections for the notices are killed again and again.
#[test]
fn no_change_is_lost_while_connections_are_killed() {
    const KEYS: u32 = 20;
    const WRITES: u64 = 2_000;
    let redis = Redis::start();
    let (writer, reader) = (tracked(&redis), tracked(&redis));
    let before = reader.stats().tier.unwrap().gaps;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                for key in 0..KEYS {
                    seen(&reader, key);
                }
            }
        });
        let mut connection = Client::open(&redis.url()).unwrap().blocking().unwrap();
        for number in 1..=WRITES {
            writer.insert(&(number as u32 % KEYS), number.to_string().into_bytes());
            if number % 100 == 50 {
                kill_tracking(&mut connection);
            }
        }
        is_over.store(true, Ordering::SeqCst);
    });
    for key in 0..KEYS {
        let newest = (1..=WRITES)
            .rev()
            .find(|number| *number as u32 % KEYS == key);
        wait_until("an older value stays", || {
            seen(&reader, key) == newest.unwrap()
        });
    }
    let stats = reader.stats().tier.unwrap();
    println!(
        "{WRITES} writes: {} notices, {} gaps",
        stats.changed,
        stats.gaps - before
    );
    assert!(stats.gaps - before >= 5, "{stats:?}");
}

/// Sends the moments at which a connection of the client brings notices.
fn listen(client: &Client, moments: &Sender<Instant>, is_over: &AtomicBool) {
    let mut tracking = client.blocking_tracking("p:").unwrap();
    moments.send(Instant::now()).unwrap();
    while !is_over.load(Ordering::SeqCst) {
        if let Some(Invalidation::Key(_)) = tracking.next(100 * MS) {
            moments.send(Instant::now()).unwrap();
        }
    }
}

/// A value that sends the moment at which memory drops it.
struct Page(Sender<Instant>);

impl Drop for Page {
    fn drop(&mut self) {
        // The test may be over.
        let _ = self.0.send(Instant::now());
    }
}

/// Pages are loaded only.
struct NoBytes;

impl Codec<Page> for NoBytes {
    fn id(&self) -> u8 {
        64
    }

    fn encode(&self, _: &Page, _: &mut Vec<u8>) -> Result<(), CodecError> {
        Err("a page has no bytes".into())
    }

    fn decode(&self, _: &[u8]) -> Result<Page, CodecError> {
        Err("a page has no bytes".into())
    }
}

/// Both times are of the same writes. The bound is wide, since other work on the machine delays one or the other.
#[test]
fn notice_takes_the_cache_little_longer_than_the_client() {
    const WRITES: u32 = 1_000;
    let redis = Redis::start();
    let (drops, dropped) = channel();
    let tier = tier(&redis).mode(WriteMode::ReadOnly).tracked();
    let pages = Cache::<u32, Page>::builder_weighed(1 << 20, |_, _| 16).tier(tier, NoBytes);
    let load = move |_: &u32| Ok::<_, io::Error>(Some(Page(drops.clone())));
    let pages = pages.build(load).unwrap();
    wait_until("changes are not reported", || {
        pages.stats().tier.unwrap().is_tracking
    });
    let client = Client::open(&redis.url()).unwrap();
    let is_over = AtomicBool::new(false);
    let (mut own, mut raw) = (Vec::new(), Vec::new());
    let (moments, received) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| listen(&client, &moments, &is_over));
        received.recv().unwrap();
        let mut connection = client.blocking().unwrap();
        for number in 0..WRITES {
            pages.get(&number).unwrap();
            let begun = Instant::now();
            let set = cmd::<()>("SET").arg((format!("p:{number}"), "value"));
            connection.run(set).unwrap();
            own.push(dropped.recv_timeout(LIMIT).unwrap() - begun);
            raw.push(received.recv_timeout(LIMIT).unwrap() - begun);
        }
        is_over.store(true, Ordering::SeqCst);
    });
    own.sort();
    raw.sort();
    let at = |times: &[Duration], percent: usize| times[times.len() * percent / 100];
    println!(
        "p50 {:?} with the cache, {:?} without; p99 {:?} and {:?}",
        at(&own, 50),
        at(&raw, 50),
        at(&own, 99),
        at(&raw, 99)
    );
    assert!(at(&own, 50) < at(&raw, 50) * 3 + MS);
}

#[test]
fn tier_that_reports_nothing_cannot_be_tracked() {
    let refused = |tier: Tier| build(tier.tracked()).err().unwrap();
    assert!(matches!(refused(Tier::open("ram")), Error::Settings(_)));
    let tier = Tier::open("redis://127.0.0.1:1").tracked();
    let builder = Cache::<&'static str, Vec<u8>>::builder().tier(tier, Raw);
    let built = builder.build(|_| Ok::<_, io::Error>(None));
    assert!(matches!(built.err().unwrap(), Error::Settings(_)));
}

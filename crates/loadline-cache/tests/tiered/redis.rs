//! A Redis server below memory, in every bad state.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use loadline_cache::codec::Raw;
use loadline_cache::{AsyncCache, Cache, Found, Tier, open};
use loadline_client::{Client, cmd};

use super::port::Port;
use super::{Count, MS, wait_until};

/// Longer than anything takes that works, on a machine that pauses as well.
const LIMIT: Duration = Duration::from_secs(60);
/// The limit of a request to a server that is frozen or gone. Without the breaker, calls would take the timeout each.
const TIMEOUT: Duration = Duration::from_millis(500);

pub(super) struct Redis {
    process: Child,
    port: Arc<Port>,
}

impl Redis {
    pub(super) fn start() -> Self {
        Self::start_at(Arc::new(Port::reserve()))
    }

    fn start_at(port: Arc<Port>) -> Self {
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--save", ""])
            .args(["--dir", "/tmp", "--dbfilename", "never-written.rdb"])
            .stdout(Stdio::null())
            .spawn()
            .expect("this test needs redis-server; `cargo xtask test --install` installs it");
        wait_until("redis-server does not come up", || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port.number())).is_ok()
        });
        Self { process, port }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(super) fn run(&self, words: &[&str]) {
        let mut connection = Client::open(&self.url()).unwrap().blocking().unwrap();
        let command = words[1..].iter().fold(
            cmd::<loadline_client::OwnedReply>(words[0]),
            |command, word| command.arg(*word),
        );
        connection.run(command).unwrap();
    }

    /// Number of executions of each command.
    pub(super) fn command_stats(&self) -> HashMap<String, u64> {
        let mut connection = Client::open(&self.url()).unwrap().blocking().unwrap();
        let info: String = connection.run(cmd("INFO").arg("commandstats")).unwrap();
        let stats = info.lines().filter_map(|line| {
            let (name, stats) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((name.to_owned(), stats.split_once(',')?.0.parse().ok()?))
        });
        stats.collect()
    }

    pub(super) fn signal(&self, signal: &str) {
        let status = Command::new("kill")
            .args([signal, &self.process.id().to_string()])
            .status();
        assert!(status.unwrap().success());
    }

    pub(super) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

type Pages = Cache<u32, Vec<u8>>;

fn tier(redis: &Redis) -> Tier {
    let tier = Tier::open(&redis.url()).prefix("p:").timeout(LIMIT);
    tier.breaker(2, 10 * MS, 20 * MS)
}

fn pages(redis: &Redis, loads: &Count) -> Pages {
    numbered(tier(redis), loads)
}

/// A cache whose values are the numbers of their loads.
fn numbered(tier: Tier, loads: &Count) -> Pages {
    let loads = loads.clone();
    Pages::builder()
        .tier(tier, Raw)
        .build(move |_| Ok::<_, io::Error>(Some(loads.add().to_string().into_bytes())))
        .unwrap()
}

fn found(pages: &Pages, key: u32) -> Vec<Found> {
    let (value, way) = pages.explain(&key);
    assert!(value.unwrap().is_some());
    way.steps.iter().map(|step| step.found).collect()
}

/// Waits until the tier answers again.
fn recovers(pages: &Pages, first_key: u32) {
    let mut key = first_key;
    wait_until("the tier does not recover", || {
        key += 1;
        pages.get(&key).unwrap();
        !pages.stats().tier.unwrap().is_open && found(pages, key + 1_000_000)[1] == Found::NotInTier
    });
}

#[test]
fn killed_server_costs_no_error_and_is_found_again() {
    let (mut redis, loads) = (Redis::start(), Count::default());
    assert_eq!(
        found(&pages(&redis, &loads), 1)[1..],
        [Found::NotInTier, Found::Loaded, Found::Written]
    );
    let pages = numbered(tier(&redis).timeout(TIMEOUT), &loads);
    redis.kill();
    (2..100).for_each(|key| drop(found(&pages, key)));
    pages.invalidate(&1);
    let stats = pages.stats().tier.unwrap();
    assert!(stats.opened >= 1 && stats.backlog == 1, "{stats:?}");
    let _redis = Redis::start_at(Arc::clone(&redis.port));
    recovers(&pages, 1_000);
    wait_until("the backlog stays", || {
        pages.stats().tier.unwrap().backlog == 0
    });
}

#[test]
fn server_that_is_back_is_found_by_the_next_probe() {
    let (mut redis, loads) = (Redis::start(), Count::default());
    let tier = Tier::open(&redis.url()).prefix("p:").timeout(TIMEOUT);
    let pages = numbered(tier, &loads);
    redis.kill();
    let opened = || pages.stats().tier.unwrap().opened;
    let mut key = 0;
    let mut wait = |what: &str, condition: &dyn Fn(&[Found]) -> bool| {
        wait_until(what, || {
            key += 1;
            condition(&found(&pages, key))
        });
    };
    // The pauses have grown.
    wait("the breaker does not open", &|_| opened() >= 4);
    let _redis = Redis::start_at(Arc::clone(&redis.port));
    let before = opened();
    wait("the tier does not recover", &|found| {
        found[1] == Found::NotInTier
    });
    assert!(opened() <= before + 1);
}

#[test]
fn server_that_is_not_there_yet_is_found_later() {
    let (mut redis, loads) = (Redis::start(), Count::default());
    redis.kill();
    let (said, errors) = channel();
    let tier = tier(&redis).timeout(TIMEOUT);
    let tier = tier.on_error(move |error| said.send(error.to_string()).unwrap());
    let pages = numbered(tier, &loads);
    assert!(pages.get(&1).unwrap().is_some());
    let error = errors.try_recv().unwrap();
    assert!(error.contains("refused"), "{error}");
    let _redis = Redis::start_at(Arc::clone(&redis.port));
    recovers(&pages, 1_000);
}

#[test]
fn frozen_server_delays_the_first_calls_only() {
    let (redis, loads) = (Redis::start(), Count::default());
    found(&pages(&redis, &loads), 1);
    let pages = numbered(tier(&redis).timeout(TIMEOUT), &loads);
    redis.signal("-STOP");
    let start = Instant::now();
    (2..1_000).for_each(|key| drop(found(&pages, key)));
    let elapsed = start.elapsed();
    let stats = pages.stats().tier.unwrap();
    // Every request that was tried took at most the timeout to connect and the timeout for a reply.
    let tried = stats.get_errors + stats.put_errors;
    assert!(tried < 100, "{stats:?}");
    assert!(
        elapsed < TIMEOUT * 2 * tried as u32 + Duration::from_secs(5),
        "{elapsed:?}, {stats:?}"
    );
    pages.invalidate(&1);
    redis.signal("-CONT");
    recovers(&pages, 10_000);
    wait_until("the backlog stays", || {
        pages.stats().tier.unwrap().backlog == 0
    });
    let second = self::pages(&redis, &loads);
    assert_eq!(found(&second, 1)[1], Found::NotInTier);
}

#[test]
fn server_that_is_full_or_read_only_is_still_read() {
    for (setting, bad, good) in [("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")] {
        let (redis, loads) = (Redis::start(), Count::default());
        let pages = pages(&redis, &loads);
        found(&pages, 1);
        redis.run(&["CONFIG", "SET", setting, bad]);
        assert_eq!(
            found(&pages, 2)[1..],
            [Found::NotInTier, Found::Loaded, Found::NotWritten],
            "{setting}"
        );
        let second = self::pages(&redis, &loads);
        assert_eq!(found(&second, 1)[1..], [Found::InTier], "{setting}");
        redis.run(&["CONFIG", "SET", setting, good]);
        assert_eq!(
            found(&second, 2)[1..],
            [Found::NotInTier, Found::Loaded, Found::Written]
        );
    }
}

#[test]
fn server_that_refuses_writes_keeps_its_reads() {
    for (refusal, repair) in [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        (
            "CONFIG SET min-replicas-to-write 1",
            "CONFIG SET min-replicas-to-write 0",
        ),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
    ] {
        let run = |redis: &Redis, words: &str| {
            redis.run(&words.split(' ').collect::<Vec<_>>());
        };
        let (redis, loads) = (Redis::start(), Count::default());
        let evens: Vec<u32> = (0..100).step_by(2).collect();
        pages(&redis, &loads).get_many(&evens);
        run(&redis, refusal);
        let count = loads.clone();
        let pages = Pages::builder()
            // Memory keeps nothing.
            .memory(1, |_, _| 1)
            .tier(tier(&redis), Raw)
            .build(move |_| Ok::<_, io::Error>(Some(count.add().to_string().into_bytes())))
            .unwrap();
        let before = loads.get();
        for _ in 0..3 {
            (200..203).for_each(|key| pages.insert(&key, b"new".to_vec()));
            (0..100).for_each(|key| drop(pages.get(&key).unwrap()));
        }
        let stats = pages.stats().tier.unwrap();
        let found = (
            stats.hits,
            loads.get() - before,
            stats.not_asked,
            stats.get_errors,
        );
        assert_eq!(found, (150, 150, 0, 0), "{refusal}: {stats:?}");
        run(&redis, repair);
        let mut key = 1_000;
        wait_until("writes do not come back", || {
            key += 1;
            self::found(&pages, key).last() == Some(&Found::Written)
        });
    }
}

#[test]
fn garbage_other_types_and_evicted_keys_are_loaded_again() {
    let (redis, loads) = (Redis::start(), Count::default());
    found(&pages(&redis, &loads), 1);
    redis.run(&["SET", "p:1", "garbage"]);
    assert_eq!(
        found(&pages(&redis, &loads), 1)[1..],
        [Found::Damaged, Found::Loaded, Found::Written]
    );
    assert_eq!(found(&pages(&redis, &loads), 1)[1..], [Found::InTier]);
    redis.run(&["FLUSHALL"]);
    assert_eq!(found(&pages(&redis, &loads), 1)[1], Found::NotInTier);
    redis.run(&["DEL", "p:1"]);
    redis.run(&["LPUSH", "p:1", "element"]);
    // GET is refused, and SET replaces the list.
    assert_eq!(
        found(&pages(&redis, &loads), 1)[1..],
        [Found::TierFailed, Found::Loaded, Found::Written]
    );
    assert_eq!(found(&pages(&redis, &loads), 1)[1..], [Found::InTier]);
}

#[test]
fn exclusive_tier_takes_no_leases() {
    let (redis, loads) = (Redis::start(), Count::default());
    let commands = |tier: Tier| {
        redis.run(&["CONFIG", "RESETSTAT"]);
        let found = found(&numbered(tier, &loads), 1);
        let mut stats = redis.command_stats();
        for name in ["config|resetstat", "info", "hello"] {
            stats.remove(name);
        }
        let mut commands: Vec<_> = stats.into_keys().collect();
        commands.sort();
        (found.last().copied(), commands.join(" "))
    };
    let alone = commands(tier(&redis).exclusive());
    assert_eq!(alone, (Some(Found::Written), "get set".into()));
    let (last, shared) = commands(tier(&redis).prefix("shared:"));
    assert_eq!(last, Some(Found::Written));
    assert!(shared.contains("evalsha"), "{shared}");
}

#[test]
fn many_keys_go_together() {
    let (redis, loads) = (Redis::start(), Count::default());
    let keys: Vec<u32> = (0..500).collect();
    let first = pages(&redis, &loads);
    assert!(first.get_many(&keys).iter().all(Result::is_ok));
    let second = pages(&redis, &loads);
    assert!(second.get_many(&keys).iter().all(Result::is_ok));
    let stats = second.stats().tier.unwrap();
    assert_eq!((loads.get(), stats.hits, stats.gets.count), (500, 500, 1));
}

#[test]
fn tasks_do_not_wait_for_a_frozen_server_either() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (redis, loads) = (Redis::start(), Count::default());
        let count = loads.clone();
        let load = move |_: u32| {
            let number = count.add();
            async move { Ok::<_, io::Error>(Some(number.to_string().into_bytes())) }
        };
        let build = |tier: Tier| {
            let builder = AsyncCache::<u32, Vec<u8>>::builder().tier(tier, Raw);
            builder.build_async(load.clone())
        };
        let patient = build(tier(&redis)).await.unwrap();
        let keys: Vec<u32> = (0..50).collect();
        assert!(patient.get_many(&keys).await.iter().all(Result::is_ok));
        assert_eq!(patient.stats().tier.unwrap().puts.count, 1);
        let pages = build(tier(&redis).timeout(TIMEOUT)).await.unwrap();
        redis.signal("-STOP");
        for key in 100..300 {
            assert!(pages.get(&key).await.unwrap().is_some());
        }
        pages.invalidate(&1).await;
        let stats = pages.stats().tier.unwrap();
        assert!(stats.opened >= 1 && stats.get_errors < 50, "{stats:?}");
        redis.signal("-CONT");
        let until = Instant::now() + Duration::from_secs(60);
        let mut key = 1_000;
        while pages.stats().tier.unwrap().backlog > 0 {
            assert!(Instant::now() < until, "the tier does not recover");
            pages.get(&key).await.unwrap();
            tokio::time::sleep(MS).await;
            key += 1;
        }
        let patient = build(tier(&redis)).await.unwrap();
        let (value, way) = patient.explain(&1).await;
        assert!(value.unwrap().is_some());
        assert_eq!(way.steps[1].found, Found::NotInTier);
    });
}

/// Small values come in one reply, large ones in a reply each; in both, what is no string is not there.
#[test]
fn values_are_shown_in_the_order_of_their_keys() {
    let redis = Redis::start();
    let store = open(&redis.url()).unwrap();
    redis.run(&["RPUSH", "list", "element"]);
    let large = vec![b'x'; 300_000];
    store.put(b"small", b"y").unwrap();
    store.put(b"large", &large).unwrap();
    let keys: [&[u8]; 5] = [b"large", b"list", b"absent", b"small", b"large"];
    let expected = store.get_many(&keys).unwrap();
    assert_eq!(expected[0].as_deref(), Some(&large[..]));
    assert_eq!(expected[1..3], [None, None]);
    for value_bytes in [10, 100_000] {
        let mut shown = Vec::new();
        let mut visit = |value: Option<&[u8]>| shown.push(value.map(<[u8]>::to_vec));
        store.visit_many(&keys, value_bytes, &mut visit).unwrap();
        assert!(shown == expected, "{value_bytes}");
        for key in &keys[2..] {
            let mut visit = |value: Option<&[u8]>| {
                assert_eq!(value, store.get(key).unwrap().as_deref());
            };
            store.visit_many(&[key], value_bytes, &mut visit).unwrap();
        }
        store
            .visit_many(&[], value_bytes, &mut |_| panic!())
            .unwrap();
        assert!(
            store
                .visit_many(&[b"list"], value_bytes, &mut |_| panic!())
                .is_err()
        );
    }
}

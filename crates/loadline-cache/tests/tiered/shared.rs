//! Loads that several processes share.

use std::io;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use loadline_cache::codec::Raw;
use loadline_cache::{AsyncCache, Cache, Found, Tier, WriteMode};
use loadline_client::{Client, cmd};

use super::redis::Redis;
use super::{Count, MS, wait_until};

/// Longer than anything takes that works.
const LONG: Duration = Duration::from_secs(60);
/// Caches, which stand for processes: they share nothing but the server.
const CACHES: usize = 4;
const CALLERS: u64 = 1_000;

type Pages = Cache<u32, Vec<u8>>;

fn tier(url: &str, lease: Duration) -> Tier {
    let tier = Tier::open(url).prefix("p:").timeout(LONG);
    tier.shared_loads(lease)
}

fn pages(
    url: &str,
    lease: Duration,
    load: impl Fn(&u32) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> Pages {
    let builder = Pages::builder().tier(tier(url, lease), Raw);
    builder
        .build(move |key| Ok::<_, io::Error>(load(key)))
        .unwrap()
}

/// The value of a key of the server.
fn value(redis: &Redis, key: &str) -> Option<String> {
    let mut connection = Client::open(&redis.url()).unwrap().blocking().unwrap();
    connection.run(cmd("GET").arg(key)).unwrap()
}

#[test]
fn stampede_over_several_caches_loads_once() {
    let (redis, loads) = (Redis::start(), Count::default());
    let own: Arc<OnceLock<Vec<Pages>>> = Arc::default();
    let all = (0..CACHES).map(|_| {
        let (seen, count) = (Arc::clone(&own), loads.clone());
        pages(&redis.url(), LONG, move |_| {
            count.add();
            let caches = seen.get().unwrap();
            wait_until("not all callers came", || {
                let stats = caches.iter().map(Cache::stats);
                let (waited, elsewhere) = stats.fold((0, 0), |(waited, elsewhere), stats| {
                    let tier = stats.tier.unwrap();
                    (waited + stats.waited, elsewhere + tier.lease_waits)
                });
                waited == CALLERS - CACHES as u64 && elsewhere == CACHES as u64 - 1
            });
            Some(b"page".to_vec())
        })
    });
    assert!(own.set(all.collect()).is_ok());
    let callers: Vec<_> = (0..CALLERS)
        .map(|number| {
            let pages = own.get().unwrap()[number as usize % CACHES].clone();
            let caller = std::thread::Builder::new().stack_size(256 << 10);
            let call = move || pages.get(&1).unwrap().unwrap().to_vec();
            caller.spawn(call).unwrap()
        })
        .collect();
    for caller in callers {
        assert_eq!(caller.join().unwrap(), b"page");
    }
    assert_eq!(loads.get(), 1);
    assert_eq!(value(&redis, "lease:{p:1}"), None);
    // Waiting says nothing about the tier.
    for pages in own.get().unwrap() {
        let tier = pages.stats().tier.unwrap();
        assert_eq!((tier.misses, tier.lease_timeouts), (1, 0));
    }
}

/// Between a miss and the lease, another process can have loaded the value and given the lease back.
#[test]
fn value_that_was_written_just_before_the_lease_is_not_loaded_again() {
    const KEYS: u32 = 300;
    let (redis, loads) = (Redis::start(), Count::default());
    std::thread::scope(|scope| {
        for first in 0..CACHES as u32 {
            let (url, count) = (redis.url(), loads.clone());
            scope.spawn(move || {
                let pages = pages(&url, LONG, move |_| {
                    count.add();
                    Some(b"page".to_vec())
                });
                for key in 0..KEYS {
                    assert!(pages.get(&key).unwrap().is_some());
                }
                // In different orders, and each waits for the others without holding what they need.
                let mut keys: Vec<u32> = (KEYS..2 * KEYS).collect();
                keys.rotate_left((first * KEYS) as usize / CACHES);
                assert!(pages.get_many(&keys).iter().all(Result::is_ok));
            });
        }
    });
    assert_eq!(loads.get(), u64::from(2 * KEYS));
}

#[test]
fn tasks_share_loads_too() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let (redis, loads) = (Redis::start(), Count::default());
        let mut callers = Vec::new();
        for _ in 0..CACHES {
            let count = loads.clone();
            let load = move |_: u32| {
                count.add();
                async {
                    tokio::time::sleep(20 * MS).await;
                    Ok::<_, io::Error>(Some(b"page".to_vec()))
                }
            };
            let pages = AsyncCache::<u32, Vec<u8>>::builder();
            let pages = pages
                .tier(tier(&redis.url(), LONG), Raw)
                .build_async(load)
                .await
                .unwrap();
            for _ in 0..CALLERS / CACHES as u64 {
                let pages = pages.clone();
                callers.push(tokio::spawn(async move {
                    pages.get(&1).await.unwrap().unwrap()
                }));
            }
        }
        for caller in callers {
            assert_eq!(*caller.await.unwrap(), b"page");
        }
        assert_eq!((loads.get(), value(&redis, "lease:{p:1}")), (1, None));
    });
}

/// Gives the server to the test that runs as a process of its own.
const SERVER: &str = "LOADLINE_CACHE_SERVER";
/// Longer than the process needs to be killed.
const LEASE: Duration = Duration::from_secs(3);

/// Loads a value until it is killed. Does nothing when it is run as a test.
#[test]
fn process_that_is_killed() {
    let Ok(url) = std::env::var(SERVER) else {
        return;
    };
    let load = |_: &u32| loop {
        std::thread::sleep(LONG);
    };
    drop(pages(&url, LEASE, load).get(&1));
}

#[test]
fn holder_that_is_killed_delays_the_others_by_its_lease() {
    let (redis, loads) = (Redis::start(), Count::default());
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "shared::process_that_is_killed", "--nocapture"])
        .env(SERVER, redis.url())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the process has no lease", || {
        value(&redis, "lease:{p:1}").is_some()
    });
    let count = loads.clone();
    let pages = pages(&redis.url(), LEASE, move |_| {
        count.add();
        Some(b"page".to_vec())
    });
    let elapsed = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| pages.explain(&1));
        wait_until("the lease was not there any more", || {
            pages.stats().tier.unwrap().lease_waits == 1
        });
        let begun = Instant::now();
        process.kill().unwrap();
        process.wait().unwrap();
        let (page, way) = waiting.join().unwrap();
        assert_eq!(**page.unwrap().unwrap(), *b"page");
        assert_eq!(way.steps[2].found, Found::LoadedElsewhere, "{way}");
        begun.elapsed()
    });
    assert_eq!(loads.get(), 1);
    println!("{elapsed:?} with a lease of {LEASE:?}");
    // And what a slow machine adds.
    assert!(elapsed < LEASE + Duration::from_secs(20), "{elapsed:?}");
    assert_eq!(value(&redis, "lease:{p:1}"), None);
}

/// A holder whose lease has expired leaves the lease of the next one alone.
#[test]
fn only_its_own_lease_is_given_back() {
    let redis = Redis::start();
    let url = redis.url();
    let load = move |_: &u32| {
        let mut connection = Client::open(&url).unwrap().blocking().unwrap();
        let set = cmd::<loadline_client::OwnedReply>("SET").arg("lease:{p:1}");
        connection.run(set.arg("of the next one")).unwrap();
        Some(b"page".to_vec())
    };
    let pages = pages(&redis.url(), LONG, load);
    assert!(pages.get(&1).unwrap().is_some());
    assert_eq!(
        value(&redis, "lease:{p:1}").as_deref(),
        Some("of the next one")
    );
    // A lease that never ends delays a caller by the time that leases have.
    let other = self::pages(&redis.url(), 50 * MS, |_| Some(b"late".to_vec()));
    redis.run(&["SET", "lease:{p:2}", "for ever"]);
    assert_eq!(**other.get(&2).unwrap().unwrap(), *b"late");
    assert_eq!(other.stats().tier.unwrap().lease_timeouts, 1);
}

#[test]
fn server_that_is_down_is_no_reason_to_wait() {
    let redis = Redis::start();
    let tier = tier(&redis.url(), LONG).timeout(250 * MS);
    let load = |_: &u32| Ok::<_, io::Error>(Some(b"page".to_vec()));
    let pages = Pages::builder().tier(tier, Raw).build(load).unwrap();
    drop(redis);
    for key in 0..10 {
        assert!(pages.get(&key).unwrap().is_some());
    }
    assert_eq!(pages.stats().tier.unwrap().lease_waits, 0);
}

#[test]
fn shared_loads_need_a_server_and_writes_at_once() {
    let build = |tier: Tier| {
        let builder = Pages::builder().tier(tier, Raw);
        builder
            .build(|_| Ok::<_, io::Error>(None))
            .err()
            .map(|error| error.to_string())
    };
    let redis = "redis://127.0.0.1:1";
    for (tier, reason) in [
        (tier("ram", LONG), "only a Redis server"),
        (
            tier(redis, LONG).mode(WriteMode::Behind),
            "before calls return",
        ),
        (tier(redis, LONG).hedge(), "not hedged"),
    ] {
        let error = build(tier).expect("the settings are refused");
        assert!(error.contains(reason), "{error}");
    }
}

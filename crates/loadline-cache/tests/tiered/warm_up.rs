//! Filling memory from the tier below.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use loadline_cache::codec::Raw;
use loadline_cache::{AsyncCache, Cache, Error, Found, KeyValue, ManualClock, Tier, WarmUpEnd};

use super::redis::Redis;
use super::{Count, Faulty};

const LONG: Duration = Duration::from_secs(60);
/// The clock of the cache is moved by hand, and that of the store below is not: its values must not end meanwhile.
const HOUR: Duration = Duration::from_secs(3_600);

type Pages = Cache<u32, Vec<u8>>;

fn tier(store: &Arc<Faulty>) -> Tier {
    let store: Arc<dyn KeyValue> = Arc::clone(store) as _;
    Tier::store(store).prefix("p:").timeout(LONG)
}

/// A cache whose values are the numbers of their loads.
fn numbered(tier: Tier, clock: &ManualClock, loads: &Count) -> Pages {
    let loads = loads.clone();
    let builder = Pages::builder()
        .clock(clock.clone())
        .jitter(0.0)
        .ttl(100 * HOUR);
    let load = move |_: &u32| Ok::<_, io::Error>(Some(loads.add().to_string().into_bytes()));
    builder
        .memory(1 << 20, |_, page| page.len() as u64)
        .tier(tier, Raw)
        .build(load)
        .unwrap()
}

fn first_step(pages: &Pages, key: u32) -> Found {
    let (value, way) = pages.explain(&key);
    assert!(value.unwrap().is_some());
    way.steps[0].found
}

#[test]
fn new_process_takes_over_what_the_tier_has() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    let first = numbered(tier(&store), &clock, &loads);
    (0..50).for_each(|key| drop(first.get(&key)));
    clock.advance(60 * HOUR);
    (50..100).for_each(|key| drop(first.get(&key)));
    store.put(b"p:7", b"garbage").unwrap();
    store.put(b"p:seven", b"not a key").unwrap();
    store.put(b"other", b"of another cache").unwrap();
    let second = numbered(tier(&store), &clock, &loads);
    second.get(&99).unwrap();
    let done = second.warm_up(u64::MAX, LONG).unwrap();
    assert_eq!(
        (done.keys, done.values, done.left_out),
        (99, 98, 1),
        "{done:?}"
    );
    assert_eq!((done.end, loads.get()), (WarmUpEnd::Complete, 100));
    assert_eq!(second.stats().entries, 99);
    let tier = second.stats().tier.unwrap();
    // It is no hit of a caller, and says nothing about what the tier saves.
    assert_eq!((tier.hits, tier.damaged), (1, 1));
    assert_eq!(first_step(&second, 3), Found::InMemory);
    assert_eq!(first_step(&second, 7), Found::NotInMemory);
    // Values keep the end of their time to live, and those past it are left out.
    clock.advance(40 * HOUR);
    assert_eq!(first_step(&second, 4), Found::NotInMemory);
    assert_eq!(first_step(&second, 60), Found::InMemory);
    let done = numbered(self::tier(&store), &clock, &loads)
        .warm_up(u64::MAX, LONG)
        .unwrap();
    assert_eq!((done.values, done.left_out), (52, 48), "{done:?}");
}

#[test]
fn warm_up_ends_at_its_limits() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    let first = numbered(tier(&store), &clock, &loads);
    let keys: Vec<u32> = (0..200).collect();
    assert!(first.get_many(&keys).iter().all(Result::is_ok));
    let full = first.stats().bytes;
    let second = numbered(tier(&store), &clock, &loads);
    let done = second.warm_up(full / 4, LONG).unwrap();
    assert_eq!(done.end, WarmUpEnd::Bytes);
    assert!((40..=50).contains(&done.values), "{done:?}");
    assert!(second.stats().bytes <= full / 4 && done.bytes == second.stats().bytes);
    let done = second.warm_up(u64::MAX, Duration::ZERO).unwrap();
    assert_eq!((done.values, done.end), (0, WarmUpEnd::Time));
    store.set_down(true);
    let done = second.warm_up(u64::MAX, LONG).unwrap();
    assert_eq!((done.values, done.end), (0, WarmUpEnd::TierFailed));
    store.set_down(false);
    let done = second.warm_up(u64::MAX, LONG).unwrap();
    assert_eq!(
        (done.end, second.stats().entries),
        (WarmUpEnd::Complete, 200)
    );
    assert_eq!(loads.get(), 200);
    let load = |_: &u32| Ok::<_, io::Error>(Some(Vec::new()));
    let alone = Pages::builder().build(load).unwrap();
    assert!(matches!(alone.warm_up(1, LONG), Err(Error::Settings(_))));
}

/// A value that the tier had before an update never gets into memory after it.
#[test]
fn warm_up_restores_no_replaced_value() {
    let store = Faulty::new();
    let (version, is_over) = (Arc::new(AtomicU64::new(0)), AtomicBool::new(false));
    let newest = Arc::clone(&version);
    let load = move |_: &u32| {
        Ok::<_, io::Error>(Some(newest.load(Ordering::SeqCst).to_string().into_bytes()))
    };
    let pages = Pages::builder()
        .tier(tier(&store), Raw)
        .build(load)
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                pages.warm_up(u64::MAX, LONG).unwrap();
            }
        });
        for round in 1..=2_000 {
            version.store(round, Ordering::SeqCst);
            pages.invalidate(&1);
            let value = pages.get(&1).unwrap().unwrap();
            assert_eq!(*value, round.to_string().into_bytes());
        }
        is_over.store(true, Ordering::SeqCst);
    });
}

#[test]
fn server_fills_caches_of_threads_and_tasks() {
    let (redis, loads) = (Redis::start(), Count::default());
    let tier = || Tier::open(&redis.url()).prefix("p:").timeout(LONG);
    // The server expires values by its own clock, however slow this machine is.
    let endless = || {
        let loads = loads.clone();
        let load = move |_: &u32| Ok::<_, io::Error>(Some(loads.add().to_string().into_bytes()));
        Pages::builder().tier(tier(), Raw).build(load).unwrap()
    };
    let first = endless();
    let keys: Vec<u32> = (0..2_500).collect();
    assert!(first.get_many(&keys).iter().all(Result::is_ok));
    let second = endless();
    let done = second.warm_up(u64::MAX, LONG).unwrap();
    assert_eq!((done.values, done.end), (2_500, WarmUpEnd::Complete));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let load = |_: u32| async { Err(io::Error::other("nothing is loaded")) };
        let third = AsyncCache::<u32, Vec<u8>>::builder();
        let third = third.tier(tier(), Raw).build_async(load).await.unwrap();
        let done = third.warm_up(u64::MAX, LONG).await.unwrap();
        assert_eq!((done.values, done.end), (2_500, WarmUpEnd::Complete));
        assert!(third.get(&2_499).await.unwrap().is_some());
    });
    assert_eq!(loads.get(), 2_500);
}

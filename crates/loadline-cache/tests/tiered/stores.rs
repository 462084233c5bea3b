//! A store below memory, which fails where the test says so.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use loadline_cache::codec::Raw;
use loadline_cache::{Batch, Builder, Cache, Error, Found, KeyValue, ManualClock, Tier, WriteMode};

use super::{Count, Faulty, MS, wait_until};

/// Times to live are in hours: the clock of the cache moves by hand, and that of the store does not.
const HOUR: Duration = Duration::from_secs(3_600);

type Pages = Cache<u32, Vec<u8>>;

fn tier(store: &Arc<Faulty>) -> Tier {
    let store: Arc<dyn KeyValue> = Arc::clone(store) as _;
    // Neighbours on the machine make calls slow, and none of these tests is about that.
    Tier::store(store)
        .prefix("p:")
        .timeout(Duration::from_secs(60))
}

fn builder(tier: Tier, clock: &ManualClock) -> Builder<u32, Vec<u8>> {
    let builder = Pages::builder().clock(clock.clone()).jitter(0.0);
    builder.ttl(100 * HOUR).tier(tier, Raw)
}

/// A cache whose values are the numbers of their loads.
fn numbered(builder: Builder<u32, Vec<u8>>, loads: &Count) -> Pages {
    let loads = loads.clone();
    let load = move |_: &u32| Ok::<_, io::Error>(Some(loads.add().to_string().into_bytes()));
    builder.build(load).unwrap()
}

fn seen(pages: &Pages, key: u32) -> String {
    let value = pages.get(&key).unwrap().unwrap();
    String::from_utf8(value.to_vec()).unwrap()
}

fn found(pages: &Pages, key: u32) -> Vec<Found> {
    let (value, way) = pages.explain(&key);
    assert!(value.unwrap().is_some());
    way.steps.iter().map(|step| step.found).collect()
}

#[test]
fn second_process_does_not_load() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    let first = numbered(builder(tier(&store), &clock).absent_ttl(MS), &loads);
    assert_eq!(
        found(&first, 1),
        [
            Found::NotInMemory,
            Found::NotInTier,
            Found::Loaded,
            Found::Written
        ]
    );
    clock.advance(60 * HOUR);
    let second = numbered(builder(tier(&store), &clock), &loads);
    assert_eq!(found(&second, 1), [Found::NotInMemory, Found::InTier]);
    // It ends when the first one's value ends, not a whole time to live later.
    clock.advance(40 * HOUR);
    assert_eq!(
        found(&second, 1)[1..],
        [Found::Expired, Found::Loaded, Found::Written]
    );
    assert_eq!(loads.get(), 2);
    let stats = second.stats().tier.unwrap();
    assert_eq!((stats.hits, stats.misses, stats.expired), (1, 1, 1));
}

#[test]
fn undecodable_value_is_a_miss_and_is_replaced() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    let older = numbered(builder(tier(&store), &clock), &loads);
    seen(&older, 1);
    let newer = || numbered(builder(tier(&store).schema(2), &clock), &loads);
    let pages = newer();
    assert_eq!(
        found(&pages, 1)[1..],
        [Found::OtherVersion, Found::Loaded, Found::Written]
    );
    assert_eq!(found(&newer(), 1)[1..], [Found::InTier]);
    store.put(b"p:1", b"garbage").unwrap();
    let pages = newer();
    assert_eq!(
        found(&pages, 1)[1..],
        [Found::Damaged, Found::Loaded, Found::Written]
    );
    assert_eq!(pages.stats().tier.unwrap().damaged, 1);
    assert_eq!(found(&newer(), 1)[1..], [Found::InTier]);
    // A value of another key.
    let frame = store.get(b"p:1").unwrap().unwrap();
    store.put(b"p:2", &frame).unwrap();
    assert_eq!(found(&newer(), 2)[1], Found::Damaged);
}

#[test]
fn open_breaker_skips_a_store_that_is_down() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    // The breaker opens with the first write, so that nothing is delivered in the background.
    let tier = tier(&store).breaker(2, 100 * MS, 400 * MS);
    let pages = numbered(builder(tier, &clock).ttl(100 * MS), &loads);
    store.set_down(true);
    for key in 0..100 {
        assert!(pages.get(&key).unwrap().is_some());
    }
    // A read and a write of the first key.
    assert_eq!(store.requests(), 2);
    assert!(pages.stats().tier.unwrap().is_open);
    clock.advance(100 * MS);
    for key in 0..100 {
        assert!(pages.get(&key).unwrap().is_some());
    }
    assert_eq!(store.requests(), 3);
    store.set_down(false);
    clock.advance(200 * MS);
    assert_eq!(found(&pages, 1)[1], Found::NotInTier);
    let stats = pages.stats().tier.unwrap();
    assert_eq!((stats.is_open, stats.opened), (false, 2));
    assert!(stats.not_asked > 100);
}

/// Reads and writes keys of a store whose writes fail. `fail` begins and ends the failures.
fn read_while_writes_fail(fail: impl Fn(&Faulty, bool)) {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    let evens: Vec<u32> = (0..100).step_by(2).collect();
    numbered(builder(tier(&store), &clock), &loads).get_many(&evens);
    fail(&store, true);
    // Memory keeps nothing.
    let builder = || builder(tier(&store), &clock).memory(1, |_, _| 1);
    let pages = numbered(builder(), &loads);
    let before = loads.get();
    for _ in 0..10 {
        (200..203).for_each(|key| pages.insert(&key, b"new".to_vec()));
        (0..100).for_each(|key| drop(seen(&pages, key)));
        clock.advance(50 * MS);
    }
    let stats = pages.stats().tier.unwrap();
    let found = (stats.hits, loads.get() - before, stats.not_asked);
    assert_eq!(found, (500, 500, 0), "{stats:?}");
    // Values and invalidations were tried until they had failed three times, and then after pauses.
    assert!((3..=12).contains(&stats.put_errors), "{stats:?}");
    assert!(stats.refuses_writes && !stats.is_open && stats.not_written > 400);
    fail(&store, false);
    clock.advance(10 * HOUR / 3_600);
    seen(&pages, 1);
    pages.flush();
    assert!(!pages.stats().tier.unwrap().refuses_writes);
    seen(&pages, 3);
    assert!(store.get(b"p:3").unwrap().is_some());
}

#[test]
fn store_that_refuses_writes_keeps_its_reads() {
    for refusal in [
        "OOM command not allowed when used memory > 'maxmemory'.",
        "NOREPLICAS Not enough good replicas to write.",
        "READONLY You can't write against a read only replica.",
        "MISCONF Redis is configured to save RDB snapshots",
    ] {
        println!("{refusal}");
        read_while_writes_fail(|store, fails| store.set_refusal(fails.then_some(refusal)));
    }
}

#[test]
fn store_that_fails_writes_with_an_opaque_error_keeps_its_reads() {
    read_while_writes_fail(Faulty::set_fails_writes);
}

#[test]
fn tier_is_used_within_two_seconds_of_its_return() {
    for outage_seconds in [1, 7, 33, 100] {
        let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
        let pages = numbered(builder(tier(&store), &clock).memory_bytes(1), &loads);
        seen(&pages, 1);
        store.set_down(true);
        for _ in 0..20 * outage_seconds {
            seen(&pages, 1);
            clock.advance(50 * MS);
        }
        // The first probe after the return still fails.
        let opened = pages.stats().tier.unwrap().opened;
        let mut pauses = 0;
        while found(&pages, 1)[1] != Found::InTier {
            if pages.stats().tier.unwrap().opened > opened {
                store.set_down(false);
            }
            clock.advance(50 * MS);
            pauses += 50;
        }
        assert!(
            pauses <= 2_000,
            "{outage_seconds} s: back after {pauses} ms"
        );
    }
}

#[test]
fn full_store_still_gets_invalidations() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    for mode in [WriteMode::Through, WriteMode::Behind] {
        store.set_refusal(None);
        let pages = numbered(builder(tier(&store).mode(mode), &clock), &loads);
        seen(&pages, 1);
        assert_eq!(pages.flush(), 0);
        store.set_refusal(Some("OOM command not allowed"));
        // Values that the store does not take do not keep the invalidation waiting.
        for key in 2..12 {
            seen(&pages, key);
            pages.flush();
        }
        assert!(pages.stats().tier.unwrap().refuses_writes);
        pages.invalidate(&1);
        pages.flush();
        assert!(store.get(b"p:1").unwrap().is_none(), "{mode:?}");
    }
}

#[test]
fn invalidation_that_the_store_missed_is_made_up_for() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    // The breaker opens with the invalidation, so that it is not delivered in the background at once.
    let tier = tier(&store).breaker(1, MS, MS);
    let pages = numbered(builder(tier, &clock), &loads);
    assert_eq!(seen(&pages, 1), "1");
    store.set_down(true);
    pages.invalidate(&1);
    store.set_down(false);
    // The store still has the older value.
    assert!(store.get(b"p:1").unwrap().is_some());
    clock.advance(MS);
    assert_eq!(
        found(&pages, 1)[1..],
        [Found::Invalidated, Found::Loaded, Found::Written]
    );
    assert_eq!(seen(&pages, 1), "2");
    // An invalidation that no later write makes up for.
    store.set_down(true);
    pages.invalidate(&1);
    store.set_down(false);
    clock.advance(MS);
    seen(&pages, 2);
    wait_until("the invalidation is not delivered", || {
        store.get(b"p:1").unwrap().is_none()
    });
    wait_until("the backlog stays", || {
        pages.stats().tier.unwrap().backlog == 0
    });
}

#[test]
fn inserted_values_replace_older_ones_everywhere() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    let pages = numbered(builder(tier(&store), &clock), &loads);
    seen(&pages, 1);
    pages.insert(&1, b"inserted".to_vec());
    let second = numbered(builder(tier(&store), &clock), &loads);
    assert_eq!(seen(&second, 1), "inserted");
    store.set_down(true);
    pages.insert_for(&1, b"newer".to_vec(), 10 * MS);
    assert_eq!(seen(&pages, 1), "newer");
    clock.advance(10 * MS);
    store.set_down(false);
    // Not the inserted one, which the store still has.
    assert_eq!(seen(&pages, 1), "2");
}

#[test]
fn many_keys_are_one_request_and_large_ones_several() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    let keys: Vec<u32> = (0..100).collect();
    let count = loads.clone();
    let build = |batch_bytes: usize| {
        let count = count.clone();
        builder(tier(&store).batch_bytes(batch_bytes), &clock)
            .build(move |_| {
                count.add();
                Ok::<_, io::Error>(Some(vec![7; 1_000]))
            })
            .unwrap()
    };
    let pages = build(1 << 20);
    assert!(pages.get_many(&keys).iter().all(Result::is_ok));
    assert_eq!((loads.get(), store.requests()), (100, 2));
    let pages = build(1 << 20);
    assert!(pages.get_many(&keys).iter().all(Result::is_ok));
    assert_eq!((loads.get(), store.requests()), (100, 3));
    // Ten values fit into a request: the first one is a guess, by which eleven would fit.
    let pages = build(11_000);
    assert!(pages.get_many(&keys).iter().all(Result::is_ok));
    let requests = store.requests() - 3;
    assert!((10..=11).contains(&requests), "{requests}");
    assert_eq!(loads.get(), 100);
}

#[test]
fn batch_that_fails_ends_the_others() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    // The breaker opens with the write, so that nothing is delivered in the background.
    let tier = tier(&store).batch_bytes(2_000).breaker(2, MS, MS);
    let pages = numbered(builder(tier, &clock), &loads);
    store.set_down(true);
    let keys: Vec<u32> = (0..100).collect();
    assert!(pages.get_many(&keys).iter().all(Result::is_ok));
    assert_eq!(store.requests(), 2);
}

#[test]
fn only_selected_values_are_written() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    let builder = builder(tier(&store), &clock).select(|key, _, cost| {
        assert!(cost < Duration::from_secs(60));
        *key == 1
    });
    let pages = numbered(builder, &loads);
    (1..3).for_each(|key| drop(seen(&pages, key)));
    assert!(store.get(b"p:1").unwrap().is_some());
    assert!(store.get(b"p:2").unwrap().is_none());
}

#[test]
fn tier_that_is_read_only_is_never_written() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    seen(&numbered(builder(tier(&store), &clock), &loads), 1);
    let pages = numbered(
        builder(tier(&store).mode(WriteMode::ReadOnly), &clock),
        &loads,
    );
    assert_eq!(seen(&pages, 1), "1");
    assert_eq!(seen(&pages, 2), "2");
    pages.invalidate(&1);
    pages.insert(&2, b"inserted".to_vec());
    assert_eq!(seen(&pages, 1), "1");
    assert!(store.get(b"p:2").unwrap().is_none());
}

#[test]
fn writes_behind_are_seen_at_once_and_written_later() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    let behind = tier(&store).mode(WriteMode::Behind).breaker(1, MS, MS);
    // Memory keeps nothing, so that every read goes to the tier.
    let builder = builder(behind, &clock).memory(0, |_, _| 1);
    let pages = numbered(builder, &loads);
    store.set_down(true);
    assert_eq!(seen(&pages, 1), "1");
    pages.insert(&2, b"inserted".to_vec());
    assert_eq!(seen(&pages, 1), "1");
    assert_eq!(seen(&pages, 2), "inserted");
    pages.invalidate(&1);
    assert_eq!(seen(&pages, 1), "2");
    store.set_down(false);
    clock.advance(MS);
    assert_eq!(pages.flush(), 0);
    assert_eq!(loads.get(), 2);
    assert!(store.get(b"p:1").unwrap().is_some() && store.get(b"p:2").unwrap().is_some());
}

#[test]
fn loss_of_writes_behind_is_bounded_and_counted() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    let behind = tier(&store).mode(WriteMode::Behind).backlog(10, 1 << 20);
    let pages = numbered(builder(behind.breaker(1, MS, MS), &clock), &loads);
    store.set_down(true);
    (0..30).for_each(|key| drop(seen(&pages, key)));
    wait_until("the store is not tried", || {
        pages.stats().tier.unwrap().is_open
    });
    store.set_down(false);
    clock.advance(MS);
    assert_eq!(pages.flush(), 0);
    let lost = pages.stats().tier.unwrap().lost_puts;
    let mut stored = 0;
    let mut count = |_: &[u8], _: &[u8]| stored += 1;
    store.scan(b"p:", &mut count).unwrap();
    assert_eq!(stored + lost, 30);
    assert!(stored >= 10, "{stored}");
}

#[test]
fn write_that_may_still_happen_is_not_believed() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    // Memory keeps nothing, so that every read goes to the tier.
    // The breaker opens with the write, so that nothing is delivered in the background.
    let tier = tier(&store).breaker(2, 10 * MS, 10 * MS);
    let builder = builder(tier, &clock).memory(0, |_, _| 1);
    let pages = numbered(builder, &loads);
    store.set_down(true);
    assert_eq!(seen(&pages, 1), "1");
    store.set_down(false);
    assert_eq!(pages.stats().tier.unwrap().backlog, 1);
    clock.advance(10 * MS);
    assert_eq!(
        found(&pages, 1)[1..],
        [Found::Invalidated, Found::Loaded, Found::Written]
    );
    assert_eq!(found(&pages, 1)[1..], [Found::InTier]);
}

/// Gives the store and its requests a time that the cache measures.
struct Slow(Arc<Faulty>, Duration);

impl Slow {
    fn wait(&self) -> &Faulty {
        std::thread::sleep(self.1);
        &self.0
    }
}

impl KeyValue for Slow {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.wait().get(key)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        self.wait().get_many(keys)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.wait().put(key, value)
    }

    fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(), Error> {
        self.wait().put_for(key, value, ttl)
    }

    fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.wait().delete(key)
    }

    fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
    ) -> Result<bool, Error> {
        self.wait().compare_and_swap(key, expected, next)
    }

    fn apply(&self, batch: &Batch) -> Result<(), Error> {
        self.wait().apply(batch)
    }

    fn write_many(&self, batch: &Batch) -> Result<(), Error> {
        self.wait().write_many(batch)
    }

    fn scan(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        self.wait().scan(prefix, visit)
    }
}

#[test]
fn store_that_does_not_answer_in_time_delays_a_call_once() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    let slow = Tier::store(Arc::new(Slow(Arc::clone(&store), 20 * MS))).timeout(20 * MS);
    let pages = numbered(builder(slow, &clock), &loads);
    store.set_down(true);
    assert_eq!(found(&pages, 1)[1..], [Found::TierTimedOut, Found::Loaded]);
    // The read. A write would have kept the caller waiting as long again.
    assert_eq!(store.requests(), 1);
}

#[test]
fn store_that_costs_more_than_it_saves_is_bypassed() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    let slow = Slow(Arc::clone(&store), Duration::from_micros(20));
    let tier = Tier::store(Arc::new(slow)).timeout(60_000 * MS);
    let builder = builder(tier.bypass_if_slower(), &clock).memory(0, |_, _| 1);
    let pages = numbered(builder, &loads);
    let mut key = 0;
    while !pages.worth().is_some_and(|worth| worth.is_bypassed) {
        assert!(key < 20_000, "{:?}", pages.worth());
        seen(&pages, key);
        key += 1;
    }
    let before = store.requests();
    (0..1_600).for_each(|more| drop(seen(&pages, 1_000_000 + more)));
    // A read and a write of about one key in 16.
    let requests = store.requests() - before;
    assert!((100..350).contains(&requests), "{requests}");
    let bypassed = (0..).find(|key| found(&pages, 2_000_000 + key)[1] == Found::Bypassed);
    let (_, way) = pages.explain(&(2_000_000 + bypassed.unwrap()));
    let text = way.to_string();
    assert!(text.contains("tier: bypassed\nload: done"), "{text}");
    assert!(text.contains("tier: bypassed, 0 % of reads hit"), "{text}");
    assert!(pages.stats().tier.unwrap().bypassed > 1_000);
}

#[test]
fn flush_waits_for_what_another_thread_writes() {
    let (store, clock, loads) = (Faulty::new(), ManualClock::new(), Count::default());
    let pages = numbered(
        builder(tier(&store).mode(WriteMode::Behind), &clock),
        &loads,
    );
    assert_eq!(seen(&pages, 1), "1");
    assert_eq!(pages.flush(), 0);
    store.set_paused(true);
    let before = store.requests();
    pages.insert(&1, b"inserted".to_vec());
    wait_until("the thread in the background does not write", || {
        store.requests() > before
    });
    let flushing = {
        let pages = pages.clone();
        std::thread::spawn(move || pages.flush())
    };
    // It neither ends early nor writes the same again.
    std::thread::sleep(20 * MS);
    assert!(!flushing.is_finished() && store.requests() == before + 1);
    store.set_paused(false);
    assert_eq!(flushing.join().unwrap(), 0);
    assert_eq!(store.requests(), before + 1);
}

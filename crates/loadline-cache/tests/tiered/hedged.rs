//! Loads beside reads that take long.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loadline_cache::codec::Raw;
use loadline_cache::{AsyncCache, Batch, Begun, Cache, Error, Found, KeyValue, Tier, TierStats};

use loadline_client::Client;
use loadline_client::commands::exists;

use super::redis::Redis;
use super::{Count, Faulty, MS, wait_until};

/// Longer than anything takes that works.
const LONG: Duration = Duration::from_secs(60);

type Pages = Cache<u32, Vec<u8>>;

/// A store whose reads are late while it is paused.
struct Gated(Arc<Faulty>);

impl KeyValue for Gated {
    fn begin_get(&self, keys: &[&[u8]], _: Duration) -> Begun {
        if !*self.0.pause.lock().unwrap() {
            return Begun::Done(self.0.get_many(keys));
        }
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
        let store = Arc::clone(&self.0);
        Begun::Late(Box::new(move || {
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            store.get_many(&keys)
        }))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.0.get(key)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        self.0.get_many(keys)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.0.put(key, value)
    }

    fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(), Error> {
        self.0.put_for(key, value, ttl)
    }

    fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.0.delete(key)
    }

    fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
    ) -> Result<bool, Error> {
        self.0.compare_and_swap(key, expected, next)
    }

    fn apply(&self, batch: &Batch) -> Result<(), Error> {
        self.0.apply(batch)
    }

    fn scan(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        self.0.scan(prefix, visit)
    }
}

/// A cache whose loads wait while the gate is closed, and fail where they are to.
struct Hedged {
    store: Arc<Faulty>,
    pages: Pages,
    loads: Count,
    is_closed: Arc<AtomicBool>,
    fails: Arc<AtomicBool>,
}

fn hedged() -> Hedged {
    let (store, loads) = (Faulty::new(), Count::default());
    let (is_closed, fails) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let (count, closed, failing) = (loads.clone(), Arc::clone(&is_closed), Arc::clone(&fails));
    let tier = Tier::store(Arc::new(Gated(Arc::clone(&store))))
        .prefix("p:")
        .timeout(LONG);
    let pages = Pages::builder()
        .tier(tier.hedge_after(MS), Raw)
        .build(move |_| {
            let number = count.add();
            wait_until("the gate stays closed", || !closed.load(Ordering::SeqCst));
            match failing.load(Ordering::SeqCst) {
                true => Err(io::Error::other("no load")),
                false => Ok(Some(number.to_string().into_bytes())),
            }
        });
    Hedged {
        store,
        pages: pages.unwrap(),
        loads,
        is_closed,
        fails,
    }
}

impl Hedged {
    /// Puts a value into the tier only.
    fn in_tier(&self, key: u32) {
        let other = Tier::store(Arc::new(Gated(Arc::clone(&self.store))))
            .prefix("p:")
            .timeout(LONG);
        let load = |_: &u32| Ok::<_, io::Error>(Some(b"stored".to_vec()));
        Pages::builder()
            .tier(other, Raw)
            .build(load)
            .unwrap()
            .get(&key)
            .unwrap();
    }

    fn steps(&self, key: u32) -> (Vec<u8>, Vec<Found>) {
        let (value, way) = self.pages.explain(&key);
        let steps = way.steps.iter().map(|step| step.found).collect();
        (value.unwrap().unwrap().to_vec(), steps)
    }

    fn stats(&self) -> TierStats {
        self.pages.stats().tier.unwrap()
    }
}

#[test]
fn load_that_ends_first_is_used_while_the_read_is_under_way() {
    let hedged = hedged();
    hedged.in_tier(1);
    hedged.store.set_paused(true);
    let (value, steps) = hedged.steps(1);
    assert_eq!(steps, [Found::NotInMemory, Found::TierSlow, Found::Loaded]);
    assert_eq!(value, b"1");
    let stats = hedged.stats();
    assert_eq!(
        (stats.hedges, stats.hedges_won, stats.gets.count),
        (1, 1, 0)
    );
    // The read ends in the background, and the tier has answered.
    hedged.store.set_paused(false);
    wait_until("the read does not end", || hedged.stats().gets.count == 1);
    assert_eq!(
        (hedged.stats().get_errors, hedged.stats().puts.count),
        (0, 0)
    );
    assert_eq!(hedged.steps(2).1[1], Found::NotInTier);
}

#[test]
fn read_that_ends_first_is_used_while_the_load_is_under_way() {
    let hedged = hedged();
    hedged.in_tier(1);
    hedged.is_closed.store(true, Ordering::SeqCst);
    hedged.store.set_paused(true);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| hedged.steps(1));
        wait_until("nothing is loaded", || hedged.loads.get() == 1);
        hedged.store.set_paused(false);
        let (value, steps) = reader.join().unwrap();
        assert_eq!(steps, [Found::NotInMemory, Found::TierSlow, Found::InTier]);
        assert_eq!(value, b"stored");
    });
    hedged.is_closed.store(false, Ordering::SeqCst);
    assert_eq!((hedged.stats().hedges, hedged.stats().hedges_won), (1, 0));
    assert_eq!(hedged.loads.get(), 1);
}

#[test]
fn read_that_finds_nothing_waits_for_the_load_that_has_begun() {
    let hedged = hedged();
    hedged.is_closed.store(true, Ordering::SeqCst);
    hedged.store.set_paused(true);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| hedged.steps(1));
        wait_until("nothing is loaded", || hedged.loads.get() == 1);
        hedged.store.set_paused(false);
        wait_until("the read does not end", || hedged.stats().misses == 1);
        hedged.is_closed.store(false, Ordering::SeqCst);
        let (value, steps) = reader.join().unwrap();
        assert_eq!(steps[1..3], [Found::TierSlow, Found::NotInTier]);
        assert_eq!(steps[3..], [Found::Loaded, Found::Written]);
        assert_eq!(value, b"1");
    });
    assert_eq!((hedged.loads.get(), hedged.stats().hedges_won), (1, 0));
}

#[test]
fn load_that_fails_leaves_it_to_the_read() {
    let hedged = hedged();
    hedged.in_tier(1);
    hedged.fails.store(true, Ordering::SeqCst);
    hedged.store.set_paused(true);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| hedged.steps(1));
        wait_until("nothing is loaded", || hedged.loads.get() == 1);
        hedged.store.set_paused(false);
        assert_eq!(reader.join().unwrap().0, b"stored");
    });
    // Both fail: the error is that of the load.
    hedged.store.set_paused(true);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| hedged.pages.get(&2));
        wait_until("nothing is loaded", || hedged.loads.get() == 2);
        hedged.store.set_down(true);
        hedged.store.set_paused(false);
        let error = reader.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("no load"), "{error}");
    });
}

/// The values of several keys.
fn many(pages: &Pages, keys: &[u32]) -> Vec<String> {
    let values = pages.get_many(keys).into_iter();
    let text = |value: Vec<u8>| String::from_utf8(value).unwrap();
    values
        .map(|value| text(value.unwrap().unwrap().to_vec()))
        .collect()
}

#[test]
fn several_keys_are_loaded_while_their_read_is_under_way() {
    let hedged = hedged();
    (1..4).for_each(|key| hedged.in_tier(key));
    hedged.store.set_paused(true);
    // Loaded one after the other.
    assert_eq!(many(&hedged.pages, &[1, 2, 3]), ["1", "2", "3"]);
    let stats = hedged.stats();
    assert_eq!(
        (stats.hedges, stats.hedges_won, stats.gets.count),
        (1, 1, 0)
    );
    hedged.store.set_paused(false);
    wait_until("the read does not end", || hedged.stats().gets.count == 1);
    // The loaded object is in memory, and was not written to a tier that is slow.
    assert_eq!(many(&hedged.pages, &[3, 2, 1]), ["3", "2", "1"]);
    assert_eq!((hedged.loads.get(), hedged.stats().puts.count), (3, 0));
}

#[test]
fn read_of_several_keys_that_ends_amid_the_loads_answers_the_others() {
    let hedged = hedged();
    // The fourth one is in no tier.
    (1..4).for_each(|key| hedged.in_tier(key));
    hedged.is_closed.store(true, Ordering::SeqCst);
    hedged.store.set_paused(true);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| many(&hedged.pages, &[1, 2, 3, 4]));
        wait_until("nothing is loaded", || hedged.loads.get() == 1);
        hedged.store.set_paused(false);
        wait_until("the read does not end", || hedged.stats().hits == 3);
        hedged.is_closed.store(false, Ordering::SeqCst);
        let values = reader.join().unwrap();
        assert_eq!(values, ["stored", "stored", "stored", "2"]);
    });
    assert_eq!((hedged.stats().hedges, hedged.stats().hedges_won), (1, 0));
    assert_eq!(hedged.loads.get(), 2, "the late key, and the missing one");
}

#[test]
fn keys_whose_loads_fail_are_left_to_the_read() {
    let hedged = hedged();
    hedged.in_tier(1);
    hedged.fails.store(true, Ordering::SeqCst);
    hedged.store.set_paused(true);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| hedged.pages.get_many(&[1, 2]));
        wait_until("not all are loaded", || hedged.loads.get() == 2);
        hedged.store.set_paused(false);
        let values = reader.join().unwrap();
        assert_eq!(**values[0].as_ref().unwrap().as_ref().unwrap(), *b"stored");
        let error = values[1].as_ref().unwrap_err().to_string();
        assert!(error.contains("no load"), "{error}");
    });
    assert_eq!(hedged.stats().hedges_won, 0);
}

/// One load per key, and no more reads than open the breaker.
#[test]
fn frozen_tier_leads_to_no_stampede() {
    let hedged = hedged();
    hedged.store.set_paused(true);
    std::thread::scope(|scope| {
        for caller in 0..200 {
            let pages = &hedged.pages;
            scope.spawn(move || pages.get(&(caller % 20)).unwrap().unwrap());
        }
    });
    assert_eq!(hedged.loads.get(), 20);
    let stats = hedged.stats();
    // Callers that look at the same moment can add some to the three.
    assert!((3..=20).contains(&stats.hedges), "{stats:?}");
    assert_eq!(hedged.steps(100).1[1..], [Found::Overdue, Found::Loaded]);
    hedged.store.set_paused(false);
    wait_until("the tier does not recover", || {
        hedged.stats().in_flight == 0 && hedged.stats().gets.count == stats.hedges
    });
    assert_eq!(hedged.steps(101).1[1], Found::NotInTier);
}

#[test]
fn frozen_server_does_not_delay_the_first_call() {
    let (redis, loads) = (Redis::start(), Count::default());
    let tier = || {
        Tier::open(&redis.url())
            .prefix("p:")
            .timeout(LONG)
            .hedge_after(MS)
    };
    let count = loads.clone();
    let load = move |_: &u32| Ok::<_, io::Error>(Some(count.add().to_string().into_bytes()));
    let pages = Pages::builder().tier(tier(), Raw).build(load).unwrap();
    (0..10).for_each(|key| drop(pages.get(&key).unwrap()));
    redis.signal("-STOP");
    let begun = Instant::now();
    // Several keys first: a second read would be left to a thread that connects.
    let keys: Vec<u32> = (100..110).collect();
    assert_eq!(many(&pages, &keys).len(), 10);
    (10..50).for_each(|key| drop(pages.get(&key).unwrap().unwrap()));
    assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
    let stats = pages.stats().tier.unwrap();
    assert!(stats.hedges_won >= 3 && stats.get_errors == 0, "{stats:?}");
    redis.signal("-CONT");
    // None of the reads has failed, so the breaker is closed.
    wait_until("the reads do not end", || {
        let now = pages.stats().tier.unwrap();
        now.gets.count >= now.hedges_won
    });
    let mut key = 1_000;
    wait_until("the server is not asked again", || {
        key += 1;
        pages.explain(&key).1.steps[1].found == Found::NotInTier
    });
}

#[test]
fn tasks_do_not_wait_for_a_frozen_server_at_the_first_call() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let (redis, loads) = (Redis::start(), Count::default());
        let count = loads.clone();
        let load = move |_: u32| {
            let number = count.add();
            async move { Ok::<_, io::Error>(Some(number.to_string().into_bytes())) }
        };
        let tier = Tier::open(&redis.url())
            .prefix("p:")
            .timeout(LONG)
            .hedge_after(MS);
        let pages = AsyncCache::<u32, Vec<u8>>::builder().tier(tier, Raw);
        let pages = pages.build_async(load).await.unwrap();
        assert!(pages.get(&1).await.unwrap().is_some());
        redis.signal("-STOP");
        let begun = Instant::now();
        let keys: Vec<u32> = (100..110).collect();
        for value in pages.get_many(&keys).await {
            assert!(value.unwrap().is_some());
        }
        for key in 10..50 {
            assert!(pages.get(&key).await.unwrap().is_some());
        }
        assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
        let won = pages.stats().tier.unwrap().hedges_won;
        assert!(won >= 3);
        redis.signal("-CONT");
        let until = Instant::now() + LONG;
        while pages.stats().tier.unwrap().gets.count < won {
            assert!(Instant::now() < until, "the reads do not end");
            tokio::time::sleep(MS).await;
        }
    });
}

/// A cache for tasks whose loads of odd keys wait for the gate.
async fn gated(
    redis: &Redis,
    text: &'static str,
    loads: &Count,
    gate: &tokio::sync::watch::Receiver<bool>,
) -> AsyncCache<u32, Vec<u8>> {
    let (loads, gate) = (loads.clone(), gate.clone());
    let load = move |key: u32| {
        loads.add();
        let mut gate = gate.clone();
        async move {
            if key % 2 == 1 {
                gate.wait_for(|is_open| *is_open).await.unwrap();
            }
            Ok::<_, io::Error>(Some(text.as_bytes().to_vec()))
        }
    };
    let tier = Tier::open(&redis.url()).prefix("p:").timeout(LONG);
    let pages = AsyncCache::<u32, Vec<u8>>::builder().tier(tier.hedge_after(MS), Raw);
    pages.build_async(load).await.unwrap()
}

#[test]
fn tasks_take_each_key_from_the_read_or_the_load_that_ends_first() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let (redis, loads) = (Redis::start(), Count::default());
        let (gate, is_open) = tokio::sync::watch::channel(true);
        let other = gated(&redis, "stored", &loads, &is_open).await;
        wait_for_value(&redis, &other).await;
        let pages = gated(&redis, "loaded", &loads, &is_open).await;
        let before = loads.get();
        gate.send(false).unwrap();
        redis.signal("-STOP");
        let values = tokio::spawn(async move { pages.get_many(&[1, 2]).await });
        let until = Instant::now() + LONG;
        while loads.get() < before + 2 {
            assert!(Instant::now() < until, "nothing is loaded");
            tokio::time::sleep(MS).await;
        }
        // The load of the first key is never finished.
        redis.signal("-CONT");
        let values = values.await.unwrap().into_iter();
        let values: Vec<Vec<u8>> = values
            .map(|value| value.unwrap().unwrap().to_vec())
            .collect();
        assert_eq!(values, [&b"stored"[..], b"loaded"]);
    });
}

/// Puts the value of key 1 into the tier. A machine that pauses can make its write late, which leaves it out.
async fn wait_for_value(redis: &Redis, pages: &AsyncCache<u32, Vec<u8>>) {
    let until = Instant::now() + LONG;
    pages.insert(&1, b"stored".to_vec()).await;
    let mut connection = Client::open(&redis.url()).unwrap().blocking().unwrap();
    while connection.run(exists("p:1")).unwrap() == 0 {
        assert!(Instant::now() < until, "the value is not written");
        tokio::time::sleep(MS).await;
    }
}

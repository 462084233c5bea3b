//! Memory and loads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread;

use loadline_cache::{Builder, Cache, Error, Found, ManualClock};

use super::{Count, MS, wait_until};

type Pages = Cache<u32, String>;

fn pages(clock: &ManualClock) -> Builder<u32, String> {
    Pages::builder().clock(clock.clone()).jitter(0.0)
}

/// A page of some size that looks for another one when it is dropped.
struct Last(u64, Arc<OnceLock<Cache<u32, Last>>>);

impl Drop for Last {
    fn drop(&mut self) {
        if let Some(pages) = self.1.get()
            && self.0 > 0
        {
            assert!(pages.get(&u32::MAX).unwrap().is_none());
        }
    }
}

#[test]
fn value_can_use_the_cache_when_it_is_dropped() {
    let own: Arc<OnceLock<Cache<u32, Last>>> = Arc::default();
    let pages = Cache::<u32, Last>::builder_weighed(20_000, |_, page| page.0);
    let pages = pages.build(|_| Ok::<_, io::Error>(None)).unwrap();
    assert!(own.set(pages.clone()).is_ok());
    let (over, is_over) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let insert = |key, bytes| pages.insert(&key, Last(bytes, Arc::clone(&own)));
        (0..10).for_each(|key| insert(key, 500));
        // Replaced, removed, and pushed out, many at a time.
        insert(1, 500);
        pages.invalidate(&1);
        (10..100).for_each(|key| insert(key, 500));
        (100..110).for_each(|key| insert(key, 9_000));
        over.send(pages.stats().entries).unwrap();
    });
    let entries = is_over.recv_timeout(std::time::Duration::from_secs(60));
    assert!((1..20).contains(&entries.expect("a value waits for itself")));
}

#[test]
fn stampede_of_a_thousand_loads_once() {
    const CALLERS: u64 = 1_000;
    let loads = Count::default();
    let own: Arc<OnceLock<Pages>> = Arc::default();
    let (seen, count) = (Arc::clone(&own), loads.clone());
    let load = move |_: &u32| {
        count.add();
        let pages = seen.get().unwrap();
        wait_until("not all callers came", || {
            pages.stats().waited == CALLERS - 1
        });
        Ok::<_, io::Error>(Some("page".to_owned()))
    };
    let pages = Pages::builder().build(load).unwrap();
    assert!(own.set(pages.clone()).is_ok());
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let pages = pages.clone();
            let caller = thread::Builder::new().stack_size(128 << 10);
            caller
                .spawn(move || pages.get(&1).unwrap().unwrap())
                .unwrap()
        })
        .collect();
    let values: Vec<_> = callers
        .into_iter()
        .map(|caller| caller.join().unwrap())
        .collect();
    assert_eq!(loads.get(), 1);
    // All have the same object, and no copy of it.
    assert!(values.iter().all(|value| Arc::ptr_eq(value, &values[0])));
}

#[test]
fn load_that_panics_releases_those_who_wait() {
    let loads = Count::default();
    let own: Arc<OnceLock<Pages>> = Arc::default();
    let (seen, count) = (Arc::clone(&own), loads.clone());
    let load = move |_: &u32| {
        if count.add() == 1 {
            let pages = seen.get().unwrap();
            wait_until("the other caller did not come", || {
                pages.stats().waited == 1
            });
            panic!("on purpose");
        }
        Ok::<_, io::Error>(Some("page".to_owned()))
    };
    let pages = Pages::builder().build(load).unwrap();
    assert!(own.set(pages.clone()).is_ok());
    let first = {
        let pages = pages.clone();
        thread::spawn(move || catch_unwind(AssertUnwindSafe(|| pages.get(&1))).is_err())
    };
    wait_until("the load did not begin", || loads.get() == 1);
    assert_eq!(*pages.get(&1).unwrap().unwrap(), "page");
    assert!(first.join().unwrap());
    assert_eq!(loads.get(), 2);
}

#[test]
fn errors_are_returned_and_not_kept() {
    let loads = Count::default();
    let count = loads.clone();
    let pages = Pages::builder().build(move |_| match count.add() {
        1 => Err(io::Error::other("no disk")),
        _ => Ok(Some("page".to_owned())),
    });
    let pages = pages.unwrap();
    let error = pages.get(&1).unwrap_err();
    assert!(matches!(error, Error::Load(_)));
    assert_eq!(error.to_string(), "the value could not be loaded: no disk");
    assert!(pages.get(&1).unwrap().is_some());
    assert_eq!(pages.stats().load_errors, 1);
}

#[test]
fn values_end_and_absences_are_remembered() {
    let clock = ManualClock::new();
    let loads = Count::default();
    let count = loads.clone();
    let builder = pages(&clock).ttl(100 * MS).absent_ttl(10 * MS);
    let builder = builder.ttl_of(|key, _| (*key == 2).then_some(30 * MS));
    let pages = builder
        .build(move |key| {
            count.add();
            Ok::<_, io::Error>((*key != 3).then(|| "page".to_owned()))
        })
        .unwrap();
    let loads_of = |key: u32| {
        let before = loads.get();
        assert_eq!(pages.get(&key).unwrap().is_some(), key != 3);
        loads.get() - before
    };
    assert_eq!([1, 2, 3].map(loads_of), [1, 1, 1]);
    clock.advance(9 * MS);
    assert_eq!([1, 2, 3].map(loads_of), [0, 0, 0]);
    clock.advance(MS);
    assert_eq!([1, 2, 3].map(loads_of), [0, 0, 1]);
    clock.advance(20 * MS);
    assert_eq!([1, 2].map(loads_of), [0, 1]);
    clock.advance(70 * MS);
    assert_eq!(loads_of(1), 1);
}

#[test]
fn stale_value_is_served_while_it_is_loaded_again() {
    let clock = ManualClock::new();
    let loads = Count::default();
    let count = loads.clone();
    let builder = pages(&clock)
        .ttl(100 * MS)
        .stale_for(50 * MS)
        .refresh_after(0.8);
    let pages = builder
        .build(move |_| Ok::<_, io::Error>(Some(count.add().to_string())))
        .unwrap();
    let seen = || pages.get(&1).unwrap().unwrap().to_string();
    assert_eq!(seen(), "1");
    // Due ahead of its end.
    clock.advance(80 * MS);
    assert_eq!(seen(), "1");
    wait_until("no refresh", || seen() == "2");
    // Past its end.
    clock.advance(149 * MS);
    assert_eq!(seen(), "2");
    wait_until("no refresh", || seen() == "3");
    // Too far past it.
    clock.advance(150 * MS);
    assert_eq!(seen(), "4");
    let stats = pages.stats();
    assert!(stats.stale_hits >= 1 && stats.loads.count == 4, "{stats:?}");
}

#[test]
fn value_past_its_end_is_better_than_an_error() {
    let clock = ManualClock::new();
    let loads = Count::default();
    let count = loads.clone();
    let pages = pages(&clock)
        .ttl(100 * MS)
        .stale_on_error(MS * 1_000)
        .build(move |_| match count.add() {
            1 => Ok(Some("page".to_owned())),
            _ => Err(io::Error::other("no disk")),
        })
        .unwrap();
    assert!(pages.get(&1).unwrap().is_some());
    clock.advance(1_000 * MS);
    assert!(pages.get(&1).unwrap().is_some());
    assert_eq!(pages.stats().fallbacks, 1);
    clock.advance(100 * MS);
    assert!(pages.get(&1).is_err());
}

#[test]
fn load_that_was_overtaken_is_not_kept() {
    let own: Arc<OnceLock<Pages>> = Arc::default();
    let loads = Count::default();
    let (seen, count) = (Arc::clone(&own), loads.clone());
    let pages = Pages::builder().build(move |key| {
        let number = count.add();
        if number == 1 {
            // As another caller would meanwhile.
            seen.get().unwrap().invalidate(key);
        }
        Ok::<_, io::Error>(Some(number.to_string()))
    });
    let pages = pages.unwrap();
    assert!(own.set(pages.clone()).is_ok());
    assert_eq!(*pages.get(&1).unwrap().unwrap(), "1");
    assert_eq!(*pages.get(&1).unwrap().unwrap(), "2");
    assert_eq!(*pages.get(&1).unwrap().unwrap(), "2");
    pages.insert(&1, "inserted".to_owned());
    assert_eq!(*pages.get(&1).unwrap().unwrap(), "inserted");
    pages.invalidate(&1);
    assert_eq!(*pages.get(&1).unwrap().unwrap(), "3");
}

#[test]
fn many_keys_are_answered_in_their_order() {
    let pages = Pages::builder()
        .build(|key: &u32| match key {
            9 => Err(io::Error::other("no such disk")),
            key => Ok((key % 2 == 1).then(|| key.to_string())),
        })
        .unwrap();
    let answers = pages.get_many(&[3, 9, 2, 3, 1]);
    let shown: Vec<String> = answers
        .into_iter()
        .map(|answer| match answer {
            Ok(Some(value)) => value.to_string(),
            Ok(None) => "none".to_owned(),
            Err(_) => "error".to_owned(),
        })
        .collect();
    assert_eq!(shown, ["3", "error", "none", "3", "1"]);
}

#[test]
fn way_of_a_key_is_explained() {
    let pages = Pages::builder()
        .build(|_| Ok::<_, io::Error>(Some("page".to_owned())))
        .unwrap();
    let found = || -> Vec<Found> {
        let (value, way) = pages.explain(&1);
        assert!(value.unwrap().is_some());
        assert_eq!(way.to_string().lines().count(), way.steps.len());
        way.steps.iter().map(|step| step.found).collect()
    };
    assert_eq!(found(), [Found::NotInMemory, Found::Loaded]);
    assert_eq!(found(), [Found::InMemory]);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let build =
        |builder: Builder<u32, String>| builder.build(|_| Ok::<_, io::Error>(None)).map(|_| ());
    let refused = build(Pages::builder().jitter(1.5)).unwrap_err();
    assert!(matches!(refused, Error::Settings(_)));
    let tier = loadline_cache::Tier::open("http://host");
    let refused = build(Pages::builder().tier(tier, loadline_cache::codec::Raw)).unwrap_err();
    assert!(matches!(refused, Error::Url { .. }));
}

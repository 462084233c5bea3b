//! The cache for tasks.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use loadline_cache::codec::Raw;
use loadline_cache::{AsyncCache, Found, ManualClock, Tier, WriteMode};

use super::{Count, MS};

/// The clock of the cache moves by hand, and that of the store does not.
const HOUR: Duration = Duration::from_secs(3_600);

type Pages = AsyncCache<u32, Vec<u8>>;

fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap()
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(MS).await;
        }
    };
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, wait)
        .await
        .unwrap_or_else(|_| panic!("{what}"));
}

#[test]
fn stampede_of_a_thousand_tasks_loads_once() {
    runtime().block_on(async {
        let loads = Count::default();
        let own: Arc<OnceLock<Pages>> = Arc::default();
        let (seen, count) = (Arc::clone(&own), loads.clone());
        let load = move |_| {
            let (seen, count) = (Arc::clone(&seen), count.clone());
            async move {
                count.add();
                let pages = seen.get().unwrap();
                until("not all callers came", || pages.stats().waited == 999).await;
                Ok::<_, io::Error>(Some(b"page".to_vec()))
            }
        };
        let pages = Pages::builder().build_async(load).await.unwrap();
        assert!(own.set(pages.clone()).is_ok());
        let callers: Vec<_> = (0..1_000)
            .map(|_| {
                let pages = pages.clone();
                tokio::spawn(async move { pages.get(&1).await.unwrap().unwrap() })
            })
            .collect();
        for caller in callers {
            assert_eq!(*caller.await.unwrap(), b"page");
        }
        assert_eq!(loads.get(), 1);
    });
}

#[test]
fn call_that_is_dropped_hands_its_load_over() {
    runtime().block_on(async {
        let loads = Count::default();
        let count = loads.clone();
        let load = move |_| {
            let number = count.add();
            async move {
                if number == 1 {
                    std::future::pending::<()>().await;
                }
                Ok::<_, io::Error>(Some(number.to_string().into_bytes()))
            }
        };
        let pages = Pages::builder().build_async(load).await.unwrap();
        let call = |pages: Pages| async move { pages.get(&1).await.unwrap().unwrap() };
        let first = tokio::spawn(call(pages.clone()));
        until("the load did not begin", || loads.get() == 1).await;
        let second = tokio::spawn(call(pages.clone()));
        until("the second call did not come", || pages.stats().waited == 1).await;
        first.abort();
        assert_eq!(*second.await.unwrap(), b"2");
        assert_eq!(pages.stats().loading, 0);
    });
}

#[test]
fn loads_of_many_keys_run_at_the_same_time() {
    runtime().block_on(async {
        let own: Arc<OnceLock<Pages>> = Arc::default();
        let seen = Arc::clone(&own);
        let load = move |key: u32| {
            let seen = Arc::clone(&seen);
            async move {
                let pages = seen.get().unwrap();
                until("loads are one after the other", || {
                    pages.stats().loading == 10
                })
                .await;
                tokio::time::sleep(MS * 100).await;
                Ok::<_, io::Error>(Some(vec![key as u8]))
            }
        };
        let pages = Pages::builder().build_async(load).await.unwrap();
        assert!(own.set(pages.clone()).is_ok());
        let keys: Vec<u32> = (0..10).collect();
        for (key, answer) in keys.iter().zip(pages.get_many(&keys).await) {
            assert_eq!(*answer.unwrap().unwrap(), [*key as u8]);
        }
    });
}

#[test]
fn tasks_use_the_tier_and_refresh() {
    runtime().block_on(async {
        let clock = ManualClock::new();
        let dir = tempfile::tempdir().unwrap();
        let url = format!("store:{}", dir.path().display());
        let loads = Count::default();
        let build = async |mode| {
            let count = loads.clone();
            let load = move |_| {
                let number = count.add();
                async move { Ok::<_, io::Error>(Some(number.to_string().into_bytes())) }
            };
            let tier = Tier::open(&url).mode(mode).timeout(MS * 60_000);
            let builder = Pages::builder()
                .clock(clock.clone())
                .jitter(0.0)
                .ttl(100 * HOUR);
            let builder = builder.stale_for(50 * HOUR).tier(tier, Raw);
            builder.build_async(load).await
        };
        let pages = build(WriteMode::Behind).await.unwrap();
        assert_eq!(*pages.get(&1).await.unwrap().unwrap(), b"1");
        pages.insert(&2, b"inserted".to_vec()).await;
        pages.insert(&3, b"inserted".to_vec()).await;
        pages.invalidate(&3).await;
        assert_eq!(pages.flush().await, 0);
        drop(pages);
        // The task that wrote may hold the directory a moment longer, and so may a process that another test is starting.
        let limit = Instant::now() + Duration::from_secs(60);
        let pages = loop {
            match build(WriteMode::Through).await {
                Ok(pages) => break pages,
                Err(error) => assert!(Instant::now() < limit, "{error}"),
            }
            tokio::time::sleep(MS).await;
        };
        let found = async |key: u32| -> Vec<Found> {
            let (value, way) = pages.explain(&key).await;
            assert!(value.unwrap().is_some());
            way.steps.iter().map(|step| step.found).collect()
        };
        assert_eq!(found(1).await, [Found::NotInMemory, Found::InTier]);
        assert_eq!(*pages.get(&2).await.unwrap().unwrap(), b"inserted");
        let steps = found(3).await;
        assert_eq!(
            steps[1..],
            [Found::NotInTier, Found::Loaded, Found::Written]
        );
        clock.advance(120 * HOUR);
        assert_eq!(*pages.get(&1).await.unwrap().unwrap(), b"1");
        until("no refresh", || loads.get() == 3).await;
        until("the refresh is not kept", || {
            pages.stats().loads.count == 2 && pages.stats().tier.unwrap().in_flight == 0
        })
        .await;
        assert_eq!(*pages.get(&1).await.unwrap().unwrap(), b"3");
    });
}

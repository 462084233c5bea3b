//! Embedded engines as tiers.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use loadline_cache::codec::Raw;
use loadline_cache::{Batch, Cache, Found, Tier, open};

use super::{Count, MS};

/// The engines of this build, and our store.
const ENGINES: &[&str] = &[
    "store",
    #[cfg(feature = "heed")]
    "heed",
    #[cfg(feature = "redb")]
    "redb",
    #[cfg(feature = "fjall")]
    "fjall",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
];

type Pages = Cache<String, Vec<u8>>;

fn url(engine: &str, dir: &Path) -> String {
    format!("{engine}:{}?durability=interval", dir.display())
}

/// A cache whose values are the numbers of their loads.
fn pages(tier: Tier, loads: &Count) -> Pages {
    let loads = loads.clone();
    // Neighbours on the machine make calls slow, and none of these tests is about that.
    let tier = tier.prefix("p:").timeout(Duration::from_secs(60));
    let load = move |_: &String| Ok::<_, io::Error>(Some(loads.add().to_string().into_bytes()));
    Pages::builder().tier(tier, Raw).build(load).unwrap()
}

fn found(pages: &Pages, key: &str) -> Vec<Found> {
    let (value, way) = pages.explain(&key.to_owned());
    assert!(value.unwrap().is_some());
    way.steps.iter().map(|step| step.found).collect()
}

fn keys(count: u32) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

#[test]
fn every_engine_is_a_tier_that_survives_the_cache() {
    for engine in ENGINES {
        let (dir, loads) = (tempfile::tempdir().unwrap(), Count::default());
        let open = |schema| pages(Tier::open(&url(engine, dir.path())).schema(schema), &loads);
        let first = open(1);
        assert_eq!(
            found(&first, "0"),
            [
                Found::NotInMemory,
                Found::NotInTier,
                Found::Loaded,
                Found::Written
            ],
            "{engine}"
        );
        assert!(first.get_many(&keys(50)).iter().all(Result::is_ok));
        first.insert(&"1".to_owned(), b"inserted".to_vec());
        first.invalidate(&"2".to_owned());
        drop(first);
        let second = opened_again(|| open(1));
        assert_eq!(
            found(&second, "0"),
            [Found::NotInMemory, Found::InTier],
            "{engine}"
        );
        let values = second.get_many(&keys(50));
        let value = |at: usize| values[at].as_ref().unwrap().as_ref().unwrap().to_vec();
        assert_eq!(
            (value(0), value(1)),
            (b"1".to_vec(), b"inserted".to_vec()),
            "{engine}"
        );
        // All but the one that was invalidated.
        assert_eq!((loads.get(), value(2)), (51, b"51".to_vec()), "{engine}");
        drop(second);
        // A value that does not decode is a miss and is replaced.
        let newer = opened_again(|| open(2));
        assert_eq!(
            found(&newer, "0")[1..],
            [Found::OtherVersion, Found::Loaded, Found::Written],
            "{engine}"
        );
    }
}

/// The threads in the background end, and close the files, after the last handle of a cache is gone.
fn opened_again(open: impl Fn() -> Pages) -> Pages {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&open));
        match opened {
            Ok(pages) => return pages,
            Err(panic) if Instant::now() > until => std::panic::resume_unwind(panic),
            Err(_) => std::thread::sleep(MS),
        }
    }
}

#[test]
fn store_in_an_engine_does_what_every_store_does() {
    for engine in ENGINES {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&url(engine, dir.path())).unwrap();
        let get = |key: &[u8]| store.get(key).unwrap();
        store.put(b"a", b"1").unwrap();
        assert!(
            store.delete(b"a").unwrap() && !store.delete(b"a").unwrap(),
            "{engine}"
        );
        assert!(
            store.compare_and_swap(b"a", None, Some(b"2")).unwrap(),
            "{engine}"
        );
        assert!(
            !store.compare_and_swap(b"a", Some(b"1"), None).unwrap(),
            "{engine}"
        );
        store.put_for(b"b", b"3", MS).unwrap();
        super::wait_until("a value does not expire", || get(b"b").is_none());
        assert!(!store.delete(b"b").unwrap(), "{engine}");
        let mut batch = Batch::new();
        batch
            .put(b"p:1", b"x")
            .put_for(b"p:2", b"", 3_600_000 * MS)
            .delete(b"a");
        store.apply(&batch).unwrap();
        let many = store.get_many(&[b"p:2", b"a", b"p:1"]).unwrap();
        assert_eq!(many, [Some(vec![]), None, Some(b"x".to_vec())], "{engine}");
        store.put(b"q", b"").unwrap();
        let mut seen = Vec::new();
        let show = &mut |key: &[u8], _: &[u8]| seen.push(key.to_vec());
        store.scan(b"p:", show).unwrap();
        seen.sort_unstable();
        assert_eq!(seen, [b"p:1", b"p:2"], "{engine}");
        store.scan(b"", &mut |_, _| ()).unwrap();
    }
}

/// A key that LMDB or fjall cannot keep is loaded, and neither fails a request nor waits in the backlog.
#[cfg(all(feature = "heed", feature = "fjall"))]
#[test]
fn keys_that_an_engine_cannot_keep_do_without_it() {
    for (engine, longest) in [("heed", 511), ("fjall", 65_535)] {
        let (dir, loads) = (tempfile::tempdir().unwrap(), Count::default());
        let pages = pages(Tier::open(&url(engine, dir.path())), &loads);
        let (fits, long) = ("k".repeat(longest - 2), "k".repeat(longest - 1));
        assert_eq!(found(&pages, &fits)[1], Found::NotInTier, "{engine}");
        assert_eq!(
            found(&pages, &long)[1..],
            [Found::UnfitKey, Found::Loaded],
            "{engine}"
        );
        pages.insert(&long, b"inserted".to_vec());
        pages.invalidate(&long);
        let both = pages.get_many(&[long.clone(), fits]);
        assert!(both.iter().all(Result::is_ok));
        let stats = pages.stats().tier.unwrap();
        assert_eq!(
            (stats.get_errors, stats.put_errors, stats.backlog),
            (0, 0, 0),
            "{engine}"
        );
        assert_eq!(stats.unfit_keys, 2, "{engine}");
        let store = open("ram").unwrap();
        assert!(store.keeps(long.as_bytes()));
    }
}

/// Expired values do not pile up: writing removes them, whether or not anything asks for them again.
#[cfg(feature = "heed")]
#[test]
fn expired_values_are_removed_as_others_are_written() {
    use loadline_cache::engines::{Engine, Lmdb};

    let dir = tempfile::tempdir().unwrap();
    let store = open(&url("heed", dir.path())).unwrap();
    for number in 0..2_000_u32 {
        store.put_for(&number.to_be_bytes(), b"short", MS).unwrap();
    }
    std::thread::sleep(2 * MS);
    for number in 0..2_000_u32 {
        let key = (number % 10 + 10_000).to_be_bytes();
        store.put_for(&key, b"long", 3_600_000 * MS).unwrap();
    }
    drop(store);
    let engine = Lmdb::open(dir.path(), loadline_store::Durability::Process).unwrap();
    let mut kept = 0;
    let count = |_: &[u8], _: &[u8]| {
        kept += 1;
        std::ops::ControlFlow::Continue(())
    };
    engine.walk(b"", count).unwrap();
    assert_eq!(kept, 10);
}

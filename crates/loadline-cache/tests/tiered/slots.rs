//! Several processes over a cluster, whose masters report changes to each of them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loadline_cache::codec::Raw;
use loadline_cache::{AsyncCache, Cache, Tier, TierStats, WriteMode};

use super::cluster::{Cluster, runtime};
use super::{MS, wait_until};

/// Keys on all masters.
const KEYS: u32 = 60;

type Pages = Cache<u32, Vec<u8>>;

/// The number that the loads return, and that the writer changes.
#[derive(Clone, Default)]
struct Source(Arc<AtomicU64>);

impl Source {
    fn text(&self) -> Vec<u8> {
        self.0.load(Ordering::SeqCst).to_string().into_bytes()
    }
}

fn tier(servers: &Cluster, mode: WriteMode) -> Tier {
    let tier = Tier::open(&servers.url()).prefix("p:").mode(mode);
    tier.timeout(1_000 * MS).tracked()
}

fn threads(servers: &Cluster, mode: WriteMode, source: &Source) -> Pages {
    let source = source.clone();
    let pages = Pages::builder().tier(tier(servers, mode), Raw);
    let pages = pages.build(move |_| Ok::<_, io::Error>(Some(source.text())));
    let pages = pages.unwrap();
    wait_until("changes are not reported", || stats(&pages).is_tracking);
    pages
}

fn stats(pages: &Pages) -> TierStats {
    pages.stats().tier.unwrap()
}

/// A process that only reads. What it loads it does not write, where it could replace what another one has written since.
trait Reader: Sync {
    fn seen(&self, key: u32) -> Vec<u8>;
    fn stats(&self) -> TierStats;
}

impl Reader for Pages {
    fn seen(&self, key: u32) -> Vec<u8> {
        self.get(&key).unwrap().unwrap().to_vec()
    }

    fn stats(&self) -> TierStats {
        stats(self)
    }
}

/// A cache for tasks, and its runtime.
struct Tasks(AsyncCache<u32, Vec<u8>>, tokio::runtime::Runtime);

impl Tasks {
    fn open(servers: &Cluster, source: &Source) -> Self {
        let (source, runtime) = (source.clone(), runtime());
        let tier = tier(servers, WriteMode::ReadOnly);
        let pages = AsyncCache::<u32, Vec<u8>>::builder().tier(tier, Raw);
        let load = move |_| {
            let text = source.text();
            async move { Ok::<_, io::Error>(Some(text)) }
        };
        let pages = runtime.block_on(async { pages.build_async(load).await.unwrap() });
        wait_until("changes are not reported", || {
            pages.stats().tier.unwrap().is_tracking
        });
        Self(pages, runtime)
    }
}

impl Reader for Tasks {
    fn seen(&self, key: u32) -> Vec<u8> {
        let value = self.1.block_on(self.0.get(&key));
        value.unwrap().unwrap().to_vec()
    }

    fn stats(&self) -> TierStats {
        self.0.stats().tier.unwrap()
    }
}

/// Writes all keys, and waits until the cluster has them.
fn write(writer: &Pages, source: &Source, number: u64) {
    source.0.store(number, Ordering::SeqCst);
    (0..KEYS).for_each(|key| writer.insert(&key, source.text()));
    wait_until("not all is written", || writer.flush() == 0);
}

/// Waits until a reader sees the newest values. They stay then.
fn sees_all(reader: &dyn Reader, source: &Source) {
    wait_until("changes are not reported", || reader.stats().is_tracking);
    for key in 0..KEYS {
        wait_until("an older value stays", || reader.seen(key) == source.text());
    }
    (0..KEYS).for_each(|key| assert_eq!(reader.seen(key), source.text()));
}

/// One process writes, two others read all the time, and a master is lost.
#[test]
fn no_older_value_stays_when_a_replica_takes_over() {
    let mut servers = Cluster::start();
    let source = Source::default();
    let writer = threads(&servers, WriteMode::Through, &source);
    let tasks = Tasks::open(&servers, &source);
    let pages = threads(&servers, WriteMode::ReadOnly, &source);
    let readers: [&dyn Reader; 2] = [&pages, &tasks];
    let (lost, is_over) = (servers.masters()[1].node(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for reader in readers {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    (0..KEYS).for_each(|key| drop(reader.seen(key)));
                }
            });
        }
        // Ends the threads, in whatever way the test ends.
        let over = Over(&is_over);
        write(&writer, &source, 1);
        readers.iter().for_each(|reader| sees_all(*reader, &source));
        let before = readers.map(|reader| reader.stats());
        for before in &before {
            assert!(before.changed >= u64::from(KEYS), "{before:?}");
        }
        servers.kill(&lost);
        write(&writer, &source, 2);
        for (reader, before) in readers.iter().zip(&before) {
            wait_until("the new master does not report", || {
                reader.stats().gaps > before.gaps && reader.stats().is_tracking
            });
            sees_all(*reader, &source);
        }
        // The new master reports as the old one did.
        write(&writer, &source, 3);
        readers.iter().for_each(|reader| sees_all(*reader, &source));
        drop(over);
    });
}

/// Says that the test is over when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

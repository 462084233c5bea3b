//! Hits and inserts in memory, of this cache, of the quick_cache below it, and of moka: a number of them, which
//! `cargo xtask peers cache` times and counts. `ours`, `ours-ttl`, `quick`, `moka` and `moka-ttl` hit; with `-insert` behind
//! them, they replace values.

use std::error::Error;
use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use loadline_cache::Cache;

const KEYS: u64 = 10_000;
const BUDGET: u64 = 64 << 20;
const TTL: Duration = Duration::from_secs(600);
type Value = [u8; 100];

/// A weight like that of this cache: read from the value.
#[derive(Clone)]
struct Weight;

impl quick_cache::Weighter<u64, Arc<Value>> for Weight {
    fn weight(&self, _: &u64, value: &Arc<Value>) -> u64 {
        value.len() as u64
    }
}

fn repeat(count: u64, mut operation: impl FnMut(u64)) {
    (0..KEYS + count).for_each(|number| operation(number % KEYS));
}

fn ours(ttl: Option<Duration>, inserts: bool, count: u64) -> Result<(), Box<dyn Error>> {
    let mut builder = Cache::<u64, Value>::builder();
    if let Some(ttl) = ttl {
        builder = builder.ttl(ttl);
    }
    let cache = builder.build(|_| Ok::<_, io::Error>(Some([0; 100])))?;
    (0..KEYS).for_each(|key| cache.insert(&key, [0; 100]));
    match inserts {
        true => repeat(count, |key| cache.insert(&key, [0; 100])),
        false => repeat(count, |key| drop(black_box(cache.get(&key)))),
    }
    Ok(())
}

fn quick(inserts: bool, count: u64) {
    let cache = quick_cache::sync::Cache::with_weighter(KEYS as usize, BUDGET, Weight);
    (0..KEYS).for_each(|key| cache.insert(key, Arc::new([0; 100])));
    match inserts {
        true => repeat(count, |key| cache.insert(key, Arc::new([0; 100]))),
        false => repeat(count, |key| drop(black_box(cache.get(&key)))),
    }
}

fn moka(ttl: Option<Duration>, inserts: bool, count: u64) {
    let mut builder = moka::sync::Cache::builder()
        .weigher(|_, value: &Arc<Value>| value.len() as u32)
        .max_capacity(BUDGET);
    if let Some(ttl) = ttl {
        builder = builder.time_to_live(ttl);
    }
    let cache = builder.build();
    (0..KEYS).for_each(|key| cache.insert(key, Arc::new([0; 100])));
    match inserts {
        true => repeat(count, |key| cache.insert(key, Arc::new([0; 100]))),
        false => repeat(count, |key| drop(black_box(cache.get(&key)))),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [subject, count] = &args[..] else {
        return Err("instructions SUBJECT COUNT".into());
    };
    let (name, inserts) = match subject.strip_suffix("-insert") {
        Some(name) => (name, true),
        None => (&subject[..], false),
    };
    let count = count.parse()?;
    match name {
        "ours" => ours(None, inserts, count)?,
        "ours-ttl" => ours(Some(TTL), inserts, count)?,
        "quick" => quick(inserts, count),
        "moka" => moka(None, inserts, count),
        "moka-ttl" => moka(Some(TTL), inserts, count),
        _ => return Err("the subject is ours, ours-ttl, quick, moka or moka-ttl".into()),
    }
    Ok(())
}

//! Hits and inserts in memory, of this cache and of the quick_cache below it, to be counted:
//!
//! ```sh
//! cargo build --release --manifest-path peers/Cargo.toml -p cache-peers --example instructions
//! for count in 100000 200000; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null peers/target/release/examples/instructions ours $count
//! done
//! ```
//!
//! The difference of both counts is that of 100,000 operations. `ours`, `ours-ttl` and `quick` hit; with `-insert` behind
//! them, they replace values.

use std::error::Error;
use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use loadline_cache::Cache;

const KEYS: u64 = 10_000;
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
    let cache = quick_cache::sync::Cache::with_weighter(KEYS as usize, 64 << 20, Weight);
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
        "ours-ttl" => ours(Some(Duration::from_secs(600)), inserts, count)?,
        "quick" => quick(inserts, count),
        _ => return Err("the subject is ours, ours-ttl or quick".into()),
    }
    Ok(())
}

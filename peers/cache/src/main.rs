//! loadline-cache beside quick_cache, moka and redis-rs, in turns: hits and inserts in memory, hits in Redis, multi-gets,
//! invalidations, a frozen server, and a store that is opened again.
//!
//! Each figure is the median of rounds in which all arms take turns. In memory, all keep `Arc`s, have the same budget in
//! bytes and the same weights; quick_cache has no time to live, the others have one of ten minutes.
//!
//! ```sh
//! cargo run --release --manifest-path peers/Cargo.toml -p cache-peers
//! ```

mod hits;
mod invalidations;
#[expect(
    dead_code,
    unused_imports,
    reason = "the floors and codecs of `loadline tiers`, of which some parts are for that command"
)]
#[path = "../../../crates/loadline/src/object/mod.rs"]
mod object;
mod tiers;

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loadline_cache::Cache;
use loadline_measure::quantile::median;
use quick_cache::Weighter;

/// Rounds, of each of which a figure is the median.
pub(crate) const ROUNDS: usize = 21;
const OPERATIONS: u64 = 100_000;
const KEYS: u64 = 10_000;
const VALUE_BYTES: u64 = 100;
/// Room for all keys.
const BUDGET: u64 = 64 << 20;
/// Room for a tenth of the keys.
const SMALL_BUDGET: u64 = KEYS * VALUE_BYTES / 10;
const TTL: Duration = Duration::from_secs(600);

type Value = [u8; VALUE_BYTES as usize];

#[derive(Clone)]
struct Weight;

impl Weighter<u64, Arc<Value>> for Weight {
    fn weight(&self, _: &u64, _: &Arc<Value>) -> u64 {
        VALUE_BYTES
    }
}

/// A subject of the measurement.
trait Subject {
    fn hit(&self, key: u64);
    fn insert(&self, key: u64);
}

struct Ours(Cache<u64, Value>);

impl Subject for Ours {
    fn hit(&self, key: u64) {
        let value = self.0.get(&key).expect("loads do not fail");
        black_box(value.expect("every object exists"));
    }

    fn insert(&self, key: u64) {
        self.0.insert(&key, [0; VALUE_BYTES as usize]);
    }
}

struct Quick(quick_cache::sync::Cache<u64, Arc<Value>, Weight>);

impl Subject for Quick {
    fn hit(&self, key: u64) {
        black_box(self.0.get(&key).expect("it was inserted"));
    }

    fn insert(&self, key: u64) {
        self.0.insert(key, Arc::new([0; VALUE_BYTES as usize]));
    }
}

struct Moka(moka::sync::Cache<u64, Arc<Value>>);

impl Subject for Moka {
    fn hit(&self, key: u64) {
        black_box(self.0.get(&key).expect("it was inserted"));
    }

    fn insert(&self, key: u64) {
        self.0.insert(key, Arc::new([0; VALUE_BYTES as usize]));
    }
}

fn ours(budget: u64, ttl: Option<Duration>) -> Ours {
    let mut builder = Cache::builder().memory(budget, |_, _: &Value| VALUE_BYTES);
    if let Some(ttl) = ttl {
        builder = builder.ttl(ttl);
    }
    let load = |_: &u64| Ok::<_, io::Error>(Some([0; VALUE_BYTES as usize]));
    Ours(builder.build(load).expect("the settings are valid"))
}

fn subjects(budget: u64) -> Vec<(&'static str, Box<dyn Subject>)> {
    let items = (budget / VALUE_BYTES) as usize;
    let quick = quick_cache::sync::Cache::with_weighter(items, budget, Weight);
    let moka = || {
        let builder = moka::sync::Cache::builder().weigher(|_, _| VALUE_BYTES as u32);
        builder.max_capacity(budget)
    };
    vec![
        ("loadline-cache, no end", Box::new(ours(budget, None))),
        ("loadline-cache, ttl", Box::new(ours(budget, Some(TTL)))),
        ("quick_cache", Box::new(Quick(quick))),
        ("moka, no end", Box::new(Moka(moka().build()))),
        (
            "moka, ttl",
            Box::new(Moka(moka().time_to_live(TTL).build())),
        ),
    ]
}

/// The median nanoseconds of an operation for each subject.
fn measure(
    subjects: &[(&str, Box<dyn Subject>)],
    operation: impl Fn(&dyn Subject, u64),
) -> Vec<f64> {
    let mut times = vec![Vec::new(); subjects.len()];
    for round in 0..ROUNDS {
        for turn in 0..subjects.len() {
            let index = (turn + round) % subjects.len();
            let start = Instant::now();
            for number in 0..OPERATIONS {
                // Keys in an order that the processor does not foresee.
                let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS;
                operation(&*subjects[index].1, key);
            }
            times[index].push(start.elapsed().as_nanos() as f64 / OPERATIONS as f64);
        }
    }
    times.iter().map(|times| middle(times)).collect()
}

/// The median of some rounds.
pub(crate) fn middle(times: &[f64]) -> f64 {
    median(times).expect("there are rounds")
}

/// Measures all, or the part that the first argument names: `memory`, `hits`, `batches`,
/// `invalidations`, `frozen` or `reopen`.
fn main() -> anyhow::Result<()> {
    let part = std::env::args().nth(1);
    let wanted = |name: &str| part.as_deref().is_none_or(|part| part == name);
    if wanted("memory") {
        memory();
    }
    if wanted("hits") {
        hits::run()?;
    }
    if wanted("invalidations") {
        invalidations::run()?;
    }
    tiers::run(wanted)
}

fn memory() {
    let roomy = subjects(BUDGET);
    for (_, subject) in &roomy {
        (0..KEYS).for_each(|key| subject.insert(key));
    }
    let hits = measure(&roomy, |subject, key| subject.hit(key));
    let inserts = measure(&roomy, |subject, key| subject.insert(key));
    let evictions = measure(&subjects(SMALL_BUDGET), |subject, key| subject.insert(key));
    println!(
        "{:<24} {:>8} {:>8} {:>16}",
        "ns", "hit", "insert", "insert and evict"
    );
    for (index, (name, _)) in roomy.iter().enumerate() {
        println!(
            "{name:<24} {:>8.0} {:>8.0} {:>16.0}",
            hits[index], inserts[index], evictions[index]
        );
    }
    println!(
        "a hit takes {:.2} times as long as in quick_cache (goal 1.5), with a time to live {:.2} times",
        hits[0] / hits[2],
        hits[1] / hits[2]
    );
}

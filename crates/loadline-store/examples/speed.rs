//! Nanoseconds per operation of a store, in a directory or in memory: `cargo run --release -p loadline-store --example
//! speed -- [DIRECTORY]`.
//!
//! Each figure is that of the fastest tenth of many short blocks, and the median block is in brackets: on a machine that
//! does other work, the former changes less from run to run.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use loadline_measure::quantile::median;
use loadline_store::{Batch, Durability, Error, Options, Store};

const KEYS: u64 = 1_000_000;
const VALUE: [u8; 100] = [7; 100];
const BLOCK: usize = 10_000;
const BLOCKS: usize = 200;
const BATCH: usize = 100;

/// The keys of a block, in an order that looks random.
struct Keys {
    block: Vec<[u8; 16]>,
    state: u64,
    among: u64,
}

impl Keys {
    fn new(among: u64) -> Self {
        Self {
            block: vec![],
            state: 0,
            among,
        }
    }

    fn prepare(&mut self, count: usize) {
        let (state, among) = (&mut self.state, self.among);
        let next = |_| {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (*state ^ (*state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            key((mixed ^ (mixed >> 32)) % among)
        };
        self.block.clear();
        self.block.extend((0..count).map(next));
    }
}

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let mut left = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    key
}

#[expect(clippy::disallowed_methods, reason = "an example that measures")]
fn timed(
    name: &str,
    among: u64,
    mut work: impl FnMut(&[[u8; 16]]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut keys = Keys::new(among);
    let mut blocks = Vec::with_capacity(BLOCKS);
    for _ in 0..BLOCKS {
        keys.prepare(BLOCK);
        let begun = Instant::now();
        work(&keys.block)?;
        blocks.push(begun.elapsed().as_nanos() as f64 / BLOCK as f64);
    }
    blocks.sort_by(f64::total_cmp);
    let fast = blocks[BLOCKS / 10];
    let middle = median(&blocks).expect("there are blocks");
    let _ = writeln!(
        std::io::stdout(),
        "{name:<24} {fast:>7.0} ns ({middle:>5.0})"
    );
    Ok(())
}

fn get(store: &Store, keys: &[[u8; 16]]) -> Result<(), Error> {
    let mut out = Vec::with_capacity(VALUE.len());
    for key in keys {
        out.clear();
        store.get_with(key, |value| {
            out.extend_from_slice(value.unwrap_or_default());
        })?;
        black_box(&out);
    }
    Ok(())
}

fn put(store: &Store, keys: &[[u8; 16]]) -> Result<(), Error> {
    keys.iter().try_for_each(|key| store.put(key, &VALUE))
}

fn get_batches(store: &Store, keys: &[[u8; 16]]) -> Result<(), Error> {
    let mut out = Vec::with_capacity(BATCH * VALUE.len());
    for keys in keys.chunks(BATCH) {
        out.clear();
        let keys = keys.iter().map(|key| &key[..]);
        store.get_many_with(keys, |_, value| {
            out.extend_from_slice(value.unwrap_or_default());
        })?;
        black_box(&out);
    }
    Ok(())
}

fn put_batches(store: &Store, keys: &[[u8; 16]]) -> Result<(), Error> {
    let mut batch = Batch::new();
    for keys in keys.chunks(BATCH) {
        batch.clear();
        for key in keys {
            batch.put(key, &VALUE);
        }
        store.apply(&batch)?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "an example that measures")]
fn main() -> Result<(), Error> {
    const FEW: u64 = 1_000;
    let dir = std::env::args().nth(1);
    let open = || match &dir {
        Some(dir) => Store::open(dir, Options::new()),
        None => Ok(Store::in_memory(Options::new())),
    };
    let store = open()?;
    for number in 0..KEYS {
        store.put(&key(number), &VALUE)?;
    }
    timed("GET, 1,000 keys", FEW, |keys| get(&store, keys))?;
    timed("GET", KEYS, |keys| get(&store, keys))?;
    timed("GET in batches of 100", KEYS, |keys| {
        get_batches(&store, keys)
    })?;
    timed("PUT, 1,000 keys", FEW, |keys| put(&store, keys))?;
    timed("PUT", KEYS, |keys| put(&store, keys))?;
    timed("PUT in batches of 100", KEYS, |keys| {
        put_batches(&store, keys)
    })?;
    let stats = store.stats();
    let _ = writeln!(std::io::stdout(), "{stats:?}");
    if dir.is_some() {
        let writer = store.writer(Durability::Always);
        let begun = Instant::now();
        let count = 500;
        (0..count).try_for_each(|number| writer.put(&key(number), &VALUE))?;
        let each = begun.elapsed().as_secs_f64() / count as f64;
        drop(store);
        let begun = Instant::now();
        drop(black_box(open()?));
        let opened = begun.elapsed();
        let _ = writeln!(
            std::io::stdout(),
            "PUT with fsync {:.0} us; open {opened:.2?}",
            each * 1e6
        );
    }
    Ok(())
}

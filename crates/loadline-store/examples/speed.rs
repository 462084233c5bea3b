//! Nanoseconds per operation of a store, in a directory or in memory: `cargo run --release -p loadline-store --example
//! speed -- [DIRECTORY]`.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use loadline_store::{Batch, Durability, Options, Store};

const KEYS: u64 = 1_000_000;
const VALUE: [u8; 100] = [7; 100];

#[expect(clippy::disallowed_methods, reason = "an example that measures")]
fn timed(name: &str, count: u64, mut work: impl FnMut(u64)) {
    let begun = Instant::now();
    (0..count).for_each(&mut work);
    let ns = begun.elapsed().as_nanos() as f64 / count as f64;
    let _ = writeln!(std::io::stdout(), "{name:<28} {ns:>9.0} ns");
}

/// Keys in an order that looks random.
fn key(number: u64) -> [u8; 16] {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS;
    let mut key = *b"key:000000000000";
    let mut left = mixed;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    key
}

fn main() -> Result<(), loadline_store::Error> {
    let dir = std::env::args().nth(1);
    let open = || match &dir {
        Some(dir) => Store::open(dir, Options::new()),
        None => Ok(Store::in_memory(Options::new())),
    };
    let store = open()?;
    let put = |number| store.put(&key(number), &VALUE);
    timed("PUT, new keys", KEYS, |number| drop(put(number)));
    timed("PUT, again", 3 * KEYS, |number| drop(put(number * 7)));
    timed("GET", 2 * KEYS, |number| {
        let length = store.get_with(&key(number * 3), |value| value.map(<[u8]>::len));
        let _ = black_box(length);
    });
    timed("GET, copied", KEYS, |number| {
        let _ = black_box(store.get(&key(number * 3)));
    });
    let mut batch = Batch::new();
    timed("PUT in batches of 100", KEYS, |number| {
        batch.put(&key(number * 11), &VALUE);
        if batch.len() == 100 {
            let _ = store.apply(&batch);
            batch.clear();
        }
    });
    if dir.is_some() {
        let writer = store.writer(Durability::Always);
        timed("PUT with fsync", 2_000, |number| {
            drop(writer.put(&key(number), &VALUE));
        });
        let stats = store.stats();
        let _ = writeln!(std::io::stdout(), "{stats:?}");
        drop(store);
        timed("open", 1, |_| drop(black_box(open())));
    }
    Ok(())
}

//! Nanoseconds per operation of a store, in a directory or in memory: `cargo run --release -p loadline-store --example
//! speed -- [DIRECTORY [VALUE_BYTES [KEYS]]]`.
//!
//! Each figure is that of the fastest tenth of many short blocks, and the median block is in brackets: on a machine that
//! does other work, the former changes less from run to run. The last figure is the CPU time of the calling
//! thread in the median block. Without KEYS, there are a million keys, or fewer with values
//! of more than 100 bytes, of which there are 100 MB.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use loadline_measure::quantile::median;
use loadline_store::{Batch, Durability, Error, Options, Store};
use rustix::time::{ClockId, clock_gettime};

const MOST_KEYS: u64 = 1_000_000;
const DATA_BYTES: u64 = 100_000_000;
/// Operations per block with values of 100 bytes.
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

/// CPU time of this thread, in nanoseconds.
fn cpu_ns() -> i64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec * 1_000_000_000 + spent.tv_nsec
}

/// The keys and values of a measurement.
struct Setting {
    keys: u64,
    value: Vec<u8>,
    /// Operations per block: larger values take longer.
    block: usize,
}

impl Setting {
    /// That of the command line's second and third argument.
    fn of(bytes: Option<String>, keys: Option<String>) -> Option<Self> {
        let bytes: u64 = bytes.map_or(Some(100), |bytes| bytes.parse().ok())?;
        let most = MOST_KEYS.min(DATA_BYTES / bytes.max(1)).max(1);
        let keys: u64 = keys.map_or(Some(most), |keys| keys.parse().ok())?;
        Some(Self {
            keys: keys.max(1),
            value: vec![7; usize::try_from(bytes).ok()?],
            block: BLOCK / (bytes / 1_000).clamp(1, 100) as usize,
        })
    }

    #[expect(clippy::disallowed_methods, reason = "an example that measures")]
    fn timed(
        &self,
        name: &str,
        among: u64,
        mut work: impl FnMut(&[[u8; 16]]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut keys = Keys::new(among);
        let mut blocks = Vec::with_capacity(BLOCKS);
        let mut cpu_blocks = Vec::with_capacity(BLOCKS);
        for _ in 0..BLOCKS {
            keys.prepare(self.block);
            let cpu_begun = cpu_ns();
            let begun = Instant::now();
            work(&keys.block)?;
            blocks.push(begun.elapsed().as_nanos() as f64 / self.block as f64);
            cpu_blocks.push((cpu_ns() - cpu_begun) as f64 / self.block as f64);
        }
        let cpu = median(&cpu_blocks).expect("there are blocks");
        blocks.sort_by(f64::total_cmp);
        let fast = blocks[BLOCKS / 10];
        let middle = median(&blocks).expect("there are blocks");
        let _ = writeln!(
            std::io::stdout(),
            "{name:<24} {fast:>7.0} ns ({middle:>5.0}), {cpu:>5.0} ns of CPU"
        );
        Ok(())
    }

    fn get(&self, store: &Store, keys: &[[u8; 16]]) -> Result<(), Error> {
        let mut out = Vec::with_capacity(self.value.len());
        for key in keys {
            out.clear();
            store.get_with(key, |value| {
                out.extend_from_slice(value.unwrap_or_default());
            })?;
            black_box(&out);
        }
        Ok(())
    }

    fn put(&self, store: &Store, keys: &[[u8; 16]]) -> Result<(), Error> {
        keys.iter().try_for_each(|key| store.put(key, &self.value))
    }

    fn get_batches(&self, store: &Store, keys: &[[u8; 16]]) -> Result<(), Error> {
        let mut out = Vec::with_capacity(BATCH * self.value.len());
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

    fn put_batches(&self, store: &Store, keys: &[[u8; 16]]) -> Result<(), Error> {
        let mut batch = Batch::new();
        for keys in keys.chunks(BATCH) {
            batch.clear();
            for key in keys {
                batch.put(key, &self.value);
            }
            store.apply(&batch)?;
        }
        Ok(())
    }
}

fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let dir = args.next();
    let Some(setting) = Setting::of(args.next(), args.next()) else {
        let _ = writeln!(std::io::stderr(), "speed [DIRECTORY [VALUE_BYTES [KEYS]]]");
        return Ok(());
    };
    let open = || match &dir {
        Some(dir) => Store::open(dir, Options::new()),
        None => Ok(Store::in_memory(Options::new())),
    };
    let store = open()?;
    for number in 0..setting.keys {
        store.put(&key(number), &setting.value)?;
    }
    let all = setting.keys;
    let few = all.min(1_000);
    let few_gets = format!("GET, {few} keys");
    let few_puts = format!("PUT, {few} keys");
    setting.timed(&few_gets, few, |keys| setting.get(&store, keys))?;
    setting.timed("GET", all, |keys| setting.get(&store, keys))?;
    setting.timed("GET in batches of 100", all, |keys| {
        setting.get_batches(&store, keys)
    })?;
    setting.timed(&few_puts, few, |keys| setting.put(&store, keys))?;
    setting.timed("PUT", all, |keys| setting.put(&store, keys))?;
    setting.timed("PUT in batches of 100", all, |keys| {
        setting.put_batches(&store, keys)
    })?;
    let stats = store.stats();
    let _ = writeln!(std::io::stdout(), "{stats:?}");
    if dir.is_some() {
        sync_and_open(store, &setting, open)?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "an example that measures")]
fn sync_and_open(
    store: Store,
    setting: &Setting,
    open: impl Fn() -> Result<Store, Error>,
) -> Result<(), Error> {
    let writer = store.writer(Durability::Always);
    let begun = Instant::now();
    let count = 500;
    (0..count).try_for_each(|number| writer.put(&key(number % setting.keys), &setting.value))?;
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
    Ok(())
}

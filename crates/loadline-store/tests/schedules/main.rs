//! Threads of a store in thousands of orders, chosen by shuttle: writers that share the syncs of the log, and snapshots
//! and batches while the log is reclaimed.
//!
//! The modules of the crate are compiled a second time here, with the locks of shuttle. With `LOADLINE_LONG=1` each test
//! tries 100,000 orders.

#![expect(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the modules of the crate are there as a whole, and few of their functions are used"
)]

#[path = "../../src/age.rs"]
mod age;
#[path = "../../src/arena.rs"]
mod arena;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/fields.rs"]
mod fields;
#[path = "../../src/index.rs"]
mod index;
#[path = "../../src/keyspace/mod.rs"]
mod keyspace;
#[path = "../../src/list.rs"]
mod list;
#[path = "../../src/log/mod.rs"]
mod log;
mod memory;
#[path = "../../src/page.rs"]
mod page;
#[path = "../../src/record.rs"]
mod record;
#[path = "../../src/shard/mod.rs"]
mod shard;
#[path = "../../src/slab.rs"]
mod slab;
#[path = "../../src/slot.rs"]
mod slot;
#[path = "../../src/sorted/mod.rs"]
mod sorted;
#[path = "../../src/storage/mod.rs"]
mod storage;
#[path = "../../src/store/mod.rs"]
mod store;
#[path = "../../src/stream/mod.rs"]
mod stream;
#[path = "../../src/table.rs"]
mod table;
#[path = "../../src/value.rs"]
mod value;

/// A clock that goes on by a millisecond whenever it is read, in the place of `src/clock.rs`: the same order of threads
/// takes the same time.
mod clock {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    thread_local! {
        /// As that of `src/clock.rs`, for the tests of the modules, which do not run here.
        pub(crate) static AHEAD_MS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }

    static NOW: AtomicU64 = AtomicU64::new(0);
    #[expect(
        clippy::disallowed_methods,
        reason = "there is no other way to get an instant"
    )]
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    pub(crate) fn now_ms() -> u64 {
        NOW.fetch_add(1, Ordering::Relaxed)
    }

    /// Lets time pass.
    pub(crate) fn advance(millis: u64) {
        NOW.fetch_add(millis, Ordering::Relaxed);
    }

    pub(crate) fn monotonic() -> Instant {
        *START + Duration::from_millis(now_ms())
    }

    pub(crate) fn millis(time: Duration) -> u64 {
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The locks of shuttle, in the place of `src/sync.rs`.
mod sync {
    use std::time::Duration;

    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
    pub(crate) use shuttle::thread_local;

    pub(crate) mod atomic {
        pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    }

    /// A store is opened by one thread: others would not be shuttle's.
    pub(crate) fn parallel_threads() -> usize {
        1
    }

    pub(crate) fn warm<T>(_: &Mutex<T>) {}

    /// With a timeout, it gives way to other threads once. (The timeouts of shuttle never end.)
    pub(crate) fn wait<'m, T>(
        changed: &Condvar,
        mutex: &'m Mutex<T>,
        guard: MutexGuard<'m, T>,
        timeout: Option<Duration>,
    ) -> MutexGuard<'m, T> {
        if timeout.is_none() {
            return changed.wait(guard).expect("no thread panics");
        }
        drop(guard);
        shuttle::thread::yield_now();
        mutex.lock().expect("no thread panics")
    }
}

// The examples in the documentation of the modules name these.
pub use error::Error;
pub use fields::Fields;
pub use keyspace::{Evicted, Keyspace, Snapshot, Tally};
pub use list::List;
pub use log::recovery::Torn;
pub use store::{Batch, Durability, Options, Store};
pub use table::{Bytes, Held, Table};
pub use value::{Change, Entry, Expiry, Members, Shape, Value, View};

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memory::Memory;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};

/// A store with few parts, and little in each segment of its log.
fn open(memory: &Memory, durability: Durability) -> Store {
    let options = Options::new()
        .durability(durability)
        .max_keys(1_000)
        .value_in_log_bytes(2_000)
        .segment_bytes(64 << 10)
        .slack_bytes(0)
        .burst_bytes(0);
    Store::open_on(Box::new(memory.clone()), options).expect("the storage does not fail")
}

/// Tries `work` in many orders of its threads.
fn in_many_orders(name: &str, work: fn()) {
    let is_long = std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1");
    let orders = if is_long { 100_000 } else { 300 };
    // Orders with a few changes between threads find other faults than those with many.
    let mut config = Config::new();
    // It says once that it takes every ordering for the strictest.
    config.silence_warnings = true;
    Runner::new(RandomScheduler::new(orders), config.clone()).run(work);
    Runner::new(PctScheduler::new(3, orders), config).run(work);
    let _ = writeln!(std::io::stdout(), "{name}: {} orders", 2 * orders);
}

/// Writes that were acknowledged have reached the disk, whichever thread has synced them.
fn writers_share_syncs() {
    let memory = Memory::default();
    let store = Arc::new(open(&memory, Durability::Always));
    // The first key makes the parts of the store, behind a lock that is not shuttle's.
    store.put(b"first", b"value").expect("it is written");
    let writers: Vec<_> = (0..3_u8)
        .map(|number| {
            let (memory, store) = (memory.clone(), Arc::clone(&store));
            thread::spawn(move || {
                for value in 0..2_u8 {
                    // Every second one begins a segment.
                    let value = vec![value; 1 + 40_000 * usize::from(value)];
                    store.put(&[number], &value).expect("it is written");
                    let crashed = open(&memory.crashed(), Durability::Process);
                    let found = crashed.get(&[number]).expect("it is read");
                    assert_eq!(found.as_ref(), Some(&value), "acknowledged and lost");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("it has not panicked");
    }
}

/// Syncs and writes of [`two_writers_share_most_syncs`], in all orders.
static SHARED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Two writers that write all the time seldom sync alone. If each sync began as soon as the last one had ended, the thread
/// that waited for it would begin the next one before the other thread has written again.
fn two_writers_share_most_syncs() {
    const WRITES: u64 = 6;
    /// Steps of a thread between two writes.
    const WORK: u64 = 60;
    let memory = Memory::default();
    let store = Arc::new(open(&memory, Durability::Always));
    store.put(b"first", b"value").expect("it is written");
    memory.slow_down();
    let before = memory.syncs();
    let writers = [1_u8, 2].map(|number| {
        let store = Arc::clone(&store);
        thread::spawn(move || {
            for value in 0..WRITES {
                let written = store.put(&[number], &value.to_le_bytes());
                written.expect("it is written");
                (0..WORK).for_each(|_| thread::yield_now());
            }
        })
    });
    for writer in writers {
        writer.join().expect("it has not panicked");
    }
    let syncs = memory.syncs() - before;
    assert!((WRITES..=2 * WRITES).contains(&syncs), "{syncs} syncs");
    SHARED[0].fetch_add(syncs, Ordering::Relaxed);
    SHARED[1].fetch_add(2 * WRITES, Ordering::Relaxed);
}

/// A snapshot shows all of a batch or nothing, and what it shows stays, also in the log, while two threads reclaim that.
fn snapshots_stay_while_the_log_is_reclaimed() {
    const KEYS: [&[u8]; 3] = [b"short", b"other", b"long"];
    let memory = Memory::default();
    let store = Arc::new(open(&memory, Durability::Process));
    let batch_of = |number: u8| {
        let mut batch = Batch::new();
        for (key, bytes) in KEYS.iter().zip([5, 70, 3_000]) {
            batch.put(key, &vec![number; bytes]);
        }
        batch
    };
    store.apply(&batch_of(0)).expect("it is written");
    let writing = Arc::clone(&store);
    let writer = thread::spawn(move || {
        for number in 1..3 {
            writing.apply(&batch_of(number)).expect("it is written");
        }
    });
    let compactors = [(); 2].map(|()| {
        let compacting = Arc::clone(&store);
        thread::spawn(move || compacting.compact().expect("it is written"))
    });
    let snapshot = store.snapshot();
    let number_of = |key: &[u8]| {
        let value = snapshot.get(key).expect("it is read");
        value.expect("it was there before the snapshot")[0]
    };
    let first = number_of(KEYS[0]);
    for _ in 0..2 {
        assert!(
            KEYS.iter().all(|key| number_of(key) == first),
            "half a batch"
        );
    }
    drop(snapshot);
    writer.join().expect("it has not panicked");
    for compactor in compactors {
        compactor.join().expect("it has not panicked");
    }
    drop(store);
    let opened = open(&memory, Durability::Process);
    for key in KEYS {
        let value = opened.get(key).expect("it is read");
        assert_eq!(
            value.map(|value| value[0]),
            Some(2),
            "the last batch is lost"
        );
    }
}

fn main() {
    // Such as `cargo test FILTER` and the listing of tests.
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if asked.iter().any(|asked| asked == "--list") {
        return;
    }
    let tests: [(&str, fn()); 3] = [
        ("writers_share_syncs", writers_share_syncs),
        ("two_writers_share_most_syncs", two_writers_share_most_syncs),
        (
            "snapshots_stay_while_the_log_is_reclaimed",
            snapshots_stay_while_the_log_is_reclaimed,
        ),
    ];
    // Behind them are flags, some with values.
    let filters: Vec<&String> = asked
        .iter()
        .take_while(|asked| !asked.starts_with('-'))
        .collect();
    for (name, work) in tests {
        if filters.is_empty() || filters.iter().any(|filter| name.contains(*filter)) {
            in_many_orders(name, work);
        }
    }
    let [syncs, writes] = SHARED.each_ref().map(|count| count.load(Ordering::Relaxed));
    let _ = writeln!(std::io::stdout(), "{syncs} syncs for {writes} writes");
    // It was more than six tenths when each sync began at once.
    assert!(syncs <= writes * 11 / 20, "many writers have synced alone");
}

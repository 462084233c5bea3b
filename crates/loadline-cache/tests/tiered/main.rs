//! The cache in tiers, by its public interface.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

mod apart;
#[path = "../../../loadline-client/tests/cluster/nodes.rs"]
#[expect(dead_code, reason = "the tests of the client use all of it")]
mod cluster;
mod engines;
mod faults;
#[cfg(feature = "postcard")]
mod floors;
mod hedged;
mod killed;
mod nodes;
mod processes;
mod redis;
mod shared;
mod slots;
mod stores;
mod tasks;
mod threads;
mod warm_up;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use cluster::port;
use loadline_cache::{Batch, Error, KeyValue, open};
use loadline_client::ServerError;

const MS: Duration = Duration::from_millis(1);

/// A count that a load raises.
#[derive(Clone, Default)]
struct Count(Arc<AtomicU64>);

impl Count {
    fn add(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Waits for a condition that other threads bring about.
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(MS);
    }
}

/// A store that can be told to fail, and counts its requests.
struct Faulty {
    store: Box<dyn KeyValue>,
    is_down: AtomicBool,
    /// The error reply to writes.
    refusal: Mutex<Option<&'static str>>,
    /// Whether writes fail with an error that says nothing.
    fails_writes: AtomicBool,
    /// Whether requests wait for the end of a pause.
    pause: Mutex<bool>,
    resumed: Condvar,
    requests: AtomicU64,
}

impl Faulty {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            store: open("ram").unwrap(),
            is_down: AtomicBool::new(false),
            refusal: Mutex::new(None),
            fails_writes: AtomicBool::new(false),
            pause: Mutex::new(false),
            resumed: Condvar::new(),
            requests: AtomicU64::new(0),
        })
    }

    fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    fn set_refusal(&self, refusal: Option<&'static str>) {
        *self.refusal.lock().unwrap() = refusal;
    }

    fn set_fails_writes(&self, fails_writes: bool) {
        self.fails_writes.store(fails_writes, Ordering::SeqCst);
    }

    fn set_paused(&self, is_paused: bool) {
        *self.pause.lock().unwrap() = is_paused;
        self.resumed.notify_all();
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    fn pass(&self) -> Result<&dyn KeyValue, Error> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let pause = self.pause.lock().unwrap();
        drop(self.resumed.wait_while(pause, |paused| *paused).unwrap());
        match self.is_down.load(Ordering::SeqCst) {
            true => Err(loadline_client::Error::Closed {
                maybe_executed: true,
            }
            .into()),
            false => Ok(&*self.store),
        }
    }

    /// A Redis server that is full still removes keys.
    fn pass_write(&self, is_delete: bool) -> Result<&dyn KeyValue, Error> {
        let store = self.pass()?;
        if self.fails_writes.load(Ordering::SeqCst) {
            return Err(Error::Engine("the disk is full".into()));
        }
        match *self.refusal.lock().unwrap() {
            Some(text) if !is_delete || !text.starts_with("OOM ") => {
                let refusal = ServerError::new(text.as_bytes());
                Err(loadline_client::Error::Server(refusal).into())
            }
            _ => Ok(store),
        }
    }
}

impl KeyValue for Faulty {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.pass()?.get(key)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        self.pass()?.get_many(keys)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.pass_write(false)?.put(key, value)
    }

    fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(), Error> {
        self.pass_write(false)?.put_for(key, value, ttl)
    }

    fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.pass_write(true)?.delete(key)
    }

    fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
    ) -> Result<bool, Error> {
        self.pass_write(false)?
            .compare_and_swap(key, expected, next)
    }

    fn apply(&self, batch: &Batch) -> Result<(), Error> {
        self.pass_write(false)?.apply(batch)
    }

    fn write_many(&self, batch: &Batch) -> Result<(), Error> {
        self.pass_write(false)?.write_many(batch)
    }

    fn scan(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        self.pass()?.scan(prefix, visit)
    }
}

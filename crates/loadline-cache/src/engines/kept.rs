//! An engine as a store: values with an expiry, which engines do not have.
//!
//! Each value begins with the end of its time, in milliseconds since 1970 and little-endian; all ones are no end.

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Engine;
use crate::batch::Write;
use crate::{Batch, Error, KeyValue};

/// Bytes of the expiry.
const EXPIRY_BYTES: usize = 8;
const NO_END: u64 = u64::MAX;
/// Writes with an expiry between two walks that remove expired values, and the keys that a walk visits: two for each
/// write, so that there are never many more expired values than others.
const SWEEP_EVERY: u32 = 32;
const SWEEP_KEYS: usize = 64;

/// An engine whose values expire.
#[derive(Debug)]
pub(crate) struct EngineStore<E> {
    engine: E,
    /// Shared by writes, and held alone by what reads and then writes.
    writes: RwLock<()>,
    sweep: Mutex<Sweep>,
}

/// Where the next walk begins.
#[derive(Debug, Default)]
struct Sweep {
    writes: u32,
    next: Vec<u8>,
}

impl<E: Engine> EngineStore<E> {
    pub(crate) fn new(engine: E) -> Self {
        Self {
            engine,
            writes: RwLock::new(()),
            sweep: Mutex::default(),
        }
    }

    fn check(key: &[u8]) -> Result<(), Error> {
        match E::keeps(key) {
            true => Ok(()),
            false => Err(Error::Key {
                key_bytes: key.len(),
            }),
        }
    }

    fn write(&self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<(), Error> {
        Self::check(key)?;
        let kept = kept(value, ttl);
        let shared = self.writes.read().unwrap_or_else(PoisonError::into_inner);
        self.engine.write_one(key, Some(&kept))?;
        drop(shared);
        self.wrote(usize::from(ttl.is_some()))
    }

    /// Counts writes with an expiry, and removes expired values now and then.
    fn wrote(&self, expiring: usize) -> Result<(), Error> {
        // Another thread walks at the moment.
        let Ok(mut sweep) = self.sweep.try_lock() else {
            return Ok(());
        };
        sweep.writes += u32::try_from(expiring).unwrap_or(u32::MAX / 2);
        while sweep.writes >= SWEEP_EVERY {
            sweep.writes -= SWEEP_EVERY;
            sweep.next = self.sweep(&sweep.next)?;
        }
        Ok(())
    }

    /// Removes what has expired among the next keys, and returns where to go on.
    fn sweep(&self, from: &[u8]) -> Result<Vec<u8>, Error> {
        let _alone = self.writes.write().unwrap_or_else(PoisonError::into_inner);
        let (now, mut visited) = (unix_ms(), 0);
        let (mut expired, mut next) = (Vec::new(), Vec::new());
        self.engine.walk(from, |key, value| {
            if visited == SWEEP_KEYS {
                next = key.to_vec();
                return ControlFlow::Break(());
            }
            visited += 1;
            if split(value).is_some_and(|(end, _)| end <= now) {
                expired.push(key.to_vec());
            }
            ControlFlow::Continue(())
        })?;
        if !expired.is_empty() {
            self.engine
                .write(expired.iter().map(|key| (&key[..], None)))?;
        }
        Ok(next)
    }
}

impl<E: Engine> KeyValue for EngineStore<E> {
    fn keeps(&self, key: &[u8]) -> bool {
        E::keeps(key)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let values = self.get_many(&[key])?;
        Ok(values.into_iter().next().flatten())
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        keys.iter().try_for_each(|key| Self::check(key))?;
        let (mut values, now) = (Vec::with_capacity(keys.len()), unix_ms());
        self.engine.read(keys.iter().copied(), |value| {
            values.push(value.and_then(|value| live(value, now)).map(<[u8]>::to_vec));
        })?;
        Ok(values)
    }

    fn visit_many(
        &self,
        keys: &[&[u8]],
        _: u64,
        visit: &mut dyn FnMut(Option<&[u8]>),
    ) -> Result<(), Error> {
        keys.iter().try_for_each(|key| Self::check(key))?;
        let now = unix_ms();
        let show = |value: Option<&[u8]>| visit(value.and_then(|value| live(value, now)));
        self.engine.read(keys.iter().copied(), show)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.write(key, value, None)
    }

    fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(), Error> {
        self.write(key, value, Some(ttl))
    }

    fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        let _alone = self.writes.write().unwrap_or_else(PoisonError::into_inner);
        let was_there = self.get(key)?.is_some();
        self.engine.write_one(key, None)?;
        Ok(was_there)
    }

    fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
    ) -> Result<bool, Error> {
        let _alone = self.writes.write().unwrap_or_else(PoisonError::into_inner);
        if self.get(key)?.as_deref() != expected {
            return Ok(false);
        }
        let kept = next.map(|value| kept(value, None));
        self.engine.write_one(key, kept.as_deref())?;
        Ok(true)
    }

    fn apply(&self, batch: &Batch) -> Result<(), Error> {
        let mut writes = Vec::with_capacity(batch.len());
        let mut expiring = 0;
        for write in &batch.writes {
            Self::check(write.key())?;
            writes.push(match write {
                Write::Put { key, value, ttl } => {
                    expiring += usize::from(ttl.is_some());
                    (&key[..], Some(kept(value, *ttl)))
                }
                Write::Delete { key } => (&key[..], None),
            });
        }
        let shared = self.writes.read().unwrap_or_else(PoisonError::into_inner);
        let writes = writes.iter().map(|(key, value)| (*key, value.as_deref()));
        self.engine.write(writes)?;
        drop(shared);
        self.wrote(expiring)
    }

    fn write_many(&self, batch: &Batch) -> Result<(), Error> {
        // One transaction costs less than one for each.
        self.apply(batch)
    }

    fn scan(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        self.walk(prefix, |key, value| {
            visit(key, value);
            ControlFlow::Continue(())
        })
    }

    fn scan_keys(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.walk(prefix, |key, _| visit(key))
    }
}

impl<E: Engine> EngineStore<E> {
    /// Shows `visit` the live keys with a prefix, until it breaks.
    fn walk(
        &self,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let now = unix_ms();
        self.engine.walk(prefix, |key, value| {
            if !key.starts_with(prefix) {
                return ControlFlow::Break(());
            }
            match live(value, now) {
                Some(value) => visit(key, value),
                None => ControlFlow::Continue(()),
            }
        })
    }
}

/// A value with its expiry.
fn kept(value: &[u8], ttl: Option<Duration>) -> Vec<u8> {
    let end = ttl.map_or(NO_END, |ttl| {
        let ms = u64::try_from(ttl.as_millis()).unwrap_or(NO_END);
        unix_ms().saturating_add(ms)
    });
    let mut kept = Vec::with_capacity(EXPIRY_BYTES + value.len());
    kept.extend_from_slice(&end.to_le_bytes());
    kept.extend_from_slice(value);
    kept
}

/// The end of a value, and the value. Bytes that are too short are of no store like this one.
fn split(kept: &[u8]) -> Option<(u64, &[u8])> {
    let (end, value) = kept.split_first_chunk()?;
    Some((u64::from_le_bytes(*end), value))
}

/// The value, if it has not expired.
fn live(kept: &[u8], now_ms: u64) -> Option<&[u8]> {
    let (end, value) = split(kept)?;
    (end > now_ms).then_some(value)
}

fn unix_ms() -> u64 {
    // Before 1970, nothing has expired.
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(time.unwrap_or_default().as_millis()).unwrap_or(u64::MAX - 1)
}

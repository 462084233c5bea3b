//! An engine as a store: values with an expiry, which engines do not have.
//!
//! Each value begins with the end of its time, in milliseconds since 1970 and little-endian; all ones are no end. In a bare
//! store, a value is what was put.

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
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

/// The error of a store whose values have no expiry.
const NO_EXPIRY: Error = Error::Settings("the values of a bare engine have no expiry");

/// An engine as a store.
#[derive(Debug)]
pub struct EngineStore<E> {
    engine: E,
    /// Whether values begin with their expiry.
    has_expiries: bool,
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
    /// A store whose values can expire, as [`open`](crate::open) opens it. Each takes 8 bytes more than what was put.
    pub fn new(engine: E) -> Self {
        Self::of(engine, true)
    }

    /// A store whose values are the bytes that were put. [`put_for`](KeyValue::put_for) and batches with a time to live fail
    /// with [`Error::Settings`]. A directory is opened in one of the two ways, always the same.
    pub fn bare(engine: E) -> Self {
        Self::of(engine, false)
    }

    fn of(engine: E, has_expiries: bool) -> Self {
        Self {
            engine,
            has_expiries,
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

    fn shared(&self) -> RwLockReadGuard<'_, ()> {
        self.writes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.writes.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<(), Error> {
        Self::check(key)?;
        if !self.has_expiries {
            return match ttl {
                None => {
                    let _shared = self.shared();
                    self.engine.write_one(key, Some(value))
                }
                Some(_) => Err(NO_EXPIRY),
            };
        }
        let kept = kept(value, ttl);
        let shared = self.shared();
        self.engine.write_one(key, Some(&kept))?;
        drop(shared);
        self.wrote(usize::from(ttl.is_some()))
    }

    /// Performs the writes of a batch on an engine whose values have no expiry.
    fn apply_bare(&self, batch: &Batch) -> Result<(), Error> {
        for write in batch.writes() {
            Self::check(write.key())?;
            if let Write::Put { ttl: Some(_), .. } = write {
                return Err(NO_EXPIRY);
            }
        }
        let _shared = self.shared();
        self.engine.write(batch.iter())
    }

    /// The time now, which only an expiry is compared with.
    fn now_ms(&self) -> u64 {
        if self.has_expiries { unix_ms() } else { 0 }
    }

    /// The value in what the engine has, unless it has expired at the time `now_ms`.
    fn live<'v>(&self, kept: &'v [u8], now_ms: u64) -> Option<&'v [u8]> {
        if self.has_expiries {
            live(kept, now_ms)
        } else {
            Some(kept)
        }
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
        let _alone = self.alone();
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

    fn get_into(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        Self::check(key)?;
        let (mut is_there, now) = (false, self.now_ms());
        self.engine.read(std::iter::once(key), |value| {
            if let Some(value) = value.and_then(|value| self.live(value, now)) {
                out.extend_from_slice(value);
                is_there = true;
            }
        })?;
        Ok(is_there)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let mut values = Vec::with_capacity(keys.len());
        let mut copy = |value: Option<&[u8]>| values.push(value.map(<[u8]>::to_vec));
        self.visit_many(keys, 0, &mut copy)?;
        Ok(values)
    }

    fn visit_many(
        &self,
        keys: &[&[u8]],
        _: u64,
        visit: &mut dyn FnMut(Option<&[u8]>),
    ) -> Result<(), Error> {
        keys.iter().try_for_each(|key| Self::check(key))?;
        let now = self.now_ms();
        let show = |value: Option<&[u8]>| visit(value.and_then(|value| self.live(value, now)));
        self.engine.read(keys.iter().copied(), show)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.write(key, value, None)
    }

    fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(), Error> {
        self.write(key, value, Some(ttl))
    }

    fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        let _alone = self.alone();
        let was_there = self.get(key)?.is_some();
        self.engine.write_one(key, None)?;
        Ok(was_there)
    }

    fn remove(&self, key: &[u8]) -> Result<(), Error> {
        Self::check(key)?;
        let _shared = self.shared();
        self.engine.write_one(key, None)
    }

    fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
    ) -> Result<bool, Error> {
        let _alone = self.alone();
        if self.get(key)?.as_deref() != expected {
            return Ok(false);
        }
        let framed = next.filter(|_| self.has_expiries);
        let framed = framed.map(|value| kept(value, None));
        self.engine.write_one(key, framed.as_deref().or(next))?;
        Ok(true)
    }

    fn apply(&self, batch: &Batch) -> Result<(), Error> {
        if !self.has_expiries {
            return self.apply_bare(batch);
        }
        let mut writes = Vec::with_capacity(batch.len());
        let mut expiring = 0;
        for write in batch.writes() {
            Self::check(write.key())?;
            writes.push(match write {
                Write::Put { key, value, ttl } => {
                    expiring += usize::from(ttl.is_some());
                    (key, Some(kept(value, ttl)))
                }
                Write::Delete { key } => (key, None),
            });
        }
        let shared = self.shared();
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

    fn scan_from(
        &self,
        from: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, Error> {
        let (mut shown, now) = (0, self.now_ms());
        if count == 0 {
            return Ok(0);
        }
        self.engine.walk(from, |key, value| {
            if let Some(value) = self.live(value, now) {
                visit(key, value);
                shown += 1;
            }
            match shown == count {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        Ok(shown)
    }
}

impl<E: Engine> EngineStore<E> {
    /// Shows `visit` the live keys with a prefix, until it breaks.
    fn walk(
        &self,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let now = self.now_ms();
        self.engine.walk(prefix, |key, value| {
            if !key.starts_with(prefix) {
                return ControlFlow::Break(());
            }
            match self.live(value, now) {
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

#[cfg(all(test, feature = "redb"))]
mod tests {
    use loadline_store::Durability;

    use super::*;
    use crate::engines::Redb;

    #[test]
    fn bare_store_keeps_bytes_as_they_are_and_refuses_an_expiry() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Redb::open(dir.path(), Durability::Interval(Duration::MAX)).unwrap();
        let store = EngineStore::bare(engine.clone());
        store.put(b"a", b"1").unwrap();
        let mut batch = Batch::new();
        batch.put(b"b", b"2").put(b"c", b"3").delete(b"a");
        store.apply(&batch).unwrap();
        assert!(
            store
                .compare_and_swap(b"b", Some(b"2"), Some(b"4"))
                .unwrap()
        );
        let mut pairs = Vec::new();
        let add = |key: &[u8], value: &[u8]| {
            pairs.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        };
        engine.walk(b"", add).unwrap();
        assert_eq!(
            pairs,
            [
                (b"b".to_vec(), b"4".to_vec()),
                (b"c".to_vec(), b"3".to_vec())
            ]
        );
        let second = Duration::from_secs(1);
        batch.put_for(b"d", b"5", second);
        for refused in [store.put_for(b"d", b"5", second), store.apply(&batch)] {
            assert!(matches!(refused, Err(Error::Settings(_))));
        }
        assert_eq!(store.get(b"d").unwrap(), None);
    }
}

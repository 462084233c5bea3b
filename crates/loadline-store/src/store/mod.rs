//! A store of bytes by key, used as a library.

mod batch;
mod options;

use std::time::Duration;

pub use batch::Batch;
use batch::Write;
pub use options::{Durability, Options};

use crate::clock::{millis, now_ms};
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::value::{Value, View};

/// A store of bytes by key. Threads share it by reference (or in an `Arc`).
///
/// ```
/// use loadline_store::{Options, Store};
///
/// let store = Store::in_memory(Options::new());
/// store.put(b"greeting", b"hello")?;
/// assert_eq!(store.get(b"greeting")?.as_deref(), Some(&b"hello"[..]));
/// # Ok::<(), loadline_store::Error>(())
/// ```
#[derive(Debug)]
pub struct Store {
    keyspace: Keyspace,
    options: Options,
}

/// What a store holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Number of keys, including expired ones that are not freed yet.
    pub keys: u64,
    /// Bytes of memory that keys, values and tables take, without what an allocator adds.
    pub memory_bytes: u64,
}

impl Store {
    /// A store that keeps nothing on disk. Its durability has no effect.
    #[must_use]
    pub fn in_memory(options: Options) -> Self {
        Self {
            keyspace: Keyspace::new(),
            options,
        }
    }

    /// A copy of the value of `key`.
    ///
    /// # Errors
    /// [`Error::NotAString`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.get_with(key, |value| value.map(<[u8]>::to_vec))
    }

    /// Shows the value of `key` to `look` without copying it. `look` must not call this store.
    ///
    /// # Errors
    /// [`Error::NotAString`].
    #[inline]
    pub fn get_with<R>(
        &self,
        key: &[u8],
        look: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, Error> {
        self.keyspace.view(key, now_ms(), |view| match view {
            None => Ok(look(None)),
            Some(View::String(bytes)) => Ok(look(Some(bytes))),
            Some(other) => Err(Error::NotAString { kind: other.kind() }),
        })
    }

    /// Puts `value` at `key`, without an expiry.
    ///
    /// # Errors
    /// None for a store in memory.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.writer(self.options.durability).put(key, value)
    }

    /// Puts `value` at `key` for the time `ttl` from now on.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(), Error> {
        self.writer(self.options.durability)
            .put_for(key, value, ttl)
    }

    /// Removes `key` and returns whether it was there.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.writer(self.options.durability).delete(key)
    }

    /// Puts `next` at `key`, or removes it where `next` is `None`, if its value is `expected`; `None` expects no
    /// such key. Returns whether it did. The key has no expiry from then on.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
    ) -> Result<bool, Error> {
        self.writer(self.options.durability)
            .compare_and_swap(key, expected, next)
    }

    /// Performs the writes of `batch` as one.
    ///
    /// # Errors
    /// Those of [`put`](Self::put); none of the writes has happened then.
    pub fn apply(&self, batch: &Batch) -> Result<(), Error> {
        self.writer(self.options.durability).apply(batch)
    }

    /// The same store with another durability, for single writes.
    #[must_use]
    pub fn writer(&self, durability: Durability) -> Writer<'_> {
        Writer {
            store: self,
            durability,
        }
    }

    /// Continues a walk over the keys that begin with `prefix`: shows `visit` about `count` of them with
    /// their values and returns the cursor to continue from, 0 at the end. A walk starts with cursor 0.
    /// Keys that hold no string are passed over. `visit` must not call this store.
    ///
    /// A key that is there during the whole walk is shown exactly once, whatever else comes and goes.
    ///
    /// # Errors
    /// None for a store in memory.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, Error> {
        let next = self.keyspace.scan(cursor, count, now_ms(), |key, view| {
            if let View::String(value) = view
                && key.starts_with(prefix)
            {
                visit(key, value);
            }
        });
        Ok(next)
    }

    /// What the store holds now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            keys: self.keyspace.len() as u64,
            memory_bytes: self.keyspace.total_memory_bytes() as u64,
        }
    }

    /// Closes the store; everything written has reached the disk then.
    ///
    /// # Errors
    /// None for a store in memory.
    pub fn close(self) -> Result<(), Error> {
        Ok(())
    }
}

/// A [`Store`] with a durability for single writes.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'s> {
    store: &'s Store,
    durability: Durability,
}

impl Writer<'_> {
    /// As [`Store::put`].
    ///
    /// # Errors
    /// As of [`Store::put`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.put_until(key, value, None)
    }

    /// As [`Store::put_for`].
    ///
    /// # Errors
    /// As of [`Store::put`].
    pub fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(), Error> {
        self.put_until(key, value, Some(now_ms().saturating_add(millis(ttl))))
    }

    /// As [`Store::delete`].
    ///
    /// # Errors
    /// As of [`Store::put`].
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.store.keyspace.remove(key, now_ms()))
    }

    /// As [`Store::compare_and_swap`].
    ///
    /// # Errors
    /// As of [`Store::put`].
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
    ) -> Result<bool, Error> {
        use crate::value::{Change, Entry};
        let keyspace = &self.store.keyspace;
        keyspace.modify(key, now_ms(), |entry| {
            let is_expected = match entry.as_deref().map(|entry| entry.value.view()) {
                None => expected.is_none(),
                Some(View::String(bytes)) => expected == Some(bytes),
                Some(other) => {
                    let refused = Error::NotAString { kind: other.kind() };
                    return (Err(refused), Change::Keep);
                }
            };
            let change = match next {
                _ if !is_expected => Change::Keep,
                Some(bytes) => Change::Put(Entry::lasting(Value::String(bytes.to_vec()))),
                None => Change::Remove,
            };
            (Ok(is_expected), change)
        })
    }

    /// As [`Store::apply`].
    ///
    /// # Errors
    /// As of [`Store::apply`].
    pub fn apply(&self, batch: &Batch) -> Result<(), Error> {
        for write in &batch.writes {
            match write {
                Write::Put {
                    key,
                    value,
                    expires_at,
                } => self.put_until(key, value, *expires_at)?,
                Write::Delete { key } => {
                    self.delete(key)?;
                }
            }
        }
        Ok(())
    }

    /// The durability of its writes.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.durability
    }

    fn put_until(&self, key: &[u8], value: &[u8], expires_at: Option<u64>) -> Result<(), Error> {
        let keyspace = &self.store.keyspace;
        keyspace.put_string(key, value, now_ms(), |_| Some(expires_at));
        Ok(())
    }
}

//! The interface of a store of bytes, for threads.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::batch::Write;
use crate::leases::{CANNOT_LEASE, Leased, LeasedWrite};
use crate::steps::write_each;
use crate::{Batch, Error};

/// A store of bytes by key. Threads share it by reference (or in an `Arc`).
///
/// docs/growing.md says in a table what each store guarantees. An error of a server can leave open whether a write
/// has happened: [`loadline_client::Error::maybe_executed`].
pub trait KeyValue: Send + Sync {
    /// Whether the store can keep keys like this one. LMDB has none of 0 or of more than 511 bytes, fjall none of 0 or of
    /// more than 65,535.
    fn keeps(&self, key: &[u8]) -> bool {
        let _ = key;
        true
    }

    /// A copy of the value of `key`.
    ///
    /// # Errors
    /// Those of the store; also where the key holds a set, a hash or a list. [`Error::Key`] where the store cannot
    /// [keep](Self::keeps) the key, which is so for each function.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// Appends the value of `key` to `out`, and returns whether there is one. Costs no allocation where `out` has room.
    ///
    /// # Errors
    /// Those of [`get`](Self::get). `out` can then have a part of the value.
    fn get_into(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let mut is_there = false;
        self.visit_many(&[key], 0, &mut |value| {
            if let Some(value) = value {
                out.extend_from_slice(value);
                is_there = true;
            }
        })?;
        Ok(is_there)
    }

    /// Copies of the values of `keys`, in their order. They are read one after the other: writes can happen in between.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error>;

    /// Shows `visit` the values of `keys`, in their order, as [`get_many`](Self::get_many) copies them. All but a
    /// cluster lend them without a copy. `value_bytes` is the expected size of a value: large ones are asked of a
    /// server one by one in the same round trip, so that they are shown while others are still on their way. `visit` must
    /// not call this store. If there is an error, some values may have been shown.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    fn visit_many(
        &self,
        keys: &[&[u8]],
        value_bytes: u64,
        visit: &mut dyn FnMut(Option<&[u8]>),
    ) -> Result<(), Error> {
        let _ = value_bytes;
        match keys {
            [key] => visit(self.get(key)?.as_deref()),
            keys => {
                let values = self.get_many(keys)?;
                values.iter().for_each(|value| visit(value.as_deref()));
            }
        }
        Ok(())
    }

    /// Begins to [get](Self::get_many) values, and waits up to `patience` for them. Most stores cannot return before the
    /// values are there; a Redis server can.
    fn begin_get(&self, keys: &[&[u8]], patience: Duration) -> Begun {
        let _ = patience;
        Begun::Done(match keys {
            [key] => self.get(key).map(|value| vec![value]),
            keys => self.get_many(keys),
        })
    }

    /// Whether processes share the store, which then has leases. Servers and clusters do.
    fn is_shared(&self) -> bool {
        false
    }

    /// Takes the leases of `keys` with `token` for the time `ttl`, but for those that are taken, and then reads the keys. One
    /// round trip.
    ///
    /// The lease of a key is another key of the server: `lease:{KEY}`, or `lease:KEY` where the key has a hash tag. A
    /// [`LeasedWrite`] ends it, and other writes do not.
    ///
    /// # Errors
    /// Those of [`get`](Self::get); [`Error::Settings`] where the store has no leases.
    fn lease(&self, keys: &[&[u8]], token: &[u8], ttl: Duration) -> Result<Vec<Leased>, Error> {
        let _ = (keys, token, ttl);
        Err(CANNOT_LEASE)
    }

    /// Performs writes, each for itself, and returns for each whether it has happened: one with a token does not where
    /// the lease has another one or has ended. One round trip, by a script; up to two more for each write where the server
    /// has no scripts or the user must not call them. No key twice.
    ///
    /// # Errors
    /// Those of [`put`](Self::put); [`Error::Settings`] where the store has no leases.
    fn write_leased(&self, writes: &[LeasedWrite<'_>]) -> Result<Vec<bool>, Error> {
        let _ = writes;
        Err(CANNOT_LEASE)
    }

    /// Puts `value` at `key`, without an expiry.
    ///
    /// # Errors
    /// Those of the store; [`Error::Unconfirmed`] where replicas were asked for.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error>;

    /// Puts `value` at `key` for the time `ttl`, to the millisecond.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(), Error>;

    /// Removes `key` and returns whether it was there.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    fn delete(&self, key: &[u8]) -> Result<bool, Error>;

    /// Removes `key`. Costs less than [`delete`](Self::delete) where a store would have to read the key first.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    fn remove(&self, key: &[u8]) -> Result<(), Error> {
        self.delete(key).map(drop)
    }

    /// Puts `next` at `key`, or removes it where `next` is `None`, if its value is `expected`; `None` expects no such
    /// key. Returns whether it did. The key has no expiry from then on.
    ///
    /// # Errors
    /// Those of [`put`](Self::put) and [`get`](Self::get).
    fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
    ) -> Result<bool, Error>;

    /// Performs the writes of `batch` as one.
    ///
    /// # Errors
    /// Those of [`put`](Self::put); [`Error::Slots`].
    fn apply(&self, batch: &Batch) -> Result<(), Error>;

    /// Performs the writes of `batch` in their order, each for itself: others can see some of them, and some can happen
    /// although there is an error. On a server or a cluster, they are one round trip. Keys can be in different slots.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    fn write_many(&self, batch: &Batch) -> Result<(), Error> {
        write_each(self, batch)
    }

    /// Shows `visit` the keys that begin with `prefix`, with their values. A key that is there all the time is shown;
    /// on a server it can be shown twice. `visit` must not call this store.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    fn scan(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error>;

    /// Shows `visit` up to `count` keys with their values, from `from` on in the order of the store and up to its last key, and
    /// returns their number. Embedded engines have the order of the keys. `ram` and `store:DIR` have one of their own, in which
    /// the place of `from` follows from its bytes, and nothing comes before the empty key. `visit` must not call this store.
    ///
    /// # Errors
    /// Those of [`get`](Self::get); [`Error::Settings`] where the store has no order. Servers and clusters have none.
    fn scan_from(
        &self,
        from: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, Error> {
        let _ = (from, count, visit);
        Err(Error::Settings("a server has no order of its keys"))
    }

    /// Shows `visit` the keys that begin with `prefix`, as [`scan`](Self::scan) does, until it breaks. A server does not
    /// send their values.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    fn scan_keys(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let mut flow = ControlFlow::Continue(());
        self.scan(prefix, &mut |key, _| {
            if flow.is_continue() {
                flow = visit(key);
            }
        })
    }
}

/// A read that was [begun](KeyValue::begin_get).
pub enum Begun {
    /// It is over.
    Done(Result<Vec<Option<Vec<u8>>>, Error>),
    /// It is still under way, and the function waits for its end.
    Late(Rest),
}

/// Waits for the end of a read.
pub type Rest = Box<dyn FnOnce() -> Result<Vec<Option<Vec<u8>>>, Error> + Send>;

pub(crate) fn write_each<S: KeyValue + ?Sized>(store: &S, batch: &Batch) -> Result<(), Error> {
    write_each!(store, batch)
}

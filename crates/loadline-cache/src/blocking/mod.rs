//! The interface for threads.

/// Defines the walks of a store that has `pages` of keys.
macro_rules! scan_by_pages {
    () => {
        fn scan(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
            self.pages(prefix, |server, keys| {
                let values: Vec<Option<Vec<u8>>> = server.run(mget(keys))?;
                requests::show(keys, values, visit);
                Ok(ControlFlow::Continue(()))
            })
        }

        fn scan_keys(
            &self,
            prefix: &[u8],
            visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
        ) -> Result<(), Error> {
            self.pages(prefix, |_, keys| {
                Ok(keys.iter().try_for_each(|key| visit(key)))
            })
        }
    };
}

mod cluster;
mod local;
mod server;

use std::ops::ControlFlow;
use std::time::Duration;

use loadline_client::blocking::Connection;
use loadline_client::commands::{get, unwatch, watch};
use loadline_client::{Client, Cmd, FromReply, Request, atomic};
use loadline_store::{Options, Store};

use self::cluster::ClusterStore;
use self::server::ServerStore;
use crate::batch::Write;
use crate::leases::{CANNOT_LEASE, Leased, LeasedWrite, lease_key};
use crate::place::{Place, Wait};
use crate::steps::{apply_on, run_confirmed, swap_on, write_each, write_unscripted_on};
use crate::{Batch, Error, requests};

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

/// Opens the store that `url` names.
///
/// | URL | options |
/// | --- | --- |
/// | `ram` | |
/// | `store:DIR`, and with the feature of their name `heed:DIR` (LMDB), `redb:DIR`, `fjall:DIR`, `rocksdb:DIR` | `durability=process` (default), `interval` (with `interval_ms=1000`) or `always` |
/// | `redis://`, `rediss://`, `unix://`, `cluster://`, `clusters://` | `wait_replicas=N` (with `wait_ms=1000`): each write waits for replicas; and those of [`loadline_client::Config::from_url`] |
///
/// # Errors
/// [`Error::Url`]; those of opening.
pub fn open(url: &str) -> Result<Box<dyn KeyValue>, Error> {
    open_place(Place::parse(url)?)
}

/// Opens the store on the server that `client` calls, for settings that no URL has.
///
/// # Errors
/// [`Error::Client`] if there is no first connection.
pub fn connect(client: Client) -> Result<Box<dyn KeyValue>, Error> {
    Ok(Box::new(ServerStore::open(client, None)?))
}

pub(crate) fn open_place(place: Place) -> Result<Box<dyn KeyValue>, Error> {
    Ok(match place {
        Place::Ram => Box::new(Store::in_memory(Options::new())),
        Place::Directory(dir, options) => Box::new(Store::open(dir, options)?),
        Place::Engine(engine) => engine.open()?,
        Place::Server(url, wait) => Box::new(ServerStore::open(Client::open(&url)?, wait)?),
        Place::Cluster(url, wait) => Box::new(ClusterStore::open(&url, wait)?),
    })
}

fn run_confirmed<T, Q: Request<Output = Result<T, loadline_client::Error>>>(
    connection: &mut Connection,
    request: Q,
    wait: Option<Wait>,
) -> Result<T, Error> {
    run_confirmed!(connection, request, wait)
}

fn write_each<S: KeyValue + ?Sized>(store: &S, batch: &Batch) -> Result<(), Error> {
    write_each!(store, batch)
}

/// Sends requests together, and waits for replicas where that is asked for.
fn run_all<T: FromReply>(
    connection: &mut Connection,
    requests: Vec<Cmd<T>>,
    wait: Option<Wait>,
) -> Result<Vec<Result<T, loadline_client::Error>>, Error> {
    let Some(wait) = wait else {
        return Ok(connection.run(requests));
    };
    let (replies, reached) = connection.run((requests, requests::wait(wait)));
    requests::confirm(wait, reached?)?;
    Ok(replies)
}

/// Sends the writes of a batch together.
fn write_on(connection: &mut Connection, batch: &Batch, wait: Option<Wait>) -> Result<(), Error> {
    for reply in run_all(connection, requests::writes(batch), wait)? {
        reply?;
    }
    Ok(())
}

fn apply_on(connection: &mut Connection, batch: &Batch, wait: Option<Wait>) -> Result<(), Error> {
    apply_on!(connection, batch, wait)
}

fn swap_on(
    connection: &mut Connection,
    key: &[u8],
    expected: Option<&[u8]>,
    next: Option<&[u8]>,
    wait: Option<Wait>,
) -> Result<bool, Error> {
    swap_on!(connection, key, expected, next, wait)
}

fn write_unscripted_on(
    connection: &mut Connection,
    write: &LeasedWrite<'_>,
    wait: Option<Wait>,
) -> Result<bool, Error> {
    write_unscripted_on!(connection, write, wait)
}

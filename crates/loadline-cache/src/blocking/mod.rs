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

use loadline_client::blocking::Connection;
use loadline_client::commands::{get, unwatch, watch};
use loadline_client::{Client, Cmd, FromReply, Request, atomic};
use loadline_store::{Options, Store};

use self::cluster::ClusterStore;
use self::server::ServerStore;
use crate::leases::{LeasedWrite, lease_key};
use crate::place::{Place, Wait};
use crate::steps::{apply_on, run_confirmed, swap_on, write_unscripted_on};
use crate::{Batch, Error, KeyValue, requests};

/// Opens the store that `url` names.
///
/// | URL | options |
/// | --- | --- |
/// | `ram` | |
/// | `store:DIR`, and with the feature of their name `heed:DIR` (LMDB), `redb:DIR`, `fjall:DIR`, `rocksdb:DIR` | `durability=process` (default), `interval` (with `interval_ms=1000`) or `always` |
/// | `redis://`, `rediss://`, `unix://`, `sentinel://`, `sentinels://`, `cluster://`, `clusters://` | `wait_replicas=N` (with `wait_ms=1000`): each write waits for replicas; and those of [`loadline_client::Config::from_url`] |
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

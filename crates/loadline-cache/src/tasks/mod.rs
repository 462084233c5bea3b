//! The interface for tasks, on tokio.

mod cluster;
mod local;
mod remote;
mod server;

use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::Duration;

use loadline_client::cluster::Cluster;
use loadline_client::commands::{get, unwatch, watch};
use loadline_client::multiplexed::Dedicated;
use loadline_client::{Request, atomic};
use loadline_store::Durability;

use self::local::LocalTasks;
use self::remote::RemoteTasks;
use self::server::Server;
use crate::batch::Write;
use crate::leases::{CANNOT_LEASE, Leased, LeasedWrite, lease_key};
use crate::place::{Place, Wait};
use crate::steps::{apply_on, run_confirmed, swap_on, write_each, write_unscripted_on};
use crate::{Batch, Error, requests};

/// The result of an operation, once it is there. Dropped before, a write may or may not happen.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The same as [`KeyValue`](crate::KeyValue), for tasks.
///
/// Each function does what the one of the same name does there, and has its errors.
pub trait AsyncKeyValue: Send + Sync {
    /// See [`KeyValue::keeps`](crate::KeyValue::keeps).
    fn keeps(&self, key: &[u8]) -> bool {
        let _ = key;
        true
    }

    /// See [`KeyValue::get`](crate::KeyValue::get).
    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, Option<Vec<u8>>>;

    /// See [`KeyValue::get_many`](crate::KeyValue::get_many).
    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> Answer<'a, Vec<Option<Vec<u8>>>>;

    /// See [`KeyValue::is_shared`](crate::KeyValue::is_shared).
    fn is_shared(&self) -> bool {
        false
    }

    /// See [`KeyValue::lease`](crate::KeyValue::lease).
    fn lease<'a>(
        &'a self,
        keys: &'a [&'a [u8]],
        token: &'a [u8],
        ttl: Duration,
    ) -> Answer<'a, Vec<Leased>> {
        let _ = (keys, token, ttl);
        Box::pin(std::future::ready(Err(CANNOT_LEASE)))
    }

    /// See [`KeyValue::write_leased`](crate::KeyValue::write_leased).
    fn write_leased<'a>(&'a self, writes: &'a [LeasedWrite<'a>]) -> Answer<'a, Vec<bool>> {
        let _ = writes;
        Box::pin(std::future::ready(Err(CANNOT_LEASE)))
    }

    /// See [`KeyValue::put`](crate::KeyValue::put).
    fn put<'a>(&'a self, key: &'a [u8], value: &'a [u8]) -> Answer<'a, ()>;

    /// See [`KeyValue::put_for`](crate::KeyValue::put_for).
    fn put_for<'a>(&'a self, key: &'a [u8], value: &'a [u8], ttl: Duration) -> Answer<'a, ()>;

    /// See [`KeyValue::delete`](crate::KeyValue::delete).
    fn delete<'a>(&'a self, key: &'a [u8]) -> Answer<'a, bool>;

    /// See [`KeyValue::compare_and_swap`](crate::KeyValue::compare_and_swap).
    fn compare_and_swap<'a>(
        &'a self,
        key: &'a [u8],
        expected: Option<&'a [u8]>,
        next: Option<&'a [u8]>,
    ) -> Answer<'a, bool>;

    /// See [`KeyValue::apply`](crate::KeyValue::apply).
    fn apply<'a>(&'a self, batch: &'a Batch) -> Answer<'a, ()>;

    /// See [`KeyValue::write_many`](crate::KeyValue::write_many).
    fn write_many<'a>(&'a self, batch: &'a Batch) -> Answer<'a, ()> {
        Box::pin(write_each(self, batch))
    }

    /// See [`KeyValue::scan`](crate::KeyValue::scan).
    fn scan<'a>(
        &'a self,
        prefix: &'a [u8],
        visit: &'a mut (dyn FnMut(&[u8], &[u8]) + Send),
    ) -> Answer<'a, ()>;

    /// See [`KeyValue::scan_keys`](crate::KeyValue::scan_keys).
    fn scan_keys<'a>(
        &'a self,
        prefix: &'a [u8],
        visit: &'a mut (dyn FnMut(&[u8]) -> ControlFlow<()> + Send),
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut flow = ControlFlow::Continue(());
            let mut show = |key: &[u8], _: &[u8]| {
                if flow.is_continue() {
                    flow = visit(key);
                }
            };
            self.scan(prefix, &mut show).await
        })
    }
}

/// Opens the store that `url` names, as [`open`](crate::open) does. A store in a directory is read on the task itself,
/// which takes microseconds; where a write waits for the disk (`durability=always`, and redb without `interval`), it is written
/// on the threads for blocking work.
///
/// # Errors
/// Those of [`open`](crate::open).
pub async fn open_async(url: &str) -> Result<Box<dyn AsyncKeyValue>, Error> {
    open_place(Place::parse(url)?).await
}

pub(crate) async fn open_place(place: Place) -> Result<Box<dyn AsyncKeyValue>, Error> {
    Ok(match place {
        Place::Ram | Place::Directory(..) | Place::Engine(_) => {
            let waits = match &place {
                Place::Directory(_, options) => options.durability == Durability::Always,
                Place::Engine(engine) => engine.waits(),
                _ => false,
            };
            let store = crate::blocking::open_place(place)?;
            Box::new(LocalTasks::new(store.into(), waits))
        }
        Place::Server(url, wait) => Box::new(RemoteTasks::new(Server::open(&url).await?, wait)),
        Place::Cluster(url, wait) => Box::new(RemoteTasks::new(Cluster::open(&url).await?, wait)),
    })
}

async fn run_confirmed<T, Q>(
    connection: &mut Dedicated,
    request: Q,
    wait: Option<Wait>,
) -> Result<T, Error>
where
    Q: Request<Output = Result<T, loadline_client::Error>>,
{
    run_confirmed!(connection, request, wait, await)
}

async fn write_each<S: AsyncKeyValue + ?Sized>(store: &S, batch: &Batch) -> Result<(), Error> {
    write_each!(store, batch, await)
}

async fn apply_on(
    connection: &mut Dedicated,
    batch: &Batch,
    wait: Option<Wait>,
) -> Result<(), Error> {
    apply_on!(connection, batch, wait, await)
}

async fn swap_on(
    connection: &mut Dedicated,
    key: &[u8],
    expected: Option<&[u8]>,
    next: Option<&[u8]>,
    wait: Option<Wait>,
) -> Result<bool, Error> {
    swap_on!(connection, key, expected, next, wait, await)
}

async fn write_unscripted_on(
    connection: &mut Dedicated,
    write: &LeasedWrite<'_>,
    wait: Option<Wait>,
) -> Result<bool, Error> {
    write_unscripted_on!(connection, write, wait, await)
}

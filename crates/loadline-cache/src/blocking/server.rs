//! A Redis server.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use loadline_client::blocking::{Connection, Sent};
use loadline_client::commands::{get, mget};
use loadline_client::{Client, Reply, Request};

use super::{apply_on, run_all, run_confirmed, swap_on, write_on, write_unscripted_on};
use crate::idle::Idle;
use crate::key_value::{Begun, KeyValue};
use crate::leases::{self, Leased, LeasedWrite, Writing};
use crate::place::Wait;
use crate::requests;
use crate::{Batch, Error};

/// A server, with a connection for each thread that uses it at the moment.
#[derive(Debug)]
pub(super) struct ServerStore {
    client: Client,
    idle: Arc<Idle<(), Connection>>,
    /// Reads that a caller has left to another thread.
    late: Arc<AtomicUsize>,
    wait: Option<Wait>,
    has_no_scripts: AtomicBool,
}

impl ServerStore {
    pub(super) fn open(client: Client, wait: Option<Wait>) -> Result<Self, Error> {
        let first = client.blocking()?;
        let idle = Arc::new(Idle::new());
        idle.give_back((), first);
        Ok(Self {
            client,
            idle,
            late: Arc::default(),
            wait,
            has_no_scripts: AtomicBool::default(),
        })
    }

    fn on<R>(&self, work: impl FnOnce(&mut Connection) -> Result<R, Error>) -> Result<R, Error> {
        let mut connection = match self.idle.take(&()) {
            Some(connection) => connection,
            None => self.client.blocking()?,
        };
        let result = work(&mut connection);
        // One in an unknown state does not serve again: keys may still be watched on it.
        if result.is_ok() || matches!(result, Err(Error::Unconfirmed { .. })) {
            self.idle.give_back((), connection);
        }
        result
    }
}

impl KeyValue for ServerStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.on(|connection| Ok(connection.run(get(key))?))
    }

    fn begin_get(&self, keys: &[&[u8]], patience: Duration) -> Begun {
        match keys {
            [] => Begun::Done(Ok(Vec::new())),
            [key] => self.begin(get::<Option<Vec<u8>>>(*key).encoded(), patience, |value| {
                vec![value]
            }),
            keys => self.begin(
                mget::<Option<Vec<u8>>>(keys).encoded(),
                patience,
                |values| values,
            ),
        }
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.on(|connection| Ok(connection.run(mget(keys))?))
    }

    fn visit_many(
        &self,
        keys: &[&[u8]],
        value_bytes: u64,
        visit: &mut dyn FnMut(Option<&[u8]>),
    ) -> Result<(), Error> {
        self.on(|connection| match keys {
            [] => Ok(()),
            [key] => {
                let reply = connection.run_ref(&get::<()>(*key))?;
                visit(reply.as_bytes());
                Ok(())
            }
            keys if value_bytes < ALONE_BYTES => {
                let reply = connection.run_ref(&mget::<()>(keys))?;
                let Reply::Array(values) = reply else {
                    return Err(Error::Settings(
                        "the server does not answer MGET with a list",
                    ));
                };
                values.iter().for_each(|value| visit(value.as_bytes()));
                Ok(())
            }
            keys => visit_each(connection, keys, visit),
        })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.on(|connection| run_confirmed(connection, requests::put(key, value, None), self.wait))
    }

    fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(), Error> {
        let request = requests::put(key, value, Some(ttl));
        self.on(|connection| run_confirmed(connection, request, self.wait))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn lease(&self, keys: &[&[u8]], token: &[u8], ttl: Duration) -> Result<Vec<Leased>, Error> {
        let requests = leases::requests(keys, token, ttl);
        self.on(|connection| leases::leased(token, connection.run(requests)))
    }

    fn write_leased(&self, writes: &[LeasedWrite<'_>]) -> Result<Vec<bool>, Error> {
        self.on(|connection| {
            let mut writing = Writing::new(writes, &self.has_no_scripts);
            loop {
                let requests: Vec<_> = writing.requests().into_iter().map(|(_, cmd)| cmd).collect();
                if requests.is_empty() {
                    break;
                }
                writing.take(run_all(connection, requests, self.wait)?)?;
            }
            while let Some((place, write)) = writing.unscripted() {
                writing.set(place, write_unscripted_on(connection, &write, self.wait)?);
            }
            Ok(writing.happened())
        })
    }

    fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        let removed =
            self.on(|connection| run_confirmed(connection, requests::delete(key), self.wait));
        Ok(removed? > 0)
    }

    fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
    ) -> Result<bool, Error> {
        self.on(|connection| swap_on(connection, key, expected, next, self.wait))
    }

    fn apply(&self, batch: &Batch) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        self.on(|connection| apply_on(connection, batch, self.wait))
    }

    fn write_many(&self, batch: &Batch) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        self.on(|connection| write_on(connection, batch, self.wait))
    }

    scan_by_pages!();
}

/// Values from this size on are asked for by a command each. They are then used while others are still on their way, and the
/// receive buffer holds one at a time, so that it stays in the cache of the processor.
const ALONE_BYTES: u64 = 16 << 10;

/// Shows `visit` the values of keys as they arrive. As with MGET, keys of another type have none.
fn visit_each(
    connection: &mut Connection,
    keys: &[&[u8]],
    visit: &mut dyn FnMut(Option<&[u8]>),
) -> Result<(), Error> {
    let gets: Vec<_> = keys.iter().map(|key| get::<()>(*key)).collect();
    let mut refused = None;
    connection.run_each(&gets, |reply| match reply {
        Ok(reply) => visit(reply.as_bytes()),
        Err(error) if error.code() == "WRONGTYPE" => visit(None),
        Err(error) => refused = Some(error),
    })?;
    match refused {
        None => Ok(()),
        Some(error) => Err(loadline_client::Error::Server(error).into()),
    }
}

/// Reads the reply, and keeps the connection if its state is known.
fn finish<Q, T>(sent: Sent<Q>, idle: &Idle<(), Connection>) -> Result<T, Error>
where
    Q: Request<Output = Result<T, loadline_client::Error>>,
{
    let (connection, value) = sent.finish();
    if value.is_ok() {
        idle.give_back((), connection);
    }
    Ok(value?)
}

/// Counts a late read until it is over.
struct Late(Arc<AtomicUsize>);

impl Late {
    fn count(late: &Arc<AtomicUsize>) -> Self {
        late.fetch_add(1, Relaxed);
        Self(Arc::clone(late))
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl ServerStore {
    /// Sends a read, and waits up to `patience` for its reply.
    fn begin<Q, T: 'static>(
        &self,
        request: Q,
        patience: Duration,
        values: fn(T) -> Vec<Option<Vec<u8>>>,
    ) -> Begun
    where
        Q: Request<Output = Result<T, loadline_client::Error>> + Send + 'static,
    {
        let connection = match self.idle.take(&()) {
            Some(connection) => connection,
            None if self.late.load(Relaxed) > 0 => return self.connect_late(request, values),
            None => match self.client.blocking() {
                Ok(connection) => connection,
                Err(error) => return Begun::Done(Err(error.into())),
            },
        };
        let mut sent = match connection.send(request) {
            Ok(sent) => sent,
            Err(error) => return Begun::Done(Err(error.into())),
        };
        let idle = Arc::clone(&self.idle);
        if sent.is_answered_within(patience) {
            return Begun::Done(finish(sent, &idle).map(values));
        }
        let late = Late::count(&self.late);
        Begun::Late(Box::new(move || {
            let _late = late;
            finish(sent, &idle).map(values)
        }))
    }

    /// Leaves even the connecting to another thread: the server is slow, and connecting is waiting for it.
    fn connect_late<Q, T: 'static>(
        &self,
        request: Q,
        values: fn(T) -> Vec<Option<Vec<u8>>>,
    ) -> Begun
    where
        Q: Request<Output = Result<T, loadline_client::Error>> + Send + 'static,
    {
        let (client, idle) = (self.client.clone(), Arc::clone(&self.idle));
        let late = Late::count(&self.late);
        Begun::Late(Box::new(move || {
            let _late = late;
            finish(client.blocking()?.send(request)?, &idle).map(values)
        }))
    }

    /// Shows `visit` the keys with a prefix in pages, until it breaks.
    fn pages(
        &self,
        prefix: &[u8],
        mut visit: impl FnMut(&mut Connection, &[Vec<u8>]) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let pattern = requests::pattern(prefix);
        let mut cursor = b"0".to_vec();
        self.on(|connection| {
            loop {
                let (next, keys) = connection.run(requests::page(&cursor, &pattern))?;
                if !keys.is_empty() && visit(connection, &keys)?.is_break() {
                    return Ok(());
                }
                if next == b"0" {
                    return Ok(());
                }
                cursor = next;
            }
        })
    }
}

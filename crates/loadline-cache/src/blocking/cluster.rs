//! A Redis Cluster.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use loadline_client::blocking::{Cluster, Connection};
use loadline_client::cluster::{Builder, Cursor, Node};
use loadline_client::commands::{get, mget};
use loadline_client::{Cmd, atomic};

use super::{apply_on, run_confirmed, swap_on, write_unscripted_on};
use crate::idle::Idle;
use crate::key_value::{KeyValue, write_each};
use crate::leases::{self, Leased, LeasedWrite, Writing};
use crate::place::Wait;
use crate::requests::{self, PAGE_KEYS, PAUSE, TRIES, is_elsewhere};
use crate::{Batch, Error};

/// A cluster, with a handle for each thread that uses it at the moment.
///
/// Single commands and batches go through the client, which follows redirections. What needs one connection for
/// several requests, which is waiting for replicas and comparing, goes to the master that serves the key.
#[derive(Debug)]
pub(super) struct ClusterStore {
    builder: Builder,
    handles: Idle<(), Cluster>,
    connections: Idle<Node, Connection>,
    wait: Option<Wait>,
    has_no_scripts: AtomicBool,
}

impl ClusterStore {
    pub(super) fn open(url: &str, wait: Option<Wait>) -> Result<Self, Error> {
        let builder = Builder::from_url(url)?;
        let handles = Idle::new();
        handles.give_back((), builder.clone().open_blocking()?);
        Ok(Self {
            builder,
            handles,
            connections: Idle::new(),
            wait,
            has_no_scripts: AtomicBool::default(),
        })
    }

    fn on<R>(&self, work: impl FnOnce(&mut Cluster) -> Result<R, Error>) -> Result<R, Error> {
        let mut cluster = match self.handles.take(&()) {
            Some(cluster) => cluster,
            None => self.builder.clone().open_blocking()?,
        };
        let result = work(&mut cluster);
        self.handles.give_back((), cluster);
        result
    }

    /// Works on a connection to the master of a key, again where the key is elsewhere.
    fn on_master<R>(
        &self,
        key: &[u8],
        work: impl Fn(&mut Connection) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.on(|cluster| {
            let mut tries = 1;
            loop {
                match self.try_on_master(cluster, key, &work) {
                    Err(Error::Client(error)) if is_elsewhere(&error) && tries < TRIES => {
                        tries += 1;
                        std::thread::sleep(PAUSE);
                        cluster.refresh()?;
                    }
                    result => return result,
                }
            }
        })
    }

    fn try_on_master<R>(
        &self,
        cluster: &Cluster,
        key: &[u8],
        work: impl Fn(&mut Connection) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let Some(master) = cluster.master_of(key) else {
            // Names the slot in its error.
            return work(&mut cluster.dedicated(key)?);
        };
        let mut connection = match self.connections.take(&master) {
            Some(connection) => connection,
            None => cluster.connection(&master)?,
        };
        let result = work(&mut connection);
        if result.is_ok() || matches!(result, Err(Error::Unconfirmed { .. })) {
            self.connections.give_back(master, connection);
        }
        result
    }
}

impl KeyValue for ClusterStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.on(|cluster| Ok(cluster.run(get(key))?))
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.on(|cluster| Ok(cluster.run(mget(keys))?))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.write(key, || requests::put(key, value, None))
    }

    fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(), Error> {
        self.write(key, || requests::put(key, value, Some(ttl)))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn lease(&self, keys: &[&[u8]], token: &[u8], ttl: Duration) -> Result<Vec<Leased>, Error> {
        let requests = leases::requests(keys, token, ttl);
        self.on(|cluster| leases::leased(token, cluster.run(requests)))
    }

    fn write_leased(&self, writes: &[LeasedWrite<'_>]) -> Result<Vec<bool>, Error> {
        let mut writing = Writing::new(writes, &self.has_no_scripts);
        loop {
            let requests = writing.requests();
            if requests.is_empty() {
                break;
            }
            writing.take(self.write_each(requests)?)?;
        }
        while let Some((place, write)) = writing.unscripted() {
            let work =
                |connection: &mut Connection| write_unscripted_on(connection, &write, self.wait);
            writing.set(place, self.on_master(write.key(), work)?);
        }
        Ok(writing.happened())
    }

    fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.write(key, || requests::delete(key))? > 0)
    }

    fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        next: Option<&[u8]>,
    ) -> Result<bool, Error> {
        self.on_master(key, |connection| {
            swap_on(connection, key, expected, next, self.wait)
        })
    }

    fn apply(&self, batch: &Batch) -> Result<(), Error> {
        requests::check_slots(batch)?;
        let Some(first) = batch.writes().next() else {
            return Ok(());
        };
        if self.wait.is_some() {
            return self.on_master(first.key(), |connection| {
                apply_on(connection, batch, self.wait)
            });
        }
        if let Some(request) = requests::as_one(batch) {
            self.on(|cluster| Ok(cluster.run(request)?))?;
            return Ok(());
        }
        let written = self.on(|cluster| Ok(cluster.run(atomic(requests::writes(batch)))?));
        for reply in written?.into_iter().flatten() {
            reply?;
        }
        Ok(())
    }

    fn write_many(&self, batch: &Batch) -> Result<(), Error> {
        if self.wait.is_some() {
            // Replicas confirm what one connection has written.
            return write_each(self, batch);
        }
        for reply in self.on(|cluster| Ok(cluster.run(requests::writes(batch))))? {
            reply?;
        }
        Ok(())
    }

    scan_by_pages!();
}

impl ClusterStore {
    /// Shows `visit` the keys with a prefix in pages, until it breaks.
    fn pages(
        &self,
        prefix: &[u8],
        mut visit: impl FnMut(&mut Cluster, &[Vec<u8>]) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let pattern = requests::pattern(prefix);
        self.on(|cluster| {
            let mut cursor = Cursor::start();
            while !cursor.is_finished() {
                let keys: Vec<Vec<u8>> = cluster.scan_page(&mut cursor, &pattern, PAGE_KEYS)?;
                if !keys.is_empty() && visit(cluster, &keys)?.is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    fn write<T: loadline_client::FromReply>(
        &self,
        key: &[u8],
        request: impl Fn() -> Cmd<T>,
    ) -> Result<T, Error> {
        if self.wait.is_none() {
            return self.on(|cluster| Ok(cluster.run(request())?));
        }
        self.on_master(key, |connection| {
            run_confirmed(connection, request(), self.wait)
        })
    }

    /// Sends writes, each with its key.
    fn write_each(&self, requests: Vec<(&[u8], Cmd<i64>)>) -> Result<Vec<Replied>, Error> {
        if self.wait.is_none() {
            let requests: Vec<_> = requests.into_iter().map(|(_, request)| request).collect();
            return self.on(|cluster| Ok(cluster.run(requests)));
        }
        let each = requests.iter().map(|(key, request)| {
            let written = self.on_master(key, |connection| {
                run_confirmed(connection, request, self.wait)
            });
            match written {
                Ok(reply) => Ok(Ok(reply)),
                Err(Error::Client(error)) => Ok(Err(error)),
                Err(error) => Err(error),
            }
        });
        each.collect()
    }
}

type Replied = Result<i64, loadline_client::Error>;

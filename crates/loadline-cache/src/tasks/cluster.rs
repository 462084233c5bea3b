//! A Redis Cluster.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use loadline_client::cluster::{Cluster, Cursor, Node};
use loadline_client::commands::{get, mget};
use loadline_client::multiplexed::Dedicated;
use loadline_client::{Cmd, FromReply, atomic};

use super::{
    Answer, AsyncKeyValue, apply_on, run_confirmed, swap_on, write_each, write_unscripted_on,
};
use crate::idle::Idle;
use crate::leases::{self, Leased, LeasedWrite, Writing};
use crate::place::Wait;
use crate::requests::{self, PAGE_KEYS, PAUSE, TRIES, is_elsewhere};
use crate::{Batch, Error};

/// A cluster. What needs one connection for several requests goes to the master that serves the key, as in the
/// interface for threads.
#[derive(Debug)]
pub(super) struct ClusterTasks {
    cluster: Cluster,
    idle: Idle<Node, Dedicated>,
    wait: Option<Wait>,
    has_no_scripts: AtomicBool,
}

/// What is done on a connection to a master.
enum Work<'a, T> {
    Swap {
        key: &'a [u8],
        expected: Option<&'a [u8]>,
        next: Option<&'a [u8]>,
    },
    Apply(&'a Batch),
    Write(&'a [u8], &'a Cmd<T>),
    Leased(LeasedWrite<'a>),
}

/// What came of it.
enum Done<T> {
    Swapped(bool),
    Applied,
    Written(T),
}

impl<T: FromReply + Send> Work<'_, T> {
    fn key(&self) -> &[u8] {
        match self {
            Self::Swap { key, .. } | Self::Write(key, _) => key,
            Self::Leased(write) => write.key(),
            Self::Apply(batch) => batch.writes.first().map_or(b"", |write| write.key()),
        }
    }

    async fn run(&self, connection: &mut Dedicated, wait: Option<Wait>) -> Result<Done<T>, Error> {
        Ok(match self {
            Self::Swap {
                key,
                expected,
                next,
            } => Done::Swapped(swap_on(connection, key, *expected, *next, wait).await?),
            Self::Apply(batch) => {
                apply_on(connection, batch, wait).await?;
                Done::Applied
            }
            Self::Leased(write) => {
                Done::Swapped(write_unscripted_on(connection, write, wait).await?)
            }
            Self::Write(_, request) => {
                Done::Written(run_confirmed(connection, *request, wait).await?)
            }
        })
    }
}

impl ClusterTasks {
    pub(super) async fn open(url: &str, wait: Option<Wait>) -> Result<Self, Error> {
        Ok(Self {
            cluster: Cluster::open(url).await?,
            idle: Idle::new(),
            wait,
            has_no_scripts: AtomicBool::default(),
        })
    }

    /// Works on a connection to the master of a key, again where the key is elsewhere.
    async fn on_master<T: FromReply + Send>(&self, work: &Work<'_, T>) -> Result<Done<T>, Error> {
        let mut tries = 1;
        loop {
            match self.try_on_master(work).await {
                Err(Error::Client(error)) if is_elsewhere(&error) && tries < TRIES => {
                    tries += 1;
                    tokio::time::sleep(PAUSE).await;
                    self.cluster.refresh().await?;
                }
                result => return result,
            }
        }
    }

    async fn try_on_master<T: FromReply + Send>(
        &self,
        work: &Work<'_, T>,
    ) -> Result<Done<T>, Error> {
        let master = self.cluster.master_of(work.key());
        let waiting = master.as_ref().and_then(|master| self.idle.take(master));
        let mut connection = match waiting {
            Some(connection) => connection,
            None => self.cluster.dedicated(work.key()).await?,
        };
        let result = work.run(&mut connection, self.wait).await;
        if let Some(master) = master
            && matches!(result, Ok(_) | Err(Error::Unconfirmed { .. }))
        {
            self.idle.give_back(master, connection);
        }
        result
    }

    /// Sends writes, each with its key.
    async fn write_all(
        &self,
        requests: Vec<(&[u8], Cmd<i64>)>,
    ) -> Result<Vec<Result<i64, loadline_client::Error>>, Error> {
        if self.wait.is_none() {
            let requests: Vec<_> = requests.into_iter().map(|(_, request)| request).collect();
            return Ok(self.cluster.run(requests).await);
        }
        let mut replies = Vec::with_capacity(requests.len());
        for (key, request) in requests {
            replies.push(match self.write(key, request).await {
                Ok(reply) => Ok(reply),
                Err(Error::Client(error)) => Err(error),
                Err(error) => return Err(error),
            });
        }
        Ok(replies)
    }

    async fn write<T: FromReply + Send>(&self, key: &[u8], request: Cmd<T>) -> Result<T, Error> {
        if self.wait.is_none() {
            return Ok(self.cluster.run(request).await?);
        }
        match self.on_master(&Work::Write(key, &request)).await? {
            Done::Written(reply) => Ok(reply),
            Done::Swapped(_) | Done::Applied => unreachable!("a write is written"),
        }
    }
}

impl AsyncKeyValue for ClusterTasks {
    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, Option<Vec<u8>>> {
        Box::pin(async move { Ok(self.cluster.run(get(key)).await?) })
    }

    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> Answer<'a, Vec<Option<Vec<u8>>>> {
        Box::pin(async move {
            if keys.is_empty() {
                return Ok(Vec::new());
            }
            Ok(self.cluster.run(mget(keys)).await?)
        })
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn lease<'a>(
        &'a self,
        keys: &'a [&'a [u8]],
        token: &'a [u8],
        ttl: Duration,
    ) -> Answer<'a, Vec<Leased>> {
        let requests = leases::requests(keys, token, ttl);
        Box::pin(async move { leases::leased(token, self.cluster.run(requests).await) })
    }

    fn write_leased<'a>(&'a self, writes: &'a [LeasedWrite<'a>]) -> Answer<'a, Vec<bool>> {
        Box::pin(async move {
            let mut writing = Writing::new(writes, &self.has_no_scripts);
            loop {
                let requests = writing.requests();
                if requests.is_empty() {
                    break;
                }
                writing.take(self.write_all(requests).await?)?;
            }
            while let Some((place, write)) = writing.unscripted() {
                let done = self.on_master(&Work::<()>::Leased(write)).await?;
                writing.set(place, matches!(done, Done::Swapped(true)));
            }
            Ok(writing.happened())
        })
    }

    fn put<'a>(&'a self, key: &'a [u8], value: &'a [u8]) -> Answer<'a, ()> {
        Box::pin(self.write(key, requests::put(key, value, None)))
    }

    fn put_for<'a>(&'a self, key: &'a [u8], value: &'a [u8], ttl: Duration) -> Answer<'a, ()> {
        Box::pin(self.write(key, requests::put(key, value, Some(ttl))))
    }

    fn delete<'a>(&'a self, key: &'a [u8]) -> Answer<'a, bool> {
        Box::pin(async move { Ok(self.write(key, requests::delete(key)).await? > 0) })
    }

    fn compare_and_swap<'a>(
        &'a self,
        key: &'a [u8],
        expected: Option<&'a [u8]>,
        next: Option<&'a [u8]>,
    ) -> Answer<'a, bool> {
        Box::pin(async move {
            let work: Work<'_, ()> = Work::Swap {
                key,
                expected,
                next,
            };
            Ok(matches!(self.on_master(&work).await?, Done::Swapped(true)))
        })
    }

    fn apply<'a>(&'a self, batch: &'a Batch) -> Answer<'a, ()> {
        Box::pin(async move {
            requests::check_slots(batch)?;
            if batch.is_empty() {
                return Ok(());
            }
            if self.wait.is_some() {
                self.on_master(&Work::<()>::Apply(batch)).await?;
                return Ok(());
            }
            let written = self.cluster.run(atomic(requests::writes(batch))).await?;
            for reply in written.into_iter().flatten() {
                reply?;
            }
            Ok(())
        })
    }

    fn write_many<'a>(&'a self, batch: &'a Batch) -> Answer<'a, ()> {
        Box::pin(async move {
            if self.wait.is_some() {
                // Replicas confirm what one connection has written.
                return write_each(self, batch).await;
            }
            for reply in self.cluster.run(requests::writes(batch)).await {
                reply?;
            }
            Ok(())
        })
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a [u8],
        visit: &'a mut (dyn FnMut(&[u8], &[u8]) + Send),
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut pages = self.pages(prefix);
            while let Some(keys) = pages.next().await? {
                if !keys.is_empty() {
                    let values = self.cluster.run(mget(&keys[..])).await?;
                    requests::show(&keys, values, visit);
                }
            }
            Ok(())
        })
    }

    fn scan_keys<'a>(
        &'a self,
        prefix: &'a [u8],
        visit: &'a mut (dyn FnMut(&[u8]) -> ControlFlow<()> + Send),
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut pages = self.pages(prefix);
            while let Some(keys) = pages.next().await? {
                if keys.iter().try_for_each(|key| visit(key)).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// The keys with a prefix, page by page.
struct Pages<'s> {
    cluster: &'s Cluster,
    pattern: Vec<u8>,
    cursor: Cursor,
}

impl ClusterTasks {
    fn pages(&self, prefix: &[u8]) -> Pages<'_> {
        Pages {
            cluster: &self.cluster,
            pattern: requests::pattern(prefix),
            cursor: Cursor::start(),
        }
    }
}

impl Pages<'_> {
    async fn next(&mut self) -> Result<Option<Vec<Vec<u8>>>, Error> {
        if self.cursor.is_finished() {
            return Ok(None);
        }
        let page = (self.cluster).scan_page(&mut self.cursor, &self.pattern, PAGE_KEYS);
        Ok(Some(page.await?))
    }
}

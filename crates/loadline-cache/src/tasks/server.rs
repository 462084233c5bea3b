//! A Redis server.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use loadline_client::commands::{get, mget};
use loadline_client::multiplexed::{Connection, Dedicated};
use loadline_client::{Client, Cmd, FromReply};

use super::{
    Answer, AsyncKeyValue, apply_on, run_confirmed, swap_on, write_each, write_unscripted_on,
};
use crate::idle::Idle;
use crate::leases::{self, Leased, LeasedWrite, Writing};
use crate::place::Wait;
use crate::requests;
use crate::{Batch, Error};

/// A server: one connection for all tasks, and others for what needs one of its own, which is waiting for replicas and
/// comparing.
#[derive(Debug)]
pub(super) struct ServerTasks {
    client: Client,
    connection: Connection,
    idle: Idle<(), Dedicated>,
    wait: Option<Wait>,
    has_no_scripts: AtomicBool,
}

impl ServerTasks {
    pub(super) async fn open(url: &str, wait: Option<Wait>) -> Result<Self, Error> {
        let client = Client::open(url)?;
        Ok(Self {
            connection: client.multiplexed().await?,
            client,
            idle: Idle::new(),
            wait,
            has_no_scripts: AtomicBool::default(),
        })
    }

    async fn dedicated(&self) -> Result<Dedicated, Error> {
        match self.idle.take(&()) {
            Some(connection) => Ok(connection),
            None => Ok(self.client.dedicated().await?),
        }
    }

    /// Keeps a connection whose state is known.
    fn keep<R>(&self, connection: Dedicated, result: &Result<R, Error>) {
        if matches!(result, Ok(_) | Err(Error::Unconfirmed { .. })) {
            self.idle.give_back((), connection);
        }
    }

    async fn write_all(
        &self,
        requests: Vec<Cmd<i64>>,
    ) -> Result<Vec<Result<i64, loadline_client::Error>>, Error> {
        let Some(wait) = self.wait else {
            return Ok(self.connection.run(requests).await);
        };
        let mut connection = self.dedicated().await?;
        let (replies, reached) = connection.run((requests, requests::wait(wait))).await;
        let result = match reached {
            Ok(reached) => requests::confirm(wait, reached),
            Err(error) => Err(error.into()),
        };
        self.keep(connection, &result);
        result.map(|()| replies)
    }

    async fn write<T: FromReply + Send>(&self, request: Cmd<T>) -> Result<T, Error> {
        if self.wait.is_none() {
            return Ok(self.connection.run(request).await?);
        }
        let mut connection = self.dedicated().await?;
        let result = run_confirmed(&mut connection, request, self.wait).await;
        self.keep(connection, &result);
        result
    }
}

impl AsyncKeyValue for ServerTasks {
    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, Option<Vec<u8>>> {
        Box::pin(async move { Ok(self.connection.run(get(key)).await?) })
    }

    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> Answer<'a, Vec<Option<Vec<u8>>>> {
        Box::pin(async move {
            if keys.is_empty() {
                return Ok(Vec::new());
            }
            Ok(self.connection.run(mget(keys)).await?)
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
        Box::pin(async move { leases::leased(token, self.connection.run(requests).await) })
    }

    fn write_leased<'a>(&'a self, writes: &'a [LeasedWrite<'a>]) -> Answer<'a, Vec<bool>> {
        Box::pin(async move {
            let mut writing = Writing::new(writes, &self.has_no_scripts);
            loop {
                let requests: Vec<_> = writing.requests().into_iter().map(|(_, cmd)| cmd).collect();
                if requests.is_empty() {
                    break;
                }
                writing.take(self.write_all(requests).await?)?;
            }
            while let Some((place, write)) = writing.unscripted() {
                let mut connection = self.dedicated().await?;
                let result = write_unscripted_on(&mut connection, &write, self.wait).await;
                self.keep(connection, &result);
                writing.set(place, result?);
            }
            Ok(writing.happened())
        })
    }

    fn put<'a>(&'a self, key: &'a [u8], value: &'a [u8]) -> Answer<'a, ()> {
        Box::pin(self.write(requests::put(key, value, None)))
    }

    fn put_for<'a>(&'a self, key: &'a [u8], value: &'a [u8], ttl: Duration) -> Answer<'a, ()> {
        Box::pin(self.write(requests::put(key, value, Some(ttl))))
    }

    fn delete<'a>(&'a self, key: &'a [u8]) -> Answer<'a, bool> {
        Box::pin(async move { Ok(self.write(requests::delete(key)).await? > 0) })
    }

    fn compare_and_swap<'a>(
        &'a self,
        key: &'a [u8],
        expected: Option<&'a [u8]>,
        next: Option<&'a [u8]>,
    ) -> Answer<'a, bool> {
        Box::pin(async move {
            let mut connection = self.dedicated().await?;
            let result = swap_on(&mut connection, key, expected, next, self.wait).await;
            self.keep(connection, &result);
            result
        })
    }

    fn apply<'a>(&'a self, batch: &'a Batch) -> Answer<'a, ()> {
        Box::pin(async move {
            if batch.is_empty() {
                return Ok(());
            }
            let mut connection = self.dedicated().await?;
            let result = apply_on(&mut connection, batch, self.wait).await;
            self.keep(connection, &result);
            result
        })
    }

    fn write_many<'a>(&'a self, batch: &'a Batch) -> Answer<'a, ()> {
        Box::pin(async move {
            if self.wait.is_some() {
                // Replicas confirm what one connection has written.
                return write_each(self, batch).await;
            }
            for reply in self.connection.run(requests::writes(batch)).await {
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
                    let values = self.connection.run(mget(&keys[..])).await?;
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
    connection: &'s Connection,
    pattern: Vec<u8>,
    /// That of the next page; `None` after the last one.
    cursor: Option<Vec<u8>>,
}

impl ServerTasks {
    fn pages(&self, prefix: &[u8]) -> Pages<'_> {
        Pages {
            connection: &self.connection,
            pattern: requests::pattern(prefix),
            cursor: Some(b"0".to_vec()),
        }
    }
}

impl Pages<'_> {
    async fn next(&mut self) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let Some(cursor) = self.cursor.take() else {
            return Ok(None);
        };
        let page = requests::page(&cursor, &self.pattern);
        let (next, keys) = self.connection.run(page).await?;
        self.cursor = (next != b"0").then_some(next);
        Ok(Some(keys))
    }
}

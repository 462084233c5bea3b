//! A Redis server or a Redis Cluster.

use std::fmt::Debug;
use std::hash::Hash;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use loadline_client::commands::{get, mget};
use loadline_client::multiplexed::Dedicated;
use loadline_client::{Cmd, Error as ClientError, FromReply, Request, atomic};

use super::{
    Answer, AsyncKeyValue, apply_on, run_confirmed, swap_on, write_each, write_unscripted_on,
};
use crate::idle::Idle;
use crate::leases::{self, Leased, LeasedWrite, Writing};
use crate::place::Wait;
use crate::requests::{self, PAUSE, TRIES, is_elsewhere};
use crate::{Batch, Error};

/// A client of a server or a cluster.
pub(super) trait Nodes: Debug + Send + Sync + Sized + 'static {
    /// Whether keys can be on different nodes, and move between them.
    const ARE_SEVERAL: bool;
    /// A node with keys.
    type Node: Debug + Hash + Eq + Send;
    /// The place of a walk over all keys.
    type Cursor: Send;

    fn run<Q: Request + Send>(&self, request: Q) -> impl Future<Output = Q::Output> + Send;

    /// The node that serves a key, if it is known.
    fn node_of(&self, key: &[u8]) -> Option<Self::Node>;

    /// Opens a connection to it.
    fn connect(&self, key: &[u8]) -> impl Future<Output = Result<Dedicated, ClientError>> + Send;

    /// Asks again which node serves which keys.
    fn refresh(&self) -> impl Future<Output = Result<(), ClientError>> + Send;

    fn first_page() -> Self::Cursor;

    /// The keys of the next page. `None` after the last one.
    fn page(
        &self,
        cursor: &mut Self::Cursor,
        pattern: &[u8],
    ) -> impl Future<Output = Result<Option<Vec<Vec<u8>>>, ClientError>> + Send;
}

/// A store behind a client. What needs one connection for several requests, which is waiting for replicas and comparing, goes to
/// the node that serves the key.
#[derive(Debug)]
pub(super) struct RemoteTasks<N: Nodes> {
    nodes: N,
    idle: Idle<N::Node, Dedicated>,
    wait: Option<Wait>,
    has_no_scripts: AtomicBool,
}

/// An operation on a connection to a node.
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

/// The result of a [`Work`].
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
            Self::Apply(batch) => batch.writes().next().map_or(b"", |write| write.key()),
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

type Replied = Result<i64, ClientError>;

impl<N: Nodes> RemoteTasks<N> {
    pub(super) fn new(nodes: N, wait: Option<Wait>) -> Self {
        Self {
            nodes,
            idle: Idle::new(),
            wait,
            has_no_scripts: AtomicBool::default(),
        }
    }

    /// Works on a connection to the node that serves a key, again where the key is elsewhere.
    async fn on_node<T: FromReply + Send>(&self, work: &Work<'_, T>) -> Result<Done<T>, Error> {
        let mut tries = if N::ARE_SEVERAL { TRIES } else { 1 };
        loop {
            tries -= 1;
            match self.try_on_node(work).await {
                Err(Error::Client(error)) if is_elsewhere(&error) && tries > 0 => {
                    tokio::time::sleep(PAUSE).await;
                    self.nodes.refresh().await?;
                }
                result => return result,
            }
        }
    }

    async fn try_on_node<T: FromReply + Send>(&self, work: &Work<'_, T>) -> Result<Done<T>, Error> {
        let (node, mut connection) = self.connection(work.key()).await?;
        let result = work.run(&mut connection, self.wait).await;
        self.keep(node, connection, &result);
        result
    }

    async fn connection(&self, key: &[u8]) -> Result<(Option<N::Node>, Dedicated), Error> {
        let node = self.nodes.node_of(key);
        let waiting = node.as_ref().and_then(|node| self.idle.take(node));
        let connection = match waiting {
            Some(connection) => connection,
            None => self.nodes.connect(key).await?,
        };
        Ok((node, connection))
    }

    /// Keeps a connection whose state is known.
    fn keep<R>(&self, node: Option<N::Node>, connection: Dedicated, result: &Result<R, Error>) {
        if let Some(node) = node
            && matches!(result, Ok(_) | Err(Error::Unconfirmed { .. }))
        {
            self.idle.give_back(node, connection);
        }
    }

    /// Sends writes, each with its key.
    async fn write_all(&self, requests: Vec<(&[u8], Cmd<i64>)>) -> Result<Vec<Replied>, Error> {
        let key = requests.first().map_or(&b""[..], |(key, _)| *key);
        match self.wait {
            Some(_) if N::ARE_SEVERAL => {
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
            Some(wait) => {
                let (node, mut connection) = self.connection(key).await?;
                let requests: Vec<_> = requests.into_iter().map(|(_, request)| request).collect();
                let (replies, reached) = connection.run((requests, requests::wait(wait))).await;
                let reached = reached.map_err(Error::from);
                let result = reached.and_then(|reached| requests::confirm(wait, reached));
                self.keep(node, connection, &result);
                result.map(|()| replies)
            }
            None => {
                let requests: Vec<_> = requests.into_iter().map(|(_, request)| request).collect();
                Ok(self.nodes.run(requests).await)
            }
        }
    }

    async fn write<T: FromReply + Send>(&self, key: &[u8], request: Cmd<T>) -> Result<T, Error> {
        if self.wait.is_none() {
            return Ok(self.nodes.run(request).await?);
        }
        match self.on_node(&Work::Write(key, &request)).await? {
            Done::Written(reply) => Ok(reply),
            Done::Swapped(_) | Done::Applied => unreachable!("a write is written"),
        }
    }
}

impl<N: Nodes> AsyncKeyValue for RemoteTasks<N> {
    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, Option<Vec<u8>>> {
        Box::pin(async move { Ok(self.nodes.run(get(key)).await?) })
    }

    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> Answer<'a, Vec<Option<Vec<u8>>>> {
        Box::pin(async move {
            if keys.is_empty() {
                return Ok(Vec::new());
            }
            Ok(self.nodes.run(mget(keys)).await?)
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
        Box::pin(async move { leases::leased(token, self.nodes.run(requests).await) })
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
                let done = self.on_node(&Work::<()>::Leased(write)).await?;
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
            Ok(matches!(self.on_node(&work).await?, Done::Swapped(true)))
        })
    }

    fn apply<'a>(&'a self, batch: &'a Batch) -> Answer<'a, ()> {
        Box::pin(async move {
            if N::ARE_SEVERAL {
                requests::check_slots(batch)?;
            }
            if batch.is_empty() {
                return Ok(());
            }
            if self.wait.is_some() {
                self.on_node(&Work::<()>::Apply(batch)).await?;
                return Ok(());
            }
            if let Some(request) = requests::as_one(batch) {
                self.nodes.run(request).await?;
                return Ok(());
            }
            let written = self.nodes.run(atomic(requests::writes(batch))).await?;
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
            for reply in self.nodes.run(requests::writes(batch)).await {
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
            let (pattern, mut cursor) = (requests::pattern(prefix), N::first_page());
            while let Some(keys) = self.nodes.page(&mut cursor, &pattern).await? {
                if !keys.is_empty() {
                    let values = self.nodes.run(mget(&keys[..])).await?;
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
            let (pattern, mut cursor) = (requests::pattern(prefix), N::first_page());
            while let Some(keys) = self.nodes.page(&mut cursor, &pattern).await? {
                if keys.iter().try_for_each(|key| visit(key)).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }
}

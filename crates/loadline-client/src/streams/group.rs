//! A consumer of a group, on tokio.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_core::Stream;

use super::feed::{ReadAhead, Source};
use super::membership::{Membership, Pending, made};
use super::patience::Patience;
use super::steps::{acknowledge, read_group};
use super::text::text;
use super::{Event, Start, StreamId, wait_of, xinfo};
use crate::multiplexed::{Connection, Dedicated};
use crate::{Client, Error};

#[doc = text!(group_reader)]
///
/// It reads ahead by up to two batches of 100 entries, which belong to its consumer from then on. It has two
/// connections, since the one that waits for entries cannot carry acknowledgements at the same time.
/// [`blocking::GroupReader`](crate::blocking::GroupReader) is for one thread.
///
/// ```no_run
/// use loadline_client::Client;
/// use loadline_client::streams::{Event, GroupReader, Start};
///
/// # async fn example() -> Result<(), loadline_client::Error> {
/// let client = Client::open("redis://localhost")?;
/// let mut reader = GroupReader::create(&client, "orders", "bakers", "ann", Start::Oldest).await?;
/// loop {
///     match reader.next().await? {
///         Event::Entry(entry) => {
///             println!("{:?}", entry.get("item"));
///             reader.ack(&[entry.id]).await?;
///         }
///         Event::Deleted(id) => reader.ack(&[id]).await?,
///         gap => println!("the stream is not what it was: {gap:?}"),
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct GroupReader {
    ahead: ReadAhead,
    connection: Connection,
    membership: Membership,
    pending: Pending,
    patience: Patience,
}

impl GroupReader {
    #[doc = text!(open_group)]
    pub async fn open(
        client: &Client,
        key: impl Into<Bytes>,
        group: impl Into<Bytes>,
        consumer: impl Into<Bytes>,
    ) -> Result<Self, Error> {
        let membership = Membership::new(key.into(), group.into(), consumer.into(), false);
        let connection = client.multiplexed().await?;
        Self::start(client, connection, membership).await
    }

    #[doc = text!(create_group)]
    pub async fn create(
        client: &Client,
        key: impl Into<Bytes>,
        group: impl Into<Bytes>,
        consumer: impl Into<Bytes>,
        start: Start,
    ) -> Result<Self, Error> {
        let membership = Membership::new(key.into(), group.into(), consumer.into(), true);
        let connection = client.multiplexed().await?;
        made(connection.run(membership.make(start)).await)?;
        Self::start(client, connection, membership).await
    }

    async fn start(
        client: &Client,
        connection: Connection,
        membership: Membership,
    ) -> Result<Self, Error> {
        let pending = Pending::default();
        let source = GroupSource {
            connection: client.dedicated().await?,
            membership: membership.clone(),
            pending: pending.clone(),
            wait: wait_of(client.config()),
        };
        let patience = Patience::of(client.config());
        Ok(Self {
            ahead: ReadAhead::start(source, patience.clone()),
            connection,
            membership,
            pending,
            patience,
        })
    }

    /// Waits for the next entry of this consumer, or for an event of the stream. A future that is dropped loses
    /// nothing.
    ///
    #[doc = text!(next_errors)]
    pub async fn next(&mut self) -> Result<Event, Error> {
        self.ahead.next().await
    }

    #[doc = text!(ack)]
    pub async fn ack(&self, ids: &[StreamId]) -> Result<(), Error> {
        let Self {
            connection,
            membership,
            pending,
            patience,
            ..
        } = self;
        let sleep = tokio::time::sleep;
        acknowledge!(connection, membership, pending, patience, ids, sleep, await)
    }

    #[doc = text!(unacknowledged)]
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.pending.len()
    }
}

/// As [`GroupReader::next`]. It goes on after an error, and ends with the runtime of the reader.
impl Stream for GroupReader {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.ahead.poll_next(cx)
    }
}

/// Reads ahead.
#[derive(Debug)]
struct GroupSource {
    connection: Dedicated,
    membership: Membership,
    pending: Pending,
    wait: Duration,
}

impl Source for GroupSource {
    async fn read(&mut self) -> Result<Vec<Event>, Error> {
        let Self {
            connection,
            membership,
            pending,
            wait,
        } = self;
        read_group!(connection, membership, pending, *wait, await)
    }
}

//! A consumer of a group.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::feed::{Feed, Source};
use super::membership::{Membership, ids, made};
use super::{Event, Start, StreamId, patience_of, wait_of, xinfo};
use crate::multiplexed::{Connection, Dedicated};
use crate::{Client, Error};

/// Reads a stream as one consumer of a group (`XREADGROUP`). See the [module](super).
///
/// An entry belongs to the consumer that got it until it is acknowledged. A reader begins with those that
/// its consumer has from before, and looks for them again whenever a connection broke with a read on its
/// way. What it has handed out itself it does not hand out again, so within its life each entry comes once;
/// after that, entries that were not acknowledged come once more to the next reader of this consumer. It
/// reads ahead by up to two batches of 100, which are its consumer's from then on.
///
/// The place of a group is kept by the server, and this reader does not watch it: entries that are trimmed
/// before any consumer got them are missing without a word. [`StreamReader`](super::StreamReader) counts
/// them.
///
/// It has two connections, since the one that waits for entries cannot carry acknowledgements meanwhile.
/// [`blocking::GroupReader`](crate::blocking::GroupReader) is one for one thread.
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
    feed: Feed,
    connection: Connection,
    membership: Membership,
    unacknowledged: Unacknowledged,
    patience: Duration,
}

/// What was read and is not acknowledged.
type Unacknowledged = Arc<Mutex<BTreeSet<StreamId>>>;

impl GroupReader {
    /// Connects as a consumer of a group that is there.
    ///
    /// # Errors
    /// Why there is no connection. That there is no such group is said by [`GroupReader::next`].
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

    /// Connects, and makes the group with this start, and the stream if need be, where it is not there. A
    /// group that is lost later on is made again behind the last entry that this reader got.
    ///
    /// # Errors
    /// Why there is no connection or no group.
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
        let unacknowledged = Unacknowledged::default();
        let reading = Reading {
            connection: client.dedicated().await?,
            membership: membership.clone(),
            unacknowledged: Arc::clone(&unacknowledged),
            wait: wait_of(client.config()),
        };
        let patience = patience_of(client.config());
        Ok(Self {
            feed: Feed::start(reading, patience),
            connection,
            membership,
            unacknowledged,
            patience,
        })
    }

    /// The next entry of this consumer; it waits for as long as it takes. A future that is dropped loses
    /// nothing.
    ///
    /// # Errors
    /// Why nothing can be read: an outage that lasts longer than the response timeout, or an answer of the
    /// server, such as `NOGROUP`. The reader goes on, so it can be called again.
    pub async fn next(&mut self) -> Result<Event, Error> {
        self.feed.next().await
    }

    /// Tells the group that these entries are done. To say so twice does no harm, so it is said again when
    /// the connection broke before the answer.
    ///
    /// # Errors
    /// Why it may not have been heard.
    pub async fn ack(&self, ids: &[StreamId]) -> Result<(), Error> {
        if ids.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        loop {
            match self.connection.run(self.membership.ack(ids)).await {
                Ok(_) => break,
                Err(error) if error.maybe_executed() && begun.elapsed() < self.patience => {}
                Err(error) => return Err(error),
            }
        }
        let mut unacknowledged = lock(&self.unacknowledged);
        for id in ids {
            unacknowledged.remove(id);
        }
        Ok(())
    }

    /// How many entries this reader has read, ahead of its caller too, that are not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        lock(&self.unacknowledged).len()
    }
}

/// What reads ahead.
#[derive(Debug)]
struct Reading {
    connection: Dedicated,
    membership: Membership,
    unacknowledged: Unacknowledged,
    wait: Duration,
}

impl Source for Reading {
    async fn read(&mut self) -> Result<Vec<Event>, Error> {
        let read = match self.membership.own_due() {
            Some(after) => self.read_own(after).await,
            None => self.read_new().await,
        };
        match read {
            Err(error) if self.membership.is_to_be_made(&error) => self.make_group_again().await,
            read => read,
        }
    }
}

impl Reading {
    async fn read_own(&mut self, after: StreamId) -> Result<Vec<Event>, Error> {
        // What is acknowledged while the question is on its way may still be in the answer.
        let known = lock(&self.unacknowledged).clone();
        let reads = self.connection.run(self.membership.read_own(after)).await;
        let events = self.membership.got_own(reads, &known)?;
        lock(&self.unacknowledged).extend(ids(&events));
        Ok(events)
    }

    async fn read_new(&mut self) -> Result<Vec<Event>, Error> {
        let wait = self.membership.wait_new(self.wait);
        let reads = self.connection.run(wait).await;
        let events = self.membership.got_new(reads)?;
        lock(&self.unacknowledged).extend(ids(&events));
        Ok(events)
    }

    /// The server has lost the group, and the stream perhaps.
    async fn make_group_again(&mut self) -> Result<Vec<Event>, Error> {
        let info = self.connection.run(xinfo(&self.membership.key)).await;
        let group = self.connection.run(self.membership.make_again()).await;
        self.membership.remade(info, group)
    }
}

fn lock(unacknowledged: &Unacknowledged) -> MutexGuard<'_, BTreeSet<StreamId>> {
    // No panic can leave the set half written.
    let locked = unacknowledged.lock();
    locked.unwrap_or_else(PoisonError::into_inner)
}

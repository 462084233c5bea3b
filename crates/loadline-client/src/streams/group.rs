//! A consumer of a group.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::feed::{Feed, Source};
use super::{
    BATCH, Event, Reads, Start, StreamId, entries, none_if_missing, patience_of, wait_of, xinfo,
};
use crate::commands::{xack, xgroup_create, xread_group, xread_group_waiting};
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
    group: Group,
    patience: Duration,
}

/// Which entries, and for whom.
#[derive(Clone, Debug)]
struct Group {
    key: Bytes,
    group: Bytes,
    consumer: Bytes,
    /// What was read and is not acknowledged.
    unacknowledged: Arc<Mutex<BTreeSet<StreamId>>>,
}

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
        Self::start(client, key.into(), group.into(), consumer.into(), None).await
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
        let after = match start {
            Start::Oldest => "0".to_owned(),
            Start::Latest => "$".to_owned(),
            Start::After(id) => id.to_string(),
        };
        Self::start(
            client,
            key.into(),
            group.into(),
            consumer.into(),
            Some(after),
        )
        .await
    }

    async fn start(
        client: &Client,
        key: Bytes,
        group: Bytes,
        consumer: Bytes,
        create: Option<String>,
    ) -> Result<Self, Error> {
        let group = Group {
            key,
            group,
            consumer,
            unacknowledged: Arc::default(),
        };
        let connection = client.multiplexed().await?;
        if let Some(after) = &create {
            made(
                connection
                    .run(xgroup_create(&group.key, &group.group, after))
                    .await,
            )?;
        }
        let reading = Reading {
            connection: client.dedicated().await?,
            group: group.clone(),
            create: create.is_some(),
            own_after: Some(StreamId::MIN),
            last: StreamId::MIN,
            wait: wait_of(client.config()),
        };
        let patience = patience_of(client.config());
        Ok(Self {
            feed: Feed::start(reading, patience),
            connection,
            group,
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
            let acknowledged = xack(&self.group.key, &self.group.group, ids);
            match self.connection.run(acknowledged).await {
                Ok(_) => break,
                Err(error) if error.maybe_executed() && begun.elapsed() < self.patience => {}
                Err(error) => return Err(error),
            }
        }
        let mut unacknowledged = self.group.unacknowledged();
        for id in ids {
            unacknowledged.remove(id);
        }
        Ok(())
    }

    /// How many entries this reader has read, ahead of its caller too, that are not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.group.unacknowledged().len()
    }
}

impl Group {
    fn unacknowledged(&self) -> MutexGuard<'_, BTreeSet<StreamId>> {
        let locked = self.unacknowledged.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }
}

/// What reads ahead.
#[derive(Debug)]
struct Reading {
    connection: Dedicated,
    group: Group,
    /// Whether a group that is not there is made.
    create: bool,
    /// Where to go on among the entries that the consumer has already; `None` where all were looked at.
    own_after: Option<StreamId>,
    /// The last entry that was read.
    last: StreamId,
    wait: Duration,
}

impl Source for Reading {
    async fn read(&mut self) -> Result<Vec<Event>, Error> {
        let read = match self.own_after {
            Some(after) => self.read_own(after).await,
            None => self.read_new().await,
        };
        match read {
            Err(error) if self.create && error.is_server_code("NOGROUP") => {
                self.make_group_again().await
            }
            read => read,
        }
    }
}

impl Reading {
    async fn read_own(&mut self, after: StreamId) -> Result<Vec<Event>, Error> {
        // What is acknowledged while the question is on its way may still be in the answer.
        let known = self.group.unacknowledged().clone();
        let Group {
            key,
            group,
            consumer,
            ..
        } = &self.group;
        let read = xread_group::<()>(group, consumer, key, after, BATCH).read_as::<Reads>();
        let reads = self.connection.run(read).await?;
        self.own_after = None;
        let mut events = Vec::new();
        for (id, entry) in entries(reads) {
            self.own_after = Some(id);
            if !known.contains(&id) {
                self.took(id);
                events.push(entry.map_or(Event::Deleted(id), Event::Entry));
            }
        }
        Ok(events)
    }

    async fn read_new(&mut self) -> Result<Vec<Event>, Error> {
        // Until the answer is here, the server may have given entries to the consumer that nobody has seen.
        self.own_after = Some(StreamId::MIN);
        let Group {
            key,
            group,
            consumer,
            ..
        } = &self.group;
        let read = xread_group_waiting::<()>(group, consumer, key, ">", BATCH, self.wait);
        let reads = self.connection.run(read.read_as::<Reads>()).await?;
        self.own_after = None;
        let mut events = Vec::new();
        for (id, entry) in entries(reads) {
            self.took(id);
            events.extend(entry.map(Event::Entry));
        }
        Ok(events)
    }

    fn took(&mut self, id: StreamId) {
        self.group.unacknowledged().insert(id);
        self.last = self.last.max(id);
    }

    /// The server has lost the group, and the stream perhaps.
    async fn make_group_again(&mut self) -> Result<Vec<Event>, Error> {
        let Group { key, group, .. } = &self.group;
        let info = none_if_missing(self.connection.run(xinfo(key)).await)?;
        let after = self.last;
        made(self.connection.run(xgroup_create(key, group, after)).await)?;
        self.own_after = Some(StreamId::MIN);
        Ok(vec![Event::Rewound {
            after,
            latest: info.latest,
        }])
    }
}

/// Somebody may have been faster, or the answer to a first try may have been lost.
fn made(group: Result<(), Error>) -> Result<(), Error> {
    match group {
        Err(error) if error.is_server_code("BUSYGROUP") => Ok(()),
        made => made,
    }
}

//! A consumer of a group for one thread.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Connection;
use super::feed::Feed;
use crate::streams::membership::{Membership, ids, made};
use crate::streams::{Event, Start, StreamId, patience_of, wait_of, xinfo};
use crate::{Client, Error};

/// Reads a stream as one consumer of a group (`XREADGROUP`). See [`streams`](crate::streams).
///
/// An entry belongs to the consumer that got it until it is acknowledged. A reader begins with those that
/// its consumer has from before, and looks for them again whenever a connection broke with a read on its
/// way. What it has handed out itself it does not hand out again, so within its life each entry comes once;
/// after that, entries that were not acknowledged come once more to the next reader of this consumer.
///
/// It reads only while it is asked to, up to 100 entries at a time, which are its consumer's from then on;
/// so it needs one connection, which carries acknowledgements between the reads. Entries that are trimmed
/// before any consumer got them are missing without a word, since the place of a group is kept by the server;
/// [`StreamReader`](super::StreamReader) counts them.
///
/// ```no_run
/// use std::time::Duration;
///
/// use loadline_client::Client;
/// use loadline_client::blocking::GroupReader;
/// use loadline_client::streams::{Event, Start};
///
/// let client = Client::open("redis://localhost")?;
/// let mut reader = GroupReader::create(&client, "orders", "bakers", "ann", Start::Oldest)?;
/// loop {
///     match reader.next(Duration::from_secs(1))? {
///         Some(Event::Entry(entry)) => {
///             println!("{:?}", entry.get("item"));
///             reader.ack(&[entry.id])?;
///         }
///         Some(Event::Deleted(id)) => reader.ack(&[id])?,
///         Some(gap) => println!("the stream is not what it was: {gap:?}"),
///         None => println!("nothing new"),
///     }
/// }
/// # Ok::<(), loadline_client::Error>(())
/// ```
#[derive(Debug)]
pub struct GroupReader {
    feed: Feed,
    reading: Reading,
    patience: Duration,
}

/// What asks the server.
#[derive(Debug)]
struct Reading {
    connection: Connection,
    membership: Membership,
    /// What was read and is not acknowledged.
    unacknowledged: BTreeSet<StreamId>,
    /// The longest that the server waits for an entry.
    wait: Duration,
}

impl GroupReader {
    /// Connects as a consumer of a group that is there.
    ///
    /// # Errors
    /// Why there is no connection. That there is no such group is said by [`GroupReader::next`].
    pub fn open(
        client: &Client,
        key: impl Into<Bytes>,
        group: impl Into<Bytes>,
        consumer: impl Into<Bytes>,
    ) -> Result<Self, Error> {
        let membership = Membership::new(key.into(), group.into(), consumer.into(), false);
        Ok(Self::start(client, client.blocking()?, membership))
    }

    /// Connects, and makes the group with this start, and the stream if need be, where it is not there. A
    /// group that is lost later on is made again behind the last entry that this reader got.
    ///
    /// # Errors
    /// Why there is no connection or no group.
    pub fn create(
        client: &Client,
        key: impl Into<Bytes>,
        group: impl Into<Bytes>,
        consumer: impl Into<Bytes>,
        start: Start,
    ) -> Result<Self, Error> {
        let membership = Membership::new(key.into(), group.into(), consumer.into(), true);
        let mut connection = client.blocking()?;
        made(connection.run(membership.make(start)))?;
        Ok(Self::start(client, connection, membership))
    }

    fn start(client: &Client, connection: Connection, membership: Membership) -> Self {
        let patience = patience_of(client.config());
        Self {
            feed: Feed::new(patience),
            reading: Reading {
                connection,
                membership,
                unacknowledged: BTreeSet::new(),
                wait: wait_of(client.config()),
            },
            patience,
        }
    }

    /// The next entry of this consumer, or word of what became of the stream, if there is one within this
    /// time.
    ///
    /// # Errors
    /// Why nothing can be read: an outage that lasts longer than the response timeout, or an answer of the
    /// server, such as `NOGROUP`. The reader goes on, so it can be called again.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Event>, Error> {
        let Self { feed, reading, .. } = self;
        feed.next(timeout, |left| reading.read(left))
    }

    /// Tells the group that these entries are done. To say so twice does no harm, so it is said again when
    /// the connection broke before the answer.
    ///
    /// # Errors
    /// Why it may not have been heard.
    pub fn ack(&mut self, ids: &[StreamId]) -> Result<(), Error> {
        if ids.is_empty() {
            return Ok(());
        }
        let Reading {
            connection,
            membership,
            unacknowledged,
            ..
        } = &mut self.reading;
        let begun = Instant::now();
        loop {
            match connection.run(membership.ack(ids)) {
                Ok(_) => break,
                Err(error) if error.maybe_executed() && begun.elapsed() < self.patience => {}
                Err(error) => return Err(error),
            }
        }
        for id in ids {
            unacknowledged.remove(id);
        }
        Ok(())
    }

    /// How many entries this reader has read, ahead of its caller too, that are not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.reading.unacknowledged.len()
    }
}

impl Reading {
    /// One read, in which the server waits no longer than so long.
    fn read(&mut self, left: Option<Duration>) -> Result<Vec<Event>, Error> {
        let read = match self.membership.own_due() {
            Some(after) => {
                let reads = self.connection.run(self.membership.read_own(after));
                self.membership.got_own(reads, &self.unacknowledged)
            }
            None => {
                let wait = left.map_or(self.wait, |left| left.min(self.wait));
                let reads = self.connection.run(self.membership.wait_new(wait));
                self.membership.got_new(reads)
            }
        };
        let events = match read {
            Err(error) if self.membership.is_to_be_made(&error) => {
                let info = self.connection.run(xinfo(&self.membership.key));
                let group = self.connection.run(self.membership.make_again());
                self.membership.remade(info, group)?
            }
            read => read?,
        };
        self.unacknowledged.extend(ids(&events));
        Ok(events)
    }
}

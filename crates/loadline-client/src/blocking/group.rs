//! A consumer of a group, for one thread.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Connection;
use super::feed::Leftover;
use crate::streams::membership::{Membership, Pending, made};
use crate::streams::patience::Patience;
use crate::streams::steps::{acknowledge, read_group};
use crate::streams::text::text;
use crate::streams::{Event, Start, StreamId, wait_of, xinfo};
use crate::{Client, Error};

#[doc = text!(group_reader)]
///
/// It reads only during a call, up to 100 entries at a time, which belong to its consumer from then on. So it needs
/// one connection, which carries acknowledgements between the reads.
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
    leftover: Leftover,
    connection: Connection,
    membership: Membership,
    pending: Pending,
    /// The longest that the server waits for an entry.
    wait: Duration,
    patience: Patience,
}

impl GroupReader {
    #[doc = text!(open_group)]
    pub fn open(
        client: &Client,
        key: impl Into<Bytes>,
        group: impl Into<Bytes>,
        consumer: impl Into<Bytes>,
    ) -> Result<Self, Error> {
        let membership = Membership::new(key.into(), group.into(), consumer.into(), false);
        Ok(Self::start(client, client.blocking()?, membership))
    }

    #[doc = text!(create_group)]
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
        let patience = Patience::of(client.config());
        Self {
            leftover: Leftover::new(patience.clone()),
            connection,
            membership,
            pending: Pending::default(),
            wait: wait_of(client.config()),
            patience,
        }
    }

    /// Waits up to `timeout` for the next entry of this consumer, or for an event of the stream.
    ///
    #[doc = text!(next_errors)]
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Event>, Error> {
        let Self {
            leftover,
            connection,
            membership,
            pending,
            wait,
            ..
        } = self;
        leftover.next(timeout, |left| {
            let wait = left.unwrap_or(*wait).min(*wait);
            read_group!(connection, membership, pending, wait)
        })
    }

    #[doc = text!(ack)]
    pub fn ack(&mut self, ids: &[StreamId]) -> Result<(), Error> {
        let Self {
            connection,
            membership,
            pending,
            patience,
            ..
        } = self;
        let sleep = std::thread::sleep;
        acknowledge!(connection, membership, pending, patience, ids, sleep)
    }

    #[doc = text!(unacknowledged)]
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.pending.len()
    }
}

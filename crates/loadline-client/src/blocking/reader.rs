//! A reader of a stream for one thread.

use std::time::Duration;

use bytes::Bytes;

use super::Connection;
use super::feed::Feed;
use crate::streams::progress::Progress;
use crate::streams::{Event, Start, StreamId, patience_of, wait_of, xinfo};
use crate::{Client, Error};

/// Reads a stream from one place on (`XREAD`): each entry once, and in order, however often the connection
/// breaks. See [`streams`](crate::streams).
///
/// It reads only while it is asked to, a batch of up to 100 entries at a time. It needs a server that counts
/// the entries of a stream: Redis 7.0 or later.
///
/// ```no_run
/// use std::time::Duration;
///
/// use loadline_client::Client;
/// use loadline_client::blocking::StreamReader;
/// use loadline_client::streams::{Event, Start};
///
/// let client = Client::open("redis://localhost")?;
/// let mut reader = StreamReader::open(&client, "orders", Start::Latest)?;
/// loop {
///     match reader.next(Duration::from_secs(1))? {
///         Some(Event::Entry(entry)) => println!("{}: {:?}", entry.id, entry.get("item")),
///         Some(gap) => println!("entries were removed before they were read: {gap:?}"),
///         None => println!("nothing new"),
///     }
/// }
/// # Ok::<(), loadline_client::Error>(())
/// ```
#[derive(Debug)]
pub struct StreamReader {
    feed: Feed,
    reading: Reading,
    handed_out: StreamId,
}

/// What asks the server.
#[derive(Debug)]
struct Reading {
    connection: Connection,
    progress: Progress,
    /// The longest that the server waits for an entry.
    wait: Duration,
}

impl StreamReader {
    /// Connects, and finds the place to begin at. The stream need not be there yet.
    ///
    /// # Errors
    /// Why there is no connection; [`Error::Server`] where the key holds something else.
    pub fn open(client: &Client, key: impl Into<Bytes>, start: Start) -> Result<Self, Error> {
        let key = key.into();
        let mut connection = client.blocking()?;
        let info = connection.run(xinfo(&key));
        let progress = Progress::new(key, start, info)?;
        Ok(Self {
            feed: Feed::new(patience_of(client.config())),
            handed_out: progress.last(),
            reading: Reading {
                connection,
                progress,
                wait: wait_of(client.config()),
            },
        })
    }

    /// The next entry, or word of entries that are missing, if there is one within this time.
    ///
    /// # Errors
    /// Why nothing can be read: an outage that lasts longer than the response timeout, or an answer of the
    /// server. The reader goes on at the same place, so it can be called again.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Event>, Error> {
        let Self { feed, reading, .. } = self;
        let event = feed.next(timeout, |left| reading.read(left))?;
        if let Some(Event::Entry(entry)) = &event {
            self.handed_out = entry.id;
        }
        Ok(event)
    }

    /// The id of the last entry that was handed out, for [`Start::After`] another time; the place of the
    /// beginning before that.
    #[must_use]
    pub fn last_id(&self) -> StreamId {
        self.handed_out
    }
}

impl Reading {
    /// One read, in which the server waits no longer than so long.
    fn read(&mut self, left: Option<Duration>) -> Result<Vec<Event>, Error> {
        if self.progress.may_wait() {
            let wait = left.map_or(self.wait, |left| left.min(self.wait));
            let waited = self.connection.run(self.progress.wait(wait));
            return self.progress.waited(waited);
        }
        let looked = self.connection.run(self.progress.look());
        self.progress.looked(looked)
    }
}

//! A reader of a stream, for one thread.

use std::time::Duration;

use bytes::Bytes;

use super::Connection;
use super::feed::Leftover;
use crate::streams::patience::Patience;
use crate::streams::progress::Progress;
use crate::streams::steps::read_stream;
use crate::streams::text::text;
use crate::streams::{Event, Start, StreamId, wait_of, xinfo};
use crate::{Client, Error};

#[doc = text!(stream_reader)]
///
/// It reads only during a call, up to 100 entries at a time.
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
    leftover: Leftover,
    connection: Connection,
    progress: Progress,
    /// The longest that the server waits for an entry.
    wait: Duration,
    handed_out: StreamId,
}

impl StreamReader {
    #[doc = text!(open_stream)]
    pub fn open(client: &Client, key: impl Into<Bytes>, start: Start) -> Result<Self, Error> {
        let key = key.into();
        let mut connection = client.blocking()?;
        let info = connection.run(xinfo(&key));
        let progress = Progress::new(key, start, info)?;
        Ok(Self {
            leftover: Leftover::new(Patience::of(client.config())),
            handed_out: progress.last(),
            connection,
            progress,
            wait: wait_of(client.config()),
        })
    }

    /// Waits up to `timeout` for the next entry, or for the news that entries are missing.
    ///
    #[doc = text!(next_errors)]
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Event>, Error> {
        let Self {
            leftover,
            connection,
            progress,
            wait,
            ..
        } = self;
        let event = leftover.next(timeout, |left| {
            let wait = left.unwrap_or(*wait).min(*wait);
            read_stream!(connection, progress, wait)
        })?;
        if let Some(Event::Entry(entry)) = &event {
            self.handed_out = entry.id;
        }
        Ok(event)
    }

    #[doc = text!(last_id)]
    #[must_use]
    pub fn last_id(&self) -> StreamId {
        self.handed_out
    }
}

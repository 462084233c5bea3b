//! A reader of a whole stream.

use std::time::Duration;

use bytes::Bytes;

use super::feed::{Feed, Source};
use super::progress::Progress;
use super::{Event, Start, StreamId, patience_of, wait_of, xinfo};
use crate::multiplexed::Dedicated;
use crate::{Client, Error};

/// Reads a stream from one place on (`XREAD`): each entry once, and in order, however often the connection
/// breaks. See the [module](super).
///
/// It needs a server that counts the entries of a stream: Redis 7.0 or later.
#[derive(Debug)]
pub struct StreamReader {
    feed: Feed,
    handed_out: StreamId,
}

impl StreamReader {
    /// Connects, and finds the place to begin at. The stream need not be there yet.
    ///
    /// # Errors
    /// Why there is no connection; [`Error::Server`] where the key holds something else.
    pub async fn open(client: &Client, key: impl Into<Bytes>, start: Start) -> Result<Self, Error> {
        let key = key.into();
        let mut connection = client.dedicated().await?;
        let info = connection.run(xinfo(&key)).await;
        let progress = Progress::new(key, start, info)?;
        let config = client.config();
        let handed_out = progress.last();
        let reading = Reading {
            connection,
            progress,
            wait: wait_of(config),
        };
        Ok(Self {
            handed_out,
            feed: Feed::start(reading, patience_of(config)),
        })
    }

    /// The next entry, or word of entries that are missing; it waits for as long as it takes. A future that
    /// is dropped loses nothing.
    ///
    /// # Errors
    /// Why nothing can be read: an outage that lasts longer than the response timeout, or an answer of the
    /// server. The reader goes on at the same place, so it can be called again.
    pub async fn next(&mut self) -> Result<Event, Error> {
        let event = self.feed.next().await?;
        if let Event::Entry(entry) = &event {
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

/// What reads ahead.
#[derive(Debug)]
struct Reading {
    connection: Dedicated,
    progress: Progress,
    wait: Duration,
}

impl Source for Reading {
    async fn read(&mut self) -> Result<Vec<Event>, Error> {
        if self.progress.may_wait() {
            let wait = self.progress.wait(self.wait);
            let waited = self.connection.run(wait).await;
            return self.progress.waited(waited);
        }
        let look = self.progress.look();
        let looked = self.connection.run(look).await;
        self.progress.looked(looked)
    }
}

//! A reader of a stream, on tokio.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;

use super::feed::{ReadAhead, Source};
use super::patience::Patience;
use super::progress::Progress;
use super::steps::read_stream;
use super::text::text;
use super::{Event, Start, StreamId, wait_of, xinfo};
use crate::multiplexed::Dedicated;
use crate::{Client, Error};

#[doc = text!(stream_reader)]
#[derive(Debug)]
pub struct StreamReader {
    ahead: ReadAhead,
    handed_out: StreamId,
}

impl StreamReader {
    #[doc = text!(open_stream)]
    pub async fn open(client: &Client, key: impl Into<Bytes>, start: Start) -> Result<Self, Error> {
        let key = key.into();
        let mut connection = client.dedicated().await?;
        let info = connection.run(xinfo(&key)).await;
        let progress = Progress::new(key, start, info)?;
        let handed_out = progress.last();
        let source = StreamSource {
            connection,
            progress,
            wait: wait_of(client.config()),
        };
        Ok(Self {
            handed_out,
            ahead: ReadAhead::start(source, Patience::of(client.config())),
        })
    }

    /// Waits for the next entry, or for the news that entries are missing. A future that is dropped loses
    /// nothing.
    ///
    #[doc = text!(next_errors)]
    pub async fn next(&mut self) -> Result<Event, Error> {
        let event = self.ahead.next().await?;
        self.note(&event);
        Ok(event)
    }

    fn note(&mut self, event: &Event) {
        if let Event::Entry(entry) = event {
            self.handed_out = entry.id;
        }
    }

    #[doc = text!(last_id)]
    #[must_use]
    pub fn last_id(&self) -> StreamId {
        self.handed_out
    }
}

/// As [`StreamReader::next`]. It goes on after an error, and ends with the runtime of the reader.
impl Stream for StreamReader {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let event = ready!(self.ahead.poll_next(cx));
        if let Some(Ok(event)) = &event {
            self.note(event);
        }
        Poll::Ready(event)
    }
}

/// Reads ahead.
#[derive(Debug)]
struct StreamSource {
    connection: Dedicated,
    progress: Progress,
    wait: Duration,
}

impl Source for StreamSource {
    async fn read(&mut self) -> Result<Vec<Event>, Error> {
        read_stream!(self.connection, self.progress, self.wait, await)
    }
}

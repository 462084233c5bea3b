//! A reader of a whole stream.

use std::time::Duration;

use bytes::Bytes;

use super::feed::{Feed, Source};
use super::place::Place;
use super::{
    BATCH, Event, Reads, Start, StreamId, entries, none_if_missing, patience_of, wait_of, xinfo,
};
use crate::commands::{xread, xread_waiting};
use crate::multiplexed::Dedicated;
use crate::{Client, Error, atomic};

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
        let info = none_if_missing(connection.run(xinfo(&key)).await)?;
        let place = match start {
            Start::Oldest => Place::oldest(&info),
            Start::Latest => Place::latest(&info),
            Start::After(id) => Place::after(id, &info),
        };
        let config = client.config();
        let reading = Reading {
            connection,
            key,
            place,
            caught_up: false,
            wait: wait_of(config),
        };
        Ok(Self {
            handed_out: place.last,
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
    key: Bytes,
    place: Place,
    /// Whether nothing was left at the last look.
    caught_up: bool,
    wait: Duration,
}

impl Source for Reading {
    async fn read(&mut self) -> Result<Vec<Event>, Error> {
        // After a wait in which anything went wrong comes a look.
        if std::mem::take(&mut self.caught_up) {
            self.wait().await
        } else {
            self.look().await
        }
    }
}

impl Reading {
    /// Reads what is there, and sees at the same moment whether anything was removed before.
    async fn look(&mut self) -> Result<Vec<Event>, Error> {
        let read = xread::<()>(&self.key, self.place.last, BATCH).read_as::<Reads>();
        let looked = self
            .connection
            .run(atomic((xinfo(&self.key), read)))
            .await?;
        let Some((info, reads)) = looked else {
            // Only a watched key that changed could be the reason, and none is watched.
            return Ok(Vec::new());
        };
        let (info, reads) = (none_if_missing(info)?, reads?);
        let mut events = Vec::from_iter(self.place.judge(&info));
        let read = taken(reads, &mut self.place);
        self.caught_up = read.is_empty();
        events.extend(read);
        Ok(events)
    }

    /// Waits for an entry. What comes is good if nothing is left behind it, since the numbers say then
    /// whether it was the next one; if not, a look tells more.
    async fn wait(&mut self) -> Result<Vec<Event>, Error> {
        let read = xread_waiting::<()>(&self.key, self.place.last, BATCH, self.wait);
        let waited = (read.read_as::<Reads>(), xinfo(&self.key));
        let (reads, info) = self.connection.run(waited).await;
        let (reads, info) = (reads?, none_if_missing(info)?);
        let mut place = self.place;
        let read = taken(reads, &mut place);
        if info.latest != place.last {
            return Ok(Vec::new());
        }
        let gap = place.judge(&info).map(|gap| gap.behind(self.place.last));
        self.place = place;
        self.caught_up = true;
        Ok(gap.into_iter().chain(read).collect())
    }
}

/// The entries of a read, after which the place is behind them.
fn taken(reads: Reads, place: &mut Place) -> Vec<Event> {
    let entries = entries(reads).inspect(|(id, _)| place.read(*id));
    entries
        .filter_map(|(_, entry)| entry.map(Event::Entry))
        .collect()
}

//! The state of a reader of a stream: its next question, and the meaning of the answers. No socket, no clock.

use std::time::Duration;

use bytes::Bytes;

use super::position::{Info, StreamPosition};
use super::{BATCH, Event, Reads, Start, StreamId, entries, none_if_missing, xinfo};
use crate::commands::{xread, xread_waiting};
use crate::{Error, Request, atomic};

/// The answers to a look. Nil only if a watched key has changed, and none is watched.
type Looked = Result<Option<(Result<Info, Error>, Result<Reads, Error>)>, Error>;
/// The answers to a wait.
type Waited = (Result<Reads, Error>, Result<Info, Error>);

/// The position of a reader in a stream, and whether it has caught up.
#[derive(Debug)]
pub(crate) struct Progress {
    key: Bytes,
    place: StreamPosition,
    /// Whether nothing was left at the last look.
    caught_up: bool,
}

impl Progress {
    /// The start position in the current stream, whose state `xinfo` has.
    ///
    /// # Errors
    /// The error of `xinfo`.
    pub(crate) fn new(key: Bytes, start: Start, info: Result<Info, Error>) -> Result<Self, Error> {
        let info = none_if_missing(info)?;
        let place = match start {
            Start::Oldest => StreamPosition::oldest(&info),
            Start::Latest => StreamPosition::latest(&info),
            Start::After(id) => StreamPosition::after(id, &info),
        };
        Ok(Self {
            key,
            place,
            caught_up: false,
        })
    }

    /// The last entry that was read.
    pub(crate) fn last(&self) -> StreamId {
        self.place.last
    }

    /// Whether the next question is a wait. A wait that failed is followed by a look.
    pub(crate) fn may_wait(&mut self) -> bool {
        std::mem::take(&mut self.caught_up)
    }

    /// Reads the next entries together with the state of the stream, which shows whether entries were removed.
    pub(crate) fn look(&self) -> impl Request<Output = Looked> + use<> {
        let key = self.key.clone();
        let read = xread::<()>(key.clone(), self.place.last)
            .count(BATCH)
            .read_as::<Reads>();
        atomic((xinfo(key), read))
    }

    /// The events of a look.
    ///
    /// # Errors
    /// The error of the look; the position is unchanged.
    pub(crate) fn looked(&mut self, looked: Looked) -> Result<Vec<Event>, Error> {
        let Some((info, reads)) = looked? else {
            return Ok(Vec::new());
        };
        let (info, reads) = (none_if_missing(info)?, reads?);
        let mut events = Vec::from_iter(self.place.judge(&info));
        let read = taken(reads, &mut self.place);
        self.caught_up = read.is_empty();
        events.extend(read);
        Ok(events)
    }

    /// Waits up to `wait` for an entry.
    pub(crate) fn wait(&self, wait: Duration) -> impl Request<Output = Waited> + use<> {
        let key = self.key.clone();
        let read = xread_waiting::<()>(key.clone(), self.place.last, wait).count(BATCH);
        (read.read_as::<Reads>(), xinfo(key))
    }

    /// The events of a wait. They count only if nothing follows them in the stream, since the counts then show
    /// whether entries were removed before them; otherwise a look follows.
    ///
    /// # Errors
    /// The error of the wait; the position is unchanged.
    pub(crate) fn waited(&mut self, (reads, info): Waited) -> Result<Vec<Event>, Error> {
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

/// The entries of a read, which become the position.
fn taken(reads: Reads, place: &mut StreamPosition) -> Vec<Event> {
    let entries = entries(reads).inspect(|(id, _)| place.read(*id));
    entries
        .filter_map(|(_, entry)| entry.map(Event::Entry))
        .collect()
}
